#!/usr/bin/env python3
"""The paths of other servers: Ollama's, llama-server's, vLLM's; and logs, metrics and shutdown.
SPDX-License-Identifier: MIT

    serve_paths_test.py QSF_SERVE [NAME...]
"""
import concurrent.futures
import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import time

from serve_server import CHAT, ENDLESS, FOREVER, SLOW, WORK, Server, run

COLD = {"temperature": 0, "ignore_eos": True}
OPTIONS = {"temperature": 0, "num_predict": 6, "num_ctx": 512, "top_k": 5.0}


def lines(s, path, **body):
    """The objects of a JSON-lines stream."""
    status, headers, text = s.ask("POST", path, body)
    assert status == 200 and headers["Content-Type"] == "application/x-ndjson", (status, text)
    assert text.endswith("\n")
    assert text.splitlines() == text[:-1].split("\n")      # also for clients that split at Unicode line ends
    try:
        return [json.loads(line) for line in text[:-1].split("\n")]
    except ValueError:
        raise AssertionError(text) from None


def refused(s, path, body, status, *words):
    """The error in Ollama's format."""
    got, _, answer = s.ask("POST", path, body)
    assert got == status and set(answer) == {"error"} and all(w in answer["error"] for w in words), answer


def longest(s):
    return s.ask("GET", "/v1/models")[2]["data"][0]["max_model_len"]


# ---- Ollama ----

def test_ollama_chat_streams_unless_told_not_to(s):
    ask = {"model": "tiny:latest", "messages": CHAT, "options": OPTIONS}
    got = lines(s, "/api/chat", **ask)
    assert [x["done"] for x in got] == [False] * (len(got) - 1) + [True]
    whole = s.post("/api/chat", **ask, stream=False)
    ours = s.post("/v1/chat/completions", messages=CHAT, temperature=0, max_tokens=6, top_k=5)
    text = ours["choices"][0]["message"]["content"]
    assert whole["message"] == {"role": "assistant", "content": text} and whole["model"] == "tiny"
    assert "".join(x["message"]["content"] for x in got) == text
    for last in (got[-1], whole):
        assert last["done_reason"] == "length" and last["eval_count"] == 6
        assert last["prompt_eval_count"] == ours["usage"]["prompt_tokens"]
        assert last["total_duration"] >= last["prompt_eval_duration"] > 0 and last["eval_duration"] > 0
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", last["created_at"])
    assert abs(time.time() - time.mktime(time.strptime(whole["created_at"][:19], "%Y-%m-%dT%H:%M:%S"))
               + time.timezone) < 60


def test_ollama_generate_is_a_chat_a_completion_or_an_infill(s):
    ours = s.post("/v1/chat/completions", temperature=0, max_tokens=6,
                  messages=[{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}])
    ask = {"model": "tiny", "options": {"temperature": 0, "num_predict": 6}}
    got = s.post("/api/generate", **ask, prompt="Hi", system="Be brief", stream=False)
    assert got["response"] == ours["choices"][0]["message"]["content"]
    assert got["prompt_eval_count"] == ours["usage"]["prompt_tokens"]
    raw = s.post("/v1/completions", prompt="Hi", temperature=0, max_tokens=6)
    got = lines(s, "/api/generate", **ask, prompt="Hi", raw=True)
    assert "".join(x["response"] for x in got) == raw["choices"][0]["text"]
    assert got[-1]["prompt_eval_count"] == raw["usage"]["prompt_tokens"]
    refused(s, "/api/generate", {**ask, "prompt": "a", "suffix": "b"}, 400, "suffix")
    refused(s, "/api/generate", {**ask, "prompt": "a", "template": "{{ .Prompt }}"}, 400, "template")
    refused(s, "/api/generate", {**ask, "prompt": "a", "context": [1, 2]}, 400, "context")
    refused(s, "/api/generate", {**ask, "prompt": 1}, 400, "prompt")


