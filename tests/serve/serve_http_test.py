#!/usr/bin/env python3
"""What qsf-serve refuses: wrong requests, HTTP that could be read in two ways, strangers.
SPDX-License-Identifier: MIT

    serve_http_test.py QSF_SERVE [NAME...]      the tests whose names have one of the words
"""
import json
import pathlib
import signal
import socket

from serve_server import CHAT, SLOW, WORK, Server, run


BAD = [
    ("/v1/completions", "", 400, "invalid_json"),
    ("/v1/completions", "{", 400, "invalid_json"),
    ("/v1/completions", "[]", 400, "invalid_json"),
    ("/v1/completions", "{\"prompt\": \"\udcff\"}", 400, "invalid_json"),
    ("/v1/completions", "[" * 100000, 400, "invalid_json"),
    ("/v1/completions", "{\"prompt\": \"x\"} x", 400, "invalid_json"),
    ("/v1/completions", "{\"prompt\": \"x\", \"prompt\": \"x\"}", 400, "invalid_value"),
    ("/v1/completions", {}, 400, "missing_required_parameter"),
    ("/v1/completions", {"prompt": 1}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": []}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": [1, "x"]}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": [-1]}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": [100000]}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": [[], [1]]}, 400, "invalid_value"),
    ("/v1/completions", {"prompt": ["x"] * 200}, 400, "array_above_max_length"),
    ("/v1/completions", {"prompt": ["x"] * 20, "n": 20}, 400, "integer_above_max_value"),
    ("/v1/completions", {"prompt": "x" * 5000}, 400, "context_length_exceeded"),
    ("/v1/completions", {"prompt": "x", "n": 100000}, 400, "integer_above_max_value"),
    ("/v1/completions", {"prompt": "x", "n": 0}, 400, "integer_below_min_value"),
    ("/v1/completions", {"prompt": "x", "n": 1.5}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": "x", "max_tokens": "many"}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": "x", "temperature": 1e9}, 400, "integer_above_max_value"),
    ("/v1/completions", {"prompt": "x", "stream": 1}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": "x", "seed": "x"}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": "x", "stop": ["x"] * 10000}, 400, "array_above_max_length"),
    ("/v1/completions", {"prompt": "x", "stop": [1]}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": "x", "logprobs": "all"}, 400, "invalid_type"),
    ("/v1/completions", {"prompt": "x", "suffix": "y"}, 400, "unsupported_parameter"),
    ("/v1/completions", {"prompt": "x", "logit_bias": {"1": []}}, 400, "invalid_type"),
    ("/v1/chat/completions", {"messages": []}, 400, "invalid_value"),
    ("/v1/chat/completions", {"messages": {}}, 400, "invalid_type"),
    ("/v1/chat/completions", {"messages": [1]}, 400, "invalid_type"),
    ("/v1/chat/completions", {"messages": [{"role": "user"}]}, 400, "missing_required_parameter"),
    ("/v1/chat/completions", {"messages": [{"content": "x"}]}, 400, "missing_required_parameter"),
    ("/v1/chat/completions", {"messages": [{"role": "king", "content": "x"}]}, 400, "invalid_value"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, 400,
     "invalid_value"),
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, 400, "invalid_type"),
    ("/v1/messages", {"messages": [{"role": "tool", "content": "x"}], "max_tokens": 1}, 400, None),
    ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "image"}]}], "max_tokens": 1}, 400,
     None),
    ("/v1/responses", {"input": [{"type": "function_call_output"}]}, 400, "missing_required_parameter"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a\0b"}]}, 400, "invalid_value"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400,
     "unsupported_parameter"),
    ("/v1/chat/completions", {"messages": CHAT, "tools": [{}]}, 400, "invalid_value"),
    ("/v1/chat/completions", {"messages": CHAT, "functions": [{}]}, 400, "invalid_value"),
    ("/v1/responses", {"input": "x", "previous_response_id": "resp_no"}, 400, "previous_response_not_found"),
    ("/v1/responses", {"input": "x", "conversation": "conv_1"}, 400, "unsupported_parameter"),
    ("/v1/responses", {"input": "x", "prompt": {"id": "pmpt_1"}}, 400, "unsupported_parameter"),
    ("/v1/completions", {"prompt": "x", "allowed_token_ids": [1]}, 400, "unsupported_parameter"),
    ("/v1/chat/completions", {"messages": CHAT, "modalities": ["audio"]}, 400, "unsupported_parameter"),
    ("/v1/chat/completions", {"messages": CHAT, "response_format": {"type": "xml"}}, 400,
     "unsupported_parameter"),
    ("/v1/chat/completions", {"messages": CHAT * 5000}, 400, "array_above_max_length"),
    ("/v1/responses", {"input": 1}, 400, "invalid_type"),
    ("/tokenize", {"content": 1}, 400, "invalid_type"),
    ("/detokenize", {"tokens": "x"}, 400, "invalid_type"),
    ("/detokenize", {"tokens": [100000]}, 400, "invalid_value"),
    ("/v1/embeddings", {}, 400, "missing_required_parameter"),
    ("/v1/rerank", {"query": "x", "documents": 1}, 400, "invalid_type"),
    ("/nowhere", {}, 404, "not_found"),
    ("/health", {}, 405, "method_not_allowed"),
]


