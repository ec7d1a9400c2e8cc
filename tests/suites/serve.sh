#!/bin/sh
# A server that was built for another machine answers under the first of these emulators that is
# here.
# SPDX-License-Identifier: MIT
#
#   serve.sh PROGRAM EMULATOR...
set -eu
program=$1
shift
for emulator; do
    command -v "$emulator" >/dev/null && exec "${QSF_PYTHON:-python3}" tests/serve/serve_small_test.py \
        "$emulator" "$program"
done
echo "none of these is here: $*"
exit 1
