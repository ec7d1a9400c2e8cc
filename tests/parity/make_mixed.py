#!/usr/bin/env python3
"""Writes SmolLM2, padded by make_padded.py, with every rare type of GGUF in one layer's attn_q and attn_k,
the same bytes on every machine.
SPDX-License-Identifier: MIT

    make_mixed.py smollm2-135m-q4_1.gguf OUT.gguf

The quantisers here are crude: scales by the largest value, then the nearest entry of the codebook.
Distances are sums of small integers, which floats hold exactly, so no library of matrices changes a choice.
"""
import pathlib, sys
import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFWriter, quants

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import gguf_types       # types that the package lacks
from gguf_reader import Reader
from make_padded import copy_keys, padded_tensors

KINDS = [Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S, Q.IQ3_XXS, Q.IQ3_S, Q.IQ1_S, Q.IQ1_M, Q.TQ1_0, Q.TQ2_0, Q.MXFP4,
         Q.NVFP4, Q.Q1_0, Q.Q2_0]
LAYERS = {3 + 2 * i: kind for i, kind in enumerate(KINDS)}      # the others, of 30, keep it a model
F, U8 = np.float32, np.uint8


# ---- pieces ----

def half(x):
    """As 16-bit floats, rounded."""
    return x.astype(np.float16)

def as_bytes(x, kind):
    """Little-endian, each row's one after another."""
    x = np.ascontiguousarray(x.astype(kind))
    return x.view(U8).reshape(len(x), -1)

def divide(x, y):
    return np.divide(x, y, out=np.zeros(np.broadcast_shapes(x.shape, y.shape), F), where=y != 0)

def grid_of(cls):
    cls.init_grid()
    return np.asarray(cls.grid, F).reshape(-1, cls.grid_shape[1])

def nearest(y, grid):
    """Index of each row's nearest entry: the largest 2 y . g - g . g; all are integers."""
    best, norms = np.empty(len(y), np.int64), (grid * grid).sum(axis=1)
    for at in range(0, len(y), 8192):
        best[at:at + 8192] = (2 * (y[at:at + 8192] @ grid.T) - norms).argmax(axis=1)
    return best

def scales(x, sub, top, most, first):
    """fp16 scale d of each block and codes of its sub-blocks: (code + first) * d * top covers most of the
    largest value."""
    largest = np.abs(x).reshape(len(x), -1, sub).max(axis=2) * F(0.9)
    d = half(largest.max(axis=1, keepdims=True) / F(top * (most + first)))
    return d, np.clip(np.rint(divide(largest, d.astype(F) * F(top)) - F(first)), 0, most).astype(np.int64)

def packed_nibbles(x):
    return (x[:, 0::2] | x[:, 1::2] << 4).astype(U8)

def shifted(x, width):
    """Fields of `width` bits, the first lowest, as one number a row."""
    return (x.astype(np.uint64) << (np.arange(x.shape[-1], dtype=np.uint64) * np.uint64(width))).sum(
        axis=-1, dtype=np.uint64)


# ---- magnitudes from a codebook, signs apart ----

def magnitudes(x, cls, sub, top, first):
    """d, codes of scales, indices [blocks][groups], signs [blocks][32] with eight bits each."""
    grid = grid_of(cls)
    d, codes = scales(x, sub, top, 15, first)
    unit = (codes + F(first)) * d.astype(F) * F(top) / F(grid.max())
    y = np.rint(np.clip(divide(np.abs(x).reshape(len(x), -1, sub), unit[:, :, None]), 0, grid.max() + 8))
    index = nearest(y.reshape(-1, grid.shape[1]), grid).reshape(len(x), -1)
    return d, codes, index, (x < 0).reshape(len(x), 32, 8), y.reshape(len(x), 32, 8)

