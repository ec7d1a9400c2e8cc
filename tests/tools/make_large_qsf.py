#!/usr/bin/env python3
"""Makes a large QSF file out of a small one by repeating its layers: for what happens only beyond 4 GB.
SPDX-License-Identifier: MIT

    make_large_qsf.py IN.qsf OUT.qsf --bytes 4400000000

The result is a whole and valid extended file (docs/format.md): every layer, every directory line and every
CRC is there. Its answers make no sense, but are the same everywhere.
"""
import argparse, struct, zlib

SIZES = {1: 1, 2: 4, 3: 8, 4: 4, 5: 4, 6: 1}      # bytes of an element, by a key's type
INDEX, LINE, PAGE, MOST_LAYERS = 32, 28, 4096, 4096


def read_keys(x):
    keys, at = [], 8
    for _ in range(struct.unpack_from("<I", x, 4)[0]):
        length, type, _, count = struct.unpack_from("<HBBI", x, at)
        name, at = x[at + 8:at + 8 + length].decode(), at + 8 + length
        keys.append([name, type, x[at:at + count * SIZES[type]]])
        at += count * SIZES[type]
    return keys


def write_keys(keys):
    out = b"QSFX" + struct.pack("<I", len(keys))
    for name, type, value in keys:
        out += struct.pack("<HBBI", len(name), type, 0, len(value) // SIZES[type]) + name.encode() + value
    return out


def directory(lines, old, new):
    """The embedding's lines, the layers' as often as there are layers, the final unit's."""
    units = {}
    for at in range(0, len(lines), LINE):
        units.setdefault(struct.unpack_from("<I", lines, at)[0], []).append(lines[at + 4:at + LINE])
    order = [(old, new)] + [(i % old, i) for i in range(new)] + [(old + 1, new + 1)]
    return b"".join(struct.pack("<I", unit) + line for source, unit in order
                    for line in units.get(source, []))


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("source")
    a.add_argument("target")
    a.add_argument("--bytes", type=int, required=True,
                   help="as many layers as together take at least so much")
    o = a.parse_args()
    with open(o.source, "rb") as f:
        b = f.read()
    header, old = bytearray(b[:128]), struct.unpack_from("<I", b, 16)[0]
    embd, final, ext, ext_size = (*struct.unpack_from("<QQ", b, 64), *struct.unpack_from("<QI", b, 100))
    entries = [b[128 + INDEX * i:128 + INDEX * (i + 1)] for i in range(old)]
    starts = [struct.unpack_from("<Q", e)[0] for e in entries]
    layers = [b[s:e] for s, e in zip(starts, starts[1:] + [final])]
    embedding, rest = b[embd - 48:starts[0]], b[final:]
    n = next((i for i in range(old, MOST_LAYERS + 1) if sum(map(len, layers)) * i // old >= o.bytes), None)
    if n is None:
        a.error(f"{MOST_LAYERS} layers of {o.source} are too small")

    keys = read_keys(b[ext:ext + ext_size])
    values = {key[0]: key for key in keys}
    values["tensors"][2] = directory(values["tensors"][2], old, n)
    ext = 128 + INDEX * n
    ext_size = len(write_keys(keys))
    at = -(-(ext + ext_size) // PAGE) * PAGE
    filling = at - ext - ext_size
    struct.pack_into("<Q", header, 64, at + 48)
    at += len(embedding)
    index = b""
    for i in range(n):
        index += struct.pack("<Q", at) + entries[i % old][8:]
        at += len(layers[i % old])
    struct.pack_into("<I", header, 16, n)
    struct.pack_into("<Q", header, 72, at)
    size = at + len(rest)
    values["file.size"][2] = struct.pack("<Q", size)
    values["index.crc"][2] = struct.pack("<I", zlib.crc32(index))
    extension = write_keys(keys) + bytes(filling)
    struct.pack_into("<I", header, 92, size % 2**32)
    struct.pack_into("<I", header, 96, zlib.crc32(header[:96]))
    struct.pack_into("<QII", header, 100, ext, len(extension), zlib.crc32(extension))
    struct.pack_into("<I", header, 116, zlib.crc32(header[:116]))
    with open(o.target, "wb") as out:
        out.write(header + index + extension + embedding)
        for i in range(n):
            out.write(layers[i % old])
        out.write(rest)
    print(f"{o.target}: {n} layers, {size} bytes")


if __name__ == "__main__":
    main()
