#!/usr/bin/env python3
"""The memory promise, measured from outside: no process of `qsf-run --ram-budget N` passes N MB and the
program's own 4 MB.
SPDX-License-Identifier: MIT

    memory.py QSF_RUN MODEL... [--budgets 24,64,200,0] [--prompt 512] [--answer 64]
              [--threads 2] [--cold] [--dd] [--cgroup DIR] [--markdown]

Each budget runs a prompt and an answer; the process's largest resident memory (VmHWM of /proc/PID/status,
which counts the program's own pages and everything from the first instruction on) is read every few
milliseconds. "least" among the budgets is the smallest that the program names; 0 is no budget, whose answer
the others must repeat, unless keys and values in fewer bits were announced. If the context of prompt and
answer does not fit a budget, both are shortened to the context that it allows by default, and so is the run
without a budget that they are compared with. --cold empties the file's page cache before each run.

Where layers stream, an answer without a prompt says what a token's time is, as a part of the larger of two
times: of reading its bytes at the speed of this run while something was read, and of computing. 1 is all
that overlapping can reach; the last line says whether all stayed within 1.1. A machine that does something
else besides does not.

--dd: MB/s that `dd iflag=direct` reads of the file, before and after. --cgroup DIR, a directory of a memory
controller (v2 or v1) in which groups can be made: each run in a group of its own, limited to the budget and 4
MB, with its page cache and what the kernel keeps for it; a run that gets no more memory there is killed. Exit
code 1 where a promise of memory or tokens is broken. Linux only.
"""
import argparse, json, os, re, subprocess, sys, threading, time

OWN = 4.0                                       # MB: the program, its libraries and its thread stacks
SLACK = 1.1                                     # of a token's time over that of reading or computing alone


def watch(pid, seen):
    """The largest VmHWM, and what it was made of, until the process is gone."""
    while not seen.get("done"):
        try:
            with open(f"/proc/{pid}/status") as f:
                status = dict(line.split(":", 1) for line in f)
            kb = {k: int(status[k].split()[0]) for k in ("VmHWM", "RssAnon", "RssFile") if k in status}
        except (OSError, ValueError):
            return
        if kb.get("VmHWM", 0) >= seen.get("VmHWM", 0):
            seen.update(kb)
        time.sleep(0.003)


class Group:
    """A memory control group for one run, below a directory where they can be made; without one, nothing."""
    def __init__(self, parent, budget):
        self.path = parent and os.path.join(parent, f"qsf-memory-{os.getpid()}")
        if not parent:
            return
        os.mkdir(self.path)
        self.v2 = os.path.exists(os.path.join(self.path, "memory.max"))
        if budget:
            self.write("memory.max" if self.v2 else "memory.limit_in_bytes", int((budget + OWN) * 1e6))

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as f:
            f.write(str(value))

    def enter(self):
        if self.path:
            self.write("cgroup.procs", os.getpid())

    def end(self):
        """The peak in MB."""
        if not self.path:
            return float("nan")
        with open(os.path.join(self.path, "memory.peak" if self.v2 else "memory.max_usage_in_bytes")) as f:
            peak = int(f.read()) / 1e6
        os.rmdir(self.path)
        return peak


def run(program, model, budget, o):
    ids = ",".join(str(100 + i * 37 % 1900) for i in range(o.prompt))
    command = [program, model, "--raw", "--ids", ids, "-n", str(o.answer), "--ignore-eos", "--temp", "0",
               "--json", "-v", "-t", str(o.threads)]
    command += ([] if o.context < 0 else ["-c", str(o.context or o.prompt + o.answer)]) + o.args.split()
    if budget:
        command += ["--ram-budget", str(budget)]
    if o.cold:
        drop_cache(model)
    seen, group = {}, Group(o.cgroup, budget)
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         preexec_fn=group.enter)
    thread = threading.Thread(target=watch, args=(p.pid, seen))
    thread.start()
    out, err = p.communicate()
    seen["done"] = True
    thread.join()
    seen["group"] = group.end()
    return p.returncode, out, err, seen


def drop_cache(path):
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def dd_speed(path):
    """MB/s of reading up to 1 GB of the file past the page cache; None where the file system
    does not do that."""
    r = subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=8M", "count=128", "iflag=direct"],
                       capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    m = re.search(r"(\d+) bytes .* copied, ([0-9.e-]+) s", r.stderr)
    return int(m[1]) / 1e6 / float(m[2]) if m and not r.returncode else None


def least(program, model, o):
    code, _, err, _ = run(program, model, 1, o)
    m = re.search(r"at least (\d+) MB", err)
    if code != 4 or not m:
        sys.exit(f"{model}: a budget of 1 MB gave exit code {code}: {err}")
    return int(m[1])


def number(text, pattern):
    m = re.search(pattern, text)
    return float(m[1]) if m else float("nan")


def with_less(o, **less):
    return argparse.Namespace(**{**vars(o), **less})


