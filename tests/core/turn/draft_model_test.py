#!/usr/bin/env python3
"""A draft model changes no token: SmolLM2 drafts for itself and for its weights as half floats, resident and
streamed, greedy and sampled.
SPDX-License-Identifier: MIT

    draft_model_test.py QSF_RUN QSF_CONVERT --models FOLDER
"""
import pathlib, re, subprocess, sys, tempfile

program, convert, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[4])
small, other = folder / "smollm2-135m-q4_1.gguf", folder / "qwen2.5-coder-0.5b-q4_k_m.gguf"


def run(model, *args):
    return subprocess.run([program, str(model), *map(str, args)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)


def check(model):
    for how in (["--temp", "0"], ["--temp", "0.9", "-s", "11"]):
        base = ["--raw", "-p", "The history of the Roman Empire begins", "-n", "24", "-c", "128", "--json",
                "--ignore-eos", *how]
        plain = run(model, *base, "--draft", "0")
        assert plain.returncode == 0 and plain.stdout, plain.stderr
        for more in ([], ["--draft", "7"], ["--ram-budget", "200", "--draft", "3"]):
            r = run(model, *base, "--draft-model", small, "-v", *more)
            assert r.stdout == plain.stdout, (model, how, more, r.stdout, plain.stdout, r.stderr)
            if not more: continue                   # times decide whether there are guesses
            guessed = re.search(r"(\d+) of (\d+) draft tokens accepted", r.stderr)
            assert guessed and int(guessed[1]) > 3, r.stderr
            assert ("layers stream through" in r.stderr) == ("--ram-budget" in more), r.stderr


check(small)
with tempfile.TemporaryDirectory() as work:
    large = pathlib.Path(work) / "f16.qsf"
    subprocess.run([convert, "-q", "--quant-type", "f16", small, large], check=True)
    check(large)
for budget in 1, 50:                            # the smallest that both need is named, and works
    r = run(small, "-p", "x", "-n", "1", "--draft-model", small, "--ram-budget", budget)
    least = re.search(r"needs at least (\d+) MB, the budget is %d MB" % budget, r.stderr)
    assert r.returncode == 4 and least and int(least[1]) > 50, r
for budget, code in (int(least[1]) - 1, 4), (int(least[1]), 0):
    r = run(small, "-p", "x", "-n", "1", "--draft-model", small, "--ram-budget", budget)
    assert r.returncode == code, (budget, r)
r = run(small, "-p", "x", "--draft-model", other)
assert r.returncode == 2 and "same vocabulary" in r.stderr, r
print("ok")
