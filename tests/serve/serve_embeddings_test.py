#!/usr/bin/env python3
"""What qsf-serve makes of texts that are embedded, and of documents that are put in an order.
SPDX-License-Identifier: MIT

    serve_embeddings_test.py QSF_SERVE [--models DIR] [NAME...]     tests whose names have one of the words

With models it compares with what llama.cpp made of the same files (golden/embeddings.json, written by
golden/make_embeddings.py).
"""
import base64
import contextlib
import importlib.util
import json
import math
import pathlib
import random
import select
import socket
import struct
import subprocess
import sys

from serve_server import CHAT, SLOW, TESTS, WORK, Server, Skip, model_path, run, together

EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
GOLDEN = TESTS / "golden" / "embeddings.json"
TEXTS = ["A", "The weather is fine today.", "x" * 300, "Die Sonne scheint.", "1 + 1 = 2"]


def embed(s, texts, **more):
    answer = s.post(EMBEDDINGS, input=texts, **more)
    assert answer["object"] == "list" and answer["model"] == "tiny"
    assert [d["index"] for d in answer["data"]] == list(range(len(answer["data"])))
    assert all(d["object"] == "embedding" for d in answer["data"])
    return [d["embedding"] for d in answer["data"]]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def unpacked(text):
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 2}h", data)


def refused(s, path, code="invalid_value", param=None, **body):
    got, _, answer = s.ask("POST", path, body)
    assert got == 400 and answer["error"]["code"] == code, (got, answer, str(body)[:200])
    assert not param or answer["error"]["param"] == param, answer


# ---- embeddings ----

def test_every_kind_of_input_is_embedded(s):
    alone = [embed(s, t)[0] for t in TEXTS]
    n_embd = s.ask("GET", "/v1/models")[2]["data"][0]["meta"]["n_embd"]
    for x in alone:
        assert len(x) == n_embd and abs(math.sqrt(sum(v * v for v in x)) - 1) < 1e-6
    assert embed(s, TEXTS) == alone                          # in one request, in its order
    ids = [s.post("/tokenize", content=t, add_special=True)["tokens"] for t in TEXTS]
    assert embed(s, ids) == alone and embed(s, ids[1]) == alone[1:2]
    answer = s.post(EMBEDDINGS, input=TEXTS, model="tiny", user="me", timeout=60)
    n = sum(map(len, ids))
    assert answer["usage"] == {"prompt_tokens": n, "total_tokens": n}


def test_base64_is_the_same_numbers(s):
    for text in TEXTS[:3]:
        data = base64.b64decode(embed(s, text, encoding_format="base64")[0], validate=True)
        plain = embed(s, text, encoding_format="float")[0]
        assert list(struct.unpack(f"<{len(plain)}f", data)) == [struct.unpack("f", struct.pack("f", v))[0]
                                                                for v in plain]
        for n in (1, 2, 3, 17):
            data = base64.b64decode(embed(s, text, encoding_format="base64", dimensions=n)[0], validate=True)
            assert len(data) == 4 * n


def test_dimensions_cut_and_bring_back_the_length(s):
    whole = embed(s, "cut me")[0]
    for n in (1, 5, len(whole)):
        cut = embed(s, "cut me", dimensions=n)[0]
        length = math.sqrt(sum(v * v for v in whole[:n]))
        assert len(cut) == n and all(abs(c - w / length) < 1e-6 for c, w in zip(cut, whole))
    refused(s, EMBEDDINGS, "integer_above_max_value", "dimensions", input="x", dimensions=len(whole) + 1)
    refused(s, EMBEDDINGS, "integer_below_min_value", "dimensions", input="x", dimensions=0)


def test_what_cannot_be_embedded_is_refused(s):
    refused(s, EMBEDDINGS, "missing_required_parameter")
    for wrong in (1, {}, [1.5], [["a"]], ["a", 1], [None], True):
        refused(s, EMBEDDINGS, "invalid_type", "input", input=wrong)
    for wrong in ("", [], [""], [[]], [-1], [10 ** 12]):
        refused(s, EMBEDDINGS, "invalid_value", "input", input=wrong)
    refused(s, EMBEDDINGS, "invalid_value", "input", input=[1 << 20])
    refused(s, EMBEDDINGS, "array_above_max_length", "input", input=["a"] * 2049)
    refused(s, EMBEDDINGS, "context_length_exceeded", "input", input="x" * 3000)
    refused(s, EMBEDDINGS, "invalid_value", "encoding_format", input="x", encoding_format="int8")
    refused(s, EMBEDDINGS, "invalid_type", "encoding_format", input="x", encoding_format=1)
    refused(s, EMBEDDINGS, "invalid_type", "dimensions", input="x", dimensions="1")
    s.post(EMBEDDINGS, input="x", stream=True, temperature=1)        # unknown fields: ignored


