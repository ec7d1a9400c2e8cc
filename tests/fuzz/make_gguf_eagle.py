#!/usr/bin/env python3
"""Writes corpus/gguf/eagle and corpus/gguf/eagle-own: EAGLE 3 heads, the first one with fewer tokens than its
model, the second one with an embedding and norms of its own.
SPDX-License-Identifier: MIT

    make_gguf_eagle.py
"""
import pathlib
import numpy as np
from gguf import GGUFWriter

HERE = pathlib.Path(__file__).resolve().parent
N, WIDTH, HEAD, FF, WORDS = 8, 4, 4, 4, ["a", "b", "ab"]


def write(path, own):
    rng = np.random.default_rng(1)
    w = GGUFWriter(str(path), "eagle3")
    w.add_block_count(1), w.add_context_length(16), w.add_embedding_length(N), w.add_feed_forward_length(FF)
    w.add_head_count(2), w.add_head_count_kv(1), w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(HEAD)
    w.add_array("eagle3.target_layers", [0, 2, 1]), w.add_uint32("eagle3.target_hidden_size", WIDTH)
    w.add_bool("eagle3.norm_before_residual", own), w.add_bool("eagle3.norm_before_fc", own)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("default")
    w.add_token_list(WORDS), w.add_token_types([1, 1, 1]), w.add_token_merges(["a b"])
    w.add_bos_token_id(0), w.add_eos_token_id(1)

    def add(name, *shape): w.add_tensor(name, rng.standard_normal(shape).astype(np.float32))

    if own: add("token_embd.weight", len(WORDS), N), add("enc.output_norm.weight", 3 * WIDTH)
    else: w.add_tensor("d2t", np.array([2, 0], np.int64))
    add("output.weight", len(WORDS) if own else 2, N), add("output_norm.weight", N)
    add("fc.weight", N, 3 * WIDTH)
    for name in ("attn_norm", "attn_norm_2", "ffn_norm"): add(f"blk.0.{name}.weight", N)
    for name, rows in ("q", 2 * HEAD), ("k", HEAD), ("v", HEAD): add(f"blk.0.attn_{name}.weight", rows, 2 * N)
    add("blk.0.attn_output.weight", N, 2 * HEAD)
    for name, shape in ("gate", (FF, N)), ("up", (FF, N)), ("down", (N, FF)):
        add(f"blk.0.ffn_{name}.weight", *shape)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


for name in ("eagle", "eagle-own"): write(HERE / "corpus" / "gguf" / name, name != "eagle")
