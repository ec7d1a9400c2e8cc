# 64-bit ARM Linux with Debian's cross compiler; programs run under qemu-user where it is there.
# SPDX-License-Identifier: MIT
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
find_program(QSF_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(QSF_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${QSF_QEMU} -cpu max -L /usr/aarch64-linux-gnu)
endif()