def test_ollama_shapes_answers(s):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"],
              "additionalProperties": False}
    for path, ask in (("/api/chat", {"messages": CHAT}), ("/api/generate", {"prompt": "Hi"})):
        got = s.post(path, **ask, stream=False, format=schema, options={"temperature": 0})
        text = got["message"]["content"] if path == "/api/chat" else got["response"]
        assert isinstance(json.loads(text)["n"], int), text
    refused(s, "/api/chat", {"messages": CHAT, "format": "yaml"}, 400, "format")


def test_ollama_calls_and_results(s):
    """A result belongs to the first open call of its tool."""
    calls = [{"function": {"name": n, "arguments": {"x": i}}} for i, n in enumerate(("f", "g", "f"))]
    said = [*CHAT, {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": calls},
            {"role": "tool", "tool_name": "g", "content": "one"},
            {"role": "tool", "tool_name": "f", "content": "two"},
            {"role": "tool", "content": "three"}]
    ours = [*CHAT, {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
                {"id": f"call_{i}", "type": "function", "function": {
                    "name": c["function"]["name"], "arguments": json.dumps({"x": i}, separators=(",", ":"))}}
                for i, c in enumerate(calls)]},
            {"role": "tool", "tool_call_id": "call_1", "name": "g", "content": "one"},
            {"role": "tool", "tool_call_id": "call_0", "name": "f", "content": "two"},
            {"role": "tool", "tool_call_id": "call_2", "content": "three"}]
    got = s.post("/api/chat", messages=said, stream=False, options={"num_predict": 1})
    assert got["prompt_eval_count"] == s.post("/v1/chat/completions", messages=ours,
                                              max_tokens=1)["usage"]["prompt_tokens"]
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"x": {"enum": [7]}}, "required": ["x"],
        "additionalProperties": False}}}
    for body in ({}, {"tool_choice": "required"}):
        streamed = lines(s, "/api/chat", messages=CHAT, tools=[tool], options={"num_predict": 400}, **body)
        found = [c for x in streamed for c in x["message"].get("tool_calls", ())]
        if body:
            assert found[0]["function"] == {"index": 0, "name": "f", "arguments": {"x": 7}}, streamed
    seen = {"role": "user", "content": "x", "images": ["aGk="]}
    refused(s, "/api/chat", {"messages": [seen]}, 400, "images")
    refused(s, "/api/chat", {"messages": [{"role": "assistant", "tool_calls": [1]}]}, 400, "tool_calls")
    refused(s, "/api/chat", {"messages": "Hi"}, 400, "messages")


def test_ollama_options(s):
    ask = {"messages": CHAT, "stream": False}
    body = {**ask, "options": {"num_predict": 1, "num_ctx": 512, "num_gpu": 1}, "novelty": 1}
    status, headers, _ = s.ask("POST", "/api/chat", body)
    assert status == 200 and {"options.num_ctx", "options.num_gpu", "novelty"} <= set(
        headers["x-qsf-ignored"].split(", ")), headers["x-qsf-ignored"]
    for options, words in (({"num_predict": "a"}, ["options.num_predict"]), ({"seed": 1.5}, ["options.seed"]),
                           ({"top_p": 3}, ["top_p"]), ([1], ["options"])):
        refused(s, "/api/chat", {**ask, "options": options}, 400, *words)
    hot = {"temperature": 1.5, "num_predict": 8}
    one, two = (s.post("/api/chat", **ask, options={**hot, "seed": 7})["message"] for _ in range(2))
    assert one == two
    for most in (-1, -2, 0):            # no limit except the context
        stop = s.post("/api/chat", **ask, options={"num_predict": most, "stop": ["e", "a", " "]})
        assert stop["done_reason"] == "stop"


def test_ollama_loads_without_a_prompt(s):
    for path in ("/api/chat", "/api/generate"):
        assert s.post(path, model="tiny")["done_reason"] == "load"
        assert s.post(path, model="tiny", keep_alive="5m")["done_reason"] == "load"
    with s.other() as own:
        assert len(own.ask("GET", "/api/ps")[2]["models"]) == 1
        assert own.post("/api/generate", model="tiny", keep_alive=0)["done_reason"] == "unload"
        own.wait_for(lambda: own.ask("GET", "/api/ps")[2]["models"] == [])
        assert own.post("/api/show", model="tiny")["model_info"]["general.architecture"] == "llama"
        assert own.complete("Hi", 2) and len(own.ask("GET", "/api/ps")[2]["models"]) == 1


