#!/usr/bin/env python3
"""Writes perplexity.csv: llama.cpp's perplexity of GGUF files over the first windows of a text.
SPDX-License-Identifier: MIT

    make_perplexity.py LLAMA_PERPLEXITY wiki.test.raw MODEL.gguf=WINDOWS...

Rows of models that are not named stay as they are.
"""
import csv, hashlib, pathlib, re, subprocess, sys

FIELDS = ("model", "text_sha256", "context", "windows", "perplexity", "error")
PATH = pathlib.Path(__file__).parent / "perplexity.csv"

def measure(program, text, model, windows):
    done = subprocess.run([program, "-m", model, "-f", text, "-c", "512", "--chunks", windows, "-t", "2"],
                          text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    value, error = re.search(r"PPL = ([\d.]+) \+/- ([\d.]+)", done.stdout).groups()
    digest = hashlib.sha256(pathlib.Path(text).read_bytes()).hexdigest()[:16]
    return {"model": pathlib.Path(model).name, "text_sha256": digest, "context": 512, "windows": windows,
            "perplexity": value, "error": error}

def main():
    program, text, *models = sys.argv[1:]
    rows = {r["model"]: r for r in csv.DictReader(PATH.open())} if PATH.exists() else {}
    for m in models:
        row = measure(program, text, *m.split("="))
        rows[row["model"]] = row
        print(row)
    with PATH.open("w", newline="") as f:
        out = csv.DictWriter(f, FIELDS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows.values())

if __name__ == "__main__":
    main()
