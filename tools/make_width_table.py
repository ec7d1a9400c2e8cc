#!/usr/bin/env python3
"""Writes cli/width_table.c: code points that take no column of a terminal, and those that take two.
SPDX-License-Identifier: MIT

    pip install unicodedata2==16.0.0
    make_width_table.py > cli/width_table.c
"""
import unicodedata2 as u

assert u.unidata_version == "16.0.0", u.unidata_version
# These format characters are visible: the soft hyphen, and marks that enclose the numbers after
# them.
SEEN = {0xad, *range(0x600, 0x606), 0x6dd, 0x70f, 0x890, 0x891, 0x8e2, 0x110bd, 0x110cd}
# Vowels and final consonants of Hangul in parts: they join the consonant before them.
JOINED = [(0x1160, 0x11ff), (0xd7b0, 0xd7c6), (0xd7cb, 0xd7fb)]
# Ideographs that have no code point yet.
PLANNED = [(0x20000, 0x2fffd), (0x30000, 0x3fffd)]


def within(c, ranges):
    return any(a <= c <= b for a, b in ranges)


def width(c):
    category = u.category(chr(c))
    if within(c, JOINED) or (category in ("Mn", "Me", "Cf") and c not in SEEN):
        return 0
    if within(c, PLANNED):
        return 2
    if category == "Cn":
        return None                     # joins its neighbours: fewer ranges
    return 2 if u.east_asian_width(chr(c)) in "WF" else 1


def ranges(wanted):
    runs, open_run = [], False
    for c in range(0x80, 0x110000):
        w = width(c)
        if w == wanted:
            if open_run:
                runs[-1][1] = c
            else:
                runs.append([c, c])
            open_run = True
        elif w is not None:
            open_run = False
    return runs


print("/* Columns that code points take, Unicode 16.  Made by tools/make_width_table.py; do not edit.")
print(" * SPDX-License-Identifier: MIT */")
print('#include "width.h"\n')
for name, wanted in (("none", 0), ("two", 2)):
    runs = [f"{{ {a:#x},{b:#x} }}" for a, b in ranges(wanted)]
    print(f"const uint32_t width_{name}[][2] = {{")
    for i in range(0, len(runs), 5):
        print("    " + ", ".join(runs[i:i + 5]) + ",")
    print("};")
    print(f"const size_t width_n_{name} = sizeof width_{name} / sizeof width_{name}[0];\n" if wanted == 0 else
          f"const size_t width_n_{name} = sizeof width_{name} / sizeof width_{name}[0];")
