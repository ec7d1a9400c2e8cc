#!/usr/bin/env python3
# Writes core/base/crc_table.h: the tables of CRC-32 (zlib, PNG) for sixteen bytes a step.
# SPDX-License-Identifier: MIT
#
#   python3 tools/make_crc_table.py > core/base/crc_table.h
STEPS = 16
table = [[0] * 256 for _ in range(STEPS)]
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ (0xEDB88320 if c & 1 else 0)
    table[0][i] = c
for k in range(1, STEPS):
    for i in range(256):
        c = table[k - 1][i]
        table[k][i] = c >> 8 ^ table[0][c & 255]

print("/* Tables of CRC-32 for %d bytes a step; made by tools/make_crc_table.py." % STEPS)
print(" * SPDX-License-Identifier: MIT */")
print("#ifndef QSF_CRC_TABLE_H")
print("#define QSF_CRC_TABLE_H")
print()
print('#include "base.h"')
print()
print("/* qsf_crc_table[k][b]: the register after byte b and k bytes of zero. */")
print("static const uint32_t qsf_crc_table[%d][256] = {" % STEPS)
for row in table:
    print("    {")
    for i in range(0, 256, 12):
        print("        " + " ".join("0x%08x," % v for v in row[i:i + 12]))
    print("    },")
print("};")
print()
print("#endif")
