# x86-64 Linux with musl, such as Alpine: Debian's musl-gcc (the package musl-tools).
# SPDX-License-Identifier: MIT
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER musl-gcc)
# linux/*.h are the kernel's, which musl does not bring; its own headers come first. Debian has
# its shared library in a folder that musl-gcc does not know; a static one would give the addon a C
# library of its own.
set(CMAKE_C_FLAGS_INIT
    "-L/lib/x86_64-linux-musl -idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH /usr/lib/x86_64-linux-musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
