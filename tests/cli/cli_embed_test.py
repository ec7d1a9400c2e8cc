#!/usr/bin/env python3
"""--embedding and --rerank as their user meets them: rows of numbers, JSON, ranks, and what is refused.
SPDX-License-Identifier: MIT

    cli_embed_test.py QSF_RUN [unittest options]
"""
import json, math, pathlib, subprocess, sys, types, unittest

import numpy as np
from gguf import GGUFReader
from tokenizers import Tokenizer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import make_hf_tiny
from hf_tiny_files import safetensors
from cli_case import MODEL, QSF_RUN, TESTS, WORK, needs_directories, run

FOLDER = pathlib.Path(WORK.name)
RANKER = str(FOLDER / "bert-rank.gguf")
subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "bert-rank"], check=True,
               stdout=subprocess.DEVNULL)
TEXTS = ["the cat sat on the mat", "a", "once upon a time there was another text"]


def rows(text):
    return [[float(x) for x in line.split()] for line in text.splitlines()]


class Embed(unittest.TestCase):
    def embed(self, *options):
        r = run(MODEL, "--embedding", *options)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout.decode()

    def test_each_line_is_a_text_and_lengths_are_1(self):
        got = rows(self.embed("-p", "\n\n".join(TEXTS) + "\r\n"))
        self.assertEqual(len(got), len(TEXTS))
        for x in got: self.assertAlmostEqual(math.hypot(*x), 1, 5)

    def test_verbose_prints_times_without_an_answer(self):
        r = run(MODEL, "--embedding", "-v", "-p", TEXTS[0])
        self.assertEqual((r.returncode, r.stdout.decode()), (0, self.embed("-p", TEXTS[0])))
        self.assertIn(b"\nprompt   ", r.stderr)
        self.assertNotIn(b"\nanswer   ", r.stderr)

    def test_a_text_is_the_same_alone(self):
        together = self.embed("-p", "\n".join(TEXTS)).splitlines()
        self.assertEqual(together, [self.embed("-p", t).strip() for t in TEXTS])
        self.assertEqual(together, self.embed("-p", "\n".join(TEXTS), "-b", "2").splitlines())

    def test_poolings_are_made_of_the_tokens(self):
        def one(pool): return rows(self.embed("-p", TEXTS[0], "--pooling", pool, "--embedding-plain"))
        tokens = one("none")
        self.assertGreater(len(tokens), 1)
        self.assertEqual(one("cls"), tokens[:1])
        self.assertEqual(one("last"), tokens[-1:])
        for got, column in zip(one("mean")[0], zip(*tokens)):
            self.assertAlmostEqual(got, math.fsum(column) / len(tokens), 4)

    def test_json_is_a_list_as_openai_gives_it(self):
        got = json.loads(self.embed("-p", "\n".join(TEXTS), "--json"))
        self.assertEqual([d["index"] for d in got["data"]], [0, 1, 2])
        self.assertEqual([d["embedding"] for d in got["data"]], rows(self.embed("-p", "\n".join(TEXTS))))

    def test_ids_are_texts_too(self):
        got = self.embed("--ids", "1,2,3;4,5").splitlines()
        self.assertEqual(got, [self.embed("--ids", ids).strip() for ids in ("1,2,3", "4,5")])

    def test_what_cannot_be_is_refused(self):
        for options, words in ((("-p", "\n"), "no text"), (("-p", "a", "--pooling", "rank"), "classifier"),
                               (("--ids", "1;;2"), "number"), (("-p", "a " * 400, "-c", "64"), "tokens")):
            r = run(MODEL, "--embedding", *options)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn(words, r.stderr.decode())

    def test_a_model_without_yes_and_no_cannot_rank(self):
        documents = FOLDER / "documents.txt"
        documents.write_text("one\ntwo\n")
        r = run(MODEL, "--rerank", documents, "-p", "a")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn('"yes"', r.stderr.decode())


