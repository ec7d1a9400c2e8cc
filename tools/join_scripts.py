#!/usr/bin/env python3
"""Joins a script with all that it imports, so that a browser asks for one file and not for forty.
SPDX-License-Identifier: MIT

    tools/join_scripts.py SCRIPT.js OUT.js

Each imported module becomes a function that is called once and returns what other modules import from it, in
the order in which a browser would run them.  Its names stay its own.  Imports have the form
`import {a, b as c} from './file.js';` and begin a line, as exports do; anything else is an error.  An
exported variable must be constant, and modules must not import each other in a circle.
"""
import pathlib
import re
import sys

IMPORT = re.compile(r"^import\s*\{([^}]*)\}\s*from\s*'(\.{1,2}/[\w/.-]+\.js)';\n", re.M)
EXPORT = re.compile(r'^export (?=(?:const|class|function|async function) )', re.M)
REST = re.compile(r'^(?:import\b(?!\()|export\b).*', re.M)
HEAD = """/* {name} and all that it imports, as one script (tools/join_scripts.py).
 * SPDX-License-Identifier: MIT */
"""


def names_of(listed):
    """The names in an import's braces: [(theirs, ours)]."""
    for name in filter(None, (part.strip() for part in listed.split(','))):
        theirs, _, ours = name.partition(' as ')
        yield theirs.strip(), (ours or theirs).strip()


class Scripts:
    """The modules in the order in which they run."""

    def __init__(self):
        self.order = []             # paths
        self.texts = {}             # path -> text; None while what it imports is added
        self.wanted = {}            # path -> names that others import

    def add(self, path):
        if path in self.texts:
            if self.texts[path] is None:
                raise SystemExit(f'{path}: imports itself by way of others')
            return
        self.texts[path] = None
        text = path.read_text(encoding='utf-8')
        for listed, file in IMPORT.findall(text):
            other = (path.parent / file).resolve()
            self.add(other)
            self.wanted.setdefault(other, set()).update(theirs for theirs, _ in names_of(listed))
        text = EXPORT.sub('', IMPORT.sub(self.taken, text))
        if rest := REST.search(text):
            raise SystemExit(f'{path}: this form is not joined: {rest[0]}')
        self.texts[path] = text
        self.order.append(path)

    @staticmethod
    def taken(found):
        """What stands for an import."""
        pairs = ', '.join(theirs if theirs == ours else f'{theirs}: {ours}'
                          for theirs, ours in names_of(found[1]))
        return f'const {{{pairs}}} = {variable(found[2])};\n'


def variable(file):
    return '$' + re.sub(r'\W', '_', pathlib.PurePosixPath(file).stem)


def joined(script):
    scripts = Scripts()
    scripts.add(script.resolve())
    variables = [variable(path.name) for path in scripts.order]
    if len(set(variables)) < len(variables):
        raise SystemExit(f'{script}: imports two scripts of one name')
    parts = [HEAD.format(name=script.name)]
    for path, name in zip(scripts.order[:-1], variables):
        wanted = ', '.join(sorted(scripts.wanted[path]))
        parts.append(f'const {name} = (() => {{\n{scripts.texts[path]}return {{{wanted}}};\n}})();\n')
    return '\n'.join([*parts, scripts.texts[scripts.order[-1]]])


if __name__ == '__main__':
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(joined(pathlib.Path(sys.argv[1])), encoding='utf-8')
