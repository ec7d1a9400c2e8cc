#!/usr/bin/env python3
"""Trains a small Unigram model with SentencePiece on this project's documents, and records what it cuts texts
into: unigram.model and unigram.json.
SPDX-License-Identifier: MIT

    make_unigram.py             needs sentencepiece (0.2.3 was taken)
"""
import io, json, pathlib, random, tempfile

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

def main():
    docs = HERE.parent.parent / "docs"
    lines = [line for name in DOCUMENTS for line in (docs / name).read_text().splitlines()]
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text(RULES)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=268, model_type="unigram",
            character_coverage=0.995, normalization_rule_tsv=str(rules),
            num_threads=1, minloglevel=2)
    (HERE / "unigram.model").write_bytes(model.getvalue())
    p = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    cut = [[t, p.encode(t)] for t in texts()]
    rows = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cut)
    (HERE / "unigram.json").write_text(f"[\n{rows}\n]\n")

if __name__ == "__main__":
    main()
