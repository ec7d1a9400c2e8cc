#!/usr/bin/env python3
"""A model over ranks of MPI: the same logits as one process, bit for bit by ranges of layers, within 1e-4 by
shares of them; errors that end the job.
SPDX-License-Identifier: MIT

    mpi_test.py MPIRUN QSF_RUN WORK [short | numbers | ends]

short: what another MPI or a sanitizer may change, without what measures time. numbers, ends: one half; the
other one mostly waits for ranks that have died or hang. QSF_RUN may be qsf-mpi itself.
"""
import os, pathlib, re, signal, subprocess, sys, threading, time
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_lora, make_tiny

MPIRUN, RUN, WORK = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
TEXTS = ["-p", "Hello there", "-p", "abc", "-p", "one two three four five six seven eight", "-p", "x"]
COMMON = ["--raw", "-t", "1", "--temp", "0", "--ignore-eos", "--print-ids", "--print-check", "-v"]
SHARES = ["--tensor-parallel"]
# Open MPI refuses root and more ranks than cores unless it is told otherwise; MPICH looks at none
# of these.
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


def command(ranks, model, *options):
    return [MPIRUN, "-np", str(ranks), RUN, "--mpi", *COMMON, str(model), *options]


def run(ranks, model, *options, code=0):
    r = subprocess.run(command(ranks, model, *options), capture_output=True, text=True, timeout=120, env=ENV)
    assert (r.returncode == 0) == (code == 0), (ranks, options, r)
    return r


def logits(r):
    return sorted(re.findall(r"logits of text \d+: \w+", r.stderr))


def same_as_one_process(names=("llama", "gemma3", "gpt2", "qwen2", "lfm2"), most=4):
    for name in names:
        if name not in make_tiny.models(): continue
        model, n = make_tiny.make(WORK, name)[0], make_tiny.models()[name]["n_layers"]
        whole = run(1, model, *TEXTS, "-n", "20")
        for ranks in [r for r in (2, 4) if r <= min(n, most)]:
            parts = run(ranks, model, *TEXTS, "-n", "20", "-b", "3")
            assert len(logits(whole)) == 4 and logits(parts) == logits(whole), (name, ranks, parts, whole)
            assert parts.stdout == whole.stdout, (name, ranks)
            assert parts.stderr.count(": layers ") == ranks, parts.stderr


def by_shares(ranks, model, *options):
    """Printed tokens and all logits, with floats where codes would make large differences of small ones."""
    out = WORK / f"logits-{ranks}"
    r = run(ranks, model, *options, *SHARES, "--f32", "--kv-type", "f32", "--mpi-logits", str(out))
    assert r.stderr.count(f"of {ranks} of layers") == ranks, r.stderr
    return r.stdout, np.fromfile(out, np.float32)


def shares(model):
    """Each rank has a share of every layer; a long prompt's sums go in parts."""
    long = ["-p", "one two three four " * 24, "-n", "12", "-b", "128"]
    for name, options in (("llama", TEXTS), ("gemma3", TEXTS), ("qwen2-q8", long)):
        path = make_tiny.make(WORK, name)[0] if name in make_tiny.models() else WORK / f"{name}.gguf"
        if not path.exists():
            m = dict(make_tiny.models()["qwen2"], n_embd=256, n_heads=8, n_kv_heads=4, n_ff=640,
                     head_dim=64, type=make_tiny.Q.Q8_0)
            make_tiny.Writer(path, m).write()
        text, right = by_shares(1, path, *options, "-n", "12")
        for ranks in (2, 4):
            said, logits_ = by_shares(ranks, path, *options, "-n", "12")
            assert said == text and right.size == logits_.size, (name, ranks, said, text)
            assert abs(logits_ - right).max() <= 1e-4 * abs(right).max(), (name, ranks)
    text, right = by_shares(1, model, *TEXTS, "-n", "6")
    said, logits_ = by_shares(2, model, *TEXTS, "-n", "6", "--split", "3,1")
    assert said == text and abs(logits_ - right).max() <= 1e-4 * abs(right).max()
    for wrong in ("1", "1,0", "1,1,1", "a,b", "-1,1"):
        assert "--split" in run(2, model, *TEXTS, *SHARES, "--split", wrong, code=1).stderr
    r = run(2, make_tiny.make(WORK, "lfm2")[0], *TEXTS, *SHARES, code=1)
    assert r.stderr.count("layer 0 has a mixer other than attention") == 2, r
    assert "--mpi-wire is for" in run(2, model, *TEXTS, *SHARES, "--mpi-wire", "q8", code=1).stderr


