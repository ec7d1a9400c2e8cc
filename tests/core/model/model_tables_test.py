#!/usr/bin/env python3
"""Two tables of core/model are complete.  Every member of qsf_hparams has a row of its own type in
description.c, from which QSF files are written and sessions are matched to models; and no other file than
arch.c knows an architecture by its name.
SPDX-License-Identifier: MIT

    model_tables_test.py
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Type in C: of a value, or of what a pointer has.
TYPES = {"char": "TEXT", "uint8_t": "U8", "bool": "BOOL", "uint32_t": "U32", "float": "F32"}
DECLARED = re.compile(r"(\*?)(\w+)(\[\w+\])?$")
ROW = re.compile(r'^    (MEMBER|LIST)\("[^"]+",\s*(\w+),\s*(\w+),', re.M)
SIZES = re.compile(r'^    SIZES\("[^"]+",\s*(\w+),', re.M)


def members(header):
    """{name: (type, whether it is an array)} of the struct's members."""
    body = re.search(r"typedef struct qsf_hparams \{(.*?)\n\} qsf_hparams;", header, re.S)[1]
    found = {}
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        if not line.strip():
            continue
        kind, names = line.split(None, 1)
        for name in names.split(","):
            star, name, _ = DECLARED.match(name.strip()).groups()
            assert name not in found, name
            found[name] = TYPES[kind], bool(star)
    return found


def rows(table):
    """The same of the table."""
    found = [(name, (kind, form == "LIST")) for form, kind, name in ROW.findall(table)]
    found += [(name, ("U32", True)) for name in SIZES.findall(table)]
    assert len(found) == len(dict(found)), "a member has two rows"
    return dict(found)


def differences(header, table):
    want, have = members(header), rows(table)
    missing = [f"{name} of qsf_hparams has no row in core/model/description.c"
               for name in want.keys() - have.keys()]
    wrong = [f"{name} is {want.get(name)} in qsf_hparams and {row} in core/model/description.c"
             for name, row in have.items() if want.get(name) != row]
    return sorted(missing + wrong)


# Other things of the same name: (file, names, why).
NAMESAKES = {
    "core/model/gguf_vocab.c": ({"llama", "gemma4", "gpt2", "bert", "plamo2", "rwkv"}, "vocabularies"),
    "core/chat/chat_templates.c": ({"phi3", "gemma", "command-r"}, "chat templates"),
}


def architectures(table):
    return set(re.findall(r'\{ \.name = "([^"]+)"', table))


def named(text, names):
    """Those of the names that stand in the code as strings."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {name for name in names if f'"{name}"' in code}


def check_architectures():
    names = architectures((ROOT / "core/model/arch.c").read_text())
    assert len(names) > 60, len(names)
    # "qwen" for all whose names begin with it
    families = {re.match("[a-z]{3,}", name)[0] for name in names}
    for path in sorted((ROOT / "core").rglob("*.[ch]")):
        place = path.relative_to(ROOT).as_posix()
        if place == "core/model/arch.c":
            continue
        allowed = NAMESAKES.get(place, (set(), ""))[0]
        found = named(path.read_text(), names | (families if place.startswith("core/model/") else set()))
        assert found <= allowed, f"{place} knows architectures by name: {found - allowed}; give them a column"
        assert allowed <= found, f"{place}: {allowed - found} need no exception any more"
    assert named('if (!memcmp(arch, "glm4", 4))', names) == {"glm4"}


def main():
    check_architectures()
    header = (ROOT / "core/model/hparams.h").read_text()
    table = (ROOT / "core/model/description.c").read_text()
    found = differences(header, table)
    assert not found, "\n".join(found)
    n = len(members(header))
    assert n > 90, n
    # a member more, a row less, another type: each is found
    assert differences(header.replace("    bool     altup;", "    bool     altup, extra;"), table)
    assert differences(header, re.sub(r'    MEMBER\("ffn.sparse",.*\n', "", table))
    assert differences(header.replace("float    sparse;", "uint32_t sparse;"), table)
    assert differences(header.replace("uint8_t *windowed;", "uint32_t *windowed;"), table)
    print(f"{n} members")


if __name__ == "__main__":
    main()
