#!/usr/bin/env python3
"""Programs of all tiny models: rows lie within the buffers laid out for them and write nowhere else.
SPDX-License-Identifier: MIT

    program_models_test.py PROGRAM_MODELS WORK [EVERY]

EVERY: 5 takes every fifth model.
"""
import pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    every = int(sys.argv[3]) if sys.argv[3:] else 1
    paths = [str(make_tiny.make(work, n)[0]) for n in list(make_tiny.models())[::every]]
    done = subprocess.run([program, *paths], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or lines != [f"ok {p}" for p in paths]:
        sys.exit("\n".join([*(x for x in lines if not x.startswith("ok ")), done.stderr]))
    print(f"{len(paths)} models")


if __name__ == "__main__":
    main()
