#!/usr/bin/env python3
"""qsf-serve over ranks of MPI: the same answers as one server, and which rank makes them.
SPDX-License-Identifier: MIT

    serve_ranks_test.py MPIRUN QSF_SERVE [WORD...]     names with one of the words; -WORD leaves out
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

from serve_server import TESTS, WORK, Server, together

sys.path.insert(0, str(TESTS / "parity"))
import make_lora
import make_tiny

MPIRUN, SERVE = sys.argv[1:3]
OPTIONS = "--chat-template", "chatml", "--quiet", "--threads", "1", "--slots", "4"
ENDLESS = "--kv-window", "512", "--ctx-size", "4096"          # answers beyond the context of training
LONG = {"prompt": "abcdefgh", "max_tokens": 1000000, "temperature": 0, "ignore_eos": True, "stream": True}
# Open MPI's, which MPICH ignores: tests may run as root, on few cores.
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


def tiny(name="llama"):
    path = pathlib.Path(WORK.name, name + ".gguf")
    return str(path if path.exists() else make_tiny.make(WORK.name, name)[0])


class Ranks(Server):
    """A server of several ranks, or (0) of one process."""

    def __init__(self, ranks, *more, model=None, first=None):
        """first: rank 0's own options, if the others have more."""
        self.n, self.job = ranks, f"{os.getpid()}-{time.monotonic_ns()}"
        os.environ["QSF_TEST_JOB"] = self.job
        program = [MPIRUN, "-np", str(ranks), SERVE, "--mpi"] if ranks else [SERVE]
        if first:
            own = SERVE, "--mpi", model or tiny(), "--port", "0", *OPTIONS, *first
            program = [MPIRUN, "-np", "1", *own, ":", "-np", str(ranks - 1), SERVE, "--mpi"]
        super().__init__(program, model or tiny(), *OPTIONS, *more)

    def of(self, name):
        """A figure of each rank."""
        text = self.ask("GET", "/metrics")[2]
        found = re.findall(rf'^qsf_{name}{{(?:model="[^"]*",)?rank="(\d+)"}} (\S+)$', text, re.M)
        out = [0.0] * self.n
        for rank, value in found: out[int(rank)] += float(value)
        assert len(found) >= self.n, found
        return out

    def pids(self):
        """Process ids of the ranks, by rank."""
        out = {}
        for p in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError):
                if not p.name.isdigit() or (p / "exe").resolve().name != "qsf-mpi-serve": continue
                env = (p / "environ").read_bytes().split(b"\0")
                if f"QSF_TEST_JOB={self.job}".encode() not in env: continue
                rank = [e.split(b"=")[1] for e in env
                        if e.startswith((b"PMI_RANK=", b"OMPI_COMM_WORLD_RANK="))]
                out[int(rank[0])] = int(p.name)
        return out

    @contextlib.contextmanager
    def busy(self, **more):
        """A long answer is under way, as long as this lasts.  What has come of it."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("POST", "/v1/completions", json.dumps({**LONG, **more}))
        r, lines, over = c.getresponse(), [], threading.Event()
        assert r.status == 200

        def read():
            with contextlib.suppress(http.client.HTTPException, OSError):
                while (line := r.readline()) and not over.is_set(): lines.append(line)

        reader = threading.Thread(target=read)
        reader.start()
        self.wait_for(lambda: lines)
        yield reader, lines
        over.set()
        reader.join(60)
        r.close()
        c.close()

    def kill(self):
        for pid in self.pids().values():
            with contextlib.suppress(ProcessLookupError): os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None: self.process.kill()

    def end_ranks(self):
        """The end that is asked for: rank 0 is told to, and all end well."""
        os.kill(self.pids()[0], signal.SIGTERM)
        code = self.process.wait(60)
        self.reader.join(60)
        assert code == 0 and not self.pids(), (code, "".join(self.lines[-20:]))


@contextlib.contextmanager
def serving(ranks, *more, **kinds):
    s = Ranks(ranks, *more, **kinds)
    try:
        yield s
        if s.process.poll() is None: (s.end_ranks if ranks else s.end)()
    finally:
        s.kill()


def plain(x):
    """An answer without what differs from request to request."""
    if isinstance(x, list): return [plain(i) for i in x]
    if not isinstance(x, dict): return x
    own = "id", "created", "created_at", "item_id", "call_id"
    return {k: plain(v) for k, v in x.items() if k not in own}


GREEDY = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
    "type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"],
    "additionalProperties": False}}}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"at": {"enum": ["here"]}}, "required": ["at"]}}}]
HI = [{"role": "user", "content": "Say hi"}]
REQUESTS = [
    ("/v1/completions", {"prompt": "Hello there", **GREEDY}),
    ("/v1/completions", {"prompt": ["one two", "three"], "n": 2, "logprobs": 3, **GREEDY}),
    ("/v1/completions", {"prompt": "one two three", "echo": True, "logprobs": 2, **GREEDY}),
    ("/v1/completions", {"prompt": "five", "seed": 5, "max_tokens": 20, "best_of": 3, "n": 1}),
    ("/v1/completions", {"prompt": "six", "stream": True, **GREEDY}),
    ("/v1/completions", {"prompt": "six", "beam_width": 3, "max_tokens": 8}),
    ("/v1/completions", {"prompt": [5, 6, 7], "stop": ["a"], **GREEDY}),
    ("/v1/chat/completions", {"messages": HI, **GREEDY}),
    ("/v1/chat/completions", {"messages": HI, "stream": True, **GREEDY}),
    ("/v1/chat/completions", {"messages": HI, "response_format": SCHEMA, "temperature": 0}),
    ("/v1/chat/completions", {"messages": HI, "tools": TOOLS, "tool_choice": "required", "temperature": 0}),
    ("/v1/chat/completions", {"messages": HI, "tools": TOOLS, "tool_choice": "required", "temperature": 0,
                              "stream": True}),
    ("/v1/responses", {"input": "Say hi", "temperature": 0, "max_output_tokens": 9}),
    ("/v1/messages", {"messages": HI, "max_tokens": 9, "temperature": 0, "stream": True}),
    ("/v1/completions", {"prompt": "x", "model": "other", **GREEDY}),
    ("/v1/embeddings", {"input": ["one two three", "four"]}),
    ("/v1/rerank", {"query": "one", "documents": ["one two", "three four five"]}),
    # what is refused
    ("/v1/completions", {"prompt": "x", "beam_width": 30}),
    ("/v1/completions", {"prompt": [1 << 20], **GREEDY}),
    ("/v1/chat/completions", {"messages": HI, "response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "strict": True, "schema": {"type": "object", "$ref": "#/nowhere"}}}}),
    ("/v1/completions", {"prompt": "a long answer", "timeout": 0.05, **GREEDY, "max_tokens": 100000}),
]


def answer(s, path, body):
    status, headers, text = s.ask("POST", path, body)
    if isinstance(text, str):
        text = "".join(e["choices"][0].get("text", "") if path == "/v1/completions" and e.get("choices")
                       else json.dumps(plain(e)) + "\n"
                       for e in (json.loads(line[6:]) for line in text.split("\n")
                                 if line.startswith("data: ") and line != "data: [DONE]"))
    if isinstance(text, dict) and "usage" in text: text["usage"].pop("prompt_tokens_details", 0)
    if isinstance(text, dict) and "usage" in text: text["usage"].pop("input_tokens_details", 0)
    return status, headers.get("Content-Type"), plain(text)


def test_same_answers():
    """Rank 0 has a long answer under way, so that all others are rank 1's."""
    with serving(0, *ENDLESS) as one:
        alone = [answer(one, *r) for r in REQUESTS]
    with serving(2, *ENDLESS) as s, s.busy():
        before = s.of("rank_requests_total")
        for r, should in zip(REQUESTS, alone, strict=True):
            assert (got := answer(s, *r)) == should, (r, got, should)
        far = s.of("rank_requests_total")[1]
        assert s.of("rank_requests_total")[0] == before[0] == 1, s.of("rank_requests_total")
        assert far >= 17 and s.of("requests_total") == [1, far], (far, s.of("requests_total"))
        assert s.of("rank_answers") == [1, 0] and s.of("rank_waiting_tokens")[1] == 0
        assert s.of("generated_tokens_total")[1] > 200


