#!/usr/bin/env python3
"""The chat in a pseudo-terminal: reasoning and calls on the screen, commands, and the history between runs.
SPDX-License-Identifier: MIT

    terminal_chat_test.py QSF_RUN [unittest options]
"""
import json, os, pathlib, re, stat, subprocess, sys, unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import make_script
import terminal
from terminal import Case, DOWN, LEFT, UP, WORK

QSF_RUN = None
FOLDER = pathlib.Path(WORK.name)
# What the models say; the last one says its last text again and again.
SCRIPTS = {
    "think": ["<think>", "\nTo greet,", " in many words, and so on", " \n", "\nis best.", "\n</th",
              "ink>\n\n", "Hello", " **you** ", "there é日."],
    "opened": ["because. ", "</think>\n\n", "Yes."],
    "tool": ["I look. ", "<tool", "_call>", '\n{"name": "weather", "argu', 'ments": {"city":\n   "Par',
             'is", "n": [1, {"a": "}é"}]}}\n', "</tool_call>"],
    "calls": ['<tool_call>{"name": "a"}</tool_call>', "\n",
              "<tool_call>{'none'}</tool_call>"],
    "hello": ["Hello", " there."],
    "forever": ["<think>", "hmm it goes on. "],
}


def setUpModule():
    terminal.set_up(QSF_RUN)
    for name, texts in SCRIPTS.items():
        texts = [t for t in texts if len(t) > 1]
        make_script.write(FOLDER / f"{name}.gguf", texts, again=name == "forever")


class Scripted(Case):
    def says(self, name, *args, **how):
        """A chat with a model that says this."""
        return self.ready("-n", "-1", *args, model=str(FOLDER / f"{name}.gguf"), **how)

    def pipe(self, name, lines, *args, env=None):
        full = {k: v for k, v in os.environ.items() if not k.startswith("QSF_")}
        chat = ("-i", "--template", "chatml", "--temp", "0")
        r = subprocess.run([QSF_RUN, FOLDER / f"{name}.gguf", *chat, *args], capture_output=True, timeout=120,
                           input="".join(line + "\n" for line in lines).encode(),
                           env={**full, "XDG_STATE_HOME": str(FOLDER / "none"), **(env or {})})
        self.assertEqual(r.returncode, 0, r.stderr)
        return r


