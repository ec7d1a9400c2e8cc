/* Workers that end by themselves, and what remains of models that were disposed of, in
 * Node.js.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {syncBuiltinESMExports} from 'node:module';
import {join} from 'node:path';
import {test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {setFlagsFromString} from 'node:v8';
import {runInNewContext} from 'node:vm';
import workerThreads from 'node:worker_threads';

/* The package's workers, to end them from outside; before the package is imported. */
const workers = [];
const {Worker} = workerThreads;
workerThreads.Worker = class extends Worker {
  constructor(...args) {
    super(...args);
    workers.push(this);
  }
};
syncBuiltinESMExports();
const {QSF, answer, load} = await import('./tools.js');
const {broken} = await import('./broken.js');

/* What is not used any more counts until it is collected. */
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');
function resident() {
  collect();
  return process.memoryUsage.rss();
}

const isWorker = error => error.code === 'WORKER' && error.name === 'QsfError' && error.message.length > 20;

/** Whatever is called now, fails in the same way. */
async function isDead(model) {
  await assert.rejects(answer(model), isWorker);
  await assert.rejects(model.stats(), isWorker);
  await assert.rejects(model.tokenize('x'), isWorker);
  await model.dispose();
}

for (const threads of [1, 2])
  test(`a worker that is ended: who waits hears of it, ${threads} threads`, async () => {
    const model = await load(QSF, {threads, contextLength: 256});
    let first;
    const begun = new Promise(resolve => { first = resolve; });
    const running = assert.rejects((async () => {
      for await (const text of model.generate('Once upon a time', {maxTokens: 200, ignoreEnd: true}))
        if (text) first();
    })(), isWorker);
    await begun;
    const asked = assert.rejects(Promise.all([model.stats(), model.stats(), model.tokenize('x')]), isWorker);
    void workers.at(-1).terminate();
    await running;
    await asked;
    await isDead(model);
  });
test('a worker that is ended while it loads', async () => {
  const loading = assert.rejects(load(QSF, {threads: 1}), isWorker);
  while (!workers.length || workers.at(-1).threadId === -1) await new Promise(setImmediate);
  void workers.at(-1).terminate();
  await loading;
});
for (const [where, threads] of [['engine', 1], ['engine', 2], ['thread', 2]])
  test(`a trap in the ${where}, ${threads} threads`, {timeout: 240_000}, async () => {
    const copy = await import(pathToFileURL(join(await broken(where), 'node.js')));
    const model = await copy.load(QSF, {threads, contextLength: 256});
    await assert.rejects(answer(model), isWorker);
    await isDead(model);
  });
test('a worker that leaves', async () => {
  const copy = await import(pathToFileURL(join(await broken('node'), 'node.js')));
  const model = await copy.load(QSF, {threads: 2, contextLength: 256});
  await assert.rejects(model.stats(), isWorker);
  await isDead(model);
});
for (const threads of [1, 2])
  test(`a reader that leaves, ${threads} threads`, {timeout: 240_000}, async () => {
    const copy = await import(pathToFileURL(join(await broken('reader'), 'node.js')));
    await assert.rejects(async () => {
      const model = await copy.load(QSF, {threads, contextLength: 256, memory: 60});
      try {
        await answer(model);
      } finally {
        await model.dispose();
      }
    }, isWorker);
  });
test('nothing is left behind by ten models', {timeout: 480_000}, async () => {
  let after;
  for (let i = 0; i < 10; i++) {
    const model = await load(QSF, {threads: 2, contextLength: 512}), worker = workers.at(-1);
    await answer(model, {maxTokens: 4});
    await model.dispose();
    assert.equal(worker.threadId, -1);
    if (i === 2) after = resident();
  }
  const grown = (resident() - after) / 1e6;
  assert.ok(grown < 150, `${grown.toFixed(0)} MB more after seven further models`);      // a model is 120 MB
});
