"""Reads QSF files, from docs/format.md alone: every CRC, every type, both packings. Prints a
summary, or use QSF(path).
SPDX-License-Identifier: MIT

    python3 tests/tools/qsf_reader.py FILE [--values OUT.f32]

--values writes the values of all tensors, in directory order, as f32 (sparse ones left out).
"""
import struct, sys, zlib
import numpy as np

HALF, U8 = np.dtype("<f2"), np.uint8
# type: (bits of the planes, has a zero, offset of codes)
CODED = {0: ((2,), 1, 0), 1: ((2,), 1, 0), 2: ((2, 1), 1, 0), 3: ((4,), 1, 0), 4: ((1, 1), 0, 0),
         18: ((8,), 0, 0),
         19: ((4,), 0, 8), 20: ((4, 1), 0, 16), 21: ((4, 2), 0, 32), 22: ((2, 1), 0, 4), 25: ((2,), 0, 1),
         26: ((), 0, 1), 27: ((2,), 0, 0), 28: ((2,), 0, 2),
         32: ((1, 1), 0, 0), 33: ((2, 1), 0, 0), 34: ((2, 1, 1), 0, 0), 35: ((4, 1), 0, 0),
         36: ((4,), 0, 0), 37: ((2, 1), 0, 0)}
BARE = (25, 26, 27)                         # no scales
LEVELS = {32: "13 40 73 127", 33: "5 16 27 39 53 69 90 127",        # upper halves
          34: "2 7 12 16 21 26 31 37 43 49 56 64 73 84 99 127",
          35: "1 3 5 7 9 11 14 16 18 20 22 25 27 29 32 34 37 39 42 45 48 51 55 58 62 67 72 77 84 93 104 127"}
TABLES = {36: "-50 -38 -29 -22 -16 -10 -5 0 5 10 15 21 28 36 46 63", 37: "-34 -19 -9 0 8 17 29 48"}
FLOATS = {16: HALF, 17: np.dtype("<f4"), 23: np.dtype("<u2")}
ELEMENTS = {1: "u1", 2: "<u4", 3: "<u8", 4: "<f4", 5: "<i4"}

def need(ok, what):
    if not ok: raise ValueError(what)

def fields(plane, w):                       # last axis of bytes -> fields, lowest bits first
    return (plane[..., None] >> np.arange(0, 8, w, dtype=U8) & (2 ** w - 1)).reshape(*plane.shape[:-1], -1)

def fives(a):                               # blocks of 52 bytes -> 256 digits of 3
    out, x = np.zeros((*a.shape[:-1], 256), int), a.astype(int)
    for k in range(5):
        digit, x = x * 3 >> 8, x * 3 & 255
        out[..., 32 * k:32 * k + 32] = digit[..., :32]
        out[..., 160 + 16 * k:176 + 16 * k] = digit[..., 32:48]
        if k < 4: out[..., 240 + 4 * k:244 + 4 * k] = digit[..., 48:]
    return out

