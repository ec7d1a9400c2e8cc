/* A progressive file at a URL: the first token comes from the high bits, and in the end answers are
 * those of the plain file.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {rm} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import {before, beforeEach, test} from 'node:test';
import {GGUF, WORK, answer, fileServer, load} from './tools.js';

const plain = join(WORK, 'plain.qsf'), pieces = join(WORK, 'progressive.qsf');
process.env.QSF_CACHE = join(WORK, 'store');
let wanted;

before(async () => {
  const convert = join(dirname(process.env.QSF_TEST_RUN), 'qsf-convert');
  for (const [file, more] of [[plain, []], [pieces, ['--progressive']]])
    execFileSync(convert, ['-q', '--quant-type', '8bit', ...more, GGUF, file]);
  const model = await load(plain, {contextLength: 512, threads: 1});
  wanted = (await answer(model)).ids;
  await model.dispose();
});
beforeEach(() => rm(join(process.env.QSF_CACHE, 'urls'), {recursive: true, force: true}));

/* Loads from a server and answers; of the file's bytes after a part of it, none comes before the
 * first token. */
async function visit(file, options, body, part = 1) {
  let goOn;
  const until = new Promise(resolve => { goOn = resolve; });
  const server = await fileServer(file, (request, response, {send, size}) => {
    send({hold: {at: part * size, until}});
    return true;
  });
  const model = await load(server.url, {contextLength: 512, threads: 1, ...options});
  try {
    await answer(model, {maxTokens: 1});
    goOn();
    return await body(model);
  } finally {
    await model.dispose();
    server.close();
  }
}

test('the first token comes with two thirds of the file, the end is the plain file', {timeout: 240_000},
  () => visit(pieces, {firstStage: true}, async model => {
    await model.refined();
    // what the first answer has left in the sequence was computed with the high bits
    for await (const text of model.generate('Something else.', {maxTokens: 1})) void text;
    assert.deepEqual((await answer(model)).ids, wanted);
  }, 0.65));

test('without firstStage the file is read whole', () =>
  visit(pieces, {}, async model => {
    await model.refined();
    assert.deepEqual((await answer(model)).ids, wanted);
  }));

test('layers that stream are read in two pieces', () =>
  visit(pieces, {firstStage: true, memory: 75}, async model => {
    assert.equal(model.info.resident, false);
    await model.refined();
    assert.ok((await answer(model)).text.includes('Paris'));
  }));
