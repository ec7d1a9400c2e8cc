"""Tiny EAGLE 3 heads for models of make_tiny.py, random ones and ones that are mostly right.
SPDX-License-Identifier: MIT
"""
import pathlib
import sys
import numpy as np
from gguf import GGUFReader, GGUFWriter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_tiny                                            # noqa: E402

F = np.float32
TAPS = [0, 1, 2]
STEP = 9                # every ninth number of a line is recorded in eagle.json


class Head:
    """own: it has an embedding of its own, and may be wider than its model.  n_draft: the number of the
    model's tokens that it predicts.  knows: the next token of a model for which only the last one counts
    (mtp_models.py).  wrong: name -> what stands in place of a tensor, or None; keys: the same of keys."""
    def __init__(self, path, target, m, n_embd=None, own=False, n_draft=0, normed=False, fc_norm=False,
                 knows=False, taps=None, rope_freqs=False, wrong={}, keys={}, seed=1):
        self.rng, self.w = make_tiny.Random(9000 + seed), GGUFWriter(str(path), "eagle3")
        self.m, self.e, self.wrong = m, n_embd or m["n_embd"], wrong
        self.heads, self.kv_heads = (4, 4) if knows else (4, 2)
        self.dim, self.ff = self.e // self.heads, 2 * self.e
        self.n_vocab = make_tiny.N_VOCAB
        values = {"context_length": 1024, "embedding_length": self.e, "block_count": 1,
                  "feed_forward_length": self.ff, "attention.head_count": self.heads,
                  "attention.head_count_kv": self.kv_heads, "attention.layer_norm_rms_epsilon": 1e-5,
                  "vocab_size": self.n_vocab, "rope.dimension_count": self.dim,
                  "target_layers": taps or TAPS, "target_hidden_size": m["n_embd"],
                  "norm_before_residual": normed, "norm_before_fc": fc_norm, **keys}
        for key, value in values.items():
            if value is None: continue
            add = (self.w.add_array if isinstance(value, list) else self.w.add_bool
                   if isinstance(value, bool) else self.w.add_uint32 if isinstance(value, int)
                   else self.w.add_float32)
            add(f"eagle3.{key}", value)
        make_tiny.add_spm(self.w) if m["vocab"] == "spm" else make_tiny.add_bpe(self.w)
        ids = np.argsort(self.rng.bits(self.n_vocab))[:n_draft] if n_draft else np.arange(self.n_vocab)
        if n_draft: self.add("d2t", ids.astype(np.int64))
        if own: self.matrix("token_embd.weight", self.n_vocab, self.e)
        if rope_freqs: self.add("rope_freqs.weight", self.rng.uniform(self.dim // 2, 1, 8).astype(F))
        if fc_norm: self.vector("enc.output_norm.weight", 3 * m["n_embd"], 1)
        self.known(target, ids, normed) if knows else self.random(len(ids))
        self.w.write_header_to_file(), self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file(), self.w.close()

    def add(self, name, x):
        x = self.wrong.get(name, x)
        if x is not None: self.w.add_tensor(name, x)

    def vector(self, name, n, mean, std=0.3):
        self.add(name, (mean + self.rng.uniform(n, -std, std)).astype(F))

    def matrix(self, name, rows, cols, gain=1.0):
        self.add(name, self.rng.normal(rows * cols, gain / cols**0.5).reshape(rows, cols))

    def sizes(self):
        """Of the layer's matrices besides those of attention's inputs."""
        return {"ffn_gate": (self.ff, self.e), "ffn_up": (self.ff, self.e), "ffn_down": (self.e, self.ff)}

    def random(self, n_draft):
        e, d = self.e, self.dim
        self.matrix("fc.weight", e, 3 * self.m["n_embd"])
        for name in "attn_norm", "attn_norm_2", "ffn_norm": self.vector(f"blk.0.{name}.weight", e, 1)
        for name, heads in ("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads):
            self.matrix(f"blk.0.attn_{name}.weight", heads * d, 2 * e, 1.5)
        self.matrix("blk.0.attn_output.weight", e, self.heads * d)
        for name, size in self.sizes().items(): self.matrix(f"blk.0.{name}.weight", *size)
        self.vector("output_norm.weight", e, 2.5)
        self.matrix("output.weight", n_draft, e)

    def known(self, target, ids, normed):
        """Attention finds the row's own token, whose normed embedding becomes the stream."""
        e = self.e
        tensors = {t.name: t for t in GGUFReader(target).tensors}
        head = tensors.get("output.weight", tensors["token_embd.weight"]).data
        self.matrix("fc.weight", e, 3 * self.m["n_embd"], 1e-4)
        self.vector("blk.0.attn_norm.weight", e, 1, 0)
        self.vector("blk.0.attn_norm_2.weight", e, 0.01 if normed else 1, 0)
        self.vector("blk.0.ffn_norm.weight", e, 1)
        for name, gain in ("q", 10), ("k", 1), ("v", 1):
            self.add(f"blk.0.attn_{name}.weight", gain * np.eye(e, 2 * e, dtype=F))
        self.add("blk.0.attn_output.weight", np.eye(e, dtype=F))
        for name, size in self.sizes().items(): self.matrix(f"blk.0.{name}.weight", *size, 0.01)
        self.vector("output_norm.weight", e, 2.5, 0)
        self.add("output.weight", np.array(head, F)[ids])


def write(folder, name, target, m, **more):
    path = folder / f"eagle-{name}.gguf"
    Head(path, target, m, **more)
    return path


def heads():
    """(head's name, model of make_tiny.py, what the head is); eagle.json has llama.cpp's numbers of these."""
    yield "plain", "llama", {}
    yield "norms", "qwen3", dict(normed=True, fc_norm=True, n_draft=128, seed=2)
    yield "own", "gemma4-plain", dict(own=True, n_embd=96, n_draft=100, taps=[1, 3, 2], rope_freqs=True,
                                      seed=3)
    yield "state", "qwen35", dict(taps=[2, 4, 1], n_draft=257, fc_norm=True, seed=4)


def ids_of(head):
    """The model's tokens that a head predicts."""
    tensors = {t.name: t for t in GGUFReader(head).tensors}
    return tensors["d2t"].data if "d2t" in tensors else np.arange(make_tiny.N_VOCAB)
