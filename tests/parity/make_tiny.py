#!/usr/bin/env python3
"""Writes small random models of every architecture and weight type as GGUF files, the same
bytes on every machine.
SPDX-License-Identifier: MIT

    make_tiny.py OUT_DIR [NAME...]        prints name and SHA-256 of each file

Random numbers are SplitMix64 and integer arithmetic, so no version of numpy changes them. Quantised weights
are random bytes as blocks, with scales chosen so that the network stays lively: no quantiser is needed, and
every code, scale and bit plane a file may hold occurs.
"""
import hashlib, pathlib, sys
import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFWriter, dequantize, quantize

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import gguf_types       # the types that the package lacks
import gguf_raw
import rwkv
from tiny_models import (SMALL, WIDE, bitnets, encoders, gemma3n, gemmas, hybrids, later_mixtures, mixtures,
                         more_mixtures, others)

N_VOCAB, N_SPECIAL = 300, 3


class Random:
    def __init__(self, seed):
        self.state = np.uint64(seed * 0x1000003 + 12345)

    def bits(self, n):
        """n random 64-bit words (SplitMix64)."""
        with np.errstate(over="ignore"):
            z = self.state + (np.arange(1, n + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            self.state = z[-1]
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            return z ^ (z >> np.uint64(31))

    def bytes(self, n):
        return self.bits((n + 7) // 8).astype("<u8").view(np.uint8)[:n]

    def uniform(self, n, low, high):
        return low + (high - low) * ((self.bits(n) >> np.uint64(11)).astype(np.float64) / 2.0**53)

    def normal(self, n, std):
        """Sum of four 16-bit pieces: bell-shaped and exact."""
        words = self.bits(n).astype("<u8").view("<u2").reshape(n, 4).astype(np.int64).sum(axis=1)
        return ((words - 2 * 65535) / (65536 / 3**0.5) * std).astype(np.float32)


# ---- weight types: elements and bytes of a block, place of its scale, place of its minimum and the
# minimum that makes the mean zero, in scales ----
BLOCKS = {
    Q.Q4_0: (32, 18, 0, None, 0), Q.Q4_1: (32, 20, 0, 2, -7.5), Q.Q5_0: (32, 22, 0, None, 0),
    Q.Q5_1: (32, 24, 0, 2, -15.5),
    Q.Q8_0: (32, 34, 0, None, 0), Q.Q2_K: (256, 84, 80, 82, 1.5), Q.Q3_K: (256, 110, 108, None, 0),
    Q.Q4_K: (256, 144, 0, 2, 7.5), Q.Q5_K: (256, 176, 0, 2, 15.5), Q.Q6_K: (256, 210, 208, None, 0),
    Q.IQ4_NL: (32, 18, 0, None, 0), Q.IQ4_XS: (256, 136, 0, None, 0),
}
# One prompt each: elements and bytes of a block, place of its scale where that is a 16-bit float.
RARE = {
    Q.IQ2_XXS: (256, 66, 0), Q.IQ2_XS: (256, 74, 0), Q.IQ2_S: (256, 82, 0), Q.IQ3_XXS: (256, 98, 0),
    Q.IQ3_S: (256, 110, 0), Q.IQ1_S: (256, 50, 0), Q.IQ1_M: (256, 56, None), Q.TQ1_0: (256, 54, 52),
    Q.TQ2_0: (256, 66, 64), Q.MXFP4: (32, 17, None), Q.NVFP4: (64, 36, None), Q.Q1_0: (128, 18, 0),
    Q.Q2_0: (64, 18, 0), Q.Q8_K: (256, 292, None),
}

def put_scale(kind, raw, value):
    """The blocks' scales; a type with few of them takes one near it."""
    n, at = len(raw), RARE[kind][2]
    half = value.astype("<f2").view("<u2")
    power = np.frexp(value)[1] - 1                          # 2^power <= |value|
    if at is not None: raw[:, at:at + 2] = half.view(np.uint8).reshape(n, 2)
    elif kind == Q.Q8_K: raw[:, :4] = value.astype("<f4").view(np.uint8).reshape(n, 4)
    elif kind == Q.MXFP4: raw[:, 0] = power + 128
    elif kind == Q.NVFP4:                                   # four; the mantissas are left random
        for i in range(4): raw[:, i] = np.maximum(power + 8, 1) << 3 | raw[:, i] & 7
    else:                                                   # IQ1_M's stands in four nibbles
        for i in range(4): raw[:, 49 + 2 * i] = raw[:, 49 + 2 * i] & 15 | (half >> 4 * i & 15) << 4

def random_rare_blocks(rng, kind, rows, cols, std, dead):
    """As random_blocks."""
    elems, size, _ = RARE[kind]
    n = rows * cols // elems
    raw = rng.bytes(n * size).reshape(n, size).copy()
    if kind == Q.TQ1_0:                                     # 243 of the bytes are five digits
        raw[:, :52] = (raw[:, :52].astype(np.uint16) * 243 // 256 * 256 + 242) // 243
    put_scale(kind, raw, np.ones(n))
    unit = float(np.std(dequantize(raw[:512], kind)))
    scale = rng.uniform(n, 0.6, 1.4) * (std / round(unit, 2))
    if kind not in (Q.MXFP4, Q.NVFP4): scale *= 1.0 - 2.0 * (rng.bits(n) & np.uint64(1))
    put_scale(kind, raw, scale)
    # few of these types have a scale of zero: what is dead is as small as can be
    if dead and kind == Q.NVFP4: raw[-dead * (cols // elems):, :4] = 0
    elif dead:
        last = raw[-dead * (cols // elems):]
        put_scale(kind, last, np.full(len(last), 2.0**-120 if kind == Q.MXFP4 else 0.0))
    return raw.reshape(rows, -1)

def random_blocks(rng, kind, rows, cols, std, dead):
    """A quantised matrix as bytes; the last `dead` rows are zero."""
    elems, size, at_d, at_m, ratio = BLOCKS[kind]
    n = rows * cols // elems
    raw = rng.bytes(n * size).reshape(n, size).copy()
    def put(at, value): raw[:, at:at + 2] = value.astype("<f2").view(np.uint8).reshape(n, 2)
    put(at_d, np.ones(n))
    if at_m is not None: put(at_m, np.full(n, ratio))
    unit = float(np.std(dequantize(raw[:512], kind)))
    scale = rng.uniform(n, 0.6, 1.4) * (std / round(unit, 2))
    # these codes' mean is not zero: signs take it away
    if at_m is None: scale *= 1.0 - 2.0 * (rng.bits(n) & np.uint64(1))
    if dead: scale[-dead * (cols // elems):] = 0
    put(at_d, scale)
    if at_m is not None: put(at_m, scale * ratio)
    return raw.reshape(rows, -1)


def ternary(rng, rows, cols, std):
    """Values of -s, 0 and s, nearly as many of each; s is a 16-bit float."""
    codes = (rng.bits(rows * cols) >> np.uint64(20)) % np.uint64(3)
    return (codes.astype(np.float32) - 1).reshape(rows, cols) * np.float32(np.float16(std * 1.5**0.5))

# ---- vocabularies: 256 byte tokens, a few merged ones, three control tokens at the end ----
PAIRS = ["t h", "i n", "a n", "e r", "o n", "r e", "th e", "Ġ t", "Ġ a", "Ġ the", "in g", "an d", "Ġ s",
         "o r", "e n", "a t", "e s",
         "Ġ w", "Ġ c", "i s", "i t", "o u", "l l", "Ġ o", "a r", "e d", "o f", "Ġ p", "Ġ b", "Ġ m", "s t",
         "Ġ f", "Ġ in", "a l",
         "Ġ d", "h e", "Ġ h", "r o", "i c", "l e", "Ġ and"]

def byte_letters():
    """GPT-2's printable letter for each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(others)) for b in range(256)]

def add_bpe(w):
    specials = ["<|endoftext|>", "<|begin|>", "<|end|>"]
    tokens = byte_letters() + [p.replace(" ", "") for p in PAIRS] + specials
    assert len(tokens) == N_VOCAB and len(set(tokens)) == N_VOCAB
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([1] * (N_VOCAB - N_SPECIAL) + [3] * N_SPECIAL)
    w.add_token_merges(PAIRS)
    w.add_bos_token_id(N_VOCAB - 2)
    w.add_eos_token_id(N_VOCAB - 1)
    w.add_add_bos_token(False)

def add_spm(w):
    pieces = ["\u2581"] + [p.replace(" ", "").replace("Ġ", "\u2581") for p in PAIRS][:-1]
    tokens = [f"<0x{b:02X}>" for b in range(256)] + pieces + ["<unk>", "<s>", "</s>"]
    assert len(tokens) == N_VOCAB and len(set(tokens)) == N_VOCAB
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * 256 + [-1.0 - i for i in range(len(pieces))] + [0.0] * N_SPECIAL)
    w.add_token_types([6] * 256 + [1] * len(pieces) + [2, 3, 3])
    w.add_unk_token_id(N_VOCAB - 3)
    w.add_bos_token_id(N_VOCAB - 2)
    w.add_eos_token_id(N_VOCAB - 1)
    w.add_add_bos_token(True)


# ---- the models ----
def models(also_encoders=False):
    """name -> description.  c is the context length to run it with (it decides longrope's table)."""
    llama3 = dict(rope_freqs=True, kv={"rope.freq_base": 500000.0})
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 64}
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    longrope = {"rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": 1.19,
                "rope.dimension_count": 24}
    phi3 = dict(SMALL, arch="phi3", n_embd=128, fused=True, rope_dim=24, longrope=True, kv=longrope,
                vocab="spm", c=256)
    gemma2 = dict(SMALL, arch="gemma2", n_layers=4, head_dim=32, tied=True, vocab="spm",
                  kv={"attention.sliding_window": 8, "attn_logit_softcapping": 5.0,
                      "final_logit_softcapping": 10.0})
    gemma3 = dict(SMALL, arch="gemma3", n_layers=8, head_dim=32, n_kv_heads=1, tied=True, vocab="spm",
                  kv={"attention.sliding_window": 8, "rope.freq_base": 1e6, "rope.scaling.type": "linear",
                      "rope.scaling.factor": 8.0})
    gpt2 = dict(SMALL, arch="gpt2", n_kv_heads=4, n_ff=256, tied=True)
    qwen2 = dict(SMALL, arch="qwen2", n_embd=96, n_heads=6, tied=True, kv={"rope.freq_base": 1e6})
    qwen3 = dict(SMALL, arch="qwen3", head_dim=32, kv={"rope.freq_base": 1e6})
    out = {
        "llama": SMALL, "llama-f16-tied-spm": dict(SMALL, type=Q.F16, tied=True, vocab="spm", n_kv_heads=4),
        "llama-bf16": dict(SMALL, type=Q.BF16), "llama3-rope": dict(SMALL, n_embd=128, **llama3),
        "llama-linear": dict(SMALL, kv=linear), "llama-yarn": dict(SMALL, n_embd=128, kv=yarn),
        "mistral-window": dict(SMALL, vocab="spm", kv={"attention.sliding_window": 16}, judge="reference"),
        "qwen2": qwen2, "qwen3": qwen3, "phi3-short": phi3, "phi3-long": dict(phi3, c=512),
        "phi3-window": dict(phi3, kv={**longrope, "attention.sliding_window": 12}, judge="reference"),
        "gemma2": gemma2, "gemma3": gemma3, "gpt2": gpt2,
        "llama-q8_0-96": dict(SMALL, n_embd=96, n_heads=3, n_kv_heads=1, n_ff=160, type=Q.Q8_0),
        "qwen2-q4_1": dict(qwen2, type=Q.Q4_1, n_ff=160), "qwen3-q4_0": dict(qwen3, type=Q.Q4_0, n_ff=160),
        "phi3-q4_k": dict(phi3, n_embd=256, n_ff=512, type=Q.Q4_K), "gpt2-q8_0": dict(gpt2, type=Q.Q8_0),
        "gemma2-q6_k": dict(gemma2, n_embd=256, head_dim=64, n_ff=512, type=Q.Q6_K),
        "gemma3-q5_0": dict(gemma3, type=Q.Q5_0, n_ff=160),
    }
    for kind in BLOCKS: out["llama-" + kind.name.lower()] = dict(WIDE, type=kind)
    for seed, name in enumerate(out, 1): out[name] = dict(out[name], name=name, seed=seed)
    for kind in RARE:
        name = "llama-" + kind.name.lower()
        out[name] = dict(WIDE, type=kind, name=name, seed=200 + kind, rare=True)
    out["llama-q8_k"]["judge"] = "reference"                # llama.cpp has no product of it
    out.update({name: dict(m, name=name, seed=seed) for seed, (name, m) in enumerate(bitnets(), 1001)})
    out.update({name: dict(m, name=name, seed=seed) for seed, (name, m) in enumerate(others(), 2001)})
    out.update({name: dict(m, name=name, seed=seed) for seed, (name, m) in enumerate(mixtures(), 3001)})
    out.update({name: dict(m, name=name, seed=seed) for seed, (name, m) in enumerate(gemmas(), 4001)})
    out.update({name: dict(m, name=name, seed=seed) for seed, (name, m) in enumerate(gemma3n(), 4101)})
    if also_encoders:
        out.update({name: dict(m, name=name, seed=seed) for seed, (name, m) in enumerate(encoders(), 3001)})
    out.update({name: {"name": name, "seed": seed, **m} for seed, (name, m) in enumerate(hybrids(), 3001)})
    out.update({name: dict(m, name=name, seed=seed)
                for seed, (name, m) in enumerate(rwkv.models(SMALL), 3101)})
    out.update({name: dict(m, name=name, seed=seed) for seed, (name, m) in enumerate(later_mixtures(), 5001)})
    out.update({name: {"name": name, "seed": seed, **m}
                for seed, (name, m) in enumerate(more_mixtures(), 5101)})
    return out

class Writer:
    def __init__(self, path, m):
        self.m, self.rng, self.w = m, Random(m["seed"]), GGUFWriter(str(path), m["arch"])
        self.head_dim = m.get("head_dim", m["n_embd"] // m["n_heads"])
        self.n_vocab, self.context = N_VOCAB, 1024

    def vocabulary(self):
        add_spm(self.w) if self.m["vocab"] == "spm" else add_bpe(self.w)

    def vector(self, name, n, mean, std, each=None):
        """Norm weights lie around mean; biases around zero.  each: rows of that many instead of one."""
        x = (mean + self.rng.uniform(n, -1.7 * std, 1.7 * std)).astype(np.float32)
        self.w.add_tensor(name, x.reshape(-1, each) if each else x)

    def matrix(self, name, rows, cols, gain, kind=None, dead=0, n=0):
        """Gain 1 keeps the size of a normalised input.  n: the number of matrices in one tensor."""
        if n: return self.matrices(name, n, rows, cols, gain)
        inner, std = not kind and name.startswith("blk."), gain / cols**0.5
        kind = kind or self.m["type"]
        if self.m.get("ternary"):
            if inner:
                x = ternary(self.rng, rows, cols, std)
                if kind == Q.F32: return self.w.add_tensor(name, x)
                if kind == Q.F16: return self.w.add_tensor(name, x.astype(np.float16))
                return self.w.add_tensor(name, quantize(x, kind), raw_dtype=kind)
            kind = Q.F16 if kind != Q.F32 or self.m.get("i2_s") else kind
        if kind in BLOCKS or kind in RARE:
            make_blocks = random_blocks if kind in BLOCKS else random_rare_blocks
            return self.w.add_tensor(name, make_blocks(self.rng, kind, rows, cols, std, dead), raw_dtype=kind)
        x = self.rng.normal(rows * cols, std).reshape(rows, cols)
        if dead: x[-dead:] = 0
        if kind == Q.F32: self.w.add_tensor(name, x)
        elif kind == Q.F16: self.w.add_tensor(name, x.astype(np.float16))
        else: self.w.add_tensor(name, (x.view(np.uint32) >> 16).astype("<u2").view(np.uint8), raw_dtype=kind)

    def matrices(self, name, n, rows, cols, gain):
        kind, std = self.m["experts"].get("type", self.m["type"]), gain / cols**0.5
        if kind == Q.F32:
            return self.w.add_tensor(name, self.rng.normal(n * rows * cols, std).reshape(n, rows, cols))
        make_blocks = random_blocks if kind in BLOCKS else random_rare_blocks
        raw = make_blocks(self.rng, kind, n * rows, cols, std, 0)
        self.w.add_tensor(name, raw.reshape(n, rows, -1), raw_dtype=kind)

    def metadata(self):
        m, w = self.m, self.w
        w.add_name("tiny")                                     # llama.cpp gives some names a meaning
        w.add_context_length(self.context)
        w.add_embedding_length(m["n_embd"])
        w.add_block_count(m["n_layers"] + m.get("nextn", 0))
        def sizes(name):
            """One for all layers, or one for each."""
            all_sizes = [e.get(name, m[name]) for e in m.get("each", [{}])]
            return all_sizes if len(set(all_sizes)) > 1 else all_sizes[0]
        kinds = m.get("kinds")
        bare = m.get("one_part") and "a" not in kinds       # neither attention nor feed-forwards
        still = bare or "rwkv" in m["arch"]
        w.add_feed_forward_length(0 if bare else [m["n_ff"] * (k in "fe") for k in kinds] if "one_part" in m
                                  else sizes("n_ff") if "each" in m else m["n_ff"] * m.get("ff_times", 1))
        heads = [m["n_heads"] * (k == "a") for k in kinds] if kinds and "p" in kinds else m["n_heads"]
        w.add_head_count(0 if still else heads)
        if not still:
            w.add_head_count_kv([m["n_kv_heads"] * (k == "a") for k in kinds]
                                if kinds and set(kinds) & set("cmp") and not set("db") & set(kinds)
                                else sizes("n_kv_heads"))
        layered = m["arch"] in ("gpt2", "nemotron_h", "nemotron_h_moe") or m.get("norm") == "layer"
        w.add_layer_norm_eps(1e-5) if layered else w.add_layer_norm_rms_eps(1e-5)
        if "head_dim" in m:
            w.add_key_length(m["head_dim"])
            w.add_value_length(m["head_dim"])
        for key, value in m["kv"].items():
            if isinstance(value, list):
                w.add_array(f"{m['arch']}.{key}", value)
                continue
            add = (w.add_string if isinstance(value, str) else w.add_bool if isinstance(value, bool) else
                   w.add_uint32 if isinstance(value, int) else w.add_float32)
            add(f"{m['arch']}.{key}", value)
        if "sections" in m: w.add_array(f"{m['arch']}.rope.dimension_sections", m["sections"])
        if m.get("xielu"):
            for key, low, high in (("alpha_n", -1, 1), ("alpha_p", -1, 1), ("beta", 0.3, 0.6),
                                   ("eps", -1e-3, -1e-6)):
                w.add_array("xielu." + key, [float(np.float32(v))
                                             for v in self.rng.uniform(m["n_layers"], low, high)])
        if m.get("types"): w.add_token_type_count(m["types"])
        if m.get("classes"):
            w.add_array(m["arch"] + ".classifier.output_labels", ["yes", "no"][:m["classes"]])
        self.vocabulary()

    def attention(self, b):
        m, d = self.m, self.head_dim
        n_q, n_kv = m["n_heads"] * d, m["n_kv_heads"] * d
        biased = m["arch"] in ("qwen2", "gpt2") or m.get("qkv_bias")
        if m.get("fused") or m["arch"] == "gpt2":
            self.matrix(b + "attn_qkv.weight", n_q * (1 + ("attn_gate" in m)) + 2 * n_kv, m["n_embd"], 1.4)
            if biased: self.vector(b + "attn_qkv.bias", n_q + 2 * n_kv, 0, 0.4)
        else:
            for name, rows, gain in (("attn_q", n_q, 1.5), ("attn_k", n_kv, 1.5), ("attn_v", n_kv, 1.2)):
                if name != "attn_q" and m.get("no_keys"): continue
                if name == "attn_v" and int(b.split(".")[1]) in m.get("k_is_v", ()): continue
                twice = 1 + (name == "attn_q" and "attn_gate" in m)
                self.matrix(b + name + ".weight", rows * twice, m["n_embd"], gain)
                if biased: self.vector(b + name + ".bias", rows, 0, 0.4)
        if "bitnet" in m["arch"]: self.vector(b + "attn_sub_norm.weight", n_q, 1.0, 0.3)
        self.matrix(b + "attn_output.weight", m["n_embd"], n_q, 1.5)
        if m["arch"] == "gpt2" or m.get("out_bias"): self.vector(b + "attn_output.bias", m["n_embd"], 0, 0.2)
        if m.get("sinks"): self.vector(b + "attn_sinks.weight", m["n_heads"], 1.0, 0.8)
        if m["arch"] in ("qwen3", "gemma3") or m.get("qk_norm") == "head":
            mean, std = m.get("qk_norms", (1.3, 0.3))
            self.vector(b + "attn_q_norm.weight", d, mean, std)
            if not m.get("no_keys"): self.vector(b + "attn_k_norm.weight", d, mean, std)
        elif "qk_norm" in m:
            self.vector(b + "attn_q_norm.weight", n_q, 1.3, 0.3, m["qk_norm"] == "each" and d)
            self.vector(b + "attn_k_norm.weight", n_kv, 1.3, 0.3, m["qk_norm"] == "each" and d)
            if m.get("qk_bias"):
                self.vector(b + "attn_q_norm.bias", n_q, 0, 0.2)
                self.vector(b + "attn_k_norm.bias", n_kv, 0, 0.2)

    def latent_attention(self, b):
        m, kv = self.m, self.m["kv"]
        e, heads, rank, q_rank = (m["n_embd"], m["n_heads"], kv["attention.kv_lora_rank"],
                                  kv.get("attention.q_lora_rank"))
        joined = "attention.key_length_mla" not in kv
        key, value = (kv[f"attention.{n}_length" + "_mla" * (not joined)] for n in ("key", "value"))
        turns = kv["rope.dimension_count"]
        if q_rank:
            self.matrix(b + "attn_q_a.weight", q_rank, e, 1.5)
            self.vector(b + "attn_q_a_norm.weight", q_rank, 1.0, 0.3)
            self.matrix(b + "attn_q_b.weight", heads * key, q_rank, 1.5)
        else: self.matrix(b + "attn_q.weight", heads * key, e, 1.5)
        self.matrix(b + "attn_kv_a_mqa.weight", rank + turns, e, 1.5)
        self.vector(b + "attn_kv_a_norm.weight", rank, 1.0, 0.3)
        if joined: self.matrix(b + "attn_kv_b.weight", heads * (key - turns + value), rank, 1.4)
        else:
            self.matrix(b + "attn_k_b.weight", rank, key - turns, 1.2, n=heads)
            self.matrix(b + "attn_v_b.weight", value, rank, 1.4, n=heads)
        self.matrix(b + "attn_output.weight", e, heads * value, 1.5)

    def short_conv(self, b):
        e, taps = self.m["n_embd"], self.m["kv"]["shortconv.l_cache"]
        self.matrix(b + "shortconv.in_proj.weight", 3 * e, e, 1.5)
        self.vector(b + "shortconv.conv.weight", e * taps, 0, 0.6, taps)
        self.matrix(b + "shortconv.out_proj.weight", e, e, 1.5)

    def mamba(self, b):
        m, kv = self.m, self.m["kv"]
        inner, rank, state = kv["ssm.inner_size"], kv["ssm.time_step_rank"], kv["ssm.state_size"]
        taps = kv["ssm.conv_kernel"]
        self.matrix(b + "ssm_in.weight", 2 * inner, m["n_embd"], 1.3)
        self.vector(b + "ssm_conv1d.weight", inner * taps, 0, 0.6, taps)
        self.vector(b + "ssm_conv1d.bias", inner, 0, 0.2)
        self.matrix(b + "ssm_x.weight", rank + 2 * state, inner, 1.8)
        self.matrix(b + "ssm_dt.weight", inner, rank, 1.0)
        self.vector(b + "ssm_dt.bias", inner, -1.5, 0.5)
        self.vector(b + "ssm_a", inner * state, -1.0, 0.4, state)
        self.vector(b + "ssm_d", inner, 1.0, 0.3)
        self.matrix(b + "ssm_out.weight", m["n_embd"], inner, 1.5)

    def mamba2(self, b):
        m, kv = self.m, self.m["kv"]
        inner, heads, groups = kv["ssm.inner_size"], kv["ssm.time_step_rank"], kv["ssm.group_count"]
        wide, taps = inner + 2 * groups * kv["ssm.state_size"], kv["ssm.conv_kernel"]
        self.matrix(b + "ssm_in.weight", inner + wide + heads, m["n_embd"], 1.3)
        self.vector(b + "ssm_conv1d.weight", wide * taps, 0, 0.6, taps)
        self.vector(b + "ssm_conv1d.bias", wide, 0, 0.2)
        self.vector(b + "ssm_dt.bias", heads, -1.5, 0.5)
        self.vector(b + "ssm_a", heads, -1.0, 0.4, 1)
        self.vector(b + "ssm_d", heads, 1.0, 0.3, 1)
        if not m.get("no_ssm_norm"): self.vector(b + "ssm_norm.weight", inner, 1.0, 0.3, inner // groups)
        self.matrix(b + "ssm_out.weight", m["n_embd"], inner, 1.5)

    def plamo(self, b):
        """Mamba-1's narrow steps with heads, of which ssm_in has gates and values in turn."""
        m, kv = self.m, self.m["kv"]
        inner, heads, state = kv["ssm.inner_size"], kv["ssm.time_step_rank"], kv["ssm.state_size"]
        rank, taps = max(64, m["n_embd"] // 16), kv["ssm.conv_kernel"]
        self.matrix(b + "ssm_in.weight", 2 * inner, m["n_embd"], 1.3)
        self.vector(b + "ssm_conv1d.weight", inner * taps, 0, 0.6, taps)
        self.matrix(b + "ssm_x.weight", 2 * state + rank, inner, 1.8)
        self.vector(b + "ssm_b_norm", state, 1.0, 0.3)
        self.vector(b + "ssm_c_norm", state, 1.0, 0.3)
        self.vector(b + "ssm_dt_norm", rank, 1.0, 0.3)
        self.matrix(b + "ssm_dt.weight", heads, rank, 1.0)
        self.vector(b + "ssm_dt.bias", heads, -1.5, 0.5)
        self.vector(b + "ssm_a", heads, -1.0, 0.4)
        self.vector(b + "ssm_d", heads, 1.0, 0.3)
        self.matrix(b + "ssm_out.weight", m["n_embd"], inner, 1.5)

    def delta_net(self, b):
        m, kv = self.m, self.m["kv"]
        inner, heads, groups = kv["ssm.inner_size"], kv["ssm.time_step_rank"], kv["ssm.group_count"]
        wide, taps = inner + 2 * groups * kv["ssm.state_size"], kv["ssm.conv_kernel"]
        if m.get("in_one"): self.matrix(b + "ssm_in.weight", wide + inner, m["n_embd"], 1.5)
        else:
            self.matrix(b + "attn_qkv.weight", wide, m["n_embd"], 1.5)
            self.matrix(b + "attn_gate.weight", inner, m["n_embd"], 1.3)
        self.vector(b + "ssm_conv1d.weight", wide * taps, 0, 0.6, taps)
        self.vector(b + "ssm_dt.bias", heads, -1.5, 0.5)
        self.vector(b + "ssm_a", heads, -1.0, 0.4)
        if m["arch"] == "qwen3next": self.matrix(b + "ssm_ba.weight", 2 * heads, m["n_embd"], 1.0)
        else:
            self.matrix(b + "ssm_beta.weight", heads, m["n_embd"], 1.0)
            self.matrix(b + "ssm_alpha.weight", heads, m["n_embd"], 1.0)
        self.vector(b + "ssm_norm.weight", inner // heads, 1.0, 0.3)
        self.matrix(b + "ssm_out.weight", m["n_embd"], inner, 1.5)

    def ffn(self, b):
        m, gpt2 = self.m, self.m["arch"] == "gpt2"
        plain = gpt2 or not m.get("gated", True)
        if m.get("fused_gate", m.get("fused")):
            self.matrix(b + "ffn_up.weight", 2 * m["n_ff"], m["n_embd"], 1.3)
        else:
            if not plain: self.matrix(b + "ffn_gate.weight", m["n_ff"], m["n_embd"], 1.3)
            self.matrix(b + "ffn_up.weight", m["n_ff"], m["n_embd"], 1.3)
        if "bitnet" in m["arch"]: self.vector(b + "ffn_sub_norm.weight", m["n_ff"], 1.0, 0.3)
        self.matrix(b + "ffn_down.weight", m["n_embd"], m["n_ff"], 1.5)
        if gpt2 or m.get("ffn_bias"):
            if m.get("ffn_bias") != "down": self.vector(b + "ffn_up.bias", m["n_ff"], 0, 0.3)
            self.vector(b + "ffn_down.bias", m["n_embd"], 0, 0.2)

    def experts(self, b):
        m, x = self.m, self.m["experts"]
        n, ff, shared, plain = x["n"], x["ff"], x["shared"], not m.get("gated", True)
        if isinstance(ff, list): ff = ff[int(b.split(".")[1])]
        wide = x.get("wide", m["n_embd"])
        self.matrix(b + "ffn_gate_inp.weight", n, m["n_embd"], 2.5, kind=Q.F32)
        if wide != m["n_embd"]:
            self.matrix(b + "ffn_latent_down.weight", wide, m["n_embd"], 1.3)
            self.matrix(b + "ffn_latent_up.weight", m["n_embd"], wide, 1.3)
        if x.get("fused"): self.matrix(b + "ffn_gate_up_exps.weight", 2 * ff, wide, 1.3, n=n)
        else:
            if not plain: self.matrix(b + "ffn_gate_exps.weight", ff, wide, 1.3, n=n)
            self.matrix(b + "ffn_up_exps.weight", ff, wide, 1.3, n=n)
        self.matrix(b + "ffn_down_exps.weight", wide, ff, 1.8, n=n)
        for name in x.get("scales", ()): self.vector(b + f"ffn_{name}_exps.scale", n, 1.0, 0.3)
        if x.get("beside"):
            self.vector(b + "ffn_gate_inp.scale", m["n_embd"], 8.0, 2.0)
            self.vector(b + "ffn_down_exps.scale", n, 1.0, 0.3)
            for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"): self.norm(b + name)
            self.ffn(b)
        if x.get("bias"):
            self.vector(b + "ffn_gate_inp.bias", n, 0, 0.3)
            self.vector(b + "ffn_gate_exps.bias", n * ff, 0, 0.3, ff)
            self.vector(b + "ffn_up_exps.bias", n * ff, 0, 0.3, ff)
            self.vector(b + "ffn_down_exps.bias", n * m["n_embd"], 0, 0.2, m["n_embd"])
        if x.get("choice"): self.vector(b + "exp_probs_b.bias", n, 0, 0.2)
        if not shared: return
        if not plain: self.matrix(b + "ffn_gate_shexp.weight", shared, m["n_embd"], 1.3)
        self.matrix(b + "ffn_up_shexp.weight", shared, m["n_embd"], 1.3)
        self.matrix(b + "ffn_down_shexp.weight", m["n_embd"], shared, 1.5)
        if x.get("gate"): self.vector(b + "ffn_gate_inp_shexp.weight", m["n_embd"], 0, 0.3)

    def norm(self, name, mean=1.0, bare=False):
        if self.m.get("no_norms"): return
        self.vector(name if bare else name + ".weight", self.m["n_embd"], mean, 0.3 * mean)
        if self.m["arch"] == "gpt2" or self.m.get("norm_bias"):
            self.vector(name + ".bias", self.m["n_embd"], 0, 0.2)

    def layer(self, i):
        """One layer; sizes of its own hold for it alone."""
        whole, wide = self.m, self.head_dim
        if "each" in whole:
            self.m = dict(whole, **whole["each"][i])
            self.head_dim = self.m["head_dim"]
        self.layer_of(i)
        self.m, self.head_dim = whole, wide

    def layer_row(self, b):
        """A layer's inputs from the token, besides the stream."""
        m = self.m
        if m.get("row"):
            self.matrix(b + "inp_gate.weight", m["row"], m["n_embd"], 1.3)
            self.matrix(b + "proj.weight", m["n_embd"], m["row"], 1.5)
            self.norm(b + "post_norm", 1.0)
        if m.get("altup"):
            e = m["n_embd"]
            self.matrix(b + "altup_router.weight", 4, e, 20.0, kind=Q.F32)
            self.norm(b + "altup_router_norm")
            self.matrix(b + "altup_predict_coef.weight", 16, 4, 0.1, kind=Q.F32)
            self.matrix(b + "altup_correct_coef.weight", 4, 4, 0.3, kind=Q.F32)
            self.norm(b + "altup_correct_scale")
            self.matrix(b + "laurel_l.weight", 64, e, 1.0)
            self.matrix(b + "laurel_r.weight", e, 64, 1.0)
            self.norm(b + "laurel_post_norm")
        if m.get("out_scale"): self.vector(b + "layer_output_scale.weight", 1, 0.8, 0.1)

    def layer_of(self, i):
        b, post = f"blk.{i}.", self.m["arch"] in ("gemma2", "gemma3") or self.m.get("post")
        flow, large = self.m.get("flow", "serial"), 2.0 * self.m.get("gain", 1)
        if flow not in ("post", "sums") and not (i == 0 and self.m.get("bare_begin")):
            self.norm(b + "attn_norm")
        if self.m.get("two_norms"): self.norm(b + "attn_norm_2")
        kind = self.m["kinds"][i] if "kinds" in self.m else "a"
        for part in "am" if kind == "b" else kind:
            {"a": self.attention, "l": self.latent_attention, "d": self.delta_net, "c": self.short_conv,
             "m": self.mamba2, "f": self.ffn, "s": self.mamba, "p": self.plamo, "e": self.experts,
             "r": lambda b: rwkv.mixer(self, b)}[part](b)
        if self.m.get("one_part"): return
        if post: self.norm(b + "post_attention_norm", large, self.m.get("bare"))
        if flow == "serial":
            self.norm(b + self.m.get("ffn_norm", "ffn_norm"), bare=self.m["arch"] == "falcon-h1")
        if flow == "sums": self.norm(b + "attn_output_norm")
        if self.m["arch"] == "rwkv7": return rwkv.ffn(self, b)
        x = self.m.get("experts")
        some = x and i >= x.get("first", 0) and ("every" not in x or i % x["every"] == 1)
        self.experts(b) if some else self.ffn(b)
        if flow == "sums": self.norm(b + "layer_output_norm")
        if post: self.norm(b + "post_ffw_norm", large, self.m.get("bare"))
        self.layer_row(b)

    def guessing_layer(self, i):
        """It makes a guess of the token after the next one, and no logits."""
        self.layer(i)
        e, b = self.m["n_embd"], f"blk.{i}.nextn."
        self.matrix(b + "eh_proj.weight", e, 2 * e, 1.0)
        for name in ("enorm", "hnorm", "shared_head_norm"): self.vector(b + name + ".weight", e, 1, 0.3)

    def write(self):
        m = self.m
        self.metadata()
        # scaled embeddings would drown the layers
        embd = m.get("embd", 0.4 if "embedding_scale" in m["kv"] or m["arch"].startswith("gemma") else 1.0)
        self.matrix("token_embd.weight", self.n_vocab, m["n_embd"], embd, dead=N_SPECIAL if m["tied"] else 0)
        if m.get("row"):
            wide = m["row"] * m["n_layers"]
            self.matrix("per_layer_token_embd.weight", self.n_vocab, wide, 1.0 if m["type"] == Q.F32 else 4.0)
            self.matrix("per_layer_model_proj.weight", wide, m["n_embd"], 1.0, kind=Q.F32)
            self.vector("per_layer_proj_norm.weight", m["row"], 1.0, 0.3)
        for name in ("altup_proj", "altup_unembd_proj") if m.get("altup") else ():
            e = m["n_embd"]
            self.w.add_tensor(name + ".weight", self.rng.normal(3 * e * e, e**-0.5).reshape(3, e, e))
        if m.get("token_norm"): self.norm("token_embd_norm")
        if m.get("types"): self.matrix("token_types.weight", m["types"], m["n_embd"], 0.5, kind=Q.F32)
        if m["arch"] == "gpt2" or m.get("learned"):
            self.matrix("position_embd.weight", self.context, m["n_embd"], 0.5, kind=Q.F32)
        half = m.get("rope_dim", self.head_dim) // 2
        if m.get("rope_freqs"):
            self.w.add_tensor("rope_freqs.weight", self.rng.uniform(half, 1, 8).astype(np.float32))
        if m.get("longrope"):
            self.w.add_tensor("rope_factors_long.weight", self.rng.uniform(half, 2, 30).astype(np.float32))
            self.w.add_tensor("rope_factors_short.weight", self.rng.uniform(half, 1, 1.5).astype(np.float32))
        for i in range(m["n_layers"]): self.layer(i)
        for i in range(m["n_layers"], m["n_layers"] + m.get("nextn", 0)): self.guessing_layer(i)
        if not m.get("no_output"): self.norm(m.get("final", "output_norm"), m.get("final_mean", 2.5 / embd))
        if m.get("classes"):
            for name, rows in (("cls", m["n_embd"]), ("cls.output", m["classes"])):
                if name == "cls" and m["arch"] == "qwen3": continue
                self.matrix(name + ".weight", rows, m["n_embd"], 1.5)
                if m["arch"] != "qwen3": self.vector(name + ".bias", rows, 0, 0.2)
        if m.get("dense"):
            for key, n in (("2_feat_in", m["n_embd"]), ("2_feat_out", m["dense"]), ("3_feat_in", m["dense"]),
                           ("3_feat_out", m["n_embd"])): self.w.add_uint32(f"{m['arch']}.dense_{key}", n)
            self.matrix("dense_2.weight", m["dense"], m["n_embd"], 1.0)
            self.matrix("dense_3.weight", m["n_embd"], m["dense"], 1.0)
        # what has no norm to be loud by is so itself
        loud = 2.5 if m.get("no_norms") else 1.0
        if not m["tied"] and not m.get("encoder"):
            self.matrix("output.weight", self.n_vocab, m["n_embd"], loud, dead=N_SPECIAL)
        if m.get("output_bias"): self.vector("output.bias", self.n_vocab, 0, 0.3)
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file()
        self.w.close()


def make(folder, name):
    """Writes folder/name.gguf unless it is there; returns path and SHA-256."""
    path = pathlib.Path(folder) / f"{name}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        m = models(True)[name]
        Writer(fresh, m).write()
        if m.get("i2_s"): gguf_raw.to_i2_s(fresh, path)
        else: fresh.rename(path)
        fresh.unlink(missing_ok=True)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()

def main():
    if len(sys.argv) < 2: sys.exit(__doc__)
    for name in sys.argv[2:] or models():
        print(name, make(sys.argv[1], name)[1])

if __name__ == "__main__":
    main()
