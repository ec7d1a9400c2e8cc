#!/usr/bin/env python3
"""Writes the table in docs/tools.md of how templates write calls and reasoning, as the library finds it.
SPDX-License-Identifier: MIT

    python3 tools/make_tools.py TOOLS_TEST [--shared DIR]            writes the table
    python3 tools/make_tools.py TOOLS_TEST [--shared DIR] --check    says whether it is what is found

TOOLS_TEST is the program tools_test of a build; the templates are those in DIR/data/templates.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tools.md"
BEGIN, END = "<!-- made by tools/make_tools.py -->\n", "<!-- end of the table -->\n"
STYLES = "object json tags quoted python channels".split()
TEXTS = ("section open id arguments key value type value_begin value_end close between section_end reasoning "
         "reasoning_end text text_end name_key arguments_key id_key wrap_key prompt").split()


def quoted(text):
    return json.dumps(text, ensure_ascii=False).replace("\\u0001", '"ID"') if text else ""


def calls(style, t):
    """A call in the style's form, and the marks around the calls."""
    if style == "channels":
        return '" to=functions."NAME"<|channel|>commentary json<|message|>"ARGUMENTS', "", ""
    before, close = quoted(t["open"]), quoted(t["close"])
    between_name = (quoted(t["id"]) + "ID" if t["id"] else "") + quoted(t["arguments"])
    if style == "object":
        name = "NAME: ARGUMENTS"
        if t["name_key"]:
            name = f'"{t["name_key"]}": NAME, "{t["arguments_key"]}": ARGUMENTS'
        body = "{" + name + (f', "{t["id_key"]}": ID' if t["id_key"] else "") + "}"
        if t["wrap_key"]:
            body = '{"' + t["wrap_key"] + '": ' + body + "}"
    elif style == "json":
        body = f"NAME{between_name}ARGUMENTS"
    elif style == "tags":
        kind = "TYPE" + quoted(t["value_begin"]) if t["type"] else ""
        body = (f"NAME{between_name}({quoted(t['key'])}KEY{quoted(t['value'])}{kind}VALUE"
                f"{quoted(t['value_end'])})*")
    elif style == "quoted":
        body = f'NAME{{KEY:VALUE,...}} (texts in {t["key"]})'
    else:
        body = "NAME(KEY=VALUE, ...)"
    return before + body + close, t["section"], t["section_end"]


def code(text):
    fence = "`" if "`" not in text else "````"
    edge = " " if len(fence) > 1 else ""
    return fence + edge + text.replace("|", "\\|") + edge + fence if text else ""


def row(line):
    path, style, flags, *texts = line.rstrip("\n").split("\t")
    several, shown, tools, reasoning, inside, thinking = (c == "1" for c in flags)
    t = {k: json.loads(f'"{x}"') for k, x in zip(TEXTS, texts)}
    style = STYLES[int(style)]
    call, section, section_end = calls(style, t)
    plain = not shown and style == "object" and t["open"] == "<tool_call>\n"
    thought = " ... ".join(code(quoted(t[k].strip())) for k in ("reasoning", "reasoning_end"))
    return [pathlib.Path(path).stem, style if shown else "plain" if plain else f"{style}, known", code(call),
            code(quoted(section)), code(quoted(section_end)), "several" if several else "one",
            "channel `analysis`" if style == "channels" else thought,
            "always begun" if inside else "begun with `enable_thinking`" if thinking else "",
            "yes" if tools else "no"]


def made(program, shared):
    files = sorted(str(p) for p in (pathlib.Path(shared) / "data" / "templates").glob("*.jinja"))
    found = subprocess.run([program, "--forms", *files], capture_output=True, text=True, encoding="utf-8",
                           check=True)
    head = ["template", "style", "a call", "before all", "after all", "calls", "reasoning", "by the prompt",
            "lists tools"]
    table = [head, ["---"] * len(head)] + [row(line) for line in found.stdout.splitlines()]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in table)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("--shared", default=os.environ.get("QSF_SHARED_DIR", str(ROOT.parent / "shared")))
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not tail:
        sys.exit(f"{PAGE}: the lines {BEGIN.strip()} and {END.strip()} are not there")
    new = head + BEGIN + made(args.program, args.shared) + END + tail
    if not args.check:
        PAGE.write_text(new, encoding="utf-8")
    elif page != new:
        sys.exit("docs/tools.md is not what templates show: run python3 tools/make_tools.py, which says how")


if __name__ == "__main__":
    main()