class Reasoning(Scripted):
    WHOLE = "To greet, in many words, and so on\n\nis best."

    def test_it_is_dim_and_apart_at_any_width(self):
        for cols in (20, 80, 200):
            t = self.says("think", cols=cols)
            t.asks("hi")
            text = "\n".join(t.screen.lines()[1 if cols > 40 else 2:])
            if cols > 40:
                self.assertEqual(text, f"> hi\n{self.WHOLE}\n\nHello **you** there é日.\n>")
            dim = b"".join(re.findall(rb"\033\[2m(.*?)\033\[0m", t.raw, re.S)).decode()
            self.assertEqual(dim.replace("\r\n", "\n").replace(" \n", "\n"), self.WHOLE)

    def test_hidden_it_is_a_line_that_the_answer_replaces(self):
        for cols in (12, 20, 80):
            t = self.says("think", "--reasoning", "hide", cols=cols)
            t.asks("hi")
            lines = t.screen.lines()
            self.assertEqual("".join(lines[-2:] if cols > 20 else lines[-3:]).replace(" ", ""),
                             "Hello**you**thereé日.>")
            self.assertNotIn(b"greet", t.raw)
            self.assertIn(b"thinking... 0 s" if cols > 15 else b"0 s\033[0m\033[J", t.raw)

    def test_the_line_counts_and_a_key_unfolds_and_folds(self):
        t = self.says("forever", "--reasoning", "hide", "-c", "100000", "-t", "1")
        t.keys("go\r")
        t.until(lambda: re.fullmatch(r"thinking\.\.\. [1-9]\d* s  \(Ctrl-T shows\)", t.screen.lines()[-1]),
                "no seconds")
        t.keys("typed ahead\x14 too")
        t.until(lambda: "hmm it goes on." in t.screen.lines()[-2], "not shown")
        t.keys("\x14")
        t.until(lambda: t.screen.lines()[-1].startswith("thinking... "), "not hidden")
        t.keys("\x03")
        t.shows("(stopped)", "> typed ahead too")

    def test_the_command_tells_shows_and_hides(self):
        t = self.says("think")
        t.asks("/reasoning hide")
        t.asks("hi")
        self.assertEqual(t.screen.lines()[-3:], ["> hi", "Hello **you** there é日.", ">"])
        t.asks("/reasoning")                                # shows what was hidden
        self.assertEqual("\n".join(t.screen.lines()[-5:]),
                         f"(reasoning is shown from now on)\n{self.WHOLE}\n>")
        t.asks("/reasoning maybe")
        self.assertIn("/reasoning show, or /reasoning hide", t.screen.lines())

    def test_without_colours_it_stands_between_its_marks(self):
        t = self.says("think", env={"NO_COLOR": "1"})
        t.asks("hi")
        self.assertEqual("\n".join(t.screen.lines()[1:]),
                         f"> hi\n<think>\n{self.WHOLE}\n</think>\n\nHello **you** there é日.\n>")

    def test_a_pipe_gets_what_the_model_wrote_or_the_answer_alone(self):
        whole = "".join(SCRIPTS["think"]).encode()
        self.assertEqual(self.pipe("think", ["hi"]).stdout, whole + b"\n")
        r = self.pipe("think", ["hi"], "--reasoning", "hide")
        self.assertEqual((r.stdout, r.stderr), ("Hello **you** there é日.\n".encode(), b""))

    def test_an_answer_that_ends_before_it_began(self):
        r = self.pipe("think", ["hi", "/regen"], "--reasoning", "hide", "-n", "3")
        self.assertEqual(r.stderr.count(b"(still thinking after 3 tokens: -n N allows more"), 2)

    def test_the_prompt_may_have_opened_it(self):
        template = FOLDER / "opened.jinja"
        template.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[answer]\n"
                            "<think>{{ '\\n' }}")
        t = self.says("opened", "--chat-template", template)
        t.asks("why?")
        self.assertEqual(t.screen.lines()[-5:], ["> why?", "because.", "", "Yes.", ">"])
        self.assertIn("\033[2mbecause.\033[0m", t.raw.decode())
        f = FOLDER / "opened.txt"
        how = ("--reasoning", "hide", "-v", "--chat-template", template)
        r = self.pipe("opened", ["why?", "and?", f"/save {f}"], *how)
        self.assertEqual(r.stdout, b"Yes.\nYes.\n")
        self.assertIn("assistant 31\n<think>\nbecause.\n</think>\n\nYes.\n", f.read_text())
        self.assertEqual(re.findall(rb"(\d+) tokens, \d+ of them cached", r.stderr)[1], b"52")

    def test_the_next_prompt_is_without_it(self):
        one = self.pipe("think", ["hi", "you"], "-v").stderr.decode()
        counts = [int(n) for n in re.findall(r"(\d+) tokens, \d+ of them cached", one)]
        self.assertLess(counts[1] - counts[0], 60)

    def test_one_answer_without_a_chat(self):
        r = subprocess.run([QSF_RUN, FOLDER / "think.gguf", "--template", "chatml", "--temp", "0", "-p", "hi",
                            "--reasoning", "hide"], capture_output=True)
        self.assertEqual(r.stdout, "Hello **you** there é日.\n".encode())


class Calls(Scripted):
    def test_a_line_for_each(self):
        t = self.says("tool")
        t.asks("hi")
        self.assertEqual(t.screen.lines()[1:],
            ["> hi", "I look.", 'tool call: weather {"city": "Paris", "n": [1, {"a": "}é"}]}', ">"])
        t = self.says("calls")
        t.asks("hi")
        self.assertEqual([l for l in t.screen.lines()[2:] if l],
                         ["tool call: a {}", "<tool_call>{'none'}</tool_call>", ">"])

    def test_a_pipe_gets_them_as_they_are(self):
        for how in ("show", "hide"):
            r = self.pipe("tool", ["hi"], "--reasoning", how)
            self.assertEqual(r.stdout, "".join(SCRIPTS["tool"]).encode() + b"\n")


