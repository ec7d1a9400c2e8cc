#!/usr/bin/env python3
"""Trains small Unigram models with SentencePiece on this project's documents, and records what they cut texts
into: unigram.model, unigram-bytes.model, whose unknown characters are bytes, and unigram.json.
SPDX-License-Identifier: MIT

    make_unigram.py             needs sentencepiece (0.2.3 was taken)
"""
import io, json, pathlib, random, re, tempfile

import sentencepiece

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = ("models.md", "embeddings.md", "adding.md", "chat.md", "memory.md")
LETTERS = list("aeiounstrlTHéß中Ⅷ½ﬁ \t!?.,0123456789") + ["the ", "ing", "model", "  "]
# what the normaliser replaces, as code points: a ligature, a fraction, a capital, a full-width mark
RULES = "FB01\t66 69\nBD\t31 2F 32\n54\t74\nFF01\t21\n"

def texts():
    r = random.Random(5)
    yield from ("The model reads  a text.", " leading and trailing ", "naïve café", "中文 text!")
    yield "ﬁne ½ Tests！"
    for _ in range(40): yield "".join(r.choice(LETTERS) for _ in range(r.randrange(1, 60)))

def train(lines, rules, **more):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram",
        normalization_rule_tsv=str(rules), num_threads=1, minloglevel=2, **more)
    return model.getvalue()

def main():
    docs, cut = HERE.parent.parent / "docs", {}
    lines = [line for name in DOCUMENTS for line in (docs / name).read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text(RULES)
        few = [re.sub("[^a-z ]", "", line) for line in lines]       # of which pieces are made beside bytes
        for name, of, more in (("unigram", lines, {"vocab_size": 268, "character_coverage": 0.995}),
                               ("unigram-bytes", few, {"vocab_size": 296, "byte_fallback": True})):
            model = train(of, rules, **more)
            (HERE / f"{name}.model").write_bytes(model)
            p = sentencepiece.SentencePieceProcessor(model_proto=model)
            cut[name] = [[t, p.encode(t)] for t in texts()]
    rows = [f'"{n}": [\n' + ",\n".join(json.dumps(c, ensure_ascii=False) for c in v) + "\n]"
            for n, v in cut.items()]
    (HERE / "unigram.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")

if __name__ == "__main__":
    main()
