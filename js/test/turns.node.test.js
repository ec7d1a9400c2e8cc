/* Who may use the model: answers, sessions and small calls at the same time, in Node.js.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_SEED repeats what a failure names. */
import assert from 'node:assert/strict';
import {readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {hostile} from './answers.js';
import {WORK, code, collect, load, packaged} from './tools.js';
import {rounds, ticks} from './rounds.js';
import {random, tinyModel} from './tiny.js';

const SEED = process.env.QSF_TEST_SEED ? Number(process.env.QSF_TEST_SEED) : undefined;
const imported = file => import(pathToFileURL(packaged(file)));
const tiny = tinyModel();

/* The engine's worker without a worker: its messages take a random time, in order each way. */
async function inOneThread(seed, bytes = tiny) {
  const {loadIn} = await imported('model.js'), {serve} = await imported('serve.js'),
    module = await WebAssembly.compile(await readFile(packaged('qsf-simd.wasm')));
  const next = random(seed);
  const startWorker = () => {
    let hear, gone = false;
    const way = deliver => {
      let before = Promise.resolve();
      return message => {
        const copy = structuredClone(message);
        before = before.then(async () => {
          await ticks(Math.floor(next() * 4));
          if (!gone) void deliver(copy);
        });
      };
    };
    const take = serve({post: way(m => hear(m)), compile: async () => module, canShare: false,
      processors: 1});
    return {post: way(take), onMessage(fn) { hear = fn; }, onFailure() {}, terminate() { gone = true; }};
  };
  return options => loadIn(startWorker, {bytes}, {threads: 1, relaxed: false, ...options});
}

describe('answers, sessions and small calls in random order', () => {
  test('400 rounds, messages that take a random time', {timeout: 480_000}, async t => {
    const seed = SEED ?? 1 + Math.floor(Math.random() * 1e6);
    t.diagnostic(`seed ${seed}`);
    await rounds(await inOneThread(seed), 400, seed);
  });
  for (const [name, options, layers] of [['one thread', {threads: 1, batch: 16}, 2],
    ['two threads', {threads: 2}, 2], ['layers stream', {threads: 1, memory: 2.6, batch: 16}, 6]])
    test(`40 rounds in a worker, ${name}`, {timeout: 480_000}, async t => {
      const path = join(WORK, `tiny-${layers}.gguf`);
      await writeFile(path, tinyModel({layers}));
      t.diagnostic(`seed ${await rounds(() => load(path, options), 40, SEED)}`);
    });
});

test('120 answers with formats and tools, messages that take a random time', {timeout: 480_000}, async t => {
  const seed = SEED ?? 1 + Math.floor(Math.random() * 1e6);
  t.diagnostic(`seed ${seed}`);
  await hostile(await inOneThread(seed, tinyModel({context: 2048})), 120, seed);
});

describe('whoever comes while the model is in use', () => {
  /* More than the engine is ahead of its reader, so that both are under way until they are read. */
  const LONG = {temperature: 0, ignoreEnd: true, maxTokens: 200}, SHORT = {...LONG, maxTokens: 20};
  let model, alone;
  before(async () => {
    model = await load(tiny, {threads: 1});
    alone = (await collect(model.generate('Twice', SHORT))).text;
  });
  after(() => model.dispose());
  const running = async (signal, of = model) => {
    const answer = of.generate('Once', {...LONG, signal});
    await answer.next();
    return answer;
  };

  test('two that come after an answer was left are both answered', async () => {
    for (let n = 0; n < 5; n++) {
      const stop = new AbortController(), left = await running(stop.signal);
      stop.abort();
      const first = collect(model.generate('Twice', SHORT)), second = collect(model.generate('Twice', SHORT));
      assert.equal((await first).text, alone);
      assert.equal((await second).text, alone);
      await assert.rejects(left.next(), {name: 'AbortError'});
    }
  });
  test('one that is left while it waits gives its place to the next', async () => {
    const left = await running(), waits = model.generate('Once more', LONG);
    void left.return();
    const first = waits.next();
    void waits.return();
    assert.equal((await collect(model.generate('Twice', SHORT))).text, alone);
    assert.deepEqual(await first, {done: true, value: undefined});
  });
  test('sessions and answers wait for a session, and for an answer that was left', async () => {
    const left = await running();
    void left.return();
    const saved = model.saveSession(), again = model.saveSession(),
      answer = collect(model.generate('Twice', SHORT));
    assert.deepEqual(await again, await saved);
    assert.equal((await answer).text, alone);
    assert.ok(await model.loadSession(await saved) > 0);
  });
  test('small calls are answered meanwhile', async () => {
    const answer = await running();
    assert.equal(await model.detokenize(await model.tokenize('a b')), ' a b');
    assert.match(await model.render([{role: 'user', content: 'hi'}], {template: 'chatml'}), /hi/);
    assert.ok((await model.stats()).cachedTokens > 0);
    await answer.return();
  });
  test('an answer that is left while its next part is waited for, ends at once', async () => {
    const answer = model.generate('x'.repeat(200), {maxTokens: 1}), first = answer.next();
    assert.deepEqual(await answer.return('gone'), {done: true, value: 'gone'});
    assert.deepEqual(await first, {done: true, value: undefined});
    const other = model.generate('x'.repeat(200), {maxTokens: 1}), second = other.next(),
      reason = new Error('enough');
    await assert.rejects(other.throw(reason), reason);
    assert.deepEqual(await second, {done: true, value: undefined});
  });
  test('a reader that is busy elsewhere does not hold what its signal has stopped', async () => {
    const stop = new AbortController(), stopped = await running(stop.signal), reason = new Error('enough');
    stop.abort(reason);
    assert.equal((await collect(model.generate('Twice', SHORT))).text, alone);
    await assert.rejects(stopped.next(), reason);
  });
  test('what is asked for is as it was when it was asked for', async () => {
    const options = {...SHORT}, answer = model.generate('Twice', options);
    options.maxTokens = 1;
    assert.equal((await collect(answer)).text, alone);
  });
  test('hears of the end of the model, also where it waits for its turn', async () => {
    const other = await load(tiny, {threads: 1}), left = await running(undefined, other);
    void left.return();
    const waiting = [collect(other.generate('Twice', LONG)), other.saveSession(), other.stats()]
      .map(one => one.catch(error => error));
    await other.dispose();
    const heard = await Promise.all(waiting);
    for (const error of heard.slice(0, 1)) code('DISPOSED')(error);
    await assert.rejects(other.saveSession(), code('DISPOSED'));
  });
});
