#!/usr/bin/env python3
"""What qsf-serve makes of requests that are wrong on purpose: each gets the error of the right status, and
an answer under way keeps its pace.
SPDX-License-Identifier: MIT

    serve_hostile_test.py QSF_SERVE [NAME...]      the tests whose names have one of the words
"""
import asyncio
import functools
import http.client
import json
import pathlib
import random
import re
import socket
import statistics
import threading
import time

from serve_mix import GREEDY, SCHEMAS, TOOLS, Connection
from serve_server import CHAT, ENDLESS, FOREVER, SLOW, TESTS, run

HOST = b"Host: localhost\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\n" + HOST
HANG = 120 * SLOW
# One of every JSON type, and of numbers, texts and lists some that are unlike others.
VALUES = ["null", "true", "0", "-1", "1.5", "9223372036854775807", '""', '"x"', '"\\u0000"', "[]", "[1]",
          '["x"]', "{}", '{"type":"x"}']
MORE = ["false", "7", "-0.0", "1e308", "2147483648", "-9223372036854775808", "18446744073709551615",
        '"\\ud83d\\ude00"', "[[]]", "[null]", '{"a":1}']
APIS = {"COMPLETIONS": "/v1/completions", "CHAT": "/v1/chat/completions", "RESPONSES": "/v1/responses",
        "MESSAGES": "/v1/messages", "GENERATE": "/generate", "TOKENIZE": "/tokenize",
        "DETOKENIZE": "/detokenize", "TEMPLATE": "/apply-template"}
# What each interface needs at least.
LEAST = {"/v1/completions": {"prompt": "x", "max_tokens": 1},
         "/v1/chat/completions": {"messages": CHAT, "max_tokens": 1},
         "/v1/responses": {"input": "x", "max_output_tokens": 1},
         "/v1/messages": {"messages": CHAT, "max_tokens": 1},
         "/generate": {"prompt": "x", "max_tokens": 1}, "/tokenize": {"content": "x"},
         "/detokenize": {"tokens": [65]}, "/apply-template": {"messages": CHAT}}


def pace(times):
    """Seconds a piece: the median of runs of 20: pieces come in bursts where this program is late."""
    runs = [(times[i + 20] - times[i]) / 20 for i in range(0, len(times) - 20, 20)]
    return statistics.median(runs) if runs else None


def slowdown(s, work):
    """A stream runs alongside work(s): the time between its pieces over that of a stream alone, before or
    after, since other programs may need the processors more at one time than at another."""
    times, over = [], threading.Event()

    def stream():
        while not over.is_set():
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=HANG)
            c.request("POST", "/v1/completions", json.dumps({
                "prompt": "pace", "max_tokens": 900, "stream": True, "ignore_eos": True, **GREEDY}))
            r = c.getresponse()
            assert r.status == 200
            data = b""
            while not over.is_set() and (piece := r.read1()):
                times.append(time.monotonic())
                data = data[-20:] + piece
            assert over.is_set() or data.endswith(b"data: [DONE]\n\n"), data
            c.close()

    def alone():
        n = len(times)
        s.wait_for(lambda: len(times) > n + 300 or not thread.is_alive(), HANG)
        return pace(times[n:])

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        before, n = alone(), len(times)
        work(s)
        meanwhile = times[n:]
        after = alone()
    finally:
        over.set()
        thread.join()
    if not meanwhile: return float("inf")       # the stream stood still
    return pace(meanwhile) / max(before, after) if pace(meanwhile) else 0


def pace_is_kept(test, most=4, tries=3):
    """The test, with a concurrent stream that must keep its pace.  A fault of the server shows in each try;
    a machine that is busy with other things is not busy in all three."""
    @functools.wraps(test)
    def kept(s):
        ratios = []
        while not ratios or ratios[-1] >= most and len(ratios) < tries:
            ratios.append(slowdown(s, test))
        assert ratios[-1] < most, f"{ratios} times as slow as alone"
    return kept


