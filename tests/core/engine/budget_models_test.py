#!/usr/bin/env python3
"""Tiny models with experts and with latents, in the smallest budget: the logits of the model in memory, bit
for bit, in a sequence that is shared, cut, saved and continued; and experts are read one by one, from GGUF
files and from the QSF files that are made of them.
SPDX-License-Identifier: MIT

    budget_models_test.py BUDGET_MODELS QSF_CONVERT WORK
"""
import pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny


TYPES = ("4bit", "8bit", "f16", "mixed", "2bit")


def converted(convert, gguf, kind):
    out = gguf.with_name(f"{gguf.stem}.{kind}.qsf")
    subprocess.run([convert, "--quant-type", kind, "--outliers", "off", str(gguf), str(out)], check=True,
                   capture_output=True)
    return str(out)


def main():
    program, convert, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    models = {n: m for n, m in make_tiny.models().items()
              if "experts" in m or "l" in m.get("kinds", "") or m.get("in_one")}
    paths = {name: make_tiny.make(work, name)[0] for name in models}
    want = {str(paths[name]): "experts" in m for name, m in models.items()}
    for i, name in enumerate(n for n, m in models.items() if "experts" in m):
        want[converted(convert, pathlib.Path(paths[name]), TYPES[i % len(TYPES)])] = True
    done = subprocess.run([program, *want], capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode: sys.exit(f"a budget changes logits {done.stderr}")
    said = re.findall(r"^ok (.*): (\d+) experts have a place, (\d+) read$", done.stdout, re.M)
    alone = {path: int(places) > 0 and int(read) > 0 for path, places, read in said}
    if alone != want: sys.exit(f"experts read alone: {alone}, expected {want}")


if __name__ == "__main__":
    main()
