#!/usr/bin/env python3
"""The chat in a pseudo-terminal: what is typed and pasted arrives, the screen shows it, and the terminal
is left as it was.
SPDX-License-Identifier: MIT

    terminal_test.py QSF_RUN [unittest options]
"""
import os, pathlib, re, signal, sys, termios, unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import terminal
from terminal import Case, DELETE, DOWN, END, HOME, LEFT, RIGHT, UP, WORK

QSF_RUN = None


def setUpModule():
    terminal.set_up(QSF_RUN)


class Typing(Case):
    def test_text_of_any_language_arrives(self):
        for env in ({}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}):
            t = self.ready(env=env)
            t.keys("été ")
            t.shows("> été", at=6)
            for byte in "日本語".encode():                   # one by one: no half of a character is shown
                t.keys(bytes([byte]))
            t.shows("> été 日本語", at=12)
            self.assertNotIn("\ufffd", "".join(t.screen.lines()))
            t.asks("")
            self.assertEqual(t.saved(), ["été 日本語"])

    def test_the_prompt_is_bold_and_nothing_else(self):
        t = self.ready()
        self.assertIn(b"\033[1m> \033[0m", t.raw)
        t = self.ready(env={"NO_COLOR": "1"})
        self.assertNotIn(b"\033[1m", t.raw)

    def test_keys_edit(self):
        t = self.ready()
        for keys, text, at in (
                ("abc", "abc", 3), (LEFT + LEFT + "X", "aXbc", 2), (HOME + "<", "<aXbc", 1),
                (END + ">", "<aXbc>", 6), (HOME + DELETE, "aXbc>", 0), ("\x05\x7f", "aXbc", 4),
                ("\x01\x06\x0b", "a", 1), ("\x15", "", 0), ("one two  three", "one two  three", 14),
                ("\x17", "one two", 9), ("\x02\x02\x02\x15", "o", 0), (END + "\x15", "", 0),
                ("x日y", "x日y", 4), (LEFT + LEFT, "x日y", 1), (RIGHT + "\x08", "xy", 1),
                ("\x15" + DELETE, "", 0),
                ("e\u0301o", "e\u0301o", 2), (LEFT + "\x7f", "o", 0), ("\x04", "", 0), ("a b", "a b", 3),
                ("\033[1;5D" + "+", "a +b", 3), ("\033b\033b" + "-", "-a +b", 1), ("\033[1;3C=", "-a= +b", 3),
                ("\x15\x0b", "", 0), ("\033OH\033OF\033[5~\033[[Ak", "k", 1), ("\x07\x14", "k", 1),
                ("\x15👨\u200d👩\u200d👧!", "👨\u200d👩\u200d👧!", None), ("\x7f\x7f", "", 0)):
            t.keys(keys)
            if at is None:
                continue
            t.shows(("> " + text).rstrip(), at=2 + at)

    def test_latin_1_is_kept_and_shown_as_no_character(self):
        t = self.ready()
        t.keys(b"\xe9t\xe9 \xff.")
        t.shows("> \ufffdt\ufffd \ufffd.", at=8)

    def test_history(self):
        t = self.ready()
        for text in ("first", "second", "second", "third é"):
            t.asks(text)
        t.keys("begun" + UP)
        t.shows("> third é", at=9)
        t.keys(UP)
        t.shows("> second")
        t.keys(UP + UP + UP)
        t.shows("> first")
        t.keys("!" + DOWN)
        t.shows("> second")
        t.keys(UP)
        t.shows("> first", at=7)                            # what was changed is not kept
        t.keys(DOWN + DOWN + DOWN)
        t.shows("> begun", at=7)
        t.keys("\x15")
        t.shows(">", at=2)
        t.keys(UP + UP)
        t.asks("")
        self.assertEqual(t.saved(), ["first", "second", "second", "third é", "second"])

    def test_a_backslash_and_alt_enter_go_on_in_the_next_line(self):
        t = self.ready()
        t.keys("one\\\r")
        t.shows("> one\\", "...", at=4)
        t.asks("two\033\rthree")
        self.assertEqual(t.saved(), ["one\ntwo\nthree"])

    def test_commands_say_what_they_need(self):
        t = self.ready()
        t.asks("/save")
        self.assertIn("which file? /save FILE", t.screen.lines())
        t.asks("/load  ")
        self.assertIn("which file? /load FILE", t.screen.lines())


