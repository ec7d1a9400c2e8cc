# What a builder may choose, and the compiler flags that follow from it.
# SPDX-License-Identifier: MIT

option(QSF_STATIC "Programs without any shared library" OFF)
option(QSF_WERROR "Warnings are errors" OFF)
option(QSF_LTO "Optimise across files when linking" OFF)
option(QSF_FUZZ "Build tests/fuzz with libFuzzer (clang)" OFF)
set(QSF_SANITIZE "" CACHE STRING "address, undefined or thread, or several separated by commas")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
string(REPLACE "-O2" "-O3" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(WASI)            # no threads there
    add_library(Threads::Threads INTERFACE IMPORTED)
    set(QSF_STATIC OFF)
elseif(NOT WIN32)   # there the system's own threads are used
    find_package(Threads REQUIRED)
endif()

# For every compile and link of the build, third-party sources too.
if(QSF_SANITIZE)
    add_compile_options(-fsanitize=${QSF_SANITIZE} -fno-omit-frame-pointer -DQSF_SANITIZED=1)
    add_link_options(-fsanitize=${QSF_SANITIZE})
    if(QSF_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
    if(QSF_SANITIZE MATCHES "address")
        add_compile_options(-O1)        # with -O3 GCC takes twenty times as long for an instrumented kernel
    endif()
endif()
if(QSF_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "QSF_FUZZ needs clang: cmake --preset fuzz, or -DCMAKE_C_COMPILER=clang")
    endif()
    # with -O3 Clang takes minutes for an instrumented file
    add_compile_options(-fsanitize=fuzzer-no-link -O1)
endif()
if(QSF_STATIC AND NOT APPLE)        # where every program links the system's library, which is shared
    add_link_options(-static)
endif()
if(QSF_LTO)
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
endif()

# AMX: the compiler's header needs an assembler that knows it.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    include(CheckCSourceCompiles)
    check_c_source_compiles("#include <immintrin.h>
        __attribute__((target(\"amx-tile,amx-int8\"))) int main(void)
        { _tile_zero(0); _tile_dpbssd(0, 1, 2); _tile_release(); return 0; }" QSF_HAS_AMX)
    if(NOT QSF_HAS_AMX)
        add_compile_definitions(QSF_NO_AMX)
    endif()
endif()

# Flags and include folders of our own code.
function(qsf_settings target)
    target_include_directories(${target} PRIVATE
        "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/core" "${PROJECT_SOURCE_DIR}/kernels"
        "${PROJECT_SOURCE_DIR}/convert" "${PROJECT_SOURCE_DIR}/cli"
        "${PROJECT_SOURCE_DIR}/platform/${QSF_PLATFORM}")
    qsf_flags(${target})
endfunction()

# Flags of our own code.
function(qsf_flags target)
    if(MSVC)
        target_compile_options(${target} PRIVATE /W4)
        return()
    endif()
    # No -ffast-math: NaN and order matter. The two -fno options do not change results unless
    # errno or floating-point traps are used, and contraction is off so that every machine computes
    # the same.
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -fno-math-errno -fno-trapping-math
        -ffp-contract=off)
    if(QSF_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(WASI)
        target_compile_options(${target} PRIVATE ${QSF_WASM_FEATURES} -D_GNU_SOURCE -D_WASI_EMULATED_SIGNAL
            -D_WASI_EMULATED_GETPID)
        target_link_options(${target} PRIVATE -lwasi-emulated-signal -lwasi-emulated-getpid
            -Wl,-z,stack-size=1048576 -s)
    endif()
    if(MINGW)
        target_compile_definitions(${target} PRIVATE __USE_MINGW_ANSI_STDIO=1)
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
            # GCC keeps the stack at 16 bytes there, yet spills AVX registers with aligned moves
            # (GCC bug 54412).
            target_compile_options(${target} PRIVATE -Wa,-muse-unaligned-vector-move)
        endif()
    endif()
endfunction()
