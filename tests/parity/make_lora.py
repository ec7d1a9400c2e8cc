#!/usr/bin/env python3
"""Writes random adapters (LoRA) of a GGUF model, the same bytes on every machine.
SPDX-License-Identifier: MIT

    make_lora.py MODEL.gguf OUT.gguf [--rank 4] [--alpha 8] [--seed 1] [--embd] [--head] [--gain 0.5]

Every matrix of a layer that an adapter may change gets a pair of tensors; with --embd and --head the token
embedding and the head, too. Numbers are SplitMix64's, as in make_tiny.py.
"""
import argparse
import numpy as np
from gguf import GGUFReader, GGUFWriter

import make_tiny
from make_tiny import Random

MATRICES = ("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "attn_gate", "ffn_gate", "ffn_up",
            "ffn_down", "ssm_in", "ssm_out", "ssm_alpha", "ssm_beta", "shortconv.in_proj",
            "shortconv.out_proj", "ffn_gate_inp", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
EXPERTS = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps")


def shapes(path, embd=False, head=False):
    """(arch, [(name, rows, cols, experts)]) of the matrices that get a pair, or of experts each one."""
    reader = GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    out, scaled = [], {t.name for t in reader.tensors if t.name.endswith("ffn_down_exps.scale")}
    for t in reader.tensors:
        rest = t.name.split(".", 2)[2] if t.name.startswith("blk.") else t.name
        dims = [int(d) for d in t.shape]
        if rest.removesuffix(".weight") in EXPERTS:
            if t.name.replace(".weight", ".scale") in scaled: continue
            out.append((t.name, dims[1], dims[0], dims[2]))
        if len(dims) != 2 or not rest.endswith(".weight"): continue
        ends = (embd and rest == "token_embd.weight") or (head and rest == "output.weight")
        if rest[:-7] in MATRICES or ends:
            out.append((t.name, dims[1], dims[0], 0))
    return arch, out

def pairs(path, rank, seed, embd=False, head=False, gain=0.5):
    """name -> (A [rank, cols], B [rows, rank]), of experts [experts, ...]; of the embedding A is
    [rank, n_vocab]."""
    rng, out = Random(seed), {}
    for name, rows, cols, experts in shapes(path, embd, head)[1]:
        if name == "token_embd.weight": rows, cols = cols, rows
        n, lead = max(experts, 1), (experts,) if experts else ()
        std = 1 if name == "token_embd.weight" else cols**-0.5
        a = rng.normal(n * rank * cols, std).reshape(*lead, rank, cols)
        b = rng.normal(n * rows * rank, gain * rank**-0.5).reshape(*lead, rows, rank)
        out[name] = (a, b)
    return out

def write(path, arch, tensors, alpha, half=False):
    w = GGUFWriter(str(path), arch)
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", alpha)
    kind = np.float16 if half else np.float32
    for name, (a, b) in tensors.items():
        a = a.T if name == "token_embd.weight" else a       # a token chooses a row
        w.add_tensor(name + ".lora_a", np.ascontiguousarray(a.astype(kind)))
        w.add_tensor(name + ".lora_b", np.ascontiguousarray(b.astype(kind)))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()

def make(model, out, rank=4, alpha=8.0, seed=1, **more):
    half = more.pop("half", False)
    write(out, shapes(model)[0], pairs(model, rank, seed, **more), alpha, half)

def options(name):
    """What else the first adapter of a test's model changes.  llama.cpp has no adapters of a head that is
    the embedding."""
    return {} if make_tiny.models()[name].get("tied") else {"embd": True, "head": True}

def make_tests(folder, names):
    """NAME.gguf, and its adapters NAME.a.gguf and NAME.b.gguf."""
    for name in names:
        model = make_tiny.make(folder, name)[0]
        make(model, f"{folder}/{name}.a.gguf", 4, 8.0, 1, **options(name))
        make(model, f"{folder}/{name}.b.gguf", 13, 5.0, 2)


def arguments():
    """What every script that makes an adapter takes."""
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("--rank", type=int, default=4)
    p.add_argument("--alpha", type=float, default=8)
    p.add_argument("--seed", type=int, default=1)
    return p


if __name__ == "__main__":
    p = arguments()
    p.add_argument("--gain", type=float, default=0.5)
    p.add_argument("--embd", action="store_true")
    p.add_argument("--head", action="store_true")
    a = p.parse_args()
    make(a.model, a.out, a.rank, a.alpha, a.seed, embd=a.embd, head=a.head, gain=a.gain)
