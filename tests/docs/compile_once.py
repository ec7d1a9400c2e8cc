#!/usr/bin/python3 -IS
"""A compiler launcher (CMAKE_C_COMPILER_LAUNCHER) that takes objects from another build of the same tree.
SPDX-License-Identifier: MIT

    compile_once.py --index TABLE TREE BUILD... writes TABLE: what each object of BUILD was compiled with
    compile_once.py COMPILER ARGUMENTS...       with QSF_OBJECTS=TABLE and QSF_TREE naming the tree's copy

An object is taken if the same compiler had the same arguments, apart from the folders of tree and build,
-Werror, the tests' own -O1 and how long the tests may take; else the compiler runs.
docs_commands.py tries the documents' builds with it: everything except compiling is done as written.
"""

import os, re, shutil, sys


def key(command, tree):
    """The words of a command that make a difference."""
    out, skip = [], False
    if os.path.basename(command[0]) == "ccache":
        command = command[1:]
    for word in command:
        if skip or word in ("-Werror", "-O1", "-DQSF_TEST_SHORT", "-MD"):
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        else:
            out.append(
                re.sub(
                    re.escape(tree) + r"(/build/(test/)?\w+)?(?=/|$)",
                    lambda m: "<build>" if m[1] else "<tree>",
                    word,
                )
            )
    return "\x1f".join(out)


def index(table, tree, builds):
    import json, pathlib, shlex

    with open(table, "w") as out:
        for build in builds:
            for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
                words = shlex.split(entry["command"])
                out.write(
                    key(words, tree)
                    + "\x1e"
                    + os.path.join(entry["directory"], words[words.index("-o") + 1])
                    + "\n"
                )


def main():
    if sys.argv[1] == "--index":
        return index(sys.argv[2], sys.argv[3], sys.argv[4:])
    command = sys.argv[1:]
    if "-c" in command and "-o" in command:
        begin = key(command, os.environ["QSF_TREE"]) + "\x1e"
        with open(os.environ["QSF_OBJECTS"]) as table:
            found = next((line[len(begin) : -1] for line in table if line.startswith(begin)), None)
        if found and os.path.exists(found):
            shutil.copyfile(found, command[command.index("-o") + 1])
            if "-MF" in command:  # the build is new: its dependencies will not be read
                with open(command[command.index("-MF") + 1], "w") as deps:
                    deps.write(f"{command[command.index('-MT') + 1]}:\n")
            return 0
        with open(os.environ["QSF_OBJECTS"] + ".compiled", "a") as log:
            log.write(" ".join(command) + "\n")
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
