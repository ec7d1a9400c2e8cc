#!/usr/bin/env python3
"""Tiny models with experts and with latents, in the smallest budget: the logits of the model in memory, bit
for bit, in a sequence that is shared, cut, saved and gone on with; and experts are read alone.
SPDX-License-Identifier: MIT

    budget_models_test.py BUDGET_MODELS WORK
"""
import pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "parity"))
import make_tiny


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    models = {n: m for n, m in make_tiny.models().items()
              if "experts" in m or "l" in m.get("kinds", "") or m.get("in_one")}
    paths = [str(make_tiny.make(work, name)[0]) for name in models]
    done = subprocess.run([program, *paths], capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode: sys.exit(f"a budget changes logits {done.stderr}")
    alone = {}
    said = re.findall(r"^ok (.*): (\d+) experts have a place, (\d+) read$", done.stdout, re.M)
    for path, places, read in said:
        alone[pathlib.Path(path).stem] = int(places) > 0 and int(read) > 0
    want = {name: "experts" in m for name, m in models.items()}
    if alone != want: sys.exit(f"experts read alone: {alone}, expected {want}")


if __name__ == "__main__":
    main()
