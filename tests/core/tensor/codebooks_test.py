#!/usr/bin/env python3
"""core/tensor/codebooks_table.c and platform/wasm/codebook_sets.h are what tools/make_codebooks.py
writes, which checks the Python package's tables on the way.
SPDX-License-Identifier: MIT

    codebooks_test.py
"""
import difflib, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILES = {"core/tensor/codebooks_table.c": [], "platform/wasm/codebook_sets.h": ["--sets"]}


def main():
    differ = []
    for path, options in FILES.items():
        command = [sys.executable, str(ROOT / "tools" / "make_codebooks.py"), *options]
        made = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
        differ += difflib.unified_diff((ROOT / path).read_text().splitlines(), made, path, "made",
                                       lineterm="", n=0)
    print("\n".join(differ) or "both files are what make_codebooks.py writes")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
