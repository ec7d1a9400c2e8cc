#!/usr/bin/env python3
"""Random models of the shapes of real ones (make_shapes.py) in libqsf and in llama.cpp: runs both in turns
and holds the ratios against their aims; or counts instructions, which a busy machine does not change.
SPDX-License-Identifier: MIT

    shapes.py FOLDER [NAME...] [--rounds 5] [--threads 2] [--markdown]
    shapes.py FOLDER [NAME...] --instructions [--depths 100,4000] [--layers 4] [--alone]

Models that FOLDER does not have yet are made there. A round runs llama-bench and qsf-bench once on each
model; the order changes from round to round. Ratios are of medians: decoding at least 1.3 times llama.cpp, a
prompt of 512 at least 3 times, an encoder's 2 times. Exit code 1 if one is missed.

--instructions counts those of the program itself, with one thread: two repetitions minus one (so loading and
warming up cancel out). The columns are millions a token, and the ratio of llama.cpp's to ours. Instructions
are not time: vectors differ in width. Linux's `perf` counts them; if it cannot, valgrind does (callgrind),
fifty times slower and with ours up to AVX2: --layers then keeps only that many of a model's layers, and 4096
tokens, and llama-bench has to be one for AVX2. --depths also counts ours after these numbers of positions:
recurrent layers take the same everywhere. Encoders are left out there.

llama-bench is built as compare.py does it, or --llama-bench names one.
"""
import argparse, os, pathlib, platform, re, statistics, subprocess, sys, tempfile, time

import compare, make_shapes

AIMS = {"pp": 3.0, "tg": 1.3, "encoder": 2.0}


def of_shape(a, shape):
    """The arguments of compare.py's functions for one of the models."""
    more = ["-embd", "1"] if shape.get("encoder") else []
    return argparse.Namespace(**{**vars(a), "prompts": [a.prompt],
                                 "decodes": [0] if shape.get("encoder") else [a.decode],
                                 "depths": [0], "llama_args": more, "qsf_args": []})


