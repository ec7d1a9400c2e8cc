# WebAssembly: an installed wasi-sdk or emsdk if WASI_SDK_PATH or EMSDK names one, else the one
# that tools/wasm-toolchain.sh fetched.
# SPDX-License-Identifier: MIT
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/..")
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)

# QSF_WASM_SDK is kept in the cache and handed on to CMake's trial builds, which do not see
# this environment.
if(NOT QSF_WASM_SDK)
    if(DEFINED ENV{WASI_SDK_PATH})
        set(sdk "$ENV{WASI_SDK_PATH}")
    elseif(DEFINED ENV{EMSDK})
        set(sdk "$ENV{EMSDK}")
    else()
        include("${CMAKE_CURRENT_LIST_DIR}/../CacheFolder.cmake")
        set(sdk "${qsf_cache}/wasm")
    endif()
    set(QSF_WASM_SDK "${sdk}" CACHE PATH "wasi-sdk, emsdk, or the folder that tools/wasm-toolchain.sh prints")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QSF_WASM_SDK)

# QSF_WASM_LIBRARIES: memory and maths for the engine's modules, which are linked without anything
# that speaks to a system.
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(bin "${QSF_WASM_SDK}/bin")
if(EXISTS "${QSF_WASM_SDK}/upstream/bin/clang")             # emsdk: no WASI here
    set(bin "${QSF_WASM_SDK}/upstream/bin")
    set(QSF_WASM_ENGINE_ONLY ON)
    set(CMAKE_C_COMPILER_TARGET wasm32-unknown-emscripten)
    set(CMAKE_SYSROOT "${QSF_WASM_SDK}/upstream/emscripten/cache/sysroot")
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    set(library "${CMAKE_SYSROOT}/lib/wasm32-emscripten")
    set(QSF_WASM_LIBRARIES "${library}/libc.a" "${library}/libclang_rt.builtins.a")
elseif(EXISTS "${QSF_WASM_SDK}/share/wasi-sysroot")         # wasi-sdk
    set(CMAKE_C_COMPILER_TARGET wasm32-wasip1)
    set(CMAKE_SYSROOT "${QSF_WASM_SDK}/share/wasi-sysroot")
    file(GLOB QSF_WASM_LIBRARIES "${CMAKE_SYSROOT}/lib/wasm32-wasip1/libc.a"
        "${QSF_WASM_SDK}/lib/clang/*/lib/wasm32-unknown-wasip1/libclang_rt.builtins.a"
        "${QSF_WASM_SDK}/lib/clang/*/lib/wasip1/libclang_rt.builtins-wasm32.a")
elseif(EXISTS "${QSF_WASM_SDK}/version")
    unset(CMAKE_C_COMPILER_TARGET)                          # its clang is for WebAssembly only
    file(GLOB QSF_WASM_LIBRARIES "${QSF_WASM_SDK}/lib/*.a")
    # WASI's headers are for 32-bit addresses: declarations, as of any system with 64 bits
    file(GLOB QSF_WASM64_LIBRARIES "${QSF_WASM_SDK}/lib64/*.a")
    set(QSF_WASM64_FLAGS --target=wasm64-wasi
        "SHELL:-isystem ${QSF_WASM_SDK}/zig/lib/libc/include/riscv64-linux-musl"
        "SHELL:-isystem ${QSF_WASM_SDK}/zig/lib/libc/include/generic-musl")
else()
    message(FATAL_ERROR "no compiler for WebAssembly in \"${QSF_WASM_SDK}\": "
        "run tools/wasm-toolchain.sh, or set WASI_SDK_PATH or EMSDK")
endif()
set(CMAKE_C_COMPILER "${bin}/clang")
set(CMAKE_AR "${bin}/llvm-ar")
set(CMAKE_RANLIB "${bin}/llvm-ranlib")
set(QSF_WASM_LD "${bin}/wasm-ld")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

find_program(QSF_NODE NAMES node nodejs)
if(QSF_NODE)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${QSF_NODE}" --no-warnings
        "${CMAKE_CURRENT_LIST_DIR}/../../tests/wasm/wasi.mjs")
endif()
