#!/usr/bin/env python3
"""Writes types_golden.h: random blocks of GGUF's types and their values by the Python package gguf.
SPDX-License-Identifier: MIT

    make_types.py > types_golden.h
"""
import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

rng = np.random.default_rng(1)
# type: places of its fp16 numbers in a block
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82],
          T.Q3_K: [108], T.Q4_K: [0, 2],
          T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}

print("/* Random blocks of GGUF's types and the bits of their floats; made by make_types.py.")
print(" * SPDX-License-Identifier: MIT */")
print("static const struct { uint32_t type, cols; uint8_t bytes[%d]; uint32_t bits[256]; } types_golden[] = {"
      % 210)
for t, halves in HALVES.items():
    block, size = gguf.GGML_QUANT_SIZES[t]
    n = 1 if block == 256 else 2
    raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in halves:
        raw[:, at:at + 2] = rng.normal(0, 0.05, n).astype(np.float16).view(np.uint8).reshape(n, 2)
    values = gguf.quants.dequantize(raw.reshape(1, -1), t).astype(np.float32).ravel()
    print("    { %d, %d, {" % (t.value, n * block))
    flat = [str(b) for b in raw.ravel()]
    for i in range(0, len(flat), 32):
        print("        " + ",".join(flat[i:i + 32]) + ",")
    print("    }, {")
    bits = ["0x%x" % b for b in values.view(np.uint32)]
    for i in range(0, len(bits), 16):
        print("        " + ",".join(bits[i:i + 16]) + ",")
    print("    } },")
print("};")
