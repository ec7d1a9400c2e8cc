/* Adapters (LoRA) in a page of real Chromium: two at once, and a call without; from bytes, a Blob
 * and a URL.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE, WORK} from './tools.js';
import {tinyAdapter, tinyModel} from './tiny.js';

const here = fileURLToPath(new URL('.', import.meta.url)), SEEDS = {a: {seed: 5}, b: {seed: 6, rank: 9}};
const path = join(WORK, 'page-tiny.gguf'), file = name => join(WORK, `page-${name}.lora.gguf`);
let browser;
before(async () => {
  await writeFile(path, tinyModel());
  for (const [name, of] of Object.entries(SEEDS)) await writeFile(file(name), tinyAdapter(of));
  browser = await launch();
});
after(() => browser?.close());

/** The native program's greedy tokens. */
const native = (...uses) => JSON.parse(execFileSync(process.env.QSF_TEST_RUN,
  ['-m', path, '--raw', '-p', 'abc', '--temp', '0', '-n', '24', '--ignore-eos', '--json',
    ...uses.flatMap(use => ['--lora', use])])).ids;

/** Each call's tokens, twice over; and what is left when adapters are freed.  Runs in the page. */
async function answers({seeds, threads}) {
  const {load} = await import('/js/browser.js'), {tinyAdapter, tinyModel} = await import('/tests/tiny.js');
  const model = await load(tinyModel(), {threads}), ids = [];
  const said = async adapters => {
    const tokens = [];
    for await (const text of model.generate('abc', {temperature: 0, maxTokens: 24, ignoreEnd: true,
      ...(adapters && {adapters}), onToken: id => tokens.push(id)}))
      void text;
    return tokens;
  };
  const a = await model.loadAdapter(tinyAdapter(seeds.a), {scale: 0.5});
  const b = await model.loadAdapter(new Blob([tinyAdapter(seeds.b)]));
  for (let round = 0; round < 2; round++)
    for (const adapters of [[a, b], undefined, [{adapter: b, scale: -1}]]) ids.push(await said(adapters));
  const stored = [];
  for (let i = 0; i < 2; i++) stored.push(await model.loadAdapter('/files/page-a.lora.gguf', {scale: 0.5}));
  const far = [await said([stored[0], b]), await said([stored[1]]), await said()];
  const refused = await model.loadAdapter(tinyModel()).catch(error => error.code);
  await a.free();
  const freed = await said([a]).catch(error => error.code), info = {...b.info};
  await model.dispose();
  return {ids, far, refused, freed, info};
}

for (const threads of [1, 2])
  test(`two at once and none, ${threads} threads`, {timeout: 480_000}, async t => {
    const server = await serve([['/tests', here], ['/js', PACKAGE], ['/files', WORK]],
      {isolation: threads > 1});
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    const page = await browser.newPage(), errors = [];
    page.on('pageerror', error => errors.push(error.message));          // an unhandled rejection too
    await page.goto(`http://127.0.0.1:${server.address().port}/tests/browser/empty.html`);
    const got = await page.evaluate(answers, {seeds: SEEDS, threads});
    const want = [native(`${file('a')}:0.5`, file('b')), native(), native(`${file('b')}:-1`)];
    assert.equal(new Set(want.map(String)).size, 3);
    assert.deepEqual(got.ids, [...want, ...want]);
    assert.deepEqual(got.far, [want[0], native(`${file('a')}:0.5`), want[1]]);
    assert.deepEqual([got.refused, got.freed, got.info.rank], ['UNSUPPORTED', 'ARGUMENT', 9]);
    assert.deepEqual(errors, []);
  });
