"""Tensors of random values, and the files that hold them: safetensors and PyTorch's.
SPDX-License-Identifier: MIT

Part of make_hf_tiny.py.
"""
import io, json, math, pickle, struct, sys, types, zlib

# ---- values --------------------------------------------------------------------------------------

def f32(x): return struct.unpack("<f", struct.pack("<f", x))[0]

def encode(values, dtype):
    if dtype == "F32": return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16": return struct.pack(f"<{len(values)}e", *values)
    if dtype == "I64": return struct.pack(f"<{len(values)}q", *(int(v) for v in values))
    out = []
    for v in values:                                    # BF16: round to nearest even
        u = struct.unpack("<I", struct.pack("<f", v))[0]
        out.append((u + 0x7FFF + (u >> 16 & 1)) >> 16)
    return struct.pack(f"<{len(out)}H", *out)

def decode(data, dtype):
    if dtype == "F32": return list(struct.unpack(f"<{len(data) // 4}f", data))
    if dtype == "F16": return list(struct.unpack(f"<{len(data) // 2}e", data))
    return [struct.unpack("<f", struct.pack("<I", u << 16))[0]
            for u in struct.unpack(f"<{len(data) // 2}H", data)]

class Tensor:
    """shape, dtype, stored bytes; values as a reader gets them back."""
    def __init__(self, rng, shape, dtype, transposed=False):
        n = math.prod(shape)
        self.shape, self.dtype, self.transposed = list(shape), dtype, transposed
        self.data = encode([rng.gauss(0, 0.5) for _ in range(n)], dtype)
        self.values = decode(self.data, dtype) if dtype != "I64" else []
        if transposed:                                  # stored the other way round
            r, c = shape
            size = len(self.data) // n
            cells = [self.data[i * size:(i + 1) * size] for i in range(n)]
            self.data = b"".join(cells[i * c + j] for j in range(c) for i in range(r))

class Ternary:
    """Rows of -1, 0 and 1 packed four to a byte: rows i, i + rows / 4, i + rows / 2, i + 3 rows / 4."""
    def __init__(self, rng, rows, cols):
        n = rows * cols
        self.shape, self.dtype, self.transposed = [rows // 4, cols], "U8", False
        self.codes = [rng.randrange(3) - 1 for _ in range(n)]
        quarter = n // 4
        self.data = bytes(sum(self.codes[i + g * quarter] + 1 << 2 * g for g in range(4))
                          for i in range(quarter))

# ---- weight files --------------------------------------------------------------------------------

def safetensors(tensors, header=None, tail=b""):
    head, off, body = {"__metadata__": {"format": "pt"}}, 0, b""
    for name, t in tensors.items():
        head[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [off, off + len(t.data)]}
        off += len(t.data); body += t.data
    j = (header(head) if header else json.dumps(head)).encode()
    j += b" " * (-len(j) % 8)
    return struct.pack("<Q", len(j)) + j + body + tail

def zip_file(entries, zip64=False, method=0):
    out, central = b"", b""
    for name, data in entries.items():
        n, crc = name.encode(), zlib.crc32(data)
        packed = data
        if method == 8:
            c = zlib.compressobj(9, zlib.DEFLATED, -15); packed = c.compress(data) + c.flush()
        at, size, psize = len(out), len(data), len(packed)
        pad = -(at + 30 + len(n) + 4) % 64                                       # PyTorch aligns its entries
        extra = struct.pack("<2sH", b"FB", pad) + b"Z" * pad
        out += struct.pack("<4s5H3I2H", b"PK\3\4", 0, 0, method, 0, 0, crc, psize, size, len(n),
                           len(extra)) + n + extra + packed
        x = b""
        if zip64:
            x = struct.pack("<2H3Q", 1, 24, size, psize, at)
            size = psize = at = 0xFFFFFFFF
        central += struct.pack("<4s6H3I5H2I", b"PK\1\2", 0, 0, 0, method, 0, 0, crc, psize, size, len(n),
                               len(x), 0, 0, 0, 0, at) + n + x
    at, n, size = len(out), len(entries), len(central)
    out += central
    if zip64:
        out += struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, n, n, size, at) + struct.pack(
            "<4sIQI", b"PK\6\7", 0, at + size, 1)
        n, size, at = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    return out + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n, n, size, at, 0)

class Storage:
    def __init__(self, cls, key, n): self.cls, self.key, self.n = cls, key, n

def fake(module, name):
    """Something that pickles as the global module.name."""
    mod = sys.modules.get(module)
    if not mod: mod = sys.modules[module] = types.ModuleType(module)
    if not hasattr(mod, name):
        thing = type(name, (), {"__module__": module, "__qualname__": name})
        setattr(mod, name, thing)
    return getattr(mod, name)

class Rebuild:
    def __init__(self, fn, args): self.fn, self.args = fn, args
    def __reduce__(self): return self.fn, self.args

def function(module, name):
    cls = fake(module, name)
    if isinstance(cls, type):
        def f(*a): raise RuntimeError
        f.__module__, f.__name__, f.__qualname__ = module, name, name
        setattr(sys.modules[module], name, f)
        cls = f
    return cls

def pytorch(tensors, protocol=2, zip64=False, method=0, mutate=None, parameter=False):
    import collections
    classes = {"F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage", "I64": "LongStorage"}
    state, files, hooks = collections.OrderedDict(), {}, collections.OrderedDict()
    for i, (name, t) in enumerate(tensors.items()):
        n = math.prod(t.shape)
        strides, k = [], 1
        for d in reversed(t.shape): strides.insert(0, k); k *= d
        if t.transposed: strides = [1, t.shape[0]]
        args = [Storage(fake("torch", classes[t.dtype]), str(i), n), 0, tuple(t.shape), tuple(strides),
                False, hooks]
        files[str(i)] = t.data
        if mutate: mutate(name, args)
        value = Rebuild(function("torch._utils", "_rebuild_tensor_v2"), tuple(args))
        if parameter: value = Rebuild(function("torch._utils", "_rebuild_parameter"), (value, True, hooks))
        state[name] = value
    state._metadata = collections.OrderedDict(x=1)
    class P(pickle.Pickler):
        def persistent_id(self, obj):
            return ("storage", obj.cls, obj.key, "cpu", obj.n) if isinstance(obj, Storage) else None
    buf = io.BytesIO(); P(buf, protocol).dump(state)
    return torch_zip(buf.getvalue(), files, zip64, method)

def torch_zip(pkl, files, zip64=False, method=0):
    entries = {"archive/data.pkl": pkl, "archive/byteorder": b"little"}
    entries.update({f"archive/data/{k}": v for k, v in files.items()})
    entries["archive/version"] = b"3\n"
    return zip_file(entries, zip64, method)
