#!/usr/bin/env python3
"""Writes what follows from the names of the flat layer (bindings/qsf_flat_names.h) and the enums of qsf.h.
SPDX-License-Identifier: MIT

    python3 tools/make_names.py            writes the files below
    python3 tools/make_names.py --check    reports which of them do not match

- js/names.js: names of numbers that js/engine.js asks for, and the constants that js/ uses;
- js/addresses.js: which arguments of the functions that js/ calls are addresses or sizes;
- bindings/node/calls.c: the functions that the Node.js addon exports, with the kinds of their arguments;
- bindings/python/qsf/_names.py: all names, for Python;
- docs/flat.md: the tables of numbers, texts and options.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES, HEADER = ROOT / "bindings" / "qsf_flat_names.h", ROOT / "include" / "qsf.h"
FLAT = ROOT / "bindings" / "qsf_flat.h"
SCRIPT, PAGE = ROOT / "js" / "names.js", ROOT / "docs" / "flat.md"
PYTHON = ROOT / "bindings" / "python" / "qsf" / "_names.py"
ADDRESSES = ROOT / "js" / "addresses.js"
ADDON = ROOT / "bindings" / "node" / "calls.c"
# Whose names are.
GROUPS = (("MODEL", "a model"), ("PLAN", "a context"), ("ITEM", "a part of the plan"), ("STATS", "a context"),
          ("LAYER", "a context"), ("LENGTH", "a conversation"), ("SESSION", "a conversation"),
          ("TURN", "a conversation"), ("PIECE", "an answer"), ("EMBEDDING", "an embedding"),
          ("ADAPTER", "an adapter"), ("SPLIT", "a conversation"),
          ("ANY", "any handle"), ("CHAT", "chats"), ("ANSWER", "answers"))
OPTIONS_OF = {"MODEL": "models", "EMBEDDING": "embeddings", "CHAT": "chats", "ANSWER": "answers"}


def rows(which):
    """The rows of a list: tuples of their arguments."""
    text = NAMES.read_text().replace("\\\n", "\n")
    text = text[text.index(f"#define QSF_FLAT_{which}(X)") :]
    found = []
    for line in text.splitlines()[1:]:
        row = re.fullmatch(r"\s*X\((.*)\)\s*", line)
        if not row:
            break
        parts = re.findall(r'\s*("[^"]*"|[^,"]+)\s*(?:,|$)', row[1])
        found.append(tuple(part.strip().strip('"') for part in parts))
    return found


def constants():
    """The enums of qsf.h: {"QSF_TURN_MOST": 3}."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    found = {name: int(value) for name, value in re.findall(r"\b(QSF_[A-Z0-9_]+)\s*=\s*(\d+)\s*[,}\s]", text)}
    for value, name in re.findall(r"X\((\d+),\s+(\w+),", text):
        found[f"QSF_{name}"] = int(value)
    value = re.search(r"QSF_FLAT_WAITING = (\d+)", FLAT.read_text())
    return found | {"QSF_FLAT_WAITING": int(value[1])}


def words(which, known):
    """The words of an enum, by its numbers."""
    pairs = {known[constant]: word for constant, word in rows(which)}
    return [pairs[i] for i in range(len(pairs))]


def statuses(known):
    """Without QSF_ and E_, by number."""
    text = HEADER.read_text()
    names = re.findall(r"X\((\d+),\s+(?:E_)?(\w+),", text[text.index("QSF_STATUS_MAP") :])
    return [name for _, name in sorted((int(n), name) for n, name in names)]


def camel(name):
    """kvHeads"""
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)


def of_group(kind, whose):
    return [row[1] for row in rows(kind) if row[2] == whose]


def script_list(name, items):
    line = f"export const {name} = '{' '.join(items)}'.split(' ');"
    if len(line) <= 110:
        return line + "\n"
    lines, inside = [f"export const {name} = ("], "  '"
    for i, item in enumerate(items):
        more = item + (" " if i + 1 < len(items) else "")
        if len(inside) + len(more) > 100:
            lines.append(inside + "' +")
            inside = "  '"
        inside += more
    return "\n".join([*lines, inside + "').split(' ');"]) + "\n"


