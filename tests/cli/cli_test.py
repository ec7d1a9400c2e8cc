#!/usr/bin/env python3
"""qsf-run as its user meets it: what goes to stdout and stderr, exit codes, options, environment, Ctrl-C.
SPDX-License-Identifier: MIT

    cli_test.py QSF_RUN [unittest options]
"""
import json, os, pathlib, signal, subprocess, sys, tempfile, unittest, zlib

from cli_case import MODEL, QSF_RUN, SANITIZED, WORK, run
import make_options


class Answers(unittest.TestCase):
    def test_text_to_stdout_and_nothing_else(self):
        r = run(MODEL, "--raw", "-p", "Hello", "-n", "8", "--temp", "0")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(r.stdout.endswith(b"\n"))
        self.assertEqual(r.stderr, b"")
        r.stdout.decode("utf-8")

    def test_verbose_goes_to_stderr(self):
        quiet = run(MODEL, "--raw", "-p", "Hello", "-n", "8", "--temp", "0")
        loud = run(MODEL, "--raw", "-p", "Hello", "-n", "8", "--temp", "0", "-v")
        self.assertEqual(quiet.stdout, loud.stdout)
        for word in (b"memory", b"KV cache", b"kernels", b"tok/s", b"attention", b"file     read by", b"head",
                     b"sampling", b"checked", b"decompressed", b"while computing"):
            self.assertIn(word, loud.stderr)

    def test_every_way_of_reading_gives_the_same_answer(self):
        answers = set()
        for io in ("auto", "uring", "pread", "mmap"):
            for args, env in ((["--io", io], None), ([], {"QSF_IO": io})):
                r = run(MODEL, "--ids", "5,6,7", "-n", "6", "--temp", "0", "--json", "--check", "every",
                        *args, env=env)
                if r.returncode == 0:
                    answers.add(r.stdout)
                else:
                    self.assertNotEqual(io, "auto", r.stderr)
                    self.assertIn(b"cannot read it by " + io.encode(), r.stderr)
        self.assertEqual(len(answers), 1)
        self.assertEqual(run(MODEL, "--io", "paper").returncode, 2)

    def test_seed_repeats_and_greedy_is_steady(self):
        a = run(MODEL, "--raw", "-p", "Hi", "-n", "16", "-s", "7", "--temp", "2")
        b = run(MODEL, "--raw", "-p", "Hi", "-n", "16", "-s", "7", "--temp", "2")
        c = run(MODEL, "--raw", "-p", "Hi", "-n", "16", "-s", "8", "--temp", "2")
        self.assertEqual(a.stdout, b.stdout)
        self.assertNotEqual(a.stdout, c.stdout)

    def test_ids_and_json(self):
        r = run(MODEL, "--ids", "5,6,7", "-n", "6", "--temp", "0", "--json", "--ignore-eos")
        self.assertEqual(len(json.loads(r.stdout)["ids"]), 6)

    def test_threads_give_the_same_tokens(self):
        outs = {run(MODEL, "--ids", "5,6,7,8,9", "-n", "12", "--temp", "0", "--json", "-t", t).stdout
                for t in (1, 2, 3, 8, 256)}
        self.assertEqual(len(outs), 1)

    def test_guesses_change_no_token(self):
        ids = ",".join(["5,6,7,8,9"] * 6)
        for how in (["--temp", "0"], ["--temp", "0", "--f32"], ["--temp", "0", "--kv", "f32"],
                    ["--temp", "1.5", "-s", "3"], ["--temp", "0.9", "-s", "4", "--repeat-penalty", "1.3"]):
            outs = {run(MODEL, "--ids", ids, "-n", "40", "--json", "--ignore-eos", "--draft", d, *how).stdout
                    for d in (0, 1, 4, 7)}
            self.assertEqual(len(outs), 1, how)
            self.assertEqual(len(json.loads(outs.pop())["ids"]), 40)
        # guesses beyond the last token and beyond the context
        for n, ctx in ((1, 64), (2, 64), (100, 64)):
            outs = ({run(MODEL, "--ids", ids, "-n", n, "-c", ctx, "--temp", "0", "--json", "--ignore-eos",
                         "--draft", d).stdout for d in (0, 7)})
            self.assertEqual(len(outs), 1, (n, ctx))
        self.assertRegex(run(MODEL, "--ids", ids, "-n", "40", "--temp", "0", "--ignore-eos", "--draft", "7",
                             "-v").stderr, rb"answer +40 tokens.*; \d+ of \d+ draft tokens accepted")

    def test_a_draft_model_changes_no_token(self):
        ids = ",".join(["5,6,7,8,9"] * 6)
        for how in (("--temp", "0"), ("--temp", "0.9", "-s", "5")):
            base = (MODEL, "--ids", ids, "-n", "40", "--json", "--ignore-eos", *how)
            outs = {run(*base, "--draft", 0).stdout} | {run(*base, "--draft-model", MODEL, *draft).stdout
                                                        for draft in ((), ("--draft", 2), ("-c", 71))}
            self.assertEqual(len(outs), 1, how)
        said = run(MODEL, "--ids", ids, "-n", "40", "--temp", "0", "--ignore-eos", "--draft-model", MODEL,
                   "--draft", "7", "-v").stderr
        self.assertRegex(said, rb"(?s)draft .* MB more.*; \d+ of \d+ draft tokens accepted")
        other = pathlib.Path(WORK.name) / "other.gguf"
        other.write_bytes(pathlib.Path(MODEL).read_bytes().replace(b"the", b"eht"))
        for file, code, says in ((other, 2, b"same vocabulary"), ("none.gguf", 5, b"none.gguf")):
            r = run(MODEL, "-p", "x", "--draft-model", file)
            self.assertEqual(r.returncode, code, r.stderr)
            self.assertIn(says, r.stderr)
        r = run(MODEL, "-p", "x", "--draft-model", MODEL, "--ram-budget", 4, "-c", 64)
        self.assertEqual(r.returncode, 4, r.stderr)
        self.assertIn(b"with the draft model", r.stderr)

    def test_batch_sizes_agree(self):
        ids = ",".join(str(i % 250 + 5) for i in range(100))
        outs = {run(MODEL, "--ids", ids, "-n", "8", "--temp", "0", "--json", "-b", b).stdout
                for b in (1, 7, 32, 256)}
        self.assertEqual(len(outs), 1)

    def test_prompt_from_file_and_stdin(self):
        f = pathlib.Path(WORK.name, "prompt.txt")
        f.write_bytes(b"Hello there")
        a = run(MODEL, "--raw", "-p", "Hello there", "-n", "8", "--temp", "0")
        b = run(MODEL, "--raw", "-f", f, "-n", "8", "--temp", "0")
        c = run(MODEL, "--raw", "-n", "8", "--temp", "0", stdin=b"Hello there")
        self.assertEqual(a.stdout, b.stdout)
        self.assertEqual(a.stdout, c.stdout)

    def test_stop_text_ends_the_answer_and_is_not_shown(self):
        full = run(MODEL, "--raw", "-p", "Hello", "-n", "24", "--temp", "0",
                   "--ignore-eos").stdout.decode().rstrip("\n")
        stop = full[4:7]
        cut = run(MODEL, "--raw", "-p", "Hello", "-n", "24", "--temp", "0", "--ignore-eos", "--stop",
                  stop).stdout.decode().rstrip("\n")
        self.assertEqual(cut, full[:full.index(stop)])

    def test_context_full_is_said_and_the_text_kept(self):
        r = run(MODEL, "--raw", "-p", "Hello", "-c", "32", "-n", "-1", "--ignore-eos", "--temp", "0")
        self.assertEqual(r.returncode, 0)
        self.assertIn(b"context is full", r.stderr)
        self.assertGreater(len(r.stdout), 1)


