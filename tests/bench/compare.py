#!/usr/bin/env python3
"""libqsf against llama.cpp on this machine: builds both if necessary, runs them in turns, prints
ratios.
SPDX-License-Identifier: MIT

    compare.py --models A.gguf B.gguf=C.qsf [--threads 2] [--rounds 5]

A.gguf runs in both; B.gguf=C.qsf sets B.gguf in llama.cpp against C.qsf here, a QSF file of the same model.
Each round runs llama-bench and qsf-bench once on each model, so that other load on the machine affects both;
the order changes from round to round. The ratio is ours to llama.cpp's within a round; its median, minimum
and maximum are printed next to the median tok/s of each. Both programs run with their own defaults (keys and
values are f16 there and 8-bit here); --llama-args and --qsf-args change that. llama-bench chooses no tokens:
its answers are greedy at no cost. Rows "tgN sampled" compare ours, with each token chosen by the default
sampler, with that.

llama.cpp is built for this processor, without what the system does not let programs use (a kernel may forbid
AMX that the compiler sees), and run once; if it dies of an illegal instruction, it is built again with fewer
extensions, and the last line reports that. It is built from the source archive of the Python package
llama-cpp-python, pinned by SHA-256, which pip fetches from wherever it is configured to; the build lies in
$QSF_CACHE (~/.cache/qsf) and takes some minutes once. --archive takes one already fetched, --llama-bench a
program already built.
"""
import argparse, csv, ctypes, hashlib, json, os, pathlib, platform, shlex, shutil, signal, statistics
import subprocess, sys, tarfile, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
NAME = f"llama_cpp_python-{VERSION}"
CONFIGURE = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
             "-DLLAMA_BUILD_TESTS=OFF",
             "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_UI=OFF",
             "-DLLAMA_BUILD_TOOLS=ON"]
# [what the compiler defines, what /proc/cpuinfo says where programs may use it, the option
# that goes without]
INSTRUCTIONS = [("__AMX_TILE__", "amx_tile", "-mno-amx-tile"), ("__AMX_INT8__", "amx_int8", "-mno-amx-int8"),
                ("__AMX_BF16__", "amx_bf16", "-mno-amx-bf16"), ("__AMX_FP16__", "amx_fp16", "-mno-amx-fp16"),
                ("__AVX512FP16__", "avx512_fp16", "-mno-avx512fp16"),
                ("__AVX512BF16__", "avx512_bf16", "-mno-avx512bf16"),
                ("__AVX512VNNI__", "avx512_vnni", "-mno-avx512vnni"),
                ("__AVX512VBMI__", "avx512vbmi", "-mno-avx512vbmi"),
                ("__AVX512F__", "avx512f", "-mno-avx512f"), ("__AVXVNNI__", "avx_vnni", "-mno-avxvnni"),
                ("__BMI2__", "bmi2", "-mno-bmi2"), ("__F16C__", "f16c", "-mno-f16c"),
                ("__FMA__", "fma", "-mno-fma"),
                ("__AVX2__", "avx2", "-mno-avx2"), ("__AVX__", "avx", "-mno-avx")]


def say(text):
    print(f"compare.py: {text}", file=sys.stderr, flush=True)


def quietly(*command, **more):
    """Runs what a user need not see; where it fails, shows the end of what it said."""
    r = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       errors="replace", **more)
    if r.returncode:
        sys.exit("\n".join(r.stdout.splitlines()[-30:])
                 + f"\ncompare.py: this failed: {shlex.join(map(str, command))}")


def cache_folder():
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "qsf")
    return pathlib.Path(os.environ.get("QSF_CACHE", default)) / f"llama.cpp-{VERSION}"


def fetch_archive(folder):
    requirement = folder / "requirements.txt"
    requirement.write_text(f"llama-cpp-python=={VERSION} --hash=sha256:{SHA256}\n")
    say(f"fetching the sources of llama-cpp-python {VERSION}")
    quietly(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
            "--no-binary", "llama-cpp-python",
            "--require-hashes", "-r", requirement, "-d", folder)
    return folder / f"{NAME}.tar.gz"


def unpack(archive, folder):
    """vendor/llama.cpp of the archive, whole or not at all."""
    with open(archive, "rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib,
                                                                         "file_digest") else hashlib.sha256(
                                                                             f.read()).hexdigest()
    if digest != SHA256:
        sys.exit(f"compare.py: {archive}: SHA-256 is {digest}, not {SHA256}")
    prefix = f"{NAME}/vendor/llama.cpp/"
    with tempfile.TemporaryDirectory(dir=folder) as work:
        with tarfile.open(archive) as tar:
            members = [m for m in tar.getmembers() if m.name.startswith(prefix) and (m.isfile() or m.isdir())
                       and ".." not in m.name.split("/")]
            tar.extractall(work, members=members)
        os.replace(pathlib.Path(work, prefix), folder / "source")


def amx_is_allowed():
    """A program has to ask Linux for AMX's registers (arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA)."""
    try:
        return ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0
    except (AttributeError, OSError):
        return False


