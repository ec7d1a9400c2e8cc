#!/usr/bin/env python3
"""qsf-serve under many requests and many connections: nothing leaks, and no client waits for others.
SPDX-License-Identifier: MIT

    serve_load_test.py QSF_SERVE [NAME...]      the tests whose names have one of the words

QSF_SERVE_REQUESTS: how many requests (10000; 500 under sanitizers).
"""
import asyncio
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import socket
import statistics
import threading
import time

from serve_mix import KINDS, Connection, one
from serve_server import SLOW, run

REQUESTS = int(os.environ.get("QSF_SERVE_REQUESTS", 10000 if SLOW == 1 else 500))
CLIENTS = 16
ROUNDS = 5 if SLOW == 1 else 2
HANG = 120 * SLOW                       # seconds after which nothing comes any more


def resident(s):
    """MB"""
    status = pathlib.Path(f"/proc/{s.process.pid}/status")
    return int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1]) / 1024 if status.exists() else 0.0


async def mixed(port, n, seed):
    """n requests of all kinds from CLIENTS clients; how many there were of each kind."""
    left = iter(range(n))
    counts = dict.fromkeys(KINDS, 0)

    async def client(i):
        r, c = random.Random(1000 * seed + i), Connection(port)
        for _ in left:
            kind = r.choice(list(KINDS))
            counts[kind] += 1
            await asyncio.wait_for(one(c, r, kind), HANG)
        c.close()

    await asyncio.gather(*(client(i) for i in range(CLIENTS)))
    return counts


