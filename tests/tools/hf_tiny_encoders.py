"""Tiny directories of encoders with the modules of sentence-transformers, and what is wrong with them.
SPDX-License-Identifier: MIT

Part of make_hf_tiny.py, whose module is `tiny` here.
"""
import json

from hf_tiny_files import safetensors, Tensor
from hf_tiny_vocab import bpe, N_VOCAB, spm_model

TOKEN_NORM, DENSE_2, DENSE_3, BETWEEN = 38, 100, 101, 40
MODULE = "sentence_transformers.models."

def modules(*kinds):
    return json.dumps([{"idx": i, "name": str(i), "path": f"{i}_{k}" if i else "", "type": MODULE + k}
                       for i, k in enumerate(kinds)])

def dense_config(rows, cols, **more):
    return json.dumps({"in_features": cols, "out_features": rows, "bias": False,
                       "activation_function": "torch.nn.modules.linear.Identity", **more})

def gemma(tiny, seed, change=lambda files, dense: None, **config):
    """EmbeddingGemma: norms less one, two dense layers after the mean."""
    m, dense = tiny.llama(seed, "F16", prefix="", gemma=2, tied=True, qk=True), {}
    for i, kind, rows, cols in ((2, DENSE_2, BETWEEN, tiny.D), (3, DENSE_3, tiny.D, BETWEEN)):
        dense[i] = Tensor(m.rng, [rows, cols], "F32")
        m.expect(tiny.FINAL, kind, rows, cols, f"{i}_Dense/linear.weight", dense[i].values)
    files, want = spm_model()
    want["special"]["add_space_prefix"] = 0
    c = tiny.Case({"model_type": "gemma3_text", "architectures": ["Gemma3TextModel"], **tiny.COMMON,
                   "query_pre_attn_scalar": 8, "sliding_window": 64, "use_bidirectional_attention": True,
                   **config},
                  {"arch": "gemma-embedding", "act": 0, "tied": 1, "embd_scale": 4, "window": 64,
                   "window_pattern": 6, "rope_base": 1e6, "rope_base_local": 10000},
                  m, (files, want)).weights()
    c.files["modules.json"] = modules("Transformer", "Pooling", "Dense", "Dense", "Normalize")
    c.files["1_Pooling/config.json"] = json.dumps({"pooling_mode_mean_tokens": True})
    for i, t in dense.items():
        c.files[f"{i}_Dense/model.safetensors"] = safetensors({"linear.weight": t})
        c.files[f"{i}_Dense/config.json"] = dense_config(*t.shape)
    change(c.files, dense)
    return c

