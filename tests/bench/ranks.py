#!/usr/bin/env python3
"""What ranks cost on one machine: parallel answers of a pipeline of ranks with a thread each, against one
process with as many threads. Both run in turns, so that other load on the machine affects both.
SPDX-License-Identifier: MIT

    ranks.py MPIRUN QSF_RUN MODEL [--ranks 2] [--texts 8] [--predict 64] [--prompt WORDS] [--turns 5]
                   [--most RATIO] [-- OPTIONS...]

Prints tokens a second of each turn, and the median of the ratios of times. With --most it fails above.
"""
import argparse, os, re, statistics, subprocess, sys

ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


def seconds(a, ranks, threads):
    prompts = [x for i in range(a.texts) for x in ("-p", " ".join(f"{i} and {k}" for k in range(a.prompt)))]
    command = [a.mpirun, "-np", str(ranks), a.qsf_run, "--mpi", a.model, "--raw", "--temp", "0",
               "--ignore-eos", "-n", str(a.predict), "-t", str(threads), *prompts, *a.options]
    r = subprocess.run(command, capture_output=True, text=True, env=ENV)
    found = re.search(r"(\d+) tokens of \d+ texts in ([\d.]+) s", r.stderr)
    if r.returncode or not found: sys.exit(r.stderr)
    return float(found[2]), int(found[1])


def main():
    p = argparse.ArgumentParser()
    for name in ("mpirun", "qsf_run", "model"): p.add_argument(name)
    for name, value in (("ranks", 2), ("texts", 8), ("predict", 64), ("prompt", 8), ("turns", 5)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--most", type=float)
    argv = sys.argv[1:]
    cut = argv.index("--") if "--" in argv else len(argv)
    a = p.parse_args(argv[:cut])
    a.options = argv[cut + 1:]
    ratios = []
    for turn in range(a.turns):
        (one, n), (many, n_many) = seconds(a, 1, a.ranks), seconds(a, a.ranks, 1)
        assert n == n_many
        ratios.append(many / one)
        print(f"turn {turn + 1}: one process {n / one:8.1f} tokens/s, {a.ranks} ranks {n / many:8.1f}, "
              f"time {many / one:.3f} of one process's")
    ratio = statistics.median(ratios)
    print(f"median {ratio:.3f}")
    if a.most and ratio > a.most: sys.exit(f"more than {a.most}")


if __name__ == "__main__":
    main()
