#!/usr/bin/env python3
"""Builds a wheel of the Python package, and names the systems that it runs on by what its library needs.
SPDX-License-Identifier: MIT

    make_wheel.py OUT [--library LIBQSF_PYTHON [--program QSF_PYTHON]] [--offline] [-D NAME=VALUE]...
    make_wheel.py OUT -D CMAKE_TOOLCHAIN_FILE=$PWD/cmake/toolchains/aarch64-linux.cmake
    make_wheel.py OUT -D CMAKE_TOOLCHAIN_FILE=$PWD/cmake/toolchains/mingw64.cmake -D QSF_STATIC=ON

OUT is a folder.  --library, --program: what CMake builds as qsf_python_shared and qsf_python_programs, if
it was built before; otherwise CMake builds both, with what -D sets.  --offline: nothing is downloaded; this
Python has scikit-build-core.

The tag is manylinux_2_N if library and program need the GNU C library 2.N and nothing else of the system
(PEP 600); N depends on the machine that built them.  If they need other libraries, the tag stays that of
their machine, and the script names them.  Libraries of Windows get win_amd64.
"""
import argparse, base64, hashlib, pathlib, re, shutil, subprocess, sys, tempfile, zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MACHINES = {62: "x86_64", 183: "aarch64"}         # ELF's numbers
# What every Windows 10 has.
OF_WINDOWS = re.compile(r"(?i)(kernel32|advapi32|user32|shell32|ws2_32|iphlpapi|bcrypt|ntdll|msvcrt|ucrtbase|"
                        r"api-ms-win-(core|crt)-[-a-z]+-l\d-\d-\d)\.dll")
# What every system with the GNU C library has.
OF_GLIBC = re.compile(r"(libc|libm|libpthread|libdl|librt)\.so\.\d+|ld-linux[-\w]*\.so\.\d+")


def needs(objdump):
    """What a library or program needs, from the output of objdump -p: other libraries, and the version of
    the GNU C library.  A static program needs nothing."""
    libraries = re.findall(r"NEEDED\s+(\S+)", objdump)
    versions = [tuple(map(int, found.split("."))) for found in re.findall(r"\bGLIBC_([\d.]+)", objdump)]
    if not libraries and ("Program Header:" not in objdump or "Dynamic Section:" in objdump):
        sys.exit("objdump -p does not list what the library needs; is it one for another machine's programs?")
    others = [name for name in libraries if not OF_GLIBC.fullmatch(name)]
    return others, max((version[:2] for version in versions), default=(2, 5))


def needs_of_windows(said):
    """The libraries that not every Windows has."""
    libraries = re.findall(r"DLL Name: (\S+)", said)
    if not libraries:
        sys.exit("objdump -p does not list what the library needs; is it one for another machine's programs?")
    return [name for name in libraries if not OF_WINDOWS.fullmatch(name)]


def machine_of(library):
    """What a library runs on, from its header: also if it was compiled on another machine."""
    header = int.from_bytes(library[60:64], "little")
    if library[:2] == b"MZ" and library[header : header + 6] == b"PE\0\0\x64\x86":
        return "win_amd64"
    number = int.from_bytes(library[18:20], "little")
    if library[:4] != b"\x7fELF" or number not in MACHINES:
        sys.exit(f"a native file is neither for {' nor for '.join(MACHINES.values())} nor for Windows x64")
    return MACHINES[number]


def objdump(machine, path, what="-p"):
    """What the machine's objdump says of a file: another one may know one machine alone."""
    prefix = "x86_64-w64-mingw32" if machine == "win_amd64" else f"{machine}-linux-gnu"
    program = shutil.which(f"{prefix}-objdump") or "objdump"
    return subprocess.run([program, what, path], check=True, capture_output=True, text=True).stdout


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def retagged(wheel, tag):
    """The same wheel with another platform's tag; removes the old one."""
    new = wheel.with_name(re.sub(r"-[^-]+\.whl$", f"-{tag}.whl", wheel.name))
    rows = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(new, "w") as made:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(".dist-info/RECORD"):
                record = info
                continue
            if info.filename.endswith(".dist-info/WHEEL"):
                data = re.sub(rb"(?m)^(Tag: py3-none-).*$", rb"\g<1>" + tag.encode(), data)
            made.writestr(info, data, zipfile.ZIP_DEFLATED, 9)
            rows.append(f"{info.filename},{digest(data)},{len(data)}\n")
        made.writestr(record, "".join(rows) + f"{record.filename},,\n", zipfile.ZIP_DEFLATED, 9)
    wheel.unlink()
    return new


def tag_of(wheel):
    """The tag of a wheel for Linux or Windows, by what its native files need."""
    others, version, machines = set(), (2, 5), set()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith((".so", ".dll")) or name.startswith("qsf/bin/"):
                path = archive.extract(name, folder)
                machine = machine_of(pathlib.Path(path).read_bytes())
                machines.add(machine)
                if machine == "win_amd64":
                    found, needed = needs_of_windows(objdump(machine, path)), version
                else:
                    found, needed = needs(objdump(machine, path))
                others.update(found)
                version = max(version, needed)
    if len(machines) != 1:
        sys.exit(f"{wheel}: the native files are for {', '.join(sorted(machines)) or 'no machine'}")
    if others:
        print(f"not for other systems: it needs {', '.join(sorted(others))}", file=sys.stderr)
        return machine if machine == "win_amd64" else f"linux_{machine}"
    if machine == "win_amd64":
        return machine
    return f"manylinux_{version[0]}_{version[1]}_{machine}"


def build(options):
    """pip's wheel, in options.out."""
    settings = [f"cmake.define.{one}" for one in options.define]
    if options.library:
        settings.append(f"cmake.define.QSF_FLAT_LIBRARY={pathlib.Path(options.library).resolve()}")
    if options.program:
        settings.append(f"cmake.define.QSF_PROGRAM={pathlib.Path(options.program).resolve()}")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(options.out)]
    command += [part for one in settings for part in ("-C", one)]
    if options.offline:
        command += ["--no-index", "--no-build-isolation"]
    before = set(options.out.glob("*.whl"))
    subprocess.run([*command, str(ROOT / "bindings" / "python")], check=True)
    made = set(options.out.glob("*.whl"))
    return max(made - before or made, key=lambda path: path.stat().st_mtime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--library")
    parser.add_argument("--program")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wheel = build(options)
    if re.search(r"-linux_\w+\.whl$", wheel.name):
        tag = tag_of(wheel)
        if not wheel.name.endswith(f"-{tag}.whl"):
            wheel = retagged(wheel, tag)
    print(wheel)


if __name__ == "__main__":
    main()
