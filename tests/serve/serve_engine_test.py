#!/usr/bin/env python3
"""The engine's side of qsf-serve: sequences on disk, guesses, steps, blocks, figures.
SPDX-License-Identifier: MIT

    serve_engine_test.py QSF_SERVE [--models DIR] [NAME...]      the tests whose names have one of the words

The model is a tiny random one. qsf-run is expected in the folder of qsf-serve.
"""
import contextlib
import os
import pathlib
import random
import re
import subprocess

from serve_server import SLOW, WORK, run, together

PROMPTS = ["Once upon a time", "x", "The number of the beast is " * 6, "def f(a, b):\n    return",
           "1 2 3 4 5 6", "Grass is green. " * 12, "who?", "Lorem ipsum dolor sit amet, consectetur",
           "{\"key\": [1, 2", "Zebra " * 30]


def texts(n, length, seed):
    r = random.Random(seed)
    return ["".join(r.choice("abcdefgh ") for _ in range(length)) for _ in range(n)]


def kept(server, prompt, n=4):
    """(answer, tokens of the prompt that were kept)"""
    a = server.post("/v1/completions", prompt=prompt, max_tokens=n, temperature=0, ignore_eos=True)
    return a["choices"][0]["text"], a["usage"]["prompt_tokens_details"]["cached_tokens"]


# ---- sequences on disk ----

def stored(server):
    """Waits until what has been evicted is on disk."""
    def written():
        got = server.metrics("swap_written_bytes_total", "swap_bytes")
        return got["swap_written_bytes_total"] >= got["swap_bytes"] > 0

    server.wait_for(written)


def test_what_memory_has_no_room_for_comes_back_from_disk(s):
    prompts = texts(12, 150, 1)
    want = [s.complete(p, 4) for p in prompts]
    with s.other("--cache-sequences", "2", "--slots", "2", "--cache-disk", "64") as disk:
        assert [kept(disk, p)[0] for p in prompts] == want
        assert disk.metric("swap_out_total") >= 8
        again = [kept(disk, p) for p in prompts]
        assert [a for a, _ in again] == want
        assert sum(n > 100 for _, n in again) >= 10, again
        assert disk.metric("swap_in_total") >= 8 and disk.metric("swap_read_bytes_total") > 0
        assert disk.metric("swap_sequences") >= 8 and disk.metric("swap_bytes") > 0
        assert disk.metric("swap_out_total") <= 16      # what is on disk already is not written again
        order = random.sample(range(12), 12)
        assert together([lambda i=i: disk.complete(prompts[i], 4) for i in order]) == [want[i] for i in order]
        disk.idle()


def test_blocks_make_room_by_way_of_the_disk(s):
    prompts = texts(22, 90, 2)
    want = [s.complete(p, 4) for p in prompts]
    with s.other("--ctx-size", "512", "--cache-sequences", "24", "--cache-disk", "64") as disk:
        for _ in range(2):
            assert [kept(disk, p)[0] for p in prompts] == want
        assert disk.metric("evicted_total") > 0 and disk.metric("swap_in_total") > 0


def test_the_disk_keeps_to_its_limit(s):
    prompts = texts(30, 200, 3)
    with s.other("--cache-sequences", "1", "--slots", "1", "--cache-disk", "0.3") as disk:
        for p in prompts:
            disk.complete(p, 2)
            assert disk.metric("swap_bytes") <= 3e5
        assert disk.metric("swap_dropped_total") > 0
        assert kept(disk, prompts[0])[1] == 0, "what was used least is still there"
        assert kept(disk, prompts[-3])[1] > 100


def unlinked_file(server):
    for fd in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if re.search(r"/qsf-serve-\w+ \(deleted\)", os.readlink(fd)):
                return fd
    raise AssertionError("the file of --cache-disk is not open")


def test_a_disk_that_fails_hurts_nobody(s):
    if not os.path.isdir("/proc/self/fd"):
        return
    prompts = texts(12, 150, 4)
    want = [s.complete(p, 4) for p in prompts]

    def fill(disk):
        assert [disk.complete(p, 4) for p in prompts] == want
        assert disk.metric("swap_out_total") >= 8
        stored(disk)

    def damage(disk):
        with open(unlinked_file(disk), "r+b") as f:
            size = f.seek(0, os.SEEK_END)
            for at in range(100, size, 700):
                f.seek(at)
                f.write(b"damaged")

    def cut(disk):
        os.truncate(unlinked_file(disk), 0)

    for harm in damage, cut:
        with s.other("--cache-sequences", "1", "--slots", "1", "--cache-disk", "64",
                     "--cache-disk-dir", WORK.name) as disk:
            fill(disk)
            harm(disk)
            assert [disk.complete(p, 4) for p in prompts] == want
            assert disk.metric("swap_errors_total") > 2
            disk.wait_for(lambda: any("--cache-disk" in line for line in disk.lines))
            assert [disk.complete(p, 4) for p in prompts] == want
            assert sum("--cache-disk" in line for line in disk.lines) == 1      # reported once


