"""Tiny BitNet directories: ternary weights packed in bytes, masters of them, and what is wrong with others.
SPDX-License-Identifier: MIT

Part of make_hf_tiny.py, whose module is `tiny` here.
"""
import math

from hf_tiny_files import decode, encode, f32, Tensor, Ternary
from hf_tiny_vocab import bpe, spm_json, N_VOCAB

def bitnet(tiny, seed, dtype, how, subs=("self_attn.attn_sub_norm", "mlp.ffn_sub_norm")):
    """how: "times", "over" (packed codes, and a number by which they are multiplied or divided), "masters"
    (rounded by the mean magnitude), "ternary" (floats that are ternary already)."""
    D, FF, Q, KVD, K = tiny.D, tiny.FF, tiny.Q, tiny.KVD, tiny.K
    m = tiny.Model(seed, dtype)
    m.plain(tiny.EMBD, K["token_embd"], N_VOCAB, D, "model.embed_tokens.weight")
    def matrix(i, kind, rows, cols, name):
        name = f"model.layers.{i}.{name}.weight"
        if how in ("times", "over"):
            t = m.files[name] = Ternary(m.rng, rows, cols)
            s = m.files[name + "_scale"] = Tensor(m.rng, [1], "BF16")
            s.data = encode([m.rng.uniform(0.5, 3)], "BF16")
            by = decode(s.data, "BF16")[0]
            by = by if how == "times" else f32(1 / by)
            return m.expect(i, K[kind], rows, cols, name, [c * by for c in t.codes])
        t = m.add(name, [rows, cols])
        if how == "ternary":
            t.data = encode([m.rng.randrange(3) * 0.25 - 0.25 for _ in t.values], dtype)
            t.values = decode(t.data, dtype)
            return m.expect(i, K[kind], rows, cols, name, t.values)
        sharp = f32(1 / f32(math.fsum(map(abs, t.values)) / len(t.values)))
        codes = [max(-1, min(1, round(f32(v * sharp)))) for v in t.values]
        m.expect(i, K[kind], rows, cols, name, [c * f32(1 / sharp) for c in codes])
    for i in range(tiny.LAYERS):
        def norm(kind, n, name):
            if name: m.plain(i, K[kind], 1, n, f"model.layers.{i}.{name}.weight")
        norm("attn_norm", D, "input_layernorm")
        for k, rows in (("q", Q), ("k", KVD), ("v", KVD)):
            matrix(i, f"attn_{k}", rows, D, f"self_attn.{k}_proj")
        norm("attn_sub_norm", Q, subs[0])
        matrix(i, "attn_out", D, Q, "self_attn.o_proj")
        norm("ffn_norm", D, "post_attention_layernorm")
        matrix(i, "ffn_gate", FF, D, "mlp.gate_proj"); matrix(i, "ffn_up", FF, D, "mlp.up_proj")
        norm("ffn_sub_norm", FF, subs[1])
        matrix(i, "ffn_down", D, FF, "mlp.down_proj")
    m.plain(tiny.FINAL, K["output_norm"], 1, D, "model.norm.weight")
    m.plain(tiny.FINAL, K["output"], N_VOCAB, D, "lm_head.weight")
    return m

def config(tiny, mode=None, linear="autobitlinear", **more):
    quantised = {} if linear is None else {"quantization_config": {
        "quant_method": "bitnet", "linear_class": linear, "quantization_mode": mode}}
    return {"model_type": "bitnet", "architectures": ["BitNetForCausalLM"], **tiny.COMMON, **quantised,
            **more}

def good(tiny):
    hp = {"arch": "bitnet-b1.58", "act": 3, "norm_eps": 1e-5, "rope_base": 500000}
    yield "bitnet", tiny.Case(config(tiny, "offline"), hp, bitnet(tiny, 40, "BF16", "times"),
                         bpe("llama-bpe")).weights()
    yield "bitnet-masters", tiny.Case(config(tiny, "online", hidden_act="silu"), {**hp, "act": 1},
                                 bitnet(tiny, 41, "BF16", "masters"), bpe("llama-bpe")).weights(shards=2)
    yield "bitnet-ternary", tiny.Case(config(tiny, linear=None), hp, bitnet(tiny, 42, "F16", "ternary"),
                                 bpe("llama-bpe")).weights()
    older = {"model_type": "llama", "architectures": ["BitnetForCausalLM"], **tiny.COMMON}
    names = ("self_attn.inner_attn_ln", "mlp.ffn_layernorm")
    yield "bitnet-older", tiny.Case(older, {"arch": "bitnet"}, bitnet(tiny, 43, "F32", "masters", names),
                                    spm_json()).weights()
    yield "llama-ternary", tiny.Case({"model_type": "llama", **tiny.COMMON, "quantization_config": {
        "quant_method": "bitnet", "modules_to_not_convert": None}}, {"arch": "llama"},
        bitnet(tiny, 44, "BF16", "over", (None, None)), bpe("llama-bpe")).weights()

def bad(tiny):
    def case(change, settings=config(tiny, "offline"), how="times"):
        c = tiny.Case(settings, {}, bitnet(tiny, 50, "BF16", how), bpe("gpt-2"))
        change(c.model.files)
        return c.weights()
    q = "model.layers.0.self_attn.q_proj.weight"
    def scale(x, dtype="BF16"):
        def change(t): t[q + "_scale"].data, t[q + "_scale"].dtype = encode([x], dtype), dtype
        return change
    def shape(t): t[q].shape = [tiny.Q // 4 * tiny.D // 8, 8]
    def two(t): t[q + "_scale"].data, t[q + "_scale"].shape = encode([1, 1], "BF16"), [2]
    yield ("bitnet-no-scale", case(lambda t: t.pop(q + "_scale")), "QSF_E_CORRUPT",
           "q_proj.weight_scale is missing, the scale of")
    yield "bitnet-scale-0", case(scale(0.0)), "QSF_E_CORRUPT", "q_proj.weight_scale is 0, expected"
    yield "bitnet-scale-nan", case(scale(math.nan, "F32")), "QSF_E_CORRUPT", "weight_scale is nan"
    yield "bitnet-scale-below", case(scale(-1.5)), "QSF_E_CORRUPT", "is -1.5, expected a number above 0"
    yield "bitnet-two-scales", case(two), "QSF_E_CORRUPT", "4 bytes, expected one number"
    yield "bitnet-shape", case(shape), "QSF_E_CORRUPT", "is of shape [16 x 8], config.json implies [8 x 16]"
    yield ("bitnet-norms", case(lambda t: None, {**config(tiny), "quantization_config": {
        "quant_method": "bitnet", "use_rms_norm": True}}), "QSF_E_UNSUPPORTED", "use_rms_norm")
    yield ("bitnet-class", case(lambda t: None, config(tiny, "offline", "bytelinear")), "QSF_E_UNSUPPORTED",
           "linear_class \"bytelinear\"")
    yield ("bitnet-packed-online", case(lambda t: None, config(tiny, "online")), "QSF_E_CORRUPT",
           "is of shape [8 x 16]")
    yield ("bitnet-nan", case(lambda t: setattr(t[q], "data", encode([math.nan] * tiny.Q * tiny.D, "BF16")),
                              config(tiny, "online"), "masters"), "QSF_E_CORRUPT", "mean magnitude is nan")
