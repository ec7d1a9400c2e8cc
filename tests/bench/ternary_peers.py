#!/usr/bin/env python3
"""Ternary products against those of bitnet.cpp and llama.cpp, in one run.
SPDX-License-Identifier: MIT

    ternary_peers.py --build build/release [--bitnet CHECKOUT] [--ggml DIRECTORY] [--threads 2]
                     [--seconds 3] [--isa avx2]

--bitnet is a checkout of github.com/microsoft/BitNet, whose src/ggml-bitnet-mad.cpp is compiled here with
headers that say only what it asks for; --ggml the directory of llama.cpp's libggml-base.so and
libggml-cpu.so. The shapes are those of BitNet-b1.58-2B-4T. A line is: shape, rows of activations, whose
product, time of one matrix, products a second, how many times ours that is; for one row also the bytes of
weights a second, and what share that is of just reading them.
"""
import argparse, os, pathlib, subprocess, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = {
    "ggml.h": """#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#define GGML_API
enum ggml_type { GGML_TYPE_I2_S };
struct ggml_tensor;
static inline size_t ggml_row_size(enum ggml_type, int64_t n) { return (size_t)n / 4; }
""",
    "ggml-backend.h": "#pragma once\n",
    "ggml-cpu-impl.h": "#pragma once\n",
    "ggml-quants.h": """#pragma once
#include <stdio.h>
#define UNUSED(x) (void)(x)
extern "C" void ggml_vec_dot_i2_i8_s(int, float *, size_t, const void *, size_t, const void *, size_t, int);
""",
}


def compile_bitnet(checkout, work):
    for name, text in HEADERS.items(): (work / name).write_text(text)
    out = work / "bitnet.so"
    subprocess.run([os.environ.get("CXX", "c++"), "-O3", "-march=native", "-w", "-shared", "-fPIC",
                    f"-I{work}", f"-I{checkout}/include", f"{checkout}/src/ggml-bitnet-mad.cpp", "-o", out],
                   check=True)
    return out


def compile_driver(build, work):
    out = work / "ternary_peers"
    include = [f"-I{ROOT / d}" for d in ("include", "core", "core/base", "kernels")]
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c11", "-D_GNU_SOURCE", *include,
                    ROOT / "tests" / "bench" / "ternary_peers.c", build / "libqsf.a", "-o", out, "-lpthread",
                    "-ldl", "-lm", *os.environ.get("LIBS", "").split()], check=True)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--bitnet")
    p.add_argument("--ggml", default="-")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--isa", default="")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        bitnet = compile_bitnet(a.bitnet, work) if a.bitnet else "-"
        command = [compile_driver(a.build, work), bitnet, a.ggml, a.threads, a.seconds, a.isa]
        subprocess.run([str(c) for c in command], check=True)


main()
