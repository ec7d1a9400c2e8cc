#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Embedding and head stored once (qsf-convert --share-embedding).

    cli_share_test.py QSF_CONVERT QSF_RUN

A model whose embedding equals its head except for rounding becomes the file that the tied model with that
head becomes; one with a head of its own keeps it.
"""
import json, os, pathlib, subprocess, sys, tempfile
import numpy as np
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import random_gguf

convert, run = map(os.path.abspath, sys.argv[1:])
failures = 0
VOCAB, EMBD = 256, 128


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL:", what)


def made(source, *options, code=0):
    """(the report, the answer of the file)"""
    p = subprocess.run([convert, "-q", *options, "--json", "report.json", source, "out.qsf"],
                       capture_output=True, text=True, timeout=300)
    check(p.returncode == code, f"{source} {options}: exit {p.returncode}: {p.stderr.strip()}")
    if p.returncode: return p.stderr, ""
    answer = subprocess.run([run, "out.qsf", "--raw", "--ids", "3,7,11", "-n", "24", "--ignore-eos", "--temp",
                             "0", "-t", "1"], capture_output=True, text=True, timeout=300)
    check(answer.returncode == 0, answer.stderr)
    return json.loads(pathlib.Path("report.json").read_text()), answer.stdout


with tempfile.TemporaryDirectory() as name:
    os.chdir(name)
    rng = np.random.default_rng(5)
    small = dict(layers=2, n=EMBD, ff=256, vocab=VOCAB, seed=11)
    head = (rng.standard_normal((VOCAB, EMBD)) * 0.05).astype(np.float16)
    near = (head * (1 + 0.04 * rng.standard_normal(head.shape))).astype(np.float16)
    mat = np.float16(rng.standard_normal(head.shape) * 0.05)
    random_gguf.make_model("tied.gguf", **small, embd=head)
    random_gguf.make_model("near.gguf", **small, embd=near, head=head)
    random_gguf.make_model("apart.gguf", **small, embd=mat, head=head)

    plain, _ = made("near.gguf", "--quant-type", "8bit")
    tied, answer = made("tied.gguf", "--quant-type", "8bit")
    once, same = made("near.gguf", "--quant-type", "8bit", "--share-embedding", "on")
    check("shared_embedding" not in plain and once.get("shared_embedding"), "the report says so")
    check(once["tensors"] == tied["tensors"] and same == answer, "the tied model's tensors and answer")
    check(plain["file_bytes"] >= once["file_bytes"] + VOCAB * EMBD, "fewer bytes")

    error, _ = made("apart.gguf", "--share-embedding", "on", code=2)
    check("two matrices" in error and "--share-embedding" in error, error)
    for sized in (["--target-size", "0.3"], ["--target-size", "0.3", "--calibrate", "self",
                                             "--calibration-file", "near.cal"]):
        once, _ = made("near.gguf", *sized)
        off, _ = made("near.gguf", *sized, "--share-embedding", "off")
        check(once.get("shared_embedding") and "shared_embedding" not in off, f"{sized}: by itself")
        check(max(once["file_bytes"], off["file_bytes"]) <= 300000, f"{sized}: the size")
        again, _ = made("near.gguf", *sized)
        check(again["tensors"] == once["tensors"], f"{sized}: the same again, whatever was kept in between")
    other, _ = made("apart.gguf", "--target-size", "0.3")
    check("shared_embedding" not in other, "a head of its own stays")

print("failed" if failures else "ok")
sys.exit(failures > 0)
