#!/usr/bin/env python3
"""The example in docs/embedding.md is at most 50 lines, compiles as C and as C++, and answers.
SPDX-License-Identifier: MIT

    docs_test.py CC CXX INCLUDE_DIR LIBQSF [LINK_FLAGS...]
"""
import pathlib, re, subprocess, sys, tempfile

cc, cxx, include, lib, *flags = sys.argv[1:]
here = pathlib.Path(__file__).resolve().parent
page = (here.parent / "docs" / "embedding.md").read_text()
source = re.search(r"```c example\n(.*?)```", page, re.S).group(1)
assert len(source.splitlines()) <= 50, len(source.splitlines())
with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    (work / "example.c").write_text(source)
    (work / "example.cpp").write_text(source)
    for compiler, name in ((cc, "example.c"), (cxx, "example.cpp")):
        subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-I", include, work / name, "-o", work / (name + ".out"), lib, *flags, "-lm", "-lpthread"], check=True)
    subprocess.run([sys.executable, here / "parity" / "make_tiny.py", work, "llama"], check=True, stdout=subprocess.DEVNULL)
    model = next(work.glob("*.gguf"))
    for name in ("example.c.out", "example.cpp.out"):
        r = subprocess.run([work / name, model, "Hello"], capture_output=True)
        assert r.returncode == 0 and len(r.stdout) > 1, (name, r)
    missing = subprocess.run([work / "example.c.out", work / "none.gguf", "Hello"], capture_output=True)
    assert missing.returncode == 1 and b"none.gguf" in missing.stderr, missing
print("ok")
