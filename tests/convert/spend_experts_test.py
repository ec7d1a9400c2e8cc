#!/usr/bin/env python3
"""How much matrices of experts matter, and of layers with several streams, as the converter measures it,
against a plain implementation of the model; that a size and a divergence that were asked for are kept; that
padding is not paid for; and which files warn of experts.
SPDX-License-Identifier: MIT

    spend_experts_test.py QSF_RUN QSF_CONVERT WORK [MODEL...]      these of the models, or all
"""
import json, pathlib, struct, subprocess, sys
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_tiny
from calibrate_experts_test import run, text_of
from reference import Model

SEQS, LEN, STRIDE = 8, 64, 4            # of sensitivity.c
LEAST = -20                             # log-probabilities below it count for nothing
STREAMS = {6: "ffn_down"}
EXPERTS = {43: "ffn_gate_exps", 44: "ffn_up_exps", 45: "ffn_down_exps"}
NEAR, FACTOR = 0.01, 3                 # of one matrix; of a file against the request
ASKED = 0.2, 0.04, 0.008
COARSE = "trellis3"


def texts(qsf_run, model, text):
    ids = json.loads(run(qsf_run, "-m", model, "--tokenize", "-p", text))
    n = min(len(ids) // LEN, SEQS)
    bos = Model(model).kv.get("tokenizer.ggml.bos_token_id")
    cut = [ids[s * len(ids) // n:][:LEN] for s in range(n)]
    return [[bos if bos is not None else p[0], *p[1:]] for p in cut]


def log_probabilities(m, name, cut):
    rows = [m.logits(ids, make_tiny.models()[name]["c"], last=False)[STRIDE - 1::STRIDE] for ids in cut]
    x = np.concatenate(rows).astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def divergences(base, now):
    return np.where(base > LEAST, np.exp(base) * (base - now), 0).sum(axis=1)


def read_sensitivities(path):
    raw = path.read_bytes()
    rows = (struct.unpack_from("<IIf", raw, 24 + 12 * i) for i in range(struct.unpack_from("<I", raw, 20)[0]))
    return {(unit, kind): kl for unit, kind, kl in rows}


def check_sensitivities(name, model, files, found, cut, kinds):
    """Of every matrix of these kinds: the fine file's model with that matrix of the coarse file."""
    fine, coarse = Model(model), Model(model)
    fine.use_qsf(files["fine"]), coarse.use_qsf(files["coarse"])
    base = log_probabilities(fine, name, cut)
    for (unit, kind), kl in found.items():
        if kind not in kinds: continue
        tensor = f"blk.{unit}.{kinds[kind]}.weight"
        own = fine.cache[tensor]
        fine.cache[tensor] = fine.tensors[tensor] = coarse.cache[tensor]
        want = divergences(base, log_probabilities(fine, name, cut)).mean()
        fine.cache[tensor] = fine.tensors[tensor] = own
        print(f"{name} {tensor}: {kl:.6f}, by the plain implementation {want:.6f}")
        if not abs(kl - want) < NEAR * want: sys.exit(f"spend_experts_test.py: {name}: {tensor} differs")


def check_targets(qsf_convert, name, model, cal, work, cut):
    """Of the fewest bits the mean is near what was asked for; with more of them single rows that take another
    expert are most of it (a router in 16 bits is enough), so that the median has to fall.  A size is kept."""
    plain, out, sizes, medians = Model(model), work / "spent.qsf", [], []
    base = log_probabilities(plain, name, cut)
    for kl in ASKED:
        run(qsf_convert, "-q", "--calibration-file", cal, "--equalize", "off", "--target-kl", kl, model, out)
        coded = Model(model)
        coded.use_qsf(out)
        rows = divergences(base, log_probabilities(coded, name, cut))
        sizes.append(out.stat().st_size), medians.append(np.median(rows))
        print(f"{name}: {kl} asked, {rows.mean():.5f}, median {medians[-1]:.6f}, in {sizes[-1]} bytes")
        if kl == ASKED[0] and not kl / FACTOR < rows.mean() < kl * FACTOR:
            sys.exit(f"spend_experts_test.py: {name}: a divergence of {rows.mean()}")
    if sizes != sorted(sizes) or not medians[0] > 2 * medians[1] > 4 * medians[2]:
        sys.exit(f"spend_experts_test.py: {name}: sizes {sizes}, divergences {medians}")
    for size in (sizes[0], sizes[1] - 1):
        run(qsf_convert, "-q", "--calibration-file", cal, "--target-size", size / 1e6, model, out)
        if out.stat().st_size > size: sys.exit(f"spend_experts_test.py: {name}: more than {size} bytes")


def check_warning(qsf_convert, model, out):
    """Of a file whose experts cannot be read alone, and of no other."""
    for more in ([], ["--progressive"]):
        command = [qsf_convert, "-q", "--quant-type", "8bit", *more, model, out]
        said = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stderr
        if ("warning: experts of" in said) != bool(more): sys.exit(f"spend_experts_test.py: {more}: {said}")


def check_padding(qsf_convert, model, cal, work):
    """Matrices of 24 columns take fewer bytes as f16 than in tiles of 64: no other form is worth it."""
    out, whole = work / "spent.qsf", work / "whole.qsf"
    run(qsf_convert, "-q", "--calibration-file", cal, "--target-kl", 1e-9, model, out)
    run(qsf_convert, "-q", "--quant-type", "f16", model, whole)
    sizes = out.stat().st_size, whole.stat().st_size
    if sizes[0] > sizes[1]: sys.exit(f"spend_experts_test.py: {sizes[0]} bytes, f16 has {sizes[1]}")


def main():
    qsf_run, qsf_convert, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    text = work / "text.txt"
    text.write_text(text_of(1))
    models = {"gemma3n": STREAMS, "mixtral": EXPERTS, "mixtral-q8_0": EXPERTS, "qwen2moe": EXPERTS}
    for name in sys.argv[4:] or models:
        kinds = models[name]
        model, _ = make_tiny.make(work, name)
        cal, cut = work / f"{name}.cal", texts(qsf_run, model, text.read_text())
        kept = pathlib.Path(f"{cal}.sensitivity")
        cal.unlink(missing_ok=True), kept.unlink(missing_ok=True)
        given = ["-q", "--equalize", "off"]
        run(qsf_convert, *given, "--effort", "3", "--calibrate", text, "--calibration-file", cal,
            "--target-kl", "0.1", model, work / "spent.qsf")
        files = {"fine": work / "fine.qsf", "coarse": work / "coarse.qsf"}
        for what, form, more in (("fine", "8bit", []), ("coarse", COARSE, ["--calibration-file", cal])):
            router = ["--tensor", "ffn_gate_inp=f16"] if kinds is EXPERTS else []
            run(qsf_convert, *given, *more, "--tensor", f"*={form}", *router, model, files[what])
        check_sensitivities(name, model, files, read_sensitivities(kept), cut, kinds)
        if kinds is EXPERTS: check_targets(qsf_convert, name, model, cal, work, cut)
        else: check_padding(qsf_convert, model, cal, work)
    check_warning(qsf_convert, model, work / "spent.qsf")


if __name__ == "__main__":
    main()