def run_encoder(a, path, threads):
    """{test: tok/s} of qsf-run --embedding: what eight texts take that nine take more than one."""
    took = []
    for n in (1, 9):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as texts:
            for i in range(n): texts.write((chr(97 + i) + "q") * (a.prompt // 2) + "\n")    # a token a letter
            texts.flush()
            begin = time.perf_counter()
            compare.quietly(a.qsf_bench.parent / "qsf-run", "-m", path, "--embedding", "-f", texts.name, "-t",
                            threads, "--json")
            took.append(time.perf_counter() - begin)
    return {compare.test_name(a.prompt, 0, 0): 8 * a.prompt / (took[1] - took[0])}


def measure(a, models):
    """{(name, test): ([tok/s of llama.cpp], [ours])}"""
    samples = {}
    for round_ in range(a.rounds):
        for name, path, shape in models:
            compare.say(f"round {round_ + 1} of {a.rounds}: {name}")
            ours = run_encoder if shape.get("encoder") else compare.run_qsf
            both, got = [compare.run_llama, ours], {}
            for run in both if round_ % 2 == 0 else reversed(both):
                got[run] = run(of_shape(a, shape), path, a.threads)
            for test in got[compare.run_llama].keys() & got[ours].keys():
                pair = samples.setdefault((name, test), ([], []))
                pair[0].append(got[compare.run_llama][test])
                pair[1].append(got[ours][test])
    return samples


def judge(samples, shapes):
    """Rows of the table, and whether all aims are met."""
    met = True
    for (name, test), (theirs, ours) in sorted(samples.items()):
        aim = AIMS["encoder" if shapes[name].get("encoder") else test[:2]]
        ratio = statistics.median(ours) / statistics.median(theirs)
        met &= ratio >= aim
        yield [name, test, f"{statistics.median(theirs):.1f}", f"{statistics.median(ours):.1f}",
               f"{ratio:.2f}", f"{aim:.1f}", "yes" if ratio >= aim else "NO"], met


# ---- instructions ----

COUNTERS = {"perf": (["perf", "stat", "-x,", "-e", "instructions:u", "--"],
                     re.compile(r"^(\d+),.*instructions", re.M)),
            "valgrind": (["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"],
                         re.compile(r"Collected : (\d+)"))}


def counted(counter, command):
    """Instructions of the program itself and its threads, or None where the counter counts none."""
    before, number = COUNTERS[counter]
    try:
        done = subprocess.run([*before, *map(str, command)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, errors="replace")
    except FileNotFoundError:
        return None
    found = number.search(done.stderr)
    if done.returncode and found: sys.exit(f"{done.stderr[-2000:]}\nshapes.py: this failed: {command}")
    return int(found[1]) if found else None


def choose_counter():
    for counter in COUNTERS:
        if counted(counter, ["true"]): return counter
    sys.exit("shapes.py: neither perf nor valgrind counts instructions here")


def millions(counter, command, tokens):
    """Of one token: what one more repetition takes."""
    once, twice = (counted(counter, [*command, "-r", r]) for r in (1, 2))
    if not once or not twice: sys.exit(f"shapes.py: {counter} cannot run {command}")
    return (twice - once) / tokens / 1e6


def count(a, models):
    counter = choose_counter()
    qsf_args = ["--isa", "avx2"] if counter == "valgrind" and platform.machine() == "x86_64" else []
    for name, path, shape in models:
        if shape.get("encoder"): continue       # qsf-bench generates
        tests = [("pp", a.prompt, 0), *(("tg", a.decode, d) for d in [0, *a.depths])]
        for what, n, depth in tests:
            work = ["-m", path, "-t", 1, "-p", n if what == "pp" else 0, "-n", n if what == "tg" else 0]
            deep = ["-d", depth] if depth else []
            ours = millions(counter, [a.qsf_bench, path, *work[2:], *deep, *qsf_args], n)
            test, theirs = f"{what}{n}" + (f"@{depth}" if depth else ""), None
            if not depth and a.llama_bench:
                theirs = millions(counter, [a.llama_bench, *work, *of_shape(a, shape).llama_args], n)
            yield [name, test, f"{theirs:.2f}" if theirs else "-", f"{ours:.2f}",
                   f"{theirs / ours:.2f}" if theirs else "-"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--prompt", type=int, default=512, metavar="N")
    p.add_argument("--decode", type=int, default=128, metavar="N")
    p.add_argument("--instructions", action="store_true")
    p.add_argument("--depths", type=compare.numbers, default=[], metavar="N,N")
    p.add_argument("--layers", type=int, default=0, metavar="N")
    p.add_argument("--alone", action="store_true", help="with --instructions: ours only")
    p.add_argument("--llama-bench", type=pathlib.Path)
    p.add_argument("--qsf-bench", type=pathlib.Path)
    p.add_argument("--markdown", action="store_true")
    a = p.parse_args()
    shapes = dict(make_shapes.shapes())
    for name in a.names:
        if name not in shapes: p.error(f"no shape {name}; there are {', '.join(shapes)}")
    a.about, a.csv, a.pinned, a.built = {}, False, not a.llama_bench, None
    return a, {name: shapes[name] for name in a.names or shapes}


def main():
    a, shapes = arguments()
    models = []
    for name, shape in shapes.items():
        compare.say(f"making {name} where it is not there")
        models.append((name, make_shapes.make(a.folder, name, a.layers), shape))
    if a.pinned and not (a.instructions and a.alone):
        a.llama_bench, a.built = compare.build_llama(None, models[0][1])
    if not a.qsf_bench:
        a.qsf_bench = compare.build_qsf()
        compare.quietly("cmake", "--build", a.qsf_bench.parent, "--target", "qsf-run")
    head = ["shape", "test", "llama.cpp", "libqsf", "ratio"]
    if a.instructions:
        print(*head, sep="\t")
        for row in count(a, models): print(*row, sep="\t", flush=True)
        return
    if os.getloadavg()[0] > 0.5: compare.say("the machine is busy: the ratios will mean nothing")
    rows = list(judge(measure(a, models), shapes))
    compare.COLUMNS = [*head, "aim", "met"]
    compare.print_rows(a, [row for row, _ in rows])
    sys.exit(0 if rows and rows[-1][1] else 1)


if __name__ == "__main__":
    main()