def test_ollama_models(s):
    (m,) = s.ask("GET", "/api/tags")[2]["models"]
    assert m["name"] == m["model"] == "tiny" and re.fullmatch("[0-9a-f]{64}", m["digest"]) and m["size"] > 0
    shown = s.post("/api/show", model="tiny:latest")
    assert shown["details"] == m["details"] and shown["capabilities"] == ["completion"]
    assert shown["model_info"]["llama.context_length"] == longest(s)
    assert [int(x) for x in s.ask("GET", "/api/version")[2]["version"].split(".")] >= [0, 6, 4]
    assert s.ask("HEAD", "/")[0] == 200
    assert s.post("/api/pull", model="tiny") == {"status": "success"}
    refused(s, "/api/pull", {"name": "other"}, 404, "other")
    assert s.post("/api/show", model="other") == shown     # a single model goes by any name
    refused(s, "/api/show", {}, 400, "model")
    refused(s, "/api/chat", "no JSON", 400, "JSON")
    assert s.ask("DELETE", "/api/delete", {"model": "tiny"})[0] == 501
    assert set(s.ask("GET", "/api/nothing")[2]) == {"error"}


def test_ollama_embeddings(s):
    ours = [x["embedding"] for x in s.post("/v1/embeddings", input=["One", "Two"])["data"]]
    assert s.post("/api/embed", model="tiny", input=["One", "Two"])["embeddings"] == ours
    assert s.post("/api/embeddings", model="tiny", prompt="Two")["embedding"] == ours[1]
    assert s.post("/api/embed", model="tiny", input=[])["embeddings"] == []
    long = "word " * 40000
    got = s.post("/api/embed", model="tiny", input=long)
    assert got["prompt_eval_count"] == longest(s) - 1
    refused(s, "/api/embed", {"input": long, "truncate": False}, 400, "context length")
    refused(s, "/api/embed", {"input": [1]}, 400, "input")


def test_a_line_of_json_is_a_line_for_everybody(s):
    odd = "a\u0085b\u2028c\u2029d\x0be"
    status, _, text = s.ask("POST", "/v1/completions", {"prompt": odd, "echo": True, "max_tokens": 1,
                                                        "stream": True})
    assert status == 200 and text.splitlines() == text[:-1].split("\n")
    assert json.loads(text.split("\n")[0][6:])["choices"][0]["text"] == odd


# ---- llama-server ----

def test_completion(s):
    ask = {"prompt": "One two", "n_predict": 5, **COLD}
    got = s.post("/completion", **ask, return_tokens=True, n_probs=2, cache_prompt=True, id_slot=-1)
    ours = s.post("/v1/completions", prompt="One two", max_tokens=5, **COLD)
    assert got["content"] == ours["choices"][0]["text"] and got["stop"] and got["stop_type"] == "limit"
    assert got["tokens_evaluated"] == ours["usage"]["prompt_tokens"] and got["tokens_predicted"] == 5
    assert len(got["tokens"]) == 5 and got["prompt"] == "One two"
    assert s.post("/detokenize", tokens=got["tokens"])["content"] == got["content"]
    assert [p["id"] for p in got["completion_probabilities"]] == got["tokens"]
    assert all(len(p["top_logprobs"]) == 2 for p in got["completion_probabilities"])
    pieces = [json.loads(x) for x in s.events("/completion", **ask, return_tokens=True)]
    assert "".join(p["content"] for p in pieces) == got["content"]
    assert [t for p in pieces for t in p["tokens"]] == got["tokens"]
    assert [p["stop"] for p in pieces] == [False] * (len(pieces) - 1) + [True]
    several = s.ask("POST", "/completion", {**ask, "prompt": ["One two", [1, 2]]})[2]
    assert [x["index"] for x in several] == [0, 1] and several[0]["content"] == got["content"]
    word = got["content"][1:3]
    stopped = s.post("/completion", **ask, stop=[word])
    assert stopped["stop_type"] == "word" and stopped["stopping_word"] == word
    assert s.ask("POST", "/completion", {"n_predict": 1})[2]["error"]["param"] == "prompt"
    status, _, answer = s.ask("POST", "/infill", {"input_prefix": "a", "input_suffix": "b"})
    assert status == 400 and answer["error"]["param"] == "suffix"       # tiny has no infill tokens
    assert s.ask("POST", "/infill", {"input_prefix": "a"})[2]["error"]["param"] == "input_suffix"


