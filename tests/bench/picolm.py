#!/usr/bin/env python3
"""qsf-run against picolm (github.com/RightNow-AI/picolm) on the same GGUF: peak resident memory and speed.
SPDX-License-Identifier: MIT

    picolm.py QSF_RUN PICOLM MODEL.gguf [--budget MB] [--rounds 3] [--threads 2]

Both answer 64 tokens, greedily. picolm reads few types of GGUF: Q8_0, made by `llama-quantize
--allow-requantize`, is one. The memory is the largest that the system counted (ru_maxrss), pages of mapped
files included. The two take turns.
"""
import argparse, os, re, statistics, subprocess, sys


def run(*command):
    """Text of both outputs, largest resident MB."""
    r, w = os.pipe()
    p = subprocess.Popen([str(c) for c in command], stdout=w, stderr=w)
    os.close(w)
    with os.fdopen(r, errors="replace") as f:
        text = f.read()
    _, status, usage = os.wait4(p.pid, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))}: status {status}: {text[-500:]}")
    return text, usage.ru_maxrss * 1.024e-3


def found(pattern, text):
    m = re.search(pattern, text)
    if not m:
        sys.exit(f"no {pattern!r} in {text[-500:]!r}")
    return float(m[1])


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("run")
    a.add_argument("picolm")
    a.add_argument("model")
    a.add_argument("--budget", default="least", help="MB; least: the smallest that the program names")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--prompt",
                   default="The capital of France is Paris. The capital of Germany is Berlin. The capital "
                           "of Italy is")
    o = a.parse_args()
    ours = [o.run, o.model, "--raw", "-p", o.prompt, "-n", 64, "--ignore-eos", "--temp", 0, "-c", 512, "-v",
            "-t", o.threads]
    budget = o.budget
    if budget == "least":
        r = subprocess.run([str(c) for c in ours] + ["--ram-budget", "1"], capture_output=True, text=True)
        budget = int(found(r"at least (\d+) MB", r.stderr))
    ways = {
        "picolm": ([o.picolm, o.model, "-p", o.prompt, "-n", 64, "-t", 0, "-c", 512, "-j", o.threads],
                   r"Prefill: .*\(([0-9.]+) tok/s", r"Generation: .*\(([0-9.]+) tok/s"),
        "qsf-run": (ours, r"prompt .* ([0-9.]+) tok/s", r"answer .* ([0-9.]+) tok/s"),
        f"qsf-run --ram-budget {budget}": (ours + ["--ram-budget", budget], r"prompt .* ([0-9.]+) tok/s",
                                           r"answer .* ([0-9.]+) tok/s"),
    }
    seen = {name: [] for name in ways}
    for _ in range(o.rounds):
        for name, (command, prompt, answer) in ways.items():
            text, peak = run(*command)
            seen[name].append((peak, found(prompt, text), found(answer, text)))
    print(f"| {os.path.basename(o.model)} | peak RSS MB | prompt tok/s | answer tok/s |\n|---|---|---|---|")
    for name, figures in seen.items():
        peak, prompt, answer = (statistics.median(x) for x in zip(*figures))
        print(f"| {name} | {peak:.1f} | {prompt:.1f} | {answer:.1f} |")


if __name__ == "__main__":
    main()