def test_adapters():
    """Every rank has them; default scales that rank 0 is given apply to all ranks from then on."""
    loras = [pathlib.Path(WORK.name, f"{seed}.lora.gguf") for seed in (1, 2)]
    for i, path in enumerate(loras): make_lora.make(tiny(), path, seed=i + 1)
    options = *ENDLESS, "--lora", f"one={loras[0]}", "--lora", f"two={loras[1]}:0.5"

    def all_of(s):
        out = []
        for scales in (None, [{"id": 0, "scale": 0.7}], [{"id": 1, "scale": 2}, {"id": 0, "scale": -1}]):
            if scales: assert s.ask("POST", "/lora-adapters", scales)[0] == 200
            for more in ({}, {"model": "llama.gguf:one"}, {"model": "llama.gguf:two"},
                         {"lora": [{"id": 1, "scale": 0.3}]}, {"lora": [{"id": 7, "scale": 1}]}):
                out.append(answer(s, "/v1/completions", {"prompt": "Hello there", **GREEDY, **more}))
        return out

    with serving(0, *options) as one:
        alone = all_of(one)
    assert len({json.dumps(x) for x in alone}) > 5, alone
    with serving(2, *options) as s, s.busy():
        assert all_of(s) == alone
        assert s.of("rank_requests_total") == [1, 12], s.of("rank_requests_total")
    # ranges of layers, whose ranks are told which sequence has which; at last inside a budget
    names = "llama.gguf", "llama.gguf:one", "llama.gguf:two"
    with serving(0, *options) as one:
        mixed = together([lambda m=m: one.complete("Hello there", 60, model=m) for m in names * 2])
    assert len(set(mixed)) == 3, mixed
    for ranks, more in ((2, ()), (3, ("--draft", "3")), (2, ("--ram-budget", "20"))):
        with serving(ranks, "--pipeline", *options, *more) as s:
            assert all_of(s) == alone, more
            s.ask("POST", "/lora-adapters", [])
            assert together([lambda m=m: s.complete("Hello there", 60, model=m) for m in names * 2]) == mixed
            assert s.metric("adapters") == 2, s.metric("adapters")


