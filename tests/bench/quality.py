#!/usr/bin/env python3
"""Quality against size: QSF files of given sizes and the types of llama.cpp and its relatives, all made from
one model in floats.
SPDX-License-Identifier: MIT

    quality.py QSF_RUN QSF_CONVERT MODEL --text wiki.test.raw [--sizes 80,70,60,45] [--windows 100]
               [--gguf F16.gguf --peer NAME=FOLDER[=TYPES] ... --types Q4_K_M+,IQ4_NL+,Q4_0]
               [--probes 60] [--work DIR] [--convert "--calibrate self"]

MODEL is what qsf-convert takes, in floats: a directory or a GGUF file whose weights lie on no quantiser's
grid, as regrid.py makes it.
Each size (MB) is a file of `qsf-convert --target-size`. No setting is chosen by the text of the measurement:
it is not used until the files are there.

A peer is a folder with its llama-quantize, llama-imatrix, llama-perplexity and llama-bench; --gguf is the
same network as a GGUF file of f16. A type with a + is made with an importance matrix of text that the model
wrote itself. A peer's perplexity, speed and memory are those of its own programs. All else in the table comes
from qsf-run, which runs GGUF files, too: the KL divergence of the next token from the f16 model's, how often
the most likely token is the same, and probes. Types that qsf-run does not read (ik_llama.cpp's own) are
converted back to f16 for that.

With --work files stay there, and what was measured of their quality: the same command again measures speed
and memory alone, for when the machine is idle.

Speed is an answer of 64 tokens, memory the most that the program held while it wrote it; the last column is
the smallest budget in which a QSF file runs.

Probes are questions with one right answer that a script makes (sums, lists to repeat), asked with examples
before; the column is the share that is right of those that the f16 model gets right.
"""
import argparse, json, os, pathlib, random, re, statistics, subprocess, sys, tempfile

WORDS = ("apple river stone cloud green seven paper light horse music table winter bread sugar door "
         "glass").split()


def call(*command, ok=(0,)):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace")
    if r.returncode not in ok:
        sys.exit(f"{' '.join(map(str, command))}: exit code {r.returncode}: {r.stderr.strip()[-2000:]}")
    return r.stdout + r.stderr


def with_memory(*command):
    """What a program prints, and the most memory that it held, in MB."""
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = child.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))}: {text.strip()[-2000:]}")
    return text, usage.ru_maxrss / 1000


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

def kept(o, path, measure):
    """What measure() returns; once, where files are kept."""
    file = path.with_name(f"{path.name}.{o.windows}.{o.probes}.json")
    if not file.exists():
        file.write_text(json.dumps(measure()))
    return json.loads(file.read_text())


def likeness(o, path, base):
    """How near the file's model is to the f16 model."""
    text = call(o.run, path, "--perplexity", o.text, "-c", 512, "--chunks", o.windows, "--kl", base, "-t",
                o.threads)
    good = right(o, path) if o.probes else set()
    return {"perplexity": found(r"perplexity ([0-9.]+) \+/-", text), "KL": found(r"mean KL ([0-9.]+)", text),
            "same": found(r"same top-1 ([0-9.]+)", text),
            "probes": 100 * len(good & o.base_right) / max(len(o.base_right), 1) if o.probes else 0}


def whole_quality(o, path, base):
    said = call(o.run, path, "--perplexity", o.text, "-c", 512, "--chunks", o.windows, "--kl-base", base,
                "-t", o.threads)
    return {"perplexity": found(r"perplexity ([0-9.]+) ", said),
            "right": sorted(right(o, path)) if o.probes else []}


def own(o, path):
    """Speed and memory of qsf-run."""
    ids = ",".join(str(100 + i * 37 % 1900) for i in range(64))
    runs = [with_memory(o.run, path, "--raw", "--ids", ids, "-n", 64, "--ignore-eos", "--temp", 0, "-c",
                        256, "-v", "--draft", 0, "-t", o.threads) for _ in range(3)]
    least = found(r"at least (\d+) MB", call(o.run, path, "--raw", "-p", "x", "-n", 1, "-c", 256,
                                             "--ram-budget", 1, ok=(4,)))
    return {"MB": path.stat().st_size / 1e6, "memory": max(m for _, m in runs), "least": f"{least:.0f}",
            "speed": statistics.median(found(r"answer .* ([0-9.]+) tok/s", text) for text, _ in runs)}


