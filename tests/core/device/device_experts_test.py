#!/usr/bin/env python3
"""Tiny mixtures of experts with their layers on a GPU: logits as far from those of floats as the CPU's.
SPDX-License-Identifier: MIT

    device_experts_test.py DEVICE_MODELS QSF_CONVERT WORK [all]

QSF_WEBGPU_DIR: tests/tools/software_gpu.py; skipped without it.
Models of floats are converted to 8 bits first.  all: every family, and two prompts for each; without it those
whose steps differ most.
"""
import pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_lora, make_tiny, software_gpu

# One of each that computes differently: biases; a shared expert with a gate; sigmoid, a bias of the
# choice, groups, shared experts without a gate; scales of experts, in matrices that are bound in
# parts.  Of the others: a router that reads the layer's input, norms of experts.
MODELS = ["gpt-oss-mxfp4", "qwen2moe", "bailingmoe2"]
PARTS = "mixtral-q8_0"
LORA = "qwen2moe"               # also with adapters of all matrices: experts, router, shared experts
MORE = ["smallthinker", "gemma4-moe", "mixtral-q8_0", "ernie4_5-moe", "glm4moe", "granitemoe", "olmoe",
        "phimoe", "qwen3moe", "gemma4-moe-apart"]


def converted(convert, work, name):
    path = make_tiny.make(work, name)[0]
    if name.endswith(("q8_0", "mxfp4")): return str(path)
    out = work / f"{name}.qsf"
    subprocess.run([convert, "--quant-type", "8bit", "--outliers", "off", path, out], check=True,
                   capture_output=True)
    return str(out)


def scaled(work, name):
    """The model, with a scale for each expert."""
    path = work / f"{name}-scales.gguf"
    model = make_tiny.models()[name]
    make_tiny.Writer(path, dict(model, experts=dict(model["experts"], scales=("gate", "up", "down")))).write()
    return str(path)


def adapter(work, name):
    path, out = make_tiny.make(work, name)[0], work / f"{name}-lora.gguf"
    make_lora.write(out, make_lora.shapes(path)[0], make_lora.pairs(path, 4, 1), 8)
    return str(out)


def main():
    program, convert, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    env = software_gpu.environment()
    names = MODELS + MORE * ("all" in sys.argv[4:])
    paths = [converted(convert, work, name) for name in names]
    if "all" not in sys.argv[4:]: paths.insert(1, "brief")          # one with two prompts, the second long
    paths += ["lora", adapter(work, LORA), converted(convert, work, LORA), "parts", scaled(work, PARTS)]
    done = subprocess.run([program, "long", *paths], capture_output=True, text=True, env=env)
    print(done.stdout, done.stderr, sep="")
    lines = done.stdout.splitlines()
    if done.returncode: sys.exit("a GPU computes something else")
    for line in lines:
        moved = re.search(r": (\d+) of (\d+) layers, off by", line)
        if not moved or moved[1] != moved[2]: sys.exit(f"not all layers are on the GPU: {line}")
    if len(lines) != len(names) + 2: sys.exit("models are missing")


if __name__ == "__main__":
    main()