class Lengths(unittest.TestCase):
    """A prompt that does not fit is refused before it is computed, and what could be done
    about it is true."""

    @staticmethod
    def trained(length):
        """The model, with another length in its description."""
        file = pathlib.Path(WORK.name, f"llama-{length}.gguf")
        if not file.exists():
            data = bytearray(pathlib.Path(MODEL).read_bytes())
            key = b"llama.context_length"
            at = data.index(key) + len(key) + 4             # after the type of the value
            data[at:at + 4] = length.to_bytes(4, "little")
            file.write_bytes(data)
        return file

    def refused(self, *args, ids=100, code=1, stdin=None, model=MODEL):
        given = ("--ids", ",".join(["7"] * ids)) if ids else ()
        r = run(model, *given, "-n", "2", "-v", *args, **({"stdin": stdin} if stdin else {}))
        self.assertEqual(r.returncode, code, r.stderr)
        said = r.stderr.decode()
        self.assertRegex(said, r"prompt +0 tokens" if not stdin else "")      # nothing was computed
        return [l for l in said.splitlines() if "positions;" in l][0]

    def test_the_numbers_are_said(self):
        model = self.trained(128)
        self.assertIn("the prompt has 100 tokens, the context 64 positions; -c N makes it longer, up to 128",
            self.refused("-c", 64, model=model))
        self.assertIn("the prompt has 100 tokens", self.refused("-c", 64, "--logits", model=model))
        self.assertIn(
            "the prompt has 200 tokens, the context 128 positions; the model was trained on 128 positions",
            self.refused(ids=200, model=model))
        self.assertIn("the model was trained on 128 positions", self.refused("-c", 160, ids=200, model=model))

    def test_a_budget_may_have_no_room_for_more(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.refused("--ram-budget", 3, "--session", folder + "/s", ids=4000,
                model=self.trained(1000000))
            self.assertRegex(said,
                r"the prompt has 4000 tokens, the context \d+ positions; (a longer one does not fit "
                r"--ram-budget 3|-c N makes it longer, up to \d+)$")
            more = int(said.split()[-1]) if "up to" in said else 0
            if more:                                        # then it is true
                r = run(self.trained(1000000), "--ids", "7", "-n", "1", "--ram-budget", 3, "--session",
                    folder + "/t", "-c", more, "-v")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertNotIn(b"context length", r.stderr)

    def test_a_window_takes_any_length(self):
        r = run(MODEL, "--ids", ",".join(["7"] * 300), "-n", "2", "-c", 64, "--kv-window", 32)
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_a_chat_refuses_the_turn_and_goes_on(self):
        talk = ("Hello", "many words " * 60, "/stats", "Bye")
        r = run(MODEL, "-i", "-n", "4", "-c", 128, "--temp", "0", "--template", "chatml", "--ignore-eos",
            "-v", stdin="\n".join(talk).encode() + b"\n")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stderr.decode(),
            r"with this message the conversation has \d{3} tokens, the context 128 positions; ")
        kept = [int(l.split()[2]) for l in r.stderr.decode().splitlines() if "of them cached" in l]
        self.assertGreater(kept[2], 5)                      # the refused turn has cost nothing

    def test_the_context_that_fills_up(self):
        r = run(self.trained(64), "--ids", "7", "-n", "-1", "--ignore-eos")
        self.assertIn(b"the context is full; the model was trained on 64 positions", r.stderr)
        r = run(self.trained(64), "--ids", "7", "-n", "-1", "--ignore-eos", "-c", "32")
        self.assertIn(b"the context is full; -c N makes it longer, up to 64", r.stderr)

    def test_beyond_what_was_trained(self):
        r = run(self.trained(64), "--ids", "7", "-n", "1", "-c", "65")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stderr.decode(), "warning: -c 65 exceeds the 64 positions")
        self.assertEqual(run(self.trained(64), "--ids", "7", "-n", "1", "-c", "64").stderr, b"")


