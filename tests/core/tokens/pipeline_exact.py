#!/usr/bin/env python3
"""Every part of Hugging Face's `tokenizers` against qsf-convert and qsf-run: small vocabularies in the
combinations that models use, random inputs, the same ids and the same text back.
SPDX-License-Identifier: MIT

    pipeline_exact.py TOKEN_LINES QSF_CONVERT [--only NAME] [--texts N] [--scalars]

The converter must refuse what it cannot read, naming the part: refused() has these cases."""
import argparse, json, pathlib, random, subprocess, sys, tempfile

import numpy
from safetensors.numpy import save_file
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P,
                        processors, trainers)

ROOT = pathlib.Path(__file__).resolve().parents[3]
MARK = "\u2581"
LETTERS = list("aAbBeéÉİıßΣσДжЯक़िाहिन्दी한국어가각中文日本語のガ\u3000 "
               "\t\n\r\x0b\x85\xa0\u2028\x01\x07\ufffd\u200b\u2581\u00b2"
               "!?.,;:'\"`-_$+<=>^|~¿、。…½Ⅷ0123456789\u0301\u0327\u20dd"
               "\U0001f600\ufb01\u212b\u037e\u2126\uff21\u00ad\ufeff")
LETTERS += ["ing", "er", "qsf", " the", "  ", "   ", "\r\n", "'s", "'LL", "``", "''", "hello", "world",
            "1234"]


def texts(n, seed, more):
    r = random.Random(seed)
    for i in range(n):
        pool = LETTERS if i % 3 else list("abcdehlo wr\n.,1") + [" ", "hello", "world", " the"]
        yield "".join(r.choice(more) if more and r.random() < .12 else r.choice(pool) if r.random() < .98 else
                      chr(r.choice((r.randrange(1, 0xd800), r.randrange(0xe000, 0x110000))))
                      for _ in range(r.randrange(0, 60)))


def documents():
    return [p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").glob("*.md"))[:12]] + [
        "한국어 가각 中文 日本語 Дж é हिन्दी hello world the theater 1234 ... don't DON'T"] * 40


# ---- parts
# -----------------------------------------------------------------------------------------------

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| "
        r"?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
        r"|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
          r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
level = lambda regex=False, prefix=False: P.ByteLevel(add_prefix_space=prefix, use_regex=regex)
split = lambda e, how="isolated", invert=False: P.Split(Regex(e), how, invert)
metaspace = lambda scheme, whole=False: P.Metaspace(prepend_scheme=scheme, split=not whole)
spm_decoder = lambda: decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(),
                                         decoders.Fuse(),
                                         decoders.Strip(" ", 1, 0)])


def trained(model, trainer, normalizer=None, pre=None, decoder=None, post=None):
    t = Tokenizer(model)
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoder
    t.train_from_iterator(documents(), trainer)
    if post:
        t.post_processor = post
    return t


def bpe(size=900, alphabet=True, special=("<s>", "</s>", "<unk>"), trainer={}, normalizer=None, pre=None,
        decoder=None, post=None, **model):
    if alphabet:
        trainer = {"initial_alphabet": P.ByteLevel.alphabet(), **trainer}
    return trained(models.BPE(**model), trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), show_progress=False, **trainer), normalizer, pre,
                decoder,
        post)


def byte_level(pre=None, normalizer=None, **more):
    return bpe(normalizer=normalizer, pre=pre or level(True), decoder=decoders.ByteLevel(), **more)


def spm(normalizer=None, pre=None, fallback=True, fuse=True, edit=None, **more):
    """As in Llama: marks for spaces, bytes for what the vocabulary lacks."""
    t = bpe(alphabet=False, normalizer=normalizer or N.Replace(" ", MARK), pre=P.Split(MARK,
            "merged_with_next"),
            decoder=spm_decoder(), unk_token="<unk>", trainer={"limit_alphabet": 120})
    d = json.loads(t.to_str())
    d["pre_tokenizer"] = json.loads(pre.__getstate__()) if pre else None
    if fallback:
        n = len(d["model"]["vocab"])
        for b in range(256):
            d["model"]["vocab"][f"<0x{b:02X}>"] = n + b
    d["model"].update(byte_fallback=fallback, fuse_unk=fuse)
    if edit:
        edit(d)
    return Tokenizer.from_str(json.dumps(d))


