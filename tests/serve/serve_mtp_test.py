#!/usr/bin/env python3
"""Guesses by a layer for multi-token prediction, by an EAGLE 3 head or by a draft model, in qsf-serve: they
change no answer.
SPDX-License-Identifier: MIT

    serve_mtp_test.py QSF_SERVE

The models are tiny and self-made; their layer is mostly right.  So is a draft model with the same weights and
a little less of all layers; one with other weights is wrong.
"""
import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import sys

from serve_server import SLOW, TESTS, WORK, Server, together

sys.path.insert(0, str(TESTS / "tools"))
import eagle_models                                                         # noqa: E402
from mtp_models import families, make_tiny, write                           # noqa: E402

program = sys.argv[1]
FOLDER = pathlib.Path(WORK.name)
PROMPTS = ["abcd efg", "x", "The number of the beast", "abcd efg hij", "Zebra " * 12, "1 2 3"]
SAMPLED = {"temperature": 0.9, "seed": 7, "max_tokens": 30, "ignore_eos": True, "logprobs": 2}


@contextlib.contextmanager
def served(path, *more):
    s = Server(program, str(path), "--alias", "tiny", "--quiet", "--threads", "2", "--f32", *map(str, more))
    try:
        yield s
    finally:
        if s.process.poll() is None: s.end()


def answers(s):
    """Alone, at once, sampled, of one prompt, of a beam, under a grammar."""
    one = [s.complete(p, 40) for p in PROMPTS]
    assert together([lambda p=p: s.complete(p, 40) for p in PROMPTS]) == one
    drawn = s.post("/v1/completions", prompt=PROMPTS[:3], n=2, **SAMPLED)["choices"]
    beam = s.post("/v1/completions", prompt="abcd", max_tokens=8, beam_width=3, n=2)["choices"]
    bound = s.post("/v1/completions", prompt="x", max_tokens=30, temperature=0,
                   regex="[ab]{9,20}c")["choices"]
    return one, drawn, beam, bound


def accepted(s):
    """Guesses are tried again now and then, however dear they seem."""
    s.complete("abcd efg", 120)
    return s.metric("drafts_accepted_total") > 0


def check_family(path, *more, draft=("--draft-mtp",), right=True):
    with served(path, "--ctx-size", "1024", "--slots", "3", *more) as plain:
        want = answers(plain)
        assert plain.metric("drafts_total") == 0
    with served(path, "--ctx-size", "1024", "--slots", "3", *draft, *more) as s:
        assert answers(s) == want, path.name
        s.wait_for(lambda: accepted(s) if right else drafted(s), 60 * SLOW)
        assert s.metric("drafts_total") >= s.metric("drafts_accepted_total")
        assert answers(s) == want, path.name                    # in cached sequences, with what was learnt
        check_timings(s)
        check_cancelled(s)
        assert answers(s) == want, path.name


def drafted(s):
    s.complete("abcd efg", 120)
    return s.metric("drafts_total") > 0


def check_cancelled(s):
    """A client that leaves while others are answered; its sequence serves the next prompt."""
    def leave():
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60 * SLOW)
        body = dict(prompt="abcd efg hij", max_tokens=400, stream=True, temperature=0, ignore_eos=True)
        c.request("POST", "/v1/completions", json.dumps(body))
        assert c.getresponse().readline().startswith(b"data: ")
        c.close()
    want = s.complete("abcd efg", 60)
    assert together([leave, lambda: s.complete("abcd efg", 60), leave])[1] == want
    s.alone()


def check_timings(s):
    """Of an answer with guesses, as llama-server has them; the counts are those of the metrics."""
    before = s.metrics("drafts_total", "drafts_accepted_total")
    seen = [0, 0]
    while not seen[0]:                                          # a guess is tried at least every 33 steps
        t = s.post("/completion", prompt="abcd efg", n_predict=80, temperature=0, ignore_eos=True)["timings"]
        assert ("draft_n" in t) == ("draft_n_accepted" in t), t
        seen[0] += t.get("draft_n", 0)
        seen[1] += t.get("draft_n_accepted", 0)
    after = s.metrics("drafts_total", "drafts_accepted_total")
    assert seen == [after[k] - before[k] for k in before] and seen[0], (seen, before, after)


