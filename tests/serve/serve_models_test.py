#!/usr/bin/env python3
"""Several models in one qsf-serve: loaded when asked for, dropped by least use, and what may go wrong then.
SPDX-License-Identifier: MIT

    serve_models_test.py QSF_SERVE [NAME...]      the tests whose names have one of the words
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

from serve_server import ENDLESS, FOREVER, SLOW, TESTS, WORK, Server, run, together

sys.path[:0] = [str(TESTS / "parity"), str(TESTS / "tools")]
import make_tiny
from split_gguf import in_two_parts

NAMES = "llama", "qwen2", "phi3-q4_k"
OPTIONS = "--chat-template", "chatml", "--quiet", "--threads", "2"
HELLO = {"prompt": "Hello there", "max_tokens": 24, "temperature": 0, "ignore_eos": True}
SMALL = "--slots", "2", "--ctx-size", "512", "--cache-sequences", "0"


def tiny(name):
    path = pathlib.Path(WORK.name, name + ".gguf")
    if not path.exists():
        make_tiny.make(WORK.name, name)
    return path


def deep(name, layers=24):
    """A model most of which is layers."""
    models = make_tiny.models
    made = dict(make_tiny.WIDE, n_layers=layers, type=make_tiny.Q.Q8_0, seed=91)
    make_tiny.models = lambda *_: {name: made}
    try:
        return tiny(name)
    finally:
        make_tiny.models = models


@contextlib.contextmanager
def serving(s, *more, **models):
    """A server with models by name."""
    first, *others = [f"--model={name}={path}" for name, path in models.items()]
    server = Server(s.program, first, *others, *OPTIONS, *more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


def text_of(server, model, **more):
    return server.post("/v1/completions", **{**HELLO, **more, "model": model})["choices"][0]["text"]


def refused_not(server, model):
    """The name of the model that answers a request for another one."""
    return server.post("/v1/completions", prompt="x", max_tokens=1, model=model)["model"]


def refused(server, model, status, code, **more):
    """The message of the refusal, and how long to wait."""
    got, headers, answer = server.ask("POST", "/v1/completions", {**HELLO, **more, "model": model})
    assert got == status and answer["error"]["code"] == code, (got, answer)
    return answer["error"]["message"], headers["Retry-After"]


def states(server):
    return {m["id"]: m["status"]["value"] for m in server.ask("GET", "/v1/models")[2]["data"]}


def metric_of(server, name, model):
    text = server.ask("GET", "/metrics")[2]
    return float(re.search(rf'^qsf_{name}{{model="{model}"}} (\S+)$', text, re.M)[1])


def asking(server, model, **more):
    """A connection on which that was asked."""
    c = socket.create_connection(("127.0.0.1", server.port), timeout=60 * SLOW)
    body = json.dumps({**HELLO, **more, "model": model})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    c.sendall((head + body).encode())
    return c


def stream_of(server, model, max_tokens, n=1):
    """A connection on which long answers stream."""
    c = asking(server, model, max_tokens=max_tokens, n=n, stream=True)
    got = b""
    while b"data: " not in got:
        piece = c.recv(4096)
        assert piece, got
        got += piece
    return c


def rest_of(c):
    got = b""
    while not got.endswith(b"\r\n0\r\n\r\n") and (piece := c.recv(65536)):
        got += piece
    c.close()
    return got


# ---- by name ----

def test_each_name_has_its_model(s):
    want = {}
    for name in NAMES[:2]:
        with serving(s, alone=tiny(name)) as one:
            want[name] = text_of(one, "alone")
    assert want["llama"] != want["qwen2"]
    with serving(s, **{"org/a": tiny("llama"), "b": tiny("qwen2")}) as two:
        listed = two.ask("GET", "/v1/models")[2]["data"]
        assert states(two) == {"org/a": "loaded", "b": "unloaded"}
        assert listed[0]["meta"]["n_ctx"] > 0 and listed[1]["meta"] == {"size": tiny("qwen2").stat().st_size}
        assert text_of(two, "b") == want["qwen2"] and text_of(two, "org/a") == want["llama"]
        assert two.complete(HELLO["prompt"], 24) == want["llama"]           # without a name: the first
        assert two.ask("GET", "/v1/models/b")[2]["meta"]["n_ctx"] > 0
        assert two.ask("GET", "/v1/models/org%2fa")[2] == two.ask("GET", "/v1/models/org/a")[2]
        message, _ = refused(two, "c", 404, "model_not_found")
        assert '"org/a", "b"' in message
        assert two.ask("GET", "/v1/models/c")[0] == 404
        assert {slot["model"] for slot in two.ask("GET", "/slots")[2]} == {"org/a", "b"}
        assert metric_of(two, "generated_tokens_total", "b") == 24
        assert metric_of(two, "model_loaded", "b") == 1
        assert 'qsf_request_seconds_bucket{model="b",le="+Inf"} 1\n' in two.ask("GET", "/metrics")[2]
        assert two.ask("GET", "/health")[2] == {"status": "ok"}


def test_texts_wait_for_their_model_too(s):
    with serving(s, a=tiny("llama"), b=tiny("qwen2")) as two:
        tokens = two.post("/tokenize", content="Once upon", model="b")["tokens"]
        assert states(two)["b"] == "loaded" and tokens
        assert two.post("/detokenize", tokens=tokens, model="b")["content"] == "Once upon"


def test_names_on_the_command_line(s):
    def said(*words):
        p = subprocess.run([s.program, "--port", "0", *words], capture_output=True, text=True, timeout=60)
        return p.returncode, p.stderr

    a, b = tiny("llama"), tiny("qwen2")
    assert said("-m", f"x={a}", "-m", f"x={b}")[0] == 2 and "two models" in said(str(a), str(a))[1]
    assert said("-m", "=x")[0] == 2 and said("-m", "x=")[0] == 2 and said()[0] == 2
    assert said(str(a), str(b), "--alias", "x")[0] == 2
    code, text = said("-m", "x=/nowhere/at.all", "-m", f"y={a}")
    assert code not in (0, 2) and "/nowhere/at.all" in text         # the first has to be there
    odd = pathlib.Path(WORK.name, "odd=name.gguf")
    shutil.copy(a, odd)
    server = Server(s.program, str(odd), *OPTIONS)                  # a plain path keeps working
    assert states(server) == {"odd=name": "loaded"}                 # without the extension
    assert refused_not(server, "odd=name.gguf") == refused_not(server, "gpt-4o") == "odd=name"
    server.end()
    with serving(s, "--default-model", "y", **{"x,other": a, "y": b}) as two:
        assert set(states(two)) == {"x", "y"}
        answers = {name: refused_not(two, name) for name in ("other", "X", "org/x.gguf", "gpt-4o", None)}
        assert answers == {"other": "x", "X": "x", "org/x.gguf": "x", "gpt-4o": "y", None: "y"}, answers
    code, text = said("-m", f"x={a}", "-m", f"y={b}", "--default-model", "z")
    assert code and "no model is named \"z\"" in text, text


# ---- room ----

def test_the_least_recently_used_model_makes_room(s):
    a, b, c = NAMES
    models = {n: tiny(n) for n in NAMES}
    with serving(s, "--models-max", "2", **models) as server:
        first = {n: text_of(server, n) for n in NAMES}
        assert states(server) == {a: "unloaded", b: "loaded", c: "loaded"}
        assert text_of(server, b) == first[b] and text_of(server, a) == first[a]
        assert states(server) == {a: "loaded", b: "loaded", c: "unloaded"}
        assert server.ask("GET", f"/v1/models/{c}")[2]["meta"]["n_ctx"] > 0        # what is known stays known
        assert metric_of(server, "kv_blocks", c) == 0 and metric_of(server, "generated_tokens_total", c) == 24
        assert metric_of(server, "model_loads_total", a) == 2


def test_models_share_a_budget(s):
    def planned(name):
        server = Server(s.program, f"--model=x={tiny(name)}", *(o for o in OPTIONS if o != "--quiet"), *SMALL)
        server.wait_for(lambda: any("is loaded" in line for line in server.lines))
        server.end()
        return float(re.search(r"is loaded: (\S+) MB", "".join(server.lines))[1])

    models = {n: tiny(n) for n in NAMES[:2]}
    sizes = {n: planned(n) for n in models}
    both, one = sum(sizes.values()) + 0.5, max(sizes.values()) + 0.5
    want = {}
    with serving(s, *SMALL, "--ram-budget", f"{both}", **models) as server:
        for n in models:
            want[n] = text_of(server, n)
        assert set(states(server).values()) == {"loaded"}
    with serving(s, *SMALL, "--ram-budget", f"{one}", **models) as server:
        for n in list(models) * 2:
            assert text_of(server, n) == want[n]
            assert states(server) == {m: "loaded" if m == n else "unloaded" for m in models}


def test_a_model_waits_for_those_that_work(s):
    with serving(s, "--models-max", "1", *ENDLESS, a=tiny("llama"), b=tiny("qwen2")) as server:
        long = stream_of(server, "a", FOREVER)
        message, again = refused(server, "b", 503, "timeout", timeout=0.05)
        assert "to be unloaded" in message and int(again) > 0
        long.close()
        server.idle()
        long = stream_of(server, "a", 3000)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waits = pool.submit(text_of, server, "b")
            server.wait_for(lambda: states(server)["b"] != "unloaded")
            assert b"[DONE]" in rest_of(long)
            assert waits.result()
        assert states(server) == {"a": "unloaded", "b": "loaded"}


def test_a_busy_model_gives_way_after_a_while(s):
    ends = []
    with serving(s, "--models-max", "1", a=tiny("llama"), b=tiny("qwen2")) as server:
        def ask():
            while not ends:
                text_of(server, "a", max_tokens=200)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            busy = [pool.submit(ask) for _ in range(3)]
            try:
                server.wait_for(lambda: metric_of(server, "running", "a") > 0)
                assert text_of(server, "b", timeout=50 * SLOW)
            finally:
                ends.append(True)
            for b in busy:
                b.result()


def test_who_goes_while_waiting_is_forgotten(s):
    with serving(s, "--models-max", "1", *ENDLESS, a=tiny("llama"), b=tiny("qwen2")) as server:
        long = stream_of(server, "a", FOREVER)
        for _ in range(5):
            c = asking(server, "b")
            server.wait_for(lambda: states(server)["b"] == "loading")
            c.close()
            server.wait_for(lambda: states(server)["b"] == "unloaded")
        long.close()
        server.idle()
        assert text_of(server, "b")


def test_each_model_keeps_its_sequences(s):
    file = pathlib.Path(WORK.name, "kept")
    prompt = "What one model has computed, it finds again when it comes back. " * 4

    def ask(server, model):
        a = server.post("/v1/completions", **{**HELLO, "prompt": prompt, "model": model})
        return a["choices"][0]["text"], a["usage"]["prompt_tokens_details"]["cached_tokens"]

    options = "--models-max", "1", "--cache-file", str(file)
    with serving(s, *options, **{"org/a": tiny("llama"), "b": tiny("qwen2")}) as server:
        want = {m: ask(server, m)[0] for m in ("org/a", "b")}
        again = {m: ask(server, m) for m in ("org/a", "b")}
    assert sorted(p.name for p in file.parent.glob("kept*")) == ["kept.b", "kept.org%2fa"]
    with serving(s, *options, b=tiny("qwen2"), **{"org/a": tiny("llama")}) as server:
        third = {m: ask(server, m) for m in ("b", "org/a")}
    for m, text in want.items():
        assert again[m][0] == third[m][0] == text and again[m][1] > 100 and third[m][1] > 100


# ---- faults ----

def test_a_missing_or_broken_file_is_an_error_for_those_who_ask(s):
    path = pathlib.Path(WORK.name, "later.gguf")
    with serving(s, a=tiny("llama"), b=path) as server:
        def loads():
            return text_of(server, "b") if server.ask("POST", "/v1/completions",
                                                      {**HELLO, "model": "b"})[0] == 200 else None

        message, _ = refused(server, "b", 500, "model_load_failed")
        assert str(path) in message and text_of(server, "a")
        status = server.ask("GET", "/v1/models/b")[2]["status"]
        assert status["value"] == "unloaded" and status["failed"] and str(path) in status["error"]
        path.write_bytes(tiny("qwen2").read_bytes()[:5000])
        server.wait_for(lambda: metric_of(server, "model_failures_total", "b") > 1 or loads())
        message, _ = refused(server, "b", 500, "model_load_failed")
        assert str(path) in message and text_of(server, "a")
        shutil.copy(tiny("qwen2"), path)
        server.wait_for(loads)


def test_a_file_that_is_cut_while_it_streams_is_an_error(s):
    whole, path = deep("deep"), pathlib.Path(WORK.name, "cut.gguf")
    shutil.copy(whole, path)
    with serving(s, *SMALL, *ENDLESS, "--ram-budget", "14", "--io", "pread", cut=path) as server:
        want = text_of(server, "cut")
        long = stream_of(server, "cut", FOREVER)
        os.truncate(path, 100000)
        got = rest_of(long)
        assert b"error" in got and b"cut.gguf" in got, got[-300:]
        message, _ = refused(server, "cut", 500, "model_load_failed")
        assert "cut.gguf" in message
        path.unlink()
        shutil.copy(whole, path)
        server.wait_for(lambda: server.ask("POST", "/v1/completions", HELLO)[0] == 200)
        assert text_of(server, "cut") == want


def test_out_of_memory_while_loading_is_an_error(s):
    if SLOW > 1 or not hasattr(resource, "prlimit"):
        return                                          # sanitizers map terabytes
    models = {name: tiny(file) for name, file in zip("abc", NAMES)}
    with serving(s, "--ctx-size", "30000", **models) as server:
        want = text_of(server, "a")
        assert text_of(server, "c")                     # the loader's thread is there
        pid = server.process.pid
        has = int(re.search(r"VmSize:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024
        resource.prlimit(pid, resource.RLIMIT_AS, (has + 2000000, resource.RLIM_INFINITY))
        message, again = refused(server, "b", 503, "model_load_failed")
        assert "memory" in message and int(again) > 0 and text_of(server, "a") == want
        resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        server.wait_for(lambda: server.ask("POST", "/v1/completions", {**HELLO, "model": "b"})[0] == 200)


# ---- begin and end ----

def test_sigterm_finishes_what_all_models_do(s):
    with serving(s, a=tiny("llama"), b=tiny("qwen2"), c=tiny("phi3-q4_k")) as server:
        streams = [stream_of(server, m, 200) for m in "ab"]
        last = asking(server, "c")
        server.wait_for(lambda: states(server)["c"] != "unloaded")
        server.process.send_signal(signal.SIGTERM)
        assert all(b"[DONE]" in rest_of(c) for c in streams)
        assert last.recv(100).startswith(b"HTTP/1.1 200")
        last.close()
        assert server.process.wait(60 * SLOW) == 0


def test_sockets_may_come_from_systemd(s):
    hand_over = ("import os, sys; os.dup2(int(sys.argv[1]), 3); "
                 "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid() + int(sys.argv[2]))); "
                 "os.execv(sys.argv[3], sys.argv[3:])")

    def begin(sock, other, *more):
        return subprocess.Popen([sys.executable, "-c", hand_over, str(sock.fileno()), str(other), s.program,
                                 str(tiny("llama")), *OPTIONS, *more], pass_fds=[sock.fileno()],
                                stderr=subprocess.PIPE, text=True)

    with socket.create_server(("127.0.0.1", 0)) as sock:
        with socket.create_connection(sock.getsockname(), timeout=60 * SLOW) as early:      # it waits
            p = begin(sock, 0, "--port", "1")
            early.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert b'{"status":"ok"}' in early.recv(4096) + early.recv(4096)
        p.send_signal(signal.SIGTERM)
        assert p.wait(60 * SLOW) == 0, p.stderr.read()
        p.stderr.close()
        p = begin(sock, 1, "--port", "0")               # it is for another process
        assert "is served at" in p.stderr.readline()
        p.send_signal(signal.SIGTERM)
        assert p.wait(60 * SLOW) == 0
        p.stderr.close()


def test_a_trace_tells_models_apart(s):
    trace, record = pathlib.Path(WORK.name, "trace.json"), pathlib.Path(WORK.name, "record.jsonl")
    with serving(s, *SMALL, "--trace", str(trace), "--record", str(record), one=tiny("llama"),
                 two=tiny("qwen2")) as server:
        together([lambda: text_of(server, "one"), lambda: text_of(server, "two")])
        json.loads(trace.read_text())               # while it runs
    spans = {}
    for e in json.loads(trace.read_text()):
        if e["ph"] == "X" and e["name"] == "layer":
            spans.setdefault(e["pid"], []).append((e["ts"], e["ts"] + e["dur"]))
    assert len(spans) == 2, spans.keys()            # each computes on a thread of its own
    for one in spans.values():                      # and layer by layer
        assert all(a[1] <= b[0] + 0.002 for a, b in zip(one, one[1:]))
    assert len([json.loads(line) for line in record.read_text().splitlines()]) > 2 * 24


# ---- a folder ----

def folder_of(name, **files):
    """A new folder with copies of models under these names."""
    folder = pathlib.Path(WORK.name, name)
    for path, model in files.items():
        file = folder / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(model, file)
    return folder


@contextlib.contextmanager
def serving_folder(s, folder, *more):
    server = Server(s.program, f"--models-dir={folder}", *OPTIONS, *SMALL, *more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


def test_a_folder_has_models(s):
    a, b = tiny("llama"), tiny("qwen2")
    folder = folder_of("models", **{"b.gguf": b, "inner__x.gguf": a, "inner__mmproj-x.gguf": b,
                                    ".hidden.gguf": a, "notes.txt": a, "mmproj.gguf": a})
    (folder / "none").mkdir()
    in_two_parts(a, folder / "parts-00001-of-00002.gguf", folder / "parts-00002-of-00002.gguf")
    with serving(s, a=a) as one:
        want = text_of(one, "a")
    with serving_folder(s, folder) as server:
        assert states(server) == {"b": "unloaded", "inner": "unloaded", "parts": "unloaded"}
        assert server.ask("GET", "/health")[0] == server.ask("GET", "/props")[0] == 200
        assert text_of(server, "inner") == text_of(server, "parts") == want
        assert text_of(server, "parts-00001-of-00002") == want          # as llama-server calls it
        assert states(server) == {"b": "unloaded", "inner": "loaded", "parts": "loaded"}
        assert text_of(server, None) == text_of(server, "b") != want    # without a name: the first
        assert not [line for line in server.lines if "left out" in line], server.lines


def test_models_of_a_folder_make_room(s):
    folder = folder_of("room", **{n + ".gguf": tiny("llama") for n in "abc"})
    with serving_folder(s, folder, "--models-max", "2") as server:
        for name in "abc":
            text_of(server, name)
        assert states(server) == {"a": "unloaded", "b": "loaded", "c": "loaded"}
        assert server.post("/models/unload", model="b") == {"success": True}
        assert server.post("/models/load", model="a") == {"success": True}
        assert states(server) == {"a": "loaded", "b": "unloaded", "c": "loaded"}
        assert server.ask("POST", "/models/load", {"model": "nobody"})[0] == 404


def test_what_is_new_in_a_folder_is_found(s):
    folder = folder_of("growing", **{"a.gguf": tiny("llama")})
    with serving_folder(s, folder) as server:
        refused(server, "b", 404, "model_not_found")        # not answered by the only model
        shutil.copy(tiny("qwen2"), folder / "b.gguf")
        time.sleep(0.3)                                     # it is not scanned more often
        assert len(text_of(server, "b")) and states(server)["b"] == "loaded"
        shutil.copy(tiny("qwen2"), folder / "c.gguf")
        time.sleep(0.3)
        assert states(server)["c"] == "unloaded"
        (folder / "b.gguf").unlink(), (folder / "c.gguf").unlink()
        time.sleep(0.3)
        assert states(server) == {"a": "unloaded", "b": "loaded"}       # a loaded model stays
        message, _ = refused(server, "c", 404, "model_not_found")
        assert '"c"' in message and message.endswith('"a", "b"'), message
        server.post("/models/unload", model="b")
        time.sleep(0.3)
        refused(server, "b", 404, "model_not_found")
        shutil.copy(tiny("qwen2"), folder / "b.qsf")
        time.sleep(0.3)
        assert text_of(server, "b")                         # under whatever file name
        shutil.copy(tiny("qwen2"), folder / "b.gguf")       # a file of the same name appears
        (folder / "a").mkdir()
        shutil.copy(tiny("qwen2"), folder / "a" / "x.gguf")
        time.sleep(0.3)
        assert [m["id"] for m in server.ask("GET", "/v1/models")[2]["data"]] == ["a", "b"]
        server.wait_for(lambda: sum("is skipped" in line for line in server.lines) >= 2)
        server.end()
        assert sum("is skipped" in line for line in server.lines) == 2, server.lines


def test_what_a_folder_leaves_out_is_said(s):
    a = tiny("llama")
    folder = folder_of("odd", **{"a.gguf": a, "a.qsf": a, "b.gguf": a, "two__x.gguf": a, "two__y.gguf": a,
                                 "c,d.gguf": a, "z-00002-of-00002.gguf": a, "n" * 130 + ".gguf": a})
    (folder / "gone.gguf").symlink_to("/nowhere/at/all")
    with serving_folder(s, folder, f"--model=b={tiny('qwen2')}") as server:
        assert set(states(server)) == {"b", "a"} and states(server)["b"] == "loaded"
        refused(server, "x", 404, "model_not_found")
        server.wait_for(lambda: sum("is skipped" in line for line in server.lines) >= 7)
        left = [line for line in server.lines if "is skipped" in line]
        for name, why in (("a.qsf", 'another file already has the name "a"'),
                          ("b.gguf", "on the command line"),
                          ("two", "several models"), ("c,d.gguf", "comma"), ("z-00002", "first part"),
                          ("gone.gguf", "No such file"), ("nnn", "too long")):
            assert sum(name in line and why in line for line in left) == 1, (name, left)
        broken = folder / "broken.gguf"
        broken.write_bytes(b"GGUF" + bytes(40))
        time.sleep(0.3)
        message, _ = refused(server, "broken", 500, "model_load_failed")
        assert str(broken) in message


def test_a_folder_without_models_is_an_error(s):
    def said(*words):
        p = subprocess.run([s.program, "--port", "0", *words], capture_output=True, text=True, timeout=60)
        return p.returncode, p.stderr

    empty = pathlib.Path(WORK.name, "empty")
    empty.mkdir()
    code, text = said("--models-dir", str(empty))
    assert code not in (0, 2) and str(empty) in text and "no model" in text, text
    code, text = said("--models-dir", "/nowhere/at/all")
    assert code not in (0, 2) and "/nowhere/at/all" in text and "cannot read the model folder" in text, text
    folder = folder_of("one", **{"a.gguf": tiny("llama")})
    code, text = said("--models-dir", str(folder), "--default-model", "b")
    assert code and 'no model is named "b"' in text, text
    for more in ("--alias", "x"), ("--lora", "x.gguf"), ("--mpi",):
        assert said("--models-dir", str(folder), *more)[0] == 2, more


def test_the_units_of_the_page_are_units(s):
    if not shutil.which("systemd-analyze"):
        return
    page = (TESTS.parent / "docs" / "serve.md").read_text()
    units = re.findall(r"```ini\n# /etc/systemd/system/([\w.-]+)(.*?)```", page, re.S)
    assert sorted(name for name, _ in units) == ["qsf-serve.service", "qsf-serve.socket"]
    paths = [pathlib.Path(WORK.name, name) for name, _ in units]
    for path, (_, text) in zip(paths, units):
        path.write_text("#" + text.replace("/usr/local/bin/qsf-serve", f'"{os.path.abspath(s.program)}"'))
    checked = subprocess.run(["systemd-analyze", "verify", *paths], capture_output=True, text=True)
    assert checked.returncode == 0 and not checked.stderr, checked.stderr


if __name__ == "__main__":
    run(__doc__, globals())
