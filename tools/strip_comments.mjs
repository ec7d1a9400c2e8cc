#!/usr/bin/env node
/* Takes comments out of the package's scripts, which pages download. Lines keep their numbers, so
 * that stack traces point to the lines of the sources.
 * SPDX-License-Identifier: MIT
 *
 *   node tools/strip_comments.mjs FILE...        changes the files
 *
 * It relies on the form that the sources have (js/test/package.node.test.js checks that only comments
 * went): a comment of more than one word begins a line or follows code after a space. */
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