class Results(Scripted):
    """Calls of tools that were given, and what they answered.  Any text fits the grammar ANY, so that
    the tools' own grammar does not lead the models of this test off their scripts."""
    ANY = ("--regex", "(.|\\n)*")
    CALL = 'tool call: weather {"city": "Paris", "n": [1, {"a": "}é"}]}'

    def setUp(self):
        self.tools = FOLDER / "tools.json"
        self.tools.write_text('[{"type": "function", "function": {"name": "weather", "parameters": '
                              '{"type": "object"}}}, {"type": "function", "function": {"name": "a"}}]')
        # tells the roles that it is given, in the order of the messages
        self.template = FOLDER / "roles.jinja"
        self.template.write_text(
            "{% for m in messages %}[{{ m.role }}"
            "{{ '/' ~ m.name if m.role == 'tool' else '' }}]{{ m.content }}"
            "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
            "{% endfor %}{{ '\\n' }}")

    def saved_to(self, name):
        return re.sub(r"^(\w+) \d+$", r"\1:", (FOLDER / name).read_text(), flags=re.M).split("\n")[1:-1]

    def test_they_are_typed_and_the_model_goes_on(self):
        t = self.says("tool", "-c", "4096", "--tools", self.tools, *self.ANY)
        t.keys("hi\r")
        t.shows("> hi", "I look.", self.CALL, "result of weather>", at=19)
        t.keys('{"rain": 3}\r')
        t.shows('result of weather> {"rain": 3}', "I look.", self.CALL, "result of weather>")
        t.keys('"""\r')
        t.shows('result of weather> """', "...", at=4)
        t.keys('no\rrain"""\r')
        t.shows("I look.", self.CALL, "result of weather>", at=19)
        t.keys("/regen\r")
        t.shows("(with --temp 0 the answer stays the same)", "I look.", self.CALL, "result of weather>",
                at=19)
        t.keys("\r")
        t.shows("result of weather>", "(no result: your next message goes to the model)", ">", at=2)
        t.asks(f"/save {FOLDER / 'results.txt'}")
        call = ["assistant:", "I look.", "<tool_call>", '{"name": "weather", "arguments": {"city":',
                '   "Paris", "n": [1, {"a": "}é"}]}}', "</tool_call>"]
        self.assertEqual(self.saved_to("results.txt"), ["user:", "hi", *call, "tool:", '{"rain": 3}', *call,
                                                        "tool:", "no", "rain", *call])

    def test_the_template_gets_them(self):
        lines = ["hi", "sun", f"/save {FOLDER / 'one.txt'}", "/reset", f"/load {FOLDER / 'one.txt'}", "more"]
        r = self.pipe("tool", lines, "--tools", self.tools, "--chat-template", self.template, "-v", *self.ANY)
        calls = [line for line in r.stdout.decode().split("\n") if line.startswith("{")]
        self.assertEqual(len(calls), 3)
        for line in calls:
            call = json.loads(line)
            self.assertEqual((call["name"], call["arguments"]["city"]), ("weather", "Paris"))
        self.assertEqual(r.stdout.count(b"I look.\n{"), 3)
        self.assertIn("4 messages loaded", r.stderr.decode())
        self.assertEqual(len(re.findall(rb"\d+ tokens, \d+ of them cached", r.stderr)), 3)

    def test_reasoning_goes_to_templates_that_take_it(self):
        template = FOLDER / "thinks.jinja"
        template.write_text("{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>"
                            "{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% endfor %}"
                            "{{ '\\n' }}")
        count = lambda r: [int(n) for n in re.findall(rb"(\d+) tokens, \d+ of them cached", r.stderr)]
        one = count(self.pipe("think", ["hi", "you"], "-v", "--chat-template", template))
        two = count(self.pipe("think", ["hi", "you"], "-v", "--chat-template",
                              "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ '\\n' }}"))
        self.assertGreater(one[1] - two[1], 10)

    def test_a_pipe_gets_reasoning_apart_from_calls(self):
        r = self.pipe("think", ["hi"], "--tools", self.tools, *self.ANY)
        self.assertEqual(r.stdout, "Hello **you** there é日.\n".encode())
        self.assertEqual(r.stderr.decode(), Reasoning.WHOLE.replace("so on\n", "so on \n") + "\n")
        r = self.pipe("think", ["hi"], "--tools", self.tools, "--reasoning", "hide", *self.ANY)
        self.assertEqual((r.stdout, r.stderr), ("Hello **you** there é日.\n".encode(), b""))