class Options(unittest.TestCase):
    def test_malformed_lists_of_ids_are_refused(self):
        for ids, says in (
                ("1,,2", "number 2 is missing"), (",1", "number 1 is missing"),
                ("1,2,", "after the last comma"),
                ("", "no number"), (" ", "no number"), ("[]", "empty"), ("[1,2", '"[1"'), ("1,2]", '"]"'),
                ("1,-2", '"-2"'), ("+1", '"+1"'), ("1,0x5", '"0x5"'), ("1.5", '"1.5"'), ("1;2", '"1;2"'),
                ("1 2 three", '"three"'), ("2147483647", "2147483647"), ("4294967297", "4294967297"),
                ("99999999999999999999", "99999999999999999999")):
            for args, stdin in ((("--ids=" + ids, "-n", "1"), b""), (("--detokenize",), ids.encode())):
                r = run(MODEL, *args, stdin=stdin)
                if ids == "[]" and stdin:
                    self.assertEqual((r.returncode, r.stdout), (0, b""))
                    continue
                self.assertEqual((r.returncode, r.stdout), (2, b""), (ids, r.stderr))
                self.assertIn(says, r.stderr.decode(), ids)
        outs = {run(MODEL, "--ids", ids, "-n", "4", "--temp", "0", "--json").stdout for ids in ("5,6,7",
            "5, 6 ,7", " 5 6 7\n", "[5,6,7]", "[ 5 6,7 ]")}
        self.assertEqual(len(outs), 1)

    def test_exit_codes(self):
        bad = pathlib.Path(WORK.name, "bad.gguf")
        bad.write_bytes(b"GGUF" + bytes(100))
        for args, code in [(["--help"], 0), (["--version"], 0), ([], 2), ([MODEL, "--no-such"], 2),
                           ([MODEL, "-n"], 2),
                           ([MODEL, "-n", "x"], 2), ([MODEL, "-t", "257"], 2),
                           ([MODEL, "--kv-type", "q9"], 2), ([MODEL, "a", "b"], 2),
                           ([bad, "-p", "x"], 3), ([WORK.name + "/missing.gguf", "-p", "x"], 5),
                           ([MODEL, "-p", "x", "--template", "nonsense"], 2)]:
            r = run(*args)
            self.assertEqual(r.returncode, code, (args, r.stderr))
            if code:
                self.assertEqual(r.stdout, b"", args)
                self.assertTrue(r.stderr.strip(), args)

    @unittest.skipIf(os.name == "nt" or SANITIZED,
                     "no address space limit, or a sanitizer that needs all of it")
    def test_out_of_memory_is_4(self):
        import resource
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
        r = subprocess.run([QSF_RUN, MODEL, "-p", "x", "-c", "16777216", "-t", "1"], capture_output=True,
                           preexec_fn=limit)
        self.assertEqual(r.returncode, 4, r.stderr)
        self.assertIn(b"memory", r.stderr)

    def test_budget_is_kept_and_said(self):
        with tempfile.TemporaryDirectory() as folder:
            # a session is whole
            for more, said in (([], b"positions that stay 100000 -> "),
                               (["--session", folder + "/s"], b"context length 100000 -> ")):
                r = run(MODEL, "--ids", "5", "-n", "2", "--ram-budget", "3", "-c", "100000", "-v", *more)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn(said, r.stderr)
                total = (
                    float(
                        next(l for l in r.stderr.decode().splitlines() if l.startswith("memory")).split()[1]))
                self.assertLessEqual(total, 3.0)

    def test_errors_help(self):
        self.assertIn(b"--temperature", run(MODEL, "--temprature", "1").stderr)
        self.assertIn(b"1 to 65536", run(MODEL, "-b", "0").stderr.replace(b"from 1", b"1"))

    def test_help_fits_and_names_environment(self):
        r = run("--help", "all")
        self.assertLessEqual(max(len(l) for l in r.stdout.decode().splitlines()), 100)
        for word in (b"QSF_THREADS", b"--ram-budget", b"--max-tokens", b"--temperature", b"--top-p",
                     b"--top-k", b"--threads", b"--quality",
                     b"--interactive", b"--bench", b"--verbose", b"--prompt", b"--min-p", b"--repeat-last-n"):
            self.assertIn(word, r.stdout)

    def test_logprobs_biases_and_bans(self):
        r = run(MODEL, "--raw", "-p", "The", "-n", "4", "--temp", "0", "--logprobs", "2")
        lines = [json.loads(line) for line in r.stderr.decode().splitlines() if line.startswith("{")]
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertEqual(line["logprob"], line["top_logprobs"][0]["logprob"])
            self.assertEqual(len(line["top_logprobs"]), 2)
        first = lines[0]
        ways = [["--logit-bias", f"{first['id']}=-inf"]]
        if first["token"].isprintable() and first["token"].isascii():       # it may be a part of a character
            ways += [["--ban", first["token"]], ["--logit-bias", f"{first['token']}=-inf"]]
        for more in ways:
            other = run(MODEL, "--raw", "-p", "The", "-n", "1", "--temp", "0", "--json", *more)
            self.assertEqual(other.returncode, 0)
            self.assertNotEqual(json.loads(other.stdout)["ids"], [first["id"]])
        for wrong in ("5", "5=", "=3", "no such token at all=1", "5=x"):
            r = run(MODEL, "--raw", "-p", "The", "-n", "1", "--logit-bias", wrong)
            self.assertEqual(r.returncode, 2)
            self.assertIn("--logit-bias takes TOKEN=F", r.stderr.decode())

    def test_options_of_lists_are_the_lists(self):
        # qsf-run sets them by itself
        own = {"seqs", "logits", "kv-may-drop", "check-every", "adapter-memory", "device-layers"}
        words = " ".join(run("--help", "all").stdout.decode().split())
        for o in make_options.options() + make_options.options("sampler"):
            if o.name in own:
                continue
            at = words.index(f"--{o.name} ")
            variable = f"QSF_{o.name.upper().replace('-', '_')}"
            shown = words[at : words.index(f"[{variable}]", at)]
            self.assertIn(o.help, shown)
            if o.kind not in ("flag", "text"):
                self.assertIn(f"(default {make_options.default(o)})".replace("'", ""), shown)
            above = f"{2 * o.most + 1:.0f}"         # one more than 2^53 is 2^53
            wrong = {"choice": "none", "whole": above, "number": above}.get(o.kind)
            if wrong:
                r = run(MODEL, f"--{o.name}", wrong)
                self.assertEqual(r.returncode, 2)
                self.assertIn(f'--{o.name} ', r.stderr.decode())
                self.assertIn(f'not "{wrong}"', r.stderr.decode())
                digits = ".0f" if o.kind == "whole" else ".8g"
                possible = "|".join(o.choices) if o.choices else f"{o.least:{digits}} to {o.most:{digits}}"
                self.assertIn(possible, r.stderr.decode())

    def test_environment_below_command_line(self):
        env = {"QSF_MAX_TOKENS": "3", "QSF_TEMPERATURE": "0", "QSF_IGNORE_EOS": "1"}
        self.assertEqual(len(json.loads(run(MODEL, "--ids", "5", "--json", env=env).stdout)["ids"]), 3)
        self.assertEqual(
            len(json.loads(run(MODEL, "--ids", "5", "--json", "-n", "5", env=env).stdout)["ids"]), 5)
        self.assertEqual(run(MODEL, "-p", "x", env={"QSF_THREADS": "many"}).returncode, 2)

    def test_isa_is_forced_or_refused(self):
        r = run(MODEL, "--ids", "5", "-n", "2", "-v", env={"QSF_ISA": "scalar"})
        self.assertIn(b"scalar", r.stderr)
        self.assertNotEqual(run(MODEL, "--ids", "5", "-n", "2", env={"QSF_ISA": "mmx"}).returncode, 0)


