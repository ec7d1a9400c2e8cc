"""BitNet's ternary matrices on their way into QSF files: from floats, TQ1_0, TQ2_0 and I2_S, from packed
Hugging Face directories and from masters, every code and every scale as it was.
SPDX-License-Identifier: MIT

Part of run.py.
"""
import json, pathlib
import numpy as np
from gguf import GGUFReader
from safetensors.numpy import save_file

import make_hf_pair, make_tiny
from gguf_types import floats
from reference import Model, QSF, QSF_KINDS

HERE = pathlib.Path(__file__).resolve().parent
TERNARY = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def gguf_weights(path):
    return {t.name: floats(t).reshape([int(n) for n in reversed(t.shape)])
            for t in GGUFReader(path).tensors}

def compare_weights(qsf, want, kind):
    """Whether every ternary matrix of the QSF file is of this type and has exactly these values."""
    q, seen = QSF(qsf), 0
    for t in q.tensors:
        name = QSF_KINDS.get(t["kind"], "").removesuffix(".weight")
        if name not in TERNARY: continue
        values = q.values(t)
        if t["type"] != kind: return f"{name} is of type {t['type']}"
        if set(np.unique(values)) - {-1, 0, 1}: return f"{name} has values beside -1, 0 and 1"
        if not np.array_equal(q.scale(t) * values, want[f"blk.{t['unit']}.{name}.weight"]):
            return f"layer {t['unit']}: {name} has other values"
        seen += 1
    return "" if seen == 7 * (len(q.units) - 2) else f"{seen} ternary matrices"

# ---- Hugging Face ----

def pack(codes):
    """Four groups of rows in the bits of a byte, as Transformers' integrations/bitnet.py unpacks them."""
    groups = (codes + 1).astype(np.uint8).reshape(4, -1, codes.shape[1])
    return groups[0] | groups[1] << 2 | groups[2] << 4 | groups[3] << 6

def absmean(w):
    """What Transformers' WeightQuant makes of masters."""
    scale = np.float32(1) / max(np.float32(np.abs(w.astype(np.float64)).mean()), np.float32(1e-5))
    return np.clip(np.rint(w * scale), -1, 1) / scale

def hf_name(name):
    stem = name.removesuffix(".weight")
    if not stem.startswith("blk."): return make_hf_pair.ENDS[stem] + ".weight"
    _, layer, part = stem.split(".")
    names = dict(make_hf_pair.LLAMA, attn_sub_norm="self_attn.attn_sub_norm", ffn_sub_norm="mlp.ffn_sub_norm")
    return f"model.layers.{layer}.{names[part]}.weight"

QUANT = {"packed": {"linear_class": "autobitlinear", "quantization_mode": "offline"}, "inverse": {},
         "masters": {"linear_class": "autobitlinear", "quantization_mode": "online"}, "older": None}

def write_hf(folder, m, tensors, how):
    """A directory as Microsoft's (packed: codes times weight_scale; masters), as HF1BitLLM's (inverse: codes
    over weight_scale) or as 1bitLLM's (older).  Returns what its ternary matrices mean."""
    folder.mkdir(parents=True, exist_ok=True)
    files, want, rng = {}, {}, make_tiny.Random(77)
    for name, w in tensors.items():
        if not any(f".{part}." in name for part in TERNARY):
            files[hf_name(name)] = w
            continue
        if how in ("masters", "older"):
            w = np.ascontiguousarray(rng.normal(w.size, 0.03).reshape(w.shape))
            want[name] = absmean(w)
        else:
            s = np.float32(np.abs(w).max())
            stored = s if how == "packed" else np.float32(1) / s
            files[hf_name(name) + "_scale"] = np.array([stored], np.float32)
            codes = np.sign(w)
            want[name] = codes * (stored if how == "packed" else np.float32(1) / stored)
            w = pack(codes)
        files[hf_name(name)] = w
    c = {"model_type": "bitnet", "architectures": ["BitNetForCausalLM"], "hidden_size": m["n_embd"],
         "intermediate_size": m["n_ff"], "num_hidden_layers": m["n_layers"], "hidden_act": "relu2",
         "num_attention_heads": m["n_heads"], "num_key_value_heads": m["n_kv_heads"], "rms_norm_eps": 1e-5,
         "max_position_embeddings": 1024, "vocab_size": make_tiny.N_VOCAB, "tie_word_embeddings": True,
         "rope_theta": 500000.0, "bos_token_id": make_tiny.N_VOCAB - 2, "eos_token_id": make_tiny.N_VOCAB - 1}
    if how == "older":
        c.update(model_type="llama", architectures=["BitnetForCausalLM"], hidden_act="silu")
        files = {k.replace("attn_sub_norm", "inner_attn_ln").replace("ffn_sub_norm", "ffn_layernorm"): v
                 for k, v in files.items()}
    else: c["quantization_config"] = dict(QUANT[how], quant_method="bitnet")
    save_file({k: np.ascontiguousarray(v) for k, v in files.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(c))
    return want

def write_tokenizer(folder, gguf):
    kv = {k: f.contents() for k, f in GGUFReader(gguf).fields.items()}
    (folder / "tokenizer.json").write_text(json.dumps(make_hf_pair.tokenizer(kv), ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False, "bos_token": "<|begin|>",
         "eos_token": "<|end|>"}))