def changed(t, edit):
    d = json.loads(t.to_str())
    edit(d)
    return Tokenizer.from_str(json.dumps(d))


def with_added(t, *tokens):
    special = [a for a in tokens if a.special]
    t.add_special_tokens(special)
    t.add_tokens([a for a in tokens if not a.special])
    return t


def wordpiece(normalizer=None, pre=None, post=None, decoder=None, prefix="##", **more):
    return trained(models.WordPiece(unk_token="[UNK]", **more), trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False,
        continuing_subword_prefix=prefix), normalizer or N.BertNormalizer(), pre or P.BertPreTokenizer(),
        decoder or decoders.WordPiece(prefix), post)


def unigram(normalizer=None, pre=None, fallback=False, decoder=None, post=None):
    t = trained(models.Unigram(), trainers.UnigramTrainer(
        vocab_size=900, special_tokens=["<pad>", "</s>", "<unk>", "<mask>"], unk_token="<unk>",
        show_progress=False), normalizer, pre or P.Metaspace(), decoder or decoders.Metaspace(), post)
    d = json.loads(t.to_str())
    # as precise as the file's 32 bits
    d["model"]["vocab"] = [[a, float(numpy.float32(s))] for a, s in d["model"]["vocab"]]
    d["model"]["byte_fallback"] = fallback
    d["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256 * fallback)]
    return Tokenizer.from_str(json.dumps(d))


def wordlevel(pre, normalizer=None, decoder=None):
    return trained(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(
        vocab_size=900, special_tokens=["<unk>", "<s>"], show_progress=False), normalizer, pre, decoder)


def charsmap():
    data = (ROOT / "tests" / "golden" / "unigram.model").read_bytes()
    at = 0
    # precompiled_charsmap (field 2) in the file's normalizer_spec (field 3)
    def fields(b):
        i = 0
        def varint():
            nonlocal i
            v = s = 0
            while True:
                v |= (b[i] & 127) << s
                s += 7
                i += 1
                if b[i - 1] < 128:
                    return v
        while i < len(b):
            key = varint()
            if key & 7 == 2:
                n = varint()
                yield key >> 3, b[i:i + n]
                i += n
            elif key & 7 == 5:
                i += 4
            else:
                varint()
    spec = next(v for k, v in fields(data) if k == 3)
    return next((v for k, v in fields(spec) if k == 2), b"")


def template(single, *tokens):
    return processors.TemplateProcessing(single=single, special_tokens=list(tokens))


def cases():
    """name -> tokenizer.  Functions, so that --only makes just one."""
    flags = lambda **on: lambda: with_added(byte_level(), AddedToken("<|x|>", special=True, **on),
                                            AddedToken("hello", special=False, **on),
                                            AddedToken("lo", special=False, **on))
    yield "gpt2", lambda: byte_level()
    yield "gpt2 prefix", lambda: byte_level(level(True, True))
    yield "llama3", lambda: byte_level(P.Sequence([split(LLAMA3), level()]), ignore_merges=True)
    yield "llama3 without ignore", lambda: byte_level(P.Sequence([split(LLAMA3), level()]))
    yield "gpt2 with ignore", lambda: byte_level(ignore_merges=True)
    yield "gpt4 possessive", lambda: byte_level(P.Sequence([split(GPT4, "removed", True), level()]))
    yield "starcoder", lambda: byte_level(P.Sequence([P.Digits(True), level(True)]))
    yield "falcon", lambda: byte_level(P.Sequence([P.Punctuation("contiguous"), level(True), P.Digits(False),
                                                   split("[0-9][0-9][0-9]")]))
    yield "bloom", lambda: byte_level(P.Sequence([split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), level()]))
    yield "threes", lambda: byte_level(P.Sequence([split(r"\d{1,3}(?=(?:\d{3})*\b)"), level(True)]))
    yield "neox nfc", lambda: byte_level(normalizer=N.NFC())
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    yield "clip", lambda: bpe(
        normalizer=N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
        pre=P.Sequence([split(words, "removed", True), level()]), decoder=decoders.ByteLevel(),
        end_of_word_suffix="</w>", trainer={"end_of_word_suffix": "</w>"}, unk_token="<unk>",
        post=processors.RobertaProcessing(("</s>", 1), ("<s>", 0)))
    yield "roberta", lambda: with_added(byte_level(post=processors.RobertaProcessing(("</s>", 1), ("<s>",
            0))),
                                        AddedToken("<mask>", special=True, lstrip=True, normalized=False))
    for name in "lstrip", "rstrip", "single_word", "normalized":
        yield f"added {name}", flags(**{name: True})
    yield "added all", flags(lstrip=True, rstrip=True, single_word=True, normalized=True)
    yield "added lower", lambda: with_added(byte_level(normalizer=N.Lowercase()),
                                            AddedToken("HELLO", special=False, normalized=True),
                                            AddedToken("World", special=False, normalized=False),
                                            AddedToken("<X>", special=True, normalized=True))
    yield "two bos", lambda: byte_level(post=template("<s> <s> $A </s>", ("<s>", 0), ("</s>", 1)))
    yield "one bos", lambda: byte_level(post=processors.Sequence([
        processors.ByteLevel(), template("<s> $A", ("<s>", 0))]))
    for form in "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "Strip":
        yield f"normalizer {form}", lambda form=form: byte_level(normalizer=getattr(N, form)())
    yield "normalizer strip left", lambda: byte_level(normalizer=N.Strip(True, False))
    yield "normalizer nfd strip", lambda: byte_level(normalizer=N.Sequence([N.NFD(), N.StripAccents(),
                                                                            N.Lowercase()]))
    yield "normalizer prepend", lambda: byte_level(normalizer=N.Sequence([N.Prepend("x"), N.Replace("he",
            "y"),
                                                                          N.Replace(Regex("[lo]+"), "")]))
    yield "normalizer bytes", lambda: bpe(normalizer=N.ByteLevel(), decoder=decoders.ByteLevel())
    yield "normalizer bert", lambda: byte_level(normalizer=N.BertNormalizer(False, True, True, False))
    yield "normalizer precompiled", lambda: byte_level(normalizer=N.Precompiled(charsmap()))
    for how in "removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous":
        for invert in False, True:
            yield f"split {how} {invert}", lambda how=how, invert=invert: byte_level(
                P.Sequence([split(r"[aeiou]|\s", how, invert), level()]))
        yield f"split text {how}", lambda how=how: byte_level(P.Sequence([P.Split("lo", how), level()]))
        yield f"punctuation {how}", lambda how=how: byte_level(P.Sequence([P.Punctuation(how), level()]))
    expressions = {
        "empty": r"\d*", "camel": r"(?=\p{Lu})", "behind": r"(?<=\d)(?!\d)|(?<![a-z])h", "line": r"^\w+$",
        "dot": r".{1,3}?b", "atomic": r"(?>a+)b|[[:punct:]]+|\bhe|\Bo\b",
        "classes": r"[\w]+|[^\w\s]{2,}|[\x{4e00}-\x{9fff}\u3040-\u30ff]+|\P{L}",
        "alternatives": r"(a|b(c|d)?|)(e{2}|f)+|x?y*?z", "case": r"(?i)HELLO|(?i:É|σ)world|(?-i:THE)",
        "categories": r"\p{Sc}|\p{^L}\p{Lu}|\p{Zs}+|[\p{Nd}\p{Pd}]+", "han": r"\p{Han}+|[^\p{Han}]{4}"}
    for name, e in expressions.items():
        yield f"expression {name}", lambda e=e: byte_level(P.Sequence([split(e), level()]))
    yield "pre whitespace", lambda: wordlevel(P.Whitespace())
    yield "pre whitespace split", lambda: wordlevel(P.WhitespaceSplit())
    yield "pre char", lambda: wordlevel(P.CharDelimiterSplit("e"))
    yield "pre digits", lambda: wordlevel(P.Sequence([P.WhitespaceSplit(), P.Digits(False)]))
    yield "pre digit", lambda: wordlevel(P.Sequence([P.WhitespaceSplit(), P.Digits(True), P.Punctuation()]))
    yield "pre bert", lambda: wordlevel(P.BertPreTokenizer(), N.BertNormalizer(lowercase=False))
    yield "pre fixed", lambda: wordlevel(P.FixedLength(3))
    for scheme in "always", "first", "never":
        for whole in False, True:
            yield f"metaspace {scheme} {whole}", lambda scheme=scheme, whole=whole: with_added(
                spm(N.Sequence([]), metaspace(scheme, whole)), AddedToken("<x>", special=True,
                        normalized=False),
                AddedToken("world", special=False, rstrip=True))
    yield "llama2", lambda: with_added(spm(N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK)])),
                                       AddedToken("<x>", special=True, normalized=False))
    yield "llama2 normalized", lambda: with_added(spm(N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK)])),
                                                  AddedToken("hello", special=False))
    yield "gemma", lambda: spm(N.Replace(" ", MARK), P.Split(" ", "merged_with_previous"))
    yield "spm without bytes", lambda: spm(fallback=False, fuse=True)
    yield "spm without fuse", lambda: spm(fallback=False, fuse=False)
    yield "spm few bytes", lambda: spm(edit=lambda d: [d["model"]["vocab"].pop(f"<0x{b:02X}>")
                                                       for b in range(255, 0xe0, -1)])
    fewer = lambda d: d["model"]["merges"].__delitem__(slice(5, None, 7))
    yield "merges without a way", lambda: spm(N.Replace(" ", MARK), edit=fewer)
    yield "bpe prefix", lambda: bpe(alphabet=False, pre=P.Whitespace(), continuing_subword_prefix="##",
                                    unk_token="<unk>", trainer={"continuing_subword_prefix": "##"},
                                    decoder=decoders.WordPiece("##", False))
    yield "bpe suffix", lambda: bpe(alphabet=False, pre=P.BertPreTokenizer(), end_of_word_suffix="</w>",
                                    unk_token="<unk>", trainer={"end_of_word_suffix": "</w>"},
                                    normalizer=N.BertNormalizer(), decoder=decoders.BPEDecoder("</w>"))
    yield "bpe without pieces", lambda: bpe(alphabet=False, pre=P.Whitespace(), fuse_unk=True,
                                            unk_token="<unk>")
    yield "bert", lambda: wordpiece(post=template("[CLS] $A [SEP]", ("[CLS]", 2), ("[SEP]", 3)))
    yield "bert cased", lambda: wordpiece(N.BertNormalizer(lowercase=False))
    yield "bert processing", lambda: wordpiece(post=processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))
    yield "bert mask", lambda: with_added(wordpiece(), AddedToken("[MASK]", special=True, lstrip=True))
    yield "bert no clean", lambda: wordpiece(N.BertNormalizer(clean_text=False, handle_chinese_chars=False))
    yield "wordpiece other", lambda: wordpiece(N.Sequence([N.NFKC(), N.Lowercase()]), P.Whitespace(),
                                               prefix="@@",
                                               max_input_chars_per_word=12)
    yield "t5", lambda: unigram(N.Precompiled(charsmap()), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]),
                                post=template("$A </s>", ("</s>", 1)))
    yield "albert", lambda: with_added(unigram(N.Sequence([
        N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(),
        N.Precompiled(charsmap()), N.Replace(Regex(" {2,}"), " ")]), P.Sequence([P.WhitespaceSplit(),
                P.Metaspace()]),
        post=template("</s> $A <pad>", ("</s>", 1), ("<pad>", 0))),
        AddedToken("<mask>", special=True, lstrip=True, normalized=False))
    yield "xlm-r", lambda: unigram(N.Sequence([N.Precompiled(charsmap()), N.Replace(Regex(" {2,}"), " ")]),
                                   P.Metaspace(prepend_scheme="always"))
    yield "deberta", lambda: unigram(N.Sequence([N.Strip(), N.Precompiled(charsmap()),
                                                 N.Replace(Regex(" {2,}"), MARK)]),
                                     P.Metaspace(prepend_scheme="first", split=False))
    yield "unigram bytes", lambda: unigram(N.Nmt(), fallback=True, decoder=decoders.Sequence([
        decoders.ByteFallback(), decoders.Metaspace()]))