class Scripts(unittest.TestCase):
    def test_tokenize_and_back(self):
        text = "Hello, wörld! 你好\n\tcode".encode()
        ids = json.loads(run(MODEL, "--tokenize", stdin=text).stdout)
        self.assertTrue(all(isinstance(i, int) for i in ids))
        self.assertEqual(run(MODEL, "--detokenize", stdin=json.dumps(ids).encode()).stdout, text)

    def test_detokenize_refuses_nonsense(self):
        self.assertEqual(run(MODEL, "--detokenize", stdin=b"1 2 three").returncode, 2)

    def test_logits_are_json(self):
        logits = json.loads(run(MODEL, "--logits", "--ids", "5,6").stdout)
        self.assertGreater(len(logits), 256)
        greedy = (json.loads(run(MODEL, "--ids", "5,6", "-n", "1", "--temp", "0", "--json",
                                 "--ignore-eos").stdout)["ids"])
        self.assertEqual(max(range(len(logits)), key=logits.__getitem__), greedy[0])

    def test_perplexity_and_kl(self):
        text = pathlib.Path(WORK.name, "text.txt")
        text.write_text("The quick brown fox jumps over the lazy dog. " * 40)
        base = pathlib.Path(WORK.name, "base.kl")
        r = run(MODEL, "--perplexity", text, "-c", "128", "--chunks", "2", "--kl-base", base)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout.decode().splitlines()[-1],
                         r"^perplexity [0-9.]+ \+/- [0-9.]+ over 126 tokens$")
        k = run(MODEL, "--perplexity", text, "-c", "128", "--chunks", "2", "--kl", base).stdout.decode()
        self.assertRegex(k, r"mean KL -?0\.0000[0-9]+ .*same top-1 100\.000 %")
        f = run(MODEL, "--perplexity", text, "-c", "128", "--chunks", "2", "--kl", base, "--kv-type",
                "f16").stdout.decode()
        self.assertLess(float(f.split()[2]), 0.05)

    def test_approximate_heads(self):
        screen = json.loads(run(MODEL, "--ids", "5,6", "--logits", "--head-topk", "screen").stdout)
        exact = json.loads(run(MODEL, "--ids", "5,6", "--logits").stdout)
        self.assertEqual([e if s is not None else None for s, e in zip(screen, exact)], screen)
        self.assertTrue(any(s is not None for s in screen))
        answer = run(MODEL, "--ids", "5,6", "-n", "8", "--head-topk", "screen", "--repeat-penalty", "1.3",
                     "--top-k", "0", "--top-p", "1", "--seed", "1", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        r = run(MODEL, "--ids", "5,6", "--head-topk", "clusters")
        self.assertEqual(r.returncode, 3)
        self.assertIn(b"qsf-convert --head-clusters", r.stderr)
        r = run(MODEL, "--perplexity", MODEL, env={"QSF_HEAD_TOPK": "screen"})
        self.assertEqual(r.returncode, 2)
        self.assertIn(b"--head-topk", r.stderr)

    def test_bench_prints_figures(self):
        r = json.loads(run(MODEL, "--bench", "--json", "-t", "1").stdout)
        self.assertGreater(r["prefill_tok_s"], 0)
        self.assertGreater(r["decode_tok_s"], 0)
        self.assertEqual(set(r["ms"]), {"wall", "wait", "read", "check", "decompress", "prepare", "matmul",
                                        "attention", "head", "sampling", "other"})
        self.assertTrue(0 <= r["overlap"] <= 1 and r["bytes_read"] == 0)


@unittest.skipIf(os.name == "nt", "signals differ")
class Interrupts(unittest.TestCase):
    def start(self, *args):
        return subprocess.Popen([QSF_RUN, MODEL, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def test_ctrl_c_stops_the_answer_with_130(self):
        p = self.start("--raw", "-p", "Hello", "-n", "-1", "-c", "1000000", "--ignore-eos", "--temp",
                       "0", "-t", "1")
        p.stdout.read(8)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130)

    @staticmethod
    def shell(line, *args):
        return subprocess.run(["sh", "-c", line, "sh", QSF_RUN, MODEL, *args], stdin=subprocess.DEVNULL,
            capture_output=True, timeout=120)

    def test_lost_output_is_said_and_ends_the_program(self):
        for more in (("--ids", "5", "-n", "4", "--ignore-eos"), ("--ids", "5", "-n", "4", "--json"), ("--ids",
            "5", "--logits"), ("--help",), ("--version",),
                     ("--tokenize", "-p", "x"), ("--completion-names",)):
            for line, says in (('"$@" >&-', "Bad file descriptor"), ('"$@" >/dev/full', "No space left")):
                r = self.shell(line, *more)
                self.assertEqual(r.returncode, 5, (more, line, r.stderr))
                self.assertEqual(r.stderr.decode().count("cannot write standard output: " + says), 1, (more,
                    r.stderr))
        # not after all of the answer
        r = self.shell('"$@" >/dev/full', "--ids", "5", "-n", "-1", "-c", "1000000", "--ignore-eos")
        self.assertEqual(r.returncode, 5, r.stderr)
        r = self.shell('echo hello | "$@" >/dev/full', "-i", "-n", "2", "--ignore-eos")
        self.assertEqual(r.returncode, 5, r.stderr)

    def test_no_file_takes_a_closed_descriptor(self):
        base = pathlib.Path(WORK.name, "closed.kl")
        text = pathlib.Path(WORK.name, "closed.txt")
        text.write_text("The quick brown fox jumps over the lazy dog. " * 20)
        args = ("--perplexity", str(text), "-c", "64", "--chunks", "1", "--kl-base")
        self.shell('"$@"', *args, str(base) + "2")
        r = self.shell('"$@" >&-', *args, str(base))
        self.assertEqual(r.returncode, 5, r.stderr)
        self.assertEqual(base.read_bytes(), pathlib.Path(str(base) + "2").read_bytes())
        r = self.shell('"$@" 2>&-', "--ids", "5", "-n", "4", "-v")
        self.assertEqual(r.returncode, 0)
        for args in (("-f", "-"), ("-i",)):
            r = self.shell('"$@" <&-', *args)
            self.assertEqual(r.returncode, 5, r.stderr)
            self.assertIn(b"cannot read standard input: Bad file descriptor", r.stderr)

    def test_a_broken_pipe_is_quiet(self):
        for trap in ("", "trap '' PIPE; "):
            line = trap + '{ "$@" 2>"$0.err"; echo $? >"$0.code"; } | head -c 1'
            name = str(pathlib.Path(WORK.name, "pipe"))
            subprocess.run(["sh", "-c", line, name, QSF_RUN, MODEL, "--ids", "5", "-n", "-1", "-c", "1000000",
                "--ignore-eos", "-t", "1"], capture_output=True, timeout=120)
            said = pathlib.Path(name + ".err").read_text().replace("warning: -c 1000000", "")
            self.assertNotEqual(pathlib.Path(name + ".code").read_text().strip(), "0")
            self.assertNotIn("standard output", said)

    def test_closed_reader_ends_quietly(self):
        p = self.start("--raw", "-p", "Hello", "-n", "100000", "--kv-window", "64", "--ignore-eos", "-t", "1")
        p.stdout.read(4)
        p.stdout.close()
        p.stdin.close()
        self.assertNotEqual(p.wait(timeout=120), 0)
        self.assertEqual(p.stderr.read(), b"")
        p.stderr.close()


class Session(unittest.TestCase):
    def answer(self, prompt, file, *args, code=0):
        r = run(MODEL, "--template", "chatml", "-p", prompt, "-n", "6", "--temp", "0", "--ignore-eos", "-v",
                "--session", file, *args)
        self.assertEqual(r.returncode, code, r.stderr)
        kept = [int(l.split()[2]) for l in r.stderr.decode().splitlines() if "of them cached" in l]
        return r.stdout, (kept or [None])[0], r.stderr.decode()

    def test_a_prompt_that_begins_alike_is_not_computed_again(self):
        f = str(pathlib.Path(WORK.name, "s.session"))
        plain = run(MODEL, "--template", "chatml", "-p", "Hello there", "-n", "6", "--temp", "0",
                    "--ignore-eos").stdout
        first, kept, _ = self.answer("Hello there", f)
        self.assertEqual((first, kept), (plain, 0))
        again, kept, _ = self.answer("Hello there", f)
        self.assertEqual(again, plain)
        self.assertGreater(kept, 10)
        other, kept, _ = self.answer("Hello you", f)
        self.assertGreater(kept, 5)
        self.assertEqual(other, run(MODEL, "--template", "chatml", "-p", "Hello you", "-n", "6", "--temp",
                                    "0", "--ignore-eos").stdout)
        r = run(MODEL, "-i", "-n", "6", "--temp", "0", "--template", "chatml", "-v", "--session", f,
                stdin=b"Hello you\nAnd?\n")
        self.assertGreater(
            int([l for l in r.stderr.decode().splitlines() if "of them cached" in l][0].split()[2]), 10)
        self.assertEqual([p.name for p in pathlib.Path(WORK.name).iterdir()
                          if p.name.startswith("s.session")], ["s.session"])

    def test_what_is_no_session_is_left_alone(self):
        f = pathlib.Path(WORK.name, "no.session")
        self.answer("Hello", str(f))
        whole = f.read_bytes()
        for spoiled, word in ((b"my diary", "few"), (whole[:-3], "cut short"),
                              (whole[:-1] + bytes([whole[-1] ^ 1]), "checksum"), (
                                  b"x" * 500, "not a saved session")):
            f.write_bytes(spoiled)
            _, _, said = self.answer("Hello", str(f), code=3)
            self.assertIn(word, said)
            self.assertEqual(f.read_bytes(), spoiled)
        for version, words in ((1, "start a new session"), (2, "start a new session"), (4, "version 4")):
            head = whole[:4] + version.to_bytes(4, "little") + whole[8:60]
            f.write_bytes(other := head + zlib.crc32(head).to_bytes(4, "little") + whole[64:])
            self.assertIn(words, self.answer("Hello", str(f), code=3)[2])
            self.assertEqual(f.read_bytes(), other)
        f.write_bytes(whole)
        self.assertIn("has type q8", self.answer("Hello", str(f), "-ctk", "f16", code=2)[2])
        self.answer("Hello", str(pathlib.Path(WORK.name, "nowhere", "x")), code=5)

    @unittest.skipIf(sys.platform == "win32", "no limits")
    def test_a_file_too_large_to_write_leaves_the_old_one(self):
        import resource
        f = pathlib.Path(WORK.name, "full.session")
        self.answer("Hello", str(f))
        whole = f.read_bytes()
        r = subprocess.run([QSF_RUN, MODEL, "-p", "Hello you", "-n", "6", "--session", str(f)],
                           capture_output=True,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)))
        self.assertEqual((r.returncode, b"cannot write" in r.stderr), (5, True), r)
        self.assertEqual(f.read_bytes(), whole)
        self.assertEqual([p.name for p in pathlib.Path(WORK.name).iterdir()
                          if p.name.startswith("full.session")], ["full.session"])


