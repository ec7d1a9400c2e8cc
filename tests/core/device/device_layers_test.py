#!/usr/bin/env python3
"""Which layers of all tiny models a GPU computes, and why not the others: ../../golden/device_layers.txt.
SPDX-License-Identifier: MIT

    device_layers_test.py DEVICE_LAYERS WORK
    device_layers_test.py DEVICE_LAYERS WORK --write

--write: makes device_layers.txt.
"""
import pathlib, subprocess, sys, textwrap

TESTS = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = TESTS / "golden" / "device_layers.txt"
sys.path.insert(0, str(TESTS / "parity"))
import make_tiny

HEAD = """Layers of the tiny models that a GPU computes, with the options' defaults, and what keeps the others on the
CPU.  Models with the same answer stand together; device_layers_test.py --write makes this file.
"""


def answers(program, paths):
    done = subprocess.run([program, *paths], capture_output=True, text=True)
    if done.returncode: sys.exit(f"{program}: {done.stdout}{done.stderr}")
    runs = {}
    for line in done.stdout.splitlines():
        path, first, end, why = line.split("\t")
        runs.setdefault(pathlib.Path(path).stem, []).append((int(first), int(end), why))
    return runs


def answer_text(runs):
    """All layers, none of them, or which ones, with reasons."""
    reasons = sorted({why for _, _, why in runs if why != "-"})
    if not reasons: return "all layers"
    if len(runs) == 1: return f"no layer: {reasons[0]}"
    moved = ", ".join(f"{a} to {b - 1}" if b - a > 1 else str(a) for a, b, why in runs if why == "-")
    return f"layers {moved or 'none'}; others: {', '.join(reasons)}"


def layers_text(runs):
    groups = {}
    for model, of in runs.items(): groups.setdefault(answer_text(of), []).append(model)
    text = [HEAD]
    for answer, models in sorted(groups.items()):
        names = textwrap.fill(" ".join(sorted(models)), 108, break_on_hyphens=False, initial_indent="    ",
                              subsequent_indent="    ")
        text += [answer, names, ""]
    return "\n".join(text)


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    paths = [str(make_tiny.make(work, name)[0]) for name in make_tiny.models(True)]
    text = layers_text(answers(program, paths))
    if sys.argv[3:] == ["--write"]: return GOLDEN.write_text(text)
    if text != GOLDEN.read_text():
        sys.exit(f"{GOLDEN} differs; write it again if the change is intended\n{text}")
    print(f"{len(paths)} models")


if __name__ == "__main__":
    main()
