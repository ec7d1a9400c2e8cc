#!/usr/bin/env python3
"""Draws the plots in docs/plots from the tables of the pages that show them.  Standard library only.
SPDX-License-Identifier: MIT

    python3 tools/plot.py            writes every plot
    python3 tools/plot.py --check    reports plots that differ from their tables
"""
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "plots"
WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 76, 56
COLOURS = ("#0b6e4f", "#c8553d", "#5b6ee1", "#8a6d1d")
MARKS = ("circle", "square", "diamond", "triangle")


def table(page, header):
    """Rows of the table whose first line begins with header, as lists of cells; empty cells of the first
    column repeat the one above."""
    lines = iter((ROOT / "docs" / page).read_text().splitlines())
    if not any(line.startswith(header) for line in lines):
        sys.exit(f"docs/{page}: no table begins with {header}")
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = [c.strip() for c in line.strip("|").split("|")]
        cells[0] = cells[0] or rows[-1][0]
        rows.append(cells)
    return rows


def number(cell):
    found = re.search(r"\d[\d,]*(\.\d+)?", cell)
    return float(found[0].replace(",", "")) if found else None


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;")


def short(value):
    return f"{value:g}"


class Axis:
    """Maps values to positions between begin and end; ticks are the values that get a label."""

    def __init__(self, low, high, begin, end, log=False, ticks=None):
        self.low, self.high, self.begin, self.end, self.log = low, high, begin, end, log
        self.ticks = ticks or self.steps()

    def steps(self):
        step = 10 ** math.floor(math.log10(self.high - self.low))
        step = next(s for s in (step / 5, step / 2, step, 2 * step) if (self.high - self.low) / s <= 8)
        first = math.ceil(self.low / step)
        return [round(i * step, 6) for i in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def at(self, value):
        of = math.log if self.log else float
        share = (of(value) - of(self.low)) / (of(self.high) - of(self.low))
        return round(self.begin + share * (self.end - self.begin), 1)


def text(x, y, what, size=13, anchor="middle", weight="normal", turn=""):
    return (f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"{turn}>'
            f"{escape(what)}</text>")


def mark(shape, x, y, colour):
    if shape == "circle":
        return f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>'
    points = {"square": ((-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)),
              "diamond": ((0, -6), (6, 0), (0, 6), (-6, 0)),
              "triangle": ((0, -6), (5.5, 4.5), (-5.5, 4.5))}[shape]
    drawn = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points)
    return f'<polygon points="{drawn}" fill="{colour}"/>'


