#!/usr/bin/env python3
"""Writes the seeds of fuzz_adapter: small adapters of its two models, one dense and one of experts, as GGUF
files and as PEFT directories in that target's form.
SPDX-License-Identifier: MIT

    make_adapters.py OUT_DIR
"""
import hashlib, json, pathlib, struct, sys, tempfile
import numpy as np
from gguf import GGUFWriter
from safetensors.numpy import save

EMBD, KV, FF, VOCAB = 64, 32, 96, 288
SIZES = {"self_attn.q_proj": (EMBD, EMBD), "self_attn.k_proj": (KV, EMBD), "self_attn.v_proj": (KV, EMBD),
         "self_attn.o_proj": (EMBD, EMBD), "mlp.gate_proj": (FF, EMBD), "mlp.up_proj": (FF, EMBD),
         "mlp.down_proj": (EMBD, FF)}
EXPERTS, ALONE = 4, 64
SIZES.update({"mlp.gate": (EXPERTS, EMBD), "mlp.experts.0.up_proj": (ALONE, EMBD),
              "mlp.experts.2.up_proj": (ALONE, EMBD), "mlp.experts.3.down_proj": (EMBD, ALONE),
              "mlp.shared_expert.down_proj": (EMBD, ALONE)})
OF_ALL = {"ffn_up_exps": (ALONE, EMBD), "ffn_down_exps": (EMBD, ALONE)}
GGUF = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "mlp.down_proj": "ffn_down"}
OUT = pathlib.Path(sys.argv[1])

def keep(data): (OUT / hashlib.sha1(data).hexdigest()[:12]).write_bytes(data)

def numbers(*shape, kind=np.float32):
    return (np.arange(np.prod(shape)) % 23 / 23 - 0.5).reshape(shape).astype(kind)

def gguf(names, rank, kind=np.float32, embd=False, experts=()):
    with tempfile.NamedTemporaryFile() as f:
        w = GGUFWriter(f.name, "qwen2moe" if experts else "llama")
        w.add_type("adapter")
        w.add_string("adapter.type", "lora")
        w.add_float32("adapter.lora.alpha", 8)
        for module in names:
            rows, cols = SIZES[module]
            name = f"blk.1.{GGUF[module]}.weight"
            w.add_tensor(name + ".lora_a", numbers(rank, cols, kind=kind))
            w.add_tensor(name + ".lora_b", numbers(rows, rank, kind=kind))
        for name in experts:
            rows, cols = OF_ALL[name]
            w.add_tensor(f"blk.0.{name}.weight.lora_a", numbers(EXPERTS, rank, cols, kind=kind))
            w.add_tensor(f"blk.0.{name}.weight.lora_b", numbers(EXPERTS, rows, rank, kind=kind))
        if embd:
            w.add_tensor("token_embd.weight.lora_a", numbers(VOCAB, rank, kind=kind))
            w.add_tensor("token_embd.weight.lora_b", numbers(EMBD, rank, kind=kind))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        keep(pathlib.Path(f.name).read_bytes())

def peft(names, rank, kind=np.float32, named="", embd=False, **members):
    tensors, at = {}, "base_model.model.model."
    for module in names:
        rows, cols = SIZES[module]
        tensors[f"{at}layers.0.{module}.lora_A{named}.weight"] = numbers(rank, cols, kind=kind)
        tensors[f"{at}layers.0.{module}.lora_B{named}.weight"] = numbers(rows, rank, kind=kind)
    if embd:
        tensors[at + "embed_tokens.lora_embedding_A"] = numbers(rank, VOCAB, kind=kind)
        tensors[at + "embed_tokens.lora_embedding_B"] = numbers(EMBD, rank, kind=kind)
    targets = [*dict.fromkeys(n.split(".")[-1] for n in names)] + ["embed_tokens"] * embd
    config = json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none",
                         "target_modules": targets, **members}).encode()
    weights = save(tensors)
    header = struct.unpack("<Q", weights[:8])[0]
    keep(struct.pack("<HH", len(config), header) + config + weights[8:])

OUT.mkdir(parents=True, exist_ok=True)
gguf(["self_attn.q_proj"], 1)
gguf(["self_attn.k_proj", "mlp.down_proj"], 2, np.float16)
gguf([], 1, embd=True)
peft(["self_attn.q_proj"], 1)
peft(["self_attn.v_proj", "mlp.up_proj"], 2, np.float16, named=".default", use_rslora=True,
     rank_pattern={"up_proj": 2}, alpha_pattern={r"model\.layers\.[0-9]+\.mlp\..*": 3.5})
peft(["self_attn.o_proj"], 1, target_modules=r".*\.(q|o)_proj", exclude_modules=["v_proj"],
     layers_to_transform=[0], init_lora_weights="gaussian")
peft(["mlp.gate_proj"], 1, layers_to_transform=0, modules_to_save=["lm_head"])
peft([], 1, embd=True)
gguf(["self_attn.q_proj"], 1, experts=["ffn_up_exps"])
gguf([], 2, np.float16, experts=["ffn_down_exps"])
peft(["mlp.experts.0.up_proj", "mlp.experts.2.up_proj", "mlp.gate"], 1)
peft(["mlp.experts.3.down_proj", "mlp.shared_expert.down_proj"], 2, np.float16,
     alpha_pattern={"experts.3.down_proj": 2})