def test_an_embedding_is_the_same_beside_anything(s):
    rng = random.Random(3)
    texts = ["".join(rng.choices("abcdefgh ", k=rng.randint(1, 400))) for _ in range(40)]
    alone = [embed(s, t)[0] for t in texts]
    answers = [s.complete(t[:50], 40) for t in texts[:6]]
    embed(s, "so that the figures are new")
    before = s.metric("kv_positions")

    def ask(i):
        if i % 3 == 0:
            return s.complete(texts[i // 3][:50], 40) == answers[i // 3]
        some = rng.sample(range(len(texts)), 13)
        return embed(s, [texts[k] for k in some]) == [alone[k] for k in some]

    assert all(together([lambda i=i: ask(i) for i in range(18)]))
    s.idle()
    embed(s, "once more")
    assert s.metric("kv_positions") <= before                # nothing of an input is kept


def test_many_texts_share_a_machine_with_few_blocks(s):
    rng = random.Random(4)
    texts = ["".join(rng.choices("abcdefgh ", k=rng.randint(1, 200))) for _ in range(60)]
    right = embed(s, texts)
    with s.other("--ctx-size", "512", "--slots", "3", "--cache-sequences", "4") as t:
        answer = t.complete("abc" * 40, 200)
        calls = [lambda: embed(t, texts) == right, lambda: t.complete("abc" * 40, 200) == answer,
                 lambda: embed(t, texts[::-1]) == right[::-1], lambda: t.complete("abc" * 40, 200) == answer]
        assert all(together(calls * 2))
        assert t.metric("embedding_requests") == 0
        got = t.metrics("kv_blocks_free", "kv_blocks", "kv_positions")           # the answers' sequences
        assert (got["kv_blocks"] - got["kv_blocks_free"]) * 32 <= got["kv_positions"] + 7 * 31, got


def test_the_prefix_cache_stays(s):
    with s.other("--ctx-size", "2048") as t:
        prompt = "Once upon a time there was a king who " * 5
        t.complete(prompt, 5)
        embed(t, [prompt + str(i) for i in range(5)])
        answer = t.post("/v1/completions", prompt=prompt + "B", max_tokens=1)
        tokens = t.post("/tokenize", content=prompt)["tokens"]
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= len(tokens) - 2
        assert t.metric("evicted_total") == 0


def asking(s, texts):
    """A connection on which these texts are to be embedded."""
    c = socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW)
    body = json.dumps({"input": texts}).encode()
    c.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
              % (EMBEDDINGS.encode(), len(body), body))
    return c


def test_clients_that_go_and_deadlines_end_it(s):
    texts = ["x" * 500] * 1500
    with s.other() as t:
        got, _, answer = t.ask("POST", EMBEDDINGS, {"input": texts, "timeout": 0.05})
        assert got == 503 and answer["error"]["code"] == "timeout", (got, answer)
        with asking(t, texts):
            t.wait_metric("embedding_requests", 1)
        t.wait_metric("cancelled_total", 2)
        t.wait_metric("embedding_requests", 0)
        assert t.metric("kv_positions") == 0
        assert len(embed(t, "still there")) == 1


def test_a_short_request_does_not_wait_for_a_long_one(s):
    with s.other() as t, asking(t, ["x" * 1000] * 2000) as long:        # minutes
        t.wait_metric("embedding_requests", 1)
        embed(t, "short")
        t.complete("and an answer", 3)
        assert t.metric("embedding_requests") == 1
        assert not select.select([long], [], [], 0)[0]


def test_pooling_can_be_chosen(s):
    by = {}
    for how in ("mean", "first", "last", "auto"):
        with s.other("--pooling", how) as t:
            by[how] = embed(t, ["qbc", "qbd"])
    assert by["auto"] == by["mean"] == embed(s, ["qbc", "qbd"])
    assert by["first"][0] == by["first"][1] and by["last"][0] != by["last"][1]
    assert len({json.dumps(by[how]) for how in by}) == 3


