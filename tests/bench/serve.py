#!/usr/bin/env python3
"""qsf-serve under load, and llama-server on the same file if given: real HTTP, seeded lengths.
SPDX-License-Identifier: MIT

    serve.py QSF_SERVE MODEL [--llama-server PROGRAM] [--clients 1,8,32] [--requests 3] [--threads 2]

Every client asks one streamed completion after another, each with random tokens as its prompt, so that no
two begin alike. Each number of clients is measured twice: with the servers' own defaults for sampling, and
greedy (temperature 0); --sampling takes one of them. Lengths of prompts and answers are lognormal, as those
of conversations are (medians 100 and 120 tokens), and the same for both programs. A row of the table is one
server, number of clients and kind of sampling: tokens of answers a second of all clients together, as they
arrive; then median and 95th percentile of the time to the first token, and of the time between tokens; and
for qsf-serve the time between its steps over that in them.

--short asks for answers of 96 tokens to prompts of 16 instead, so that what counts is how much of a step's
reading of weights all answers share; --ram-budget MB is qsf-serve's option, with which layers stream.
--prefix measures the time to the first token after a shared prompt of 1,000 tokens, cold and warm;
--long the time between tokens of answers while a long prompt comes in, over that without: 4 conversations
of 20 tokens and a prompt of 4,000, or for --long 8,8000,16000 as many and as long.
"""
import argparse, asyncio, json, random, re, statistics, subprocess, sys, time, urllib.request


def lengths(seed, n):
    r = random.Random(seed)
    def pick(median, most): return max(4, min(most, int(r.lognormvariate(0, 0.8) * median)))
    return [(pick(100, 700), pick(120, 400)) for _ in range(n)]


