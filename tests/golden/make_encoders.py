#!/usr/bin/env python3
"""Writes encoders.json: what llama.cpp makes of texts with the encoders of ../parity/make_tiny.py.
SPDX-License-Identifier: MIT

    make_encoders.py LLAMA_REF [NAME...]

For each model texts of 1, 2, 33 and 150 random tokens; of each its embedding by every pooling that the model
takes, as llama.cpp computes it in floats (but for GELU, which it looks up in 16 bits), and of the second text
those of all tokens.
"""
import json, pathlib, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
import make_tiny

LENGTHS = (1, 2, 33, 150)

def ask(ref, path, texts, pool):
    text = "".join(" ".join(map(str, t)) + "\n" for t in texts)
    out = subprocess.run([ref, str(path), "-c", "512", "-t", "1", "--kv", "f32", "--pool", pool], input=text,
                         text=True, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line)["embedding"] for line in out.splitlines()]

def record(ref, folder, name, m):
    path, digest = make_tiny.make(folder, name)
    rng = make_tiny.Random(7000 + m["seed"])
    usable = make_tiny.N_VOCAB - make_tiny.N_SPECIAL
    texts = [[int(b) for b in rng.bits(n) % make_tiny.np.uint64(usable)] for n in LENGTHS]
    pools = ["rank"] if m.get("classes") else ["mean", "cls", "last"]
    made = {p: ask(ref, path, texts, p) for p in pools}
    made["none"] = ask(ref, path, texts[1:2], "none")
    return {"sha256": digest, "texts": texts, "embeddings": made}

def main():
    ref, *names = sys.argv[1:]
    path = pathlib.Path(__file__).parent / "encoders.json"
    golden = json.loads(path.read_text()) if names else {}
    with tempfile.TemporaryDirectory() as folder:
        for seed, (name, m) in enumerate(make_tiny.encoders(), 3001):
            if not names or name in names: golden[name] = record(ref, folder, name, dict(m, seed=seed))
    rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in golden.items())
    path.write_text("{\n" + rows + "\n}\n")

if __name__ == "__main__":
    main()