# The constants that js/ uses.
USED = {
    "status": ("OK", "PENDING", "E_MEMORY", "E_IO", "E_BUDGET", "E_FULL", "E_CANCELLED"),
    "event": ("TEXT", "REASONING", "CALL", "ARGUMENTS", "CALL_END", "CALL_DROPPED", "CALL_CUT"),
    "grammar": ("GBNF", "REGEX", "JSON_SCHEMA", "CHOICES"),
}


def script(known):
    def values(kind, prefix):
        return ", ".join(f"{name}: {known[prefix + name]}" for name in USED[kind])

    out = ("/* What the engine calls things: names of numbers that it is asked for, and its enums.\n"
           " * tools/make_names.py makes it from bindings/qsf_flat_names.h and include/qsf.h: change those,\n"
           " * not this file.\n"
           " * SPDX-License-Identifier: MIT */\n")
    out += script_list("MODEL", map_camel(of_group("NUMBERS", "MODEL")))
    out += script_list("PLAN", map_camel(of_group("NUMBERS", "PLAN")))
    out += script_list("STATS", map_camel(of_group("NUMBERS", "STATS")))
    out += script_list("STATUS", statuses(known))
    out += "export const " + ", ".join(f"{n} = {known['QSF_' + n]}" for n in USED["status"]) + ";\n"
    out += f"export const ENDS = '{' '.join(words('ENDS', known))}'.split(' ');\n"
    out += f"export const EVENT = {{\n  {values('event', 'QSF_ANSWER_')}}};\n"
    out += f"export const GRAMMAR = {{{values('grammar', 'QSF_GRAMMAR_')}}};\n"
    out += (f"export const ADD_SPECIAL = {known['QSF_TOK_ADD_SPECIAL']}, "
            f"PARSE_SPECIAL = {known['QSF_TOK_PARSE_SPECIAL']}, WAITING = {known['QSF_FLAT_WAITING']};\n")
    return out


def called():
    """The names that js/ calls."""
    calls = "".join(path.read_text() for path in sorted((ROOT / "js").glob("*.js")) if path != ADDRESSES)
    return set(re.findall(r"\.(\w+)", calls))


def flat_functions():
    """(result, name, parameters) of the flat interface."""
    code = re.sub(r"/\*.*?\*/", "", FLAT.read_text(), flags=re.S)
    return re.findall(r"QSF_API\s+([\w *]+?)\s*\b(qsf_flat_\w+)\(([^()]*)\);", code)


def addresses():
    """Of each function that js/ calls, a letter for each parameter: a for a pointer or a size."""
    found = [(name, parameters) for _, name, parameters in flat_functions()]
    for path in sorted((ROOT / "platform" / "wasm").glob("*.c")):
        found += re.findall(r'WASM_EXPORT\("(\w+)"\)[\w *]+\(([^()]*)\)', path.read_text())
    names, kinds = called(), {}
    for name, parameters in found:
        letters = "".join("a" if re.search(r"\*|\bsize_t\b|\bqsf_log_fn\b", one) else "-"
                          for one in parameters.split(","))
        if "uint64_t" in parameters:
            sys.exit(f"{FLAT}: {name} has a 64-bit parameter that is not an address")
        if name in names and "a" in letters:
            kinds[name] = letters
    out = ("/* Which arguments of a module's functions are addresses or sizes (a): BigInts, if the module's\n"
           " * addresses have 64 bits. tools/make_names.py makes it from bindings/qsf_flat.h and\n"
           " * platform/wasm: change those, not this file.\n"
           " * SPDX-License-Identifier: MIT */\n"
           "export const ADDRESSES = {\n")
    return out + "".join(f"  {name}: '{letters}',\n" for name, letters in sorted(kinds.items())) + "};\n"


