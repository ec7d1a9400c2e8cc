#!/usr/bin/env python3
"""Conversations in JSON through chat templates: the same text as transformers makes, and no control
token from the contents of messages.
SPDX-License-Identifier: MIT

    chat_exact.py CHAT_TEST [--models DIR] [--shared DIR] [--templates DIR]... [--verbose]

Unadapted messages are compared byte for byte with Python's jinja2, with continue_final_message done as
transformers does it; if jinja2 refuses, we have to.  Messages that are adapted are compared with what
jinja2 makes of the form that a template takes.  Hostile contents must not change the control tokens of
a conversation."""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile
from jinja_env import template

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "tools"), str(TESTS / "core" / "tokens")]   # gguf_reader, tokenizer_exact
def user(content): return {"role": "user", "content": content}
def system(content): return {"role": "system", "content": content}
def answer(content, **more): return {"role": "assistant", "content": content, **more}
def call(arguments, name="get_weather", ident="call0001a"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}
def result(content): return {"role": "tool", "name": "get_weather", "tool_call_id": "call0001a",
                             "content": content}

ARGUMENTS = {"city": "Orléans", "days": 2, "units": {"metric": True, "list": [1, 2.5, None]}}
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather <of> a \"place\".",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Where"},
                                                    "days": {"type": "integer"}}, "required": ["city"]}}}]
HI = user("Hi")
CONVERSATIONS = {
    "one turn": [HI], "system": [system("Be brief."), HI], "answered": [HI, answer("Hello!")],
    "turns": [system("Be brief."), HI, answer("Hello!"), user("And?"), answer("Fine."), user("Bye")],
    "blanks": [system(" \n S \n"), user("  u\n\n"), answer("\n\n a "), user("\tv ")],
    "empty": [HI, answer(""), user("")],
    "lines": [user("a\nb 'c' \"d\" \\n {{ e }} é一😀 <|im_end|></s>")],
    "thinking": [HI, answer("<think>\nhm\n</think>\n\nHello!"), user("And?")],
    "reasoning": [HI, answer("Hello!", reasoning_content="hm"), user("And?"),
                  answer("No", reasoning_content="r")],
    "call": [user("Weather?"), answer("", tool_calls=[call(ARGUMENTS)])],
    "call and result": [user("Weather?"), answer("", tool_calls=[call(ARGUMENTS)]), result("Rain."),
                        answer("It rains."), user("Thanks")],
    "text and call": [user("Weather?"), answer("I look.", tool_calls=[call(ARGUMENTS)]), result("Rain.")],
    "arguments as text": [user("Weather?"), answer("", tool_calls=[call(json.dumps(ARGUMENTS))]),
                          result("Rain.")],
    "no content": [user("Weather?"), answer(None, tool_calls=[call(ARGUMENTS)]), result("Rain.")],
    "parts": [user([{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}])],
    "parts and a picture": [user([{"type": "image"}, {"type": "text", "text": "What is that?"}])],
    "two users": [HI, user("there")], "system alone": [system("s")], "answer first": [answer("Hi"), HI],
    "developer": [{"role": "developer", "content": "d"}, HI], "nothing": [],
    "200 turns": [m for i in range(100) for m in (user(f"question {i}"), answer(f"answer {i}"))]
                 + [user("end")],
}
KWARGS = [{}, {"enable_thinking": False},
          {"enable_thinking": True, "reasoning_effort": "low", "thinking": True}]
LAST = [answer("Hello there "), answer("  a\n\n"), answer("b"), answer(""), HI,
        answer([{"type": "text", "text": "p "}]), answer("x", reasoning_content="r"), answer(None),
        answer("é\u3000")]
MARK = "CONTINUE_FINAL_MESSAGE_TAG "
BOS, EOS = "<s>", "</s>"


class Refused(Exception):
    pass


