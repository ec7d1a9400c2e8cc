"""Requests of all kinds, in a seeded order, and a client that sends many of them at once.
SPDX-License-Identifier: MIT
"""
import asyncio
import json

GREEDY = {"temperature": 0}
SCHEMAS = [{"type": "object", "properties": {f"k{i}": {"enum": [i, "x"]}}, "required": [f"k{i}"],
            "additionalProperties": False} for i in range(8)]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}}}]
HOST = b"Host: localhost\r\n"


def chat(r, **more):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": text(r)}],
                                    "max_tokens": r.randrange(1, 7), **more}


def completion(r, **more):
    return "/v1/completions", {"prompt": text(r), "max_tokens": r.randrange(1, 7), "ignore_eos": True, **more}


def text(r):
    """Some begin alike, most do not."""
    return r.choice(("The same beginning as others have. ", "", "")) + "".join(
        r.choice("abcdefgh ") for _ in range(r.randrange(1, 50)))


# A kind: what makes the path and the body, and the statuses that are right.
KINDS = {
    "completion": (completion, {200}),
    "greedy": (lambda r: completion(r, **GREEDY), {200}),
    "stream": (lambda r: completion(r, stream=True), {200}),
    "chat": (chat, {200}),
    "chat stream": (lambda r: chat(r, stream=True, stream_options={"include_usage": True}), {200}),
    "several": (lambda r: completion(r, n=r.randrange(2, 5)), {200}),
    "several streams": (lambda r: completion(r, n=3, stream=True), {200}),
    "best of": (lambda r: completion(r, n=1, best_of=3), {200}),
    "beam": (lambda r: completion(r, beam_width=3, n=2), {200}),
    "prompts": (lambda r: completion(r, prompt=[text(r), text(r)]), {200}),
    "schema": (lambda r: chat(r, response_format={"type": "json_schema", "schema": r.choice(SCHEMAS)}),
               {200}),
    "regex": (lambda r: completion(r, regex="[ab]{1,3}c"), {200}),
    "grammar": (lambda r: completion(r, grammar='root ::= "yes" | "no"'), {200}),
    "tools": (lambda r: chat(r, tools=TOOLS), {200}),
    "a call": (lambda r: chat(r, tools=TOOLS, tool_choice="required", stream=r.random() < 0.5), {200}),
    "probabilities": (lambda r: completion(r, logprobs=3), {200}),
    "biases": (lambda r: completion(r, logit_bias={"65": 5, "66": -100}, stop=["zq"]), {200}),
    "samplers": (lambda r: completion(r, top_k=9, min_p=0.1, dry_multiplier=0.5, mirostat=2), {200}),
    "session": (lambda r: completion(r, session_id=f"s{r.randrange(6)}"), {200}),
    "priority": (lambda r: completion(r, priority=r.randrange(-9, 10)), {200}),
    "messages": (lambda r: ("/v1/messages", {"messages": [{"role": "user", "content": text(r)}],
                                             "max_tokens": 4, "stream": r.random() < 0.5}), {200}),
    "responses": (lambda r: ("/v1/responses", {"input": text(r), "max_output_tokens": 4,
                                               "stream": r.random() < 0.5}), {200}),
    "generate": (lambda r: ("/generate", {"prompt": text(r), "max_tokens": 3}), {200}),
    "tokenize": (lambda r: ("/tokenize", {"content": text(r)}), {200}),
    "detokenize": (lambda r: ("/detokenize", {"tokens": [65, 66, r.randrange(3, 200)]}), {200}),
    "template": (lambda r: ("/apply-template", {"messages": [{"role": "user", "content": text(r)}]}), {200}),
    "metrics": (lambda r: (r.choice(("/metrics", "/slots", "/health", "/v1/models")), None), {200}),
    "late": (lambda r: completion(r, max_tokens=200, timeout=0.002), {200, 503}),
    "wrong type": (lambda r: completion(r, n="x"), {400}),
    "unknown field": (lambda r: chat(r, tempersture=1), {200}),
    "any model": (lambda r: completion(r, model="another"), {200}),
    "wrong path": (lambda r: ("/nowhere", {"a": 1}), {404}),
    "wrong schema": (lambda r: chat(r, response_format={"type": "json_schema", "strict": True, "schema": {
        "type": "object", "patternProperties": {"(": {}}}}), {400}),
    "too long": (lambda r: completion(r, prompt="y" * 3000), {400}),
    "no JSON": (lambda r: ("/v1/completions", '{"prompt": '), {400}),
    "gone": (lambda r: completion(r, max_tokens=300, stream=r.random() < 0.5), None),
}


class Connection:
    """One that is kept from request to request."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def send(self, path, body):
        if not self.writer:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        if body is None:
            self.writer.write(b"GET %s HTTP/1.1\r\n%s\r\n" % (path.encode(), HOST))
        else:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.writer.write(b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s"
                              % (path.encode(), HOST, len(data), data))
        await self.writer.drain()

    async def head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        return int(head.split(" ", 2)[1]), head

    async def ask(self, path, body):
        """(status, body)"""
        await self.send(path, body)
        status, head = await self.head()
        if "transfer-encoding: chunked" in head:
            got = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                got += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        else:
            got = await self.reader.readexactly(int(head.split("content-length: ", 1)[1].split("\r", 1)[0]))
        if "connection: close" in head:
            self.close()
        return status, got

    def close(self):
        if self.writer:
            self.writer.transport.abort()
        self.reader = self.writer = None


async def one(c, r, kind):
    """Asks for one request of a kind, and looks at its answer."""
    make, right = KINDS[kind]
    path, body = make(r)
    if right is None:
        await c.send(path, body)
        if r.random() < 0.5:
            await asyncio.sleep(r.random() * 0.01)
        c.close()
        return
    status, got = await c.ask(path, body)
    assert status in right, (kind, status, body, got[:300])
    if status != 200:
        assert json.loads(got)["error"]["message"], (kind, got)
    elif not body:
        assert got
    elif isinstance(body, dict) and body.get("stream"):
        assert got.startswith((b"data: ", b"event: ")) and got.endswith(b"\n\n"), got
        assert b"\"error\":{" not in got, got
    else:
        json.loads(got)
