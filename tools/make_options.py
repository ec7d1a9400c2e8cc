#!/usr/bin/env python3
"""Writes what follows from the lists of options, the rows of core/engine/options.c.
SPDX-License-Identifier: MIT

    python3 tools/make_options.py            writes the files below
    python3 tools/make_options.py --check    reports which of them do not match the lists

- js/context_options.js, from which js/options.js has the checks and the defaults of load() and generate();
- in js/index.d.ts, for each member of LoadOptions and GenerateOptions that is an option of a list: its type,
  and the sentence of its comment that begins with "Default" or "A whole number" or "A number";
- in docs/wasm.md, the table of what load() takes; in docs/sampling.md, that of samplers.

tools/make_api.py puts the lists into docs/api.md.
"""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "core" / "engine" / "options.c"
SCRIPT, TYPES = ROOT / "js" / "context_options.js", ROOT / "js" / "index.d.ts"
PROGRAM, PAGE = ROOT / "js" / "cli.js", ROOT / "docs" / "wasm.md"
SAMPLING = ROOT / "docs" / "sampling.md"

# What load() calls them.
NAMES = {
    "ram-budget": "memory",
    "threads": "threads",
    "ctx-size": "contextLength",
    "batch-size": "batch",
    "kv-type": "kv",
    "kv-window": "kvWindow",
    "kv-sinks": "kvSinks",
    "kv-heavy": "kvHeavy",
    "kv-may-drop": "kvMayDrop",
    "head-topk": "head",
    "quality": "quality",
    "early-exit": "earlyExit",
    "act-quant": "actQuant",
    "kernel-route": "kernelRoute",
    "adapter-memory": "adapterMemory",
    "first-stage": "firstStage",
    "gpu-stream": "gpuStream",
}
# One sequence runs, guesses choose the rows with logits, a module is one instruction set, and
# load() has words for the others.
NOT_LOADED = {"seqs", "logits", "f32", "isa", "check-every", "device-layers"}
# generate() takes every option of samplers but these, topNSigma for top-n-sigma, and those of turns
# below.
NOT_GENERATED = {"samplers"}
TURN_NAMES = {"min-tokens": "minTokens", "ignore-end": "ignoreEnd", "reasoning-budget": "reasoningBudget"}


class Option:
    """A row: kind is "flag", "whole", "number", "choice" or "text"."""

    def __init__(self, kind, name, least, most, value, choices, unit, text):
        self.kind, self.name, self.unit, self.help = kind, name, unit, text
        self.least, self.most, self.value, self.choices = least, most, value, choices


def arguments(text):
    """The parts between commas, with adjacent C strings joined."""
    parts = re.findall(r'((?:"(?:[^"\\]|\\.)*"\s*)+|[^,"]+)(?:,|$)', text)
    texts = [re.findall(r'"(?:[^"\\]|\\.)*"', p) for p in parts]
    return ["".join(map(ast.literal_eval, t)) if t else p.strip() for t, p in zip(texts, parts)]


def constants():
    """The numbers that rows name."""
    known = {"NULL": None}
    for path in (LIST, ROOT / "core" / "base" / "pool.h", ROOT / "include" / "qsf.h"):
        said = re.findall(r"\b([A-Z][A-Z0-9_]+)\s*=\s*(\d+(?: << \d+)?)\s*[,} ]", path.read_text())
        for name, value in said:
            left, _, right = value.partition(" << ")
            known[name] = int(left) << int(right or 0)
    return known


def number(text, known):
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * (known[text] if text in known else float(text) if "e" in text or "." in text else int(text))


