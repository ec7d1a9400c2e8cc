#!/usr/bin/env python3
"""The Python package from its sources to an answer: its wheel is built around a library, installed into a
fresh environment, and answers there as qsf-run does.
SPDX-License-Identifier: MIT

    wheel_test.py LIBQSF_PYTHON QSF_PYTHON QSF_RUN MODELS WORK

LIBQSF_PYTHON and QSF_PYTHON are the library and the program that were built for the package; MODELS has the
models of tools/get-model.sh.
Nothing is downloaded: the package's dependencies are those of the Python that runs this.
"""
import importlib.util, os, pathlib, re, shutil, subprocess, sys, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIBRARY, PROGRAM, QSF_RUN, MODELS, WORK = (pathlib.Path(one).resolve() for one in sys.argv[1:])
for needed in ("cffi", "numpy", "scikit_build_core"):
    if not importlib.util.find_spec(needed):
        print(f"skip: this Python has no {needed} (tests/requirements.txt)")
        sys.exit(77)
MODEL = MODELS / "smollm2-135m-q4_1.gguf"
if not MODEL.exists():
    print(f"skip: {MODEL} is not there (tools/get-model.sh)")
    sys.exit(77)
QUESTION = "What is the capital of France?"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
run(sys.executable, ROOT / "tools" / "make_wheel.py", WORK, "--library", LIBRARY, "--program", PROGRAM,
    "--offline")
wheels = list(WORK.glob("*.whl"))
assert len(wheels) == 1, wheels
with zipfile.ZipFile(wheels[0]) as archive:
    names = set(archive.namelist())
    bytes_ = sum(one.compress_size for one in archive.infolist())
    entries = next(archive.read(name).decode() for name in names if name.endswith("/entry_points.txt"))
own = {f"qsf/{path.name}" for path in (ROOT / "bindings" / "python" / "qsf").iterdir()
       if path.suffix == ".py" or path.name == "py.typed"}
missing = own - names
assert not missing, f"not in the wheel: {missing}"
others = {name for name in names - own if ".dist-info/" not in name}
assert {re.sub(r"\..*", "", name) for name in others} in ({"qsf/libqsf_flat", "qsf/bin/qsf"},
                                                          {"qsf/qsf_flat", "qsf/bin/qsf"}), others
assert "[llm]\nqsf = qsf.llm_plugin" in entries, entries
assert "-py3-none-" in wheels[0].name, f"{wheels[0].name} is for one version of Python"
assert bytes_ < 6e6, f"the wheel has {bytes_} bytes"

# The tag is that of what the library needs.
sys.path.insert(0, str(ROOT / "tools"))
import make_wheel

OBJDUMP = """  NEEDED               libm.so.6
  NEEDED               ld-linux-x86-64.so.2
  required from libm.so.6:
    0x09691a75 0x00 05 GLIBC_2.2.5
    0x069691b9 0x00 04 GLIBC_2.29
"""
ELF = b"\x7fELF" + bytes(12) + b"\x03\0"
assert make_wheel.machine_of(ELF + b"\xb7\0") == "aarch64"
assert make_wheel.machine_of(LIBRARY.read_bytes()) in wheels[0].name, wheels[0].name
assert make_wheel.needs(OBJDUMP) == ([], (2, 29)), make_wheel.needs(OBJDUMP)
assert make_wheel.needs(OBJDUMP + "  NEEDED  liblz4.so.1\n")[0] == ["liblz4.so.1"]
PE = b"MZ" + bytes(58) + (128).to_bytes(4, "little") + bytes(64) + b"PE\0\0\x64\x86"
assert make_wheel.machine_of(PE) == "win_amd64"
DLLS = "\tDLL Name: KERNEL32.dll\n\tDLL Name: api-ms-win-core-synch-l1-2-0.dll\n\tDLL Name: {}\n"
assert make_wheel.needs_of_windows(DLLS.format("msvcrt.dll")) == []
assert make_wheel.needs_of_windows(DLLS.format("libwinpthread-1.dll")) == ["libwinpthread-1.dll"]
if wheels[0].name.endswith("-linux_x86_64.whl"):        # the library that was given needs others
    other = make_wheel.retagged(shutil.copy(wheels[0], WORK / wheels[0].name.replace("qsf-", "qsf-0.")),
                                "manylinux_2_29_x86_64")
    assert other.name.endswith("-py3-none-manylinux_2_29_x86_64.whl"), other
    with zipfile.ZipFile(other) as archive:
        wheel = next(name for name in archive.namelist() if name.endswith("/WHEEL"))
        assert b"Tag: py3-none-manylinux_2_29_x86_64" in archive.read(wheel), archive.read(wheel)

# A fresh environment, with the dependencies of this one.
run(sys.executable, "-m", "venv", "--without-pip", WORK / "venv")
python = next(path for path in (WORK / "venv" / "bin" / "python", WORK / "venv" / "Scripts" / "python.exe")
              if path.exists())
run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheels[0])
site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
here = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_paths()['platlib'])").strip()
(pathlib.Path(site) / "dependencies.pth").write_text(here + "\n")

script = f"""
import pathlib, qsf
assert pathlib.Path(qsf.__file__).is_relative_to({str(WORK)!r}), qsf.__file__
with qsf.load({str(MODEL)!r}, threads=1) as model:
    print(model.chat({QUESTION!r}, temperature=0, max_tokens=24))
"""
answer = run(python, "-c", script).strip()
want = run(QSF_RUN, "-m", MODEL, "-p", QUESTION, "--temp", 0, "-n", 24, "-t", 1).strip()
assert answer == want, f"the package answers {answer!r}, qsf-run {want!r}"

# The programs, which are one: the same answer, and what each says of itself.
answer = run(python, "-m", "qsf", "run", "-m", MODEL, "-p", QUESTION, "--temp", 0, "-n", 24, "-t", 1).strip()
assert answer == want, f"python -m qsf run answers {answer!r}, qsf-run {want!r}"
for program in "run", "convert", "bench", "serve":
    said = run(python, "-m", "qsf", program, "--help")
    assert f"qsf-{program} " in said, said
assert "OWNER/REPO" in run(python, "-m", "qsf", "pull", "--help")

# Its own commands: a reader that leaves, as head does, and bytes that are not text.
reader, writer = os.pipe()
os.close(reader)
done = subprocess.run([python, "-m", "qsf", "info", MODEL], stdout=writer, stderr=subprocess.PIPE)
assert (done.returncode, done.stderr) == (1, b""), done
done = subprocess.run([python, "-m", "qsf", "chat", MODEL, "--max-tokens", "1"], input=b"Hi \xff\n",
                      env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"}, capture_output=True)
assert (done.returncode, done.stderr) == (0, b""), done
print("ok")
