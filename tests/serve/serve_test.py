#!/usr/bin/env python3
"""What qsf-serve answers: together as alone, in streams, from the cache, in turn, to the end.
SPDX-License-Identifier: MIT

    serve_test.py QSF_SERVE [--models DIR] [NAME...]      the tests whose names have one of the words

The model is a tiny random one, so that answers cost nothing; with --models SmolLM2 gives the same answers
together as alone. Where the Python package openai is there, it asks, too.
"""
import importlib.util
import json
import pathlib
import random
import select
import signal
import socket
import threading

from serve_server import CHAT, ENDLESS, FOREVER, SLOW, WORK, Server, model_path, run, together

PROMPTS = ["Once upon a time", "x", "The number of the beast is " * 6, "def f(a, b):\n    return",
           "1 2 3 4 5 6", "Grass is green. " * 12, "who?", "Lorem ipsum dolor sit amet, consectetur",
           "{\"key\": [1, 2", "Zebra " * 30]


# ---- answers ----

def test_ten_together_answer_as_if_alone(s):
    alone = [s.complete(p, 40) for p in PROMPTS]
    assert len(set(alone)) > 5
    for _ in range(3):
        order = random.sample(range(10), 10)
        got = together([lambda i=i: s.complete(PROMPTS[i], 40) for i in order])
        assert got == [alone[i] for i in order]


def test_answers_make_room_for_one_another_and_stay_the_same(s):
    with s.other("--ctx-size", "256", "--slots", "6", "--cache-sequences", "2") as small:
        alone = [small.complete(p[:60], 90) for p in PROMPTS]
        got = small.post("/v1/completions", prompt=[p[:60] for p in PROMPTS], max_tokens=90, temperature=0,
                         ignore_eos=True)["choices"]
        assert [c["text"] for c in got] == alone
        assert small.metric("preempted_total") > 0
        small.idle()


def test_a_prompt_that_was_there_before_is_kept(s):
    prompt = "A prompt that no other test has, long enough for some blocks of positions. " * 3
    first = s.post("/v1/completions", prompt=prompt, max_tokens=8, temperature=0)
    again = s.post("/v1/completions", prompt=prompt, max_tokens=8, temperature=0)
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] < 8
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == again["usage"]["prompt_tokens"] - 1
    assert first["choices"] == again["choices"]


def test_several_answers_share_their_prompt(s):
    before = s.metric("kept_tokens_total")
    a = s.post("/v1/completions", prompt=PROMPTS[:2], n=3, max_tokens=9, temperature=0, ignore_eos=True)
    texts = [c["text"] for c in a["choices"]]
    assert [c["index"] for c in a["choices"]] == list(range(6))
    assert texts == [s.complete(PROMPTS[0], 9)] * 3 + [s.complete(PROMPTS[1], 9)] * 3
    assert s.metric("kept_tokens_total") > before
    b = s.post("/v1/completions", prompt="Once", n=4, max_tokens=9, temperature=1.5, seed=0, ignore_eos=True)
    c = s.post("/v1/completions", prompt="Once", n=4, max_tokens=9, temperature=1.5, seed=0, ignore_eos=True)
    assert b["choices"] == c["choices"] and len({x["text"] for x in b["choices"]}) == 4


def test_beams_find_what_is_likeliest_alone_and_together(s):
    def beam(prompt, width):
        choices = s.post("/v1/completions", prompt=prompt, max_tokens=7, beam_width=width, n=width,
                         ignore_eos=True, length_penalty=0)["choices"]
        return [(c["text"], c["score"]) for c in choices]

    alone = [beam(p, 3) for p in PROMPTS]
    assert together([lambda p=p: beam(p, 3) for p in PROMPTS]) == alone
    for answers, prompt in zip(alone, PROMPTS):
        scores = [score for _, score in answers]
        assert scores == sorted(scores, reverse=True) and len(set(answers)) == 3 and scores[0] < 0
        assert beam(prompt, 8)[0][1] >= beam(prompt, 2)[1][1]
    stream = s.events("/v1/completions", prompt="x", max_tokens=7, beam_width=3, ignore_eos=True)
    assert "".join(json.loads(d)["choices"][0]["text"] for d in stream[:-1])
    assert s.ask("POST", "/v1/completions", {"prompt": "x", "beam_width": 3, "n": 4})[0] == 400
    with s.other("--ctx-size", "256", "--slots", "6") as small:
        body = {"prompt": "x" * 20, "max_tokens": 100, "beam_width": 6, "ignore_eos": True}
        got = together([lambda: small.post("/v1/completions", **body)["choices"] for _ in range(3)])
        assert got[0] == got[1] == got[2]