def test_timings_and_progress(s):
    long = "many words " * 60
    t = s.post("/completion", prompt=long, n_predict=4, **COLD)["timings"]
    assert t["predicted_n"] == 4 and t["prompt_ms"] > 0 and t["predicted_per_second"] > 0
    again = s.post("/v1/completions", prompt=long, max_tokens=4, timings_per_token=True, **COLD)["timings"]
    assert again["cache_n"] > 0 and again["cache_n"] + again["prompt_n"] == t["cache_n"] + t["prompt_n"]
    for path, ask in (("/v1/chat/completions", {"messages": [{"role": "user", "content": long + "!"}]}),
                      ("/completion", {"prompt": "now " + long}),
                      ("/v1/completions", {"prompt": "then " + long})):
        found = [json.loads(x) for x in s.events(path, **ask, max_tokens=3, return_progress=True,
                                                 timings_per_token=True, **COLD) if x != "[DONE]"]
        told = [x["prompt_progress"] for x in found if "prompt_progress" in x]
        assert len(told) >= 2 and told[-1]["processed"] == told[-1]["total"] > 50, told
        assert [p["processed"] for p in told] == sorted(p["processed"] for p in told)
        assert told[0]["processed"] == told[0]["cache"]
        assert [x["timings"]["predicted_n"] for x in found if "timings" in x][-1] == 3
    assert "timings" not in s.post("/v1/completions", prompt="x", max_tokens=1)


def test_paths_without_a_prefix(s):
    assert s.ask("GET", "/models")[2] == s.ask("GET", "/v1/models")[2]
    for path, ask in (("/chat/completions", {"messages": CHAT, "max_tokens": 3}),
                      ("/completions", {"prompt": "x", "max_tokens": 3}), ("/embeddings", {"input": "x"}),
                      ("/responses", {"input": "x", "max_output_tokens": 3})):
        one, two = s.post(path, **ask, **({} if "input" in ask else COLD)), s.post("/v1" + path, **ask)
        assert set(one) == set(two)
    props = s.ask("GET", "/props")[2]
    assert props["total_slots"] == 8 and props["modalities"] == {"vision": False, "audio": False}
    assert props["default_generation_settings"]["n_ctx"] > 0 and props["chat_template"]
    vectors = s.ask("POST", "/embedding", {"content": ["One", "Two"]})[2]
    assert [v["embedding"][0] for v in vectors] == [
        x["embedding"] for x in s.post("/v1/embeddings", input=["One", "Two"])["data"]]
    ranks = {"query": "a", "documents": ["b", "c"]}
    assert s.post("/reranking", **ranks)["results"] == s.post("/v1/rerank", **ranks)["results"]


def test_models_are_loaded_and_unloaded(s):
    with s.other() as own:
        def state():
            return own.ask("GET", "/models")[2]["data"][0]["status"]["value"]
        for _ in range(2):
            assert own.post("/models/unload", model="tiny") == {"success": True}
            own.wait_for(lambda: state() == "unloaded")
            assert own.post("/models/load", model="tiny") == {"success": True} and state() == "loaded"
        assert own.ask("POST", "/models/load", {})[0] == own.ask("POST", "/models/unload", {})[0] == 400


# ---- vLLM ----

