#!/usr/bin/env python3
"""The memory promise, measured from outside: no process of `qsf-run --ram-budget N` passes N MB and the program's own 4 MB.
SPDX-License-Identifier: MIT

    memory.py QSF_RUN MODEL... [--budgets 24,64,200,0] [--prompt 512] [--answer 64] [--threads 2] [--cold] [--markdown]

Each budget runs a prompt and an answer; the process's largest resident memory (VmHWM of /proc/PID/status, which counts the program's
own pages and everything from the first instruction on) is read every few milliseconds.  "least" among the budgets is the smallest
that the program names; 0 is no budget, whose answer the others must repeat.  --cold empties the file's page cache before each run.
Beside the table: MB/s that `dd iflag=direct` reads of the file, before and after.  Exit code 1 where a promise is broken.
Linux only.
"""
import argparse, json, os, re, subprocess, sys, threading, time

OWN = 4.0                                       # MB: the program, its libraries and its thread stacks


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


def run(program, model, budget, o):
    ids = ",".join(str(100 + i * 37 % 1900) for i in range(o.prompt))
    command = [program, model, "--raw", "--ids", ids, "-n", str(o.answer), "--ignore-eos", "--temp", "0", "--json", "-v", "-t", str(o.threads)]
    command += ["-c", str(o.context or o.prompt + o.answer)] + o.args.split()
    if budget:
        command += ["--ram-budget", str(budget)]
    if o.cold:
        drop_cache(model)
    seen = {}
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    thread = threading.Thread(target=watch, args=(p.pid, seen))
    thread.start()
    out, err = p.communicate()
    seen["done"] = True
    thread.join()
    return p.returncode, out, err, seen


def drop_cache(path):
    with open(path, "rb") as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def dd_speed(path):
    """MB/s of reading up to 1 GB of the file past the page cache; None where the file system does not do that."""
    r = subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=8M", "count=128", "iflag=direct"], capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
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
    a.add_argument("--markdown", action="store_true")
    o = a.parse_args()
    head = ("model", "budget MB", "plan MB", "peak MB", "anon MB", "file MB", "prompt tok/s", "answer tok/s", "read GB", "read MB/s", "waited s", "same tokens")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head) if o.markdown else "  ".join(h.rjust(12) for h in head), flush=True)
    broken = []
    for model in o.models:
        budgets = sorted({least(o.program, model, o) if b == "least" else int(b) for b in o.budgets.split(",")}, key=lambda b: (b > 0, -b))
        tokens, speeds = None, [dd_speed(model)] if o.dd else []
        for budget in budgets:
            code, out, err, seen = run(o.program, model, budget, o)
            if code == 1 and "context is full" in err:
                print(f"{os.path.basename(model)} {budget}: the context that fits is shorter than prompt and answer", flush=True)
                continue
            if code:
                broken.append(f"{model} with {budget} MB: exit code {code}: {err.strip().splitlines()[-1] if err.strip() else ''}")
                continue
            ids = json.loads(out)["ids"]
            tokens = ids if tokens is None else tokens
            peak = seen["VmHWM"] * 1.024e-3
            row = [os.path.basename(model), budget or "none", number(err, r"memory +([0-9.]+) MB"), peak, seen["RssAnon"] * 1.024e-3, seen["RssFile"] * 1.024e-3,
                   number(err, r"prompt .* ([0-9.]+) tok/s"), number(err, r"answer .* ([0-9.]+) tok/s"), number(err, r"([0-9.]+) MB read") / 1e3,
                   1e3 * number(err, r"([0-9.]+) MB read") / max(1, number(err, r"MB read in (\d+) ms")), number(err, r"waiting for layers (\d+) ms") / 1e3, "yes" if ids == tokens else "NO"]
            row = [f"{x:.1f}" if isinstance(x, float) else str(x) for x in row]
            print("| " + " | ".join(row) + " |" if o.markdown else "  ".join(x.rjust(12) for x in row), flush=True)
            if budget and peak > budget + OWN:
                broken.append(f"{model}: {peak:.1f} MB with a budget of {budget} MB")
            if ids != tokens:
                broken.append(f"{model} with {budget} MB: other tokens than with {budgets[0] or 'none'}")
        if o.dd:
            speeds.append(dd_speed(model))
            print("dd iflag=direct: " + ", ".join(f"{s:.0f} MB/s" if s else "not possible here" for s in speeds), flush=True)
    for line in broken:
        print(line, file=sys.stderr)
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
