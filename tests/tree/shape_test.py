#!/usr/bin/env python3
"""The shape of the tree: files of at most 600 lines, C functions of at most 60, and headers that declare what
their own file defines.  Reads files alone, and takes a second.
SPDX-License-Identifier: MIT

    shape_test.py
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("bindings cli cmake convert core demo docs examples hub include js kernels parity platform serve "
           "tests tools web").split()
KINDS = {".c", ".cmake", ".cpp", ".css", ".h", ".html", ".js", ".md", ".mjs", ".py", ".sh", ".ts", ".txt"}
FILE, FUNCTION = 600, 60

# Files that may be longer, and why.
LONG_FILES = {
    "core/text/unicode_table.c": "tools/make_unicode_table.py writes it",
    "convert/read/hf_set_table.c": "tools/make_hf_sets.py writes it",
    "docs/api.md": "tools/make_api.py writes it",
    "tests/golden/i2s_golden.h": "tests/golden/make_i2s.py writes it",
    "tests/golden/schema_cases.txt": "tests/golden/make_schema_cases.py writes it",
    "include/qsf.h": "the contract, which a user reads from top to bottom in one place",
}
# Functions that may be longer, and why: "path:name".
LONG_FUNCTIONS = {}
# X.h and X_own.h are for X.c and X_*.c.  Other headers of several files: (their patterns, why).
GROUPS = {
    "cli/bench_kernels.h": (("bench_*.c",), "the kernel part of qsf-bench"),
    "cli/benchmark.h": (("bench_*.c",), "one program, whose files are called bench_*"),
    "cli/run.h": (("cli/*.c",), "one program: qsf-run, whose files are its parts"),
    "convert/read/hf_tokenizer.h": (("hf_*.c",), "one tokenizer.json, a file for each part of it"),
    "core/base/base.h": (("crc.c",), "one function, which everything uses"),
    "core/model/qsf_file.h": (("qsf_*.c",), "one format: what readers and writer of it share"),
    "core/model/source_formats.h": (("core/model/*.c",), "what source.c calls of each format"),
    "core/chat/jinja_parse.h": (("jinja_*.c",), "one parser: statements, expressions, what they emit"),
    "core/text/unicode.h": (("utf8.c",), "tables, and the functions that read them"),
    "serve/front.h": (("serve/*.c",), "the HTTP side, whose files are its parts"),
    "serve/scheduler.h": (("serve/*.c",), "the engine's side: the thread, who runs, sequences"),
    "serve/serve.h": (("server.c",), "one function, which begins everything"),
    "kernels/kernels.h": (("kernels/*.c",), "the table of all sets, each in a file"),
    "kernels/neon_tile.h": (("kernels/*.c",), "parts of the sets for ARM"),
    "kernels/sets.h": (("kernels/*.c",), "parts of the other sets"),
    "kernels/v128.h": (("kernels/*.c",), "parts of the sets of 128 bits"),
}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
# In the first column: a type, a name, parameters, then a body or a semicolon.
TEST_HEAD = re.compile(r"^()TEST\((\w+)\)\s*(\{)", re.M)
FUNCTION_HEAD = re.compile(
    r"^(?!typedef|struct\s+\w+\s*\{|enum|#|return|else)[A-Za-z_][\w\s*]*?[\s*](\w+)\s*"
    r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\s*(?:QSF_\w+(?:\([^()]*\))?\s*)?([{;])", re.M)
WORDS = {"if", "for", "while", "switch", "return", "sizeof", "defined", "__attribute__"}


def blank(match):
    """Spaces, and the line breaks that were there."""
    return re.sub(r"[^\n]", " ", match.group(0))


def bare(text):
    """A C file without comments, strings and directives; every line is still where it was."""
    text = COMMENT.sub(blank, text)
    text = STRING.sub(blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", blank, text, flags=re.M)


def functions(text):
    """(name, first line, last line or 0 for a declaration, whether it is static) of a C file, whose functions
    begin in the first column and end with a brace there, or in one line."""
    flat = bare(text)
    for m in (*FUNCTION_HEAD.finditer(flat), *TEST_HEAD.finditer(flat)):
        name = m.group(1) or m.group(2)
        if name in WORDS:
            continue
        first, last = flat.count("\n", 0, m.start()) + 1, 0
        if m.group(3) == "{":
            line = flat[m.end():flat.index("\n", m.end())]
            end = m.end() if line.rstrip().endswith("}") else flat.index("\n}", m.end()) + 1
            last = flat.count("\n", 0, end) + 1
        yield name, first, last, bool(re.match(r"(?:QSF_\w+\s+)?(?:static|inline)\b", m.group(0)))


def files():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS and path.is_file() and "node_modules" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path
    for name in ("CMakeLists.txt", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "test"):
        yield name, ROOT / name


def own(header, path):
    """Whether what the header declares may be defined in that file."""
    stem = header.removesuffix(".h").removesuffix("_own")
    if path == stem + ".c" or (path.startswith(stem + "_") and path.endswith(".c")):
        return True
    return any(pathlib.PurePath(path).match(pattern) for pattern in GROUPS.get(header, ((), ""))[0])


def main():
    bad, defined, declared, seen = [], {}, [], set()
    for name, path in files():
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > FILE:
            seen.add(name)
            if name not in LONG_FILES:
                bad.append(f"{name}: {lines} lines, {FILE} are possible; part it by subject")
        if path.suffix not in (".c", ".h"):
            continue
        for function, first, last, static in functions(text):
            length = last - first + 1
            if length > FUNCTION:
                seen.add(f"{name}:{function}")
                if f"{name}:{function}" not in LONG_FUNCTIONS:
                    bad.append(f"{name}:{first}: {function} has {length} lines, {FUNCTION} are possible")
            if last and not static:
                defined.setdefault(function, set()).add(name)
            elif not last and name.endswith(".h"):
                declared.append((name, first, function))
    for header, line, function in declared:
        if not header.startswith(("core/", "cli/", "convert/", "kernels/", "serve/")):
            continue
        where = {d for d in defined.get(function, ()) if not d.startswith("tests/")}
        strange = sorted(d for d in where if not own(header, d))
        if not where:
            bad.append(f"{header}:{line}: {function} is defined nowhere")
        elif header in GROUPS:
            seen.add(header)
        if strange:
            bad.append(f"{header}:{line}: {function} is defined in {', '.join(strange)}: declare it in that "
                       "file's header")
    for name in sorted({*LONG_FILES, *LONG_FUNCTIONS, *GROUPS} - seen):
        bad.append(f"tests/tree/shape_test.py: {name} is no exception any more; take it off the list")
    if bad:
        sys.exit("\n".join(bad))
    print("ok")


if __name__ == "__main__":
    main()
