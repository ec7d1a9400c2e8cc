#!/usr/bin/env python3
"""Writes corpus/gguf/mtp and corpus/gguf/mtp-own: one layer of GLM 4.5, and one for multi-token prediction,
the second time with an embedding and a head of its own.
SPDX-License-Identifier: MIT

    make_gguf_mtp.py

`qsf-convert --quant-type f16` has made corpus/qsf/mtp of the first.
"""
import pathlib
import numpy as np
from gguf import GGUFWriter

HERE = pathlib.Path(__file__).resolve().parent
N, HEAD, FF, EXPERTS, WORDS = 8, 4, 4, 2, ["a", "b", "ab"]


def write(path, own):
    rng = np.random.default_rng(1)
    w = GGUFWriter(str(path), "glm4moe")
    w.add_block_count(2), w.add_context_length(16), w.add_embedding_length(N), w.add_feed_forward_length(FF)
    w.add_head_count(2), w.add_head_count_kv(1), w.add_layer_norm_rms_eps(1e-5)
    w.add_key_length(HEAD), w.add_value_length(HEAD), w.add_rope_dimension_count(HEAD)
    w.add_expert_count(EXPERTS), w.add_expert_used_count(1), w.add_expert_feed_forward_length(FF)
    w.add_expert_shared_count(1), w.add_leading_dense_block_count(1)
    w.add_uint32("glm4moe.expert_gating_func", 2), w.add_uint32("glm4moe.nextn_predict_layers", 1)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("default")
    w.add_token_list(WORDS), w.add_token_types([1, 1, 1]), w.add_token_merges(["a b"])
    w.add_bos_token_id(0), w.add_eos_token_id(1)

    def add(name, *shape, kind=np.float32): w.add_tensor(name, rng.standard_normal(shape).astype(kind))

    add("token_embd.weight", len(WORDS), N), add("output.weight", len(WORDS), N), add("output_norm.weight", N)
    for i in range(2):
        for name in ("attn_norm", "post_attention_norm"): add(f"blk.{i}.{name}.weight", N)
        for name, rows in ("q", 2 * HEAD), ("k", HEAD), ("v", HEAD):
            add(f"blk.{i}.attn_{name}.weight", rows, N), add(f"blk.{i}.attn_{name}.bias", rows)
        add(f"blk.{i}.attn_output.weight", N, 2 * HEAD)
        for name in ("q", "k"): add(f"blk.{i}.attn_{name}_norm.weight", HEAD)
    for name, shape in ("gate", (FF, N)), ("up", (FF, N)), ("down", (N, FF)):
        add(f"blk.0.ffn_{name}.weight", *shape), add(f"blk.1.ffn_{name}_shexp.weight", *shape)
        add(f"blk.1.ffn_{name}_exps.weight", EXPERTS, *shape)
    add("blk.1.ffn_gate_inp.weight", EXPERTS, N), add("blk.1.exp_probs_b.bias", EXPERTS)
    add("blk.1.nextn.eh_proj.weight", N, 2 * N)
    for name in ("enorm", "hnorm", "shared_head_norm"): add(f"blk.1.nextn.{name}.weight", N)
    if own:
        for name in ("embed_tokens", "shared_head_head"): add(f"blk.1.nextn.{name}.weight", len(WORDS), N)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


for name in ("mtp", "mtp-own"): write(HERE / "corpus" / "gguf" / name, name != "mtp")
