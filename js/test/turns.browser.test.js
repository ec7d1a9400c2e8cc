/* Who may use the model: answers, sessions and small calls in random order, in Chromium.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE} from './tools.js';

const here = fileURLToPath(new URL('.', import.meta.url));

test('15 rounds each, one thread and two; formats and tools', {timeout: 480_000}, async t => {
  const browser = await launch();
  t.after(() => browser.close());
  const server = await serve([['/tests', here], ['/js', PACKAGE]], {isolation: true});
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const page = await browser.newPage(), errors = [];
  page.on('pageerror', error => errors.push(error.message));          // an unhandled rejection too
  await page.goto(`http://127.0.0.1:${server.address().port}/tests/browser/empty.html`);
  for (const threads of [1, 2])
    t.diagnostic(`seed ${await page.evaluate(async ([seed, threads]) => {
      const {load} = await import('/js/browser.js'), {rounds} = await import('/tests/rounds.js');
      const bytes = (await import('/tests/tiny.js')).tinyModel();
      return rounds(() => load(bytes, {threads}), 15, seed);
    }, [process.env.QSF_TEST_SEED ? Number(process.env.QSF_TEST_SEED) : undefined, threads])}`);
  t.diagnostic(JSON.stringify(await page.evaluate(async () => {
    const {load} = await import('/js/browser.js'), {hostile} = await import('/tests/answers.js'),
      bytes = (await import('/tests/tiny.js')).tinyModel({context: 2048});
    return hostile(() => load(bytes, {threads: 2}), 25, 7);
  })));
  const embedded = await page.evaluate(async () => {
    const {load} = await import('/js/browser.js'), {tinyModel} = await import('/tests/tiny.js');
    const model = await load(tinyModel(), {threads: 2}), texts = ['abc', 'once upon'];
    const [one, together, again] = await Promise.all([model.embed(texts[1]), model.embed(texts),
      model.embed(texts)]);
    const stop = new AbortController(), long = model.embed(new Array(5000).fill('x'.repeat(200)),
      {signal: stop.signal});
    setTimeout(() => stop.abort('enough'), 50);
    const reason = await long.catch(error => error);
    const refused = await model.rerank('a', ['b']).catch(error => error.code);
    await model.dispose();
    const lists = vectors => vectors.map(x => [...x]);
    return {one: [...one], together: lists(together), again: lists(again), reason, refused};
  });
  assert.deepEqual(embedded.together, embedded.again);
  assert.deepEqual(embedded.together[1], embedded.one);
  assert.ok(Math.abs(Math.hypot(...embedded.one) - 1) < 1e-5 && embedded.one.length === 64);
  assert.deepEqual([embedded.reason, embedded.refused], ['enough', 'UNSUPPORTED']);
  assert.deepEqual(errors, []);
});