def modern(tiny, seed, **config):
    """ModernBERT: queries, keys and values in one tensor, gates before what they multiply."""
    K, D, FF = tiny.K, tiny.D, tiny.FF
    m = tiny.Model(seed, "BF16")
    m.plain(tiny.EMBD, K["token_embd"], N_VOCAB, D, "model.embeddings.tok_embeddings.weight")
    m.plain(tiny.EMBD, TOKEN_NORM, 1, D, "model.embeddings.norm.weight")
    for i in range(tiny.LAYERS):
        at = f"model.layers.{i}."
        if i: m.plain(i, K["attn_norm"], 1, D, at + "attn_norm.weight")
        t = m.add(at + "attn.Wqkv.weight", [3 * D, D]).values
        for part, k in enumerate("qkv"):
            m.expect(i, K["attn_" + k], D, D, at + f"attn.Wqkv.weight[{k}]",
                     t[part * D * D:(part + 1) * D * D])
        m.plain(i, K["attn_out"], D, D, at + "attn.Wo.weight")
        m.plain(i, K["ffn_norm"], 1, D, at + "mlp_norm.weight")
        t = m.add(at + "mlp.Wi.weight", [2 * FF, D]).values
        m.expect(i, K["ffn_gate"], FF, D, at + "mlp.Wi.weight[gate]", t[:FF * D])
        m.expect(i, K["ffn_up"], FF, D, at + "mlp.Wi.weight[up]", t[FF * D:])
        m.plain(i, K["ffn_down"], D, FF, at + "mlp.Wo.weight")
    m.plain(tiny.FINAL, K["output_norm"], 1, D, "model.final_norm.weight")
    m.add("decoder.bias", [N_VOCAB])
    files, want = bpe("gpt-2")
    want["pre"] = "modern-bert"
    sizes = {k: v for k, v in tiny.COMMON.items() if k not in ("head_dim", "num_key_value_heads")}
    return tiny.Case({"model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], **sizes,
                      "local_attention": 32, "global_attn_every_n_layers": 2, **config},
                     {"arch": "modern-bert", "n_kv_heads": tiny.HEADS, "head_dim": D // tiny.HEADS, "norm": 0,
                      "act": 0, "tied": 1, "norm_eps": 1e-5, "window": 32, "window_pattern": 2,
                      "rope_dim": D // tiny.HEADS, "rope_base": 160000, "rope_base_local": 10000}, m,
                     (files, want)).weights()

def ended(tiny):
    """Qwen3-Embedding: the input template ends with a token that is not the settings' end token."""
    files, want = bpe("qwen2")
    tok, n = json.loads(files["tokenizer.json"]), want["special"]["bos"]
    tok["post_processor"] = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {
        "type": "TemplateProcessing", "pair": [], "single": [{"Sequence": {"id": "A", "type_id": 0}},
                                                             {"SpecialToken": {"id": "<|im_end|>"}}]}]}
    files["tokenizer.json"] = json.dumps(tok)
    want["special"].update(eos=n + 1, add_eos=1)
    c = tiny.Case({"model_type": "qwen3", **tiny.COMMON, "tie_word_embeddings": False},
                  {"arch": "qwen3", "tied": 1}, tiny.llama(76, "F16", prefix="", tied=True, qk=True),
                  (files, want), eog=[n + 2])
    c.files["1_Pooling/config.json"] = json.dumps({"pooling_mode": "lasttoken"})
    return c.weights()

def good(tiny):
    yield "qwen3-embedding", ended(tiny)
    yield "gemma3-embedding", gemma(tiny, 70)
    yield "modernbert", modern(tiny, 71)

def refused_configs():
    """model_type, class, what config.json says, status, words of the error."""
    nomic = "nomic_bert", "NomicBertModel"
    for key in ("prenorm", "causal", "qkv_proj_bias", "use_rms_norm", "rotary_emb_interleaved"):
        yield *nomic, {key: True}, "UNSUPPORTED", key
    yield *nomic, {"moe_every_n_layers": 2}, "UNSUPPORTED", "moe_every_n_layers"
    yield *nomic, {"rotary_emb_scale_base": 512}, "UNSUPPORTED", "rotary_emb_scale_base"
    yield *nomic, {"rotary_emb_fraction": 0.5}, "UNSUPPORTED", "rotary_emb_fraction"
    yield *nomic, {"activation_function": "geglu"}, "UNSUPPORTED", '"geglu" (supported: swiglu)'
    yield *nomic, {"n_embd": 0}, "CORRUPT", "n_embd"
    modern = "modernbert", "ModernBertModel"
    yield *modern, {"norm_bias": True}, "UNSUPPORTED", "norm_bias"
    yield *modern, {"local_attention": 1}, "CORRUPT", "local_attention"
    yield *modern, {"layer_types": ["full_attention"]}, "CORRUPT", "layer_types has 1 entries"
    yield *modern, {"layer_types": ["sliding_attention"] * 2}, "UNSUPPORTED", "layer 0 breaks the regular"
    yield *modern, {"layer_types": ["full_attention", 3]}, "CORRUPT", "full_attention or sliding_attention"
    yield *modern, {"global_rope_theta": 0.5}, "CORRUPT", "global_rope_theta"
    yield *modern, {"local_rope_theta": "x"}, "CORRUPT", "local_rope_theta"
    classes = "modernbert", "ModernBertForSequenceClassification"
    yield *classes, {"classifier_pooling": "max"}, "UNSUPPORTED", '"max" (supported: cls)'
    yield *classes, {"classifier_activation": "relu"}, "UNSUPPORTED", '"relu" (supported: gelu)'
    jina = "bert", "JinaBertForMaskedLM"
    yield *jina, {"position_embedding_type": "absolute"}, "UNSUPPORTED", "(supported: alibi)"
    yield *jina, {"feed_forward_type": "original"}, "UNSUPPORTED", "(supported: geglu)"

