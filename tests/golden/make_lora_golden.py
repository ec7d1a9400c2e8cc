#!/usr/bin/env python3
"""Writes lora.json: llama.cpp's logits of ../parity/make_tiny.py's models with adapters of
../parity/make_lora.py: the first one, -0.7 of the second, the first and half of the second.
SPDX-License-Identifier: MIT

    make_lora_golden.py LLAMA_REF
"""
import json, pathlib, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
import make_lora

NAMES = ("llama", "phi3-short", "gpt2", "gemma3", "qwen2", "lfm2", "granitehybrid", "mixtral", "qwen2moe",
         "olmoe", "ernie4_5-moe", "gpt-oss", "smallthinker", "nemotron_h_moe", "gemma4-moe")
IDS = list(range(5, 45))

def main():
    golden = {}
    with tempfile.TemporaryDirectory() as folder:
        make_lora.make_tests(folder, NAMES)
        for name in NAMES:
            path, rows = f"{folder}/{name}", []
            a, b = f"{path}.a.gguf", f"{path}.b.gguf"
            for uses in ((a,), (b + ":-0.7",), (a, b + ":0.5")):
                options = [x for use in uses for x in ("--lora", use)]
                command = [sys.argv[1], path + ".gguf", "-n", "1", "--kv", "f32", *options]
                out = subprocess.run(command, check=True,
                                     input=" ".join(map(str, IDS)) + "\n", text=True, stdout=subprocess.PIPE)
                rows.append(json.loads(out.stdout)["logits"])
            golden[name] = {"ids": IDS, "logits": rows}
    rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in golden.items())
    (pathlib.Path(__file__).parent / "lora.json").write_text("{\n" + rows + "\n}\n")

if __name__ == "__main__":
    main()
