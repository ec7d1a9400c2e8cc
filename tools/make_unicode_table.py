#!/usr/bin/env python3
"""Writes core/unicode_table.c: the class of every code point, and canonical composition for NFC.
SPDX-License-Identifier: MIT

    pip install unicodedata2==15.1.0
    make_unicode_table.py > core/unicode_table.c

Unicode 15.1, because the tokenizers that people compare with have its classes."""
import sys
import unicodedata2 as u

assert u.unidata_version == "15.1.0", u.unidata_version
CLASS = {"Lu": 1, "Ll": 2, "Lt": 3, "Lm": 4, "Lo": 5, "M": 6, "N": 7, "P": 8, "S": 9, "Z": 10, "C": 0}


def klass(c):
    cat = u.category(chr(c))
    return CLASS.get(cat, CLASS.get(cat[0]))


def array(kind, name, values, per=24):
    print(f"const {kind} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per):
        print("    " + ",".join(str(v) for v in values[i:i + per]) + ",")
    print("};\n")


blocks, index, seen = [], [], {}
for page in range(0x110000 // 256):
    c = [klass(page * 256 + i) for i in range(256)]
    packed = tuple(c[i] | c[i + 1] << 4 for i in range(0, 256, 2))
    if packed not in seen:
        seen[packed] = len(blocks)
        blocks.append(packed)
    index.append(seen[packed])
assert len(blocks) < 256

# Canonical decompositions (one level), combining classes, compositions; Hangul is arithmetic.
decomposed, combining = [], []
for c in range(0x110000):
    d = u.decomposition(chr(c))
    if d and not d.startswith("<"):
        parts = [int(p, 16) for p in d.split()]
        decomposed.append((c, parts[0], parts[1] if len(parts) > 1 else 0))
    k = u.combining(chr(c))
    if k:
        combining.append((c, k))
runs = []
for c, k in combining:
    if runs and runs[-1][1] + 1 == c and runs[-1][2] == k:
        runs[-1][1] = c
    else:
        runs.append([c, c, k])
composed = sorted((a, b, c) for c, a, b in decomposed if b and u.normalize("NFC", chr(a) + chr(b)) == chr(c))

print("/* Classes of code points and canonical composition, Unicode 15.1.  Made by tools/make_unicode_table.py; do not edit.")
print(" * SPDX-License-Identifier: MIT */")
print('#include "unicode.h"\n')
array("uint8_t", "qsf_unicode_index", index, 32)
array("uint8_t", "qsf_unicode_classes", [v for b in blocks for v in b], 32)
print(f"const uint32_t qsf_unicode_n_decomposed = {len(decomposed)}, qsf_unicode_n_composed = {len(composed)}, qsf_unicode_n_combining = {len(runs)};\n")
array("uint32_t", "qsf_unicode_decomposed", [v for d in decomposed for v in d], 15)
array("uint32_t", "qsf_unicode_composed", [v for d in composed for v in d], 15)
array("uint32_t", "qsf_unicode_combining", [v for d in runs for v in d], 15)
