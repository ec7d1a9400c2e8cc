/* The package in a page of real Chromium: with cross-origin isolation and without.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_CHROMIUM names the browser (chromium), QSF_TEST_TOOLS the folder
 * with playwright-core. */
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE, QSF, WORK, nativeTokens} from './tools.js';

const here = fileURLToPath(new URL('.', import.meta.url)), demo = join(here, '../../demo');
const CSP = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Serves the page under a sub-path and opens it; what it prints as an error fails the test. */
async function open(path, {isolation}) {
  const server = await serve([['/sub/page', demo], ['/sub/page/js', PACKAGE], ['/model.qsf', QSF]],
    {isolation, csp: CSP});
  /* The page's service worker would give isolation to a page that is to be without. */
  const page = await browser.newPage({viewport: {width: 900, height: 700}, serviceWorkers: 'block'}),
    errors = [], hosts = new Set();
  page.on('pageerror', error => errors.push(error.message));
  page.on('console', message => { if (message.type() === 'error') errors.push(message.text()); });
  page.on('request', request => hosts.add(new URL(request.url()).host));
  await page.goto(`http://127.0.0.1:${server.address().port}${path}`);
  return {
    page,
    async close() {
      await page.close();
      server.closeAllConnections();
      server.close();
      assert.deepEqual(errors, []);
      assert.equal(hosts.size, 1, [...hosts].join(' '));
    },
  };
}

for (const isolation of [true, false])
  describe(isolation ? 'an isolated page' : 'a page without isolation', () => {
    let tab;
    before(async () => {
      tab = await open('/sub/page/?model=/model.qsf', {isolation});
      await tab.page.waitForSelector('#ask:not([hidden])', {timeout: 240_000});
    });
    after(() => tab.close());

    test('runs relaxed SIMD, with threads where it may', async () => {
      const info = await tab.page.evaluate(() => qsfDemo.model.info);
      assert.match(info.isa, /^wasm-(relaxed|dot)$/);
      assert.equal(info.variant, isolation ? 'relaxed-threads' : 'relaxed');
      assert.equal(info.threads > 1, isolation);
      assert.equal(info.warnings.length, isolation ? 0 : 1);
    });
    test('gives the native tokens', async () => {
      const ids = await tab.page.evaluate(async () => {
        const ids = [];
        for await (const text of qsfDemo.model.chat(
          [{role: 'user', content: 'What is the capital of France?'}],
          {temperature: 0, maxTokens: 24, onToken: id => ids.push(id)}))
          void text;
        return ids;
      });
      assert.deepEqual(ids, nativeTokens(QSF, 24));
    });
    test('plain SIMD gives them too, from a File', async () => {
      const {ids, isa} = await tab.page.evaluate(async () => {
        const {load} = await import('./js/browser.js');
        const model = await load(new File([await (await fetch('/model.qsf')).blob()], 'm.qsf'),
          {relaxed: false, contextLength: 256}), ids = [];
        for await (const text of model.chat([{role: 'user', content: 'What is the capital of France?'}],
          {temperature: 0, maxTokens: 24, onToken: id => ids.push(id)}))
          void text;
        await model.dispose();
        return {ids, isa: model.info.isa};
      });
      assert.equal(isa, 'wasm');
      assert.deepEqual(ids, nativeTokens(QSF, 24));
    });
    test('answers in its page', async () => {
      await tab.page.evaluate(() => { qsfDemo.settings.temperature = 0; });
      await tab.page.fill('#text', 'What is the capital of France?');
      await tab.page.keyboard.press('Enter');
      await tab.page.waitForFunction(() => document.querySelector('#talk .assistant')?.textContent.includes(
        'Paris') && document.querySelector('#stop').hidden, undefined, {polling: 50, timeout: 240_000});
      await tab.page.screenshot({path: join(WORK, isolation ? 'page.png' : 'page-one-thread.png')});
    });
    test('stops at once', async () => {
      const ms = await tab.page.evaluate(async () => {
        const stop = new AbortController();
        let at;
        try {
          for await (const text of qsfDemo.model.generate('Once upon a time',
            {maxTokens: 2000, signal: stop.signal}))
            if (text) { at = performance.now(); stop.abort(); }
        } catch (error) {
          if (error.name !== 'AbortError') throw error;
        }
        return performance.now() - at;
      });
      assert.ok(ms < 20_000, `${ms} ms`);              // 2000 tokens would take longer
    });
  });