def frame(title, names, body, bars=False):
    """The whole picture: title, legend and what is drawn."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#222" role="img">',
           f"<title>{escape(title)}</title>",
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           text(LEFT, 26, title, 16, "start", "bold")]
    x = LEFT + 6
    for i, name in enumerate(names):
        out.append(mark("square" if bars else MARKS[i], x, 47, COLOURS[i]))
        out.append(text(x + 11, 52, name, 13, "start"))
        x += 40 + 7.6 * len(name)
    return "\n".join(out + body + ["</svg>"]) + "\n"


def axes(x, y, x_title, y_title):
    out = []
    for value in y.ticks:
        at = y.at(value)
        out.append(f'<line x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}" stroke="#ddd"/>')
        out.append(text(LEFT - 8, at + 4, short(value), 12, "end"))
    for value in x.ticks if x else ():
        at = x.at(value)
        out.append(f'<line x1="{at}" y1="{TOP}" x2="{at}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
        out.append(text(at, HEIGHT - BOTTOM + 18, short(value), 12))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_title))
    out.append(text(20, middle, y_title, turn=f' transform="rotate(-90 20 {middle})"'))
    return out


def points(title, x_title, y_title, series, x, y, lines=False, labels=()):
    """series: [(name, [(x, y, label)])]; x, y: arguments of their axes; labels: names whose points have one,
    to the right of a point or, if there are lines, below it."""
    x = Axis(x[0], x[1], LEFT, WIDTH - RIGHT, *x[2:])
    y = Axis(y[0], y[1], HEIGHT - BOTTOM, TOP, *y[2:])
    body = axes(x, y, x_title, y_title)
    for i, (name, values) in enumerate(series):
        places = [(x.at(a), y.at(b)) for a, b, _ in values]
        if lines:
            drawn = " ".join(f"{a},{b}" for a, b in places)
            body.append(f'<polyline points="{drawn}" fill="none" stroke="{COLOURS[i]}" stroke-width="2"/>')
        for (a, b), (_, _, label) in zip(places, values):
            body.append(mark(MARKS[i], a, b, COLOURS[i]))
            if name in labels:
                body.append(text(a, b + 18, label, 11) if lines else text(a + 9, b + 4, label, 11, "start"))
    return frame(title, [name for name, _ in series], body)


def bars(title, y_title, names, groups, most, base=None):
    """groups: [(label, [value or None for each name])]; base: a value that gets a line."""
    y = Axis(0, most, HEIGHT - BOTTOM, TOP)
    body = axes(None, y, "", y_title)
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    wide = room * 0.8 / len(names)
    for g, (label, values) in enumerate(groups):
        begin = LEFT + g * room + room * 0.1
        for i, value in enumerate(values):
            if value is None:
                continue
            at = y.at(value)
            body.append(f'<rect x="{begin + i * wide:.1f}" y="{at}" width="{wide - 2:.1f}" '
                        f'height="{HEIGHT - BOTTOM - at:.1f}" fill="{COLOURS[i]}"/>')
            body.append(text(round(begin + i * wide + wide / 2 - 1, 1), round(at - 4, 1), short(value), 11))
        for n, part in enumerate(label.split("\n")):
            body.append(text(round(begin + room * 0.4, 1), HEIGHT - BOTTOM + 17 + 15 * n, part, 11))
    if base is not None:
        at = y.at(base)
        body.append(f'<line x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}" stroke="#222"/>')
    return frame(title, names, body, bars=True)


# ---- the plots ----

def size_perplexity():
    series = {"libqsf": [], "llama.cpp": [], "ik_llama.cpp": []}
    for file, mb, perplexity, *_ in table("quantisers.md", "| file | MB | perplexity | KL |"):
        engine, kind = file.split(" ", 1)
        series["libqsf" if engine == "QSF" else engine].append((number(mb), number(perplexity), kind))
    return points("SmolLM2-135M: file size and perplexity (lower left is better)", "file, MB",
                  "perplexity on WikiText-2", list(series.items()), (40, 160),
                  (20, 65, True, (20, 25, 30, 40, 50, 60)), labels=("libqsf", "llama.cpp"))


def memory():
    names = {"SmolLM2-135M": "SmolLM2-135M, QSF", "Qwen2.5-Coder-0.5B": "Qwen2.5-Coder-0.5B, QSF",
             "the same as Q4_K_M": "Qwen2.5-Coder-0.5B, GGUF"}
    series = {name: [] for name in names.values()}
    for model, _, _, peak, speed, *_ in table("memory.md", "| model | budget | planned | peak |"):
        name = next((n for start, n in names.items() if model.startswith(start)), None)
        if name:
            series[name].append((number(peak), number(speed.split(",")[1]), ""))
    return points("Answers within a memory budget", "peak resident memory, MB", "tokens a second",
                  list(series.items()), (10, 600, True, (10, 20, 50, 100, 200, 500)),
                  (5, 320, True, (5, 10, 20, 50, 100, 200)), lines=True)


def shapes():
    groups = []
    for name, _, _, prompt, _, _, answer in table("performance.md", "| shape | prompt, llama.cpp |"):
        name = re.sub(r"-(?=\d|base|e2b)", "\n", name.rstrip(" +"), count=1)
        groups.append((name, [number(prompt), number(answer)]))
    return bars("Speed in multiples of llama.cpp's, same file, two threads of Zen 4",
                "times llama.cpp's speed", ["prompt", "answer"], groups, 5, base=1)


def server():
    groups = []
    for model, clients, ours, theirs, *_ in table("serve.md", "| model | clients | qsf-serve |"):
        model = model.split()[0].split("-")[0]
        groups.append((f"{model}\n{clients} client" + "s" * (clients != "1"), [number(ours), number(theirs)]))
    return bars("Server throughput, two threads of Zen 3", "tokens a second, all clients",
                ["qsf-serve", "llama-server"], groups, 240)


def kv_cache():
    names = ("SmolLM2-135M", "Gemma 3 270M", "Qwen2.5-Coder-0.5B")
    series = {name: [] for name in names}
    for kind, size, *models in table("kv-cache.md", "| keys and values | size |"):
        for name, cell in zip(names, models):
            loss = float(cell.split(", ")[1])
            if size and loss:
                series[name].append((number(size), loss, kind.strip("`")))
    return points("KV cache: size and loss", "size of a position, % of f16", "mean KL divergence from f16",
                  list(series.items()), (0, 60), (0.001, 4, True, (0.001, 0.01, 0.1, 1)),
                  lines=True, labels=("Qwen2.5-Coder-0.5B",))


def busy():
    names = ("libqsf", "libqsf, one thread", "libqsf before", "llama.cpp")
    rows = table("performance.md", "| busy processes | one thread | all threads |")
    columns = [(number(r[0]), number(r[3]), number(r[1]), number(r[5]), number(r[7])) for r in rows]
    series = [(name, [(r[0], r[1 + i], "") for r in columns]) for i, name in enumerate(names)]
    return points("Answers on a busy machine, SmolLM2-135M, two threads of Zen 3", "busy processes",
                  "tokens a second", series, (0, 4, False, (0, 1, 2, 4)), (0, 250), lines=True)


def ternary():
    groups = []
    for engine, file, prompt, answer in table("performance.md", "| | file | prompt of 512, tok/s |"):
        kinds = {"TQ2_0": "TQ2_0", "qsf-convert": "ternary2", "ternary5": "ternary5"}
        kind = next((kinds[k] for k in kinds if k in file), "I2_S" if "I2_S" in file else "ternary5")
        speed = number(prompt) if prompt[0].isdigit() else None
        groups.append((engine.replace(", AVX2 only", " (AVX2)") + "\n" + kind, [speed, number(answer)]))
    return bars("2.4 billion ternary weights, two threads of Zen 4", "tokens a second", ["prompt", "answer"],
                groups, 160)


PLOTS = {"size-perplexity": size_perplexity, "memory": memory, "shapes": shapes, "server": server,
         "kv-cache": kv_cache, "busy": busy, "ternary": ternary}


def main():
    wrong = []
    for name, draw in PLOTS.items():
        path, drawn = FOLDER / f"{name}.svg", draw()
        if sys.argv[1:] != ["--check"]:
            path.write_text(drawn)
        elif not path.exists() or path.read_text() != drawn:
            wrong.append(f"docs/plots/{name}.svg is not what its table gives: run python3 tools/plot.py")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
