#!/usr/bin/env python3
"""The file of kept sequences (--cache-file): killed while it is written, or damaged, it is whole or ignored.
SPDX-License-Identifier: MIT

    serve_cache_test.py QSF_SERVE [NAME...]      the tests whose names have one of the words

QSF_CACHE_MUTANTS: how many damaged files (500; a tenth of them under sanitizers).
"""
import os
import pathlib
import random
import signal
import time
import zlib

from serve_server import SLOW, WORK, Server, run

MUTANTS = int(os.environ.get("QSF_CACHE_MUTANTS", 500 if SLOW == 1 else 50))
PROMPTS = [f"{word} is the beginning of a prompt that is kept. " * 4 for word in ("One", "Two", "Three",
"Four")]


def ask(server, prompt):
    """(text, whether all of the prompt was kept)"""
    a = server.post("/v1/completions", prompt=prompt, max_tokens=8, temperature=0, ignore_eos=True)
    kept, all_of_it = a["usage"]["prompt_tokens_details"]["cached_tokens"], a["usage"]["prompt_tokens"] - 1
    return a["choices"][0]["text"], kept == all_of_it


def test_a_killed_server_leaves_a_file_that_is_whole(s):
    """It is killed at random moments, most of them while the file is written at its end."""
    r = random.Random(3)
    file = pathlib.Path(WORK.name, "killed")
    with s.other() as plain:
        want = [ask(plain, p)[0] for p in PROMPTS]
    killed = written = 0
    took = 1.0
    for i in range(24 // min(SLOW, 3)):
        with s.other("--cache-file", str(file)) as server:
            got = [ask(server, p) for p in PROMPTS]
            assert [text for text, _ in got] == want
            kept = [k for _, k in got]
            assert kept == [file.exists()] * len(PROMPTS), (i, kept)
            written += file.exists()
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            if i % 4 == 0:                      # lets one end, and learns how long that takes
                assert server.process.wait(60 * SLOW) == 0
                took = min(took, time.monotonic() - begin)      # of one that was not disturbed
            else:
                time.sleep(r.random() * took * 1.2)
                server.process.kill()
                killed += server.process.wait() != 0
    assert killed and written, (killed, written)
    assert not [f for f in file.parent.glob("killed*") if f.name not in ("killed", "killed.new")]


def test_another_file_is_never_overwritten(s):
    """Not even the model's own."""
    model, notes = pathlib.Path(WORK.name, "llama.gguf"), pathlib.Path(WORK.name, "notes")
    notes.write_text("Mine.")
    for file in model, notes:
        before = file.read_bytes()
        with s.other("--cache-file", str(file)) as server:
            ask(server, PROMPTS[0])
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60 * SLOW) == 0
        assert file.read_bytes() == before, file


def damaged(r, data):
    data = bytearray(data)
    kind = r.randrange(5)
    if kind == 0:
        return bytes(data[:r.randrange(len(data))])
    if kind == 1:                               # lengths and counts
        at = r.choice((0, 16, 24, r.randrange(200))) + r.randrange(8)
        data[at] ^= 1 << r.randrange(8)
    elif kind == 2:
        for _ in range(r.randrange(1, 20)):
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    elif kind == 3:
        at = r.randrange(len(data))
        del data[at:at + r.randrange(1, 64)]
    else:
        at, n = r.randrange(len(data)), r.randrange(1, 4096)
        data[at:at + n] = r.choice((b"\0", b"\xff")) * n
    return bytes(data)


def test_a_damaged_file_is_ignored_or_used_rightly(s):
    r = random.Random(4)
    file = pathlib.Path(WORK.name, "damaged")
    with s.other("--cache-file", str(file)) as server:
        want = [ask(server, p)[0] for p in PROMPTS]
    whole = file.read_bytes()
    ignored = 0
    for i in range(MUTANTS):
        file.write_bytes(damaged(r, whole))
        with s.other("--cache-file", str(file)) as server:
            which = i % len(PROMPTS)
            text, kept = ask(server, PROMPTS[which])
            assert text == want[which], i
            ignored += not kept
            server.process.kill()               # as quick as it gets
            server.process.wait()
    print(f"     {MUTANTS} damaged files, of which {ignored} had nothing for a prompt")
    assert 0 < ignored < MUTANTS


def test_sequences_of_another_model_are_ignored(s):
    """A model that differs in the last bit of one number, and sessions of an earlier version."""
    model, file = pathlib.Path(WORK.name, "llama.gguf"), pathlib.Path(WORK.name, "models")
    other = pathlib.Path(WORK.name, "other.gguf")
    data = bytearray(model.read_bytes())
    data[data.index(key := b"llama.attention.layer_norm_rms_epsilon") + len(key) + 4] ^= 1
    other.write_bytes(data)
    file_was_there = False
    for path, kept in (model, False), (model, True), (other, False), (other, True), (model, False):
        server = Server(s.program, str(path), "--quiet", "--threads", "2", "--cache-file", str(file))
        assert ask(server, PROMPTS[0])[1] == kept, (path, kept)
        server.end()
        refused = [line for line in server.lines if "is refused" in line]
        assert len(refused) == (not kept and file_was_there), (path, refused)
        assert all("another model" in line for line in refused), refused
        file_was_there = True
    data = bytearray(file.read_bytes())         # the first session's header begins after 16 + 8 bytes
    assert data[24:28] == b"QSFS"
    data[28] = 1
    data[84:88] = zlib.crc32(data[24:84]).to_bytes(4, "little")
    file.write_bytes(data)
    server = Server(s.program, str(model), "--quiet", "--threads", "2", "--cache-file", str(file))
    assert not ask(server, PROMPTS[0])[1]
    server.end()
    assert any("start a new session" in line for line in server.lines), server.lines


if __name__ == "__main__":
    run(__doc__, globals())
