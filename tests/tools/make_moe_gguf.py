#!/usr/bin/env python3
"""Writes a GGUF file with random weights and experts, tensor by tensor, as large as a test needs it.
SPDX-License-Identifier: MIT

  make_moe_gguf.py out.gguf [--layers 4] [--embd 256] [--experts 64] [--used 4] [--ff 256] [--type Q4_K]
                            [--down Q6_K] [--vocab 2048]
"""
import argparse

import numpy as np
from gguf import GGUFWriter, GGMLQuantizationType as Q

# bytes of a block, its weights, where its fp16 scales are, and what they are at most
BLOCKS = {Q.Q8_0: (34, 32, [(0, 1e-3)]), Q.Q4_0: (18, 32, [(0, 1e-2)]),
          Q.Q4_K: (144, 256, [(0, 2e-4), (2, 2e-4)]), Q.Q6_K: (210, 256, [(208, 5e-5)])}


def random_blocks(rng, rows, cols, kind):
    """Rows of blocks with random codes and small scales."""
    size, weights, scales = BLOCKS[kind]
    blocks = np.frombuffer(rng.bytes(rows * cols // weights * size), np.uint8).reshape(-1, size).copy()
    for at, most in scales:
        d = (most * (0.5 + 0.5 * rng.random(len(blocks), np.float32))).astype(np.float16)
        blocks[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def tensors(a):
    """Name, rows, columns, experts (0: no dimension of them) and type (None: f32) of each."""
    n, heads = a.embd, 64 * a.heads
    yield "token_embd.weight", a.vocab, n, 0, Q.Q8_0
    yield "output_norm.weight", 1, n, 0, None
    for i in range(a.layers):
        b = f"blk.{i}."
        for norm in ("attn_norm", "ffn_norm"): yield f"{b}{norm}.weight", 1, n, 0, None
        for norm in ("attn_q_norm", "attn_k_norm"): yield f"{b}{norm}.weight", 1, 64, 0, None
        yield b + "attn_q.weight", heads, n, 0, Q.Q8_0
        yield b + "attn_k.weight", 128, n, 0, Q.Q8_0
        yield b + "attn_v.weight", 128, n, 0, Q.Q8_0
        yield b + "attn_output.weight", n, heads, 0, Q.Q8_0
        yield b + "ffn_gate_inp.weight", a.experts, n, -1, None
        yield b + "ffn_gate_exps.weight", a.ff, n, a.experts, a.type
        yield b + "ffn_up_exps.weight", a.ff, n, a.experts, a.type
        yield b + "ffn_down_exps.weight", n, a.ff, a.experts, a.down


def make_moe(path, a):
    rng = np.random.default_rng(a.seed)
    w = GGUFWriter(path, "qwen3moe")
    w.add_block_count(a.layers), w.add_context_length(512), w.add_embedding_length(a.embd)
    w.add_feed_forward_length(a.ff), w.add_expert_feed_forward_length(a.ff)
    w.add_expert_count(a.experts), w.add_expert_used_count(a.used)
    w.add_head_count(a.heads), w.add_head_count_kv(2), w.add_layer_norm_rms_eps(1e-6)
    w.add_key_length(64), w.add_value_length(64), w.add_rope_freq_base(1e6)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("default")
    w.add_token_list([str(i) if i < 10 else f"t{i}" for i in range(a.vocab)])
    w.add_token_types([1] * a.vocab), w.add_token_merges(["t 0"])
    w.add_bos_token_id(0), w.add_eos_token_id(1)
    for name, rows, cols, experts, kind in tensors(a):
        if kind is None:
            shape = (cols,) if not experts else (rows, cols)
            w.add_tensor_info(name, shape, np.dtype(np.float32), 4 * rows * cols)
            continue
        row = cols // BLOCKS[kind][1] * BLOCKS[kind][0]
        shape = (experts, rows, row) if experts else (rows, row)
        w.add_tensor_info(name, shape, np.dtype(np.uint8), max(experts, 1) * rows * row, raw_dtype=kind)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_ti_data_to_file()
    for name, rows, cols, experts, kind in tensors(a):
        if kind is None:
            norm = np.ones(cols, np.float32)
            data = norm if not experts else rng.standard_normal((rows, cols)).astype(np.float32) * 0.3
        else:
            data = random_blocks(rng, rows * max(experts, 1), cols, kind)
        w.write_tensor_data(data)
    w.close()


def options(text=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    for name, value in (("layers", 4), ("embd", 256), ("heads", 4), ("experts", 64), ("used", 4), ("ff", 256),
                        ("vocab", 2048), ("seed", 1)):
        p.add_argument("--" + name, type=int, default=value)
    for name, value in (("type", "Q4_K"), ("down", "Q6_K")):
        p.add_argument("--" + name, type=lambda t: Q[t], default=value)
    return p.parse_args(text)


if __name__ == "__main__":
    args = options()
    make_moe(args.out, args)
