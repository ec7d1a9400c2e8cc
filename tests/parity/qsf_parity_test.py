#!/usr/bin/env python3
"""qsf-parity as its user meets it: comparisons with recorded logits of llama.cpp's and with a library that
does what the real one does rarely, receipts by their schema, signatures, exit codes.
SPDX-License-Identifier: MIT

    qsf_parity_test.py QSF_PARITY FAKE_FOLDER [--models DIR] [--lib LLAMA_CPP_LIBRARY]
                       [--bitnet-lib BITNET_CPP_LIBRARY] [unittest options]

FAKE_FOLDER has whole/ and less/ with the two libraries of fake_llama.c; "-" if the program loads none.
--lib, --bitnet-lib: also against the real ones.
"""
import json, os, pathlib, re, subprocess, sys, tempfile, unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = TESTS / "golden" / "receipts"
SCHEMA = TESTS.parent / "docs" / "receipt.schema.json"
WORK = tempfile.TemporaryDirectory()
PROGRAM = FAKE = MODELS = LIB = BITNET_LIB = None
TINY = ("llama", "gemma3", "gpt2", "llama-q8_0")
BITNET = "bitnet-i2_s"
OK, NO_PARITY, USAGE, BAD, IO, OTHER, ALONE = 0, 1, 2, 3, 5, 6, 7


def setUpModule():
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, *TINY, BITNET], check=True,
                   stdout=subprocess.DEVNULL)


def model(name="llama"):
    return str(pathlib.Path(WORK.name) / f"{name}.gguf")


def run(*args, fake=None, **env):
    full = {k: v for k, v in os.environ.items() if not k.startswith(("QSF_", "LLAMA_", "BITNET_"))}
    full.update({k: str(v) for k, v in env.items()}, OMP_WAIT_POLICY="passive")
    if fake is not None: full["FAKE_LLAMA"] = fake
    return subprocess.run([PROGRAM, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, env=full,
                          timeout=600)


def place(name):
    return str(pathlib.Path(WORK.name) / name)


class Case(unittest.TestCase):
    def gives(self, code, *args, **more):
        r = run(*args, **more)
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr))
        return r

    def says(self, code, words, *args, **more):
        r = self.gives(code, *args, **more)
        self.assertIn(words, r.stderr.decode())
        return r

    def receipt(self, *args, code=OK, **more):
        path = place("receipt.json")
        self.gives(code, *args, "-t", 1, "--receipt", path, **more)
        return json.loads(pathlib.Path(path).read_text())


class Recorded(Case):
    """What llama.cpp has computed, in files."""

    def test_parity_with_llama_cpp_on_tiny_models(self):
        for name in TINY:
            exact = () if "q8" in name else ("--f32", "--min-cosine", "0.9999")
            got = self.receipt(model(name), "--against", GOLDEN / f"{name}.logits", "--strict", *exact)
            parity = got["parity"]
            self.assertTrue(parity["shown"] and parity["passed"] and parity["cosine_ok"], name)
            self.assertEqual(got["engines"]["other"]["recorded"], True)
            self.assertEqual(got["engines"]["other"]["name"], "llama.cpp")
            self.assertEqual(got["engines"]["other"]["model_sha256"], got["model"]["sha256"])
            self.assertAlmostEqual(parity["perplexity_ours"] / parity["perplexity_other"], 1, delta=0.05)

    def test_parity_with_bitnet_cpp_on_its_own_type(self):
        """The same codes if attention rounds nothing: after one token the logits are the same."""
        as_trained = ("--act-quant", "row", "--strict")
        for stem, least in ((BITNET, "0.998"), (f"{BITNET}-first", "0.9999")):
            got = self.receipt(model(BITNET), "--against", GOLDEN / f"{stem}.logits", "--min-cosine", least,
                               *as_trained)
            self.assertEqual(got["engines"]["other"]["name"], "bitnet.cpp")
            self.assertEqual(got["engines"]["other"]["model_sha256"], got["model"]["sha256"])
            self.assertEqual(got["options"]["context"]["act-quant"], "row")
        blocks = self.receipt(model(BITNET), "--against", GOLDEN / f"{BITNET}-first.logits")
        self.assertEqual(blocks["options"]["context"]["act-quant"], "block")
        self.assertLess(blocks["parity"]["cosine_similarity"], got["parity"]["cosine_similarity"])

    def test_another_model_is_no_parity(self):
        r = self.gives(NO_PARITY, model("gemma3"), "--against", GOLDEN / "llama.logits", "-t", 1)
        self.assertIn(b"first divergence: prompt 0", r.stdout)
        self.assertIn(b"no parity", r.stdout)

    def test_what_is_saved_is_the_same(self):
        saved = place("own.logits")
        ids = ("--ids", "5,9,44,100,7", "-n", 6, "-t", 1)
        self.gives(ALONE, model(), "--against", "none", *ids, "--save", saved)
        got = self.receipt(model(), "--against", saved, "-n", 6)["parity"]
        self.assertEqual((got["max_difference"], got["exact_match_rate"], got["first_divergence_step"]),
                         (0, 1, None))
        self.assertAlmostEqual(got["cosine_similarity"], 1, places=12)

    def test_damaged_files_are_refused(self):
        whole = (GOLDEN / "llama.logits").read_bytes()
        for at, what in ((0, "sum at its end"), (200, "sum at its end"), (len(whole) - 1, "sum at its end")):
            bad = pathlib.Path(place("bad.logits"))
            bad.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.says(OTHER, what, model(), "--against", bad)
        for n in (0, 10, 120, 151, 1000, len(whole) - 1):
            bad.write_bytes(whole[:n])
            self.gives(OTHER, model(), "--against", bad)
        self.says(OTHER, "no such file", model(), "--against", place("missing"))

    def test_prompts_of_the_file_and_no_others(self):
        self.says(OTHER, "is different there", model(), "--against", GOLDEN / "llama.logits", "--ids", "1,2")