def options(which="context"):
    """The rows of a list, in order: of "context", "sampler" or "turn"."""
    text, known = LIST.read_text(), constants()
    text = text[text.index(f"{which}_rows[] = {{") :]
    text = text[: text.index("\n};")]
    found = []
    for kind, inside in re.findall(r"^    ([A-Z]+)\((.*?)\),$", text, re.M | re.S):
        a = arguments(" ".join(inside.split("\n")))
        n = [number(x, known) if x.lstrip("-") in known or re.fullmatch(r"-?\d[\w.]*", x) else x for x in a]
        if kind == "FLAG":
            row = Option("flag", a[0], 0, 1, n[2], None, "", a[3])
        elif kind == "SEED":
            row = Option("whole", a[0], 0, n[2], n[3], None, "", a[4])
        elif kind in ("WHOLE", "SIGNED", "COUNT"):
            row = Option("whole", a[0], n[2], n[3], n[4], None, a[5], a[6])
        elif kind == "MEGABYTES":
            row = Option("number", a[0], 0, n[2], n[3], None, "MB", a[4])
        elif kind == "NUMBER":
            row = Option("number", a[0], n[2], n[3], n[4], None, a[5], a[6])
        elif kind == "CHOICE":
            row = Option("choice", a[0], 0, n[2], n[3], a[4].split("|"), "", a[5])
            if row.most + 1 != len(row.choices):
                sys.exit(f"{LIST}: {a[0]} has {len(row.choices)} words and a range of {row.most + 1}")
        elif kind in ("TEXT", "STAGES"):
            row = Option("text", a[0], 0, 0, 0, None, "", a[2])
        else:
            sys.exit(f"{LIST}: a row {kind} is unknown to {pathlib.Path(__file__).name}")
        found.append(row)
    wrong = {o.name for o in found} ^ (NAMES.keys() | NOT_LOADED)
    if wrong and which == "context":
        sys.exit(f"{', '.join(sorted(wrong))}: NAMES or NOT_LOADED of {__file__} are not those of {LIST}")
    return found


def camel(name):
    """topNSigma"""
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)


def generated():
    """What generate() takes of the lists: pairs of a name there and an option."""
    of_turns = [(TURN_NAMES[o.name], o) for o in options("turn") if o.name in TURN_NAMES]
    return [(camel(o.name), o) for o in options("sampler") if o.name not in NOT_GENERATED], of_turns


def loads(found):
    """The same of load()."""
    return [(NAMES[o.name], o) for o in found if o.name in NAMES]


def plain(value):
    """10000000, 0.5"""
    return str(int(value)) if value == int(value) else repr(value)


def default(o):
    """The default as JavaScript writes it."""
    if o.kind == "choice":
        return f"'{o.choices[int(o.value)]}'"
    return ("true" if o.value else "false") if o.kind == "flag" else plain(o.value)


def script_table(name, rows):
    lines = []
    for called, o in rows:
        inside = f"words: [{', '.join(repr(c) for c in o.choices)}], " if o.choices else ""
        if o.kind in ("whole", "number"):
            inside = f"least: {plain(o.least)}, most: {plain(o.most)}, "
        row = f"{{name: '{o.name}', kind: '{o.kind}', {inside}value: {default(o)}}}"
        lines.append(f"  {called}: {row},\n")
    return f"export const {name} = {{\n" + "".join(lines) + "};\n"


def script(found):
    of_samplers, of_turns = generated()
    return ("/* What load() may be asked of a context, and generate() of a sampler and a turn, by the names\n"
            " * that they and the engine use.\n"
            " * tools/make_options.py makes it from core/engine/options.c: change that file, not this one.\n"
            " * SPDX-License-Identifier: MIT */\n" + script_table("CONTEXT", loads(found)) +
            script_table("SAMPLER", of_samplers) + script_table("TURN", of_turns))


def sentence(o):
    """What a comment of index.d.ts says of the values."""
    if o.kind in ("choice", "flag"):
        return f"Default {default(o)}."
    number_ = "A whole number" if o.kind == "whole" else "A number"
    return f"{number_} from {plain(o.least)} to {plain(o.most)}; default {default(o)}."


# The sentence, of which a line of the comment may end inside.
SAID = r"(?:A(?: whole)? number from \S+ to \S+; default|Default) (?:'\w+'|-?[\w.]*\w)\."
SAID = re.compile(SAID.replace(" ", r"\s+(?:\*\s+)?"))


