#!/usr/bin/env python3
"""Makes a QSF file with the shape of Qwen2.5-1.5B from random 4-bit weights: for speed and memory, where what
it says is of no matter.
SPDX-License-Identifier: MIT

    make_random_qwen.py QWEN.qsf OUT.qsf [--layers 28]

QWEN.qsf is any Qwen2.5 model that qsf-convert wrote: its vocabulary and its keys are taken. No two layers
have the same bytes. The result is a whole and valid extended file (docs/format.md) of about 870 MB.
"""
import argparse, struct, zlib
import numpy as np
from make_large_qsf import read_keys, write_keys

PAGE, CHUNK, LINE = 4096, 65536, "<IIIIQBBH"
E, H, HKV, D, F = 1536, 12, 2, 128, 8960
MATRIX, FLOAT, HALF = 19, 17, 16                  # 4-bit scaled in blocks of 32; f32; f16
# kind, rows, cols, type: docs/format.md, section 4
LAYER = [(7, 1, E, FLOAT), (0, H * D, E, MATRIX), (9, 1, H * D, FLOAT), (1, HKV * D, E, MATRIX),
         (10, 1, HKV * D, FLOAT),
         (2, HKV * D, E, MATRIX), (11, 1, HKV * D, FLOAT), (3, E, H * D, MATRIX), (8, 1, E, FLOAT),
         (4, F, E, MATRIX), (5, F, E, MATRIX), (6, E, F, MATRIX)]


def values(rng, rows, cols, type):
    """Weights that keep the hidden state's size: matrices with values of about 1 / sqrt(cols),
    norms 1, biases 0."""
    if type != MATRIX:
        return np.full(cols, 1 if cols == E else 0, "<f4" if type == FLOAT else "<f2").tobytes()
    tiles = np.frombuffer(bytearray(rng.bytes(rows // 16 * (cols // 32) * 288)), np.uint8).reshape(-1, 288)
    tiles[:, :32] = np.full(16, 0.2 / cols ** 0.5, "<f2").view(np.uint8)
    return tiles.tobytes()


def filled(b, to):
    return b + bytes(-len(b) % to)


def make_layer(rng):
    """A layer unit; its tensors with their headers as (kind, rows, cols, place, type, packing, block); how
    many headers it has."""
    out, tensors, headers = bytearray(), [], 0
    for kind, rows, cols, type in LAYER:
        gap = (48 - len(out)) % 64                # data begin at multiples of 64: their headers stand at 48
        if gap:
            gap += 64 if gap < 16 else 0          # a padding tensor has a header itself
            out += struct.pack("<IIIBBBB", 0xffff, 1, (gap - 16) // 2, HALF, 0, 0, 0) + bytes(gap - 16)
            headers += 1
        tiles = type == MATRIX
        out += struct.pack("<IIIBBBB", kind, rows, cols, type, tiles, 5 if tiles else 0, 0)
        headers += 1
        tensors.append((kind, rows, cols, len(out), type, tiles, 32 if tiles else 1))
        out += values(rng, rows, cols, type)
    return bytes(out), tensors, headers


def crc_word(b):
    return struct.pack("<I", zlib.crc32(b))


def describe(keys, embedding, final, tensors, n, vocab):
    """Everything of the extension section that does not depend on the layers' bytes; what does
    has its length."""
    key = {k[0]: k for k in keys}
    lines = [struct.pack(LINE, n, 32, vocab, E, 64, MATRIX, 1, 32)]
    lines += [struct.pack(LINE, i, *t) for i in range(n) for t in tensors]
    lines.append(struct.pack(LINE, n + 1, 34, 1, E, 0, HALF, 0, 1))
    key["tensors"][2] = b"".join(lines)
    key["name"][2] = b"random weights"
    key["rope.dim"][2] = struct.pack("<I", D)
    key["crc.chunk"][2] = struct.pack("<I", CHUNK)
    for name, unit in ("embd", embedding), ("final", final):
        key[name + ".crc"][2] = crc_word(unit)
        key[name + ".crcs"][2] = b"".join(crc_word(unit[i:i + CHUNK]) for i in range(0, len(unit), CHUNK))
    return key


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("source")
    a.add_argument("target")
    a.add_argument("--layers", type=int, default=28)
    o = a.parse_args()
    with open(o.source, "rb") as f:
        header = bytearray(f.read(128))
        at, size = struct.unpack_from("<QI", header, 100)
        f.seek(at)
        keys = [k for k in read_keys(f.read(size)) if not k[0].startswith(("head.", "meta."))]
    n, vocab, rng = o.layers, struct.unpack_from("<I", header, 32)[0], np.random.default_rng(1)
    embedding = values(rng, vocab, E, MATRIX)
    embedding = filled(bytes(48) + struct.pack("<IIII", MATRIX, len(embedding), vocab, E) + embedding, PAGE)
    final = filled(values(rng, 1, E, HALF) + b"\xff", 64)
    layer, tensors, headers = make_layer(rng)
    key = describe(keys, embedding, final, tensors, n, vocab)
    ext = 128 + 32 * n
    begin = len(filled(bytes(ext) + write_keys(keys), PAGE))
    index, at = b"", begin + len(embedding)
    with open(o.target, "wb") as out:
        out.seek(begin)
        out.write(embedding)
        for i in range(n):
            if i:
                layer = make_layer(rng)[0]
            index += struct.pack("<QIIBBHIfI", at, len(layer), len(layer), MATRIX, 0, headers,
                                 zlib.crc32(layer), 1, 0)
            at += out.write(filled(layer, PAGE))
        size = at + out.write(final)
        key["file.size"][2] = struct.pack("<Q", size)
        key["index.crc"][2] = crc_word(index)
        extension = filled(bytes(ext) + write_keys(keys), PAGE)[ext:]
        struct.pack_into("<4I", header, 16, n, E, H, HKV)
        struct.pack_into("<2I", header, 40, F, D)
        struct.pack_into("<QQ", header, 64, begin + 48, at)
        struct.pack_into("<I", header, 92, size % 2**32)
        struct.pack_into("<I", header, 96, zlib.crc32(header[:96]))
        struct.pack_into("<QII", header, 100, ext, len(extension), zlib.crc32(extension))
        struct.pack_into("<I", header, 116, zlib.crc32(header[:116]))
        out.seek(0)
        out.write(header + index + extension)
    print(f"{o.target}: {n} layers, {size} bytes")


if __name__ == "__main__":
    main()