def adapters():
    """Each rank has its layers of adapters, experts' among them; or its rows and columns, and one of a
    head is rank 0's."""
    for name in ("qwen2moe", "mixtral"):
        make_lora.make_tests(WORK, [name])
        line = WORK / f"{name}.gguf", *TEXTS, "-n", "12", "--lora", str(WORK / f"{name}.a.gguf")
        whole, parts = run(1, *line), run(2, *line)
        assert logits(whole) == logits(parts) != logits(run(2, *line[:-2])), (name, whole, parts)
    make_lora.make_tests(WORK, ["llama", "qwen2"])
    for name in ("llama", "qwen2"):
        model = WORK / f"{name}.gguf"
        both = "--lora", f"{WORK / name}.a.gguf", "--lora", f"{WORK / name}.b.gguf:0.5"
        without = by_shares(1, model, *TEXTS, "-n", "8")[1]
        text, right = by_shares(1, model, *TEXTS, "-n", "8", *both)
        assert abs(right[:300] - without[:300]).max() > 0.01 * abs(right).max(), name
        for ranks in (2, 4):
            said, logits_ = by_shares(ranks, model, *TEXTS, "-n", "8", *both)
            assert said == text and right.size == logits_.size, (name, ranks, said, text)
            assert abs(logits_ - right).max() <= 1e-4 * abs(right).max(), (name, ranks)
    other = WORK / "other.a.gguf"
    bytes_ = bytearray((WORK / "llama.a.gguf").read_bytes())
    bytes_[-1] ^= 1
    other.write_bytes(bytes_)
    model = WORK / "llama.gguf"
    line = [*command(1, model, *TEXTS, "--lora", str(WORK / "llama.a.gguf")), ":",
            *command(1, model, *TEXTS, "--lora", str(other))[1:]]
    r = subprocess.run(line, capture_output=True, text=True, timeout=120, env=ENV)
    assert r.returncode and "a.gguf is not the same file on rank 1" in r.stderr, r


def wires(model):
    whole = run(1, model, *TEXTS, "-n", "8")
    for wire in ("f16", "q8"):
        less = run(2, model, *TEXTS, "-n", "8", "--mpi-wire", wire)
        assert logits(less) != logits(whole) and len(less.stdout.splitlines()) == 4, less
        first = [line.split(",")[0] for line in less.stdout.splitlines()]
        assert first == [line.split(",")[0] for line in whole.stdout.splitlines()], (wire, first)


def splits(model):
    whole = logits(run(1, model, *TEXTS, "-n", "4"))
    given = run(2, model, *TEXTS, "-n", "4", "--split", "6,2")
    assert "layers 0 to 5" in given.stderr and "layers 6 to 7" in given.stderr, given
    assert logits(given) == whole
    for wrong in ("8", "4,5", "4,4,", "0,8", "a,b", "7"):
        r = run(2, model, *TEXTS, "--split", wrong, code=1)
        assert "--split" in r.stderr, r


def wrong_file(model):
    other = WORK / "other.gguf"
    bytes_ = bytearray(model.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    other.write_bytes(bytes_)
    line = [*command(1, model, *TEXTS), ":", *command(1, other, *TEXTS)[1:]]
    r = subprocess.run(line, capture_output=True, text=True, timeout=120, env=ENV)
    assert r.returncode and r.stderr.count("is not the same file on rank 1") == 2, r
    assert not r.stdout.strip() or "tokens of" not in r.stderr, r


def ranks_of(parent):
    """Process ids of the job's ranks, by rank."""
    out = {}
    for p in pathlib.Path("/proc").iterdir():
        try:
            if not p.name.isdigit() or not (p / "exe").resolve().name.startswith("qsf-mpi"): continue
            env = (p / "environ").read_bytes().split(b"\0")
            if f"QSF_TEST_JOB={parent}".encode() not in env: continue
            rank = [e.split(b"=")[1] for e in env if e.startswith((b"PMI_RANK=", b"OMPI_COMM_WORLD_RANK="))]
            out[int(rank[0])] = int(p.name)
        except (OSError, IndexError): pass
    return out


def wait_for(what):
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)


def dead_rank(model, number, victim, *options):
    """A rank that dies or is stopped ends the job within 10 seconds, which are 30 on a busy machine; what it
    was is said."""
    job = f"{os.getpid()}-{number}-{victim}"
    line = command(2, model, "-p", "Hello", "-n", "1000000", "-c", "1000000", *options)
    r = subprocess.Popen(line, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                         env=dict(ENV, QSF_TEST_JOB=job))
    lines = []
    reader = threading.Thread(target=lines.extend, args=(r.stderr,), daemon=True)
    reader.start()
    try:
        wait_for(lambda: len(ranks_of(job)) == 2 and "".join(lines).count("layers") >= 2)   # both have loaded
        time.sleep(0.5)
        os.kill(ranks_of(job)[victim], number)
        begin = time.monotonic()
        r.wait(60)
        took = time.monotonic() - begin
        reader.join(60)
        said = "".join(lines)
        assert r.returncode and took < 30, (number, victim, took, said)
        if number == signal.SIGSTOP: assert f"rank {victim} has been silent" in said, said
        wait_for(lambda: not ranks_of(job))         # none is left
    finally:
        for pid in ranks_of(job).values(): os.kill(pid, signal.SIGKILL)
        if r.poll() is None: r.kill()


