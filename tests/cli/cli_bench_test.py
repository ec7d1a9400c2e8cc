#!/usr/bin/env python3
"""qsf-bench as its user meets it: options, exit codes, the three forms of its figures, --compare, --kernels.
No figure is judged.
SPDX-License-Identifier: MIT

    cli_bench_test.py QSF_BENCH [unittest options]

Needs tests/parity/make_tiny.py's requirements (numpy, gguf) for its model.
"""
import csv, io, json, os, pathlib, subprocess, sys, tempfile, unittest

QSF_BENCH = None
TESTS = pathlib.Path(__file__).resolve().parents[1]
WORK = tempfile.TemporaryDirectory()
MODEL = None
QUICK = ["-p", "8", "-n", "2", "-r", "2", "-t", "1"]
FIGURES = ["median", "min", "max", "stdev"]


def setUpModule():
    global MODEL
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
                   stdout=subprocess.DEVNULL)
    MODEL = str(next(pathlib.Path(WORK.name).glob("*.gguf")))


def run(*args, env=None, timeout=600):
    full = {**{k: v for k, v in os.environ.items() if not k.startswith("QSF_")}, **(env or {})}
    return subprocess.run([QSF_BENCH, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env=full, timeout=timeout)


class Models(unittest.TestCase):
    def rows(self, *args, **more):
        r = run(*args, "--json", **more)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stderr, "")
        return json.loads(r.stdout)["results"]

    def test_every_combination_has_a_row(self):
        rows = self.rows(MODEL, "-p", "4,9", "-n", "1,3", "-d", "0,5", "-t", "1,2", "--isa", "scalar", "-r",
                         "3", "--load")
        self.assertEqual({(r["test"], r["threads"]) for r in rows},
                         {(test, t) for test in ("load", "pp4", "pp9", "tg1", "tg3", "tg1@5", "tg3@5",
                                                  "tg1 sampled", "tg3 sampled", "tg1@5 sampled",
                                                  "tg3@5 sampled")
                          for t in (1, 2)})
        for r in rows:
            self.assertEqual((r["model"], r["isa"], r["n"]), (os.path.basename(MODEL), "scalar", 3))
            self.assertEqual(r["unit"], "ms" if r["test"] == "load" else "tok/s")
            self.assertTrue(r["min"] <= r["median"] <= r["max"] and r["stdev"] >= 0 and r["memory"] > 0, r)

    def test_models_by_option_and_by_position(self):
        self.assertEqual(len(self.rows(MODEL, "-m", MODEL, *QUICK)), 6)

    def test_an_adapter_is_measured_in_turns(self):
        adapter = pathlib.Path(WORK.name) / "adapter.gguf"
        subprocess.run([sys.executable, TESTS / "parity" / "make_lora.py", MODEL, adapter], check=True)
        rows = self.rows(MODEL, *QUICK, "--lora", adapter)
        self.assertEqual([(r["test"], r["n"]) for r in rows],
                         [("pp8", 2), ("pp8 lora", 2), ("pp8 lora cost", 1),
                          ("tg2", 2), ("tg2 lora", 2), ("tg2 lora cost", 1), ("tg2 sampled", 2)])
        self.assertEqual(run(MODEL, *QUICK, "--lora", MODEL).returncode, 3)

    def test_zero_leaves_a_test_out(self):
        self.assertEqual([r["test"] for r in self.rows(MODEL, "-p", "0", "-n", "2", "-r", "1")],
                         ["tg2", "tg2 sampled"])
        self.assertEqual([r["test"] for r in self.rows(MODEL, "-p", "0", "-n", "0", "-r", "1", "--load")],
                         ["load"])

    def test_sets_are_named_and_all_begin_with_scalar(self):
        rows = self.rows(MODEL, *QUICK, "--isa", "all")
        self.assertEqual(rows[0]["isa"], "scalar")
        self.assertEqual({r["isa"] for r in self.rows(MODEL, *QUICK, env={"QSF_ISA": "scalar"})}, {"scalar"})

    def test_table_and_csv_say_the_same(self):
        table = run(MODEL, *QUICK)
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertEqual(len(table.stdout.splitlines()), 4)
        self.assertIn("tok/s", table.stdout)
        rows = list(csv.DictReader(io.StringIO(run(MODEL, *QUICK, "--csv").stdout)))
        self.assertEqual([r["test"] for r in rows], ["pp8", "tg2", "tg2 sampled"])
        for r in rows:
            self.assertTrue(all(float(r[f]) >= 0 for f in FIGURES))

    def test_parts_of_a_token(self):
        rows = self.rows(MODEL, "-p", "0", "-n", "3", "-r", "2", "--parts", "--io", "auto",
                         "--ram-budget", "1000")
        self.assertEqual([r["test"] for r in rows], ["tg3", "tg3 sampled", "tg3 token", "tg3 token p99",
                                                     "tg3 matmul", "tg3 attention", "tg3 head", "tg3 other"])
        self.assertLess(rows[1]["median"], rows[0]["median"])       # sampling takes time, too
        self.assertEqual({r["unit"] for r in rows[2:]}, {"ms"})
        self.assertLessEqual(rows[2]["median"], rows[3]["median"])

    def test_limits_of_the_machine(self):
        rows = self.rows(MODEL, "-p", "8", "-n", "2", "-r", "2", "-t", "1", "--limits", "--buffer", "16")
        self.assertEqual([r["test"] for r in rows], ["read", "peak", "pp8", "tg2", "tg2 sampled"])
        self.assertEqual([r["unit"] for r in rows], ["GB/s", "G madds/s", "tok/s", "tok/s", "tok/s"])
        self.assertTrue(all(r["median"] > 0 for r in rows))
        self.assertEqual([r.get("share_of") for r in rows], [None, None, "peak", "read", None])
        for r in rows[2:4]:
            self.assertGreater(r["share"], 0)

    def test_batches_and_kinds_of_keys(self):
        for kv in ("q8", "f16", "f32"):
            self.assertEqual(
                len(self.rows(MODEL, "-p", "20", "-n", "2", "-r", "1", "-b", "7", "--kv-type", kv)), 3)


