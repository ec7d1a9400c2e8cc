/* Models by name in pages of real Chromium, from a hub of another origin that redirects to a third.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {mkdtemp, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {hubServer} from './hub.js';
import {tinyModel} from './tiny.js';
import {PACKAGE} from './tools.js';

const TOKEN = 'hf_secret_token', SMALL = tinyModel({layers: 2});
const REPOS = {'private/tiny-GGUF': {'tiny-F16.gguf': tinyModel({layers: 4}), 'tiny-Q4_K_M.gguf': SMALL}};

let browser, folder, pages;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'qsf-hub-'));
  await writeFile(join(folder, 'index.html'), '<!doctype html><title>test</title>');
  pages = await serve([['/', folder], ['/js', PACKAGE]],
    {csp: "default-src 'self'; connect-src *; script-src 'self' 'wasm-unsafe-eval'"});
  browser = await launch();
});
after(async () => {
  await browser?.close();
  pages.closeAllConnections();
  pages.close();
  await rm(folder, {recursive: true, force: true});
});

/* Runs in the page. */
async function visit({from, own, ...options}) {
  const {load, cache} = await import('/js/browser.js');
  let calls = 0;
  const fetch = own && ((...what) => { calls++; return globalThis.fetch(...what); });
  try {
    const model = await load(from, {threads: 1, fetch, ...options});
    for await (const part of model.generate('Hello', {temperature: 0, maxTokens: 3})) void part;
    const {layers, warnings} = model.info;
    await model.dispose();
    return {layers, warnings, calls, entries: await cache.list()};
  } catch (error) {
    return {error: {code: error.code, message: error.message}, entries: await cache.list()};
  }
}
/** Runs body with a hub and a page; go() is visit(). */
async function visited(options, body) {
  const server = await hubServer(REPOS, options), context = await browser.newContext();
  try {
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${pages.address().port}/`);
    await body(server, more => page.evaluate(visit, {from: 'hf:private/tiny-GGUF', hubUrl: server.url,
      hubToken: TOKEN, ...more}));
  } finally {
    await context.close();
    server.close();
  }
}

test('a page loads a model by its name once, and sends the token to the hub only', () => {
  return visited({}, async (server, go) => {
    for (let n = 0; n < 2; n++) {
      const {layers, warnings, entries, error} = await go();
      assert.equal(layers, 2, error?.message);
      assert.deepEqual(warnings, []);
      assert.deepEqual(entries.map(({url, complete}) => [url, complete]),
        [[`${server.url}/private/tiny-GGUF/resolve/main/tiny-Q4_K_M.gguf`, true]]);
    }
    const of = where => server.asked.filter(asked => asked.where === where);
    assert.equal(of('files').length, 1);
    assert.ok(of('hub').every(({authorization}) => authorization === `Bearer ${TOKEN}`));
    assert.equal(of('files')[0].authorization, undefined);
    assert.equal((await go({from: 'hf:private/tiny-GGUF:F16'})).layers, 4);
  });
});
test("a page's own fetch() makes all requests of models", () => visited({}, async (server, go) => {
  const {layers, calls, error} = await go({own: true});
  assert.equal(layers, 2, error?.message);
  assert.equal(calls, 2);
}));
test('a page gets errors of a hub, and keeps nothing that differs from what the hub lists', () => {
  const spoil = (request, response, where) => where === 'files' && !!response.writeHead(200,
    {'access-control-allow-origin': '*', 'content-length': SMALL.length}).end(SMALL.slice().fill(0, 300_000));
  return visited({spoil}, async (server, go) => {
    assert.match((await go({hubToken: undefined})).error.message, /401.*hubToken/);
    const {error, entries} = await go();
    assert.equal(error?.code, 'CORRUPT', error?.message);
    assert.match(error.message, /SHA-256/);
    assert.deepEqual(entries, []);
  });
});
