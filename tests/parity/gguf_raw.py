"""Writes GGUF files with tensors of any type number, piece by piece; Microsoft's I2_S is one that the gguf
package does not know.
SPDX-License-Identifier: MIT
"""
import pathlib, struct
import numpy as np
from gguf import GGUFReader

F32, F16, TQ2_0, I2_S = 0, 1, 35, 36
ALIGN = 32


def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s

def value(v):
    """Type number and bytes: bool, int (u32; i32 in lists), float, text, and lists of one of these."""
    if isinstance(v, bool): return 7, struct.pack("<?", v)
    if isinstance(v, int): return 4, struct.pack("<I", v)
    if isinstance(v, float): return 6, struct.pack("<f", v)
    if isinstance(v, str): return 8, text(v)
    if isinstance(v[0], int): return 9, struct.pack(f"<IQ{len(v)}i", 5, len(v), *v)
    return 9, struct.pack("<IQ", value(v[0])[0], len(v)) + b"".join(value(x)[1] for x in v)

def pairs(kv):
    """Keys and values as a file has them."""
    return b"".join(text(k) + struct.pack("<I", value(v)[0]) + value(v)[1] for k, v in kv.items())

def write(path, n_kv, kv, tensors):
    """tensors: (name, rows or 0 for a vector, cols, type, bytes, parts), where parts() yields the data."""
    head, at = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), n_kv), kv], 0
    for name, rows, cols, kind, size, _ in tensors:
        dims = (cols, rows) if rows else (cols,)
        head.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, at))
        at += -(-size // ALIGN) * ALIGN
    head = b"".join(head)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGN))
        for name, _, _, _, size, parts in tensors:
            begin = f.tell()
            for part in parts(): f.write(part)
            if f.tell() - begin != size: raise ValueError(f"{name}: {f.tell() - begin} bytes, not {size}")
            f.write(bytes(-size % ALIGN))

def to_i2_s(source, path):
    """A file of floats once more, the matrices of its layers as I2_S."""
    reader, data = GGUFReader(source), pathlib.Path(source).read_bytes()
    n_kv, = struct.unpack_from("<Q", data, 16)
    kv = data[24:min(t.field.offset for t in reader.tensors)]
    tensors = []
    for t in reader.tensors:
        shape, kind, part = [int(n) for n in t.shape], int(t.tensor_type), t.data.tobytes()
        if t.name.startswith("blk.") and len(shape) == 2: kind, part = I2_S, i2_s(np.array(t.data))
        tensors.append((t.name, shape[1] if len(shape) == 2 else 0, shape[0], kind, len(part),
                        lambda part=part: [part]))
    write(path, n_kv, kv, tensors)

def i2_s(w):
    """A matrix of -s, 0 and s as Microsoft's I2_S on x86: bytes of four columns 32 apart, the first in the
    highest bits, then s and zeros up to 32 bytes."""
    codes = (np.sign(w) + 1).astype(np.uint8).reshape(-1, 4, 32)
    packed = codes[:, 0] << 6 | codes[:, 1] << 4 | codes[:, 2] << 2 | codes[:, 3]
    return packed.tobytes() + struct.pack("<f28x", np.abs(w).max())
