#!/usr/bin/env python3
"""Writes convert/read/hf_set_table.c: the character sets that Hugging Face's tokenizers uses.
SPDX-License-Identifier: MIT

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    make_hf_sets.py > convert/read/hf_set_table.c

Its regular expressions use the general categories of Unicode 16; its other steps use crates with several
Unicode versions, so these sets are found by asking the library about every code point."""
import textwrap

import unicodedata2 as u
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

assert u.unidata_version == "16.0.0", u.unidata_version
SCALARS = [c for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000]
CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
              "No", "Pc",
              "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"]


def array(kind, name, values):
    print(f"const {kind} {name}[{len(values)}] = {{")
    print(textwrap.fill(", ".join(map(str, values)), 100, initial_indent="    ", subsequent_indent="    "))
    print("};\n")


def ranges(name, points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] + 1 == c:
            out[-1][1] = c
        else:
            out.append([c, c])
    print(f"const uint32_t qsf_hf_n_{name} = {len(out)};")
    array("uint32_t", f"qsf_hf_{name}", [v for r in out for v in r])


def removed(pre):
    left = {ord(ch) for s, _ in pre.pre_tokenize_str("".join(map(chr, SCALARS))) for ch in s}
    return set(SCALARS) - left


def gone(normalizer):
    return {c for c in SCALARS if normalizer.normalize_str(chr(c)) == ""}


def joined(pre):
    """The characters that remain after an "a"."""
    pieces = pre.pre_tokenize_str("".join("a" + chr(c) + " " for c in SCALARS))
    return {ord(s[1]) for s, _ in pieces if len(s) == 2 and s[0] == "a"}


print("/* Sets of characters of Hugging Face's tokenizers.\n * Made by tools/make_hf_sets.py; do not edit.\n"
      " * SPDX-License-Identifier: MIT */\n#include \"read/hf_set_table.h\"\n")
runs = []
for c in range(0x110000):
    k = CATEGORIES.index(u.category(chr(c)))
    if not runs or runs[-1][1] != k:
        runs.append((c, k))
print("const char qsf_hf_categories[] = \"" + "".join(CATEGORIES) + "\";")
print(f"const uint32_t qsf_hf_n_runs = {len(runs)};")
array("uint32_t", "qsf_hf_run_from", [r[0] for r in runs])
array("uint8_t", "qsf_hf_run_category", [r[1] for r in runs])

bert = lambda **on: N.BertNormalizer(**{"clean_text": False, "handle_chinese_chars": False,
                                        "strip_accents": False, "lowercase": False, **on})
digits = P.Digits(True).pre_tokenize_str("".join("a" + chr(c) for c in SCALARS))
ranges("word", removed(P.Split(Regex(r"\w"), "removed")))
ranges("rust_word", joined(P.Whitespace()))
ranges("numeric", set(SCALARS) - {ord(ch) for s, _ in digits if len(s) > 1 for ch in s})
ranges("punct", removed(P.Punctuation("removed")))
ranges("control", gone(bert(clean_text=True)))
ranges("accents", gone(N.StripAccents()))
ranges("bert_accents", gone(bert(strip_accents=True)))

# Full decompositions of NFKD that NFD lacks, and lower-case mappings of newer Unicode versions.
nfd, nfkd, lower = N.NFD(), N.NFKD(), N.Lowercase()
table = [(c, nfkd.normalize_str(chr(c))) for c in SCALARS
         if nfkd.normalize_str(chr(c)) != nfd.normalize_str(chr(c))]
table_low = [(c, lower.normalize_str(chr(c))) for c in SCALARS
             if lower.normalize_str(chr(c)) != chr(c).lower()]
for name, t in ("compat", table), ("lower", table_low):
    at = [0]
    for _, text in t:
        at.append(at[-1] + len(text))
    print(f"const uint32_t qsf_hf_n_{name} = {len(t)};")
    array("uint32_t", f"qsf_hf_{name}_keys", [c for c, _ in t])
    array("uint16_t", f"qsf_hf_{name}_at", at)
    array("uint32_t", f"qsf_hf_{name}_values", [ord(ch) for _, text in t for ch in text])
