#!/usr/bin/env python3
"""Long contexts in libqsf and in llama.cpp with flash attention: prompts, and answers after 8k to 128k.
SPDX-License-Identifier: MIT

    long.py FOLDER [SHAPE...] [--prompts 8192] [--depths 8192,32768,131072] [--rounds 3] [--threads N]
            [--tokens 32] [--alone] [--markdown]

The models are random ones of three shapes (make_shapes.py): groups of seven query heads, windows, latent
attention. FOLDER keeps them. Both programs read the same file, in turns. libqsf has its default cache (8
bits); llama.cpp runs twice, with its f16 and its 8-bit cache. The ratio is to the better of these.

Computing 128k tokens takes an hour and more, so caches are filled with copies: ours by a session file whose
blocks repeat (docs/session-files.md), llama.cpp's by depth_llama.c. An answer reads as many keys and values
as after a real prompt. llama.cpp's cache of layers with windows cannot be filled so: answers of such models
are ours alone. --prompts 0 or --depths 0 leaves a part out, --alone llama.cpp.
"""
import argparse, json, os, pathlib, re, statistics, struct, subprocess, sys, tempfile, zlib

import compare, make_shapes

HERE, CACHES = pathlib.Path(__file__).resolve().parent, ("f16", "q8_0")
BLOCK, SEED = 32, 512       # positions of a block in a session file; positions that are computed
TOKENS = struct.Struct("<4sIQQI5IIQ")       # the header of a session file up to its CRC