def test_tokenize_as_vllm_has_it(s):
    plain = s.post("/tokenize", content="One two")["tokens"]
    got = s.post("/tokenize", model="tiny", prompt="One two", return_token_strs=True)
    assert got["count"] == len(got["tokens"]) == len(got["token_strs"])
    assert got["tokens"][-len(plain):] == plain
    assert got["max_model_len"] == longest(s)
    bare = s.post("/tokenize", prompt="One two", add_special_tokens=False)
    assert bare["tokens"] == plain and bare["token_strs"] is None
    chat = s.post("/tokenize", messages=CHAT)
    assert chat["count"] == s.post("/v1/messages/count_tokens", messages=CHAT)["input_tokens"]
    assert s.post("/detokenize", tokens=plain)["prompt"] == "One two"
    pieces = s.post("/tokenize", content="One two", with_pieces=True)["tokens"]
    assert [p["id"] for p in pieces] == plain


def test_scores_of_pairs(s):
    texts = ["One text", "another one", "a third"]
    vectors = [x["embedding"] for x in s.post("/v1/embeddings", input=texts)["data"]]
    cosine = lambda a, b: sum(x * y for x, y in zip(a, b))
    for path in ("/score", "/v1/score"):
        got = s.post(path, model="tiny", text_1=texts[0], text_2=texts[1:])
        assert [d["index"] for d in got["data"]] == [0, 1] and got["object"] == "list"
        for d, v in zip(got["data"], vectors[1:]):
            assert abs(d["score"] - cosine(vectors[0], v)) < 1e-5
        paired = s.post(path, text_1=texts[:2], text_2=texts[1:])
        for i, d in enumerate(paired["data"]):
            assert abs(d["score"] - cosine(vectors[i], vectors[i + 1])) < 1e-5
    assert s.ask("POST", "/score", {"text_1": ["a", "b"], "text_2": ["c", "d", "e"]})[0] == 400
    assert s.ask("POST", "/score", {"text_1": "a"})[2]["error"]["param"] == "text_2"
    for one, two in (([1], "a"), ([], "a"), ("a", []), ("a", [2])):
        assert s.ask("POST", "/score", {"text_1": one, "text_2": two})[0] == 400, (one, two)


def test_small_answers(s):
    assert s.ask("GET", "/version")[2]["version"] and s.ask("GET", "/ping")[0] == 200
    with s.other("--api-key", "key") as locked:
        for path in ("/ping", "/version", "/api/version", "/health"):
            assert locked.ask("GET", path)[0] == 200
        for path in ("/api/tags", "/api/ps", "/props", "/models"):
            assert locked.ask("GET", path)[0] == 401
        refused(locked, "/api/chat", {"messages": CHAT}, 401, "key")


# ---- browsers ----

def test_headers_of_browsers(s):
    asked = "x-stainless-os,anthropic-version, anthropic-dangerous-direct-browser-access"
    with s.other("--cors", "chrome-extension://*", "--cors", "http://localhost:*", "--cors", "app://one") as own:
        def preflight(origin, headers=asked, **more):
            return own.ask("OPTIONS", "/v1/messages", headers={
                "Origin": origin, "Access-Control-Request-Headers": headers, **more})
        for origin in ("chrome-extension://abcdef", "http://localhost:3000", "app://one"):
            status, headers, _ = preflight(origin, **{"Access-Control-Request-Private-Network": "true"})
            assert status == 204 and headers["Access-Control-Allow-Origin"] == origin
            assert headers["Access-Control-Allow-Headers"] == asked
            assert int(headers["Access-Control-Max-Age"]) > 600
            assert headers["Access-Control-Allow-Private-Network"] == "true"
        for origin in ("moz-extension://abcdef", "http://localhost", "app://one2", "xchrome-extension://a"):
            assert preflight(origin)[0] == 403, origin
        assert "authorization" in preflight("app://one", "")[1]["Access-Control-Allow-Headers"]
        assert "\"" not in preflight("app://one", 'a"b')[1]["Access-Control-Allow-Headers"]
        assert "Access-Control-Allow-Private-Network" not in preflight("app://one")[1]
        one = {"prompt": "x", "max_tokens": 1}
        for path, body in (("/v1/completions", one), ("/v1/completions", {"prompt": 1}),
                           ("/v1/completions", {**one, "stream": True}), ("/tokenize", {"content": "x"}),
                           ("/nowhere", {})):
            headers = own.ask("POST", path, body, {"Origin": "app://one"})[1]
            assert headers["Access-Control-Allow-Origin"] == "app://one", (path, body)
            assert "x-qsf-ignored" in headers["Access-Control-Expose-Headers"]


