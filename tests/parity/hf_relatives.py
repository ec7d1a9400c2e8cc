"""How the Transformers library's files store models whose layers are Llama's except for names, biases and
experts: a layer's tensors and the config.json of make_hf_pair.py's models, from those of their GGUF files.
SPDX-License-Identifier: MIT
"""
import numpy as np

PHI = {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
STARCODER = {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
HUNYUAN = {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}
NAMES = {"phi2": PHI, "starcoder2": STARCODER, "hunyuan-dense": HUNYUAN}
TYPES = {"command-r": "cohere", "phi2": "phi", "starcoder2": "starcoder2", "stablelm": "stablelm",
         "nemotron": "nemotron", "olmo": "olmo", "hunyuan-dense": "hunyuan_v1_dense", "qwen2vl": "qwen2_vl",
         "qwen3vl": "qwen3_vl", "mistral3": "ministral3", "ernie4_5-moe": "ernie4_5_moe",
         "glm4moe": "glm4_moe"}
CLASSES = {"cohere": "Cohere", "phi": "Phi", "starcoder2": "Starcoder2", "stablelm": "StableLm",
           "nemotron": "Nemotron", "olmo": "Olmo", "hunyuan_v1_dense": "HunYuanDenseV1",
           "ministral3": "Ministral3", "qwen2_vl": "Qwen2VL", "qwen3_vl": "Qwen3VL",
           "ernie4_5_moe": "Ernie4_5_Moe", "glm4_moe": "Glm4Moe"}
PICTURES = {"qwen2_vl", "qwen3_vl"}
# another directory of one: Hunyuan's rotary base as its models say it
ALPHA = {"rope_theta": None, "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0},
         "rope_parameters": None}

def layer(common, m, part, kind, w):
    """The tensors that one of a GGUF file becomes; common: the names of most models."""
    arch, names = m["arch"], dict(common, **NAMES.get(m["arch"], {}))
    if part == "attn_qkv":
        return {f"self_attn.{x}_proj.{kind}": v for x, v in zip("qkv", np.split(w, 3))}
    if part.endswith("_exps"):
        own = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}[part]
        return {f"mlp.experts.{e}.{own}.weight": x for e, x in enumerate(w)}
    if part.endswith("_shexp"): return {f"mlp.shared_experts.{common[part[:-6]][4:]}.weight": w}
    if part == "exp_probs_b":
        if arch == "glm4moe": return {"mlp.gate.e_score_correction_bias": w}
        return {"mlp.moe_statics.e_score_correction_bias": w[None]}
    if arch in ("olmo", "mistral3") and part in ("attn_q", "attn_k"):      # pairs that rotate, there halves
        heads = m["n_heads"] if part == "attn_q" else m["n_kv_heads"]
        w = w.reshape(heads, -1, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)
    if arch == "nemotron" and part.endswith("norm") and kind == "weight": w = w - np.float32(1)
    return {f"{names.get(part, part)}.{kind}": w}

def config(m):
    kv, arch, x = m["kv"], m["arch"], m.get("experts", {})
    part = {"partial_rotary_factor": 0.34 if arch == "stablelm" else 0.5}
    moe = {"num_experts_per_tok": kv.get("expert_used_count"), "moe_intermediate_size": x.get("ff")}
    more = {
        "command-r": {"layer_norm_eps": 1e-5, "logit_scale": kv.get("logit_scale")},
        "phi2": {"layer_norm_eps": 1e-5, "hidden_act": "gelu_new", **part},
        "starcoder2": {"norm_epsilon": 1e-5, "hidden_act": "gelu_pytorch_tanh", "use_bias": True},
        "stablelm": {"layer_norm_eps": 1e-5, "use_qkv_bias": True, **part},
        "nemotron": {"norm_eps": 1e-5, "hidden_act": "relu2", **part},
        "olmo": {"clip_qkv": kv.get("attention.clamp_kqv")},
        "qwen2vl": {"rope_scaling": {"type": "mrope", "mrope_section": [1, 2, 3]}},
        "qwen3vl": {"rope_scaling": {"rope_type": "default", "mrope_section": [4, 3, 3],
                                     "mrope_interleaved": True}},
        "mistral3": {"rope_scaling": {
            "rope_type": "yarn", "factor": kv.get("rope.scaling.factor"), "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": kv.get("rope.scaling.original_context_length"),
            "llama_4_scaling_beta": kv.get("attention.temperature_scale")}},
        "ernie4_5-moe": {"moe_num_experts": x.get("n"), "moe_k": kv.get("expert_used_count"),
                         "moe_intermediate_size": x.get("ff"), "moe_num_shared_experts": 2,
                         "moe_layer_start_index": 1, "moe_layer_end_index": -1, "use_bias": False},
        "glm4moe": {"n_routed_experts": x.get("n"), "n_shared_experts": 2, "first_k_dense_replace": 1,
                    "routed_scaling_factor": kv.get("expert_weights_scale"), "use_qk_norm": True,
                    "attention_bias": True, "num_nextn_predict_layers": 1, **moe, **part},
    }.get(arch, {})
    return dict(more, model_type=TYPES[arch])

def whole(c):
    """Of a model with pictures: what config.json has of texts inside, and little of pictures."""
    if c["model_type"] not in PICTURES: return c
    kind = c.pop("model_type")
    vision = {"depth": 1, "hidden_size": c["hidden_size"], "embed_dim": 32, "num_heads": 2}
    if kind == "qwen3_vl":
        vision.update(hidden_size=32, intermediate_size=48, out_hidden_size=c["hidden_size"],
                      num_position_embeddings=16, deepstack_visual_indexes=[0])
    return {"model_type": kind, "architectures": c.pop("architectures"), "vision_config": vision,
            "text_config": c, "tie_word_embeddings": c["tie_word_embeddings"]}