class Commands(Scripted):
    def talk(self, t):
        f = FOLDER / "talk.txt"
        f.unlink(missing_ok=True)
        t.asks(f"/save {f}")
        t.until(f.exists, "nothing was saved")
        return re.sub(r"^(\w+) \d+$", r"\1:", f.read_text(), flags=re.M)[11:].split("\n")[:-1]

    def test_regen_and_edit(self):
        t = self.says("hello")
        t.asks("/regen")
        self.assertIn("no message to answer yet", t.screen.lines())
        t.asks("/edit")
        self.assertIn("no message to edit yet", t.screen.lines())
        t.asks("one")
        t.asks("two é")
        t.asks("/regen")
        self.assertEqual(t.raw.count(b"Hello there."), 3)
        t.keys("/edit\r")
        t.shows("edit> two é", at=11)
        t.keys("!" + LEFT + "?")
        t.shows("edit> two é?!", at=12)
        t.asks("")
        answer = ["assistant:", "Hello there."]
        self.assertEqual(self.talk(t), ["user:", "one", *answer, "user:", "two é?!", *answer])
        t.keys("/edit\r")
        t.shows("edit> two é?!", at=13)
        t.keys("\x03")
        t.shows("edit> two é?!", "(the message is unchanged)", ">", at=2)
        t.keys("/edit\r")
        t.shows("edit> two é?!", at=13)
        t.asks("\x15")
        t.asks("/edit three")
        self.assertEqual(self.talk(t), ["user:", "one", *answer, "user:", "three", *answer])

    def test_the_last_answer_stays_where_a_new_one_fails(self):
        r = self.pipe("hello", ["one", "/edit " + "long " * 300, f"/save {FOLDER / 'kept.txt'}"], "-c", "128")
        self.assertIn(b"tokens, the context 128 positions", r.stderr)
        self.assertEqual((FOLDER / "kept.txt").read_text(),
                         "qsf-chat 1\nuser 3\none\nassistant 12\nHello there.\n")

    def test_a_pipe_edits_by_an_argument(self):
        r = self.pipe("hello", ["one", "/edit", "/edit two", f"/save {FOLDER / 'edited.txt'}"])
        self.assertIn(b"/edit TEXT replaces the message", r.stderr)
        self.assertIn("user 3\ntwo\n", (FOLDER / "edited.txt").read_text())

    def test_system(self):
        t = self.says("hello")
        t.asks("/system")
        self.assertIn("no system message", t.screen.lines())
        t.asks("one")
        t.asks("/system Be brief. é")
        t.asks("/system")
        self.assertEqual(t.screen.lines()[-2], "Be brief. é")
        rest = ["user:", "one", "assistant:", "Hello there."]
        self.assertEqual(self.talk(t), ["system:", "Be brief. é", *rest])
        t.asks("/system two\033\rlines")
        self.assertEqual(self.talk(t), ["system:", "two", "lines", *rest])
        t.asks("/system -")
        self.assertEqual(self.talk(t), rest)
        t.asks("/system kept")
        t.asks("/reset")
        self.assertEqual(self.talk(t), ["system:", "kept"])

    def test_a_template_without_a_system_message_says_so(self):
        r = self.pipe("hello", ["/system x", "one"], "--template", "gemma")
        if b"system message is set" not in r.stderr:
            self.assertIn(b"error:", r.stderr)
            self.assertIn(b"Hello there.", r.stdout)

    def test_a_long_prompt_shows_how_far_it_is(self):
        long = FOLDER / "long.txt"
        long.write_text("x" * 15000)
        t = self.says("hello", "-c", "100000", "-t", "1", "-b", "16")
        t.asks(f"/load-file {long}")
        t.asks("short")
        figures = [(int(a), int(b), int(p)) for a, b, p in
                   re.findall(rb"prompt: (\d+) of (\d+) tokens, (\d+)%", t.raw)]
        self.assertGreater(len(figures), 1)
        for (a, n, p), (b, _, q) in zip(figures, figures[1:]):
            self.assertTrue(a <= b <= n and p <= q <= 100 and n > 15000, (a, b, n, p, q))
            self.assertLessEqual(abs(100 * b / n - q), 2, (b, n, q))
        self.assertNotIn("prompt:", "\n".join(t.screen.lines()))     # the progress line is removed
        self.assertEqual(t.screen.lines()[-2:], ["Hello there.", ">"])
        before = len(re.findall(rb"prompt: ", t.raw))
        t.asks("hi")                                        # the prompt is not computed again
        self.assertEqual(len(re.findall(rb"prompt: ", t.raw)), before)

    def test_a_narrow_terminal_shows_the_answer_alone(self):
        long = FOLDER / "narrow.txt"
        long.write_text("x" * 8000)
        t = self.says("hello", "-c", "100000", "-t", "1", "-b", "16", cols=20)
        t.asks(f"/load-file {long}")
        t.asks("short")
        self.assertEqual(t.screen.lines()[-3:], ["> short", "Hello there.", ">"])

    def test_load_file(self):
        folder = FOLDER / "été dir"
        folder.mkdir(exist_ok=True)
        (folder / "my notes.txt").write_bytes(b"\xef\xbb\xbffirst\nl\xc3\xa9\nlast")
        t = self.says("hello", env={"HOME": str(FOLDER)}, cols=200)
        for name in (f"{folder}/my notes.txt", "~/été dir/my notes.txt", f"'{folder}/my notes.txt'",
                     str(folder).replace(" ", "\\ ") + "/my\\ notes.txt"):
            t.asks("/reset")
            t.asks(f"/load-file {name}")
            self.assertRegex(t.screen.lines()[-2], r"my notes\.txt: 14 bytes, \d+ tokens, for your next")
            t.asks("what is it?")
            self.assertEqual(self.talk(t)[:5], ["user:", "first", "lé", "last", "what is it?"])
        t.asks(f"/load-file {folder}/my notes.txt")
        t.asks("/load-file -")
        self.assertEqual(t.screen.lines()[-2], "(15 bytes of files discarded)")
        t.asks("next")
        self.assertEqual(self.talk(t)[-4:-2], ["user:", "next"])
        t.asks("/reset")
        t.asks(f"/load-file {folder}/my notes.txt")
        t.asks("")
        self.assertEqual(self.talk(t)[:5], ["user:", "first", "lé", "last", ""])

    def test_files_that_are_refused(self):
        files = {"empty": b"", "zero": b"ab\0", "long": b"abcd " * 2000}
        for name, data in files.items():
            (FOLDER / name).write_bytes(data)
        with open(FOLDER / "huge", "wb") as f:
            f.truncate((16 << 20) + 1)
        lines = [f"/load-file {FOLDER / n}" for n in (*files, "huge", "not there", ".")]
        r = self.pipe("hello", [*lines, "/load-file", "hi", f"/save {FOLDER / 'one.txt'}"], "-c", "512")
        for words in ("the file is empty", "byte 2 is zero: this is not text",
                      "tokens; the context has 512 positions", "huge: /load-file takes at most 16 MB",
                      "not there: No such file", "Is a directory", "which file? /load-file PATH"):
            self.assertIn(words.encode(), r.stderr)
        self.assertIn("user 2\nhi\n", (FOLDER / "one.txt").read_text())

    def test_blocks_between_quotes(self):
        t = self.says("hello")
        t.keys('"""one\r')
        t.shows('> """one', "...", at=4)
        t.keys("/two\\\r")
        t.asks('three"""')
        t.asks('"""/exit"""')
        t.asks('"""a""" b')
        t.keys(UP)
        t.shows('> """a""" b')
        t.keys(UP + UP)
        t.shows("> one", "/two\\", "three")
        t.keys(DOWN + DOWN + DOWN)
        self.assertEqual(t.saved(), ["one\n/two\\\nthree", "/exit", '"""a""" b'])
        f = FOLDER / "block.txt"
        self.pipe("hello", ['"""', "in a pipe", '"""', f"/save {f}"])
        self.assertIn("user 9\nin a pipe\n", f.read_text())

    def test_help_lists_all(self):
        r = self.pipe("hello", ["/help", "/unknown", "/regen x"])
        for word in ("/regen", "/edit", "/system", "/load-file", "/reasoning", "/reset", "/save", "/load",
                     "/stats", "/help", "/exit"):
            self.assertRegex(r.stderr.decode(), rf"(?m)^  {word}\b.* \w")
        self.assertLess(max(map(len, r.stderr.decode().splitlines())), 110)
        self.assertIn(b"unknown command /unknown", r.stderr)
        self.assertIn(b"/regen takes no argument", r.stderr)