def even(signs, y):
    """Seven signs; the eighth makes their number even, so of an odd number the smallest is turned."""
    odd, turned = signs.sum(axis=2) % 2 == 1, signs.copy()
    np.put_along_axis(turned, y.argmin(axis=2)[:, :, None],
                      np.take_along_axis(signs, y.argmin(axis=2)[:, :, None], 2) ^ odd[:, :, None], 2)
    return shifted(turned[:, :, :7], 1)

def words(codes, signs):
    return (shifted(signs.reshape(len(signs), 8, 4), 7) | codes.astype(np.uint64) << np.uint64(28))

def iq2_xxs(x):
    d, codes, index, signs, y = magnitudes(x, quants.IQ2_XXS, 32, 43 / 4, 0.5)
    both = np.stack([shifted(index.reshape(len(x), 8, 4), 8), words(codes, even(signs, y))], axis=2)
    return [as_bytes(d, "<f2"), as_bytes(both.reshape(len(x), -1), "<u4")]

def iq2_xs(x):
    d, codes, index, signs, y = magnitudes(x, quants.IQ2_XS, 16, 43 / 4, 0.5)
    return [as_bytes(d, "<f2"), as_bytes(index.astype(np.uint64) | even(signs, y) << np.uint64(9), "<u2"),
            packed_nibbles(codes)]

def iq2_s(x):
    d, codes, index, signs, _ = magnitudes(x, quants.IQ2_S, 16, 43 / 4, 0.5)
    return [as_bytes(d, "<f2"), (index & 255).astype(U8), shifted(signs, 1).astype(U8),
            shifted((index >> 8).reshape(len(x), 8, 4), 2).astype(U8), packed_nibbles(codes)]

def iq3_xxs(x):
    d, codes, index, signs, y = magnitudes(x, quants.IQ3_XXS, 32, 62 / 2, 0.5)
    return [as_bytes(d, "<f2"), index.astype(U8), as_bytes(words(codes, even(signs, y)), "<u4")]

def iq3_s(x):
    d, codes, index, signs, _ = magnitudes(x, quants.IQ3_S, 32, 2 * 15, 0.5)
    return [as_bytes(d, "<f2"), (index & 255).astype(U8),
            shifted((index >> 8).reshape(len(x), 8, 8), 1).astype(U8), shifted(signs, 1).astype(U8),
            packed_nibbles(codes)]


# ---- one bit and a half ----

