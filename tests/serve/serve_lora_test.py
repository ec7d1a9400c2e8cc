#!/usr/bin/env python3
"""Adapters (LoRA) in qsf-serve: answers are those of qsf-run --lora, whoever else asks, and probabilities
llama.cpp's (golden/lora.json); what is kept of one set of adapters is not another's; loading, dropping and
scales while it runs; what is refused.
SPDX-License-Identifier: MIT

    serve_lora_test.py QSF_SERVE [NAME...] --run QSF_RUN      the tests whose names have one of the words
"""
import concurrent.futures
import contextlib
import importlib.util
import json
import pathlib
import shutil
import socket
import subprocess
import sys

from serve_server import ENDLESS, FOREVER, SLOW, TESTS, WORK, Server, run, together

sys.path.insert(0, str(TESTS / "parity"))
import numpy as np
import make_lora

FOLDER = pathlib.Path(WORK.name, "loras")
OPTIONS = "--chat-template", "chatml", "--quiet", "--threads", "2"
PROMPT = "Once upon a time there was a model with two adapters, and"
N = 24


def made():
    if not FOLDER.exists():
        FOLDER.mkdir()
        make_lora.make_tests(FOLDER, ["llama", "qwen2"])
    return FOLDER


def adapter(name, model="llama"):
    return made() / f"{model}.{name}.gguf"