def run_that_fits(program, model, budget, o):
    """A run, with a shorter prompt and answer where the budget's context is too short; and what was run."""
    result = run(program, model, budget, o)
    if result[0] == 1 and re.search(r"context (of \d+ positions )?is full", result[2]):
        o = with_less(o, context=-1)                                    # none is asked for
        n_ctx = (
            int(number(run(program, model, budget, with_less(o, prompt=1, answer=1))[2], r"context (\d+), ")))
        answer = min(o.answer, n_ctx // 4)
        o = with_less(o, prompt=min(o.prompt, n_ctx - answer), answer=answer)
        result = run(program, model, budget, o)
    return result, o


def part_of_limit(program, model, budget, o):
    """The time of a token of an answer, over that of reading or computing it alone."""
    code, _, err, _ = run(program, model, budget,
                          with_less(o, prompt=1, context=o.context or o.prompt + o.answer))
    if code or "stream through" not in err:
        return float("nan")
    token = 1e3 / number(err, r"answer .* ([0-9.]+) tok/s")
    tokens = number(err, r"answer +(\d+) tokens")
    compute = sum(number(err, rf"time .*{what} (\d+) ms")
                  for what in ("matmul", "attention", "head", "sampling", "other"))
    return token * tokens / max(1, compute, number(err, r"MB read in (\d+) ms"))


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("program")
    a.add_argument("models", nargs="+")
    a.add_argument("--budgets", default="least,0")
    a.add_argument("--prompt", type=int, default=512)
    a.add_argument("--answer", type=int, default=64)
    a.add_argument("--context", type=int, default=0, help="0: prompt and answer")
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--args", default="", help="further options of qsf-run")
    a.add_argument("--cold", action="store_true")
    a.add_argument("--dd", action="store_true", help="measure the disk beside")
    a.add_argument("--cgroup", default="", metavar="DIR", help="each run in a control group below it")
    a.add_argument("--markdown", action="store_true")
    o = a.parse_args()
    head = ("model", "budget MB", "plan MB", "peak MB", "anon MB", "file MB", "prompt tok/s", "answer tok/s",
            "read GB", "read MB/s", "waited s", "of limit", "cgroup MB", "same tokens")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head) if o.markdown
          else "  ".join(h.rjust(12) for h in head), flush=True)
    broken, parts = [], []
    for model in o.models:
        budgets = (sorted({least(o.program, model, o) if b == "least" else int(b)
                           for b in o.budgets.split(",")}, key=lambda b: (b > 0, -b)))
        # tokens without a budget, by prompt and answer
        tokens, speeds = {}, [dd_speed(model)] if o.dd else []
        for budget in budgets:
            (code, out, err, seen), ran = run_that_fits(o.program, model, budget, o)
            if code:
                broken.append(f"{model} with {budget} MB: exit code {code}: "
                              f"{err.strip().splitlines()[-1] if err.strip() else ''}")
                continue
            ids = json.loads(out)["ids"]
            what = ran.prompt, ran.answer
            if what not in tokens:
                tokens[what] = (json.loads(run(o.program, model, 0, with_less(ran, cgroup=""))[1])["ids"]
                                if budget else ids)
            parts.append(part_of_limit(o.program, model, budget, ran))
            peak = seen["VmHWM"] * 1.024e-3
            coarse = re.search(r"keys and values \w+ -> (\w+)", err)         # said to be a loss
            same = "yes" if ids == tokens[what] else f"no: {coarse[1]}" if coarse else "NO"
            row = [os.path.basename(model), budget or "none", number(err, r"memory +([0-9.]+) MB"), peak,
                   seen["RssAnon"] * 1.024e-3, seen["RssFile"] * 1.024e-3,
                   number(err, r"prompt .* ([0-9.]+) tok/s"), number(err, r"answer .* ([0-9.]+) tok/s"),
                   number(err, r"([0-9.]+) MB read") / 1e3,
                   1e3 * number(err, r"([0-9.]+) MB read") / max(1, number(err, r"MB read in (\d+) ms")),
                   number(err, r"waiting for layers (\d+) ms") / 1e3,
                   f"{parts[-1]:.2f}", seen["group"],
                   same + (f" ({ran.prompt} + {ran.answer})" if ran is not o else "")]
            row = ["-" if x == "nan" or x != x else f"{x:.1f}" if isinstance(x, float) else str(x)
                   for x in row]
            print("| " + " | ".join(row) + " |" if o.markdown else "  ".join(x.rjust(12) for x in row),
                  flush=True)
            if budget and peak > budget + OWN:
                broken.append(f"{model}: {peak:.1f} MB with a budget of {budget} MB")
            if same == "NO":
                broken.append(f"{model} with {budget} MB: other tokens than without a budget")
        if o.dd:
            speeds.append(dd_speed(model))
            print("dd iflag=direct: " + ", ".join(f"{s:.0f} MB/s" if s else "not possible here"
                                                  for s in speeds), flush=True)
    parts = [x for x in parts if x == x]
    if parts:
        print(f"time a token over max(reading, computing): at most {max(parts):.2f}, "
              f"{sum(x <= SLACK for x in parts)} of {len(parts)} within {SLACK}")
    for line in broken:
        print(line, file=sys.stderr)
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
