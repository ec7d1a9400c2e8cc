"""Hugging Face directories of encoders, embedding models and rerankers, and their GGUF twins: what both embed
is the same, and what the Transformers library computes with the directory.  A part of run.py.
SPDX-License-Identifier: MIT
"""
import json, pathlib
import numpy as np
from gguf import GGUFReader
from safetensors.numpy import save_file

import make_hf_pair, make_tiny
from encoders import close, embed

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
EXACT = 1e-5
BERT = {"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
        "attn_q_norm": "attention.self.layer_norm_q", "attn_k_norm": "attention.self.layer_norm_k",
        "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
        "ffn_up": "mlp.gated_layers", "ffn_down": "mlp.wo", "layer_output_norm": "mlp.layernorm",
        "token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings",
        "token_embd_norm": "embeddings.LayerNorm", "layer": "encoder.layer."}
NOMIC = {"attn_output": "self_attn.o_proj", "attn_output_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "layer_output_norm": "post_mlp_layernorm", "token_embd": "embeddings.word_embeddings",
         "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "embeddings.LayerNorm",
         "layer": "layers."}
OLDER = {"attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj", "attn_output_norm": "norm1",
         "ffn_gate": "mlp.fc12", "ffn_up": "mlp.fc11", "ffn_down": "mlp.fc2", "layer_output_norm": "norm2",
         "token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings",
         "token_embd_norm": "emb_ln", "layer": "encoder.layers."}
MODERN = {"attn_norm": "attn_norm", "attn_qkv": "attn.Wqkv", "attn_output": "attn.Wo", "ffn_norm": "mlp_norm",
          "ffn_up": "mlp.Wi", "ffn_down": "mlp.Wo", "token_embd": "embeddings.tok_embeddings",
          "token_embd_norm": "embeddings.norm", "output_norm": "final_norm", "layer": "layers."}
GEMMA = dict(make_hf_pair.GEMMA, token_embd="embed_tokens", output_norm="norm", layer="layers.")
QWEN3 = dict(make_hf_pair.LLAMA, token_embd="embed_tokens", output_norm="norm", output="lm_head",
             layer="layers.")
YES, NO = 201, 200          # two bytes that no text here has; the second stands before the first

# name: the model of make_tiny.py, the tensors' names, what stands before them
CASES = {
    "nomic": ("nomic-bert", NOMIC, ""), "nomic-older": ("nomic-bert", OLDER, ""),
    "jina": ("jina-bert-v2", BERT, ""), "jina-norms": ("jina-bert-v2-norms", BERT, "bert."),
    "modern": ("modern-bert", MODERN, ""), "modern-masked": ("modern-bert", MODERN, "model."),
    "modern-rank": ("modern-bert", MODERN, "model."), "modern-rank-cls": ("modern-bert", MODERN, "model."),
    "gemma": ("gemma-embedding", GEMMA, ""), "gemma-dense": ("gemma-embedding-dense", GEMMA, ""),
    "qwen3-embedding": ("qwen3", QWEN3, ""), "Tiny-Qwen3-Reranker": ("qwen3", QWEN3, "model."),
    "tiny-qwen3-reranker-untied": ("qwen3", QWEN3, "model."),
}
# what the Transformers library has no code of its own for
FOREIGN = ("jina",)

def reranks(name): return "qwen3-reranker" in name.lower()

def model(name):
    m = dict(make_tiny.models(True)[CASES[name][0]], vocab="bpe", type=make_tiny.Q.F32)
    if name == "qwen3-embedding": m = dict(m, kv=dict(m["kv"], pooling_type=3))
    if reranks(name): m = dict(m, kv=dict(m["kv"], pooling_type=4))
    if name.startswith("modern-rank"):
        kind = 2 if name.endswith("cls") else 1
        m = dict(m, kv=dict(m["kv"], **{"pooling_type": 4, "classifier.pooling_type": kind}))
    return m

def classifier(tensors, m, rng):
    """ModernBERT's, of three labels; its bias is the output's."""
    n = m["n_embd"]
    def floats(*shape): return rng.normal(int(np.prod(shape)), n**-0.5).reshape(shape).astype(np.float16)
    tensors.update({"cls.weight": floats(n, n), "cls.norm.weight": (1 + floats(n)).astype(np.float32),
                    "cls.output.weight": floats(3, n), "cls.output.bias": floats(3).astype(np.float32)})

def rank_rows(tensors, m):
    head = tensors["output.weight" if "output.weight" in tensors else "token_embd.weight"]
    tensors["cls.output.weight"] = head[[YES, NO]]
    tensors.pop("output.weight", None)

