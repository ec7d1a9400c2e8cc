#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills qsf-convert at any point of its output: it leaves the old file or no file, never part of the new one.

    convert_atomic.py QSF_CONVERT [ROUNDS]

Also: Ctrl-C ends with 130 and leaves no temporary files, and the exit codes of wrong inputs.
"""
import hashlib, os, pathlib, signal, subprocess, sys, tempfile, time
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from random_gguf import make_model

program, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL:", what)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def start(source, out, *options, slower=0):
    """slower: it has that much less of a busy machine than this script, which is to see how far it is."""
    return subprocess.Popen([program, "-q", "-t", "2", *options, str(source), str(out)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            preexec_fn=lambda: os.nice(slower))


def written(p, out, finished=False):
    """Bytes that p has written next to out, or None; finished: of the file that is still to be measured."""
    for path in out.parent.glob(f"{out.name}.{p.pid}-*"):
        try:
            if path.suffix == ".unmeasured" or not finished: return path.stat().st_size
        except FileNotFoundError: pass


def stop_at(size, number, source, out, *options, finished=False, slower=0):
    """Starts a conversion and sends the signal when `size` bytes are written: (exit code, whether it had
    ended before)."""
    p = start(source, out, *options, slower=slower)
    while p.poll() is None:
        if (at := written(p, out, finished)) is not None and at >= size: break
        time.sleep(0.0005)
    p.send_signal(number)
    p.wait()
    return p.returncode, p.returncode == 0


def stopped_at(size, number, source, out, *options, finished=False):
    """The same until the signal came before the end: a busy machine may hold this script up."""
    for slower in range(20):
        out.write_bytes(old_bytes)
        code, ended = stop_at(size, number, source, out, *options, finished=finished, slower=slower)
        if not ended: return code
    check(False, f"{options}: every conversion ended before signal {number}")


def run(*arguments):
    p = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return p.returncode, p.stderr


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    source, out = folder / "model.gguf", folder / "out.qsf"
    make_model(source, layers=2)

    check(start(source, out).wait() == 0, "a plain conversion")
    size, whole = out.stat().st_size, digest(out)
    check(run("--verify", out)[0] == 0, "the plain conversion's file verifies")

    old_bytes = b"what was here before"
    seen = {"old": 0, "none": 0, "new": 0}
    for i in range(rounds):
        there = i % 2
        for slower in range(20 if i < 2 else 1):        # the first two have to be in time
            out.unlink(missing_ok=True)
            if there: out.write_bytes(old_bytes)
            # from the first byte to the last
            stop_at(size * i // (rounds - 1), signal.SIGKILL, source, out, slower=slower)
            if digest(out) != whole: break
        got = digest(out)
        if got == whole: seen["new"] += 1
        elif there:
            check(out.exists() and out.read_bytes() == old_bytes,
                  f"round {i}: neither the old file nor the new one")
            seen["old"] += 1
        else: check(got is None, f"round {i}: something that is not the new file"); seen["none"] += 1
        check(len(list(folder.glob("out.qsf.*"))) <= 1, f"round {i}: what the round before left is gone")
    check(run("-q", source, out)[0] == 0 and not list(folder.glob("out.qsf.*")),
          "a run removes what a kill has left")
    print(f"killed {rounds} times: {seen}")
    check(seen["old"] and seen["none"], "no kill came in time")

    for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
        for part in (0, 0.4):
            code = stopped_at(part * size, number, source, out, "--quant-type", "mixed")
            check(code == 130, f"{name} ends with 130, not {code}")
            check(out.read_bytes() == old_bytes, f"{name} leaves the old file")
            check(not list(folder.glob("out.qsf.*")), f"{name} leaves nothing behind")

    # every option that changes the bytes gives a file that verifies, and the same one again
    for options in (["--compress", "lz4"], ["--compress", "zstd"], ["--packing", "0"],
                    ["--quant-type", "ternary"],
                    ["--quant-type", "mixed"], ["--target-size", "5"]):
        a, b = folder / "a.qsf", folder / "b.qsf"
        code, err = run("-q", "-t", "1", *options, source, a)
        if code == 3 and "build" in err: continue                        # a library that this build lacks
        check(code == 0, f"{options}: {err}")
        check(run("-q", "-t", "3", *options, source, b)[0] == 0 and digest(a) == digest(b),
              f"{options}: the same file for any number of threads")
        check(run("--verify", a)[0] == 0, f"{options}: verifies")
        check(run("--info", a)[0] == 0, f"{options}: has an --info")
        if "--target-size" in options: check(a.stat().st_size <= 5e6, "the target size is kept")

    # measured in the same run, or later: the same file, and nothing else stays
    text, a, b = folder / "text", folder / "a.qsf", folder / "b.qsf"
    text.write_text(" ".join(str(i * i) for i in range(200)))
    plain = folder / "plain.qsf"
    check(run("-q", source, plain)[0] == 0, "a plain conversion once more")
    for options in ([plain, b], [source, a]):
        code, err = run("-q", "--calibration", text, *options)
        check(code == 0, f"--calibration {options}: {err}")
    check(digest(a) == digest(b) != digest(plain) and not list(folder.glob("*.tmp")),
          "calibrating now or later gives the same file")

    # interrupted or killed while it converts or measures: as without measuring, and what a kill
    # leaves is gone after the next run
    measured = digest(a)
    INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
    for at, finished, number in ((size // 2, False, INT), (0, True, TERM), (0, True, KILL)):
        code = stopped_at(at, number, source, a, "--calibration", text, finished=finished)
        check(a.read_bytes() == old_bytes, f"{number} while calibrating leaves the old file")
        check(number == KILL or (code == 130 and not list(folder.glob("a.qsf.*"))),
              f"{number} while calibrating leaves nothing behind")
    check(start(source, a, "--calibration", text).wait() == 0 and digest(a) == measured
          and not list(folder.glob("a.qsf.*")), "the next run removes what a kill has left")

    damaged = bytearray(out.read_bytes() if digest(out) == whole
                        else (run("-q", source, out), out.read_bytes())[1])
    damaged[len(damaged) // 2] ^= 4
    (folder / "damaged.qsf").write_bytes(damaged)
    for arguments, code, says in (
            ([], 2, "usage"), (["--quant-type", "5bit", source, out], 2, "quant-type"),
            (["--tensor", "x", source, out], 2, "PATTERN=TYPE"),
            (["--tensor", "nothing=8bit", source, out], 2, "nothing"),
            (["-q", "--calibration", folder / "missing.txt", source, out], 5, "missing.txt"),
            (["--verify", folder / "damaged.qsf"], 3, "damaged"),
            (["-q", folder / "damaged.qsf", out], 3, "damaged"),
            (["-q", folder / "missing.gguf", out], 5, "missing"),
            (["-q", source, folder / "no" / "such" / "out.qsf"], 5, "out.qsf"),
            (["-q", "--ram", "1", source, out], 4, "--ram"),
            (["-q", "--target-size", "1", source, out], 2, "smallest")):
        got, err = run(*arguments)
        check(got == code and says in err, f"{arguments}: exit {got} (not {code}), {err.strip()!r}")

print("ok" if not failures else f"{failures} failed")
sys.exit(failures > 0)
