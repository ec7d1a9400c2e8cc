#!/usr/bin/env python3
"""Every tiny model through what sequences go through: cuts, shared prefixes, sessions, uneven batches.
SPDX-License-Identifier: MIT

    sequence_models_test.py SEQUENCE_MODELS WORK [EVERY]

EVERY: 3 takes every third model. Encoders are left out, which give no logits of a next token.
"""
import pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    every = int(sys.argv[3]) if sys.argv[3:] else 1
    paths = [str(make_tiny.make(work, name)[0]) for name in list(make_tiny.models())[::every]]
    done = subprocess.run([program, *paths], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if not line.startswith("ok"): print(line)
    if done.returncode or done.stdout.count("ok ") < len(paths):
        sys.exit(f"{done.stdout.count('ok ')} of {len(paths)} models are right {done.stderr}")
    print(f"{len(paths)} models")


if __name__ == "__main__":
    main()