def check_pauses(path, draft=("--draft-mtp",)):
    """Answers that lose their sequence to others, and get it again."""
    with served(path, "--ctx-size", "1024", "--slots", "6") as plain:
        want = [plain.complete(p[:12], 120) for p in PROMPTS]
    with served(path, "--ctx-size", "256", "--slots", "6", "--cache-sequences", "2", *draft) as s:
        for _ in range(2):
            got = s.post("/v1/completions", prompt=[p[:12] for p in PROMPTS], max_tokens=120, temperature=0,
                         ignore_eos=True)["choices"]
            assert [c["text"] for c in got] == want
        assert s.metric("preempted_total") > 0
        embedded = s.post("/v1/embeddings", input=["abc", "defg"])["data"]
        texts = together([lambda: s.complete(PROMPTS[0], 120),
                          lambda: s.post("/v1/embeddings", input=["abc", "defg"])["data"]])
        assert texts == [want[0], embedded]


def check_errors(path):
    def refused(*more):
        r = subprocess.run([program, *map(str, more), "--port", "0", "--draft-mtp"], capture_output=True,
                           text=True, timeout=60 * SLOW)
        assert r.returncode, r.stderr
        return r.stderr
    assert "has no layer for multi-token prediction" in refused(write(FOLDER, "llama"))
    least = re.search(r"needs at least (\d+) MB", refused(path, "--ram-budget", "1"))[1]
    assert "MB for the layer for multi-token prediction" in refused(path, "--ram-budget", least)
    with served(path, "--draft-mtp", "--draft", "0") as s:      # off
        s.complete("abcd efg", 40)
        assert s.metric("drafts_total") == 0


def check_right(path):
    """A draft model with the model's own weights is always right: after a shared prefix, together with
    others, after pauses and after clients that leave its sequences are those of the model."""
    size = "--ctx-size", "256", "--slots", "6", "--cache-sequences", "3"
    with served(path, *size, "--draft-model", path) as s:
        while s.metric("drafts_total") < 100:
            s.post("/v1/completions", prompt=[p[:12] for p in PROMPTS], max_tokens=120, temperature=0,
                   ignore_eos=True)
            check_cancelled(s)
        assert s.metric("preempted_total") > 0
        made, right = s.metrics("drafts_total", "drafts_accepted_total").values()
        assert right >= 0.98 * made, (right, made)      # those of a client that left are lost


def check_draft_models():
    """The second one has state; the third is wrong about everything."""
    llama, same, hybrid, half = [write(FOLDER, name, near=near) for name, near in (
        ("llama", 0.003), ("llama", 0.001), ("qwen35", 0.003), ("qwen35", 0.001))]
    check_family(llama, draft=("--draft-model", same))
    check_family(hybrid, "--ram-budget", "40", draft=("--draft-model", half))
    check_family(llama, draft=("--draft-model", half, "--draft", "3"), right=False)
    check_pauses(llama, ("--draft-model", same))
    check_right(llama)
    check_right(hybrid)


def check_eagle():
    """Several conversations, streamed layers and all, and those that lose their sequences."""
    model = write(FOLDER, "llama", near=0.003)
    head = eagle_models.write(FOLDER, "right", model, make_tiny.models()["llama"], knows=True, normed=True)
    check_family(model, "--ram-budget", "40", draft=("--draft-model", head))
    check_pauses(model, ("--draft-model", head))


for name, more in families():
    if name not in ("glm4moe", "qwen35-nextn", "deepseek2"): continue
    check_family(write(FOLDER, name, near=0.003, **more))
near = FOLDER / "glm4moe-near.gguf"
check_family(near, "--ram-budget", "40")
check_pauses(near)
check_errors(near)
check_draft_models()
check_eagle()
print("ok")
