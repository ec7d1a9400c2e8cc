#!/usr/bin/env python3
"""llama.cpp's tests of answers, read from its source: the same answers in our hands say the same.
SPDX-License-Identifier: MIT

    tools_llama.py TOOLS_TEST LLAMA_CPP_SOURCE [LINE]

Nothing of these tests is kept here.  Each is a template, tools, what a model wrote, and the message that it
is; marks that look like control tokens (<|...|>) count as such.  Left out: tests of a response format, and
of a conversation that is continued.  DIFFERENT says where another message is meant.  LINE: only that test.
"""
import collections, json, pathlib, re, subprocess, sys

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
TEXT = (SOURCE / "tests" / "test-chat.cpp").read_text(encoding="utf-8")
DIFFERENT = {       # of a template: how many may differ, and why
    "Apriel-1.6-15b-Thinker-fixed": (2, "the first words of reasoning, which the prompt has, are no part"),
    "LFM2.5-8B-A1B": (1, "control tokens within reasoning are not shown"),
    "Kimi-K3": (3, "messages with headers of their own: docs/tools.md"),
    "MiniMax-M3": (17, "arguments in nested tags that are named like the keys: docs/tools.md"),
    "Qwen3.5-4B": (1, "<think> at the beginning of reasoning that the prompt has begun is a mark"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": (1, "a call in another family's marks, within reasoning"),
    "muse-glimmer": (1, "messages with headers of their own: docs/tools.md"),
    "openai-gpt-oss-120b": (2, "what is said to a tool that was not given is shown, not dropped"),
}
LEFT_OUT = {"json_schema", "continue_final_message"}
TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s"]*)\((?P<raw>.*?)\)(?P=d)"'
                   r'|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[A-Za-z_]\w*(?:::\w+)*)|(?P<number>\d[\w.]*)'
                   r"|(?P<mark>'(?:[^'\\]|\\.)'|.)", re.S)
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.S)
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
CONTROL = re.compile(r"<\|[^<>|\s]+\|>|<\|[a-z_\"]+>|<[a-z_]+\|>")


class Unknown(Exception):
    """C++ that is not translated."""


def unescape(text):
    def one(m):
        what = m[1]
        if what[0] in "xuU":
            return chr(int(what[1:], 16))
        return LETTERS.get(what, what)
    return ESCAPE.sub(one, text)


def tokens():
    """(kind, text, place) of the source; texts side by side are one."""
    out = []
    for m in TOKEN.finditer(TEXT):
        kind = m.lastgroup
        if kind is None:
            continue
        value = unescape(m[kind]) if kind == "text" else m[kind]
        kind = "text" if kind in ("raw", "d") else kind
        value = m["raw"] if m["raw"] is not None else value
        if kind == "text" and out and out[-1][0] == "text":
            out[-1] = ("text", out[-1][1] + value, out[-1][2])
        else:
            out.append((kind, value, m.start()))
    return out


TOKENS = tokens()


def message(content="", reasoning="", *calls):
    return {"content": content, "reasoning": reasoning, "calls": [list(c[:2]) for c in calls if c[0]]}


MAKERS = {
    "simple_assist_msg": lambda text="", why="", name="", args="", id="": message(text, why, (name, args)),
    "message_with_tool_calls": lambda name, args: message("", "", (name, args)),
    "message_with_tool_calls_and_reasoning": lambda name, args, why: message("", why, (name, args)),
    "message_with_content_and_tool_call": lambda text, name, args: message(text, "", (name, args)),
    "message_with_reasoning_and_tool_call": lambda why, name, args: message("", why, (name, args)),
    "message_with_reasoning_content_and_multiple_tool_calls":
        lambda why, text, calls: message(text, why, *calls),
    "std::string": lambda text: text,
}


class Reader:
    """Reads an expression of texts, lists and makers of messages."""
    def __init__(self, at, names):
        self.at, self.names = at, names

    def next(self):
        self.at += 1
        return TOKENS[self.at - 1]

    def is_mark(self, mark):
        return TOKENS[self.at][0] == "mark" and TOKENS[self.at][1] == mark

    def expression(self):
        value = self.one()
        while self.is_mark("+"):
            self.at += 1
            value = value + self.one()
        return value

    def one(self):
        kind, value, _ = self.next()
        if kind in ("text", "number"):
            return value
        if kind == "mark" and value == "-":
            return self.one()
        if kind == "mark" and value == "{":
            self.at -= 1
            return self.list("{", "}")
        if kind != "word":
            raise Unknown(value)
        if self.is_mark("(") or self.is_mark("{"):
            given = self.list("(", ")") if self.is_mark("(") else [self.one()]
            if value not in MAKERS:
                raise Unknown(value)
            return MAKERS[value](*given)
        if value in ("true", "false"):
            return value == "true"
        return self.names.get(value, value)

    def list(self, begin, end):
        out = []
        if not self.is_mark(begin):
            raise Unknown(begin)
        self.at += 1
        while not self.is_mark(end):
            out.append(self.expression())
            if self.is_mark(","):
                self.at += 1
        self.at += 1
        return out


