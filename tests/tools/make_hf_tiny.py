#!/usr/bin/env python3
"""Makes tiny Hugging Face model directories with random weights, and what a reader should find in them.

    make_hf_tiny.py OUT_DIR        writes OUT_DIR/index.txt and a directory for each case
    make_hf_tiny.py --remove DIR   removes what the first form made

Needs only Python. A good case holds expect.txt (description, vocabulary, tensors) and expect.f32 (all values
in order); index.txt says of a bad case which status and which words its error must have. Everything expected
is worked out here from the published meaning of the files, not from the reader under test.

SPDX-License-Identifier: MIT
"""
import copy, json, math, pathlib, random, re, shutil, struct, sys

import hf_tiny_bitnet, hf_tiny_encoders, hf_tiny_mixers
from hf_tiny_files import encode, f32, pytorch, safetensors, Tensor, torch_zip
from hf_tiny_vocab import bpe, N_VOCAB, spm_json, spm_model

# ---- architectures -------------------------------------------------------------------------------

D, FF, LAYERS, HEADS, KV, HD = 16, 24, 2, 4, 2, 8
Q, KVD = HEADS * HD, KV * HD
EMBD, FINAL = LAYERS, LAYERS + 1
COMMON = {"hidden_size": D, "intermediate_size": FF, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "num_key_value_heads": KV,
          "head_dim": HD, "vocab_size": N_VOCAB, "max_position_embeddings": 128}
HP = {"n_layers": LAYERS, "n_embd": D, "n_heads": HEADS, "n_kv_heads": KV, "head_dim": HD, "n_ff": FF,
      "n_vocab": N_VOCAB, "n_ctx_train": 128,
      "norm": 1, "act": 1, "rope": 2, "gated": 1, "learned_pos": 0, "tied": 0, "norm_eps": 1e-6,
      "embd_scale": 1, "attn_scale": 0,
      "attn_softcap": 0, "final_softcap": 0, "window": 0, "window_pattern": 0, "rope_dim": HD,
      "rope_base": 10000, "rope_base_local": 0,
      "scaling": 0, "scaling_factor": 1, "scaling_orig_ctx": 128, "yarn_ext_factor": -1,
      "yarn_attn_factor": 0, "yarn_beta_fast": 0,
      "yarn_beta_slow": 0, "rope_attn_factor": 0}

class Model:
    """Tensors as the files have them, and the list a reader should make of them."""
    def __init__(self, seed, dtype):
        self.rng, self.dtype, self.files, self.want = random.Random(seed), dtype, {}, []
    def add(self, name, shape, transposed=False):
        t = self.files[name] = Tensor(self.rng, shape, self.dtype, transposed)
        return t
    def expect(self, unit, kind, rows, cols, name, values):
        self.want.append((unit, kind, rows, cols, name, values))
    def plain(self, unit, kind, rows, cols, name, plus=0, transposed=False):
        t = self.add(name, [cols] if rows == 1 else [rows, cols], transposed)
        self.expect(unit, kind, rows, cols, name, [f32(v + plus) for v in t.values])

K = {k: i
     for i, k in enumerate("attn_q attn_k attn_v attn_out ffn_gate ffn_up ffn_down attn_norm ffn_norm "
                           "attn_q_bias attn_k_bias attn_v_bias "
                                "attn_out_bias ffn_up_bias".split())}
K.update(ffn_down_bias=16, ffn_gate_bias=17, attn_norm_bias=18, ffn_norm_bias=19, q_norm=20, k_norm=21,
         attn_post_norm=22, ffn_post_norm=23, attn_sub_norm=24, ffn_sub_norm=25,
         token_embd=32, pos_embd=33, output_norm=34, output_norm_bias=35, output=36)

def llama_layers(m, prefix, biases=(), qk=False, gemma=False, transposed=False):
    plus = 1 if gemma else 0
    for i in range(LAYERS):
        p = f"{prefix}layers.{i}."
        def w(kind, rows, cols, name, add=0, bias=None):
            m.plain(i, K[kind], rows, cols, p + name + ".weight", add, transposed and rows > 1)
            if bias in biases: m.plain(i, K[kind + "_bias"], 1, rows, p + name + ".bias")
        w("attn_norm", 1, D, "input_layernorm", plus)
        for k, rows in (("q", Q), ("k", KVD), ("v", KVD)):
            w(f"attn_{k}", rows, D, f"self_attn.{k}_proj", 0, "qkv")
        if qk: w("q_norm", 1, HD, "self_attn.q_norm", plus); w("k_norm", 1, HD, "self_attn.k_norm", plus)
        w("attn_out", D, Q, "self_attn.o_proj", 0, "o")
        if gemma == 2:
            w("attn_post_norm", 1, D, "post_attention_layernorm", 1)
            w("ffn_norm", 1, D, "pre_feedforward_layernorm", 1)
        else: w("ffn_norm", 1, D, "post_attention_layernorm", plus)
        w("ffn_gate", FF, D, "mlp.gate_proj", 0, "mlp"); w("ffn_up", FF, D, "mlp.up_proj", 0, "mlp")
        w("ffn_down", D, FF, "mlp.down_proj", 0, "mlp")
        if gemma == 2: w("ffn_post_norm", 1, D, "post_feedforward_layernorm", 1)

