#!/usr/bin/env python3
"""The tables of docs/performance.md, measured on this machine by one command, with plots.
SPDX-License-Identifier: MIT

    report.py FOLDER [--only NAME,...] [--rounds 3] [--threads N] [--list]
    report.py FOLDER --from report.json

FOLDER gets report.md, report.json (every single figure) and a plot for each table that has one. --from
writes tables and plots again from such a report.json. Programs to compare with that cannot be had or do not
run are named in the report, with the reason; the rest is measured without them.

The parts are those of PARTS below; --list prints them. Each runs the scripts of this folder: both programs
in turns, ratios within a round, and the least and the greatest next to each median. All programs have their
default options. Answers are measured twice, greedy and with the default sampling, if a program has both:
llama-bench does not sample, so both rows of libqsf are compared with its one.

Models come from tools/get-model.sh, or --models names a folder that has them. libqsf's programs are those of
--build (build/release), which is brought up to date, and the package that of --wasm (build/wasm). llama.cpp
is built as compare.py does it, or --llama-bench names one.
"""
import argparse, json, os, pathlib, platform, re, statistics, subprocess, sys

import compare

sys.path.insert(0, str(compare.ROOT / "tools"))
import plot                                                                 # noqa: E402

ROOT, HERE = compare.ROOT, pathlib.Path(__file__).resolve().parent
SMOLLM2, QWEN, GEMMA = "smollm2-135m-q4_1", "qwen2.5-coder-0.5b-q4_k_m", "gemma3-270m-q4_k_m"
PROMPT, ANSWER = 512, 128
TESTS = {f"pp{PROMPT}": f"prompt of {PROMPT}", f"tg{ANSWER}": "answer, greedy",
         f"tg{ANSWER} sampled": "answer, default sampling"}
NOT_HERE = {"ik_llama.cpp": "no script here runs it: quality.py takes its programs (--peer)",
            "bitnet.cpp": "no script here builds it: ternary_peers.py takes a checkout",
            "transformers.js": "no script here runs it"}


class Missing(Exception):
    """A program, a model or a tool is not there: peer, why."""


def say(text):
    print(f"report.py: {text}", file=sys.stderr, flush=True)


def run(*command, **more):
    """The output of a command; what fails is missing, under its program's name."""
    words = [str(c) for c in command]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", **more)
    except OSError as e:
        raise Missing(words[0], str(e)) from e
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        why = next((line for line in lines if "rror: " in line), lines[-1]).strip()
        raise Missing(pathlib.Path(words[0]).name, f"exit code {done.returncode}: {why[:200]}")
    return done.stdout


def spread(values, digits=1, unit=""):
    """Median (least to most)."""
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f}{unit}" + (f" ({low:.{digits}f} to {high:.{digits}f})" if len(values) > 1
                                           else "")


def ratios(ours, theirs):
    return [a / b for a, b in zip(ours, theirs)]


# ---- measuring: each function returns what report.json keeps of its part ----

def bench(a, *options):
    """Results of qsf-bench."""
    return json.loads(run(a.build / "qsf-bench", *options, "-t", a.threads, "--json"))["results"]


def medians(rows, *keys):
    return {" ".join(str(r[k]) for k in keys): r["median"] for r in rows}


