#!/usr/bin/env python3
"""What surrounds the computing of a token in qsf-serve: choosing it, log probabilities, grammars, tools,
streams, long histories, many kept conversations.
SPDX-License-Identifier: MIT

    around.py QSF_SERVE MODEL [--threads 2] [--rounds 5] [--tokens 64]

Each row is one kind of request, asked in turns with the plain one (greedy, not streamed), a round each. It is
the processor time of all of the server's threads (Linux: /proc), because other programs change that least: of
a token of the plain request, and what a token of each other kind takes besides. Then comes what a request
takes before its first token, if its prompt is in the cache: reading it, the chat template, the tokenizer, the
search for the prefix, and one pass of the model; for a short conversation, for a long one, and with 50 others
kept.
"""
import argparse, json, pathlib, random, statistics, sys, time, urllib.request

from serve import Running

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
                                           "notes": {"type": "array", "items": {"type": "string"}}},
          "required": ["name", "age", "notes"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a city",
                                         "parameters": {"type": "object", "required": ["city"],
                                                        "properties": {"city": {"type": "string"}}}}}
KINDS = {
    "plain: greedy": {"temperature": 0},
    "the defaults (temperature 1)": {},
    "temperature 0.7, top-p 0.95, penalties": {"temperature": 0.7, "top_p": 0.95, "frequency_penalty": 0.3},
    "log probabilities, 20 of each token": {"temperature": 0, "logprobs": True, "top_logprobs": 20},
    "a JSON schema, greedy": {"temperature": 0, "response_format": {
        "type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": SCHEMA}}},
    "a JSON schema, the defaults": {"response_format": {
        "type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": SCHEMA}}},
    "a tool, the defaults": {"tools": [TOOL]},
    "a stream of chunks": {"temperature": 0, "stream": True},
    "a stream with 20 log probabilities": {"stream": True, "logprobs": True, "top_logprobs": 20},
}


def processor_ms(server):
    """Of all threads so far."""
    total = 0
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:                             # it has ended meanwhile
            pass
    return total / 1e6


def ask(server, messages, n, more):
    """(ms of processor time, ms on the clock, tokens)"""
    body = {"messages": messages, "max_tokens": n, "ignore_eos": True, **more}
    if "response_format" in more:
        del body["ignore_eos"]
    if body.get("stream"):
        body["stream_options"] = {"include_usage": True}
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/chat/completions",
                                     json.dumps(body).encode(), {"Content-Type": "application/json"})
    before, begin = processor_ms(server), time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as r:
        whole = r.read().decode()
    clock, used = 1e3 * (time.perf_counter() - begin), processor_ms(server) - before
    if body.get("stream"):
        whole = [line for line in whole.splitlines() if '"usage":{' in line][-1].removeprefix("data: ")
    return used, clock, json.loads(whole)["usage"]["completion_tokens"]


def show_kinds(server, a):
    messages = [{"role": "user", "content": "Tell me about a person that you know."}]
    plain, besides = [], {k: [] for k in KINDS}
    for more in KINDS.values():
        ask(server, messages, 4, more)
    for _ in range(a.rounds):
        for kind, more in KINDS.items():
            used, _, tokens = ask(server, messages, a.tokens, more)
            if kind == "plain: greedy":
                plain.append(used / tokens)
            besides[kind].append(used / tokens - plain[-1])
    token = statistics.median(plain)
    print(f"{'plain: greedy':42} {token:7.2f} ms a token")
    for kind in list(KINDS)[1:]:
        more = statistics.median(besides[kind])
        print(f"{kind:42} {1e3 * more:+7.0f} us, {100 * more / token:+6.2f} %", flush=True)


def history(r, size):
    """Messages of at least size bytes in all."""
    words = "the of and to in is that for it with as was on be at by this have from or had not are".split()
    messages, n = [], 0
    while n < size or len(messages) % 2 == 0:
        text = " ".join(r.choice(words) for _ in range(60))
        messages.append({"role": ("user", "assistant")[len(messages) % 2], "content": text})
        n += len(text)
    return messages


def first_of(server, messages):
    """(ms of processor time, ms on the clock) before the first token of a prompt that is in the cache."""
    ask(server, messages, 1, {"temperature": 0})
    times = [ask(server, messages, 1, {"temperature": 0})[:2] for _ in range(9)]
    return [statistics.median(t) for t in zip(*times)]


def show_first(server, a):
    r = random.Random(4)
    others = [history(r, 600) for _ in range(50)]

    def show(what, times):
        print(f"first token, {what:30} {times[0]:7.2f} ms, {times[1]:.2f} on the clock", flush=True)

    show("100 bytes", first_of(server, history(r, 100)))
    show(f"{a.history} bytes", first_of(server, history(r, a.history)))
    show("600 bytes", first_of(server, others[25]))
    for messages in others:
        ask(server, messages, 1, {"temperature": 0})
    show("600 bytes, 50 others kept", first_of(server, others[25]))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("program")
    p.add_argument("model")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--context", type=int, default=32768)
    p.add_argument("--history", type=int, default=30000, help="bytes, 30000")
    p.add_argument("--port", type=int, default=18092)
    a = p.parse_args()
    command = [a.program, a.model, "--port", a.port, "-t", a.threads, "-np", 4, "-c", a.context, "--quiet",
               "--cache-sequences", 60]
    server = Running("qsf-serve", command, a.port, True)
    try:
        show_kinds(server, a)
        show_first(server, a)
    finally:
        server.end()


if __name__ == "__main__":
    sys.exit(main())
