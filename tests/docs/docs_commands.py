#!/usr/bin/env python3
"""Runs what the documents say, as they say it, in a copy of the tree.
SPDX-License-Identifier: MIT

    docs_commands.py TREE WORK_FOLDER BUILD...   the builds give objects, so that nothing is compiled twice
    docs_commands.py --list TREE                 every block and what becomes of it

A block is what stands between ``` or is indented by four spaces. blocks.py names each by its first words and
says what becomes of it; a block that it does not name fails the test, and so does a name or a replacement
without its block. The commands of one document run in one shell, one after another; what two or more spaces
separate from a command is a comment.
"""

import argparse, os, pathlib, re, shutil, subprocess, sys

import compile_once
from blocks import BLOCKS, C, Js, Listed, Run, Tried

# Before the JavaScript of a document; and how it runs.
PAGE = """import {serve} from 'TREE/demo/serve.mjs';
const server = await serve([['/m', 'TREE/smollm2-4bit.qsf']]);
const url = `http://127.0.0.1:${server.address().port}/m`, signal = AbortSignal.timeout(60000);
"""
PAGE_SHELL = """test -d node_modules/qsf || { mkdir -p node_modules; cp -r build/wasm/js node_modules/qsf; }
ln -sf "$SMOLLM2" smollm2-135m-4bit.qsf
QSF_CACHE=$PWD/cache node page.mjs"""
BUILD_FIRST = ("README.md", "docs/wasm.md")  # what they make, the others use


def blocks(tree):
    """(document, line, language, text) of every block."""
    folders = ("", "docs", "js", "demo", "examples/*", "tests/*", "tools")
    pages = {p for f in folders for p in tree.glob(f"{f}/*.md" if f else "*.md")}
    for path in sorted(pages - {tree / "docs/api.md"}):  # its blocks are declarations of qsf.h
        name, lines, fence, begin, kept = (
            path.relative_to(tree).as_posix(),
            path.read_text().splitlines(),
            None,
            0,
            [],
        )
        for i, line in enumerate(lines + [""]):
            if fence is not None:
                if line.startswith("```"):
                    yield name, begin, fence, "\n".join(kept)
                    fence, kept = None, []
                else:
                    kept.append(line)
            elif line.startswith("```"):
                fence, begin = line[3:].strip(), i + 2
            elif line.startswith("    ") and (kept or not lines[i - 1].strip()):
                begin = begin if kept else i + 1
                kept.append(line[4:])
            elif kept:
                yield name, begin, "", "\n".join(kept)
                kept = []


def commands(text):
    return [
        re.split(r"\s{2,}", line.strip())[0]
        for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines()
        if line.strip()
    ]


def classified(tree):
    unused, out, bad = set(BLOCKS), [], []
    for name, line, language, text in blocks(tree):
        found = [k for k in BLOCKS if k[0] == name and text.lstrip().startswith(k[1])]
        if len(found) != 1:
            bad.append(
                f"{name}:{line}: {text.splitlines()[0]!r} is in BLOCKS of tests/docs/blocks.py "
                f"{len(found)} times: say there how it is tried, or why it is not"
            )
            continue
        unused.discard(found[0])
        out.append((name, line, language, text, BLOCKS[found[0]]))
    return out, bad + [
        f"BLOCKS of tests/docs/blocks.py has {k}, which no document has" for k in sorted(unused)
    ]


def replaced(text, replace, where):
    """text with every replacement made; each has to find its words."""
    for old, new in replace:
        if old not in text:
            raise SystemExit(f"{where}: a replacement of {old!r} finds nothing")
        text = text.replace(old, new)
    return text


def copy_if_there(source, target):
    """shutil.copy2, but a file that a concurrent test has deleted meanwhile is not an error."""
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        pass


class Tree:
    """A copy of the tree, with programs that are built as the documents say."""

    def __init__(self, tree, folder, generator, table, tools):
        self.folder, self.log, self.seconds = folder, folder.parent / f"{folder.name}.log", {}
        shutil.copytree(
            tree,
            folder,
            symlinks=True,
            ignore=lambda f, names: [
                n for n in names if n in ("build", ".git", "node_modules", "__pycache__")
            ],
            copy_function=copy_if_there,
        )
        self.env = {
            k: v for k, v in os.environ.items() if not k.startswith("CMAKE_") and not k.startswith("QSF_TEST")
        }
        self.env |= {
            "CC": "gcc",
            "QSF_OBJECTS": str(table),
            "QSF_TREE": str(folder),
            "CMAKE_BUILD_PARALLEL_LEVEL": "2",
            **tools,
        }
        if generator:
            self.env["CMAKE_GENERATOR"] = generator
        self.log.write_text("")

    def shell(self, where, script):
        begin, at = sum(os.times()[2:4]), self.log.stat().st_size
        with open(self.log, "a") as log:
            code = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            ).returncode
        self.seconds[where] = sum(os.times()[2:4]) - begin
        if code:
            sys.exit(
                f"{where}: exit code {code}\n"
                + "\n".join(self.log.read_bytes()[at:].decode("utf-8", "replace").splitlines()[-40:])
            )


