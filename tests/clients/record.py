"""A proxy that keeps what clients and servers say through it, and what to make of that.
SPDX-License-Identifier: MIT
"""
import http.client
import io
import json
import re
import select
import socket
import threading
import time

HEADERS = "authorization", "x-api-key", "anthropic-version", "content-type", "accept"
OWN_END = {"incomplete_details"}       # where an answer ends is the model's
EXACT = {"type", "object", "role", "code", "param", "event"}     # values that a client may look at


# ---- the proxy: bytes go both ways unchanged ----

class Recorder:
    """What one client said, to as many servers as it talks to."""

    def __init__(self):
        self.step, self.connections = None, []

    def proxy(self, port):
        """A port that leads to this one."""
        door = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._doorman, args=(door, port), daemon=True).start()
        return door.getsockname()[1]

    def _doorman(self, door, port):
        while True:
            client = door.accept()[0]
            kept = {"asked": [], "answered": io.BytesIO()}
            self.connections.append(kept)
            server = socket.create_connection(("127.0.0.1", port))
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass, args=(client, server, kept), daemon=True).start()

    def _pass(self, client, server, kept):
        try:
            while True:
                for s in select.select([client, server], [], [])[0]:
                    data = s.recv(65536)
                    if not data:
                        return
                    if s is client:
                        kept["asked"].append((time.monotonic(), self.step, data))
                        server.sendall(data)
                    else:
                        kept["answered"].write(data)
                        client.sendall(data)
        except OSError:
            pass
        finally:
            client.close()
            server.close()

    def transcript(self):
        """[{"step": ..., "exchanges": [...]}] in the order of coming."""
        found = [x for kept in self.connections for x in exchanges(kept)]
        steps = {}
        for _, step, exchange in sorted(found, key=lambda x: x[0]):
            steps.setdefault(step, []).append(exchange)
        return [{"step": s, "exchanges": in_order(of)} for s, of in steps.items()]


def in_order(found):
    """Concurrent requests, which have no order of their own, are sorted; a retry with the same content is
    dropped."""
    if len(found) > 4:
        found = sorted(found, key=lambda x: (x["status"] != 401, json.dumps(x["body"], sort_keys=True)))
    return [x for i, x in enumerate(found)
            if not i or (x["body"], x["status"]) != (found[i - 1]["body"], found[i - 1]["status"])]


# ---- bytes as exchanges ----

def exchanges(kept):
    """(time, step, exchange) of each request of a connection."""
    data, starts = b"", []
    for when, step, piece in kept["asked"]:
        starts.append((len(data), when, step))
        data += piece
    answers = io.BytesIO(kept["answered"].getvalue())
    at = 0
    while b"\r\n\r\n" in data[at:]:
        when, step = [(w, s) for begin, w, s in starts if begin <= at][-1]
        request = io.BytesIO(data[at:])
        method, path, _ = request.readline().decode().split(" ")
        headers = http.client.parse_headers(request)
        body = request.read(int(headers.get("content-length", 0)))
        if "chunked" in headers.get("transfer-encoding", ""):
            body = unchunked(request)
        at += request.tell()
        answer = answer_in(answers, method)
        body = None if answer["status"] == 401 else tidy(as_json(body))     # strangers may not get to send it
        yield when, step, {"method": method, "path": path,
                           "headers": {h: headers[h] for h in HEADERS if h in headers},
                           "body": body, **answer}


def unchunked(f):
    body = b""
    while n := int(f.readline(), 16):
        body += f.read(n)
        f.readline()
    f.readline()
    return body


class Bytes:
    """What http.client takes for a socket."""

    def __init__(self, stream):
        self.stream = stream

    def makefile(self, mode):
        return io.BufferedReader(Kept(self.stream), 1)


class Kept(io.RawIOBase):
    def __init__(self, stream):
        self.stream = stream

    def readable(self):
        return True

    def readinto(self, out):
        piece = self.stream.read(len(out))
        out[:len(piece)] = piece
        return len(piece)


def answer_in(stream, method):
    r = http.client.HTTPResponse(Bytes(stream), method=method)
    try:
        r.begin()
    except (http.client.HTTPException, ConnectionError):
        return {"status": None}                     # the client went before there was one
    whole, answer = True, {"status": r.status, "type": r.headers.get("Content-Type")}
    if "Retry-After" in r.headers:
        answer["retry-after"] = r.headers["Retry-After"]
    try:
        text = r.read()
    except http.client.IncompleteRead as e:
        text, whole = e.partial, False
    if answer["type"] == "text/event-stream":
        return {**answer, "events": events_of(text.decode(errors="replace"), whole)}
    if answer["type"] == "application/x-ndjson":
        found = [tidy(as_json(line)) for line in text.split(b"\n")[:-1]]
        return {**answer, "events": shortened(found) if whole else found[:1]}
    return {**answer, "answer": tidy(as_json(text))}