# What the addon repeats within a call, and what it does in a way of its own.
STEPS = ("qsf_flat_step", "qsf_flat_embedding_step", "qsf_flat_refine")
OWN_CALLS = {
    "qsf_flat_free": ("NODE_HANDLE", "node_free(e, v[0].u)"),
    "pieces": ("NODE_HANDLE, NODE_AT(4, 2), NODE_SIZE, NODE_U32", "node_pieces(e, v)"),
    "session_save": ("NODE_HANDLE", "node_session_save(e, v[0].u)"),
    "session_load": ("NODE_HANDLE, NODE_SIZE", "node_session_load(e, v[0].u, (double)v[1].n)"),
    "adapter_load": ("NODE_HANDLE, NODE_TEXT, NODE_SIZE",
                     "node_adapter_load(e, v[0].u, v[1].p, (double)v[2].n)"),
}
SIZES = {"char": "1", "int32_t": "4", "uint32_t": "4", "float": "4", "size_t": "sizeof(size_t)"}
HANDLES = ("handle", "model", "context", "conversation", "answer", "adapter", "embedding", "parent", "but")


def addon_argument(parameters, i):
    """The kind of a parameter, and the member of node_value."""
    _, of, star, name = re.fullmatch(r"(const )?(\w+) (\*?)(\w+)", parameters[i]).groups()
    if not star:
        kind = {"uint32_t": "NODE_HANDLE" if name in HANDLES else "NODE_U32", "int32_t": "NODE_I32",
                "double": "NODE_DOUBLE", "size_t": "NODE_SIZE"}[of]
        return kind, {"NODE_I32": "i", "NODE_DOUBLE": "d", "NODE_SIZE": "n"}.get(kind, "u")
    sizes = [k for k in range(i + 1, len(parameters)) if parameters[k].startswith("size_t ")
             and "*" not in parameters[k]]
    if name == "options":
        return "NODE_LIST", "p"
    if name in ("name", "path"):
        return "NODE_TEXT", "p"
    if name == "ids" and "lens" in " ".join(parameters):
        return "NODE_LENT", "p"
    return f"NODE_AT({SIZES[of]}, {sizes[0]})", "p"


def addon_row(result, name, parameters):
    """The wrapper of a function, and its row of the table."""
    parameters = [" ".join(one.split()) for one in parameters.split(",")]
    if name in OWN_CALLS:
        kinds, body = OWN_CALLS[name]
    else:
        taken = [addon_argument(parameters, i) for i in range(len(parameters))]
        kinds = ", ".join(kind for kind, _ in taken)
        body = f"{name}({', '.join(f'v[{i}].{member}' for i, (_, member) in enumerate(taken))})"
    short = f"call_{name.removeprefix('qsf_flat_')}"
    makes = "true" if name.endswith("_new") else "false"
    unused = "" if "(e, " in body else "(void)e; "
    text = ""
    if name in STEPS:
        text = f"static int32_t one_{short[5:]}(const node_value *v) {{ return {body}; }}\n"
        unused, body = "", f"node_steps(e, v, one_{short[5:]})"
    inside = f"{unused}return {body};" if result != "void" else f"{unused}{body}; return 0;"
    text += (f"static double {short}(node_engine *e, const node_value *v)\n{{\n    " +
             inside.replace("; ", ";\n    ") + "\n}\n")
    row = f'    {{ "{name}",\n      {{ {kinds} }},\n      {kinds.count("NODE_")}, {makes}, {short} }},\n'
    return text, row


def addon():
    """bindings/node/calls.c"""
    names = called()
    found = [f for f in flat_functions() if f[1] in names and f[1] not in ("qsf_flat_model_new",)]
    found += [("int32_t", name, "") for name in OWN_CALLS if not name.startswith("qsf_")]
    made = [addon_row(*function) for function in found]
    return ("/* The functions that the addon exports: those of the flat interface that js/ calls, and what\n"
            " * a module has besides.  tools/make_names.py makes this file from bindings/qsf_flat.h.\n"
            " * SPDX-License-Identifier: MIT */\n"
            '#include "node.h"\n\n' + "".join(text for text, _ in made) +
            "\nconst node_call node_calls[] = {\n" + "".join(row for _, row in made) +
            "};\nconst size_t node_n_calls = sizeof node_calls / sizeof *node_calls;\n")