def test_a_full_disk_hurts_nobody(s):
    import resource
    prompts = texts(12, 150, 5)
    want = [s.complete(p, 4) for p in prompts]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60000, before[1]))       # the server inherits it
    try:
        with s.other("--cache-sequences", "1", "--slots", "1", "--cache-disk", "64") as disk:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            for _ in range(2):
                assert [disk.complete(p, 4) for p in prompts] == want
            disk.wait_for(lambda: disk.metric("swap_errors_total") > 2)
            disk.wait_for(lambda: any("the disk is full" in line for line in disk.lines))
            disk.wait_for(lambda: disk.metric("swap_bytes") <= 60000)   # without what is being written
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_that_is_not_there_is_an_error(s):
    done = subprocess.run([s.program, WORK.name + "/llama.gguf", "--port", "0", "--cache-disk", "1",
                           "--cache-disk-dir", "/no/such/folder"], capture_output=True, text=True)
    assert done.returncode and "/no/such/folder" in done.stderr, done.stderr


def test_answers_that_pause_go_on_from_disk(s):
    prompts = [p[:60] for p in PROMPTS]
    want = [s.complete(p, 90) for p in prompts]
    for more in (), ("--draft", "3"), ("--steps", "4"):
        with s.other("--ctx-size", "256", "--slots", "6", "--cache-sequences", "2", "--cache-disk", "64",
                     *more) as disk:
            for _ in range(3):
                got = disk.post("/v1/completions", prompt=prompts, max_tokens=90, temperature=0,
                                ignore_eos=True)["choices"]
                assert [c["text"] for c in got] == want
            assert disk.metric("preempted_total") >= disk.metric("preempted_to_disk_total") > 0
            assert disk.metric("swap_in_total") > 0
            disk.idle()


# ---- guesses ----

def guessed_right(s):
    s.complete("The same words again. " * 5, 100)
    return s.metric("drafts_accepted_total") > 0


def test_guesses_change_nothing(s):
    prompts = PROMPTS + ["a b c d e f g " * 8, "The same words again. " * 5]
    sampled = {"temperature": 0.9, "seed": 7, "max_tokens": 50, "ignore_eos": True, "logprobs": 2}
    want = [s.complete(p, 60) for p in prompts]
    drawn = s.post("/v1/completions", prompt=prompts, n=2, **sampled)["choices"]
    for n in "1", "3", "7":
        with s.other("--draft", n, "--slots", "4") as draft:
            assert [draft.complete(p, 60) for p in prompts] == want
            assert together([lambda p=p: draft.complete(p, 60) for p in prompts]) == want
            assert draft.post("/v1/completions", prompt=prompts, n=2, **sampled)["choices"] == drawn
            draft.wait_for(lambda: guessed_right(draft), 60 * SLOW)     # none while they seem too dear
            assert draft.metric("drafts_total") >= draft.metric("drafts_accepted_total")
            a = draft.post("/v1/completions", prompt="x", max_tokens=40, temperature=0, regex="[ab]{9,30}c")
            assert re.fullmatch("[ab]{9,30}c?", a["choices"][0]["text"])
    assert s.metric("drafts_total") == 0


# ---- steps ----

def test_several_steps_between_looks_change_nothing(s):
    want = [s.complete(p, 40) for p in PROMPTS]
    for n in "2", "8":
        with s.other("--steps", n) as steps:
            assert together([lambda p=p: steps.complete(p, 40) for p in PROMPTS]) == want


# ---- blocks ----

def test_paged_is_as_unpaged(s):
    program = str(pathlib.Path(s.program).with_name("qsf-run"))
    if not os.path.exists(program):
        return print("     qsf-run is not beside qsf-serve")
    for p in PROMPTS[:6]:
        alone = subprocess.run([program, WORK.name + "/llama.gguf", "-p", p, "-n", "40", "--temp", "0",
                                "--raw", "--ignore-eos"],
                               capture_output=True)
        assert alone.returncode == 0, alone.stderr
        assert alone.stdout.decode().rstrip("\n") == s.complete(p, 40).rstrip("\n"), p


