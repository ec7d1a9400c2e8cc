#!/usr/bin/env python3
"""Adapters in PEFT's format against the same ones as GGUF files and against numpy's merged weights;
qsf-convert --merge-lora; what is refused.
SPDX-License-Identifier: MIT

    cli_peft_test.py QSF_RUN QSF_CONVERT [unittest options]
"""
import json, pathlib, subprocess, sys, unittest

QSF_CONVERT = sys.argv.pop(2)
from cli_case import TESTS, WORK, needs_directories, run

sys.path.insert(0, str(TESTS / "parity"))
import numpy as np
import make_hf_pair, make_peft, make_tiny

FOLDER = pathlib.Path(WORK.name)
IDS = range(5, 45)
PAIRS = {}


def logits(model, *adapters):
    r = run("-m", model, "--ids", ",".join(map(str, IDS)), "-c", 512, "--raw", "--logits", "--f32",
            *(x for a in adapters for x in ("--lora", a)))
    if r.returncode: raise AssertionError(r.stderr.decode())
    return np.array(json.loads(r.stdout.splitlines()[-1]))

def error(got, want):
    return float(np.abs(got - want).max() / np.abs(want).max())

def convert(path, out, *options):
    return subprocess.run([QSF_CONVERT, "-q", "--equalize", "off", "--tensor", "*=f32", *options, path, out],
                          capture_output=True)

def converted(path, out, *options):
    r = convert(path, out, *options)
    needs_directories(r.stderr)
    if r.returncode: raise AssertionError(r.stderr.decode())
    return out

def base(name):
    """The model's directory, its GGUF file and its QSF file, which was made of the directory."""
    if name not in PAIRS:
        folder, gguf = make_hf_pair.make(FOLDER, name)
        PAIRS[name] = folder, gguf, converted(folder, FOLDER / f"{name}.qsf")
    return PAIRS[name]

def twins(name, **members):
    """One adapter as a directory and as a GGUF file, and its pairs."""
    m = make_tiny.models()[name]
    config, pairs = make_peft.make(base(name)[0], **members)
    at = FOLDER / f"{name}-adapter-{len(list(FOLDER.glob('*-adapter-*')))}"
    gguf = make_peft.write_gguf(f"{at}.gguf", m["arch"], m["n_heads"], m["n_kv_heads"], config, pairs)
    return make_peft.write_peft(at, config, pairs), gguf, pairs