def folders():
    """Two folders of adapters, whose other.gguf differ; one has here.gguf alone."""
    both = [pathlib.Path(WORK.name, name) for name in ("here", "there")]
    for folder in both:
        folder.mkdir(exist_ok=True)
        for i, name in enumerate("ab"): make_lora.make(tiny(), folder / f"{name}.gguf", seed=i + 1)
        make_lora.make(tiny(), folder / "other.gguf", seed=3 if folder == both[0] else 4)
    make_lora.make(tiny(), both[0] / "here.gguf", seed=5)
    return both


def load(s, name, path=None):
    return s.ask("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": path or f"{name}.gguf"})


def come_and_go(s, alone, count):
    """Adapters of the folder, which all ranks have or none has; count: how many they have."""
    def said(name=None):
        return s.complete("Hello there", 24, model=f"llama.gguf:{name}" if name else "llama.gguf")
    plain = said()
    for i, name in enumerate("ab"):
        status, _, got = load(s, name)
        assert status == 200 and got["id"] == i and count() == {i + 1}, got
    for name, words in (("here", "rank 1: "), ("other", "rank 1: other.gguf is not the same"),
                        ("a", 'already has an adapter "a"')):
        status, _, e = load(s, name)
        assert status in (400, 404) and words in e["error"]["message"], (status, e)
        assert len(s.ask("GET", "/lora-adapters")[2]) == 2, name
        s.wait_for(lambda: count() == {2})
    assert [said(x) for x in "ab"] == alone and said() == plain
    both = [lambda p=p: load(s, "late", p) for p in ("a.gguf", "b.gguf")]       # clients who want one name
    got = sorted(x[0] for x in together(both * 2))
    assert got == [200, 400, 400, 400], got
    s.wait_for(lambda: count() == {3})
    assert said("late") in alone
    for name in "a", "late": s.post("/v1/unload_lora_adapter", lora_name=name)
    s.wait_for(lambda: count() == {1})
    assert s.ask("POST", "/v1/completions", {"prompt": "x", "model": "llama.gguf:a"})[0] == 404
    assert load(s, "a", "b.gguf")[0] == 200
    assert said("a") == said("b") == alone[1] and said() == plain


