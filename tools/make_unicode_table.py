#!/usr/bin/env python3
"""Writes core/text/unicode_table.c: the class of every code point, and canonical composition for NFC.
SPDX-License-Identifier: MIT

    pip install unicodedata2==16.0.0
    make_unicode_table.py > core/text/unicode_table.c

Classes are those of Unicode 16, because the regular expressions of Hugging Face's tokenizers have them
(llama.cpp has 15.1: the two differ in code points that 15.1 does not assign). Its NFC is older, of Unicode 9,
and so is ours."""
import sys
import unicodedata2 as u

assert u.unidata_version == "16.0.0", u.unidata_version
# What later versions gave a combining class or a decomposition.
LATER_MARKS = [
    (0x7fd, 0x7fd), (0x897, 0x89f), (0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xc3c, 0xc3c), (0xd3b, 0xd3c),
    (0xeba, 0xeba), (0x1715, 0x1715),
    (0x1abf, 0x1ace), (0x1df6, 0x1dfa), (0xa82c, 0xa82c), (0x10d24, 0x10d27), (0x10d69, 0x10d6d),
    (0x10eab, 0x10eac),
    (0x10efd, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85), (0x11070, 0x11070), (0x1133b, 0x1133b),
    (0x113ce, 0x113d0),
    (0x1145e, 0x1145e), (0x11839, 0x1183a), (0x1193d, 0x1193e), (0x11943, 0x11943), (0x119e0, 0x119e0),
    (0x11a34, 0x11a34),
    (0x11a47, 0x11a47), (0x11a99, 0x11a99), (0x11d42, 0x11d42), (0x11d44, 0x11d45), (0x11d97, 0x11d97),
    (0x11f41, 0x11f42),
    (0x1612f, 0x1612f), (0x16ff0, 0x16ff1), (0x1e08f, 0x1e08f), (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae),
    (0x1e2ec, 0x1e2ef),
    (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef)]
LATER_COMPOSED = [
    (0x105c9, 0x105c9), (0x105e4, 0x105e4), (0x11383, 0x11383), (0x11385, 0x11385), (0x1138e, 0x1138e),
    (0x11391, 0x11391),
    (0x113c5, 0x113c5), (0x113c7, 0x113c8), (0x11938, 0x11938), (0x16121, 0x16128), (0x16d68, 0x16d6a)]
CLASS = {"Lu": 1, "Ll": 2, "Lt": 3, "Lm": 4, "Lo": 5, "M": 6, "N": 7, "P": 8, "S": 9, "Z": 10, "C": 0,
         "Mc": 11, "Me": 11,         # a mark, too, which BERT's tokenizer keeps
         "No": 12, "Nl": 13,         # numbers, too, but no digits
         "Cn": 14}                   # not assigned


def klass(c):
    cat = u.category(chr(c))
    return CLASS.get(cat, CLASS.get(cat[0]))


def within(c, ranges):
    return any(a <= c <= b for a, b in ranges)


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
    if d and not d.startswith("<") and not within(c, LATER_COMPOSED):
        parts = [int(p, 16) for p in d.split()]
        decomposed.append((c, parts[0], parts[1] if len(parts) > 1 else 0))
    k = u.combining(chr(c))
    if k and not within(c, LATER_MARKS):
        combining.append((c, k))
marks = []          # runs of one class: first, how many more, class
for c, k in combining:
    if marks and sum(marks[-1][:2]) + 1 == c and marks[-1][2] == k:
        marks[-1][1] += 1
    else:
        marks.append([c, 0, k])
runs = []           # consecutive code points that decompose: first, its place
for i, d in enumerate(decomposed):
    if not runs or runs[-1][0] + i - runs[-1][1] != d[0]:
        runs.append((d[0], i))
composed = sorted((a, b, i) for i, (c, a, b) in enumerate(decomposed)
                  if b and u.normalize("NFC", chr(a) + chr(b)) == chr(c))

print("/* Classes of code points and canonical composition, Unicode 16.\n"
      " * Made by tools/make_unicode_table.py; do not edit.")
print(" * SPDX-License-Identifier: MIT */")
print('#include "text/unicode.h"\n')
array("uint8_t", "qsf_unicode_index", index)
array("uint8_t", "qsf_unicode_classes", [v for b in blocks for v in b])
print(f"const uint32_t qsf_unicode_n_runs = {len(runs)}, qsf_unicode_n_composed = {len(composed)}, "
      f"qsf_unicode_n_marks = {len(marks)};\n")
assert len(composed) <= 1024
array("uint32_t", "qsf_unicode_run_from", [r[0] for r in runs], 15)
array("uint32_t", "qsf_unicode_run_at", [r[1] for r in runs] + [len(decomposed)], 15)
for name, shift in ("low", 0), ("middle", 8), ("high", 16):     # bytes apart compress better
    array("uint8_t", f"qsf_unicode_first_{name}", [d[1] >> shift & 255 for d in decomposed])
array("uint32_t", "qsf_unicode_second", [d[2] for d in decomposed], 15)
made = {c[2] for c in composed}
print("#if defined(QSF_SMALL_CODE)         /* platform/wasm/unicode.c makes it of what never composes */")
single = [i for i, (c, a, b) in enumerate(decomposed) if b and i not in made]
array("uint16_t", "qsf_unicode_single", single, 20)
print("#else")
array("uint16_t", "qsf_unicode_composed", [c[2] for c in composed])
print("#endif")
array("uint32_t", "qsf_unicode_mark_from", [m[0] for m in marks], 15)
array("uint8_t", "qsf_unicode_mark_more", [m[1] for m in marks])
array("uint8_t", "qsf_unicode_mark_class", [m[2] for m in marks])