# ---- wrong types ----

def fields():
    """(path, name, kind) of every field, from the table of them; kind: BOOL, WHOLE, COUNT, ..."""
    source = (TESTS.parent / "serve" / "request_fields.c").read_text()
    defines = dict(re.findall(r"#define (\w+) (.*)", source))
    found = []
    for a in re.finditer(r'^    (?:\{ "(\w+)", ([^,]+), FIELD_(\w+)|'
                         r'(NUMBER|COUNT|LIMIT|BOOL|TAKE|LATER|IDLE|UNUSED|REFUSED)\("(\w+)", ([^,)]+))',
                         source, re.M):
        name, apis, kind = a[1] or a[5], a[2] or a[6], a[3] or a[4]
        if a[4] in ("NUMBER", "COUNT"):                 # the second argument is a member
            apis = "SAMPLED"
        elif a[4] not in (None, "LIMIT", "BOOL"):
            kind = "OTHER"
        for _ in range(4):
            apis = re.sub(r"\b(" + "|".join(map(re.escape, (d for d in defines if "(" not in d))) + r")\b",
                          lambda m: defines[m[1]], apis)
        if "API_ANSWERS" in apis:
            apis += "API_COMPLETIONS API_CHAT API_RESPONSES API_MESSAGES API_GENERATE"
        if "API_MESSAGE_LISTS" in apis:
            apis += "API_CHAT API_RESPONSES API_MESSAGES API_TEMPLATE"
        for api, path in APIS.items():
            if re.search(rf"API_{api}\b", apis) or apis.strip() == "~0u":
                found.append((path, name, kind))
    return found


def is_wrong(kind, value):
    """Whether a field of this kind cannot be of this type."""
    v = json.loads(value)
    if v in (None, "", [], {}) or kind == "OTHER":          # empty: the default
        return False
    number = isinstance(v, (int, float)) and not isinstance(v, bool)
    return not {"BOOL": isinstance(v, bool), "TEXT": isinstance(v, str)}.get(
        kind, number if kind in ("NUMBER", "REAL") else number and v == int(v))


def ask_all(port, requests):
    """[(status, body)] of (path, body)s, eight at once."""
    answers = [None] * len(requests)
    left = iter(range(len(requests)))

    async def client():
        c = Connection(port)
        for i in left:
            answers[i] = await asyncio.wait_for(c.ask(*requests[i]), HANG)
        c.close()

    async def clients():
        await asyncio.gather(*(client() for _ in range(8)))

    asyncio.run(clients())
    return answers


def check_refusals(s, requests, wrong):
    """Every answer is one, or says what is wrong; never a failure of the server."""
    for (path, body), bad, (status, got) in zip(requests, wrong, ask_all(s.port, requests)):
        assert status in ((400,) if bad else (200, 400, 404)), (path, body, status, got[:300])
        if status == 200:
            continue
        error = json.loads(got)["error"]
        assert error["message"] and error["type"] == ("not_found_error" if status == 404 else
                                                      "invalid_request_error"), (path, body, got)
        if bad and path != "/v1/messages":
            assert error["code"] == "invalid_type", (path, body, got)


def test_every_field_of_every_type(s):
    table = fields()
    assert len({name for _, name, _ in table}) > 80 and len(table) > 250
    requests, wrong, r = [], [], random.Random(2)
    for path, name, kind in table:
        for value in VALUES + r.sample(MORE, 2):
            least = {k: v for k, v in LEAST[path].items() if k != name}
            requests.append((path, json.dumps(least)[:-1] + f'{", " if least else ""}"{name}": {value}}}'))
            wrong.append(is_wrong(kind, value))
    if SLOW > 1:
        some = random.Random(1).sample(range(len(requests)), 1200)
        requests, wrong = [requests[i] for i in some], [wrong[i] for i in some]
    check_refusals(s, requests, wrong)
    print(f"     {len(requests)} requests, {sum(wrong)} of them with a wrong type for certain")


