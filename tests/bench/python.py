#!/usr/bin/env python3
"""The Python package alongside qsf-run, and llama-cpp-python if this Python has it: the same file and prompt.
SPDX-License-Identifier: MIT

    python.py QSF_RUN LIBQSF_PYTHON MODEL [--rounds 5] [--prompt 256] [--tokens 64] [--threads N]

Each measurement is a process of its own, and those of all programs take turns, so that whatever else the
machine does slows all of them.  In a round a program answers a prompt of one word with one token, the prompt
with one token, and the prompt with --tokens.  The least time of all rounds counts, and differences of these
are what the prompt and the tokens cost.  Time is also taken as the processors' (user and system), which a
busy machine changes less.  The last column is the ratio to qsf-run.

llama-cpp-python runs with its defaults, except for the context, the threads and its log.
"""
import argparse, importlib.util, os, pathlib, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "python"
WORDS = ("a river ran past the old mill and nobody knew where its water came from until one day the miller "
         "walked up the hill with a lamp and a map to look for the spring of his father's tale").split()


def text_of(n):
    return " ".join(WORDS[i % len(WORDS)] for i in range(n))


def in_qsf(model, prompt, n, threads):
    import qsf
    with qsf.load(model, context_length=1024, threads=threads) as loaded:
        loaded.generate(prompt, max_tokens=n, temperature=0, ignore_end=True)


def in_llama_cpp(model, prompt, n, threads):
    from llama_cpp import Llama
    llama = Llama(model, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
    for i, _ in enumerate(llama.generate(llama.tokenize(prompt.encode()), temp=0)):
        if i + 1 == n:
            break


CHILDREN = {"qsf": in_qsf, "llama-cpp-python": in_llama_cpp}


def measured(command):
    """Seconds, the processors' seconds, and megabytes at the most."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        sys.exit(f"{command[0]}: {said.decode()}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


class Program:
    def __init__(self, name, a):
        self.name, self.a, self.rounds = name, a, []

    def command(self, prompt, n):
        a = self.a
        if self.name == "qsf-run":
            return [a.qsf_run, "-m", a.model, "-p", prompt, "--raw", "-n", n, "--temp", 0, "--ignore-eos",
                    "--ctx-size", 1024, *(["-t", a.threads] if a.threads else [])]
        return [sys.executable, __file__, a.qsf_run, a.library, a.model, "--child", self.name, "--tokens", n,
                "--prompt-text", prompt, *(["--threads", a.threads] if a.threads else [])]

    def round(self):
        short, long = text_of(1), text_of(self.a.prompt)
        self.rounds.append([measured(self.command(text, n)) for text, n in (
            (short, 1), (long, 1), (long, self.a.tokens))])

    def figures(self):
        least = [[min(one[i][k] for one in self.rounds) for k in range(3)] for i in range(3)]
        load, prompt, whole = least
        return {"ms a token": 1e3 * (whole[0] - prompt[0]) / (self.a.tokens - 1),
                "CPU ms a token": 1e3 * (whole[1] - prompt[1]) / (self.a.tokens - 1),
                "s for the prompt": prompt[0] - load[0], "CPU s for the prompt": prompt[1] - load[1],
                "s to load": load[0], "MB": whole[2]}


def measure(programs, rounds):
    for program in programs:                # the file is in the system's cache after it
        measured(program.command(text_of(1), 1))
    for _ in range(rounds):
        for program in programs:
            program.round()


def table(programs, figures=Program.figures):
    """figures: of a program, by name; the ratio is to those of the first one."""
    for figure, theirs in figures(programs[0]).items():
        for one in programs:
            mine = figures(one)[figure]
            print(f"{figure:22}{one.name:20}{mine:10.3f}{mine / theirs if theirs else 0:8.3f}")


def parser_of(about, other, tokens):
    """Arguments: qsf-run, what the other program needs, the model, and how much is measured."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    for name in ("qsf_run", other, "model"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=256, help="words")
    parser.add_argument("--tokens", type=int, default=tokens)
    parser.add_argument("--threads", type=int)
    return parser


def main():
    parser = parser_of(__doc__, "library", 64)
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--prompt-text", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child:
        return CHILDREN[a.child](a.model, a.prompt_text, a.tokens, a.threads)
    os.environ.update(QSF_LIBRARY=str(pathlib.Path(a.library).resolve()), PYTHONPATH=str(PACKAGE))
    bytecode = tempfile.TemporaryDirectory()            # an installed package is compiled
    os.environ["PYTHONPYCACHEPREFIX"] = bytecode.name
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    names = ["qsf-run", "qsf", *(["llama-cpp-python"] if importlib.util.find_spec("llama_cpp") else [])]
    programs = [Program(name, a) for name in names]
    measure(programs, a.rounds)
    table(programs)


if __name__ == "__main__":
    main()
