#!/usr/bin/env python3
"""Conversations of qsf-run: the chat in a pipe, templates, tools, and what an answer may be.
SPDX-License-Identifier: MIT

    cli_chat_test.py QSF_RUN [unittest options]
"""
import json, pathlib, tempfile, unittest

from cli_case import MODEL, WORK, run


class Chat(unittest.TestCase):
    def chat(self, lines, *args):
        r = run(MODEL, "-i", "-n", "6", "--temp", "0", "--template", "chatml", *args,
                stdin="\n".join(lines).encode() + b"\n")
        self.assertEqual(r.returncode, 0, r.stderr)
        return r

    def test_turns_keep_the_cache(self):
        r = self.chat(["Hello", "And now?"], "-v", "--ignore-eos")
        kept = [int(l.split()[2]) for l in r.stderr.decode().splitlines() if "of them cached" in l]
        self.assertEqual(kept[0], 0)
        self.assertGreater(kept[1], 5)

    def test_reset_forgets(self):
        once = self.chat(["Hello"]).stdout
        twice = self.chat(["Hello", "/reset", "Hello"]).stdout
        self.assertEqual(twice, once + once)

    def test_save_and_load(self):
        f = pathlib.Path(WORK.name, "talk.txt")
        a = self.chat(["Hello", f"/save {f}", "What next?"]).stdout.splitlines()
        b = self.chat([f"/load {f}", "What next?"]).stdout.splitlines()
        self.assertEqual(a[-1], b[-1])
        damaged = pathlib.Path(WORK.name, "damaged.txt")
        damaged.write_bytes(f.read_bytes()[:-5])
        self.assertIn(b"damaged", self.chat([f"/load {damaged}"]).stderr)
        self.assertIn(b"not a saved", self.chat([f"/load {MODEL}"]).stderr)
        folder = pathlib.Path(WORK.name, "no such folder", "talk.txt")
        self.assertIn(b"cannot write", self.chat(["Hello", f"/save {folder}"]).stderr)
        self.assertIn(b"is a directory", self.chat(["Hello", f"/save {WORK.name}"]).stderr)
        self.assertEqual([p.name for p in f.parent.glob("*.tmp")], [])      # written next to it, then renamed

    def test_a_zero_byte_is_refused_and_not_an_end(self):
        f = pathlib.Path(WORK.name, "zero.txt")
        f.write_bytes(b"Hello\0there")
        chat = ("-n", "4", "--temp", "0", "--template", "chatml")
        for args, stdin, says in ((("-f", f, *chat), b"", b"byte 5 of the prompt"), (chat, f.read_bytes(),
            b"byte 5 of the prompt"),
                                  (("-f", f, "--logits", *chat), b"", b"byte 5 of the prompt"), (("-i", "-f",
                                      f, *chat), b"", b"byte 5 of the prompt"),
                                  (("--detokenize",), b"5,\0006", b"number 2")):
            r = run(MODEL, *args, stdin=stdin)
            self.assertEqual((r.returncode, r.stdout), (2, b""), (args, r.stderr))
            self.assertIn(says, r.stderr)
        r = run(MODEL, "-i", *chat, stdin=b"Hello\nHello\0there\n")
        self.assertEqual(r.returncode, 5)
        self.assertIn(b"standard input: byte 11 is zero", r.stderr)
        raw = [run(MODEL, "--raw", "-f", f, "--logits").stdout, run(MODEL, "--raw", "-p", "Hello",
            "--logits").stdout]
        self.assertNotEqual(*raw)

    def test_damaged_conversations(self):
        f = pathlib.Path(WORK.name, "bad-talk.txt")
        for body in (b"user 18446744073709551615\nx\n", b"user -1\nx\n", b"user 3\na\0b\n", b"user 5\nab\n",
            b"user  2\nab\n", b"cook 2\nab\n", b"user 2", b"user 2\n"):
            f.write_bytes(b"qsf-chat 1\n" + body)
            self.assertIn(b"is damaged after 0 messages", self.chat([f"/load {f}"]).stderr, body)

    def test_commands(self):
        r = self.chat(["/help", "/stats", "/nonsense", "/save", "/load ", "/exit", "never read"])
        for word in (b"/reset", b"KV cache", b"unknown command /nonsense", b"which file? /save FILE",
            b"which file? /load FILE"):
            self.assertIn(word, r.stderr)
        self.assertEqual(r.stdout, b"")


