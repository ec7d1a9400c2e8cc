#!/usr/bin/env python3
"""Programs of all tiny models: rows lie within the buffers laid out for them and write nowhere else, and
their kinds are those of ../../golden/programs.txt, so that a new kind is noticed.
SPDX-License-Identifier: MIT

    program_models_test.py PROGRAM_MODELS WORK [EVERY]
    program_models_test.py PROGRAM_MODELS WORK --write

EVERY: 5 takes every fifth model, and does not compare kinds.  --write: makes programs.txt.
"""
import pathlib, subprocess, sys, textwrap

TESTS = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = TESTS / "golden" / "programs.txt"
sys.path.insert(0, str(TESTS / "parity"))
import make_tiny

HEAD = """Kinds of rows in the programs of the tiny models: operation, work, what its pieces divide, when it runs.
Models with the same ones stand together; below are the types of matrices in memory.
program_models_test.py --write makes this file.
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines(), done.stderr


def filled(text, indent=""):
    return textwrap.fill(text, 108, break_on_hyphens=False, initial_indent=indent, subsequent_indent=indent)


def names(models):
    return filled(" ".join(sorted(models)))


def kind_text(op, *rest):
    return f"{op} ({', '.join(x for x in rest if x != '-')})"


def kinds_text(program, paths):
    code, lines, err = run(program, "--kinds", *paths)
    if code: sys.exit(f"{program} --kinds: {err}")
    rows, types, groups = {}, {}, {}
    for line in lines:
        path, *kind, matrix = line.split("\t")
        model = pathlib.Path(path).stem
        if kind not in rows.setdefault(model, []): rows[model].append(kind)
        if matrix != "-": types.setdefault(matrix, set()).add(model)
    for model, kinds in rows.items(): groups.setdefault(tuple(map(tuple, kinds)), []).append(model)
    text = [HEAD]
    for kinds, models in sorted(groups.items(), key=lambda g: sorted(g[1])[0]):
        text += [names(models), filled("; ".join(kind_text(*k) for k in kinds), "    "), ""]
    text += [filled(f"{kind}: {names(models)}") for kind, models in sorted(types.items())]
    return "\n".join(text) + "\n"


def main():
    program, work = sys.argv[1], pathlib.Path(sys.argv[2])
    write, every = sys.argv[3:] == ["--write"], 1
    if sys.argv[3:] and not write: every = int(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    paths = [str(make_tiny.make(work, n)[0]) for n in list(make_tiny.models(True))[::every]]
    if write: return GOLDEN.write_text(kinds_text(program, paths))
    code, lines, err = run(program, *paths)
    if code or lines != [f"ok {p}" for p in paths]:
        sys.exit("\n".join([*(x for x in lines if not x.startswith("ok ")), err]))
    if every == 1 and kinds_text(program, paths) != GOLDEN.read_text():
        sys.exit(f"{GOLDEN} differs; write it again if a new kind of row is intended")
    print(f"{len(paths)} models")


if __name__ == "__main__":
    main()
