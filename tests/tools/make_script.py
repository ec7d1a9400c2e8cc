#!/usr/bin/env python3
"""Writes a GGUF model with a scripted answer: after the newline at the prompt's end it gives a list of
strings, one token each, then the token that ends an answer.
SPDX-License-Identifier: MIT

    make_script.py OUT.gguf TEXT...       "=" after the last string: that one again and again

A token's embedding is a unit vector of its own, the layer adds nothing, and the head takes each to the next.
"""
import pathlib, sys
import numpy as np
from gguf import GGUFWriter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_tiny

WIDTH, SPECIAL = 320, ["<|im_start|>", "<|im_end|>"]


def write(path, texts, again=False):
    letters = make_tiny.byte_letters()
    words = ["".join(letters[b] for b in text.encode()) for text in texts]
    tokens = letters + words + SPECIAL
    assert len(set(tokens)) == len(tokens) <= WIDTH, "texts are several bytes, and no two alike"
    end = len(tokens) - 1
    w = GGUFWriter(str(path), "llama")
    w.add_name("script")
    w.add_context_length(100000)
    w.add_embedding_length(WIDTH)
    w.add_block_count(1)
    w.add_feed_forward_length(64)
    w.add_head_count(5)
    w.add_head_count_kv(1)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([1] * 256 + [1] * len(words) + [3] * len(SPECIAL))
    w.add_token_merges(["t h"])
    w.add_eos_token_id(end)
    w.add_add_bos_token(False)
    chain = [10, *range(256, 256 + len(words)), end]
    if again:
        chain[-1] = chain[-2]
    head = np.zeros((len(tokens), WIDTH), np.float32)
    for a, b in zip(chain, chain[1:]):
        head[b, a] = 4
    zero = lambda rows, cols: np.zeros((rows, cols), np.float32)
    for name, data in (
            ("token_embd", np.eye(len(tokens), WIDTH, dtype=np.float32)), ("output", head),
            ("output_norm", np.ones(WIDTH, np.float32)), ("blk.0.attn_norm", np.ones(WIDTH, np.float32)),
            ("blk.0.ffn_norm", np.ones(WIDTH, np.float32)), ("blk.0.attn_q", zero(WIDTH, WIDTH)),
            ("blk.0.attn_k", zero(64, WIDTH)), ("blk.0.attn_v", zero(64, WIDTH)),
            ("blk.0.attn_output", zero(WIDTH, WIDTH)), ("blk.0.ffn_gate", zero(64, WIDTH)),
            ("blk.0.ffn_up", zero(64, WIDTH)), ("blk.0.ffn_down", zero(WIDTH, 64))):
        w.add_tensor(name + ".weight", data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    texts = sys.argv[2:]
    write(sys.argv[1], texts[:-1] if texts[-1] == "=" else texts, texts[-1] == "=")
