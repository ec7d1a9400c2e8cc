#!/usr/bin/env python3
"""Quality against size: QSF files of given sizes beside the types of llama.cpp and its relatives, all made of
one model in floats.
SPDX-License-Identifier: MIT

    quality.py QSF_RUN QSF_CONVERT MODEL --text wiki.test.raw [--sizes 80,70,60,45] [--windows 100]
               [--gguf F16.gguf --peer NAME=FOLDER ... --types Q4_K_M,IQ4_NL,Q4_0]
               [--probes 60] [--work DIR] [--convert "--calibrate self"]

MODEL is what qsf-convert takes, in floats: a directory or a GGUF file whose weights lie on no quantiser's
grid, as regrid.py makes it.
Each size (MB) is a file of `qsf-convert --target-size`. No setting is chosen by the text that is measured: it
is not used until the files are there.

A peer is a folder with its llama-quantize, llama-imatrix and llama-perplexity; --gguf is the same network as
a GGUF file of f16. Each of its types is made with an importance matrix of text that the model wrote itself,
and again without one. A peer's perplexity is what its own program says. All else in the table comes from
qsf-run, which runs GGUF files, too: the KL divergence of the next token from the f16 model's, how often the
likeliest token is the same, probes, speed and memory.

Probes are questions with one right answer that a script makes (sums, lists to repeat), asked with examples
before; the column is the share that is right of those that the f16 model gets right.
"""
import argparse, pathlib, random, re, statistics, subprocess, sys, tempfile

WORDS = ("apple river stone cloud green seven paper light horse music table winter bread sugar door "
         "glass").split()


def call(*command, ok=(0,)):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace")
    if r.returncode not in ok:
        sys.exit(f"{' '.join(map(str, command))}: exit code {r.returncode}: {r.stderr.strip()[-2000:]}")
    return r.stdout + r.stderr


def found(pattern, text):
    m = re.search(pattern, text)
    if not m:
        sys.exit(f"no {pattern!r} in {text[-500:]!r}")
    return float(m[1])


# ---- probes ----

def probes(n):
    """[(prompt, answer)], the same ones in every run."""
    rng = random.Random(16)
    for i in range(n):
        if i % 2:
            a, b = rng.randrange(1, 10), rng.randrange(1, 10)
            yield f"1 + 1 = 2\n5 + 2 = 7\n3 + 3 = 6\n8 + 1 = 9\n6 + 6 = 12\n{a} + {b} =", str(a + b)
        else:
            words = " ".join(rng.sample(WORDS, 5))
            yield ("Input: door glass sugar\nOutput: door glass sugar\nInput: music stone\n"
                   f"Output: music stone\nInput: {words}\nOutput:"), words


def right(o, path):
    """Numbers of the probes that the file's model gets right."""
    good = set()
    for i, (prompt, answer) in enumerate(probes(o.probes)):
        r = subprocess.run([o.run, path, "--raw", "-p", prompt, "-n", "12", "--temp", "0", "-c", "256", "-t",
                            str(o.threads)], capture_output=True, text=True, errors="replace")
        if r.returncode:
            sys.exit(f"{path}: {r.stderr.strip()}")
        if r.stdout.strip().split("\n")[0].strip() == answer:
            good.add(i)
    return good


# ---- one file ----

def measured(o, path, base, perplexity=None):
    """The cells of a row."""
    text = call(o.run, path, "--perplexity", o.text, "-c", 512, "--chunks", o.windows, "--kl", base, "-t",
                o.threads)
    ids = ",".join(str(100 + i * 37 % 1900) for i in range(64))
    speeds = [found(r"answer .* ([0-9.]+) tok/s",
                    call(o.run, path, "--raw", "--ids", ids, "-n", 64, "--ignore-eos", "--temp", 0, "-c", 256,
                         "-v", "--draft", 0, "-t", o.threads)) for _ in range(3)]
    memory = found(r"at least (\d+) MB", call(o.run, path, "--raw", "-p", "x", "-n", 1, "-c", 256,
                                              "--ram-budget", 1, ok=(4,)))
    good = right(o, path) if o.probes else set()
    return {"MB": path.stat().st_size / 1e6,
            "perplexity": perplexity or found(r"perplexity ([0-9.]+) \+/-", text),
            "KL": found(r"mean KL ([0-9.]+)", text), "same": found(r"same top-1 ([0-9.]+)", text),
            "probes": 100 * len(good & o.base_right) / max(len(o.base_right), 1) if o.probes else 0,
            "speed": statistics.median(speeds), "least": memory}


