#!/usr/bin/env python3
"""Writes docs/api.md, the reference of the public interface, from include/qsf.h.
SPDX-License-Identifier: MIT

    python3 tools/make_api.py            writes docs/api.md
    python3 tools/make_api.py --check    says whether docs/api.md is what the header gives

How the header is read.  "/* ---- name ---- */" begins a section.  A comment describes the declarations
below it, up to the next comment or empty line.  In a comment an empty line ends a paragraph, and a line
"QSF_NAME   text" (two spaces or more) is an item of a list.  The lists of options come from
tools/make_options.py.
"""
import pathlib
import re
import sys
import textwrap

import make_options

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER, PAGE = ROOT / "include" / "qsf.h", ROOT / "docs" / "api.md"
WIDTH = 110
INTRO = """# The C interface

Every function and type of `qsf.h`. `tools/make_api.py` generates this page from the header, so change the
header and not the page. [library.md](library.md) is the introduction with examples;
[support.md](support.md#stability) says which parts are stable."""


def pieces(text):
    """("section", name), ("comment", text) and ("code", lines) of the header, in order."""
    text = text[text.index("/* ---- status") :]
    text = text[: text.index("#ifdef __cplusplus")]
    code = []
    lines = iter(text.splitlines())
    for line in lines:
        section = re.fullmatch(r"/\* ---- (.*?) -+ \*/", line)
        if code and (section or not line or line.startswith("/*")):
            yield "code", code
            code = []
        if section:
            yield "section", section[1]
        elif line.startswith("/*"):
            comment = [line[2:]]
            while not comment[-1].endswith("*/"):
                after = next(lines)
                comment.append("*/" if after == " */" else after.removeprefix(" *"))
            yield "comment", "\n".join(c.removeprefix(" ") for c in comment)[:-2].rstrip()
        elif line:
            code.append(line)
            depth = line.count("{") - line.count("}")
            while depth:  # a struct or enum may have empty lines
                code.append(next(lines))
                depth += code[-1].count("{") - code[-1].count("}")
    if code:
        yield "code", code


def declarations(code):
    """The code as a caller reads it: functions without their bodies."""
    return [re.sub(r"^static inline (.*?\)) \{.*\}$", r"\1;", line.replace("QSF_API ", "")) for line in code]


def names(code):
    """What a declaration declares."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(declarations(code)), flags=re.S)
    found = re.findall(r"^#define (\w+)\(", text)
    if "{" in text and not found:
        found = re.findall(r"\}\s*(\w+)\s*;", text) or re.findall(r"(QSF_\w+)\s*(?:=|\})", text)
    for line in text.splitlines():
        if re.match(r"typedef|\w.*\(", line) and "{" not in line and not line.startswith("#"):
            for form in (r"\(\*(\w+)\)\(", r"(\w+)\(", r"(\w+);"):
                if found_here := re.findall(form, line):
                    found += found_here
                    break
    return found


def marked(text):
    """Names of the interface as code."""
    text = re.sub(r"(?<![\w`/])((?:core/)?\w+\.h)\b", r"`\1`", text)
    name = r"(?:qsf|QSF)\w*_\w+(?:\([a-z]*\)|(?:\.(?!h\b)[a-z]\w*)*)"
    text = re.sub(rf"(?<![\w`/])({name})(?!\.h)\b", r"`\1`", text)
    text = re.sub(r"(?<![\w`])(docs/)([\w-]+\.md)", r"[\2](\2)", text)
    text = re.sub(r"(?<![\w`*>.])([a-z]+_[a-z_0-9]+)\b(?!`)", r"`\1`", text)
    text = re.sub(r"(?<![\w`*])(\*\w+(?:->\w+|\.\w+)*)", r"`\1`", text)
    return text.replace("<|", "&lt;|").replace(" <= ", " &le; ")


def paragraphs(comment):
    """Markdown of a comment."""
    out = []
    for part in comment.split("\n\n"):
        made = []  # (names before the colon, words)
        for line in part.splitlines():
            item = re.match(r"(QSF_[A-Z_0-9]+(?:, QSF_[A-Z_0-9]+)*) {2,}(.*)", line)
            if item:
                made.append([item[1], item[2]])
            elif made:
                made[-1][1] += " " + line.strip()
            else:
                made.append(["", line])
        for name, words in made:
            lead = "- " + ", ".join(f"`{n}`" for n in name.split(", ")) + ": " if name else ""
            words = lead + marked(re.sub(r"\s+", " ", words.strip()))
            indent = "  " if lead else ""
            out.append(textwrap.fill(words, WIDTH, subsequent_indent=indent, break_on_hyphens=False))
            out[-1] += "\n" if name and name != made[-1][0] else "\n\n"
    return "".join(out).rstrip()


def heading(declared):
    return ", ".join(declared) if len(declared) < 4 else f"{declared[0]} and others"


def anchor(declared):
    """Where the heading is found in the page."""
    return re.sub(r"[^\w\- ]", "", heading(declared).lower()).replace(" ", "-")


def page(header):
    sections, comment = [], None
    for kind, what in pieces(header):
        if kind == "section":
            sections.append((what, []))
        elif kind == "comment":
            comment = what
        else:
            declared = list(dict.fromkeys(names(what)))
            if not declared:
                raise SystemExit(f"{HEADER}: no name is found in {what[0]!r}")
            if comment is None:
                raise SystemExit(f"{HEADER}: {declared[0]} has no comment")
            sections[-1][1].append((declared, comment, what))
            comment = None
    out = [INTRO]
    for title, entries in sections:
        links = [f"[{n}](#{anchor(declared)})" for declared, _, _ in entries for n in declared]
        listing = f"- {title[0].upper() + title[1:]}: " + ", ".join(links)
        out.append(textwrap.fill(listing, WIDTH, break_on_hyphens=False, subsequent_indent="  "))
    text = out[0] + "\n\n" + "\n".join(out[1:])
    for title, entries in sections:
        text += f"\n\n## {title[0].upper() + title[1:]}"
        for declared, comment, code in entries:
            code = "\n".join(declarations(code))
            text += f"\n\n### {heading(declared)}\n\n{paragraphs(comment)}\n\n```c\n{code}\n```"
            for which in ("context", "sampler", "turn"):
                if f"qsf_{which}_option" in declared:
                    text += "\n\n" + make_options.table(make_options.options(which))
    return text + "\n"


def main():
    made = page(HEADER.read_text())
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != made:
            sys.exit("docs/api.md is not what include/qsf.h says: run python3 tools/make_api.py")
        return
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
