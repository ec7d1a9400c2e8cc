#!/usr/bin/env python3
"""The Python package's wheel for another system, around a library and a program that were cross-compiled:
its tag, its files, its size and the functions of its library.  With a Python of that system it is installed
and answers as that system's qsf-run does.
SPDX-License-Identifier: MIT

    wheel_foreign_test.py LIBQSF_PYTHON QSF_PYTHON TAG TOOLCHAIN WORK [FOLDER QSF_RUN EMULATOR...]

TAG is a pattern of the wheel's platform, and TOOLCHAIN the file for CMake with which both were built.
FOLDER is that of tools/get-python.sh.  Without it the library is not loaded: docs/python.md describes how
that was tried under Wine.
"""
import importlib.util, pathlib, re, shutil, subprocess, sys, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIBRARY, PROGRAM = (pathlib.Path(one).resolve() for one in sys.argv[1:3])
TAG, TOOLCHAIN, WORK = sys.argv[3], pathlib.Path(sys.argv[4]).resolve(), pathlib.Path(sys.argv[5]).resolve()
if not importlib.util.find_spec("scikit_build_core"):
    print("skip: this Python has no scikit_build_core (tests/requirements.txt)")
    sys.exit(77)
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "tools"), str(ROOT / "tests" / "parity")]
import make_wheel

SCRIPT = """
import platform, sys, qsf
from qsf.llama_cpp import Llama
with qsf.load("tiny.gguf", threads=2) as model:
    raw = model.generate("Once", temperature=0, max_tokens=24, ignore_end=True)
with qsf.load("hello.gguf", threads=2) as model:
    asked = {"temperature": 0, "template": "chatml"}
    whole, pieces = model.chat("Hi", **asked), list(model.chat("Hi", stream=True, **asked))
    try:
        model.generate("x", top_p="y")
    except qsf.ArgumentError as error:
        wrong = error.code
print(platform.machine(), [whole.text, [str(piece) for piece in pieces], wrong], raw.text, sep="\\n", end="")
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, cwd=WORK)
    assert done.returncode == 0, f"{command}:\n{done.stdout.decode()}{done.stderr.decode()}"
    return done.stdout.decode("utf-8", "replace")


def installed_wheel_answers(wheel, python, qsf_run, *emulator):
    import make_script, make_tiny
    make_script.write(WORK / "hello.gguf", ["Hello", " world."])
    run(sys.executable, make_tiny.__file__, WORK / "tiny", "llama")
    shutil.copy(next((WORK / "tiny").glob("*.gguf")), WORK / "tiny.gguf")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(WORK / "site")
    (WORK / "script.py").write_text(SCRIPT)
    program = [*emulator, "-L", python, "-E", f"PYTHONPATH={WORK / 'site'}", f"{python}/usr/bin/python3"]
    machine, chat, raw = run(*program, "-B", "script.py").split("\n", 2)
    assert machine in wheel.name, (machine, wheel.name)
    assert chat == str(["Hello world.", ["Hello", " world.", ""], "ARGUMENT"]), chat
    wanted = run(*emulator, qsf_run, "-m", "tiny.gguf", "-p", "Once", "--raw", "--temp", 0, "-n", 24,
                 "--ignore-eos")
    assert raw.strip() and raw.strip() == wanted.strip(), f"the package answers {raw!r}, qsf-run {wanted!r}"


shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
made = subprocess.run(
    [sys.executable, ROOT / "tools" / "make_wheel.py", WORK, "--library", LIBRARY, "--program", PROGRAM,
     "--offline", "-D", f"CMAKE_TOOLCHAIN_FILE={TOOLCHAIN}"], capture_output=True, text=True)
assert made.returncode == 0, made.stdout + made.stderr
wheels = list(WORK.glob("*.whl"))
assert len(wheels) == 1 and re.fullmatch(f".*-py3-none-({TAG})", wheels[0].stem), wheels
assert "not for other systems" not in made.stderr, made.stderr
with zipfile.ZipFile(wheels[0]) as archive:
    names = archive.namelist()
    wheel = archive.read(next(name for name in names if name.endswith(".dist-info/WHEEL"))).decode()
    bytes_ = sum(one.compress_size for one in archive.infolist())
platform = wheels[0].stem.rsplit("-", 1)[1]
windows = platform.startswith("win")
assert f"Tag: py3-none-{platform}\n" in wheel, wheel
native = {"qsf/qsf_flat.dll", "qsf/bin/qsf.exe"} if windows else {"qsf/libqsf_flat.so", "qsf/bin/qsf"}
assert native | {"qsf/_abi.py"} <= set(names), names
assert bytes_ < 6e6, f"the wheel has {bytes_} bytes"

# The functions that cffi finds by name.
abi = (ROOT / "bindings" / "python" / "qsf" / "_abi.py").read_text()
exported = make_wheel.objdump(make_wheel.machine_of(LIBRARY.read_bytes()), LIBRARY, "-p" if windows else "-T")
for function in ("qsf_version", "qsf_flat_step", "qsf_python_run", "qsf_python_find", "qsf_convert_run"):
    assert function in abi and re.search(rf"\b{function}$", exported, re.M), f"{function} is not exported"
if len(sys.argv) > 6:
    installed_wheel_answers(wheels[0], *sys.argv[6:])
print("ok")
