#!/usr/bin/env python3
"""Writes a GGUF file like Qwen3-Reranker's with the vocabulary and the weights of Qwen2.5-Coder, and the same
model without its classifier.
SPDX-License-Identifier: MIT

    make_reranker.py QWEN2.gguf RERANKER.gguf PLAIN.gguf

As llama.cpp's converter makes it: `cls.output` is the head's rows of "yes" and "no", the pooling type is
rank, and there is a template of this name. The norms of queries and keys that Qwen 3 has are ones here. Its
scores say nothing of documents; how they are made is that of the real model.
"""
import pathlib, sys
import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFValueType as V, GGUFWriter, dequantize

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from gguf_reader import Reader

WORDS = "yes", "no"
TEMPLATE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    "<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")

def write(reader, path, ranks):
    w = GGUFWriter(str(path), "qwen3")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "tokenizer.chat_template"): continue
        kind, more = field.types[0], field.types[-1] if field.types[0] == V.ARRAY else None
        w.add_key_value(name.replace("qwen2.", "qwen3.", 1), field.contents(), kind, more)
    if ranks:
        w.add_uint32("qwen3.pooling_type", 4)
        w.add_array("qwen3.classifier.output_labels", list(WORDS))
        w.add_array("tokenizer.chat_templates", ["rerank"])
        w.add_string("tokenizer.chat_template.rerank", TEMPLATE)
    tensors = {t.name: t for t in reader.tensors}
    heads = reader.fields["qwen2.attention.head_count_kv"].contents()
    width = int(tensors["blk.0.attn_k.bias"].shape[0]) // heads
    for name, t in tensors.items():
        w.add_tensor(name, t.data, raw_dtype=t.tensor_type)
        if not name.endswith("attn_q.weight"): continue
        for kind in "qk":
            w.add_tensor(name.replace("attn_q.", f"attn_{kind}_norm."), np.ones(width, np.float32))
    if ranks:
        head = tensors.get("output.weight", tensors["token_embd.weight"])
        tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        rows = np.stack([head.data[tokens.index(word)] for word in WORDS])
        w.add_tensor("cls.output.weight", dequantize(rows, head.tensor_type).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()

def main():
    model, reranker, plain = sys.argv[1:]
    reader = Reader(model)
    write(reader, reranker, True)
    write(reader, plain, False)

if __name__ == "__main__":
    main()
