"""Tiny models with a layer for multi-token prediction, random ones and ones whose layer is mostly right.
SPDX-License-Identifier: MIT
"""
import pathlib
import sys
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_tiny                                            # noqa: E402

F = np.float32


class Writer(make_tiny.Writer):
    """own: the layer has its own embedding and head.  near: 0: random; else how far the model is from one
    whose next token depends on the last one alone, which its layer then predicts."""
    def guessing_layer(self, i):
        super().guessing_layer(i)
        if self.m.get("own"):
            self.matrix(f"blk.{i}.nextn.embed_tokens.weight", self.n_vocab, self.m["n_embd"], 1.0)
            self.matrix(f"blk.{i}.nextn.shared_head_head.weight", self.n_vocab, self.m["n_embd"], 1.0)

    def matrix(self, name, rows, cols, gain, kind=None, dead=0, n=0):
        near = self.m.get("near")
        if near and name.endswith("nextn.eh_proj.weight"):
            x = np.concatenate([np.eye(rows), np.zeros((rows, rows))], axis=1).astype(F)
            return self.w.add_tensor(name, x)
        if near and any(part in name for part in ("attn_output", "ffn_down", "ssm_out")): gain *= near
        return super().matrix(name, rows, cols, gain, kind, dead, n)

    def vector(self, name, n, mean, std, each=None):
        if self.m.get("near") and name.endswith(("norm.weight", "norm")) and n == self.m["n_embd"] and \
                not name.endswith(("attn_norm.weight", "attention_norm.weight")):
            mean, std = (1, 0) if "nextn" in name and "shared" not in name else (2.5, 0)
        return super().vector(name, n, mean, std, each)


def write(folder, name, **more):
    m = {**make_tiny.models()[name], **more}
    path = folder / ("-".join([name, *map(str, more)]) + ".gguf")
    Writer(path, m).write()
    return path


def families():
    """(name, what it needs besides) of every architecture that has such layers"""
    m = make_tiny.models()
    yield "glm4moe", {}
    yield "qwen35-nextn", {}
    yield "qwen2", dict(nextn=1, kv={**m["qwen2"]["kv"], "nextn_predict_layers": 1})      # MiMo
    for name, kinds in ("qwen3next", "ddada"), ("qwen35moe", "ddada"), ("deepseek2", "llll"):
        yield name, dict(nextn=1, kinds=kinds, kv={**m[name]["kv"], "nextn_predict_layers": 1})