def forbidden():
    """Options that leave out what -march=native would use and the system does not offer."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        native = subprocess.run([os.environ.get("CC", "cc"), "-march=native", "-dM", "-E", "-xc", os.devnull],
                                capture_output=True, text=True)
    except OSError:
        return []
    flags = next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith("flags")), None)
    if flags is None or native.returncode:      # another processor, or a compiler that knows no -march=native
        return []
    if not amx_is_allowed():
        flags = {f for f in flags if not f.startswith("amx_")}
    defined = {line.split()[1] for line in native.stdout.splitlines()}
    return [without for macro, flag, without in INSTRUCTIONS if macro in defined and flag not in flags]


def builds():
    """(name, folder, options of CMake), the best first."""
    without = forbidden()
    flags = " ".join(without)
    name, folder, options = "for this processor", "build", ["-DGGML_NATIVE=ON"]
    if without:
        name, folder = f"{name} with {flags}", "-".join([folder, *(w.removeprefix("-m") for w in without)])
        options += [f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"]
    yield name, folder, options
    if platform.machine().lower() in ("x86_64", "amd64"):
        sets = ["SSE42", "AVX", "AVX2", "BMI2", "FMA", "F16C"]
        yield "for AVX2", "build-avx2", ["-DGGML_NATIVE=OFF", *(f"-DGGML_{s}=ON" for s in sets)]
        less = [f"-DGGML_{s}=OFF" for s in sets[1:]]
        yield "for SSE4.2", "build-sse42", ["-DGGML_NATIVE=OFF", "-DGGML_SSE42=ON", *less]
    else:
        yield "for any processor", "build-plain", ["-DGGML_NATIVE=OFF"]


def dies(program, model):
    """The signal that ends the program, where it gets so far as to compute, or 0."""
    work = ["-m", model, "-p", "8", "-n", "1", "-r", "1", "-t", "1"] if model else ["--help"]
    command = [str(c) for c in (program, *work)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return max(0, -done.returncode)


def build_llama(archive, model):
    """(llama-bench, what it was built for).  Another fault than a signal is for the measurement to show."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, build, options in builds():
        program = folder / build / "bin" / "llama-bench"
        if not program.is_file():
            if not (folder / "source").is_dir():
                if archive:
                    unpack(archive, folder)
                else:
                    with tempfile.TemporaryDirectory(dir=folder) as work:
                        unpack(fetch_archive(pathlib.Path(work)), folder)
            say(f"building llama-bench {name}, which takes some minutes")
            ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
            quietly("cmake", "-S", folder / "source", "-B", folder / build, *ninja, *CONFIGURE, *options)
            jobs = os.cpu_count() or 1
            quietly("cmake", "--build", folder / build, "--parallel", jobs, "--target", "llama-bench")
        died = dies(program, model)
        if not died:
            return program, name
        say(f"llama-bench {name} dies of {signal.Signals(died).name} here; taking the next simpler one")
    sys.exit("compare.py: no llama-bench runs on this machine; --llama-bench takes one that does")


def build_qsf():
    folder = ROOT / "build" / "release"
    say(f"building qsf-bench in {folder}")
    quietly("cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release")
    quietly("cmake", "--build", folder, "--parallel", os.cpu_count() or 1, "--target", "qsf-bench")
    return folder / "qsf-bench"


def call(command):
    r = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       errors="replace")
    if r.returncode:
        sys.exit(f"{r.stderr[-2000:]}\ncompare.py: this failed: {shlex.join(map(str, command))}")
    return json.loads(r.stdout)


def test_name(prompt, decode, depth):
    return f"pp{prompt}" if prompt else f"tg{decode}" + (f"@{depth}" if depth else "")


def run_llama(a, model, threads):
    """{test: tok/s}.  A depth would hold for its prompts too, so depths have calls of their own."""
    speeds = {}
    calls = [(a.prompts, a.decodes if 0 in a.depths else [0], 0),
             *[([0], a.decodes, d) for d in a.depths if d]]
    for prompts, decodes, depth in calls:
        if not any(prompts) and not any(decodes):
            continue
        rows = call([a.llama_bench, "-m", model, "-p", ",".join(map(str, prompts)), "-n",
                     ",".join(map(str, decodes)), "-d", depth, "-t", threads,
                     "-r", 1, "-o", "json", *a.llama_args])
        for r in rows:
            speeds[test_name(r["n_prompt"], r["n_gen"], r["n_depth"])] = r["avg_ts"]
            pinned = f"of llama-cpp-python {VERSION}, built {a.built}" if a.pinned else r["build_commit"]
            a.about.setdefault("llama.cpp", pinned)
            a.about.setdefault("processor", r["cpu_info"])
    return speeds


def run_qsf(a, model, threads):
    report = call([a.qsf_bench, model, "-p", ",".join(map(str, a.prompts)), "-n",
                   ",".join(map(str, a.decodes)), "-d", ",".join(map(str, a.depths)),
                   "-t", threads, "-r", 1, "--json", *a.qsf_args])
    a.about.setdefault("libqsf", f"{report['qsf-bench']}, {report['results'][0]['isa']}")
    return {r["test"]: r["median"] for r in report["results"] if r["unit"] == "tok/s"}


