#!/usr/bin/env python3
"""Records what the Transformers library computes with the directories of ../parity/make_hf_pair.py that have
other layers or layouts than Llama's: hf.json, the logits behind one prompt.
SPDX-License-Identifier: MIT

    make_hf.py [NAME...]        NAME: of a model, to record it anew; none: all

Needs torch, transformers (5.24 was taken), accelerate, gguf and safetensors.  Floats, plain attention.
"""
import json, os, pathlib, sys, tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "parity"))
import hf_layouts, make_hf_pair, make_tiny

def names():
    models = make_tiny.models()
    newer = [n for n in make_hf_pair.TYPED if models[n]["arch"] in hf_layouts.ARCHS]
    # the library wants whole heads in the width of a DeepSeek V2
    return [n for n in newer if n != "deepseek2-lite"] + [*hf_layouts.VARIANTS]

def logits(folder, ids):
    pictures = "vision_config" in json.loads((folder / "config.json").read_text())
    auto = AutoModelForImageTextToText if pictures else AutoModelForCausalLM
    model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                 experts_implementation="eager")
    with torch.no_grad(): out = model(torch.tensor([ids])).logits[0, -1]
    return [float(f"{x:.7g}") for x in out.tolist()]

def main():
    path = HERE / "hf.json"
    ids = json.loads((HERE / "tiny.json").read_text())["llama"]["prompts"][1]["prompt"]
    found = json.loads(path.read_text()) if path.exists() and sys.argv[1:] else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or names():
            found[name] = logits(make_hf_pair.make(folder, name)[0], ids)
    rows = [f'"{n}": {json.dumps(v)}' for n, v in sorted(found.items())]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")

if __name__ == "__main__":
    main()
