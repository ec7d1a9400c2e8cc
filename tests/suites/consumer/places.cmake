# qsf-config.cmake in FOLDER/cmake/qsf finds the libraries in FOLDER and the headers in INCLUDES.
# SPDX-License-Identifier: MIT
function(add_library)                       # no targets in a script: only the paths are looked at
endfunction()
function(target_link_libraries)
endfunction()
function(find_package)
endfunction()
set(Threads_FOUND TRUE)
function(set_target_properties target)
    cmake_parse_arguments(PARSE_ARGV 2 is "" "IMPORTED_LOCATION;INTERFACE_INCLUDE_DIRECTORIES" "")
    set(library "libqsf.a")
    if(target STREQUAL "qsf::convert_static")
        set(library "libqsf_convert.a")
    elseif(target STREQUAL "qsf::flat_static")
        set(library "libqsf_flat.a")
    endif()
    if(NOT is_IMPORTED_LOCATION STREQUAL "${FOLDER}/${library}" OR
       NOT is_INTERFACE_INCLUDE_DIRECTORIES STREQUAL INCLUDES)
        message(FATAL_ERROR "${target}: ${is_IMPORTED_LOCATION}, ${is_INTERFACE_INCLUDE_DIRECTORIES}")
    endif()
endfunction()
include("${FOLDER}/cmake/qsf/qsf-config.cmake")
