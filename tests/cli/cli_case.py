"""What the tests of qsf-run share: the program, a tiny model, and how to run one with the other.
SPDX-License-Identifier: MIT

A test takes the program as its first argument.  Needs the requirements of tests/parity/make_tiny.py
(numpy, gguf).
"""
import os, pathlib, subprocess, sys, tempfile, unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS.parent / "tools"))

QSF_RUN = sys.argv.pop(1)
SANITIZED = any(name in pathlib.Path(QSF_RUN).read_bytes() for name in (b"__asan_init", b"__tsan_init"))
WORK = tempfile.TemporaryDirectory()
subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
               stdout=subprocess.DEVNULL)
MODEL = str(next(pathlib.Path(WORK.name).glob("*.gguf")))


def run(*args, stdin=b"", env=None, timeout=120):
    full = {**{k: v for k, v in os.environ.items() if not k.startswith("QSF_")}, **(env or {})}
    return subprocess.run([QSF_RUN, *map(str, args)], input=stdin, capture_output=True, env=full,
                          timeout=timeout)


def needs_directories(said):
    """What the converter said: a build without yyjson reads no directories, and skips the test."""
    if b"needs a build with yyjson" in said: raise unittest.SkipTest("this build reads no directories")