def show(name, row):
    print(f"| {name} | {row['MB']:.1f} | {row['perplexity']:.2f} | {row['KL']:.4f} | {row['same']:.1f} | "
          f"{row['probes']:.0f} | {row['speed']:.0f} | {row['least']:.0f} |", flush=True)


# ---- peers ----

def peer_rows(o, base, work):
    text = work / "self.txt"
    for peer in o.peer:
        name, folder = peer.split("=", 1)
        tool = lambda t: pathlib.Path(folder, t)
        matrix = work / f"{name}.imatrix"
        if not text.exists():       # what the model writes by itself, as qsf-convert's own text is made
            parts = [call(o.run, o.gguf, "--raw", "-p", random.Random(s).choice(WORDS), "-n", 400, "--temp",
                          1, "--seed", s, "--ignore-eos") for s in range(1, 41)]
            text.write_text("\n".join(parts))
        if not matrix.exists():
            call(tool("llama-imatrix"), "-m", o.gguf, "-f", text, "-o", matrix, "-t", o.threads, "-c", 512)
        for kind in o.types.split(","):
            for plus in ("+", ""):
                path = work / f"{name}-{kind}{plus}.gguf"
                options = ["--imatrix", matrix] if plus else []
                if not path.exists():
                    call(tool("llama-quantize"), *options, o.gguf, path, kind, ok=(0, 1))
                if not path.exists():
                    continue        # some types want an importance matrix
                said = call(tool("llama-perplexity"), "-m", path, "-f", o.text, "-c", 512, "--chunks",
                            o.windows, "-t", o.threads)
                show(f"{name} {kind}{plus}", measured(o, path, base, found(r"PPL = ([0-9.]+)", said)))


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("run")
    a.add_argument("qsf_convert")
    a.add_argument("model")
    a.add_argument("--text", required=True)
    a.add_argument("--sizes", default="80,70,60,45")
    a.add_argument("--windows", type=int, default=100)
    a.add_argument("--convert", default="--calibrate self")
    a.add_argument("--gguf")
    a.add_argument("--peer", action="append", default=[])
    a.add_argument("--types", default="Q8_0,Q4_K_M,IQ4_NL,Q4_0,Q3_K_M,IQ3_S,Q2_K,IQ2_M")
    a.add_argument("--probes", type=int, default=60)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--work")
    o = a.parse_args()
    if o.peer and not o.gguf:
        a.error("--peer needs --gguf")
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(o.work or scratch)
        work.mkdir(parents=True, exist_ok=True)
        base, whole, kept = work / "base.kl", work / "f16.qsf", work / "self.calibration"
        if not whole.exists():
            call(o.qsf_convert, "-q", o.model, whole, "--quant-type", "f16")
        said = call(o.run, whole, "--perplexity", o.text, "-c", 512, "--chunks", o.windows, "--kl-base", base,
                    "-t", o.threads)
        o.base_right = right(o, whole) if o.probes else set()
        print("| file | MB | perplexity | KL | same top-1 % | probes % | tok/s | least MB |\n|" + "---|" * 8)
        print(f"| f16 | {whole.stat().st_size / 1e6:.1f} | {found(r'perplexity ([0-9.]+) ', said):.2f} | | | "
              f"{len(o.base_right)} of {o.probes} | | |", flush=True)
        for size in o.sizes.split(","):
            path = work / f"{size}.qsf"
            if not path.exists():
                call(o.qsf_convert, "-q", o.model, path, *o.convert.split(), "--calibration-file", kept,
                     "--target-size", size)
            show(f"QSF {size} MB", measured(o, path, base))
        peer_rows(o, base, work)


if __name__ == "__main__":
    main()