def python(source, messages, tools=None, kwargs={}, generate=True):
    try:
        return template(source).render(messages=messages, tools=tools, documents=None,
                                       add_generation_prompt=generate, bos_token=BOS, eos_token=EOS, **kwargs)
    except Exception as error:
        raise Refused(str(error)) from None


def python_goes_on(source, messages):
    """As apply_chat_template does with continue_final_message."""
    *others, last = messages
    content, tagged = last["content"], last["content"]
    if isinstance(content, list):
        tagged = [dict(part) for part in content]
        part = next((p for p in reversed(tagged) if "text" in p), None)
        if not part:
            raise Refused("no text")
        content = part["text"]
        part["text"] += MARK
    elif content is None:
        raise Refused("no content")
    else:
        tagged = content + MARK
    text = python(source, [*others, last | {"content": tagged}], generate=False)
    if content.strip() not in text or MARK.strip() not in text:
        raise Refused("not in the text")
    at = text.rindex(MARK.strip())
    return text[:at] if text[at:at + len(MARK)] == MARK else text[:at].rstrip()


def ours(o, mode, records, bos=BOS, eos=EOS):
    """(status, text) of records: (source, messages, tools, kwargs, how, marks)."""
    with tempfile.NamedTemporaryFile(delete=False) as f:
        for source, messages, tools, kwargs, how, marks in records:
            fields = (source, json.dumps(messages), json.dumps(tools) if tools else "",
                      json.dumps(kwargs) if kwargs else "", bos, eos, how, "\n".join(marks))
            f.write(b"".join(x.encode() + b"\0" for x in fields))
    r = subprocess.run([o.chat_test, *mode, f.name], capture_output=True, check=True)
    out = r.stdout.decode().split("\0")
    os.unlink(f.name)
    assert len(out) == 2 * len(records) + 1, (len(out), len(records))
    return [(int(st), text) for st, text in zip(out[0::2], out[1::2])]


class Checks:
    def __init__(self, o):
        self.o, self.records, self.wanted, self.bad, self.n = o, [], [], [], 0

    def add(self, what, want, record):
        self.records.append(record)
        self.wanted.append((what, want))

    def run(self, mode):
        for (what, want), (st, text) in zip(self.wanted, ours(self.o, mode, self.records)):
            self.n += 1
            if isinstance(want, Refused) != (st != 0) or (not st and want != text):
                self.bad.append(f"{what}\n      ours   {st} {text[-600:]!r}\n"
                                f"      theirs {str(want)[-600:]!r}")


def expected(fn, *args, **more):
    try:
        return fn(*args, **more)
    except Refused as error:
        return error


def check_given(o, name, source):
    """As they are: what jinja2 writes, we write; what it refuses, we refuse."""
    c = Checks(o)
    for what, messages in CONVERSATIONS.items():
        for i, (tools, generate, kwargs) in enumerate([(None, True, KWARGS[0]), (TOOLS, False, KWARGS[1]),
                                                       (TOOLS, True, KWARGS[2])]):
            want = expected(python, source, messages, tools, kwargs, generate)
            c.add(f"{name}: {what}, {i}", want,
                  (source, messages, tools, kwargs, "rg" if generate else "r", []))
    for i, last in enumerate(LAST):
        messages = [HI, last]
        c.add(f"{name}: goes on {i}", expected(python_goes_on, source, messages),
              (source, messages, None, {}, "rgc", []))
    c.run(["--render"])
    return c


def forms(messages):
    """Of a conversation the forms that a template might take, the one as given first."""
    def content(m, fn): return m | {"content": fn(m.get("content"))}
    def text(c): return "\n".join(p["text"] for p in c) if isinstance(c, list) else c
    def parts(c): return [{"type": "text", "text": c}] if isinstance(c, str) else c
    def changed(k, fn):
        return k | {"function": k["function"] | {"arguments": fn(k["function"]["arguments"])}}
    def args(m, fn):
        return m | {"tool_calls": [changed(k, fn) for k in m["tool_calls"]]} if "tool_calls" in m else m
    for a in (lambda x: x, lambda x: json.loads(x) if isinstance(x, str) else x,
              lambda x: json.dumps(x, ensure_ascii=False) if isinstance(x, dict) else x):
        for c in (lambda x: x, text, parts, lambda x: x or ""):
            yield [args(content(m, c), a) for m in messages]


