#!/usr/bin/env python3
"""Folders have a direction: what a file includes or imports, and what its object calls, lies in its own
folder or below.  Files have one, too: no circle of calls.  Global names of the libraries begin with qsf_.
SPDX-License-Identifier: MIT

    direction_test.py NM OBJECT...        the libraries' objects, in folders named as those of their sources
"""
import os, pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BELOW = {
    "core/base": (),
    "core/tensor": ("core/base",),
    "core/text": ("core/base",),
    "core/tokens": ("core/base", "core/text"),
    "core/grammar": ("core/base", "core/text", "core/tokens"),
    "core/chat": ("core/base", "core/text", "core/tokens", "core/grammar"),
    "kernels": ("core/base", "core/tensor"),
    "platform": ("core/base",),
}
BELOW["core/model"] = (*BELOW["core/chat"], "core/chat", "core/tensor", "kernels")
BELOW["core/weights"] = (*BELOW["core/model"], "core/model")
BELOW["core/layers"] = (*BELOW["core/weights"], "core/weights")
BELOW["core/engine"] = (*BELOW["core/layers"], "core/layers")
BELOW["core/device"] = (*BELOW["core/engine"], "core/engine")
BELOW["core/turn"] = (*BELOW["core/engine"], "core/engine")
BELOW["core"] = (*BELOW["core/turn"], "core/turn", "core/device")
CORE = tuple(room for room in BELOW if room != "platform")
BELOW["convert/read"] = CORE
BELOW["convert/plan"] = (*CORE, "convert/read")
BELOW["convert/calibrate"] = (*CORE, "convert/read", "convert/plan")
BELOW["convert/encode"] = (*CORE, "convert/read", "convert/plan")
BELOW["convert/tune"] = (*CORE, "convert/read", "convert/plan", "convert/calibrate")
BELOW["convert"] = (*CORE, "convert/read", "convert/plan", "convert/calibrate", "convert/encode",
                    "convert/tune")
# The programs see the public headers alone; bindings/ and parity/ also the platform's table.
BELOW["bindings"] = ("core/base", "hub")             # bindings/python finds models by name
BELOW["bindings/node"] = ("core/base", "bindings")
BELOW["serve"] = ()
BELOW["hub"] = ("core/base", "core/text", "platform")      # lists are JSON, and libcurl is loaded
BELOW["parity"] = ("core/base", "hub")
BELOW["cli"] = ("serve", "parity", "hub")
BELOW["mpi"] = ("serve", "cli")
PROGRAMS = ("bindings", "serve", "hub", "parity", "cli", "mpi")
# Global names of these must not collide with those of programs that link the libraries.
LIBRARIES = ("bindings/", "core/", "kernels/", "platform/", "convert/")
PREFIXES = ("qsf", "odr_asan")      # and what a sanitizer adds
# They call the public interface: a module's exports, and the printing that a core without
# stdio cannot do.
FREE = ("platform/wasm/", "platform/wasi/", "platform/native/stats_print.c")
# The platform where a caller names none; what a plan counts for the sampler of a turn, whose struct
# the sampler alone knows.
HOOKS = {"qsf_platform_native", "qsf_sampler_bytes"}

# What includes a header that its folder may not, and why.  These lists may only get shorter.
INCLUDES = {
    "core/engine/plan.c turn/sampler.h": "the hook above",
    "cli/bench_cache.c layers/kv.h": "measures attention kernels over a cache, whose layout this is",
    "cli/bench_head.c base/platform.h": "a head that is no model's needs the platform's table",
    "cli/bench_kernels.c tensor/types.h": "measures kernels, which the public interface hides",
    "cli/bench_kernels.h kernels.h": "the same",
    "cli/bench_machine.h base/pool.h": "measures the machine by the core's threads",
    "cli/bench_model.c kernels.h": "names the kernels that a model uses",
    "cli/bench_model.c model/model.h": "reads the model's sizes, of which a speed limit is computed",
    "cli/bench_peak.c sets.h": "needs the instruction sets' pragmas",
    "cli/bench_sets.c kernels.h": "lists the instruction sets",
    "cli/edit.c text/unicode.h": "characters of UTF-8",
    "cli/edit_history.c text/unicode.h": "characters of UTF-8",
    "cli/edit_screen.c text/unicode.h": "characters of UTF-8",
    "cli/width.c text/unicode.h": "characters of UTF-8, and their properties",
    "cli/out_file.h base/platform.h": "writes by the platform's table",
    "cli/terminal.c base/platform.h": "the platform's clock",
    "cli/trace.c base/base.h": "names of records",
}
# Whoever computes is called through the executor's table: the CPU's struct is named here alone.
CPU_STRUCT = re.compile(r"\bon_cpu\b")
CPU_FILES = ("core/engine/context.h", "core/engine/context.c", "core/engine/cpu_executor.h",
             "core/engine/cpu_executor.c")
