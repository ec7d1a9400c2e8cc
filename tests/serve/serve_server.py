"""A running qsf-serve, for the tests that ask it.
SPDX-License-Identifier: MIT
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
WORK = tempfile.TemporaryDirectory(prefix="qsf-serve-")
SLOW = 5 if os.environ.get("QSF_SERVE_SLOW") else 1        # sanitizers
CHAT = [{"role": "user", "content": "Say hi"}]


class Server:
    """A running qsf-serve; program may be a list, with an emulator before it."""

    def __init__(self, program, model, *options):
        command = [program] if isinstance(program, str) else program
        self.process = subprocess.Popen([*command, model, "--port", "0", *options], stderr=subprocess.PIPE,
                                        text=True)
        self.lines, self.port = [], None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r" is served at http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
                break
        if not self.port:
            sys.exit("the server did not begin: " + "".join(self.lines))
        self.reader = threading.Thread(target=self.lines.extend, args=(self.process.stderr,), daemon=True)
        self.reader.start()

    def ask(self, method, path, body=None, headers=(), timeout=120 * SLOW):
        """(status, headers, body as JSON or text)"""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        c.request(method, path, body, dict(headers))
        r = c.getresponse()
        text, kind = r.read().decode(), r.headers.get("Content-Type", "")
        c.close()
        return r.status, r.headers, json.loads(text) if text and kind == "application/json" else text

    def post(self, path, **body):
        status, _, answer = self.ask("POST", path, body)
        assert status == 200, answer
        return answer

    def post_list(self, path, items):
        status, _, answer = self.ask("POST", path, items)
        assert status == 200, answer
        return answer

    def events(self, path, **body):
        """The data of a stream."""
        status, headers, text = self.ask("POST", path, {**body, "stream": True})
        assert status == 200 and headers["Content-Type"] == "text/event-stream", text
        return [line[6:] for line in text.split("\n") if line.startswith("data: ")]

    def complete(self, prompt, n=20, **more):
        return self.post("/v1/completions", prompt=prompt, max_tokens=n, temperature=0, ignore_eos=True,
                         **more)["choices"][0]["text"]

    def raw(self, data, timeout=60 * SLOW, half=False):
        """Everything that the server sends in response to these bytes, until it closes the connection; half:
        the sending side is closed after them."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            got = b""
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                s.sendall(data)
                if half:
                    s.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while piece := s.recv(65536):
                    got += piece
            return got

    def metric(self, name):
        return self.metrics(name)[name]

    def metrics(self, *names):
        """Figures of one moment: {name: value}, the sum of all models' and ranks'."""
        text = self.ask("GET", "/metrics")[2]
        found = {name: re.findall(rf"^qsf_{name}(?:{{.*}})? (\S+)$", text, re.M) for name in names}
        assert all(found.values()), (found, text)
        return {name: sum(map(float, values)) for name, values in found.items()}

    def wait_for(self, what, seconds=60 * SLOW):
        """Waits for a state that follows later.  Only what lasts may be waited for."""
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    print(self.ask("GET", "/metrics")[2])
                raise AssertionError("it did not come")
            time.sleep(0.01)

    def wait_metric(self, name, value):
        """Waits until a figure has a value that it keeps."""
        self.wait_for(lambda: self.metric(name) == value)

    def idle(self):
        """Waits until nothing runs and nothing is queued: after answers whose clients have gone."""
        def busy():
            return (any(self.metrics("running", "waiting", "embedding_requests").values())
                    or any(s["is_processing"] for s in self.ask("GET", "/slots")[2]))

        self.wait_for(lambda: not busy())

    def alone(self):
        """Waits until the server has noticed that all clients have gone, and is idle."""
        self.wait_metric("connections", 1)          # the one that asks
        self.idle()

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        code = self.process.wait(60 * SLOW)
        self.reader.join(60 * SLOW)
        assert code == 0, (code, "".join(self.lines[-20:]))


def together(calls):
    """The results of functions that run at once; each begins when the one before it has begun."""
    results, faults = [None] * len(calls), []

    def run(i):
        try:
            results[i] = calls[i]()
        except BaseException as e:
            faults.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
        time.sleep(0.003)
    for t in threads:
        t.join()
    if faults: raise faults[0]
    return results


# Answers of a server with these options have no end: they last until their client goes.
ENDLESS = "--kv-window", "512"
FOREVER = 10 ** 7           # tokens


def long_context(path, n):
    """Sets a context in a model's file."""
    data = bytearray(path.read_bytes())
    at = data.index(key := b"llama.context_length") + len(key) + 4      # 4 bytes: the type
    data[at:at + 4] = n.to_bytes(4, "little")
    path.write_bytes(data)


class Skip(Exception):
    """Raised by a test that lacks data; continuous integration counts it as a failure."""


def model_path(s, name):
    """A real model's file. This build may run none (no --models), or it may not have been fetched."""
    path = pathlib.Path(s.models or "", f"{name}.gguf")
    if not s.models: raise Skip("this build runs no real models", False)
    if not path.exists(): raise Skip(f"no {path} (tools/get-model.sh {name} fetches it)", True)
    return str(path)


def run_one(name, test, s):
    """False: the test was skipped."""
    try:
        test(s)
        return True
    except Skip as e:
        why, counts = e.args
        print(f"skipped: {name}: {why}" if counts else f"left out: {name}: {why}", flush=True)
        assert not (counts and os.environ.get("QSF_TEST_NO_SKIP")), "nothing may be skipped here"
        return False


def run(doc, tests):
    """The main of a test program: doc describes it, tests maps names to functions."""
    p = argparse.ArgumentParser(description=doc.split("\n")[0])
    p.add_argument("program")
    p.add_argument("--models")
    p.add_argument("--run")
    p.add_argument("words", nargs="*")
    a = p.parse_args()
    made = subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, "llama"],
                          stdout=subprocess.DEVNULL)
    assert made.returncode == 0
    options = "--alias", "tiny", "--chat-template", "chatml", "--quiet", "--threads", "2"

    @contextlib.contextmanager
    def other(*more):
        server = Server(a.program, WORK.name + "/llama.gguf", *options, *more)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.end()

    with other() as s:
        s.other, s.models, s.program, s.run = other, a.models, a.program, a.run
        for name, test in list(tests.items()):
            if not name.startswith("test_") or a.words and not any(w in name for w in a.words):
                continue
            begin = time.monotonic()
            done = run_one(name[5:], test, s)
            assert s.process.poll() is None, "".join(s.lines[-20:])
            if done: print(f"ok   {name[5:]} {time.monotonic() - begin:.1f} s", flush=True)