def names_of():
    """Tools and messages that have a name; templates that a function is called with."""
    names, paths = {}, collections.defaultdict(list)
    for i in range(len(TOKENS) - 3):
        (_, a, _), (kind, b, _), (next_kind, c, _) = TOKENS[i:i + 3]
        try:
            if a == "common_chat_tool" and kind == "word" and c == "{":
                name, about, schema = Reader(i + 2, names).one()
                names[b] = {"type": "function", "function": {"name": name, "description": about,
                                                             "parameters": json.loads(schema)}}
            elif a in ("common_chat_msg", "std::string") and kind == "word" and c == "=":
                names[b] = Reader(i + 3, names).expression()
        except (Unknown, TypeError, ValueError):
            pass
        if a.startswith("test_") and b == "(" and next_kind == "text":
            paths[a].append(c)
    return names, paths


def test_at(i, names):
    """The test that begins with TOKENS[i], tst.test(...) and what is asked of it."""
    reader = Reader(i + 3, names)
    t = {"text": reader.list("(", ")")[0], "tools": [], "line": TEXT.count("\n", 0, TOKENS[i][2]) + 1}
    said, asked = message(), set()
    while reader.is_mark("."):
        name = (reader.next(), reader.next())[1][1]
        given = reader.list("(", ")")
        asked.add(name)
        if name == "expect":
            if not isinstance(given[0], dict):
                raise Unknown(given[0])
            said = dict(given[0])
        elif name.startswith("expect_") and given:
            said[{"expect_tool_calls": "calls"}.get(name, name[7:])] = given[0]
        elif given:
            t[name] = given[0]
    if asked & LEFT_OUT or t.get("add_generation_prompt") is False or not isinstance(t["text"], str):
        raise Unknown(t["line"])
    return dict(t, said=said)


def tests():
    """Each test with each of its templates; None where it is not translated."""
    names, paths = names_of()
    function, current = "", []
    for i in range(len(TOKENS) - 6):
        value, after = TOKENS[i][1], [t[1] for t in TOKENS[i + 1:i + 4]]
        if value == "void" and TOKENS[i + 1][0] == "word":
            function = after[0]
        elif value == "peg_tester" and after[0] == "(":
            current = [after[1]] if TOKENS[i + 2][0] == "text" else paths[function]
        elif value.startswith("tst") and after == [".", "test", "("]:
            try:
                t = test_at(i, names)
                yield from (dict(t, template=path) for path in current)
            except (Unknown, TypeError, IndexError, AttributeError):
                yield None


def read(arguments):
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments.strip()


def plain(content, reasoning, calls):
    return (content or "").strip(), (reasoning or "").strip(), [[name, read(args)] for name, args in calls]


def messages(asked):
    """What our reader says of each."""
    lines = []
    for t in asked:
        text = t["text"]
        kwargs = {"functions": "", "datetime": "", "enable_thinking": t.get("enable_thinking", True)}
        spans = [[len(text[:m.start()].encode()), len(m[0].encode())] for m in CONTROL.finditer(text)]
        asks = {"template": str(SOURCE / t["template"]), "kwargs": kwargs, "controls": spans}
        lines.append(json.dumps(dict(asks, tools=t["tools"], text=text)))
    run = subprocess.run([PROGRAM, "--answers"], input="\n".join(lines) + "\n", stdout=subprocess.PIPE,
                         text=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def main():
    found = list(tests())
    asked = [t for t in found if t and (SOURCE / t["template"]).exists()]
    only = int(sys.argv[3]) if len(sys.argv) > 3 else None
    asked = [t for t in asked if only in (None, t["line"])]
    got = messages(asked)
    different, failed = collections.Counter(), []
    for t, m in zip(asked, got):
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls", [])]
        ours = plain(m.get("content"), m.get("reasoning_content"), calls)
        said = plain(t["said"]["content"], t["said"]["reasoning"], [c[:2] for c in t["said"]["calls"]])
        apart = t.get("reasoning_format", "").rpartition("_")[2] not in ("", "NONE")
        same = ours == said or (not apart and not said[1] and ours[2] == said[2])
        if same and only is None:
            continue
        name = pathlib.Path(t["template"]).stem
        different[name] += 1
        if different[name] > DIFFERENT.get(name, (0,))[0] or only:
            failed.append(f"line {t['line']}, {name}:\n  {t['text']!r}\n  ours   {ours}\n  theirs {said}")
    print(f"{len(asked)} answers of {len({t['template'] for t in asked})} templates, "
          f"{len(found) - len(asked)} left out, {sum(different.values())} differ, {len(failed)} of them "
          f"without a known reason")
    print("\n".join(failed))
    return 1 if failed or len(got) != len(asked) or len(asked) < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
