#!/usr/bin/env python3
"""--embedding and --rerank as their user meets them: rows of numbers, JSON, ranks, and what is refused.
SPDX-License-Identifier: MIT

    cli_embed_test.py QSF_RUN [unittest options]
"""
import json, math, pathlib, subprocess, sys, unittest

import make_hf_tiny
from cli_case import HERE, MODEL, QSF_RUN, WORK, run

FOLDER = pathlib.Path(WORK.name)
RANKER = str(FOLDER / "bert-rank.gguf")
subprocess.run([sys.executable, HERE / "parity" / "make_tiny.py", WORK.name, "bert-rank"], check=True,
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