def measure(a):
    """{(pair, threads, test): [(llama.cpp, qsf) of each round]}"""
    samples = {}
    for round_ in range(a.rounds):
        for pair in a.models:
            theirs, ours = pair
            for threads in a.threads:
                say(f"round {round_ + 1} of {a.rounds}: {ours.name}, {threads} threads")
                both = [(run_llama, theirs), (run_qsf, ours)]
                got = ({run: run(a, model, threads)
                        for run, model in (both if round_ % 2 == 0 else reversed(both))})
                for test, speed in got[run_llama].items():
                    for row in (test, f"{test} sampled"):
                        if row in got[run_qsf]:
                            samples.setdefault((pair, threads, row), []).append((speed, got[run_qsf][row]))
    return samples


COLUMNS = ["llama.cpp runs", "libqsf runs", "threads", "test", "llama.cpp tok/s", "libqsf tok/s", "ratio",
           "least", "most", "rounds"]


def rows_of(samples):
    for ((theirs, ours), threads, test), both in samples.items():
        ratios = [q / l for l, q in both]
        yield [theirs.name, ours.name, threads, test, f"{statistics.median(l for l, _ in both):.1f}",
               f"{statistics.median(q for _, q in both):.1f}",
               f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", len(both)]


def print_rows(a, rows):
    if a.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([COLUMNS, *rows])
        return
    table = [COLUMNS, *[[str(v) for v in r] for r in rows]]
    width = [max(len(r[i]) for r in table) for i in range(len(COLUMNS))]
    padded = [[v.ljust(w) if i in (0, 1, 3) else v.rjust(w) for i, (v, w) in enumerate(zip(r, width))]
              for r in table]
    if a.markdown:
        padded.insert(1, ["-" * w if i in (0, 1, 3) else "-" * (w - 1) + ":" for i, w in enumerate(width)])
    for r in padded:
        print("| " + " | ".join(r) + " |" if a.markdown else "  ".join(r).rstrip())
    print("\n" + "; ".join(f"{k} {v}" for k, v in a.about.items()))


def numbers(text):
    return [int(n) for n in text.split(",")]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", nargs="+", metavar="A.gguf[=B.qsf]",
                   help="what to run; without it only llama-bench is built")
    p.add_argument("--try", dest="tried", type=pathlib.Path, metavar="A.gguf",
                   help="only build llama-bench and run it once on this model")
    p.add_argument("--threads", type=numbers, default=[os.cpu_count() or 1], metavar="N,N",
                   help="one a processor")
    p.add_argument("--rounds", type=int, default=5, metavar="N", help="5")
    p.add_argument("--prompts", "-p", type=numbers, default=[512], metavar="N,N",
                   help="prompt lengths, 512; 0 for none")
    p.add_argument("--decodes", "-n", type=numbers, default=[128], metavar="N,N",
                   help="tokens to generate, 128")
    p.add_argument("--depths", "-d", type=numbers, default=[0], metavar="N,N",
                   help="positions in the cache before generating, 0")
    p.add_argument("--llama-bench", type=pathlib.Path, help="a llama-bench that is built already")
    p.add_argument("--qsf-bench", type=pathlib.Path,
                   help="else build/release/qsf-bench is brought up to date")
    p.add_argument("--archive", type=pathlib.Path, help=f"{NAME}.tar.gz, fetched already")
    p.add_argument("--llama-args", type=shlex.split, default=[],
                   help="further options of llama-bench, such as \"-ctk q8_0 -ctv q8_0 -fa on\"")
    p.add_argument("--qsf-args", type=shlex.split, default=[],
                   help="further options of qsf-bench, such as \"--isa avx2\"")
    p.add_argument("--markdown", action="store_true", help="print a Markdown table")
    p.add_argument("--csv", action="store_true", help="print CSV")
    a = p.parse_args()
    pairs = [m.split("=", 1) if "=" in m else [m, m] for m in a.models or []]
    a.models = [(pathlib.Path(l), pathlib.Path(q)) for l, q in pairs]
    for model in {m for pair in a.models for m in pair}:
        if not model.is_file():
            p.error(f"no such file: {model}")
    a.pinned = not a.llama_bench
    a.about = {}
    return a


def main():
    a = arguments()
    if a.pinned:
        smallest = min((theirs for theirs, _ in a.models), key=lambda m: m.stat().st_size, default=a.tried)
        a.llama_bench, a.built = build_llama(a.archive, smallest)
    if not a.models:
        print(a.llama_bench)
        return
    a.qsf_bench = a.qsf_bench or build_qsf()
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0
    if busy > 0.5:
        say(f"the machine is busy (load {busy:.1f}); that slows llama.cpp's spinning threads most, so the "
            f"ratios will mean nothing")
    print_rows(a, list(rows_of(measure(a))))


if __name__ == "__main__":
    main()
