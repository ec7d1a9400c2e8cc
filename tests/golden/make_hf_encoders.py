#!/usr/bin/env python3
"""Records what the Transformers library computes with the directories of ../parity/hf_encoders.py, pooled as
their files say: hf_encoders.json.
SPDX-License-Identifier: MIT

    make_hf_encoders.py [NAME...]       NAME: to record it anew; none: all

Needs what make_hf.py does.  GELU is the tanh form, which the engine has.
"""
import json, os, pathlib, sys, tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "parity"))
import hf_encoders

POOL = {"cls_token": lambda x: x[0], "mean_tokens": lambda x: x.mean(0), "lasttoken": lambda x: x[-1]}

def load(kind, folder, **more):
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **more).eval()

def dense(folder, x):
    for at in sorted(folder.glob("?_Dense")):
        x = load_file(at / "model.safetensors")["linear.weight"].float() @ x
    return x

def numbers(name, folder, ids):
    if name == "nomic-older":       # whose config.json the library does not read, but its tensors
        newer = hf_encoders.config("nomic", hf_encoders.model("nomic"))
        (folder / "config.json").write_text(json.dumps(newer))
    tanh = {k: "gelu_pytorch_tanh" for k in ("hidden_activation", "classifier_activation")
            if name.startswith("modern")}
    with torch.no_grad():
        if hf_encoders.reranks(name):
            logits = load(AutoModelForCausalLM, folder)(torch.tensor([ids])).logits[0, -1]
            return logits[[hf_encoders.YES, hf_encoders.NO]].softmax(0)
        if name.startswith("modern-rank"):
            return load(AutoModelForSequenceClassification, folder, **tanh)(torch.tensor([ids])).logits[0]
        x = load(AutoModel, folder, **tanh)(torch.tensor([ids])).last_hidden_state[0]
    said = json.loads((folder / "1_Pooling" / "config.json").read_text())
    return dense(folder, POOL[next(k for k in POOL if said["pooling_mode_" + k])](x))

def main():
    path = HERE / "hf_encoders.json"
    found = json.loads(path.read_text()) if path.exists() and sys.argv[1:] else {}
    names = [n for n in hf_encoders.CASES if not n.startswith(hf_encoders.FOREIGN)]
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or names:
            at, _ = hf_encoders.make(folder, name)
            found[name] = [[float(f"{x:.7g}") for x in numbers(name, at, ids).tolist()]
                           for ids in hf_encoders.texts()]
    rows = [f'"{n}": {json.dumps(v)}' for n, v in sorted(found.items())]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")

if __name__ == "__main__":
    main()