class Directory(unittest.TestCase):
    """1_Pooling/config.json of a Hugging Face directory, as the library sentence-transformers writes it."""

    def converted(self, pooling):
        case = next(c for n, c in make_hf_tiny.good_cases() if n == "qwen2")
        make_hf_tiny.write(FOLDER, "pooled", case.files)
        (FOLDER / "pooled" / "1_Pooling").mkdir(exist_ok=True)
        (FOLDER / "pooled" / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        out = FOLDER / "pooled.qsf"
        program = pathlib.Path(QSF_RUN).with_name("qsf-convert")
        r = subprocess.run([program, "-q", FOLDER / "pooled", out], capture_output=True)
        needs_directories(r.stderr)
        return r.returncode, r.stderr.decode(), str(out)

    def test_it_says_what_becomes_of_the_tokens(self):
        def embed(path, *options): return run(path, "--embedding", "--ids", "1,2,3;4,5", *options).stdout
        seen = set()
        for key, pool in (("cls_token", "cls"), ("mean_tokens", "mean"), ("lasttoken", "last")):
            modes = {f"pooling_mode_{k}": k == key for k in ("cls_token", "mean_tokens", "max_tokens",
                                                             "lasttoken")}
            code, err, path = self.converted({"word_embedding_dimension": 16, **modes})
            self.assertEqual(code, 0, err)
            self.assertEqual(embed(path), embed(path, "--pooling", pool))
            seen.add(embed(path))
        self.assertEqual(len(seen), 3)

    def test_what_cannot_be_is_refused(self):
        for pooling, words in (({"pooling_mode_max_tokens": True}, "pooling_mode_max_tokens"),
                               ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "beside"),
                               ({"pooling_mode_cls_token": "yes"}, "1_Pooling/config.json"),
                               ([], "1_Pooling")):
            code, err, _ = self.converted(pooling)
            self.assertNotEqual(code, 0)
            self.assertIn(words, err)


class SentencePiece(unittest.TestCase):
    """A Unigram model without tokenizer.json: texts are cut as SentencePiece cuts them."""

    def test_texts_are_cut_as_sentencepiece_cuts_them(self):
        case = next(c for n, c in make_hf_tiny.good_cases() if n == "mistral-unigram")
        model = (TESTS / "golden" / "unigram.model").read_bytes()
        make_hf_tiny.write(FOLDER, "unigram", {**case.files, "tokenizer.model": model})
        out = FOLDER / "unigram.qsf"
        r = subprocess.run([pathlib.Path(QSF_RUN).with_name("qsf-convert"), "-q", FOLDER / "unigram", out],
                           capture_output=True)
        needs_directories(r.stderr)
        self.assertEqual(r.returncode, 0, r.stderr)
        for text, ids in json.loads((TESTS / "golden" / "unigram.json").read_text())["unigram"]:
            # runs of unknown characters are one token there and here
            got = json.loads(run(out, "--tokenize", "--add-special", "-p", text).stdout)
            self.assertEqual(got, [1] + ids, text)


LAYER = {"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
         "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
         "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}
OTHERS = {"token_embd": "word_embeddings", "position_embd": "position_embeddings",
          "token_types": "token_type_embeddings", "token_embd_norm": "LayerNorm"}


def template(begin, end, between, ids):
    """[begin] A [end], and pairs with several end tokens between the texts."""
    def special(name): return {"SpecialToken": {"id": name, "type_id": 0}}
    def text(name): return {"Sequence": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [special(begin), text("A"), special(end)],
            "pair": [special(begin), text("A"), *[special(end)] * between, text("B"), special(end)],
            "special_tokens": {n: {"id": n, "ids": [ids[n]], "tokens": [n]} for n in (begin, end)}}


def tokenizer(tokens, post, **more):
    added = [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False} for i, t in enumerate(tokens[:4])]
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "decoder": None,
            "post_processor": template(*post, {t: i for i, t in enumerate(tokens)}), **more}


def wordpiece(tokens):
    return tokenizer(tokens, ("[CLS]", "[SEP]", 1), pre_tokenizer={"type": "BertPreTokenizer"},
                     normalizer={"type": "BertNormalizer", "lowercase": True, "clean_text": True,
                                 "handle_chinese_chars": True, "strip_accents": None},
                     model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                            "max_input_chars_per_word": 100,
                            "vocab": {t: i for i, t in enumerate(tokens)}})


def unigram(tokens):
    return tokenizer(tokens, ("<s>", "</s>", 2),
                     pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
                     model={"type": "Unigram", "unk_id": 3, "vocab": [[t, -1] for t in tokens]})