# ---- checks ----

def check_one(r, label, source, model, want, ids):
    """Both packings of both types: weights to the bit, logits as the source's."""
    norm = model.w("output_norm.weight").astype(np.float16)     # QSF's final section keeps it so
    model.cache["output_norm.weight"] = norm.astype(np.float32)
    for kind, number in ("4bit", 25), ("ternary5", 26):
        for packing in (1, 0):
            qsf = r.a.cache / "bitnet" / f"{label}-{kind}-{packing}.qsf"
            r.call(r.a.convert, "--quiet", "--quant-type", kind, "--packing", packing, "--tensor",
                   "token_embd=f32", source, qsf)
            r.call(r.a.convert, "--verify", qsf)
            wrong = compare_weights(qsf, want, number)
            r.report(not wrong, f"bitnet {label} {kind} packing {packing}, weights",
                     wrong or "equal to the bit")
            r.check(f"bitnet {label} {kind} packing {packing}, f32 logits", r.exact, qsf, model, ids, 256)

def check_transformers(r):
    """What the Transformers library has computed, unpacked and rounded (../golden/make_bitnet.py)."""
    golden = json.loads((HERE.parent / "golden" / "bitnet.json").read_text())
    for name, g in golden["models"].items():
        path, digest = make_tiny.make(r.a.cache, name)
        got, want = r.logits(path, g["ids"], 256, "--f32"), np.array(g["logits"])
        error = float(np.abs(got - want).max() / np.abs(want).max())
        r.report(digest == g["sha256"] and error < 1e-4, f"bitnet {name}, Transformers' f32 logits",
                 f"largest relative difference {error:.1e}")
    codes = np.array(golden["unpacked"]).reshape(16, 4)
    r.report(pack(codes).flatten().tolist() == golden["packed"], "bitnet packing",
             "as Transformers unpacks it")
    rounded = absmean(make_tiny.Random(77).normal(64 * 256, 0.03))
    same = "".join("-0+"[int(np.sign(v)) + 1] for v in rounded[:512]) == golden["masters_codes"]
    near = abs(float(np.abs(rounded).max()) / golden["masters_scale"] - 1)
    r.report(same and near < 1e-6, "bitnet masters", "rounded as Transformers rounds them")

def check_bitnet(r):
    if not r.wanted("bitnet"): return
    check_transformers(r)
    (r.a.cache / "bitnet").mkdir(parents=True, exist_ok=True)
    ids = make_tiny.Random(5).bits(40) % np.uint64(make_tiny.N_VOCAB - make_tiny.N_SPECIAL)
    ids = [int(i) for i in ids]
    for name in make_tiny.models():
        if not name.startswith("bitnet"): continue
        path, _ = make_tiny.make(r.a.cache, name)
        check_one(r, name, path, Model(path), gguf_weights(path), ids)
    for how in QUANT:
        name = "bitnet" if how == "older" else "bitnet-b1.58"
        path, _ = make_tiny.make(r.a.cache, name)
        folder = r.a.cache / "bitnet" / f"hf-{how}"
        want = write_hf(folder, make_tiny.models()[name], gguf_weights(path), how)
        write_tokenizer(folder, path)
        model = Model(path)
        model.cache.update(want)
        check_one(r, f"hf-{how}", folder, model, want, ids)