def test_blocks_come_back_and_hardly_any_is_wasted(s):
    with s.other("--cache-sequences", "0", "--slots", "4", "--ctx-size", "2048") as some:
        size = some.metric("kv_block_positions")
        assert some.metric("kv_blocks_free") == some.metric("kv_blocks")
        most = []

        def ask(i):
            some.complete(PROMPTS[i], 150)

        def look():
            """A moment may lie between the two figures: twice, for one in which no answer ends."""
            one, two = (some.metrics("kv_blocks_used", "kv_positions") for _ in range(2))
            if one["kv_positions"] > 300:
                most.append(min(one["kv_blocks_used"], two["kv_blocks_used"]) * size
                            / max(one["kv_positions"], two["kv_positions"]))

        together([lambda i=i: ask(i) for i in range(4)] + [look] * 20 + [lambda: ask(5)])
        # At most a block is not full in each of four sequences.
        assert not most or max(most) < 1 + 4 * size / 300, most
        # What has ended is kept in free slots' sequences, until it has to go.
        together([lambda i=i: ask(i) for i in range(10)])
        got = some.metrics("kv_blocks_used", "kv_positions")
        assert got["kv_blocks_used"] * size < got["kv_positions"] + 4 * size, got
        for _ in range(4):
            some.complete("y", 1)
    with s.other("--slots", "3") as cancelled:
        for _ in range(3):
            cancelled.post("/v1/completions", prompt=PROMPTS, max_tokens=3, n=2)
        got = cancelled.metrics("kv_blocks", "kv_blocks_free", "kv_blocks_used", "kv_positions")
        assert got["kv_blocks_free"] + got["kv_blocks_used"] == got["kv_blocks"], got
        assert got["kv_positions"]


# ---- figures ----

SAMPLE = re.compile(r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>[^{}]*)\})? '
                    r'(?P<value>[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|Inf)|NaN)')
LABEL = re.compile(r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*"')


def parse_metrics(text):
    """{name: (kind, {labels: value})} of Prometheus' text format 0.0.4; anything that is none fails."""
    assert text.endswith("\n")
    families, helped, now = {}, set(), None
    for line in text.split("\n")[:-1]:
        if found := re.fullmatch(r"# HELP (\w+) (.+)", line):
            assert found[1] not in helped, line
            helped.add(found[1])
            now = found[1]
        elif found := re.fullmatch(r"# TYPE (\w+) (counter|gauge|histogram)", line):
            assert found[1] == now and now not in families, line
            families[now] = (found[2], {})
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            kind, values = families[now]
            base = re.sub(r"_(bucket|sum|count)$", "", found["name"])
            assert (base if kind == "histogram" else found["name"]) == now, line
            labels = found["labels"] or ""
            assert all(LABEL.fullmatch(label) for label in re.findall(r'[^,]+="[^"]*"', labels)), line
            assert (found["name"], labels) not in values, line
            values[found["name"], labels] = float(found["value"])
    for name, (kind, values) in families.items():
        assert values, name
        if kind == "counter":
            assert name.endswith("_total"), name
        if kind == "histogram":
            counts = [v for (n, _), v in values.items() if n == name + "_bucket"]
            ends = [re.search(r'le="([^"]+)"', labels)[1] for n, labels in values if n == name + "_bucket"]
            assert counts == sorted(counts) and ends[-1] == "+Inf", name
            assert [float(e) for e in ends] == sorted(float(e) for e in ends), name
            assert counts[-1] == values[name + "_count", ""], name
    return families


def test_figures_are_prometheus_text(s):
    s.complete("Once", 20)
    s.complete("Once", 20)
    families = parse_metrics(s.ask("GET", "/metrics")[2])
    for name in ("first_token_seconds", "between_tokens_seconds", "queue_seconds", "request_seconds",
                 "batch_size"):
        kind, values = families["qsf_" + name]
        assert kind == "histogram" and values[f"qsf_{name}_count", ""] > 0, name
    for name in ("gather_ns_total", "step_ns_total", "deliver_ns_total", "sample_ns_total", "kv_blocks_used",
                 "kv_blocks_free", "kv_positions", "resident_bytes", "prefix_hit_ratio"):
        assert families["qsf_" + name][1]["qsf_" + name, ""] > 0, name
    for name in ("kv_blocks_shared", "streamed_bytes_total", "drafts_total", "drafts_accepted_total",
                 "preempted_to_disk_total"):
        assert "qsf_" + name in families, name


if __name__ == "__main__":
    run(__doc__, globals())
