#!/usr/bin/env python3
"""--trace and --record as their reader meets them: whole JSON at any time, slices that nest, times that add
up, the members of the original specification, and the error of a full disk.
SPDX-License-Identifier: MIT

    cli_trace_test.py QSF_RUN QSF_BENCH QSF_CONVERT [unittest options]

Chrome's format is read from its description (Trace Event Format, "JSON Array Format"): events have name, ph,
pid, tid and ts in microseconds; slices ("X") have dur, and those of one thread lie in each other or apart;
asynchronous ones ("b", "e") come in pairs of one id.
"""
import collections, json, pathlib, signal, subprocess, sys, unittest

from cli_case import MODEL, QSF_RUN, WORK, run

QSF_BENCH, QSF_CONVERT = sys.argv.pop(1), sys.argv.pop(1)
FOLDER = pathlib.Path(WORK.name)
# in the order of the original specification
MEMBERS = {
    "kernel_id": str, "layer": str, "operation": str, "rows": int, "cols": int, "blocks_per_row": int,
    "bytes_per_block": int, "backend": str, "compute_type": str, "quantization_type": str, "device": str,
    "timestamp_us": int, "duration_us": int,
}
STEPS = 6
ENDLESS = [QSF_RUN, MODEL, "--raw", "-p", "a", "-n", "100000", "--ignore-eos", "--kv-window", "64", "-t", "1"]


def traced(*more, prompt="Once upon a time", tokens=STEPS):
    trace, record = FOLDER / "trace.json", FOLDER / "record.jsonl"
    r = run(MODEL, "--raw", "-p", prompt, "-n", tokens, "--temp", 0, "--ignore-eos", "--trace", trace,
            "--record", record, *more)
    assert r.returncode == 0, r.stderr
    return json.loads(trace.read_text()), [json.loads(line) for line in record.read_text().splitlines()], r


def slices(events):
    return [e for e in events if e["ph"] == "X"]