def llama(seed, dtype, prefix="model.", head="", tied=False, gemma=False, **kw):
    m = Model(seed, dtype)
    m.plain(EMBD, K["token_embd"], N_VOCAB, D, prefix + "embed_tokens.weight")
    llama_layers(m, prefix, gemma=gemma, **kw)
    m.plain(FINAL, K["output_norm"], 1, D, prefix + "norm.weight", 1 if gemma else 0)
    if not tied: m.plain(FINAL, K["output"], N_VOCAB, D, head + "lm_head.weight")
    return m

def phi3(seed, dtype):
    m = Model(seed, dtype)
    m.plain(EMBD, K["token_embd"], N_VOCAB, D, "model.embed_tokens.weight")
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        m.plain(i, K["attn_norm"], 1, D, p + "input_layernorm.weight")
        t = m.add(p + "self_attn.qkv_proj.weight", [Q + 2 * KVD, D]).values
        for k, a, n in (("q", 0, Q), ("k", Q, KVD), ("v", Q + KVD, KVD)):
            m.expect(i, K["attn_" + k], n, D, p + f"self_attn.qkv_proj.weight[{k}]", t[a * D:(a + n) * D])
        m.plain(i, K["attn_out"], D, Q, p + "self_attn.o_proj.weight")
        m.plain(i, K["ffn_norm"], 1, D, p + "post_attention_layernorm.weight")
        t = m.add(p + "mlp.gate_up_proj.weight", [2 * FF, D]).values
        m.expect(i, K["ffn_gate"], FF, D, p + "mlp.gate_up_proj.weight[gate]", t[:FF * D])
        m.expect(i, K["ffn_up"], FF, D, p + "mlp.gate_up_proj.weight[up]", t[FF * D:])
        m.plain(i, K["ffn_down"], D, FF, p + "mlp.down_proj.weight")
    m.plain(FINAL, K["output_norm"], 1, D, "model.norm.weight")
    m.plain(FINAL, K["output"], N_VOCAB, D, "lm_head.weight")
    return m

def gpt2(seed, dtype, prefix):
    m = Model(seed, dtype)
    def turned(i, kind, rows, cols, name, part="", a=0, n=None, t=None):
        total = n or rows
        m.expect(i, kind, rows, cols, name + part,
                 [t[c * total + a + r] for r in range(rows) for c in range(cols)])
    m.plain(EMBD, K["token_embd"], N_VOCAB, D, prefix + "wte.weight")
    m.plain(EMBD, K["pos_embd"], 128, D, prefix + "wpe.weight")
    for i in range(LAYERS):
        p = f"{prefix}h.{i}."
        for k in ("weight", "bias"):
            m.plain(i, K["attn_norm" + ("" if k == "weight" else "_bias")], 1, D, p + "ln_1." + k)
        w, b = m.add(p + "attn.c_attn.weight", [D, 3 * D]).values, m.add(p + "attn.c_attn.bias",
                                                                         [3 * D]).values
        for j, k in enumerate("qkv"):
            turned(i, K["attn_" + k], D, D, p + "attn.c_attn.weight", f"[{k}]", j * D, 3 * D, w)
            m.expect(i, K[f"attn_{k}_bias"], 1, D, p + f"attn.c_attn.bias[{k}]", b[j * D:(j + 1) * D])
        def conv(kind, rows, cols, name):
            turned(i, K[kind], rows, cols, p + name + ".weight",
                   t=m.add(p + name + ".weight", [cols, rows]).values)
            m.plain(i, K[kind + "_bias"], 1, rows, p + name + ".bias")
        conv("attn_out", D, D, "attn.c_proj")
        for k in ("weight", "bias"):
            m.plain(i, K["ffn_norm" + ("" if k == "weight" else "_bias")], 1, D, p + "ln_2." + k)
        conv("ffn_up", 4 * D, D, "mlp.c_fc"); conv("ffn_down", D, 4 * D, "mlp.c_proj")
        m.add(p + "attn.bias", [1, 1, 4, 4])                                     # a mask: ignored
    for k in ("weight", "bias"):
        m.plain(FINAL, K["output_norm" + ("" if k == "weight" else "_bias")], 1, D, prefix + "ln_f." + k)
    return m

def llama3_factors(base, factor, low, high, orig):
    out = []
    for i in range(0, HD, 2):
        wavelen = 2 * math.pi * base ** (i / HD)
        if wavelen < orig / high: out.append(1.0)
        elif wavelen > orig / low: out.append(factor)
        else:
            s = (orig / wavelen - low) / (high - low)
            out.append(1 / ((1 - s) / factor + s))
    return out

# ---- cases ---------------------------------------------------------------------------------------

