"""Embeddings of random tiny encoders against llama.cpp's.  A part of run.py.
SPDX-License-Identifier: MIT"""
import json, math, pathlib, re
import numpy as np

import make_tiny
from reference import F, Reader, alibi_slopes, floats, gelu, gelu_f16, layer_norm, rms_norm, silu

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
EXACT = 1e-5                # of the largest number, float run against the reference
# llama.cpp against the reference with its GELU, a table of 16-bit floats: an input near an edge
# is rounded either way
CLOSE = 3e-4

class Encoder:
    """What the papers say, in float32."""
    def __init__(self, path, gelu):
        reader = Reader(path)
        self.kv = {k: f.contents() for k, f in reader.fields.items()}
        self.arch = self.kv["general.architecture"]
        self.w = {t.name: floats(t).astype(F) for t in reader.tensors}
        self.act = silu if self.arch in ("nomic-bert", "eurobert", "neo-bert") else gelu
        g = self.get
        self.n_layers, self.heads = g("block_count"), g("attention.head_count")
        self.kv_heads = g("attention.head_count_kv", self.heads)
        self.d = g("attention.key_length", g("embedding_length") // self.heads)

    def get(self, key, default=None):
        return self.kv.get(f"{self.arch}.{key}", default)

    def norm(self, x, name):
        w, b = self.w[name + ".weight"], self.w.get(name + ".bias")
        rms = self.get("attention.layer_norm_rms_epsilon")
        return rms_norm(x, w, rms) if rms else layer_norm(x, w, b, self.get("attention.layer_norm_epsilon"))

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", F(0))

    def windowed(self, i):
        if not self.get("attention.sliding_window"): return False
        return i % 3 != 0 if self.arch == "modern-bert" else i % 6 != 5

    def rotate(self, x, base):                              # x[rows][heads][d]
        angle = np.outer(np.arange(len(x)), float(base) ** (-np.arange(0, self.d, 2) / self.d))[:, None, :]
        cos, sin = np.cos(angle).astype(F), np.sin(angle).astype(F)
        pairs = self.arch == "neo-bert"
        a, b = (x[..., ::2], x[..., 1::2]) if pairs else np.split(x, 2, axis=-1)
        turned = a * cos - b * sin, a * sin + b * cos
        return np.stack(turned, axis=-1).reshape(x.shape) if pairs else np.concatenate(turned, axis=-1)

    def attention(self, x, i):
        b, n = f"blk.{i}.", len(x)
        sizes = np.cumsum([self.heads * self.d, self.kv_heads * self.d])
        if b + "attn_qkv.weight" in self.w: q, k, v = np.split(self.linear(x, b + "attn_qkv"), sizes, axis=-1)
        else: q, k, v = (self.linear(x, b + "attn_" + c) for c in "qkv")
        if self.arch == "jina-bert-v2" and b + "attn_q_norm.weight" in self.w:
            q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
        q, k, v = (t.reshape(n, -1, self.d) for t in (q, k, v))
        if self.arch == "gemma-embedding":
            q, k = self.norm(q, b + "attn_q_norm"), self.norm(k, b + "attn_k_norm")
        if self.arch not in ("bert", "jina-bert-v2"):
            base = self.get("rope.freq_base_swa" if self.windowed(i) else "rope.freq_base")
            q, k = self.rotate(q, base), self.rotate(k, base)
        k, v = (np.repeat(t, self.heads // self.kv_heads, axis=1) for t in (k, v))
        s = np.einsum("ihd,jhd->hij", q, k) * F(1 / math.sqrt(self.d))
        far = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
        if self.arch == "jina-bert-v2": s = s - alibi_slopes(self.heads, 8)[:, None, None] * far.astype(F)
        if self.windowed(i): s = np.where(far > self.get("attention.sliding_window") // 2, F(-np.inf), s)
        s = np.exp(s - s.max(axis=-1, keepdims=True))
        s /= s.sum(axis=-1, keepdims=True)
        return self.linear(np.einsum("hij,jhd->ihd", s, v).reshape(n, -1), b + "attn_output")

    def ffn(self, x, b):
        up = self.linear(x, b + "ffn_up")
        if b + "ffn_gate.weight" in self.w: up = self.act(self.linear(x, b + "ffn_gate")) * up
        elif up.shape[1] != self.get("feed_forward_length"):
            gate, up = np.split(up, 2, axis=-1)
            up = self.act(gate) * up
        else: up = self.act(up)
        return self.linear(up, b + "ffn_down")

    def experts(self, x, b):
        """The k most probable experts of each row, by their probabilities."""
        p = x @ self.w[b + "ffn_gate_inp.weight"].T
        p = np.exp(p - p.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        up, down = self.w[b + "ffn_up_exps.weight"], self.w[b + "ffn_down_exps.weight"]
        def row(x, p):
            chosen = np.argsort(-p, kind="stable")[:self.get("expert_used_count")]
            return sum(p[e] * (down[e] @ self.act(up[e] @ x)) for e in chosen)
        return np.stack([row(*each) for each in zip(x, p)]) * F(self.get("expert_weights_scale", 1))

    def layer(self, x, i):
        b = f"blk.{i}."
        if b + "attn_output_norm.weight" in self.w:
            before, x = x, self.norm(x + self.attention(x, i), b + "attn_output_norm")
            if b + "attn_norm_2.weight" in self.w: x = self.norm(x + before, b + "attn_norm_2")
            if b + "ffn_gate_inp.weight" in self.w:
                return self.norm(x + self.experts(x, b), b + "layer_output_norm")
            return self.norm(x + self.ffn(x, b), b + "layer_output_norm")
        def behind(y, name): return self.norm(y, b + name) if f"{b}{name}.weight" in self.w else y
        y = self.norm(x, b + "attn_norm") if b + "attn_norm.weight" in self.w else x
        x = x + behind(self.attention(y, i), "post_attention_norm")
        return x + behind(self.ffn(self.norm(x, b + "ffn_norm"), b), "post_ffw_norm")

    def rows(self, ids):
        x = self.w["token_embd.weight"][np.asarray(ids)]
        if self.arch == "gemma-embedding": x = x * F(math.sqrt(x.shape[1]))
        if "token_types.weight" in self.w: x = x + self.w["token_types.weight"].reshape(-1, x.shape[1])[0]
        if "position_embd.weight" in self.w: x = x + self.w["position_embd.weight"][:len(ids)]
        if "token_embd_norm.weight" in self.w: x = self.norm(x, "token_embd_norm")
        for i in range(self.n_layers): x = self.layer(x, i)
        last = "enc.output_norm" if self.arch == "neo-bert" else "output_norm"
        return self.norm(x, last) if last + ".weight" in self.w else x

    def embed(self, texts, pool):
        def one(x):
            if pool == "rank": return self.linear(np.tanh(self.linear(x[:1], "cls")), "cls.output")
            return x if pool == "none" else {"mean": x.mean(axis=0), "cls": x[0], "last": x[-1]}[pool][None]
        x = np.concatenate([one(self.rows(t)) for t in texts])
        return self.linear(self.linear(x, "dense_2"), "dense_3") if "dense_2.weight" in self.w else x

def embed(r, model, texts, pool, *options):
    """pool None: the file's."""
    ids = ";".join(",".join(map(str, t)) for t in texts)
    how = ("--pooling", pool) if pool else ()
    out = r.call(r.a.qsf_run, "-m", model, "--embedding", "--ids", ids, "-t", r.a.threads, *how, *options)
    return np.array([[float(x) for x in row.split()] for row in out.decode().splitlines()])

def close(got, want, bound):
    if got.shape != want.shape: return False, f"{got.shape} numbers, expected {want.shape}"
    error = float(np.abs(got - want).max() / np.abs(want).max())
    return error <= bound, f"largest relative difference {error:.1e}"

def check_encoders(r):
    golden = json.loads((GOLDEN / "encoders.json").read_text())
    for name, m in make_tiny.encoders():
        if r.wanted("encoders", name): check_encoder(r, name, m, golden[name])

def check_encoder(r, name, m, g):
    path, digest = make_tiny.make(r.a.cache, name)
    label = f"encoder {name}"
    if digest != g["sha256"]: return r.report(False, label, f"the file has SHA-256 {digest[:12]}...")
    texts, plain = g["texts"], ("--f32", "--embedding-plain")
    alone = m["arch"] == "qwen3"    # causal or not, and without GELU: llama.cpp alone judges
    if not alone: exact, rough = Encoder(path, gelu), Encoder(path, gelu_f16)
    for pool, rows in g["embeddings"].items():
        if alone and m.get("classes") and pool != "rank": return
        of = texts[1:2] if pool == "none" else texts
        want = np.array(rows).reshape(-1, m["classes"] if pool == "rank" else m["n_embd"])
        if alone:
            r.check(f"{label}, {pool}", lambda: close(embed(r, path, of, pool, *plain), want, EXACT))
            continue
        r.check(f"{label}, {pool}, reference and llama.cpp",
                lambda: close(rough.embed(of, pool), want, CLOSE))
        r.check(f"{label}, {pool}",
                lambda: close(embed(r, path, of, pool, *plain), exact.embed(of, pool), EXACT))
    pool = "rank" if m.get("classes") else "mean"
    one_by_one = lambda model, *o: np.concatenate([embed(r, model, [t], pool, *o) for t in texts])
    def same(*options):
        a, b = embed(r, path, texts, pool, *options), one_by_one(path, *options)
        return bool((a == b).all()), "the same bits together and alone"
    def budget():
        """The least that there is, in which layers stream."""
        try: embed(r, path, texts, pool, "--ram-budget", 1)
        except Exception as e: least = re.search(r"needs at least (\d+) MB", str(e))
        a = embed(r, path, texts, pool, *plain)
        b = embed(r, path, texts, pool, "--ram-budget", least[1], *plain)
        return bool((a == b).all()), f"the same bits within {least[1]} MB"
    def converted():
        qsf = r.a.cache / f"{name}-encoder.qsf"
        r.call(r.a.convert, "--quiet", "--quant-type", "f16", path, qsf)
        r.call(r.a.convert, "--verify", qsf)
        # Weights become 16-bit floats.
        return close(embed(r, qsf, texts, pool, *plain), embed(r, path, texts, pool, *plain), 0.01)
    r.check(f"{label}, f32 together", same, *plain)
    r.check(f"{label}, together", same)
    r.check(f"{label}, budget", budget)
    r.check(f"{label}, QSF", converted)
