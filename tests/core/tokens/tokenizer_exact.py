#!/usr/bin/env python3
"""Compares qsf-run --tokenize with Hugging Face's `tokenizers` and with llama.cpp, token for token.
SPDX-License-Identifier: MIT

    tokenizer_exact.py QSF_RUN [--models DIR] [--shared DIR] [--llama LLAMA_TOKENIZE]
                       [--words TOKENIZER_TEST] [--quick]

Texts: all of WikiText-2's test text, every Unicode scalar value in several surroundings, random texts of
everything that the scanners tell apart, random bytes (llama.cpp only; where it is not there, the hashes of
golden/tokenizer.json that it made). What is missing is skipped. --words compares the pre-tokenizers' words
with Oniguruma's, expression by expression."""
import argparse, hashlib, json, os, pathlib, random, subprocess, sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "tools"))            # gguf_reader
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+@|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*@|\p{N}#|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = r"[一-龥ࠀ-一가-퟿]+"
V3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
      r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4"
    "\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113"
    "\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149"
    "\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+")
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
FALCON_PUNCT = r"[\p{P}\$\+<=>\^~\|`]+"
# Name: the expressions in order; what none matches stays together.
WORDS = {
    "gpt-2": [GPT2], "llama-bpe": [LLAMA3], "qwen2": [QWEN2], "smollm": [r"\p{N}", GPT2],
    "qwen35": [
        QWEN2.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")],
    "falcon": [FALCON_PUNCT, GPT2, "[0-9][0-9][0-9]"],
    "default": [FALCON_PUNCT.replace("`", ""), GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "deepseek-llm": [r"[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CJK, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", V3],
    "gpt-4o": [CASED.replace("@", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("#", "{1,3}")],
    "tekken": [CASED.replace("@", "").replace("#", "")],
    "bloom": [BLOOM], "viking": [BLOOM, r"\p{N}"],
    "laguna": [r"[^\n]+|\n+", QWEN2], "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|"
                   r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|"
                   r" ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "ufakzeka": [QWEN2.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|", "")],
    "granite-embed-multi-97m": [CASED.replace("@", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("#", "{1,3}")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)",
                 CASED.replace("@", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("#", "{1,3}")],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
              CASED.replace("@", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("#", "")],
    "kimi-k2": [r"[\p{Han}]+|" + CASED.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace(
        "@", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("#", "{1,3}").replace(r"\n/", r"\n")],
    "jais-2": [LLAMA3.replace(
        r"|\s+(?!\S)|\s+", "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4, "1,2")) +
        r"|\s{1}")],
    "exaone-moe": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|"
                   r" ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "spark2_5": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                 V3.replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]"), r"\p{N}"],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "chameleon": [r"([\t\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2],
}
failed = skipped = 0


def surrounded(codes):
    return "".join(f"{c}a{c} {c}b {c} 1{c}2'{c}\n{c}{c}\n .{c}! " for c in map(chr, codes))


def scalars(quick):
    """Every scalar value between letters, spaces, digits, line ends and itself; one text for each 32768
    (quick: the first)."""
    every = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    for i in range(0, 1 if quick else len(every), 32768):
        yield surrounded(every[i:i + 32768])


def random_texts(n, seed):
    """Texts of what the scanners tell apart."""
    r = random.Random(seed)
    common = list("aZzéßñДж'sStTrReEvVmMlLdD "
                  "0129٣½Ⅷ一龥가あࠀमिा́​…。，、।۔،(|`$+<=>^~!?./-_\"#\t\r\n"
                  "\x0b\x0c\x85\xa0\u3000\u2028\u200b\u00ad😀ǅʰªſK\ufffd\x00\x7f")
    common += ["'s", "'LL", "  ", "\n\n", " \n", "123", "4567", "'re", "https://", "```", "\u0301\u0323",
               "e\u0301", "ﬁ", "Å", "\U0001f1e6"]
    for _ in range(n):
        yield ("".join(r.choice(common) if r.random() < .95
                       else chr(
                           r.choice((r.randrange(0xd800), r.randrange(0xe000, 0x110000)))) for _ in range(
                               r.randrange(1, 4000))))


def random_bytes(bpe):
    r = random.Random(7)
    text = bytes(r.randrange(256) for _ in range(60000))
    # Mostly characters, some cut short.
    for _ in range(4000):
        c = (
            chr(r.choice((r.randrange(0x80), r.randrange(0x80, 0x800), r.randrange(0x800, 0xd800),
                          r.randrange(0x10000, 0x110000)))).encode())
        text += c if r.random() < .9 else c[:r.randrange(len(c))]
    # there llama.cpp stops at more than U+10FFFF
    return text.translate(bytes(min(b, 0xf3) for b in range(256))) if bpe else text


def compare(what, ours, theirs, show):
    global failed
    if ours == theirs:
        return True
    failed += 1
    i = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    print(f"FAIL {what}: item {i} of {len(ours)} / {len(theirs)}: {ours[max(0, i - 3):i + 5]} / "
          f"{theirs[max(0, i - 3):i + 5]} {show(ours, i)}")
    return False


def run(command, data, what):
    p = subprocess.run(command, input=data, capture_output=True)
    if p.returncode:
        sys.exit(f"{what}: exit {p.returncode}: {p.stderr.decode(errors='replace')[-600:]}")
    return p.stdout


def gguf_keys(path):
    from gguf_reader import Reader
    return {k: f.contents() for k, f in Reader(path).fields.items() if k.startswith("tokenizer.")}


def reference(keys, added=False):
    """The same vocabulary in Hugging Face's library (byte-level BPE).  added: with its special tokens, which
    may be written in the input."""
    from tokenizers import Tokenizer
    toks, types, pre = (keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"],
                        keys["tokenizer.ggml.pre"])
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    split = {"gpt-2": [{**level, "use_regex": True}],
             "smollm": [{"type": "Digits", "individual_digits": True}, {**level, "use_regex": True}]}.get(pre)
    if not split:
        split = ([{"type": "Split", "invert": False, "behavior": "Isolated",
                   "pattern": {"Regex": WORDS[pre][0]}}, {**level, "use_regex": False}])
    special = [i for i, k in enumerate(types) if k in (3, 4)]
    more = [{"id": i, "content": toks[i], "special": types[i] == 3, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False} for i in special if added]
    special = set() if added else set(special)
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": more, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": split}, "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": pre == "llama-bpe",
                  "vocab": {t: i for i, t in enumerate(toks) if i not in special},
                  "merges": keys["tokenizer.ggml.merges"]}}))


