#!/usr/bin/env python3
"""Writes corpus/gguf/rare and corpus/gguf/iq: models of two rows a matrix, each of another type.
SPDX-License-Identifier: MIT

    make_gguf_types.py
"""
import pathlib, sys
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Q, GGUFWriter

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))
import gguf_types       # types that the package lacks

FILES = {"rare": [Q.TQ1_0, Q.TQ2_0, Q.MXFP4, Q.NVFP4, Q.Q1_0, Q.Q2_0, Q.Q8_K],
         "iq": [Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S, Q.IQ3_XXS, Q.IQ3_S, Q.IQ1_S, Q.IQ1_M]}
N = 256


def write(path, kinds):
    rng = np.random.default_rng(len(path.name))
    w = GGUFWriter(str(path), "llama")
    w.add_block_count(1), w.add_context_length(16), w.add_embedding_length(N), w.add_feed_forward_length(2)
    w.add_head_count(1), w.add_head_count_kv(1), w.add_layer_norm_rms_eps(1e-5)
    w.add_key_length(2), w.add_value_length(2), w.add_rope_dimension_count(2)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("default")
    w.add_token_list(["a", "b", "ab"]), w.add_token_types([1, 1, 1]), w.add_token_merges(["a b"])
    w.add_bos_token_id(0), w.add_eos_token_id(1)

    def matrix(name, rows, kind):
        block, size = GGML_QUANT_SIZES[kind]
        raw = rng.integers(0, 256, (rows, N // block * size), dtype=np.uint8)
        w.add_tensor(name + ".weight", raw, raw_dtype=kind)
    def floats(name, *shape): w.add_tensor(name + ".weight", np.ones(shape, np.float16))

    matrix("token_embd", 3, kinds[0])
    matrix("output", 3, kinds[1])
    floats("output_norm", N), floats("blk.0.attn_norm", N), floats("blk.0.ffn_norm", N)
    for name, kind in zip(("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"), kinds[2:]):
        matrix("blk.0." + name, 2, kind)
    floats("blk.0.attn_output", N, 2), floats("blk.0.ffn_down", N, 2)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


for name, kinds in FILES.items(): write(HERE / "corpus" / "gguf" / name, kinds)
