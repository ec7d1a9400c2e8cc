#!/usr/bin/env python3
"""Drafts by a model's own layer for multi-token prediction: the same answers as without them.
SPDX-License-Identifier: MIT

    drafts_test.py LIBQSF_PYTHON [unittest options]
"""
import subprocess, sys, threading, unittest

from python_case import COLD, Case, FOLDER, PACKAGE, tiny
from mtp_models import write

PROMPTS = ["abcd efg", "x", "The number of the beast", "Zebra " * 12]
LONG = {"max_tokens": 70, "ignore_end": True}


class Drafts(Case):
    @classmethod
    def setUpClass(cls):
        cls.path = write(FOLDER, "glm4moe", near=0.003)

    def answers(self, model):
        """Alone, at once, sampled."""
        ask = lambda prompt, **more: model.generate(prompt, **{**LONG, **COLD, **more}).text
        alone, together = [ask(prompt) for prompt in PROMPTS], [None] * len(PROMPTS)

        def run(i):
            together[i] = ask(PROMPTS[i])
        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(PROMPTS))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)
        return [*alone, ask(PROMPTS[0], temperature=0.9, seed=7)]

    def test_drafts_change_no_answer(self):
        plain = self.load(self.path, f32=True)
        want = self.answers(plain)
        self.assertEqual(plain.stats()["draft_tokens"], 0)
        drafting = self.load(self.path, f32=True, draft_mtp=True)
        self.assertEqual(self.answers(drafting), want)
        stats = drafting.stats()
        self.assertGreater(stats["accepted_tokens"], 0, stats)
        self.assertGreaterEqual(stats["draft_tokens"], stats["accepted_tokens"])
        self.assertIn("multi-token prediction", dict(drafting.info.plan))
        least = self.load(self.path, f32=True, draft_mtp=True, context_length=512,
                          ram_budget=drafting.info.least_bytes / 1e6)
        self.assertEqual(self.answers(least), want)

    def test_conversations_that_leave_and_come_back(self):
        def said(**more):
            model = self.load(self.path, f32=True, context_length=256, max_parallel=2, **more)
            talks = [model.conversation(template="chatml", max_tokens=24, ignore_end=True, **COLD)
                     for _ in range(6)]
            return [talk.chat(word).text for word in ("one", "two") for talk in talks]
        self.assertEqual(said(draft_mtp=True), said())

    def test_a_file_without_such_a_layer_is_refused(self):
        with self.refused("UNSUPPORTED", "no layer for multi-token prediction"):
            self.load(tiny(), draft_mtp=True)

    def test_the_terminal_has_the_option(self):
        options = "--draft-mtp --template chatml --max-tokens 8 --temperature 0".split()
        run = subprocess.run([sys.executable, "-m", "qsf", "chat", str(self.path), *options], cwd=PACKAGE,
                             input="Hello\n", capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(run.stdout.strip())


if __name__ == "__main__":
    unittest.main()