def test_adapter_folder():
    """What rank 0 is asked to load and drop, all ranks load and drop, or none of them does."""
    here, there = folders()
    with serving(0, "--lora", f"a={here / 'a.gguf'}", "--lora", f"b={here / 'b.gguf'}") as one:
        alone = [one.complete("Hello there", 24, model=f"llama.gguf:{x}") for x in "ab"]
    options = [(*ENDLESS, "--lora-dir", str(folder)) for folder in (here, there)]

    def same_on_all(): return set(s.of("adapters"))

    with serving(2, *options[1], first=options[0]) as s, s.busy():
        come_and_go(s, alone, same_on_all)
        assert s.of("rank_requests_total")[0] == 1 and s.of("adapter_requests_total")[1] == 5
    for more in ((), ("--ram-budget", "20", "--adapter-memory", "1")):
        ranges = [("--pipeline", "--lora-dir", str(folder), *more) for folder in (here, there)]
        with serving(2, *ranges[1], first=ranges[0]) as s:
            come_and_go(s, alone, lambda: {s.metric("adapters")})
            each = s.metric("adapter_bytes") / s.metric("adapters")
    # what is dropped makes room on all ranks
    with serving(2, *ranges[0][:-1], str(2.5 * each / 1e6)) as s:
        for i in range(8):
            status, _, e = load(s, f"x{i}", "b.gguf")
            assert status == 200, (i, e)
            assert s.complete("Hello there", 24, model=f"llama.gguf:x{i}") == alone[1]
            s.post("/v1/unload_lora_adapter", lora_name=f"x{i}")
            s.wait_for(lambda: s.metric("adapters") == 0)
    with serving(2, *ranges[0][:-1], "0.01") as s:
        status, _, e = load(s, "a")
        assert status == 503 and e["error"]["code"] == "adapter_no_room", (status, e)
        assert s.complete("Hello there", 4) and not s.ask("GET", "/lora-adapters")[2]


def test_pipeline():
    """Ranges of layers in one server: the same answers as from one process, bit for bit, also with cached
    prefixes."""
    requests = [r for r in REQUESTS if r[0] not in ("/v1/embeddings", "/v1/rerank") and "timeout" not in r[1]]
    prompts = [f"{i} of a dozen" for i in range(6)]
    document = "abcde " * 30

    def all_of(s):
        out = [answer(s, *r) for r in requests]
        out += [texts(s, prompts, 60), s.complete(document, 4), s.complete(document + "x", 4)]
        return out, s.metric("kept_tokens_total")

    for more in ((), ("--kv-window", "64"), ("-b", "5", "--draft", "3"), ("--ctx-size", "512")):
        with serving(0, *more) as one:
            alone, kept = all_of(one)
        assert kept > 100 or "--kv-window" in more, (more, kept)
        for ranks in (2, 3) if not more else (2,):
            with serving(ranks, "--pipeline", *more) as s:
                answers, kept = all_of(s)
                for got, should in zip(answers, alone, strict=True):
                    assert got == should, (more, got, should)
                assert kept > 100 or "--kv-window" in more, (more, kept)
                status, _, e = s.ask("POST", "/v1/embeddings", {"input": "x"})
                assert status == 400 and "split by layers over several ranks" in e["error"]["message"], e
                with s.busy(max_tokens=900, n=64): pass      # whose client goes
                s.wait_for(lambda: s.metric("cancelled_total") >= 1)
                assert s.complete(document, 4) == alone[-2]


