#!/bin/sh
# -DQSF_STATIC=ON gives programs without any shared library, which convert, answer, take any text in
# a terminal, and serve.
# SPDX-License-Identifier: MIT
#
#   static.sh BUILD_FOLDER
set -eu
build=$1
for program in qsf qsf-run qsf-convert qsf-serve qsf-parity; do
    if readelf -d "$build/$program" | grep NEEDED || readelf -l "$build/$program" | grep INTERP; then
        echo "$program needs a shared library"
        exit 1
    fi
done
model=$(tools/get-model.sh smollm2-135m-q4_1)
"$build/qsf-convert" --quant-type 8bit --compress zstd "$model" "$build/static-test.qsf"
"$build/qsf-run" -m "$build/static-test.qsf" -p "What is the largest planet?" -n 12 --temp 0 |
    grep "largest planet"
rm -f "$build/static-test.qsf"
"${QSF_PYTHON:-python3}" tests/cli/terminal_test.py "$build/qsf-run" Typing Pasting
"${QSF_PYTHON:-python3}" tests/serve/serve_small_test.py "$build/qsf-serve"
