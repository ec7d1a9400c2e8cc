#!/usr/bin/env python3
"""llama.cpp's tests of grammars, read from its source and put to our reader and automaton.
SPDX-License-Identifier: MIT

    gbnf_llama.py SCHEMA_ACCEPT LLAMA_CPP_SOURCE

Nothing of these tests is kept here.  Left out, and said: grammars with <token>, which we refuse by name,
and what the tests say of llama.cpp's own tables.
"""
import json, pathlib, re, subprocess, sys

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
# What llama.cpp refuses, and we take because counted repeats stay counts.
LARGE = re.compile(r"\{0,99\}\)\{0,99\}|\{5000")
# Tests of schemas for which we accept other strings than llama.cpp does, with our answers.
KNOWN = {
    # -0 is 0, and an integer may have more than llama.cpp's 16 digits
    "min 0": {"111100001001", "11110000001"},
    "min 2": {"111111000000001"},
    # "items" constrains arrays alone
    "min+max items": {"111001"},
    # without additionalProperties, other members are allowed
    "object properties": {"111110001"},
    # uniqueItems cannot be kept, and is refused by name
    "required props": {"schema: #/properties/tags/uniqueItems: uniqueItems cannot be kept"},
}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0", "a": "\a", "b": "\b",
           "f": "\f", "v": "\v", "?": "?"}
TOKEN = re.compile(r'R"([^(]*)\((.*?)\)\1"|(?:u8)?"((?:[^"\\]|\\.)*)"'
                   r'|//[^\n]*|/\*.*?\*/|[A-Za-z_]\w*|\d+|\s+|.', re.S)


def unescape(text):
    out, at = bytearray(), 0
    while at < len(text):
        if text[at] != "\\":
            out += text[at].encode()
            at += 1
        elif text[at + 1] == "x":
            n = re.match(r"[0-9a-fA-F]+", text[at + 2:])[0]
            out.append(int(n, 16) & 255)
            at += 2 + len(n)
        elif text[at + 1] in "uU":
            n = 4 if text[at + 1] == "u" else 8
            out += chr(int(text[at + 2:at + 2 + n], 16)).encode()
            at += 2 + n
        elif text[at + 1] in "01234567":
            n = re.match(r"[0-7]{1,3}", text[at + 1:])[0]
            out.append(int(n, 8) & 255)
            at += 1 + len(n)
        else:
            out += ESCAPES[text[at + 1]].encode()
            at += 2
    return bytes(out)


def tokens(text):
    """(kind, value) of C++: texts joined where they stand side by side."""
    out = []
    for m in TOKEN.finditer(text):
        if m[2] is not None or m[3] is not None:
            value = m[2].encode() if m[2] is not None else unescape(m[3])
            if out and out[-1][0] == "text":
                out[-1] = ("text", out[-1][1] + value)
            else:
                out.append(("text", value))
        elif not m[0].isspace() and not m[0].startswith(("//", "/*")):
            out.append(("word", m[0]))
    return out


def calls(path, names):
    """(name, arguments) of each call whose arguments are texts and lists of texts; None for another one."""
    words = tokens(path.read_text(encoding="utf-8"))
    for i, (kind, value) in enumerate(words):
        if kind != "word" or value not in names:
            continue
        if words[i + 1] != ("word", "(") or words[i - 1] == ("word", "void"):
            continue
        args, depth, plain, at = [None], 0, True, i + 2
        while depth >= 0:
            kind, value = words[at]
            at += 1
            if kind == "text" and depth == 0:
                args[-1] = value
            elif kind == "text":
                args[-1].append(value)
            elif value == "{" and depth == 0:
                args[-1] = []
                depth += 1
            elif value in "{(":
                depth, plain = depth + 1, plain and value == "{"
            elif value in ")}":
                depth -= 1
            elif value == "," and depth == 0:
                args.append(None)
            elif value != ",":
                plain = False
        yield words[i][1], args if plain else None


class Accepts:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, grammar, texts, kind="gbnf"):
        """The answers, or the message with which the grammar is refused."""
        line = json.dumps({kind: grammar, "blanks": -1, "texts": texts}, ensure_ascii=False)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().split(" ", 2)
        return " ".join(answer[1:]).strip() if answer[0] == "error" else answer[2].strip()


def utf8(texts):
    return [t.decode() for t in texts]


def main():
    accepts = Accepts()
    n, left_out, known, failed = 0, 0, 0, []
    for name in ("test-grammar-integration.cpp", "test-grammar-llguidance.cpp"):
        for what, args in calls(SOURCE / "tests" / name, {"test_grammar", "test_schema"}):
            if args is None or len(args) != 4 or b"%llguidance" in args[1] or b"start:" in args[1]:
                left_out += 1
                continue
            grammar, good, bad = args[1].decode(), args[2] or [], args[3] or []
            try:
                texts = utf8(good) + utf8(bad)
            except UnicodeDecodeError:
                left_out += 1
                continue
            schema = what == "test_schema"
            answer = accepts.ask(json.loads(grammar) if schema else grammar, texts,
                                 "schema" if schema else "gbnf")
            if "<token>" in answer:
                left_out += 1
                continue
            n += len(texts)
            if schema and answer in KNOWN.get(args[0].decode(), ()):
                known += 1
            elif answer != "1" * len(good) + "0" * len(bad):
                failed.append(f"{args[0].decode()}: {answer} for {len(good)} good and {len(bad)} bad texts")
    refused = 0
    for name, call in (("test-grammar-integration.cpp", "test_build_grammar_fails"),
                       ("test-grammar-parser.cpp", "verify_failure")):
        for what, args in calls(SOURCE / "tests" / name, {call}):
            if args is None:
                left_out += 1
                continue
            refused += 1
            answer = accepts.ask(args[0].decode(), [])
            if not answer and not LARGE.search(args[0].decode()):
                failed.append(f"taken: {args[0].decode()!r}")
    words = tokens((SOURCE / "tests" / "test-grammar-parser.cpp").read_text(encoding="utf-8"))
    for i in range(len(words) - 2):
        if words[i] == ("word", "verify_parsing") and words[i + 2][0] == "text":
            n += 1
            answer = accepts.ask(words[i + 2][1].decode(), [])
            if answer and "<token>" not in answer:
                failed.append(f"refused: {words[i + 2][1].decode()!r}: {answer}")
    for path in sorted((SOURCE / "grammars").glob("*.gbnf")):
        n += 1
        answer = accepts.ask(path.read_text(encoding="utf-8"), [])
        if answer:
            failed.append(f"{path.name}: {answer}")
    print(f"{n} texts and grammars, {refused} that are to be refused, {left_out} left out, "
          f"{known} differ as they have to, {len(failed)} otherwise")
    print("\n".join(failed))
    return 1 if failed or n < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
