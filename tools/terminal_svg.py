#!/usr/bin/env python3
"""Runs a chat of qsf-run in a pseudo-terminal and writes its screen as an SVG (docs/images/chat.svg).
SPDX-License-Identifier: MIT

    python3 tools/terminal_svg.py QSF_RUN MODEL OUT.svg MESSAGE...
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import terminal  # noqa: E402

COLS, ROWS = 90, 30
CELL, LINE, LEFT, TOP = 8.4, 18, 16, 44        # of a 14 px monospaced font
STYLES = {"1": 'font-weight="bold"', "2": 'opacity="0.6"'}


class StyledScreen(terminal.Screen):
    """A screen that also keeps the style of each cell."""

    def __init__(self, cols, rows):
        super().__init__(cols, rows)
        self.style, self.styles = "", {}

    def sequence(self, private, numbers, last):
        super().sequence(private, numbers, last)
        if last == "m":
            self.style = "" if numbers in ("", "0") else STYLES.get(numbers, "")

    def put(self, c):
        super().put(c)
        if c >= " ":
            self.styles[id(self.cells[self.y]), self.x - 1] = self.style

    def runs(self):
        """(row, column, text, style) of every stretch of one style."""
        for y, row in enumerate(self.cells):
            text = "".join(c or " " for c in row).replace("\0", "").rstrip()
            begin = 0
            for x in range(1, len(text) + 1):
                style = self.styles.get((id(row), begin), "")
                if x == len(text) or self.styles.get((id(row), x), "") != style:
                    yield y, begin, text[begin:x], style
                    begin = x


def svg(screen, title):
    used = len(screen.lines())
    wide, high = round(LEFT * 2 + COLS * CELL), TOP + used * LINE + 12
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
           f'viewBox="0 0 {wide} {high}" font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', '
           'monospace" font-size="14" fill="#e6e6e6">',
           f"<title>{title}</title>",
           f'<rect width="{wide}" height="{high}" rx="8" fill="#1c1f26"/>',
           *(f'<circle cx="{20 + 20 * i}" cy="18" r="6" fill="{c}"/>'
             for i, c in enumerate(("#e0605a", "#e0b04a", "#5ab05a")))]
    for y, x, text, style in screen.runs():
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        out.append(f'<text x="{LEFT + x * CELL:.1f}" y="{TOP + y * LINE + 12}" xml:space="preserve" '
                   f'textLength="{len(text.replace("&amp;", "&").replace("&lt;", "<")) * CELL:.1f}" '
                   f"{style}>{text}</text>")
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    program, model, target, *messages = sys.argv[1:]
    terminal.PROGRAM[0] = program
    terminal.Screen = StyledScreen
    chat = terminal.Terminal("--temp", "0", "-n", "200", cols=COLS, rows=ROWS, model=model)
    chat.ready()
    for message in messages:
        before = chat.raw.count(b"> ")
        chat.keys(message + "\r")
        chat.until(lambda: chat.screen.lines()[-1:] == [">"] and chat.screen.x == 2
                   and chat.raw.count(b"> ") > before, f"no answer to {message!r}", seconds=300)
    pathlib.Path(target).write_text(svg(chat.screen, f"A chat with {pathlib.Path(model).name} in a terminal"))
    chat.close()


if __name__ == "__main__":
    main()
