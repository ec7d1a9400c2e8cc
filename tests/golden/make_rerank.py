#!/usr/bin/env python3
"""Writes rerank.json: tokens and scores that llama.cpp gives pairs of texts with ../parity/make_reranker.py.
SPDX-License-Identifier: MIT

    make_rerank.py LLAMA_REF qwen2.5-coder-0.5b-q4_k_m.gguf

LLAMA_REF as README.md builds it. Spaces at the beginning and at the end of texts are what tells a template
that is one text to the tokenizer from one whose places are tokens of their own.
"""
import hashlib, json, pathlib, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "parity"))
import make_reranker

QUERY = "When was the tower built?"
DOCUMENTS = ["The tower was built from 1887 to 1889 for the World's Fair.",
             "  Bananas are rich in potassium. ", "Der Turm wurde 1889 fertig; er ist 330 m hoch.",
             "塔は1889年に完成した。", "def tower():\\n    return 1889"]

def ask(ref, model, documents):
    def line(d):
        text = make_reranker.TEMPLATE.replace("{query}", QUERY).replace("{document}", d)
        return "text: " + text.replace("\\", "\\\\").replace("\n", "\\n") + "\n"
    out = subprocess.run([ref, model, "-c", "512", "-t", "2", "--kv", "f32", "--pool", "rank"], check=True,
                         input="".join(map(line, documents)), text=True, stdout=subprocess.PIPE).stdout
    return [json.loads(line) for line in out.splitlines()]

def main():
    ref, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        files = [str(pathlib.Path(folder) / n) for n in ("reranker.gguf", "plain.gguf")]
        make = HERE.parent / "parity" / "make_reranker.py"
        subprocess.run([sys.executable, make, model, *files], check=True)
        answers = ask(ref, files[0], DOCUMENTS)
    pairs = [{"document": d, "ids": a["prompt"], "score": round(a["embedding"][0], 6)}
             for d, a in zip(DOCUMENTS, answers)]
    digest = hashlib.sha256(pathlib.Path(model).read_bytes()).hexdigest()
    golden = {"model": "qwen2.5-coder-0.5b-q4_k_m.gguf", "sha256": digest, "query": QUERY, "pairs": pairs}
    (HERE / "rerank.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(", ", ": ")) + "\n")

if __name__ == "__main__":
    main()
