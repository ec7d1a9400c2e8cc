#!/usr/bin/env python3
"""Other people's clients against qsf-serve, unchanged: what their users do, and what goes over the wire.
SPDX-License-Identifier: MIT

    serve_clients_test.py QSF_SERVE --models DIR [NAME...]      those clients, or all but the nightly ones
    serve_clients_test.py QSF_SERVE --models DIR --nightly      the nightly ones
    serve_clients_test.py QSF_SERVE --models DIR --record       all that have a transcript, which is written

Each program clients/with_NAME does what users of one client do, with a tiny random model and two real ones. A
proxy keeps what is said; golden/clients/NAME.json is that of the last run with --record. Requests have to be
the same in every run, answers to have the same shape: clients/record.py says what that leaves out.

Frameworks have no transcript, because an agent's requests depend on the model's previous answers. Their
programs check the answers, and no request may be refused. They run with the clients' own settings; the
server's defaults keep the answers short and the same in every run.
"""
import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
import record
from packages import CACHE, install
from serve_server import TESTS, WORK, Server, long_context

CLIENTS = TESTS / "clients"
GOLDEN = TESTS / "golden" / "clients"
KEY = "sk-of-the-tests"
SLOTS, QUEUE = 8, 2
CONTEXT = 16384             # of the tiny model
# Whose packages each client's program needs. Those that take longest begin first.
NAMES = {"litellm": "litellm", "llm": "clients", "langchain": "clients", "openai": "clients",
         "anthropic": "clients", "ollama": "clients", "openai_npm": "npm", "ai": "npm", "ollama_npm": "npm",
         "curl": None}
FRAMEWORKS = {"pydantic_ai": "agents", "ai_openai": "npm", "anthropic_npm": "npm"}
NIGHTLY = {"langgraph": "agents", "openai_agents": "agents", "instructor": "agents",  # over clients above
           "smolagents": "nightly", "dspy": "nightly", "outlines": "nightly", "haystack": "nightly",
           "llama_index": "nightly_openai2", "mirascope": "nightly_openai2"}
PACKAGES = NAMES | FRAMEWORKS | NIGHTLY


# ---- what the clients are ----

def command(name):
    if not PACKAGES[name]:
        return [sys.executable, CLIENTS / f"with_{name}.py"]
    if PACKAGES[name] != "npm":
        return [CACHE / PACKAGES[name] / "bin" / "python", CLIENTS / f"with_{name}.py"]
    return ["node", pathlib.Path(WORK.name, "npm", f"with_{name}.mjs")]


def npm_copies():
    """An import looks for packages where the file is."""
    copies = pathlib.Path(WORK.name, "npm")
    copies.mkdir()
    for f in CLIENTS.glob("*.mjs"):
        shutil.copy(f, copies)
    (copies / "node_modules").symlink_to(CACHE / "npm" / "node_modules")


# ---- one client ----