def nodes(v, at=()):
    yield at
    for k, inner in v.items() if isinstance(v, dict) else enumerate(v) if isinstance(v, list) else ():
        yield from nodes(inner, (*at, k))


def changed(v, at, marker):
    if not at:
        return marker
    copy = dict(v) if isinstance(v, dict) else list(v)
    copy[at[0]] = changed(v[at[0]], at[1:], marker)
    return copy


CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
NESTED = [
    ("/v1/chat/completions", {"messages": [
        {"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "x"}], "tools": TOOLS, "max_tokens": 1,
        "tool_choice": {"type": "function", "function": {"name": "look"}}}),
    ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1, "logit_bias": {"65": 1},
                              "chat_template_kwargs": {"a": [1]}, "stream_options": {"include_usage": True},
                              "response_format": {"type": "json_schema", "json_schema": {
                                  "name": "x", "strict": True, "schema": SCHEMAS[0]}}}),
    ("/v1/completions", {"prompt": ["x", "y"], "stop": ["a", "b"], "max_tokens": 1, "logit_bias": [[65, 1]],
                         "bad_words": ["q"], "dry_sequence_breakers": ["z"],
                         "structured_outputs": {"choice": ["a", "b"]}}),
    ("/v1/messages", {"system": [{"type": "text", "text": "x"}], "max_tokens": 1, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "look", "input": {"b": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}],
        "tools": [{"name": "look", "input_schema": SCHEMAS[0]}], "tool_choice": {"type": "auto"}}),
    ("/v1/responses", {"input": [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "x"}], "max_output_tokens": 1,
        "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMAS[0]}}}),
]


def test_every_part_of_every_type(s):
    requests = []
    for path, whole in NESTED:
        assert s.ask("POST", path, whole)[0] == 200, s.ask("POST", path, whole)
        for at in nodes(whole):
            if at:
                text = json.dumps(changed(whole, at, "@@"))
                requests += [(path, text.replace('"@@"', value)) for value in VALUES]
    if SLOW > 1:
        requests = random.Random(1).sample(requests, 200)
    check_refusals(s, requests, [False] * len(requests))


# ---- what is large, deep, broken ----

def repeated(word, n, end=""):
    return word * n + end


