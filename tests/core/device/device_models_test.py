#!/usr/bin/env python3
"""Tiny models with layers on a GPU: logits as far from those of floats as the CPU's.
SPDX-License-Identifier: MIT

    device_models_test.py DEVICE_MODELS WORK [all]

QSF_WEBGPU_DIR: tests/tools/software_gpu.py; skipped without it.
all: also the models whose steps others have, too, and two prompts for each; this takes minutes.
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
WHOLE = ("llama-q4_k", "qwen2-q4_1", "llama-bf16")      # one of each type of the KV cache: with both prompts
ALSO = [("last", "llama-q4_k", "1 of 2 layers"), ("lut", "bitnet-i2_s", "3 of 3 layers")]
IN_PART = {"qwen35-nextn": "1 of 2 layers"}


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    env = software_gpu.environment()
    everything = "all" in sys.argv[3:]
    if everything: MODELS["f16"] += MORE
    def path(name): return str(make_tiny.make(work, name)[0])
    arguments, wanted = ["whole"], []
    for kv, names in MODELS.items():
        arguments.append(kv)
        for name in names:
            if not everything: arguments.append("whole" if name in WHOLE else "brief")
            arguments.append(path(name))
            wanted.append(IN_PART.get(name))
    arguments += ["f16", "brief"]
    for how, name, layers in ALSO:
        arguments += [how, path(name)]
        wanted.append(layers)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=env)
    print(done.stdout, done.stderr, sep="")
    lines = done.stdout.splitlines()
    if done.returncode: sys.exit("a GPU computes something else")
    if len(lines) != len(wanted): sys.exit("models are missing")
    for line, layers in zip(lines, wanted):
        moved = re.search(r": ((\d+) of (\d+) layers), off by", line)
        if not moved or (moved[1] != layers if layers else moved[2] != moved[3]):
            sys.exit(f"layers are missing on the GPU: {line}")


if __name__ == "__main__":
    main()
