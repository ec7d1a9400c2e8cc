#!/usr/bin/env python3
"""Writes a random model of the shape of bitnet-b1.58-2B-4T (30 layers, 2560, 6912, 20 and 5 heads, 128256
tokens) as a GGUF file, the same weights in both types, for measurements of speed.
SPDX-License-Identifier: MIT

    make_bitnet.py OUT.gguf [--type i2_s|tq2_0] [--arch NAME] [--layers N] [--vocab N] [--seed N]

--arch bitnet (default) is what llama.cpp and bitnet.cpp's first version run, bitnet-b1.58 what later ones do.
A QSF file of the same weights: qsf-convert [--quant-type ternary5] OUT.gguf OUT.qsf. About a gigabyte,
written in one pass, in some seconds.
"""
import argparse, pathlib, sys
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
import gguf_raw

EMBD, FF, HEADS, KV_HEADS, HEAD = 2560, 6912, 20, 5, 128
PIECE = 1 << 22

def tables():
    """Of a random byte four ternary codes, as TQ2_0 has them (the first lowest) and as I2_S (highest)."""
    digits = np.arange(256)[:, None] % 81 // [1, 3, 9, 27] % 3
    return {"tq2_0": (digits << [0, 2, 4, 6]).sum(axis=1).astype(np.uint8),
            "i2_s": (digits << [6, 4, 2, 0]).sum(axis=1).astype(np.uint8)}

def ternary(seed, kind, rows, cols):
    """Parts of a matrix; its scale keeps the size of a normed input."""
    table, n, scale = tables()[kind], rows * cols // 4, np.float16((1.5 / cols) ** 0.5)
    rng = np.random.Generator(np.random.PCG64(seed))
    for at in range(0, n, PIECE):
        codes = table[np.frombuffer(rng.bytes(min(PIECE, n - at)), np.uint8)]
        if kind == "i2_s":
            yield codes.tobytes()
            continue
        blocks = np.empty((len(codes) // 64, 66), np.uint8)
        blocks[:, :64] = codes.reshape(-1, 64)
        blocks[:, 64:] = np.array([scale]).view(np.uint8)
        yield blocks.tobytes()
    if kind == "i2_s": yield np.float32(scale).tobytes() + bytes(28)

def embedding(seed, vocab):
    """Rows of f16 about 1: a band of random ones, again and again, each time turned by one more."""
    rng = np.random.Generator(np.random.PCG64(seed))
    band = rng.standard_normal((1024, EMBD), np.float32).astype(np.float16)
    for at in range(0, vocab, 1024):
        yield np.roll(band, at // 1024, axis=1)[:min(1024, vocab - at)].tobytes()

def byte_letters():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(others)) for b in range(256)]

def metadata(a):
    p = a.arch + "."
    tokens = byte_letters() + [f"t{i}" for i in range(256, a.vocab - 2)] + ["<|begin|>", "<|end|>"]
    return {"general.architecture": a.arch, "general.name": "random", "general.alignment": gguf_raw.ALIGN,
            p + "context_length": 4096, p + "embedding_length": EMBD, p + "block_count": a.layers,
            p + "feed_forward_length": FF, p + "attention.head_count": HEADS,
            p + "attention.head_count_kv": KV_HEADS, p + "attention.layer_norm_rms_epsilon": 1e-5,
            p + "rope.dimension_count": HEAD, p + "rope.freq_base": 500000.0, p + "vocab_size": a.vocab,
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [1] * (a.vocab - 2) + [3, 3], "tokenizer.ggml.merges": ["t h"],
            "tokenizer.ggml.bos_token_id": a.vocab - 2, "tokenizer.ggml.eos_token_id": a.vocab - 1}

def tensors(a):
    kind, extra = (gguf_raw.I2_S, 32) if a.type == "i2_s" else (gguf_raw.TQ2_0, 0)
    out = [("token_embd.weight", a.vocab, EMBD, gguf_raw.F16, 2 * a.vocab * EMBD,
            lambda: embedding(a.seed, a.vocab))]
    def norm(name, n):
        out.append((name + ".weight", 0, n, gguf_raw.F32, 4 * n,
                    lambda: [np.ones(n, np.float32).tobytes()]))
    def matrix(name, rows, cols):
        size = rows * cols // 4 + extra if extra else rows * cols // 256 * 66
        seed = (a.seed, len(out))
        out.append((name + ".weight", rows, cols, kind, size, lambda: ternary(seed, a.type, rows, cols)))
    for i in range(a.layers):
        b = f"blk.{i}."
        norm(b + "attn_norm", EMBD)
        matrix(b + "attn_q", EMBD, EMBD)
        matrix(b + "attn_k", KV_HEADS * HEAD, EMBD)
        matrix(b + "attn_v", KV_HEADS * HEAD, EMBD)
        norm(b + "attn_sub_norm", EMBD)
        matrix(b + "attn_output", EMBD, EMBD)
        norm(b + "ffn_norm", EMBD)
        matrix(b + "ffn_gate", FF, EMBD)
        matrix(b + "ffn_up", FF, EMBD)
        norm(b + "ffn_sub_norm", FF)
        matrix(b + "ffn_down", EMBD, FF)
    norm("output_norm", EMBD)
    return out

def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("out")
    p.add_argument("--type", default="i2_s", choices=("i2_s", "tq2_0"))
    p.add_argument("--arch", default="bitnet")
    p.add_argument("--layers", type=int, default=30)
    p.add_argument("--vocab", type=int, default=128256)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    kv = metadata(a)
    gguf_raw.write(a.out, len(kv), gguf_raw.pairs(kv), tensors(a))

if __name__ == "__main__":
    main()