class Case:
    def __init__(self, config, hp, model, tokenizer, factors=(), factors_long=(), generation=None, eog=()):
        files, self.vocab = tokenizer
        self.vocab = copy.deepcopy(self.vocab)
        self.vocab["eog"] = list(eog)
        self.files = dict(files)
        self.files["config.json"] = json.dumps(config)
        if generation: self.files["generation_config.json"] = json.dumps(generation)
        self.config, self.hp, self.model, self.factors, self.factors_long = config, {**HP,
                **hp}, model, factors, factors_long

    def weights(self, kind="safetensors", shards=1, **kw):
        write = safetensors if kind == "safetensors" else pytorch
        stem, ext = ("model", ".safetensors") if kind == "safetensors" else ("pytorch_model", ".bin")
        t = self.model.files
        if shards == 1: self.files[stem + ext] = write(t, **kw); return self
        names, index = list(t), {"metadata": {"total_size": 0}, "weight_map": {}}
        for s in range(shards):
            f = f"{stem}-{s + 1:05d}-of-{shards:05d}{ext}"
            part = {n: t[n] for n in names[s::shards]}
            self.files[f] = write(part, **kw)
            index["weight_map"].update({n: f for n in part})
        self.files[stem + ext + ".index.json"] = json.dumps(index)
        return self

    def expect(self):
        v, out = self.vocab, []
        for k, x in self.hp.items(): out.append(f"hp {k} {x if isinstance(x, str) else repr(float(x))}")
        out += ["factors " + " ".join(repr(x) for x in self.factors),
                "factors_long " + " ".join(repr(x) for x in self.factors_long)]
        out += [f"kind {v['kind']}", f"pre {v['pre']}"] + [
            f"special {k} {x}" for k, x in v["special"].items()]
        out += (["eog " + " ".join(map(str, v["eog"])), "template " + ((v["template"].encode().hex() or "-")
                 if v["template"] is not None else "none")]
                + [f"more {i} {name} {text.encode().hex()}"
                   for i, (name, text) in enumerate(v.get("more", []))])
        out += [f"token {i} {k} {t.hex()}" for i, (k, t) in enumerate(v["tokens"])]
        out += [f"score {i} {s!r}" for i, s in enumerate(v.get("scores", []))]
        out += [f"merge {i} {a} {b}" for i, (a, b) in enumerate(v["merges"])]
        out += [f"tensor {u} {k} {r} {c} {n}" for u, k, r, c, n, _ in self.model.want]
        return "\n".join(out) + "\n", b"".join(struct.pack(f"<{len(x)}f", *x) for *_, x in self.model.want)