# ---- documents in order ----

def test_documents_come_back_in_order(s):
    query, documents = "the weather", ["fine weather", "a king", "snow", "the weather", "rain"]
    x = embed(s, [query, *documents])
    right = sorted(range(len(documents)), key=lambda i: -cosine(x[0], x[1 + i]))
    for path in (RERANK, "/rerank"):
        answer = s.post(path, query=query, documents=documents, model="tiny")
        results = answer["results"]
        assert [r["index"] for r in results] == right and right[0] == 3
        for r in results:
            assert abs(r["relevance_score"] - cosine(x[0], x[1 + r["index"]])) < 1e-6 and "document" not in r
        assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] > len(documents)
    few = s.post(RERANK, query=query, documents=[{"text": d} for d in documents], top_n=2,
                 return_documents=True)["results"]
    assert [r["index"] for r in few] == right[:2] and few[0]["document"] == {"text": "the weather"}
    assert len(s.post(RERANK, query=query, documents=documents, top_n=99)["results"]) == 5


def test_what_has_no_order_is_refused(s):
    refused(s, RERANK, "missing_required_parameter", "query", documents=["a"])
    refused(s, RERANK, "missing_required_parameter", "documents", query="a")
    for wrong in ("a", {}, [1], [{"txt": "a"}], [["a"]]):
        refused(s, RERANK, "invalid_type", "documents", query="a", documents=wrong)
    refused(s, RERANK, "invalid_type", "query", query=["a"], documents=["a"])
    refused(s, RERANK, "invalid_value", "documents", query="a", documents=[])
    refused(s, RERANK, "array_above_max_length", "documents", query="a", documents=["a"] * 2048)
    refused(s, RERANK, "integer_below_min_value", "top_n", query="a", documents=["a"], top_n=0)


# ---- encoders and classifiers ----

ENCODERS = ("bert", "bert-rank", "nomic-bert", "jina-bert-v2", "modern-bert", "gemma-embedding-dense")


@contextlib.contextmanager
def tiny(s, name, *options):
    subprocess.run([sys.executable, TESTS / "parity" / "make_tiny.py", WORK.name, name], check=True,
                   stdout=subprocess.DEVNULL)
    server = Server(s.program, f"{WORK.name}/{name}.gguf", "--alias", "tiny", "--quiet", *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


def by_run(s, name, *options, text):
    """What qsf-run says."""
    program = pathlib.Path(s.program).with_name("qsf-run")
    command = [program, "-m", f"{WORK.name}/{name}.gguf", "--json", "-p", text, *options]
    r = subprocess.run(command, check=True, capture_output=True)
    return json.loads(r.stdout)


def test_encoders_embed_as_the_command_line_does(s):
    texts = ["the cat sat", "a", "once upon a time there was another text", "x y z " * 12]
    for name in ENCODERS:
        how = ("--pooling", "mean") if "rank" in name else ()
        with tiny(s, name, *how) as t:
            got = embed(t, texts)
            assert got == [embed(t, x)[0] for x in texts] and got[::-1] == embed(t, texts[::-1])
            right = by_run(s, name, "--embedding", *how, text="\n".join(texts[:3]))
            for x, d in zip(got, right["data"]):
                assert max(abs(a - b) for a, b in zip(x, d["embedding"])) < 1e-6, name


def test_a_classifier_ranks_pairs(s):
    documents = ["the cat sat on the mat", "a", "once upon a time", "the end"]
    listed = pathlib.Path(WORK.name) / "documents.txt"
    listed.write_text("\n".join(documents))
    for name in ("bert-rank", "qwen3-rank"):
        with tiny(s, name) as t:
            right = by_run(s, name, "--rerank", str(listed), text="a cat")["results"]
            for path in (RERANK, "/rerank"):
                answer = t.post(path, query="a cat", documents=documents, return_documents=True)
                got = answer["results"]
                assert [r["index"] for r in got] == [r["index"] for r in right], (got, right)
                assert all(abs(a["relevance_score"] - b["relevance_score"]) < 1e-5
                           for a, b in zip(got, right)), (got, right)
                assert all(r["document"]["text"] == documents[r["index"]] for r in got)
                assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] > 8
            assert len(t.post(RERANK, query="a cat", documents=documents * 40, top_n=3)["results"]) == 3


