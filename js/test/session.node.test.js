/* Sessions: saved, loaded into another engine, refused.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readFile, rm} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {GGUF, QSF, QUESTION, QsfError, WORK, answer, collect, load} from './tools.js';
import {tinyModel} from './tiny.js';

let model, session, first, memoryBytes;
before(async () => {
  model = await load(QSF, {threads: 1, contextLength: 512});
  first = await answer(model);
  await answer(model);              /* the second takes room in addition to what the first has left */
  ({memoryBytes} = await model.stats());
  session = await model.saveSession();
});
after(() => model.dispose());

const code = wanted => error => error instanceof QsfError && error.code === wanted
  && error.message.length > 10;

test('a loaded session is not computed again', async () => {
  const other = await load(QSF, {threads: 2, contextLength: 256});
  assert.equal(await other.loadSession(session), (await model.stats()).cachedTokens);
  assert.deepEqual((await answer(other)).ids, first.ids);
  assert.ok((await other.stats()).promptTokens <= 1);
  const talk = [...QUESTION, {role: 'assistant', content: first.text},
    {role: 'user', content: 'And of Spain?'}];
  const before = await other.stats();
  assert.match((await collect(other.chat(talk, {temperature: 0, maxTokens: 16}))).text,
    /capital.*Spain|Spain.*capital/);
  assert.ok((await other.stats()).promptTokens - before.promptTokens < 40);
  await other.dispose();
});
test('anything else is refused, and the model works on', async () => {
  const spoil = (at, bytes = session.slice()) => { bytes[at] ^= 4; return bytes; };
  const kept = (await model.stats()).cachedTokens;
  for (const bad of [new Uint8Array(0), new Uint8Array(1000), session.subarray(0, -1), spoil(9), spoil(70),
    spoil(session.length >> 1), spoil(session.length - 1)])
    await assert.rejects(model.loadSession(bad), code('CORRUPT'));
  for (const bad of [undefined, 'session', [1, 2]])
    await assert.rejects(model.loadSession(bad), code('ARGUMENT'));
  assert.equal((await model.stats()).cachedTokens, kept);
  assert.deepEqual((await answer(model)).ids, first.ids);
});
test('it belongs to its model, kind of keys and length', async () => {
  for (const [file, options, wanted] of [[GGUF, {}, 'ARGUMENT'], [QSF, {kv: 'f16'}, 'ARGUMENT'],
      [QSF, {contextLength: 32}, 'FULL']]) {
    const other = await load(file, {threads: 1, contextLength: 128, ...options});
    await assert.rejects(other.loadSession(session), code(wanted));
    await other.dispose();
  }
});
test('it belongs to no model whose description differs in one number', async () => {
  const [one, same, other] = await Promise.all([256, 256, 255].map(context =>
    load(tinyModel({context}), {threads: 1, contextLength: 64})));
  await collect(one.generate('x', {maxTokens: 4, temperature: 0}));
  const bytes = await one.saveSession();
  assert.ok(await same.loadSession(bytes) > 0);
  await assert.rejects(other.loadSession(bytes), code('ARGUMENT'));
  for (const used of [one, same, other]) await used.dispose();
});
test("neither way makes the module's memory larger", async () => {
  assert.ok(session.length > 4 * 65536);
  await model.loadSession(session);
  assert.equal((await model.stats()).memoryBytes, memoryBytes);
});
test('also while an answer is under way', async () => {
  const one = model.generate('Once', {maxTokens: 200});
  await one.next();
  assert.ok((await model.saveSession()).length);
  assert.ok(await model.loadSession(session) > 10);
  assert.equal((await one.next()).done, false);
  await one.return();
});
test('the native program reads it, and the other way round', async () => {
  const file = join(WORK, 'native.session'), run = [process.env.QSF_TEST_RUN,
    ['-m', QSF, '-p', QUESTION[0].content, '--temp', '0', '-n', '24', '--json', '-v', '--session', file]];
  await rm(file, {force: true});
  execFileSync(...run);
  const count = await model.loadSession(await readFile(file));
  assert.ok(count > 30);
  const before = await model.stats();
  assert.match((await answer(model)).text, /Paris/);
  assert.ok((await model.stats()).promptTokens - before.promptTokens <= 1);
});