def trellis(codes, type):                   # [row, columns] -> levels, by steps along the row
    k = type - 30
    upper = np.array([int(x) for x in LEVELS[type].split()])
    level = np.concatenate([-upper[::-1], upper])
    order = np.array([4 * (t % 8) + t // 8 for t in range(32)])
    steps = codes.reshape(len(codes), -1, 32)[:, :, order].reshape(len(codes), -1)
    m, u = steps & 2 ** (k - 1) - 1, steps >> k - 1
    def back(n):                            # u[t - n]
        return np.pad(u, ((0, 0), (n, 0)))[:, :u.shape[1]]
    index = 4 * m + 2 * (u ^ back(1) ^ back(3)) + back(2)
    out = np.empty((len(codes), index.shape[1] // 32, 32), int)
    out[:, :, order] = level[index].reshape(out.shape)
    return out.reshape(codes.shape)

def head_of(type):                          # bytes of a block before its codes
    return 0 if type in BARE else 1 if type in LEVELS or type in TABLES else 2 + 2 * CODED[type][1]

def scales(a, type):                        # the head's bytes to numbers; last axis: scale, zero
    if type in LEVELS: return np.where(a == 0, 0, (8 + a % 8) / 8 * 2.0 ** (a // 8 - 27.0)).astype("<f4")
    if type in TABLES:                      # a sign, 4 bits of exponent, 3 of mantissa
        e, m = a // 8 % 16, a % 8
        size = np.where(e == 0, m / 8 * 2.0 ** -14, (8 + m) / 8 * 2.0 ** (e - 15.0))
        return np.where(a < 128, size, -size).astype("<f4")
    return a.copy().view(HALF).astype("<f4")

def size_of(type, packing, block, rows, cols):
    if type == 24: return -(-(4 * (rows + 1) + 6 * cols) // 4) * 4
    if type in FLOATS: return rows * cols * FLOATS[type].itemsize
    planes, zero, _ = CODED[type]
    if type in LEVELS:
        need(packing == 1 and block == 64, "a trellis that is no tiles of 64 columns")
        return -(-rows // 16) * -(-cols // 64) * (16 + 128 * (type - 30))
    if type in BARE:
        return (-(-rows // 16) * 16 if packing else rows) * -(-cols // 256) * (52 if type == 26 else 64)
    return (-(-rows // 16) * 16 if packing else rows) * -(-cols // block) * (
        head_of(type) + block * sum(planes) // 8)

def dequant(data, type, packing, block, rows, cols):
    if type in FLOATS:
        v = np.frombuffer(data, FLOATS[type], rows * cols).reshape(rows, cols)
        return (v.astype("<u4") << 16).view("<f4") if type == 23 else v.astype("<f4")
    planes, zero, offset = CODED[type]
    n, head = -(-cols // block), head_of(type)
    a = np.frombuffer(data, U8)
    if type == 26:
        a = a.reshape(-1, n, 52) if packing == 0 else a.reshape(-1, n, 13, 16, 4).transpose(
            0, 3, 1, 2, 4).reshape(-1, n, 52)
        return (fives(a) - 1).astype("<f4").reshape(-1, n * 256)[:rows, :cols]
    if packing == 0:
        a = a.reshape(rows, n, -1)
        half = scales(a[..., :head], type) if head else np.ones((1, 1, 1), "<f4")
        scale, z, at, codes = half[..., :1], half[..., 1:], head, 0
        parts = []
        for w in planes:
            parts.append(fields(a[..., at:at + block * w // 8], w).astype(int))
            at += block * w // 8
        codes = parts[0] + (parts[1] << planes[0] if len(parts) > 1 else 0)
        if type == 4: codes = np.where(parts[1] == 1, 1, 2 * parts[0])
    else:
        planes = (2,) if type == 4 else planes
        a = a.reshape(-(-rows // 16), n, -1)
        half = (scales(a[..., :16 * head], type) if head
                else np.ones((*a.shape[:2], 16), "<f4")).reshape(*a.shape[:2], 1 + zero, 16)
        # group, vector, row, byte
        groups = a[..., 16 * head:].reshape(*a.shape[:2], block // 32, sum(planes), 16, 4)
        codes, at, shift = 0, 0, 0
        for w in planes:
            # ..., vector j, row, b, f
            f = groups[..., at:at + w, :, :, None] >> np.arange(0, 8, w, dtype=U8) & (2 ** w - 1)
            # row; group, j, f, b
            f = f.transpose(0, 1, 4, 2, 3, 6, 5).reshape(*a.shape[:2], 16, block)
            codes, at, shift = codes + (f.astype(int) << shift), at + w, shift + w
        codes = codes.transpose(0, 2, 1, 3).reshape(-1, n, block)[:rows]
        half = half.transpose(0, 3, 1, 2).reshape(-1, n, 1 + zero)[:rows]
        scale, z = half[..., :1], half[..., 1:]
    if type in LEVELS: codes = trellis(codes.reshape(rows, -1), type).reshape(codes.shape)
    if type == 18: codes = codes.astype(U8).view(np.int8)
    if type == 4: codes = 1 - codes
    if type in TABLES: codes = np.array([int(x) for x in TABLES[type].split()])[codes]
    if type == 27: codes = np.array([-2, -1, 1, 2])[codes]
    codes = (codes.astype(int) - offset).astype("<f4")
    return (scale * codes + z if zero else scale * codes).reshape(rows, n * block)[:, :cols]

def unpack(data, how, size):
    if how == 0: return data
    if how in (1, 2):
        import lz4.block
        return lz4.block.decompress(data, uncompressed_size=size)
    need(how == 3, f"compression {how}")
    import zstandard
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)

def join(tensors, first, rest):             # the pieces of a progressive unit
    out, at, done, low = [], 0, 0, 0
    for t in sorted(tensors, key=lambda t: t["place"]):
        if t["packing"] != 1 or t["type"] != 18: continue
        before, pairs = t["place"] - at, t["block"] // 8
        tiles = -(-t["rows"] // 16) * -(-t["cols"] // t["block"])
        out.append(first[done:done + before])
        a = np.frombuffer(first, U8, tiles * (32 + 64 * pairs), done + before)
        a = a.reshape(tiles, -1)
        l = np.frombuffer(rest, U8, tiles * pairs * 64, low).reshape(tiles, pairs, 1, 64)
        h = a[:, 32:].reshape(tiles, pairs, 1, 64)
        codes = np.concatenate([(h << 4) | l & 15, h & 0xf0 | l >> 4], axis=2).reshape(tiles, -1)
        out.append(np.concatenate([a[:, :32], codes], axis=1).tobytes())
        done, low = done + before + a.size, low + l.size
        at = t["place"] + size_of(t["type"], 1, t["block"], t["rows"], t["cols"])
    return b"".join(out) + first[done:], low

# What version 3 says of the architecture.
DESCRIBED = ("layer.flow", "layer.residual_scale", "attn.qk_norm", "attn.qkv_clamp", "attn.alibi",
             "attn.temp_scale", "attn.temp_every", "rope.skip", "final.scale", "ffn.xielu",
             "experts.n", "attn.v_norm", "layer.mixers", "layer.ffns", "attn.gate", "latent.kv")

class QSF:
    def __init__(self, path):
        self.b = b = open(path, "rb").read()
        h = self.header = b[:128]
        need(h[:4] == b"QSF1" and len(h) == 128 and zlib.crc32(h[:96]) == struct.unpack_from("<I", h, 96)[0],
             "header")
        (version, header, self.arch, layers, self.embd, self.heads, self.kv_heads, self.vocab, self.ctx,
         self.ff, self.head) = struct.unpack_from("<11I", h, 4)
        index, embd, final = struct.unpack_from("<3Q", h, 56)
        ext, ext_size, ext_crc, head_crc, rest = struct.unpack_from("<QIIIQ", h, 100)
        need(1 <= version <= 5 and header == 128 and struct.unpack_from("<I", h, 92)[0] == len(b) % 2**32,
             "version or size")
        need(any(h[100:]), "a plain file: this reader takes extended ones")
        need(zlib.crc32(h[:116]) == head_crc and rest == 0 and index == 128 and ext == 128 + 32 * layers,
             "header bytes 96-127")
        need(ext + ext_size <= len(b) and zlib.crc32(b[ext:ext + ext_size]) == ext_crc, "extension section")
        self.keys = self.read_keys(b[ext:ext + ext_size])
        k = self.keys
        need(k["file.size"][0] == len(b) and k["index.crc"][0] == zlib.crc32(b[128:ext]),
             "file size or layer index")
        entries = [struct.unpack_from("<QIIBBHIfI", b, 128 + 32 * i) for i in range(layers)]
        ends = [e[0] for e in entries[1:]] + [final]
        need(embd == ext + ext_size + 48 and len(b) > final, "embedding offset")
        self.units = []
        for (at, payload, raw, type, how, n, crc, importance, zero), end in zip(entries, ends):
            need(0 <= end - at - payload < 4096 and zlib.crc32(b[at:at + payload]) == crc
                 and not any(b[at + payload:end]), f"layer {len(self.units)}")
            self.units.append(unpack(b[at:at + payload], how, raw))
            need(len(self.units[-1]) == raw and zero == 0, f"layer {len(self.units) - 1}: size")
        final_end = int(k["rest.at"][0]) if version == 4 else len(b)
        for key, at, end in ("embd", embd - 48, entries[0][0]), ("final", final, final_end):
            self.units.append(b[at:end])
            need(zlib.crc32(b[at:end]) == k[key + ".crc"][0], key)
            part = int(k["crc.chunk"][0])
            if key + ".crcs" not in k and version == 4: continue
            need([zlib.crc32(b[i:min(i + part, end)])
                  for i in range(at, end, part)] == list(k[key + ".crcs"]), key + " parts")
        self.tensors = [dict(zip(("unit", "kind", "rows", "cols", "place", "type", "packing", "block"), t))
                        for t in struct.iter_unpack("<IIIIQBBH", k["tensors"].tobytes())]
        if version == 4: self.join_pieces(b, layers, final_end)
        self.check_headers(layers)
        self.experts()
        self.clusters()
        self.layers, self.mtp = layers, "layer.mtp" in k    # the last one is then not the model's
        need(self.mtp == (version == 5) and (not self.mtp or layers >= 2 and list(k["layer.mtp"]) == [1]),
             "version and layer.mtp")
        described = any(key in k for key in DESCRIBED)
        need(version >= 4 or version == (3 if described else 1 + (self.embedding_clusters() is not None)),
             "version and description")

    def join_pieces(self, b, layers, at):
        lines = self.keys["rest"].reshape(layers + 1, 3).tolist()
        for unit, (size, crc, raw) in zip([layers, *range(layers)], lines):
            if not size: continue
            rest = b[at:at + size]
            need(len(rest) == size and zlib.crc32(rest) == crc, f"second piece of unit {unit}")
            first, at = self.units[unit][:raw - size], at + size
            need(not any(self.units[unit][raw - size:]), f"first piece of unit {unit}")
            whole, used = join([t for t in self.tensors if t["unit"] == unit], first, rest)
            need(len(whole) == raw and used == size, f"pieces of unit {unit}")
            self.units[unit] = whole
        need(at == len(b), "second pieces")

    def read_keys(self, x):
        need(x[:4] == b"QSFX", "extension section's beginning")
        keys, at = {}, 8
        for _ in range(struct.unpack_from("<I", x, 4)[0]):
            key_len, type, zero, count = struct.unpack_from("<HBBI", x, at)
            key, at = x[at + 8:at + 8 + key_len].decode(), at + 8 + key_len
            size = 1 if type == 6 else np.dtype(ELEMENTS[type]).itemsize
            value = x[at:at + count * size]
            keys.setdefault(key, value.decode() if type == 6 else np.frombuffer(value, ELEMENTS[type]))
            at += count * size
        need(not any(x[at:]), "extension section's end")
        return keys

    def check_headers(self, layers):
        for t in self.tensors:
            unit, at = self.units[t["unit"]], t["place"] - 16
            need(t["place"] + size_of(t["type"], t["packing"], t["block"], t["rows"], t["cols"]) <= len(unit),
                 f"directory: {t}")
            if t["kind"] == 32:
                need(struct.unpack_from("<I4xII", unit, at) == (t["type"], t["rows"], t["cols"]),
                     "embedding header")
            elif t["kind"] == 36 or t["kind"] in (34, 35): continue         # no header: by place
            else:
                kind, rows, cols, type, packing, log2, zero = struct.unpack_from("<IIIBBBB", unit, at)
                coded = t["type"] in CODED
                need((kind, rows, cols, type, packing, zero) == (t["kind"], t["rows"], t["cols"], t["type"],
                     t["packing"], 0) and
                     (t["block"] if coded else 1) == ((2 ** log2 if log2 else 64) if coded else 1),
                     f"tensor header: {t}")
        final = {t["kind"]: t for t in self.tensors if t["unit"] == layers + 1}
        flag = self.units[layers + 1][2 * self.embd * sum(kind in final for kind in (34, 35))]
        need(flag == (final[36]["type"] if 36 in final else 255), "flag byte")

    def experts(self):                      # layers' last tensors, of which each expert's rows have a CRC
        k = self.keys
        if "experts.crcs" not in k: return
        n = int(k["experts.n"][0])
        layers = sorted({t["unit"] for t in self.tensors if t["kind"] in (43, 44, 45)})
        need(len(k["experts.crcs"]) == len(layers) * (1 + n), "checksums of experts")
        for unit, crcs in zip(layers, k["experts.crcs"].reshape(-1, 1 + n).tolist()):
            parts = [t for t in self.tensors if t["unit"] == unit and t["kind"] in (43, 44, 45)]
            last = [t for t in self.tensors if t["unit"] == unit][-len(parts):]
            need(parts == last, f"layer {unit}: order")
            need(zlib.crc32(self.units[unit][:parts[0]["place"]]) == crcs[0], f"layer {unit} but for experts")
            for e in range(n):
                crc = 0
                for t in parts:
                    rows, lines = t["rows"] // n, 16 if t["packing"] else 1
                    each = size_of(t["type"], t["packing"], t["block"], lines, t["cols"])
                    at = t["place"] + e * rows // lines * each
                    end = t["place"] + -(-(e + 1) * rows // lines) * each
                    crc = zlib.crc32(self.units[unit][at:end], crc)
                need(crc == crcs[1 + e], f"layer {unit}, expert {e}")

    # of the head: rows of each cluster, what columns count, radius, centroids
    def clusters(self):
        k = self.keys
        if "head.sizes" not in k: return None
        sizes, order = k["head.sizes"].astype(int), k["head.order"]
        n = len(sizes)
        need(1 <= n <= min(65536, self.vocab) and sizes.sum() == self.vocab
             and (np.sort(order) == np.arange(self.vocab)).all(), "clusters' rows")
        need(len(k["head.scale"]) == self.embd and np.isfinite(k["head.scale"]).all()
             and (k["head.scale"] > 0).all(), "clusters' scale")
        need(len(k["head.radius"]) == n and np.isfinite(k["head.radius"]).all()
             and (k["head.radius"] >= 0).all(), "clusters' radius")
        need(len(k["head.centroids"]) == size_of(18, 1, 64, n, self.embd), "centroids")
        rows = np.split(order, np.cumsum(sizes)[:-1])
        return rows, k["head.scale"], k["head.radius"], dequant(k["head.centroids"].tobytes(), 18, 1, 64,
                                                                n, self.embd)

    def embedding_clusters(self):           # each row's cluster, centroids
        k = self.keys
        if "embd.cluster" not in k: return None
        of, data = k["embd.cluster"].view("<u2"), k["embd.centroids"].tobytes()
        n, rest = divmod(len(data), size_of(18, 0, 64, 1, self.embd))
        need(1 <= n <= min(65536, self.vocab) and rest == 0 and len(of) == self.vocab and (of < n).all(),
             "clusters of the embedding")
        need(any(t["kind"] == 36 for t in self.tensors), "clusters of an embedding that is the head")
        centroids = dequant(data, 18, 0, 64, n, self.embd)
        need(np.isfinite(centroids).all(), "centroids of the embedding")
        return of, centroids

    def embedding(self):                    # the rows that tokens begin with
        t = next(t for t in self.tensors if t["kind"] == 32)
        rows, clusters = self.scale(t) * self.values(t), self.embedding_clusters()
        return rows if clusters is None else rows + clusters[1][clusters[0]]

    def data(self, t):
        n = size_of(t["type"], t["packing"], t["block"], t["rows"], t["cols"])
        return self.units[t["unit"]][t["place"]:t["place"] + n]

    def scale(self, t):                     # of a whole matrix
        for other in self.tensors:
            if t["kind"] < 0x100 and (other["unit"], other["kind"]) == (t["unit"], 0x200 + t["kind"]):
                need((other["type"], other["rows"], other["cols"]) == (17, 1, 1), f"scale: {other}")
                return np.frombuffer(self.data(other), "<f4")[0]
        return np.float32(1)

    def values(self, t):                    # without its scale
        return dequant(self.data(t), t["type"], t["packing"], t["block"], t["rows"], t["cols"])

    def tokens(self):                       # the vocabulary's texts
        lengths, n, shift = [], 0, 0
        for byte in self.keys["vocab.lengths"].tolist():
            n, shift = n | (byte & 127) << shift, shift + 7
            if byte < 128: lengths, n, shift = lengths + [n], 0, 0
        text, ends = self.keys["vocab.text"].tobytes(), np.cumsum(lengths)
        return [text[e - n:e] for n, e in zip(lengths, ends)]

if __name__ == "__main__":
    q = QSF(sys.argv[1])
    print(f"{q.keys.get('arch')}: {len(q.units) - 2} layers, {len(q.tensors)} tensors, {len(q.b)} bytes, "
          f"every CRC right")
    if "--values" in sys.argv:
        with open(sys.argv[sys.argv.index("--values") + 1], "wb") as out:
            for t in q.tensors:
                if t["type"] != 24: out.write(np.ascontiguousarray(q.values(t), "<f4").tobytes())