def hanging_rank(model, *options):
    """A rank that does nothing while its heartbeat thread continues: both report it, within 10 seconds, which
    are 40 with the start on a busy machine."""
    begin = time.monotonic()
    r = run(2, model, "-p", "Hello", "-n", "1000", "--mpi-hang", "1", *options, code=1)
    took = time.monotonic() - begin
    assert "rank 1 of 2: this rank hangs: it has made no step" in r.stderr, r
    assert "rank 0 of 2: rank 1 hangs: it has made no step" in r.stderr, r
    assert took < 40, took


def budgets():
    """Each rank has little more than a quarter of what one process takes, and a smaller context: no layer
    streams, and what is read is each rank's part of the file, once, however many tokens follow."""
    path = WORK / "large.gguf"
    if not path.exists():
        m = dict(make_tiny.models()["llama"], n_layers=24, n_embd=256, n_ff=1536, type=make_tiny.Q.F16)
        make_tiny.Writer(path, m).write()
    whole = run(1, path, *TEXTS, "-n", "6")
    needs = float(re.search(r"rank 0: layers 0 to 23, ([\d.]+) MB, all stay", whole.stderr)[1])
    small = "--ram-budget", f"{needs / 3.8:.3f}", "-c", "128", "-b", "4"
    assert "some stream" in run(1, path, *TEXTS, "-n", "6", *small).stderr
    parts, longer = (run(4, path, *TEXTS, "-n", n, *small) for n in ("6", "12"))
    assert parts.stderr.count("all stay in memory") == 4 and logits(parts) == logits(whole), parts
    read, later = ([int(n) for n in re.findall(r"(\d+) bytes read", r.stderr)] for r in (parts, longer))
    assert len(read) == 4 and sorted(read) == sorted(later), (read, later)
    assert 0.9 * path.stat().st_size < sum(read) <= path.stat().st_size, (read, path.stat())


def least(seconds, most):
    """The least time of several runs, which other programs only make longer; enough if it is under `most`."""
    best, end = seconds(), time.monotonic() + 60
    while best >= most and time.monotonic() < end: best = min(best, seconds())
    return best


def delays(model):
    """docs/many-machines.md's model: a token of one text takes what the ranks compute and a message for each
    rank; and a message its latency and its bytes."""
    def seconds(*options):
        r = run(2, model, "-p", "abc", "-n", "50", *options)
        return float(re.search(r"texts in ([\d.]+) s", r.stderr)[1]) / 50
    plain = min(seconds() for _ in range(2))
    late = least(lambda: seconds("--mpi-delay", "5000"), 0.010 + plain + 0.004)
    assert 0.010 < late < 0.010 + plain + 0.004, (plain, late)
    # 64 states or 300 logits of 4 bytes at 0.1 MB/s: 0.4 and 1.2 KB, with their heads
    n_embd, n_vocab = make_tiny.models()["gemma3"]["n_embd"], make_tiny.N_VOCAB
    message = 4 * (n_embd + n_vocab) + 2 * 16 + 12
    should = 0.010 + message / 0.1e6
    slow = least(lambda: seconds("--mpi-delay", "5000", "--mpi-rate", "0.1"), should + plain + 0.004)
    assert should < slow < should + plain + 0.004, (plain, slow, should)


def delays_of_shares(model):
    """A token of shares takes two messages for each layer, and one with the token's id."""
    def seconds(*options):
        r = run(2, model, "-p", "abc", "-n", "20", *SHARES, *options)
        return float(re.search(r"texts in ([\d.]+) s", r.stderr)[1]) / 20
    n = 2 * make_tiny.models()["gemma3"]["n_layers"]
    plain = min(seconds() for _ in range(2))
    most = (n + 1) * 0.005 + plain + n * 0.0005
    late = least(lambda: seconds("--mpi-delay", "5000"), most)
    assert n * 0.005 < late < most, (plain, late)


def short():
    model = make_tiny.make(WORK, "llama")[0]
    same_as_one_process(["llama"], 2)
    text, right = by_shares(1, model, *TEXTS, "-n", "6")
    said, logits_ = by_shares(2, model, *TEXTS, "-n", "6")
    assert said == text and abs(logits_ - right).max() <= 1e-4 * abs(right).max()
    wrong_file(model)
    for number in (signal.SIGKILL, signal.SIGSTOP): dead_rank(model, number, 1)


def numbers(model):
    same_as_one_process()
    shares(model)
    adapters()
    wires(make_tiny.make(WORK, "llama")[0])
    budgets()
    delays(model)
    delays_of_shares(model)


def ends(model):
    splits(model)
    wrong_file(model)
    hanging_rank(model)
    hanging_rank(model, *SHARES)
    dead_rank(model, signal.SIGSTOP, 1, *SHARES)
    for number in (signal.SIGKILL, signal.SIGSTOP):
        for victim in (0, 1): dead_rank(model, number, victim)


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    part = sys.argv[4] if sys.argv[4:] else "all"
    if part == "short":
        short()
        return print("ok")
    model = make_tiny.make(WORK, "gemma3")[0]
    if part in ("all", "numbers"): numbers(model)
    if part in ("all", "ends"): ends(model)
    print("ok")


if __name__ == "__main__":
    main()
