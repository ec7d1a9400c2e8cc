#!/usr/bin/env python3
"""Writes core/text/case_table.c: upper and lower case of characters beyond ASCII, as Python has them.
SPDX-License-Identifier: MIT

    make_case_table.py > core/text/case_table.c"""

LETTERS = [chr(c) for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def runs(pairs):
    """Pairs of code points as stretches: first, how many, how far apart, how far the other one is."""
    out = []
    for a, b in sorted(pairs):
        last = out[-1] if out else None
        if last and last[3] == b - a and a - (last[0] + (last[1] - 1) * last[2]) == (last[2] or a - last[0]) < 3:
            last[2] = last[2] or a - last[0]
            last[1] += 1
        else:
            out.append([a, 1, 0, b - a])
    return [(a, n, step or 1, by) for a, n, step, by in out]


def main():
    lower = {ord(c): ord(c.lower()) for c in LETTERS if len(c.lower()) == 1 and c.lower() != c}
    upper = {ord(c): ord(c.upper()) for c in LETTERS if len(c.upper()) == 1 and c.upper() != c}
    back = {b: a for a, b in lower.items()}
    special = sorted(set(ord(c) for c in LETTERS if len(c.upper()) > 1 or len(c.lower()) > 1) | {0x3A3})
    only = sorted((a, b) for a, b in upper.items() if back.get(a) != b)
    only += [(a, a) for a in back if a > 0x7F and a not in upper and a not in special]
    print("/* Upper and lower case beyond ASCII.  Made by tools/make_case_table.py; do not edit.\n"
          " * SPDX-License-Identifier: MIT */\n#include \"text/case_table.h\"\n")
    for name, rows in (("lower", runs(lower.items())), ("upper", runs(only)),
                       ("special", [r for r in runs((c, c) for c in special)])):
        print(f"const qsf_case_run qsf_case_{name}[QSF_N_CASE_{name.upper()}] = {{")
        line = "   "
        for a, n, step, by in rows:
            item = f" {{{a},{n},{step},{by}}},"
            if len(line) + len(item) > 108:
                print(line)
                line = "   "
            line += item
        print(line + "\n};")


main()
