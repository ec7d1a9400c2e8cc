#!/usr/bin/env python3
"""Writes types_golden.h: random blocks of GGUF's types and their values, by the Python package gguf
and by llama.cpp's C.
SPDX-License-Identifier: MIT

    make_types.py LIBGGML_BASE.so > types_golden.h

For each type a block or two in full, and for those whose values are one product (BOUND has the others)
the CRC-32 of the values of 1024 blocks, which every entry of every codebook is in. Where both compute a type,
they must agree: bit for bit, or as BOUND says. Types that the package does not unpack are by llama.cpp
alone.
"""
import ctypes, sys, zlib

import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

MANY = 1024
# by number: other versions of the package know fewer
Q2_0 = 42
SIZES = {Q2_0: (64, 18)} | {t.value: s for t, s in gguf.GGML_QUANT_SIZES.items()}
# number, llama.cpp's name, places of its fp16 numbers in a block
TYPES = [
    (2, "q4_0", [0]), (3, "q4_1", [0, 2]), (6, "q5_0", [0]), (7, "q5_1", [0, 2]), (8, "q8_0", [0]),
    (10, "q2_K", [80, 82]), (11, "q3_K", [108]), (12, "q4_K", [0, 2]), (13, "q5_K", [0, 2]),
    (14, "q6_K", [208]), (20, "iq4_nl", [0]), (23, "iq4_xs", [0]),
    (15, "q8_K", [2]),                  # a float: its upper half
    (16, "iq2_xxs", [0]), (17, "iq2_xs", [0]), (22, "iq2_s", [0]), (18, "iq3_xxs", [0]), (21, "iq3_s", [0]),
    (19, "iq1_s", [0]), (29, "iq1_m", [54]),    # its last nibble has the exponent's top
    (34, "tq1_0", [52]), (35, "tq2_0", [64]), (39, "mxfp4", []), (40, "nvfp4", []), (41, "q1_0", [0]),
    (42, "q2_0", [0]),
]
# Here a compiler may round product and sum at once: relative to the block's largest value.
BOUND = {"q4_1": 1e-6, "q5_1": 1e-6, "q2_K": 1e-6, "q4_K": 1e-6, "q5_K": 1e-6}
PYTHON_LACKS = {"q8_K", "q1_0", "q2_0"}


def by_llama(library, name, raw, values):
    out = np.empty(values, np.float32)
    convert = getattr(library, "dequantize_row_" + name)
    convert(raw.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(values))
    return out


def values_of(library, number, name, raw):
    """Of whole blocks, raw[n][size]."""
    block, size = SIZES[number]
    raw = np.ascontiguousarray(raw)
    c = by_llama(library, name, raw, len(raw) * block)
    if name in PYTHON_LACKS: return c
    with np.errstate(over="ignore", invalid="ignore"):
        python = gguf.quants.dequantize(raw.reshape(1, -1), T(number)).astype(np.float32).ravel()
    if name in BOUND:
        p, q = (x.reshape(-1, block).astype(np.float64) for x in (python, c))
        worst = float((np.abs(p - q).max(axis=1) / np.abs(p).max(axis=1)).max())
        if worst > BOUND[name]: sys.exit(f"{name}: gguf and llama.cpp differ by {worst:.2g}")
    elif not np.array_equal(python.view(np.uint32), c.view(np.uint32)):
        sys.exit(f"{name}: gguf and llama.cpp differ")
    return python


def steps(seed, n):
    """The top bits of the generator in types_test.c, a byte each."""
    out = bytearray(n)
    for i in range(n):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = seed >> 33 & 255
    return np.frombuffer(out, np.uint8)


def rows(numbers, each):
    for i in range(0, len(numbers), each):
        print("        " + ",".join(numbers[i:i + each]) + ",")


def print_blocks(library, rng):
    most = max(SIZES[t][1] * min(2, 256 // SIZES[t][0]) for t, _, _ in TYPES)
    print("static const struct { uint32_t type, cols; uint8_t bytes[%d]; uint32_t bits[256]; } types_golden[]"
          " = {" % most)
    for number, name, halves in TYPES:
        block, size = SIZES[number]
        n = 1 if block == 256 else 2
        raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
        for at in halves if name != "iq1_m" else []:
            raw[:, at:at + 2] = rng.normal(0, 0.05, n).astype(np.float16).view(np.uint8).reshape(n, 2)
        if name == "iq1_m": raw[:, 55] = raw[:, 55] & 0x8f | 0x20
        if name == "mxfp4": raw[:, 0] = raw[:, 0] % 16 + 112
        values = values_of(library, number, name, raw)
        print("    { %d, %d, {" % (number, n * block))
        rows([str(b) for b in raw.ravel()], 32)
        print("    }, {")
        rows(["0x%x" % b for b in values.view(np.uint32)], 16)
        print("    } },")
    print("};")


def print_sums(library):
    print()
    print("/* CRC-32 of the floats of %d blocks of the test's random bytes, seed the type's number; of"
          " the upper" % MANY)
    print(" * bytes of 16-bit numbers the block at `half` the exponent's top bit is cleared. */")
    print("enum { TYPES_MANY = %d };" % MANY)
    print("static const struct { uint32_t type, crc; int half; } types_sums[] = {")
    for number, name, halves in TYPES:
        if name in BOUND: continue
        size = SIZES[number][1]
        raw = steps(number, MANY * size).reshape(MANY, size).copy()
        for at in halves: raw[:, at + 1] &= 0xbf
        values = values_of(library, number, name, raw)
        assert not np.isnan(values).any()
        print("    { %d, 0x%08x, %d }," % (number, zlib.crc32(values.astype("<f4").tobytes()),
                                          halves[0] if halves else -1))
    print("};")


def main():
    library = ctypes.CDLL(sys.argv[1])
    print("/* Random blocks of GGUF's types and the bits of their floats; made by make_types.py.")
    print(" * SPDX-License-Identifier: MIT */")
    print_blocks(library, np.random.default_rng(1))
    print_sums(library)


if __name__ == "__main__":
    main()
