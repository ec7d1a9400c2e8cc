#!/usr/bin/env python3
"""A GGUF file of the same network in f16, whose weights lie on no quantiser's grid.
SPDX-License-Identifier: MIT

    regrid.py IN.gguf OUT.gguf [SEED]

Each channel between two matrices is scaled by a random factor where it is made and scaled back where it is
used: gains of norms and columns of q, k, v, of gate and up; rows of v and columns of the attention output;
rows of up and columns of down. A comparison of quantisers must begin with such a copy: on the original file,
the quantiser that made it would look perfect. For gated networks with norms before both parts of a layer.
"""
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, dequantize
from gguf.constants import GGUFValueType

SPREAD = 0.35       # of the factors' logarithms


def scaled(tensors, n_heads, n_kv, rng):
    """Scales the tensors of all layers in place."""
    factors = lambda n: np.exp(rng.uniform(-SPREAD, SPREAD, n)).astype(np.float32)
    layer = 0
    while f"blk.{layer}.attn_norm.weight" in tensors:
        t = lambda name: tensors[f"blk.{layer}.{name}"]
        for norm, readers in (("attn_norm", ("attn_q", "attn_k", "attn_v")),
                              ("ffn_norm", ("ffn_gate", "ffn_up"))):
            by = factors(len(t(f"{norm}.weight")))
            t(f"{norm}.weight")[:] /= by
            for name in readers:
                t(f"{name}.weight")[:] *= by
        by = factors(len(t("ffn_up.weight")))
        t("ffn_up.weight")[:] /= by[:, None]
        t("ffn_down.weight")[:] *= by
        by = factors(len(t("attn_v.weight")))
        t("attn_v.weight")[:] /= by[:, None]
        if f"blk.{layer}.attn_v.bias" in tensors:
            t("attn_v.bias")[:] /= by
        heads = np.repeat(by.reshape(n_kv, -1), n_heads // n_kv, axis=0)      # a key head serves several
        t("attn_output.weight")[:] *= heads.reshape(-1)
        layer += 1


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    reader = GGUFReader(sys.argv[1])
    value = lambda key: reader.fields[key].contents()
    arch = value("general.architecture")
    tensors = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
    n_heads = value(f"{arch}.attention.head_count")
    shared = f"{arch}.attention.head_count_kv"
    n_kv = value(shared) if shared in reader.fields else n_heads
    scaled(tensors, n_heads, n_kv, np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 7))
    writer = GGUFWriter(sys.argv[2], arch)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type",
                                              "general.quantization_version"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, inner)
    writer.add_file_type(1)     # mostly f16
    for name, x in tensors.items():
        writer.add_tensor(name, x if x.ndim == 1 else x.astype(np.float16),
                          raw_dtype=GGMLQuantizationType.F32 if x.ndim == 1 else GGMLQuantizationType.F16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
