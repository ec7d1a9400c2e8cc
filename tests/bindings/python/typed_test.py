#!/usr/bin/env python3
"""The package passes mypy's strict checks, and tells type checkers of its users what is wrong.
SPDX-License-Identifier: MIT

    typed_test.py WORK
"""
import importlib.util, os, pathlib, re, subprocess, sys

ROOT, WORK = pathlib.Path(__file__).resolve().parents[3], pathlib.Path(sys.argv[1])
for needed in ("mypy", "numpy", "cffi"):
    if not importlib.util.find_spec(needed):
        print(f"skip: this Python has no {needed} (tests/requirements.txt)")
        sys.exit(77)
PACKAGE, USE = ROOT / "bindings" / "python", pathlib.Path(__file__).with_name("typed_use.py")


def mypy(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", PACKAGE / "pyproject.toml", "--cache-dir",
         WORK / "mypy", *arguments], cwd=PACKAGE, capture_output=True, text=True,
        env={**os.environ, "MYPYPATH": str(PACKAGE)})
    return done.stdout + done.stderr


said = mypy()
assert said.startswith("Success"), said
said = mypy(USE)
found = set(re.findall(r"^.*typed_use\.py:(\d+): error: .*\[([\w-]+)\]$", said, re.M))
lines = USE.read_text().splitlines()
wanted = {(str(i), line.split("# wrong: ")[1]) for i, line in enumerate(lines, 1) if "# wrong: " in line}
assert found == wanted and len(wanted) == 5, said
print("ok")
