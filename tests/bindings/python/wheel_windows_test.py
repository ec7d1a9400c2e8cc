#!/usr/bin/env python3
"""The Python package's wheel for Windows, around a library and a program that were cross-compiled.
SPDX-License-Identifier: MIT

    wheel_windows_test.py LIBQSF_PYTHON.DLL QSF_PYTHON.EXE TOOLCHAIN WORK

TOOLCHAIN is the file for CMake with which they were built. Whether Python can load the library is not tested
here: docs/python.md says how that was tried.
"""
import importlib.util, pathlib, shutil, subprocess, sys, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIBRARY, PROGRAM, TOOLCHAIN, WORK = (pathlib.Path(one).resolve() for one in sys.argv[1:])
if not importlib.util.find_spec("scikit_build_core"):
    print("skip: this Python has no scikit_build_core (tests/requirements.txt)")
    sys.exit(77)
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bindings" / "python")]
import make_wheel

shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
made = subprocess.run(
    [sys.executable, ROOT / "tools" / "make_wheel.py", WORK, "--library", LIBRARY, "--program", PROGRAM,
     "--offline", "-D", f"CMAKE_TOOLCHAIN_FILE={TOOLCHAIN}"], capture_output=True, text=True)
assert made.returncode == 0, made.stdout + made.stderr
wheels = list(WORK.glob("*.whl"))
assert len(wheels) == 1 and wheels[0].name.endswith("-py3-none-win_amd64.whl"), wheels
assert "not for other systems" not in made.stderr, made.stderr
with zipfile.ZipFile(wheels[0]) as archive:
    names = archive.namelist()
    wheel = archive.read(next(name for name in names if name.endswith(".dist-info/WHEEL"))).decode()
    bytes_ = sum(one.compress_size for one in archive.infolist())
assert "Tag: py3-none-win_amd64\n" in wheel, wheel
assert {"qsf/qsf_flat.dll", "qsf/bin/qsf.exe", "qsf/_abi.py"} <= set(names), names
assert bytes_ < 6e6, f"the wheel has {bytes_} bytes"

# The functions that cffi finds by name.
abi = (ROOT / "bindings" / "python" / "qsf" / "_abi.py").read_text()
exported = make_wheel.objdump("win_amd64", LIBRARY)
for function in ("qsf_version", "qsf_flat_step", "qsf_python_run", "qsf_python_find", "qsf_convert_run"):
    assert function in abi and f"] {function}\n" in exported, f"{function} is not exported"
print("ok")
