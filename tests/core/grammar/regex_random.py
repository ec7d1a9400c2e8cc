#!/usr/bin/env python3
"""Random patterns against Python's re: the same texts fit, and what is refused is refused by name.
SPDX-License-Identifier: MIT

    regex_random.py SCHEMA_ACCEPT [CASES [SEED]]

Each pattern is tried as --regex (whole text) and as the pattern of a JSON Schema (anywhere in the text) on
random texts.  A refusal has to be one that docs/grammars.md names.
"""
import json, random, re, subprocess, sys

PROGRAM = sys.argv[1]
CASES, SEED = (int(x) for x in (sys.argv[2:] + ["1500", "1"][len(sys.argv) - 2:])[:2])
LETTERS = ["a", "b", "c", "ab", "1", "_", " ", "A", "aB", "\u00e9", "\U0001f600", "/", "-", "\n", '"',
           "\\", "Z"]
ATOMS = ["a", "b", "c", "1", ".", "\u00e9", "\U0001f600", "\\d", "\\w", "\\W", "\\D", "\\.", "\\\\", "\\n",
         "[ab]", "[^a]", "[a-c1]", "[^\\d\\s]", "[\u00e0-\u00ff]", "[\\w-]", "\\x61", "\\u0062", "[b-]", "\"",
         "-", "/", "\\/", "_", "[.]", "[\\]a]", "[^\\n]", "Z"]
COUNTS = ["*", "+", "?", "{0}", "{1}", "{2}", "{0,2}", "{1,3}", "{2,}", "*?", "+?", "??", "{1,2}?"]
NAMED = ("a repeated group with ^ or $", "where no text can fit", "no text can fit", "no string fits",
         "no value fits", "too large to search", "is only supported at the ends of a pattern",
         "more than 3 kinds of characters", "too many assertions about the text before",
         "is repeated too often",
         "before a repeated group that has", "is not supported in a negative one",
         "this lookbehind is not supported", "together with a lookbehind of more",
         "\"both\" and \"not\" are nested")
# Lookarounds; Python's lookbehind needs a fixed length.
EDGES = ["\\b", "\\b", "\\B", "^", "$"]
BEHIND = ["a", "\\w", "[^a]", "[ab]", "-", "."]


def look(r, depth):
    kind = r.randrange(8)
    if kind < 3:
        return r.choice(EDGES)
    if kind < 5:
        return r.choice(["(?<=", "(?<!"]) + r.choice(BEHIND) + ")"
    return r.choice(["(?=", "(?!"]) + pattern(r, depth + 2, True) + ")"


def pattern(r, depth=0, looks=False):
    """A sequence of parts; with looks some are lookarounds, with long lookbehinds at the ends."""
    parts = []
    for _ in range(r.randrange(0 if depth else 1, 4)):
        if looks and r.randrange(4) == 0:
            parts.append(look(r, depth))
            continue
        kind = r.randrange(12)
        if kind < 7 or depth > 3:
            x = r.choice(ATOMS)
        elif kind < 10:
            ways = [pattern(r, depth + 1, looks) for _ in range(r.randrange(1, 4))]
            x = r.choice(["(", "(?:", "(?:", *["(?i:", "(?s:", "(?m:"] * looks]) + "|".join(ways) + ")"
        else:
            parts.append(r.choice("^$"))
            continue
        parts.append(x + (r.choice(COUNTS) if r.randrange(3) == 0 else ""))
    if looks and not depth and r.randrange(6) == 0:
        parts.insert(0, r.choice(["(?<=", "(?<!"]) + r.choice(["ab", "\\wb", "a[^b]"]) + ")")
    if looks and not depth and r.randrange(6) == 0:
        parts.append(r.choice(["(?<=", "(?<!"]) + r.choice(["ab", "\\wb", "a[^b]"]) + ")")
    return "".join(parts)


def texts(r, p):
    """Random ones, and pieces of the pattern itself."""
    out = {""}
    for _ in range(14):
        out.add("".join(r.choice(LETTERS) for _ in range(r.randrange(7))))
    plain = re.sub(r"[\\^$*+?(){}|\[\]:]", "", p)
    for _ in range(6):
        i = r.randrange(len(plain) + 1)
        out.add(plain[i:i + r.randrange(1, 7)])
    return sorted(out)


def main():
    r = random.Random(SEED)
    process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    count, wrong = {"kept": 0, "refused": 0, "texts": 0, "that fit": 0}, []

    def ask(question, inside):
        process.stdin.write((json.dumps(question) + "\n").encode())
        process.stdin.flush()
        line = process.stdout.readline().decode(errors="replace").rstrip("\n")
        if not line.startswith("ok "):
            count["refused"] += 1
            if not any(n in line for n in NAMED):
                wrong.append((inside, line))
            return None
        count["kept"] += 1
        return [c == "1" for c in line.split(" ")[2]]

    for i in range(CASES):
        p = pattern(r, looks=i % 2 == 1)
        # . and $ as ECMA-262 has them, \d and \w of ASCII
        theirs = re.compile(p.replace("$", "(?=\\n|\\Z)") if "(?m:" in p else p.replace("$", "\\Z"), re.A)
        if "(?m:" in p and "$" in re.sub(r"\(\?m:[^()]*\)", "", p):
            continue            # a $ that was replaced in one way only
        # Python's \B does not match in an empty string
        tried = [t for t in texts(r, p) if t or "\\B" not in p]
        for inside in (False, True):
            schema = {"type": "string", "pattern": p}
            question = {"regex": p, "texts": tried}
            if inside:
                question = {"schema": schema, "texts": [json.dumps(t, ensure_ascii=False) for t in tried]}
            fits = ask(question, (inside, p))
            for t, fit in zip(tried, fits or []):
                want = bool(theirs.search(t) if inside else theirs.fullmatch(t))
                count["texts"] += 1
                count["that fit"] += want
                if fit != want:
                    wrong.append((inside, p, t, "fits here" if fit else "does not fit here"))
    for w in wrong[:20]:
        print(*(ascii(x) for x in w))
    print(*("%d %s" % (n, k) for k, n in count.items()), "%d wrong" % len(wrong), sep=", ")
    sys.exit(bool(wrong) or count["refused"] > count["kept"] // 2)


if __name__ == "__main__":
    main()
