# What CMake has to know of a system called WASI.
# SPDX-License-Identifier: MIT
set(WASI 1)
set(CMAKE_EXECUTABLE_SUFFIX .wasm)