class Client:
    def __init__(self, name, tiny, others):
        self.name, self.tiny, self.recorder = name, tiny, record.Recorder()
        self.ports = {n: self.recorder.proxy(s.port) for n, s in {"TINY": tiny, **others}.items()}
        self.cancelled = 0

    def run(self):
        env = {**os.environ, "QSF_KEY": KEY, "PATH": f"{CACHE / 'clients' / 'bin'}:{os.environ['PATH']}",
               "QSF_WORK": WORK.name, "NO_PROXY": "*", "NO_COLOR": "1",
               "LITELLM_LOCAL_MODEL_COST_MAP": "True",
               **{f"QSF_{n}": f"http://127.0.0.1:{p}" for n, p in self.ports.items()}}
        for n in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
            env.pop(n, None)
        process = subprocess.Popen(command(self.name), env=env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = []
        for line in process.stdout:
            said.append(line)
            words = line.rstrip("\n").split(" ", 1)
            if words[0] in ("step", "full", "gone"):
                getattr(self, "take_" + words[0])(*words[1:])
                process.stdin.write("\n")
                process.stdin.flush()
        if process.wait() != 0:
            raise AssertionError("".join(said[-60:]))
        return self.recorder.transcript()

    def take_step(self, name):
        self.tiny.wait_for(lambda: self.metric("running") + self.metric("waiting") == 0)
        self.recorder.step = name
        self.cancelled = self.metric("cancelled_total")

    def take_gone(self):
        self.tiny.wait_for(lambda: self.metric("cancelled_total") > self.cancelled)

    def take_full(self, times):
        """Fills the tiny model's server until it has refused that many requests."""
        open_ones, most = [], self.metric("refused_total") + int(times)
        for i in range(SLOTS + QUEUE):
            c = http.client.HTTPConnection("127.0.0.1", self.tiny.port)
            c.request("POST", "/v1/completions", json.dumps(
                {"prompt": "x", "max_tokens": 15000, "ignore_eos": True}), {"X-Api-Key": KEY})
            open_ones.append(c)
            self.tiny.wait_for(lambda: self.metric("running") + self.metric("waiting") > i)

        def leave():
            try:
                self.tiny.wait_for(lambda: self.metric("refused_total") >= most)
            finally:
                for c in open_ones: c.close()

        threading.Thread(target=leave, daemon=True).start()

    def metric(self, name):
        text = self.tiny.ask("GET", "/metrics", headers={"X-Api-Key": KEY})[2]
        return next(float(line.split()[1]) for line in text.split("\n") if line.startswith(f"qsf_{name} "))


def refused(transcript):
    """The requests of a framework that should have been answered."""
    return [f"{s['step']}: status {x['status']}: {json.dumps(x.get('answer'))[:300]}, asked "
            f"{x['path']} {json.dumps(x['body'])[:2000]}" for s in transcript for x in s["exchanges"]
            if s["step"] != "errors" and x["status"] is not None and x["status"] >= 400]


def compare(name, transcript, write):
    if name not in NAMES:
        return refused(transcript)
    path = GOLDEN / f"{name}.json"
    if write:
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(record.text_of(transcript))
        return []
    before = json.loads(path.read_text())
    return record.differences(record.summary(before), record.summary(transcript))


# ---- all ----

@contextlib.contextmanager
def server(program, model, *options):
    s = Server(program, str(model), "--quiet", "--threads", "2", "--api-key", KEY, *options)
    try:
        yield s
    finally:
        if s.process.poll() is None:
            s.end()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("program")
    p.add_argument("--models", required=True, type=pathlib.Path)
    p.add_argument("--record", action="store_true")
    p.add_argument("--nightly", action="store_true")
    p.add_argument("names", nargs="*", metavar="NAME")
    a = p.parse_intermixed_args()
    names = a.names or [*(NAMES if a.record else NIGHTLY if a.nightly else NAMES | FRAMEWORKS)]
    since = time.monotonic()
    for packages in sorted({PACKAGES[n] for n in names} - {None}):
        install(packages)
    npm_copies()
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"], check=True,
                   stdout=subprocess.DEVNULL)
    long_context(pathlib.Path(WORK.name, "llama.gguf"), CONTEXT)
    print(f"set up after {time.monotonic() - since:.1f} s", flush=True)
    models = {"SMOL": ("smollm2", "smollm2-135m-q4_1.gguf"),
              "QWEN": ("qwen", "qwen2.5-coder-0.5b-q4_k_m.gguf")}
    wrong = []
    with contextlib.ExitStack() as stack:
        def begin(n, *more):
            alias, file = models[n]
            return stack.enter_context(server(a.program, a.models / file, "--alias", alias,
                                              "--ctx-size", "8192", *more))

        others, frameworks = {}, {}
        if {*names} & {*NAMES}:
            others = {n: begin(n) for n in models}
        if {*names} - {*NAMES}:
            calm = begin("QWEN", "--temperature", "0", "--max-tokens", "120")
            frameworks = {n: calm for n in models}

        def one(name):
            since = time.monotonic()
            with server(a.program, WORK.name + "/llama.gguf", "--alias", "tiny", "--chat-template", "chatml",
                        "--slots", str(SLOTS), "--queue", str(QUEUE), "--ctx-size", str(CONTEXT)) as tiny:
                try:
                    found = compare(name, Client(name, tiny, others if name in NAMES else frameworks).run(),
                                    a.record)
                except AssertionError as e:
                    found = [str(e)]
            said = f"{'FAIL' if found else 'ok  '} {name} {time.monotonic() - since:.1f} s"
            print("\n".join([said, *found]), flush=True)
            wrong.extend(found)

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for f in [pool.submit(one, n) for n in names]:
                f.result()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
