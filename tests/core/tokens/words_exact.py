#!/usr/bin/env python3
"""WordPiece and Unigram against Hugging Face's `tokenizers`: the same small vocabularies, random strings.
SPDX-License-Identifier: MIT

    words_exact.py QSF_RUN [QSF_CONVERT]

The vocabularies are trained on this project's documents, written as GGUF files and, with QSF_CONVERT, as
Hugging Face directories that become QSF files."""
import json, pathlib, random, subprocess, sys, tempfile

import gguf, numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[3]
MARK = "\u2581"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = list("aAbBeéÉİıßΣσДжЯक़िाहिन्दी한국어가각中文日本語の\u3000 \t\n\r\x0b\x85\xa0\u2028\x00\x07\ufffd\u200b"
               "!?.,;:'\"-_$+<=>^`|~¿、。…½Ⅷ0123456789\u0301\u0327\u20dd\U0001f600\ufb01\u212b\u037e")
LETTERS += ["ing", "er", "qsf"]


def texts(n, seed, letters):
    r = random.Random(seed)
    for _ in range(n):
        yield "".join(r.choice(letters) if r.random() < .97 else
                      chr(r.choice((r.randrange(1, 0xd800), r.randrange(0xe000, 0x110000))))
                      for _ in range(r.randrange(1, 120))) + "x" * (r.randrange(90, 110) * (r.random() < .1))


def documents():
    return [p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").glob("*.md"))] + [
        "한국어 가각 中文 日本語 Дж é हिन्दी"]


def wordpiece(lower, strip):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(documents(), trainers.WordPieceTrainer(vocab_size=1500, special_tokens=SPECIAL))
    return t


def unigram(fallback=False):
    """fallback: what no token is made of becomes bytes."""
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.train_from_iterator(documents(), trainers.UnigramTrainer(
        vocab_size=1500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"))
    data = json.loads(t.to_str())
    # what a file's 32 bits can say
    data["model"]["vocab"] = [[a, float(numpy.float32(s))] for a, s in data["model"]["vocab"]]
    data["model"]["byte_fallback"] = fallback
    data["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256 * fallback)]
    return Tokenizer.from_str(json.dumps(data))


def write_gguf(path, t, model):
    w = gguf.GGUFWriter(str(path), "llama", use_temp_file=False)
    w.add_tokenizer_model(model)
    size = t.get_vocab_size()
    words = [t.id_to_token(i) for i in range(size)]
    data = json.loads(t.to_str())
    special = {e["content"] for e in data["added_tokens"]}
    kinds = [2 if x in ("[UNK]", "<unk>") else 3 if x in special else 6 if x.startswith("<0x") else 1
             for x in words]
    if model == "bert":
        words = [x if k != 1 else x[2:] if x.startswith("##") else MARK + x for x, k in zip(words, kinds)]
        n = data["normalizer"]
        w.add_bool("tokenizer.ggml.normalizer.lowercase", n["lowercase"])
        if n["strip_accents"] is not None:
            w.add_bool("tokenizer.ggml.normalizer.strip_accents", n["strip_accents"])
        for key, token in (("bos", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]"),
                           ("padding", "[PAD]")):
            w.add_uint32(f"tokenizer.ggml.{key}_token_id", t.token_to_id(token))
    else:
        w.add_token_scores([s for _, s in data["model"]["vocab"]])
        w.add_add_space_prefix(True)
        w.add_bool("tokenizer.ggml.remove_extra_whitespaces", True)
    w.add_token_list(words)
    w.add_token_types(kinds)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def write_hf(folder, t):
    """A Llama model of which only the tokenizer is used."""
    folder.mkdir()
    n, d = t.get_vocab_size(), 64
    t.save(str(folder / "tokenizer.json"))
    special = {"eos_token": "</s>", "unk_token": "<unk>"}
    if t.token_to_id("[CLS]"):
        special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
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
    if p.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {p.stderr.decode(errors='replace')[-600:]}")
    return p.stdout


def check(qsf_run, path, t, name, clean):
    """All texts in one, between words that nothing joins; differences are then looked for one by one."""
    ours = lambda text: json.loads(run([qsf_run, "-m", path, "--tokenize"], text.encode()))
    theirs = lambda text: t.encode(text, add_special_tokens=False).ids
    every = [clean(x) for x in texts(400, 5, LETTERS)]
    if ours(clean("\n".join(every))) == theirs(clean("\n".join(every))):
        print(f"{name}: {len(every)} texts")
        return 0
    bad = [x for x in every[:60] if ours(x) != theirs(x)]
    for x in bad[:4]:
        print(f"FAIL {name}: {x!r}: {ours(x)}, expected {theirs(x)}")
    return max(len(bad), 1)


def main():
    qsf_run, convert = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    # WhitespaceSplit takes white space that no normaliser has made a space: not so in SentencePiece
    plain = lambda text: "".join(" " if c.isspace() or c == "\0" else c for c in text)
    same = lambda text: text
    cases = [("bert lower", wordpiece(True, None), "bert", same),
             ("bert cased", wordpiece(False, None), "bert", same),
             ("bert lower, accents", wordpiece(True, False), "bert", same),
             ("unigram", unigram(), "t5", plain), ("unigram, bytes", unigram(True), "t5", plain)]
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        for i, (name, t, model, clean) in enumerate(cases):
            path = pathlib.Path(tmp) / f"{i}.gguf"
            write_gguf(path, t, model)
            bad += check(qsf_run, str(path), t, name, clean)
            if convert:
                write_hf(pathlib.Path(tmp) / str(i), t)
                out = pathlib.Path(tmp) / f"{i}.qsf"
                run([convert, str(pathlib.Path(tmp) / str(i)), str(out)])
                bad += check(qsf_run, str(out), t, name + ", converted", clean)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
