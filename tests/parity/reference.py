#!/usr/bin/env python3
"""A plain float32 transformer in numpy: what a GGUF's weights mean, with nothing clever in between.
SPDX-License-Identifier: MIT

    reference.py MODEL.gguf ID,ID,... [-c CTX] [--all]     logits after the last id (or after each) as JSON

Weights are dequantised by the `gguf` package.  Written from the models' published descriptions and the GGUF
specification, not from this project's C code, so that the two can be held against each other.
Architectures: llama (Mistral too), qwen2, qwen3, phi3, gemma2, gemma3, gpt2, bitnet and its
later names, and those of OTHERS.
"""
import argparse, json, math, pathlib, sys
import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import experts
import later_gemmas
import rwkv
from gguf_reader import Reader
from gguf_types import floats
from qsf_reader import QSF

F = np.float32
QSF_KINDS = (
    dict(enumerate(["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down",
                    "attn_norm", "ffn_norm"])))
QSF_KINDS = {k: n + ".weight" for k, n in QSF_KINDS.items()} | {
    9: "attn_q.bias", 10: "attn_k.bias", 11: "attn_v.bias", 12: "attn_output.bias", 13: "ffn_up.bias",
    16: "ffn_down.bias",
    18: "attn_norm.bias", 19: "ffn_norm.bias", 20: "attn_q_norm.weight", 21: "attn_k_norm.weight",
    22: "post_attention_norm.weight",
    23: "post_ffw_norm.weight", 24: "attn_sub_norm.weight", 25: "ffn_sub_norm.weight",
    60: "ssm_in.weight", 61: "ssm_conv1d.weight", 62: "ssm_out.weight", 64: "ssm_conv1d.bias",
    65: "ssm_dt.bias", 66: "ssm_a", 67: "ssm_d", 68: "ssm_norm.weight",
    69: "attn_gate.weight", 70: "ssm_beta.weight", 71: "ssm_alpha.weight", 126: "ssm_x.weight",
    127: "ssm_dt.weight", 108: "ssm_dt_norm", 109: "ssm_b_norm", 110: "ssm_c_norm",
    32: "token_embd.weight", 33: "position_embd.weight", 34: "output_norm.weight",
    35: "output_norm.bias",
    36: "output.weight", 37: "output.bias", 38: "token_embd_norm.weight", 39: "token_embd_norm.bias",
    40: "ffn_gate_inp.weight", 41: "ffn_gate_inp.bias", 42: "exp_probs_b.bias",
    43: "ffn_gate_exps.weight", 44: "ffn_up_exps.weight", 45: "ffn_down_exps.weight",
    46: "ffn_gate_exps.bias", 47: "ffn_up_exps.bias", 48: "ffn_down_exps.bias",
    49: "ffn_gate_inp_shexp.weight", 50: "attn_sinks.weight",
    72: "ffn_gate_inp.scale", 73: "pre_ffw_norm_2.weight", 74: "post_ffw_norm_1.weight",
    75: "post_ffw_norm_2.weight", 76: "ffn_down_exps.scale", 77: "ffn_latent_down.weight",
    78: "ffn_latent_up.weight",
    150: "per_layer_token_embd.weight", 151: "layer_embd.weight", 152: "layer_embd_norm.weight",
    153: "inp_gate.weight", 154: "proj.weight", 155: "post_norm.weight", 156: "layer_output_scale.weight",
    157: "altup_proj.weight", 158: "altup_back_1.weight", 159: "altup_back_2.weight",
    160: "altup_back_3.weight", 161: "altup_router.weight", 162: "altup_router_norm.weight",
    163: "altup_predict_coef.weight", 164: "altup_correct_coef.weight", 165: "altup_correct_scale.weight",
    166: "laurel_l.weight", 167: "laurel_r.weight", 168: "laurel_post_norm.weight",
    51: "attn_q_a.weight", 52: "attn_q_b.weight", 53: "attn_kv_a_mqa.weight", 54: "attn_k_b.weight",
    55: "attn_v_b.weight", 56: "attn_kv_b.weight", 57: "attn_q_a_norm.weight", 58: "attn_kv_a_norm.weight",
    **rwkv.KINDS}
# rotary pairs are (i, i + d/2); llama's are (2i, 2i + 1)
OTHERS = {"smollm3", "granite", "minicpm", "mistral3", "arcee", "ernie4_5", "internlm2", "seed_oss",
          "hunyuan-dense", "glm4", "olmo2", "exaone4", "apertus", "qwen", "baichuan", "stablelm",
          "starcoder2", "phi2", "falcon", "gptneox", "command-r", "cohere2", "olmo", "nemotron", "mpt",
          "bloom", "granitemoe", "ernie4_5-moe", "lfm2", "granitehybrid", "qwen35", "mamba", "mamba2",
          *rwkv.RENAMED, "nemotron_h", "falcon-h1", "deepseek2", "smallthinker", "phimoe", "minicpm3",
          "nemotron_h_moe", "plamo2"}