class Arguments(Case):
    def test_usage(self):
        self.says(USAGE, "no model was given")
        self.says(USAGE, "one model is compared", model(), model())
        self.says(USAGE, "token ids separated by commas", model(), "--ids", "1,x", "--against", "none")
        self.says(USAGE, "not in the vocabulary", model(), "--ids", "300", "--against", "none")
        self.says(USAGE, "--sign requires --receipt", model(), "--sign", "key", "--against", "none")
        self.gives(USAGE, "verify")
        self.gives(USAGE, model(), "--steps", "-1")
        self.says(IO, "no such file", place("missing.gguf"), "--against", "none")

    def test_help_names_every_exit_code(self):
        text = self.gives(OK, "--help", "all").stdout.decode()
        for code in range(8): self.assertRegex(text, rf"\b{code} [a-z]")

    def test_prompts_of_any_language(self):
        texts = pathlib.Path(place("prompts.txt"))
        texts.write_text("Où est l'été?\r\n\n日本語\\n\\tx\n")
        for args in (("-p", "Où est l'été?", "-p", "日本語\n\tx"), ("--prompts", texts)):
            for env in ({}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}):
                got = self.receipt(model(), "--against", "none", "-n", 2, *args, code=ALONE, **env)
                sums = [p["ids_sha256"] for p in got["prompts"]]
                if args[0] == "-p" and not env: wanted = sums
                self.assertEqual(sums, wanted)
        self.assertEqual(len(wanted), 2)

    def test_a_failed_receipt_leaves_nothing(self):
        self.gives(IO, model(), "--against", "none", "-n", 1, "--receipt", place("no/folder/r.json"))
        before = pathlib.Path(place("old.json"))
        before.write_text("old")
        self.gives(BAD, model(), "--against", "none", "-n", 1, "--receipt", before, "--sign", SCHEMA)
        self.assertEqual(before.read_text(), "old")
        self.assertEqual([p for p in os.listdir(WORK.name) if "old.json" in p], ["old.json"])