def directory_tensors(name, tensors):
    of, names, prefix = CASES[name]
    out = {}
    for full, w in tensors.items():
        stem, kind = full.rsplit(".", 1)
        if of.startswith("gemma") and stem.endswith("norm"): w = w - np.float32(1)
        if stem == "token_types": w = w.reshape(-1, w.shape[-1])
        if stem == "cls.output" and reranks(name) or stem.startswith("dense_"): continue
        if stem.startswith("cls"):
            named = {"cls": "head.dense", "cls.norm": "head.norm", "cls.output": "classifier"}[stem]
            out[f"{named}.{kind}"] = w
            continue
        if stem == "output":
            out["lm_head.weight"] = w
            continue
        layer = ""
        if stem.startswith("blk."): _, layer, stem = stem.split(".")
        if stem == "attn_qkv" and names is NOMIC:
            for part, x in zip("qkv", np.split(w, 3)):
                out[f"layers.{layer}.self_attn.{part}_proj.{kind}"] = x
            continue
        at = f"{names['layer']}{layer}." if layer else ""
        if names is BERT and stem == "ffn_gate": continue
        if names is BERT and stem == "ffn_up" and full.replace("_up", "_gate") in tensors:
            w = np.concatenate([tensors[full.replace("_up", "_gate")], w])
        out[f"{prefix}{at}{names[stem]}.{kind}"] = w
    if name == "modern-masked":
        n = out["model.final_norm.weight"].size
        out.update({"head.dense.weight": np.zeros((n, n), np.float32),
                    "decoder.bias": np.zeros(300, np.float32), "head.norm.weight": np.ones(n, np.float32)})
    if name.startswith("jina"): out[prefix + "pooler.dense.weight"] = np.zeros((2, 2), np.float32)
    return {k: np.ascontiguousarray(v) for k, v in out.items()}

def config(name, m):
    kv, of = m["kv"], CASES[name][0]
    c = {"hidden_size": m["n_embd"], "num_hidden_layers": m["n_layers"], "intermediate_size": m["n_ff"],
         "num_attention_heads": m["n_heads"], "vocab_size": make_tiny.N_VOCAB, "pad_token_id": 0,
         "max_position_embeddings": 512, "bos_token_id": 298, "eos_token_id": 299}
    if name == "nomic":
        return dict(c, model_type="nomic_bert", architectures=["NomicBertModel"], layer_norm_eps=1e-5,
                    type_vocab_size=1, hidden_act="silu",
                    rope_parameters={"rope_type": "default", "rope_theta": 1000.0})
    if name == "nomic-older":
        return {"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "n_embd": m["n_embd"],
                "n_layer": m["n_layers"], "n_head": m["n_heads"], "n_inner": m["n_ff"], "n_positions": 8192,
                "max_trained_positions": 512, "activation_function": "swiglu", "rotary_emb_base": 1000,
                "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
                "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False,
                "causal": False, "layer_norm_epsilon": 1e-5, "type_vocab_size": 1,
                "vocab_size": make_tiny.N_VOCAB}
    if of.startswith("jina"):
        return dict(c, model_type="bert", architectures=["JinaBertForMaskedLM"], layer_norm_eps=1e-5,
                    type_vocab_size=2, hidden_act="gelu", position_embedding_type="alibi",
                    feed_forward_type="geglu", emb_pooler="mean")
    if of == "modern-bert":
        c.update(model_type="modernbert", architectures=["ModernBertModel"], norm_eps=1e-5, norm_bias=False,
                 hidden_activation="gelu", attention_bias=False, mlp_bias=False, classifier_bias=False,
                 local_attention=kv["attention.sliding_window"], classifier_activation="gelu",
                 classifier_pooling="cls" if name.endswith("cls") else "mean")
        if name.startswith("modern-rank"):
            c.update(architectures=["ModernBertForSequenceClassification"],
                     id2label={str(i): f"LABEL_{i}" for i in range(3)})
        bases = kv["rope.freq_base"], kv["rope.freq_base_swa"]
        if name != "modern-masked":
            return dict(c, global_attn_every_n_layers=3, global_rope_theta=bases[0],
                        local_rope_theta=bases[1])
        return dict(c, architectures=["ModernBertForMaskedLM"], rope_parameters={
            kind: {"rope_type": "default", "rope_theta": base}
            for kind, base in zip(("full_attention", "sliding_attention"), bases)},
            layer_types=["sliding_attention" if i % 3 else "full_attention" for i in range(m["n_layers"])])
    c.update(num_key_value_heads=m["n_kv_heads"], head_dim=m.get("head_dim", m["n_embd"] // m["n_heads"]),
             rms_norm_eps=1e-5, tie_word_embeddings=m["tied"], rope_theta=kv.get("rope.freq_base", 10000.0))
    if of == "qwen3":
        return dict(c, model_type="qwen3", hidden_act="silu", architectures=["Qwen3ForCausalLM"])
    return dict(c, model_type="gemma3_text", architectures=["Gemma3TextModel"], sliding_window_pattern=6,
                sliding_window=kv["attention.sliding_window"], use_bidirectional_attention=True,
                hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=m["head_dim"],
                rope_local_base_freq=kv["rope.freq_base_swa"])

def write_modules(folder, m, tensors, pooling):
    """As the library sentence-transformers writes them."""
    kinds = ["Transformer", "Pooling", *["Dense"] * (2 * ("dense" in m)), "Normalize"]
    modules = [{"idx": i, "name": str(i), "type": f"sentence_transformers.models.{kind}",
                "path": f"{i}_{kind}" if i else ""} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": m["n_embd"], "include_prompt": True,
         **{f"pooling_mode_{k}": k == pooling for k in ("cls_token", "mean_tokens", "lasttoken")}}))
    for i in (2, 3) if "dense" in m else ():
        w = tensors[f"dense_{i}.weight"]
        at = folder / f"{i}_Dense"
        at.mkdir(exist_ok=True)
        save_file({"linear.weight": np.ascontiguousarray(w)}, at / "model.safetensors")
        (at / "config.json").write_text(json.dumps(
            {"in_features": w.shape[1], "out_features": w.shape[0], "bias": False,
             "activation_function": "torch.nn.modules.linear.Identity"}))