class Trace(unittest.TestCase):
    def test_events_have_what_the_format_asks_for(self):
        events, _, _ = traced("-t", 3)
        self.assertEqual({e["ph"] for e in events}, {"M", "X", "b", "e"})
        named, open_reads = set(), {}
        for e in events:
            self.assertTrue(isinstance(e["name"], str) and isinstance(e["pid"], int)
                            and isinstance(e["tid"], int), e)
            if e["ph"] == "M":
                self.assertIn(e["name"], ("process_name", "thread_name", "thread_sort_index"))
                self.assertEqual(list(e["args"]), ["sort_index" if "sort" in e["name"] else "name"])
                named.add((e["pid"], e["tid"], e["name"]))
                continue
            self.assertTrue(isinstance(e["cat"], str) and e["cat"], "without it a pair has no place")
            self.assertTrue(isinstance(e["ts"], (int, float)) and isinstance(e.get("args", {}), dict), e)
            self.assertGreaterEqual(e["ts"], 0)
            if e["ph"] == "X":
                self.assertGreaterEqual(e["dur"], 0)
                self.assertIn((e["pid"], e["tid"], "thread_name"), named, "it is named first")
            elif e["ph"] == "b":
                self.assertNotIn(e["id"], open_reads, "one id, one pair at a time")
                open_reads[e["id"]] = e
            else:
                begin = open_reads.pop(e["id"])
                self.assertGreaterEqual(e["ts"], begin["ts"])
                for same in "cat", "name", "pid": self.assertEqual(e[same], begin[same])
        self.assertFalse(open_reads)

    def test_slices_of_a_thread_nest(self):
        for threads in (1, 2):
            tracks = collections.defaultdict(list)
            for e in slices(traced("-t", threads)[0]):
                tracks[e["pid"], e["tid"]].append((e["ts"], -e["dur"], e["name"]))
            self.assertIn((1, 0), tracks)
            for track in tracks.values():
                stack = []
                for begin, dur, name in sorted(track):
                    end = begin - dur
                    while stack and stack[-1][0] <= begin + 0.002:
                        stack.pop()
                    if stack:       # times have three decimals
                        self.assertLessEqual(end, stack[-1][0] + 0.002, f"{name} leaves {stack[-1][1]}")
                    stack.append((end, name))

    def test_times_add_up(self):
        events = slices(traced("-t", 1, prompt="word " * 60, tokens=2)[0])
        layers = [e for e in events if e["name"] == "layer"]
        operations = [e for e in events if e["cat"] == "operation" and "layer" in e["args"]]
        spent = sum(e["dur"] for e in layers)
        self.assertLessEqual(sum(e["dur"] for e in operations), spent * 1.001)
        # The rest is writing events, and other programs' turns, which do not come in every layer.
        shares = [sum(e["dur"] for e in operations if 0 <= e["ts"] - one["ts"] <= one["dur"]) / one["dur"]
                  for one in layers]
        self.assertGreater(max(shares), 0.3, shares)
        steps = sum(e["dur"] for e in events if e["cat"] == "step")
        batches = sum(e["dur"] for e in events if e["cat"] == "batch")
        self.assertLessEqual(steps, batches * 1.001)
        self.assertGreaterEqual(steps, spent)

    def test_layers_and_tokens_are_all_there(self):
        events, _, _ = traced("-t", 1)
        count = collections.Counter((e["cat"], e["name"]) for e in slices(events))
        self.assertEqual(count["sampling", "sample"], STEPS)
        batches = count["batch", "batch"]
        self.assertEqual(count["step", "head"], batches)
        self.assertEqual(count["step", "embedding"], batches)
        self.assertEqual(count["operation", "qkv"], count["step", "layer"])
        self.assertEqual(count["step", "layer"] % batches, 0)
        for e in slices(events):
            if e["name"] == "qkv":
                self.assertRegex(e["args"]["kernels"], r"^\w+_mat(vec|mul)_\w+")
                self.assertGreater(e["args"]["weight_bytes"], 0)

    def test_streaming_shows_reads_and_the_thread_that_prepares(self):
        events, _, r = traced("-t", 1, "-c", 1024, "--ram-budget", 3)
        self.assertGreater(sum(e["ph"] == "b" for e in events), 2 * STEPS, r.stderr)
        self.assertTrue(any(e["name"] == "prepare" for e in slices(events)))

    def test_it_is_whole_json_when_the_program_is_killed(self):
        trace = FOLDER / "killed.json"
        with subprocess.Popen([*ENDLESS, "--trace", trace], stdout=subprocess.PIPE) as p:
            p.stdout.read(40)
            p.kill()
        self.assertEqual(p.returncode, -signal.SIGKILL)
        text = trace.read_text()
        if not text.endswith("]\n"):           # killed while it wrote, which ends with a page of the file
            self.assertEqual(trace.stat().st_size % 4096, 0, text[-80:])
            text = text[:text.rindex("},\n") + 1] + "]"
        self.assertGreater(len(json.loads(text)), 20)

    def test_it_is_closed_when_the_program_is_interrupted(self):
        trace, record = FOLDER / "interrupted.json", FOLDER / "interrupted.jsonl"
        with subprocess.Popen([*ENDLESS, "--trace", trace, "--record", record], stdout=subprocess.PIPE) as p:
            p.stdout.read(40)
            p.send_signal(signal.SIGINT)
        self.assertGreater(len(json.loads(trace.read_text())), 20)
        for line in record.read_text().splitlines():
            json.loads(line)


