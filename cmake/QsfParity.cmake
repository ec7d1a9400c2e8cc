# What qsf-parity is made of. Of files named _posix, _windows and _none, and of sign_, the one that
# fits; a static program cannot load libraries.
# SPDX-License-Identifier: MIT
file(GLOB QSF_PARITY_SOURCES CONFIGURE_DEPENDS parity/*.c)
list(FILTER QSF_PARITY_SOURCES EXCLUDE REGEX "/(library|sign)_[a-z]+\\.c$")
if(WIN32)
    list(APPEND QSF_PARITY_SOURCES parity/library_windows.c)
elseif(QSF_STATIC)
    list(APPEND QSF_PARITY_SOURCES parity/library_none.c)
else()
    list(APPEND QSF_PARITY_SOURCES parity/library_posix.c)
endif()
set(sign none)
if(qsf_sodium)
    set(sign sodium)
elseif(qsf_openssl)
    set(sign openssl)
endif()
list(APPEND QSF_PARITY_SOURCES parity/sign_${sign}.c)

# The commit is looked up in every build, and compiled in where it is another one.
set(commit "${PROJECT_BINARY_DIR}/commit")
add_custom_target(qsf_commit BYPRODUCTS "${commit}/parity_commit.h" COMMAND ${CMAKE_COMMAND}
    -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${commit}/parity_commit.h
    -P "${PROJECT_SOURCE_DIR}/cmake/Commit.cmake" VERBATIM)

add_library(qsf_parity_parts STATIC ${QSF_PARITY_SOURCES})
add_dependencies(qsf_parity_parts qsf_commit)
qsf_flags(qsf_parity_parts)
qsf_use_json(qsf_parity_parts)
target_compile_definitions(qsf_parity_parts PRIVATE _GNU_SOURCE _DARWIN_C_SOURCE)
target_include_directories(qsf_parity_parts PUBLIC "${PROJECT_SOURCE_DIR}/parity"
    "${PROJECT_SOURCE_DIR}/core")
target_include_directories(qsf_parity_parts PRIVATE "${commit}")
# yyjson's objects are in the converter's library
target_link_libraries(qsf_parity_parts PUBLIC qsf_hub qsf_convert qsf)
if(NOT WIN32 AND NOT QSF_STATIC)
    target_link_libraries(qsf_parity_parts PRIVATE ${CMAKE_DL_LIBS})
endif()
if(NOT WIN32)
    target_link_libraries(qsf_parity_parts PRIVATE m)
endif()
if(NOT sign STREQUAL "none")
    string(TOUPPER ${sign} upper)
    target_include_directories(qsf_parity_parts SYSTEM PRIVATE "${QSF_${upper}_INCLUDE}")
    target_link_libraries(qsf_parity_parts PRIVATE "${QSF_${upper}_LIBRARY}")
endif()