LAYER_NORM = {"gpt2", "stablelm", "starcoder2", "phi2", "falcon", "gptneox", "command-r", "cohere2", "olmo",
              "nemotron", "mpt", "bloom", "rwkv7"}
GELU = {"gpt2", "gemma2", "gemma3", "gemma3n", "gemma4", "starcoder2", "phi2", "falcon", "gptneox", "mpt",
        "bloom"}
RELU2 = {"rwkv7", "bitnet-25", "bitnet-b1.58", "arcee", "nemotron", "nemotron_h", "nemotron_h_moe"}
UNMOVED = {"gpt2", "mpt", "bloom", "nemotron_h", "nemotron_h_moe"}          # nothing is rotated
# norms of queries and keys that span all heads, and those that come after the rotation
ALL_HEADS, AFTERWARDS = {"olmo2", "mpt", "olmoe"}, {"hunyuan-dense"}
# what these names stand for elsewhere
CONV = {"shortconv.in_proj": "ssm_in", "shortconv.conv": "ssm_conv1d", "shortconv.out_proj": "ssm_out",
        "token_embd_norm": "output_norm"}
DELTA = {"attn_qkv": "ssm_in", "post_attention_norm": "ffn_norm"}
RENAMED = {**rwkv.RENAMED, "lfm2": CONV, "lfm2moe": CONV, "qwen35": DELTA, "qwen35moe": DELTA,
           "qwen3next": {**DELTA, "ssm_ba": "ssm_beta"},
            "seed_oss": {"post_attention_norm": "ffn_norm"},
           "glm4moe": {"post_attention_norm": "ffn_norm"}, "gpt-oss": {"post_attention_norm": "ffn_norm"},
           "falcon": {"attn_norm": "ffn_norm", "attn_norm_2": "attn_norm"}}
HALVES = {"lfm2", "qwen35", "gemma3n", "gemma4", "falcon-h1", "lfm2moe", "qwen35moe", "qwen3next",
          "smallthinker", "seed_oss", "hunyuan-dense", "olmo2", "exaone4", "apertus", "qwen", "stablelm",
          "starcoder2", "phi2", "falcon", "gptneox", "nemotron", "qwen2", "qwen3", "phi3", "gemma2",
          "gemma3", "bitnet", "bitnet-25", "bitnet-b1.58", "qwen2vl", "qwen3vl", "qwen2moe", "qwen3moe",
          "olmoe", "glm4moe", "bailingmoe2", "gpt-oss", "phimoe", "minicpm3", "plamo2"}
# a layer is a mixer or a feed-forward
ONE_PART = {"mamba", "mamba2", "nemotron_h", "nemotron_h_moe"}
GATED_QUERIES = {"qwen35", "qwen35moe", "qwen3next"}


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + F(eps)) * weight

def layer_norm(x, weight, bias, eps):
    x = x - np.mean(x, axis=-1, keepdims=True)
    x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + F(eps))
    if weight is not None: x = x * weight
    return x if bias is None else x + bias

def silu(x):
    return x / (F(1) + np.exp(-x))

def relu2(x):
    return np.square(np.maximum(x, F(0)))

# the tanh form, which GPT-2 and Gemma were trained with
def gelu(x):
    return F(0.5) * x * (F(1) + np.tanh(F(math.sqrt(2 / math.pi)) * (x + F(0.044715) * x * x * x)))

# llama.cpp looks GELU up in a table of 16-bit floats
def gelu_f16(x):
    h = x.astype(np.float16).astype(F)
    return np.where(x <= -10, F(0), np.where(x >= 10, x, gelu(h).astype(np.float16).astype(F)))

def softplus(x):
    return np.log1p(np.exp(np.float64(x)))

def xielu(x, alpha_p, alpha_n, beta, eps):
    """arXiv 2411.13010; with the alphas of the training parametrisation."""
    low = (np.expm1(np.minimum(x, F(eps))) - x) * F(beta + softplus(alpha_n)) + F(beta) * x
    return np.where(x > 0, F(softplus(alpha_p)) * x * x + F(beta) * x, low)

def alibi_slopes(heads, most):
    """arXiv 2108.12409: a geometric row for a power of two, and every second one of a finer row."""
    n = 2 ** int(math.log2(heads))
    row = [2.0 ** (-most * (i + 1) / n) for i in range(n)]
    finer = [2.0 ** (-most / 2 * (i + 1) / n) for i in range(0, 2 * n, 2)]
    return np.array((row + finer)[:heads], F)

def soft_cap(x, cap):
    return np.tanh(x / F(cap)) * F(cap) if cap else x


