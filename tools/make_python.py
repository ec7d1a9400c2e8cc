#!/usr/bin/env python3
"""Writes the parts of the Python package that follow from the C headers and from the lists of options.
SPDX-License-Identifier: MIT

    python3 tools/make_python.py            writes the files below
    python3 tools/make_python.py --check    reports which of them do not match

In bindings/python/qsf:

- _abi.py: the declarations of the library as cffi compiles them, which spares the package the parser: all of
  bindings/qsf_flat.h and of qsf_python.h, and those of include/qsf.h and include/qsf_convert.h that the lists
  below name.  It needs the package cffi of tests/requirements.txt, and is left out without it;
- _option_types.py: the options of load(), generate() and chat() with their types, for type checkers;
- _peers.py: what other packages call these options, from js/peers.js.

tools/make_names.py writes _names.py.
"""
import ast
import contextlib
import io
import pathlib
import pprint
import re
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_options  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER, FLAT = ROOT / "include" / "qsf.h", ROOT / "bindings" / "qsf_flat.h"
CONVERT, OWN = ROOT / "include" / "qsf_convert.h", ROOT / "bindings" / "python" / "qsf_python.h"
PEERS = ROOT / "js" / "peers.js"
PACKAGE = ROOT / "bindings" / "python" / "qsf"
HEAD = ('"""{}\nSPDX-License-Identifier: MIT\n\n'
        'tools/make_python.py makes it from {}:\nchange those, not this file.\n"""\n')

# What the package uses of qsf.h besides what qsf_flat.h needs.
WANTED_TYPES = ("qsf_error", "qsf_log_level", "qsf_log_fn", "qsf_write_fn", "qsf_model", "qsf_context",
                "qsf_option_kind", "qsf_option", "qsf_seq", "qsf_row", "qsf_devices",
                "qsf_platform", "qsf_device_use", "qsf_i2s_layout", "qsf_record_type",
                "qsf_record", "qsf_record_fn")
WANTED_OF_CONVERT = ("qsf_convert_preset", "qsf_convert_switch", "qsf_convert_compression",
                     "qsf_convert_prefer", "qsf_convert_rule", "qsf_convert_adapter", "qsf_convert_options",
                     "qsf_convert_result", "qsf_convert_summary", "qsf_convert_tensor")
CALLED_OF_CONVERT = ("qsf_convert_preset_name", "qsf_convert_preset_find", "qsf_convert_defaults_of",
                     "qsf_convert_run", "qsf_convert_result_free", "qsf_convert_get_summary",
                     "qsf_convert_get_tensor")
WANTED = ("qsf_version", "qsf_context_option", "qsf_sampler_option", "qsf_turn_option", "qsf_seq_truncate",
          "qsf_batch_begin", "qsf_batch_layer", "qsf_step", "qsf_wait", "qsf_logits", "qsf_last_error",
          "qsf_devices_open", "qsf_devices_close", "qsf_context_use_device", "qsf_context_device",
          "qsf_i2s_layout_find")
# Options of contexts that load() sets by itself.
NOT_LOADED = {"seqs", "logits", "device-layers"}
# What Python calls options whose name is not the engine's with "_" for "-".
RENAMED = {"ctx-size": "context_length"}
# What js/peers.js calls options that Python does not call max_tokens for maxTokens.
OF_SCRIPTS = {script: RENAMED.get(name, name.replace("-", "_"))
              for name, script in make_options.NAMES.items()}
# Options of the npm package alone.
OF_SCRIPTS_ALONE = {"signal", "onToken", "onPart", "onProgress", "onToolCall", "cache", "wasmPaths",
                    "workerUrl", "hubToken", "timeout"}


