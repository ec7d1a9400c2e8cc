#!/usr/bin/env python3
"""Lines have at most 110 columns, comments of their own at most 100, in every file of the repository.
SPDX-License-Identifier: MIT

    lines_test.py        checks
"""
import ast, pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE, COMMENT = 110, 100
KINDS = {".c", ".h", ".cpp", ".js", ".mjs", ".ts", ".py", ".sh", ".cmake", ".html", ".css", ".yml"}
NAMES = {"CMakeLists.txt", "test", "run"}
# Files that are left out, each with a reason.
LEFT_OUT = {
    "core/base/crc_table.h": "tools/make_crc_table.py writes it",
    "tests/golden/types_golden.h": "tests/golden/make_types.py writes it",
    "tests/golden/i2s_golden.h": "tests/golden/make_i2s.py writes it",
}
# Lines that are left out: what has no place to break at.
UNBROKEN = re.compile(r"://|--hash=sha256:")
SLASHES = {".c", ".h", ".cpp", ".js", ".mjs", ".ts"}        # // and /* */
HASHES = {".py", ".sh", ".cmake", ".yml", ""}       # #
STARS = SLASHES | {".css"}                          # /* */


def texts(source):
    """Lines of Python that lie inside a string of several lines, which is data, and no docstring."""
    tree, lines = ast.parse(source), set()
    docs = {id(n.body[0].value) for n in ast.walk(tree)
            if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(n.body[0], ast.Expr)}
    for n in ast.walk(tree):
        if isinstance(n, (ast.JoinedStr, ast.Constant)) and id(n) not in docs and n.end_lineno > n.lineno:
            rows = source.splitlines()[n.lineno - 1:n.end_lineno]
            if '"""' in rows[0] or "'''" in rows[0]:
                lines |= set(range(n.lineno, n.end_lineno + 1))
    return lines


def wrong_lines(path, source):
    kind = "" if path.name in NAMES else path.suffix
    left_out = texts(source) if kind == ".py" else ()
    in_comment = False
    for number, line in enumerate(source.splitlines(), 1):
        start = line.lstrip()
        own = in_comment or kind in STARS and start.startswith("/*")
        in_comment = own and "*/" not in line
        own |= kind in SLASHES and start.startswith("//") or kind in HASHES and start.startswith("#")
        most = COMMENT if own else LINE
        if len(line) > most and number not in left_out and not UNBROKEN.search(line):
            yield f"{path.relative_to(ROOT).as_posix()}:{number}: {len(line)} columns, {most} are possible"


def main():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    wrong, files = [], 0
    for name in tracked.stdout.splitlines():
        path = ROOT / name
        if name in LEFT_OUT or path.suffix not in KINDS and path.name not in NAMES or not path.is_file():
            continue
        files += 1
        wrong += wrong_lines(path, path.read_text(encoding="utf-8"))
    for line in wrong:
        print(line)
    print(f"{len(wrong)} lines of {files} files are too long")
    if files < 400:
        sys.exit(f"only {files} files: something is missing")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
