# SPDX-License-Identifier: MIT
"""A GGUF file of random weights, as large as a test needs it."""
import numpy as np
from gguf import GGUFWriter


def make_model(path, layers=6, n=512, ff=1536, vocab=2048, seed=3, head=None, embd=None):
    """A LLaMA; with these sizes converting takes a good part of a second.  Without a head it is tied to the
    embedding."""
    rng = np.random.default_rng(seed)
    w = GGUFWriter(path, "llama")
    w.add_block_count(layers), w.add_context_length(128)
    w.add_embedding_length(n), w.add_feed_forward_length(ff)
    w.add_head_count(8), w.add_head_count_kv(8), w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(n // 8)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("default")
    w.add_token_list([str(i) if i < 10 else f"t{i}" for i in range(vocab)]), w.add_token_types([1] * vocab)
    w.add_token_merges(["t 0"])
    w.add_bos_token_id(0), w.add_eos_token_id(1)
    mat = lambda r, c: (rng.standard_normal((r, c)) * 0.05).astype(np.float16)
    w.add_tensor("token_embd.weight", mat(vocab, n) if embd is None else embd)
    if head is not None: w.add_tensor("output.weight", head)
    w.add_tensor("output_norm.weight", np.ones(n, np.float32))
    for i in range(layers):
        b = f"blk.{i}."
        for k in ("attn_q", "attn_k", "attn_v", "attn_output"): w.add_tensor(b + k + ".weight", mat(n, n))
        for k in ("ffn_gate", "ffn_up"): w.add_tensor(b + k + ".weight", mat(ff, n))
        w.add_tensor(b + "ffn_down.weight", mat(n, ff))
        for k in ("attn_norm", "ffn_norm"): w.add_tensor(b + k + ".weight", np.ones(n, np.float32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
