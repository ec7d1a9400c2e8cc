#!/usr/bin/env python3
"""How fast answers and prompts are while other programs keep the processors busy.
SPDX-License-Identifier: MIT

    busy.py MODEL.qsf [--busy 0,1,2,4] [--where native,node,chromium] [--rounds 3] [--before QSF_BENCH]
            [--wasm build/wasm/js] [--llama MODEL.gguf]

Beside each number of busy processes (endless loops) the same answer is measured with one thread, with all,
and with the default, in turns, so that what else the machine does meets all of them. native runs qsf-bench;
node and chromium run the npm package. --before adds another build's qsf-bench, --llama llama.cpp's
llama-bench (compare.py builds it). Prints medians over the rounds: tok/s of the answer and of the prompt, the
median and the 99th percentile of a token's time, and then what each is held against:

  idle                 all threads against --before: at least 0.99
  busy, all threads    at least 0.9 of one thread
  busy, default        at least 0.95 of the better of the two
  a token's time       the 99th percentile is at most 3 times the median

--check makes it end with an error where one of these fails.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent / "busy"
LOOP = "while True: pass"
FIGURES = ("decode", "prefill", "median", "p99")


def native(a, program, threads):
    command = [program, a.model, "-p", a.prompt, "-n", a.answer, "-r", 1, "-t", threads, "--parts", "--json"]
    r = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True, text=True)
    rows = {row["test"]: row["median"] for row in json.loads(r.stdout)["results"]}
    tg = f"tg{a.answer}"
    return {"decode": rows[tg], "prefill": rows[f"pp{a.prompt}"],
            "median": rows[f"{tg} token"], "p99": rows[f"{tg} token p99"]}


def package(a, where, threads):
    command = ["node", HERE / "run.mjs", where, a.wasm, a.model, threads, a.prompt, a.answer, a.tools]
    r = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(r.stdout)


def llama(a, threads):
    """No times of single tokens: llama-bench does not tell them."""
    command = [a.llama_bench, "-m", a.llama, "-p", a.prompt, "-n", a.answer, "-r", 1, "-t", threads,
               "-o", "json"]
    r = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, check=True,
                       text=True)
    speed = {("decode" if row["n_gen"] else "prefill"): row["avg_ts"] for row in json.loads(r.stdout)}
    return {**speed, "median": None, "p99": None}


def settings(a):
    """(where, threads in words, function) of all that runs in turns."""
    everything = os.cpu_count()
    for where in a.where:
        for name, threads in (("one", 1), ("all", everything), ("default", 0)):
            if where == "native":
                yield where, name, lambda t=threads: native(a, a.qsf_bench, t)
            else:
                yield where, name, lambda w=where, t=threads: package(a, w, t)
    if a.before and "native" in a.where:
        for name, threads in (("one", 1), ("all", everything)):
            yield "before", name, lambda t=threads: native(a, a.before, t)
    if a.llama:
        for name, threads in (("one", 1), ("all", everything)):
            yield "llama.cpp", name, lambda t=threads: llama(a, t)


def measure(a, k):
    """{(where, threads): {figure: median over the rounds}} alongside k busy processes."""
    samples = {}
    for round_ in range(a.rounds):
        turns = list(settings(a))
        for where, name, run in turns if round_ % 2 == 0 else reversed(turns):
            loops = [subprocess.Popen([sys.executable, "-S", "-c", LOOP]) for _ in range(k)]
            try:
                samples.setdefault((where, name), []).append(run())
            finally:
                for loop in loops:
                    loop.kill()
                    loop.wait()
            speed = samples[where, name][-1]["decode"]
            print(f"busy.py: {k} beside, round {round_ + 1}, {where}, {name}: {speed:.1f} tok/s",
                  file=sys.stderr,
                  flush=True)

    def value(runs, figure):
        return statistics.median(r[figure] for r in runs) if runs[0][figure] is not None else None
    return {key: {f: value(runs, f) for f in FIGURES} for key, runs in samples.items()}


def promises(a, k, got):
    """(what, share or ratio, bound, kept) of one number of busy processes."""
    for where in a.where:
        one, all_, default = (got[where, n] for n in ("one", "all", "default"))
        for figure in ("decode", "prefill"):
            if k == 0:
                if where == "native" and a.before:
                    for name in ("one", "all"):
                        share = got[where, name][figure] / got["before", name][figure]
                        yield f"native, {name}: {figure} against before", share, ">= 0.99", share >= 0.99
                continue
            share = all_[figure] / one[figure]
            yield f"{where}, all: {figure} against one thread", share, ">= 0.9", share >= 0.9
            share = default[figure] / max(one[figure], all_[figure])
            yield f"{where}, default: {figure} against the better", share, ">= 0.95", share >= 0.95
        for name in ("one", "all", "default") if k else ():
            ratio = got[where, name]["p99"] / got[where, name]["median"]
            yield f"{where}, {name}: 99th percentile over median", ratio, "<= 3", ratio <= 3


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=pathlib.Path, help="a QSF file")
    numbers = lambda text: [int(n) for n in text.split(",")]
    p.add_argument("--busy", type=numbers, default=[0, 1, 2, 4], metavar="N,N",
                   help="busy processes beside: 0,1,2,4")
    p.add_argument("--where", type=lambda t: t.split(","), default=["native"], help="native, node, chromium")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--prompt", type=int, default=256, help="tokens, 256")
    p.add_argument("--answer", type=int, default=128, help="tokens, 128")
    p.add_argument("--qsf-bench", type=pathlib.Path, default=ROOT / "build/release/qsf-bench")
    p.add_argument("--before", type=pathlib.Path, help="another qsf-bench that has --parts' times of tokens")
    p.add_argument("--wasm", type=pathlib.Path, default=ROOT / "build/wasm/js", help="the package, built")
    cache = pathlib.Path(os.environ.get("QSF_CACHE", pathlib.Path.home() / ".cache" / "qsf"))
    p.add_argument("--tools", type=pathlib.Path, default=cache / "npm",
                   help="where playwright-core is installed")
    p.add_argument("--llama", type=pathlib.Path, help="a GGUF file of the same model")
    p.add_argument("--llama-bench", type=pathlib.Path)
    p.add_argument("--check", action="store_true", help="end with an error where a bound is passed")
    a = p.parse_args()
    if a.llama and not a.llama_bench:
        command = [sys.executable, HERE.parent / "compare.py", "--try", a.llama]
        built = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        a.llama_bench = built.stdout.strip()
    return a


def main():
    a = arguments()
    kept = True
    print("| busy | where | threads | answer tok/s | prompt tok/s | token ms | 99th percentile |")
    print("|--:|---|---|--:|--:|--:|--:|")
    verdicts = []
    for k in a.busy:
        got = measure(a, k)
        for (where, name), f in got.items():
            times = ["", ""] if f["median"] is None else [f"{f['median']:.2f}", f"{f['p99']:.2f}"]
            print(
                f"| {k} | {where} | {name} | {f['decode']:.1f} | {f['prefill']:.0f} | {' | '.join(times)} |",
                flush=True)
        verdicts += [(k, *v) for v in promises(a, k, got)]
    print()
    for k, what, value, bound, good in verdicts:
        print(f"{'ok  ' if good else 'MISS'} {k} beside: {what}: {value:.3f} {bound}")
        kept &= good
    if a.check and not kept:
        sys.exit(1)


if __name__ == "__main__":
    main()
