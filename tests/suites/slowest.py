#!/usr/bin/env python3
"""Hands on what ctest prints, with the slowest tests before its summary.
SPDX-License-Identifier: MIT

    ctest ... | slowest.py [HOW_MANY]
"""
import re, sys

most = int(sys.argv[1]) if len(sys.argv) > 1 else 20
took, summary = [], False
for line in sys.stdin:
    found = re.match(r"\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\D*([\d.]+) sec$", line)
    if found and not summary:
        took.append((float(found[2]), found[1]))
    if re.match(r"\d+% tests passed", line):
        summary = True
        together = sum(seconds for seconds, _ in took)
        print(
            f"The {min(most, len(took))} slowest of {len(took)} tests, which took {together:.0f} s together:")
        for seconds, name in sorted(took, reverse=True)[:most]:
            print(f"{seconds:8.1f} s  {name}")
        print()
    print(line, end="", flush=True)