class Bert(unittest.TestCase):
    """Hugging Face directories of encoders with the tensors of a GGUF file, whose numbers are known."""

    def directory(self, kind, prefix, more=0, config={}, spoil=lambda files: None, model="bert",
                  pieces=None, post=None):
        subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, model], check=True,
                       stdout=subprocess.DEVNULL)
        reader, tensors = GGUFReader(FOLDER / f"{model}.gguf"), {}
        for t in reader.tensors:
            name, part = t.name.rsplit(".", 1)
            if name in ("cls", "cls.output"): continue
            b, i, rest = (name.split(".", 2) + [""] * 2)[:3]
            full = f"encoder.layer.{i}.{LAYER[rest]}" if b == "blk" else f"embeddings.{OTHERS[name]}"
            x = np.array(t.data, np.float32)
            if b == "token_types": x = x.reshape(2, -1)
            if b == "position_embd" and more: x = np.concatenate([x[:more] + 1, x])
            tensors[f"{prefix}{full}.{part}"] = x
        embd, ctx = (tensors[f"{prefix}embeddings.{n}_embeddings.weight"] for n in ("word", "position"))
        tensors[prefix + "pooler.dense.weight"] = np.zeros((embd.shape[1],) * 2, np.float32)
        tensors[prefix + "embeddings.position_ids"] = np.zeros((1, 4), np.float32)
        named = ("bos_token", "pad_token", "eos_token", "unk_token") if more else (
            "pad_token", "unk_token", "cls_token", "sep_token")
        special = ["<s>", "<pad>", "</s>", "<unk>"] if more else ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
        known = [*special, *"abcdefghijklmnopqrstuvwxyz", "##a", "##b", "\u2581", "\u2581a", "ab", "##cat"]
        known += [f"word{i}" for i in range(len(embd) - len(known))]
        files = {
            "config.json": {
                "model_type": kind, "hidden_size": embd.shape[1], "num_hidden_layers": 3,
                "num_attention_heads": 6, "intermediate_size": 140, "hidden_act": "gelu",
                "max_position_embeddings": len(ctx), "type_vocab_size": 2, "layer_norm_eps": 1e-5,
                "vocab_size": len(embd), "pad_token_id": int(more > 0), **config},
            "tokenizer.json": unigram(known) if more else wordpiece(known),
            "tokenizer_config.json": dict(zip(named, special)),
            "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
        }
        if post: files["tokenizer.json"]["post_processor"] = post
        if pieces: del files["tokenizer.json"]
        spoil(tensors)
        stored = {n: types.SimpleNamespace(dtype="F32", shape=list(x.shape), data=x.tobytes())
                  for n, x in tensors.items()}
        texts = {n: json.dumps(f) for n, f in files.items()}
        if pieces: texts["sentencepiece.bpe.model"] = (TESTS / "golden" / f"{pieces}.model").read_bytes()
        (FOLDER / kind / "tokenizer.json").unlink(missing_ok=True)
        make_hf_tiny.write(FOLDER, kind, {**texts, "model.safetensors": safetensors(stored)})
        program, out = pathlib.Path(QSF_RUN).with_name("qsf-convert"), FOLDER / f"{kind}.qsf"
        def convert(source, out):
            return subprocess.run([program, "-q", "--quant-type", "f16", source, out], capture_output=True)
        right = convert(FOLDER / f"{model}.gguf", FOLDER / "right.qsf")
        self.assertEqual(right.returncode, 0, right.stderr)
        r = convert(FOLDER / kind, out)
        needs_directories(r.stderr)
        return r.returncode, r.stderr.decode(), str(out)

    def test_they_compute_what_gguf_files_do(self):
        for kind, prefix, more in (("bert", "", 0), ("bert", "bert.", 0), ("xlm-roberta", "roberta.", 2)):
            code, err, path = self.directory(kind, prefix, more)
            self.assertEqual(code, 0, err)
            def embed(model, *options): return run(model, "--embedding", *options)
            got, right = (embed(p, "--ids", "1,2,3,4,5,6,7;9,8") for p in (path, FOLDER / "right.qsf"))
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertEqual(got.stdout, right.stdout)
            text, ids = ("a", "0,33,2") if more else ("Abcat a", "2,34,35,4,3")
            self.assertEqual(self.encoded(kind, text), ids)
            self.assertEqual(embed(path, "-p", text).stdout, embed(path, "--ids", ids).stdout)

    def test_pieces_have_the_ids_of_fairseq(self):
        """<s> <pad> </s> <unk>, then the pieces from the third on, one place further."""
        for name, cut in json.loads((TESTS / "golden" / "unigram.json").read_text()).items():
            code, err, path = self.directory("xlm-roberta", "", 2, pieces=name)
            self.assertEqual(code, 0, err)
            for text, ids in cut:
                got = json.loads(run(path, "--tokenize", "--add-special", "-p", text).stdout)
                self.assertEqual(got, [0] + [i + 1 if i else 3 for i in ids] + [2], text)

    def encoded(self, kind, *texts):
        """Ids of a string or a pair from Hugging Face's own library."""
        file = FOLDER / kind / "tokenizer.json"
        return ",".join(map(str, Tokenizer.from_file(str(file)).encode(*texts).ids))

    def check_pair(self, kind, path, ids):
        """The tokens between and around the texts are those of the model's own template of pairs."""
        documents = FOLDER / "documents.txt"
        documents.write_text("a\n")
        self.assertEqual(self.encoded(kind, "a", "a"), ids)
        got = run(path, "--rerank", documents, "-p", "a").stdout.decode()
        want = run(path, "--embedding", "--pooling", "rank", "--ids", ids).stdout.decode()
        self.assertAlmostEqual(float(got.split()[0]), float(want), 5)

    def test_classifiers_score_as_gguf_files_do(self):
        names = {"bert": ("bert.pooler.dense", "classifier", "BertForSequenceClassification"),
                 "xlm-roberta": ("classifier.dense", "classifier.out_proj",
                                 "XLMRobertaForSequenceClassification")}
        for kind, (dense, out, name) in names.items():
            def add(tensors):
                tensors.pop(prefix + "pooler.dense.weight")
                for t in GGUFReader(FOLDER / "bert-rank.gguf").tensors:
                    of, part = t.name.rsplit(".", 1)
                    if of not in ("cls", "cls.output"): continue
                    x = np.array(t.data, np.float32)
                    tensors[f"{dense if of == 'cls' else out}.{part}"] = (
                        x.reshape(-1, 72) if part == "weight" else x)
            prefix, more = ("bert.", 0) if kind == "bert" else ("roberta.", 2)
            one = {"architectures": [name], "id2label": {"0": "LABEL_0"}}
            code, err, path = self.directory(kind, prefix, more, one, add, "bert-rank")
            self.assertEqual(code, 0, err)
            def scores(model): return run(model, "--embedding", "--ids", "1,2,3,4,5,6,7;9,8").stdout
            self.assertEqual(len(rows(scores(path).decode())[0]), 1)
            self.assertEqual(scores(path), scores(FOLDER / "right.qsf"))
            ids = "0,33,2,2,33,2" if more else "2,4,3,4,3"
            self.check_pair(kind, path, ids)
            post = ({"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2],
                     "trim_offsets": True, "add_prefix_space": True} if more else
                    {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]})
            code, err, path = self.directory(kind, prefix, more, one, add, "bert-rank", post=post)
            self.assertEqual(code, 0, err)
            self.check_pair(kind, path, ids)
            code, err, _ = self.directory(kind, prefix, more, {**one, "id2label": None}, add, "bert-rank")
            self.assertNotEqual(code, 0)
            self.assertIn(f"{out}.weight is of shape [1 x 72], config.json implies [2 x 72]", err)

    def test_what_cannot_be_is_refused(self):
        for config, words in (({"is_decoder": True}, "is_decoder"), ({"hidden_act": "tanh"}, "tanh"),
                              ({"position_embedding_type": "relative_key"}, "relative_key"),
                              ({"type_vocab_size": 5}, "token_type_embeddings"),
                              ({"max_position_embeddings": 7}, "position_embeddings")):
            code, err, _ = self.directory("bert", "", 0, config)
            self.assertNotEqual(code, 0)
            self.assertIn(words, err)
        code, err, _ = self.directory("xlm-roberta", "", 2, {"pad_token_id": 0})
        self.assertIn("pad_token_id", err)
        classifier = {"classifier.weight": np.zeros((2, 2), np.float32)}
        code, err, _ = self.directory("bert", "bert.", spoil=lambda tensors: tensors.update(classifier))
        self.assertNotEqual(code, 0)
        self.assertIn("classifier.weight", err)


