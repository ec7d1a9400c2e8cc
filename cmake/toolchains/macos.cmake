# macOS from another system, to compile and link only: Zig's wheel, which tools/wasm-toolchain.sh
# fetches, has stubs of Apple's headers and system library.
# SPDX-License-Identifier: MIT
#
# -DQSF_MACOS_PROCESSOR=x86_64 for Intel's.
set(QSF_MACOS_PROCESSOR aarch64 CACHE STRING "aarch64 or x86_64")
include("${CMAKE_CURRENT_LIST_DIR}/../CacheFolder.cmake")
set(sdk "${qsf_cache}/wasm")
if(NOT EXISTS "${sdk}/zig/zig")
    message(FATAL_ERROR "no compiler for macOS in ${sdk}: run tools/wasm-toolchain.sh")
endif()
set(ENV{ZIG_GLOBAL_CACHE_DIR} "${sdk}/cache")
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR ${QSF_MACOS_PROCESSOR})
set(CMAKE_C_COMPILER "${sdk}/zig/zig" cc)
set(CMAKE_C_COMPILER_TARGET ${QSF_MACOS_PROCESSOR}-macos)
set(CMAKE_AR "${sdk}/bin/llvm-ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "${sdk}/bin/llvm-ranlib" CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL false CACHE FILEPATH "")
set(CMAKE_OSX_SYSROOT "" CACHE PATH "")
set(CMAKE_OSX_DEPLOYMENT_TARGET "" CACHE STRING "")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH "${sdk}/zig/lib/libc")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