def as_json(text):
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")


def events_of(text, whole):
    found = []
    for block in text.split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        data = tidy(as_json(lines["data"].encode()))
        found.append({"event": lines["event"], "data": data} if "event" in lines else data)
    return shortened(found) if whole else found[:1]


def shortened(found):
    """Of like events in a row the first two."""
    out, alike = [], 0
    for i, e in enumerate([*found, None]):
        if i and e is not None and shape(e) == shape(found[i - 1]):
            alike += 1
        else:
            if alike > 1:
                out.append(f"... {alike - 1} more like it")
            alike = 0
        if alike < 2 and e is not None:
            out.append(e)
    return out


# ---- what changes from run to run, and from machine to machine ----

IDS = re.compile(r"\b(chatcmpl|cmpl|msg|resp|call|fc|rs|toolu|run|lc|gen)([-_]+)[-_0-9A-Za-z]{8,}|"
                 r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


CALL_IDS = {"tool_call_id", "call_id", "tool_use_id"}
TIMES = {"created", "created_at", "modified_at", "digest", "total_duration", "load_duration", "eval_duration",
         "prompt_eval_duration"}


def tidy(v):
    """Without ids and times."""
    if isinstance(v, dict):
        calls = CALL_IDS | ({"id"} if v.get("type") in ("function", "tool_use") or "function" in v else set())
        times = {k: type(v[k])() for k in TIMES if isinstance(v.get(k), (int, str))}
        return {k: times[k] if k in times else "id" if k in calls else tidy(x) for k, x in v.items()}
    if isinstance(v, list):
        return [tidy(x) for x in v]
    return IDS.sub(lambda m: f"{m[1]}{m[2]}0" if m[1] else "uuid", v) if isinstance(v, str) else v


def shape(v):
    """The keys and kinds of a value, and what a client looks at; lists: which kinds of items they have."""
    if isinstance(v, dict):
        return {k: x if k in EXACT and isinstance(x, str) else "any" if k in OWN_END else shape(x)
                for k, x in v.items()}
    if isinstance(v, list):
        kinds = {json.dumps(shape(x), sort_keys=True) for x in v}
        if any('"type": "tool_use"' in kind for kind in kinds):     # a model may say something before a call
            kinds = {kind for kind in kinds if '"type": "text"' not in kind}
        return sorted(kinds)
    return "null" if v is None else "text" if isinstance(v, str) else type(v).__name__.replace("float", "int")


def asked(v, own=False):
    """A request without what the model had said before: that may differ from machine to machine."""
    if isinstance(v, dict):
        own |= v.get("role") == "assistant" or v.get("type") in ("function_call", "reasoning")
        return {k: x if k in EXACT else asked(x, own) for k, x in v.items()}
    if isinstance(v, list):
        return [asked(x, own) for x in v]
    return "..." if own and v is not None else v


def summary(transcript):
    """What has to be the same in every run."""
    steps = {}
    for s in transcript:
        steps[s["step"]] = [
            {**{k: x[k] for k in ("method", "path", "headers", "status")}, "body": asked(x["body"]),
             "type": x.get("type"), "answer": shape(x.get("answer")), "events": runs(x.get("events", []))}
            for x in s["exchanges"]]
    return steps


def runs(events):
    shapes = [shape(e) for e in events if not (isinstance(e, str) and e.startswith("... "))]
    return [s for i, s in enumerate(shapes) if not i or s != shapes[i - 1]]


def text_of(transcript):
    """It as JSON with a line for each part of an exchange, and for each event."""
    def line(v):
        return json.dumps(v, ensure_ascii=False)

    def part(k, v):
        events = ",\n      ".join(line(e) for e in v) if k == "events" else ""
        return f"    {line(k)}: " + (f"[\n      {events}]" if events else line(v))

    return "[\n" + ",\n".join(
        f" {{{line('step')}: {line(s['step'])}, {line('exchanges')}: [\n" + ",\n".join(
            "   {\n" + ",\n".join(part(k, v) for k, v in x.items()) + "}" for x in s["exchanges"]) + "]}"
        for s in transcript) + "]\n"


def differences(before, now):
    """Sentences that say where two summaries differ."""
    out = []

    def walk(where, a, b):
        if a == b:
            return
        if isinstance(a, dict) and isinstance(b, dict):
            for k in {**a, **b}:
                walk(f"{where}.{k}", a.get(k), b.get(k))
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            for i, (x, y) in enumerate(zip(a, b)):
                walk(f"{where}[{i}]", x, y)
        else:
            out.append(f"{where}: recorded {json.dumps(a)[:300]}, now {json.dumps(b)[:300]}")

    walk("", before, now)
    return out
