#!/usr/bin/env python3
"""Every ggml-vocab-*.gguf of llama.cpp's archive: the texts of its .inp become the tokens of its .out.
SPDX-License-Identifier: MIT

    vocab_files_test.py QSF_RUN DIR...

DIR is a folder of such files (models/ of llama.cpp); QSF_VOCAB_DIR names further ones. Where a file has no
.inp it must at least load, and give a text back. Without any file the test is skipped (77)."""
import json, os, pathlib, subprocess, sys

MARK = "\n__ggml_vocab_test__\n"


def run(command, data):
    p = subprocess.run(command, input=data, capture_output=True)
    if p.returncode:
        sys.exit(f"{' '.join(command)}: exit {p.returncode}: {p.stderr.decode(errors='replace')[-400:]}")
    return p.stdout


def check(qsf_run, path):
    """The number of texts and of wrong ones."""
    tokens = lambda text: json.loads(run([qsf_run, "-m", str(path), "--tokenize"], text.encode()))
    inp, out = path.with_name(path.name + ".inp"), path.with_name(path.name + ".out")
    if not inp.exists():
        ids = tokens("Hello world, 123")
        text = run([qsf_run, "-m", str(path), "--detokenize"], json.dumps(ids).encode()).decode()
        return 1, int(text.strip().lower() != "hello world, 123")
    texts = inp.read_bytes().decode().split(MARK)
    wanted = out.read_text().split("\n")
    bad = 0
    for text, want in zip(texts, wanted):
        ids, want = tokens(text), [int(x) for x in want.split()]
        if ids != want:
            bad += 1
            print(f"FAIL {path.name}: {text!r}: {ids}, expected {want}")
    return len(texts), bad


def main():
    folders = [pathlib.Path(d) for d in sys.argv[2:] + os.environ.get("QSF_VOCAB_DIR", "").split(":") if d]
    files = sorted({p.name: p for d in folders for p in d.glob("ggml-vocab-*.gguf")}.values())
    if not files:
        print("skipped: no ggml-vocab-*.gguf")
        sys.exit(77)
    wrong = 0
    for path in files:
        n, bad = check(sys.argv[1], path)
        wrong += bad
        print(f"{path.name}: {n} texts, {bad} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
