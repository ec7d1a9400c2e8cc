#!/usr/bin/env python3
"""Passes on the output of ctest, then prints the slowest tests, the skipped ones, and the counts.
SPDX-License-Identifier: MIT

    ctest ... | summary.py LOG [HOW_MANY_SLOWEST]

LOG is ctest's LastTest.log. A test that lacks its data exits with 77; a skipped part of a test prints a line
that begins with "skip". Both are listed by name. The last line is

    N passed, N failed, N skipped

and the exit status is 1 if a test failed or none ran.
"""
import pathlib
import re
import sys

RESULT = re.compile(r"\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\s*(.*?)\s+([\d.]+) sec\s*$")
SKIPPED = re.compile(r"(?:skip(?:ped)?:? |\ufe63 )(.+)", re.I)


def results(lines):
    """Passes on the output of ctest; returns [(name, result, seconds)]."""
    found, ended = [], False
    for line in lines:
        ended |= bool(re.match(r"\d+% tests passed", line))
        match = None if ended else RESULT.match(line)
        if match: found.append((match[1], match[2], float(match[3])))
        print(line, end="", flush=True)
    return found


def skipped_parts(log):
    """From ctest's log: (test, its line about what it skipped), each once."""
    test, parts = None, {}
    for line in log.splitlines():
        begin = re.match(r"\d+/\d+ Test: (\S+)", line)
        said = SKIPPED.match(line.strip())
        if begin: test = begin[1]
        elif said and test: parts[test, said[1]] = True
    return list(parts)


def main():
    log = pathlib.Path(sys.argv[1])
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    found = results(sys.stdin)
    skipped = [name for name, result, _ in found if "Skipped" in result]
    passed = [name for name, result, _ in found if result.endswith("Passed")]
    failed = len(found) - len(passed) - len(skipped)

    print(f"\nThe {min(most, len(found))} slowest of {len(found)} tests and builds, which took "
          f"{sum(seconds for *_, seconds in found):.0f} s together:")
    for name, _, seconds in sorted(found, key=lambda row: -row[2])[:most]: print(f"{seconds:8.1f} s  {name}")
    parts = skipped_parts(log.read_text(errors="replace")) if log.exists() else []
    if parts or skipped: print("\nSkipped, for lack of data, tools or what the processor has:")
    for name in skipped: print(f"  {name}: all of it")
    for name, what in parts: print(f"  {name}: {what}")
    print(f"\n{len(passed)} passed, {failed} failed, {len(skipped)} skipped")
    sys.exit(1 if failed or not passed else 0)


main()