def measure_machine(a):
    try:
        cpu = dict(re.split(r"\s*:\s*", line, maxsplit=1)
                   for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
        memory = int(re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) // 1000000
    except OSError:
        cpu, memory = {}, None
    rows = bench(a, a.file(SMOLLM2), "-p", 16, "-n", 4, "-r", 5, "--limits")
    limits = {r["test"]: [r["median"], r["min"], r["max"], r["unit"]] for r in rows if "model" not in r}
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    a.versions["libqsf"] = f"{run(a.build / 'qsf-run', '--version').split()[-1]} {commit}".strip()
    return {"processor": cpu.get("model name", platform.processor() or platform.machine()),
            "processors": os.cpu_count(), "threads": a.threads, "memory, GB": memory,
            "system": f"{platform.system()} {platform.release()}", "instruction set": rows[-1]["isa"],
            "load before": round(os.getloadavg()[0], 2), "limits": limits}


def llama_bench(a):
    """llama-bench, built once; None: it is missing."""
    if a.llama_bench is None:
        a.pinned, a.built = True, None
        try:
            a.llama_bench, a.built = compare.build_llama(None, a.file(SMOLLM2))
        except (SystemExit, OSError) as e:
            a.llama_bench = False
            a.missing["llama.cpp"] = str(e).strip().splitlines()[-1][:200]
    return a.llama_bench or None


ENGINES = "llama.cpp", "libqsf"


def speeds(a, engine, theirs, ours):
    """{test: tok/s}; none of an engine that does not run."""
    if engine == "libqsf": return compare.run_qsf(a, ours, a.threads)
    if not llama_bench(a): return {}
    try:
        return compare.run_llama(a, theirs, a.threads)
    except (SystemExit, OSError, ValueError) as e:
        a.llama_bench, a.missing["llama.cpp"] = False, str(e).strip().splitlines()[-1][:200]
        return {}


def measure_models(a):
    """[{theirs, ours, test, llama.cpp: [tok/s of each round], libqsf: [...]}]"""
    pairs = [(a.file(n), a.qsf(n)) for n in (SMOLLM2, QWEN)]
    pairs += [(a.file(n), a.file(n)) for n in (SMOLLM2, QWEN, GEMMA)]
    found = {}
    for round_ in range(a.rounds):
        for theirs, ours in pairs:
            say(f"round {round_ + 1} of {a.rounds}: {ours.name}")
            for name in ENGINES if round_ % 2 == 0 else reversed(ENGINES):
                for test, speed in speeds(a, name, theirs, ours).items():
                    key = theirs.name, ours.name, test
                    found.setdefault(key, {"llama.cpp": [], "libqsf": []})[name].append(speed)
    a.versions.update({k: v for k, v in a.about.items() if k == "llama.cpp"})
    rows = [{"theirs": t, "ours": o, "test": test, **speeds} for (t, o, test), speeds in found.items()]
    for r in rows:              # llama-bench chooses no tokens
        greedy = r["theirs"], r["ours"], r["test"].removesuffix(" sampled")
        r["llama.cpp"] = found[greedy]["llama.cpp"] if llama_bench(a) else []
    return rows


KERNELS = "4bit", "4bit_s", "2bit"


def measure_limits(a):
    """What docs/performance.md's targets need besides the models: shares, sets, contexts, loading."""
    qwen = a.qsf(QWEN)
    best = bench(a, qwen, "-p", 0, "-n", 4, "-r", 1)[0]["isa"]
    kernels = [[r["test"], r["threads"], r["share"]] for bits in ("4bit", "2bit")
               for words in ("n=1 memory", "n=64 cache")
               for r in bench(a, "--kernels", "--filter", f"{best} {bits} {words}", "-r", a.repeats)
               if "share" in r and r["isa"] == best and r["test"].split("/")[0] in KERNELS]
    if not kernels: raise Missing("qsf-bench", f"it has no kernels of 4 or 2 bits for {best}")
    return {"kernels": kernels,
            "sets": medians(bench(a, qwen, "-p", 0, "--isa", f"avx2,{best}"), "isa", "test")
            if best.startswith(("avx512", "amx")) else {},
            "best": best, "context": medians(bench(a, qwen, "-p", 0, "-n", 64, "-d", "128,4096"), "test"),
            "load": medians(bench(a, qwen, "-p", 0, "-n", 0, "--load"), "test")}


def measure_wllama(a):
    """The figures of wllama.mjs."""
    out = a.folder / "wllama.json"
    text = run("node", HERE / "wllama.mjs", "--rounds", a.rounds, "--threads", a.threads, "--wasm", a.wasm,
               "--native", a.build, "--json", out, "--only", "decode,sampled,prefill,memory,one-thread")
    a.versions["wllama"] = re.search(r"^wllama ([\d.]+),", text, re.M)[1]
    return json.loads(out.read_text())["figures"]


def measure_shapes(a):
    """Rows of shapes.py: shape, test, llama.cpp, libqsf, ratio, aim, met."""
    if not llama_bench(a): raise Missing("llama.cpp", a.missing["llama.cpp"])
    script = [sys.executable, HERE / "shapes.py", a.folder / "shapes", "--rounds", a.rounds, "--threads",
              a.threads, "--markdown", "--llama-bench", a.llama_bench, "--qsf-bench", a.qsf_bench]
    done = subprocess.run([str(c) for c in script], stdout=subprocess.PIPE, text=True)     # 1: a missed aim
    return markdown_rows(done.stdout)


def measure_busy(a):
    """Rows of busy.py: busy processes, where, threads, answer, prompt, token ms, 99th percentile."""
    peer = ["--llama", a.file(SMOLLM2), "--llama-bench", llama_bench(a)] if llama_bench(a) else []
    return markdown_rows(run(sys.executable, HERE / "busy.py", a.qsf(SMOLLM2), "--rounds", a.rounds,
                             "--qsf-bench", a.qsf_bench, *peer))


def measure_long(a):
    """Rows of long.py: shape, test, llama.cpp with both caches, libqsf, ratio."""
    peer = ["--llama-bench", llama_bench(a)] if llama_bench(a) else ["--alone"]
    return markdown_rows(run(sys.executable, HERE / "long.py", a.folder / "shapes", "--rounds", a.rounds,
                             "--threads", a.threads, "--markdown", "--qsf-bench", a.qsf_bench, *peer))


def measure_python(a):
    """[[figure, program, value, ratio to qsf-run]] of python.py."""
    library = next(a.build.rglob("libqsf_python.*"), None)
    if not library: raise Missing("the Python package", f"{a.build} has no libqsf_python: build that target")
    text = run(sys.executable, HERE / "python.py", a.build / "qsf-run", library, a.file(SMOLLM2), "--rounds",
               a.rounds, "--threads", a.threads)
    rows = re.findall(r"^(.+?)  +(qsf-run|qsf|llama-cpp-python) +([\d.]+) +([\d.]+)$", text, re.M)
    if not any("llama-cpp-python" in r for r in rows):
        a.missing["llama-cpp-python"] = "this Python does not have it"
    return [list(r) for r in rows]


def measure_node(a):
    """{program: [[prompt tok/s, answer tok/s, MB] of each round]} of node_peers.mjs."""
    if not a.node:
        raise Missing("node-llama-cpp", "--node must name a folder in which it and qsf are installed")
    text = run("node", HERE / "node_peers.mjs", a.file(SMOLLM2), a.threads, a.rounds, cwd=a.node)
    found = {}
    for who, *figures in re.findall(r"^(\S+) +prompt (\S+) tok/s, answer (\S+) tok/s, (\S+) MB", text, re.M):
        found.setdefault(who, []).append([float(f) for f in figures])
    if not all(len(found.get(who, [])) == a.rounds for who in NODE):
        raise Missing("node-llama-cpp", f"not all rounds ran: {text.strip()[-200:]}")
    return found


def markdown_rows(text):
    """Cells of the first table in a script's output, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    if len(lines) < 3: raise Missing("its script", "it printed no table")
    return [[cell.strip() or "-" for cell in line.strip("|").split("|")] for line in lines[2:]]


# ---- tables: (header, rows) of what was measured ----

def machine_table(record):
    rows = [[k, v] for k, v in record.items() if k != "limits"]
    rows += [[f"{k}, all threads", f"{m:.1f} {unit} ({low:.1f} to {high:.1f})"]
             for k, (m, low, high, unit) in record["limits"].items()]
    return ["", "this machine"], rows


def models_table(record):
    rows = []
    for r in record:
        if r["test"] not in TESTS: continue
        theirs = spread(r["llama.cpp"]) if r["llama.cpp"] else "missing"
        ratio = spread(ratios(r["libqsf"], r["llama.cpp"]), 2, "x") if r["llama.cpp"] else "missing"
        rows.append([r["ours"], TESTS[r["test"]], theirs, spread(r["libqsf"]), ratio])
    return ["file", "test", "llama.cpp, tok/s", "libqsf, tok/s", "ratio"], rows


def limits_table(record):
    shares = {kind: [100 * s for name, threads, s in record["kernels"] if kind in name
                     and (threads > 1) == ("memory" in kind)] for kind in ("n=1 memory", "n=64 cache")}
    rows = [["4 and 2 bits, one row, from memory, all threads: % of read",
             spread(shares["n=1 memory"], 0), ">= 85"],
            ["4 and 2 bits, prompts, in cache, one thread: % of peak",
             spread(shares["n=64 cache"], 0), ">= 60"]]
    sets = [v for k, v in record["sets"].items() if not k.endswith("sampled")]
    rows.append([f"AVX2 forced, answer: % of {record['best']}", f"{100 * sets[0] / sets[1]:.0f}" if sets
                 else "this processor has no AVX-512", ">= 80"])
    near, far = (record["context"][f"tg64@{d}"] for d in (128, 4096))
    rows += [["time of a token at 4096 positions, relative to 128", f"{near / far:.2f}", "<= 1.35"],
             ["loading Qwen2.5-Coder-0.5B, 4 bits, ms", f"{record['load']['load']:.0f}", "<= 300"]]
    return ["", "measured", "target"], rows


WLLAMA = {"decode": "answer, greedy, tok/s", "sampled": "answer, default sampling, tok/s",
          "prefill": "prompt of 360, tok/s", "one-thread decode": "answer, greedy, one thread, tok/s",
          "memory": "page with the model, MB"}


def wllama_table(record):
    rows = []
    for name, title in WLLAMA.items():
        ours, theirs = record[name]["ours"], record[name]["theirs"]
        rows.append([title, spread(theirs), spread(ours), spread(ratios(ours, theirs), 2, "x")])
    return ["SmolLM2-135M in Chromium", "wllama", "libqsf", "ratio"], rows


def shapes_table(record):
    return ["shape", "test", "llama.cpp", "libqsf", "ratio", "target", "met"], record


def long_table(record):
    header = ["shape", "test", "llama.cpp, f16 cache", "llama.cpp, 8 bits", "libqsf", "ratio to the better"]
    return header, record


def python_table(record):
    return ["SmolLM2-135M", "program", "value", "relative to qsf-run"], record


NODE = "node-llama-cpp", "qsf"


def node_table(record):
    theirs, ours = (list(zip(*record[who])) for who in NODE)
    return ["SmolLM2-135M in Node.js", *NODE, "ratio"], [
        [title, spread(them), spread(us), spread(ratios(us, them), 2, "x")]
        for title, them, us in zip(("prompt, tok/s", "answer, greedy, tok/s", "memory, MB"), theirs, ours)]


def busy_table(record):
    return ["busy", "where", "threads", "answer tok/s", "prompt tok/s", "token ms", "99th percentile"], record


# ---- plots ----

def bars(title, names, groups, unit):
    most = max(v for _, values in groups for v in values if v is not None)
    return plot.bars(title, unit, names, groups, 1.15 * most, base=1 if unit.startswith("times") else None)


def models_plot(record):
    """Multiples of llama.cpp's speed, or tokens a second if it is missing."""
    files = list(dict.fromkeys(r["ours"] for r in record))
    alone = not all(r["llama.cpp"] for r in record)
    def value(ours, test):
        r = next(r for r in record if r["ours"] == ours and r["test"] == test)
        return round(statistics.median(r["libqsf"] if alone else ratios(r["libqsf"], r["llama.cpp"])), 2)
    groups = [(re.sub(r"-q4.*?(\.\w+)$|(?=\.qsf)", r"\n\1", f), [value(f, t) for t in TESTS]) for f in files]
    return bars("Speed of libqsf" + ("" if alone else " in multiples of llama.cpp's"), list(TESTS.values()),
                groups, "tokens a second" if alone else "times llama.cpp's speed")


def wllama_plot(record):
    groups = [(title.replace(", ", "\n", 1).removesuffix(", tok/s"),
               [round(statistics.median(record[name][who]), 1) for who in ("theirs", "ours")])
              for name, title in WLLAMA.items() if title.endswith("tok/s")]
    return bars("SmolLM2-135M in Chromium", ["wllama", "libqsf"], groups, "tokens a second")


def shapes_plot(record):
    groups = {}
    for shape, test, _, _, ratio, *_ in record:
        groups.setdefault(shape, [None, None])[test.startswith("tg")] = float(ratio)
    return bars("Shapes of other models", ["prompt", "answer"],
                [(k.replace("-", "\n", 1), v) for k, v in groups.items()], "times llama.cpp's speed")


# name: (title, measure, table, plot or None)
PARTS = {
    "machine": ("Machine", measure_machine, machine_table, None),
    "models": ("Models, against llama.cpp", measure_models, models_table, models_plot),
    "limits": ("Kernels, sets, contexts, loading", measure_limits, limits_table, None),
    "shapes": ("Random models of other shapes, against llama.cpp", measure_shapes, shapes_table, shapes_plot),
    "long": ("Long contexts, against llama.cpp with flash attention", measure_long, long_table, None),
    "python": ("In Python", measure_python, python_table, None),
    "node": ("In Node.js, against node-llama-cpp", measure_node, node_table, None),
    "busy": ("On a busy machine", measure_busy, busy_table, None),
    "wllama": ("In Chromium, against wllama", measure_wllama, wllama_table, wllama_plot),
}


# ---- the report ----

def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(c) for c in line) + " |" for line in lines)


