#!/usr/bin/env python3
"""Counts constructions of the word list of the house style in strings, documents and comments.  Each count
has a limit, in LIMITS, which may only fall.
SPDX-License-Identifier: MIT

    words_test.py            fails on a count above its limit, and lists the places
    words_test.py --lower    writes lower counts into LIMITS
    words_test.py --show [KIND] [WORDS]    lists the places of strings, documents or comments
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What we wrote: what is written instead.
CONSTRUCTIONS = {
    "a file says": (r"\b(?:where|as) (?:a|the|its) (?:file|model|template|header) says\b",
                    "if the file sets it"),
    "is no": (r"\b(?:is|are|was|were) no (?!(?:longer|more|less|fewer|larger|later|slower|worse|better)\b)",
              "is not a; has no"),
    "there is none": (r"\b(?:there (?:is|are) none|(?:has|have|had) none)\b", "has no X"),
    "behind": (r"\bbehind\b", "after"),
    "go on": (r"\b(?:go|goes|going|gone|went) on\b", "continue, resume"),
    "beside": (r"\bbeside\b", "besides, alongside, next to"),
    "so many": (r"\bso (?:many|much)\b", "that many, n"),
    "but for": (r"\bbut for\b(?! (?:a|the) (?:moment|while)\b)", "except"),
    "give way": (r"\b(?:gives?|gave|given) way\b", "is evicted, is reduced"),
    "nobody": (r"\b(?:who asks|[Ee]verybody(?:'s)?|[Nn]obody(?:'s)?)\b", "the caller, shared, no caller"),
    "likeliest": (r"\blikeliest\b", "most likely"),
    "says so": (r"\bsa(?:ys?|id) (?:which|so)\b", "specifies, sets, reports"),
    "hear of": (r"\b(?:hears?|heard) of\b", "is notified"),
    "a text": (r"\ba text\b(?! file)", "a string, a document, an input"),
    "what is left": (r"\bwhat is left of it\b", "the rest"),
    "as it is": (r"\bas (?:it is|they are)\b", "unchanged"),
    "where it is so": (r"\bwhere (?:that|it|this) is so\b", "if so"),
}
# The counts of strings, of documents and of comments.
LIMITS = {
    "a file says": (0, 0, 0),
    "is no": (0, 9, 6),
    "there is none": (1, 7, 7),
    "behind": (0, 2, 5),
    "go on": (0, 0, 1),
    "beside": (0, 7, 2),
    "so many": (0, 0, 0),
    "but for": (0, 0, 0),
    "give way": (0, 0, 0),
    "nobody": (0, 1, 0),
    "likeliest": (0, 0, 1),
    "says so": (0, 0, 2),
    "hear of": (0, 0, 1),
    "a text": (1, 13, 10),
    "what is left": (0, 0, 0),
    "as it is": (0, 3, 5),
    "where it is so": (0, 0, 0),
}

C_KINDS, JS_KINDS = {".c", ".h", ".cpp"}, {".js", ".mjs", ".ts"}
# Whose strings are read by users.  Those of tests quote what was wrong.
PRODUCT = ("bindings cli convert core demo include js kernels mpi parity platform serve web").split()
# The house style quotes the words, and so does this file.
LEFT_OUT = {"tests/tree/words_test.py", "docs/api.md"}
C_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*"(?:\s*\\?\n?\s*"(?:\\.|[^"\\\n])*")*)'
    r"|'(?:\\.|[^'\\\n])+'", re.S)
JS_TOKEN = re.compile(
    r"(?P<comment>(?<![:\w])//[^\n]*|/\*.*?\*/)"
    r"|(?P<string>'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`)", re.S)
PYTHON_COMMENT = re.compile(r'(?P<comment>(?<!["\'#\w])#[^\n]*|""".*?""")', re.S)
KINDS = ("strings", "documents", "comments")


def texts(name, path):
    """(kind, first line, text) of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    folder, kind = name.split("/")[0], path.suffix
    if kind == ".md":
        yield "documents", 1, text
        return
    pattern = (C_TOKEN if kind in C_KINDS else JS_TOKEN if kind in JS_KINDS else
               PYTHON_COMMENT if kind in (".py", ".sh", ".cmake") or path.name == "CMakeLists.txt" else None)
    if not pattern:
        return
    for m in pattern.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        if m["comment"]:
            yield "comments", line, re.sub(r"\n\s*[*#]?\s*", "\n ", m[0])
        elif folder in PRODUCT and "/test" not in name and m.groupdict().get("string"):
            string = re.sub(r'"\s*\\?\n?\s*"', "", m[0]) if kind in C_KINDS else m[0]
            if " " in string:                   # or it is a name: of a file, a key, a field
                yield "strings", line, string


def places():
    """{(construction, kind): [(file, line, what stands there)]}"""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.splitlines()
    found = {(c, k): [] for c in CONSTRUCTIONS for k in KINDS}
    patterns = {c: re.compile(p.replace(" ", r"\s+")) for c, (p, _) in CONSTRUCTIONS.items()}
    for name in listed:
        path = ROOT / name
        if name in LEFT_OUT or name.startswith(("shared/", "tests/golden/")) or not path.is_file():
            continue
        for kind, line, text in texts(name, path):
            for construction, pattern in patterns.items():
                for m in pattern.finditer(text):
                    at = " ".join(text[max(0, m.start() - 40):m.end() + 30].split())
                    found[construction, kind].append((name, line + text.count("\n", 0, m.start()), at))
    return found


def lower(counts):
    """Writes the counts that are below their limits."""
    rows = ""
    for c in CONSTRUCTIONS:
        limits = LIMITS.get(c, (10**6,) * 3)
        n = ", ".join(str(min(counts[c, k], limit)) for k, limit in zip(KINDS, limits))
        rows += f'    "{c}": ({n}),\n'
    path = pathlib.Path(__file__)
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(?s)(\nLIMITS = \{\n).*?\}\n", lambda m: f"{m[1]}{rows}}}\n", text, count=1)
    path.write_text(text, encoding="utf-8")


def main():
    found = places()
    counts = {key: len(at) for key, at in found.items()}
    if "--lower" in sys.argv:
        lower(counts)
        return
    if "--show" in sys.argv:
        asked = sys.argv[sys.argv.index("--show") + 1:]
        for (construction, kind), at in found.items():
            if (not asked or kind == asked[0]) and (len(asked) < 2 or construction == asked[1]):
                for name, line, words in at:
                    print(f"{name}:{line}: [{construction}, {kind}] {words}")
        return
    bad, fallen = [], []
    for (construction, kind), n in counts.items():
        limit = LIMITS[construction][KINDS.index(kind)]
        if n > limit:
            bad.append(f'"{construction}" in {kind}: {n}, the limit is {limit}; write: '
                       f"{CONSTRUCTIONS[construction][1]}")
            bad += [f"    {name}:{line}: {words}" for name, line, words in found[construction, kind][:40]]
        elif n < limit:
            fallen.append(f'"{construction}" in {kind}: {n}, the limit is {limit}')
    for kind in KINDS:
        print(f"{kind}: {sum(n for (_, k), n in counts.items() if k == kind)}")
    if fallen:
        print("lower than their limits (words_test.py --lower):\n    " + "\n    ".join(fallen))
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