def all_blocks_come_back(s):
    """Prompts that need all blocks but two make what was kept go, and stay; a block that is lost would be
    missing.  (A prompt is let in where there are two more than it needs.)"""
    blocks, size = int(s.metric("kv_blocks")) - 2, 32
    n = -(-blocks * size // 500)
    lengths = [(blocks // n + (i < blocks % n)) * size - 1 for i in range(n)]
    for i, length in enumerate(lengths):
        s.post("/v1/completions", prompt=[65 + i] * length, max_tokens=1, session_id=f"all {i}")
    s.wait_for(lambda: s.metric("kept_sequences") == n and s.metric("kv_positions") >= sum(lengths))
    assert s.metric("kv_blocks_free") == 2 and s.metric("kv_blocks_shared") == 0


def test_thousands_of_requests_leave_nothing_behind(s):
    with s.other("--ctx-size", "512", "--queue", "256", "--cache-sequences", "16") as server:
        some = asyncio.run(mixed(server.port, REQUESTS // 5, 1))
        server.alone()
        early = resident(server)
        more = asyncio.run(mixed(server.port, REQUESTS - REQUESTS // 5, 2))
        assert REQUESTS < 2000 or min(some.values()) > 0 and min(more.values()) > 0
        server.alone()
        late = resident(server)
        print(f"     {early:.1f} MB after {REQUESTS // 5} requests, {late:.1f} MB after {REQUESTS}")
        assert SLOW > 1 or late < early * 1.1 + 3            # sanitizers keep freed memory
        assert server.metric("failed_total") == 0
        assert server.metric("cancelled_total") > 0 and server.metric("evicted_total") > 0
        all_blocks_come_back(server)


# ---- connections ----

def between_tokens(s):
    """The mean time between the tokens of three streams that run together, by the server's own clock."""
    def sums():
        return s.metric("between_tokens_seconds_sum"), s.metric("between_tokens_seconds_count")

    async def streams():
        ask = {"max_tokens": 300 if SLOW == 1 else 60, "temperature": 0, "ignore_eos": True, "stream": True}
        got = await asyncio.wait_for(asyncio.gather(*(
            Connection(s.port).ask("/v1/completions", {**ask, "prompt": f"stream {i}"}) for i in range(3))),
            HANG)
        assert all(status == 200 and data.endswith(b"data: [DONE]\n\n") for status, data in got)

    before = sums()
    asyncio.run(streams())
    after = sums()
    return (after[0] - before[0]) / (after[1] - before[1])


class Crowd:
    """Connections of which some read, and some send, a byte at a time; tick() is one byte of each.
    The tests have ten a second, so that seconds show what minutes would."""

    def __init__(self, port, idle, reading, sending):
        self.sockets = [self.connect(port) for _ in range(idle + reading + sending)]
        self.reading, self.sending = self.sockets[:reading], self.sockets[reading:reading + sending]
        body = json.dumps({"prompt": "slow", "max_tokens": 40 if SLOW == 1 else 8, "stream": True,
                           "temperature": 0, "ignore_eos": True, "logprobs": 20})
        for c in self.reading:
            c.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
                      f"\r\n{body}".encode())
        self.text = iter(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20000)
        for c in self.sockets:
            c.setblocking(False)

    @staticmethod
    def connect(port):
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.connect(("127.0.0.1", port))
        return c

    def tick(self):
        byte = bytes([next(self.text)])
        for c in self.sending:
            with contextlib.suppress(OSError):          # nothing to read; or the time for a head is over
                c.send(byte)
        for c in self.reading:
            with contextlib.suppress(OSError):
                c.recv(1)

    def close(self):
        for c in self.sockets:
            c.close()


def test_a_thousand_connections_slow_nobody_down(s):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(2000, most[1]) if most[1] > 0 else 2000
    limit = 1.5 if SLOW == 1 else 4
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, most[0]), most[1]))
    with s.other("--slots", "8", "--queue", "400") as server:
        between_tokens(server)
        alone = [between_tokens(server) for _ in range(ROUNDS)]
        before, begin = resident(server), time.monotonic()
        crowd = Crowd(server.port, 700, 200, 100)
        server.wait_for(lambda: server.metric("connections") > 1000)
        server.wait_for(lambda: server.metric("requests_total") >= 203 + 3 * ROUNDS, HANG)
        server.idle()
        done = threading.Event()

        def ticks():
            while not done.wait(0.1):
                crowd.tick()

        ticker = threading.Thread(target=ticks)
        ticker.start()
        try:
            crowded = [between_tokens(server) for _ in range(ROUNDS)]
            end = time.monotonic() + 60                         # other programs disturb both
            while min(crowded) > limit * min(alone) and time.monotonic() < end:
                crowded.append(between_tokens(server))
            during = resident(server)
            # who has not asked for anything within half a minute is gone
            assert time.monotonic() - begin > 20 or server.metric("connections") > 1000
        finally:
            done.set()
            ticker.join()
            crowd.close()
        server.alone()
        after = [between_tokens(server) for _ in range(ROUNDS)]
        print(f"     {statistics.median(alone) * 1e6:.0f} us between tokens alone, "
              f"{statistics.median(crowded) * 1e6:.0f} us beside 1,000 connections; "
              f"{before:.0f} MB, then {during:.0f} MB")
        # Other programs may have begun to need the processors in between.
        assert min(crowded) <= limit * max(min(alone), min(after)), (alone, crowded, after)
        assert SLOW > 1 or during < before + 150


def test_a_client_that_does_not_read_loses_its_connection(s):
    """Its answers end, and the server keeps no more than 4 MB for it; those of others continue."""
    with s.other("--slots", "8", "--queue", "400", "--ctx-size", "4096") as server:
        before = resident(server)
        lazy = Crowd.connect(server.port)
        body = json.dumps({"prompt": "slow", "max_tokens": 900, "n": 64, "stream": True, "logprobs": 100,
                           "ignore_eos": True})
        lazy.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
                     f"\r\n{body}".encode())
        server.wait_for(lambda: server.metric("running") + server.metric("cancelled_total") > 0)
        most, end = 0.0, time.monotonic() + HANG
        while server.metric("cancelled_total") == 0:
            assert time.monotonic() < end
            assert server.complete("quick", 2)
            most = max(most, resident(server))
        server.idle()
        got = b""
        lazy.settimeout(HANG)
        try:
            while piece := lazy.recv(1 << 16):
                got += piece
        except ConnectionResetError:
            pass
        lazy.close()
        assert b"[DONE]" not in got
        print(f"     {before:.0f} MB, at most {most:.0f} MB")
        assert SLOW > 1 or most < before + 40


def test_bodies_that_never_end_fill_no_memory(s):
    """They have 256 MB together; who comes later is told to come again."""
    with s.other() as server:
        head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n"
        sockets, statuses = [], []
        piece = b"x" * (1 << 20)
        for _ in range(45):
            c = socket.create_connection(("127.0.0.1", server.port), timeout=HANG)
            sockets.append(c)
            try:
                c.sendall(head)
                for _ in range(7):
                    c.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass
        for c in sockets[-5:]:
            c.settimeout(HANG)
            try:
                statuses.append(c.recv(100).split(b" ")[1])
            except ConnectionResetError:
                statuses.append(b"503")
        assert statuses == [b"503"] * 5, statuses
        assert server.complete("quick", 2)
        assert SLOW > 1 or resident(server) < 450
        for c in sockets:
            c.close()
        server.wait_for(lambda: server.metric("connections") == 1)
        assert server.complete("quick", 2)
        assert SLOW > 1 or resident(server) < 100


if __name__ == "__main__":
    run(__doc__, globals())