def iq1(x, sub, shared):
    """d, codes of scales, indices, and whether down for each `shared` columns."""
    d, codes = scales(x, sub, 2 * 1.125, 7, 0.5)
    unit = np.repeat((2 * codes + 1) * d.astype(F), sub, axis=1)
    y, grid = np.rint(np.clip(divide(x, unit) * 8, -16, 16)).reshape(-1, 8), 8 * grid_of(quants.IQ1_S)
    found = [nearest(y, grid + delta) for delta in (1, -1)]
    error = [((y - grid[i] - delta) ** 2).reshape(len(x), -1, shared).sum(axis=2)
             for i, delta in zip(found, (1, -1))]
    down = error[1] < error[0]
    index = np.where(np.repeat(down.ravel(), shared // 8), found[1], found[0]).reshape(len(x), 32)
    return d, codes, index, down

def iq1_s(x):
    d, codes, index, down = iq1(x, 32, 32)
    high = shifted((index >> 8).reshape(len(x), 8, 4), 3).astype(np.int64) | codes << 12 | down << 15
    return [as_bytes(d, "<f2"), (index & 255).astype(U8), as_bytes(high, "<u2")]

def iq1_m(x):
    d, codes, index, down = iq1(x, 16, 8)
    top = d.view("<u2").astype(np.int64) >> np.arange(0, 16, 4) & 15
    return [(index & 255).astype(U8), packed_nibbles(index >> 8 | down << 3),
            as_bytes(shifted(codes.reshape(len(x), 4, 4), 3).astype(np.int64) | top << 12, "<u2")]


# ---- few values, small floats ----

def ternary(x):
    d = half(np.abs(x).mean(axis=1, keepdims=True) * F(1.4))
    return d, np.clip(np.rint(divide(x, d.astype(F))), -1, 1).astype(np.int64) + 1

def tq1_0(x):
    d, t = ternary(x)
    power = np.array([81, 27, 9, 3, 1])[None, :, None]
    parts = [(t[:, :160].reshape(-1, 5, 32) * power).sum(axis=1), (t[:, 160:240].reshape(-1, 5, 16)
             * power).sum(axis=1), (t[:, 240:].reshape(-1, 4, 4) * power[:, :4]).sum(axis=1)]
    return [((p * 256 + 242) // 243).astype(U8) for p in parts] + [as_bytes(d, "<f2")]

def tq2_0(x):
    d, t = ternary(x)
    fields = t.reshape(len(x), 2, 4, 32).transpose(0, 1, 3, 2)
    return [shifted(fields, 2).astype(U8).reshape(len(x), 64), as_bytes(d, "<f2")]

def q2_0(x):
    d, t = ternary(x)
    return [as_bytes(d, "<f2"), shifted(t.reshape(len(x), 16, 4), 2).astype(U8)]

def q1_0(x):
    d = half(np.abs(x).mean(axis=1, keepdims=True))
    return [as_bytes(d, "<f2"), np.packbits(x >= 0, axis=1, bitorder="little")]

def fp4(y):
    """Codes of the nearest of these and their negatives."""
    values = np.array([0, 1, 2, 3, 4, 6, 8, 12], F)
    return np.abs(np.abs(y)[..., None] - values).argmin(axis=-1) | (y < 0) << 3

def mxfp4(x):
    power = np.frexp(np.abs(x).max(axis=1, keepdims=True) / F(12))[1]
    codes = fp4(x * np.exp2(-power.astype(F)))
    return [np.clip(power + 128, 0, 254).astype(U8), (codes[:, :16] | codes[:, 16:] << 4).astype(U8)]

def nvfp4(x):
    largest = np.abs(x).reshape(len(x), 4, 16).max(axis=2) / F(6)       # twice the scale of doubled values
    part, power = np.frexp(largest)
    mantissa = np.clip(((2 * part - 1) * 8).astype(np.int64), 0, 7)
    small = power < -5                                      # as 512ths, without an exponent
    few = np.clip(np.rint(largest * F(512)), 1, 7).astype(np.int64)
    code = np.where(small, few, (power + 6) << 3 | mantissa)
    unit = np.where(small, few * F(2.0**-10), np.ldexp(F(0.5) + mantissa.astype(F) / 16, power) / 2)
    codes = fp4(np.clip(x.reshape(len(x), 4, 16) / unit[:, :, None].astype(F), -12, 12))
    return [code.astype(U8), (codes[:, :, :8] | codes[:, :, 8:] << 4).astype(U8).reshape(len(x), -1)]


def quantised(x, kind):
    """Rows of whole blocks as bytes."""
    block = quants.GGML_QUANT_SIZES[kind][0]
    raw = np.concatenate(globals()[kind.name.lower()](x.reshape(-1, block).astype(F)), axis=1)
    assert raw.shape[1] == quants.GGML_QUANT_SIZES[kind][1]
    return raw.reshape(len(x), -1)


def main():
    source, out = sys.argv[1:]
    w = GGUFWriter(out, "llama")
    copy_keys(Reader(source), w)
    for name, x in padded_tensors(source):
        kind = Q.Q8_0
        if "attn_q." in name or "attn_k." in name: kind = LAYERS.get(int(name.split(".")[1]), kind)
        if x.ndim == 1: w.add_tensor(name, x)
        elif kind == Q.Q8_0: w.add_tensor(name, quants.quantize(x.astype(F), kind), raw_dtype=kind)
        else: w.add_tensor(name, quantised(x.astype(F), kind), raw_dtype=kind)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


if __name__ == "__main__":
    main()
