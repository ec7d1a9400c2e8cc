#!/usr/bin/env python3
"""Writes peft.json: llama.cpp's logits of ../parity/make_hf_pair.py's GGUF files with adapters of
../parity/make_peft.py as GGUF files, which have the numbers of the PEFT directories beside them.
SPDX-License-Identifier: MIT

    make_peft_golden.py LLAMA_REF
"""
import json, pathlib, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
import make_hf_pair, make_peft, make_tiny

NAMES = ("llama", "qwen2", "smollm3")
IDS = list(range(5, 45))
MEMBERS = {"seed": 11, "use_rslora": True, "r": 5, "alpha_pattern": {"q_proj": 20}}

def main():
    golden = {"ids": IDS, "members": MEMBERS, "logits": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            m = make_tiny.models()[name]
            model, gguf = make_hf_pair.make(folder, name)
            adapter = make_peft.write_gguf(f"{folder}/{name}.a.gguf", m["arch"], m["n_heads"],
                                           m["n_kv_heads"], *make_peft.make(model, **MEMBERS))
            out = subprocess.run([sys.argv[1], gguf, "-n", "1", "--kv", "f32", "--lora", adapter], check=True,
                                 input=" ".join(map(str, IDS)) + "\n", text=True, stdout=subprocess.PIPE)
            golden["logits"][name] = json.loads(out.stdout)["logits"]
    (pathlib.Path(__file__).parent / "peft.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")

if __name__ == "__main__":
    main()