def test_a_stream_gives_the_same_as_a_whole_answer(s):
    whole = s.post("/v1/completions", prompt="Hello", max_tokens=30, temperature=0, n=2)
    data = s.events("/v1/completions", prompt="Hello", max_tokens=30, temperature=0, n=2,
                    stream_options={"include_usage": True})
    assert data[-1] == "[DONE]"
    chunks = [json.loads(d) for d in data[:-1]]
    assert chunks[-1]["usage"] == {**whole["usage"], "prompt_tokens_details": chunks[-1]["usage"]
                                   ["prompt_tokens_details"]}
    for i in range(2):
        mine = [c["choices"][0] for c in chunks[:-1] if c["choices"][0]["index"] == i]
        assert "".join(c["text"] for c in mine) == whole["choices"][i]["text"]
        ends = [c["finish_reason"] for c in mine if c["finish_reason"]]
        assert ends == [whole["choices"][i]["finish_reason"]]

    whole = s.post("/v1/chat/completions", messages=CHAT, max_tokens=30, temperature=0)
    text = whole["choices"][0]["message"]["content"]
    data = s.events("/v1/chat/completions", messages=CHAT, max_tokens=30, temperature=0)
    chunks = [json.loads(d) for d in data[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == text
    assert "usage" not in chunks[-1]

    whole = s.post("/v1/messages", messages=CHAT, max_tokens=30, temperature=0)
    assert whole["content"] == [{"type": "text", "text": text}]
    events = [json.loads(d) for d in s.events("/v1/messages", messages=CHAT, max_tokens=30, temperature=0)]
    assert [e["type"] for e in events[:2]] == ["message_start", "content_block_start"]
    assert "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta") == text
    assert events[-2]["delta"]["stop_reason"] == whole["stop_reason"] and events[-1]["type"] == "message_stop"

    whole = s.post("/v1/responses", input="Say hi", max_output_tokens=30, temperature=0)
    assert whole["output"][0]["content"][0]["text"] == text
    data = s.events("/v1/responses", input=CHAT, max_output_tokens=30, temperature=0)
    events = [json.loads(d) for d in data]
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta") == text
    assert events[-1]["response"]["output"][0]["content"] == whole["output"][0]["content"]

    chunks = [json.loads(d) for d in s.events("/generate", prompt="Hello", max_tokens=30, temperature=0)[:-1]]
    assert "".join(c.get("text", "") for c in chunks) == s.post("/generate", prompt="Hello", max_tokens=30,
                                                                  temperature=0)["choices"][0]["text"]


def test_stop_texts_end_an_answer(s):
    text = s.complete("Hello", 60)
    stop = text[20:23]
    hello = {"prompt": "Hello", "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    a = s.post("/v1/completions", **hello, stop=[stop, "\0no"])
    assert a["choices"][0] == {**a["choices"][0], "text": text[:text.index(stop)], "finish_reason": "stop"}
    one = s.post("/v1/completions", **hello, stop=stop)
    assert one["choices"] == a["choices"]


def test_a_prompt_may_be_tokens_and_may_be_echoed(s):
    ids = s.post("/tokenize", content="Once upon", add_special=True)["tokens"]
    assert s.complete(ids, 12) == s.complete("Once upon", 12)
    assert s.complete("Once upon", 12, echo=True) == "Once upon" + s.complete("Once upon", 12)
    tokens = s.post("/tokenize", content="Once upon")["tokens"]
    assert s.post("/detokenize", tokens=tokens)["content"] == "Once upon"
    rendered = s.post("/apply-template", messages=CHAT)["prompt"]
    assert rendered == "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"


def test_what_begins_alike_is_right_whatever_the_tree_has(s):
    r = random.Random(5)
    letters = "ab"
    prompts = ["".join(r.choice(letters) for _ in range(r.randrange(1, 60))) for _ in range(60)]
    with s.other("--cache-sequences", "0", "--slots", "1") as plain:
        want = [plain.complete(p, 3) for p in prompts]
    with s.other("--cache-sequences", "5", "--slots", "3") as kept:
        for i in range(0, 60, 3):
            assert together([lambda p=p: kept.complete(p, 3) for p in prompts[i:i + 3]]) == want[i:i + 3]
        assert kept.metric("prefix_hits_total") > 10 and kept.metric("evicted_total") > 10


def test_kept_sequences_survive_a_restart(s):
    file = pathlib.Path(WORK.name, "cache")
    prompt = "What was computed before the end need not be computed again. " * 4

    def ask(server):
        a = server.post("/v1/completions", prompt=prompt, max_tokens=20, temperature=0)
        kept = a["usage"]["prompt_tokens_details"]["cached_tokens"]
        return a["choices"], kept / (a["usage"]["prompt_tokens"] - 1)

    with s.other("--cache-file", str(file)) as first:
        want, _ = ask(first)
    with s.other("--cache-file", str(file)) as second:
        got, kept = ask(second)
        assert got == want and kept == 1
    data = file.read_bytes()
    for damaged in (data[:len(data) // 2], data[:40] + b"x" * 40 + data[80:], b"", b"x" * 100):
        file.write_bytes(damaged)
        with s.other("--cache-file", str(file)) as third:
            got, kept = ask(third)
            assert got == want and kept == 0


# ---- the queue ----

def asking_socket(s, room=None, **body):
    """A connection on which that was asked; room: bytes that the system may keep for it."""
    c = socket.socket()
    c.settimeout(60 * SLOW)
    if room:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    c.connect(("127.0.0.1", s.port))
    text = json.dumps({"prompt": "Hello", "temperature": 0, "ignore_eos": True, **body})
    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n")
    c.sendall(f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
    return c


def stream_socket(s, n, room=None, **body):
    """A connection on which a long answer streams."""
    c = asking_socket(s, room, max_tokens=n, stream=True, **body)
    got = b""
    while b"data: " not in got:
        piece = c.recv(4096)
        assert piece, got
        got += piece
    return c


def test_a_full_queue_refuses_and_says_when_to_come_again(s):
    with s.other("--slots", "1", "--queue", "1", *ENDLESS) as one:
        running = stream_socket(one, FOREVER)
        waiting = threading.Thread(target=one.complete, args=("x", 2))
        waiting.start()
        one.wait_metric("waiting", 1)
        status, headers, answer = one.ask("POST", "/v1/completions", {"prompt": "y", "max_tokens": 1})
        assert status == 429 and int(headers["Retry-After"]) >= 1, answer
        assert answer["error"]["code"] == "queue_full" and one.metric("refused_total") == 1
        running.close()
        waiting.join()
        assert one.complete("y", 1)


def test_a_client_that_goes_makes_no_more_work(s):
    with s.other("--slots", "2", *ENDLESS) as two:
        running = stream_socket(two, FOREVER)
        running.close()
        two.wait_metric("cancelled_total", 1)
        two.idle()
        with asking_socket(two, max_tokens=FOREVER):                # nothing has come back yet
            two.wait_metric("running", 1)
        two.wait_metric("cancelled_total", 2)
        two.idle()


def test_a_deadline_ends_an_answer(s):
    with s.other(*ENDLESS) as one:
        status, _, answer = one.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": FOREVER,
                                                                "timeout": 0.02, "ignore_eos": True})
        assert status == 503 and answer["error"]["code"] == "timeout"


def test_a_higher_priority_goes_first(s):
    """The order is that in which answers begin: of two threads the later one may be scheduled first."""
    with s.other("--slots", "1", *ENDLESS) as one:
        running, waiting = stream_socket(one, FOREVER), {}
        for i, priority in enumerate((0, 1, 5)):
            waiting[priority] = asking_socket(one, max_tokens=FOREVER, stream=True, priority=priority)
            one.wait_metric("waiting", i + 1)
        order = []
        running.close()
        while waiting:
            ready, _, _ = select.select(waiting.values(), [], [], 60 * SLOW)
            got = {p: c for p, c in waiting.items() if c in ready and b"data: " in c.recv(65536)}
            assert len(got) <= 1, got           # there is one slot
            for priority, c in got.items():
                order.append(priority)
                waiting.pop(priority).close()
        assert order == [5, 1, 0]


def test_slow_clients_hurt_nobody(s):
    slow = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(60)]
    for c in slow:
        c.send(b"POST /v1/completions HTTP/1.1\r\nHo")
    lazy = [stream_socket(s, 20) for _ in range(20)]
    for c in slow:
        c.send(b"s")
    want = s.complete("Once", 30)
    assert together([lambda: s.complete("Once", 30) for _ in range(8)]) == [want] * 8
    for c in slow + lazy:
        c.close()
    s.alone()


# ---- the end ----

def test_sigterm_finishes_what_runs(s):
    with s.other() as last:
        c = stream_socket(last, 900)
        last.process.send_signal(signal.SIGTERM)
        got = b""
        while piece := c.recv(65536):
            got += piece
        c.close()
        assert got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert last.process.wait(20 * SLOW) == 0


def test_sigterm_waits_for_a_client_that_has_not_read_its_answer(s):
    with s.other() as last:
        c = stream_socket(last, 900, 4096, logprobs=20)
        last.idle()                     # made, but more than the sockets' buffers hold
        last.process.send_signal(signal.SIGTERM)
        last.wait_for(lambda: last.ask("GET", "/health")[0] == 503)     # it has noticed, and waits
        got = b""
        while piece := c.recv(65536):
            got += piece
        c.close()
        assert got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert last.process.wait(20 * SLOW) == 0


def test_many_requests_leave_nothing_behind(s):
    def some(seed):
        r = random.Random(seed)
        for _ in range(40):
            body = {"prompt": "p" * r.randrange(1, 80), "max_tokens": r.randrange(6), "n": r.randrange(1, 3)}
            s.ask("POST", "/v1/completions", {**body, "stream": r.random() < 0.5})

    together([lambda i=i: some(i) for i in range(4)])
    before = s.metric("resident_bytes")
    together([lambda i=i: some(i) for i in range(4, 8)])
    # The server counts an answer as over before it sends the last of it.
    figures = s.metrics("running", "waiting", "embedding_requests", "kv_blocks_free")
    assert figures.pop("kv_blocks_free") > 0 and not any(figures.values()), figures
    assert not any(slot["is_processing"] for slot in s.ask("GET", "/slots")[2])
    assert SLOW > 1 or s.metric("resident_bytes") < before + 4e6     # sanitizers keep freed memory


def test_an_answer_that_has_come_is_not_running(s):
    """The figures of a client that asks after its answer have it counted, whole."""
    with s.other("--slots", "1", "--queue", "0") as one:
        before = one.metrics("generated_tokens_total", "request_seconds_count")
        for i in range(1, 200 // SLOW):
            assert one.events("/v1/completions", prompt="x", max_tokens=3, ignore_eos=True)[-1] == "[DONE]"
            got = one.metrics("running", "waiting", *before)
            assert got["running"] == got["waiting"] == 0, (i, got)
            assert got["generated_tokens_total"] == before["generated_tokens_total"] + 3 * i, (i, got)
            assert got["request_seconds_count"] == before["request_seconds_count"] + 2 * i - 1, (i, got)
            assert not one.ask("GET", "/slots")[2][0]["is_processing"], i
            assert one.post("/v1/embeddings", input="x") and one.metric("embedding_requests") == 0


def test_openai_as_client(s):
    if not importlib.util.find_spec("openai"):
        return print("     the package openai is not here")
    import openai
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none")
    assert client.models.list().data[0].id == "tiny"
    text = client.completions.create(model="tiny", prompt="Once", max_tokens=9, temperature=0).choices[0].text
    assert text == s.post("/v1/completions", prompt="Once", max_tokens=9, temperature=0)["choices"][0]["text"]
    whole = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=9, temperature=0)
    stream = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=9, temperature=0,
                                            stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in stream) == whole.choices[0].message.content
    response = client.responses.create(model="tiny", input="Say hi", max_output_tokens=9, temperature=0)
    assert response.output_text == whole.choices[0].message.content
    with client.responses.stream(model="tiny", input="Say hi", max_output_tokens=9, temperature=0) as events:
        assert [e.delta for e in events if e.type == "response.output_text.delta"]
    try:
        client.chat.completions.create(model="tiny", messages=CHAT, seed="x")
        raise AssertionError("a seed that is none was taken")
    except openai.BadRequestError as e:
        assert e.code == "invalid_type" and e.param == "seed"
    if importlib.util.find_spec("anthropic"):
        import anthropic
        other = anthropic.Anthropic(base_url=f"http://127.0.0.1:{s.port}", api_key="none")
        asked = {"model": "tiny", "messages": CHAT, "max_tokens": 9, "extra_body": {"temperature": 0}}
        message = other.messages.create(**asked)
        assert message.content[0].text == whole.choices[0].message.content
        with other.messages.stream(**asked) as stream:
            assert "".join(stream.text_stream) == message.content[0].text


def test_smollm2_answers_together_as_alone(s):
    server = Server(s.program, model_path(s, "smollm2-135m-q4_1"), "--quiet", "--slots", "10")
    alone = [server.complete(p, 12) for p in PROMPTS]
    assert together([lambda p=p: server.complete(p, 12) for p in PROMPTS]) == alone
    server.end()


if __name__ == "__main__":
    run(__doc__, globals())