class Pasting(Case):
    def test_pasted_lines_are_one_message(self):
        t = self.ready()
        t.keys("see: \033[200~first\r\nsecond\ttab\r\rfo")
        t.keys("u\033[20~rth\nlast 日\033[201~")
        t.shows("> see: first", "second  tab", "", "fou^[[20~rth", "last 日", at=7)
        t.asks("!")
        self.assertEqual(t.saved(), ["see: first\nsecond\ttab\n\nfou\033[20~rth\nlast 日!"])

    def test_pasted_lines_are_no_command(self):
        t = self.ready()
        t.asks("\033[200~/exit\nis what I type\033[201~")
        self.assertEqual(t.saved(), ["/exit\nis what I type"])

    def test_a_large_paste_arrives_whole(self):
        t = self.ready("-c", "40000", rows=10)
        text = "\n".join(f"line {i} é日" for i in range(1200))
        t.keys("\033[200~" + text.replace("\n", "\r") + "\033[201~")
        t.shows("line 1198 é日", "line 1199 é日", at=13)
        t.keys("\x15")
        t.shows("line 1198 é日", at=(0, 0))


class Drawing(Case):
    def test_long_lines_wrap(self):
        t = self.ready(cols=20)
        text = "abcdefghij klmnopqrs日 uvwxyz日本語日本語 0123456789"
        t.keys(text)
        t.shows("> abcdefghij klmnop", "qrs日 uvwxyz日本語", "日本語 0123456789", at=17)
        t.keys(HOME + "é日")
        t.shows("> é日abcdefghij klm", "nopqrs日 uvwxyz日本", "語日本語 0123456789", at=(5, -3))
        t.keys(DOWN)
        t.shows("> é日abcdefghij klm", "nopqrs日 uvwxyz日本", "語日本語 0123456789", at=(5, -2))
        t.keys(UP + RIGHT + RIGHT + "\x0b")
        t.shows("> é日ab", at=7)
        t.keys("x" * 11 + "日")
        t.shows("> é日abxxxxxxxxxxx", "日", at=2)
        t.keys("\x7f")
        t.shows("> é日abxxxxxxxxxxx", at=18)

    def test_marks_join_what_is_there(self):
        t = self.ready()
        t.keys("ae")
        t.shows("> ae", at=4)
        t.keys("\u0301")
        t.shows("> ae\u0301", at=4)
        t.keys(LEFT + "o")
        t.shows("> aoe\u0301", at=4)
        t.keys(RIGHT + "\x7f")
        t.shows("> ao", at=4)

    def test_the_window_changes_its_size(self):
        t = self.ready(cols=60)
        text = " ".join(f"word{i}" for i in range(16))
        t.keys(text + HOME + RIGHT * 70)
        row = "> " + text
        t.shows(row[:59].rstrip(), row[59:].rstrip(), at=13)
        for cols in (31, 45, 80):
            while t.read(0.05):
                pass
            t.screen.resize(cols, 24)
            t.size(cols, 24)
            w = cols - 1
            parts = [row[i:i + w] for i in range(0, len(row), w)]
            t.shows(*[p.rstrip() for p in parts], at=(72 % w, 72 // w - len(parts)))
        # what stood above still does
        self.assertEqual(t.screen.lines()[:2], ["/help lists the commands; Ctrl-", "D quits."])

    def test_a_text_higher_than_the_screen(self):
        t = self.ready(rows=6)
        t.keys("\033[200~" + "\r".join(f"row {i}" for i in range(12)) + "\033[201~")
        t.shows("row 6", "row 7", "row 8", "row 9", "row 10", "row 11", at=6)
        t.keys(UP * 11)
        t.shows("> row 0", "row 1", "row 2", "row 3", "row 4", "row 5", at=(5, -6))
        t.keys("+" + DOWN * 7)
        t.shows("row 2", "row 3", "row 4", "row 5", "row 6", "row 7", at=5)       # past the end of that row
        t.asks("")
        self.assertEqual(t.saved(), ["\n".join(["row+ 0"] + [f"row {i}" for i in range(1, 12)])])

    def test_ctrl_l_clears(self):
        t = self.ready()
        t.keys("some é")
        t.shows("> some é")
        t.keys("\x0c")
        t.until(lambda: t.screen.lines() == ["> some é"] and t.screen.x == 8, "not cleared")


class Ending(Case):
    def test_ctrl_d(self):
        t = self.ready()
        t.keys("x\x04\x7f\x04")
        self.assertEqual(t.ends(), 0)
        self.assertTrue(t.restored())

    def test_ctrl_c_drops_a_line_then_asks_then_ends(self):
        t = self.ready()
        t.keys("not this")
        t.shows("> not this")
        t.keys("\x03")
        t.shows("> not this", ">", at=2)
        t.keys("\x03")
        t.shows("(Ctrl-C again or Ctrl-D quits)", ">", at=2)
        t.keys("nor this")
        t.shows("> nor this")
        t.keys("\x03\r")                                    # Enter does not send what was dropped
        t.shows("> nor this", ">", ">")
        t.keys("this\r")
        t.until(lambda: t.screen.lines()[-1] == ">" and t.screen.lines()[-3] == "> this", "no answer")
        self.assertEqual(t.saved(), ["this"])
        for _ in range(2):
            t.keys("\x03")
            t.until(lambda: t.screen.lines()[-2:] == ["(Ctrl-C again or Ctrl-D quits)", ">"]
                or t.process.poll() is not None, "nothing was said")
        self.assertEqual(t.ends(), 130)
        self.assertTrue(t.restored())

    def long_answer(self):
        t = self.ready("-n", "-1", "--ignore-eos", "-c", "100000", "-t", "1")
        at = len(t.raw)
        t.keys("go\r")
        t.until(lambda: len(t.raw) > at + 100, "no answer")
        return t

    def test_ctrl_c_stops_an_answer_and_what_was_typed_ahead_waits(self):
        t = self.long_answer()
        t.keys("qué \033[200~a\rb\033[201~")
        t.keys("\x03")
        t.shows("(stopped)", "> qué a", "b", at=1)
        self.assertEqual(t.raw.count("qué".encode()), 1)    # it was not shown amid the answer
        t.keys("\x15\x7f\x15\x04")
        t.keys("\x04")
        self.assertEqual(t.ends(), 0)

    def test_an_answer_cannot_speak_to_the_terminal(self):
        t = self.long_answer()                              # of every byte there is, before long
        t.until(lambda: len(t.raw) > 3000, "no long answer")
        self.assertEqual(re.findall(rb"[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]", t.raw), [])
        self.assertNotIn(b"\033", re.sub(rb"\033\[(\?2004[hl]|[0-9]*m|[0-9]*[ABCJ])", b"", t.raw))

    def test_whatever_ends_the_program_leaves_the_terminal_as_it_was(self):
        for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT):
            for t in (self.ready(), self.long_answer()) if sig == signal.SIGTERM else (self.ready(),):
                t.process.send_signal(sig)
                self.assertNotEqual(t.ends(), 0)
                self.assertTrue(t.restored(), sig)
        t = self.long_answer()
        # the second one during an answer, or at an empty line
        while t.process.poll() is None:
            t.keys("\x03")
            t.read(0.05)
        self.assertEqual(t.ends(), 130)
        self.assertTrue(t.restored())

    def test_stopped_where_nobody_can_continue_it(self):
        t = self.ready()
        t.keys("abc")
        t.shows("> abc")
        # the process group is orphaned: the system drops the stop
        t.keys("\x1a")
        t.shows("> abc")
        t.asks("d")
        self.assertEqual(t.saved(), ["abcd"])

    def test_killed_and_continued(self):
        t = self.ready()
        t.keys("abc")
        t.shows("> abc")
        t.process.send_signal(signal.SIGSTOP)
        os.waitpid(t.process.pid, os.WUNTRACED)
        termios.tcsetattr(t.slave, termios.TCSANOW, t.before)       # as a shell does
        t.process.send_signal(signal.SIGCONT)
        t.until(lambda: termios.tcgetattr(t.slave) != t.before, "no keys")
        t.asks("d")
        self.assertEqual(t.saved(), ["abcd"])


class Plain(Case):
    def test_a_dumb_terminal_is_read_line_by_line(self):
        for term in ("dumb", ""):
            t = self.chat(env={"TERM": term, "NO_COLOR": "1"})
            t.until(lambda: t.screen.lines()[-1:] == [">"], "no prompt")
            t.keys("été 日本語\n")
            t.until(lambda: t.screen.lines()[-1:] == [">"] and t.raw.count(b"> ") == 2, "no answer")
            f = pathlib.Path(WORK.name, "dumb.txt")
            f.unlink(missing_ok=True)
            t.keys(f"/save {f}\n")
            t.until(lambda: f.exists() and t.raw.count(b"> ") == 3, "not saved")
            self.assertIn("été 日本語".encode(), f.read_bytes())
            self.assertNotIn(b"\033", t.raw)
            t.keys("\x04")
            self.assertEqual(t.ends(), 0)


if __name__ == "__main__":
    QSF_RUN = sys.argv.pop(1)
    unittest.main(verbosity=2)