def check_model(o, path, goldens, made):
    global skipped
    keys = gguf_keys(path)
    ours = lambda text: json.loads(run([o.qsf_run, "-m", str(path), "--tokenize"], text, path))
    shown = (lambda ids, i: repr(run([o.qsf_run, "-m", str(path), "--detokenize"],
                                     json.dumps(ids[max(0, i - 5):i + 5]).encode(), path)))
    hf = reference(keys) if keys["tokenizer.ggml.model"] == "gpt2" else None
    texts = {"random": "".join(random_texts(5 if o.quick else 60, 1))}
    wiki = o.shared / "data" / "wiki.test.raw"
    if wiki.exists():
        texts["wikitext"] = wiki.read_text(encoding="utf-8")
    else:
        skipped += 1
        print(f"skipped: {wiki} is not there")
    texts |= {f"scalars {i}": t for i, t in enumerate(scalars(o.quick))}
    goldens = goldens.get(path.name, {})
    for name, text in list(texts.items()) + [("bytes", random_bytes(hf))]:
        data = text if isinstance(text, bytes) else text.encode()
        what, group = f"{path.name}: {name}", name.split()[0]
        ids = None
        if hf and name != "bytes":
            ids = ours(data)
            compare(what + " (tokenizers)", ids, hf.encode(text, add_special_tokens=False).ids, shown)
        if o.llama and (not hf or name in ("bytes", "wikitext")):
            theirs = (
                json.loads(run([o.llama, "-m", str(path), "--stdin", "--ids", "--no-bos",
                                "--no-parse-special", "--no-escape", "--log-disable"], data, path)))
            compare(what + " (llama.cpp)", ids or ours(data), theirs, shown)
            made.setdefault(path.name, {})[name] = hashlib.sha256(
                json.dumps(theirs).encode()).hexdigest()[:32]
        elif name in goldens:
            h = hashlib.sha256(json.dumps(ids or ours(data)).encode()).hexdigest()[:32]
            compare(what + " (golden)", [h], [goldens[name]], lambda *_: "")
    print(f"{path.name}: {len(texts) + 1} texts")


def check_words(o):
    from tokenizers import Regex, pre_tokenizers
    few = [*range(1, 0x3400, 4), *range(0x3400, 0xd800, 499), *range(0xe000, 0x110000, 499)]
    texts = list(random_texts(10 if o.quick else 60, 2)) + (
        [surrounded(few)] if o.quick else list(scalars(False)))
    for name, expressions in WORDS.items():
        if o.family and name not in o.family.split(","):
            continue
        splits = [pre_tokenizers.Split(Regex(e), "isolated") for e in expressions]
        whole = pre_tokenizers.Sequence(splits)
        bad = 0
        for i, text in enumerate(texts):
            lengths = [int(n) for n in run([o.words, "--words", name], text.encode(), name).split()]
            ours, at = [], 0
            for n in lengths:
                ours.append(text[at:at + n])
                at += n
            theirs = [text[a:b] for _, (a, b) in whole.pre_tokenize_str(text)]
            if not compare(f"{name}: text {i}", ours, theirs, lambda *_: "") and (bad := bad + 1) == 3:
                break
        print(f"words of {name}: {len(texts)} texts")


def main():
    global skipped
    p = argparse.ArgumentParser()
    p.add_argument("qsf_run")
    p.add_argument("--models", type=pathlib.Path, default=os.environ.get("QSF_MODELS_DIR"))
    p.add_argument("--shared", type=pathlib.Path,
                   default=os.environ.get("QSF_SHARED_DIR", TESTS.parent.parent / "shared"))
    p.add_argument("--llama")
    p.add_argument("--words")
    p.add_argument("--only", default="")
    p.add_argument("--family", help="--words: of this pre-tokenizer alone")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--make-golden", action="store_true")
    o = p.parse_args()
    golden = TESTS / "golden" / "tokenizer.json"
    goldens, made = json.loads(golden.read_text()) if golden.exists() else {}, {}
    if o.words and o.only in "words":
        check_words(o)
    o.shared = pathlib.Path(o.shared)
    paths = sorted((o.shared / "data" / "tokenizers").glob("*.gguf")) + (
        sorted(pathlib.Path(o.models).glob("*.gguf")) if o.models else [])
    if not paths:
        skipped += 1
        print("skipped: no vocabularies")
    for path in paths:
        if o.only in path.name:
            check_model(o, path, goldens, made)
    if o.make_golden:
        golden.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    print(f"{failed} failed, {skipped} skipped")
    sys.exit(1 if failed or (skipped and os.environ.get("QSF_TEST_NO_SKIP")) else 0)


if __name__ == "__main__":
    main()