class History(Scripted):
    def with_file(self, path, **how):
        return self.says("hello", "--history", str(path), **how)

    def leave(self, t):
        t.keys("\x04")
        self.assertEqual(t.ends(), 0)

    def test_it_is_kept_between_runs(self):
        f = FOLDER / "h1"
        t = self.with_file(f)
        for text in ("first é", "two\033\rlines \\n", " a secret", "/stats", "first é"):
            t.asks(text)
        self.leave(t)
        self.assertEqual(f.read_text(), "first é\ntwo\\nlines \\\\n\n/stats\nfirst é\n")
        self.assertEqual(stat.S_IMODE(f.stat().st_mode), 0o600)
        t = self.with_file(f)
        t.keys(UP + UP)
        t.shows("> /stats")
        t.keys(UP)
        t.shows("> two", "lines \\n")
        t.keys("\x03")
        self.leave(t)

    def test_the_systems_place_and_none(self):
        state = FOLDER / "state"
        t = self.says("hello", env={"QSF_HISTORY": "", "XDG_STATE_HOME": str(state)})
        t.asks("kept")
        self.leave(t)
        self.assertEqual((state / "qsf" / "history").read_text(), "kept\n")
        self.assertEqual(stat.S_IMODE((state / "qsf").stat().st_mode), 0o700)
        home = FOLDER / "home"
        t = self.says("hello", env={"QSF_HISTORY": "", "XDG_STATE_HOME": "", "HOME": str(home)})
        t.asks("here")
        self.leave(t)
        self.assertEqual((home / ".local/state/qsf/history").read_text(), "here\n")
        t = self.says("hello", "--history", "off", env={"XDG_STATE_HOME": str(state)})
        t.asks("not kept")
        self.leave(t)
        self.assertEqual((state / "qsf" / "history").read_text(), "kept\n")
        self.pipe("hello", ["nor this"], env={"XDG_STATE_HOME": str(state)})
        self.assertEqual((state / "qsf" / "history").read_text(), "kept\n")

    def test_files_that_are_none_of_ours(self):
        for name, data in (("h2", b"good\n\0\nx\0y\nb\\x\\\nhalf"), ("h3", b"\n\n\xff\n")):
            (FOLDER / name).write_bytes(data)
            t = self.with_file(FOLDER / name)
            t.asks("new")
            self.leave(t)
            self.assertEqual((FOLDER / name).read_bytes(), data.rstrip(b"\n") + b"\nnew\n")
        t = self.with_file(FOLDER / "no" / "such")
        self.assertIn("the history is not saved:", "".join(t.screen.lines()))
        self.leave(t)
        t = self.with_file("/dev/null")
        t.asks("x")
        self.leave(t)

    def test_a_long_file_is_cut_to_the_latest(self):
        f = FOLDER / "h4"
        f.write_text("".join(f"line {i}\n" for i in range(2001)))
        f.chmod(0o640)
        t = self.with_file(f)
        t.asks("new")
        self.leave(t)
        self.assertEqual(f.read_text().splitlines(), [*(f"line {i}" for i in range(1001, 2001)), "new"])
        self.assertEqual(stat.S_IMODE(f.stat().st_mode), 0o640)
        self.assertEqual([p.name for p in FOLDER.glob("h4*")], ["h4"])

    def test_two_chats_at_once(self):
        f = FOLDER / "h5"
        f.write_text("".join(f"line {i}\n" for i in range(1995)))
        a, b = self.with_file(f), self.with_file(f)
        for i in range(8):
            a.asks(f"a {i}")
            b.asks(f"b {i}")
        c = self.with_file(f)                               # cuts it
        for i, t in enumerate((a, b, c)):
            t.asks(f"last {i}")
            self.leave(t)
        lines = f.read_text().splitlines()
        self.assertEqual(len(lines), 1003)
        self.assertEqual(lines[-5:], ["a 7", "b 7", "last 0", "last 1", "last 2"])

    def test_up_goes_to_what_begins_alike(self):
        t = self.says("hello")
        for text in ("alpha 1", "beta", "alpha 2", "gamma", "alpha 2"):
            t.asks(text)
        t.keys("al" + UP)
        t.shows("> alpha 2", at=9)
        t.keys(UP)
        t.shows("> alpha 1", at=9)
        t.keys(UP + DOWN)
        t.shows("> alpha 2", at=9)
        t.keys(DOWN)
        t.shows("> al", at=4)
        t.keys("\x15x" + UP + UP)                           # nothing begins so: all of them
        t.shows("> gamma")

    def test_ctrl_r_looks_for_what_is_in_them(self):
        t = self.says("hello")
        for text in ("say été one", "other", "say été two"):
            t.asks(text)
        t.keys("begun\x12")
        t.shows("search:  > begun")
        t.keys("été")
        t.shows("search: été > say été two", at=18)
        t.keys("\x12")
        t.shows("search: été > say été one", at=18)
        t.keys("\x12")
        t.shows("not found: été > say été one")
        t.keys("\x13")
        t.shows("search: été > say été two")
        t.keys("\x7f\x7f\x7foth")
        t.shows("search: oth > other", at=14)
        t.keys("\x07")
        t.shows("> begun", at=7)
        t.keys("\x12one" + "\033[F" + "!")
        t.shows("> say été one!", at=14)
        t.keys("\x15\x12oth")
        t.asks("")
        self.assertEqual(t.saved()[-1], "other")


if __name__ == "__main__":
    QSF_RUN = sys.argv.pop(1)
    unittest.main(verbosity=2)
