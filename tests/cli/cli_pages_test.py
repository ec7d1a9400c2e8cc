#!/usr/bin/env python3
"""Manual pages and completions: what each program prints is read by man, and completes in real shells.
SPDX-License-Identifier: MIT

    cli_pages_test.py FOLDER [unittest options]

FOLDER holds the programs.  A reader or shell that is not installed is named and left out.
"""
import os, pathlib, pty, re, shutil, subprocess, sys, tempfile, unittest

FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = [p for p in ("qsf", "qsf-run", "qsf-serve", "qsf-convert", "qsf-bench", "qsf-parity")
            if (FOLDER / p).exists()]
WORK = tempfile.TemporaryDirectory()


def said(program, *args):
    return subprocess.run([FOLDER / program, *args], capture_output=True, text=True, check=True).stdout


def names(program):
    return said(program, "--completion-names").split()


def script(program, shell, name):
    path = pathlib.Path(WORK.name, name)
    path.write_text(said(program, "--completion", shell))
    return path


def need(case, program):
    found = shutil.which(program)
    if not found:
        print(f"left out: {program} is not installed", file=sys.stderr)
        case.skipTest(f"{program} is not installed")
    return found


class Manual(unittest.TestCase):

    def read(self, *command):
        need(self, command[0])
        for program in PROGRAMS:
            page = said(program, "--manual")
            r = subprocess.run([*command], input=page, capture_output=True, text=True)
            self.assertEqual((r.returncode, r.stderr), (0, ""), program)
            yield program, r.stdout

    def test_groff_has_no_warning_and_every_option(self):
        for program, text in self.read("groff", "-ww", "-man", "-Tascii", "-P-c"):
            shown = re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", re.sub(".\b", "", text))
            self.assertEqual(set(names(program)) - set(shown), set(), program)

    def test_mandoc_finds_no_error(self):
        for program, text in self.read("mandoc", "-T", "lint", "-W", "error"):
            self.assertEqual(text, "", program)

    def test_backslashes_and_leading_dots_are_text(self):
        self.assertIn(r"C's escapes \en, \et, \er and \e\e", said("qsf-parity", "--manual"))
        for program in PROGRAMS:
            requests = set(re.findall(r"(?m)^[.'](\S+)", said(program, "--manual")))
            self.assertEqual(requests - {"TH", "nh", "ad", "SH", "SS", "TP", "nf", "fi", "BR"}, set())


class Completion(unittest.TestCase):
    """In each shell the same questions have the same answers."""

    ASKED = {
        "qsf-run --kv-typ": {"--kv-type"},
        "qsf-run --kv-type q8": {"q8", "q8v4"},
        "qsf-run -ctk q2": {"q2"},
        "qsf-run --help sam": {"sampling"},
        "qsf-convert --calibrat": {n for n in names("qsf-convert") if n.startswith("--calibrat")},
        "qsf sho": {"show"},
        "qsf run --kv-type q8": {"q8", "q8v4"},
        "qsf bench --compa": {"--compare"},
    }

    def test_bash(self):
        bash = need(self, "bash")
        for program in PROGRAMS:
            script(program, "bash", program)
        asking = "".join(f". ./{program}\n" for program in PROGRAMS)
        asking += 'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; said; }\n'
        asking += 'said() { echo "${COMPREPLY[*]}"; }\n'
        asking += "".join(f"ask {line}\n" for line in self.ASKED)
        asking += "ask qsf-run --kv-type = q2\nask qsf-run --seed ''\n"         # readline splits at =
        r = subprocess.run([bash, "--norc", "-c", asking], cwd=WORK.name, capture_output=True, text=True)
        self.assertEqual(r.stderr, "")
        answers = [set(line.split()) for line in r.stdout.splitlines()]
        self.assertEqual(answers, [*self.ASKED.values(), {"q2"}, set()])

    def test_bash_completes_every_option_and_files(self):
        bash = need(self, "bash")
        pathlib.Path(WORK.name, "a model.gguf").touch()
        for program in PROGRAMS:
            path = script(program, "bash", program)
            asking = f". {path}\nCOMP_WORDS=({program} -); COMP_CWORD=1\n_{program.replace('-', '_')}\n"
            asking += 'echo "${COMPREPLY[*]}"\nCOMP_WORDS[1]="a mod"\n' + f"_{program.replace('-', '_')}\n"
            asking += 'echo "${#COMPREPLY[@]} ${COMPREPLY[0]}"\n'
            r = subprocess.run([bash, "--norc", "-c", asking], cwd=WORK.name, capture_output=True, text=True)
            options, files = r.stdout.splitlines()
            self.assertEqual(set(options.split()), set(names(program)), program)
            self.assertEqual(files, "1 a model.gguf", program)

    def test_fish(self):
        fish = need(self, "fish")
        asking = "".join(f"source {script(program, 'fish', program + '.fish')}\n" for program in PROGRAMS)
        for line in self.ASKED:
            asking += f"complete -C '{line}'; echo .\n"
        home = {**os.environ, "HOME": WORK.name, "XDG_CONFIG_HOME": WORK.name, "XDG_DATA_HOME": WORK.name}
        r = subprocess.run([fish, "--no-config", "-c", asking], cwd=WORK.name, capture_output=True, text=True,
                           env=home)
        self.assertEqual(r.stderr, "")
        answers = [{row.split("\t")[0] for row in part.split("\n") if row} for part in r.stdout.split(".\n")]
        self.assertEqual(answers[:-1], list(self.ASKED.values()))

    def test_zsh(self):
        """The tabulator completes what has one answer, in a terminal."""
        zsh = need(self, "zsh")
        for program in PROGRAMS:
            script(program, "zsh", "_" + program)
        lines = ["PS1= PS2= PROMPT_EOL_MARK= ; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D",
                 "bindkey '^I' complete-word; " + "; ".join(f"{p}() {{ print -r -- $* >>got }}"
                                                            for p in ("qsf", "qsf-run", "qsf-convert"))]
        lines += [f"{line}\t" for line, answers in self.ASKED.items() if len(answers) == 1]
        master, slave = pty.openpty()
        shell = subprocess.Popen([zsh, "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=WORK.name,
                                 start_new_session=True, env={**os.environ, "TERM": "dumb"})
        os.close(slave)
        os.write(master, ("\n".join(lines) + "\nexit\n").encode())
        try:
            while os.read(master, 4096):
                pass
        except OSError:         # the shell has ended
            pass
        shell.wait(60)
        os.close(master)
        wanted = [[*line.split()[1:-1], *found] for line, found in self.ASKED.items() if len(found) == 1]
        got = pathlib.Path(WORK.name, "got").read_text().splitlines()
        self.assertEqual([line.split() for line in got], wanted)


if __name__ == "__main__":
    unittest.main()