@contextlib.contextmanager
def serving(s, *more, model="llama"):
    """A server of "base" with the adapters a and b of two scales."""
    server = Server(s.program, f"--model=base={made()}/{model}.gguf", *OPTIONS, "--lora",
                    f"a={adapter('a', model)}", "--lora", f"b={adapter('b', model)}:-0.7", *more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


def alone(s, *uses, prompt=PROMPT, n=N, model="llama"):
    """What qsf-run says with these adapters."""
    r = subprocess.run([s.run, "-m", made() / f"{model}.gguf", "--raw", "-p", prompt, "-n", str(n),
                        "--temp", "0", "--ignore-eos", *(x for u in uses for x in ("--lora", u))],
                       capture_output=True)
    assert r.returncode == 0, r.stderr
    return r.stdout.decode().removesuffix("\n")


def body(model="base", prompt=PROMPT, n=N, **more):
    return {"model": model, "prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True, **more}


def answer(server, model="base", **more):
    return server.post("/v1/completions", **body(model, **more))["choices"][0]["text"]


def cached(server, model="base", **more):
    usage = server.post("/v1/completions", **body(model, **more))["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"]


def refused(server, path, status, what, code=None):
    got, _, error = server.ask("POST", path, what)
    assert got == status, (path, what, got, error)
    assert not code or error["error"]["code"] == code, error
    return error["error"]["message"]


def asked(s):
    """The sets that the tests ask for: a request's fields, and qsf-run's adapters."""
    a, b = map(str, (adapter("a"), adapter("b")))
    return [({"model": "base"}, ()), ({"model": "base:a"}, (a,)), ({"model": "base:b"}, (b + ":-0.7",)),
            ({"lora": [{"id": 1, "scale": 0.5}, {"id": 0, "scale": 1}]}, (a, b + ":0.5")),
            ({"lora": [{"id": 0, "scale": 0.25}]}, (a + ":0.25",)), ({"lora": [{"id": 0, "scale": 0}]}, ())]


# ---- answers ----

def test_answers_are_those_of_qsf_run(s):
    with serving(s) as server:
        want = [alone(s, *uses) for _, uses in asked(s)]
        assert len(set(want)) == 5, want                # the adapters change something
        for (fields, _), text in zip(asked(s), want):
            got = server.post("/v1/completions", **body(**fields))
            assert got["choices"][0]["text"] == text
            assert got["model"] == fields.get("model", "base")
        for name, text in ("base:a", want[1]), ("base", want[0]):
            events = [json.loads(e) for e in server.events("/v1/completions", **body(name))[:-1]]
            assert "".join(e["choices"][0]["text"] for e in events if e["choices"]) == text
            assert {e["model"] for e in events} == {name}
        assert server.metric("adapter_requests_total") == 5 and server.metric("adapters") == 2


def test_a_mixed_batch_is_as_each_alone(s):
    prompts = [f"{i}: {PROMPT}" for i in range(4)]
    with serving(s, "--slots", "8", *ENDLESS) as server, concurrent.futures.ThreadPoolExecutor(24) as pool:
        asks = [(p, fields, uses) for p in prompts for fields, uses in asked(s)]
        busy, _ = stream(server, **{**body(n=FOREVER), "n": 8})         # all others wait until they are there
        answers = [pool.submit(server.post, "/v1/completions", **body(prompt=p, **fields))
                   for p, fields, _ in asks]
        server.wait_metric("waiting", len(asks))
        before = server.metrics("rows_total", "steps_total")
        busy.close()
        for (p, fields, uses), a in zip(asks, answers):
            assert a.result()["choices"][0]["text"] == alone(s, *uses, prompt=p), (p, fields)
        rows, steps = (n - before[name] for name, n in server.metrics(*before).items())
        assert rows > 2 * steps, (rows, steps)          # they were in batches together


def test_several_answers_beams_and_scores(s):
    with serving(s) as server:
        two = server.post("/v1/completions", **body("base:a", n=12, prompt=[PROMPT, "Other"], best_of=2))
        assert [c["text"] for c in two["choices"]] == [alone(s, str(adapter("a")), prompt=p, n=12)
                                                       for p in (PROMPT, "Other")]
        beams = {m: server.post("/v1/completions", **body(m, n=8), beam_width=3)["choices"][0]["text"]
                 for m in ("base", "base:a", "base:b")}
        assert len(set(beams.values())) == 3, beams
        narrow = server.post("/generate", model="base:a", prompt=PROMPT, n_predict=N, temperature=0,
                             ignore_eos=True)
        assert narrow["choices"][0]["text"] == alone(s, str(adapter("a")))
        scores = {m: server.post("/v1/completions", **body(m, n=0, echo=True, logprobs=0))["choices"][0]
                  ["logprobs"]["token_logprobs"][1:] for m in ("base", "base:a", "base")}
        assert scores["base"] != scores["base:a"]


def test_every_interface_takes_them(s):
    chat = [{"role": "user", "content": "Say something"}]
    with serving(s) as server:
        texts, vectors = {}, {}
        for model in "base", "base:a", "base:b":
            common = {"model": model, "temperature": 0, "ignore_eos": True}
            c = server.post("/v1/chat/completions", messages=chat, max_tokens=8, **common)
            r = server.post("/v1/responses", input="Say something", max_output_tokens=8, **common)
            m = server.post("/v1/messages", messages=chat, max_tokens=8, **common)
            e = server.post("/v1/embeddings", input=["Say", "something"], model=model)
            assert {x["model"] for x in (c, r, m, e)} == {model}
            lines = server.events("/v1/chat/completions", messages=chat, max_tokens=8, **common)
            events = [json.loads(x) for x in lines[:-1]]
            streamed = "".join(x["choices"][0]["delta"].get("content") or "" for x in events if x["choices"])
            texts[model] = [c["choices"][0]["message"]["content"], r["output"][0]["content"][0]["text"],
                            m["content"][0]["text"], streamed]
            vectors[model] = e["data"]
            assert len(set(texts[model])) == 1, texts
        assert len({t[0] for t in texts.values()}) == 3, texts
        assert vectors["base"] != vectors["base:a"] != vectors["base:b"]
        again = server.post("/v1/embeddings", input=["Say", "something"], model="base")
        assert again["data"] == vectors["base"]


def test_probabilities_are_llama_cpp_s(s):
    golden = json.loads((TESTS / "golden" / "lora.json").read_text())["llama"]
    both = [{"id": 0, "scale": 1}, {"id": 1, "scale": 0.5}]
    sets = {"model": "base:a"}, {"model": "base:b"}, {"lora": both}
    wanted = [np.array(x, np.float64) for x in golden["logits"]]
    wanted = [x - x.max() - np.log(np.exp(x - x.max()).sum()) for x in wanted]
    with serving(s) as server:
        for fields, want in zip(sets, wanted):
            got = server.post("/v1/completions", **body(prompt=golden["ids"], n=1, logprobs=40, **fields))
            top = got["choices"][0]["logprobs"]["top_logprobs"][0]
            texts = {i: server.post("/detokenize", tokens=[i])["content"]
                     for i in map(int, np.argsort(-want)[:40])}
            assert got["choices"][0]["text"] == next(iter(texts.values()))
            # The server's activations have 8 bits; the other sets are further away.
            miss = [np.mean([abs(top[t] - w[i]) for i, t in texts.items() if t in top]) for w in wanted]
            assert min(miss) < 0.15 and np.sort(miss)[1] > 3 * min(miss), miss
            assert want is wanted[np.argmin(miss)]


def test_openai_as_client(s):
    if not importlib.util.find_spec("openai"):
        return print("     the package openai is not here")
    import openai
    with loading(s) as server:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
        assert [m.id for m in client.models.list()] == ["base", "base:a", "base:b"]
        assert client.models.retrieve("base:a").id == "base:a"
        server.post("/v1/load_lora_adapter", lora_name="late", lora_path="llama.b.gguf")
        for model, *uses in ("base",), ("base:a", str(adapter("a"))), ("base:late", str(adapter("b"))):
            more = {"prompt": PROMPT, "max_tokens": N, "temperature": 0, "extra_body": {"ignore_eos": True}}
            got = client.completions.create(model=model, **more)
            assert got.model == model and got.choices[0].text == alone(s, *uses)
            chunks = list(client.completions.create(model=model, stream=True, **more))
            assert "".join(c.choices[0].text for c in chunks) == got.choices[0].text
        got = client.completions.create(model="base", prompt=PROMPT, max_tokens=N, temperature=0,
                                        extra_body={"ignore_eos": True, "lora": [{"id": 1, "scale": 0.5}]})
        assert got.choices[0].text == alone(s, f"{adapter('b')}:0.5")
        chat = client.chat.completions.create(model="base:a", max_tokens=8, temperature=0,
                                              messages=[{"role": "user", "content": "Hi"}])
        assert chat.model == "base:a"
        try:
            client.completions.create(model="base:none", prompt="x")
            assert False, "it was taken"
        except openai.NotFoundError as e:
            assert e.code == "model_not_found" and '"a", "b"' in e.message


# ---- what is kept ----

def test_what_is_kept_belongs_to_its_adapters(s):
    for disk in False, True:
        with serving(s, "--cache-sequences", "2", "--slots", "2", "--cache-disk",
                     "64" if disk else "0") as server:
            for _ in range(2):
                for fields, uses in asked(s):
                    for p in PROMPT * 4, "Other " + PROMPT * 3:
                        got = server.post("/v1/completions", **body(prompt=p, n=8, **fields))
                        assert got["choices"][0]["text"] == alone(s, *uses, prompt=p, n=8)
            assert not disk or server.metric("swap_in_total") > 3, "nothing came back from disk"
    with serving(s) as server:
        assert cached(server, "base:a") == 0 and cached(server, "base:a") > 10
        assert cached(server) == 0 and cached(server) > 10
        assert cached(server, lora=[{"id": 0, "scale": 1}]) > 10            # the same set
        assert cached(server, lora=[{"id": 0, "scale": 0.999}]) == 0
        assert cached(server, lora=[{"id": 0, "scale": 1}, {"id": 1, "scale": 1e-9}]) == 0
        assert cached(server, "base:b") == 0


def test_the_cache_file_has_none_of_them(s):
    file = FOLDER / "kept"
    with serving(s, "--cache-file", str(file)) as server:
        cached(server, "base:a"), cached(server, prompt="Another beginning of a text that is kept")
    with serving(s, "--cache-file", str(file)) as server:
        assert cached(server) == 0 and cached(server, "base:a") == 0
        assert cached(server, prompt="Another beginning of a text that is kept") > 5


# ---- the lists ----

def test_models_and_adapters_are_listed(s):
    with serving(s) as server:
        models = {m["id"]: m for m in server.ask("GET", "/v1/models")[2]["data"]}
        assert list(models) == ["base", "base:a", "base:b"]
        assert models["base:a"]["parent"] == "base" and "parent" not in models["base"]
        assert [models["base:" + x]["meta"]["lora"]["rank"] for x in "ab"] == [4, 13]
        assert server.ask("GET", "/v1/models/base:b")[2] == models["base:b"]
        assert server.ask("GET", "/v1/models/base%3Ac")[0] == 404
        listed = server.ask("GET", "/lora-adapters")[2]
        assert [(x["id"], x["scale"], x["name"], x["model"]) for x in listed] == [(0, 0, "a", "base"),
                                                                               (1, 0, "b", "base")]
        assert listed[0]["path"] == str(adapter("a"))


def test_scales_for_everybody(s):
    a, b = map(str, (adapter("a"), adapter("b")))
    with serving(s) as server:
        plain = answer(server)
        assert server.post_list("/lora-adapters", [{"id": 0, "scale": 1}, {"id": 1, "scale": 0.5}])
        assert answer(server) == alone(s, a, b + ":0.5") != plain
        assert answer(server, "base:b") == alone(s, b + ":-0.7")
        assert answer(server, lora=[{"id": 0, "scale": 0.25}]) == alone(s, a + ":0.25")
        assert [x["scale"] for x in server.ask("GET", "/lora-adapters")[2]] == [1, 0.5]
        assert server.post_list("/lora-adapters", [{"id": 1, "scale": 0.5}])         # what is not named has 0
        assert answer(server) == alone(s, b + ":0.5")
        assert server.post_list("/lora-adapters", []) and answer(server) == plain
        for what in {}, "x", [1], [{"id": 0}], [{"id": -1, "scale": 1}], [{"id": 7, "scale": 1}], \
                [{"id": 0, "scale": "1"}], [{"id": 0, "scale": 1e300}], [{"id": 0, "scale": 1}] * 2, \
                [{"id": 0, "scale": 1, "more": 2}], [{"id": 0, "scale": 1}] * 65:
            refused(server, "/lora-adapters", 400, json.dumps(what))
        refused(server, "/lora-adapters", 400, '[{"id": 0, "scale": 1')
        assert answer(server) == plain
        assert server.ask("PUT", "/lora-adapters", "[]")[0] == 405


# ---- loading and dropping ----

def loading(s, *more):
    return serving(s, "--lora-dir", str(made()), *more)


def test_adapters_come_and_go(s):
    with loading(s) as server:
        plain = answer(server)
        refused(server, "/v1/completions", 404, body("base:late"), "model_not_found")
        got = server.post("/v1/load_lora_adapter", lora_name="late", lora_path="llama.a.gguf", scale=0.5)
        assert got == {"success": True, "id": 2, "name": "late", "model": "base"}
        assert answer(server, "base:late") == alone(s, f"{adapter('a')}:0.5") != plain
        assert "base:late" in [m["id"] for m in server.ask("GET", "/v1/models")[2]["data"]]
        refused(server, "/v1/load_lora_adapter", 400, {"lora_name": "late", "lora_path": "llama.b.gguf"},
                "adapter_exists")
        assert server.metric("adapters") == 3
        server.post("/v1/unload_lora_adapter", lora_name="late")
        refused(server, "/v1/completions", 404, body("base:late"), "model_not_found")
        refused(server, "/v1/completions", 400, body(lora=[{"id": 2, "scale": 1}]))
        server.wait_for(lambda: server.metric("adapters") == 2)          # what was kept for it has gone, too
        got = server.post("/v1/load_lora_adapter", lora_name="late", lora_path="llama.b.gguf", model="base")
        assert got["id"] == 3 and cached(server, "base:late") == 0
        assert answer(server, "base:late") == alone(s, str(adapter("b"))) and answer(server) == plain
        refused(server, "/v1/unload_lora_adapter", 404, {"lora_name": "none"}, "model_not_found")


def stream(server, **fields):
    c = socket.create_connection(("127.0.0.1", server.port), timeout=60 * SLOW)
    text = json.dumps({**fields, "stream": True})
    c.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}"
              .encode())
    got = b""
    while b"data: " not in got:
        piece = c.recv(4096)
        assert piece, got
        got += piece
    return c, got


