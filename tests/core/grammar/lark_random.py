#!/usr/bin/env python3
"""Random Lark grammars against the package lark: both accept the same strings.
SPDX-License-Identifier: MIT

    lark_random.py SCHEMA_ACCEPT [CASES [SEED]]

lark parses with Earley and the lexer dynamic_complete, which tries every way to split a string into
terminals, like our grammars.  But it tries only prefixes of what Python's re matches, and concatenates the
patterns of a terminal without grouping, so terminals here have no alternatives.  Strings are random, or
generated from the grammar.
"""
import json, random, signal, subprocess, sys

try:
    import lark
except ImportError:
    print("skipped: the package lark is not here")
    sys.exit(0)

PROGRAM = sys.argv[1]
CASES, SEED = (int(x) for x in (sys.argv[2:] + ["400", "1"][len(sys.argv) - 2:])[:2])
PIECES = ["a", "b", "ab", "1", "2", "+", "(", ")", " ", "A", "B", "x", "\n", '"', "é"]
# pattern, a string that matches it
TERMINALS = [('"a"', "a"), ('"ab"', "ab"), ('"+"', "+"), ('"b"i', "B"), ('"aB"i', "Ab"), ('/[0-9]+/', "12"),
             ('/(?:a|bb)/', "bb"), ('/xb*/', "xbb"), ('"1".."3"', "2"), ('/A/i', "a"), ('"\\n"', "\n"),
             ('"\\""', '"'), ('"\\u00e9"', "é"), ('/[^ab]/', "x"), ('/\\(/', "("), ('")"', ")")]
COUNTS = ["*", "+", "?", "~2", "~1..2", "~0..1"]
COMMON = {"INT": "12", "CNAME": "a_b", "WORD": "ab", "NUMBER": "1.5", "SIGNED_INT": "-2", "HEXDIGIT": "f",
          "ESCAPED_STRING": '"a\\"b"', "LETTER": "a", "SIGNED_NUMBER": "+1e2", "NEWLINE": "\n"}


class TooSlow(Exception):
    pass


def too_slow(*_):
    raise TooSlow


class Grammar:
    """Rules r0, r1, ... of which the first is start, and terminals T0, T1, ...; each rule uses later ones,
    except for one that may begin or end with itself."""

    def __init__(self, r):
        self.r, self.lines, self.bodies = r, [], {}
        self.imports = r.sample(sorted(COMMON), r.randrange(3))
        self.n_rules, self.n_terminals = r.randrange(1, 5), r.randrange(3)
        for i in range(self.n_terminals):
            self.bodies[f"T{i}"] = self.choice(i, True, 0)
        for i in reversed(range(self.n_rules)):
            self.bodies[self.rule(i)] = self.choice(i, False, 0)
        for name, body in self.bodies.items():
            mark = "" if name[0] == "T" else r.choice(["", "", "?", "!"])
            self.lines.append(f"{mark}{name}: {self.show(body, r.randrange(2))}")
        r.shuffle(self.lines)
        self.ignored = r.choice([None, '" "'])
        if self.ignored:
            self.lines.append(f"%ignore {self.ignored}")
        for name in self.imports:
            self.lines.insert(0, f"%import common.{name}")
        self.text = "\n".join(self.lines) + "\n"

    def rule(self, i):
        return "start" if i == 0 else f"r{i}"

    def choice(self, i, terminal, depth):
        n = 1 if terminal else self.r.randrange(1, 4)
        return ("|", [self.row(i, terminal, depth) for _ in range(n)])

    def row(self, i, terminal, depth):
        return (",", [self.part(i, terminal, depth) for _ in range(self.r.randrange(1, 4))])

    def part(self, i, terminal, depth):
        kind = self.r.randrange(7 if terminal else 10)
        if kind < 4 or (kind > 6 and depth > 1):
            part = ("t", *self.r.choice(TERMINALS))
        elif kind < 7:
            names = [f"T{k}" for k in range(i if terminal else self.n_terminals)]
            if not terminal:
                names += [self.rule(k) for k in range(i + 1, self.n_rules)]
                names += self.imports
            part = ("n", self.r.choice(names)) if names else ("t", *self.r.choice(TERMINALS))
        else:
            part = (self.r.choice("(["), self.choice(i, terminal, depth + 1))
        counted = self.r.randrange(4) == 0 and part[0] != "[" and not terminal
        return ("x", part, self.r.choice(COUNTS)) if counted else part

    def show(self, x, lines):
        if x[0] == "|":
            return ("\n    | " if lines else " | ").join(self.show(y, False) for y in x[1])
        if x[0] == ",":
            return " ".join(self.show(y, False) for y in x[1])
        if x[0] in "([":
            return x[0] + self.show(x[1], False) + ")]"["([".index(x[0])]
        return self.show(x[1], False) + x[2] if x[0] == "x" else x[1]

    def make(self, x):
        """A string of the grammar."""
        r = self.r
        if x[0] == "|":
            return self.make(r.choice(x[1]))
        if x[0] == ",":
            return "".join(self.make(y) + (" " if self.ignored and r.randrange(6) == 0 else "") for y in x[1])
        if x[0] == "[":
            return self.make(x[1]) if r.randrange(2) else ""
        if x[0] == "(":
            return self.make(x[1])
        if x[0] == "x":
            least, most = {"*": (0, 3), "+": (1, 3), "~2": (2, 2), "~1..2": (1, 2)}.get(x[2], (0, 1))
            return "".join(self.make(x[1]) for _ in range(r.randint(least, most)))
        if x[0] == "t":
            return x[2]
        return COMMON[x[1]] if x[1] in COMMON else self.make(self.bodies[x[1]])


def main():
    r = random.Random(SEED)
    process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    signal.signal(signal.SIGALRM, too_slow)
    count, wrong = {"kept": 0, "refused by lark": 0, "texts": 0, "that fit": 0}, []
    for _ in range(CASES):
        g = Grammar(r)
        texts = {"", " "} | {"".join(r.choice(PIECES) for _ in range(r.randrange(6))) for _ in range(8)}
        for _ in range(8):
            text = g.make(g.bodies["start"])[:24]
            at = r.randrange(len(text) + 1)
            texts |= {text, text[:at] + r.choice(PIECES) + text[at + r.randrange(2):]}
        tried = sorted(texts)
        try:
            theirs = lark.Lark(g.text, parser="earley", lexer="dynamic_complete")
        except lark.exceptions.LarkError:       # a terminal that may be empty, two equal ones ...
            count["refused by lark"] += 1
            continue
        process.stdin.write((json.dumps({"lark": g.text, "texts": tried}) + "\n").encode())
        process.stdin.flush()
        line = process.stdout.readline().decode(errors="replace").rstrip("\n")
        if not line.startswith("ok "):
            wrong.append((g.text, line))
            continue
        count["kept"] += 1
        for text, fit in zip(tried, line.split(" ")[2]):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                theirs.parse(text)
                want = True
            except lark.exceptions.LarkError:
                want = False
            except (RuntimeError, TooSlow):     # RuntimeError: lark's "please report this bug"
                continue
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            count["texts"] += 1
            count["that fit"] += want
            if want != (fit == "1"):
                wrong.append((g.text, text, "fits here" if fit == "1" else "does not fit here"))
    for w in wrong[:8]:
        print(w[0], *(ascii(x) for x in w[1:]))
    print(*("%d %s" % (n, k) for k, n in count.items()), "%d wrong" % len(wrong), sep=", ")
    sys.exit(bool(wrong) or count["kept"] < CASES // 3)


if __name__ == "__main__":
    main()
