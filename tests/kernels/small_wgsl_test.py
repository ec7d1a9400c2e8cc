#!/usr/bin/env python3
"""Shaders of sources that tools/small_wgsl.py has written: the same tokens except names, in fewer bytes.
SPDX-License-Identifier: MIT

    small_wgsl_test.py WGSL_CASES WGSL_CASES_SMALL WORK

The programs write the shaders of all variants; the second one is made of those sources.
"""
import pathlib, re, shutil, subprocess, sys

TOKEN = re.compile(r"0x[0-9a-f]+u?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?[iufh]?|\w+"
                   r"|->|>>=|<<=|&&|\|\||[=!<>+*/%&|^-]=|\+\+|--|\S")


def texts(program, work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    subprocess.run([program, work], check=True, stdout=subprocess.DEVNULL)
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(work.glob("*.wgsl"))}
    shutil.rmtree(work)
    return found


def check_names(name, want, got):
    """Only words that the shader declares are renamed, each of them to one new word.  The new words are not
    reserved by WGSL: those of two letters are in lower case."""
    there, back = {}, {}
    declared = {b for a, b in zip(want, want[1:]) if a in ("fn", "let", "var", "const", "struct", ">")}
    declared |= {a for a, b in zip(want, want[1:]) if b == ":"}
    for at, (a, b) in enumerate(zip(want, got)):
        word = a[0].isalpha() or a[0] == "_"
        same = there.setdefault(a, b) == b and back.setdefault(b, a) == a if word else a == b
        if not same or (a != b and (a not in declared or not re.fullmatch("[A-Za-z][A-Z]?", b))):
            sys.exit(f"{name}: other tokens: {want[at - 5:at + 5]}, {got[at - 5:at + 5]}")
    if len(want) != len(got): sys.exit(f"{name}: {len(want)} tokens, {len(got)} as small")


def main():
    work = pathlib.Path(sys.argv[3])
    usual, small = (texts(program, work / name) for program, name in zip(sys.argv[1:3], ("usual", "small")))
    if len(usual) < 100 or usual.keys() != small.keys(): sys.exit(f"{len(usual)} and {len(small)} shaders")
    for name, text in usual.items():
        want, got = (TOKEN.findall(re.sub(r"\b(vec[234])<([fiu])32>", r"\1\2", x))
                     for x in (re.sub(r"//[^\n]*", "", text), small[name]))
        check_names(name, want, got)
    before, after = (sum(map(len, of.values())) for of in (usual, small))
    print(f"{len(usual)} shaders: {before} bytes, {after} in pages")
    if after > 0.8 * before: sys.exit("they are hardly smaller")


if __name__ == "__main__":
    main()