def rest(c, got):
    while not got.endswith(b"\r\n0\r\n\r\n") and (piece := c.recv(65536)):
        got += piece
    c.close()
    events = [json.loads(line[6:]) for line in got.split(b"\n") if line.startswith(b"data: {")]
    return "".join(e["choices"][0]["text"] for e in events if e.get("choices"))


def test_dropped_while_answers_run(s):
    n = 400 if SLOW == 1 else 150
    with loading(s, "--slots", "2") as server:
        server.post("/v1/load_lora_adapter", lora_name="late", lora_path="llama.a.gguf")
        want = alone(s, str(adapter("a")), n=n)
        streams = [stream(server, **body("base:late", n=n)) for _ in range(2)]
        waits = socket.create_connection(("127.0.0.1", server.port), timeout=60 * SLOW)     # for a slot
        text = json.dumps(body("base:late", n=n))
        waits.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                      f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
        server.wait_for(lambda: server.metric("waiting") == 1 or server.metric("requests_total") >= 3)
        server.post("/v1/unload_lora_adapter", lora_name="late")
        server.post("/v1/load_lora_adapter", lora_name="late", lora_path="llama.b.gguf")
        assert [rest(*x) for x in streams] == [want] * 2
        got = b""
        while piece := waits.recv(65536):
            got += piece
        waits.close()
        assert json.loads(got.split(b"\r\n\r\n", 1)[1])["choices"][0]["text"] == want
        server.wait_for(lambda: server.metric("adapters") == 3)
        assert answer(server, "base:late") == alone(s, str(adapter("b")))


