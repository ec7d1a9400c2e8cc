#!/usr/bin/env python3
"""Writes tiny.json: what llama.cpp computes for the random models of ../parity/make_tiny.py.
SPDX-License-Identifier: MIT

    make_tiny_golden.py LLAMA_REF[,BITNET_REF] [NAME...]

For each model three prompts of different lengths (of a rare type one), each the one of twelve random ones
whose answer says most (few ties, many different tokens). `greedy`, `margin` and `logits` (after the prompt)
are llama.cpp's with a 32-bit KV cache, `reference` is the margin by ../parity/reference.py, `noise` the
standard deviation of margin - reference, and `error` the largest difference of a logit between the two,
relative to the largest logit. Models that llama.cpp does not run as they are described (it ignores the
sliding window of llama and phi3 and the epsilon of qwen2vl, and has no product of Q8_K) are judged by the
reference alone.
I2_S is of bitnet.cpp: BITNET_REF (README.md) answers for it, with 16-bit keys and values, the only ones that
it takes.
"""
import json, pathlib, statistics, subprocess, sys, tempfile
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
import make_tiny
from reference import Model, gelu_f16

STEPS, CANDIDATES, LENGTHS = 32, 12, (3, 33, 150)
LONG = {"llama": 300, "gemma3": 300, "gpt2": 300, "qwen3": 300}     # beyond the default batch of 256 rows

def candidates(name, seed, rare=False):
    rng = make_tiny.Random(1000 + seed)
    usable = make_tiny.N_VOCAB - make_tiny.N_SPECIAL
    lengths = LENGTHS[:2] + (LONG.get(name, LENGTHS[2]),)
    for length in lengths if not rare else lengths[1:2]:
        yield [[int(b) for b in rng.bits(length) % np.uint64(usable)] for _ in range(CANDIDATES)]

def ask_llama(ref, path, n_ctx, prompts, kv="f32"):
    text = "".join(" ".join(map(str, p)) + "\n" for p in prompts)
    out = subprocess.run([ref, str(path), "-n", str(STEPS), "-c", str(n_ctx), "--kv", kv, "-t", "1"],
                         input=text, text=True,
                         stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]

def ask_reference(model, n_ctx, prompt):
    answer, margins, first = [], [], None
    for _ in range(STEPS):
        y = model.logits(prompt + answer, n_ctx)
        first = y if first is None else first
        answer.append(int(np.argmax(y)))
        margins.append(round(float(np.diff(np.sort(y)[-2:])[0]), 4))
    return {"prompt": prompt, "greedy": answer, "margin": margins, "ended": False,
            "logits": [float(f"{v:.6g}") for v in first]}

def judge(model, n_ctx, entry):
    """Adds the reference's margins; returns the largest relative difference of the logits."""
    n, greedy = len(entry["prompt"]), entry["greedy"]
    y = model.logits(entry["prompt"] + greedy[:-1], n_ctx, last=False)[n - 1:]
    error = float(np.abs(y[0] - entry["logits"]).max() / np.abs(y[0]).max())
    rows = np.arange(len(greedy))
    own = y[rows, greedy]
    y[rows, greedy] = -np.inf
    entry["reference"] = [round(float(m), 4) for m in own - y.max(axis=1)]
    return error

def record(ref, folder, m):
    path, digest = make_tiny.make(folder, m["name"])
    model = Model(path)
    # llama.cpp's; the comparison is then about everything else
    model.gelu = gelu_f16
    chosen, errors, worst = [], [], 0.0
    for prompts in candidates(m["name"], m["seed"], "rare" in m or "one" in m):
        if m.get("judge") == "reference": entries = [ask_reference(model, m["c"], p) for p in prompts[:2]]
        elif m.get("judge") == "bitnet.cpp":
            entries = ask_llama(ref.split(",")[1], path, m["c"], prompts, "f16")
        else: entries = ask_llama(ref.split(",")[0], path, m["c"], prompts)
        for e in entries:
            worst = max(worst, judge(model, m["c"], e))
            errors += [a - b for a, b in zip(e["margin"], e["reference"])]
        noise = statistics.pstdev(errors)
        def worth(e):
            return (sum(min(x) > 3 * noise for x in zip(e["margin"], e["reference"]))
                    + len(set(e["greedy"])) / 2)
        chosen.append(max(entries, key=worth))
    return {"sha256": digest, "judge": m.get("judge", "llama.cpp"), "c": m["c"],
            "noise": round(statistics.pstdev(errors), 6),
            "error": float(f"{worst:.3g}"), "prompts": chosen}

def main():
    ref, *names = sys.argv[1:]
    path = pathlib.Path(__file__).parent / "tiny.json"
    golden = json.loads(path.read_text()) if names else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, m in make_tiny.models().items():
            if names and name not in names: continue
            golden[name] = record(ref, folder, m)
            e = golden[name]
            facts = [sum(min(x) > 3 * e["noise"] for x in zip(p["margin"], p["reference"]))
                     for p in e["prompts"]]
            print(f"{name:20} noise {e['noise']:.5f} error {e['error']:.2e} facts {facts}", "different",
                  [len(set(p["greedy"])) for p in e["prompts"]])
    rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in golden.items())
    path.write_text("{\n" + rows + "\n}\n")

if __name__ == "__main__":
    main()
