#!/usr/bin/env python3
"""Writes the sources of kernels/wgsl/ with smaller shaders, for the modules that pages fetch.
SPDX-License-Identifier: MIT

    tools/small_wgsl.py FOLDER SOURCE.c...      to FOLDER

Comments of shaders go, indentation, and spaces and line ends that no token needs.  Vectors get their short
names, and what shaders declare gets short ones.  Names of values (${name}) become a character each: the
output is compiled with QSF_WGSL_SMALL (text_wgsl.h).  Strings with neither a line end nor a value, which are
messages, short expressions and names that C chooses, stay, and so do their words elsewhere.
tests/kernels/small_wgsl_test.py compares the tokens of all shaders.
"""
import collections
import itertools
import pathlib
import re
import string
import sys

C_TOKEN = re.compile(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"|//[^\n]*|\s+|\w+|.', re.S)
VALUE = re.compile(r"\$\{(\w+)\}")
PIECE = re.compile(r"[ \n]+|\$\{\w+\}|[\w.]+|\S")
WORD = re.compile(r"\b[A-Za-z_]\w*")
DECLARED = re.compile(r"\b(?:(?:fn|let|const|struct|var(?:<[^>]*>)?) ?(\w+)|(\w+):)")
PUNCTUATION = set("(){}[];,:")          # never part of a longer token
# for names of values; the last ones are rarely needed
CHARACTERS = [chr(c) for c in range(ord("!"), ord("~")) if chr(c) not in "\"'\\{}$?"]
CHARACTERS += [f"\\{c:o}" for c in range(128, 160)]


def needs_space(a, b):
    """Whether two pieces may be another token without a space between them.  Values are words."""
    if a in PUNCTUATION or b in PUNCTUATION: return False
    word_a, word_b = (re.match(r"[\w.$]", x) is not None for x in (a, b))
    return word_a == word_b


def smaller(text):
    """Shader text, which may begin or end within a line."""
    out, before, gap = "", None, ""
    text = re.sub(r"\b(vec[234])<([fiu])32>", r"\1\2", re.sub(r" *//[^\n]*(?=\n)", "", text))
    for piece in PIECE.findall(text):
        if piece[0] in " \n":
            gap = piece
            continue
        if before is None: gap = "" if len(gap) > 1 else gap            # indentation
        elif "\n" in gap and before not in ";{},": gap = "\n"
        else: gap = " " if gap and needs_space(before, piece) else ""
        out += gap + piece
        before, gap = piece, ""
    return out + ("\n" if "\n" in gap and before not in ";{}," else "" if "\n" in gap else gap)


def parts_of(source):
    """The source in parts, as pairs: whether it is a shader's text, and the text, or C."""
    parts, run = [], []

    def end_run():
        text = "".join(t[1:-1] for t in run if t[0] == '"')
        include = parts and re.search(r"#include\s*$", parts[-1][1])
        if not include and ("\\n" in text or text.startswith("  ") or "${" in text):
            assert not re.search(r"\\[^n]", text), text
            parts.append((True, smaller(text.replace("\\n", "\n"))))
        else: parts.append((False, "".join(run)))

    for token in C_TOKEN.findall(source):
        if token[0] == '"' or run and (token.isspace() or token.startswith("/*")):
            run.append(token)
            continue
        if run:
            rest = [] if run[-1][0] == '"' else [run.pop()]
            end_run()
            parts += [(False, space) for space in rest]
            run = []
        parts.append((False, token))
    return parts


def short_names(shaders, other):
    """For what shaders declare: those that are used most get the shortest names.  WGSL reserves words of two
    lower-case letters (as, do, of)."""
    declared, kept, used = set(), set(other), collections.Counter()
    for text in shaders:
        declared.update(a or b for a, b in DECLARED.findall(text))
        pieces = VALUE.split(text)[::2]
        for i, piece in enumerate(pieces):
            words = WORD.findall(piece)
            used.update(words)
            if i + 1 < len(pieces): kept.update(re.findall(r"\w+$", piece))     # names that a value ends
            if i: kept.update(re.findall(r"^\w+", piece))
    names = [name for name, _ in used.most_common() if name in declared - kept and len(name) > 2]
    letters = string.ascii_letters
    free = itertools.chain(letters, map("".join, itertools.product(letters, string.ascii_uppercase)))
    return dict(zip(names, (x for x in free if x not in used and x not in kept)))


def rewritten(parts, values, names):
    out = []
    for shader, text in parts:
        if shader:
            pieces = VALUE.split(text)
            pieces[::2] = (WORD.sub(lambda m: names.get(m[0], m[0]), piece) for piece in pieces[::2])
            pieces[1::2] = ("${%s}" % values[name] for name in pieces[1::2])
            text = '"%s"' % "".join(pieces).replace("\n", "\\n")
        elif text[:1] == '"' and "".join(out[-2:]).strip()[-1:] == "{" and text[1:-1] in values:
            text = f"'{values[text[1:-1]]}'"
        out.append(text)
    return "".join(out)


def main():
    folder, paths = pathlib.Path(sys.argv[1]), [pathlib.Path(p) for p in sys.argv[2:]]
    sources = {path.name: parts_of(path.read_text(encoding="utf-8")) for path in paths}
    every = [part for parts in sources.values() for part in parts]
    shaders = [text for shader, text in every if shader]
    values = sorted({name for text in shaders for name in VALUE.findall(text)})
    if len(values) > len(CHARACTERS): sys.exit(f"{len(values)} names of values; at most {len(CHARACTERS)}")
    values = dict(zip(values, CHARACTERS))
    strings = [text for shader, text in every if not shader and text[:1] == '"' and text[1:-1] not in values]
    other = {word for text in strings for word in WORD.findall(text)}
    names = short_names(shaders, other | {"main"})
    folder.mkdir(parents=True, exist_ok=True)
    for name, parts in sources.items():
        (folder / name).write_text(rewritten(parts, values, names), encoding="utf-8")


if __name__ == "__main__":
    main()