class Grammars(unittest.TestCase):
    def test_accept_says_which_byte(self):
        schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false}'
        for grammar, text, code, says in (
                (("--json-schema", schema), '{"a": 1}', 0, "accepted\n"),
                (("--json-schema", schema), '{"a": "\u00e9"}', 1, "refused at byte 6\n"),
                (("--json-schema", schema), '{"a"', 1, "not finished at byte 4\n"),
                (("--json-object",), '{"x": [1]}', 0, "accepted\n"),
                (("--regex", "[a\u00e9]+"), "a\u00e9\u00e8", 1, "refused at byte 4\n"),
                (("--choices", '["\u00e9", "b"]'), "\u00e9", 0, "accepted\n"),
                (("--grammar", 'root ::= "a"'), "", 1, "not finished at byte 0\n")):
            r = run(MODEL, *grammar, "--accept", "-", stdin=text.encode())
            self.assertEqual((r.returncode, r.stdout.decode(), r.stderr), (code, says, b""), (grammar, text))

    def test_accept_takes_the_line_end_of_an_editor(self):
        for grammar, text, says in (
                (("--choices", "a"), b"a\n", "accepted"), (("--choices", "a"), b"a\r\n", "accepted"),
                (("--choices", "a"), b"a\n\n", "refused at byte 1"),
                (("--regex", "ab"), b"a\n", "not finished at byte 1"),
                (("--regex", "ab"), b"\n", "not finished at byte 0"),
                (("--regex", "a\\nb?"), b"a\n", "accepted"), (("--regex", "a\\nb?"), b"a\n\n", "accepted"),
                (("--regex", "a(\\nb)?"), b"a\n", "accepted"),
                (("--regex", "a\\nb"), b"a\n", "not finished at byte 2"),
                (("--json-object",), b'{"a": [1]}\n', "accepted"),
                (("--json-object",), b'{"a": \n', "not finished at byte 7"),
                (("--json-object",), b'{"a"; 1}\n', "refused at byte 4")):
            r = run(MODEL, *grammar, "--accept", "-", stdin=text)
            self.assertEqual((r.stdout.decode(), r.stderr), (says + "\n", b""), (grammar, text))

    def test_choices_as_they_are_typed(self):
        for choices, fit, other in (("yes,no", ("yes", "no"), ("yes,no", "")), ("yes", ("yes",), ("no",)),
                                    ("a b , c", ("a b", "c"), (" c", "a b ")), ("a,,b,", ("a", "b"), ("",)),
                                    ("a, b\nc", ("a, b", "c"), ("a", "b")),
                                    ('["a,b"]', ("a,b",), ("a",))):
            for text in fit + other:
                r = run(MODEL, "--choices", choices, "--accept", "-", stdin=text.encode())
                self.assertEqual(r.returncode, text not in fit, (choices, text, r.stderr))
        for choices in ("", ",", "[yes,no]", "['yes']", "[1]", "[]"):
            r = run(MODEL, "--choices", choices, "-p", "hi")
            self.assertEqual(r.returncode, 2, (choices, r.stderr))
            self.assertIn('write a list as ["yes", "no"]', r.stderr.decode(), choices)

    def test_what_is_no_grammar_is_refused(self):
        for args, code, says in ((("--accept", "-"), 2, "--accept needs a grammar"),
                                 (("--regex", "(a", "--accept", "-"), 2, "regular expression"),
                                 (("--regex", "a", "--choices", "a", "--accept", "-"), 2, "one grammar"),
                                 (("--json-schema", "{", "-p", "hi"), 2, "schema: line 1, column 2"),
                                 (("--grammar", "no\u00e9", "-p", "hi"), 5, "no\u00e9: No such file"),
                                 (("--grammar", "/", "-p", "hi"), 5, "cannot read /"),
                                 (("--choices", "", "-p", "hi"), 2, "choices: none were given"),
                                 (("--regex", "a", "--accept", "/nothing"), 5, "cannot read /nothing")):
            r = run(MODEL, "--template", "chatml", *args)
            self.assertEqual((r.returncode, r.stdout), (code, b""), (args, r.stderr))
            self.assertIn(says, r.stderr.decode(), args)

    def test_a_grammar_has_16_mb_at_most(self):
        f = pathlib.Path(WORK.name, "large.json")
        for size, says in ((16 << 20, "accepted\n"), ((16 << 20) + 1, "")):
            f.write_bytes(b'{"type": "null"}' + b" " * (size - 16))
            r = run(MODEL, "--json-schema", str(f), "--accept", "-", stdin=b"null")
            self.assertEqual(r.stdout.decode(), says, r.stderr)
        self.assertIn("can have at most 16 MB; this one has 16777217 bytes", r.stderr.decode())

    def test_answers_fit(self):
        for args, fits in ((("--choices", '["yes", "\u00e9"]'), "yes|\u00e9"),
                           (("--regex", "[0-9]{3}"), "[0-9]{3}"),
                           (("--grammar", 'root ::= "ab" | "cd"'), "ab|cd")):
            r = run(MODEL, "--template", "chatml", "-p", "hi", "-n", "30", *args)
            self.assertRegex(r.stdout.decode(), f"^({fits})\n$")