class Receipts(Case):
    def test_the_schema_is_the_published_one(self):
        self.assertEqual(self.gives(OK, "schema").stdout.decode(), SCHEMA.read_text())

    def test_receipts_are_of_the_schema(self):
        import jsonschema
        check = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
        jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))
        made = [self.receipt(model(), "--against", "none", "-n", 2, code=ALONE),
                self.receipt(model("gemma3"), "--against", GOLDEN / "llama.logits", code=NO_PARITY)]
        for receipt in made + [json.loads(p.read_text()) for p in GOLDEN.glob("*.json")]:
            check.validate(receipt)
        made[0]["host"] = "name"
        self.assertFalse(check.is_valid(made[0]))

    def test_nothing_of_the_machine_or_the_prompt_is_told(self):
        import platform
        text = "a secret word"
        path = place("private.json")
        self.gives(ALONE, model(), "--against", "none", "-p", text, "-n", 3, "--receipt", path)
        got = pathlib.Path(path).read_text()
        words = [text, WORK.name, os.getcwd(), "secret"]
        if len(platform.node()) > 8: words.append(platform.node())
        for word in words: self.assertNotIn(word, got)
        self.assertNotIn("ids", json.loads(got)["prompts"][0])
        self.gives(ALONE, model(), "--against", "none", "-p", text, "-n", 3, "--receipt", path,
                   "--with-prompt")
        self.assertEqual(len(json.loads(pathlib.Path(path).read_text())["prompts"][0]["tokens"]), 3)

    def test_kernels_are_counted(self):
        got = self.receipt(model(), "--against", "none", "-n", 2, "--isa", "scalar", code=ALONE)
        self.assertEqual(got["kernel_ids"], sorted(got["kernels_executed"]))
        self.assertTrue(got["kernel_ids"] and all("scalar" in k for k in got["kernel_ids"]))
        self.assertTrue(all(n > 0 for n in got["kernels_executed"].values()))
        self.assertGreater(got["bytes_read"], 0)
        self.assertEqual((got["backend_used"], got["machine"]["instruction_set"]), ("qsf", "scalar"))

    def test_options_are_all_there_and_hold_again(self):
        path = pathlib.Path(place("options.json"))
        more = ("--act-quant", "row", "--i2s-layout", "microsoft")
        got = self.receipt(model(BITNET), "--against", "none", "-n", 4, "--ids", "5,9,44,100,7",
                           "--with-prompt", *more, code=ALONE)
        options = got["options"]
        self.assertEqual((options["i2s_layout"], options["context"]["act-quant"]), ("microsoft", "row"))
        self.assertEqual((options["context"]["quality"], options["context"]["head-topk"]), ("1.0", "exact"))
        path.write_text(json.dumps(got))
        self.assertIn(b"our logits to the bit", self.gives(OK, "verify", path, model(BITNET), "-t", 1).stdout)
        # with another option it is another computation: so it is the receipt's that is used
        options["context"]["act-quant"] = "block"
        path.write_text(json.dumps(got))
        self.assertNotIn(b"to the bit", run("verify", path, model(BITNET), "-t", 1).stdout)
        options["i2s_layout"] = "qk256"
        path.write_text(json.dumps(got))
        self.says(NO_PARITY, "perplexity_ours was", "verify", path, model(BITNET), "-t", 1)
        options["i2s_layout"] = "auto"
        for name, value, words in (("no-such-option", "1", "unknown option"),
                                   ("quality", "2", "it must be"), ("quality", 1, "short strings"),
                                   ("threads", "4", "this has another place"),
                                   ("quality", "1" * 65, "short strings")):
            path.write_text(json.dumps(dict(got, options=dict(options, context={name: value}))))
            r = run("verify", path, model(BITNET), "-t", 1)
            self.assertNotEqual(r.returncode, OK)
            self.assertIn(words, r.stderr.decode())
        del options["context"], options["i2s_layout"]       # those of receipts from before
        path.write_text(json.dumps(got))
        self.gives(OK, "verify", path)

    def test_goldens_are_of_many_models(self):
        sums = {json.loads(p.read_text())["model"]["sha256"]: p.stem for p in GOLDEN.glob("*.json")}
        self.assertGreaterEqual(len(sums), 9)
        self.assertLessEqual({"bitnet-2b-i2_s", "smollm2-135m-q4_1", "gemma3-270m-q4_k_m",
                              "qwen2.5-coder-0.5b-q4_k_m"}, set(sums.values()))
        for path in GOLDEN.glob("bitnet*.json"):
            got = json.loads(path.read_text())
            self.assertEqual((got["engines"]["other"]["name"], got["parity"]["passed"]), ("bitnet.cpp", True))

    def test_goldens_hold(self):
        for path in sorted(GOLDEN.glob("*.json")):
            self.gives(OK, "verify", path)
            here = pathlib.Path(model(path.stem.removesuffix("-first")))
            if MODELS and (MODELS / f"{path.stem}.gguf").is_file(): here = MODELS / f"{path.stem}.gguf"
            if here.is_file():
                r = self.gives(OK, "verify", path, here, "-t", 1)
                self.assertIn(b"run again: the same", r.stdout)


