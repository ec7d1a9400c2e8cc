#!/usr/bin/env node
/* Takes comments out of the package's scripts, which pages download. Lines keep their numbers, so
 * that stack traces point to the lines of the sources.
 * SPDX-License-Identifier: MIT
 *
 *   node tools/strip_comments.mjs FILE...        changes the files
 *
 * It relies on the form of the sources: a comment of several lines begins a line, and none of one
 * line is in a string. js/test/package.node.test.js checks that nothing else goes. */
import {readFileSync, writeFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const LICENCE = '/* SPDX-License-Identifier: MIT */';

/** The text of a script without its comments, with all of its line ends. */
export function stripped(text) {
  const bare = text.replace(/^[ \t]*\/\*[^]*?\*\/[ \t]*$/gm, comment => comment.replace(/[^\n]+/g, ''))
    .replace(/(^|[ \t]+)\/\/ .*$/gm, '');
  return bare.startsWith('\n') ? LICENCE + bare : bare;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  for (const file of process.argv.slice(2)) writeFileSync(file, stripped(readFileSync(file, 'utf8')));