# Circles of files that call one another, and why.
CIRCLES = {
    "core/grammar/grammar.c core/grammar/grammar_nodes.c":
        "whether a node is within another one is asked of the automaton, which makes nodes",
    "core/grammar/schema.c core/grammar/schema_array.c core/grammar/schema_goal.c "
    "core/grammar/schema_object.c core/grammar/schema_number.c core/grammar/schema_string.c":
        "a schema has schemas of members and elements in it",
    "core/chat/jinja_builtin.c core/chat/jinja_date.c core/chat/jinja_emit.c core/chat/jinja_filter.c "
    "core/chat/jinja_format.c core/chat/jinja_letters.c core/chat/jinja_lex.c core/chat/jinja_markup.c "
    "core/chat/jinja_number.c core/chat/jinja_print.c core/chat/jinja_reach.c core/chat/jinja_run.c "
    "core/chat/jinja_run_call.c core/chat/jinja_text.c core/chat/jinja_value.c":
        "an interpreter: values, text, filters and calls run one another",
    "cli/options.c cli/options_foreign.c":
        "parsing looks up other programs' options and prints help, which read rows as parsing does",
}
# Scripts: what browsers and Node.js share is below what only one of them runs.  The page is a user
# of the package, and sees its entry alone.
NODE = ("js/addons.js", "js/cli.js", "js/folder.js", "js/native.js", "js/node.js",      # Node.js's files
        "js/node_host.js", "js/worker-node.js")
PAGE_SERVER = "demo/serve.mjs"          # a program for Node.js, which serves the page to try it
FOREIGN = ("@langchain/core/",)         # what an optional file may import of the package whose shape it has
SHAPES = ("js/langchain.js",)
SCRIPTS_BELOW = {
    "shared": ("shared",),
    "node": ("shared", "node", "node:"),
    "shape": ("shared", "foreign"),
    "web": ("shared", "web"),
    "demo": ("demo", "package"),
    "page server": ("node:",),
}
# Where a site has the package: its entry for browsers, and what reads the names of a hub's models.
PACKAGE = {"demo/js/browser.js", "demo/js/hub.js"}
IMPORT = re.compile(r"^(?:import|export)\s[\w\s{},*$]*?\bfrom\s*'([^']+)'|^import\s*'([^']+)'|"
                    r"\bimport\(\s*'([^']+)'|\bnew URL\('(\.[^']+\.js)', import\.meta\.url", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def room(path):
    """The folder of BELOW that a path of the tree lies in; "" for the public headers and the rest."""
    parts = path.split("/")
    if parts[0] in ("core", "convert") or path.startswith("bindings/node/"):
        return parts[0] + "/" + parts[1] if len(parts) > 2 else parts[0]
    return parts[0] if parts[0] in BELOW else ""


def may(user, used):
    return not used or user == used or used in BELOW[user]


def included(path, name):
    """The path of a header of ours, "" where it is none."""
    for folder in (path.parent, ROOT / "include", ROOT / "core", ROOT / "core/base", ROOT / "kernels",
                   ROOT / "convert", ROOT / "cli", ROOT / "serve", ROOT / "parity", ROOT / "hub"):
        if (folder / name).is_file():
            return (folder / name).resolve().relative_to(ROOT).as_posix()
    return ""


def wrong_includes():
    seen = set()
    for folder in ("core", "kernels", "platform", "convert", *PROGRAMS):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(FREE):
                continue
            for header in INCLUDE.findall(path.read_text()):
                used = room(included(path, header))
                if may(room(name), used):
                    continue
                seen.add(f"{name} {header}")
                if f"{name} {header}" not in INCLUDES:
                    yield f"{name} includes {header} of {used}"
    for line in sorted(set(INCLUDES) - seen):
        yield f"{line}: it is not included there any more; take it off the list"


def wrong_numbers():
    """Rows, logits, keys and values are an executor's: the engine and its callers use its table."""
    for folder in ("core", "convert", *PROGRAMS):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            name = path.relative_to(ROOT).as_posix()
            if name not in CPU_FILES and CPU_STRUCT.search(path.read_text()):
                yield f"{name} uses the CPU's numbers; they are had through executor.h"


def script_room(name):
    """The row of SCRIPTS_BELOW for a path of the tree, "node:", "foreign" or "package"; else the path."""
    if name.startswith("node:"):
        return "node:"
    if name.startswith(FOREIGN):
        return "foreign"
    if name in SHAPES:
        return "shape"
    if name in PACKAGE:
        return "package"
    if name == PAGE_SERVER:
        return "page server"
    if not (ROOT / name).is_file():
        return name
    rooms = {"js": "node" if name in NODE else "shared", "web": "web", "demo": "demo"}
    return rooms.get(name.split("/")[0], name)


def wrong_imports():
    count = 0
    for path in sorted(p for f in ("js", "web", "demo") for p in (ROOT / f).glob("*.*js")):
        name = path.relative_to(ROOT).as_posix()
        for found in IMPORT.findall(path.read_text()):
            used = next(filter(None, found))
            if used.startswith("."):
                used = os.path.relpath(path.parent / used, ROOT).replace(os.sep, "/")
            count += 1
            if script_room(used) not in SCRIPTS_BELOW[script_room(name)]:
                yield f"{name} imports {used}"
    for name in (*NODE, *SHAPES, PAGE_SERVER):
        if not (ROOT / name).is_file():
            yield f"{name}: it is not there any more; take it off the list"
    if count < 100:
        yield f"only {count} imports in js/, web/ and demo/: something is missing"


def circles_of(uses):
    """The files that call one another in circles, as sets, by Tarjan's algorithm."""
    number, low, stack, found = {}, {}, [], []
    for root in sorted(uses):
        walk = [] if root in number else [(root, iter(sorted(uses[root])))]
        if walk:
            number[root] = low[root] = len(number)
            stack.append(root)
        while walk:
            name, rest = walk[-1]
            for used in rest:
                if used not in number:
                    number[used] = low[used] = len(number)
                    stack.append(used)
                    walk.append((used, iter(sorted(uses[used]))))
                    break
                if used in stack:
                    low[name] = min(low[name], number[used])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[name])
                if low[name] == number[name]:
                    circle = set(stack[stack.index(name):])
                    del stack[stack.index(name):]
                    if len(circle) > 1:
                        found.append(circle)
    return found


