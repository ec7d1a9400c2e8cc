#!/usr/bin/env python3
"""Writes llama_options.txt: the options of llama-cli and llama-server, from llama.cpp's common/arg.cpp.
SPDX-License-Identifier: MIT

    make_llama_options.py ARG_CPP      (in the sdist of llama-cpp-python: vendor/llama.cpp/common/arg.cpp)

A line is the names of an option, and "=" behind them if it takes a value.  The list that is committed is that
of llama-cpp-python 0.3.36, and at its end the names that earlier releases had.
"""
import pathlib, re, sys

PROGRAMS = re.compile(r"\b(CLI|SERVER|COMPLETION|MAIN|COMMON)\b")
EARLIER = ["--mlock", "--no-mmap", "--mmap", "-dio --direct-io", "--numa =", "-md --model-draft =",
           "-hf --hf-repo =", "-np --parallel =", "--jinja", "-nkvo --no-kv-offload", "-fa"]


def options(source):
    for part in source.split("add_opt(common_arg(")[1:]:
        names = re.match(r"\s*\{([^}]*)\},\s*(?:\{([^}]*)\},\s*)?((?:\"(?:[^\"\\]|\\.)*\",?\s*)*)", part)
        used = re.search(r"set_examples\(\{([^}]*)\}", part)
        if not names or (used and not PROGRAMS.search(used[1].replace("LLAMA_EXAMPLE_", ""))):
            continue
        words, negated = (re.findall(r'"([^"]+)"', names[i] or "") for i in (1, 2))
        texts = re.findall(r'"((?:[^"\\]|\\.)*)"', names[3])
        takes = not negated and bool(texts) and (len(texts) > 1 or " " not in texts[0])
        yield " ".join(words) + (" =" if takes else "")
        if negated:
            yield " ".join(negated)


if __name__ == "__main__":
    found = list(options(pathlib.Path(sys.argv[1]).read_text()))
    lines = found + [line for line in EARLIER if line not in found]
    pathlib.Path(__file__).with_name("llama_options.txt").write_text("\n".join(lines) + "\n")
    print(len(lines), "options")
