#!/usr/bin/env python3
"""The memory promise on a real model: at every budget either a run whose process stays within it and 4 MB
more, with the tokens of a run without a budget (except at the smallest, if it reports keys and values with
fewer bits), or exit code 4 with the smallest budget that works.
SPDX-License-Identifier: MIT

    memory_test.py QSF_RUN --models DIR

Linux; elsewhere the peak is not known.
"""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "bench"))
import memory

MUST = 24            # MB that SmolLM2 has to run in


def check(ok, *what):
    if not ok:
        sys.exit("memory_test.py: " + " ".join(map(str, what)))


def check_refusals(program, model, smallest):
    """Budgets below the smallest are refused with the same number."""
    for budget in {1, smallest // 2, smallest - 1}:
        r = (subprocess.run([program, model, "--raw", "-p", "x", "-n", "1", "-t", "2", "-c", "64",
                             "--ram-budget", str(budget)], capture_output=True, text=True))
        check(r.returncode == 4 and f"at least {smallest} MB, the budget is {budget} MB" in r.stderr, model,
              budget, "MB:", r.returncode, r.stderr)


def check_model(program, model):
    o = argparse.Namespace(prompt=40, answer=12, context=64, threads=2, args="", cold=False, cgroup="")
    smallest = memory.least(program, model, o)
    check(smallest <= MUST, model, "needs", smallest, "MB")
    check_refusals(program, model, smallest)
    tokens = None
    for budget in 0, 70, MUST, smallest:
        code, out, err, seen = memory.run(program, model, budget, o)
        check(code == 0, model, budget, "MB: exit code", code, err)
        ids, peak = json.loads(out)["ids"], seen["VmHWM"] * 1.024e-3
        tokens = tokens or ids
        print(f"{model}: {budget or 'no budget'}: peak {peak:.1f} MB")
        coarse = budget == smallest and "keys and values q8 -> " in err         # said to be a loss
        check(coarse or ids == tokens, model, budget, "MB: other tokens:", ids, tokens)
        check(not budget or peak <= budget + memory.OWN, model, budget, "MB: peak", peak)
        said = re.search(r"resident ([0-9.]+) MB now, ([0-9.]+) MB at most \(now ([0-9.]+) MB its own, "
                         r"([0-9.]+) MB of program files\)", err)
        check(said, "--verbose does not tell memory:", err)
        now, most, own, files = map(float, said.groups())
        check(now <= most <= peak + 0.5 and abs(own + files - now) < 1, "--verbose says", said[0],
              "seen from outside:", peak)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("program")
    a.add_argument("--models", required=True, type=pathlib.Path)
    a = a.parse_args()
    if not sys.platform.startswith("linux"):
        print("skipped: not Linux")
        sys.exit(77)
    gguf = a.models / "smollm2-135m-q4_1.gguf"
    if not gguf.exists():
        print("skipped: no SmolLM2 in", a.models)
        sys.exit(1 if os.environ.get("QSF_TEST_NO_SKIP") else 77)
    check_model(a.program, str(gguf))
    with tempfile.TemporaryDirectory() as work:
        qsf, convert = os.path.join(work, "smollm2.qsf"), pathlib.Path(a.program).with_name("qsf-convert")
        subprocess.run([convert, gguf, qsf], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        check_model(a.program, qsf)
    print("ok")


if __name__ == "__main__":
    main()