class Record(unittest.TestCase):
    def test_members_are_the_documents(self):
        _, lines, _ = traced("-t", 2)
        for line in lines:
            self.assertEqual(list(line)[: len(MEMBERS)], list(MEMBERS))
            for name, kind in MEMBERS.items():
                self.assertIs(type(line[name]), kind, line)
            self.assertEqual((line["backend"], line["device"]), ("qsf", "cpu"))
            self.assertIn(line["compute_type"], ("quantized", "float"))
            many = line["batch"] > 1
            self.assertEqual(line["operation"], f"matrix-{'matrix' if many else 'vector'} multiply")
            self.assertEqual(line["duration_us"], line["duration_ns"] // 1000)

    def test_lines_are_the_models_matrices(self):
        from gguf import GGUFReader

        _, lines, _ = traced("-t", 1)
        tensors = {t.name.removesuffix(".weight"): t for t in GGUFReader(MODEL).tensors}
        seen = collections.Counter(line["layer"] for line in lines)
        matrices = {name for name, t in tensors.items()
                    if len(t.shape) == 2 and not name.startswith("position") and name != "token_embd"}
        head = "output" if "output" in tensors else "token_embd"
        self.assertEqual(set(seen), matrices | {head})
        self.assertEqual(len(set(seen.values())), 1, "every matrix once a batch")
        for line in lines:
            t = tensors[line["layer"]]
            self.assertEqual((line["cols"], line["rows"]), tuple(int(n) for n in t.shape))
            row_bytes = line["blocks_per_row"] * line["bytes_per_block"]
            self.assertEqual(row_bytes * line["rows"], t.n_bytes)
            self.assertEqual(line["quantization_type"].lower(), t.tensor_type.name.lower())

    def test_times_go_on(self):
        _, lines, _ = traced("-t", 1)
        # products of one operation begin in turns
        stamps = [line["timestamp_us"] for line in lines if line["layer"].endswith(("attn_q", "ffn_down"))]
        self.assertEqual(stamps, sorted(stamps))


class Files(unittest.TestCase):
    def test_a_full_disk_is_said_once_and_the_answer_comes_all_the_same(self):
        if not pathlib.Path("/dev/full").exists():
            self.skipTest("no /dev/full here")
        for option in ("--trace", "--record"):
            r = run(MODEL, "--raw", "-p", "a", "-n", 4, "--ignore-eos", option, "/dev/full")
            self.assertEqual(r.returncode, 5)
            self.assertTrue(r.stdout)
            said = [line for line in r.stderr.decode().splitlines() if option in line]
            self.assertEqual(len(said), 1, r.stderr)
            self.assertIn("/dev/full", said[0])
            self.assertIn("No space left", said[0])

    def test_a_folder_that_is_not_there(self):
        r = run(MODEL, "-p", "a", "--trace", FOLDER / "none" / "t.json")
        self.assertEqual((r.returncode, r.stdout), (5, b""))
        self.assertIn(b"--trace", r.stderr)
        self.assertIn(b"No such file", r.stderr)

    def test_the_answer_is_the_same(self):
        ask = [MODEL, "--raw", "-p", "Once", "-n", 12, "--temp", 0, "-t", 2]
        files = ["--trace", FOLDER / "t", "--record", FOLDER / "r"]
        self.assertEqual(run(*ask).stdout, run(*ask, *files).stdout)

    def test_bench_writes_both(self):
        trace, record = FOLDER / "bench.json", FOLDER / "bench.jsonl"
        r = subprocess.run([QSF_BENCH, MODEL, "-p", "8", "-n", "2", "-r", "1", "-t", "1", "--operations",
                            "--json", "--trace", trace, "--record", record], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        rows = {row["test"]: row for row in json.loads(r.stdout)["results"]}
        self.assertEqual(rows["tg2 qkv"]["unit"], "ms")
        kernels = {line["kernel_id"] for line in map(json.loads, record.read_text().splitlines())}
        self.assertTrue(any(f"tg2 {k}" in rows for k in kernels), kernels)
        self.assertGreater(len(slices(json.loads(trace.read_text()))), 50)

    def test_convert_records_what_it_measures(self):
        text, record = FOLDER / "text", FOLDER / "convert.jsonl"
        text.write_text("some words to measure by, " * 400)
        r = subprocess.run([QSF_CONVERT, "-q", MODEL, FOLDER / "out.qsf", "--calibration", text, "--trace",
                            FOLDER / "convert.json", "--record", record], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        layers = {line["layer"] for line in map(json.loads, record.read_text().splitlines())}
        self.assertIn("blk.0.attn_q", layers)
        self.assertIn("layer", {e["name"] for e in json.loads((FOLDER / "convert.json").read_text())})


if __name__ == "__main__":
    unittest.main()
