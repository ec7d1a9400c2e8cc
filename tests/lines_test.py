#!/usr/bin/env python3
"""Lines have at most 110 columns, comments of their own at most 100, in what is listed here.
SPDX-License-Identifier: MIT

    lines_test.py        checks; what has become clean is added to CLEAN
"""
import pathlib, re, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Folders and files.
CLEAN = ("core/base", "core/tensor", "core/text", "core/engine/sampler.c", "kernels", "tests/lines_test.py")
KINDS = {".c", ".h", ".js", ".mjs", ".py"}
# Tables that a script has written.
TABLES = {"core/base/crc_table.h", "core/text/unicode_table.c"}
LINE, COMMENT = 110, 100
# A line that is nothing but a comment, or a part of one.
OWN = re.compile(r"\s*(/\*| \* |//|#(?!\s*(if|el|end|def|und|inc|pra|err|  )))")


def wrong_lines(name, text):
    in_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        own = in_comment or OWN.match(line)
        most = COMMENT if own else LINE
        if len(line) > most and "://" not in line:
            yield f"{name}:{number}: {len(line)} columns, {most} are possible"
        begins, ends = line.rfind("/*"), line.rfind("*/")
        in_comment = begins > ends if begins >= 0 else in_comment and ends < 0


def main():
    wrong, files = [], 0
    for folder in CLEAN:
        place = ROOT / folder
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix not in KINDS or name in TABLES or "node_modules" in path.parts:
                continue
            files += 1
            wrong += wrong_lines(name, path.read_text(encoding="utf-8"))
    for line in wrong:
        print(line)
    print(f"{len(wrong)} lines of {files} files are too long")
    if files < 100:
        sys.exit(f"only {files} files: something is missing")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
