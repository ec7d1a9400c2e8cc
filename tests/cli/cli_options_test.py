#!/usr/bin/env python3
"""Options: those shared by qsf-run and qsf-serve, those of other programs, and errors about wrong ones.
SPDX-License-Identifier: MIT

    cli_options_test.py QSF_RUN [QSF_SERVE] [unittest options]
"""
import pathlib, re, subprocess, sys, unittest

SERVE = sys.argv.pop(2) if len(sys.argv) > 2 and not sys.argv[2].startswith("-") else None

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import make_script
from cli_case import MODEL, QSF_RUN, TESTS, WORK, run

PROGRAMS = [QSF_RUN] + ([SERVE] if SERVE else [])
SCRIPT = pathlib.Path(WORK.name, "script.gguf")
THINKS = pathlib.Path(WORK.name, "thinks.gguf")
# The reasoning format is detected from how the template renders reasoning_content.
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def asked(program, *args):
    return subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=120)


def names(program):
    return {n for line in asked(program, "--completion-names").stdout.splitlines() for n in line.split()}


def setUpModule():
    make_script.write(SCRIPT, ["Hello", " you."])
    make_script.write(THINKS, ["<think>", "one ", "two ", "three ", "</think>", "Yes."])


class Foreign(unittest.TestCase):
    """Options of llama-cli and llama-server."""

    def test_every_option_of_llama_cpp_is_known(self):
        lines = (TESTS / "golden" / "llama_options.txt").read_text().splitlines()
        self.assertGreater(len(lines), 250)
        accepted = 0
        for program in PROGRAMS:
            for line in lines:
                words = line.split()
                value = ["1"] if words[-1] == "=" else []
                for name in [w for w in words if w != "="]:
                    r = asked(program, name, *value, "--version")
                    said = r.stderr + r.stdout
                    self.assertNotIn("unknown option", said, (program, name))
                    self.assertIn(r.returncode, (0, 2), (name, said))
                    accepted += r.returncode == 0
                    if r.returncode and "no model was given" not in said:    # ours took the next one
                        self.assertRegex(said, r"is not an option here: ..|must be one of |takes a |"
                                               r"unknown stage", name)
        self.assertGreater(accepted, 300 * len(PROGRAMS))

    def test_what_makes_no_difference_is_noted_in_one_line(self):
        plain = run(SCRIPT, "--template", "chatml", "-p", "hi")
        self.assertEqual((plain.stdout, plain.stderr), (b"Hello you.\n", b""))
        for args in (["-ngl", "99"], ["--n-gpu-layers=99"], ["-fa"], ["-fa", "on"], ["--mlock"],
                     ["--no-mmap"], ["-no-cnv"], ["-st"], ["--log-disable"], ["--jinja"], ["-np", "4"],
                     ["-ub", "512"]):
            r = run(SCRIPT, *args, "--template", "chatml", "-p", "hi")
            self.assertEqual((r.returncode, r.stdout), (0, plain.stdout), (args, r.stderr))
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
            self.assertIn(b"has no effect here: ", r.stderr)

    def test_equivalents_work(self):
        whole = run(SCRIPT, "--template", "chatml", "-p", "hi", "-n", "1").stdout
        self.assertEqual(whole, b"Hello\n")
        for args in (["--n-predict", "1"], ["--max-new-tokens=1"], ["-n", "1", "--sampler-seq", "kt"],
                     ["-n", "1", "--samplers", "top_k;temperature"]):
            self.assertEqual(run(SCRIPT, "--template", "chatml", "-p", "hi", *args).stdout, whole)
        for kind in ("q8_0", "q4_0", "bf16"):
            r = run(SCRIPT, "--template", "chatml", "-p", "hi", "--cache-type-k", kind)
            self.assertEqual((r.returncode, r.stderr), (0, b""))
        r = run(SCRIPT, "--num-ctx", "64", "-v", "--template", "chatml", "-p", "hi")
        self.assertIn(b"context 64,", r.stderr)

    def test_what_cannot_be_done_is_said_with_what_to_do(self):
        for args, says in ((["--docker-repo", "a/b"], "Hugging Face's hub"),
                           (["--samplers", "top"], "unknown stage"),
                           (["--mmproj", "f"], "not supported"),
                           (["--rope-scale", "2"], "as the file specifies"),
                           (["--reasoning", "off"], "show|hide")):
            r = run(SCRIPT, *args, "-p", "hi")
            self.assertEqual((r.returncode, r.stdout), (2, b""), args)
            self.assertIn(says, r.stderr.decode(), args)

    def test_names_are_only_suggested_for_typing_errors(self):
        for word, hint in (("--tmep", "--temperature"), ("--ctxsize", "--ctx-size"),
                           ("--thraeds", "--threads"), ("-x", None), ("--gpu", None), ("--frobnicate", None)):
            r = run(SCRIPT, word, "1")
            self.assertEqual(r.returncode, 2)
            said = r.stderr.decode()
            self.assertIn(f"unknown option {word}", said)
            if hint:
                self.assertIn(f"did you mean {hint}?", said)
            else:
                self.assertNotIn("did you mean", said)