def render(report):
    """(text of report.md, {name: SVG})"""
    out, plots = ["# Speed of libqsf on one machine", ""], {}
    out += ["; ".join(f"{k} {v}" for k, v in {**report["versions"], **report["settings"]}.items()), ""]
    for name, (title, _, table, draw) in PARTS.items():
        if name not in report["parts"]: continue
        out += [f"## {title}", ""]
        if draw:
            plots[name] = draw(report["parts"][name])
            out += [f"![{title}]({name}.svg)", ""]
        out += [markdown(*table(report["parts"][name])), ""]
    missing = {**report["missing"], **NOT_HERE}
    out += ["## Not measured", "", markdown(["", "why"], missing.items())]
    return "\n".join(out) + "\n", plots


def write(folder, report):
    folder.mkdir(parents=True, exist_ok=True)
    text, plots = render(report)
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / "report.md").write_text(text)
    for name, svg in plots.items(): (folder / f"{name}.svg").write_text(svg)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path, nargs="?")
    p.add_argument("--from", dest="recorded", type=pathlib.Path, metavar="report.json")
    p.add_argument("--only", default=",".join(PARTS), metavar="NAME,...")
    p.add_argument("--list", action="store_true")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    p.add_argument("--repeats", type=int, default=20, metavar="N", help="of each kernel, 20")
    p.add_argument("--models", type=pathlib.Path, metavar="FOLDER")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--wasm", type=pathlib.Path, default=ROOT / "build/wasm")
    p.add_argument("--llama-bench", type=pathlib.Path)
    p.add_argument("--node", type=pathlib.Path, metavar="FOLDER", help="as node_peers.mjs describes it")
    a = p.parse_args()
    a.only = a.only.split(",")
    for name in a.only:
        if name not in PARTS: p.error(f"no part {name}; there are {', '.join(PARTS)}")
    if not a.folder and not a.list: p.error("name a folder for the report")
    a.prompts, a.decodes, a.depths, a.llama_args, a.qsf_args = [PROMPT], [ANSWER], [0], [], []
    a.about, a.versions, a.missing, a.pinned = {}, {}, {}, False
    a.qsf_bench, files = a.build / "qsf-bench", {}
    def file(name):
        path = a.models / f"{name}.gguf" if a.models else run(ROOT / "tools/get-model.sh", name).strip()
        path = pathlib.Path(path)
        if not path.is_file(): raise Missing(name, f"{path} is not there")
        return path
    def qsf(name):
        if name not in files:
            files[name] = a.folder / f"{name.split('-q4')[0]}.qsf"
            run(a.build / "qsf-convert", "-q", "--quant-type", "4bit", a.file(name), files[name])
        return files[name]
    a.file, a.qsf = file, qsf
    return a


def measure(a):
    report = {"versions": a.versions, "settings": {"rounds": a.rounds, "threads": a.threads}, "parts": {},
              "missing": a.missing}
    a.folder.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        if name not in a.only: continue
        say(PARTS[name][0])
        try:
            report["parts"][name] = PARTS[name][1](a)
        except Missing as e:
            peer, why = e.args
            a.missing.setdefault(peer if peer in a.missing else name, f"{peer}: {why}")
        write(a.folder, report)         # what was measured stays if the run is stopped
    return report


def main():
    a = arguments()
    if a.list:
        for name, (title, *_) in PARTS.items(): print(f"{name:8} {title}")
        return
    if a.recorded:
        write(a.folder, json.loads(a.recorded.read_text()))
        return
    if (a.build / "CMakeCache.txt").is_file():
        compare.quietly("cmake", "--build", a.build, "--target", "qsf-bench", "qsf-run", "qsf-convert")
    if os.getloadavg()[0] > 0.5: say("the machine is busy: the ratios will mean nothing")
    report = measure(a)
    print(a.folder / "report.md")
    for name, why in report["missing"].items(): say(f"not measured: {name}: {why}")


if __name__ == "__main__":
    main()