class Peft(unittest.TestCase):
    def test_a_directory_is_its_gguf_twin(self):
        for name in ("llama", "qwen2", "phi3-short", "gemma3", "gpt2", "smollm3", "glm4", "cohere2"):
            folder, gguf, qsf = base(name)
            peft, twin, _ = twins(name, ends=name == "llama")
            want = logits(gguf, twin)
            self.assertGreater(error(logits(gguf), want), 1e-2)
            for model in (gguf, qsf):
                for adapter in (peft, twin):
                    with self.subTest(name, model=model, adapter=adapter):
                        self.assertLess(error(logits(model, adapter), want), 2e-4)

    def test_logits_are_llama_cpp_s(self):
        """Its GGUF adapters have the numbers of these directories (golden/make_peft_golden.py)."""
        golden = json.loads((TESTS / "golden" / "peft.json").read_text())
        self.assertEqual(list(IDS), golden["ids"])
        for name, want in golden["logits"].items():
            _, gguf, qsf = base(name)
            peft, _, _ = twins(name, **golden["members"])
            for model in (gguf, qsf):
                with self.subTest(name, model=model):
                    # llama.cpp rounds what meets weights in f16 to f16
                    self.assertLess(error(logits(model, peft), np.array(want)), 5e-3)
                    self.assertGreater(error(logits(model), np.array(want)), 5e-2)

    def test_members_mean_what_peft_makes_of_them(self):
        """rsLoRA, patterns as regular expressions and as names, targets as a list and as an expression."""
        cases = (
            {"use_rslora": True, "r": 6},
            {"rank_pattern": {"q_proj": 2, r"layers\.[01]\.mlp\.(up|down)_proj": 7}, "lora_alpha": 3},
            {"alpha_pattern": {r"^model\.layers\.1\.self_attn\.v_proj": 40, "up_proj": 1, "proj": 100},
             "use_rslora": True, "rank_pattern": {"k_proj": 1}},
            {"target_modules": r".*layers\.\d+\.(self_attn|mlp)\.(q|v|o|up)_proj",
             "only": r"(\.q|v|o|up)_proj$"},
            {"target_modules": ["q_proj", "model.layers.1.mlp.down_proj"], "layers_to_transform": [1],
             "only": r"layers\.1\.(self_attn\.q|mlp\.down)_proj"},
            {"ends": True, "lora_alpha": 5},
        )
        folder, gguf, qsf = base("llama")
        for i, members in enumerate(cases):
            peft, _, pairs = twins("llama", seed=i + 3, **members)
            merged = converted(make_peft.merge(folder, FOLDER / f"numpy{i}", (pairs, 1)),
                               FOLDER / f"numpy{i}.qsf")
            want = logits(merged)
            with self.subTest(members):
                self.assertGreater(error(logits(qsf), want), 1e-3)
                for model in (gguf, qsf): self.assertLess(error(logits(model, peft), want), 2e-4)

    def test_modules_of_experts(self):
        """Each expert has modules of its own: all of them, and some, by numpy's merged weights."""
        for name in ("mixtral", "qwen3moe", "olmoe"):
            folder, gguf, qsf = base(name)
            peft, twin, pairs = twins(name, experts=True)
            some, _, less = twins(name, experts=True, seed=2,
                                  only=r"(\.gate|\.[02]\.(w1|w2|up_proj|down_proj))$")
            self.assertTrue(any(".experts.2." in m for m in less))
            self.assertFalse(any(".experts.1." in m for m in less))
            merged = make_peft.merge(folder, FOLDER / f"{name}-moe", (pairs, 1), (less, -0.5))
            want = logits(converted(merged, FOLDER / f"{name}-moe.qsf"))
            self.assertGreater(error(logits(gguf), want), 1e-2)
            for model in (gguf, qsf):
                for adapter in (peft, twin):
                    with self.subTest(name, model=model, adapter=adapter):
                        self.assertLess(error(logits(model, adapter, f"{some}:-0.5"), want), 2e-4)
            for source in (folder, gguf, qsf):
                with self.subTest(name, merged=source):
                    out = self.merged(name, source, peft, f"{some}:-0.5")
                    self.assertLess(error(logits(out), want), 1e-3)

    def test_forms_of_the_same_tensors(self):
        _, gguf, _ = base("llama")
        config, pairs = make_peft.make(base("llama")[0], dtype=np.float16)
        want = logits(gguf, make_peft.write_peft(FOLDER / "plain", config, pairs))
        forms = {"named": {"named": ".default"}, "bare": {"prefix": ""},
                 "wide": {"more": {"base_model.model.model.embed_tokens.base_layer.weight":
                                   np.zeros((3, 4), np.float32)}}}
        for form, options in forms.items():
            with self.subTest(form):
                got = logits(gguf, make_peft.write_peft(FOLDER / form, config, pairs, **options))
                self.assertTrue((got == want).all())

    def test_scales_and_several(self):
        folder, gguf, qsf = base("qwen2")
        a, _, pa = twins("qwen2", seed=1)
        _, b, pb = twins("qwen2", seed=2, r=3)
        want = logits(converted(make_peft.merge(folder, FOLDER / "two", (pa, 0.5), (pb, -1.5)),
                                FOLDER / "two.qsf"))
        for model in (gguf, qsf):
            self.assertLess(error(logits(model, f"{a}:0.5", f"{b}:-1.5"), want), 2e-4)

    def test_what_cannot_be_run_is_refused_by_name(self):
        _, gguf, _ = base("llama")
        config, pairs = make_peft.make(base("llama")[0])
        some = {m: p for m, p in pairs.items() if ".layers.1.self_attn." in m}
        eye = np.eye(4, dtype=np.float32)
        at = "base_model.model.model.layers.0."
        cases = [({k: v}, {}, k) for k, v in (
            ("use_dora", True), ("modules_to_save", ["lm_head"]), ("bias", "lora_only"), ("lora_bias", True),
            ("layer_replication", [[0, 1]]), ("trainable_token_indices", [1]), ("use_qalora", True),
            ("target_parameters", ["mlp.experts"]), ("alora_invocation_tokens", [1]), ("peft_type", "LOHA"),
            ("init_lora_weights", "pissa_niter_4"), ("target_modules", ["o_proj"]),
            ("target_modules", "model.decoder.*"), ("target_modules", 7), ("r", 5), ("r", "4"),
            ("rank_pattern", {"q_proj": 9}), ("rank_pattern", [1]), ("alpha_pattern", {"(?=x)q": 1}),
            ("alpha_pattern", {"q_proj": "x"}), ("layers_to_transform", [5]),
            ("exclude_modules", ["q_proj"]))]
        cases += [({}, {name: eye}, name.split(".layers.0.")[-1]) for name in (
            at + "self_attn.q_proj.lora_magnitude_vector", at + "self_attn.rotary.lora_A.weight",
            at + "mlp.experts.0.mid_proj.lora_A.weight", "base_model.model.lm_head.weight",
            "base_model.model.vision_tower.layers.0.self_attn.q_proj.lora_A.weight",
            at + "input_layernorm.lora_A.weight")]
        pair = {at + f"mlp.experts.0.up_proj.lora_{x}.weight": eye for x in "AB"}
        cases.append(({}, pair, "a matrix that the model does not have"))
        for i, (members, more, word) in enumerate(cases):
            peft = make_peft.write_peft(FOLDER / f"bad{i}", {**config, **members}, some, more=more)
            r = run("-m", gguf, "--ids", "1", "--raw", "--lora", peft)
            with self.subTest(members, more=list(more)):
                self.assertNotEqual(r.returncode, 0)
                shown = {"r": "rank", "rank_pattern": "rank"}.get(word, word)
                self.assertIn(shown.encode(), r.stderr)
        odd = next(iter(some))
        short = {**some, odd: (some[odd][0][:, :-1], *some[odd][1:])}
        r = run("-m", gguf, "--ids", "1", "--raw", "--lora",
                make_peft.write_peft(FOLDER / "short", config, short))
        self.assertIn(b"another model's", r.stderr)
        (FOLDER / "bare-config").mkdir()
        (FOLDER / "bare-config" / "adapter_config.json").write_text(json.dumps(config))
        for name, words in ((None, b"adapter_model.safetensors"), ("adapter_model.bin", b"PyTorch")):
            if name: (FOLDER / "bare-config" / name).write_bytes(b"PK\3\4")
            r = run("-m", gguf, "--ids", "1", "--raw", "--lora", FOLDER / "bare-config")
            self.assertNotEqual(r.returncode, 0)
            self.assertIn(words, r.stderr)

    def test_unknown_members_are_named(self):
        _, gguf, _ = base("llama")
        config, pairs = make_peft.make(base("llama")[0])
        config.update(target_modules=config["target_modules"] + ["lm_head"], use_newest=True, quiet=None)
        r = run("-m", gguf, "--ids", "1", "--raw", "-n", "1", "--verbose", "--lora",
                make_peft.write_peft(FOLDER / "unknown", config, pairs))
        self.assertEqual(r.returncode, 0)
        self.assertIn(b"use_newest", r.stderr)
        self.assertIn(b"lm_head", r.stderr)
        self.assertNotIn(b"quiet", r.stderr)

    # ---- merged ----

    def merged(self, name, source, *uses):
        out = FOLDER / f"merged-{len(list(FOLDER.glob('merged-*')))}.qsf"
        return converted(source, out, *(x for use in uses for x in ("--merge-lora", use)))

    def test_merged_is_what_lora_computes(self):
        """Of directories and GGUF files, adapters in both forms, with embedding and head, tied or not."""
        for name in ("llama", "qwen2", "phi3-short", "gemma3", "gpt2", "smollm3"):
            folder, gguf, qsf = base(name)
            peft, twin, _ = twins(name, seed=4, use_rslora=True, ends=name in ("llama", "gemma3"))
            other, _, _ = twins(name, seed=5, r=3)
            want = logits(gguf, f"{peft}:0.7", other)
            self.assertGreater(error(logits(gguf), want), 1e-2)
            for source in (folder, gguf, qsf):
                for first in (peft, twin):
                    with self.subTest(name, source=source, first=first):
                        out = self.merged(name, source, f"{first}:0.7", other)
                        self.assertLess(error(logits(out), want), 1e-3)     # the last norm becomes f16

    def test_merged_by_numpy_is_the_same_weights(self):
        folder, _, _ = base("llama")
        peft, _, pairs = twins("llama", seed=6, ends=True)
        want = logits(converted(make_peft.merge(folder, FOLDER / "by-numpy", (pairs, -0.25)),
                                FOLDER / "by-numpy.qsf"))
        self.assertLess(error(logits(self.merged("llama", folder, f"{peft}:-0.25")), want), 1e-5)

    def test_merging_into_quantised_weights(self):
        """They are dequantised, changed and quantised again: near what the adapter makes of the same file."""
        _, gguf, _ = base("llama")
        quantised = FOLDER / "8bit.qsf"
        subprocess.run([QSF_CONVERT, "-q", "--quant-type", "8bit", "--equalize", "off", gguf, quantised],
                       check=True)
        peft, _, _ = twins("llama", seed=7)
        want = logits(quantised, peft)
        self.assertLess(error(logits(self.merged("llama", quantised, peft)), want), 1e-3)
        again = FOLDER / "8bit-merged.qsf"
        subprocess.run([QSF_CONVERT, "-q", "--quant-type", "8bit", "--merge-lora", peft, quantised, again],
                       check=True)
        self.assertLess(error(logits(again), want), 0.1)
        self.assertGreater(error(logits(quantised), want), 0.3)

    def test_what_cannot_be_merged_is_refused(self):
        folder, gguf, _ = base("llama")
        peft, twin, _ = twins("llama", seed=8)
        scaled = FOLDER / "scaled.qsf"
        subprocess.run([QSF_CONVERT, "-q", "--equalize", "on", gguf, scaled], check=True)
        again = converted(scaled, FOLDER / "scaled-again.qsf")
        for source, adapter, out, words in (
                (scaled, peft, "x.qsf", b"scaled its channels"),
                (again, peft, "x.qsf", b"scaled its channels"),
                (folder, base("qwen2")[1], "x.qsf", b"is not an adapter"), (gguf, twin, twin, b"an adapter"),
                (gguf, peft, peft / "adapter_model.safetensors", b"an adapter"),
                (gguf, "none", "x.qsf", b"none")):
            r = convert(source, FOLDER / out, "--merge-lora", adapter)
            with self.subTest(words, source=source):
                self.assertNotEqual(r.returncode, 0)
                self.assertIn(words, r.stderr)
        for adapter, report in ((twin, pathlib.Path(twin)), (peft, peft / "adapter_config.json")):
            before = report.read_bytes()
            r = convert(gguf, FOLDER / "x.qsf", "--merge-lora", adapter, "--json", report)
            with self.subTest("a report", report=report):
                self.assertNotEqual(r.returncode, 0)
                self.assertIn(b"an adapter", r.stderr)
                self.assertEqual(report.read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
