#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Effort 4 by the command line: what is tuned, and what an interruption keeps.

    convert_tune_test.py QSF_CONVERT

The same command gives the same file with one thread or two, and when it was interrupted in between; its
progress is in a file next to the calibration file, and is resumed and then deleted.  A damaged one is refused
or begun anew, never used.
"""
import json, os, pathlib, signal, subprocess, sys, tempfile, time
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import make_hf_tiny

convert = os.path.abspath(sys.argv[1])
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL:", what)


def command(out, *more):
    return [convert, "--calibrate", "text", "--calibration-file", "kept.cal", "--tensor", "*=trellis3", *more,
            "hf", out]


def run(out, *more):
    p = subprocess.run(command(out, "-q", *more), capture_output=True, text=True, timeout=300)
    check(p.returncode == 0, f"{out}: exit {p.returncode}: {p.stderr.strip()}")
    return pathlib.Path(out).read_bytes() if p.returncode == 0 else b""


def interrupted(out, progress, *more):
    """Stops when the first steps have been kept; its exit code.  If it was over before the signal came, it
    runs again, and has less of a busy machine than this script."""
    for slower in range(20):
        p = subprocess.Popen(command(out, "-q", *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             preexec_fn=lambda: os.nice(slower))
        while not progress.exists() and p.poll() is None: time.sleep(0.002)
        p.send_signal(signal.SIGINT)
        if p.wait(timeout=300): break
        pathlib.Path(out).unlink()
    return p.returncode


with tempfile.TemporaryDirectory() as name:
    os.chdir(name)
    make_hf_tiny.write(pathlib.Path("."), "hf",
                       next(c for n, c in make_hf_tiny.good_cases() if n == "llama-bias-shards").files)
    pathlib.Path("text").write_text(" ".join(str(i * i) for i in range(400)))
    progress = pathlib.Path("kept.cal.tune")
    steps = ["--effort", "4", "--tune-steps", "40"]

    plain = run("plain.qsf", "--effort", "3")
    tuned = run("tuned.qsf", *steps, "--json", "tuned.json")
    check(len(tuned) <= len(plain), "tuning costs no byte")
    check(tuned != plain, "and changes some")
    check(run("one.qsf", *steps, "-t", "1") == run("two.qsf", *steps, "-t", "2") == tuned,
          "the number of threads changes nothing")
    check(not progress.exists(), "a finished tuning keeps no progress")
    check(json.loads(pathlib.Path("tuned.json").read_text())["file_bytes"] == len(tuned), "the report's size")

    many = ["--effort", "4", "--tune-steps", "200"]
    whole = run("whole.qsf", *many)
    code = interrupted("parts.qsf", progress, *many)
    check(code == 130, f"interrupted: exit {code}")
    check(progress.exists() and not pathlib.Path("parts.qsf").exists(), "keeps progress, and no output")
    kept = progress.read_bytes() if progress.exists() else b""
    check(run("parts.qsf", *many) == whole, "goes on to the same file")
    check(not progress.exists(), "and clears the progress away")
    for at in (4, len(kept) // 2, len(kept) - 1) if kept else ():
        progress.write_bytes(kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1:])
        p = subprocess.run(command("parts.qsf", "-q", *many), capture_output=True, text=True, timeout=300)
        check(p.returncode == 3 or pathlib.Path("parts.qsf").read_bytes() == whole,
              f"progress with a damaged byte {at}: exit {p.returncode}, {p.stderr.strip()}")
    left = sorted(p.name for p in pathlib.Path(".").glob("*.unmeasured*"))
    check(not left, f"left behind: {left}")

print("failed" if failures else "ok")
sys.exit(failures > 0)
