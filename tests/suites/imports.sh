#!/bin/sh
# The Windows programs import nothing but the system's own libraries.
# SPDX-License-Identifier: MIT
#
#   imports.sh BUILD_FOLDER
set -eu
for program in qsf qsf-run qsf-convert qsf-serve qsf-parity; do
    libraries='kernel32|msvcrt|ucrtbase|api-ms-win-(core-synch|crt)-[a-z0-9-]+'
    [ $program = qsf-serve ] && libraries="$libraries|advapi32|iphlpapi|shell32|ws2_32"
    x86_64-w64-mingw32-objdump -p "$1/$program.exe" | sed -n 's/.*DLL Name: //p' \
        | sort -u | tee "$1/imports.txt"
    if grep -v -i -E "^($libraries)\.dll\$" "$1/imports.txt"; then
        echo "$program: the above belongs to no plain Windows"
        exit 1
    fi
done
