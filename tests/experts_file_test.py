#!/usr/bin/env python3
"""A file of 200 MB with 384 experts in a tenth of that: tokens as with all in memory by every way of reading,
the memory promise, and bytes read as the experts that were read say.
SPDX-License-Identifier: MIT

    experts_file_test.py QSF_RUN WORK
"""
import json, pathlib, re, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bench"))
import make_moe_gguf, memory

BUDGET, OWN = 20, memory.OWN            # MB
EXPERT = 2 * 512 * 288 + 512 * 420      # bytes: gate and up in Q4_K, down in Q6_K


def run(program, model, budget, io):
    r = subprocess.run([program, model, "--raw", "--json", "-p", "t1 t2 44 t9 123 t0 3 2 t8", "-n", "24",
                        "-t", "2", "-c", "64", "--temp", "0", "--draft", "0", "--verbose", "--io", io,
                        *(["--ram-budget", str(budget)] if budget else [])], capture_output=True, text=True)
    if r.returncode: sys.exit(f"experts_file_test.py: {budget} MB by {io}: {r.stderr}")
    return r.stdout, r.stderr


def main(program, work):
    model = pathlib.Path(work) / "experts_file_test.gguf"
    sizes = ["--layers", "6", "--embd", "512", "--ff", "512"]
    make_moe_gguf.make_moe(model, make_moe_gguf.options([str(model), *sizes]))
    try:
        want, err = run(program, model, 0, "auto")
        want = json.loads(want)["ids"]
        assert "experts  " not in err, err
        for io in ("auto", "pread") + (("mmap",) if sys.platform.startswith("linux") else ()):
            out, err = run(program, model, BUDGET, io)
            assert json.loads(out)["ids"] == want, (io, out, want)
            used, found, read, mb = re.search(r"experts +(\d+) chosen by batches, ([0-9.]+) % of them in "
                                              r"memory; (\d+) read, ([0-9.]+) MB", err).groups()
            assert abs(int(read) * EXPERT / 1e6 - float(mb)) < 0.1, err
            assert abs(int(used) * (1 - float(found) / 100) - int(read)) <= int(used) / 1000 + 1, err
            all_read = float(re.search(r"layers +([0-9.]+) MB read", err)[1])
            assert float(mb) <= all_read < float(mb) + 8, err       # all else is read once
            most = re.search(r"resident [0-9.]+ MB now, ([0-9.]+) MB at most", err)
            assert not most or float(most[1]) <= BUDGET + OWN, err
            print(f"{io}: {used} chosen, {found} % found, {mb} MB read")
    finally:
        model.unlink()
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