def bombs():
    deep = {"type": "integer"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3000)}}
    many = {"anyOf": [{"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": 500}}}
                      for i in range(800)]}
    fan = {f"d{i}": {"type": "array", "minItems": 9, "maxItems": 9, "items": {"$ref": f"#/$defs/d{i + 1}"}}
           for i in range(12)}
    fan["d12"] = {"type": "string"}
    schemas = [deep, wide, many, {"$ref": "#/$defs/d0", "$defs": fan},
               {"enum": [f"{i:09d}" * 3 for i in range(30000)]},
               {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
               {"$ref": "#"}, {"allOf": [{"$ref": "#"}]},
               {"$ref": "#/$defs/a",
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}},
               {"type": "array", "minItems": 10 ** 9}, {"type": "string", "minLength": 10 ** 15},
               {"type": "integer", "minimum": -10 ** 300, "maximum": 10 ** 300},
               {"type": "string", "pattern": "(((a{1,99}){1,99}){1,99}){1,99}"},
               {"type": "string", "pattern": "(a|b|ab|ba|aab){50}" * 40}]
    regexes = ["(x+x+)+y", "((((a{0,300}){0,300}){0,300}){0,300}){0,300}", "(a?){500}a{500}", "[a-z]{100000}",
               "(" * 500 + "a" + ")" * 500, "(" * 5000, "a{1,1000000000}", "(.*.*.*.*.*.*)*z",
               "[" + "a-z" * 9000]
    grammars = ["root ::= root root | \"\"", "root ::= a\na ::= b\nb ::= a",
                "root ::= " + "(" * 900 + "\"a\"" + ")" * 900,
                "root ::= ((\"a\"{0,300}){0,300}){0,300}", "root ::= nowhere",
                "root ::= " + " | ".join(f'"{i}"' for i in range(20000)),
                "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "a"\nroot ::= r0']
    for schema in schemas:
        yield {"response_format": {"type": "json_schema", "json_schema": {"strict": True, "schema": schema}}}
    yield from ({"regex": r} for r in regexes)
    yield from ({"grammar": g} for g in grammars)


@pace_is_kept
def test_schema_bombs_hurt_nobody(s):
    body = {"prompt": "x", "max_tokens": 2, "timeout": 60 * SLOW}
    for bomb in bombs():
        status, _, answer = s.ask("POST", "/v1/completions", {**body, **bomb}, timeout=HANG)
        assert status in (200, 400), (status, answer, str(bomb)[:120])
        assert status == 200 or answer["error"]["code"] in ("invalid_schema", "invalid_value",
                                                                   "invalid_json"), answer
    assert s.post("/v1/completions", prompt="x", max_tokens=2, regex="a")["choices"]


@pace_is_kept
def test_what_is_too_much_is_refused(s):
    for path, body, status in (
        ("/v1/completions", '{"prompt": "' + "x" * 7_000_000 + '"}', 400),
        ("/v1/completions", '{"prompt": [' + "65," * 2_000_000 + "65]}", 400),
        ("/v1/completions", '{"prompt": ' + repeated("[", 3_000_000, "}"), 400),
        ("/v1/completions", '{"prompt": ' + repeated('{"a":', 60, "1") + "}" * 61, 400),
        ("/v1/completions", '{"prompt": ' + repeated('{"a":', 1_000_000, "1"), 400),
        ("/v1/completions", repeated('{"a":1,', 1, "") + repeated('"b":1,', 900_000, '"c":1}'), 400),
        ("/v1/completions", {"prompt": "x", "stop": [f"s{i}" for i in range(10000)]}, 400),
        ("/v1/completions", {"prompt": "x", "n": 100000}, 400),
        ("/v1/completions", {"prompt": "x", "best_of": 100000}, 400),
        ("/v1/completions", {"prompt": "x", "logit_bias": {str(i): 1 for i in range(100000)}}, 400),
        ("/v1/completions", {"prompt": "x", "max_tokens": 10 ** 15}, 200),
        ("/v1/completions", {"prompt": "x", "bad_words": ["y" * 1000] * 256, "max_tokens": 1}, 200),
        ("/v1/completions", {"prompt": "x", "bad_words": ["y"] * 10000}, 400),
        ("/v1/completions", {"prompt": "x", "session_id": "s" * 1_000_000, "max_tokens": 1}, 200),
        ("/v1/completions", {"prompt": "x", "model": "m" * 1_000_000, "max_tokens": 1}, 200),
        ("/v1/chat/completions", {"messages": CHAT, "tools": TOOLS * 10000}, 400),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 5_000_000}]}, 400),
        ("/v1/chat/completions", {"messages": CHAT, "metadata": {str(i): i for i in range(200000)},
                                  "max_tokens": 1}, 200),
        ("/v1/chat/completions", {"messages": CHAT, "chat_template_kwargs": {
            str(i): i for i in range(100000)}}, 400),
        ("/v1/chat/completions", {"messages": CHAT, "chat_template_kwargs": {
            "a": {str(i): i for i in range(100000)}}, "max_tokens": 1}, 200),
        ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1, "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {str(i): {} for i in range(50000)}}}}]}, 400),
        ("/tokenize", {"content": "x" * 2_000_000}, 400),
        ("/detokenize", '{"tokens": [' + "-1," * 1_000_000 + "1]}", 400),
    ):
        got, _, answer = s.ask("POST", path, body, timeout=HANG)
        assert got == status, (path, str(body)[:60], got, str(answer)[:300])


