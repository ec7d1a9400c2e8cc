#!/usr/bin/env python3
"""The chat in a pseudo-terminal: what is typed and pasted arrives, the screen shows it, and the terminal
is left as it was.
SPDX-License-Identifier: MIT

    terminal_test.py QSF_RUN [unittest options]

Screen is a terminal of the few sequences that the line editor writes; any other fails the test.
"""
import fcntl, os, pathlib, pty, re, select, signal, struct, subprocess, sys, tempfile, termios, time
import unicodedata, unittest

QSF_RUN = None
HERE = pathlib.Path(__file__).resolve().parent
WORK = tempfile.TemporaryDirectory()
MODEL = None
LEFT, RIGHT, UP, DOWN, HOME, END, DELETE = ("\033[D", "\033[C", "\033[A", "\033[B", "\033[H",
                                            "\033[F", "\033[3~")


def setUpModule():
    global MODEL
    subprocess.run([sys.executable, HERE / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
        stdout=subprocess.DEVNULL)
    MODEL = str(next(pathlib.Path(WORK.name).glob("*.gguf")))


class Screen:
    def __init__(self, cols, rows):
        self.cols, self.rows, self.x, self.y = cols, rows, 0, 0
        self.cells = [[""] * cols for _ in range(rows)]
        self.paste = False
        self.modes = []

    def resize(self, cols, rows):       # as a terminal that breaks rows that have become too long
        lines, at = [], None
        for y in range(self.y + 1):
            row = self.cells[y]
            while row and not row[-1] and not (y == self.y and len(row) <= self.x):
                row = row[:-1]
            parts = [row[i:i + cols] for i in range(0, len(row), cols)] or [[]]
            if y == self.y:
                at = (len(lines) + self.x // cols, self.x % cols)
            lines += parts
        drop = max(0, len(lines) - rows)
        self.cols, self.rows = cols, rows
        self.cells = [(l + [""] * cols)[:cols] for l in lines[drop:]]
        self.cells += [[""] * cols for _ in range(rows - len(self.cells))]
        self.y, self.x = at[0] - drop, at[1]

    def feed(self, text):
        i = 0
        while i < len(text):
            m = re.compile(r"\033\[(\??)([0-9;]*)([A-Za-z])").match(text, i)
            if m:
                self.sequence(*m.groups())
                i = m.end()
                continue
            assert text[i] != "\033", f"unknown sequence {text[i:i + 10]!r}"
            self.put(text[i])
            i += 1

    def sequence(self, private, numbers, last):
        n = int(numbers.split(";")[0] or 0)
        if private:
            assert numbers == "2004" and last in "hl", (numbers, last)
            self.paste = last == "h"
        elif last == "m":
            self.modes.append(numbers)
        elif last == "A":
            self.y = max(0, self.y - (n or 1))
        elif last == "B":
            self.y = min(self.rows - 1, self.y + (n or 1))
        elif last == "C":
            self.x = min(self.cols - 1, self.x + (n or 1))
        elif last == "H":
            self.x = self.y = 0
        elif last == "J":
            if n == 0:
                self.cells[self.y][self.x:] = [""] * (self.cols - self.x)
            for row in self.cells[self.y + 1:] if n == 0 else self.cells:
                row[:] = [""] * self.cols
        else:
            raise AssertionError(f"unknown sequence ESC [ {numbers} {last}")

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.down()
        elif c >= " ":
            wide = 2 if unicodedata.east_asian_width(c) in "WF" else 1
            if unicodedata.combining(c) or c in "\u200d\ufe0f":
                self.cells[self.y][self.x - 1] += c
                return
            if self.x + wide > self.cols:
                self.x = 0
                self.down()
            self.cells[self.y][self.x] = c
            if wide == 2:
                self.cells[self.y][self.x + 1] = "\0"       # its other half
            self.x += wide

    def down(self):
        self.y += 1
        if self.y == self.rows:
            self.cells = self.cells[1:] + [[""] * self.cols]
            self.y -= 1

    def lines(self):
        out = ["".join(c or " " for c in row).replace("\0", "").rstrip() for row in self.cells]
        while out and not out[-1]:
            out.pop()
        return out


class Terminal:
    """qsf-run behind a terminal of its own."""

    def __init__(self, *args, cols=80, rows=24, model=None, env=None):
        self.master, self.slave = pty.openpty()
        self.screen = Screen(cols, rows)
        self.size(cols, rows)
        self.before = termios.tcgetattr(self.slave)
        self.raw = b""
        full = {k: v for k, v in os.environ.items() if not k.startswith(("QSF_", "LC_", "LANG", "NO_COLOR"))}
        full.update({"TERM": "xterm", "QSF_HISTORY": "off", **(env or {})})

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen([QSF_RUN, model or MODEL, *map(str, args)], stdin=self.slave,
            stdout=self.slave, stderr=self.slave,
                                        env=full, preexec_fn=own)
        self.pending = b""

    def size(self, cols, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, wait):
        if not select.select([self.master], [], [], wait)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        data = self.pending + data
        cut = len(data)                     # neither within a character nor within a sequence
        while cut > len(data) - 4 and cut and data[cut - 1] & 0xc0 == 0x80:
            cut -= 1
        if cut and data[cut - 1] >= 0xc0:
            cut -= 1
        try:
            data[cut:].decode()
            cut = len(data)
        except UnicodeDecodeError:
            pass
        m = re.search(rb"\033(\[[?0-9;]*)?$", data[:cut])
        cut = m.start() if m else cut
        self.pending = data[cut:]
        self.screen.feed(data[:cut].decode("utf-8", "replace"))
        return True

    def until(self, done, what, seconds=30):
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise AssertionError(f"{what}\nthe screen shows:\n" + "\n".join(self.screen.lines())
                                     + f"\ncursor {self.screen.x}, {self.screen.y}")
            self.read(0.05)

    def keys(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:
            n = os.write(self.master, data[:512])
            data = data[n:]
            while data and self.read(0):
                pass

    def shows(self, *lines, at=None):
        """Waits until these are the last lines of the screen, with the cursor at column `at` of the last, or
        of the row given."""
        def done():
            got = self.screen.lines()
            x, y = (at if isinstance(at, tuple) else (at, -1)) if at is not None else (self.screen.x, -1)
            if got[-len(lines):] != list(lines) or self.screen.x != x:
                return False
            return at is None or self.screen.y == len(got) + y
        self.until(done, f"expected {lines}, cursor {at}")

    def ready(self):
        self.until(lambda: self.screen.paste and self.screen.lines()[-1:] == [">"] and self.screen.x == 2,
            "no prompt")

    def asks(self, keys):
        """Types a message; waits for the next prompt."""
        before = self.raw.count(b"> ")
        self.keys(keys + "\r")
        self.until(lambda: self.screen.lines()[-1:] == [">"] and self.screen.x == 2
            and self.raw.count(b"> ") > before, f"no answer to {keys!r}")

    def saved(self):
        """The user's messages."""
        f = pathlib.Path(WORK.name, "saved.txt")
        f.unlink(missing_ok=True)
        self.keys(f"/save {f}\r")
        self.until(f.exists, "nothing was saved")
        self.ready()
        data, out = f.read_bytes(), []
        assert data.startswith(b"qsf-chat 1\n")
        data = data[11:]
        while data:
            role, length = re.match(rb"(\w+) (\d+)\n", data).groups()
            at = len(role) + len(length) + 2
            if role == b"user":
                out.append(data[at:at + int(length)].decode())
            data = data[at + int(length) + 1:]
        return out

    def ends(self):
        end = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.02)
        while self.read(0):
            pass
        return self.process.wait(timeout=1)

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before and not self.screen.paste

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class Case(unittest.TestCase):
    def chat(self, *args, **how):
        t = Terminal("-i", "-n", "3", "--temp", "0", "--template", "chatml", "-c", "512", *args, **how)
        self.addCleanup(t.close)
        return t

    def ready(self, *args, **how):
        t = self.chat(*args, **how)
        t.ready()
        return t


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
                ("\x15\x0b", "", 0), ("\033OH\033OF\033[5~\033[[Ak", "k", 1), ("\x07\x12", "k", 1),
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
        self.assertEqual(t.screen.lines()[:2], ["/help lists the commands; Ctrl-", "D ends."])

    def test_a_text_higher_than_the_screen(self):
        t = self.ready(rows=6)
        t.keys("\033[200~" + "\r".join(f"row {i}" for i in range(12)) + "\033[201~")
        t.shows("row 6", "row 7", "row 8", "row 9", "row 10", "row 11", at=6)
        t.keys(UP * 11)
        t.shows("> row 0", "row 1", "row 2", "row 3", "row 4", "row 5", at=(5, -6))
        t.keys("+" + DOWN * 7)
        t.shows("row 2", "row 3", "row 4", "row 5", "row 6", "row 7", at=5)       # behind the end of that row
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
        t.shows("(Ctrl-C again or Ctrl-D ends)", ">", at=2)
        t.keys("nor this")
        t.shows("> nor this")
        t.keys("\x03\r")                                    # Enter does not send what was dropped
        t.shows("> nor this", ">", ">")
        t.keys("this\r")
        t.until(lambda: t.screen.lines()[-1] == ">" and t.screen.lines()[-3] == "> this", "no answer")
        self.assertEqual(t.saved(), ["this"])
        for _ in range(2):
            t.keys("\x03")
            t.until(lambda: t.screen.lines()[-2:] == ["(Ctrl-C again or Ctrl-D ends)", ">"]
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
