#!/usr/bin/env python3
"""The approximate heads choose the exact head's most likely token more than 99 times of 100, on real
models over WikiText-2.
SPDX-License-Identifier: MIT

    head_topk.py QSF_BENCH [--convert QSF_CONVERT] --models DIR [--text wiki.test.raw]
                 [--shared DIR] [--positions N] [--full]

The screen is held on the GGUF file of SmolLM2, clusters on a QSF file that is made of it (--full: of all
three models). Fewer positions than POSITIONS say too little: of 1024, 1% are 10.
"""
import argparse, json, os, pathlib, subprocess, sys, tempfile

TESTS = pathlib.Path(__file__).resolve().parents[2]
POSITIONS = 1024
LEAST = 99.0
# clusters
MODELS = {"smollm2-135m-q4_1": 384, "gemma3-270m-q4_k_m": 2048, "qwen2.5-coder-0.5b-q4_k_m": 1200}

def agreements(a, model):
    done = subprocess.run([a.qsf_bench, model, "--head-topk", a.text, "--positions", str(a.positions), "-n",
                           "0", "-t", "1", "--json"],
                          capture_output=True, text=True, timeout=3600)
    if done.returncode: sys.exit(f"{model.name}: exit code {done.returncode}: {done.stderr.strip()}")
    return {r["test"].split()[1]: r["median"] for r in json.loads(done.stdout)["results"]
            if r["test"].startswith("top-1 ")}

def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("qsf_bench"); p.add_argument("--convert"); p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--text", type=pathlib.Path); p.add_argument("--positions", type=int, default=POSITIONS)
    p.add_argument("--full", action="store_true")
    p.add_argument("--shared", type=pathlib.Path,
                   default=os.environ.get("QSF_SHARED_DIR", TESTS.parent.parent / "shared"))
    a = p.parse_args()
    a.qsf_bench = str(pathlib.Path(a.qsf_bench).resolve())
    a.convert = a.convert or a.qsf_bench.replace("qsf-bench", "qsf-convert")
    a.text = a.text or pathlib.Path(a.shared) / "data" / "wiki.test.raw"
    failed = skipped = 0
    with tempfile.TemporaryDirectory() as work:
        for name, clusters in MODELS.items():
            if not a.full and not name.startswith("smollm2"): continue
            gguf, qsf = a.models / f"{name}.gguf", pathlib.Path(work, f"{name}.qsf")
            if not gguf.exists() or not a.text.exists():
                print(f"skipped: {name}: {gguf if a.text.exists() else a.text} is not there")
                skipped += 1
                continue
            got = agreements(a, gguf)
            subprocess.run([a.convert, "--quiet", "--head-clusters", str(clusters), gguf, qsf], check=True)
            got.update({k: v for k, v in agreements(a, qsf).items() if k == "clusters"})
            qsf.unlink()
            for mode in ("clusters", "screen"):
                ok = got.get(mode, 0) > LEAST
                failed += not ok
                print(f"{'ok  ' if ok else 'FAIL'} {name}, {mode}: {got.get(mode, 0):.2f}% of "
                      f"{a.positions} positions")
    if skipped and os.environ.get("QSF_TEST_NO_SKIP") == "1": failed += skipped
    sys.exit(1 if failed else 77 if skipped else 0)

if __name__ == "__main__":
    main()