def good_cases():
    three = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 64}
    yield "llama", Case({"model_type": "llama", "architectures": ["LlamaForCausalLM"], **COMMON,
                         "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
                         "rope_scaling": three, "tie_word_embeddings": True, "eos_token_id": [263, 262]},
                        {"arch": "llama", "tied": 1, "norm_eps": 1e-5,
                         "rope_base": 500000}, aside(llama(1, "BF16",
                                                           tied=True)), unreachable(bpe("llama-bpe",
                                                               template=True)),
                        llama3_factors(500000, 8, 1, 4, 64), generation={"eos_token_id": [263, 262, 5],
                                                                         "temperature": 0.6,
                                                                         "top_p": 0.9}, eog=(5,)).weights()
    biased = lambda seed, **kw: llama(seed, "F32", biases=("qkv", "o", "mlp"), **kw)
    bias_config = {"model_type": "llama", **COMMON, "attention_bias": True, "mlp_bias": True,
                   "rope_scaling": {"type": "linear", "factor": 4.0}}
    yield "llama-bias-shards", Case(bias_config, {"arch": "llama", "scaling": 1, "scaling_factor": 4},
                                    biased(2), bpe("smollm")).weights(shards=3)
    yield "llama-pickle", Case(bias_config, {"arch": "llama", "scaling": 1, "scaling_factor": 4}, biased(3),
                               bpe("gpt-2", pair_arrays=True)).weights("bin")
    plain = {"model_type": "llama", **COMMON}
    yield "llama-pickle-shards-zip64", Case(plain, {"arch": "llama"}, llama(4, "F16"), bpe("gpt-2")).weights(
        "bin", 2, protocol=4, zip64=True, parameter=True)
    yield "llama-pickle-transposed", Case(plain, {"arch": "llama"}, llama(5, "BF16", transposed=True),
                                          bpe("gpt-2")).weights("bin")
    yield "llama-base-model", Case({**plain, "tie_word_embeddings": True}, {"arch": "llama", "tied": 1},
                                   llama(6, "F16", prefix="", tied=True), spm_json()).weights()
    yield "llama-tied-with-own-head", Case({**plain, "tie_word_embeddings": True}, {"arch": "llama"},
                                           llama(19, "F16"), bpe("gpt-2")).weights()
    yield "mistral", Case({"model_type": "mistral", **COMMON, "sliding_window": 32},
                          {"arch": "llama", "window": 32}, llama(7, "BF16"), spm_model()).weights()
    yield "mistral3-pictures", Case({"model_type": "mistral3",
                                     "architectures": ["Mistral3ForConditionalGeneration"],
                                     "text_config": {"model_type": "mistral", **COMMON, "sliding_window": 32},
                                     "vision_config": {"model_type": "pixtral"}},
                                    {"arch": "llama", "window": 32},
                                    pictures(llama(30, "BF16", prefix="language_model.model.",
                                                   head="language_model.")), spm_model()).weights()
    yield "mistral-no-window", Case({"model_type": "mistral", **COMMON, "sliding_window": None},
                                    {"arch": "llama"}, llama(8, "BF16"), spm_model(prefix=0)).weights()
    yield "mistral-unigram", Case({"model_type": "mistral", **COMMON, "sliding_window": None},
                                  {"arch": "llama"}, llama(8, "BF16"), spm_model(trainer=1)).weights()
    yield "qwen2", Case({"model_type": "qwen2", **COMMON, "sliding_window": 64, "use_sliding_window": False,
                         "max_window_layers": 1}, {"arch": "qwen2"},
                        llama(9, "F16", biases=("qkv",)), bpe("qwen2", nfc=True)).weights()
    yield "qwen2-yarn", Case({"model_type": "qwen2", **COMMON,
                              "rope_scaling": {"type": "yarn", "factor": 4.0,
                                               "original_max_position_embeddings": 32}},
                             {"arch": "qwen2", "scaling": 2, "scaling_factor": 4, "scaling_orig_ctx": 32,
                              "yarn_ext_factor": 1, "yarn_attn_factor": 1,
                              "yarn_beta_fast": 32, "yarn_beta_slow": 1},
                             llama(10, "F16", biases=("qkv",)), bpe("qwen2")).weights()
    yield "qwen2-all-windows", Case({"model_type": "qwen2", **COMMON, "sliding_window": 64,
                                     "use_sliding_window": True, "max_window_layers": 0},
                                    {"arch": "qwen2", "window": 64}, llama(11, "F16", biases=("qkv",)),
                                    bpe("qwen2")).weights()
    yield "qwen3", Case({"model_type": "qwen3", **COMMON,
                         "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
                        {"arch": "qwen3", "rope_base": 1e6},
                        llama(12, "BF16", qk=True), bpe("qwen2")).weights()
    short, long = [1.0, 1.5], [2.0, 30.0]
    yield "phi3", Case({"model_type": "phi3", **COMMON, "partial_rotary_factor": 0.5,
                        "original_max_position_embeddings": 32, "sliding_window": 100,
                        "rope_scaling": {"type": "longrope", "short_factor": short, "long_factor": long}},
                       {"arch": "phi3", "norm_eps": 1e-5, "window": 100, "rope_dim": 4, "scaling": 3,
                        "scaling_orig_ctx": 32,
                        "rope_attn_factor": math.sqrt(1 + math.log(4) / math.log(32))},
                       phi3(13, "BF16"), spm_json(), short, long).weights()
    gemma = {"act": 0, "tied": 1, "embd_scale": 4}
    yield "gemma", Case({"model_type": "gemma", **COMMON, "hidden_act": "gelu"}, {"arch": "gemma", **gemma},
                        llama(27, "F16", gemma=1, tied=True), gemma_tokenizer()).weights()
    yield "gemma-act", Case({"model_type": "gemma", **COMMON, "hidden_act": "silu"},
                            {"arch": "gemma", **gemma, "act": 1}, llama(28, "F16", gemma=1, tied=True),
                            gemma_tokenizer()).weights()
    yield "gemma2", Case({"model_type": "gemma2", **COMMON, "query_pre_attn_scalar": 16,
                          "sliding_window": 64},
                         {"arch": "gemma2", **gemma, "attn_scale": 0.25, "attn_softcap": 50,
                          "final_softcap": 30, "window": 64, "window_pattern": 2},
                         llama(14, "BF16", gemma=2, tied=True), gemma_tokenizer()).weights()
    yield "gemma3-text", Case({"model_type": "gemma3_text", **COMMON, "query_pre_attn_scalar": 8,
                               "sliding_window": 64, "rope_local_base_freq": 20000.0},
                              {"arch": "gemma3", **gemma, "window": 64, "window_pattern": 6, "rope_base": 1e6,
                               "rope_base_local": 20000},
                              llama(15, "F32", gemma=2, tied=True, qk=True), gemma_tokenizer()).weights()
    yield "gemma3-pictures", Case({"model_type": "gemma3",
                                   "text_config": {"model_type": "gemma3_text", **COMMON,
                                                   "query_pre_attn_scalar": 8, "sliding_window": 64,
                                   "layer_types": ["sliding_attention", "full_attention"],
                                   "rope_parameters": {
                                       "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                       "full_attention": {"rope_type": "linear", "factor": 8.0,
                                                          "rope_theta": 2e6}}},
                                   "vision_config": {"hidden_size": 4}},
                                  {"arch": "gemma3", **gemma, "window": 64, "window_pattern": 2,
                                   "rope_base": 2e6, "rope_base_local": 10000, "scaling": 1,
                                   "scaling_factor": 8},
                                  pictures(llama(16, "BF16", prefix="language_model.model.", gemma=2,
                                                 tied=True, qk=True)), gemma_tokenizer()).weights()
    text = {"model_type": "gemma3_text", **COMMON, "query_pre_attn_scalar": 8, "sliding_window": None}
    yield "gemma3-pictures-untied", Case({"model_type": "gemma3", "tie_word_embeddings": False,
                                          "text_config": {**text, "tie_word_embeddings": True}},
                                         {"arch": "gemma3", **gemma, "tied": 0, "rope_base": 1e6},
                                         llama(29, "BF16", prefix="language_model.model.", gemma=2,
                                               head="language_model.", qk=True), gemma_tokenizer()).weights()
    small = {"model_type": "gpt2", "n_embd": D, "n_layer": LAYERS, "n_head": 2, "n_positions": 128,
             "vocab_size": N_VOCAB}
    hp = {"arch": "gpt2", "n_heads": 2, "n_kv_heads": 2, "n_ff": 4 * D, "norm": 0, "act": 0, "rope": 0,
          "gated": 0, "learned_pos": 1, "tied": 1, "norm_eps": 1e-5, "rope_dim": 0}
    yield "gpt2", Case(small, hp, gpt2(17, "F32", "transformer."), bpe("gpt-2")).weights()
    yield "gpt2-base-pickle", Case(small, hp, gpt2(18, "F16", ""), bpe("gpt-2")).weights("bin")
    yield from hf_tiny_bitnet.good(sys.modules[__name__])
    yield from hf_tiny_mixers.good(sys.modules[__name__])
    yield from hf_tiny_encoders.good(sys.modules[__name__])