def script_of(name, line, text, how):
    lines = (
        commands(replaced("\n".join(commands(text)), how.replace, f"{name}:{line}"))
        if how.replace
        else commands(text)
    )
    shown = "\n".join(f"printf '\\n>>> %s\\n' {quote(c)}\n{c}" for c in lines)
    return "\n".join(part for part in (how.first, shown, how.after) if part)


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def check_listed(tree, name, line, text):
    """Programs of the tree that a block names are there, and know its options."""
    for command in commands(text):
        for part in re.split(r"\s*&&\s*", command):
            words = part.split()
            program = next(
                (w for w in words if w.startswith(("tests/", "tools/", "js/", "build/release/qsf-"))), None
            )
            if not program or not (tree.folder / program).is_file():
                if program and not program.startswith("build/"):
                    sys.exit(f"{name}:{line}: there is no {program}")
                continue
            if program.startswith("build/"):
                known = subprocess.run(
                    [tree.folder / program, "--help", "all"], capture_output=True, text=True, check=True
                ).stdout
            else:
                known = (tree.folder / program).read_text()
            for option in re.findall(
                r"(?<=\s)--?[a-z][\w-]*", " " + part[part.index(program) + len(program) :]
            ):
                if not re.search(re.escape(option) + r"(?![\w-])", known) and not re.search(
                    rf"['\"]{re.escape(option.lstrip('-'))}['\"]", known
                ):
                    sys.exit(f"{name}:{line}: {program} knows no {option}")


def moved(tree, found):
    """Other tests, and the code, have what they are said to have."""
    for name, line, _, _, how in found:
        if isinstance(how, Tried):
            other = (tree / how.file).read_text()
            for words in how.words:
                if words not in other:
                    yield f"{name}:{line}: {how.file} does not have {words!r} any more"


def compare(tree, work, found):
    """What needs no build: fragments of C compile."""
    for name, line, _, text, how in found:
        if isinstance(how, C) and not how.name:
            source = work / "fragment.c"
            source.write_text(how.before + text + "\n" + how.after)
            command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
                       tree / "include", "-I", tree / "bindings", source]
            r = subprocess.run(command, capture_output=True, text=True)
            if r.returncode:
                sys.exit(f"{name}:{line}:\n{r.stderr}")


def run(make, ninja, found):
    shells, pages, again = (
        {},
        {},
        [],
    )  # by document: its commands, its JavaScript; what runs where Ninja builds
    for name, line, _, text, how in found:
        if isinstance(how, Run):
            script = script_of(name, line, text, how)
            if how.builds != "ninja":
                shells.setdefault(name, []).append(script)
                script = "\n".join(c for c in script.splitlines() if c.startswith("cmake "))
            if how.builds:
                again.append((f"{name}:{line} with Ninja", script))
        elif isinstance(how, C) and how.name:
            (make.folder / how.name).write_text(text)
        elif isinstance(how, Js):
            pages.setdefault(name, []).append(replaced(text, how.replace, f"{name}:{line}"))
    for name in sorted(shells, key=lambda n: (n not in BUILD_FIRST, n)):
        make.shell(name, "\n".join(shells[name]))
    for where, script in again:
        ninja.shell(where, script)
    for name, line, _, text, how in found:
        if isinstance(how, Listed):
            check_listed(make, name, line, text)
    for name, scripts in pages.items():
        (make.folder / "page.mjs").write_text(
            "\n".join([PAGE.replace("TREE", str(make.folder)), *scripts, "process.exit(0);"])
        )
        make.shell(f"{name}, JavaScript", PAGE_SHELL)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--list", action="store_true")
    a.add_argument("tree", type=pathlib.Path)
    a.add_argument("work", type=pathlib.Path, nargs="?")
    a.add_argument("builds", nargs="*")
    o = a.parse_args()
    tree = o.tree.resolve()
    found, bad = classified(tree)
    if o.list:
        for name, line, _, text, how in found:
            said = getattr(how, "why", None) or getattr(how, "file", None) or text.splitlines()[0]
            print(f"{name}:{line}: {type(how).__name__.lower()}: {said}")
    bad += moved(tree, found)
    if bad:
        sys.exit("\n".join(bad))
    if o.list: return
    work = o.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    compare(tree, work, found)
    table = work / "objects"
    compile_once.index(table, str(tree), o.builds)
    model = subprocess.run(
        [tree / "tools/get-model.sh", "smollm2-135m-q4_1"], capture_output=True, text=True, check=True
    ).stdout.strip()
    own = shutil.copy(model, work / "smollm2.gguf")  # what a block writes to, it does not take from others
    tools = {"PYTHON": sys.executable, "SMOLLM2": str(own),
             "CMAKE_C_COMPILER_LAUNCHER": str(compile_once.launcher(work, str(tree), o.builds))}
    make = Tree(tree, work / "make", None, table, tools)
    ninja = Tree(tree, work / "ninja", "Ninja", table, tools)
    run(make, ninja, found)
    compiled = pathlib.Path(f"{table}.compiled")
    n_compiled = len(compiled.read_text().splitlines()) if compiled.exists() else 0
    print(f"{len(found)} blocks; {n_compiled} objects compiled")
    for where, seconds in (make.seconds | ninja.seconds).items():
        print(f"{seconds:6.1f} s of processors  {where}")


if __name__ == "__main__":
    main()