def test_bad_requests_get_the_right_status(s):
    for path, body, status, code in BAD:
        data = body if isinstance(body, str) else json.dumps(body)
        got, _, answer = s.ask("POST", path, data.encode(errors="surrogateescape"))
        assert got == status and answer["error"]["message"], (path, data[:80], got, answer)
        assert answer["error"].get("code") == code, (path, data[:80], answer)
    assert s.ask("POST", "/v1/messages", {"messages": 1})[2]["type"] == "error"
    assert s.ask("GET", "/v1/completions")[0] == 405 and s.ask("DELETE", "/v1/models")[0] == 405
    assert s.ask("GET", "/v1/models/another")[0] == 404
    neutral = {"logprobs": False, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"},
               "logit_bias": {}, "user": "me", "metadata": {"a": "b"}, "stop": None, "n": None}
    assert s.post("/v1/chat/completions", messages=CHAT, **{**neutral, "max_tokens": 2})


def status_of(data):
    return int(data.split(b" ", 2)[1]) if data.startswith(b"HTTP/1.1 ") else None


def test_http_that_two_readers_could_take_in_two_ways_is_refused(s):
    host = b"Host: localhost\r\n"
    post = b"POST /v1/completions HTTP/1.1\r\n" + host
    for data, status in (
        (b"GET /health HTTP/1.1\r\n\r\n", 400),                              # no host
        (b"GET /health HTTP/1.1\r\n" + host + host + b"\r\n", 400),
        (b"GET /health HTTP/2.0\r\n" + host + b"\r\n", 505),
        (b"GET  /health HTTP/1.1\r\n" + host + b"\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"G@T /health HTTP/1.1\r\n" + host + b"\r\n", 400),
        (b"GET health HTTP/1.1\r\n" + host + b"\r\n", 400),
        (b"GET /health HTTP/1.1\r\n" + host + b"a b: c\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n" + host + b"a : c\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n" + host + b"a: b\r\n c\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n" + host + b"a: b\nc: d\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n" + host + b"a: \x00\r\n\r\n", 400),
        (post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
        (post + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
        (post + b"Content-Length: +2\r\n\r\n{}", 400),
        (post + b"Content-Length: 2, 2\r\n\r\n{}", 400),
        (post + b"Content-Length: 99999999999999999999\r\n\r\n", 413),
        (post + b"Content-Length: 100000000\r\n\r\n" + b"x" * 3000000, 413),
        (post + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (post + b"Transfer-Encoding: chunked, chunked\r\n\r\n", 501),
        (post + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (post + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n", 400),
        (post + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", 400),
        (post + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400),
        (post + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415),
        (post + b"Expect: cake\r\n\r\n", 417),
        (b"GET /health HTTP/1.1\r\n" + host + b"X: " + b"y" * 1000000 + b"\r\n\r\n", 431),
        (b"POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ):
        got = s.raw(data)
        assert status_of(got) == status and got.count(b"Content-Length: ") == 1, (data[:90], got[:200])
        assert b"{\"error\":{\"message\":" in got and b"Connection: close" in got
    assert s.ask("GET", "/health")[0] == 200


def test_http_in_its_lawful_forms(s):
    host = b"Host: localhost\r\n"
    body = b'{"prompt":"x","max_tokens":2,"temperature":0}'
    want = s.complete("x", 2)
    got = s.raw(b"GET /health HTTP/1.0\r\n\r\n")
    assert status_of(got) == 200 and got.endswith(b'{"status":"ok"}')
    three = b"GET /health HTTP/1.1\r\n" + host + b"\r\n"
    got = s.raw(three + b"\r\n" + three + b"HEAD /health HTTP/1.1\r\nConnection: close\r\n" + host + b"\r\n")
    assert got.count(b"HTTP/1.1 200 OK") == 3 and got.count(b"ok") == 2
    post = b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\n" + host
    chunks = b"".join(b"%x;a=b\r\n%c\r\n" % (1, c) for c in body) + b"0\r\nTrailer: x\r\n\r\n"
    for data in (post + b"Content-Length: %d\r\n\r\n" % len(body) + body,
                 post + b"Transfer-Encoding: chunked\r\n\r\n" + chunks):
        got = s.raw(data)
        assert status_of(got) == 200 and json.loads(got.split(b"\r\n\r\n")[1])["choices"][0]["text"] == want
    with socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW) as c:   # a byte at a time
        def until(end):
            got = b""
            while not got.endswith(end):
                piece = c.recv(1)
                assert piece, got
                got += piece
            return got

        for b in three:
            c.send(bytes([b]))
        assert until(b'{"status":"ok"}').startswith(b"HTTP/1.1 200")
        c.sendall(post + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 Continue")
        c.sendall(body)
        assert until(b"\r\n").startswith(b"HTTP/1.1 200")
    stream = body[:-1] + b',"stream":true}'
    got = s.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(stream) + stream)
    assert got.endswith(b"data: [DONE]\n\n") and b"chunked" not in got


# ---- who may ask ----

def test_keys_names_and_origins(s):
    keys = pathlib.Path(WORK.name, "keys")
    keys.write_text("# keys\nfirst\n  second  \n")
    with s.other("--api-key", "third", "--api-key-file", str(keys), "--allow-host", "llm.example",
                 "--cors", "https://app.example") as locked:
        def status(path="/v1/models", **headers):
            return locked.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})[0]

        assert status() == 401 and status(Authorization="Bearer fourth") == 401 and status("/metrics") == 401
        assert status(Authorization="Bearer ") == 401 and status(Authorization="Bearer firs") == 401
        assert status("/health") == 200 and status("/nowhere") == 401
        for key in ("first", "second", "third"):
            assert status(Authorization=f"Bearer {key}") == 200 and status(X_Api_Key=key) == 200
        keys.write_text("fourth\n")
        locked.process.send_signal(signal.SIGHUP)
        locked.wait_for(lambda: status(Authorization="Bearer fourth") == 200)
        assert status(Authorization="Bearer first") == 401 and status(Authorization="Bearer third") == 200

        assert status("/health", Host="evil.example") == 403
        assert status("/health", Host="llm.example:99") == 200
        assert status("/health", Host="[::1]:80") == 200 and status("/health", Host="LOCALHOST") == 200
        assert status("/health", Origin="https://evil.example") == 403
        code, headers, _ = locked.ask("OPTIONS", "/v1/completions", headers={"Origin": "https://app.example"})
        assert code == 204 and headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "Access-Control-Allow-Origin" not in s.ask("GET", "/health")[1]
    assert s.ask("GET", "/health", headers={"Origin": f"http://127.0.0.1:{s.port}"})[0] == 200
    assert s.ask("GET", "/health", headers={"Origin": "null"})[0] == 403


def test_names_that_are_not_ours(s):
    """A page whose name was pointed here (DNS rebinding) sends that name."""
    port = s.port
    for host, status in (
        ("localhost", 200), ("LOCALHOST", 200), (f"localhost:{port}", 200), ("127.0.0.1", 200),
        (f"127.0.0.1:{port}", 200), ("192.168.1.7:80", 200), ("[::1]", 200), (f"[::1]:{port}", 200),
        ("[2001:DB8::7]", 200), ("localhost:", 200),
        ("evil.example", 403), (f"evil.example:{port}", 403), ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403), ("evil.localhost", 403), ("localhost.", 403), ("127.0.0.1.", 403),
        ("2130706433", 403), ("0x7f000001", 403), ("0x7f.1", 403), ("017700000001", 403), ("127.1", 403),
        ("127.0.0.256", 403), ("1.2.3.4.5", 403), ("user@localhost", 403), ("localhost@evil.example", 403),
        ("localhost:80@evil.example", 403), ("127.0.0.1:80@evil.example", 403), ("localhost:x", 403),
        ("[::1].evil.example", 403), ("[::1]evil.example:80", 403), ("[evil.example]", 403), ("[]", 403),
        ("[::1", 403), ("::1", 403), ("[::1%25lo]", 403), ("localhost,evil.example", 403),
        ("localhost evil", 403),
        ("evil.example localhost", 403), ("tiny", 403), ("\u0131.example", 403), ("localhost/../x", 403),
    ):
        got = s.raw(f"GET /v1/models HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\n\r\n".encode())
        assert status_of(got) == status, (host, got[:200])
    for origin, status in (
        (f"http://127.0.0.1:{port}", 200), (f"https://127.0.0.1:{port}", 200), ("http://127.0.0.1", 403),
        ("http://127.0.0.1:1", 403), (f"http://localhost:{port}", 403), ("null", 403), ("*", 403),
        (f"http://127.0.0.1:{port}.evil.example", 403), (f"http://x@127.0.0.1:{port}", 403), ("evil", 403),
        (f"file://127.0.0.1:{port}", 403), (f"chrome-extension://127.0.0.1:{port}", 403), ("http://", 403),
        (f"http://127.0.0.1:{port}/", 403), (f"http://evil.example://127.0.0.1:{port}", 403),
    ):
        for method in ("GET", "OPTIONS"):
            got, headers, _ = s.ask(method, "/v1/models", headers={"Origin": origin})
            assert got == (204 if status == 200 and method == "OPTIONS" else status), (origin, got)
            assert "Access-Control-Allow-Origin" not in headers, origin


ROUTES = ("/v1/models", "/v1/models/tiny", "/metrics", "/slots", "/v1/chat/completions", "/v1/completions",
          "/v1/responses", "/v1/messages", "/generate", "/tokenize", "/detokenize", "/apply-template",
          "/v1/embeddings", "/v1/rerank", "/nowhere", "//health", "/health/", "/health/../metrics", "/HEALTH",
          "/%68ealth", "/v1/models/../../health")


def test_without_a_key_there_is_health_alone(s):
    with s.other("--api-key", "k" * 512) as locked:
        for path in ROUTES:
            for method in ("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE"):
                for key in ({}, {"X-Api-Key": "k" * 511}, {"X-Api-Key": "k" * 513}, {"X-Api-Key": "k" * 5000},
                            {"Authorization": "Basic " + "k" * 512}, {"Authorization": "k" * 512},
                            {"Authorization": "Bearer"}):
                    status = locked.ask(method, path, "{}" if method == "POST" else None, key)[0]
                    assert status == 401, (method, path, key, status)
        assert locked.ask("GET", "/health")[0] == locked.ask("GET", "/health?a=b")[0] == 200
        for name in ("Bearer", "bearer", "BEARER"):
            assert locked.ask("GET", "/metrics", headers={"Authorization": f"{name} " + "k" * 512})[0] == 200
        assert locked.ask("GET", "/metrics", headers={"X-Api-Key": "k" * 511 + "l"})[0] == 401


def test_a_file_of_keys_that_is_wrong_changes_nothing(s):
    keys = pathlib.Path(WORK.name, "keys.again")
    keys.write_text("first\n")
    with s.other("--api-key-file", str(keys)) as locked:
        for text in ("second\n" + "x" * 600 + "\n", "".join(f"k{i}\n" for i in range(5000)),
                     "# much\n" * 200000):
            keys.write_text(text)
            n = len(locked.lines)
            locked.process.send_signal(signal.SIGHUP)
            locked.wait_for(lambda: any("the old keys remain valid" in line for line in locked.lines[n:]))
            assert locked.ask("GET", "/slots", headers={"X-Api-Key": "first"})[0] == 200
            assert locked.ask("GET", "/slots", headers={"X-Api-Key": "second"})[0] == 401


def test_the_log_has_no_texts_unless_asked(s):
    marker, program = "a text nobody is to read", (s.program, WORK.name + "/llama.gguf", "--alias", "tiny",
                                                   "--chat-template", "chatml")
    chat = [{"role": "user", "content": marker}]
    for more, found in (((), False), (("--log-requests",), True)):
        server = Server(*program, *more)
        server.post("/v1/completions", prompt=marker, max_tokens=2, stop=[marker])
        server.post("/v1/chat/completions", messages=chat, max_tokens=2)
        server.events("/v1/messages", messages=chat, max_tokens=2)
        server.post("/v1/completions", **{"prompt": marker, "max_tokens": 2, marker: marker})
        for path, body in (("/v1/completions", {"prompt": marker, "regex": f"({marker}"}),
                           ("/v1/completions", f'{{"prompt": "{marker}'),
                           ("/tokenize", {"content": [marker]}),
                           ("/v1/completions", {"prompt": marker * 500}),
                           (f"/v1/completions?{marker.replace(' ', '+')}", {"prompt": 1})):
            assert server.ask("POST", path, body)[0] == 400
        server.ask("GET", "/health", headers={"X-Text": marker, "Cookie": marker})
        server.end()
        log = "".join(server.lines)
        assert (marker in log) is found and marker.replace(" ", "+") not in log, log


if __name__ == "__main__":
    run(__doc__, globals())
