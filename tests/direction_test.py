#!/usr/bin/env python3
"""Folders have a direction: what a file includes, and what its object calls, lies in its own folder or below.
Inside convert/ the files have one, too: no circle of calls.
SPDX-License-Identifier: MIT

    direction_test.py NM OBJECT...        the libraries' objects, in folders named as those of their sources
"""
import pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BELOW = {
    "core/base": (),
    "core/tensor": ("core/base",),
    "core/text": ("core/base",),
    "kernels": ("core/base", "core/tensor"),
    "core/model": ("core/base", "core/tensor", "core/text", "kernels"),
    "core/weights": ("core/base", "core/tensor", "core/text", "kernels", "core/model"),
    "platform": ("core/base",),
}
BELOW["core/layers"] = (*BELOW["core/weights"], "core/weights")
BELOW["core/engine"] = (*BELOW["core/layers"], "core/layers")
BELOW["core/turn"] = (*BELOW["core/engine"], "core/engine")
BELOW["core"] = (*BELOW["core/turn"], "core/turn")
CORE = tuple(room for room in BELOW if room != "platform")
BELOW["convert/read"] = CORE
BELOW["convert/plan"] = (*CORE, "convert/read")
BELOW["convert/calibrate"] = (*CORE, "convert/read", "convert/plan")
BELOW["convert/encode"] = (*CORE, "convert/read", "convert/plan")
BELOW["convert/tune"] = (*CORE, "convert/read", "convert/plan", "convert/calibrate")
BELOW["convert"] = (*CORE, "convert/read", "convert/plan", "convert/calibrate", "convert/encode",
                    "convert/tune")
# The server sees the public headers alone.
BELOW["serve"] = ()
# So does the comparison with other engines; the platform's table is one of them.
BELOW["parity"] = ("core/base",)
# They call the public interface: a module's exports, and the printing that a core without
# stdio cannot do.
FREE = ("platform/wasm/", "platform/wasi/", "platform/native/stats_print.c")
# The platform where a caller names none; what a plan counts for the sampler of a turn, whose struct
# the sampler alone knows.
HOOKS = {"qsf_platform_native", "qsf_sampler_bytes"}
HOOK_HEADERS = {("core/engine/plan.c", "turn/sampler.h")}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def room(path):
    """The folder of BELOW that a path of the tree lies in; "" for the public headers and the rest."""
    parts = path.split("/")
    if parts[0] in ("core", "convert"):
        return parts[0] + "/" + parts[1] if len(parts) > 2 else parts[0]
    return parts[0] if parts[0] in BELOW else ""


def may(user, used):
    return not used or user == used or used in BELOW[user]


def included(path, name):
    """The path of a header of ours, "" where it is none."""
    for folder in (path.parent, ROOT / "include", ROOT / "core", ROOT / "core/base", ROOT / "kernels",
                   ROOT / "convert"):
        if (folder / name).is_file():
            return (folder / name).resolve().relative_to(ROOT).as_posix()
    return ""


def wrong_includes():
    for folder in ("core", "kernels", "platform", "convert", "serve", "parity"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(FREE):
                continue
            for header in INCLUDE.findall(path.read_text()):
                used = room(included(path, header))
                if (name, header) not in HOOK_HEADERS and not may(room(name), used):
                    yield f"{name} includes {header} of {used}"


def circles(calls):
    """Rounds of files of convert/ that call one another: what is left when files that call no other
    are taken away."""
    uses = {}
    for name, used in calls:
        if name.startswith("convert/") and used.startswith("convert/") and name != used:
            uses.setdefault(name, set()).add(used)
            uses.setdefault(used, set())
    while ends := {name for name in uses if not uses[name]}:
        uses = {name: used - ends for name, used in uses.items() if name not in ends}
    for name, used in sorted(uses.items()):
        yield f"{name} is in a circle, or calls one: {', '.join(sorted(used))}"


def wrong_calls(nm, objects):
    defined, wanted = {}, []
    for path in objects:
        found = re.search(r"\.dir/(?:\./)?((?:core|kernels|platform|convert)/[\w/.-]+\.c)(?=\.(?:o|obj)$)",
                          path)
        if not found:
            sys.exit(f"{path}: no object of core/, kernels/, platform/ or convert/")
        name = found[1]
        listing = subprocess.run([nm, "-g", "-P", path], stdout=subprocess.PIPE, check=True, text=True).stdout
        for line in listing.splitlines():
            symbol, kind = line.split()[:2]
            if kind in "Uvw":
                wanted.append((name, symbol))
            else:
                defined[symbol] = name
    for name, symbol in wanted:
        used = room(defined.get(symbol, ""))
        if symbol not in HOOKS and not name.startswith(FREE) and not may(room(name), used):
            yield f"{name} calls {symbol} of {defined[symbol]}"
    yield from circles((name, defined.get(symbol, "")) for name, symbol in wanted)
    if len(defined) < 300:
        yield f"only {len(defined)} symbols in {len(objects)} objects: something is missing"


def main():
    wrong = [*wrong_includes(), *wrong_calls(sys.argv[1], sys.argv[2:])]
    for line in wrong:
        print(line)
    print(f"{len(wrong)} of them do not point down" if wrong else "every include and call points down")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
