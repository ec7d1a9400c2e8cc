#!/usr/bin/env python3
"""Writes a random adapter (LoRA) of a tiny Hugging Face model as PEFT's directory, as a GGUF file, and merged
into the model by numpy.
SPDX-License-Identifier: MIT

    make_peft.py MODEL_DIR OUT_DIR [--rank 4] [--alpha 8] [--seed 1]

MODEL_DIR is one of make_hf_pair.py's.  What an adapter adds follows PEFT's code: LoraLayer.update_layer's
scaling, get_delta_weight, get_pattern_key.  The GGUF file has what llama.cpp's convert_lora_to_gguf.py makes:
LlamaModel.permute of B for queries and keys where the model's GGUF file has pairs, lora_a of the token
embedding with a row for each token.
"""
import json, math, pathlib, re
import numpy as np
from safetensors.numpy import load_file, save_file

import make_lora, make_tiny
from make_hf_pair import ENDS, GPT2, LAYER_NAMES, LLAMA, PAIRED
from make_tiny import Random

CONFIG = {"peft_type": "LORA", "auto_mapping": None, "base_model_name_or_path": "tiny", "bias": "none",
          "fan_in_fan_out": False, "inference_mode": True, "init_lora_weights": True, "layers_pattern": None,
          "layers_to_transform": None, "lora_dropout": 0.0, "modules_to_save": None, "revision": None,
          "task_type": "CAUSAL_LM", "use_dora": False, "use_rslora": False, "rank_pattern": {},
          "alpha_pattern": {}, "r": 4, "lora_alpha": 8, "target_modules": None, "exclude_modules": None}


def tensors(folder): return load_file(pathlib.Path(folder) / "model.safetensors")

def is_gpt2(folder):
    return json.loads((pathlib.Path(folder) / "config.json").read_text())["model_type"] == "gpt2"

def modules(folder, ends=False, experts=False):
    """module -> (outputs, inputs) of the matrices of layers; with ends, of the embedding and the head; with
    experts, of each of these and of routers."""
    out, turned = {}, is_gpt2(folder)
    for name, w in tensors(folder).items():
        module = name.removesuffix(".weight")
        outside = module in ("model.embed_tokens", "lm_head")
        if w.ndim != 2 or module.endswith(("wpe", "wte")): continue
        if not experts and (".experts." in name or module.endswith(".gate")): continue
        if outside and not ends: continue
        out[module] = w.shape[::-1] if turned else w.shape
    return out

def key_of(patterns, module):
    """PEFT's get_pattern_key."""
    return next((k for k in patterns if re.match(rf"(.*\.)?({k})$", module)), None)

def rank_and_scale(config, module):
    rank = config["rank_pattern"].get(key_of(config["rank_pattern"], module), config["r"])
    alpha = config["alpha_pattern"].get(key_of(config["alpha_pattern"], module), config["lora_alpha"])
    return rank, alpha / (math.sqrt(rank) if config["use_rslora"] else rank)

def make(folder, seed=1, ends=False, experts=False, only=None, gain=0.5, dtype=np.float32, **members):
    """config, and module -> (A [rank, inputs], B [outputs, rank], scale); tokens are an embedding's."""
    config, rng, pairs = dict(CONFIG, **members), Random(seed), {}
    for module, (rows, cols) in modules(folder, ends, experts).items():
        if only and not re.search(only, module): continue
        rank, scale = rank_and_scale(config, module)
        if module.endswith("embed_tokens"): rows, cols = cols, rows
        a = rng.normal(rank * cols, 1 if cols == make_tiny.N_VOCAB else cols**-0.5).reshape(rank, cols)
        b = rng.normal(rows * rank, gain * rank**-0.5).reshape(rows, rank)
        pairs[module] = a.astype(dtype), b.astype(dtype), scale
    if config["target_modules"] is None:
        config["target_modules"] = sorted({m.rsplit(".", 1)[-1] for m in pairs})
    return config, pairs

def names_of(module, named="", prefix="base_model.model."):
    embd = module.endswith("embed_tokens")
    return [f"{prefix}{module}.lora_{'embedding_' if embd else ''}{x}{named}{'' if embd else '.weight'}"
            for x in "AB"]

def write_peft(out, config, pairs, named="", prefix="base_model.model.", more=None):
    """named: ".default" as get_peft_model_state_dict leaves it out and others do not."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    weights = dict(more or {})
    for module, (a, b, _) in pairs.items():
        weights.update(zip(names_of(module, named, prefix), (a, b)))
    save_file({k: np.ascontiguousarray(v) for k, v in weights.items()}, out / "adapter_model.safetensors",
              metadata={"format": "pt"})
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2))
    return out

OF_EXPERTS = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up",
              "down_proj": "down"}

def gguf_name(arch, module):
    if ".experts." in module:
        parts = module.split(".")
        return f"blk.{parts[2]}.ffn_{OF_EXPERTS[parts[-1]]}_exps.weight"
    if module.endswith(".gate"): return f"blk.{module.split('.')[2]}.ffn_gate_inp.weight"
    names = dict(GPT2 if arch == "gpt2" else {**ENDS, **LAYER_NAMES.get(arch, LLAMA)})
    parts = module.split(".")
    at = next((i for i, p in enumerate(parts) if p.isdigit()), None)
    stem = module if at is None else ".".join(parts[at + 1:])
    part = next(k for k, v in names.items() if v == stem)
    return (f"{part}" if at is None else f"blk.{parts[at]}.{part}") + ".weight"

def permute(b, n_heads):
    """llama.cpp's LlamaModel.permute."""
    return b.reshape(n_heads, 2, b.shape[0] // n_heads // 2, b.shape[1]).swapaxes(1, 2).reshape(b.shape)

def write_gguf(out, arch, n_heads, n_kv_heads, config, pairs):
    """The file has one alpha: what differs from it goes into B, where a converter could not put it."""
    made = {}
    for module, (a, b, scale) in pairs.items():
        name, b = gguf_name(arch, module), b.astype(np.float32)
        if arch in PAIRED and name.endswith("attn_q.weight"): b = permute(b, n_heads)
        if arch in PAIRED and name.endswith("attn_k.weight"): b = permute(b, n_kv_heads)
        pair = a.astype(np.float32), b * np.float32(scale * a.shape[0] / config["lora_alpha"])
        if ".experts." in module: made.setdefault(name, []).append((int(module.split(".")[-2]), *pair))
        else: made[name] = pair
    for name, pair in made.items():
        if not isinstance(pair, list): continue
        pair.sort(key=lambda p: p[0])
        made[name] = np.stack([p[1] for p in pair]), np.stack([p[2] for p in pair])
    make_lora.write(out, arch, made, float(config["lora_alpha"]))
    return out

def merge(folder, out, *uses):
    """A directory like folder with W + scale B A in its weights, f32; uses: (pairs, scale)."""
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    weights = {k: v.astype(np.float64) for k, v in tensors(folder).items()}
    for pairs, scale in uses:
        for module, (a, b, own) in pairs.items():
            delta = scale * own * (b.astype(np.float64) @ a.astype(np.float64))
            turned = is_gpt2(folder) or module.endswith("embed_tokens")
            weights[module + ".weight"] += delta.T if turned else delta
    save_file({k: np.ascontiguousarray(v.astype(np.float32)) for k, v in weights.items()},
              out / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (out / name).write_bytes((folder / name).read_bytes())
    return out


if __name__ == "__main__":
    a = make_lora.arguments().parse_args()
    write_peft(a.out, *make(a.model, a.seed, r=a.rank, lora_alpha=a.alpha))
