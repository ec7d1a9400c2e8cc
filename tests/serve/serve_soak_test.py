#!/usr/bin/env python3
"""qsf-serve for a while: requests of all kinds come, go and are cancelled, at a pace that leaves the machine
to others.
SPDX-License-Identifier: MIT

    serve_soak_test.py QSF_SERVE                        a soak
    serve_soak_test.py QSF_SERVE --begin FILE           the same in the background; what it says is in FILE
    serve_soak_test.py --end FILE                       waits for it

QSF_SOAK_SECONDS: how long (120; ./test --all has two of these, under the address and the thread sanitizer).
What a sanitizer finds ends the server, and the test.
"""
import asyncio
import os
import pathlib
import random
import subprocess
import sys
import time

from serve_mix import KINDS, Connection, one
from serve_server import SLOW, run

SECONDS = float(os.environ.get("QSF_SOAK_SECONDS", 120))
PAUSE = 0.9                             # seconds between two requests of a client, on average
HANG = 300 * SLOW


async def client(port, seed, end, counts):
    """Joins, asks for some time, leaves, comes again."""
    r, c = random.Random(seed), None
    while time.monotonic() < end:
        c = Connection(port)
        for _ in range(r.randrange(1, 12)):
            kind = r.choice(list(KINDS))
            await asyncio.wait_for(one(c, r, kind), HANG)
            counts[kind] += 1
            await asyncio.sleep(r.expovariate(1 / PAUSE))
            if time.monotonic() >= end:
                break
        c.close()
        await asyncio.sleep(r.expovariate(1 / PAUSE))


async def soak(port, seconds):
    counts = dict.fromkeys(KINDS, 0)
    end = time.monotonic() + seconds
    await asyncio.gather(*(client(port, seed, end, counts) for seed in range(5)))
    return counts


def test_a_soak(s):
    with s.other("--ctx-size", "512", "--queue", "64", "--cache-sequences", "8") as server:
        counts = asyncio.run(soak(server.port, SECONDS))
        server.alone()
        assert server.metric("failed_total") == 0
        kinds = sum(map(bool, counts.values()))
        print(f"     {sum(counts.values())} requests of {kinds} kinds in {SECONDS:g} s")


# ---- in the background, so that other tests have the machine meanwhile ----

def begin(program, file):
    code = pathlib.Path(file + ".code")
    code.unlink(missing_ok=True)
    shell = 'to=$1; shift; nice -n 5 "$@" >"$to" 2>&1; echo $? >"$to.code"'
    subprocess.Popen(["sh", "-c", shell, "soak", file, sys.executable, __file__, program],
                     start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)


def wait_for_end(file):
    code, last = pathlib.Path(file + ".code"), time.monotonic() + SECONDS + 600
    while not (code.exists() and code.read_text().strip()):
        assert time.monotonic() < last, f"the soak of {file} did not end"
        time.sleep(0.2)
    print(pathlib.Path(file).read_text(), end="")
    return int(code.read_text())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--end"]:
        sys.exit(wait_for_end(sys.argv[2]))
    elif sys.argv[2:3] == ["--begin"]:
        begin(sys.argv[1], sys.argv[3])
    else:
        run(__doc__, globals())