def show(name, row):
    print(f"| {name} | {row['MB']:.1f} | {row['perplexity']:.2f} | {row['KL']:.4f} | {row['same']:.1f} | "
          f"{row['probes']:.0f} | {row['speed']:.0f} | {row['memory']:.0f} | {row['least']} |", flush=True)


# ---- peers ----

def importance(o, tool, work, name):
    """The peer's importance matrix, of what the model writes by itself, as qsf-convert's own text is made."""
    text, matrix = work / "self.txt", work / f"{name}.imatrix"
    if not text.exists():
        parts = [call(o.run, o.gguf, "--raw", "-p", random.Random(s).choice(WORDS), "-n", 400, "--temp", 1,
                      "--seed", s, "--ignore-eos") for s in range(1, 41)]
        text.write_text("\n".join(parts))
    if not matrix.exists():
        call(tool("llama-imatrix"), "-m", o.gguf, "-f", text, "-o", matrix, "-t", o.threads, "-c", 512)
    return matrix


def peer_quality(o, tool, path, base):
    said = call(tool("llama-perplexity"), "-m", path, "-f", o.text, "-c", 512, "--chunks", o.windows, "-t",
                o.threads)
    read = path
    if subprocess.run([o.run, path, "--raw", "-p", "x", "-n", "1"], capture_output=True).returncode:
        read = path.with_suffix(".f16.gguf")
        call(tool("llama-quantize"), "--allow-requantize", path, read, "f16")
    row = likeness(o, read, base)
    if read != path:
        read.unlink()
    return row | {"perplexity": found(r"Final estimate: PPL.* = ([0-9.]+) ", said)}


def peer_row(o, tool, path, base):
    row = kept(o, path, lambda: peer_quality(o, tool, path, base))
    runs = [with_memory(tool("llama-bench"), "-m", path, "-p", 0, "-n", 64, "-r", 1, "-t", o.threads, "-o",
                        "json") for _ in range(3)]
    speeds = [found(r'"avg_ts": ([0-9.]+)', text) for text, _ in runs]
    return row | {"MB": path.stat().st_size / 1e6, "speed": statistics.median(speeds),
                  "memory": max(m for _, m in runs), "least": ""}


def peer_rows(o, base, work):
    for peer in o.peer:
        name, folder, types = (peer.split("=", 2) + [o.types])[:3]
        tool = lambda t: pathlib.Path(folder, t)
        for kind in types.split(","):
            path = work / f"{name}-{kind}.gguf"
            options = ["--imatrix", importance(o, tool, work, name)] if kind.endswith("+") else []
            if not path.exists():
                call(tool("llama-quantize"), *options, o.gguf, path, kind.rstrip("+"), ok=(0, 1))
            if not path.exists():
                print(f"| {name} {kind} | is not made{'' if options else ' without an importance matrix'} |")
                continue
            show(f"{name} {kind}", peer_row(o, tool, path, base))


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
    a.add_argument("--types", default="Q8_0,Q4_K_M+,IQ4_NL+,Q4_0+,Q3_K_M+,IQ3_S+,Q2_K+,IQ2_M+")
    a.add_argument("--probes", type=int, default=60)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--work")
    o = a.parse_args()
    if o.peer and not o.gguf:
        a.error("--peer needs --gguf")
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(o.work or scratch)
        work.mkdir(parents=True, exist_ok=True)
        base, whole, calibration = work / "base.kl", work / "f16.qsf", work / "self.calibration"
        if not whole.exists():
            call(o.qsf_convert, "-q", o.model, whole, "--quant-type", "f16")
        first = kept(o, whole, lambda: whole_quality(o, whole, base))
        o.base_right = set(first["right"])
        print("| file | MB | perplexity | KL | same top-1 % | probes % | tok/s | memory, MB | least MB |\n|" +
              "---|" * 9)
        print(f"| f16 | {whole.stat().st_size / 1e6:.1f} | {first['perplexity']:.2f} | | | "
              f"{len(o.base_right)} of {o.probes} | | | |", flush=True)
        for size in o.sizes.split(","):
            path = work / f"{size}.qsf"
            if not path.exists():
                call(o.qsf_convert, "-q", o.model, path, *o.convert.split(), "--calibration-file",
                     calibration, "--target-size", size)
            show(f"QSF {size} MB", kept(o, path, lambda: likeness(o, path, base)) | own(o, path))
        peer_rows(o, base, work)


if __name__ == "__main__":
    main()