# ---- the log ----

@contextlib.contextmanager
def started(s, *options):
    """A server with a log."""
    own = Server(s.program, f"{WORK.name}/llama.gguf", "--alias", "tiny", "--chat-template", "chatml",
                 "--threads", "2", *options)
    try:
        yield own
    finally:
        if own.process.poll() is None:
            own.end()


def test_a_line_for_each_request(s):
    with started(s, "--log-format", "json", "--api-key", "sekret") as own:
        key = {"Authorization": "Bearer sekret"}
        own.ask("POST", "/v1/chat/completions", {"messages": CHAT, "max_tokens": 3, **COLD}, key)
        own.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 2, "stream": True, **COLD}, key)
        own.ask("POST", "/v1/completions", {"prompt": "x", "temperature": "hot"}, key)
        own.ask("GET", "/v1/models")
        own.raw(b"GARBAGE\r\n\r\n")
        own.ask("GET", "/nowhere", headers=key)
        own.end()
        found = [json.loads(x) for x in own.lines if x.startswith("{")]
    assert "sekret" not in "".join(own.lines)
    chat, stream, wrong, stranger, garbage, nowhere = found
    assert (chat["method"], chat["path"], chat["status"]) == ("POST", "/v1/chat/completions", 200)
    assert (chat["client"], chat["model"], chat["answer"]) == ("127.0.0.1", "tiny", 3) and chat["prompt"] > 9
    assert 0 < chat["first_ms"] <= chat["total_ms"] and chat["cached"] == 0
    assert stream["answer"] == 2 and stream["status"] == 200
    assert wrong["status"] == 400 and wrong["code"] == "invalid_type" and "temperature" in wrong["error"]
    assert stranger["status"] == 401 and stranger["code"] == "invalid_api_key" and stranger["error"]
    assert garbage["status"] == 400 and garbage["method"] == "-" and garbage["error"]
    assert nowhere["status"] == 404 and nowhere["code"] == "not_found"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", x["time"]) for x in found)


def test_the_log_as_text(s):
    with started(s, *ENDLESS) as own:
        own.post("/v1/completions", prompt="x", max_tokens=2, **COLD)
        own.ask("POST", "/tokenize", {"content": 1})
        c = open_stream(own, "/v1/completions", {"prompt": "x", "max_tokens": FOREVER})
        c.recv(10)
        c.close()
        own.alone()
        own.end()
        text = "".join(own.lines)
    assert re.search(r'Z 127\.0\.0\.1 POST /v1/completions 200 model="tiny" prompt=\d+ cached=0 answer=2 '
                     r"first_ms=\S+ total_ms=\S+\n", text), text
    assert re.search(r'POST /tokenize 400 code="invalid_type" total_ms=\S+ error="', text), text
    assert re.search(r'POST /v1/completions 200 model="tiny" code="client_closed"', text), text


def test_silent_streams_get_a_sign_of_life(s):
    """The only slot is busy, so the next request waits."""
    with started(s, "--slots", "1", "--sse-ping-interval", "0.2", *ENDLESS) as own:
        busy = open_stream(own, "/v1/completions", {"prompt": "x", "max_tokens": FOREVER, "stream": False})
        limits = {"/v1/chat/completions": {"max_tokens": 2}, "/v1/messages": {"max_tokens": 2},
                  "/api/chat": {"options": {"num_predict": 2}}}
        waiting = {path: open_stream(own, path, {"messages": CHAT, **most}) for path, most in limits.items()}
        early = {path: read_until(waiting[path], b"ping\n\n", 2) for path in ("/v1/chat/completions",)}
        early["/v1/messages"] = read_until(waiting["/v1/messages"], b'{"type":"ping"}\n\n', 2)
        busy.close()
        got = {path: early.get(path, b"") + read_all(c) for path, c in waiting.items()}
    assert got["/v1/chat/completions"].count(b": ping\n\n") >= 2
    assert got["/v1/chat/completions"].endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert got["/v1/messages"].count(b'event: ping\ndata: {"type":"ping"}\n\n') >= 2
    assert b"ping" not in got["/api/chat"] and b'"done":true' in got["/api/chat"]