def refused_modules():
    """What is done to the files of an EmbeddingGemma, status, words of the error."""
    def put(name, text): return lambda files, dense: files.__setitem__(name, text)
    def drop(name): return lambda files, dense: files.pop(name)
    def listed(*kinds): return put("modules.json", modules(*kinds))
    def pooling(**said): return put("1_Pooling/config.json", json.dumps(said))
    def second(rows, cols, **more): return put("3_Dense/config.json", dense_config(rows, cols, **more))
    yield listed("Transformer", "Pooling", "LayerNorm"), "UNSUPPORTED", "models.LayerNorm"
    yield listed("Transformer", "Dense", "Pooling"), "UNSUPPORTED", "models.Dense"
    yield listed("Transformer", "Pooling", "Dense"), "UNSUPPORTED", "one dense layer"
    yield listed("Transformer", "Pooling", "Pooling"), "UNSUPPORTED", "models.Pooling"
    yield listed("Transformer", "Pooling", "Dense", "Dense", "Dense"), "UNSUPPORTED", "models.Dense"
    yield put("modules.json", "{}"), "CORRUPT", "not a list of modules"
    yield put("modules.json", "[1]"), "CORRUPT", "module 0 has no type"
    def at(kind, path): return put("modules.json", json.dumps([{"type": MODULE + kind, "path": path}]))
    yield at("Transformer", "0_BERT"), "UNSUPPORTED", "0_BERT"
    yield at("Pooling", "../1"), "UNSUPPORTED", "../1"
    yield pooling(pooling_mode="weightedmean"), "UNSUPPORTED", "weightedmean"
    yield pooling(pooling_mode="something"), "UNSUPPORTED", '"something" (supported: cls, mean, lasttoken)'
    yield pooling(pooling_mode=1), "CORRUPT", "pooling_mode"
    yield second(16, BETWEEN, bias=True), "UNSUPPORTED", "3_Dense/config.json: a bias"
    yield second(16, BETWEEN, activation_function=None), "UNSUPPORTED", "the activation Tanh"
    yield second(16, BETWEEN - 1), "UNSUPPORTED", "from 39 to 16 columns, after 40"
    yield second(17, BETWEEN), "UNSUPPORTED", "from 40 to 17 columns"
    yield drop("2_Dense/config.json"), "NOT_FOUND", "no 2_Dense/config.json"
    yield drop("3_Dense/config.json"), "NOT_FOUND", "no 3_Dense/config.json"
    yield drop("3_Dense/model.safetensors"), "NOT_FOUND", "3_Dense: neither model.safetensors nor"
    yield put("2_Dense/model.safetensors", b"\xff" * 64), "CORRUPT", "2_Dense/model.safetensors"
    def turned(files, dense): files["2_Dense/model.safetensors"] = safetensors({"linear.weight": dense[3]})
    yield turned, "CORRUPT", "2_Dense/linear.weight is of shape [16 x 40], config.json implies [40 x 16]"

def bad(tiny):
    for i, (kind, name, config, status, says) in enumerate(refused_configs()):
        c = tiny.Case({"model_type": kind, "architectures": [name], **tiny.COMMON, **config}, {},
                      tiny.llama(72, "F16"), bpe("gpt-2"))
        yield f"encoder-{kind}-{i}", c.weights(), "QSF_E_" + status, says
    for i, (change, status, says) in enumerate(refused_modules()):
        yield f"modules-{i}", gemma(tiny, 73, change), "QSF_E_" + status, says
    yield ("gemma-one-way", gemma(tiny, 74, use_bidirectional_attention=False), "QSF_E_UNSUPPORTED",
           "no use_bidirectional_attention")
    yield ("gemma-causal", gemma(tiny, 75, architectures=["Gemma3ForCausalLM"]), "QSF_E_UNSUPPORTED",
           ": use_bidirectional_attention")