class PromptCache(unittest.TestCase):
    SYSTEM = "You answer in few words and say so when you do not know. " * 4

    def answer(self, prompt, file, *args, code=0, model=MODEL):
        r = run(model, "--template", "chatml", "--system", self.SYSTEM, "-p", prompt, "-n", "6", "--temp",
                "0", "--ignore-eos", "-v", *(["--prompt-cache", str(file)] if file else []), *args)
        self.assertEqual(r.returncode, code, r.stderr)
        kept = [int(l.split()[2]) for l in r.stderr.decode().splitlines() if "of them cached" in l]
        return r.stdout, (kept or [None])[0], r.stderr.decode()

    def test_a_system_message_is_computed_once(self):
        f = pathlib.Path(WORK.name, "a.prompt")
        plain = [self.answer(p, None)[0] for p in ("Hello there", "And you?")]
        first, kept, _ = self.answer("Hello there", f)
        self.assertEqual((first, kept), (plain[0], 0))
        whole = f.read_bytes()
        for prompt, answer in zip(("Hello there", "And you?"), plain):
            said, kept, notes = self.answer(prompt, f)
            self.assertEqual((said, "note:" in notes), (answer, False), notes)
            self.assertGreater(kept, 60)
            self.assertEqual(f.read_bytes(), whole)         # most of it was there: not written again
        r = run(MODEL, "-i", "-n", "6", "--temp", "0", "--template", "chatml", "--system", self.SYSTEM, "-v",
                "--prompt-cache", f, stdin=b"And you?\nAgain?\n")
        self.assertGreater(
            int([l for l in r.stderr.decode().splitlines() if "of them cached" in l][0].split()[2]), 60)
        self.assertEqual(f.read_bytes(), whole)
        self.assertEqual([p.name for p in pathlib.Path(WORK.name).iterdir() if p.name.startswith("a.prompt")],
                         ["a.prompt"])

    def test_what_does_not_fit_is_ignored_and_replaced(self):
        f = pathlib.Path(WORK.name, "b.prompt")
        plain, _, _ = self.answer("Hello", f)
        whole = f.read_bytes()
        version = whole[:4] + b"\x02" + whole[5:]
        another = whole[:8] + bytes([whole[8] ^ 1]) + whole[9:]
        for spoiled, word in ((version, "another version"), (another, "another model"),
                              (whole[:-3], "cut short"), (whole[:40], "too few"),
                              (whole[:-1] + bytes([whole[-1] ^ 1]), "checksum")):
            f.write_bytes(spoiled)
            said, kept, notes = self.answer("Hello", f)
            self.assertEqual((said, kept), (plain, 0))
            self.assertIn("is not used: ", notes)
            self.assertIn(word, notes)
            self.assertEqual(f.read_bytes(), whole)
        self.assertIn("has type q8", self.answer("Hello", f, "-ctk", "f16")[2])
        self.assertNotEqual(f.read_bytes(), whole)

    def test_a_changed_model_is_noticed(self):
        """GGUF has no checksums: the same shapes with other values are another model."""
        f, other = pathlib.Path(WORK.name, "c.prompt"), pathlib.Path(WORK.name, "other.gguf")
        other.write_bytes(pathlib.Path(MODEL).read_bytes())
        self.answer("Hello", f, model=str(other))
        bytes_ = bytearray(other.read_bytes())
        bytes_[-1] ^= 1
        other.write_bytes(bytes_)
        self.assertIn("another model", self.answer("Hello", f, model=str(other))[2])

    def test_other_files_are_left_alone(self):
        f = pathlib.Path(WORK.name, "d.prompt")
        for text in (b"my diary", b"x" * 500):
            f.write_bytes(text)
            self.assertIn("is not a prompt cache", self.answer("Hello", f, code=2)[2])
            self.assertEqual(f.read_bytes(), text)
        f.write_bytes(b"")
        self.assertNotIn("note:", self.answer("Hello", f)[2])
        said = self.answer("Hello", pathlib.Path(WORK.name, "nowhere", "x"))[2]
        self.assertIn("cannot be written", said)

    def test_two_processes_write_at_once(self):
        f = pathlib.Path(WORK.name, "e.prompt")
        command = [QSF_RUN, MODEL, "--template", "chatml", "--system", self.SYSTEM, "-n", "1", "-p", "Hello",
                   "--prompt-cache", str(f)]
        both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                for _ in range(2)]
        for p in both:
            _, said = p.communicate(timeout=120)
            self.assertEqual((p.returncode, said), (0, b""))
        self.assertGreater(self.answer("Hello", f)[1], 60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
