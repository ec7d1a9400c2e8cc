/* Copies of the package that break where a test wants them to.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {cp, readFile, rm, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {PACKAGE, WORK} from './tools.js';

/* A stack that ends where the memory begins: the first function that needs room on it traps. */
const NO_STACK = '__stack_pointer.value = 0';
const AT = {
  thread: ['engine.js', /__stack_pointer\.value = isWide.*?(?=;)/, NO_STACK],
  engine: ['batches.js', /memory\.x\.qsf_flat_step\(/, `(memory.x.${NO_STACK}, memory.x.qsf_flat_step)(`],
  node: ['worker-node.js', /parentPort\.on\('message', message =>/,
    `parentPort.on('message', m => { if (m.op === 'stats') process.exit(3); });\n  $&`],
  reader: ['worker-node.js', /parentPort\.on\('message', serveReader\(/,
    `let n = 0;\n  parentPort.on('message', m => ` +
    `{ if (m.op === 'read' && ++n > 8) process.exit(4); });\n  $&`],
  web: ['worker-web.js', /self\.onmessage = event => take\(event\.data\)/,
    `self.onmessage = event => event.data.op === 'stats' ? setTimeout(() => ` +
    `{ throw new Error('broken'); }) : take(event.data)`],
  sums: ['batches.js', / \|\| memory\.x\.works\(model\)\) return/, ') return'],
  module: ['package.json', /"type"/, ' "type"'],          // nothing: the test puts another module in
};

/** where: thread, engine (a trap); node, web (the engine's worker, when it is asked for
 * stats()); sums (wrong once the model is open); module; reader (in Node.js, at its ninth
 * read). The copy's folder. */
export async function broken(where) {
  const [file, what, instead] = AT[where], folder = join(WORK, `broken-${where}`);
  await rm(folder, {recursive: true, force: true});
  await cp(PACKAGE, folder, {recursive: true});
  // the worker of browsers has its imports in itself
  const copies = file.endsWith('.js') && !file.startsWith('worker-') ? [file, 'worker-web.js'] : [file];
  for (const copy of copies) {
    const script = await readFile(join(folder, copy), 'utf8'), other = script.replace(what, instead);
    assert.notEqual(other, script, `${copy} has changed: nothing matches ${what}`);
    await writeFile(join(folder, copy), other);
  }
  return folder;
}
