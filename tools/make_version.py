#!/usr/bin/env python3
"""Writes the version, QSF_VERSION of include/qsf.h, into files that neither CMake nor the compiler makes.
SPDX-License-Identifier: MIT

    python3 tools/make_version.py            writes the places below
    python3 tools/make_version.py --check    reports which of them have another version
    python3 tools/make_version.py --print    prints the version
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A file, and an expression; every match's group is the version.
PLACES = [
    ("js/package.json", r'(?m)^  "version": "([^"]+)"'),
    ("js/package.json", r'"@qsf/[^"]+": "([^"]+)"'),
    ("docs/bundlers.md", r"/npm/qsf@([\d.]+)/"),
    ("CHANGELOG.md", r"(?m)\A(?:(?!^## ).*\n)*## (\d[\d.]*)"),
]


def version():
    return re.search(r'#define QSF_VERSION "([\d.]+)"', (ROOT / "include" / "qsf.h").read_text())[1]


def main():
    if sys.argv[1:] == ["--print"]:
        print(version())
        return
    for name, expression in PLACES:
        text = (ROOT / name).read_text()
        found = list(re.finditer(expression, text))
        if not found:
            sys.exit(f"{name}: no version matches {expression}")
        others = [m for m in found if m[1] != version()]
        if not others:
            continue
        if sys.argv[1:] == ["--check"]:
            sys.exit(f"{name} has version {others[0][1]}, include/qsf.h {version()}: "
                     f"run python3 {sys.argv[0]}")
        if name == "CHANGELOG.md":
            sys.exit(f"CHANGELOG.md begins with version {others[0][1]}: "
                     f"add a section ## {version()}, unreleased")
        for m in reversed(others):
            text = text[: m.start(1)] + version() + text[m.end(1) :]
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
