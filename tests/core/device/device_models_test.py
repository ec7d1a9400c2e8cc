#!/usr/bin/env python3
"""Tiny models with layers on a GPU: logits as far from those of floats as the CPU's.
SPDX-License-Identifier: MIT

    device_models_test.py DEVICE_MODELS QSF_RUN WORK

QSF_WEBGPU_DIR: the folder of tools/get-webgpu.sh, with Dawn and a GPU in software; skipped without it.
"""
import os, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import make_tiny

# One of each that computes differently: scales in sub-blocks, biases, norms of heads and after
# parts, windows.
MODELS = ["llama-q4_k", "qwen2-q4_1", "gemma3-q5_0", "qwen3-q4_0"]


def main():
    program, qsf_run, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder = os.environ.get("QSF_WEBGPU_DIR")
    if not folder:
        print("skipped: no WebGPU library (QSF_WEBGPU_DIR)")
        sys.exit(77)
    paths = [str(make_tiny.make(work, name)[0]) for name in MODELS]
    env = dict(os.environ, QSF_WEBGPU_LIB=f"{folder}/libwebgpu_dawn.so", LD_LIBRARY_PATH=folder,
               VK_DRIVER_FILES=f"{folder}/vk_swiftshader_icd.json")
    done = subprocess.run([program, *paths], capture_output=True, text=True, env=env)
    print(done.stdout, done.stderr, sep="")
    lines = done.stdout.splitlines()
    if done.returncode: sys.exit("a GPU computes something else")
    for line in lines:
        moved = re.search(r": (\d+) of (\d+) layers, off by", line)
        if not moved or moved[1] != moved[2]: sys.exit(f"not all layers are on the GPU: {line}")
    if len(lines) != len(MODELS): sys.exit("models are missing")

    command = [qsf_run, paths[0], "--raw", "-p", "abc de fgh ijk lmno", "--temp", "0", "-n", "8"]
    cpu = subprocess.run(command, capture_output=True)
    gpu = subprocess.run([*command, "--device", "gpu", "-ngl", "1", "-v"], capture_output=True, env=env)
    print(gpu.stderr.decode().splitlines()[0])
    if cpu.returncode or gpu.returncode or cpu.stdout != gpu.stdout: sys.exit("qsf-run answers differently")
    if b"layers 1 to 1 and the head on SwiftShader" not in gpu.stderr: sys.exit("not on the GPU")


if __name__ == "__main__":
    main()
