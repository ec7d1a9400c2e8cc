"""How the Transformers library's files have layers with other mixers, with experts in one tensor, and
Gemma 4's: the tensors and the config.json of make_hf_pair.py's models, from those of their GGUF files.
SPDX-License-Identifier: MIT

Each transformation undoes what llama.cpp's converter does to such a directory.
"""
import functools
import numpy as np

import hf_relatives

COMMON = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
          "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
          "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
          "ffn_norm": "post_attention_layernorm", "post_attention_norm": "post_attention_layernorm",
          "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
          "ffn_gate_inp": "mlp.gate"}
LFM2 = dict(COMMON, attn_output="self_attn.out_proj", attn_q_norm="self_attn.q_layernorm",
            attn_k_norm="self_attn.k_layernorm", attn_norm="operator_norm", ffn_norm="ffn_norm",
            ffn_gate="feed_forward.w1", ffn_up="feed_forward.w3", ffn_down="feed_forward.w2",
            ffn_gate_inp="feed_forward.gate")
LFM2.update({"shortconv.in_proj": "conv.in_proj", "shortconv.conv": "conv.conv",
             "shortconv.out_proj": "conv.out_proj"})
MAMBA = {"ssm_in.weight": "mamba.in_proj.weight", "ssm_conv1d.weight": "mamba.conv1d.weight",
         "ssm_conv1d.bias": "mamba.conv1d.bias", "ssm_dt.bias": "mamba.dt_bias", "ssm_a": "mamba.A_log",
         "ssm_d": "mamba.D", "ssm_norm.weight": "mamba.norm.weight",
         "ssm_out.weight": "mamba.out_proj.weight"}
DELTA = {"attn_qkv.weight": "in_proj_qkv.weight", "attn_gate.weight": "in_proj_z.weight",
         "ssm_conv1d.weight": "conv1d.weight", "ssm_dt.bias": "dt_bias", "ssm_a": "A_log",
         "ssm_beta.weight": "in_proj_b.weight", "ssm_alpha.weight": "in_proj_a.weight",
         "ssm_norm.weight": "norm.weight", "ssm_out.weight": "out_proj.weight"}
GEMMA4 = dict(COMMON, ffn_norm="pre_feedforward_layernorm", post_ffw_norm="post_feedforward_layernorm",
              inp_gate="per_layer_input_gate", proj="per_layer_projection",
              post_norm="post_per_layer_input_norm")
GEMMA4.update({"pre_ffw_norm_2": "pre_feedforward_layernorm_2",
               **{f"post_ffw_norm_{i}": f"post_feedforward_layernorm_{i}" for i in (1, 2)}})
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
           "token_embd_norm": "model.embedding_norm", "per_layer_token_embd": "model.embed_tokens_per_layer",
           "per_layer_model_proj": "model.per_layer_model_projection",
           "per_layer_proj_norm": "model.per_layer_projection_norm"}
# other directories of some models: what config.json says besides or, where it is None, does not say
TWO_BASES = {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 20000.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}
VARIANTS = {"gpt-oss-smooth": ("gpt-oss", {"rope_scaling": {"truncate": False}}),
            "qwen3moe-newer": ("qwen3moe", {"num_experts": None, "num_local_experts": 9}),
            "olmo2-bases": ("olmo2-window", {"rope_parameters": TWO_BASES, "rope_theta": None,
                                              "rope_scaling": None}),
            "phi3-factor": ("phi3-short", {"rope_scaling": {"factor": 2.0, "attention_factor": None},
                                           "pad_token_id": 0}),
            "llama-own-head": ("llama", {"tie_word_embeddings": True}),
            "qwen35moe-stacked": ("qwen35moe", {}), "hunyuan-alpha": ("hunyuan-dense", hf_relatives.ALPHA)}
STACKED = {"qwen35moe-stacked"}             # which have all experts in one tensor
DELTAS = {"qwen35", "qwen35moe", "qwen3next"}
ARCHS = {"lfm2", "lfm2moe", "granitehybrid", "granitemoe", "qwen35", "gpt-oss", "gemma4", "qwen2moe",
         "deepseek2", "qwen35moe", "qwen3next", *hf_relatives.TYPES}

