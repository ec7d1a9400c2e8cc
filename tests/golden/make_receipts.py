#!/usr/bin/env python3
"""Writes receipts/: qsf-parity beside llama.cpp's library and bitnet.cpp's, on tiny models (their logits,
too) and real ones.
SPDX-License-Identifier: MIT

    make_receipts.py QSF_PARITY LIBRARY BITNET_LIBRARY [MODEL.gguf...]

LIBRARY: libllama.so, or the folder of the build that README.md says, with -DBUILD_SHARED_LIBS=ON.
BITNET_LIBRARY: the same of bitnet.cpp. "-" leaves out what needs it.
A MODEL whose name begins with bitnet is one of ../bench/make_bitnet.py and goes to bitnet.cpp.
"""
import pathlib, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "receipts"
TINY = ("llama", "gemma3", "gpt2", "llama-q8_0")
IDS = "28,181,21,90,7,255,33,34,120,4,201,66"
BITNET = ("--against", "bitnet.cpp", "--act-quant", "row", "-t", "1", "--with-prompt")


def run(*words):
    subprocess.run([str(w) for w in words], check=True)


def keep(program, path, name, *options):
    """A receipt of random weights, and the other's logits."""
    run(program, path, *options, "--save", FOLDER / f"{name}.logits", "--receipt", FOLDER / f"{name}.json")


def bitnet(program, library, model):
    """One token: attention has nothing to round, and both compute the same codes. Twelve: bitnet.cpp's
    attention rounds to 16 bits where ours does not, and a code that falls the other way for it is a step of
    1/127 of the row's largest activation."""
    keep(program, model, "bitnet-i2_s", *BITNET, "--lib", library, "-n", 12, "--ids", IDS)
    keep(program, model, "bitnet-i2_s-first", *BITNET, "--lib", library, "-n", 1, "--ids", 28,
         "--min-cosine", "0.9999")


def main():
    program, library, other, *models = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        run(sys.executable, HERE.parent / "parity" / "make_tiny.py", work, *TINY, "bitnet-i2_s")
        for name in TINY if library != "-" else ():
            exact = [] if "q8" in name else ["--f32"]
            keep(program, f"{work}/{name}.gguf", name, "--lib", library, "-t", "1", "-n", "12", "--ids", IDS,
                 *exact, "--with-prompt")
        if other != "-": bitnet(program, other, f"{work}/bitnet-i2_s.gguf")
    for path in map(pathlib.Path, models):
        of_bitnet = path.name.startswith("bitnet")
        if (other if of_bitnet else library) == "-": continue
        how = ["--lib", library]
        if of_bitnet: how = [*BITNET, "--lib", other, "-n", 3, "--ids", "28,181,21,90,7"]
        run(program, path, *how, "-t", "1", "--receipt", FOLDER / f"{path.stem}.json")


if __name__ == "__main__":
    main()
