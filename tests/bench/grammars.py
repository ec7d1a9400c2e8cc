#!/usr/bin/env python3
"""Times of grammars: compiling JSON Schemas, and masks along instances, against llguidance and llama.cpp.
SPDX-License-Identifier: MIT

    grammars.py DIR --accept PROGRAM --model GGUF      DIR: maskbench/data of guidance-ai/jsonschemabench

--accept PROGRAM   the program schema_accept of this tree (`ninja schema_accept`)
--model GGUF       whose vocabulary and tokenizer
--every N          only each Nth schema           --part I/N      part I of N
--keep FILE        adds to what earlier runs have put there: tables are of all of them
--alone            neither of the others
--llama PROGRAM    llama.cpp's, of bench/grammar_llama.cpp        --llama-every N   its argument (10)

A walk follows a valid instance of the collection, unchanged and split by the model's tokenizer: it asks for a
mask before each token and checks that the token is in it.  Cold: the walk begins with a grammar that was just
compiled.  Warm: the same walk again.  A walk that ends early, because the collection has another order of
members than the schema, counts up to there.  Times are processor time, except llama.cpp's masks, which are
clock time.  Needs the packages llguidance, tokenizers, gguf and numpy.
"""
import argparse, json, pathlib, statistics, sys, time

from schema_bench import Accept, cases

# What Qwen2 cuts its texts by, before merges.
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
PARTS = ("compile", "cold", "warm")


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {**{chr(b): b for b in plain}, **{chr(256 + i): b for i, b in enumerate(other)}}


class Vocabulary:
    """A GGUF file's tokens as llguidance wants them."""

    def __init__(self, path):
        import gguf
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers
        fields = gguf.GGUFReader(path).fields

        def texts(key):
            f = fields[key]
            return [bytes(f.parts[i]).decode() for i in f.data]
        tokens, kinds = texts("tokenizer.ggml.tokens"), fields["tokenizer.ggml.token_type"]
        kinds, letters = [int(kinds.parts[i][0]) for i in kinds.data], byte_letters()
        self.tokens = [t.encode() if k != 1 else bytes(letters[c] for c in t) for t, k in zip(tokens, kinds)]
        self.special_token_ids = [i for i, k in enumerate(kinds) if k == 3]
        self.eos_token_id = int(fields["tokenizer.ggml.eos_token_id"].parts[-1][0])
        self.bos_token_id = None
        merges = [tuple(m.split(" ")) for m in texts("tokenizer.ggml.merges")]
        self.encoder = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
        self.encoder.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    def __call__(self, text):
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        return self.encoder.encode(text, add_special_tokens=False).ids


class Guidance:
    def __init__(self, words):
        import llguidance, llguidance.numpy as masks
        self.words, self.masks, self.matcher = words, masks, llguidance.LLMatcher
        self.tokens = llguidance.LLTokenizer(llguidance.TokenizerWrapper(words))
        self.mask = masks.allocate_token_bitmask(1, self.tokens.vocab_size)

    def make(self, schema):
        """(matcher, microseconds); None where it cannot."""
        start = time.thread_time_ns()
        m = self.matcher(self.tokens, json.dumps({"grammars": [{"json_schema": schema}]}), log_level=0)
        us = (time.thread_time_ns() - start) / 1e3
        return None if m.is_error() else (m, us)

    def walk(self, m, ids):
        out = []
        for t in ids:
            start = time.thread_time_ns()
            self.masks.fill_next_token_bitmask(m, self.mask, 0)
            out.append((time.thread_time_ns() - start) / 1e3)
            if not self.mask[0, t // 32] >> (t % 32) & 1 or not m.consume_token(t):
                break
        m.reset()
        return out


def measure(a, who, part, values):
    a.times.setdefault(who, {p: [] for p in PARTS})[part] += [round(v, 2) for v in values]


def guided(a, guidance, schema, texts):
    """Whether llguidance compiles it; measures it then."""
    made = guidance.make(schema)
    if not made:
        return False
    measure(a, "llguidance", "compile", [made[1]])
    for text in texts:
        m, ids = guidance.make(schema)[0], guidance.words(text)
        measure(a, "llguidance", "cold", guidance.walk(m, ids))
        measure(a, "llguidance", "warm", guidance.walk(m, ids))
    return True


def here(a, accept, name, schema, texts):
    for text in texts or [None]:
        error, us, _, masks = accept.ask(schema, [text, text] if text is not None else [])
        if error:
            return
        measure(a, "libqsf", "compile", [us] if text is None or text is texts[0] else [])
        measure(a, "libqsf", "cold", masks[:len(masks) // 2])
        measure(a, "libqsf", "warm", masks[len(masks) // 2:])
        if a.show and masks and max(masks) > 1000:
            print(name, len(masks), "masks, the slowest %.0f us" % max(masks))


def table(times):
    print("| | | median | mean | 99% | most | number |\n|---|---|---|---|---|---|---|")
    for part, unit in (("compile", "ms"), ("cold", "us"), ("warm", "us")):
        for who, parts in times.items():
            s = sorted(parts[part])
            if not s:
                continue
            by = 1e3 if unit == "ms" else 1
            print("| %s, %s | %s | %.2f | %.2f | %.2f | %.1f | %d |" % (
                part if part == "compile" else "mask, " + part, unit, who, s[len(s) // 2] / by,
                statistics.fmean(s) / by, s[len(s) * 99 // 100] / by, s[-1] / by, len(s)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir")
    p.add_argument("--accept", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--part", default="0/1")
    p.add_argument("--keep", type=pathlib.Path)
    p.add_argument("--alone", action="store_true")
    p.add_argument("--llama")
    p.add_argument("--llama-every", default="10")
    p.add_argument("--show", action="store_true")
    a = p.parse_args()
    a.times = json.loads(a.keep.read_text()) if a.keep and a.keep.exists() else {}
    accept = Accept(a.accept, [a.model])
    guidance = None if a.alone else Guidance(Vocabulary(a.model))
    llama = Accept(a.llama, [a.model, a.llama_every]) if a.llama else None
    for name, case in cases(a):
        schema = case["schema"]
        texts = [json.dumps(t["data"], ensure_ascii=False) for t in case["tests"] if t["valid"]]
        if guidance and not (accept.ask(schema, [])[0] is None and guided(a, guidance, schema, texts)):
            continue
        here(a, accept, name, schema, texts)
        error, us, _, masks = llama.ask(schema, texts) if llama else ("not asked", 0, 0, 0)
        if not error:
            measure(a, "llama.cpp", "compile", [us])
            measure(a, "llama.cpp", "cold", masks)
    if a.keep:
        a.keep.write_text(json.dumps(a.times))
    table(a.times)


if __name__ == "__main__":
    sys.exit(main())
