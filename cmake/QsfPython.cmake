# What the Python package has of native code: one library and one program, each with everything
# that it needs. bindings/python/CMakeLists.txt puts them into a wheel.
# SPDX-License-Identifier: MIT
#
# Objects of a static build are not for a library. The aarch64 variant tests the package: its
# compiler makes position-independent objects anyway.
if(WASI OR (QSF_STATIC AND NOT WIN32 AND NOT QSF_TEST_VARIANT STREQUAL "aarch64"))
    return()
endif()

# ---- the flat layer, the converter, and models by name ----
set(files "${PROJECT_SOURCE_DIR}/bindings/python/native.c"
    "${PROJECT_SOURCE_DIR}/bindings/python/pieces.c" ${QSF_JSON_OBJECTS} ${QSF_BUNDLED_OBJECTS})
if(MSVC)
    add_library(qsf_python_shared SHARED EXCLUDE_FROM_ALL ${files} ${QSF_FLAT_SOURCES} ${QSF_SOURCES}
        ${QSF_CONVERT_SOURCES})
    target_compile_definitions(qsf_python_shared PRIVATE QSF_BUILD QSF_SHARED QSF_CONVERT_BUILD
        QSF_CONVERT_SHARED)
    qsf_use_compression(qsf_python_shared)
    qsf_use_json(qsf_python_shared)
else()
    add_library(qsf_python_shared SHARED EXCLUDE_FROM_ALL ${files} $<TARGET_OBJECTS:qsf_flat_objects>
        $<TARGET_OBJECTS:qsf_objects> $<TARGET_OBJECTS:qsf_convert_objects>)
    if(WIN32)       # cffi finds functions by name: their objects need no marks
        target_link_options(qsf_python_shared PRIVATE -Wl,--export-all-symbols -s)
    elseif(QSF_STATIC)
        set_target_properties(qsf_python_shared PROPERTIES LINK_OPTIONS "")     # -static is for programs
        target_link_options(qsf_python_shared PRIVATE -Wl,-Bsymbolic -s)
    endif()
endif()
qsf_settings(qsf_python_shared)
qsf_library(qsf_python_shared)
qsf_convert_library(qsf_python_shared)
target_include_directories(qsf_python_shared PRIVATE "${PROJECT_SOURCE_DIR}/bindings"
    "${PROJECT_SOURCE_DIR}/bindings/python")
target_link_libraries(qsf_python_shared PRIVATE qsf_hub)
set_target_properties(qsf_python_shared PROPERTIES OUTPUT_NAME qsf_python)

# ---- the programs, whose mains get names of their own ----
add_executable(qsf_python_programs EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/bindings/python/programs.c")
foreach(program IN ITEMS qsf qsf-run qsf-convert qsf-bench qsf-serve)
    if(program STREQUAL "qsf-serve" AND NOT QSF_SERVER)
        continue()
    endif()
    string(REPLACE "-" "_" name "${program}")
    add_library(${name}_main OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cli/${program}.c")
    qsf_settings(${name}_main)
    target_compile_definitions(${name}_main PRIVATE main=${name}_main)
    target_link_libraries(${name}_main PRIVATE qsf_tools)
    if(program STREQUAL "qsf-serve")
        target_link_libraries(${name}_main PRIVATE qsf_server)
    endif()
    target_sources(qsf_python_programs PRIVATE $<TARGET_OBJECTS:${name}_main>)
endforeach()
qsf_settings(qsf_python_programs)
if(QSF_SERVER)
    target_compile_definitions(qsf_python_programs PRIVATE QSF_WITH_SERVER)
    target_link_libraries(qsf_python_programs PRIVATE qsf_server)
endif()
target_link_libraries(qsf_python_programs PRIVATE qsf_tools)
set_target_properties(qsf_python_programs PROPERTIES OUTPUT_NAME qsf-python)
if(WIN32 AND NOT MSVC)      # whose programs keep their symbols otherwise
    target_link_options(qsf_python_programs PRIVATE -s)
endif()

# Tests run them: the library also with sanitizers.
if(BUILD_TESTING AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|asan|aarch64|mingw)$"))
    set_target_properties(qsf_python_shared PROPERTIES EXCLUDE_FROM_ALL OFF)
endif()
if(BUILD_TESTING AND (NOT QSF_TEST_VARIANT OR QSF_TEST_VARIANT MATCHES "^(release|aarch64|mingw)$"))
    set_target_properties(qsf_python_programs PROPERTIES EXCLUDE_FROM_ALL OFF)
endif()