def same_or(old, new):
    """A sentence that may span two lines of a comment, if it equals the new one."""
    return old if re.sub(r"\s+(?:\*\s+)?", " ", old) == new else new


def types_of(interface, rows, text):
    """index.d.ts with one interface's types and sentences."""
    begin = text.index(f"export interface {interface} {{")
    end = text.index("\n}", begin)
    inside = text[begin:end]
    for called, o in rows:
        type_ = {"whole": "number", "number": "number", "flag": "boolean"}.get(o.kind)
        type_ = type_ or " | ".join(f"'{c}'" for c in o.choices)
        member = re.search(rf"  /\*\*((?:(?!\*/).)*)\*/\n  {called}\?: [^;]*;", inside, re.S)
        if not member:
            sys.exit(f"{TYPES}: {interface} has no member {called} with a comment")
        comment, n = SAID.subn(lambda m: same_or(m[0], sentence(o)), member[1])
        if n != 1:
            sys.exit(f"{TYPES}: the comment of {called} needs the sentence: {sentence(o)}")
        made = f"  /**{comment}*/\n  {called}?: {type_};"
        inside = inside[: member.start()] + made + inside[member.end() :]
    return text[:begin] + inside + text[end:]


def types(found, text):
    of_samplers, of_turns = generated()
    return types_of("GenerateOptions", of_samplers + of_turns, types_of("LoadOptions", loads(found), text))


def table(found):
    """The list as Markdown."""
    rows = ["| option | values | default | |", "|---|---|---|---|"]
    for o in found:
        values = {"flag": "`true`, `false`", "text": "a name"}.get(o.kind)
        if o.kind == "choice":
            values = ", ".join(f"`{c}`" for c in o.choices)
        elif not values:
            values = f"{plain(o.least)} to {plain(o.most)}{' ' + o.unit if o.unit else ''}"
        values = "names or letters" if o.name == "samplers" else values
        value = default(o).strip("'") if o.kind != "text" else ""
        rows.append(f"| `{o.name}` | {values} | {value} | {o.help} |")
    return "\n".join(rows)


def loaded(found, text):
    """docs/wasm.md with its table."""
    given = dict((b, f"`--{a}`") for a, b in re.findall(r"'?([\w-]+)'?: '(\w+)'", PROGRAM.read_text()))
    rows = ["| `load()`, `estimate()` | values | default | `npx qsf` | `qsf_context_option` |"]
    rows.append("|---|---|---|---|---|")
    for o in found:
        if o.name not in NAMES:
            continue
        if o.choices:
            values = " ".join(o.choices)
        else:
            values = f"{plain(o.least)} to {plain(o.most)}" if o.kind in ("whole", "number") else ""
        name = NAMES[o.name]
        rows.append(f"| `{name}` | {values or 'true, false'}{' MB' if o.unit == 'MB' else ''} | "
                    f"{default(o)} | {given.get(name, '')} | `{o.name}` |")
    rows.append("| `check` | first every | 'first' | `--check` | `check-every` |")
    begin = text.index("| `load()`, `estimate()` |")
    return text[:begin] + "\n".join(rows) + text[text.index("\n\n", begin) :]


def sampled(text):
    """docs/sampling.md with its table."""
    begin = text.index("| option | values |")
    return text[:begin] + table(options("sampler")) + text[text.index("\n\n", begin) :]


def main():
    found = options()
    made = {SCRIPT: script(found)}
    made[TYPES] = types(found, TYPES.read_text())
    made[PAGE] = loaded(found, PAGE.read_text())
    made[SAMPLING] = sampled(SAMPLING.read_text())
    for path, text in made.items():
        if path.exists() and path.read_text() == text:
            continue
        if sys.argv[1:] == ["--check"]:
            name = path.relative_to(ROOT)
            sys.exit(f"{name} is not what the list of options says: run python3 tools/make_options.py")
        path.write_text(text)


if __name__ == "__main__":
    main()
