#!/usr/bin/env python3
"""Hessians of experts against a plain implementation: of what each one multiplies where enough rows came to
it, and of all rows; and an importance of them makes the experts' outputs better.
SPDX-License-Identifier: MIT

    calibrate_experts_test.py QSF_RUN QSF_CONVERT WORK
"""
import json, pathlib, struct, subprocess, sys
import numpy as np
from gguf import GGUFWriter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import experts, later_gemmas, make_tiny
from reference import Model

UP, DOWN, EXPERT = 44, 45, 1 << 16      # kinds, and what an expert's number is multiplied with
PIECE, BOUND, BETTER = 128, 1e-4, 0.9
WORDS = "the in an re on at is it ou al he ro le and or as to of with for by from are was".split()


def text_of(seed):
    rng = make_tiny.Random(seed)
    return " ".join(WORDS[int(b) % len(WORDS)] for b in rng.bits(1500))


def run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode: sys.exit(f"calibrate_experts_test.py: {command[0]}: {done.stderr}")
    return done.stdout


def pieces(qsf_run, model, text):
    """As the converter cuts its input: pieces of one length, with the begin-of-text token if there is one."""
    ids = json.loads(run(qsf_run, "-m", model, "--tokenize", "-p", text))
    n = len(ids) // PIECE
    first = Model(model).kv.get("tokenizer.ggml.bos_token_id")
    cut = [ids[s * len(ids) // n:][:PIECE] for s in range(n)]
    return [[first if first is not None else p[0], *p[1:]] for p in cut]


class Spy:
    """The inputs of experts while the plain implementation runs: rows by layer and expert."""
    def __init__(self):
        self.ups, self.downs, self.plain = {}, {}, experts.sum_of_experts
        experts.sum_of_experts = later_gemmas.sum_of_experts = self.see

    def see(self, m, x, b, chosen, weight):
        for e in range(m.get("expert_count")):
            rows = np.nonzero((chosen == e).any(axis=1))[0]
            rows = rows[rows >= 2]
            if len(rows) == 0: continue
            self.ups.setdefault((int(b.split(".")[1]), e), []).append(x[rows])
            self.downs.setdefault((int(b.split(".")[1]), e), []).append(experts.hidden(m, x[rows], b, e))
        return self.plain(m, x, b, chosen, weight)

    def end(self):
        experts.sum_of_experts = later_gemmas.sum_of_experts = self.plain
        for rows in (self.ups, self.downs):
            for key in rows: rows[key] = np.concatenate(rows[key])


def read_file(path):
    """(unit, kind, expert or -1): H, of a calibration file as docs/quantisers.md has it."""
    raw, out = path.read_bytes(), {}
    for i in range(struct.unpack_from("<I", raw, 24)[0]):
        unit, kind, cols, _, at, _ = struct.unpack_from("<IIIIQQ", raw, 64 + 32 * i)
        h = np.zeros((cols, cols))
        h[np.tril_indices(cols)] = np.frombuffer(raw, "<f4", cols * (cols + 1) // 2, at + 4 * cols)
        out[unit, kind % EXPERT, kind // EXPERT - 1] = h + np.tril(h, -1).T
    return out


def compare(name, got, rows):
    want = rows.astype(np.float64).T @ rows / len(rows)
    error = np.abs(got - want).max() / np.abs(want).max()
    if not error < BOUND: sys.exit(f"calibrate_experts_test.py: {name}: differs by {error:.1e}")


def check_file(name, found, spy, n_experts):
    kept = missing = 0
    for kind, seen in ((UP, spy.ups), (DOWN, spy.downs)):
        for (layer, e), rows in seen.items():
            h = found.get((layer, kind, e))
            if (h is None) != (len(rows) < rows.shape[1]):
                sys.exit(f"calibrate_experts_test.py: {name}: layer {layer}, expert {e}: {len(rows)} rows, "
                         f"{'no' if h is None else 'a'} Hessian")
            if h is not None: compare(f"{name}, layer {layer}, expert {e}, kind {kind}", h, rows)
            kept, missing = kept + (h is not None), missing + (h is None)
    for layer in {layer for layer, _ in spy.downs}:
        all_rows = [spy.downs[layer, e] for e in range(n_experts) if (layer, e) in spy.downs]
        compare(f"{name}, layer {layer}, kind {DOWN}", found[layer, DOWN, -1], np.concatenate(all_rows))
    return kept, missing


def output_error(model, qsf, seen):
    """Of experts' ups, on rows that no Hessian is of."""
    plain, coded, error, energy = Model(model), Model(model), 0.0, 0.0
    coded.use_qsf(qsf)
    for (layer, e), x in seen.items():
        a, z = (experts.matrix(m, f"blk.{layer}.", "up", e, m.get("expert_feed_forward_length"))
                for m in (plain, coded))
        error, energy = error + np.square(x @ (a - z).T).sum(), energy + np.square(x @ a.T).sum()
    return error / energy


def spied(model, texts):
    m, spy = Model(model), Spy()
    for ids in texts: m.logits(ids, make_tiny.models()[model.stem]["c"], last=False)
    spy.end()
    return spy


def write_imatrix(path, model, seen, turned):
    """As llama-imatrix writes it; turned: each expert gets what its neighbour multiplies."""
    w, n = GGUFWriter(str(path), "imatrix"), Model(model).get("expert_count")
    w.add_type("imatrix")
    for layer in sorted({layer for layer, _ in seen}):
        rows = [seen[layer, (e + turned) % n] for e in range(n)]
        for name in ("ffn_up_exps", "ffn_gate_exps"):
            w.add_tensor(f"blk.{layer}.{name}.weight.in_sum2",
                         np.stack([np.square(x).sum(axis=0) for x in rows]).astype(np.float32))
            w.add_tensor(f"blk.{layer}.{name}.weight.counts",
                         np.array([[len(x)] for x in rows], np.float32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def check_imatrix(qsf_run, convert, work):
    """Each expert is encoded by its own importance: with a neighbour's its outputs are worse."""
    model, _ = make_tiny.make(work, "mixtral-q8_0")
    seen, errors = spied(model, pieces(qsf_run, model, text_of(1))).ups, []
    for key in seen: seen[key] = seen[key] * (1 + 7 * (np.arange(seen[key].shape[1]) % 4 == key[1]))
    for turned in (0, 1):
        write_imatrix(work / "imatrix.gguf", model, seen, turned)
        run(convert, "--quiet", "--quant-type", "4bit", "--calibration-file", work / "imatrix.gguf", model,
            work / "imatrix.qsf")
        errors.append(output_error(model, work / "imatrix.qsf", seen))
    print(f"importance matrices: errors {errors} with an expert's own and with another's")
    if not errors[0] < BETTER * errors[1]: sys.exit("calibrate_experts_test.py: an importance is another's")


def main():
    qsf_run, convert, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    for name in ("mixtral", "mixtral-q8_0", "gemma4-moe", "nemotron_h_moe-narrow"):
        model, _ = make_tiny.make(work, name)
        text, cal, qsf = work / "text.txt", work / f"{name}.cal", work / f"{name}.qsf"
        text.write_text(text_of(1))
        cal.unlink(missing_ok=True)
        errors = []
        for options in ([], ["--calibrate", text, "--calibration-file", cal]):
            run(convert, "--quiet", "--quant-type", "4bit", *options, model, qsf)
            if not make_tiny.models()[name]["experts"].get("fused"):
                errors.append(output_error(model, qsf, spied(model, pieces(qsf_run, model, text_of(2))).ups))
        spy = spied(model, pieces(qsf_run, model, text.read_text()))
        kept, missing = check_file(name, read_file(cal), spy, Model(model).get("expert_count"))
        print(f"{name}: {kept} Hessians of experts are right, {missing} have too few rows; errors {errors}")
        if errors and not errors[1] < BETTER * errors[0]:
            sys.exit(f"calibrate_experts_test.py: {name}: outputs of experts are not better: {errors}")
    check_imatrix(qsf_run, convert, work)


if __name__ == "__main__":
    main()
