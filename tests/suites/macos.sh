#!/bin/sh
# The code for macOS compiles without warnings, and every function that it calls is in Apple's
# system library, as far as the stubs of Zig's wheel know. Nothing runs.
# SPDX-License-Identifier: MIT
#
#   macos.sh WORK_FOLDER
set -eu
work=$1
sdk=$(tools/wasm-toolchain.sh)
if [ ! -x "$sdk/zig/zig" ]; then
    echo "left out: no Zig in $sdk (WASI_SDK_PATH and EMSDK name other compilers)"
    exit 77
fi
rm -rf "$work"
mkdir -p "$work"
ZIG_GLOBAL_CACHE_DIR=$sdk/cache ZIG_LOCAL_CACHE_DIR=$work/cache
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
compile() {     # processor arguments...
    processor=$1
    shift
    "$sdk/zig/zig" cc -target "$processor-macos" -std=c11 -O0 -Wall -Wextra -Wpedantic -Werror \
        -Wno-unused-function "$@"
}
"${QSF_PYTHON:-python3}" tools/amalgamate.py "$work/qsf.c" >/dev/null
compile aarch64 "$work/qsf.c" -o "$work/qsf-run"
[ "$(od -An -tx4 -N8 "$work/qsf-run" | tr -d ' ')" = feedfacf0100000c ] || {
    echo "not a program for ARM's macOS"
    exit 1
}
# What the other programs ask of a system, and what Intel's machines have of their own.
part() {        # processor source
    compile "$1" -D_DARWIN_C_SOURCE -Iinclude -Icore -Ikernels -Iplatform/native -Iserve -Iparity -Icli \
        -c "$2" -o "$work/part.o"
}
for source in serve/system_posix.c serve/disk_file.c parity/library_posix.c; do
    part aarch64 "$source"
done
for source in cpu_x86 direct_macos memory_posix thread_macos usage_macos; do
    part x86_64 "platform/native/$source.c"
done
echo ok