def test_a_socket_in_the_file_system(s):
    path = pathlib.Path(WORK.name, "qsf.sock")
    command = [s.program, WORK.name + "/llama.gguf", "--alias", "tiny", "--quiet", "--host", str(path)]

    def begin():
        p = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in p.stderr:
            if "is served at" in line:
                return p, line
        return p, ""

    p, line = begin()
    assert line == f"tiny is served at {path}\n", line
    with socket.socket(socket.AF_UNIX) as c:
        c.connect(str(path))
        c.sendall(b"GET /api/tags HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b'"name":"tiny"' in read_all(c)
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode and "another program is listening there" in second.stderr, second.stderr
    p.kill()                                    # leaves a stale socket, which the next server replaces
    p.wait()
    assert path.exists()
    p, line = begin()
    assert line
    p.terminate()
    assert p.wait(60 * SLOW) == 0 and not path.exists()
    path.write_text("somebody's")
    assert subprocess.run(command, capture_output=True).returncode and path.read_text() == "somebody's"


# ---- shutdown ----

def open_stream(own, path, body):
    c = socket.create_connection(("127.0.0.1", own.port), timeout=60 * SLOW)
    text = json.dumps({"stream": True, "ignore_eos": True, **body}).encode()
    c.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
              % (path.encode(), len(text), text))
    return c


def read_until(c, words, times):
    """What has come when these words have come that often."""
    got = b""
    while got.count(words) < times:
        piece = c.recv(65536)
        assert piece, got
        got += piece
    return got


def read_all(c):
    got = b""
    while piece := c.recv(65536):
        got += piece
    c.close()
    return got


def test_while_answers_end_others_are_refused(s):
    with started(s, "--drain", "600", *ENDLESS) as own:
        c = open_stream(own, "/v1/completions", {"prompt": "x", "max_tokens": FOREVER, "stream": False})
        own.wait_metric("running", 1)
        own.process.send_signal(signal.SIGTERM)
        own.wait_for(lambda: own.ask("GET", "/health")[0] == 503)
        status, headers, answer = own.ask("GET", "/health")
        assert (status, answer, headers["Connection"]) == (503, {"status": "draining"}, "close")
        status, headers, answer = own.ask("POST", "/v1/completions", {"prompt": "x"})
        assert status == 503 and answer["error"]["code"] == "draining" and headers["Retry-After"]
        c.close()
        assert own.process.wait(60 * SLOW) == 0


def test_the_end_of_the_time_for_answers(s):
    """Streams end properly with an error event, other requests get 503."""
    long = {"prompt": "x", "max_tokens": FOREVER}
    with started(s, "--drain", "1", *ENDLESS) as own, concurrent.futures.ThreadPoolExecutor() as pool:
        ends = [pool.submit(read_all, open_stream(own, path, body)) for path, body in (
            ("/v1/completions", {**long, "logprobs": 50}),
            ("/v1/messages", {"messages": CHAT, "max_tokens": FOREVER}),
            ("/api/generate", {"prompt": "x", "raw": True, "options": {"num_predict": FOREVER}}),
            ("/v1/completions", {**long, "stream": False}))]
        own.wait_metric("running", 4)
        own.process.send_signal(signal.SIGTERM)
        plain, messages, ollama, refused_whole = (end.result() for end in ends)
        assert own.process.wait(60 * SLOW) == 0
    assert b'"code":"draining"' in plain and plain.endswith(b"\n\n\r\n0\r\n\r\n"), plain[-300:]
    assert b"[DONE]" not in plain
    assert b"event: error\ndata: " in messages and messages.endswith(b"\n\n\r\n0\r\n\r\n"), messages[-300:]
    assert json.loads(ollama[:-7].rsplit(b"\r\n", 1)[1])["error"], ollama[-300:]
    assert refused_whole.startswith(b"HTTP/1.1 503") and b"draining" in refused_whole, refused_whole


if __name__ == "__main__":
    run(__doc__, globals())
