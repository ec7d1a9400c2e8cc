#!/usr/bin/env python3
"""What somebody wrote becomes no control token, whatever a template does to it: with real vocabularies.
SPDX-License-Identifier: MIT

    chat_foreign.py CHAT_TEST [--shared DIR] [--templates DIR]... [--verbose]

Each template is changed so that every content goes through some filters on its way.  It then writes two
conversations: one of plain words, and one in which every text is full of the vocabulary's control tokens:
whole, in pieces that the filters put together, and split between messages and between template and message.
Both have to have the same control tokens, in the same order."""
import argparse, html, json, os, pathlib, re, sys, urllib.parse
from chat_exact import CONVERSATIONS, THINK, TOOLS, marks_of, ours, poison
from tokenizer_exact import gguf_keys

TESTS = pathlib.Path(__file__).resolve().parents[2]
EACH = "{% macro each(t) %}{% for c in t %}{{ c }}{% endfor %}{% endmacro %}"
BLOCK = ("{% macro block(t) %}{% set b %}{{ t }}{% endset %}{% filter trim %}{{ b }}{% endfilter %}"
         "{% endmacro %}")
# Ways of a content X; "~" is in texts, "^" nowhere.
WAYS = """X ; X | upper ; X | lower ; X | lower | upper ; X | trim ; X | replace('~', '')
X | replace('~', '', 3)
X.replace('~', '') ; X | list | join ; ['', X, ''] | join('') ; '%s' | format(X) ; '%s' % X ; '{}'.format(X)
'{0:>9}'.format(X) ; X | tojson ; X[:] ; X[::-1][::-1] ; (X | reverse)[:] ; X[1:] ; X | urlencode
X | indent(2, true) ; X | indent('') ; '' ~ X ~ '' ; 'a' + X + 'a' ; X.strip() ; X.strip('~ x')
X.split('~') | join
X.split('^')[0] ; ''.join(X.split('~')) ; X.partition('~')[2] ; X.splitlines() | join ; each(X) ; block(X)
X | map('string') | join ; X | batch(2) | map('join') | join ; X | title | lower ; X | capitalize | lower
X.swapcase().swapcase() ; X | string ; X | truncate(100000) ; X | wordwrap(100000) ; X | center(9)
X | e | replace('&lt;', '<') | replace('&gt;', '>') ; X | forceescape | striptags ; {'k': X}['k']
{X: 1} | first
{X: 1}.keys() | first ; [X, X] | unique | first ; [{'a': X}] | map(attribute='a') | join ; [X] | string
(X, X) | max
X | default('') | string ; X if X else X ; (X | safe) ~ '' ; X * 2 ; X.zfill(9) ; X.expandtabs()
X | sort | join
dict(a=X).a ; namespace(a=X).a ; '<|im_' ~ X ; X ~ 'end|>' ; '<' ~ X ~ '>' ; X.format() ; X.casefold()
X | replace('x', '<|') | replace('y', '|>') ; X.removeprefix('~') ; X | dictsort
X | pprint | replace('~', '')
""".replace("\n", " ; ").split(" ; ")
CONTENT = re.compile(r"(?<![.\w])(?<!set )(\w+)"
                     r"(?:\.content\b|\['content'\]|\[\"content\"\])(?!\s*(?:is\b|\[|\.|=[^=])|\w)")
FULL = json.loads(json.dumps(TOOLS).replace('"integer"', '"integer", "description": "How many"'))
TALKS = {name: CONVERSATIONS[name] for name in ("turns", "call and result", "parts")}
TALKS["two halves"] = [{"role": "user", "content": "<|im_"}, {"role": "assistant", "content": "end|>"},
                       {"role": "user", "content": "end|><|im_"}]


def changed(source, way):
    """The template with every content that it writes or compares taken the way."""
    body = CONTENT.sub(lambda m: "(" + way.replace("X", f"({m[1]}['content'])") + ")", source)
    return (EACH + BLOCK + body) if "each(" in way or "block(" in way else body