def map_camel(names):
    return [camel(name) for name in names]


def python_tuple(name, items):
    lines, inside = [], ""
    for item in items:
        more = f'"{item}", '
        if len(inside) + len(more) > 100:
            lines.append(inside.rstrip())
            inside = ""
        inside += more
    return f"{name} = (\n" + "".join(f"    {line}\n" for line in [*lines, inside.rstrip()]) + ")\n"


def python(known):
    out = ('"""The names of the flat interface (bindings/qsf_flat.h).\n'
           "SPDX-License-Identifier: MIT\n\n"
           "tools/make_names.py makes it from bindings/qsf_flat_names.h and include/qsf.h: change those, "
           "not this file.\n"
           '"""\n')
    out += "# By number.\n"
    out += python_tuple("STATUS", statuses(known))
    out += python_tuple("ENDS", words("ENDS", known))
    out += python_tuple("POOLINGS", words("POOLINGS", known))
    out += "# By name, and whose they are; qsf_flat_find has their numbers.\n"
    for kind in ("NUMBERS", "TEXTS"):
        for whose in dict.fromkeys(row[2] for row in rows(kind)):
            out += python_tuple(f"{kind}_OF_{whose}", of_group(kind, whose))
    out += python_tuple("OPTIONS", [row[0] for row in rows("OPTIONS")])
    out += "# Constants of qsf.h.\n"
    for prefix in ("QSF_ANSWER_", "QSF_GRAMMAR_", "QSF_TOK_", "QSF_FLAT_", "QSF_LOG_"):
        for name, value in known.items():
            if name.startswith(prefix):
                out += f"{name.removeprefix('QSF_')} = {value}\n"
    return out


def tables():
    whose = dict(GROUPS)
    out = ["## Numbers", "", "| name | of | |", "|---|---|---|"]
    out += [f"| `{r[1]}` | {whose[r[2]]} | {r[4]} |" for r in rows_with_help("NUMBERS")]
    out += ["", "## Texts", "", "| name | of | |", "|---|---|---|"]
    out += [f"| `{r[1]}` | {whose[r[2]]} | {r[3]} |" for r in rows_with_help("TEXTS")]
    out += ["", "## Options", "", "Contexts take the options of `qsf_context_option`, answers those of "
            "`qsf_sampler_option` and", "`qsf_turn_option` ([api.md](api.md)). These are added:", "",
            "| option | of | values | |", "|---|---|---|---|"]
    kinds = {"FLAG": "true, false", "WHOLE": "a whole number", "TEXT": "text"}
    out += [f"| `{r[0]}` | {OPTIONS_OF[r[3]]} | {kinds[r[1]]} | {r[4]} |" for r in rows_with_help("OPTIONS")]
    return "\n".join(out) + "\n"


def rows_with_help(which):
    """Rows whose last argument, a sentence, may have commas."""
    n = {"NUMBERS": 5, "TEXTS": 4, "OPTIONS": 5}[which]
    return [r if len(r) == n else sys.exit(f"{NAMES}: {r} has {len(r)} parts") for r in rows(which)]


def page(text):
    """docs/flat.md with its tables."""
    begin = text.index("## Numbers")
    return text[:begin] + tables()


def main():
    known = constants()
    made = {SCRIPT: script(known), ADDRESSES: addresses(), ADDON: addon(), PYTHON: python(known),
            PAGE: page(PAGE.read_text())}
    for path, text in made.items():
        if path.exists() and path.read_text() == text:
            continue
        if sys.argv[1:] == ["--check"]:
            sys.exit(f"{path.relative_to(ROOT)} does not match the names: run python3 tools/make_names.py")
        path.write_text(text)


if __name__ == "__main__":
    main()
