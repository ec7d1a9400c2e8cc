#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills qsf-convert at random moments: the old file or none is there, never a part of the new one.

    convert_atomic.py QSF_CONVERT [ROUNDS]

Also: Ctrl-C ends with 130 and leaves nothing behind, and the exit codes of wrong inputs.
"""
import hashlib, os, pathlib, random, signal, subprocess, sys, tempfile, time
import numpy as np
from gguf import GGUFWriter

program, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
rng = np.random.default_rng(3)
random.seed(3)
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL:", what)


def make_model(path, layers=6, n=512, ff=1536, vocab=2048):
    """A LLaMA of random weights, large enough that converting takes a good part of a second."""
    w = GGUFWriter(path, "llama")
    w.add_block_count(layers), w.add_context_length(128), w.add_embedding_length(n), w.add_feed_forward_length(ff)
    w.add_head_count(8), w.add_head_count_kv(8), w.add_layer_norm_rms_eps(1e-5), w.add_rope_dimension_count(n // 8)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("default")
    w.add_token_list([str(i) if i < 10 else f"t{i}" for i in range(vocab)]), w.add_token_types([1] * vocab), w.add_token_merges(["t 0"])
    w.add_bos_token_id(0), w.add_eos_token_id(1)
    mat = lambda r, c: (rng.standard_normal((r, c)) * 0.05).astype(np.float16)
    w.add_tensor("token_embd.weight", mat(vocab, n)), w.add_tensor("output_norm.weight", np.ones(n, np.float32))
    for i in range(layers):
        b = f"blk.{i}."
        for k in ("attn_q", "attn_k", "attn_v", "attn_output"): w.add_tensor(b + k + ".weight", mat(n, n))
        for k in ("ffn_gate", "ffn_up"): w.add_tensor(b + k + ".weight", mat(ff, n))
        w.add_tensor(b + "ffn_down.weight", mat(n, ff))
        for k in ("attn_norm", "ffn_norm"): w.add_tensor(b + k + ".weight", np.ones(n, np.float32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def start(source, out, *options):
    return subprocess.Popen([program, "-q", "-t", "2", *options, str(source), str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(*arguments):
    p = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return p.returncode, p.stderr


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    source, out = folder / "model.gguf", folder / "out.qsf"
    make_model(source)

    begin = time.monotonic()
    check(start(source, out).wait() == 0, "a plain conversion")
    takes, whole = time.monotonic() - begin, digest(out)
    check(run("--verify", out)[0] == 0, "the plain conversion's file verifies")

    old_bytes = b"what was here before"
    seen = {"old": 0, "none": 0, "new": 0}
    for i in range(rounds):
        there = i % 2
        out.unlink(missing_ok=True)
        if there: out.write_bytes(old_bytes)
        p = start(source, out)
        time.sleep(random.uniform(0, 1.1 * takes))
        p.kill()
        p.wait()
        got = digest(out)
        if got == whole: seen["new"] += 1
        elif there: check(out.exists() and out.read_bytes() == old_bytes, f"round {i}: neither the old file nor the new one"); seen["old"] += 1
        else: check(got is None, f"round {i}: something that is not the new file"); seen["none"] += 1
        for left in folder.glob("out.qsf.*"): left.unlink()
    print(f"killed {rounds} times: {seen}")
    check(seen["old"] and seen["none"], "no kill came in time")

    for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
        for part in (0.3, 0.6):
            out.write_bytes(old_bytes)
            p = start(source, out, "--quant-type", "mixed")
            time.sleep(part * takes)
            p.send_signal(number)
            check(p.wait() == 130, f"{name} ends with 130, not {p.returncode}")
            check(out.read_bytes() == old_bytes, f"{name} leaves the old file")
            check(not list(folder.glob("out.qsf.*")), f"{name} leaves nothing behind")

    # every option that changes the bytes gives a file that verifies, and the same one again
    for options in (["--compress", "lz4"], ["--compress", "zstd"], ["--packing", "0"], ["--quant-type", "ternary"], ["--quant-type", "mixed"], ["--target-size", "12"]):
        a, b = folder / "a.qsf", folder / "b.qsf"
        code, err = run("-q", "-t", "1", *options, source, a)
        if code == 3 and "build" in err: continue                        # a library that this build lacks
        check(code == 0, f"{options}: {err}")
        check(run("-q", "-t", "3", *options, source, b)[0] == 0 and digest(a) == digest(b), f"{options}: the same file for any number of threads")
        check(run("--verify", a)[0] == 0, f"{options}: verifies")
        check(run("--info", a)[0] == 0, f"{options}: has an --info")
        if "--target-size" in options: check(a.stat().st_size <= 12e6, "the target size is kept")

    # measured in the same run, or later: the same file, and nothing else stays
    text, a, b = folder / "text", folder / "a.qsf", folder / "b.qsf"
    text.write_text(" ".join(str(i * i) for i in range(200)))
    plain = folder / "plain.qsf"
    check(run("-q", source, plain)[0] == 0, "a plain conversion once more")
    for options in ([plain, b], [source, a]):
        begin = time.monotonic()
        code, err = run("-q", "--calibration", text, *options)
        takes = time.monotonic() - begin
        check(code == 0, f"--calibration {options}: {err}")
    check(digest(a) == digest(b) != digest(plain) and not list(folder.glob("*.tmp")), "calibrating now or later gives the same file")

    # interrupted or killed while it converts or measures: as without measuring, and what a kill leaves is gone after the next run
    measured = digest(a)
    for i, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGKILL)):
        a.write_bytes(old_bytes)
        p = start(source, a, "--calibration", text)
        time.sleep((0.2 + 0.2 * i) * takes)
        p.send_signal(number)
        p.wait()
        check(a.read_bytes() == old_bytes, f"{number} while calibrating leaves the old file")
        check(number == signal.SIGKILL or (p.returncode == 130 and not list(folder.glob("a.qsf.*"))), f"{number} while calibrating leaves nothing behind")
    for left in folder.glob("a.qsf.*-*.tmp"): left.unlink()              # of the writer's own, as above
    (folder / "a.qsf.unmeasured.tmp").write_bytes(b"left by a kill")
    check(start(source, a, "--calibration", text).wait() == 0 and digest(a) == measured and not list(folder.glob("a.qsf.*")), "the next run removes what a kill has left")

    damaged = bytearray(out.read_bytes() if digest(out) == whole else (run("-q", source, out), out.read_bytes())[1])
    damaged[len(damaged) // 2] ^= 4
    (folder / "damaged.qsf").write_bytes(damaged)
    for arguments, code, says in (
            ([], 2, "usage"), (["--quant-type", "5bit", source, out], 2, "quant-type"), (["--tensor", "x", source, out], 2, "PATTERN=TYPE"),
            (["--tensor", "nothing=8bit", source, out], 2, "nothing"), (["-q", "--calibration", folder / "missing.txt", source, out], 5, "missing.txt"),
            (["--verify", folder / "damaged.qsf"], 3, "damaged"), (["-q", folder / "damaged.qsf", out], 3, "damaged"),
            (["-q", folder / "missing.gguf", out], 5, "missing"), (["-q", source, folder / "no" / "such" / "out.qsf"], 5, "out.qsf"),
            (["-q", "--ram", "1", source, out], 4, "--ram"), (["-q", "--target-size", "1", source, out], 2, "smallest")):
        got, err = run(*arguments)
        check(got == code and says in err, f"{arguments}: exit {got} (not {code}), {err.strip()!r}")

print("ok" if not failures else f"{failures} failed")
sys.exit(failures > 0)