def test_pipeline_ends():
    with serving(2, "--pipeline", "--mpi-silent", "5", *ENDLESS) as s:
        time.sleep(7)
        with s.busy(max_tokens=2000) as (reader, lines):
            os.kill(s.pids()[0], signal.SIGTERM)
            reader.join(60)
            assert lines[-2] == b"data: [DONE]\n", lines[-4:]
        assert s.process.wait(60) == 0
    dead(1, signal.SIGSTOP, "--pipeline")


def texts(s, prompts, n=400):
    return together([lambda p=p: s.complete(p, n) for p in prompts])


def test_balance():
    prompts = [f"{i} of a dozen" for i in range(12)]
    with serving(0) as one:
        alone = texts(one, prompts)
    for ranks in (2, 3):
        with serving(ranks) as s:
            assert texts(s, prompts) == alone
            n, tokens = s.of("rank_requests_total"), s.of("generated_tokens_total")
            assert sum(n) == 12 and all(n) and tokens == [400 * x for x in n], (n, tokens)
            assert s.of("requests_total") == n and s.of("steps_total")[-1] >= 400
        with serving(ranks, *ENDLESS) as s, contextlib.ExitStack() as stack:
            for i in range(6): stack.enter_context(s.busy(prompt=f"{i} of half a dozen"))
            assert s.of("rank_answers") == [6 / ranks] * ranks, s.of("rank_answers")


def test_prefix():
    """A rank that has a prompt's beginning gets it, until it has more to do than the beginning saves."""
    first, second = ("abcde " * 30, "vwxyz " * 30)
    with serving(2, "--ctx-size", "8192") as s:
        for text in (first, second): s.complete(text, 4)
        assert s.of("rank_requests_total") == [1, 1]
        for i in range(3): s.complete(f"{first} {i}", 4)
        assert s.of("rank_requests_total") == [4, 1] and s.of("rank_prefix_total") == [3, 0]
        for i in range(2): s.complete(f"{second} {i}", 4)
        assert s.of("rank_requests_total") == [4, 3] and s.of("rank_prefix_total") == [3, 2]
        kept = s.of("kept_tokens_total")
        assert all(k > n * 100 for k, n in zip(kept, (3, 2), strict=True)), kept
    # two answers fill rank 0; a third that begins alike goes elsewhere, whatever rank 0 has
    first = "abcde " * 700
    with serving(2, *ENDLESS, "--slots", "2", "--queue", "0") as s:
        s.complete(first, 4)
        with s.busy(prompt=f"{first} 7"), s.busy(prompt=f"{first} 8"):
            s.wait_for(lambda: s.of("rank_answers") == [2, 0])
            s.complete(f"{first} 9", 4)
            assert s.of("rank_requests_total") == [3, 1] and s.of("rank_passed_total") == [1, 0]


def test_cancel():
    with serving(2, *ENDLESS) as s, s.busy():
        with s.busy(prompt="of rank one") as (_, lines):
            s.wait_for(lambda: len(lines) > 10)
            s.wait_for(lambda: any(x["rank"] == 1 and x["is_processing"] for x in s.ask("GET", "/slots")[2]))
        s.wait_for(lambda: s.of("cancelled_total")[1] == 1 and s.of("rank_answers") == [1, 0])
        s.wait_for(lambda: not any(x["rank"] == 1 and x["is_processing"] for x in s.ask("GET", "/slots")[2]))
        assert s.complete("again", 5)


def test_full():
    with serving(2, *ENDLESS, "--slots", "1", "--queue", "0") as s:
        with s.busy(), s.busy(prompt="zz"):
            status, headers, e = s.ask("POST", "/v1/completions", {"prompt": "x"})
            assert status == 429 and e["error"]["code"] == "queue_full" and headers["Retry-After"], e
        s.wait_for(lambda: s.of("rank_answers") == [0, 0])
        assert s.complete("x", 4)


def test_models():
    """A second model is loaded by each rank that is asked for it."""
    with serving(0, *ENDLESS) as one:
        alone = one.complete("Hello there")
    with serving(2, *ENDLESS, f"--model=first={tiny('qwen2')}") as s:
        with s.busy():                       # of rank 0
            for _ in range(3): assert s.complete("Hello there", model="llama.gguf") == alone
        found = dict(re.findall(r'^qsf_requests_total{model="llama",rank="(.)"} (\d)',
                                s.ask("GET", "/metrics")[2], re.M))
        assert int(found["0"]) + int(found["1"]) == 3 and found["1"] != "0", found
        assert len({x["rank"] for x in s.ask("GET", "/slots")[2]}) == 2


