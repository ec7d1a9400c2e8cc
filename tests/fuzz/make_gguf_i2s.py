#!/usr/bin/env python3
"""Writes corpus/gguf/i2s and corpus/gguf/i2s-scales: one layer with a matrix in each layout of I2_S.
SPDX-License-Identifier: MIT

    make_gguf_i2s.py
"""
import pathlib, struct
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
N, I2_S = 64, 36
rng = np.random.default_rng(36)


def text(s): return struct.pack("<Q", len(s)) + s.encode()


def codes(n): return rng.integers(0, 256, n, dtype=np.uint8).tobytes()


def bitnet32(n): return b"".join(codes(8) + np.float16(0.5).tobytes() for _ in range(n // 32))


def write(name, matrices):
    head = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    for key, v in (("context_length", 16), ("embedding_length", N), ("block_count", 1),
                   ("feed_forward_length", N), ("attention.head_count", 2)):
        head.append(text("llama." + key) + struct.pack("<II", 4, v))
    head.append(text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5))
    infos, data = [], b""
    floats = [("token_embd.weight", (N, 3)), ("output_norm.weight", (N,)), ("blk.0.attn_norm.weight", (N,)),
              ("blk.0.ffn_norm.weight", (N,))]
    tensors = [(n, d, 1, np.ones(d, np.float16).tobytes()) for n, d in floats]
    for n, dims, type, raw in tensors + matrices:
        data += bytes(-len(data) % 32)
        infos.append(text(n) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type, len(data)))
        data += raw
    out = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(head)) + b"".join(head + infos)
    (HERE / "corpus" / "gguf" / name).write_bytes(out + bytes(-len(out) % 32) + data)


n = N * N
threes = (rng.integers(0, 3, (n // 4, 4)) << (0, 2, 4, 6)).sum(1).astype(np.uint8).tobytes()
microsoft = threes + struct.pack("<f", 0.5) + bytes(28)
blk = lambda rest: f"blk.0.{rest}.weight"
write("i2s", [(blk("attn_q"), (N, N), I2_S, codes(N * 64)), (blk("attn_k"), (N, N), I2_S, microsoft),
              (blk("attn_v"), (N, N), I2_S, bitnet32(n)), (blk("attn_output"), (N, N), I2_S, microsoft),
              (blk("ffn_gate"), (N, N), I2_S, microsoft), (blk("ffn_up"), (N, N), I2_S, bitnet32(n)),
              (blk("ffn_down"), (N, N), I2_S, codes(N * 64))])
f32, f16 = lambda n: np.full(n, 0.5, np.float32).tobytes(), lambda n: np.full(n, 0.5, np.float16).tobytes()
bf16 = struct.pack("<H", 0x3f00) * (n // 32)
write("i2s-scales", [
    (blk("attn_q"), (N, N), I2_S, codes(n // 4)), ("blk.0.attn_q.scale", (n // 32,), 0, f32(n // 32)),
    (blk("attn_k"), (N, N), I2_S, codes(n // 4)), ("blk.0.attn_k.d", (n // 32,), 1, f16(n // 32)),
    (blk("attn_v"), (N, N), I2_S, codes(n // 4)), (blk("attn_v") + "_scale", (n // 32,), 30, bf16),
    (blk("attn_output"), (N, N), I2_S, codes(N * 64)), ("blk.0.attn_output.scale", (1,), 0, f32(1)),
    (blk("ffn_gate"), (N, N), 1, f16(n)), ("blk.0.ffn_gate.scale", (1,), 0, f32(1)),
    (blk("ffn_up"), (N, N), I2_S, microsoft), (blk("ffn_down"), (N, N), I2_S, bitnet32(n))])