def refused():
    """name of the refused part -> tokenizer"""
    yield "UnicodeScripts", lambda: byte_level(P.Sequence([P.UnicodeScripts(), level()]))
    yield "CTC", lambda: changed(byte_level(), lambda d: d.update(decoder=json.loads(
        decoders.CTC().__getstate__())))
    yield "dropout", lambda: changed(byte_level(), lambda d: d["model"].update(dropout=.5))
    yield "behind of more", lambda: byte_level(P.Sequence([split("(?<=ab+)c"), level()]))
    yield "escape", lambda: byte_level(P.Sequence([split(r"(a)\1"), level()]))


# ---- the other side
# --------------------------------------------------------------------------------------

def write_hf(folder, t):
    """A Llama model that is only used for its tokenizer."""
    folder.mkdir()
    n, d = max(t.get_vocab(True).values()) + 1, 64
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": d,
        "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": n,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True}))
    z = lambda *shape: numpy.zeros(shape, numpy.float32)
    layer = {"self_attn.q_proj": z(d, d), "self_attn.k_proj": z(d, d), "self_attn.v_proj": z(d, d),
             "self_attn.o_proj": z(d, d), "mlp.gate_proj": z(64, d), "mlp.up_proj": z(64, d),
             "mlp.down_proj": z(d, 64), "input_layernorm": z(d), "post_attention_layernorm": z(d)}
    tensors = {f"model.layers.0.{k}.weight": v for k, v in layer.items()}
    save_file({"model.embed_tokens.weight": z(n, d), "model.norm.weight": z(d), **tensors},
              str(folder / "model.safetensors"))


