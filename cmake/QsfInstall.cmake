# cmake --install: headers, both forms of the library, pkg-config and CMake package files.
# SPDX-License-Identifier: MIT
include(CMakePackageConfigHelpers)

install(FILES "${PROJECT_SOURCE_DIR}/include/qsf.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES "${PROJECT_SOURCE_DIR}/core/platform.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} RENAME qsf_platform.h)

foreach(form IN ITEMS qsf qsf_shared)
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

configure_file(cmake/qsf.pc.in qsf.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/qsf.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The libraries' names and not the builder's paths, so that the package can be moved to another machine.
set(QSF_CMAKE_STATIC_LIBS "")
foreach(name IN ITEMS lz4 zstd uring)
    if(qsf_${name} STREQUAL "system")
        list(APPEND QSF_CMAKE_STATIC_LIBS ${name})
    endif()
endforeach()
if(TARGET qsf_shared)
    get_target_property(qsf_name qsf_shared OUTPUT_NAME)
    set(QSF_CMAKE_SHARED TRUE)
else()
    set(QSF_CMAKE_SHARED FALSE)
endif()
configure_package_config_file(cmake/qsf-config.cmake.in qsf-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qsf
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(qsf-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/qsf-config.cmake" "${CMAKE_CURRENT_BINARY_DIR}/qsf-config-version.cmake"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qsf)
