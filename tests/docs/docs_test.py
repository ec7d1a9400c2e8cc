#!/usr/bin/env python3
"""The program in docs/library.md and those in examples/ compile without a warning and do what they say.
SPDX-License-Identifier: MIT

    docs_test.py CC CXX INCLUDE_DIR LIBQSF [LINK_FLAGS...]
"""
import pathlib
import re
import subprocess
import sys
import tempfile

CC, CXX, INCLUDE, LIBRARY, *FLAGS = sys.argv[1:]
TESTS = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = TESTS.parent / "examples"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def compiled(compiler, source, *options):
    program = source.parent / (source.name + ".out")
    command = [compiler, *options, *WARNINGS, "-O1", "-I", INCLUDE, source, "-o", program, LIBRARY, *FLAGS]
    subprocess.run([*command, "-lm", "-lpthread"], check=True)
    return program


def run(*command, code=0, stdin=b""):
    r = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
    assert r.returncode == code, (command, r)
    return r


def embedding(work, model):
    """At most 50 lines, as C and as C++."""
    page = (TESTS.parent / "docs" / "library.md").read_text()
    source = re.search(r"```c example\n(.*?)```", page, re.S).group(1)
    assert len(source.splitlines()) <= 50, len(source.splitlines())
    for compiler, name in ((CC, "example.c"), (CXX, "example.cpp")):
        (work / name).write_text(source)
        program = compiled(compiler, work / name)
        assert len(run(program, model, "Hello").stdout) > 1
    missing = run(work / "example.c.out", work / "none.gguf", "Hello", code=1)
    assert b"none.gguf" in missing.stderr, missing


def example(work, name):
    source = EXAMPLES / f"{name}.c"
    lines = source.read_text().splitlines()
    assert len(lines) <= 120, (name, len(lines))
    (work / source.name).write_text("\n".join(lines) + "\n")
    return compiled(CC, work / source.name, "-std=c11")


def chat(program, work, model):
    r = run(program, model, stdin=b"Hello\nAnd again\n")
    assert len(r.stdout.splitlines()) >= 2, r
    assert b"none.gguf" in run(program, work / "none.gguf", code=1).stderr


def event_loop(program, work, model):
    ended = run(program, model, "Hello")
    done = re.search(rb"done: (\d+) steps", ended.stderr)
    assert done and int(done[1]) > 4, ended  # embedding, layers and head of several tokens
    small = run(program, model, "Hello", "0", code=0)
    assert b"done" in small.stderr, small
    stopped = run(program, model, "Hello " * 200, stdin=b"stop\n")
    assert b"stopped: " in stopped.stderr, stopped
    assert b"budget" in run(program, model, "Hello", "1", code=1).stderr


def custom_file(program, work, model):
    bytes_ = model.read_bytes()
    (work / "archive").write_bytes(b"x" * 1000 + bytes_ + b"y" * 1000)
    r = run(program, work / "archive", "1000", str(len(bytes_)), "Hello")
    assert len(r.stdout) > 1 and re.search(rb"\d+ bytes were read", r.stderr), r
    assert run(program, work / "archive", "0", str(len(bytes_)), "Hello", code=1).stderr
    assert run(program, work / "archive", "1000", str(len(bytes_) + 2000), "Hello", code=1).stderr


def two_halves(program, work, model):
    r = run(program, model, "Hello")
    assert len(r.stdout) > 1, r
    assert b"none.gguf" in run(program, work / "none.gguf", "Hello", code=1).stderr


def main():
    examples = {"chat": chat, "event_loop": event_loop, "custom_file": custom_file, "two_halves": two_halves}
    assert {p.stem for p in EXAMPLES.glob("*.c")} == set(examples), "every example has a test here"
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        make = [sys.executable, TESTS / "parity" / "make_tiny.py", work, "llama"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        model = next(work.glob("*.gguf"))
        embedding(work, model)
        for name, test in examples.items():
            test(example(work, name), work, model)
    print("ok")


if __name__ == "__main__":
    main()