def halves(w, n_heads):
    """GGUF stores Granite's q and k rows as rotary pairs, Hugging Face as two halves."""
    return w.reshape(n_heads, -1, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)

def own_experts(part, w, at, names):
    """One tensor of each expert."""
    return {f"{at}.{e}.{names[part]}.weight": x for e, x in enumerate(w)}

# ---- MXFP4 ----

def mxfp4_pieces(raw):
    """GGUF's blocks: a power of two, then values 0 to 15 in the lower halves of bytes, 16 to 31 in the
    upper ones.  Hugging Face's: two neighbours in a byte, and the powers apart."""
    blocks = raw.reshape(*raw.shape[:-1], -1, 17)
    codes = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], -1)
    return codes[..., ::2] | codes[..., 1::2] << 4, blocks[..., 0].copy()

# ---- one tensor of a layer ----

def lfm2(m, part, kind, w):
    if part.endswith("_exps"):
        return own_experts(part, w, "feed_forward.experts",
                           {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"})
    if part == "exp_probs_b": return {"feed_forward.expert_bias": w}
    return {f"{LFM2[part]}.{kind}": w[:, None] if part == "shortconv.conv" else w}

def granite(m, part, kind, w):
    full = f"{part}.{kind}" if kind else part
    if full in MAMBA:
        if full == "ssm_a": w = np.log(-w)
        return {MAMBA[full]: w[:, None] if full == "ssm_conv1d.weight" else w.ravel() if w.shape[-1] == 1 or
                part == "ssm_norm" else w}
    if part in ("attn_q", "attn_k"): w = halves(w, m["n_heads"] if part == "attn_q" else m["n_kv_heads"])
    if part == "ffn_gate_inp": return {"block_sparse_moe.router.layer.weight": w}
    if part == "ffn_down_exps": return {"block_sparse_moe.output_linear.weight": w}
    if part in ("ffn_down", "ffn_down_shexp"): return {"shared_mlp.output_linear.weight": w}
    if part.startswith(("ffn_gate", "ffn_up")):
        return {("block_sparse_moe" if part.endswith("_exps") else "shared_mlp") + ".input_linear.weight": w}
    return {f"{COMMON[part]}.{kind}": w}

def side_by_side(m, w, size, first=0, columns=False):
    """Reorders the heads of a delta net so that those that share a key are adjacent."""
    heads, keys = m["kv"]["ssm.time_step_rank"], m["kv"]["ssm.group_count"]
    if columns: return side_by_side(m, w.T, size).T
    moved = w[first:].reshape(heads // keys, keys, size, *w.shape[1:]).swapaxes(0, 1)
    return np.concatenate([w[:first], moved.reshape(w[first:].shape)])

def qwen35(m, part, kind, w):
    kv, full = m["kv"], f"{part}.{kind}" if kind else part
    size = kv["ssm.inner_size"] // kv["ssm.time_step_rank"]
    keys = 2 * kv["ssm.group_count"] * kv["ssm.state_size"]
    if full not in DELTA or "ssm" not in part and part not in ("attn_qkv", "attn_gate"):
        return {f"{COMMON[part]}.{kind}": w - np.float32(1) if part.endswith("norm") else w}
    if full in ("attn_qkv.weight", "ssm_conv1d.weight"): w = side_by_side(m, w, size, keys)
    elif full == "attn_gate.weight": w = side_by_side(m, w, size)
    elif full == "ssm_out.weight": w = side_by_side(m, w, size, columns=True)
    elif full != "ssm_norm.weight": w = side_by_side(m, w, 1)
    if full == "ssm_a": w = np.log(-w)
    return {"linear_attn." + DELTA[full]: w[:, None] if full == "ssm_conv1d.weight" else w}

def qwen35moe(m, part, kind, w):
    experts = part.endswith(("_exps", "_shexp")) or part == "ffn_gate_inp"
    return (qwen2moe if experts else qwen35)(m, part, kind, w)

def qwen3next(m, part, kind, w):
    """Key by key: its query, itself, its values, their gates.  Its heads lie side by side in GGUF, too."""
    keys, state, full = m["kv"]["ssm.group_count"], m["kv"]["ssm.state_size"], f"{part}.{kind}"
    if part == "attn_qkv":
        q, k, v = np.split(w, [keys * state, 2 * keys * state])
        return {"linear_attn.in_proj_qkvz.weight": np.concatenate([x.reshape(keys, -1, w.shape[1])
                                                                   for x in (q, k, v)], 1)}
    if part == "attn_gate": return {"linear_attn.in_proj_qkvz.weight": w.reshape(keys, -1, w.shape[1])}
    if part == "ssm_ba": return {"linear_attn.in_proj_ba.weight": w}
    if part == "ssm_a": return {"linear_attn.A_log": np.log(-w)}
    if full in DELTA: return {"linear_attn." + DELTA[full]: w[:, None] if part == "ssm_conv1d" else w}
    return qwen35moe(m, part, kind, w)

def stacked(tensors):
    """All experts of a layer in one tensor, gates above what they multiply; not the layer's that guesses."""
    out, experts = {}, {}
    for name, w in tensors.items():
        at, dot, rest = name.partition("mlp.experts.")
        if dot and not at.startswith("mtp."): experts.setdefault(at + dot, {})[tuple(rest.split(".")[:2])] = w
        else: out[name] = w
    for at, each in experts.items():
        gate, up, down = (np.stack([each[str(e), which + "_proj"] for e in range(len(each) // 3)])
                          for which in ("gate", "up", "down"))
        out.update({at + "gate_up_proj": np.concatenate([gate, up], 1), at + "down_proj": down})
    return out

def gpt_oss(m, part, kind, w):
    if part == "attn_sinks": return {"self_attn.sinks": w}
    if part == "ffn_gate_inp": return {f"mlp.router.{kind}": w}
    if not part.endswith("_exps"): return {f"{COMMON[part]}.{kind}": w}
    name = "mlp.experts." + ("down_proj" if part == "ffn_down_exps" else "gate_up_proj")
    if kind == "bias": return {name + "_bias": w}
    if w.dtype != np.uint8: return {name: w.swapaxes(1, 2)}
    return {name + end: x for end, x in zip(("_blocks", "_scales"), mxfp4_pieces(w))}

def gemma4(m, part, kind, w):
    names = {"layer_output_scale": "layer_scalar", "ffn_gate_inp.scale": "router.scale",
             "ffn_gate_inp.weight": "router.proj.weight", "ffn_down_exps.scale": "router.per_expert_scale",
             "ffn_down_exps.weight": "experts.down_proj",
             **{f"ffn_{which}_exps.weight": "experts.gate_up_proj" for which in ("gate", "up", "gate_up")}}
    name = names.get(part) or names.get(f"{part}.{kind}")
    return {name or f"{GEMMA4[part]}.{kind}": w}

def deepseek2(m, part, kind, w):
    names = dict(COMMON, attn_q_a="self_attn.q_a_proj", attn_q_a_norm="self_attn.q_a_layernorm",
                 attn_q_b="self_attn.q_b_proj", attn_kv_a_mqa="self_attn.kv_a_proj_with_mqa",
                 attn_kv_a_norm="self_attn.kv_a_layernorm", attn_kv_b="self_attn.kv_b_proj")
    if part == "exp_probs_b": return {"mlp.gate.e_score_correction_bias": w}
    if part in ("attn_k_b", "attn_v_b"): return {"self_attn.kv_b_proj.weight": w}
    if part.endswith("_exps"): return qwen2moe(m, part, kind, w)
    if part.endswith("_shexp"): return {f"mlp.shared_experts.{COMMON[part[:-6]][4:]}.weight": w}
    return {f"{names[part]}.{kind}": w}

def qwen2moe(m, part, kind, w):
    if part.endswith("_exps"):
        return own_experts(part, w, "mlp.experts", {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj",
                                                    "ffn_down_exps": "down_proj"})
    if part == "ffn_gate_inp_shexp": return {"mlp.shared_expert_gate.weight": w[None]}
    if part.endswith("_shexp"): return {f"mlp.shared_expert.{COMMON[part[:-6]][4:]}.weight": w}
    return {f"{COMMON[part]}.{kind}": w}

LAYERS = {"lfm2": lfm2, "lfm2moe": lfm2, "granitehybrid": granite, "granitemoe": granite, "qwen35": qwen35,
          "gpt-oss": gpt_oss, "gemma4": gemma4, "qwen2moe": qwen2moe, "deepseek2": deepseek2,
          "qwen35moe": qwen35moe, "qwen3next": qwen3next,
          **dict.fromkeys(hf_relatives.TYPES, functools.partial(hf_relatives.layer, COMMON))}

NEXTN = {"eh_proj": ("eh_proj", "fc"), "enorm": ("enorm", "pre_fc_norm_embedding"),
         "hnorm": ("hnorm", "pre_fc_norm_hidden"), "shared_head_norm": ("shared_head.norm", "norm")}

def guessing(m, found):
    """The layer for multi-token prediction: after the others, with copies of embedding and head, or under a
    name of its own."""
    at, out, delta = f"blk.{m['n_layers']}.nextn.", {}, m["arch"] in DELTAS
    own = "mtp." if delta else f"model.layers.{m['n_layers']}."
    for part, names in NEXTN.items():
        w = found.get(f"{at}{part}.weight")
        if w is None: continue
        out[f"{own}{names[delta]}.weight"] = w - np.float32(1) if delta and w.ndim == 1 else w
    if out and not delta:
        out[own + "embed_tokens.weight"] = found["token_embd.weight"]
        out[own + "shared_head.head.weight"] = found.get("output.weight", found["token_embd.weight"])
    return out

def tensors(m, found):
    """Of all tensors of a GGUF file; what two of them share is joined."""
    out, pieces, arch = {}, {}, m["arch"]
    for name, w in found.items():
        if name.startswith("rope_"): continue
        stem, kind = name.rsplit(".", 1) if name.endswith((".weight", ".bias")) else (name, "")
        if not stem.startswith("blk."):
            if arch in DELTAS and stem == "output_norm": w = w - np.float32(1)
            if arch == "nemotron" and name == "output_norm.weight": w = w - np.float32(1)
            last = "model.final_layernorm" if arch == "phi2" and stem == "output_norm" else OUTSIDE[stem]
            out[f"{last}.{kind}"] = w
            continue
        _, layer, part = stem.split(".", 2)
        if part.startswith("nextn."): continue
        for own, x in LAYERS[arch](m, part, kind, w).items():
            beside = arch in DELTAS and int(layer) == m["n_layers"]
            own = f"mtp.layers.0.{own}" if beside else f"model.layers.{layer}.{own}"
            if own.endswith("in_proj_qkvz.weight"):
                pieces.setdefault(own, {})["gate" if part == "attn_gate" else "up"] = x
            elif part in ("attn_k_b", "attn_v_b"):
                pieces.setdefault(own, {})["gate" if part == "attn_k_b" else "up"] = x
            elif ("gate_up_proj" in own and "gate_up" not in part) or "input_linear" in own:
                pieces.setdefault(own, {})["gate" if "ffn_gate" in part else "up"] = x
            else: out[own] = x
    out.update(guessing(m, found))
    for own, p in pieces.items(): out[own] = joined(own, p["gate"], p["up"])
    if arch == "qwen3vl": out = {k.replace("model.", "model.language_model."): w for k, w in out.items()}
    return {k: np.ascontiguousarray(v) for k, v in out.items()}

def joined(name, gate, up):
    """Gate and up in one tensor: Granite's concatenated, gpt-oss's interleaved, along the last axis of plain
    weights and biases, and along the axis after the experts of MXFP4's."""
    if "qkvz" in name: return np.concatenate([up, gate], 1).reshape(-1, up.shape[-1])
    if "kv_b_proj" in name:                             # head by head: what makes keys, then values
        both = np.concatenate([gate.swapaxes(1, 2), up], 1)
        return both.reshape(-1, both.shape[-1])
    if "input_linear" in name or "mlp" not in name: return np.concatenate([gate, up], -2)
    axis = 1 if name.endswith(("_blocks", "_scales")) else -1
    both = np.stack([gate, up], axis % gate.ndim + 1)
    return both.reshape(*gate.shape[:axis % gate.ndim], -1, *gate.shape[axis % gate.ndim + 1:])

# ---- config.json ----

CLASSES = {"lfm2": "Lfm2", "lfm2_moe": "Lfm2Moe", "granitemoeshared": "GraniteMoeShared",
           "granitemoehybrid": "GraniteMoeHybrid", "qwen3_5_text": "Qwen3_5", "gpt_oss": "GptOss",
           "qwen2_moe": "Qwen2Moe", "gemma4_text": "Gemma4", "deepseek_v2": "DeepseekV2",
           "deepseek_v3": "DeepseekV3", "qwen3_5_moe_text": "Qwen3_5Moe", "qwen3_next": "Qwen3Next",
           **hf_relatives.CLASSES}

def config(m):
    """The entries of config.json besides those that all models have."""
    kv, arch = m["kv"], m["arch"]
    x = m.get("experts", {})
    kinds = m.get("kinds", "")[:m["n_layers"]]
    if arch in hf_relatives.TYPES: return hf_relatives.config(m)
    def types(other): return ["full_attention" if k == "a" else other for k in kinds]
    if arch in ("lfm2", "lfm2moe"):
        c = dict(model_type="lfm2", norm_eps=1e-5, rms_norm_eps=None, conv_L_cache=kv["shortconv.l_cache"],
                 conv_bias=False, layer_types=types("conv"), block_auto_adjust_ff_dim=False)
        if x: c.update(model_type="lfm2_moe", num_experts=x["n"], moe_intermediate_size=x["ff"],
                       num_dense_layers=x["first"], use_expert_bias=True, norm_topk_prob=True,
                       num_experts_per_tok=kv["expert_used_count"])
        return c
    if arch in ("granitehybrid", "granitemoe"):
        c = dict(model_type=arch, logits_scaling=kv["logit_scale"],
                 embedding_multiplier=kv.get("embedding_scale", 1.0),
                 residual_multiplier=kv.get("residual_scale", 1.0),
                 attention_multiplier=kv.get("attention.scale", (m["n_embd"] // m["n_heads"])**-0.5),
                 num_local_experts=x.get("n", 0), num_experts_per_tok=kv.get("expert_used_count", 2),
                 intermediate_size=x.get("ff", m["n_ff"]),
                 shared_intermediate_size=x.get("shared", m["n_ff"]))
        if arch == "granitemoe": return dict(c, model_type="granitemoeshared")
        inner, heads = kv["ssm.inner_size"], kv["ssm.time_step_rank"]
        turns = kv.get("rope.scaling.finetuned", True)
        return dict(c, model_type="granitemoehybrid", mamba_d_conv=kv["ssm.conv_kernel"],
                    mamba_d_state=kv["ssm.state_size"], mamba_n_heads=heads, mamba_d_head=inner // heads,
                    mamba_n_groups=kv["ssm.group_count"], mamba_expand=inner // m["n_embd"],
                    mamba_conv_bias=True, mamba_proj_bias=False, layer_types=[
                        "attention" if k == "a" else "mamba" for k in kinds],
                    position_embedding_type="rope" if turns else "nope")
    if arch in DELTAS:
        mixture = dict(num_experts=x["n"], num_experts_per_tok=kv["expert_used_count"],
                       moe_intermediate_size=x["ff"],
                       shared_expert_intermediate_size=x["shared"]) if x else {}
        return dict(mixture, model_type={"qwen35": "qwen3_5_text", "qwen35moe": "qwen3_5_moe_text"}.get(
                        arch, "qwen3_next"), attn_output_gate=True, linear_conv_kernel_dim=4,
                    linear_key_head_dim=kv["ssm.state_size"], linear_value_head_dim=kv["ssm.state_size"],
                    linear_num_key_heads=kv["ssm.group_count"], layer_types=types("linear_attention"),
                    linear_num_value_heads=kv["ssm.time_step_rank"], rope_theta=None, rope_parameters={
                        "rope_type": "default", "rope_theta": 10000.0, "mrope_interleaved": True,
                        "mrope_section": m.get("sections", [])[:3],
                        "partial_rotary_factor": kv["rope.dimension_count"] / m["head_dim"]})
    if arch == "gpt-oss":
        c = dict(model_type="gpt_oss", num_local_experts=x["n"], intermediate_size=x["ff"],
                 num_experts_per_tok=kv["expert_used_count"], attention_bias=True, swiglu_limit=7.0,
                 layer_types=["full_attention" if i % 2 else "sliding_attention"
                              for i in range(m["n_layers"])])
        if "type" in x: c["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": []}
        return c
    if arch == "qwen2moe":
        return dict(model_type="qwen2_moe", num_experts=x["n"], num_experts_per_tok=kv["expert_used_count"],
                    moe_intermediate_size=x["ff"], shared_expert_intermediate_size=x["shared"],
                    norm_topk_prob=False, intermediate_size=97)
    if arch == "deepseek2":
        q_rank, turns = kv.get("attention.q_lora_rank"), kv["rope.dimension_count"]
        end = "_mla" if "attention.key_length_mla" in kv else ""
        c = dict(model_type="deepseek_v3" if q_rank else "deepseek_v2", n_routed_experts=x["n"],
                 moe_intermediate_size=x["ff"], n_shared_experts=2,
                 num_experts_per_tok=kv["expert_used_count"], first_k_dense_replace=1,
                 num_nextn_predict_layers=m.get("nextn"),
                 kv_lora_rank=kv["attention.kv_lora_rank"], qk_rope_head_dim=turns,
                 qk_nope_head_dim=kv["attention.key_length" + end] - turns,
                 v_head_dim=kv["attention.value_length" + end], num_key_value_heads=m["n_heads"],
                 routed_scaling_factor=kv.get("expert_weights_scale", 1.0), rms_norm_eps=1e-6,
                 n_group=kv.get("expert_group_count", 1), topk_group=kv.get("expert_group_used_count", 1),
                 norm_topk_prob=bool(q_rank), topk_method="noaux_tc" if q_rank else "greedy")
        grows = kv["rope.scaling.yarn_log_multiplier"] * 10
        c["rope_scaling"] = {"rope_type": "yarn", "factor": kv["rope.scaling.factor"], "mscale": grows,
                             "mscale_all_dim": grows,
                             "original_max_position_embeddings": 64}
        return dict(c, q_lora_rank=q_rank)
    windowed = kv["attention.sliding_window_pattern"]
    each = dict(zip(windowed, m["each"]))
    heads = {w: e.get("n_kv_heads", m["n_kv_heads"]) for w, e in each.items()}
    x = m.get("experts")
    mixture = dict(enable_moe_block=True, num_experts=x["n"], top_k_experts=kv["expert_used_count"],
                   moe_intermediate_size=x["ff"]) if x else {}
    return dict(mixture, model_type="gemma4_text", hidden_activation="gelu_pytorch_tanh",
                head_dim=each[True]["head_dim"], global_head_dim=each[False]["head_dim"],
                attention_k_eq_v="k_is_v" in m, num_key_value_heads=heads[True],
                num_global_key_value_heads=heads[False] if heads[False] != heads[True] else None,
                num_kv_shared_layers=kv["attention.shared_kv_layers"],
                hidden_size_per_layer_input=kv["embedding_length_per_layer_input"],
                vocab_size_per_layer_input=300,
                use_double_wide_mlp=kv["attention.shared_kv_layers"] > 0,
                final_logit_softcapping=kv["final_logit_softcapping"], rope_theta=None, rope_scaling=None,
                layer_types=["sliding_attention" if w else "full_attention" for w in windowed],
                rope_parameters={
                    "sliding_attention": {"rope_type": "default", "rope_theta": kv["rope.freq_base_swa"]},
                    "full_attention": {"rope_type": "proportional", "rope_theta": kv["rope.freq_base"],
                                       "partial_rotary_factor": 0.25}})

def sizes(m):
    """What the description of a tiny model cannot be in such a directory."""
    if m["arch"] == "ernie4_5-moe":         # an expert's length, twice
        twice = 2 * m["experts"]["ff"]
        return dict(m, experts=dict(m["experts"], shared=twice),
                    kv=dict(m["kv"], expert_shared_feed_forward_length=twice))
    if m["arch"] != "gemma4": return m
    shared = m["kv"]["attention.shared_kv_layers"]
    each = [dict(e, n_ff=m["n_ff"] * (1 + (i >= m["n_layers"] - shared))) for i, e in enumerate(m["each"])]
    return dict(m, each=each)

def divisors(m):
    """Of the frequencies of Gemma 4's layers that see everything: those that do not turn."""
    half = m["head_dim"] // 2
    turn = int(0.25 * m["head_dim"]) // 2
    return np.array([1] * turn + [1e30] * (half - turn), np.float32)