def run(command, data=b""):
    p = subprocess.run(command, input=data, capture_output=True)
    return p.returncode, p.stdout, p.stderr.decode(errors="replace")


def added_contents(t):
    return [a.content for a in t.get_added_tokens_decoder().values()]


def same_text(ours, theirs):
    """Compares pieces as within a string: decoders remove a space at its beginning or end."""
    return ours.strip(" ") == theirs.strip(" ")


def check(o, name, make, tmp):
    t = make()
    folder = pathlib.Path(tmp) / name.replace(" ", "_")
    write_hf(folder, t)
    model = str(folder) + ".qsf"
    code, _, err = run([o.convert, str(folder), model])
    if code:
        print(f"FAIL {name}: refused: {err.strip()[-300:]}")
        return 1
    batch = [x.replace("\0", "") for x in texts(o.texts, 5, added_contents(t) + ["<x>", "<|x|>", "HELLO"])]
    if o.scalars:
        every = [chr(c) for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000]
        batch += ["a" + "".join(every[i:i + 997]) for i in range(0, len(every), 997)]
        batch += ["".join("a" + c + " " for c in every[i:i + 997]) for i in range(0, len(every), 997)]
    code, out, err = run([o.lines, model], "\0".join(batch).encode() + b"\0")
    if code:
        print(f"FAIL {name}: {err.strip()[-300:]}")
        return 1
    bad = shown = 0
    for text, line in zip(batch, out.decode().splitlines(), strict=True):
        ids, hexa = json.loads(line)
        theirs = t.encode(text).ids
        back, want = bytes.fromhex(hexa).decode(errors="replace"), t.decode(theirs, skip_special_tokens=False)
        if ids == theirs and same_text(back, want):
            continue
        bad += 1
        if (shown := shown + 1) <= o.show:
            if ids != theirs:
                i = next((i for i, (a, b) in enumerate(zip(ids, theirs)) if a != b), min(len(ids),
                        len(theirs)))
                part = lambda l: [t.id_to_token(x) for x in l[max(0, i - 2):i + 4]]
                print(f"FAIL {name}: {text[:90]!r}: at {i} {part(ids)}, expected {part(theirs)}")
            else:
                print(f"FAIL {name}: {text[:60]!r} comes back as {back[:90]!r}, expected {want[:90]!r}")
    print(f"{'FAIL ' if bad else ''}{name}: {bad} of {len(batch)} texts differ" if bad else
          f"{name}: {len(batch)} texts")
    return bad > 0


def check_refused(o, name, make, tmp):
    folder = pathlib.Path(tmp) / ("refused " + name)
    write_hf(folder, make())
    code, _, err = run([o.convert, str(folder), str(folder) + ".qsf"])
    words = {"behind of more": "lookbehind", "escape": "escape", "dropout": "dropout"}
    if code and words.get(name, name) in err:
        print(f"refused by name: {err.strip()[-150:]}")
        return 0
    print(f"FAIL {name}: exit {code}: {err.strip()[-300:]}")
    return 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("lines")
    p.add_argument("convert")
    p.add_argument("--only", default="")
    p.add_argument("--texts", type=int, default=120)
    p.add_argument("--show", type=int, default=2)
    p.add_argument("--scalars", action="store_true", help="every code point, too")
    o = p.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        for name, make in cases():
            if o.only in name:
                failed += check(o, name, make, tmp)
        for name, make in refused():
            if o.only in name:
                failed += check_refused(o, name, make, tmp)
    print(f"{failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
