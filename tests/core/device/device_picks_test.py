#!/usr/bin/env python3
"""Tiny models whose logits stay on a GPU: tokens from the most likely ones.
SPDX-License-Identifier: MIT

    device_picks_test.py DEVICE_PICKS WORK

QSF_WEBGPU_DIR: tests/tools/software_gpu.py; skipped without it.
"""
import pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny, software_gpu

MODELS = ["llama-q4_k", "gemma2-q6_k"]          # the second one has a soft cap of logits


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    env = software_gpu.environment()
    paths = [str(make_tiny.make(work, name)[0]) for name in MODELS]
    done = subprocess.run([program, *paths], capture_output=True, text=True, env=env)
    print(done.stdout, done.stderr, sep="")
    if done.returncode: sys.exit("a GPU gives other tokens")
    if done.stdout.count("the 64 most likely") != len(MODELS): sys.exit("models are missing")


if __name__ == "__main__":
    main()