class Heads(unittest.TestCase):
    def test_agreement_and_times(self):
        text = pathlib.Path(WORK.name, "text.txt")
        text.write_text("The quick brown fox jumps over the lazy dog. " * 40)
        r = run(MODEL, "--head-topk", text, "--positions", "256", "-n", "2", "-r", "2", "-t", "1", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("clusters: ", r.stderr)                       # computed: not in the file
        rows = {x["test"]: x for x in json.loads(r.stdout)["results"]}
        self.assertEqual(set(rows), {"top-1 screen", "head exact", "tg exact", "head screen", "tg screen"})
        self.assertGreater(rows["top-1 screen"]["median"], 90)
        text.write_text("too short")
        self.assertEqual(run(MODEL, "--head-topk", text).returncode, 2)
        self.assertEqual(run(MODEL, "--head-topk", WORK.name + "/none").returncode, 5)


class Compare(unittest.TestCase):
    def saved(self, change):
        report = json.loads(run(MODEL, *QUICK, "--json").stdout)
        for r in report["results"]:
            r.update({f: r[f] * change for f in FIGURES})
        path = pathlib.Path(WORK.name, "before.json")
        path.write_text(json.dumps(report, indent=1))
        return path

    def test_faster_is_0_and_slower_is_1(self):
        r = run(MODEL, *QUICK, "--compare", self.saved(1e-6))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("3 rows compared, 0 slower", r.stderr)
        r = run(MODEL, *QUICK, "--compare", self.saved(1e6), "--json")
        self.assertEqual(r.returncode, 1)
        self.assertIn("3 rows compared, 3 slower", r.stderr)
        self.assertIn("slower: ", r.stderr)
        for row in json.loads(r.stdout)["results"]:
            self.assertAlmostEqual(row["ratio"], row["median"] / row["before"], delta=1e-3)
        self.assertEqual(run(MODEL, *QUICK, "--compare", self.saved(1e6), "--tolerance", "100").returncode, 0)

    def test_nothing_in_common_is_said(self):
        r = run(MODEL, "-p", "5", "-n", "0", "-r", "1", "-t", "1", "--compare", self.saved(1))
        self.assertEqual(r.returncode, 1)
        self.assertIn("no row", r.stderr)

    def test_other_files_are_refused(self):
        for text in ("", "{}", "[1, 2", '{"qsf-bench', '{"a": "\\u12', "\0\0{\"test\""):
            path = pathlib.Path(WORK.name, "other.json")
            path.write_text(text)
            r = run(MODEL, *QUICK, "--compare", path)
            self.assertEqual(r.returncode, 5, (text, r.stderr))
            self.assertEqual(r.stdout, "")
        self.assertEqual(run(MODEL, *QUICK, "--compare", WORK.name + "/none.json").returncode, 5)


class Kernels(unittest.TestCase):
    ARGS = ["--kernels", "--buffer", "16", "-r", "2", "-t", "1,2"]

    def test_one_form_in_cache_and_from_memory(self):
        r = run(*self.ARGS, "--filter", "4bit/64 n=1 ", "--isa", "scalar", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        rows = json.loads(r.stdout)["results"]
        self.assertEqual([(x["test"], x["threads"]) for x in rows if x["test"].startswith("4bit")],
                         [("4bit/64 n=1 cache", 1), ("4bit/64 n=1 memory", 1), ("4bit/64 n=1 memory", 2)])
        self.assertEqual({x["threads"] for x in rows if x["test"] == "read"}, {1, 2})
        self.assertEqual({x["threads"] for x in rows if x["test"] == "peak"}, {1, 2})
        for x in rows:
            self.assertGreater(x["median"], 0, x)
            self.assertNotIn("model", x)
            if x["test"].startswith("4bit"):
                self.assertEqual(x["share_of"], "read" if "memory" in x["test"] else "peak")
                self.assertGreater(x["share"], 0)

    def test_every_set_has_a_peak_and_entries(self):
        rows = json.loads(run(*self.ARGS, "--filter", "rms_norm", "--json").stdout)["results"]
        peaks, entries = [[x["isa"] for x in rows if x["test"] == test and x["threads"] == 1]
                          for test in ("peak", "rms_norm")]
        self.assertEqual(peaks, entries)
        self.assertEqual(peaks[0], "scalar")

    def test_kernels_compare_too(self):
        path = pathlib.Path(WORK.name, "kernels.json")
        args = [*self.ARGS, "--filter", "scalar rms_norm", "--isa", "scalar"]
        path.write_text(run(*args, "--json").stdout)
        r = run(*args, "--compare", path, "--tolerance", "100")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stderr, r"^[5-9] rows compared")


class Options(unittest.TestCase):
    def test_exit_codes(self):
        bad = pathlib.Path(WORK.name, "bad.gguf")
        bad.write_bytes(b"GGUF" + bytes(100))
        for args, code in [(["--help"], 0), (["--version"], 0), (["--completion-names"], 0), ([], 2),
                           ([MODEL, "--no-such"], 2), ([MODEL, "-p"], 2),
                           ([MODEL, "-p", "8,"], 2), ([MODEL, "-p", "x"], 2), ([MODEL, "-p", "-8"], 2),
                           ([MODEL, "-n", "99999999999999999999"], 2),
                           ([MODEL, "-t", "257"], 2), ([MODEL, "--isa", "scalar,"], 2),
                           ([MODEL, "--kv-type", "q9"], 2), ([MODEL, "-r", "0"], 2),
                           ([MODEL, "--json", "--csv"], 2), ([MODEL, "--filter", "x"], 2),
                           (["--kernels", "--buffer", "1"], 2),
                           ([bad], 3), ([WORK.name + "/missing.gguf"], 5), ([MODEL, "--isa", "mmx"], 3)]:
            r = run(*args)
            self.assertEqual(r.returncode, code, (args, r.stderr))
            if code:
                self.assertEqual(r.stdout, "", args)
                self.assertTrue(r.stderr.strip(), args)

    def test_an_error_later_leaves_whole_json(self):
        r = run(MODEL, WORK.name + "/missing.gguf", *QUICK, "--json")
        self.assertEqual(r.returncode, 5)
        self.assertEqual(len(json.loads(r.stdout)["results"]), 3)

    def test_help_fits_and_names_environment(self):
        r = run("--help", "all")
        self.assertLessEqual(max(len(l) for l in r.stdout.splitlines()), 110)
        for word in ("QSF_BENCH_THREADS", "--kernels", "--compare", "--load", "--filter", "--isa"):
            self.assertIn(word, r.stdout)

    def test_environment_below_command_line(self):
        env = {"QSF_BENCH_PROMPT": "4", "QSF_BENCH_DECODE": "0", "QSF_BENCH_REPETITIONS": "1"}
        self.assertIn("pp4", run(MODEL, env=env).stdout)
        self.assertIn("pp6", run(MODEL, "-p", "6", env=env).stdout)


if __name__ == "__main__":
    QSF_BENCH = sys.argv.pop(1)
    unittest.main(verbosity=2)
