#!/usr/bin/env python3
"""Writes random models of the shapes of real ones as GGUF files, for measurements of speed.
SPDX-License-Identifier: MIT

    make_shapes.py OUT_DIR [NAME...]        prints each path; without names all but dense ones

The writer is the parity tests' (../parity/make_tiny.py), with other sizes, the types that llama-quantize
gives the tensors of a Q4_K_M file, and weights that repeat: no kernel's time depends on their values. A file
that is there already stays. gpt-oss is 5 GB, the others are 0.1 to 2 GB.
"""
import pathlib, sys
import numpy as np
from gguf import GGMLQuantizationType as Q

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
import make_tiny
from tiny_models import SMALL, ssm

BAND = 256                  # rows that are random; those below repeat them

def experts(n, used, ff, **kv):
    return dict(experts=dict(n=n, ff=ff, shared=0), n_ff=ff,
                kv={"expert_count": n, "expert_used_count": used, "expert_feed_forward_length": ff, **kv})

def shapes():
    """name -> description, as tiny_models.py has them, plus n_vocab."""
    base = dict(SMALL, type=Q.Q4_K, tied=True, qk_norm="head")
    yield "lfm2-1.2b", dict(base, arch="lfm2", n_embd=2048, n_layers=16, n_heads=32, n_kv_heads=8, n_ff=8192,
                            n_vocab=65536, kinds="ccaccaccacacacac", final="token_embd_norm",
                            kv={"shortconv.l_cache": 3, "rope.freq_base": 1e6})
    yield "qwen35-0.8b", dict(base, arch="qwen35", n_embd=1024, n_layers=24, n_heads=8, n_kv_heads=2,
                              head_dim=256, n_ff=3584, n_vocab=248320, kinds="ddda" * 6, attn_gate=True,
                              ffn_norm="post_attention_norm", sections=[11, 11, 10, 0],
                              kv={"rope.dimension_count": 64, "rope.freq_base": 1e7,
                                  "full_attention_interval": 4, **ssm(2048, 16, 16, 128)})
    granite = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 6.0,
               "attention.scale": 0.0078125, "rope.scaling.finetuned": False}
    kinds = "".join("a" if i % 10 == 5 else "m" for i in range(40))
    plain = {k: v for k, v in base.items() if k != "qk_norm"}
    yield "granitehybrid-1b", dict(plain, arch="granitehybrid", n_embd=1536, n_layers=40, n_heads=12,
                                   n_kv_heads=4, n_ff=4096, n_vocab=100352, kinds=kinds,
                                   kv={**granite, **ssm(3072, 48, 1, 128)})
    yield "qwen3moe-1b-a0.3b", dict(base, arch="qwen3moe", n_embd=1024, n_layers=16, n_heads=16, n_kv_heads=4,
                                    head_dim=64, n_vocab=32768, **experts(32, 8, 512))
    oss = experts(32, 4, 2880, **{
        "attention.sliding_window": 128, "rope.freq_base": 150000.0, "rope.scaling.type": "yarn",
        "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 4096})
    oss["experts"].update(bias=True, type=Q.MXFP4)
    yield "gpt-oss-8-layers", dict(plain, arch="gpt-oss", type=Q.Q8_0, n_embd=2880, n_layers=8, n_heads=64,
                                   n_kv_heads=8, head_dim=64, n_vocab=201088, tied=False, qkv_bias=True,
                                   out_bias=True, ffn_norm="post_attention_norm", sinks=True, **oss)
    pattern = [i % 5 < 4 for i in range(30)]
    yield "gemma3n-e2b", dict(base, arch="gemma3n", n_embd=2048, n_layers=30, n_heads=8, n_kv_heads=2,
                              head_dim=256, n_ff=8192, n_vocab=65536, post=True, row=256, altup=True,
                              gain=0.35, kv={"attention.sliding_window": 512,
                                             "attention.sliding_window_pattern": pattern,
                                             "attention.shared_kv_layers": 10, "rope.freq_base": 1e6,
                                             "rope.freq_base_swa": 1e4})
    yield "mamba2-0.8b", dict(plain, arch="mamba2", n_embd=1536, n_layers=48, n_vocab=50288, kinds="m" * 48,
                              one_part=True, kv=ssm(3072, 48, 1, 128))
    yield "falcon-mamba-0.7b", dict(plain, arch="mamba", n_embd=1536, n_layers=48, n_vocab=65024,
                                    kinds="s" * 48, one_part=True,
                                    kv={**ssm(3072, 96, 1, 16), "ssm.dt_b_c_rms": True})
    yield "bert-base", dict(plain, arch="bert", type=Q.Q8_0, n_embd=768, n_layers=12, n_heads=12,
                            n_kv_heads=12, n_ff=3072, n_vocab=30522, norm="layer", norm_bias=True,
                            flow="sums", token_norm=True, no_output=True, encoder=True, gated=False,
                            qkv_bias=True, out_bias=True, ffn_bias=True, types=2, learned=True,
                            kv={"attention.causal": False, "pooling_type": 1})

def dense_shapes():
    """The same, of plain dense decoders in Q4_0: what GPUs are measured with."""
    for name, n_embd, n_layers, n_heads, n_kv_heads, head_dim, n_ff, n_vocab in (
            ("smollm2-135m", 576, 30, 9, 3, 64, 1536, 49152),
            ("qwen2.5-0.5b", 896, 24, 14, 2, 64, 4864, 151936),
            ("qwen2.5-1.5b", 1536, 28, 12, 2, 128, 8960, 151936),
            ("qwen2.5-7b", 3584, 28, 28, 4, 128, 18944, 152064)):
        yield name, dict(SMALL, arch="llama", type=Q.Q4_0, tied=True, n_embd=n_embd, n_layers=n_layers,
                         n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=head_dim, n_ff=n_ff,
                         n_vocab=n_vocab)


def long_shapes():
    """What long contexts are measured with: groups of seven, windows in five of six layers, latents."""
    base = dict(SMALL, type=Q.Q4_0, tied=True)
    yield "qwen2.5-0.5b", dict(dense_shapes())["qwen2.5-0.5b"]
    yield "gemma3-1b", dict(base, arch="gemma3", n_embd=1152, n_layers=26, n_heads=4, n_kv_heads=1,
                            head_dim=256, n_ff=6912, n_vocab=65536, qk_norm="head", post=True, gain=0.35,
                            kv={"attention.sliding_window": 512, "rope.freq_base": 1e6})
    yield "deepseek2-2b", dict(base, arch="deepseek2", n_embd=2048, n_layers=12, n_heads=16, n_kv_heads=1,
                               head_dim=192, n_ff=8192, n_vocab=65536, kinds=12 * "l", kv={
        "attention.q_lora_rank": 768, "attention.kv_lora_rank": 512, "attention.key_length": 576,
        "attention.value_length": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
        "rope.dimension_count": 64, "leading_dense_block_count": 12, "expert_feed_forward_length": 8192,
        "expert_count": 0, "expert_used_count": 0, "expert_shared_count": 0, "expert_weights_scale": 1.0})


class ShapeWriter(make_tiny.Writer):
    def __init__(self, path, m):
        super().__init__(path, m)
        self.n_vocab, self.context = m["n_vocab"], 512 if m["arch"] == "bert" else 131072

    def vocabulary(self):
        w, n = self.w, self.n_vocab
        tokens = make_tiny.byte_letters()
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("gpt-2")
        w.add_token_list(tokens + [f"t{i}" for i in range(len(tokens), n - 2)] + ["<|begin|>", "<|end|>"])
        w.add_token_types([1] * (n - 2) + [3, 3])
        w.add_token_merges(["t h"])
        w.add_bos_token_id(n - 2)
        w.add_eos_token_id(n - 1)
        w.add_add_bos_token(False)

    def type_of(self, name, cols):
        """As llama-quantize gives them in Q4_K_M: more bits to embedding, head, and what is sensitive."""
        if self.m["type"] != Q.Q4_K: return self.m["type"]
        if cols % 256: return Q.Q8_0
        sensitive = ("token_embd", "output.weight", "ffn_down", "attn_v.", "attn_qkv")
        return Q.Q6_K if any(s in name for s in sensitive) else Q.Q4_K

    def matrix(self, name, rows, cols, gain, kind=None, dead=0, n=0):
        if kind is None: kind = n and self.m.get("experts", {}).get("type") or self.type_of(name, cols)
        total, std = rows * max(n, 1), gain / cols**0.5
        if kind == Q.F32:
            data = np.resize(self.rng.normal(min(total, BAND) * cols, std), (total, cols))
        else:
            make_blocks = (make_tiny.random_blocks if kind in make_tiny.BLOCKS
                           else make_tiny.random_rare_blocks)
            band = make_blocks(self.rng, kind, min(total, BAND), cols, std, 0)
            data = np.resize(band, (total, band.shape[1]))
        if n: data = data.reshape(n, rows, -1)
        self.w.add_tensor(name, data, raw_dtype=None if kind == Q.F32 else kind)


def cut(shape, layers):
    """The same with its first layers, and few tokens."""
    if not layers: return shape
    kinds = {"kinds": shape["kinds"][:layers]} if "kinds" in shape else {}
    return dict(shape, n_layers=layers, n_vocab=min(shape["n_vocab"], 4096), **kinds)

def make(folder, name, layers=0):
    """Writes folder/name.gguf unless it is there; returns its path.  layers: only the first ones."""
    path = pathlib.Path(folder) / (f"{name}-{layers}.gguf" if layers else f"{name}.gguf")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        all_shapes = dict(shapes()) | dict(dense_shapes()) | dict(long_shapes())
        ShapeWriter(fresh, dict(cut(all_shapes[name], layers), seed=7)).write()
        fresh.rename(path)
    return path

def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"): sys.exit(__doc__)
    known = [name for name, _ in (*shapes(), *dense_shapes(), *long_shapes())]
    for name in sys.argv[2:] or [name for name, _ in shapes()]:
        if name not in known: sys.exit(f"make_shapes.py: no shape {name}; there are {', '.join(known)}")
        print(make(sys.argv[1], name), flush=True)

if __name__ == "__main__":
    main()