def broken(r, text):
    """Bytes of a JSON text, damaged."""
    data = bytearray(text.encode())
    for _ in range(r.randrange(1, 4)):
        at, kind = r.randrange(len(data)), r.randrange(4)
        if kind == 0:
            data[at] = r.randrange(256)
        elif kind == 1:
            del data[at:at + r.randrange(1, 9)]
        elif kind == 2:
            data[at:at] = r.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b'"', b"{", b"]", b"\\u12"))
        else:
            data = data[:at + 1]
        if not data:
            data = bytearray(b"{")
    return bytes(data).decode("latin-1")


def test_broken_json_and_texts_that_are_none(s):
    r = random.Random(7)
    for path, text in (("/v1/completions", '{"prompt": "a\xff"}'),
                       ("/tokenize", '{"content": "\xed\xa0\x80"}'),
                       ("/v1/chat/completions", '{"messages": [{"role": "user", "content": "\xc0\x80"}]}')):
        status, _, answer = s.ask("POST", path, text.encode("latin-1"))
        assert status == 400 and answer["error"]["code"] == "invalid_json"
    for _ in range(1500 // SLOW):
        path, whole = r.choice(NESTED)
        status, _, answer = s.ask("POST", path, broken(r, json.dumps(whole)).encode("latin-1"))
        assert status in (200, 400, 404) and (status == 200 or answer["error"]["message"]), answer


# ---- HTTP ----

def statuses(data):
    return [int(a) for a in re.findall(rb"HTTP/1\.1 (\d\d\d) ", data)]


def test_smuggled_requests_do_not_come_through(s):
    """After each comes a request that must not be answered, even if the first one is read as shorter."""
    inner = b"GET /slots HTTP/1.1\r\n" + HOST + b"\r\n"
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    for head in (
        POST + both, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        *(POST + b"Content-Length:" + length + b"\r\n\r\n{}" for length in (
            b" +2", b" -2", b" 2 2", b" 2,2", b" 0x2", b" 2\r\nContent-Length: 2", b" 2\r\nContent-Length: 9",
            b" 2\r\n\t", b" 2\r\n ", b" \x0b2", b" 2;", b" 2.0", b" two", b"", b" 1e1", b" \xd9\xa2",
            b" 2\x00")),
        *(POST + coding + b"\r\n\r\n0\r\n\r\n" for coding in (
            b"Transfer-Encoding : chunked", b"Transfer-Encoding: xchunked",
            b"Transfer-Encoding: chunked, identity",
            b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", b"Transfer-Encoding:\x0bchunked",
            b"Transfer-Encoding\r\n : chunked", b" Transfer-Encoding: chunked",
            b"Transfer-Encoding: \"chunked\"",
            b"X: y\rTransfer-Encoding: chunked", b"X: y\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked;q=1", b"Transfer-Encoding:", b"Transfer-Encoding: gzip, chunked")),
        *(chunked + chunk for chunk in (
            b"+2\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n",
            b" 2\r\n{}\r\n0\r\n\r\n",
            b"2 2\r\n{}\r\n0\r\n\r\n", b"2\n{}\r\n0\r\n\r\n", b"2\r\n{}\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n",
            b"2;a\nb\r\n{}\r\n0\r\n\r\n", b"2 \r\n{}\r\n0\r\n\r\n", b";a\r\n{}\r\n0\r\n\r\n",
            b"\r\n{}\r\n0\r\n\r\n",
            b"2\r{}\r\n0\r\n\r\n", b"100000000000000000002\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\n\n",
            b"2\r\n{}\r\n0\r\na: b\nc: d\r\n\r\n", b"2_0\r\n{}\r\n0\r\n\r\n",
            b"2;" + b"x" * 70000 + b"\r\n")),
        POST[:-2] + b"\n\n", b"POST /v1/completions HTTP/1.1\nHost: localhost\n\n", b"\n" + inner,
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"Origin: http://a\r\nOrigin: http://localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"X-Api-Key: a\r\nX-Api-Key: b\r\n\r\n",
        b"GET /health HTTP/1.1 \r\n" + HOST + b"\r\n", b"GET /health HTTP/1.10\r\n" + HOST + b"\r\n",
        b"GET /hea\tlth HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /health HTTP/0.9\r\n" + HOST + b"\r\n",
        b"GET /health http/1.1\r\n" + HOST + b"\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ):
        got = s.raw(head + inner, half=head.startswith(b"\x16"))
        assert len(statuses(got)) == 1 and statuses(got)[0] in (400, 413, 501, 505), (head[-80:], got[:300])
        assert b"\"state\"" not in got and b"Connection: close\r\n" in got, (head[-80:], got)


def test_half_closed_sockets_get_their_answer(s):
    get = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"
    assert statuses(s.raw(get, half=True)) == [200]
    assert statuses(s.raw(get * 500, half=True)) == [200] * 500
    metrics = b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n"
    assert statuses(s.raw(metrics * 200, half=True)) == [200] * 200
    assert statuses(s.raw(get + get[:20], half=True)) == [200, 400]
    assert statuses(s.raw(POST + b"Content-Length: 100\r\n\r\n{", half=True)) == [400]
    assert statuses(s.raw(POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", half=True)) == [400]
    assert s.raw(b"", half=True) == b""
    # while an answer is made, whoever ends their side has gone
    body = b'{"prompt": "x", "max_tokens": %d, "ignore_eos": true}' % FOREVER
    with s.other(*ENDLESS) as one:
        assert one.raw(POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body), half=True) == b""
        one.wait_metric("cancelled_total", 1)


def test_pipelined_requests_are_answered_in_their_order(s):
    body = [json.dumps({"content": str(i)}).encode() for i in range(40)]
    data = b"".join(b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n%s" % (len(b), b)
                    for b in body)
    slow = json.dumps({"prompt": "x", "max_tokens": 5, "temperature": 0}).encode()
    data += POST + b"Content-Length: %d\r\n\r\n%s" % (len(slow), slow)
    data += b"GET /health HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
    got = s.raw(data)
    assert statuses(got) == [200] * 42
    at = [got.index(json.dumps(s.post("/tokenize", content=str(i)), separators=(",", ":")).encode())
          for i in (0, 9, 19, 39)]
    assert at == sorted(at) and at[-1] < got.index(b"text_completion") and got.endswith(b'{"status":"ok"}')


@pace_is_kept
def test_bodies_of_100_megabytes_and_heads_of_one_are_refused(s):
    before = s.metric("resident_bytes")
    big = b"x" * (100 << 20)
    assert statuses(s.raw(POST + b"Content-Length: %d\r\n\r\n" % len(big) + big)) == [413]
    chunk = b"100000\r\n" + big[:1 << 20] + b"\r\n"
    assert statuses(s.raw(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 100)) == [413]
    for line in (b"X: " + big[:1 << 20], b"a: b\r\n" * 170000, b"X" * (1 << 20)):
        assert statuses(s.raw(POST + line + b"\r\n\r\n")) == [431]
    assert statuses(s.raw(b"GET /" + big[:1 << 20])) == [431]
    assert SLOW > 1 or s.metric("resident_bytes") < before + 30e6


def test_who_may_not_ask_need_not_send_a_body(s):
    with s.other("--api-key", "key") as locked:
        head = POST + b"Content-Length: 8000000\r\n"
        for more, status in ((b"", 401), (b"X-Api-Key: other\r\n", 401), (b"Origin: http://evil\r\n", 403)):
            with socket.create_connection(("127.0.0.1", locked.port), timeout=HANG) as c:
                c.sendall(head + more + b"Expect: 100-continue\r\n\r\n")
                assert statuses(c.recv(4096)) == [status]


if __name__ == "__main__":
    run(__doc__, globals())