def output(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode: sys.exit(f"{done.stderr[-2000:]}\nlong.py: this failed: {command[0]}")
    return done.stdout + done.stderr


def deepen(session, n):
    """A session of n positions, which repeats the one given."""
    h = list(TOKENS.unpack_from(session))
    have, layers, heads, record, state = h[5], h[6], h[7], h[10], h[11]
    ids = session[TOKENS.size + 4:TOKENS.size + 4 + 4 * have]
    kept = session[TOKENS.size + 4 + 4 * have:-4]
    if have % BLOCK or n % have or state or len(kept) != have // BLOCK * layers * heads * record:
        sys.exit("long.py: the session file has another form")
    h[2], h[5] = TOKENS.size + 8 + n // have * (len(ids) + len(kept)), n
    head = TOKENS.pack(*h)
    whole = head + struct.pack("<I", zlib.crc32(head)) + ids * (n // have) + kept * (n // have)
    return whole + struct.pack("<I", zlib.crc32(whole))


def run_qsf(a, path, depth):
    """tok/s of an answer after depth tokens. A letter of the prompt is a token."""
    program = a.qsf_bench.parent / "qsf-run"
    with tempfile.TemporaryDirectory(dir=a.folder) as work:
        text, session = pathlib.Path(work, "prompt"), pathlib.Path(work, "session")
        seed = "".join(chr(97 + i % 25) for i in range(SEED))
        def answer(n, prompt):
            text.write_text(seed * (prompt // SEED) + "z" * (prompt % SEED))
            return output(program, "-m", path, "--raw", "-f", text, "-n", n, "--session", session, "-c",
                         depth + 1024, "-t", a.threads, "--ignore-eos", "--temp", 0, "-v")
        answer(1, SEED)
        session.write_bytes(deepen(session.read_bytes(), depth))
        said = answer(a.tokens, depth + 1)
        if not re.search(rf"\b{depth} of them cached", said): sys.exit("long.py: the session was not used")
        return float(re.search(r"^answer .*?([\d.]+) tok/s", said, re.M)[1])


def build_depth(a):
    """depth_llama, from the libraries of llama-bench's build."""
    build = a.llama_bench.parents[1]
    source, out = build.parent / "source", a.llama_bench.with_name("depth_llama")
    objects = [build / "src" / "libllama.a",
               *(build / "ggml" / "src" / f"libggml{part}.a" for part in ("", "-cpu", "-base"))]
    work = out.with_suffix(".o")
    output(os.environ.get("CC", "cc"), "-O2", "-std=gnu11", f"-I{source / 'include'}",
          f"-I{source / 'ggml' / 'include'}", "-c", HERE / "depth_llama.c", "-o", work)
    output(os.environ.get("CXX", "c++"), work, *objects, "-lgomp", "-ldl", "-lm", "-lpthread", "-o", out)
    return out


def run_llama(a, path, cache, depth):
    said = output(a.depth_llama, path, cache, a.threads, a.tokens, depth)
    return float(said.split()[1])


def prompts(a, path, n, cache=None):
    """tok/s of a prompt; cache: llama.cpp's."""
    one = argparse.Namespace(**{**vars(a), "prompts": [n], "decodes": [0], "depths": [0], "qsf_args": [],
                                "llama_args": ["-fa", "1", "-ctk", cache, "-ctv", cache]})
    run = compare.run_llama if cache else compare.run_qsf
    return run(one, path, a.threads)[compare.test_name(n, 0, 0)]


def measure(a):
    """{(shape, test): {who: [tok/s of each round]}}"""
    found, shapes = {}, dict(make_shapes.long_shapes())
    for round_ in range(a.rounds):
        for name in a.names:
            windows = "attention.sliding_window" in shapes[name]["kv"]
            path = make_shapes.make(a.folder, name)
            for kind, sizes in (("prompt of", a.prompts), ("answer after", a.depths)):
                for n in filter(None, sizes):
                    test = found.setdefault((name, f"{kind} {n:,}"), {})
                    alone = a.alone or (windows and kind == "answer after")
                    who = ["libqsf", *([] if alone else CACHES)]
                    for w in who if round_ % 2 == 0 else reversed(who):
                        compare.say(f"round {round_ + 1} of {a.rounds}: {name}, {kind} {n}, {w}")
                        cache = None if w == "libqsf" else w
                        speed = (prompts(a, path, n, cache) if kind == "prompt of"
                                 else run_llama(a, path, w, n) if cache else run_qsf(a, path, n))
                        test.setdefault(w, []).append(speed)
    return found


def rows_of(found):
    for (name, test), by in found.items():
        best = [max(pair) for pair in zip(*(by[w] for w in CACHES if w in by))]
        ratios = [ours / theirs for ours, theirs in zip(by["libqsf"], best)]
        speeds = (f"{statistics.median(by[w]):.1f}" if w in by else "-" for w in (*CACHES, "libqsf"))
        yield [name, test, *speeds,
               f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "-"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("names", nargs="*", metavar="SHAPE")
    p.add_argument("--prompts", type=compare.numbers, default=[8192], metavar="N,N")
    p.add_argument("--depths", type=compare.numbers, default=[8192, 32768, 131072], metavar="N,N",
                   help=f"multiples of {SEED}")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    p.add_argument("--tokens", type=int, default=32, metavar="N")
    p.add_argument("--alone", action="store_true", help="libqsf only")
    p.add_argument("--llama-bench", type=pathlib.Path, help="one that compare.py has built")
    p.add_argument("--qsf-bench", type=pathlib.Path, help="qsf-run lies next to it")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every single figure")
    a = p.parse_args()
    known = [name for name, _ in make_shapes.long_shapes()]
    for name in a.names:
        if name not in known: p.error(f"no shape {name}; there are {', '.join(known)}")
    for depth in a.depths:
        if depth % SEED: p.error(f"a depth is a multiple of {SEED}")
    a.names = a.names or known
    a.about, a.csv, a.pinned, a.built = {}, False, not a.llama_bench, None
    return a


def main():
    a = arguments()
    a.folder.mkdir(parents=True, exist_ok=True)
    if not a.alone:
        first = make_shapes.make(a.folder, a.names[0])
        if a.pinned: a.llama_bench, a.built = compare.build_llama(None, first)
        a.depth_llama = build_depth(a)
    if not a.qsf_bench:
        a.qsf_bench = compare.build_qsf()
        compare.quietly("cmake", "--build", a.qsf_bench.parent, "--target", "qsf-run")
    if os.getloadavg()[0] > 0.5: compare.say("the machine is busy: the ratios will mean nothing")
    found = measure(a)
    if a.json:
        a.json.write_text(json.dumps([[*key, by] for key, by in found.items()], indent=1) + "\n")
    compare.COLUMNS = ["shape", "test", *(f"llama.cpp, {c}" for c in CACHES), "libqsf", "ratio"]
    compare.print_rows(a, list(rows_of(found)))


if __name__ == "__main__":
    main()
