#!/usr/bin/env python3
"""Writes a random tiny model twice: as a Hugging Face directory and as a GGUF file of the
same 16-bit weights.
SPDX-License-Identifier: MIT

    make_hf_pair.py OUT_DIR NAME [--shards N]     OUT_DIR/NAME/ (directory) and OUT_DIR/NAME-f16.gguf

Names and layouts are those of the Transformers library: rotary halves, fused phi3 matrices, GPT-2's
transposed ones, Gemma's norm weights less one. Matrices are f16, vectors f32 (the final norm with
values that f16 holds).
"""
import argparse, json, math, pathlib
import numpy as np
from gguf import GGUFReader, GGUFWriter, dequantize
from safetensors.numpy import save_file

import hf_layouts
import make_tiny

LLAMA = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
PHI3 = dict(LLAMA, attn_qkv="self_attn.qkv_proj", ffn_up="mlp.gate_up_proj")
GEMMA = dict(LLAMA, post_attention_norm="post_attention_layernorm", ffn_norm="pre_feedforward_layernorm",
             post_ffw_norm="post_feedforward_layernorm")
GPT2 = {"attn_norm": "ln_1", "ffn_norm": "ln_2", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj", "token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}
POST = dict(LLAMA, post_attention_norm="post_attention_layernorm",
            post_ffw_norm="post_feedforward_layernorm")
GLM4 = dict(PHI3, post_attention_norm="post_self_attn_layernorm", post_ffw_norm="post_mlp_layernorm")
SEED_OSS = dict(LLAMA, post_attention_norm="post_attention_layernorm")
LAYER_NAMES = {"phi3": PHI3, "gemma2": GEMMA, "gemma3": GEMMA, "olmo2": POST, "exaone4": POST,
               "glm4": GLM4, "seed_oss": SEED_OSS}
# whose GGUF files have rows of queries and keys as pairs that rotate, where these files have halves
PAIRED = {"llama", "smollm3", "granite", "arcee"}
ENDS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
# the others of make_tiny.py that are written like this, too
TYPED = {"smollm3", "granite", "arcee", "ernie4_5", "seed_oss", "glm4", "olmo2", "olmo2-window", "exaone4",
         "exaone4-window", "cohere2", "mixtral", "qwen3moe", "olmoe", "lfm2", "lfm2moe", "granitehybrid",
         "granitehybrid-rope", "granitehybrid-moe", "granitemoe", "qwen35", "gpt-oss", "gpt-oss-mxfp4",
         "gemma4", "gemma4-plain", "gemma4-moe-apart", "qwen2moe", "deepseek2",
         "deepseek2-lite", "qwen35moe", "qwen3next", "command-r", "phi2", "starcoder2", "stablelm",
         "nemotron", "olmo", "hunyuan-dense", "qwen2vl", "qwen3vl", "mistral3", "ernie4_5-moe", "glm4moe"}
NO_DIRECTORY = {"gemma4", "smallthinker"}           # others of these are not written
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 512}

