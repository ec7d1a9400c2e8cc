#!/usr/bin/env python3
"""Writes corpus/calibration/imatrix-dat and imatrix-gguf, importance matrices in llama.cpp's two forms; what
they say is a function of layer, tensor and column, which tests/convert/calibrate_test.c knows too.
SPDX-License-Identifier: MIT

    make_imatrix.py         (needs gguf, numpy)
"""
import pathlib, struct
import gguf
import numpy as np

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus/calibration"
TENSORS = [("attn_q", 64), ("attn_k", 64), ("attn_output", 64), ("ffn_up", 64), ("ffn_down", 96)]
LAYERS, CHUNKS, CHUNK = 2, 3, 512


def matrices():
    """Names and mean squares."""
    for layer in range(LAYERS):
        for i, (name, cols) in enumerate(TENSORS):
            yield f"blk.{layer}.{name}.weight", layer + i + (np.arange(cols) % 16 + 1) / np.float32(16)
    yield "output.weight", np.float32(9) + np.arange(64, dtype=np.float32) % 4


def write_dat(path):
    out = [struct.pack("<i", len(list(matrices())))]
    for name, means in matrices():
        out.append(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", CHUNKS, len(means)))
        out.append((means * CHUNKS).astype("<f4").tobytes())
    text = b"wiki.train.raw"
    path.write_bytes(b"".join(out) + struct.pack("<ii", CHUNKS, len(text)) + text)


def write_gguf(path):
    w = gguf.GGUFWriter(path, "")
    w.kv_data[0].clear()                # llama.cpp writes no architecture
    w.add_type("imatrix")
    w.add_array("imatrix.datasets", ["wiki.train.raw"])
    w.add_uint32("imatrix.chunk_count", CHUNKS)
    w.add_uint32("imatrix.chunk_size", CHUNK)
    for name, means in matrices():
        w.add_tensor(name + ".in_sum2", (means * CHUNKS * CHUNK).astype(np.float32).reshape(1, -1))
        w.add_tensor(name + ".counts", np.full((1, 1), CHUNKS * CHUNK, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


CORPUS.mkdir(parents=True, exist_ok=True)
write_dat(CORPUS / "imatrix-dat")
write_gguf(CORPUS / "imatrix-gguf")