def test_many_load_and_drop_at_once(s):
    with loading(s) as server:
        a, b = (alone(s, str(adapter(x)), n=8) for x in "ab")

        def turn(i):
            name, file, want = f"x{i}", "ab"[i % 2], (a, b)[i % 2]
            for _ in range(3):
                server.post("/v1/load_lora_adapter", lora_name=name, lora_path=f"llama.{file}.gguf")
                assert answer(server, f"base:{name}", n=8) == want
                server.post("/v1/unload_lora_adapter", lora_name=name)
            return True

        assert all(together([lambda i=i: turn(i) for i in range(6)]))
        server.wait_for(lambda: server.metric("adapters") == 2)
        assert answer(server, "base:a", n=8) == a


def test_loading_is_within_the_folder(s):
    (made() / "below").mkdir(exist_ok=True)
    shutil.copy(adapter("a"), FOLDER / "below" / "x.gguf")
    (FOLDER / "broken.gguf").write_bytes(adapter("a").read_bytes()[:700])
    with serving(s) as server:
        for path in "load", "unload":
            what = {"lora_name": "x", "lora_path": "llama.a.gguf"} if path == "load" else {"lora_name": "a"}
            message = refused(server, f"/v1/{path}_lora_adapter", 403, what, "adapters_fixed")
            assert "--lora-dir" in message
    with loading(s) as server:
        load = "/v1/load_lora_adapter"
        for path in "/etc/passwd", "../loras/llama.a.gguf", "below/../llama.a.gguf", "./llama.a.gguf", "", \
                ".", "..", "below//x.gguf", "below\\x.gguf", "C:x.gguf", "a\u0000b", "below/", \
                str(adapter("a")), "x" * 2000, 7, None, ["llama.a.gguf"]:
            refused(server, load, 400, {"lora_name": "x", "lora_path": path})
        refused(server, load, 404, {"lora_name": "x", "lora_path": "none.gguf"})
        for name in "", "x" * 200, "a\nb", 3, None:
            refused(server, load, 400, {"lora_name": name, "lora_path": "llama.a.gguf"})
        refused(server, load, 400, {"lora_name": "x", "lora_path": "llama.a.gguf", "scale": "1"})
        refused(server, load, 400, {"lora_name": "x", "lora_path": "llama.a.gguf", "model": "base:a"})
        refused(server, load, 404, {"lora_name": "x", "lora_path": "llama.a.gguf", "model": "none"})
        for path, words in ("qwen2.a.gguf", "qwen2"), ("llama.gguf", "not an adapter"), \
                ("broken.gguf", "broken"):
            assert words in refused(server, load, 400, {"lora_name": "x", "lora_path": path},
                                    "adapter_load_failed")
        server.post(load, lora_name="x", lora_path="below/x.gguf")
        assert answer(server, "base:x") == answer(server, "base:a")


