# cmake --install: headers, both forms of the library, pkg-config and CMake package files.
# SPDX-License-Identifier: MIT
include(CMakePackageConfigHelpers)

install(FILES "${PROJECT_SOURCE_DIR}/include/qsf.h" "${PROJECT_SOURCE_DIR}/include/qsf_convert.h"
    "${PROJECT_SOURCE_DIR}/include/qsf_schedule.h"
    "${PROJECT_SOURCE_DIR}/bindings/qsf_flat.h" "${PROJECT_SOURCE_DIR}/bindings/qsf_flat_names.h"
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES "${PROJECT_SOURCE_DIR}/core/base/platform.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    RENAME qsf_platform.h)

foreach(form IN ITEMS qsf qsf_shared qsf_flat qsf_flat_shared qsf_convert qsf_convert_shared)
    if(TARGET ${form})
        install(TARGETS ${form}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
endforeach()

if(WIN32)
    string(APPEND QSF_PC_PRIVATE " -lsynchronization")
else()
    string(APPEND QSF_PC_PRIVATE " -lm -pthread")
endif()

# Without a shared library every program links the static one, and needs what that needs.
if(TARGET qsf_shared)
    set(QSF_PC_LIBS "-lqsf\nLibs.private:${QSF_PC_PRIVATE}")
else()
    set(QSF_PC_LIBS "-lqsf${QSF_PC_PRIVATE}")
endif()

# Users of libqsf_convert also have libqsf; what a static link needs in addition to both is in
# qsf.pc.
set(QSF_CONVERT_PC_LIBS "-lqsf_convert")
if(qsf_yyjson STREQUAL "system")
    if(TARGET qsf_shared)
        string(APPEND QSF_CONVERT_PC_LIBS "\nLibs.private: -lyyjson")
    else()
        string(APPEND QSF_CONVERT_PC_LIBS " -lyyjson")
    endif()
endif()

# libqsf_flat's shared form has libqsf inside; the static one needs it.
if(TARGET qsf_shared)
    set(QSF_FLAT_PC_REQUIRES "Requires.private: qsf")
else()
    set(QSF_FLAT_PC_REQUIRES "Requires: qsf")
endif()

# The .pc files and qsf-config.cmake find everything relative to their own location, so that an
# installation can be moved. Only a folder given as an absolute path stays that path; and if the
# libraries' folder is absolute, the path from there to the headers is not known before the prefix
# is: at installation.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(QSF_PC_PREFIX "@QSF_INSTALL_PREFIX@")
    set(QSF_PC_LIBDIR "\${pcfiledir}/..")
    set(QSF_CMAKE_PREFIX "@QSF_INSTALL_PREFIX@")
else()
    file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(QSF_CMAKE_PREFIX "\${qsf_here}/../${up}")      # cmake/qsf is one folder more
    set(QSF_PC_PREFIX "\${pcfiledir}/${up}")
    set(QSF_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(QSF_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
    set(QSF_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/qsf.pc.in qsf.pc.half @ONLY)
configure_file(cmake/qsf_flat.pc.in qsf_flat.pc.half @ONLY)
configure_file(cmake/qsf_convert.pc.in qsf_convert.pc.half @ONLY)

# The libraries' names and not the builder's paths, so that the package can be moved to
# another machine.
set(QSF_CMAKE_STATIC_LIBS "")
foreach(name IN ITEMS lz4 zstd uring)
    if(qsf_${name} STREQUAL "system")
        list(APPEND QSF_CMAKE_STATIC_LIBS ${name})
    endif()
endforeach()
set(QSF_CMAKE_JSON_LIBS "")
if(qsf_yyjson STREQUAL "system")
    set(QSF_CMAKE_JSON_LIBS yyjson)
endif()
if(TARGET qsf_shared)
    set(QSF_CMAKE_SHARED TRUE)
else()
    set(QSF_CMAKE_SHARED FALSE)
endif()
configure_file(cmake/qsf-config.cmake.in qsf-config.cmake.half @ONLY)
write_basic_package_version_file(qsf-config-version.cmake COMPATIBILITY SameMinorVersion)
install(CODE "
    set(QSF_INSTALL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
    set(from \"${CMAKE_CURRENT_BINARY_DIR}\")
    foreach(name IN ITEMS qsf.pc qsf_flat.pc qsf_convert.pc qsf-config.cmake)
        configure_file(\"\${from}/\${name}.half\" \"\${from}/\${name}\" @ONLY)
    endforeach()" COMPONENT package)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/qsf.pc" "${CMAKE_CURRENT_BINARY_DIR}/qsf_flat.pc"
    "${CMAKE_CURRENT_BINARY_DIR}/qsf_convert.pc"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT package)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/qsf-config.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/qsf-config-version.cmake"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qsf COMPONENT package)
