"""Tiny directories of models with other mixers, with experts in one tensor, and of Gemma 4, and what is wrong
with them.
SPDX-License-Identifier: MIT

Part of make_hf_tiny.py, whose module is `tiny` here.
"""
import math

from hf_tiny_files import f32, Tensor
from hf_tiny_vocab import bpe, N_VOCAB

EXPERTS = 2
KINDS = {"router": 40, "router_bias": 41, "expert_gate": 43, "expert_up": 44, "expert_down": 45,
         "expert_gate_bias": 46, "expert_up_bias": 47, "expert_down_bias": 48, "attn_sinks": 50}

class Bytes:
    """A tensor of bytes."""
    def __init__(self, rng, shape, most=256):
        self.shape, self.dtype, self.transposed = list(shape), "U8", False
        self.data = bytes(rng.randrange(most) for _ in range(math.prod(shape)))

HALVES = [0.0, 0.5, 1, 1.5, 2, 3, 4, 6]

def refused(tiny):
    """model_type, what config.json says, status, words of the error."""
    types = lambda *t: {"layer_types": list(t)}
    rope = lambda **full: {"rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, **full}}}
    alternate = types("sliding_attention", "full_attention")
    yield "lfm2", {"conv_bias": True}, "UNSUPPORTED", "conv_bias is true"
    yield "lfm2", {"conv_L_cache": 17}, "CORRUPT", "expected a whole number from 2 to 16"
    yield "lfm2", types("conv", "mamba"), "UNSUPPORTED", 'of type "mamba", which no layer of a lfm2'
    yield "lfm2", types("conv"), "CORRUPT", "layer_types has 1 entries for 2 layers"
    yield "lfm2", types("conv", 1), "CORRUPT", "expected a list of strings"
    yield "lfm2", {"full_attn_idxs": [2]}, "CORRUPT", "expected a list of layers"
    yield "lfm2", {"block_ff_dim": 1 << 24, "block_ffn_dim_multiplier": 900}, "CORRUPT", "a feed-forward of"
    yield "lfm2_moe", {"use_expert_bias": False}, "UNSUPPORTED", "use_expert_bias is false"
    hybrid = {"num_local_experts": 0, "mamba_n_heads": 4, "mamba_d_head": "auto"}
    yield "granitemoehybrid", {**hybrid, "mamba_proj_bias": True}, "UNSUPPORTED", "mamba_proj_bias is true"
    yield ("granitemoehybrid", {**hybrid, "position_embedding_type": "alibi"}, "UNSUPPORTED",
           '"alibi" (supported: rope, nope)')
    yield "granitemoehybrid", {**hybrid, "mamba_d_head": 7}, "CORRUPT", "4 heads of length 7"
    yield "granitemoehybrid", {**hybrid, "mamba_n_groups": 3}, "CORRUPT", "in 3 groups for 32 channels"
    yield "granitemoehybrid", {**hybrid, "time_step_limit": [0, 1.0]}, "UNSUPPORTED", "a time_step_limit"
    delta = {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    yield "qwen3_5_text", {**delta, "attn_output_gate": False}, "UNSUPPORTED", "attn_output_gate is false"
    yield "qwen3_5_text", {"linear_value_head_dim": 64}, "UNSUPPORTED", "32 value heads of length 64 for 16"
    yield "qwen3_5_text", {**delta, "linear_num_value_heads": 33}, "UNSUPPORTED", "33 value heads"
    scaled = {"rope_scaling": YARN}
    yield "gpt_oss", {**scaled, "swiglu_limit": 5.0}, "UNSUPPORTED", "swiglu_limit is 5 (supported: 7)"
    yield "gpt_oss", {"num_local_experts": 4}, "UNSUPPORTED", "without rope_scaling or rope_parameters"
    yield "gpt_oss", {**scaled, "num_local_experts": 1}, "CORRUPT", "expected a whole number from 2"
    yield "llama", {"quantization_config": {"quant_method": "mxfp4"}}, "UNSUPPORTED", "quantised (mxfp4)"
    deep = {"n_routed_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1}
    yield ("deepseek_v2", {**deep, "topk_method": "group_limited_greedy"}, "UNSUPPORTED",
           '"group_limited_greedy"')
    yield "deepseek_v3", {**deep, "scoring_func": "softmax"}, "UNSUPPORTED", "supported: noaux_tc, sigmoid"
    yield "deepseek_v3", {**deep, "n_group": 3}, "CORRUPT", "8 experts in 3 groups"
    yield "deepseek_v3", {**deep, "n_group": 4, "topk_group": 5}, "CORRUPT", "from 1 to 4"
    yield "deepseek_v3", {**deep, "moe_layer_freq": 2}, "UNSUPPORTED", "moe_layer_freq is 2"
    yield "deepseek_v3", {**deep, "rope_interleave": False}, "UNSUPPORTED", "rope_interleave is false"
    yield "deepseek_v3", {**deep, "q_lora_rank": 1}, "CORRUPT", "expected a whole number from 2"
    yield "qwen2_moe", {"qkv_bias": False, "num_experts": 4}, "CORRUPT", "mlp.shared_expert."
    yield "stablelm", {"qk_layernorm": True}, "UNSUPPORTED", "qk_layernorm in a model of type stablelm"
    yield "llama", {"use_qk_norm": True}, "UNSUPPORTED", "use_qk_norm in a model of type llama"
    yield "starcoder2", {"use_bias": False}, "UNSUPPORTED", "use_bias is false in a model of type starcoder2"
    yield "ernie4_5_moe", {"moe_layer_interval": 2}, "UNSUPPORTED", "layers without experts between"
    yield "ernie4_5_moe", {"moe_layer_end_index": 0}, "UNSUPPORTED", "layers without experts between"
    yield "ministral3", {}, "UNSUPPORTED", "a ministral3 model without rope_scaling or rope_parameters"
    yield ("hunyuan_v1_dense", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "UNSUPPORTED",
           "type dynamic with alpha 0")
    yield "qwen2_moe", {"mlp_only_layers": [0]}, "UNSUPPORTED", "layers without experts between"
    yield ("smollm3", {"use_sliding_window": True, "sliding_window": 8}, "UNSUPPORTED",
           "use_sliding_window without layer_types in a smollm3 model")
    yield "qwen3", {"rope_parameters": {"rope_theta": 1e6}, "rope_scaling": YARN}, "UNSUPPORTED", "both rope_"
    # whose layers that see everything have heads as the others have
    alike = {"per_layer_config": {}, "hidden_size_per_layer_input": 0}
    yield ("gemma4_text", {**types("full_attention", "full_attention"), **alike}, "CORRUPT",
           "q_norm.weight is missing")
    yield "gemma4_text", {**alternate, "enable_moe_block": True}, "CORRUPT", '"num_experts" is missing'
    yield ("gemma4_text", {**alternate, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 5},
           "CORRUPT", "from 1 to 4")
    yield "gemma4_text", {**alternate, "use_bidirectional_attention": "all"}, "UNSUPPORTED", '"all"'
    yield "gemma4_text", {}, "UNSUPPORTED", "the last layer, 1, is windowed"
    each = {"per_layer_config": {"0": {"head_dim": 16}}}
    yield "gemma4_text", {**alternate, **each}, "UNSUPPORTED", '"0" is not a layer'
    yield "gemma4_text", {**alternate, **rope(factor=2.0)}, "UNSUPPORTED", "proportional with factor 2"
    yield "gemma4_text", {**alternate, "num_kv_shared_layers": 2}, "CORRUPT", "from 0 to 1"

def gpt_oss(tiny, seed):
    """MXFP4's blocks, of which a byte has two neighbours; gates and what they multiply take turns."""
    D, FF, Q, KVD, K = 32, 32, tiny.Q, tiny.KVD, tiny.K
    m = tiny.Model(seed, "BF16")
    def blocks(name, rows, cols):
        b = m.files[name + "_blocks"] = Bytes(m.rng, [EXPERTS, rows, cols // 32, 16])
        s = m.files[name + "_scales"] = Bytes(m.rng, [EXPERTS, rows, cols // 32], 250)
        def value(i):
            code = b.data[i // 2] >> 4 * (i % 2) & 15
            return f32(math.ldexp(HALVES[code & 7] * (-1 if code & 8 else 1), s.data[i // 32] - 127))
        return [[value(r * cols + c) for c in range(cols)] for r in range(EXPERTS * rows)]
    m.plain(tiny.EMBD, K["token_embd"], N_VOCAB, D, "model.embed_tokens.weight")
    for i in range(tiny.LAYERS):
        at = f"model.layers.{i}."
        m.plain(i, K["attn_norm"], 1, D, at + "input_layernorm.weight")
        for k, rows in (("q", Q), ("k", KVD), ("v", KVD)):
            m.plain(i, K[f"attn_{k}"], rows, D, at + f"self_attn.{k}_proj.weight")
            m.plain(i, K[f"attn_{k}_bias"], 1, rows, at + f"self_attn.{k}_proj.bias")
        m.plain(i, KINDS["attn_sinks"], 1, tiny.HEADS, at + "self_attn.sinks")
        m.plain(i, K["attn_out"], D, Q, at + "self_attn.o_proj.weight")
        m.plain(i, K["attn_out_bias"], 1, D, at + "self_attn.o_proj.bias")
        m.plain(i, K["ffn_norm"], 1, D, at + "post_attention_layernorm.weight")
        m.plain(i, KINDS["router"], EXPERTS, D, at + "mlp.router.weight")
        m.plain(i, KINDS["router_bias"], 1, EXPERTS, at + "mlp.router.bias")
        both = blocks(at + "mlp.experts.gate_up_proj", 2 * FF, D)
        bias = m.add(at + "mlp.experts.gate_up_proj_bias", [EXPERTS, 2 * FF]).values
        for first, part in ((0, "gate"), (1, "up")):
            rows = [x for r in both[first::2] for x in r]
            m.expect(i, KINDS["expert_" + part], EXPERTS * FF, D,
                     at + f"mlp.experts.gate_up_proj_blocks[{part}]", rows)
            m.expect(i, KINDS[f"expert_{part}_bias"], 1, EXPERTS * FF,
                     at + f"mlp.experts.gate_up_proj_bias[{part}]", bias[first::2])
        down = blocks(at + "mlp.experts.down_proj", D, FF)
        m.expect(i, KINDS["expert_down"], EXPERTS * D, FF, at + "mlp.experts.down_proj_blocks",
                 [x for r in down for x in r])
        t = m.add(at + "mlp.experts.down_proj_bias", [EXPERTS, D])
        m.expect(i, KINDS["expert_down_bias"], 1, EXPERTS * D, at + "mlp.experts.down_proj_bias", t.values)
    m.plain(tiny.FINAL, K["output_norm"], 1, D, "model.norm.weight")
    m.plain(tiny.FINAL, K["output"], N_VOCAB, D, "lm_head.weight")
    return m

def oss_config(tiny, **more):
    return {"model_type": "gpt_oss", **tiny.COMMON, "hidden_size": 32, "intermediate_size": 32,
            "num_local_experts": EXPERTS, "num_experts_per_tok": 1, "sliding_window": 16,
            "quantization_config": {"quant_method": "mxfp4"}, "rope_scaling": YARN, **more}

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "truncate": False}

def yarn_divisors(dims, base):
    """Between fast and slow frequencies, which begin and end anywhere, a straight line."""
    def index(turns): return dims * math.log(32 / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(0, index(32)), min(dims - 1, index(1))
    ramps = [min(1, max(0, (i - low) / (high - low))) for i in range(dims // 2)]
    return [1 / (r / YARN["factor"] + 1 - r) for r in ramps]

def good(tiny):
    yield "gpt-oss", tiny.Case(oss_config(tiny), {
        "arch": "gpt-oss", "act": 5, "n_embd": 32, "n_ff": 32, "norm_eps": 1e-5, "rope_base": 150000,
        "window": 16, "window_pattern": 2, "scaling_orig_ctx": 32, "rope_attn_factor": 0.1 * math.log(4) + 1},
        gpt_oss(tiny, 60), bpe("gpt-2"), yarn_divisors(tiny.HD, 150000)).weights(shards=2)

def bad(tiny):
    for i, (kind, settings, status, says) in enumerate(refused(tiny)):
        c = tiny.Case({"model_type": kind, **tiny.COMMON, **settings}, {}, tiny.llama(61, "F16"),
                      bpe("gpt-2"))
        yield f"mixers-{kind}-{i}", c.weights(), "QSF_E_" + status, says
    down = "model.layers.1.mlp.experts.down_proj"
    def case(change, **more):
        c = tiny.Case(oss_config(tiny, **more), {}, gpt_oss(tiny, 62), bpe("gpt-2"))
        change(c.model.files)
        return c.weights()
    def replaced(name, shape):
        def change(t): t[name] = Bytes(tiny.random.Random(1), shape)
        return change
    def halves(t): t[down + "_scales"] = Tensor(tiny.random.Random(1), [EXPERTS, 32, 1], "F16")
    yield "oss-no-scales", case(lambda t: t.pop(down + "_scales")), "QSF_E_CORRUPT", down + " is missing"
    yield "oss-no-blocks", case(lambda t: t.pop(down + "_blocks")), "QSF_E_CORRUPT", down + " is missing"
    yield ("oss-blocks", case(replaced(down + "_blocks", [EXPERTS, 31, 1, 16])), "QSF_E_CORRUPT",
           "is of shape [2 x 31 x 1 x 16], config.json implies [2 x 32 x 1 x 16]")
    yield ("oss-scales", case(replaced(down + "_scales", [EXPERTS, 32, 2])), "QSF_E_CORRUPT",
           "is of shape [2 x 32 x 2], config.json implies [2 x 32 x 1]")
    yield "oss-types", case(halves), "QSF_E_UNSUPPORTED", "are of types U8 and F16"
