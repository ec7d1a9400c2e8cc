#!/usr/bin/env python3
"""qsf-run, qsf-serve and qsf-bench with layers on a GPU: memory, and answers and cached sequences of the CPU.
SPDX-License-Identifier: MIT

    serve_device_test.py QSF_SERVE QSF_BENCH QSF_RUN WORK

QSF_WEBGPU_DIR: tests/tools/software_gpu.py; skipped without it.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_tiny, software_gpu
from serve_server import Server, together

PREFIX = "abc de fgh ijk lmno pq abc de fgh ijk lmno pq "
PROMPTS = [PREFIX + "abc", PREFIX + "lmno de", "ijk abc"]
OPTIONS = ["--slots", "3", "--ctx-size", "512", "--threads", "1"]


def answers(server):
    """One by one, so that prefixes are shared; then all in one batch."""
    alone = [server.complete(p, 6) for p in PROMPTS]
    both = together([lambda p=p: server.complete(p, 6) for p in PROMPTS])
    assert alone == both, (alone, both)
    return alone


def cached(server, prompt):
    a = server.post("/v1/completions", prompt=prompt, max_tokens=6, temperature=0, ignore_eos=True)
    return a["choices"][0]["text"], a["usage"]["prompt_tokens_details"]["cached_tokens"]


def check_serve(program, model, work):
    files = {side: work / f"{side}.cache" for side in ("cpu", "gpu")}
    gpu = ["--device", "gpu"]
    for file in files.values(): file.unlink(missing_ok=True)
    want = {}
    for side, more in (("cpu", []), ("gpu", gpu)):
        s = Server(program, model, *OPTIONS, *more, "--cache-file", str(files[side]))
        want[side] = answers(s)
        props = s.ask("GET", "/props")[2]
        layers = s.metric("gpu_layers")
        s.end()
        if side == "cpu":
            assert "device" not in props and layers == 0, props
        else:
            assert "SwiftShader" in props["device"] and "layers 0 to 2 and the head" in props["device"], props
            assert layers == 3, layers
            assert any("layers 0 to 2 and the head on SwiftShader" in line for line in s.lines), s.lines
    assert want["cpu"] == want["gpu"], want
    for side, more in (("gpu", []), ("cpu", [*gpu, "-ngl", "1"])):      # what the other one has saved
        s = Server(program, model, *OPTIONS, *more, "--cache-file", str(files[side]))
        text, n = cached(s, PROMPTS[0])
        assert text == want["cpu"][0] and n > len(PREFIX) // 4, (text, n, want)
        assert not more or s.metric("gpu_layers") == 1, s.lines
        s.end()
    print("qsf-serve: the same answers and cached sequences")


def measured(program, model, *more):
    command = [program, model, "-p", "8", "-n", "2", "-r", "1", "-t", "1", "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done, json.loads(done.stdout)["results"]


def check_bench(program, model):
    """What the GPU has is not in the plan; a budget decides by itself what is."""
    done, rows = measured(program, model, "--device", "gpu")
    cpu = measured(program, model)[1]
    assert "on SwiftShader" in done.stderr and done.stderr.count("SwiftShader") == 1, done.stderr
    assert {r["test"] for r in rows} >= {"pp8", "tg2"} and all("+gpu" in r["isa"] for r in rows), rows
    saved = cpu[0]["memory"] - rows[0]["memory"]
    assert saved > 0, saved
    print(f"qsf-bench: {done.stderr.strip()}; {saved} bytes less of the process's memory")


def planned(stderr, part):
    return next(float(line.split()[-2]) for line in stderr.splitlines() if line.strip().startswith(part))


def check_memory(program, model):
    """Fewer layers in less memory; an error if not even one fits."""
    run = [program, model, "--raw", "-p", "abc de", "-n", "4", "--temp", "0", "--device", "gpu", "-v"]
    least = subprocess.run([*run, "--gpu-memory", "0.1"], capture_output=True, text=True)
    assert least.returncode and "one layer needs" in least.stderr, least.stderr
    needs = int(least.stderr.split("one layer needs ")[1].split()[0])
    some = subprocess.run([*run, "--gpu-memory", str(needs), "--gpu-stream", "off"], capture_output=True,
                          text=True)
    assert some.returncode == 0 and "layers 1 to 1" in some.stderr and "1 of 2 layers fit" in some.stderr, \
        some.stderr
    all_stay = subprocess.run([*run[:-3], "-v"], capture_output=True, text=True)
    here, there = (planned(r.stderr, "layers that stay") for r in (all_stay, some))
    assert abs(here - 2 * there) < 0.02 and "all layers in memory" in all_stay.stderr, (here, there)
    assert "pass through to the GPU" in some.stderr and planned(some.stderr, "layer buffers"), some.stderr
    print("--gpu-memory:", some.stderr.splitlines()[0])


def main():
    serve, bench, run, work = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    os.environ.update(software_gpu.environment())
    check_memory(run, str(make_tiny.make(work, "llama-q4_k")[0]))
    few = str(make_tiny.make(work, "llama-bf16")[0])        # whose pipelines are compiled in half of the time
    check_bench(bench, few)
    check_serve(serve, few, work)


if __name__ == "__main__":
    main()
