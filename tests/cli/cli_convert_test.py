#!/usr/bin/env python3
"""qsf-convert from a user's view: the default type, the estimated loss, and options of other programs.
SPDX-License-Identifier: MIT

    cli_convert_test.py QSF_CONVERT [unittest options]
"""
import json, pathlib, subprocess, sys, tempfile, unittest

CONVERT = sys.argv.pop(1)
TESTS = pathlib.Path(__file__).resolve().parents[1]
WORK = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(WORK.name)


def convert(*args):
    return subprocess.run([CONVERT, *map(str, args)], capture_output=True, text=True, timeout=120)


def converted(name, *args):
    """The report, stderr, and the file's bytes."""
    out = FOLDER / f"{name}.qsf"
    r = convert(*args, "--json", FOLDER / "report.json", FOLDER / "llama.gguf", out)
    assert r.returncode == 0, r
    return json.loads((FOLDER / "report.json").read_text()), r.stdout + r.stderr, out.read_bytes()


def setUpModule():
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
                   stdout=subprocess.DEVNULL)


class Default(unittest.TestCase):
    def test_it_is_auto(self):
        default, said, data = converted("default")
        auto, _, same = converted("auto", "--quant-type", "auto")
        self.assertEqual((default["quant_type"], data), ("auto", same))
        self.assertIn("estimated loss: ", said)

    def test_no_matrix_gets_less_than_4bit_gives_it(self):
        auto, _, _ = converted("auto")
        four, _, _ = converted("4bit", "--quant-type", "4bit")
        for a, b in zip(auto["tensors"], four["tensors"]):
            self.assertEqual(a["name"], b["name"])
            self.assertGreaterEqual(a["bytes"], b["bytes"], a["name"])
        self.assertGreater(four["estimated_kl"], 0.1)
        self.assertLess(auto["estimated_kl"], four["estimated_kl"])
        weights = sum(t["rows"] * t["cols"] for t in auto["tensors"] if "norm" not in t["name"])
        bits = 8 * sum(t["bytes"] for t in auto["tensors"] if "norm" not in t["name"]) / weights
        self.assertTrue(auto["estimated_kl"] <= 0.11 or bits > 6.2, (auto["estimated_kl"], bits))

    def test_a_type_that_was_asked_for_is_the_one(self):
        for kind in ("4bit", "8bit", "mixed"):
            self.assertEqual(converted(kind, "--quant-type", kind)[0]["quant_type"], kind)
        sized, _, _ = converted("sized", "--target-size", "0.6")
        self.assertLessEqual(sized["file_bytes"], 600000)

    def test_rules_win_over_the_default(self):
        report, _, _ = converted("rules", "--tensor", "attn_q=3bit:64")
        kinds = {t["kind"]: t["type"] for t in report["tensors"]}
        self.assertEqual(kinds["attn_q"], "3bit")


class Loss(unittest.TestCase):
    def test_a_large_one_is_a_warning(self):
        for kind, warns in (("2bit", True), ("ternary", True), ("8bit", False), ("f16", False)):
            report, said, _ = converted(kind, "--quant-type", kind)
            self.assertEqual("warning: estimated loss" in said, warns, (kind, said))
            self.assertLess(report.get("estimated_kl", 0), 0.02 if not warns else 1e3)
        self.assertIn("--calibrate self", converted("2bit", "--quant-type", "2bit")[1])
        self.assertEqual(converted("2bit", "-q", "--quant-type", "2bit")[1], "")

    def test_more_bits_are_estimated_to_lose_less(self):
        kinds = ("2bit", "3bit", "4bit", "8bit")
        losses = [converted(k, "--quant-type", k)[0]["estimated_kl"] for k in kinds]
        self.assertEqual(losses, sorted(losses, reverse=True))


class Foreign(unittest.TestCase):
    def test_other_converters_options(self):
        report, _, _ = converted("outtype", "--outtype", "q8_0")
        self.assertEqual(report["quant_type"], "8bit")
        for args, says in ((("--outfile", "x"), "second argument"), (("--remote",), "-hf OWNER/REPO"),
                           (("--tensor-type", "a=b"), "--tensor PATTERN=TYPE")):
            r = convert(*args, FOLDER / "llama.gguf", FOLDER / "x.qsf")
            self.assertEqual(r.returncode, 2)
            self.assertIn(says, r.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