def test_an_encoder_answers_nothing(s):
    with tiny(s, "bert-rank") as t:
        for path, body in (("/v1/chat/completions", {"messages": CHAT}),
                           ("/v1/completions", {"prompt": "a"}), ("/v1/responses", {"input": "a"}),
                           ("/v1/messages", {"messages": CHAT, "max_tokens": 5}),
                           ("/v1/completions", {"prompt": "a", "echo": True, "logprobs": 1})):
            got, _, answer = t.ask("POST", path, body)
            assert got == 400 and "is an encoder" in answer["error"]["message"], (path, got, answer)
        meta = t.ask("GET", "/v1/models")[2]["data"][0]["meta"]
        assert meta["arch"] == "bert" and meta["n_embd"] == len(embed(t, "a")[0])
        # hostile
        for query, some in (("a", []), ("a", [""] * 3), ("", ["a"]), ("a" * 5000, ["a"]),
                            ("a", ["a " * 5000]), ("a", [{"text": 5}]), (["a"], ["a"]), ("a", {"0": "a"}),
                            ("\0", ["\0\ud800"])):
            got, _, answer = t.ask("POST", RERANK, {"query": query, "documents": some})
            assert got in (200, 400), (got, answer)
        refused(t, RERANK, "context_length_exceeded", query="a", documents=["b " * 2000])
        refused(t, EMBEDDINGS, "context_length_exceeded", "input", input="b " * 2000)
        refused(t, EMBEDDINGS, "invalid_value", "input", input=[1 << 20])
        assert len(t.post(RERANK, query="a", documents=["b"])["results"]) == 1


def test_texts_of_an_encoder_share_batches(s):
    rng = random.Random(5)
    with tiny(s, "bert") as t:
        texts = [" ".join(rng.choices(["a", "cat", "the", "mat"], k=rng.randint(1, 60))) for _ in range(60)]
        alone = embed(t, texts)

        def ask(_):
            some = rng.sample(range(len(texts)), 20)
            return embed(t, [texts[k] for k in some]) == [alone[k] for k in some]

        assert all(together([lambda i=i: ask(i) for i in range(8)]))
        t.wait_for(lambda: t.metric("embedding_requests") == 0)
        assert t.metric("steps_total") < t.metric("embedding_requests") + 60 + 160
        assert t.metric("kv_positions") == 0


# ---- clients, and the truth ----

def test_openai_as_client(s):
    if not importlib.util.find_spec("openai"):
        return print("     the package openai is not here")
    import openai
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none")
    right = embed(s, TEXTS)
    for more in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
        got = client.embeddings.create(model="tiny", input=TEXTS, **more)
        for i, d in enumerate(got.data):
            if isinstance(d.embedding, list):
                assert d.index == i and max(abs(a - b) for a, b in zip(d.embedding, right[i])) < 1e-7
        assert got.usage.total_tokens > 0
    assert len(client.embeddings.create(model="tiny", input=[1, 2, 3], dimensions=7).data[0].embedding) == 7
    try:
        client.embeddings.create(model="tiny", input="x", dimensions=10 ** 5)
        raise AssertionError("dimensions that the model has not were taken")
    except openai.BadRequestError as e:
        assert e.param == "dimensions"


def test_embeddings_are_those_of_llama_cpp(s):
    if SLOW > 1: return
    golden = json.loads(GOLDEN.read_text())
    missing = []
    for name, by_pooling in golden["models"].items():
        try:
            path = model_path(s, pathlib.Path(name).stem)
        except Skip as e:
            missing.append(e)
            continue
        for pooling, right in by_pooling.items():
            t = Server(s.program, path, "--quiet", "--pooling", pooling, "-c", "1024")
            got = [d["embedding"] for d in t.post(EMBEDDINGS, input=golden["texts"])["data"]]
            t.end()
            worst = min(cosine(a, unpacked(b)) for a, b in zip(got, right))
            print(f"     {name} {pooling}: cosine {worst:.5f} or more")
            assert worst >= golden["least"], (name, pooling, worst)
    if missing: raise missing[0]


if __name__ == "__main__":
    run(__doc__, globals())