class Templates(unittest.TestCase):
    TEMPLATE = ("{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}"
                "{% endfor %}{% if tools %}{{ tools[0].name }}{% endif %}{{ word }}"
                "{% if add_generation_prompt %}[a]{% endif %}")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = pathlib.Path(self.folder.name, name)
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return path

    def test_calls_of_tools_are_lines_of_json(self):
        schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
                  "additionalProperties": False}
        pick = {"name": "pick", "parameters": schema}
        tools = self.file("tools.json", [{"type": "function", "function": pick}])
        r = run(MODEL, "-p", "hi", "--chat-template", "chatml", "--tools", tools, "--tool-choice", "pick",
                "-n", "100")
        self.assertEqual((r.returncode, r.stderr), (0, b""))
        call = json.loads(r.stdout)
        self.assertEqual(call["name"], "pick")
        self.assertIn(call["arguments"], ({"n": 1}, {"n": 2}))
        r = run(MODEL, "-p", "hi", "--chat-template", "chatml", "--tools", tools, "--tool-choice", "other",
                "-n", "4")
        self.assertIn(b"tools: no tool is named \"other\"", r.stderr)

    def test_tools_that_are_none_are_refused(self):
        good = self.file("tools.json", [{"type": "function", "function": {"name": "f"}}])
        bad, none = self.file("bad.json", "{"), self.file("none.json", "{}")
        for args, code, says in ((("--tools", bad), 2, "tools: line 1"),
                                 (("--tools", none), 2, "must be a list"),
                                 (("--tools", self.folder.name), 5, "cannot read"),
                                 (("--tools", self.folder.name + "/no\u00e9"), 5, "/no\u00e9: No such file"),
                                 (("--tools", good, "--raw"), 2, "--raw"),
                                 (("--tool-choice", "required"), 2, "--tools FILE"),
                                 (("--chat-template-kwargs", "x"), 2, "keyword arguments: line 1"),
                                 (("--chat-template", self.file("t.txt", "plain text")), 2, "{{ ... }}")):
            r = run(MODEL, "-p", "hi", *(() if "--chat-template" in args else ("--chat-template", "chatml")),
                    "-n", "4", *args)
            self.assertEqual((r.returncode, r.stdout), (code, b""), (args, r.stderr))
            self.assertIn(says, r.stderr.decode(), args)

    def test_render_prints_the_text_and_nothing_else(self):
        messages = self.file("m.json", [{"role": "user", "content": "h\u00e9"}])
        own = self.file("t.jinja", self.TEMPLATE)
        tokens = ("--bos", "<s>", "--eos", "</s>")
        for args, text in ((("--chat-template", own, *tokens), "<s>[user]h\u00e9</s>[a]"),
                           (("--chat-template", own, "--no-generation-prompt"), "[user]h\u00e9"),
                           (("--chat-template", own, "--chat-template-kwargs", '{"word": "w"}', "--tools",
                             self.file("tools.json", [{"name": "f"}])), "[user]h\u00e9fw[a]"),
                           (("--chat-template", own, "--continue-final-message"), "[user]h\u00e9"),
                           (("--chat-template", self.TEMPLATE), "[user]h\u00e9[a]"),
                           (("--chat-template", "plain"), "User: h\u00e9\nAssistant:"),
                           ((MODEL, "--chat-template", own, "--no-generation-prompt"),
                            "<|begin|>[user]h\u00e9<|end|>")):
            r = run("--render", messages, *args)
            self.assertEqual((r.returncode, r.stdout.decode(), r.stderr), (0, text, b""), args)

    def test_render_gives_messages_as_they_are_or_adapted(self):
        messages = self.file("m.json", [{"role": "user", "content": [{"type": "text", "text": "a"}]}])
        args = ("--render", messages, "--chat-template", "{{ messages[0].content }}")
        self.assertEqual(run(*args).stdout, b"[{'type': 'text', 'text': 'a'}]")
        self.assertEqual(run(*args, "--adapted").stdout, b"a")

    def test_what_render_cannot_do_is_said(self):
        good, bad = self.file("m.json", [{"role": "user", "content": "a"}]), self.file("bad.json", "[1,]")
        for args, code, says in (((good, "--chat-template", "a\n{{ 1 +"), 1, "template, line 2, column "),
                                 ((good, "--chat-template", "{{ raise_exception('not so') }}"), 1, "not so"),
                                 ((good, "--chat-template", "nothing"), 2, "the names are chatml, llama2"),
                                 ((bad, "--chat-template", "plain"), 2, "messages: line 1, column 4"),
                                 ((good, "--chat-template", "plain", "--chat-template-kwargs", "{"), 2,
                                  "column 2"),
                                 ((good, "--chat-template", "{% if 1 %}" * 99), 4, "nested too deep"),
                                 ((good,), 2, "--chat-template"),
                                 ((self.folder.name + "/none", "--chat-template", "plain"), 5, "none")):
            r = run("--render", *args)
            self.assertEqual((r.returncode, r.stdout), (code, b""), (args, r.stderr))
            self.assertIn(says, r.stderr.decode(), args)
            self.assertNotIn("shorter context", r.stderr.decode())      # of a model that does not fit

    def test_a_file_is_a_template_too(self):
        chatml = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
                  "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
        say = ("-p", "Hello there", "-n", "6", "--temp", "0", "--ignore-eos", "--json", "-sys", "Be brief.")
        known = run(MODEL, "--template", "chatml", *say).stdout
        for how in (("--chat-template", self.file("t.jinja", chatml)), ("--chat-template", chatml),
                    ("--template", "chatml", "--chat-template-kwargs", '{"a": 1}')):
            self.assertEqual(run(MODEL, *how, *say).stdout, known, how)
        other = run(MODEL, "--chat-template", "{{ messages[0].content }}", *say)
        self.assertNotEqual(other.stdout, known)
        r = run(MODEL, "--chat-template", "{{ raise_exception('not so') }}", *say)
        self.assertEqual((r.returncode, r.stdout), (2, b""))
        self.assertIn(b"chat template, line 1, column ", r.stderr)

    def test_a_chat_without_a_template_is_plain_and_says_so(self):
        r = run(MODEL, "-i", "-n", "3", "--temp", "0", stdin=b"Hello\n")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(b"no chat template", r.stderr)
        plain = run(MODEL, "-i", "-n", "3", "--temp", "0", "--template", "plain", stdin=b"Hello\n")
        self.assertEqual((plain.stdout, plain.stderr), (r.stdout, b""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
