"""A pseudo-terminal for tests, and qsf-run in it.
SPDX-License-Identifier: MIT

Screen is a terminal of the few sequences that qsf-run writes; any other fails the test.
"""
import fcntl, os, pathlib, pty, re, select, signal, struct, subprocess, sys, tempfile, termios, time
import unicodedata, unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
WORK = tempfile.TemporaryDirectory()
PROGRAM = [None]
MODEL = [None]
LEFT, RIGHT, UP, DOWN, HOME, END, DELETE = ("\033[D", "\033[C", "\033[A", "\033[B", "\033[H",
                                            "\033[F", "\033[3~")


def set_up(program):
    PROGRAM[0] = program
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
        stdout=subprocess.DEVNULL)
    MODEL[0] = str(next(pathlib.Path(WORK.name).glob("*.gguf")))


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
    """qsf-run in a terminal of its own."""

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
        self.process = subprocess.Popen([PROGRAM[0], model or MODEL[0], *map(str, args)], stdin=self.slave,
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

    def until(self, done, what, seconds=120):
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
        self.asks(f"/save {f}")
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
        end = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.02)
        while self.read(0):
            pass
        return self.process.wait(timeout=60)

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