PYTHON = r"\{'(?:type|city)'|\bNone\b(?!\])|\\\"city"
ADAPTED = ["one turn", "turns", "call and result", "text and call", "arguments as text", "no content",
           "parts", "reasoning", "200 turns"]


def check_adapted(o, name, source):
    """Every conversation that a template can write in some form is accepted, and no text, name or argument is
    lost or shown as Python's."""
    c = Checks(o)
    for what in ADAPTED:
        messages = CONVERSATIONS[what]
        plain = [m for m in messages if m["role"] in ("user", "system")]
        possible = [t for t in (expected(python, source, f, TOOLS) for f in forms(messages))
                    if not isinstance(t, Refused)]
        if possible:
            c.add(f"{name}: {what}, adapted", possible, (source, messages, TOOLS, {}, "g", []))
        elif not isinstance(expected(python, source, [m for m in plain if m["role"] == "user"], TOOLS),
                          Refused) \
                and messages[0]["role"] == "system":
            c.add(f"{name}: {what}, without system", [], (source, messages, TOOLS, {}, "g", []))
    for (what, possible), record, (st, text) in zip(c.wanted, c.records, ours(o, ["--render"], c.records)):
        c.n += 1
        lost = [t for m in record[1] for t in texts_of(m) if t.strip() not in text
                and any(t.strip() in p for p in possible or [t])]
        python_like = re.findall(PYTHON, text)          # unless the template writes so whatever it gets
        if st or lost or (python_like
                          and not all(re.search(PYTHON, p) for p in possible or [""])):
            c.bad.append(f"{what}\n      {st} lost {lost}, {python_like}: {text[-900:]!r}")
    return c


def texts_of(m):
    content = m.get("content")
    if m["role"] in ("user", "system"):
        yield from [p["text"] for p in content] if isinstance(content, list) else [content]
    for k in m.get("tool_calls", []):
        yield k["function"]["name"]


def marks_of(source):
    """What of a template may be a control token: names in brackets, and what it has of its own."""
    found = re.findall(r"<[|｜/]?[\w▁ :|｜-]{1,40}[|｜]?>|\[/?[A-Z_]{2,30}\]|\]?<[\]|][^<>]{1,20}[\[|]>"
                       r"|\[e~\[|\]~b\]|\]~!b\[", source)
    return sorted({BOS, EOS, "<|im_end|>", "<|im_start|>", "[INST]", *found} - THINK)


# what templates look for in contents, where it is not a control token of the model
THINK = {"<think>", "</think>", "<mm:think>", "</mm:think>", "<tool_response>", "</tool_response>",
         "<tool_call>", "</tool_call>"}
HOSTILE = ["one turn", "turns", "call and result", "reasoning", "parts"]


def poison(value, text, keep=("role", "type", "id", "tool_call_id")):
    """The value with `text` appended to every string, and to every key except those that templates use."""
    if isinstance(value, str): return value + text
    if isinstance(value, list): return [poison(v, text, keep) for v in value]
    if isinstance(value, dict):
        asked = {"content", "text", "tool_calls", "function", "name", "arguments", "reasoning_content",
                 "description", "parameters", "properties", "required", *keep}
        return {k if k in asked else k + text: v if k in keep else poison(v, text, keep)
                for k, v in value.items()}
    return value