class Verify(Case):
    def setUp(self):
        self.good = self.receipt(model(), "--against", GOLDEN / "llama.logits", "--f32", "--with-prompt")
        self.path = pathlib.Path(place("changed.json"))

    def changed(self, where, value):
        receipt = json.loads(json.dumps(self.good))
        *way, last = where.split(".")
        at = receipt
        for name in way: at = at[int(name) if name.isdigit() else name]
        at[last] = value
        self.path.write_text(json.dumps(receipt))

    def test_figures_that_do_not_follow_are_found(self):
        wrong = {"parity.exact_match_rate": 0.5, "parity.matches": 0, "parity.cosine_ok": False,
                 "parity.passed": False, "parity.cosine_similarity": 0.5, "parity.cosine_mean": -0.5,
                 "parity.kl_mean": 9, "parity.ties": 3, "parity.first_divergence_step": 1,
                 "parity.shown": False, "parity.targets": 1, "kernel_ids": ["x"], "backend_used": "cpp",
                 "validation.backend": "cpp", "engines.ours": None,
                 "prompts.0.ids": [1, 2], "prompts.0.tokens_sha256": "0" * 64, "prompts.0.n_ids": 1,
                 "refused": {"status": "QSF_E_CORRUPT", "text": ""}, "parity.mean_difference": 9}
        for where, value in wrong.items():
            self.changed(where, value)
            self.says(BAD, "arithmetic", "verify", self.path)

    def test_shapes_that_are_no_receipts_are_found(self):
        for where, value in {"schema": "qsf-receipt-2", "host": "x", "parity.steps": -1, "parity.steps2": 1,
                             "model.sha256": "A" * 64, "parity": [], "prompts": [], "machine.threads": 1.5,
                             "parity.kl_max": "0", "times": None, "created": "x" * 30,
                             "kernels_executed": {"x": -1}, "prompts.0.ids": [-1]}.items():
            self.changed(where, value)
            self.says(BAD, "the receipt's", "verify", self.path)

    def test_hostile_texts_end(self):
        text = json.dumps(self.good)
        for bad in ("", "[" * 100000, '{"a":' * 5000, text[:-1], text + "x", "\0", '"' + "x" * 100000, "{}",
                    text.replace('"created"', '"schema"', 1), "\xff\xfe", text.replace("true", "NaN", 1)):
            self.path.write_text(bad, encoding="latin-1")
            self.gives(BAD, "verify", self.path)
        self.gives(IO, "verify", place("missing.json"))

    def test_it_is_run_again(self):
        self.path.write_text(json.dumps(self.good))
        r = self.gives(OK, "verify", self.path, model(), "-t", 1)
        self.assertIn(b"our logits to the bit", r.stdout)
        self.says(NO_PARITY, "is not the receipt's model", "verify", self.path, model("gemma3"))
        self.changed("parity.perplexity_ours", 3.0)
        self.says(NO_PARITY, "perplexity_ours was 3", "verify", self.path, model(), "-t", 1)

    def test_signatures(self):
        key, other, path = place("key"), place("other"), place("signed.json")
        first = run("keygen", key)
        if first.returncode == BAD:
            return self.assertIn(b"does not support signatures", first.stderr)
        if os.name == "posix": self.assertEqual(os.stat(key).st_mode & 0o077, 0)
        self.says(USAGE, "already exists", "keygen", key)
        self.gives(OK, "keygen", other)
        self.gives(ALONE, model(), "--against", "none", "-n", 1, "--receipt", path, "--sign", key)
        self.assertIn(b"signed by that key", self.gives(OK, "verify", path, "--key", key + ".pub").stdout)
        self.says(BAD, "a different key", "verify", path, "--key", other + ".pub")
        signed = json.loads(pathlib.Path(path).read_text())
        again = json.dumps(signed, sort_keys=True, indent=7)
        if "e-" not in again:                   # Python writes those numbers in another way
            self.path.write_text(again)
            self.gives(OK, "verify", self.path, "--key", key + ".pub")
        self.path.write_text(pathlib.Path(path).read_text().replace('"commit": "', '"commit": "0', 1))
        self.says(BAD, "the receipt was changed", "verify", self.path)
        self.path.write_text(json.dumps(self.good))
        self.says(BAD, "is not signed", "verify", self.path, "--key", key + ".pub")


