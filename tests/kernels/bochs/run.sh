#!/bin/sh
# The AMX products on the processor that Bochs emulates; tests/kernels/amx.h has a smaller model.
#
# Bochs: its sources of 2026 (after 3.0), https://github.com/bochs-emu/Bochs, configured with
#   --enable-amx --enable-avx --enable-evex --enable-x86-64 --enable-cpu-level=6 --with-nogui
# They take bytes with a sign for bytes without one, which the test at the start notices ("amx was
# refused").  Before make:
#   sed -i '/ DPBDSS(/,/^}/s/Bit8u/Bit8s/g' cpu/avx/amx.cc
#
# SPDX-License-Identifier: MIT
#
#   run.sh BOCHS LIBQSF.A WORK_FOLDER
set -eu
bochs=$1 library=$2 work=$3
here=$(dirname "$0")
root=$here/../../..
mkdir -p "$work"
cc=${CC:-cc}
$cc -c -o "$work/start.o" "$here/start.S"
$cc -std=c11 -O2 -fno-builtin -fno-stack-protector -fno-pie -mno-red-zone -I"$root/include" -I"$root/core" \
    -I"$root/kernels" -c -o "$work/main.o" "$here/main.c"
# What the products do not call stays undefined.
$cc -nostdlib -static -no-pie -Wl,-Ttext=0x101000 -Wl,--section-start=.start=0x100000 \
    -Wl,--section-start=.rom=0x10000000 -Wl,-e,0x100000 -Wl,--unresolved-symbols=ignore-all \
    -Wl,--build-id=none -o "$work/amx.elf" "$work/start.o" "$work/main.o" "$library"
objcopy -O binary -j .rom "$work/amx.elf" "$work/rom_end.bin"
objcopy -O binary -R .rom -R .note.gnu.property "$work/amx.elf" "$work/image.bin"
truncate -s $((0x3f0000)) "$work/image.bin"
cat "$work/image.bin" "$work/rom_end.bin" >"$work/rom.bin"
head -c 512 /dev/zero >"$work/vga.bin"
cat >"$work/bochsrc" <<END
romimage: file=$work/rom.bin
vgaromimage: file=$work/vga.bin
megs: 256
cpu: model=sapphire_rapids, count=1, ips=50000000, reset_on_triple_fault=0
display_library: nogui
port_e9_hack: enabled=1
boot: floppy
log: $work/bochs.log
panic: action=fatal
error: action=report
END
# Bochs ends with the status of a stopped machine.
"$bochs" -q -f "$work/bochsrc" </dev/null >"$work/printed" || true
sed -n '/AMX/,$p' "$work/printed"
grep -q '^[1-9][0-9]* shapes, [0-9]* values, 0 shapes wrong$' "$work/printed"