def test_hostile_fields(s):
    with serving(s, "--slots", "2") as server:
        for model, status in ("base:", 404), ("base:A", 404), ("base:a:b", 404), ("nobody:a", 404), \
                (":a", 404), ("base:" + "x" * 3000, 404), ("base:a\u0000", 400), (7, 400):
            got = server.ask("POST", "/v1/completions", {**body(), "model": model})
            assert got[0] == status, (model, got)
        for lora in 7, "a", {"id": 0}, [7], [{"id": "0", "scale": 1}], [{"id": 0, "scale": None}], \
                [{"id": 0.5, "scale": 1}], [{"id": 2**63, "scale": 1}], [{"id": 2, "scale": 1}], \
                [{"id": 0, "scale": -1e7}], [{"id": 0, "scale": 1}] * 2, [[{"id": 0, "scale": 1}]]:
            refused(server, "/v1/completions", 400, body(lora=lora))
        refused(server, "/v1/completions", 400, body("base:a", lora=[{"id": 0, "scale": 1}]))
        assert server.ask("POST", "/tokenize", {"content": "x", "lora": [{"id": 0}]})[0] == 200
        assert server.post("/tokenize", content="x", model="base:a")["tokens"]
        assert answer(server, lora=[]) == answer(server, lora=None) == answer(server)


