#!/usr/bin/env python3
"""Writes the library and qsf-run as one C file: tools/amalgamate.py [OUT], then cc -O3 -o qsf-run
qsf.c -lpthread -lm
SPDX-License-Identifier: MIT

Every file of core/, kernels/, platform/native/, hub/ and cli/ (without the other programs) in that
order; our own headers are inserted where they are first included, the system's are unchanged. No third-party
code, so no compression: -DQSF_HAVE_LZ4 -llz4 and so on bring it back.
"""
import pathlib, re, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["include", "core", "kernels", "platform/native", "hub", "cli"]
LEFT_OUT = re.compile(r"cli/(qsf|qsf-convert|convert_\w+|qsf-bench|bench_\w+|qsf-serve|qsf-parity)\.c"
                      r"|hub/hub_none\.c")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"')
HEAD = """\
/* libqsf and qsf-run in one file, made by tools/amalgamate.py:  cc -O3 -o qsf-run qsf.c -lpthread -lm
 * SPDX-License-Identifier: MIT */
#if !defined(_WIN32)
#  define _GNU_SOURCE
#  define _DARWIN_C_SOURCE
#  define _FILE_OFFSET_BITS 64
#elif !defined(__USE_MINGW_ANSI_STDIO)
#  define __USE_MINGW_ANSI_STDIO 1
#endif
"""


def find(name, beside):
    for folder in [beside.parent] + [ROOT / f for f in FOLDERS]:
        if (folder / name).is_file():
            return (folder / name).resolve()
    sys.exit(f"{beside}: no header {name}")


def guarded(text):
    """Headers with an include guard come once; others (templates) each time they are asked for."""
    return re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M) is not None


def paste(path, seen, out):
    text = path.read_text()
    if guarded(text):
        if path in seen:
            return
        seen.add(path)
    out.append(f"\n/* ======== {path.relative_to(ROOT)} ======== */\n")
    for line in text.splitlines(keepends=True):
        m = INCLUDE.match(line)
        if m:
            paste(find(m[1], path), seen, out)
        else:
            out.append(line)


def main():
    seen, out = set(), [HEAD]
    for folder in FOLDERS[1:]:
        for source in sorted((ROOT / folder).rglob("*.c")):
            if not LEFT_OUT.fullmatch(source.relative_to(ROOT).as_posix()):
                paste(source, seen, out)
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "qsf.c")
    target.write_text("".join(out))
    print(f"{target}: {sum(piece.count(chr(10)) for piece in out)} lines")


if __name__ == "__main__":
    main()