def wrong_circles(calls):
    """calls: (file, used file, symbol)."""
    uses, symbols = {}, {}
    for name, used, symbol in calls:
        uses.setdefault(name, set())
        if used and used != name:
            uses.setdefault(used, set())
            uses[name].add(used)
            symbols.setdefault((name, used), symbol)
    found = circles_of(uses)
    for circle in found:
        if any(circle <= set(files.split()) for files in CIRCLES):
            continue
        yield f"{len(circle)} files call one another in circles:"
        for name in sorted(circle):
            for used in sorted(uses[name] & circle):
                yield f"    {name} calls {symbols[name, used]} of {used}"
    for files in CIRCLES:
        for name in files.split():
            if name in uses and not any(name in circle for circle in found):
                yield f"{name}: it is in no circle any more; take it off the list"


def wrong_calls(nm, objects):
    defined, wanted, names = {}, [], {}
    for path in objects:
        found = re.search(r"\.dir/(?:\./)?((?:bindings|core|kernels|platform|convert|hub|serve|parity|cli|"
                          r"mpi)/[\w/.-]+\.c)\.(?:o|obj)$", path)
        if found:               # else a library's, or a generated one
            names[path] = found[1]
    listing = subprocess.run([nm, "-A", "-g", "-P", *names], stdout=subprocess.PIPE, check=True,
                             text=True).stdout
    for line in listing.splitlines():
        path, symbol, kind = re.match(r"(.*): (\S+) (\S)", line).groups()
        if kind in "Uvw":
            wanted.append((names[path], symbol))
        else:
            defined[symbol] = names[path]
            if names[path].startswith(LIBRARIES) and not symbol.lstrip("_").lower().startswith(PREFIXES):
                yield f"{names[path]} defines {symbol}: a global name of a library begins with qsf_"
    for name, symbol in wanted:
        used = room(defined.get(symbol, ""))
        if room(name) in PROGRAMS:          # what they call is declared in what they include
            continue
        if symbol not in HOOKS and not name.startswith(FREE) and not may(room(name), used):
            yield f"{name} calls {symbol} of {defined[symbol]}"
    yield from wrong_circles((name, defined.get(symbol, ""), symbol) for name, symbol in wanted
                             if symbol not in HOOKS)
    if len(defined) < 300:
        yield f"only {len(defined)} symbols in {len(objects)} objects: something is missing"


def main():
    wrong = [*wrong_includes(), *wrong_numbers(), *wrong_imports(), *wrong_calls(sys.argv[1], sys.argv[2:])]
    for line in wrong:
        print(line)
    print(f"{len(wrong)} of them do not point down" if wrong else
          "every include, import and call points down")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
