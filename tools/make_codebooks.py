#!/usr/bin/env python3
"""Writes core/tensor/codebooks_table.c: the codebooks of GGUF's IQ types, packed, from the Python
package gguf, which unpacks its own description of them.
SPDX-License-Identifier: MIT

    python3 tools/make_codebooks.py > core/tensor/codebooks_table.c
    python3 tools/make_codebooks.py --sets > platform/wasm/codebook_sets.h
"""
import sys

import numpy as np
from gguf import quants

IQ2 = (8, 25, 43)
IQ3_XXS = (4, 12, 20, 28, 36, 44, 52, 62)
IQ3_S = tuple(range(1, 16, 2))
IQ1 = (-1, 0, 1)
# table, class of the package, entries, bits of a field, what fields 0, 1, ... stand for
TABLES = [
    ("qsf_iq2_xxs_grid", quants.IQ2_XXS, 256, 2, IQ2),
    ("qsf_iq2_xs_grid", quants.IQ2_XS, 512, 2, IQ2),
    ("qsf_iq2_s_grid", quants.IQ2_S, 1024, 2, IQ2),
    ("qsf_iq3_xxs_grid", quants.IQ3_XXS, 256, 4, IQ3_XXS),
    ("qsf_iq3_s_grid", quants.IQ3_S, 512, 4, IQ3_S),
    ("qsf_iq1_grid", quants.IQ1_S, 2048, 2, IQ1),
]
# how an entry becomes a byte for each column
CODES = {"qsf_iq2_xxs_grid": "IQ2_CODES", "qsf_iq2_xs_grid": "IQ2_CODES", "qsf_iq2_s_grid": "IQ2_CODES",
         "qsf_iq3_xxs_grid": "IQ3_XXS_CODES", "qsf_iq3_s_grid": "IQ3_S_CODES", "qsf_iq1_grid": "IQ1_CODES"}
WHOLE = """
#if defined(__x86_64__)
#define PAIR(v, i, code) (uint64_t)code((v) >> 2 * (i) & 3) << 8 * (i)
#define EIGHT(v, code)                                                                                     \\
    (PAIR(v, 0, code) | PAIR(v, 1, code) | PAIR(v, 2, code) | PAIR(v, 3, code) | PAIR(v, 4, code) |        \\
     PAIR(v, 5, code) | PAIR(v, 6, code) | PAIR(v, 7, code)),
#define NIBBLE(v, i, code) (uint32_t)code((v) >> 4 * (i) & 15) << 8 * (i)
#define FOUR(v, code) (NIBBLE(v, 0, code) | NIBBLE(v, 1, code) | NIBBLE(v, 2, code) | NIBBLE(v, 3, code)),
#define IQ2_CODE(f) (8 + 17 * (f) + (f) / 2)
#define IQ2_CODES(v) EIGHT(v, IQ2_CODE)
#define IQ3_XXS_CODE(f) (4 + 8 * (f) + (f) / 7 * 2)
#define IQ3_XXS_CODES(v) FOUR(v, IQ3_XXS_CODE)
#define IQ3_S_CODE(f) (2 * (f) + 1)
#define IQ3_S_CODES(v) FOUR(v, IQ3_S_CODE)
#define IQ1_CODE(f) (8 * (f))
#define IQ1_CODES(v) EIGHT(v, IQ1_CODE)"""


def packed(cls, n, bits, values):
    """The entries as 16-bit numbers; everything that the header promises of them is checked."""
    cls.init_grid()
    grid = np.asarray(cls.grid).reshape(-1, 16 // bits)
    if grid.shape[0] != n:
        sys.exit(f"{cls.__name__}: {grid.shape[0]} entries, not {n}")
    field = {float(v): i for i, v in enumerate(values)}
    entries = [sum(field[float(v)] << bits * i for i, v in enumerate(row)) for row in grid]
    if len(set(entries)) != n:
        sys.exit(f"{cls.__name__}: an entry stands there twice")
    return entries


def check_signs():
    """qsf_iq_signs computes what the package keeps as a table."""
    for seven, signs in enumerate(quants.IQ2_XXS.ksigns):
        if signs != seven | (bin(seven).count("1") & 1) << 7:
            sys.exit(f"signs {seven}: {signs}")


def as_set(name, entries, bits, values):
    """A bit for each entry that there could be, in a table's order, which is that of the numbers."""
    base, n = len(values), 16 // bits
    numbers = [sum((v >> bits * i & (1 << bits) - 1) * base ** i for i in range(n)) for v in entries]
    if numbers != sorted(numbers):
        sys.exit(f"{name}: not in order")
    bytes_ = bytearray(-(-base ** n // 8))
    for v in numbers:
        bytes_[v // 8] |= 1 << v % 8
    return bytes_


def print_sets():
    print("/* Codebooks of GGUF's IQ types as sets; made by tools/make_codebooks.py.")
    print(" * SPDX-License-Identifier: MIT */")
    for name, cls, n, bits, values in TABLES:
        set_ = as_set(name, packed(cls, n, bits, values), bits, values)
        print()
        short = name.replace("_grid", "_set").replace("qsf_", "")
        print("static const uint8_t %s[%d] = {" % (short, len(set_)))
        for i in range(0, len(set_), 17):
            print("    " + " ".join("0x%02x," % v for v in set_[i:i + 17]))
        print("};")


def main():
    check_signs()
    if sys.argv[1:] == ["--sets"]:
        print_sets()
        return
    print("/* Codebooks of GGUF's IQ types; made by tools/make_codebooks.py.")
    print(" * SPDX-License-Identifier: MIT */")
    print('#include "tensor/codebooks.h"')
    print()
    print("const int8_t qsf_iq2[4] = { %s }, qsf_iq3_xxs[8] = { %s };"
          % (", ".join(map(str, IQ2)), ", ".join(map(str, IQ3_XXS))))
    print("\n#if !defined(QSF_SMALL_CODE)        /* there platform/wasm/codebooks.c makes them */")
    for name, cls, n, bits, values in TABLES:
        print("\n#define %s(X) \\" % name.upper())
        entries = packed(cls, n, bits, values)
        lines = [" ".join("X(0x%04x)" % v for v in entries[i:i + 9]) for i in range(0, n, 9)]
        print(" \\\n".join("    " + line for line in lines))
    print("\n#define ENTRY(v) v,")
    for name, _, n, _, _ in TABLES:
        print("const uint16_t %s[%d] = { %s(ENTRY) };" % (name, n, name.upper()))
    print(WHOLE)
    for name, _, n, bits, _ in TABLES:
        print("const uint%d_t %s[%d] = { %s(%s) };"
              % (128 // bits, name.replace("grid", "codes"), n, name.upper(), CODES[name]))
    print("#endif")
    print("\n".join("#undef " + macro for macro in ["ENTRY", "PAIR", "EIGHT", "NIBBLE", "FOUR"]))
    print("#endif")


if __name__ == "__main__":
    main()