class Library(Case):
    """A library that is not llama.cpp, or fails."""

    def setUp(self):
        if FAKE is None: self.skipTest("this program loads no libraries")

    def test_what_fails_is_named(self):
        for how, words in {"nan": "llama.cpp: prompt 0, position 2: the logit of token 5 is not a finite",
                           "decode": "llama_decode returned -3", "logits": "no logits of row 0",
                           "context": "cannot create a context", "layout": "type_k is in a different place",
                           "refuse": "cannot load the model: error: no such  [31m architecture"}.items():
            r = self.says(OTHER, words, model(), "--lib", FAKE / "whole", "--ids", "4,5,6,7", fake=how)
            self.assertNotIn(b"\x1b", r.stderr)

    def test_another_vocabulary_is_another_model(self):
        self.says(OTHER, "a vocabulary of 7 tokens, we have 300", model(), "--lib", FAKE / "whole",
                  FAKE_VOCAB=7)
        self.says(OTHER, "a vocabulary of 0 tokens", model(), "--lib", FAKE / "whole", FAKE_VOCAB=0)

    def test_missing_functions_and_libraries(self):
        self.says(OTHER, "has no llama_decode", model(), "--lib", FAKE / "less")
        self.says(OTHER, "no library found in", model(), "--lib", WORK.name)
        self.says(OTHER, "cannot be loaded", model(), "--lib", model())
        self.says(OTHER, "LLAMA_CPP_DIR", model())
        self.says(OTHER, "BITNET_CPP_DIR", model(), "--against", "bitnet.cpp")

    def test_the_environment_says_where_it_is(self):
        for name, variable in (("llama.cpp", "LLAMA_CPP_DIR"), ("bitnet.cpp", "BITNET_CPP_DIR")):
            r = self.gives(NO_PARITY, model(), "--against", name, "--ids", "4,5", "-n", 2,
                           **{variable: FAKE / "whole"})
            self.assertIn(name.encode(), r.stdout)

    def test_what_our_reader_refuses_shows_no_parity(self):
        bad = pathlib.Path(place("bad.gguf"))
        bad.write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 64)
        path = place("alone.json")
        for prompt in (("--ids", "4,5,6"), ("-p", "text é")):
            r = self.gives(ALONE, bad, "--lib", FAKE / "whole", *prompt, "-n", 2, "--receipt", path)
            self.assertIn(b"no parity was shown", r.stdout)
            got = json.loads(pathlib.Path(path).read_text())
            self.assertEqual(got["validation"], {"backend": "cpp", "compute": "cpp"})
            self.assertEqual((got["parity"]["shown"], got["parity"]["cosine_ok"]), (False, None))
            self.assertTrue(got["refused"]["status"].startswith("QSF_E_"))
            self.assertNotIn(WORK.name, json.dumps(got))
            self.gives(OK, "verify", path)
        self.gives(BAD, bad, "--lib", FAKE / "whole", fake="refuse")

    def test_the_real_one(self):
        if LIB is None: self.skipTest("no --lib")
        for name in TINY:
            exact = () if "q8" in name else ("--f32", "--min-cosine", "0.9999")
            got = self.receipt(model(name), "--lib", LIB, "--ids", "28,181,21,90,7", "--strict", *exact)
            self.assertTrue(got["parity"]["passed"] and got["engines"]["other"]["library_sha256"], name)

    def test_the_real_bitnet_cpp(self):
        if BITNET_LIB is None: self.skipTest("no --bitnet-lib")
        for token in range(0, 280, 40):
            got = self.receipt(model(BITNET), "--against", "bitnet.cpp", "--lib", BITNET_LIB, "--strict",
                               "--act-quant", "row", "-n", 1, "--ids", token, "--min-cosine", "0.9999")
            self.assertEqual(got["engines"]["other"]["layout"], "2024-10")


def options(argv):
    global PROGRAM, FAKE, MODELS, LIB, BITNET_LIB
    PROGRAM = argv.pop(1)
    folder = argv.pop(1)
    FAKE = None if folder == "-" else pathlib.Path(folder).resolve()
    for name in ("--models", "--lib", "--bitnet-lib"):
        if name in argv:
            at = argv.index(name)
            value = pathlib.Path(argv[at + 1])
            del argv[at:at + 2]
            if name == "--lib": LIB = value
            elif name == "--bitnet-lib": BITNET_LIB = value
            else: MODELS = value


if __name__ == "__main__":
    options(sys.argv)
    unittest.main()
