/* A progressive file at a URL: the first token comes from the high bits, and in the end answers are
 * those of the plain file.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {rm} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import {before, beforeEach, test} from 'node:test';
import {GGUF, WORK, answer, fileServer, load, nativeTokens} from './tools.js';

const RATE = 20e6;              // bytes a second
const plain = join(WORK, 'plain.qsf'), pieces = join(WORK, 'progressive.qsf');
process.env.QSF_CACHE = join(WORK, 'store');
let wanted;

before(() => {
  const convert = join(dirname(process.env.QSF_TEST_RUN), 'qsf-convert');
  for (const [file, more] of [[plain, []], [pieces, ['--progressive']]])
    execFileSync(convert, ['-q', '--quant-type', '8bit', ...more, GGUF, file]);
  wanted = nativeTokens(plain, 24);
});
beforeEach(() => rm(join(process.env.QSF_CACHE, 'urls'), {recursive: true, force: true}));

/* Loads from a server of that rate and answers; body(model, ms until the first token). */
async function visit(file, options, body, rate = RATE) {
  const server = await fileServer(file, (request, response, {send}) => {
    send({rate});
    return true;
  });
  const begin = performance.now();
  const model = await load(server.url, {contextLength: 512, threads: 1, ...options});
  try {
    await answer(model, {maxTokens: 1});
    return await body(model, performance.now() - begin);
  } finally {
    await model.dispose();
    server.close();
  }
}

test('the first token comes in two thirds of the time, the end is the plain file', async t => {
  const whole = await visit(plain, {}, (model, ms) => ms);
  await visit(pieces, {firstStage: true}, async (model, ms) => {
    t.diagnostic(`first token: plain ${whole.toFixed(0)} ms, progressive ${ms.toFixed(0)} ms`);
    assert.ok(ms <= 0.67 * whole, `${ms} of ${whole} ms`);
    await model.refined();
    // what the first answer has left in the sequence was computed with the high bits
    for await (const text of model.generate('Something else.', {maxTokens: 1})) void text;
    assert.deepEqual((await answer(model)).ids, wanted);
  });
});

test('without firstStage the file is read whole', () =>
  visit(pieces, {}, async model => {
    await model.refined();
    assert.deepEqual((await answer(model)).ids, wanted);
  }, Infinity));

test('layers that stream are read in two pieces', () =>
  visit(pieces, {firstStage: true, memory: 75}, async model => {
    assert.equal(model.info.resident, false);
    await model.refined();
    assert.ok((await answer(model)).text.includes('Paris'));
  }, Infinity));