class Shared(unittest.TestCase):
    def test_both_programs_have_the_same_options_of_model_and_sampling(self):
        if not SERVE: self.skipTest("qsf-serve is not built")
        of_run, of_serve = names(QSF_RUN), names(SERVE)
        shared = {"--chat-template", "--chat-template-file", "--chat-template-kwargs", "--reasoning-budget",
                  "--lora", "--draft", "--ctx-size", "--ram-budget", "--kv-type", "--kv-window", "--kv-heavy",
                  "--quality", "--early-exit", "--act-quant", "--isa", "--io", "--check", "--f32", "--seed",
                  "--temp", "--top-k", "--dry-multiplier", "--xtc-probability", "--mirostat",
                  "--dynatemp-range", "--repeat-last-n", "--max-tokens", "--head-topk", "--adapter-memory",
                  "--logit-bias", "--ban", "--dry-sequence-breaker",
                  "--samplers"}
        self.assertLessEqual(shared, of_run)
        self.assertLessEqual(shared, of_serve)

    def test_the_help_shows_each_programs_defaults(self):
        for program, texts in ((QSF_RUN, ("(default 256)", "(default 0.7)", "7 if layers stream")),
                               (SERVE, ("-1 for no limit (default -1)", "(default 1)"))):
            if not program: continue
            words = " ".join(asked(program, "--help", "all").stdout.split())
            for text in texts:
                self.assertIn(text, words)

    def test_a_template_that_there_is_not_is_refused_with_its_whole_name(self):
        name = "a-name-that-is-longer-than-forty-characters-in-any-case"
        for program in PROGRAMS:
            r = asked(program, SCRIPT, "--chat-template", name, *(["-p", "x"] if program == QSF_RUN else []))
            self.assertEqual((r.returncode, r.stdout), (2, ""), r.stderr)
            self.assertIn(f'"{name}"', r.stderr)
            self.assertIn("chatml, llama2", r.stderr)
            self.assertRegex(r.stderr, "neither a name nor a file|no chat template is named")


class Help(unittest.TestCase):
    """Short, whole, and one section, of every program."""

    @staticmethod
    def programs():
        run, names = pathlib.Path(QSF_RUN), ("qsf-run", "qsf-serve", "qsf-bench", "qsf-convert", "qsf-parity")
        there = [run.with_name(name + run.suffix) for name in names]
        return [program for program in there if program.exists()]

    @staticmethod
    def topics(text):
        return text[text.index("Topics:") + len("Topics:"):].split()

    def test_the_short_help_fits_a_screen_and_has_examples(self):
        for program in self.programs():
            r = asked(program, "--help")
            self.assertEqual(r.stdout.count("("), r.stdout.count(")"), r.stdout)
            lines = r.stdout.splitlines()
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertLessEqual(len(lines), 25, r.stdout)
            self.assertLessEqual(max(map(len, lines)), 80, r.stdout)
            self.assertGreaterEqual(r.stdout.count(f"\n  {program.stem} "), 2, r.stdout)
            self.assertNotIn("[QSF_", r.stdout)
            for option in re.findall(r"^  (-.*?)(?: [A-Z[]|   )", r.stdout, re.M):
                self.assertLessEqual(set(option.split(", ")), names(program), option)
            self.assertEqual(asked(program, "-h").stdout, r.stdout)

    def test_the_topics_are_all_of_the_help(self):
        for program in self.programs():
            topics = self.topics(asked(program, "--help").stdout)
            whole = asked(program, "--help", "all").stdout
            sections = [asked(program, "--help", topic).stdout for topic in topics]
            self.assertEqual(len(set(sections)), len(topics))
            self.assertEqual(whole[-len("\n".join(sections)):], "\n".join(sections))
            self.assertEqual(asked(program, f"--help={topics[0]}").stdout, sections[0])
            for name in names(program):
                self.assertRegex(whole, rf"(?<![\w-]){re.escape(name)}(?![\w-])")

    def test_an_unknown_topic_lists_the_topics(self):
        for program in self.programs():
            topics = self.topics(asked(program, "--help").stdout)
            r = asked(program, "--help", "nonsense")
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertIn('"nonsense"', r.stderr)
            self.assertEqual(r.stderr.split("topics are: ")[1].split(), [*topics, "all"])


