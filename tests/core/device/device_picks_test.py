#!/usr/bin/env python3
"""Tiny models whose logits stay on a GPU: tokens from the most likely ones.
SPDX-License-Identifier: MIT

    device_picks_test.py DEVICE_PICKS WORK

QSF_WEBGPU_DIR: the folder of tools/get-webgpu.sh, with Dawn and a GPU in software; skipped without it.
"""
import os, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny

MODELS = ["llama-q4_k", "gemma2-q6_k"]          # the second one has a soft cap of logits


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    folder = os.environ.get("QSF_WEBGPU_DIR")
    if not folder:
        print("skipped: no WebGPU library (QSF_WEBGPU_DIR)")
        sys.exit(77)
    paths = [str(make_tiny.make(work, name)[0]) for name in MODELS]
    env = dict(os.environ, QSF_WEBGPU_LIB=f"{folder}/libwebgpu_dawn.so", LD_LIBRARY_PATH=folder,
               VK_DRIVER_FILES=f"{folder}/vk_swiftshader_icd.json")
    done = subprocess.run([program, *paths], capture_output=True, text=True, env=env)
    print(done.stdout, done.stderr, sep="")
    if done.returncode: sys.exit("a GPU gives other tokens")
    if done.stdout.count("the 64 most likely") != len(MODELS): sys.exit("models are missing")


if __name__ == "__main__":
    main()
