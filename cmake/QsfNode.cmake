# The target node_addon: libqsf with the flat layer as an addon of Node.js, for packages @qsf/....
# SPDX-License-Identifier: MIT
#
# It needs node_api.h, which Node.js installs and tools/deps.sh fetches, but nothing else of
# Node.js: the process that loads the addon has its functions. The name qsf.node is the packages'.
# Objects of a static build are not for a library. The aarch64 variant tests the addon: its
# compiler makes position-independent objects anyway.
if(WASI OR (QSF_STATIC AND NOT WIN32 AND NOT QSF_TEST_VARIANT STREQUAL "aarch64"))
    return()
endif()
find_path(QSF_NODE_INCLUDE node_api.h PATHS "${QSF_DEPS_DIR}/node-api" /usr/include/node
    /usr/local/include/node NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH DOC "Where node_api.h is")
mark_as_advanced(QSF_NODE_INCLUDE)
if(NOT QSF_NODE_INCLUDE)
    message(STATUS "node_api.h: not found, no addon for Node.js (tools/deps.sh fetches it)")
    return()
endif()
file(GLOB QSF_NODE_SOURCES CONFIGURE_DEPENDS bindings/node/*.c)
add_library(node_addon MODULE EXCLUDE_FROM_ALL ${QSF_NODE_SOURCES} $<TARGET_OBJECTS:qsf_flat_objects>
    $<TARGET_OBJECTS:qsf_objects> ${QSF_BUNDLED_OBJECTS})
qsf_settings(node_addon)
qsf_library(node_addon)
target_include_directories(node_addon PRIVATE "${PROJECT_SOURCE_DIR}/bindings")
target_include_directories(node_addon SYSTEM PRIVATE "${QSF_NODE_INCLUDE}")
if(QSF_TEST_VARIANT MATCHES "^(release|asan|aarch64|mingw)$")
    set_target_properties(node_addon PROPERTIES EXCLUDE_FROM_ALL OFF)
endif()
set_target_properties(node_addon PROPERTIES PREFIX "" OUTPUT_NAME qsf SUFFIX .node)
if(UNIX AND NOT APPLE)
    if(QSF_STATIC)          # -static is for programs
        set_target_properties(node_addon PROPERTIES LINK_OPTIONS "")
    endif()
    target_link_options(node_addon PRIVATE
        "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/node_addon.map" -Wl,--gc-sections)
endif()
