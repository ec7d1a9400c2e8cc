#!/bin/sh
# qsf-run as a WASI command answers as the native one does, from a folder that it may see and no other.
# SPDX-License-Identifier: MIT
#
#   wasi.sh BUILD_FOLDER_OF_WASM BUILD_FOLDER_OF_NATIVE WORK_FOLDER
set -eu
wasm=$1 native=$2 work=$3
mkdir -p "$work"
model=$(tools/get-model.sh smollm2-135m-q4_1)
ask='What is the capital of France?'
run() { node --no-warnings tests/wasm/wasi.mjs "$wasm/qsf-run.wasm" "$@"; }
run --version
run -m "$model" -p "$ask" -n 16 --temp 0 --json >"$work/wasi.json"
"$native/qsf-run" -m "$model" -p "$ask" -n 16 --temp 0 --json >"$work/native.json"
cmp "$work/wasi.json" "$work/native.json"
run -m "$model" -p "$ask" -n 16 --temp 0 --ram-budget 80 -c 256 | grep Paris
if run -m nothing.gguf -p x 2>"$work/error.txt"; then exit 1; fi
grep 'no such file' "$work/error.txt"
