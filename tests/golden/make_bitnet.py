#!/usr/bin/env python3
"""Writes bitnet.json: what the Transformers library's own BitNet computes in 32-bit floats for tiny random
models, what it unpacks from bytes, and what it makes of masters.
SPDX-License-Identifier: MIT

    make_bitnet.py TRANSFORMERS        the folder `transformers` of an unpacked package (5.23.0 was used)

Its layers (models/bitnet/modeling_bitnet.py) and its packing (integrations/bitnet.py) are run as they are, on
any torch from 1.13 on; what they import beside torch, and what older torch lacks, is replaced by the little
that they need of it. Embedding and head, which are a lookup and a product, stand here.
"""
import json, pathlib, sys, tempfile, types

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "parity"), str(HERE.parent / "tools")]
import make_tiny
from gguf import GGUFReader, dequantize

def same(f=None, *_, **__):
    """A decorator with or without arguments that changes nothing."""
    return f if callable(f) and not isinstance(f, type(torch.relu)) else (lambda g: g)

class Buffer(torch.nn.Parameter):
    def __new__(cls, data, persistent=True): return torch.nn.Parameter(data, requires_grad=False)

def load(path, names):
    """Runs a file of the package with these names in the place of its imports from the package."""
    lines = path.read_text().split("\n")
    kept, inside = [], False
    for line in lines:
        if line.startswith("from ."): inside = "(" in line and ")" not in line; continue
        if inside: inside = ")" not in line; continue
        kept.append(line)
    text = "\n".join(kept)
    if "class BitNetPreTrainedModel" in text:
        text = text[:text.index("class BitNetPreTrainedModel")].rstrip().removesuffix("@auto_docstring")
    module = types.ModuleType(path.stem)
    module.__dict__.update(names)
    sys.modules[path.stem] = module
    exec(compile("from __future__ import annotations\n" + text, str(path), "exec"), module.__dict__)
    return module

def package(folder):
    torch.nn.Buffer = getattr(torch.nn, "Buffer", Buffer)
    if not hasattr(torch, "compile"): torch.compile = same
    relu2 = lambda x: torch.square(torch.relu(x))           # activations.py: ReLUSquaredActivation
    names = dict(use_kernel_forward_from_hub=lambda *_: same, use_kernelized_func=lambda *_: same,
                 dynamic_rope_update=same, auto_docstring=same, ACT2FN={"relu2": relu2},
                 GradientCheckpointingLayer=torch.nn.Module, ROPE_INIT_FUNCTIONS={},
                 ALL_ATTENTION_FUNCTIONS=types.SimpleNamespace(get_interface=lambda _, eager: eager))
    layers = load(folder / "models" / "bitnet" / "modeling_bitnet.py", names)
    packing = load(folder / "integrations" / "bitnet.py",
                   dict(ConversionOps=object, is_torch_available=lambda: False, torch=torch, nn=torch.nn,
                        F=torch.nn.functional,
                        logging=types.SimpleNamespace(get_logger=lambda _: None)))
    return layers, packing

def tensor(t):
    values = dequantize(t.data, t.tensor_type).astype("<f4")
    return torch.frombuffer(bytearray(values.tobytes()), dtype=torch.float32).reshape(values.shape)

NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_sub_norm": "self_attn.attn_sub_norm",
         "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_sub_norm": "mlp.ffn_sub_norm", "ffn_down": "mlp.down_proj"}

@torch.no_grad()
def logits(layers, m, path, ids):
    w = {t.name: tensor(t) for t in GGUFReader(path).tensors}
    config = types.SimpleNamespace(
        hidden_size=m["n_embd"], intermediate_size=m["n_ff"], num_attention_heads=m["n_heads"],
        num_key_value_heads=m["n_kv_heads"], rms_norm_eps=1e-5, hidden_act="relu2", attention_bias=False,
        attention_dropout=0.0, max_position_embeddings=1024, head_dim=m["n_embd"] // m["n_heads"],
        _attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": m["kv"]["rope.freq_base"]})
    n = len(ids)
    places = torch.arange(n)[None]
    mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
    x = w["token_embd.weight"][torch.tensor(ids)][None]
    turns = layers.BitNetRotaryEmbedding(config)(x, places)
    for i in range(m["n_layers"]):
        layer = layers.BitNetDecoderLayer(config, i).eval()
        layer.load_state_dict({f"{hf}.weight": w[f"blk.{i}.{own}.weight"] for own, hf in NAMES.items()})
        x = layer(x, attention_mask=mask, position_ids=places, position_embeddings=turns)
        x = x[0] if isinstance(x, tuple) else x
    norm = layers.BitNetRMSNorm(m["n_embd"], eps=1e-5)
    norm.load_state_dict({"weight": w["output_norm.weight"]})
    return (norm(x)[0, -1] @ w["token_embd.weight"].T).tolist()

def masters():
    """As bitnet_files.py makes them: 64 x 256 values about 0.03."""
    return [float(v) for v in make_tiny.Random(77).normal(64 * 256, 0.03)]

def main():
    layers, packing = package(pathlib.Path(sys.argv[1]))
    out = {"models": {}}
    ids = [int(i) % 297 for i in make_tiny.Random(31).bits(40)]
    with tempfile.TemporaryDirectory() as folder:
        for name in "bitnet-25", "bitnet-b1.58":
            m = make_tiny.models()[name]
            path, digest = make_tiny.make(folder, name)
            y = [float(f"{v:.7g}") for v in logits(layers, m, path, ids)]
            out["models"][name] = {"sha256": digest, "ids": ids, "logits": y}
    bytes_ = [int(b) % 3 | (int(b) >> 8) % 3 << 2 | (int(b) >> 16) % 3 << 4 | (int(b) >> 24) % 3 << 6
              for b in make_tiny.Random(32).bits(16)]
    packed = torch.tensor(bytes_, dtype=torch.uint8).reshape(4, 4)
    out["packed"] = bytes_
    out["unpacked"] = packing.unpack_weights(packed, torch.float32).flatten().tolist()
    quantised = packing.WeightQuant.forward(None, torch.tensor(masters()).reshape(64, 256)).flatten()
    out["masters_scale"] = float(quantised.abs().max())
    out["masters_codes"] = "".join("-0+"[int(torch.sign(v)) + 1] for v in quantised[:512])
    rows = [f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in out.items()]
    (HERE / "bitnet.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")

if __name__ == "__main__":
    main()
