#!/usr/bin/env python3
"""The npm package with its addon alongside qsf-run: the same file and prompt, in turns (see python.py).
SPDX-License-Identifier: MIT

    node.py QSF_RUN FOLDER MODEL [--rounds 5] [--prompt 256] [--tokens 129] [--threads N]

FOLDER is one in which qsf and @qsf/PLATFORM are installed.  A round's differences are what the prompt and the
tokens cost; the medians of all rounds count.  The last column is the ratio to qsf-run.
"""
import pathlib, statistics

from python import Program, measure, parser_of, table


class InNode(Program):
    def command(self, prompt, n):
        a = self.a
        options = f"{{backend: 'native', contextLength: 1024, threads: {a.threads or 0}}}"
        entry = (pathlib.Path(a.folder).resolve() / "node_modules/qsf/node.js").as_uri()
        script = f"""
            const {{load}} = await import({entry!r}), [path, prompt, n] = process.argv.slice(1);
            const model = await load(path, {options});
            for await (const _ of model.generate(prompt, {{maxTokens: +n, temperature: 0, ignoreEnd: true}}));
            await model.dispose();"""
        return ["node", "--input-type=module", "-e", script, a.model, prompt, n]


def medians(program):
    def cost(later, sooner, of, scale):
        return statistics.median(scale * (one[later][of] - one[sooner][of]) for one in program.rounds)
    each = 1e3 / (program.a.tokens - 1)
    return {"ms a token": cost(2, 1, 0, each), "CPU ms a token": cost(2, 1, 1, each),
            "ms for the prompt": cost(1, 0, 0, 1e3), "CPU ms for the prompt": cost(1, 0, 1, 1e3)}


def main():
    a = parser_of(__doc__, "folder", 129).parse_args()
    programs = [Program("qsf-run", a), InNode("npm package", a)]
    measure(programs, a.rounds)
    table(programs, medians)


if __name__ == "__main__":
    main()
