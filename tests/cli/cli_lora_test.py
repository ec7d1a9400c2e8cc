#!/usr/bin/env python3
"""Logits with --lora against llama.cpp's (golden/lora.json, by golden/make_lora_golden.py) and against
numpy's of merged weights, for random models of several architectures; files of two formats; what is refused.
SPDX-License-Identifier: MIT

    cli_lora_test.py QSF_RUN QSF_CONVERT [unittest options]
"""
import json, pathlib, subprocess, sys, unittest

QSF_CONVERT = sys.argv.pop(2)
from cli_case import TESTS, WORK, needs_directories, run

sys.path.insert(0, str(TESTS / "parity"))
import numpy as np
import make_lora, make_tiny
from reference import Model

GOLDEN = json.loads((TESTS / "golden" / "lora.json").read_text())
FOLDER = pathlib.Path(WORK.name)


def logits(model, ids, *adapters, f32=True):
    r = run("-m", model, "--ids", ",".join(map(str, ids)), "-c", 512, "--raw", "--logits",
            *(["--f32"] if f32 else []), *(x for a in adapters for x in ("--lora", a)))
    if r.returncode: raise AssertionError(r.stderr.decode())
    return np.array(json.loads(r.stdout.splitlines()[-1]))

def error(got, want):
    return float(np.abs(got - want).max() / np.abs(want).max())

def merged(model, ids, *uses):
    """The reference's logits with the adapters in the weights; uses: (pairs, alpha, scale)."""
    ref = Model(str(model))
    for pairs, alpha, scale in uses:
        for name, (a, b) in pairs.items():
            w = (scale * alpha / a.shape[-2]) * (b.astype(np.float64) @ a)
            w = w.T if name == "token_embd.weight" else w.reshape(ref.w(name).shape)
            ref.cache[name] = (ref.w(name) + w).astype(np.float32)
    return ref.logits(ids, 512)


class Lora(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_lora.make_tests(FOLDER, GOLDEN)

    def files(self, name):
        return [FOLDER / f"{name}{end}.gguf" for end in ("", ".a", ".b")]

    def test_logits_are_llama_cpp_s(self):
        for name, golden in GOLDEN.items():
            model, a, b = self.files(name)
            # llama.cpp looks GELU up in 16 bits
            limit = 1e-3 if name in ("gpt2", "gemma3", "gemma4-moe") else 1e-4
            for want, uses in zip(golden["logits"], ((a,), (f"{b}:-0.7",), (a, f"{b}:0.5"))):
                with self.subTest(name, uses=uses):
                    self.assertLess(error(logits(model, golden["ids"], *uses), np.array(want)), limit)

    def test_logits_are_those_of_merged_weights(self):
        for name in ("llama", "qwen2", "qwen2moe", "gemma4-moe"):
            model, a, b = self.files(name)
            ids, more = GOLDEN[name]["ids"], make_lora.options(name)
            pa, pb = make_lora.pairs(model, 4, 1, **more), make_lora.pairs(model, 13, 2)
            for uses, files in ((((pa, 8, 1),), (a,)), (((pa, 8, 0.5), (pb, 5, 2)), (f"{a}:0.5", f"{b}:2"))):
                with self.subTest(name, files=files):
                    self.assertLess(error(logits(model, ids, *files), merged(model, ids, *uses)), 1e-4)

    def test_a_name_as_qsf_serve_takes_it_is_left_out(self):
        model, a, _ = self.files("llama")
        plain, named = (logits(model, range(9), uses) for uses in (f"{a}:0.5", f"style={a}:0.5"))
        self.assertTrue((plain == named).all())

    def test_a_scale_of_0_is_bit_for_bit_none(self):
        model, a, _ = self.files("llama")
        for f32 in (True, False):
            none, zero = (logits(model, range(9), *uses, f32=f32) for uses in ((), (f"{a}:0",)))
            self.assertTrue((none == zero).all())

    def test_8_bit_activations_are_near(self):
        model, a, b = self.files("llama")
        want = logits(model, range(40), a, b)
        self.assertLess(error(logits(model, range(40), a, b, f32=False), want), 0.1)

    def test_codes_beside_blocks_are_near(self):
        # of mixtral's experts, whose matrices have 44 rows, tiles do not begin where theirs do
        for name in ("llama", "mixtral", "qwen2moe"):
            model, a, b = self.files(name)
            out = self.convert(model, FOLDER / f"{name}8.qsf", "8bit")
            want = logits(out, range(40), a, b)
            got = logits(out, range(40), a, b, f32=False)
            with self.subTest(name):
                # as near as activations of 8 bits are without adapters: 0.07
                self.assertLess(error(got, want), 0.15)
                self.assertGreater(error(got, logits(out, range(40), f32=False)), 3 * error(got, want))

    def convert(self, path, out, kind="f32"):
        r = subprocess.run([QSF_CONVERT, "-q", "--equalize", "off", "--tensor", f"*={kind}", path, out],
                           capture_output=True)
        needs_directories(r.stderr)
        self.assertEqual(r.returncode, 0, r.stderr)
        return out

    def test_qsf_files_take_the_same_adapters(self):
        for name in ("llama", "qwen2"):
            model, a, _ = self.files(name)
            out = self.convert(model, FOLDER / f"{name}.qsf")
            # the last norm becomes f16
            self.assertLess(error(logits(out, range(40), a), logits(model, range(40), a)), 1e-3)

    def test_heads_of_hugging_face_files_lie_otherwise(self):
        for name in ("llama", "qwen2"):
            subprocess.run([sys.executable, TESTS / "parity" / "make_hf_pair.py", FOLDER / "hf", name],
                           check=True, stdout=subprocess.DEVNULL)
            gguf, a = FOLDER / "hf" / f"{name}-f16.gguf", FOLDER / "hf" / f"{name}.a.gguf"
            make_lora.make(gguf, a)
            out = self.convert(FOLDER / "hf" / name, FOLDER / "hf" / f"{name}.qsf")
            self.assertLess(error(logits(out, range(40), a), logits(gguf, range(40), a)), 1e-4)

    def test_verbose_says_what_is_used(self):
        model, a, _ = self.files("llama")
        r = run("-m", model, "--ids", "1,2,3", "--raw", "-n", 4, "--verbose", "--lora", f"{a}:0.5",
                "--temp", 0)
        self.assertIn(b"scale 0.5, rank 4, alpha 8, ", r.stderr)
        self.assertIn(b"adapters", r.stderr)

    def test_what_cannot_be_is_refused(self):
        model, a, _ = self.files("llama")
        other = self.files("qwen2")[1]
        scaled = FOLDER / "scaled.qsf"
        subprocess.run([QSF_CONVERT, "-q", model, scaled], check=True)
        self.assertIn(b"scaled its channels", run("-m", scaled, "--ids", "1", "--raw", "--lora", a).stderr)
        for file, words in ((other, b"qwen2"), (model, b"is not an adapter"), ("none.gguf", b"none.gguf")):
            r = run("-m", model, "--ids", "1", "--raw", "--lora", file)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn(words, r.stderr)


if __name__ == "__main__":
    unittest.main()