def test_drain():
    """SIGTERM at rank 0: what is under way ends, on all ranks."""
    with serving(2, *ENDLESS) as s, s.busy(max_tokens=20000), \
            s.busy(prompt="zz", max_tokens=20000) as (reader, lines):
        assert s.of("rank_requests_total") == [1, 1]
        os.kill(s.pids()[0], signal.SIGTERM)
        reader.join(60)
        assert lines[-2] == b"data: [DONE]\n" and b'"finish_reason":"length"' in lines[-4], lines[-4:]
        assert s.process.wait(60) == 0


def test_idle():
    """An idle rank does not count as dead."""
    with serving(2, "--mpi-silent", "5") as s:
        s.complete("Hello", 4)
        time.sleep(7)
        assert len(texts(s, ["a", "b", "c"], 4)) == 3 and s.process.poll() is None


def test_wrong():
    """Files that differ, a model that is not there, and what does not go with ranks."""
    other = pathlib.Path(WORK.name, "other.gguf")
    data = bytearray(pathlib.Path(tiny()).read_bytes())
    data[len(data) // 2] ^= 1
    other.write_bytes(data)

    def fails(words, *lines):
        command = [MPIRUN]
        for line in lines:
            command += [":"] * (len(command) > 1) + ["-np", "1", SERVE, "--mpi", "--port", "0", *line]
        r = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert r.returncode and words in r.stderr, r

    fails("is not the same file on rank 1", [tiny()], [str(other)])
    fails("no-such-file", ["no-such-file.gguf"], ["no-such-file.gguf"])
    fails("cannot be combined with --mpi", [tiny(), "--trace", "x"], [tiny(), "--trace", "x"])
    fails("cannot be combined with --pipeline", *[[tiny(), "--pipeline", "--cache-file", "x"]] * 2)
    fails("layers that keep state", *[[tiny("lfm2"), "--pipeline"]] * 2)
    lora = str(pathlib.Path(WORK.name, "x.lora.gguf"))
    make_lora.make(tiny(), lora)
    pathlib.Path(lora + "2").write_bytes(pathlib.Path(lora).read_bytes() + b"x")
    fails("lora.gguf is not the same file on rank 1", *[[tiny(), "--lora", "a=" + lora],
                                                         [tiny(), "--lora", "a=" + lora + "2"]])
    fails("is for one model", *[[tiny(), tiny("qwen2"), "--pipeline"]] * 2)


def dead(victim, number, *more):
    s = Ranks(2, *ENDLESS, *more)
    try:
        with s.busy(), s.busy(prompt="zz"):
            begin = time.monotonic()
            os.kill(s.pids()[victim], number)
            code = s.process.wait(60)
        took = time.monotonic() - begin
        s.reader.join(60)
        said = "".join(s.lines)
        assert code and took < 30, (victim, number, code, took, said)
        assert number != signal.SIGSTOP or f"rank {victim} has been silent" in said, said
        s.wait_for(lambda: not s.pids())            # no rank is left
    finally:
        s.kill()


def test_dead():
    """A rank that dies or hangs ends the job within 10 seconds, which are 30 on a busy machine."""
    for victim in (0, 1):
        for number in (signal.SIGKILL, signal.SIGSTOP): dead(victim, number)


def wanted(name):
    """Names with one of the words of the command line, and without any that follows a dash."""
    words = sys.argv[3:]
    if any(w[0] == "-" and w[1:] in name for w in words): return False
    return any(w in name for w in words) or all(w[0] == "-" for w in words)


for name, test in list(globals().items()):
    if not name.startswith("test_") or not wanted(name[5:]): continue
    started = time.monotonic()
    test()
    print(f"ok   {name[5:]} {time.monotonic() - started:.1f} s", flush=True)