class Encoder(unittest.TestCase):
    def test_lines_are_ranked_by_the_classifier(self):
        documents = FOLDER / "documents.txt"
        documents.write_text("\n".join(TEXTS) + "\n\nthe end\n")
        lines = [*TEXTS, "the end"]
        r = run(RANKER, "--rerank", documents, "-p", "a cat", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        got = [(x["index"], x["relevance_score"]) for x in json.loads(r.stdout)["results"]]
        self.assertEqual(sorted(i for i, _ in got), [0, 1, 2, 3])
        self.assertEqual([s for _, s in got], sorted((s for _, s in got), reverse=True))
        def ids(text): return json.loads(run(RANKER, "--tokenize", "-p", text).stdout)
        pairs = ";".join(",".join(map(str, ids("a cat") + ids(d))) for d in lines)
        scores = rows(run(RANKER, "--embedding", "--pooling", "rank", "--ids", pairs).stdout.decode())
        self.assertEqual([s for _, s in sorted(got)], [x for row in scores for x in row])
        plain = run(RANKER, "--rerank", documents, "-p", "a cat").stdout.decode().splitlines()
        self.assertEqual([line.split("\t")[1:] for line in plain], [[str(i), lines[i]] for i, _ in got])

    def test_nothing_is_continued(self):
        for options in (("-p", "a"), ("-p", "a", "--logits"), ("--bench",)):
            r = run(RANKER, "-t", 1, *options)
            self.assertNotEqual(r.returncode, 0, options)
            self.assertIn("encoder", r.stderr.decode())

    def test_a_text_longer_than_a_batch_is_refused(self):
        long = ",".join(["1"] * 600)
        r = run(RANKER, "--embedding", "--pooling", "mean", "--ids", long)
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("one batch", r.stderr.decode())
        r = run(RANKER, "--embedding", "--pooling", "mean", "--ids", long, "-b", 600)
        self.assertEqual(r.returncode, 0, r.stderr)


if __name__ == "__main__":
    unittest.main()
