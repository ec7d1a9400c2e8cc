#!/usr/bin/env python3
"""Writes the list in docs/memory.md of what is reduced to fit a budget, from core/engine/ladder.c.
SPDX-License-Identifier: MIT

    python3 tools/make_ladder.py            writes the list
    python3 tools/make_ladder.py --check    reports whether the list matches the table

A row's text is what is reduced, its loss what that costs: the last two members of each row.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE, PAGE = ROOT / "core" / "engine" / "ladder.c", ROOT / "docs" / "memory.md"
WIDTH = 110
BEGIN, END = "<!-- made by tools/make_ladder.py -->\n", "<!-- end of the list -->\n"


def rows(source):
    """(text, loss) of each row of the table."""
    table = re.search(r"^const qsf_rung qsf_ladder\[.*?\{\n(.*?)^\};", source, re.M | re.S).group(1)
    for row in re.findall(r"\{ (.*?) \},\n", table, re.S):
        strings = re.split(r'"\s*,\s*"', row[row.index('"') + 1:row.rindex('"')])
        text, loss = (re.sub(r'"\s*"', "", s) for s in strings)
        yield text, loss


def made(source):
    items = []
    for i, (text, loss) in enumerate(rows(source), 1):
        lead = f"{i}. "
        items.append(textwrap.fill(f"{lead}{text}. Cost: {loss}.", WIDTH, subsequent_indent=" " * len(lead),
                                   break_on_hyphens=False, break_long_words=False))
    return "\n".join(items) + "\n"


def main():
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not tail:
        sys.exit(f"{PAGE}: the lines {BEGIN.strip()} and {END.strip()} are not there")
    new = head + BEGIN + made(TABLE.read_text()) + END + tail
    if sys.argv[1:] == ["--check"]:
        if page != new:
            sys.exit("docs/memory.md is not what core/engine/ladder.c says: run python3 tools/make_ladder.py")
        return
    PAGE.write_text(new)


if __name__ == "__main__":
    main()
