#!/usr/bin/env python3
"""Writes the sources of kernels/wgsl/ with smaller shaders, for the modules that pages fetch.
SPDX-License-Identifier: MIT

    tools/small_wgsl.py FOLDER SOURCE.c...      to FOLDER; with headers in the same folder

Comments of shaders go, indentation, and spaces and line ends that no token needs.  Vectors get their short
names, and what shaders declare gets short ones, which names of files that no shader has in common share.
Names of values (${name}) become a character each, and a list of values the names and a word for each value:
the output is compiled with QSF_WGSL_SMALL (text_wgsl.h).  Only messages stay, which have a format.
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
BOUND = re.compile(r'\bqsf_wgsl_bind\([^"]*"(\w+)"')
DECLARED = re.compile(r"\b(?:(?:fn|let|const|struct|var(?:<[^>]*>)?) ?(\w+)|(\w+):)")
PUNCTUATION = set("(){}[];,:")          # never part of a longer token
# for names of values
CHARACTERS = [chr(c) for c in range(ord(" "), ord("~") + 1) if chr(c) not in "\"'\\{}$?"]


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


def parts_of(source, values):
    """The source in parts, as pairs: whether it is a shader's text, and the text, or C."""
    parts, run = [], []

    def end_run():
        text = "".join(t[1:-1] for t in run if t[0] == '"')
        before = "".join(part[1] for part in parts[-3:]).rstrip()
        is_name = text in values and before.endswith("{")
        if is_name or before.endswith("#include") or re.search(r"%[a-z]", text):
            parts.append((False, "".join(run)))
            return
        assert not re.search(r"\\[^n]", text), text
        parts.append((True, smaller(text.replace("\\n", "\n"))))

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


def used_together(paths):
    """For each file those whose text may be in a shader with its own: what a file includes, it uses."""
    includes = {}
    for path in paths:
        files = [f for f in (path, path.with_suffix(".h")) if f.exists()]
        text = "".join(f.read_text(encoding="utf-8") for f in files)
        includes[path.stem] = set(re.findall(r'#include "(\w+_wgsl)\.h"', text))
    together = {name: {name} for name in includes}
    for root in includes:
        seen, new = set(), {root}
        while new:
            seen |= new
            new = set().union(*(includes.get(name, set()) for name in new)) - seen
        for name in seen: together.setdefault(name, set()).update(seen)
    return together


def short_names(shaders, bound, together):
    """For what shaders declare: those that are used most get the shortest names.  WGSL reserves words of two
    lower-case letters (as, do, of).  shaders: by file, what it has of them; bound: names of bindings."""
    declared, kept, used, files = set(bound), {"main"}, collections.Counter(), collections.defaultdict(set)
    for file, texts in shaders.items():
        for text in texts:
            declared.update(a or b for a, b in DECLARED.findall(text))
            kept.update(re.findall(r"@(\w+)", text))
            pieces = VALUE.split(text)[::2]
            for i, piece in enumerate(pieces):
                words = WORD.findall(piece)
                used.update(words)
                for word in words: files[word].add(file)
                if i + 1 < len(pieces): kept.update(re.findall(r"\w+$", piece))     # that a value ends
                if i: kept.update(re.findall(r"^\w+", piece))
    names = [name for name, _ in used.most_common() if name in declared - kept and len(name) > 2]
    letters = string.ascii_letters
    free = [*letters, *map("".join, itertools.product(letters, string.ascii_uppercase))]
    taken, short = collections.defaultdict(set), {}             # by file
    for word in (used.keys() | kept) - set(names):
        for file in files[word] or together: taken[file].add(word)
    for name in names:
        near = set().union(*(together[file] for file in files[name]))
        short[name] = next(x for x in free if not any(x in taken[file] for file in near))
        for file in files[name]: taken[file].add(short[name])
    return short


def value_at(parts, at):
    """After the name of a value in braces: the parts of its word, and where the next part begins."""
    fields, depth = [[]], 0
    while depth or parts[at][1] != "}":
        shader, text = parts[at]
        if not shader: depth += text.count("(") - text.count(")")
        if not shader and text == "," and not depth: fields.append([])
        else: fields[-1].append(parts[at])
        at += 1
    _, number, text = fields
    is_number = "".join(part[1] for part in text).strip() == "NULL"
    word = number if is_number else [(False, "(qsf_wgsl_value)("), *text, (False, ")")]
    return is_number, word, at + 1


def with_lists(parts, values):
    """Lists of values as text_wgsl.h describes them: the string of names, then a word for each value."""
    out, names, at = [], None, 0
    while at < len(parts):
        shader, text = parts[at]
        if shader or text[:1] != '"' or text[1:-1] not in values:
            if shader or not re.fullmatch(r"\s*|[,{]|/\*.*", text, re.S): names = None
            out.append(parts[at])
            at += 1
            continue
        while out[-1][1] != "{": out.pop()
        out.pop()
        is_number, word, at = value_at(parts, at + 1)
        if names is None:
            names = len(out) + 1
            out += [(False, '(qsf_wgsl_value)"'), (False, ""), (False, '", ')]
        name = values[text[1:-1]]
        out[names] = (False, out[names][1] + (name if is_number else f"\\{ord(name) + 128:o}"))
        out += word
    return out


def rewritten(parts, values, names):
    out = []
    for shader, text in parts:
        if shader:
            pieces = VALUE.split(text)
            pieces[::2] = (WORD.sub(lambda m: names.get(m[0], m[0]), piece) for piece in pieces[::2])
            pieces[1::2] = ("${%s}" % values[name] for name in pieces[1::2])
            text = '"%s"' % "".join(pieces).replace("\n", "\\n")
        out.append(text)
    return "".join(out)


def main():
    folder, paths = pathlib.Path(sys.argv[1]), [pathlib.Path(p) for p in sys.argv[2:]]
    texts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    values = sorted({name for text in texts.values() for name in VALUE.findall(text)})
    if len(values) > len(CHARACTERS): sys.exit(f"{len(values)} names of values; at most {len(CHARACTERS)}")
    values = dict(zip(values, CHARACTERS))
    sources = {name: parts_of(text, values) for name, text in texts.items()}
    shaders = {name: [text for shader, text in parts if shader] for name, parts in sources.items()}
    bound = {name for text in texts.values() for name in BOUND.findall(text)}
    names = short_names(shaders, bound, used_together(paths))
    folder.mkdir(parents=True, exist_ok=True)
    for name, parts in sources.items():
        text = rewritten(with_lists(parts, values), values, names)
        (folder / f"{name}.c").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
