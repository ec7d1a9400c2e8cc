#!/usr/bin/env python3
"""Tiny models with layers on a GPU: logits as far from those of floats as the CPU's.
SPDX-License-Identifier: MIT

    device_models_test.py DEVICE_MODELS QSF_RUN WORK [all]

QSF_WEBGPU_DIR: tests/tools/software_gpu.py; skipped without it.
all: also the models whose steps others have, too; this takes minutes.
"""
import pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny, software_gpu

# One of each that computes differently, by the type of the KV cache.  Scales in sub-blocks, norms
# of heads and after parts, windows; norms of sums, a second one, ALiBi, both directions; half
# windows; norms of attention and of hidden rows, scales of matrices; parallel parts with one norm
# and with two; xIELU; scales of what parts add; clamps, norms without weights; norms of all heads;
# embeddings for layers, keys of other layers, norms of values; scales of queries by position; gates
# of attention.  Codes of keys without the part of their bias that stays in place; floats.
MODELS = {
    "f16": ["llama-q4_k", "bitnet-i2_s", "gemma3-q5_0", "jina-bert-v2-twice", "falcon-two-norms", "gemma4",
            "qwen35-nextn"],
    "q8": ["qwen2-q4_1"],
    "f32": ["llama-bf16"],
}
MORE = ["modern-bert", "cohere2", "apertus", "granite", "olmo", "olmo2", "mistral3"]
IN_PART = {"qwen35-nextn.gguf": "1 of 2 layers"}


def same_answer(qsf_run, env, model, options, where):
    command = [qsf_run, model, "--raw", "-p", "abc de fgh ijk lmno", "--temp", "0", "-n", "8"]
    cpu = subprocess.run(command, capture_output=True)
    gpu = subprocess.run([*command, *options, "--device", "gpu", "-v"], capture_output=True, env=env)
    print(gpu.stderr.decode().splitlines()[0])
    if cpu.returncode or gpu.returncode or cpu.stdout != gpu.stdout: sys.exit("qsf-run answers differently")
    if where.encode() not in gpu.stderr: sys.exit("not on the GPU")


def main():
    program, qsf_run, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    env = software_gpu.environment()
    if "all" in sys.argv[4:]: MODELS["f16"] += MORE
    paths = {kv: [str(make_tiny.make(work, name)[0]) for name in names] for kv, names in MODELS.items()}
    arguments = [x for kv, of in paths.items() for x in (kv, *of)]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=env)
    print(done.stdout, done.stderr, sep="")
    lines = done.stdout.splitlines()
    if done.returncode: sys.exit("a GPU computes something else")
    for line in lines:
        moved = re.search(r"(.*): ((\d+) of (\d+) layers), off by", line)
        if not moved or (moved[3] != moved[4] and moved[2] != IN_PART.get(moved[1])):
            sys.exit(f"layers are missing on the GPU: {line}")
    if len(lines) != sum(map(len, MODELS.values())): sys.exit("models are missing")

    # one layer; tiles that were transposed for look-ups
    llama, bitnet = (paths["f16"][MODELS["f16"].index(m)] for m in ("llama-q4_k", "bitnet-i2_s"))
    same_answer(qsf_run, env, llama, ["-ngl", "1"], "layers 1 to 1 and the head on")
    same_answer(qsf_run, env, bitnet, ["--kernel-route", "lut"], "layers 0 to 2 and the head on")


if __name__ == "__main__":
    main()