class Running:
    """A server on a free port."""

    def __init__(self, name, command, port, answers):
        self.name, self.port, self.answers, self.sampling = name, port, answers, {"temperature": 0}
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                if self.get("/health"):
                    return
            except OSError:
                time.sleep(0.1)
            if self.process.poll() is not None:
                break
        sys.exit(f"{name} did not begin")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as r:
            return r.read().decode()

    def figure(self, name):
        found = re.search(rf"^qsf_{name} (\S+)$", self.get("/metrics"), re.M)
        return float(found[1])

    async def ask(self, ids, n):
        """The times at which parts of one answer came, from its request on."""
        body = json.dumps({"prompt": ids, "max_tokens": n, "ignore_eos": True, "stream": True,
                           **self.sampling}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        begin, times = time.perf_counter(), []
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        whole = b""
        while piece := await reader.read(65536):
            if b"data: " in piece:
                times.append(time.perf_counter() - begin)
            whole += piece
        writer.close()
        if b" 200 " not in whole[:20] or b"[DONE]" not in whole:
            sys.exit(f"{self.name}: {whole[:300]}")
        return times

    def end(self):
        self.process.terminate()
        self.process.wait()


def prompt_ids(r, n, n_vocab): return [r.randrange(300, n_vocab - 300) for _ in range(n)]


async def load(server, clients, requests, n_vocab, short):
    """(seconds, tokens, times to the first token, times between tokens)"""
    todo = [(16, 96)] * clients * requests if short else lengths(clients, clients * requests)
    r = random.Random(7)
    asked = [(prompt_ids(r, p, n_vocab), n) for p, n in todo]
    first, between = [], []

    async def client(mine):
        for ids, n in mine:
            times = await server.ask(ids, n)
            first.append(times[0])
            between.extend(b - a for a, b in zip(times, times[1:]))

    begin = time.perf_counter()
    await asyncio.gather(*(client(asked[i::clients]) for i in range(clients)))
    return time.perf_counter() - begin, sum(n for _, n in todo), first, between


def percent(values, share): return sorted(values)[min(len(values) - 1, int(share * len(values)))] * 1e3


SAMPLING = {"default": {}, "greedy": {"temperature": 0}}


def show_load(server, clients, sampling, a, n_vocab):
    server.sampling = SAMPLING[sampling]
    names = "step_ns_total", "schedule_ns_total"
    before = server.answers and [server.figure(n) for n in names]
    seconds, tokens, first, between = asyncio.run(load(server, clients, a.requests, n_vocab, a.short))
    beside = ""
    if server.answers:
        step, schedule = (server.figure(n) - b for n, b in zip(names, before))
        beside = f" {100 * schedule / step:5.1f} %"
    times = " ".join(f"{percent(t, share):8.1f}" for t in (first, between) for share in (0.5, 0.95))
    print(f"{server.name:13} {clients:3} clients {sampling:7} {tokens / seconds:8.1f} tok/s {times} ms"
          f"{beside}", flush=True)
    return tokens / seconds


def show_prefix(server, n_vocab):
    r, ratios = random.Random(1), []
    for _ in range(3):
        shared = prompt_ids(r, 1000, n_vocab)
        cold, *warm = (asyncio.run(server.ask(shared + prompt_ids(r, 20, n_vocab), 4))[0] for _ in range(4))
        ratios.append(statistics.median(warm) / cold)
        print(f"{server.name}: first token behind 1,000 shared tokens: {cold * 1e3:.0f} ms cold, "
              f"{statistics.median(warm) * 1e3:.0f} ms warm")
    print(f"{server.name}: warm over cold {statistics.median(ratios):.3f}")


async def long_prompt(server, n_vocab, conversations, length, prompt):
    """(seconds of the prompt, times between tokens of other answers during it, and outside it)"""
    r, inside, outside = random.Random(2), [], []
    contexts = [prompt_ids(r, length, n_vocab) for _ in range(conversations)]
    for ids in contexts:                                # the answers below continue what these computed
        await server.ask(ids, 1)
    begun = time.perf_counter()
    running = [asyncio.create_task(server.ask(ids, 400)) for ids in contexts]
    await asyncio.sleep(1 + length / 4000)
    begin = time.perf_counter() - begun
    first = (await server.ask(prompt_ids(r, prompt, n_vocab), 2))[0]
    for t in running:
        times = await t
        for x, y in zip(times, times[1:]):
            (inside if begin < x < begin + first else outside).append(y - x)
    return first, inside, outside


def show_long(server, n_vocab, shape):
    first, inside, outside = asyncio.run(long_prompt(server, n_vocab, *shape))
    def ratio(share): return percent(inside, share) / percent(outside, share) if inside and outside else 0
    print(f"{server.name}: {shape[0]} answers after {shape[1]:,} tokens, and a prompt of {shape[2]:,} that "
          f"took {first:.2f} s: between tokens {percent(outside or [0], 0.5):.1f} ms without it, "
          f"{percent(inside or [0], 0.5):.1f} ms during it, {ratio(0.5):.2f} times as long "
          f"(95th percentile {ratio(0.95):.2f})")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("program")
    p.add_argument("model")
    p.add_argument("--llama-server")
    p.add_argument("--clients", default="1,8,32")
    p.add_argument("--requests", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--sampling", choices=["both", *SAMPLING], default="both")
    p.add_argument("--port", type=int, default=18090)
    p.add_argument("--short", action="store_true")
    p.add_argument("--ram-budget", default="0")
    p.add_argument("--prefix", action="store_true")
    p.add_argument("--long", nargs="?", const="4,20,4000", metavar="CONVERSATIONS,LENGTH,PROMPT")
    a = p.parse_args()
    shape = [int(n) for n in a.long.split(",")] if a.long else [0, 0, 0]
    clients = [int(n) for n in a.clients.split(",")]
    samplings = list(SAMPLING) if a.sampling == "both" else [a.sampling]
    slots = max(*clients, shape[0] + 1)
    positions = slots * 128 if a.short else slots * 1152 + 4500
    positions = max(positions, shape[0] * (shape[1] + 500) + shape[2] + 500)
    ours = [a.program, a.model, "--port", a.port, "-t", a.threads, "-np", slots, "-c", positions, "--quiet",
            "--ram-budget", a.ram_budget]
    theirs = a.llama_server and [a.llama_server, "-m", a.model, "--port", a.port + 1, "-t", a.threads,
                                 "-np", slots, "-c", positions, "--no-webui"]
    speeds = {}
    for name, command, port in (("qsf-serve", ours, a.port), ("llama-server", theirs, a.port + 1)):
        if not command:
            continue
        server = Running(name, command, port, name == "qsf-serve")
        try:
            n_vocab = json.loads(server.get("/v1/models"))["data"][0]["meta"]["n_vocab"]
            asyncio.run(server.ask(prompt_ids(random.Random(3), 30, n_vocab), 8))
            for n in clients:
                for s in samplings:
                    speeds[name, n, s] = show_load(server, n, s, a, n_vocab)
            server.sampling = SAMPLING["greedy"]
            if a.prefix:
                show_prefix(server, n_vocab)
            if a.long:
                show_long(server, n_vocab, shape)
        finally:
            server.end()
    for n in clients:
        for s in samplings:
            mine = speeds["qsf-serve", n, s]
            one = mine / speeds["qsf-serve", clients[0], s]
            print(f"{n:3} clients, {s}: {one:.2f} times {clients[0]} client", end="")
            print(f", {mine / speeds['llama-server', n, s]:.2f} of llama-server" if theirs else "")
        if len(samplings) == 2:
            print(f"{n:3} clients: default {speeds['qsf-serve', n, 'default'] / mine:.3f} of greedy")


if __name__ == "__main__":
    main()