def llama3_divisors(dim, base, r):
    """What Transformers divides the rotary frequencies by."""
    out = []
    for i in range(0, dim, 2):
        turns = r["original_max_position_embeddings"] / (2 * math.pi * base ** (i / dim))
        smooth = (turns - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
        smooth = min(1.0, max(0.0, smooth))
        out.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(out, np.float32)

def halves(w, n_heads):
    """GGUF stores llama's q and k rows as rotary pairs, Hugging Face as two halves."""
    return w.reshape(n_heads, -1, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)

def expert_tensors(m, layer, part, w):
    """One tensor of each expert, and the router."""
    mixtral = m["arch"] == "llama"
    at = f"model.layers.{layer}." + ("block_sparse_moe." if mixtral else "mlp.")
    if part == "ffn_gate_inp": return {at + "gate.weight": w}
    own = {"ffn_gate_exps": "w1" if mixtral else "gate_proj", "ffn_up_exps": "w3" if mixtral else "up_proj",
           "ffn_down_exps": "w2" if mixtral else "down_proj"}[part]
    return {f"{at}experts.{e}.{own}.weight": x for e, x in enumerate(w)}

MIMO = {"nextn.eh_proj": "input_proj", "nextn.enorm": "token_layernorm", "nextn.hnorm": "hidden_layernorm",
        "nextn.shared_head_norm": "final_layernorm"}

def mimo_tensor(part, kind, w):
    """Of MiMo's layer for multi-token prediction: its matrix takes the hidden state first."""
    if part == "nextn.eh_proj": w = np.concatenate(np.split(w, 2, axis=1)[::-1], axis=1)
    return {f"model.mtp_layers.0.{MIMO.get(part) or LLAMA[part]}.{kind}": w}

def hf_tensors(m, tensors):
    out, arch = {}, m["arch"]
    if arch in hf_layouts.ARCHS: return hf_layouts.tensors(m, tensors)
    for name, w in tensors.items():
        stem, kind = name.rsplit(".", 1)
        if stem.startswith("rope_"): continue
        if arch in PAIRED and stem.endswith(("attn_q", "attn_k")):
            w = halves(w, m["n_heads"] if stem.endswith("q") else m["n_kv_heads"])
        if arch in ("gemma2", "gemma3") and stem.endswith("norm"): w = w - np.float32(1)
        if arch == "gpt2" and w.ndim == 2 and stem not in ("token_embd", "position_embd"): w = w.T
        if stem.startswith("blk."):
            _, layer, part = stem.split(".", 2)
            if int(layer) == m["n_layers"]:
                out.update(mimo_tensor(part, kind, w))
                continue
            if part.endswith(("_exps", "gate_inp")):
                out.update(expert_tensors(m, layer, part, w))
                continue
            names = GPT2 if arch == "gpt2" else LAYER_NAMES.get(arch, LLAMA)
            out[("h." if arch == "gpt2" else "model.layers.") + f"{layer}.{names[part]}.{kind}"] = w
        else: out[f"{(GPT2 if arch == 'gpt2' else ENDS)[stem]}.{kind}"] = w
    return {k: np.ascontiguousarray(v) for k, v in out.items()}

def rope_config(m, tensors):
    kv = m["kv"]
    kind = kv.get("rope.scaling.type")
    if m.get("rope_freqs"): return LLAMA3
    if kind == "linear": return {"rope_type": kind, "factor": kv["rope.scaling.factor"]}
    if kind == "yarn":
        return {"rope_type": kind, "factor": kv["rope.scaling.factor"],
                "original_max_position_embeddings": kv["rope.scaling.original_context_length"]}
    if m.get("longrope"):
        return {"type": "longrope", "attention_factor": kv["rope.scaling.attn_factor"],
                "short_factor": [float(f) for f in tensors["rope_factors_short.weight"]],
                "long_factor": [float(f) for f in tensors["rope_factors_long.weight"]]}
    return None

def family(m, kind):
    """What config.json says for one model_type only."""
    kv, c = m["kv"], {}
    if kind == "smollm3":
        c.update(use_sliding_window=False, no_rope_layer_interval=4,
                 no_rope_layers=[int(i % 4 != 3) for i in range(m["n_layers"])])
    if kind == "granite":
        c.update(embedding_multiplier=kv["embedding_scale"], residual_multiplier=kv["residual_scale"],
                 attention_multiplier=kv["attention.scale"], logits_scaling=kv["logit_scale"])
    if kind == "cohere2":
        c.update(layer_norm_eps=1e-5, rms_norm_eps=None, logit_scale=kv["logit_scale"],
                 sliding_window_pattern=4)
    if kind == "exaone4": c.update(sliding_window_pattern="LLLG" if m["n_layers"] > 4 else None)
    if kind == "olmo3":
        c.update(layer_types=["full_attention" if i % 4 == 3 else "sliding_attention"
                              for i in range(m["n_layers"])])
    if kind == "qwen2" and "nextn" in m:
        c.update(model_type="mimo", architectures=["MiMoForCausalLM"], attention_bias=True,
                 num_nextn_predict_layers=1)
    if kind == "seed_oss": c.update(attention_bias=True, attention_out_bias=False)
    if kind == "ernie4_5": c.update(use_bias=False, head_dim=m["n_embd"] // m["n_heads"])
    return c

def head_size(m):
    return {"head_dim": m["head_dim"]} if "head_dim" in m and m["arch"] != "gemma4" else {}

def config(m, tensors):
    kv, arch, ids = m["kv"], m["arch"], {"bos_token_id": make_tiny.N_VOCAB - 2,
                                         "eos_token_id": make_tiny.N_VOCAB - 1}
    if arch == "gpt2":
        return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": m["n_embd"],
                "n_layer": m["n_layers"],
                "n_head": m["n_heads"], "n_positions": 1024, "n_ctx": 1024, "vocab_size": make_tiny.N_VOCAB,
                "n_inner": m["n_ff"],
                "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", **ids}
    kind = ({"gemma3": "gemma3_text"}.get(
        arch, "mistral" if "attention.sliding_window" in kv and arch == "llama" else arch))
    if arch == "olmo2" and "attention.sliding_window" in kv: kind = "olmo3"
    gemma = arch.startswith("gemma")
    c = {"model_type": kind, "hidden_size": m["n_embd"], "intermediate_size": m["n_ff"],
         "num_hidden_layers": m["n_layers"],
         "num_attention_heads": m["n_heads"], "num_key_value_heads": m["n_kv_heads"], "rms_norm_eps": 1e-5,
         "max_position_embeddings": 1024, "vocab_size": make_tiny.N_VOCAB, "tie_word_embeddings": m["tied"],
         "rope_theta": kv.get("rope.freq_base", 10000.0),
         "sliding_window": kv.get("attention.sliding_window"),
         "rope_scaling": rope_config(m, tensors),
         "hidden_act": "gelu_pytorch_tanh" if gemma else "relu2" if arch == "arcee" else "silu", **ids}
    if arch in hf_layouts.ARCHS:
        c.update(hf_layouts.config(m), **head_size(m))
        c["architectures"] = [hf_layouts.CLASSES[c["model_type"]] + "ForCausalLM"]
        return {k: v for k, v in c.items() if v is not None or k == "q_lora_rank"}
    if "experts" in m:
        n = {"llama": "num_local_experts"}.get(arch, "num_experts")
        c.update({"model_type": {"llama": "mixtral", "qwen3moe": "qwen3_moe"}.get(arch, arch),
                  n: m["experts"]["n"], "num_experts_per_tok": kv["expert_used_count"]})
        if arch == "qwen3moe":
            c.update(moe_intermediate_size=m["experts"]["ff"], norm_topk_prob=True, intermediate_size=97)
    if "head_dim" in m: c["head_dim"] = m["head_dim"]
    if gemma: c.update(hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=m["head_dim"])
    if arch == "gemma2": c.update({k: kv[k] for k in ("attn_logit_softcapping", "final_logit_softcapping")})
    if arch == "gemma3": c.update(sliding_window_pattern=6, rope_local_base_freq=10000.0)
    c.update(family(m, kind))
    if m.get("longrope"): c.update(original_max_position_embeddings=256, partial_rotary_factor=0.75)
    return c

def tokenizer(kv):
    tokens, types = kv["tokenizer.ggml.tokens"], kv["tokenizer.ggml.token_type"]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True}
             for i, t in enumerate(tokens) if types[i] == 3]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False,
                      "vocab": {t: i for i, t in enumerate(tokens)},
                      "merges": kv["tokenizer.ggml.merges"]}}

