#!/usr/bin/env python3
"""Fits the levels of the types table4 and table3 (core/tensor/table.c) to weights that are normally
distributed, and to ones with heavier tails (Student's t with 8 degrees of freedom), in blocks of 32, 64
and 128 whose scale is the best of those that its byte can say. No text and no model goes in.
SPDX-License-Identifier: MIT

    python3 tools/make_tables.py

Prints each table with the signal to noise it reaches, next to that of equal steps (4bit_s, 3bit_s).
"""
import sys
from statistics import NormalDist

import numpy as np

BYTE = np.arange(8, 128)                    # scales without their sign; the smallest ones are of no use here
SCALES = (8 + BYTE % 8) / 8 * np.exp2(BYTE // 8 - 15.0)
TRIED = 13                                  # scales of a block, down from the one that clips nothing


def blocks(rng, n, size, heavy):
    x = rng.standard_t(8, (n, size)) / np.sqrt(8 / 6) if heavy else rng.standard_normal((n, size))
    return x * np.exp2(rng.random((n, 1)) - 3)  # absolute sizes: scales lie anywhere between two bytes


def sets(seed, n):
    rng = np.random.default_rng(seed)
    return [blocks(rng, n, size, heavy) for size in (32, 64, 128) for heavy in (False, True)]


def encode(x, level, scales=SCALES, tried=TRIED):
    """The best scale and its codes for each row of x."""
    most, borders = min(-level[0], level[-1]), (level[1:] + level[:-1]) / 2
    top = np.searchsorted(scales, 1.1 * np.abs(x).max(1) / most)
    best, scale, code = np.full(len(x), np.inf), np.zeros(len(x)), np.zeros(x.shape, int)
    for k in range(tried):
        for sign in (1, -1):
            s = sign * scales[np.clip(top - k, 0, len(scales) - 1)]
            q = np.searchsorted(borders, x / s[:, None])
            error = ((x - s[:, None] * level[q]) ** 2).sum(1)
            better = error < best
            best[better], scale[better], code[better] = error[better], s[better], q[better]
    return best, scale, code


def fit(bits, data, rounds):
    """Lloyd's algorithm with the search for scales in it; level 2^(bits-1) - 1 stays 0."""
    n, zero = 1 << bits, (1 << bits - 1) - 1
    level = np.array([NormalDist().inv_cdf((i + 1) / (n + 1)) for i in range(n)])
    level = (level - level[zero]) / np.abs(level - level[zero]).max()
    for _ in range(rounds):
        with_, of = np.zeros(n), np.zeros(n)
        for x in data:
            _, scale, code = encode(x, level)
            s = np.broadcast_to(scale[:, None], x.shape)
            with_ += np.bincount(code.ravel(), (s * x).ravel(), n) / (x ** 2).sum()
            of += np.bincount(code.ravel(), (s * s).ravel(), n) / (x ** 2).sum()
        level = with_ / of
        level[zero] = 0
        level /= np.abs(level).max()
    return level


def db(x, level, **how):
    return -10 * np.log10(encode(x, level, **how)[0].sum() / (x ** 2).sum())


def main():
    fine = np.exp2(np.arange(-14 * 64, 64) / 64)                    # as good as fp16
    for bits in (4, 3):
        level = fit(bits, sets(1, 1500), 40)
        test, best = sets(2, 1500), None
        for most in range(44, 64):                                  # where rounding hurts least
            rounded = np.round(level * most)
            mean = np.mean([db(x, rounded) for x in test])
            if best is None or mean > best[0]: best = (mean, rounded)
        print(f"table{bits}:", *[int(v) for v in best[1]])
        equal = np.arange(1 << bits) - (1 << bits - 1)
        for size, x in zip((32, 32, 64, 64, 128, 128), sets(3, 3000)):
            print(f"  blocks of {size}: {db(x, best[1]):.2f} dB, equal steps "
                  f"{db(x, equal.astype(float), scales=fine, tried=96):.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