def bare(path):
    """A header without comments, directives and what compilers alone need."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S).replace("\\\n", " ")
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)
    return re.sub(r'extern "C" \{|\bQSF_(CONVERT_)?API\b', "", text)


def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()


def type_of(name, text):
    """The typedef of a name."""
    if name == "qsf_status":
        return "typedef int qsf_status;"
    found = (re.search(rf"typedef (?:struct|enum) \w+ \{{[^}}]*\}} {name};", text)
             or re.search(rf"typedef [^;{{}}]*\b{name};", text)
             or re.search(rf"typedef [^;{{}}]*\(\*{name}\)[^;]*;", text))
    if not found:
        sys.exit(f"{HEADER}: no type {name}")
    return squeezed(found[0])


def function_of(name, text):
    found = re.search(rf"[^;{{}}]*\b{name}\([^;{{}}]*\);", text)
    if not found:
        sys.exit(f"{HEADER}: no function {name}")
    return squeezed(found[0])


def cdef():
    text, flat, convert, own = map(bare, (HEADER, FLAT, CONVERT, OWN))
    lines = [type_of("qsf_status", text)] + [type_of(name, text) for name in WANTED_TYPES]
    lines += [function_of(name, text) for name in WANTED]
    lines += [squeezed(part) + ";" for part in re.findall(r"([^;{}]*\bqsf_flat_\w+\([^;{}]*\));", flat)]
    lines += [type_of(name, convert) for name in WANTED_OF_CONVERT]
    lines += [function_of(name, convert) for name in CALLED_OF_CONVERT]
    lines += [squeezed(part) for part in re.findall(
        r"enum \{[^}]*\};|typedef struct \w+ \{[^}]*\} \w+;|typedef [^;{]*;", own)]
    lines += [squeezed(part) + ";" for part in re.findall(r"([^;{}]*\bqsf_python_\w+\([^;{}]*\));", own)
              if "typedef" not in part]
    return "\n".join(lines)


def abi():
    """cffi's own form of the declarations, with lines of this tree's length; None: cffi is missing."""
    try:
        import cffi
    except ImportError:
        print("left out: _abi.py needs cffi (tests/requirements.txt)", file=sys.stderr)
        return None
    ffi = cffi.FFI()
    ffi.set_source("qsf._abi", None)
    ffi.cdef(cdef())
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = pathlib.Path(folder) / "_abi.py"
        ffi.emit_python_code(str(path))
        call = ast.parse(path.read_text()).body[-1].value
    head = HEAD.format("The C declarations as cffi compiles them.",
                       "include/qsf.h, include/qsf_convert.h, bindings/qsf_flat.h and qsf_python.h")
    name = ast.literal_eval(call.args[0])
    out = head + f"import _cffi_backend\n\nffi = _cffi_backend.FFI(\n    {name!r},\n"
    for one in call.keywords:
        value = pprint.pformat(ast.literal_eval(one.value), width=98)
        out += textwrap.indent(f"{one.arg}={value},\n", "    ")
    return out + ")\n"


def python_name(option):
    return RENAMED.get(option.name, option.name.replace("-", "_"))


def python_type(option):
    if option.kind == "choice":
        return "Literal[" + ", ".join(f'"{word}"' for word in option.choices) + "]"
    return {"whole": "int", "number": "float", "flag": "bool", "text": "str"}[option.kind]


def optional(kind):
    return f"Optional[{kind}]"


def typed(name, base, doc, options):
    lines = [f"class {name}({base}, total=False):", f'    """{doc}"""', ""]
    for o in options:
        said = o.help if o.kind == "text" else f"{o.help}; default {make_options.default(o)}"
        lines += textwrap.wrap(said, 98, initial_indent="    # ", subsequent_indent="    # ")
        lines.append(f"    {python_name(o)}: {optional(python_type(o))}")
    return "\n".join(lines) + "\n"


def option_types():
    head = HEAD.format("The options whose names and ranges the engine has, for type checkers.",
                       "core/engine/options.c")
    contexts = [o for o in make_options.options() if o.name not in NOT_LOADED]
    turns = [o for o in make_options.options("turn") if o.name in make_options.TURN_NAMES]
    return (head + "from typing import Literal, Optional, TypedDict\n\n\n" +
            typed("ContextOptions", "TypedDict", "Options of load().", contexts) + "\n\n" +
            typed("SamplingOptions", "TypedDict", "Options of answers.",
                  make_options.options("sampler") + turns))


def snake(name):
    return re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), name)


def camel(name):
    return make_options.camel(name.replace("_", "-"))


def peers():
    text = PEERS.read_text()
    text = text[text.index("Object.entries({") :]
    pairs = re.findall(r"(\w+): '([^']*)'", text[: text.index("});")])
    head = HEAD.format("What other packages call the options.", "js/peers.js")
    out = head + "# By our names; without letter case and signs.\nPEERS = {\n"
    for script, others in pairs:
        if script in OF_SCRIPTS_ALONE:
            continue
        name = OF_SCRIPTS.get(script, snake(script))
        own = [] if script == camel(name) else [script]
        words = " ".join(word.lower() for word in own + others.split())
        line = f'    "{name}": "{words}",'
        if len(line) > 108:
            at = words.rindex(" ", 0, 60)
            line = line[: line.index('"', 8)] + f'": "{words[:at]} "\n        "{words[at + 1 :]}",'
        out += line + "\n"
    return out + "}\n"


def main():
    made = {"_abi.py": abi(), "_option_types.py": option_types(), "_peers.py": peers()}
    for name, text in made.items():
        path = PACKAGE / name
        if text is None or path.exists() and path.read_text() == text:
            continue
        if sys.argv[1:] == ["--check"]:
            sys.exit(f"{path.relative_to(ROOT)} does not match its sources: run python3 tools/make_python.py")
        path.write_text(text)


if __name__ == "__main__":
    main()