def outliers(data, rows, n, shape):
    """QSF's type 24: u32 first[rows + 1], then u32 column[n], f16 value[n]."""
    first = np.frombuffer(data, "<u4", rows + 1)
    out = np.zeros(shape, F)
    out[np.repeat(np.arange(rows), np.diff(first)), np.frombuffer(data, "<u4", n, 4 * (rows + 1))] = \
        np.frombuffer(data, "<f2", n, 4 * (rows + 1) + 4 * n)
    return out


class Model:
    def __init__(self, path):
        reader = Reader(path)
        self.kv = {k: f.contents() for k, f in reader.fields.items()}
        self.arch = self.kv["general.architecture"]
        if self.arch not in {"llama", "gpt2"} | HALVES | OTHERS:
            raise SystemExit(f"reference: architecture {self.arch} is not known")
        self.tensors = {t.name: t for t in reader.tensors}
        self.rename()
        self.cache = {}
        g = self.get
        self.n_layers = g("block_count") - g("nextn_predict_layers", 0)
        self.n_embd, self.n_heads = (g("embedding_length"),
                                                    g("attention.head_count"))
        if isinstance(self.n_heads, list): self.n_heads = max(self.n_heads)
        self.n_kv_heads = g("attention.head_count_kv", self.n_heads)
        if isinstance(self.n_kv_heads, list): self.n_kv_heads = max(self.n_kv_heads)
        self.head_dim = g("attention.key_length", self.n_embd // max(self.n_heads, 1))
        self.eps = g("attention.layer_norm_rms_epsilon", g("attention.layer_norm_epsilon"))
        self.gelu = gelu
        if self.arch == "minicpm3":         # its files have no keys for them
            for key, value in (("embedding_scale", 12.0), ("residual_scale", 1.4 / math.sqrt(self.n_layers)),
                               ("logit_scale", 256 / self.n_embd)):
                self.kv.setdefault(f"minicpm3.{key}", value)

    def rename(self):
        names = RENAMED.get(self.arch, {})
        if self.arch == "falcon" and "blk.0.attn_norm_2.weight" not in self.tensors: return
        def new(name):
            stem, _, end = name.rpartition(".")
            block = ".".join(stem.split(".")[:2]) + "." if stem.startswith("blk.") else ""
            last = stem[len(block):]
            if last == "attn_qkv" and block + "ssm_a" not in self.tensors: return name
            if names.get(last) in ("ssm_d", "ssm_dt.bias"): return block + names[last]
            return f"{block}{names[last]}.{end}" if last in names else name
        self.tensors = {new(k): t for k, t in self.tensors.items()}
        if self.arch in ("falcon-h1", "plamo2"):             # their converters leave the end out
            bare = "ffn_norm", "post_attention_norm", "post_ffw_norm"
            self.tensors = {k + ".weight" if k.endswith(bare) else k: t
                            for k, t in self.tensors.items()}

    def get(self, key, default=None):
        return self.kv.get(f"{self.arch}.{key}", default)

    def w(self, name, required=True):
        """A tensor as float32, kept: the models this is used on are small."""
        if name not in self.cache:
            t = self.tensors.get(name)
            if t is None:
                if required: raise SystemExit(f"reference: no tensor {name}")
                return None
            self.cache[name] = np.ascontiguousarray(floats(t).astype(F))
        return self.cache[name]

    def linear(self, x, name):
        y = x @ self.w(name + ".weight").T
        bias = self.w(name + ".bias", False)
        return y if bias is None else y + bias

    def use_qsf(self, path):
        """Takes the weights of a QSF file made from this model instead (read by ../tools/qsf_reader.py)."""
        q, all_names = QSF(path), set(self.tensors)
        self.cache, self.tensors = {}, {k: t for k, t in self.tensors.items() if k.startswith("rope_")}
        for t in q.tensors:
            name = QSF_KINDS.get(t["kind"])
            if name is None or q.mtp and t["unit"] == q.layers - 1: continue
            w = (q.embedding() if t["kind"] == 32 else q.scale(t) * q.values(t)).astype(F)
            for o in q.tensors:
                if o["unit"] == t["unit"] and o["kind"] == 0x100 + t["kind"]:
                    w += outliers(q.data(o), o["rows"], o["cols"], w.shape)
            b = f"blk.{t['unit']}."
            if b + "ffn_gate_inp.weight" in all_names and b + "ffn_gate.weight" not in all_names:
                # the shared expert is the layer's feed-forward
                name = {4: "ffn_gate_shexp.weight", 5: "ffn_up_shexp.weight",
                        6: "ffn_down_shexp.weight"}.get(t["kind"], name)
            name = name if t["unit"] >= q.layers else f"blk.{t['unit']}.{name}"
            self.cache[name] = self.tensors[name] = w if t["rows"] > 1 else w[0]

    # ---- rotary positions ----

    def is_windowed(self, layer):
        """Gemma 2: every second layer is global, Gemma 3: every sixth; elsewhere a window holds
        for all layers."""
        if not self.get("attention.sliding_window"): return False
        pattern = self.get("attention.sliding_window_pattern",
                           {"gemma2": 2, "gemma3": 6, "olmo2": 4, "exaone4": 4,
                            "cohere2": 4, "gpt-oss": 2}.get(self.arch, 0))
        if isinstance(pattern, list): return bool(pattern[layer])
        return pattern == 0 or layer % pattern < pattern - 1

    def rope_table(self, layer, positions, n_ctx):
        """cos and sin [positions][rope_dim / 2], and rope_dim."""
        dim = self.get("rope.dimension_count", self.head_dim)
        base = self.get("rope.freq_base", 10000.0)
        local = self.arch in ("gemma3", "olmo2") and self.is_windowed(layer)
        if local and self.arch == "gemma3": base = self.get("rope.freq_base_swa", 10000.0)
        freq = np.power(float(base), -np.arange(0, dim, 2) / dim)
        kind = self.get("rope.scaling.type", "linear")
        factor = self.get("rope.scaling.factor", self.get("rope.scale_linear", 0.0)) or 1.0
        train_ctx = self.get("rope.scaling.original_context_length", self.get("context_length"))
        magnitude = self.get("rope.scaling.attn_factor", 1.0)
        divisors = self.w("rope_freqs.weight", False)
        if divisors is None:
            divisors = (self.w("rope_factors_long.weight" if n_ctx > train_ctx
                               else "rope_factors_short.weight", False))
        if divisors is not None: freq = freq / divisors
        if kind == "yarn" and factor != 1.0 and not local:
            freq = self.yarn(freq, dim, base, factor, train_ctx)
            # one growth with the context, or that of the whole attention where a key gives both
            by = self.get("rope.scaling.yarn_log_multiplier", 0.0)
            if self.arch != "deepseek2":
                magnitude *= (1.0 + 0.1 * math.log(factor)) / (1.0 + 0.1 * by * math.log(factor))
        elif kind in ("linear", "longrope") and not local:
            freq = freq / factor
        angle = np.outer(positions, freq)
        return (np.cos(angle) * magnitude).astype(F), (np.sin(angle) * magnitude).astype(F), dim

    def yarn(self, freq, dim, base, factor, train_ctx):
        """Slow dimensions are stretched by factor, fast ones are left, a ramp lies between
        (arXiv 2309.00071)."""
        def dimension_of(turns):
            return dim * math.log(train_ctx / (turns * 2 * math.pi)) / (2 * math.log(base))
        low = max(0, math.floor(dimension_of(self.get("rope.scaling.yarn_beta_fast", 32.0))))
        high = min(dim - 1, math.ceil(dimension_of(self.get("rope.scaling.yarn_beta_slow", 1.0))))
        keep = 1 - np.clip((np.arange(dim // 2) - low) / max(0.001, high - low), 0, 1)
        return freq / factor * (1 - keep) + freq * keep

    def rotate(self, x, table):                              # x[rows][heads][head_dim]
        cos, sin, dim = table
        cos, sin = cos[:, None, :], sin[:, None, :]
        out = x.copy()
        halves = self.arch in HALVES or self.arch == "glm4" and any(self.get("rope.dimension_sections", []))
        a, b = ((slice(0, dim // 2), slice(dim // 2, dim)) if halves else
                (slice(0, dim, 2), slice(1, dim, 2)))
        out[..., a] = x[..., a] * cos - x[..., b] * sin
        out[..., b] = x[..., a] * sin + x[..., b] * cos
        return out

    # ---- one layer ----

    def norm(self, x, name):
        if self.arch in LAYER_NORM:
            return layer_norm(x, self.w(name + ".weight", self.arch != "olmo"), self.w(name + ".bias", False),
                              self.eps)
        bias = self.w(name + ".bias", False)
        return rms_norm(x, self.w(name + ".weight"), self.eps) + (F(0) if bias is None else bias)

    def qkv(self, x, b):
        sizes = [self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim]
        if self.arch in GATED_QUERIES: sizes[0] *= 2
        if b + "attn_qkv.weight" in self.tensors:
            q, k, v = np.split(self.linear(x, b + "attn_qkv"), np.cumsum(sizes), axis=-1)
        else:
            q, k, v = (self.linear(x, b + n) for n in ("attn_q", "attn_k", "attn_v"))
        clamp = self.get("attention.clamp_kqv")
        if clamp: q, k, v = (np.clip(t, F(-clamp), F(clamp)) for t in (q, k, v))
        if self.arch in ALL_HEADS and b + "attn_q_norm.weight" in self.tensors:
            q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
        return (t.reshape(len(x), -1, self.head_dim) for t in (q, k, v))

    def norm_heads(self, x, name):
        """Of each head, by weights for all heads or by its own."""
        w = self.w(name + ".weight")
        w = w.reshape(-1, self.head_dim) if w.size > self.head_dim else w
        return layer_norm(x, w, None, self.eps) if self.arch in LAYER_NORM else rms_norm(x, w, self.eps)

    def turns(self, layer):
        if self.arch == "smallthinker": return layer % 4 != 0
        if self.arch == "smollm3": return layer % 4 != 3
        if self.arch == "baichuan": return self.n_layers == 32
        if self.arch in ("granite", "granitemoe", "granitehybrid"):
            return self.get("rope.scaling.finetuned", True)
        if self.arch == "cohere2" or (self.arch == "exaone4" and self.n_layers == 64):
            return self.is_windowed(layer)
        return self.arch not in UNMOVED

    def alibi(self):
        if self.arch == "bloom" or (self.arch == "baichuan" and self.n_layers == 40): return 8.0
        return self.get("attention.max_alibi_bias", 0.0)

    def attention(self, x, layer, n_ctx):
        b, n = f"blk.{layer}.", len(x)
        q, k, v = self.qkv(x, b)
        gate = None
        if self.arch in GATED_QUERIES:      # [heads][query, gate]
            q, gate = np.split(q.reshape(n, self.n_heads, -1), 2, axis=-1)
        normed = b + "attn_q_norm.weight" in self.tensors and self.arch not in ALL_HEADS
        def norms(q, k): return self.norm_heads(q, b + "attn_q_norm"), self.norm_heads(k, b + "attn_k_norm")
        if normed and self.arch not in AFTERWARDS: q, k = norms(q, k)
        if self.turns(layer):
            table = self.rope_table(layer, np.arange(n), n_ctx)
            q, k = self.rotate(q, table), self.rotate(k, table)
        if normed and self.arch in AFTERWARDS: q, k = norms(q, k)
        if self.get("attention.temperature_scale"):
            far = np.floor(np.arange(n) / self.get("rope.scaling.original_context_length"))
            q = q * (1 + self.get("attention.temperature_scale") * np.log(1 + far)).astype(F)[:, None, None]
        k, v = (np.repeat(t, self.n_heads // self.n_kv_heads, axis=1) for t in (k, v))
        score = np.einsum("ihd,jhd->hij", q, k, optimize=True)
        score = score * F(self.get("attention.scale") or 1 / math.sqrt(self.head_dim))
        score = soft_cap(score, self.get("attn_logit_softcapping"))
        back = np.arange(n)[:, None] - np.arange(n)[None, :]
        if self.alibi():
            score = score - alibi_slopes(self.n_heads, self.alibi())[:, None, None] * back.astype(F)
        hidden = back < 0
        if self.is_windowed(layer): hidden = hidden | (back >= self.get("attention.sliding_window"))
        score = np.where(hidden, F(-np.inf), score)
        sinks = self.w(b + "attn_sinks.weight", False)
        if sinks is not None:                                # one score more, of no position
            score = np.concatenate([score, np.broadcast_to(sinks[:, None, None], (*score.shape[:2], 1))], -1)
        score = np.exp(score - score.max(axis=-1, keepdims=True))
        score /= score.sum(axis=-1, keepdims=True)
        if sinks is not None: score = score[..., :-1]
        out = np.einsum("hij,jhd->ihd", score, v, optimize=True).reshape(n, -1)
        if gate is not None: out = out / (1 + np.exp(-gate.reshape(n, -1)))
        if b + "attn_sub_norm.weight" in self.tensors: out = self.norm(out, b + "attn_sub_norm")
        return self.linear(out, b + "attn_output")

    def latent_attention(self, x, layer, n_ctx):
        """arXiv 2405.04434, section 2.1, with every head's keys and values made whole."""
        b, n, heads, turns = f"blk.{layer}.", len(x), self.n_heads, self.get("rope.dimension_count")
        key = self.get("attention.key_length_mla", self.get("attention.key_length"))
        value = self.get("attention.value_length_mla", self.get("attention.value_length"))
        rank, plain = self.get("attention.kv_lora_rank"), key - turns
        if b + "attn_q_a.weight" in self.tensors:
            q = self.linear(self.norm(self.linear(x, b + "attn_q_a"), b + "attn_q_a_norm"), b + "attn_q_b")
        else: q = self.linear(x, b + "attn_q")
        latent, shared = np.split(self.linear(x, b + "attn_kv_a_mqa"), [rank], axis=-1)
        latent = self.norm(latent, b + "attn_kv_a_norm")
        if b + "attn_kv_b.weight" in self.tensors:
            k, v = np.split(self.linear(latent, b + "attn_kv_b").reshape(n, heads, -1), [plain], axis=-1)
        else:
            k = np.einsum("nr,hrp->nhp", latent, self.w(b + "attn_k_b.weight").reshape(heads, rank, plain))
            v = np.einsum("nr,hvr->nhv", latent, self.w(b + "attn_v_b.weight").reshape(heads, value, rank))
        cos, sin, dim = self.rope_table(layer, np.arange(n), n_ctx)
        grow, scale = 1.0, self.get("rope.scaling.factor", 1.0)
        if scale > 1:                       # YaRN's growth is of the scores, not of what turns
            grow = 1 + self.get("rope.scaling.yarn_log_multiplier") * math.log(scale)
        q, shared = q.reshape(n, heads, key), shared.reshape(n, 1, turns)
        q = np.concatenate([q[..., :plain], self.rotate(q[..., plain:], (cos, sin, dim))], axis=-1)
        shared = np.repeat(self.rotate(shared, (cos, sin, dim)), heads, axis=1)
        k = np.concatenate([k, shared], axis=-1)
        score = np.einsum("ihd,jhd->hij", q, k, optimize=True) * F(grow * grow / math.sqrt(key))
        score = np.where(np.arange(n)[:, None] < np.arange(n)[None, :], F(-np.inf), score)
        score = np.exp(score - score.max(axis=-1, keepdims=True))
        score /= score.sum(axis=-1, keepdims=True)
        out = np.einsum("hij,jhd->ihd", score, v, optimize=True).reshape(n, -1)
        return self.linear(out, b + "attn_output")

    # ---- mixers with state, position by position from the beginning ----

    def convolve(self, x, b):
        """Of each column with itself, over the last positions; zeros come before the first."""
        w = self.w(b + "ssm_conv1d.weight").reshape(x.shape[1], -1)
        taps = w.shape[1]
        padded = np.concatenate([np.zeros((taps - 1, x.shape[1]), F), x])
        y = sum(padded[k:k + len(x)] * w[:, k] for k in range(taps))
        bias = self.w(b + "ssm_conv1d.bias", False)
        return y if bias is None else y + bias

    def short_conv(self, x, b):
        before, behind, x = np.split(self.linear(x, b + "ssm_in"), 3, axis=-1)
        return self.linear(behind * self.convolve(before * x, b), b + "ssm_out")

    def mamba2(self, x, b):
        """The recurrence of arXiv 2405.21060, section 7, in 64 bits."""
        inner, state, heads, groups = (self.get("ssm." + k) for k in (
            "inner_size", "state_size", "time_step_rank", "group_count"))
        z, wide, step = np.split(self.linear(x, b + "ssm_in"),
                                 [inner, 2 * inner + 2 * groups * state], axis=-1)
        x, write, read = np.split(silu(self.convolve(wide, b)), [inner, inner + groups * state], axis=-1)
        n, each = len(x), inner // heads
        x = x.reshape(n, heads, each)
        write, read = (np.repeat(t.reshape(n, groups, state), heads // groups, axis=1)
                       for t in (write, read))
        step = softplus(step + self.w(b + "ssm_dt.bias").reshape(-1))
        keep = np.exp(step * self.w(b + "ssm_a").reshape(-1))
        sums, y = np.zeros((heads, each, state)), np.zeros(x.shape)
        for i in range(n):
            sums = sums * keep[i][:, None, None]
            sums = sums + (x[i] * step[i][:, None])[..., None] * write[i][:, None, :]
            y[i] = np.einsum("hes,hs->he", sums, read[i]) + x[i] * self.w(b + "ssm_d").reshape(-1, 1)
        y = silu(z) * y.reshape(n, inner).astype(F)
        weight = self.w(b + "ssm_norm.weight", False)
        if weight is not None:
            y = rms_norm(y.reshape(n, groups, -1), weight.reshape(groups, -1), self.eps).reshape(n, inner)
        return self.linear(y, b + "ssm_out")

    def mamba(self, x, b):
        """The recurrence of arXiv 2312.00752, algorithm 2, in 64 bits; with norms as in FalconMamba."""
        rank, state = self.get("ssm.time_step_rank"), self.get("ssm.state_size")
        x, z = np.split(self.linear(x, b + "ssm_in"), 2, axis=-1)
        x = silu(self.convolve(x, b))
        parts = np.split(x @ self.w(b + "ssm_x.weight").T, [rank, rank + state], axis=-1)
        if self.get("ssm.dt_b_c_rms"): parts = [rms_norm(t, F(1), self.eps) for t in parts]
        step, write, read = parts
        step = softplus(self.linear(step, b + "ssm_dt"))
        sums, y = np.zeros((x.shape[1], state)), np.zeros(x.shape)
        decay = self.w(b + "ssm_a").reshape(-1, state)
        for i in range(len(x)):
            sums = sums * np.exp(step[i][:, None] * decay) + (step[i] * x[i])[:, None] * write[i]
            y[i] = sums @ read[i] + x[i] * self.w(b + "ssm_d")
        return self.linear(y.astype(F) * silu(z), b + "ssm_out")

    def plamo(self, x, b):
        """Narrow steps as in Mamba-1, heads as in Mamba-2; steps, B and C are normed, in 64 bits."""
        inner, heads, state = (self.get("ssm." + k) for k in ("inner_size", "time_step_rank", "state_size"))
        n, wide = len(x), self.linear(x, b + "ssm_in")
        if b + "attn_gate.weight" in self.tensors: z, x = self.linear(x, b + "attn_gate"), wide
        else: z, x = (t.reshape(n, inner) for t in np.split(wide.reshape(n, heads, -1), 2, axis=-1))
        x = silu(self.convolve(x, b))
        parts = np.split(x @ self.w(b + "ssm_x.weight").T, [state, 2 * state], axis=-1)
        write, read, step = (rms_norm(t, self.w(f"{b}ssm_{name}_norm"), self.eps)
                             for t, name in zip(parts, ("b", "c", "dt")))
        step = softplus(self.linear(step, b + "ssm_dt"))
        keep = np.exp(step * self.w(b + "ssm_a"))
        x = x.reshape(n, heads, -1)
        sums, y = np.zeros((heads, x.shape[2], state)), np.zeros(x.shape)
        for i in range(n):
            sums = sums * keep[i][:, None, None] + (x[i] * step[i][:, None])[..., None] * write[i]
            y[i] = sums @ read[i] + x[i] * self.w(b + "ssm_d")[:, None]
        return self.linear(silu(z) * y.reshape(n, inner).astype(F), b + "ssm_out")

    def delta_net(self, x, b):
        """The recurrence of arXiv 2412.06464, equation 10, in 64 bits."""
        inner, state, heads, groups = (self.get("ssm." + k) for k in (
            "inner_size", "state_size", "time_step_rank", "group_count"))
        n, wide = len(x), self.linear(x, b + "ssm_in")
        if b + "attn_gate.weight" in self.tensors: z = self.linear(x, b + "attn_gate")
        else:                               # [groups][queries, keys, values, gates]
            *parts, z = np.split(wide.reshape(n, groups, -1), [state, 2 * state, 2 * state + inner // groups],
                                 axis=-1)
            wide, z = np.concatenate([t.reshape(n, -1) for t in parts], axis=-1), z.reshape(n, -1)
        if self.arch == "qwen3next":        # [groups][betas, alphas], heads of a group side by side
            beta, alpha = (t.reshape(n, heads) for t in np.split(
                self.linear(x, b + "ssm_beta").reshape(n, groups, -1), 2, axis=-1))
        else: beta, alpha = self.linear(x, b + "ssm_beta"), self.linear(x, b + "ssm_alpha")
        beta = 1 / (1 + np.exp(-beta.astype(np.float64)))
        step = softplus(alpha + self.w(b + "ssm_dt.bias").reshape(-1))
        keep = np.exp(step * self.w(b + "ssm_a").reshape(-1))
        q, k, v = np.split(silu(self.convolve(wide, b)),
                           [groups * state, 2 * groups * state], axis=-1)
        def unit(t):
            t = t.reshape(n, groups, state).astype(np.float64)
            t = t / np.sqrt((t * t).sum(-1, keepdims=True) + self.eps)
            return (np.repeat(t, heads // groups, axis=1) if self.arch == "qwen3next"
                    else np.tile(t, (1, heads // groups, 1)))
        q, k, v = unit(q) / math.sqrt(state), unit(k), v.reshape(n, heads, -1)
        sums, y = np.zeros((heads, v.shape[-1], state)), np.zeros(v.shape)
        for i in range(n):
            sums = sums * keep[i][:, None, None]
            more = beta[i][:, None] * (v[i] - np.einsum("hvk,hk->hv", sums, k[i]))
            sums = sums + more[..., None] * k[i][:, None, :]
            y[i] = np.einsum("hvk,hk->hv", sums, q[i])
        y = rms_norm(y.astype(F), self.w(b + "ssm_norm.weight"), self.eps).reshape(n, inner)
        return self.linear(y * silu(z), b + "ssm_out")

    def mix(self, x, layer, n_ctx):
        b = f"blk.{layer}."
        if self.arch in ("deepseek2", "minicpm3"): return self.latent_attention(x, layer, n_ctx)
        if "rwkv" in self.arch: return rwkv.mix(self, x, b)
        if b + "ssm_in.weight" not in self.tensors: return self.attention(x, layer, n_ctx)
        if self.arch == "falcon-h1": return self.mamba2(x, b) + self.attention(x, layer, n_ctx)
        if self.arch in GATED_QUERIES: return self.delta_net(x, b)
        if self.arch == "mamba": return self.mamba(x, b)
        if self.arch == "plamo2": return self.plamo(x, b)
        return (self.short_conv if self.arch.startswith("lfm2") else self.mamba2)(x, b)

    def xielu(self, x, layer):
        return xielu(x, *(self.kv["xielu." + k][layer] for k in ("alpha_p", "alpha_n", "beta", "eps")))

    def ffn(self, x, b):
        if b + "ffn_gate_inp.weight" in self.tensors: return experts.mixture(self, x, b)
        return self.dense(x, b)

    def dense(self, x, b):
        act = self.gelu if self.arch in GELU else relu2 if self.arch in RELU2 else silu
        if self.arch == "apertus": act = lambda up: self.xielu(up, int(b.split(".")[1]))
        if self.arch == "rwkv7": x = rwkv.shifted(self, x, b)
        up = self.linear(x, b + "ffn_up")
        if b + "ffn_gate.weight" in self.tensors: up = act(self.linear(x, b + "ffn_gate")) * up
        elif self.arch in ("phi3", "glm4", "plamo2"):
            up = act(up[:, :up.shape[1] // 2]) * up[:, up.shape[1] // 2:]
        else: up = act(up)
        if b + "ffn_sub_norm.weight" in self.tensors: up = self.norm(up, b + "ffn_sub_norm")
        return self.linear(up, b + "ffn_down")

    def layer(self, x, i, n_ctx):
        if self.arch in later_gemmas.NAMES: return later_gemmas.layer(self, x, i)
        b = f"blk.{i}."
        def has(name): return f"{b}{name}.weight" in self.tensors
        def before(x, name): return self.norm(x, b + name) if has(name) or self.arch == "olmo" else x
        def behind(y, name):
            if has(name): y = self.norm(y, b + name)
            return y * F(self.get("residual_scale", 1.0))
        self.layer_input = x
        if self.arch in ONE_PART:
            normed = before(x, "attn_norm" if has("attn_norm") else "ffn_norm")
            alone = has("ffn_up") or has("ffn_gate_inp")
            return x + (self.ffn(normed, b) if alone else self.mix(normed, i, n_ctx))
        normed = before(x, "attn_norm")
        y = behind(self.mix(normed, i, n_ctx), "post_attention_norm")
        # both on the layer's input, by one norm or by two
        together = self.arch in ("phi2", "falcon", "command-r", "cohere2") or (
            self.arch == "stablelm" and not has("ffn_norm")) or self.get("use_parallel_residual")
        if together:
            normed = before(x, "ffn_norm") if has("ffn_norm") else normed
            return x + y + behind(self.ffn(normed, b), "post_ffw_norm")
        x = x + y
        return x + behind(self.ffn(before(x, "ffn_norm"), b), "post_ffw_norm")

    # ---- the whole ----

    def logits(self, ids, n_ctx=None, last=True):
        """float32 logits after the last id, or [ids][vocab] after each.  n_ctx matters only to longrope."""
        n_ctx = n_ctx or self.get("context_length")
        x = self.w("token_embd.weight")[np.asarray(ids)]
        if self.arch in ("gemma2", "gemma3", "gemma3n", "gemma4"): x = x * F(math.sqrt(self.n_embd))
        if self.arch in later_gemmas.NAMES: x = later_gemmas.begin(self, x, ids)
        x = x * F(self.get("embedding_scale", 1.0))
        if "position_embd.weight" in self.tensors: x = x + self.w("position_embd.weight")[:len(ids)]
        if "token_embd_norm.weight" in self.tensors: x = self.norm(x, "token_embd_norm")
        for i in range(self.n_layers): x = self.layer(x, i, n_ctx)
        if self.arch == "gemma3n": x = later_gemmas.end(self, x)
        x = self.norm(x[-1:] if last else x, "output_norm")
        head = "output" if "output.weight" in self.tensors else "token_embd"
        y = self.linear(x, head)
        scale = self.get("logit_scale", 0.0)
        over = self.arch in ("granite", "granitemoe", "granitehybrid", "minicpm")
        if scale: y = y * F(1 / scale if over else scale)
        y = soft_cap(y, self.get("final_logit_softcapping", 30.0 if self.arch == "gemma3n" else None))
        return y[0] if last else y


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("model"); p.add_argument("ids"); p.add_argument("-c", type=int)
    p.add_argument("--all", action="store_true")
    a = p.parse_args()
    y = Model(a.model).logits([int(i) for i in a.ids.split(",")], a.c, last=not a.all)
    print(json.dumps([float(f"{v:.7g}") for v in y]
                     if y.ndim == 1 else [[float(f"{v:.7g}") for v in row] for row in y]))

if __name__ == "__main__":
    main()
