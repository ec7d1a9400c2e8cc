#!/usr/bin/env python3
"""A GGUF file of 200 MB with 384 experts in a tenth of that, and a QSF file of 60 MB with 128 in 12 MB:
tokens as with all in memory by every way of reading, the memory promise, and bytes read as the experts that
were read say.
SPDX-License-Identifier: MIT

    experts_file_test.py QSF_RUN QSF_CONVERT WORK
"""
import json, pathlib, re, subprocess, sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "bench"), str(TESTS / "tools")]
import make_moe_gguf, memory

OWN = memory.OWN                        # MB
SIZES = ["--embd", "512", "--ff", "512"]
GGUF = 2 * 512 * 288 + 512 * 420        # an expert's bytes: gate and up in Q4_K, down in Q6_K
QSF = 3 * 512 * 288                     # all in blocks of 32 with 4 bits, or of 64 with a zero


def run(program, model, budget, io):
    r = subprocess.run([program, model, "--raw", "--json", "-p", "t1 t2 44 t9 123 t0 3 2 t8", "-n", "24",
                        "-t", "2", "-c", "64", "--temp", "0", "--draft", "0", "--verbose", "--io", io,
                        *(["--ram-budget", str(budget)] if budget else [])], capture_output=True, text=True)
    if r.returncode: sys.exit(f"experts_file_test.py: {budget} MB by {io}: {r.stderr}")
    return r.stdout, r.stderr


def check(program, model, budget, expert):
    want, err = run(program, model, 0, "auto")
    want = json.loads(want)["ids"]
    assert "experts  " not in err, err
    for io in ("auto", "pread") + (("mmap",) if sys.platform.startswith("linux") else ()):
        out, err = run(program, model, budget, io)
        assert json.loads(out)["ids"] == want, (io, out, want)
        used, found, read, mb = re.search(r"experts +(\d+) chosen by batches, ([0-9.]+) % of them in "
                                          r"memory; (\d+) read, ([0-9.]+) MB", err).groups()
        assert abs(int(read) * expert / 1e6 - float(mb)) < 0.1, err
        assert abs(int(used) * (1 - float(found) / 100) - int(read)) <= int(used) / 1000 + 1, err
        all_read = float(re.search(r"layers +([0-9.]+) MB read", err)[1])
        assert float(mb) <= all_read < float(mb) + 8, err       # all else is read once
        most = re.search(r"resident [0-9.]+ MB now, ([0-9.]+) MB at most", err)
        assert not most or float(most[1]) <= budget + OWN, err
        print(f"{model.name} by {io}: {used} chosen, {found} % found, {mb} MB read")


def main(program, convert, work):
    gguf, qsf = (pathlib.Path(work) / f"experts_file_test.{end}" for end in ("gguf", "qsf"))
    try:
        make_moe_gguf.make_moe(gguf, make_moe_gguf.options([str(gguf), "--layers", "6", *SIZES]))
        check(program, gguf, 20, GGUF)
        make_moe_gguf.make_moe(gguf, make_moe_gguf.options([str(gguf), "--experts", "32", *SIZES]))
        subprocess.run([convert, str(gguf), str(qsf)], check=True, capture_output=True)
        said = subprocess.run([convert, "--info", str(qsf)], check=True, capture_output=True, text=True)
        assert "experts of 4 layers can be read individually, each with its checksum" in said.stdout, said
        check(program, qsf, 12, QSF)
    finally:
        for path in (gguf, qsf): path.unlink(missing_ok=True)
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
