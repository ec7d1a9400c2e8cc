"""python -m qsf COMMAND: a conversation in the terminal, and the programs of libqsf.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import argparse
import io
import math
import os
import pathlib
import subprocess
import sys
from typing import Any

import qsf


# Of the program that the package brings: those of qsf-run and so on, and of qsf.
PROGRAMS = {
    "run": "answers, as qsf-run", "serve": "models over HTTP, as qsf-serve",
    "convert": "makes QSF files, as qsf-convert", "bench": "how fast models run, as qsf-bench",
    "list": "the models that were downloaded", "show": "the models of a repository",
    "pull": "downloads models by name", "rm": "removes downloaded models",
}


def _program(arguments: list[str]) -> int:
    """Replaces this process, if the system can. QSF_PROGRAM names another file than the package's."""
    own = pathlib.Path(__file__).with_name("bin") / ("qsf.exe" if sys.platform == "win32" else "qsf")
    path = os.environ.get("QSF_PROGRAM") or str(own)
    if not os.path.exists(path):
        print(f"error: {path} is missing: this package was built without the programs", file=sys.stderr)
        return 1
    if sys.platform == "win32":
        return subprocess.call([path, *arguments])
    sys.stdout.flush()
    os.execv(path, [path, *arguments])


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m qsf", description=(qsf.__doc__ or "").split("\n")[0])
    parser.add_argument("--version", action="version", version=f"qsf {qsf.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    chat = commands.add_parser("chat", help="talk to a model; an empty line or the end of the input ends it")
    info = commands.add_parser("info", help="describe a model and the memory that it takes")
    for program, what in PROGRAMS.items():
        commands.add_parser(program, help=what)
    for command in (chat, info):
        command.add_argument("model", help="a QSF or GGUF file, or a model's name (OWNER/REPO)")
        command.add_argument("--ram-budget", type=float, metavar="MB", help="memory limit")
        command.add_argument("--context-length", type=int, metavar="N")
        command.add_argument("--threads", type=int, metavar="N")
        command.add_argument("--draft-mtp", action="store_true",
                             help="draft with the file's own layer for multi-token prediction")
    chat.add_argument("--system", metavar="TEXT", help="the system message")
    chat.add_argument("--temperature", type=float, metavar="T", help="0 takes the most likely token")
    chat.add_argument("--max-tokens", type=float, metavar="N", default=math.inf, help="of an answer")
    chat.add_argument("--seed", type=int, metavar="N")
    chat.add_argument("--template", metavar="NAME", help="a chat template's name; default: the model's own")
    return parser


def _show(progress: qsf.Progress) -> None:
    end = "\n" if progress.done == progress.total else ""
    print(f"\r{progress.fraction:4.0%} of {progress.name}, {progress.total / 1e6:.0f} MB", end=end,
          file=sys.stderr, flush=True)


def _say(talk: qsf.Conversation, text: str) -> None:
    try:
        with talk.chat(text, stream=True) as answer:
            for piece in answer:
                print(piece.reasoning or piece, end="", flush=True)
    except KeyboardInterrupt:
        print(" [stopped]", end="")
    print()


def _chat(model: qsf.Model, options: Any) -> None:
    given = {"temperature": options.temperature, "max_tokens": options.max_tokens, "seed": options.seed,
             "template": options.template}
    talk = model.conversation(system=options.system, **given)
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            text = input(prompt)
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not text.strip():
            return
        _say(talk, text)


def _info(model: qsf.Model) -> None:
    info = model.info
    print(f"{info.name}: {info.architecture}, {info.format}, {info.parameters / 1e6:.0f} million parameters")
    print(f"context {info.context_length}, {info.threads} threads, {info.isa}, template {info.chat_template}")
    for name, size in info.plan:
        print(f"  {size / 1e6:10.1f} MB  {name}")
    print(f"  {info.memory_bytes / 1e6:10.1f} MB  (at least {info.least_bytes / 1e6:.1f} MB)")


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in PROGRAMS:
        return _program(given)
    options = _arguments().parse_args(given)
    for stream in sys.stdin, sys.stdout:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")        # input may be any bytes, a console not UTF-8
    try:
        with qsf.load(options.model, ram_budget=options.ram_budget, context_length=options.context_length,
                      threads=options.threads, draft_mtp=options.draft_mtp,
                      progress=_show if sys.stderr.isatty() else None) as model:
            if options.command == "chat":
                _chat(model, options)
            else:
                _info(model)
        sys.stdout.flush()
    except BrokenPipeError:                             # the reader has left, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (qsf.QsfError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
