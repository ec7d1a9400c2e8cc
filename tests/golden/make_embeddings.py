#!/usr/bin/env python3
"""Writes embeddings.json: what llama.cpp makes of some texts, by mean and by last token.
SPDX-License-Identifier: MIT

    make_embeddings.py LLAMA_SERVER MODEL.gguf...

LLAMA_SERVER is built as README.md says (target llama-server). An embedding is recorded as whole numbers of 16
bits, of which 32767 is the largest there is, in base64: that costs a cosine 1e-8.
"""
import base64
import http.client
import json
import pathlib
import struct
import subprocess
import sys
import time

PORT = 8937
TEXTS = ["The weather is fine today.", "Es ist heute schönes Wetter.", "A",
         "def add(a, b):\n    return a + b\n",
         "Paris is the capital of France, and Berlin is the capital of Germany. " * 6]
# What the rounding of activations to 8 bits leaves, in both programs, and of our keys and values.
LEAST = 0.998


def ask(method, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
    c.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    return r.status, json.loads(r.read())


def packed(numbers):
    most = max(map(abs, numbers))
    whole = [round(x * 32767 / most) for x in numbers]
    return base64.b64encode(struct.pack(f"<{len(whole)}h", *whole)).decode()


def embeddings(program, model, pooling):
    """The texts' embeddings by a server of its own."""
    p = subprocess.Popen([program, "-m", model, "--embeddings", "--pooling", pooling, "--port", str(PORT),
                          "-c", "1024"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            time.sleep(0.2)
            try:
                if ask("GET", "/health")[0] == 200: break
            except OSError:
                pass
        status, answer = ask("POST", "/v1/embeddings", {"input": TEXTS})
        assert status == 200, answer
        return [packed(d["embedding"]) for d in answer["data"]]
    finally:
        p.terminate()
        p.wait()


def main():
    models = {pathlib.Path(m).name: {p: embeddings(sys.argv[1], m, p) for p in ("mean", "last")}
              for m in sys.argv[2:]}
    out = pathlib.Path(__file__).resolve().parent / "embeddings.json"
    out.write_text(json.dumps({"texts": TEXTS, "least": LEAST, "models": models}, ensure_ascii=False,
                              indent=1) + "\n")


if __name__ == "__main__":
    main()