def write_gguf(path, reader, tensors, templates=None):
    w = GGUFWriter(str(path), reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture": continue
        value = field.contents()
        # Transformers' norms of DeepSeek's latents know no other
        if key == "deepseek2.attention.layer_norm_rms_epsilon": value = 1e-6
        w.add_key_value(key, value, field.types[0],
                        sub_type=field.types[-1] if isinstance(value, list) else None)
    if templates: w.add_chat_template(templates)
    for name, t in tensors.items():
        w.add_tensor(name, t, raw_dtype=make_tiny.Q.MXFP4 if t.dtype == np.uint8 else None)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def save_weights(folder, tensors, shards):
    if shards == 1: return save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    where = {}
    for s in range(shards):
        name = f"model-{s + 1:05d}-of-{shards:05d}.safetensors"
        part = dict(list(tensors.items())[s::shards])
        save_file(part, folder / name, metadata={"format": "pt"})
        where.update(dict.fromkeys(part, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))

def weights(t):
    """Matrices in halves, MXFP4's unchanged, and all else in floats."""
    part = t.name.split(".", 2)[-1]
    small = part in ("ssm_a", "ssm_d") or part.endswith(".bias") or "conv" in part or "ssm_norm" in part
    if t.tensor_type == make_tiny.Q.MXFP4: return np.array(t.data)
    x = dequantize(t.data, t.tensor_type)
    return x.astype(np.float16 if x.ndim >= 2 and (not small or "_proj" in part) else np.float32)

def make(out, name, shards=1, **more):
    """Returns the directory and the GGUF file; more: of the tiny model's description."""
    of, other = hf_layouts.VARIANTS.get(name, (name, {}))
    m = hf_layouts.sizes(dict(make_tiny.models()[of], vocab="bpe", type=make_tiny.Q.F32, **more))
    folder, gguf = pathlib.Path(out) / name, pathlib.Path(out) / f"{name}-f16.gguf"
    folder.mkdir(parents=True, exist_ok=True)
    make_tiny.Writer(folder / "model.tmp", m).write()
    reader = GGUFReader(folder / "model.tmp")
    tensors = {t.name: weights(t) for t in reader.tensors}
    # QSF's final section keeps these as f16
    for k in ("output_norm.weight", "output_norm.bias", "token_embd_norm.weight"):
        if k in tensors: tensors[k] = tensors[k].astype(np.float16).astype(np.float32)
    if m["arch"] == "gemma4": tensors["rope_freqs.weight"] = hf_layouts.divisors(m)
    elif m.get("rope_freqs"):
        dim = m.get("head_dim", m["n_embd"] // m["n_heads"])
        tensors["rope_freqs.weight"] = llama3_divisors(dim, m["kv"].get("rope.freq_base", 10000.0), LLAMA3)
    write_gguf(gguf, reader, tensors)
    own = hf_tensors(m, tensors)
    save_weights(folder, hf_layouts.stacked(own) if name in hf_layouts.STACKED else own, shards)
    kv = {k: f.contents() for k, f in reader.fields.items()}
    c = config(m, tensors)
    for key, value in other.items():
        c[key] = {**c[key], **value} if value and isinstance(c.get(key), dict) else value
    c = {k: v for k, v in c.items() if v is not None or k not in other}
    (folder / "config.json").write_text(json.dumps(hf_layouts.hf_relatives.whole(c), indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(kv), ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False,
                    "bos_token": "<|begin|>", "eos_token": "<|end|>"}))
    (folder / "model.tmp").unlink()
    return folder, gguf

if __name__ == "__main__":
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("out"); p.add_argument("name"); p.add_argument("--shards", type=int, default=1)
    a = p.parse_args()
    print(*make(a.out, a.name, a.shards))