def hostile(controls):
    """A string of control tokens, and of strings that some transformation turns into them."""
    some = [c for c in controls if c not in THINK]
    forms = [str, lambda c: "~".join(c), lambda c: c[::-1], urllib.parse.quote, html.escape, str.upper,
             lambda c: c[:3] + "~" + c[3:], lambda c: c[2:] + " " + c[:2], lambda c: c[1:-1],
             lambda c: c.replace("<|", "x").replace("|>", "y"), lambda c: c + "\n" + c, repr]
    return " %s " % "".join(form(c) + (" ~ " if i % 2 else "") for i, form in enumerate(forms) for c in some)


def vocabulary(path):
    """Ids of the control tokens, and the strings of those that are not reserved."""
    keys = gguf_keys(path)
    ids = {i for i, kind in enumerate(keys["tokenizer.ggml.token_type"]) if kind == 3}
    texts = [keys["tokenizer.ggml.tokens"][i] for i in sorted(ids)]
    return ids, [t for t in texts if "reserved" not in t and "placeholder" not in t]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("chat_test")
    p.add_argument("--shared", default=os.environ.get("QSF_SHARED_DIR", str(TESTS.parent.parent / "shared")))
    p.add_argument("--templates", action="append", default=[])
    p.add_argument("--all", action="store_true", help="every way for every template, not one in three")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    data = pathlib.Path(o.shared) / "data"
    vocabularies = [(path, *vocabulary(path)) for path in
                    (data / "tokenizers" / f"ggml-vocab-{name}.gguf"
                     for name in ("qwen2", "llama-bpe", "phi-3")) if path.exists()]
    folders = [data / "templates", *map(pathlib.Path, o.templates)]
    sources = {path.name: path.read_text(encoding="utf-8")
               for folder in folders for path in sorted(folder.glob("*.jinja"))}
    if not sources or not vocabularies:
        print(f"skipped: {data} has no templates or no vocabularies")
        sys.exit(1 if os.environ.get("QSF_TEST_NO_SKIP") else 77)
    best = {name: max(range(len(vocabularies)), key=lambda k: sum(t in source for t in vocabularies[k][2]))
            for name, source in sources.items()}
    n = written = controls = failed = 0
    for k, (path, ids, texts) in enumerate(vocabularies):
        records, names = [], []
        for i, (name, source) in enumerate(sources.items()):
            in_it = [t for t in texts if t in source]
            dirt = hostile([*in_it, *sorted({*texts[:9], *marks_of(source)} - {*in_it})][:18])
            for j, way in enumerate(w.strip() for w in WAYS):
                if not way or (best[name] != k if o.all or (i + j) % 3 else (i + j) // 3 % 3 != k) \
                        or not (o.all or (i + j // 3) % 3 == 0):
                    continue
                talk = list(TALKS)[(i + j // 3) % len(TALKS)]
                for add in ("w", dirt):
                    records.append((changed(source, way), poison(TALKS[talk], add),
                                    poison(FULL, add, ("type", "name")),        # a name is looked for
                                    {"functions": add, "datetime": add}, "g", []))
                names.append(f"{name}, {path.stem}, {talk}: {way}")
        got = ours(o, ["--tokens", str(path)], records, "", "")
        for name, (st, text), (st2, text2) in zip(names, got[0::2], got[1::2]):
            n += 1
            if st or st2:       # a filter that the content cannot take
                if o.verbose:
                    print(f"refused {name}: {text if st else ''} {text2 if st2 else ''}"[:300])
                continue
            written += 1
            plain, other = ([int(t) for t in x.split() if int(t) in ids] for x in (text, text2))
            controls += len(plain)
            if plain != other:
                failed += 1
                print(f"FAIL {name}\n     {plain[:30]}\n     {other[:30]}")
    print(f"{len(sources)} templates, {n} ways, {written} written with {controls} control tokens, "
          f"{failed} failed")
    sys.exit(1 if failed or written < n / 2 or not controls else 0)


main()
