#!/usr/bin/env python3
"""One model in every weight format: size of the file, perplexity, and speed resident and streamed.
SPDX-License-Identifier: MIT

    formats.py QSF_RUN QSF_CONVERT INPUT --text wiki.test.raw [--types 4bit,3bit,2bit,ternary]
               [--windows 40] [--budget MB] [--work DIR] [--markdown]

INPUT is anything that qsf-convert takes, preferably a model in floats. Streamed: with the smallest budget
that each file needs, or --budget. Speeds are medians of --rounds answers of 64 tokens after a prompt of 128;
the formats take turns, so that a busy moment does not affect just one of them.
"""
import argparse, pathlib, re, statistics, subprocess, sys, tempfile


def call(*command, ok=(0,)):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if r.returncode not in ok:
        sys.exit(f"{' '.join(map(str, command))}: exit code {r.returncode}: {r.stderr.strip()}")
    return r.stdout + r.stderr


def found(pattern, text):
    m = re.search(pattern, text)
    if not m:
        sys.exit(f"no {pattern!r} in {text[-500:]!r}")
    return float(m[1])


def speed(o, path, budget):
    ids = ",".join(str(100 + i * 37 % 1900) for i in range(128))
    text = call(o.run, path, "--raw", "--ids", ids, "-n", 64, "--ignore-eos", "--temp", 0, "-c", 256, "-v",
                "--draft", 0, "-t", o.threads,
                *(["--ram-budget", budget] if budget else []))
    return found(r"answer .* ([0-9.]+) tok/s", text)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("run")
    a.add_argument("convert")
    a.add_argument("input")
    a.add_argument("--text", required=True)
    a.add_argument("--types", default="8bit,4bit,mixed,3bit,2bit,ternary")
    a.add_argument("--windows", type=int, default=40)
    a.add_argument("--budget", type=int, default=0)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--work")
    a.add_argument("--markdown", action="store_true")
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(o.work or scratch)
        rows = []
        for kind in o.types.split(","):
            path = work / f"{kind}.qsf"
            if not path.exists():
                call(o.convert, "-q", o.input, path, "--quant-type", kind)
            perplexity = (found(r"perplexity ([0-9.]+) \+/-",
                                call(o.run, path, "--perplexity", o.text, "-c", 512, "--chunks", o.windows,
                                     "-t", o.threads)))
            least = (o.budget or int(found(r"at least (\d+) MB",
                                           call(o.run, path, "--raw", "-p", "x", "-n", 1, "-c", 256,
                                                "--ram-budget", 1, ok=(4,)))))
            rows.append((kind, path, perplexity, least))
        speeds = {(kind, b): [] for kind, _, _, _ in rows for b in (0, 1)}
        for _ in range(o.rounds):
            for kind, path, _, least in rows:
                for streamed in (0, 1):
                    speeds[kind, streamed].append(speed(o, path, least * streamed))
        head = ("format", "MB", f"perplexity ({o.windows} windows)", "resident tok/s", "budget MB",
                "streamed tok/s")
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head)
              if o.markdown else "  ".join(h.rjust(14) for h in head))
        for kind, path, perplexity, least in rows:
            cells = (kind, f"{path.stat().st_size / 1e6:.1f}", f"{perplexity:.2f}",
                     f"{statistics.median(speeds[kind, 0]):.0f}", str(
                         least), f"{statistics.median(speeds[kind, 1]):.1f}")
            print("| " + " | ".join(cells) + " |" if o.markdown else "  ".join(c.rjust(14) for c in cells))


if __name__ == "__main__":
    main()
