#!/usr/bin/env python3
"""Every tiny model in two and three parts gives the logits of the whole, bit for bit.
SPDX-License-Identifier: MIT

    part_models_test.py PART_MODELS WORK

Only encoders, which give no logits, are left out. A model that cannot be cut must be one of REFUSED.
"""
import pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny

# Models whose layers need more than a row of hidden states.
REFUSED = {"gemma4", "gemma4-rows", "gemma4-q8_0", "gemma3n", "rwkv7", "rwkv7-heads",
           "rwkv7-q8_0", "arwkv7", "arwkv7-gate"}


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    paths = [str(make_tiny.make(work, name)[0]) for name in make_tiny.models()]
    done = subprocess.run([program, *paths], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    refused = {pathlib.Path(l.split(": ")[0]).stem for l in lines if l.startswith("refused")}
    for line in lines:
        if not line.startswith("ok"): print(line)
    if done.returncode or refused != REFUSED: sys.exit(f"parts differ from the whole {done.stderr}")
    if done.stdout.count("ok ") < len(paths) - len(REFUSED): sys.exit("models are missing")
    print(f"{len(paths)} models")


if __name__ == "__main__":
    main()