def gemma_tokenizer():
    files, want = spm_model(prefix=1)
    want = copy.deepcopy(want)
    want["special"]["add_space_prefix"] = 0             # Gemma adds no space before its input
    return files, want

def aside(m):
    """Tensors that change no answer: computed frequencies, and a copy of the embedding for the tied head."""
    m.add("model.layers.0.self_attn.rotary_emb.inv_freq", [HD // 2])
    m.files["lm_head.weight"] = m.files["model.embed_tokens.weight"]
    return m

def unreachable(tokenizer):
    """A control token without a row, as Gemma 3 has one."""
    files, want = tokenizer
    t = json.loads(files["tokenizer.json"])
    t["added_tokens"].append({"id": N_VOCAB, "content": "<picture>", "special": True})
    return {**files, "tokenizer.json": json.dumps(t)}, want

def pictures(m):
    m.add("vision_tower.vision_model.x.weight", [2, 2]); m.add("multi_modal_projector.y", [3])
    return m

def bad_cases():
    plain = {"model_type": "llama", **COMMON}
    def case(config=plain, model=None, tok=None, **kw):
        return Case(config, {}, model or llama(20, "F16"), tok or bpe("gpt-2")).weights(**kw)
    def with_config(**more): return case({**plain, **more})
    def with_tok(change):
        c = case(); t = json.loads(c.files["tokenizer.json"]); change(t)
        c.files["tokenizer.json"] = json.dumps(t)
        return c
    def file(name, change): c = case(); c.files[name] = change(c.files[name]); return c
    st, tk = "model.safetensors", "tokenizer.json"
    first = "model.embed_tokens.weight"
    def head(change):
        def header(h): change(h); return json.dumps(h)
        return case(header=header)
    def setof(key, val): return lambda h: h[first].__setitem__(key, val)
    yield from hf_tiny_bitnet.bad(sys.modules[__name__])
    yield from hf_tiny_mixers.bad(sys.modules[__name__])
    yield from hf_tiny_encoders.bad(sys.modules[__name__])
    yield "config-missing", drop(case(), "config.json"), "QSF_E_NOT_FOUND", "config.json"
    yield "weights-missing", drop(case(), st), "QSF_E_NOT_FOUND", "no model.safetensors"
    yield "tokenizer-missing", drop(case(), tk), "QSF_E_NOT_FOUND", "tokenizer"
    yield ("config-type", with_config(model_type="falcon_h1"), "QSF_E_UNSUPPORTED",
           "\"falcon_h1\" are not supported; its GGUF files are: make one with")
    yield ("config-other-type", with_config(model_type="mamba_3"), "QSF_E_UNSUPPORTED",
           "\"mamba_3\" are not supported; a GGUF file of it may be")
    yield "config-quantised", with_config(
        quantization_config={"quant_method": "gptq"}), "QSF_E_UNSUPPORTED", "gptq"
    yield ("config-rope", with_config(rope_scaling={"type": "dynamic", "factor": 2.0}),
           "QSF_E_UNSUPPORTED", "dynamic")
    yield "config-act", with_config(hidden_act="gelu"), "QSF_E_UNSUPPORTED", "\"gelu\""
    yield "config-heads", with_config(num_key_value_heads=3), "QSF_E_CORRUPT", "do not divide"
    yield "config-number", with_config(hidden_size="big"), "QSF_E_CORRUPT", "hidden_size"
    # values of another type, or out of range
    beyond = "but the embedding has 272 rows"
    for key, value, says in (
            ("rope_scaling", 5, "the number 5, expected an object"), ("rope_parameters", [1],
                                                                      "a list, expected an object"),
            ("num_hidden_layers", -2, "the number -2"), ("num_hidden_layers", 0, "the number 0"),
            ("num_hidden_layers", 2.5, "the number 2.5"), ("num_attention_heads", "4",
                                                           'the text "4", expected a whole'),
            ("head_dim", 1 << 20, "expected a whole number from 1 to 1024"), ("hidden_size", True,
                "true, expected"),
            ("rms_norm_eps", "small", "expected a number"), ("rms_norm_eps", 1e300, "the number 1e+300"),
            ("rope_theta", -1.0, "the number -1"), ("hidden_act", 5, "expected a string"),
            ("tie_word_embeddings", 1, "expected true or false"), ("attention_bias", "yes",
                                                                   "expected true or false"),
            ("model_type", 5, "expected a string"), ("architectures", "x", "expected a list"),
            ("text_config", [], "expected an object"), ("quantization_config", 4, "expected an object"),
            ("layer_types", "full", "expected a list"), ("layer_types", [1, 2], "expected a list of strings"),
            ("eos_token_id", "x", "expected a token's id"), ("eos_token_id", [1, None], "null, expected"),
            ("bos_token_id", 1.5, "the number 1.5"), ("bos_token_id", -5, "the number -5"),
            ("eos_token_id", N_VOCAB, beyond), ("eos_token_id", [1, 1 << 30], beyond), ("pad_token_id",
                999999, beyond)):
        name = re.sub(r"\W", "", str(value))[:12]
        yield f"config-{key}-{name}", with_config(**{key: value}), "QSF_E_CORRUPT", says
    for name, rope, says in (
            ("factor", {}, "rope_scaling: a factor without"),
            ("member", {"type": "linear", "factor": "2"},
             'rope_scaling: "factor" is the text "2", expected a number'),
            ("attention", {"type": "yarn", "attention_factor": -1.0}, '"attention_factor" is the number -1')):
        yield f"config-rope-{name}", with_config(rope_scaling={"factor": 2.0, **rope}), "QSF_E_CORRUPT", says
    yield "config-layer-type", with_config(layer_types=["full_attention",
                                                        "x"]), "QSF_E_UNSUPPORTED", 'of type "x"'
    with_nan = lambda s: s.replace("{", '{"rope_theta": NaN, ', 1)
    yield "config-nan", file("config.json", with_nan), "QSF_E_CORRUPT", "not JSON"
    yield "config-ends", with_config(eos_token_id=list(range(17))), "QSF_E_UNSUPPORTED", "more than 16 end"
    def beside(name, text): c = case(); c.files[name] = text; return c
    for i, (text, says) in enumerate((
            ("[]", "generation_config.json: is a list, expected an object"), ('{"temperature": "hot"}',
                'is the text "hot"'),
            ('{"top_p": 2}', '"top_p" is the number 2'), ('{"top_k": 1.5}', '"top_k" is the number 1.5'),
            ('{"eos_token_id": [3, 5000]}', "is 5000, " + beyond))):
        yield f"generation-{i}", beside("generation_config.json", text), "QSF_E_CORRUPT", says
    for i, (text, says) in enumerate((
            ("[]", "tokenizer_config.json: is a list"), ('{"bos_token": 5}', '"bos_token" is the number 5'),
            ('{"chat_template": {}}', '"chat_template" is an object'), ('{"added_tokens_decoder": []}',
                "is a list"),
            ('{"add_bos_token": "no"}', "expected true or false"))):
        yield f"tokenizer-config-{i}", beside("tokenizer_config.json", text), "QSF_E_CORRUPT", says
    yield "config-layers", with_config(num_hidden_layers=4000), "QSF_E_CORRUPT", "4000 layers"
    yield "config-huge", with_config(num_hidden_layers=1e300), "QSF_E_CORRUPT", "num_hidden_layers"
    yield "config-window", case({**plain, "model_type": "qwen2", "use_sliding_window": True,
                                 "sliding_window": 8, "max_window_layers": 1},
                                llama(21, "F16", biases=("qkv",))), "QSF_E_UNSUPPORTED", "pattern"
    for name, status, says, kind, config in (
            ("turns-short", "CORRUPT", "no_rope_layers has 1 entries for 2 layers", "smollm3",
             {"no_rope_layers": [1]}),
            ("turns-number", "CORRUPT", "a list of 0 and 1", "smollm3", {"no_rope_layers": [1, 5]}),
            ("turns-irregular", "UNSUPPORTED", "pattern of layers that do not rotate", "smollm3",
             {"no_rope_layers": [0, 1]}),
            ("divisor", "CORRUPT", "logits_scaling is 0", "granite", {"logits_scaling": 0}),
            ("out-bias", "UNSUPPORTED", "attention_out_bias in a model of type seed_oss", "seed_oss",
             {"attention_out_bias": True}),
            ("biases", "UNSUPPORTED", "use_bias in a model of type ernie4_5", "ernie4_5", {"use_bias": True}),
            ("letters", "UNSUPPORTED", '"LGL" (supported: a number, or as LLLG)', "exaone4",
             {"sliding_window_pattern": "LGL"}),
            ("all-global", "UNSUPPORTED", "a model of type cohere2 without windowed layers", "cohere2",
             {"sliding_window": None})):
        yield f"config-{name}", with_config(model_type=kind, **config), "QSF_E_" + status, says
    yield "config-deep", file("config.json", lambda s: "[" * 100000), "QSF_E_CORRUPT", "nested"
    yield "config-not-json", file("config.json", lambda s: s[:-1]), "QSF_E_CORRUPT", "not JSON"
    yield "st-empty", file(st, lambda b: b""), "QSF_E_CORRUPT", "too short"
    yield "st-header-long", file(st, lambda b: struct.pack("<Q", 1 << 62) + b[8:]), "QSF_E_CORRUPT", "header"
    yield "st-cut", file(st, lambda b: b[:-1]), "QSF_E_CORRUPT", "cut short"
    yield "st-deep", case(header=lambda h: "{\"a\":" * 5000), "QSF_E_CORRUPT", "nested"
    yield "st-twice", case(header=lambda h: json.dumps(h)[:-1] + ", \"model.norm.weight\": "
                           + json.dumps(h["model.norm.weight"]) + "}"), "QSF_E_CORRUPT", "twice"
    other = "model.layers.0.input_layernorm.weight"
    yield ("st-overlap", head(lambda h: h["model.norm.weight"].__setitem__(
        "data_offsets", h[other]["data_offsets"])), "QSF_E_CORRUPT", "overlap")
    yield "st-size", head(setof("shape", [N_VOCAB, D + 1])), "QSF_E_CORRUPT", "need"
    yield "st-overflow", head(setof("shape", [1 << 40, 1 << 40])), "QSF_E_CORRUPT", "overflows"
    yield "st-backwards", head(setof("data_offsets", [5, 2])), "QSF_E_CORRUPT", "lies at"
    yield "st-beyond", head(setof("data_offsets", [0, 1 << 50])), "QSF_E_CORRUPT", "lies at"
    m = llama(22, "F16"); m.files[first] = Tensor(m.rng, [N_VOCAB, D], "I64")
    yield "st-dtype", case(model=m), "QSF_E_UNSUPPORTED", "I64"
    m = llama(23, "F16"); del m.files["model.layers.1.mlp.up_proj.weight"]
    yield "st-missing", case(model=m), "QSF_E_CORRUPT", "model.layers.1.mlp.up_proj.weight is missing"
    m = llama(24, "F16"); m.add("model.layers.1.mlp.experts.0.w1.weight", [4, 4])
    yield "st-unknown", case(model=m), "QSF_E_UNSUPPORTED", "experts.0.w1"
    m = llama(29, "F16"); m.add("model.layers.2.mlp.up_proj.weight", [FF, D])
    says = "model.layers.2.mlp.up_proj.weight belongs to layer 2, but config.json has 2 layers"
    yield "st-more-layers", case(model=m), "QSF_E_CORRUPT", says
    m = llama(30, "F16"); m.add("score.weight", [2, D])
    yield "st-head-of-another-kind", case(model=m), "QSF_E_UNSUPPORTED", "score.weight is not part of"
    yield "st-pictures", case(model=pictures(llama(31, "F16"))), "QSF_E_UNSUPPORTED", "multi_modal_projector"
    yield "st-dimensions", head(setof("shape", [1] * 9 + [N_VOCAB, D])), "QSF_E_CORRUPT", "(11 dimensions)"
    yield "st-one-dimension", head(setof("shape",
                                         [N_VOCAB * D])), "QSF_E_CORRUPT", "expected one row for each token"
    m = llama(25, "F16", qk=True)
    yield "st-qk-norm", case(model=m), "QSF_E_UNSUPPORTED", "k_norm"
    m = llama(26, "F16"); m.files["model.norm.weight"] = Tensor(m.rng, [D + 1], "F16")
    yield "st-shape", case(model=m), "QSF_E_CORRUPT", "model.norm.weight"
    for bad in ("../model.safetensors", "/etc/passwd", "..", ""):
        c = case(shards=2); i = json.loads(c.files[st + ".index.json"]); i["weight_map"][first] = bad
        c.files[st + ".index.json"] = json.dumps(i)
        yield f"index-path-{len(bad)}", c, "QSF_E_CORRUPT", "a plain one"
    c = case(shards=2); i = json.loads(c.files[st + ".index.json"])
    i["weight_map"]["model.nothing"] = "model-00001-of-00002.safetensors"
    c.files[st + ".index.json"] = json.dumps(i)
    yield "index-missing", c, "QSF_E_CORRUPT", "model.nothing"
    c = case(shards=2); names = list(c.model.files)[1::2] + [first]
    c.files["model-00002-of-00002.safetensors"] = safetensors({n: c.model.files[n] for n in names})
    yield "index-two-shards", c, "QSF_E_CORRUPT", "model.embed_tokens.weight is in"
    c = case(shards=2); c.files[st + ".index.json"] = "[]"
    yield "index-list", c, "QSF_E_CORRUPT", "is a list, expected an object"
    yield "shard-missing", drop(case(shards=2),
                                "model-00002-of-00002.safetensors"), "QSF_E_NOT_FOUND", "model-00002"
    # pickles
    def bin_with(pkl, **kw):
        c = drop(case(), st); c.files["pytorch_model.bin"] = torch_zip(pkl, {}, **kw); return c
    def tensor_with(change):
        def mutate(name, args):
            if name == first: change(args)
        return case(kind="bin", mutate=mutate)
    yield ("pickle-system", bin_with(b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R."), "QSF_E_UNSUPPORTED",
           "\"os.system\"")
    yield "pickle-stack-global", bin_with(
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x01x\x85R."), "QSF_E_UNSUPPORTED", "\"builtins.eval\""
    yield "pickle-load-from-bytes", bin_with(
        b"\x80\x02ctorch.storage\n_load_from_bytes\n."), "QSF_E_UNSUPPORTED", "_load_from_bytes"
    yield "pickle-inst", bin_with(b"\x80\x02(ios\nsystem\n."), "QSF_E_UNSUPPORTED", "opcode 0x69"
    yield ("pickle-newobj", bin_with(b"\x80\x02ccollections\nOrderedDict\n)\x81."), "QSF_E_UNSUPPORTED",
           "opcode 0x81")
    yield "pickle-marks", bin_with(b"(" * 100000), "QSF_E_CORRUPT", "marks"
    yield "pickle-stack", bin_with(b"N" * 200000), "QSF_E_CORRUPT", "stack is full"
    yield "pickle-memo", bin_with(b"Nr\xff\xff\xff\xff."), "QSF_E_CORRUPT", "memo"
    yield "pickle-no-end", bin_with(b"\x80\x02}"), "QSF_E_CORRUPT", "does not end"
    yield "pickle-text", bin_with(b"\x80\x02X\xff\xff\xff\x7fabc."), "QSF_E_CORRUPT", "beyond"
    yield "pickle-list", bin_with(b"\x80\x02]."), "QSF_E_UNSUPPORTED", "not hold a state dict"
    yield "pickle-empty", bin_with(b"\x80\x02}."), "QSF_E_UNSUPPORTED", "no tensors"
    yield ("pickle-legacy", file_bin(case(), b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."),
           "QSF_E_UNSUPPORTED", "1.6")
    yield "pickle-compressed", case(kind="bin", method=8), "QSF_E_UNSUPPORTED", "compressed"
    yield "pickle-offset", tensor_with(lambda a: a.__setitem__(1, 1)), "QSF_E_CORRUPT", "storage of"
    yield "pickle-offset-huge", tensor_with(
        lambda a: a.__setitem__(1, (1 << 63) - 1)), "QSF_E_CORRUPT", "storage of"
    yield "pickle-storage", tensor_with(lambda a: setattr(a[0], "n", 1 << 40)), "QSF_E_CORRUPT", "need more"
    yield ("pickle-stride", tensor_with(lambda a: a.__setitem__(3, (D * 2, 1))), "QSF_E_UNSUPPORTED",
           "neither dense nor transposed")
    yield ("pickle-key", tensor_with(lambda a: setattr(a[0], "key", "../x")), "QSF_E_CORRUPT",
           "the archive has no")
    yield "pickle-negative", tensor_with(lambda a: a.__setitem__(2, (-1, D))), "QSF_E_CORRUPT", "wrong parts"
    c = case(kind="bin"); b = c.files["pytorch_model.bin"]
    yield "zip-cut", file_bin(c, b[:-30]), "QSF_E_CORRUPT", "zip"
    c = case(kind="bin"); b = bytearray(c.files["pytorch_model.bin"]); b[-6:-2] = struct.pack("<I", len(b))
    yield "zip-directory", file_bin(c, bytes(b)), "QSF_E_CORRUPT", "zip directory"
    # tokenizers
    split = {"type": "Split", "pattern": {"Regex": "(\\w)\\1"}, "behavior": "Isolated"}
    yield ("tok-regex", with_tok(lambda t: t.__setitem__("pre_tokenizer", split)), "QSF_E_UNSUPPORTED",
           "an escape that this version does not support")
    yield ("tok-unigram", with_tok(lambda t: t["model"].__setitem__("type", "Unigram")),
           "QSF_E_CORRUPT", "no vocabulary")
    yield ("tok-normalizer", with_tok(lambda t: t.__setitem__("normalizer", {"type": "Sideways"})),
           "QSF_E_UNSUPPORTED", "a normalizer of type Sideways")
    yield ("tok-scripts", with_tok(lambda t: t.__setitem__("pre_tokenizer", {"type": "UnicodeScripts"})),
           "QSF_E_UNSUPPORTED", "a pre-tokenizer of type UnicodeScripts")
    yield "tok-merge", with_tok(lambda t: t["model"]["merges"].append("h ll")), "QSF_E_CORRUPT", "merge 5"
    yield ("tok-merge-form", with_tok(lambda t: t["model"]["merges"].append(["a"])), "QSF_E_CORRUPT",
           "is not a pair")
    yield ("tok-id", with_tok(lambda t: t["model"]["vocab"].__setitem__("zz", N_VOCAB)), "QSF_E_CORRUPT",
           "beyond the embedding")
    yield ("tok-id-twice", with_tok(lambda t: t["model"]["vocab"].__setitem__("zz", 3)),
           "QSF_E_CORRUPT", "twice")
    added = {"id": N_VOCAB + 3, "content": "word", "special": False}
    yield "tok-added", with_tok(lambda t: t["added_tokens"].append(added)), "QSF_E_CORRUPT", "beyond the"
    yield "tok-model", with_tok(lambda t: t.__setitem__("model",
                                                        5)), "QSF_E_CORRUPT", '"model" is the number 5'
    yield "tok-deep", file(tk, lambda s: "{\"a\":" * 1000), "QSF_E_CORRUPT", "nested"
    yield "spm-word", case(tok=spm_model(trainer=3)), "QSF_E_UNSUPPORTED", "word"
    yield ("spm-unigram-suffix", case(tok=spm_model(trainer=1, more=b"\xc0\x01\x01")), "QSF_E_UNSUPPORTED",
           "treat_whitespace_as_suffix")
    files, want = spm_model()
    yield ("spm-cut", case(tok=({"tokenizer.model": files["tokenizer.model"][:50]}, want)), "QSF_E_CORRUPT",
           "tokenizer.model")

def drop(c, name): del c.files[name]; return c
def file_bin(c, data): c.files.pop("model.safetensors", None); c.files["pytorch_model.bin"] = data; return c

# ---- writing -------------------------------------------------------------------------------------

def write(out, name, files):
    d = out / name
    for f, data in files.items():
        (d / f).parent.mkdir(parents=True, exist_ok=True)
        (d / f).write_bytes(data.encode() if isinstance(data, str) else data)

def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--remove":
        if (pathlib.Path(sys.argv[2]) / "index.txt").is_file(): shutil.rmtree(sys.argv[2])
        return
    if len(sys.argv) != 2: sys.exit(__doc__)
    out, index = pathlib.Path(sys.argv[1]), []
    for name, c in good_cases():
        text, values = c.expect()
        write(out, name, {**c.files, "expect.txt": text, "expect.f32": values})
        index.append(f"good {name}")
    for name, c, status, words in bad_cases():
        write(out, "bad-" + name, c.files)
        index.append(f"bad bad-{name} {status} {words}")
    (out / "index.txt").write_text("\n".join(index) + "\n", encoding="utf-8")

if __name__ == "__main__":
    main()
