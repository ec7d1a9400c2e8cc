/* Workers that end by themselves, and what remains of models that were disposed of, in
 * Chromium.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {readFile, readdir} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {broken} from './broken.js';
import {PACKAGE, QSF} from './tools.js';

const here = fileURLToPath(new URL('browser', import.meta.url));

let browser, server, origin;
before(async () => {
  browser = await launch();
  const copies = await Promise.all(['engine', 'thread', 'web']
    .map(async where => [`/${where}`, await broken(where)]));
  server = await serve([['/test', here], ['/js', PACKAGE], ['/model.qsf', QSF], ...copies],
    {isolation: true});
  origin = `http://127.0.0.1:${server.address().port}`;
});
after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

async function open() {
  const page = await browser.newPage();
  await page.goto(`${origin}/test/empty.html`);
  return page;
}

for (const [where, threads] of [['engine', 1], ['engine', 2], ['thread', 2], ['web', 2]])
  test(`${where === 'web' ? 'an error in the worker' : `a trap in the ${where}`}, ${threads} threads`,
    {timeout: 240_000}, async t => {
      const page = await open();
      t.after(() => page.close());
      const codes = await page.evaluate(async ([where, threads]) => {
        const {load} = await import(`/${where}/browser.js`);
        const model = await load('/model.qsf', {threads, contextLength: 256}), codes = [];
        const note = promise => promise.then(() => codes.push('none'), error => codes.push(error.code));
        const answer = async () => {
          for await (const text of model.generate('Once upon a time', {maxTokens: 50})) void text;
        };
        // the only answer is the error
        if (where === 'web') await Promise.all([note(model.stats()), note(model.stats())]);
        else await note(answer());
        await note(answer());
        await note(model.stats());
        await model.dispose();
        return codes;
      }, [where, threads]);
      assert.deepEqual(codes, codes.map(() => 'WORKER'));
      assert.ok(codes.length >= 3);
    });

/* Memory (MB) and workers of the pages' processes, as the system counts them. */
async function processes() {
  const session = await browser.newBrowserCDPSession(), sizes = [];
  const {processInfo} = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  for (const {id, type} of processInfo) {
    if (type !== 'renderer') continue;
    const pss = Number(/^Pss:\s+(\d+) kB/m.exec(await readFile(`/proc/${id}/smaps_rollup`, 'utf8')
      .catch(() => ''))?.[1] ?? 0) / 1000;
    const tasks = await readdir(`/proc/${id}/task`).catch(() => []);
    const names =
      await Promise.all(tasks.map(task => readFile(`/proc/${id}/task/${task}/comm`, 'utf8').catch(() => '')));
    sizes.push({pss, workers: names.filter(name => name.startsWith('DedicatedWorker')).length});
  }
  return sizes.reduce((a, b) => ({pss: a.pss + b.pss, workers: a.workers + b.workers}));
}
test('nothing is left behind by ten models', {timeout: 600_000}, async t => {
  const page = await open(), seen = [];
  t.after(() => page.close());
  for (let i = 0; i < 10; i++) {
    await page.evaluate(async () => {
      const {load} = await import('/js/browser.js');
      globalThis.model = await load('/model.qsf', {threads: 2, contextLength: 512});
      for await (const text of globalThis.model.generate('Once', {maxTokens: 4})) void text;
    });
    const loaded = await processes();
    assert.ok(loaded.workers >= 2, `${loaded.workers} workers while a model is loaded`);
    await page.evaluate(async () => {
      await globalThis.model.dispose();
      globalThis.model = undefined;
    });
    let left;
    // a slow disk has to take what is flushed
    for (let tries = 0; tries < 1200 && (left = await processes()).workers; tries++)
      await new Promise(resolve => setTimeout(resolve, 100));
    assert.equal(left.workers, 0);
    seen.push(left.pss);
  }
  // a model is 120 MB; the system may take the memory of the last one a little later
  for (let tries = 0; tries < 300 && seen.at(-1) - seen[2] >= 150; tries++) {
    await new Promise(resolve => setTimeout(resolve, 100));
    seen.push((await processes()).pss);
  }
  assert.ok(seen.at(-1) - seen[2] < 150, `MB after each: ${seen.map(s => s.toFixed(0)).join(' ')}`);
});