class Friendly(unittest.TestCase):
    def test_a_prompt_may_stand_behind_the_model(self):
        self.assertEqual(run(SCRIPT, "hi", "--template", "chatml").stdout, b"Hello you.\n")
        self.assertEqual(run("-m", SCRIPT, "hi", "--template", "chatml").stdout, b"Hello you.\n")
        r = run(SCRIPT, "hi", "there")
        self.assertEqual(r.returncode, 2)
        self.assertIn(b'unexpected "there"', r.stderr)
        self.assertEqual(run(SCRIPT, "hi", "-p", "x").returncode, 2)

    def test_a_model_of_the_command_line_replaces_the_environments(self):
        env = {"QSF_MODEL": str(SCRIPT)}
        self.assertEqual(run("hi", "--template", "chatml", env=env).stdout, b"Hello you.\n")
        r = run(THINKS, "hi", "--template", "chatml", env=env)
        self.assertIn(b"one two three", r.stdout)

    def test_bye_ends_a_chat(self):
        r = run(SCRIPT, "-i", "--template", "chatml", stdin=b"hi\n/bye\nhi\n")
        self.assertEqual((r.returncode, r.stdout.count(b"Hello you.")), (0, 1), r)

    def test_too_little_memory_names_the_options_that_help(self):
        r = run(MODEL, "-p", "x", "--ram-budget", "0.1")
        self.assertEqual(r.returncode, 4, r)
        for word in (b"-c N", b"-ctk q4", b"--ram-budget"):
            self.assertIn(word, r.stderr)

    def test_ignore_eos_goes_on_in_a_chat(self):
        """The template's stop text is the end token's own text."""
        for how in (["-p", "hi"], ["-i"]):
            r = run(SCRIPT, *how, "--template", "chatml", "--ignore-eos", "-n", "12", "--temp", "0",
                    stdin=b"hi\n" if how == ["-i"] else b"")
            self.assertEqual(r.returncode, 0, r)
            self.assertIn(b"Hello you.<|im_end|>", r.stdout)
            self.assertGreater(len(r.stdout.split(b"<|im_end|>", 1)[1]), 3, r)
        stopped = run(SCRIPT, "-p", "hi", "--template", "chatml", "--ignore-eos", "--stop", " you")
        self.assertEqual(stopped.stdout, b"Hello\n")


class Reasoning(unittest.TestCase):
    def answer(self, budget, *args):
        r = run(THINKS, "-p", "hi", "--template", TEMPLATE, "--temp", "0", "-n", "16", *args,
                *(() if budget is None else ("--reasoning-budget", budget)))
        self.assertEqual((r.returncode, r.stderr), (0, b""), r)
        return r.stdout.decode()

    def test_it_is_closed_after_the_budget(self):
        whole = self.answer(None)
        self.assertEqual(whole, "<think>one two three </think>Yes.\n")
        self.assertEqual(self.answer(-1), whole)
        self.assertEqual(self.answer(4), whole)              # the model ends its reasoning by itself
        for budget, text in ((0, ""), (1, "one "), (2, "one two "), (3, "one two three ")):
            said = self.answer(budget)
            self.assertTrue(said.startswith(f"<think>{text}</think>"), (budget, said))
            self.assertEqual(said.count("</think>"), 1, said)

    def test_what_the_prompt_has_opened_is_closed_too(self):
        opened = TEMPLATE.replace("<|im_start|>assistant\n{% endif %}",
                                  "<|im_start|>assistant\n<think>\n{% endif %}")
        for budget, text in ((0, ""), (2, "<think>one ")):
            r = run(THINKS, "-p", "hi", "--template", opened, "--temp", "0", "-n", "20", "--reasoning-budget",
                    budget)
            self.assertTrue(r.stdout.decode().startswith(f"{text}</think>"), (budget, r))

    def test_guesses_change_nothing(self):
        for budget in (0, 1, 2):
            self.assertEqual(self.answer(budget, "--draft", "4"), self.answer(budget))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