def test_several_models_have_their_own(s):
    made()
    for more in (), ("--models-max", "1"):
        server = Server(s.program, f"--model=one={FOLDER}/llama.gguf", f"--model=two={FOLDER}/qwen2.gguf",
                        *OPTIONS, "--lora", f"a={adapter('a')}", "--lora",
                        f"two:a={adapter('a', 'qwen2')}:0.5", *more)
        try:
            for _ in range(2):
                assert answer(server, "one:a") == alone(s, str(adapter("a")))
                assert answer(server, "two:a") == alone(s, f"{adapter('a', 'qwen2')}:0.5", model="qwen2")
                assert answer(server, "two") == alone(s, model="qwen2")
            refused(server, "/v1/completions", 400, body("two", lora=[{"id": 0, "scale": 1}]))
            listed = server.ask("GET", "/lora-adapters")[2]
            assert [(x["id"], x["model"]) for x in listed] == [(0, "one"), (1, "two")]
        finally:
            server.end()


def test_names_may_have_colons(s):
    made()
    server = Server(s.program, f"--model=m={FOLDER}/llama.gguf", f"--model=m:7b={FOLDER}/llama.gguf",
                    *OPTIONS, "--lora", f"m:7b:a={adapter('a')}", "--lora", f"m:b={adapter('b')}")
    try:
        assert answer(server, "m:7b:a") == alone(s, str(adapter("a")))
        assert answer(server, "m:b") == alone(s, str(adapter("b"))) and answer(server, "m:7b") == alone(s)
        assert '"a"' in refused(server, "/v1/completions", 404, body("m:7b:b"), "model_not_found")
    finally:
        server.end()


def test_a_head_that_cannot_be_changed_is_an_error(s):
    """The adapter a changes the head, b does not."""
    with serving(s, "--head-topk", "screen") as server:
        plain = answer(server)
        for more in {}, {"n": 2}, {"prompt": [PROMPT, "x"]}, {"echo": True, "logprobs": 1}:
            assert "head" in refused(server, "/v1/completions", 400, body("base:a", **more),
                                     "unsupported_parameter")
        assert answer(server, "base:b") != plain == answer(server)
        server.wait_for(lambda: server.metric("running") == 0 and server.metric("failed_total") > 0)


def test_a_budget_counts_them(s):
    with loading(s, "--ram-budget", "60") as server:
        assert answer(server, "base:a") == alone(s, str(adapter("a")))
        message = refused(server, "/v1/load_lora_adapter", 503,
                          {"lora_name": "x", "lora_path": "llama.b.gguf"}, "adapter_no_room")
        assert "--adapter-memory" in message
    with loading(s, "--ram-budget", "60", "--adapter-memory", "8") as server:
        server.post("/v1/load_lora_adapter", lora_name="x", lora_path="llama.b.gguf")
        assert answer(server, "base:x") == alone(s, str(adapter("b")))


def test_the_command_line(s):
    def said(*words):
        p = subprocess.run([s.program, "--port", "0", f"--model=base={made()}/llama.gguf", *words],
                           capture_output=True, text=True, timeout=60 * SLOW)
        return p.returncode, p.stderr

    assert said("--lora", "=x")[0] == 2 and said("--lora", "x=")[0] == 2
    code, text = said("--lora", f"x={adapter('a')}", "--lora", f"base:x={adapter('b')}")
    assert code == 2 and "two adapters" in text
    for file in "/nowhere/at.all", str(adapter("a", "qwen2")):
        code, text = said("--lora", file)
        assert code not in (0, 2) and file in text, text
    server = Server(s.program, f"{FOLDER}/llama.gguf", *OPTIONS, "--lora", str(adapter("a")))
    assert answer(server, "llama.gguf:llama.a.gguf") == alone(s, str(adapter("a")))
    server.end()


if __name__ == "__main__":
    run(__doc__, globals())
