#!/bin/sh
# The single-file build: one command, no optional library, and it answers as the normal build does.
# SPDX-License-Identifier: MIT
#
#   single_file.sh WORK_FOLDER
set -eu
work=$1
mkdir -p "$work"
python3 tools/amalgamate.py "$work/qsf.c"
# README's -O3 takes three times as long, for the same answer
cc -O1 -o "$work/qsf-run" "$work/qsf.c" -lpthread -lm
"$work/qsf-run" --version
model=$(tools/get-model.sh smollm2-135m-q4_1)
"$work/qsf-run" -m "$model" -p "What is the capital of France?" -n 16 --temp 0 >"$work/single.txt"
build/test/release/qsf-run -m "$model" -p "What is the capital of France?" -n 16 --temp 0 >"$work/normal.txt"
cmp "$work/single.txt" "$work/normal.txt"
grep -q Paris "$work/single.txt"
# Any compiler: a second one, where it is there, only has to take it without a warning.
if command -v clang >/dev/null; then clang -fsyntax-only -Wall -Wextra -Werror "$work/qsf.c"; fi
# What a set makes of a template is its own here, too: readers of codebooks have its registers.
if [ "$(uname -m)" = x86_64 ] && command -v objdump >/dev/null; then
    objdump -d --no-show-raw-insn "$work/qsf-run" >"$work/qsf-run.s"
    for set in avx2:ymm avx512:zmm; do
        sed -n "/<iq_read_${set%:*}[.>]/,/^\$/p" "$work/qsf-run.s" >"$work/reader.s"
        grep -q "%${set#*:}" "$work/reader.s" || { echo "iq_read_${set%:*}: no ${set#*:} registers"; exit 1; }
    done
    rm "$work/qsf-run.s" "$work/reader.s"
fi
