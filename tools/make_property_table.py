#!/usr/bin/env python3
"""Makes core/text/property_table.c: scripts and emoji, as ranges of code points.
SPDX-License-Identifier: MIT

    python3 tools/make_property_table.py

Takes the data from the package regex.  Each range is two numbers: the gap before it and its length in code
points, as varints (seven bits a byte, low ones first; a byte of 128 or more is continued by the next one).
"""
import pathlib
import regex

NAMES = ["Latin", "Greek", "Cyrillic", "Han", "Hiragana", "Katakana", "Hangul", "Arabic", "Hebrew", "Thai",
         "Devanagari", "Emoji", "Emoji_Presentation", "Emoji_Component", "Extended_Pictographic"]
OUT = pathlib.Path(__file__).resolve().parents[1] / "core" / "text" / "property_table.c"


def number(n):
    out = []
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return out + [n]


def ranges(name):
    fits, out, end, start = regex.compile(r"\p{%s}" % name).match, [], 0, None
    for c in range(0x110001):
        is_in = c < 0x110000 and fits(chr(c)) is not None
        if is_in and start is None:
            start = c
        if not is_in and start is not None:
            out += number(start - end) + number(c - start)
            end, start = c, None
    return out


def main():
    data, places = [], []
    for name in NAMES:
        own = ranges(name)
        places.append(f'    {{ "{name}", {len(data)}, {len(own)} }},')
        data += own
    rows, row = [], "   "
    for n in data:
        if len(row) + len(str(n)) + 2 > 108:
            rows.append(row)
            row = "   "
        row += f" {n},"
    text = "\n".join([
        "/* Scripts and emoji.  Made by tools/make_property_table.py; do not edit.",
        " * SPDX-License-Identifier: MIT */", '#include "text/property_table.h"', "",
        "const qsf_property qsf_properties[QSF_N_PROPERTIES] = {", *places, "};", "",
        f"const uint8_t qsf_property_ranges[{len(data)}] = {{", *rows, row, "};", ""])
    OUT.write_text(text)
    print(OUT.name, len(data), "bytes", len(NAMES), "properties")


if __name__ == "__main__":
    main()