def check_hostile(o, name, source):
    """The control tokens of a conversation are the same ones whatever its contents hold."""
    c, marks, records = Checks(o), marks_of(source), []
    text = " x ".join(["", *marks, "<|" + "im_end", "|>" + marks[0] * 2, ""])
    for what in HOSTILE:
        messages, tools = CONVERSATIONS[what], TOOLS if "call" in what else None
        for add in (" x ", text):
            records.append((source, poison(messages, add), poison(tools, add) if tools else None, {}, "g",
                            marks))
    got = ours(o, ["--controls"], records)
    for i in range(0, len(got), 2):
        c.n += 1
        if got[i] != got[i + 1]:
            c.bad.append(f"{name}: hostile {HOSTILE[i // 2]}\n      {got[i]}\n      {got[i + 1]}")
    return c


def check_tokens(o, path):
    """A real model's tokens are those that Hugging Face's library has for the same text."""
    from tokenizer_exact import gguf_keys, reference
    keys, c = gguf_keys(path), Checks(o)
    source, tokens = keys.get("tokenizer.chat_template"), keys.get("tokenizer.ggml.tokens")
    if not source or keys["tokenizer.ggml.model"] != "gpt2":
        return c
    bos, eos = (tokens[keys[f"tokenizer.ggml.{name}_token_id"]] if f"tokenizer.ggml.{name}_token_id" in keys
                else "" for name in ("bos", "eos"))
    theirs, records, wanted = reference(keys, added=True), [], []
    for what, messages in CONVERSATIONS.items():
        if "<|im_end|>" in json.dumps(messages):
            continue            # which stays text here alone
        for tools in (None, TOOLS):
            try:
                text = template(source).render(messages=messages, tools=tools, documents=None,
                                               add_generation_prompt=True, bos_token=bos, eos_token=eos)
            except Exception:
                continue
            records.append(("", messages, tools, {}, "rg", []))
            wanted.append((what, theirs.encode(text, add_special_tokens=False).ids))
    for (what, ids), (st, got) in zip(wanted, ours(o, ["--tokens", str(path)], records, "", "")):
        c.n += 1
        if st or [int(i) for i in got.split()] != ids:
            c.bad.append(f"{path.name}: {what}\n      {got[:300]}\n      {ids}")
    return c


def main():
    p = argparse.ArgumentParser()
    p.add_argument("chat_test")
    p.add_argument("--models", default=os.environ.get("QSF_MODELS_DIR"))
    p.add_argument("--shared", default=os.environ.get("QSF_SHARED_DIR", str(TESTS.parent.parent / "shared")))
    p.add_argument("--templates", action="append", default=[])
    p.add_argument("--only", default="")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    sources = {}
    for folder in [pathlib.Path(o.shared) / "data" / "templates", *map(pathlib.Path, o.templates)]:
        for path in sorted(folder.glob("*.jinja")):
            if o.only not in path.name:
                continue
            sources[path.name] = path.read_text(encoding="utf-8")
    ggufs = sorted((pathlib.Path(o.shared) / "data" / "tokenizers").glob("*.gguf")) + (
        sorted(pathlib.Path(o.models).glob("*.gguf")) if o.models else [])
    if ggufs and not o.only:
        from gguf_reader import Reader
        for path in ggufs:
            field = Reader(path).fields.get("tokenizer.chat_template")
            if field and field.contents() not in sources.values():
                sources[path.name] = field.contents()
    n = failed = 0
    checks = [lambda name=name, source=source, check=check: check(o, name, source)
              for name, source in sources.items() for check in (check_given, check_adapted, check_hostile)]
    checks += [lambda path=path: check_tokens(o, path) for path in ggufs if not o.only]
    for check in checks:
        c = check()
        n += c.n
        failed += len(c.bad)
        for line in c.bad if o.verbose else c.bad[:2]:
            print("FAIL " + line)
    print(f"{len(sources)} templates, {n} comparisons, {failed} failed")
    if not sources:
        print(f"skipped: {o.shared} has no templates")
        sys.exit(1 if failed or os.environ.get("QSF_TEST_NO_SKIP") else 77)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
