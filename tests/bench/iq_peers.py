#!/usr/bin/env python3
"""Products of GGUF's codebook types compared with those of llama.cpp, in one run.
SPDX-License-Identifier: MIT

    iq_peers.py --build build/release --ggml DIRECTORY [--rows 512] [--cols 2048] [--seconds 1] [--isa avx2]

--ggml is the directory of llama.cpp's libggml-base.so and libggml-cpu.so. One thread, one row of activations.
A line is: type, billions of products a second, theirs, how many times theirs that is.
"""
import argparse, os, pathlib, subprocess, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--ggml", required=True)
    p.add_argument("--rows", type=int, default=512)
    p.add_argument("--cols", type=int, default=2048)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--isa", default="")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "iq_peers"
        include = [f"-I{ROOT / d}" for d in ("include", "core", "core/base", "kernels")]
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c11", "-D_GNU_SOURCE", *include,
                        ROOT / "tests" / "bench" / "iq_peers.c", a.build / "libqsf.a", "-o", out, "-lpthread",
                        "-ldl", "-lm", *os.environ.get("LIBS", "").split()], check=True)
        # their libraries find each other in their own directory
        subprocess.run([str(c) for c in (out, a.ggml, a.rows, a.cols, a.seconds, a.isa)], check=True,
                       env=dict(os.environ, LD_LIBRARY_PATH=a.ggml))


main()
