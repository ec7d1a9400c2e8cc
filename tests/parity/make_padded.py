#!/usr/bin/env python3
"""Writes SmolLM2 or Qwen2.5-Coder 0.5B with rows of whole super-blocks: 576 columns become 768 and 9 heads
12, 896 become 1024 and 14 heads 16, with zeros, and the model computes what it did. So every matrix can take
a type whose blocks have 256 columns.
SPDX-License-Identifier: MIT

    make_padded.py smollm2-135m-q4_1.gguf|qwen2.5-coder-0.5b-q4_k_m.gguf OUT.gguf

A norm's mean over more columns is smaller, by 576 / 768 = 3 / 4: its weights take the root of that, its
epsilon the whole. A head of zeros adds nothing to the others. Heads that share keys stay together: SmolLM2
gets another group, Qwen another head in each of its two.
"""
import math, pathlib, sys
import numpy as np
from gguf import GGUFWriter, GGUFValueType as V, dequantize

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from gguf_reader import Reader

WIDTH, WIDE, HEAD = {"llama": 576, "qwen2": 896}, {"llama": 768, "qwen2": 1024}, 64
KEYS = {"llama": {192: 256}, "qwen2": {}}          # SmolLM2's 3 key heads become 4
# where the columns after the heads go: Qwen's seventh head is followed by one of zeros
HEADS = {"llama": np.arange(576), "qwen2": np.r_[0:448, 512:960]}


def of_heads(name, axis):
    return ".attn_q." in name and axis == 0 or ".attn_output." in name and axis == 1

def padded(arch, name, x):
    width = WIDTH[arch]
    sizes = {width: WIDE[arch]} | KEYS[arch]
    shape = tuple(sizes.get(n, n) for n in x.shape)
    out = np.zeros(shape, np.float32)
    places = [HEADS[arch] if of_heads(name, i) else np.arange(n) for i, n in enumerate(x.shape)]
    out[np.ix_(*places)] = x * (math.sqrt(width / WIDE[arch]) if "norm" in name else 1)
    return out if len(shape) == 1 else out.astype(np.float16)


def arch_of(reader):
    return reader.fields["general.architecture"].contents()

def copy_keys(reader, w):
    arch = arch_of(reader)
    wide, p = WIDE[arch], arch + "."
    kv_heads = reader.fields[p + "attention.head_count_kv"].contents() * HEAD
    new = {p + "embedding_length": wide, p + "attention.head_count": wide // HEAD,
           p + "attention.head_count_kv": KEYS[arch].get(kv_heads, kv_heads) // HEAD}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type",
                                              "general.quantization_version"): continue
        kind, value = field.types[0], field.contents()
        if key.endswith("layer_norm_rms_epsilon"): value = float(value) * WIDTH[arch] / wide
        w.add_key_value(key, new.get(key, value), kind, field.types[1] if kind == V.ARRAY else None)


def padded_tensors(source):
    """(name, floats) of every tensor, matrices as 16-bit floats."""
    reader = Reader(source)
    for t in reader.tensors:
        yield t.name, padded(arch_of(reader), t.name, dequantize(t.data, t.tensor_type))


def main():
    source, out = sys.argv[1:]
    reader = Reader(source)
    w = GGUFWriter(out, arch_of(reader), use_temp_file=True)
    copy_keys(reader, w)
    for name, x in padded_tensors(source): w.add_tensor(name, x)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


if __name__ == "__main__":
    main()
