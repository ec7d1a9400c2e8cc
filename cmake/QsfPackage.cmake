# CPack: the Debian package "qsf", which has the programs and their pages.
# SPDX-License-Identifier: MIT
#
# tools/release.sh calls it for static builds, whose package needs no other.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME qsf)
set(CPACK_PACKAGE_VENDOR libqsf)
set(CPACK_PACKAGE_CONTACT "$ENV{QSF_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runs language models within a memory budget")
set(CPACK_PACKAGE_DESCRIPTION
    "Runs language models from QSF and GGUF files and from Hugging Face's hub, on\n"
    "processors and GPUs, also if they are larger than the memory. The package has\n"
    "the chat qsf-run, the server qsf-serve, the converter qsf-convert, and programs\n"
    "that measure speed and compare results.")
string(REPLACE ";" "" CPACK_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL programs)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
if(NOT QSF_STATIC)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/DebianFiles.cmake")
set(CPACK_QSF_SOURCE "${PROJECT_SOURCE_DIR}")
set(CPACK_QSF_STATIC ${QSF_STATIC})
include(CPack)
