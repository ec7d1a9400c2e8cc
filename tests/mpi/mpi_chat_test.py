#!/usr/bin/env python3
"""Chats and adapters over ranks of MPI: what one process says, to the byte.
SPDX-License-Identifier: MIT

    mpi_chat_test.py MPIRUN QSF_RUN WORK
"""
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_lora
import make_tiny

MPIRUN, RUN, WORK = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
OPTIONS = "--temp", "0", "-n", "24", "-t", "1", "-c", "512"
LINES = "Hello\nMore of it, please\r\n\n/reset\nHello\nA third message\nThe last one"
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


def over(ranks, model, *options, lines=LINES):
    command = [RUN, "-i"] if not ranks else [MPIRUN, "-np", str(ranks), RUN, "--mpi"]
    r = subprocess.run([*command, str(model), *OPTIONS, *options], input=lines.encode(), env=ENV,
                       capture_output=True, timeout=120)
    assert r.returncode == 0, (ranks, options, r)
    return r


def chats():
    """A model of one kind of layers, and one with layers that cannot go back to every position."""
    for name in ("llama", "lfm2", "gemma3"):
        model, n = make_tiny.make(WORK, name)[0], make_tiny.models()[name]["n_layers"]
        for more in ((), ("--system", "Be brief", "--chat-template", "chatml", "-b", "7")):
            alone = over(0, model, *more).stdout
            assert alone.count(b"\n") >= 5, alone
            for ranks in [r for r in (1, 2, 3) if r <= n]:
                got = over(ranks, model, *more)
                assert got.stdout == alone, (name, ranks, more, got, alone)


def commands():
    model = WORK / "llama.gguf"
    first = over(2, model, lines="Hello\n")
    assert over(2, model, lines="Hello\n/quit\nno more\n").stdout == first.stdout
    r = over(2, model, lines="/regen\nHello\n")
    assert r.stdout == first.stdout and b"/regen is not supported over ranks" in r.stderr, r
    r = over(2, model, "-c", "64", lines="Hello\n" + "a b c " * 60 + "\n/reset\nHello\n")
    assert b"the context is full" in r.stderr and r.stdout.startswith(first.stdout[:20]), r
    assert r.stdout.count(first.stdout[:20]) == 2, r


def waits():
    """No rank counts as dead while the user thinks."""
    command = [MPIRUN, "-np", "2", RUN, "--mpi", str(WORK / "llama.gguf"), *OPTIONS, "--mpi-silent", "5"]
    pipe = subprocess.PIPE
    p = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=ENV)
    p.stdin.write(b"Hello\n")
    p.stdin.flush()
    time.sleep(7)
    out, said = p.communicate(b"Hello\n", timeout=120)
    assert p.returncode == 0 and out.count(b"\n") >= 2, (out, said)


def adapters():
    """Each rank adds its layers' part: the logits are those of one rank, and the text is qsf-run's."""
    make_lora.make_tests(WORK, ["llama", "qwen2"])
    for name in ("llama", "qwen2"):
        model = WORK / f"{name}.gguf"
        lora = "--lora", f"{WORK / name}.a.gguf", "--lora", f"{WORK / name}.b.gguf:0.5"
        texts = "--raw", "-p", "Hello there", "-p", "abc", "--print-check", "--ignore-eos"
        logits = [sorted(re.findall(r"logits of text .*", over(n, model, *texts, *uses).stderr.decode()))
                  for n, uses in ((1, lora), (2, lora), (2, lora[:2]), (2, ()))]
        assert len(logits[0]) == 2 and logits[0] == logits[1], logits
        assert len({tuple(x) for x in logits[1:]}) == 3, logits
        assert over(2, model, *lora).stdout == over(0, model, *lora).stdout
    wrong = "-p", "x", "--lora", "no-such-file.gguf"
    command = [MPIRUN, "-np", "2", RUN, "--mpi", str(model), *wrong]
    r = subprocess.run(command, capture_output=True, timeout=120, env=ENV)
    assert r.returncode and b"no-such-file.gguf" in r.stderr, r


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    for test in (chats, commands, waits, adapters):
        begin = time.monotonic()
        test()
        print(f"ok   {test.__name__} {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
