#!/usr/bin/env python3
"""Quantises SmolLM2 and Qwen2.5-Coder (padded by ../parity/make_padded.py) to the types of few bits with
llama.cpp's tools and an importance matrix, and writes lowbit.csv: the perplexity of each file.
SPDX-License-Identifier: MIT

    make_lowbit.py LLAMA_BIN QSF_RUN wiki.test.raw FOLDER MODEL.gguf [NAME...]

LLAMA_BIN has llama-imatrix, llama-quantize and llama-perplexity. What is in FOLDER already is not made
again. Files that are not named keep their rows. ../parity/run.py --only lowbit --lowbit FOLDER compares.

Over the same windows: `perplexity` and `error` are llama.cpp's, whose 8-bit activations have one scale for
256 columns; `floats` is llama.cpp's of the same weights as 16-bit floats, where it rounds no activations;
`ours` and `ours_f32` are this project's, as it computes by default (a scale for 64 columns) and in floats,
both with 16-bit keys and values.
"""
import csv, hashlib, pathlib, re, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
PATH = HERE / "lowbit.csv"
FIELDS = ("file", "file_sha256", "types", "text_sha256", "context", "windows", "perplexity", "error",
          "floats", "ours", "ours_f32")
CONTEXT, WINDOWS, CHUNKS, THREADS, CALIBRATION = "512", "8", "8", "2", 400000

KINDS = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "tq1_0",
         "tq2_0", "q1_0", "q2_0", "mxfp4", "nvfp4")
# a trained model does not survive one bit or ternary weights everywhere
FEW = r"\.attn_(q|k)="
FILES = {"mixed": None,         # by ../parity/make_mixed.py, without llama.cpp's tools
         # every type in one layer
         "every": [w for i, kind in enumerate(KINDS)
                   for w in ("--tensor-type", rf"blk\.{i + 8}{FEW}{kind}")] + ["Q8_0"]}
# what stands on the hub under these names
FILES |= {kind: [kind.upper()] for kind in KINDS[2:9]}
FILES |= {kind: ["--tensor-type", f"blk={kind}", "Q8_0"] for kind in KINDS[13:]}
FILES |= {kind: ["--tensor-type", rf"blk\.[0-9]*[05]{FEW}{kind}", "Q8_0"] for kind in KINDS[:2] + KINDS[9:13]}


def call(*words):
    done = subprocess.run([str(w) for w in words], text=True, errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode: sys.exit(f"{words[0]}: {done.stdout[-1000:]}")
    return done.stdout


def digest(path):
    with open(path, "rb") as f: return hashlib.file_digest(f, "sha256").hexdigest()[:16]


def types_of(path):
    """How many matrices of each type."""
    sys.path.append(str(HERE.parent / "tools"))
    from gguf_reader import Reader
    counts = {}
    for t in Reader(path).tensors:
        if len(t.shape) > 1: counts[t.tensor_type.name] = counts.get(t.tensor_type.name, 0) + 1
    return " ".join(f"{k}:{n}" for k, n in sorted(counts.items()))


def source(bin_dir, model, text, folder):
    """The model as floats, and its importance matrix by the end of the text: the beginning is measured."""
    floats, matrix, calibration = folder / "f16.gguf", folder / "imatrix.gguf", folder / "calibration.txt"
    folder.mkdir(parents=True, exist_ok=True)
    if not floats.exists(): call(sys.executable, HERE.parent / "parity" / "make_padded.py", model, floats)
    if not matrix.exists():
        calibration.write_bytes(pathlib.Path(text).read_bytes()[-CALIBRATION:])
        call(bin_dir / "llama-imatrix", "-m", floats, "-f", calibration, "-o", matrix, "--chunks", CHUNKS,
             "-c", CONTEXT, "-b", CONTEXT, "-t", THREADS)
    return floats, matrix


def theirs(bin_dir, path, text):
    out = call(bin_dir / "llama-perplexity", "-m", path, "-f", text, "-c", CONTEXT, "--chunks", WINDOWS,
               "-b", CONTEXT, "-t", THREADS)
    return re.search(r"PPL = ([\d.]+) \+/- ([\d.]+)", out).groups()


def as_floats(bin_dir, path, text):
    """llama.cpp's perplexity of what the file's weights are, without its product of codes."""
    floats = path.with_suffix(".floats")
    call(bin_dir / "llama-quantize", "--allow-requantize", path, floats, "F16", THREADS)
    value, _ = theirs(bin_dir, floats, text)
    floats.unlink()
    return value


def ours(qsf_run, path, text, *options):
    out = call(qsf_run, "-m", path, "--perplexity", text, "-c", CONTEXT, "--chunks", WINDOWS, "-t", THREADS,
               *options)
    return re.findall(r"^perplexity ([\d.]+) \+/-", out, re.M)[-1]


def measure(bin_dir, qsf_run, path, text):
    value, error = theirs(bin_dir, path, text)
    return {"file": path.name, "file_sha256": digest(path), "types": types_of(path),
            "text_sha256": digest(text), "context": CONTEXT, "windows": WINDOWS, "perplexity": value,
            "error": error, "floats": as_floats(bin_dir, path, text),
            "ours": ours(qsf_run, path, text, "--kv-type", "f16"),
            "ours_f32": ours(qsf_run, path, text, "--kv-type", "f16", "--f32")}


def main():
    bin_dir, qsf_run, text, folder, model = (pathlib.Path(a) for a in sys.argv[1:6])
    stem = model.name.split("-")[0]
    rows = {r["file"]: r for r in csv.DictReader(PATH.open())} if PATH.exists() else {}
    floats, matrix = source(bin_dir, model, text, folder / stem)
    for name, options in FILES.items():
        if sys.argv[6:] and name not in sys.argv[6:] or not options and stem != "smollm2": continue
        path = folder / f"{stem}-{name}.gguf"
        if not path.exists() and options is None:
            call(sys.executable, HERE.parent / "parity" / "make_mixed.py", model, path)
        elif not path.exists():
            call(bin_dir / "llama-quantize", "--imatrix", matrix, *options[:-1], floats, path, options[-1])
        rows[path.name] = measure(bin_dir, qsf_run, path, text)
        print(*rows[path.name].values(), flush=True)
        with PATH.open("w", newline="") as f:
            out = csv.DictWriter(f, FIELDS, lineterminator="\n")
            out.writeheader()
            out.writerows(rows.values())


if __name__ == "__main__":
    main()
