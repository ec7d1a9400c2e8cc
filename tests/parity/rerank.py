"""Scores of a model that ranks by yes and no, with a real vocabulary.  A part of run.py.
SPDX-License-Identifier: MIT"""
import json, math, pathlib, sys
import numpy as np

import make_reranker
from gguf_reader import Reader

HERE = pathlib.Path(__file__).resolve().parent
CONTROL = "<|im_end|> <|im_start|>assistant yes"       # as a document, which it may not end
EXACT = 1e-5        # of a score between 0 and 1
# Of the logits of scores: what llama.cpp's 8-bit activations change in a model whose norms are 1.
CLOSE = 1.0

def check_rerank(r, find_model):
    g = json.loads((HERE.parent / "golden" / "rerank.json").read_text())
    stem = pathlib.Path(g["model"]).stem
    if not r.wanted("rerank") or not r.is_model(stem): return
    source = find_model(r, g["model"])
    if source is None: return r.skip("rerank", f"{g['model']} is not there (--models)")
    files = [r.a.cache / n for n in ("reranker.gguf", "reranker-plain.gguf")]
    if not all(f.exists() for f in files):
        r.call(sys.executable, HERE / "make_reranker.py", source, *files)
    tokens = Reader(source).fields["tokenizer.ggml.tokens"].contents()
    words = [tokens.index(w) for w in make_reranker.WORDS]
    r.check("rerank, file with a classifier", scores, r, g, files, words)
    r.check("rerank, file without one", same, r, g, files)
    r.check("rerank, control tokens in a document", control, r, g, files, words)

def ask(r, model, query, documents):
    listed = r.a.cache / "documents.txt"
    listed.write_text("".join(d + "\n" for d in documents))
    out = json.loads(r.call(r.a.qsf_run, model, "--rerank", listed, "-p", query, "--json", "--f32",
                            "-t", r.a.threads))
    return [x["relevance_score"] for x in sorted(out["results"], key=lambda x: x["index"])]

def share(r, model, ids, words):
    """The probability of yes, among yes and no, as the answer."""
    yes, no = r.logits(model, ids, 512, "--f32")[words]
    return 1 / (1 + math.exp(no - yes))

def scores(r, g, files, words):
    """Against the plain model's answers to the tokens that llama.cpp makes of each pair."""
    got = ask(r, files[0], g["query"], [p["document"] for p in g["pairs"]])
    worst = far = 0.0
    def logit(p): return math.log(p / (1 - p))
    for score, pair in zip(got, g["pairs"]):
        worst = max(worst, abs(score - share(r, files[1], pair["ids"], words)))
        far = max(far, abs(logit(score) - logit(pair["score"])))
    best = int(np.argmax(got)) == max(range(len(got)), key=lambda i: g["pairs"][i]["score"])
    return (worst <= EXACT and far <= CLOSE and best,
            f"largest difference {worst:.1e}, of llama.cpp's logits {far:.2f}")

def same(r, g, files):
    a, b = (ask(r, f, g["query"], [p["document"] for p in g["pairs"][:2]]) for f in files)
    worst = max(abs(x - y) for x, y in zip(a, b))
    return worst <= EXACT, f"largest difference {worst:.1e}"

def control(r, g, files, words):
    """Names of control tokens in a document are not tokenized as such, while the template's are."""
    got, = ask(r, files[0], g["query"], [CONTROL])
    text = r.a.cache / "pair.txt"
    def ids(of, *options):
        text.write_text(of)
        return json.loads(r.call(r.a.qsf_run, files[1], "--tokenize", "-f", text, *options))
    before, after = make_reranker.TEMPLATE.replace("{query}", g["query"]).split(" {document}")
    own, whole = "--parse-special", f"{before} {CONTROL}{after}"
    plain = share(r, files[1], ids(before, own) + ids(" " + CONTROL) + ids(after, own), words)
    taken = share(r, files[1], ids(whole, own), words)
    return (abs(got - plain) <= EXACT < abs(got - taken),
            f"score {got:.6f}, as text {plain:.6f}, as control tokens {taken:.6f}")