def answers(reader):
    """The vocabulary with the two words that a reranker says; returns its keys."""
    field = reader.fields["tokenizer.ggml.tokens"]
    for i, word in ((YES, "yes"), (NO, "no")):
        field.parts[field.data[i]] = np.frombuffer(word.encode(), np.uint8)

def make(out, name):
    """Returns the directory and the GGUF file of the same numbers."""
    m, out = model(name), pathlib.Path(out)
    if name == "tiny-qwen3-reranker-untied": m["tied"] = False
    elif name in ("qwen3-embedding", "Tiny-Qwen3-Reranker"): m["tied"] = True
    folder, gguf = out / name, out / f"{name}-f16.gguf"
    folder.mkdir(parents=True, exist_ok=True)
    make_tiny.Writer(folder / "model.tmp", m).write()
    reader = GGUFReader(folder / "model.tmp")
    tensors = {t.name: make_hf_pair.weights(t) for t in reader.tensors}
    for k, w in tensors.items():        # QSF's first and final sections keep halves, and less 1 is exact
        if not k.startswith("blk.") or k.endswith("norm.weight"):
            tensors[k] = w.astype(np.float16).astype(w.dtype)
    if name.startswith("modern-rank"): classifier(tensors, m, make_tiny.Random(77))
    stored = directory_tensors(name, tensors)
    if reranks(name):
        answers(reader)
        rank_rows(tensors, m)
    make_hf_pair.write_gguf(gguf, reader, tensors, templates(name))
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    kv = {k: f.contents() for k, f in reader.fields.items()}
    (folder / "config.json").write_text(json.dumps(config(name, m), indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(make_hf_pair.tokenizer(kv), ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": "<|end|>"}))
    pooling = {1: "mean_tokens", 2: "cls_token", 3: "lasttoken"}.get(m["kv"].get("pooling_type"))
    if pooling: write_modules(folder, m, tensors, pooling)
    (folder / "model.tmp").unlink()
    return folder, gguf

PAIR = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
        'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
        "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
        "<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")

def templates(name):
    """What llama.cpp's converter writes of a reranker."""
    return [{"name": "rerank", "template": PAIR}] if reranks(name) else None

def texts():
    golden = json.loads((GOLDEN / "encoders.json").read_text())
    return golden["modern-bert"]["texts"][1:3]

def check_ranks(r, name, files):
    """Texts are made the same pairs, and these have the same scores."""
    documents = r.a.cache / "hf" / "documents.txt"
    documents.write_text("the cat sat on the mat\nonce upon a time\nanother text\n")
    def work():
        found = {r.call(r.a.qsf_run, "-m", f, "--rerank", documents, "-p", "a cat", "--f32") for f in files}
        return (len(found) == 1 and found.pop().count(b"\n") == 3,
                "the directory, the GGUF and its conversion rank alike")
    r.check(f"hf encoder {name}, ranks", work)

def check_hf_encoders(r):
    golden = json.loads((GOLDEN / "hf_encoders.json").read_text())
    for name in CASES:
        if r.wanted("hf", "hf-encoders", f"hf-{name}"): check_pair(r, name, golden.get(name))

def check_pair(r, name, golden):
    folder, gguf = make(r.a.cache / "hf", name)
    plain, found = ("--f32", "--embedding-plain"), {}
    # the file says what becomes of the tokens
    ask = lambda path: embed(r, path, texts(), None, *plain)
    def same(qsf, source):
        r.call(r.a.convert, "--quiet", "--quant-type", "f16", source, qsf)
        found[qsf] = ask(qsf)
        want = found["gguf"]
        ok, text = close(found[qsf], want, 0 if "directory" in qsf.name else EXACT)
        return ok, text
    try: found["gguf"] = ask(gguf)
    except Exception as e: return r.report(False, f"hf encoder {name}, GGUF", str(e))
    twin, own = (r.a.cache / "hf" / f"{name}-{kind}.qsf" for kind in ("twin", "directory"))
    r.check(f"hf encoder {name}, converted GGUF", same, twin, gguf)
    r.check(f"hf encoder {name}, directory", same, own, folder)
    if reranks(name) or name.startswith("modern-rank"): check_ranks(r, name, (gguf, twin, own))
    if golden is None:
        return r.report(name.startswith(FOREIGN), f"hf encoder {name}", "no code to compare with")
    r.check(f"hf encoder {name}, Transformers' numbers",
            lambda: close(found[own], np.array(golden), 2e-5))
