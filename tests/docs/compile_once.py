"""What the builds of ./test compiled, for compile_once.c, which copies objects instead of compiling anew.
SPDX-License-Identifier: MIT

An object is taken if the same compiler had the same arguments, apart from the folders of tree and build,
-Werror, the tests' own -O0 or -O1 and how long the tests may take. docs_commands.py tries the documents'
builds with it: everything except compiling is done as written.
"""

import json, os, pathlib, re, shlex, subprocess

HERE = pathlib.Path(__file__).resolve().parent


def key(command, tree):
    """The words of a command that make a difference."""
    out, skip = [], False
    if os.path.basename(command[0]) == "ccache":
        command = command[1:]
    for word in command:
        if skip or word in ("-Werror", "-O0", "-O1", "-DQSF_TEST_SHORT", "-MD"):
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


def compiled(builds):
    """(words of its command, object) of everything that builds compiled."""
    for build in builds:
        for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            yield words, os.path.join(entry["directory"], words[words.index("-o") + 1])


def index(table, tree, builds):
    """Writes the table that the launcher reads."""
    with open(table, "w") as out:
        for words, made in compiled(builds):
            out.write(key(words, tree) + "\x1e" + made + "\n")


def launcher(work, tree, builds):
    """Compiles the launcher; fails if its keys are not these."""
    program = work / "compile_once"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", HERE / "compile_once.c", "-o", program],
                   check=True)
    for words, _ in list(compiled(builds))[::400]:
        said = subprocess.run([program, "--key", *words], env={"QSF_TREE": tree}, capture_output=True,
                              text=True, check=True).stdout
        if said != key(words, tree):
            raise SystemExit(f"compile_once.c and .py call {words} {said!r} and {key(words, tree)!r}")
    return program
