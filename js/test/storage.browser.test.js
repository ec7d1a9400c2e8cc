/* Models at a URL in pages of real Chromium: stored, resumed after a reload, shared by tabs,
 * without room, from other origins.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {mkdtemp, rm, stat, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, beforeEach, describe, test} from 'node:test';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE, QSF, fileServer, nativeTokens} from './tools.js';

const QUESTION = [{role: 'user', content: 'What is the capital of France?'}];

let browser, folder, wanted;
before(async () => {
  wanted = nativeTokens(QSF, 24);
  folder = await mkdtemp(join(tmpdir(), 'qsf-page-'));
  await writeFile(join(folder, 'index.html'), '<!doctype html><title>test</title>');
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await rm(folder, {recursive: true, force: true});
});

/** What a page does with a model: loads it, answers, says what it was like.  Runs in the page. */
async function visit({url, options, messages, abortAt, keeps}) {
  const {load, cache} = await import('/js/browser.js');
  const loads = [], stop = new AbortController();
  const onProgress = p => {
    if (p.phase === 'load') loads.push(p);
    if (p.joined) globalThis.joined?.(p);
    if (p.loaded > abortAt) stop.abort();
  };
  try {
    const model = await load(url, {threads: 2, contextLength: 512, ...options, onProgress,
      signal: stop.signal});
    if (abortAt) {
      await new Promise(resolve => { stop.signal.addEventListener('abort', resolve); });
      globalThis.left = model;                  // the page is closed or reloaded with all of it at work
      return {entries: await cache.list()};
    }
    const ids = [];
    for await (const text of model.chat(messages,
      {temperature: 0, maxTokens: 24, onToken: id => ids.push(id)}))
      void text;
    const result = {ids, info: {...model.info}, stats: await model.stats(), last: loads.at(-1)};
    if (keeps) globalThis.kept = model;
    else await model.dispose();
    return {...result, entries: await cache.list()};
  } catch (error) {
    if (stop.signal.aborted) return {entries: await cache.list()};
    return {error: {code: error.code, message: error.message}};
  }
}

for (const isolation of [true, false])
  describe(isolation ? 'an isolated page' : 'a page without isolation', () => {
    const CORS = {'access-control-allow-origin': '*'};
    let pages, context, cors = CORS;
    before(async () => {
      pages = await serve([['/', folder], ['/js', PACKAGE]],
        {isolation, csp: "default-src 'self'; connect-src *; script-src 'self' 'wasm-unsafe-eval'"});
    });
    after(() => { pages.closeAllConnections(); pages.close(); });
    beforeEach(async t => {
      cors = CORS;
      context = await browser.newContext();
    });
    const open = async () => {
      const page = await context.newPage();
      await page.goto(`http://127.0.0.1:${pages.address().port}/`);
      return page;
    };
    /** Runs body with a model server of another origin; hold: where its first answer
     * stops, until when. */
    async function served(rate, body, hold) {
      const server = await fileServer(QSF, (request, response, {send, ranged}) => {
        send({headers: cors, rate: ranged ? Infinity : rate, hold: ranged ? undefined : hold});
        return true;
      });
      try {
        await body(server, (page, more) => page.evaluate(visit,
          {url: server.url, messages: QUESTION, ...more}));
      } finally {
        server.close();
        await context.close();
      }
    }

    test('stores what it fetches and works offline', () => served(Infinity, async (server, go) => {
      const page = await open(), first = await go(page);
      assert.deepEqual(first.ids, wanted, first.error?.message);
      assert.deepEqual(server.asked, ['all']);
      assert.equal(first.entries[0]?.complete, true, first.info.warnings.join());
      server.close();
      await page.reload();
      const second = await go(page);
      assert.deepEqual(second.ids, wanted, second.error?.message);
      assert.equal(second.last.stored, second.last.total);
      const streamed = await go(page, {options: {memory: 60}});
      assert.deepEqual(streamed.ids, wanted, streamed.error?.message);
      assert.equal(streamed.info.resident, false);
      assert.ok(streamed.stats.memoryBytes < 64e6);
    }));
    test('goes on after a reload half way', () => served(Infinity, async (server, go) => {
      const page = await open();
      const {entries, error} = await go(page, {abortAt: 40e6});
      assert.equal(entries?.[0].complete, false, error?.message);
      await page.reload();
      const second = await go(page);
      assert.deepEqual(second.ids, wanted, second.error?.message);
      assert.equal(server.asked.length, 2, server.asked.join());
      assert.ok(Number(/\d+/.exec(server.asked[1])[0]) >= 16e6, server.asked.join());
      assert.ok(second.last.stored >= 16e6);
    }, {at: 60e6, until: new Promise(() => {})}));
    test('shares what is stored with other tabs', () => served(Infinity, async (server, go) => {
      const [a, b] = [await open(), await open()];
      await go(a);
      const both = await Promise.all([go(a), go(b)]);
      for (const {ids, error} of both) assert.deepEqual(ids, wanted, error?.message);
      assert.deepEqual(server.asked, ['all']);
      assert.ok(await b.evaluate(async () => (await import('/js/browser.js')).cache.delete()) > 7e7);
      assert.deepEqual((await go(a)).ids, wanted);
      assert.equal(server.asked.length, 2, server.asked.join());
    }));
    test('loads in two tabs at the same time with one download', () => {
      let goOn;
      const until = new Promise(resolve => { goOn = resolve; });
      return served(Infinity, async (server, go) => {
        const [a, b] = [await open(), await open()];
        for (const page of [a, b])
          await page.exposeFunction('joined', p => { if (p.loaded > 0 && p.total > 7e7) goOn(); });
        const both = await Promise.all([go(a), go(b)]);
        for (const {ids, info, error} of both) {
          assert.deepEqual(ids, wanted, error?.message);
          assert.ok(!info.warnings.some(w => /stored/.test(w)), info.warnings.join());
        }
        assert.deepEqual(server.asked, ['all']);
        const {size} = await stat(QSF);
        assert.equal(server.sent, size);
      }, {at: 40e6, until});
    });
    test('resumes the download of a tab that was closed', () => served(Infinity, async (server, go) => {
      const [a, b] = [await open(), await open()];
      let hasJoined;
      const joined = new Promise(resolve => { hasJoined = resolve; });
      for (const page of [a, b])
        await page.exposeFunction('joined', p => { if (p.loaded > 32e6) hasJoined(page); });
      const going = [a, b].map(page => go(page).catch(error => ({closed: error})));
      const second = await joined, [closed, kept] = second === a ? [b, 0] : [a, 1];
      await closed.close();
      const {ids, error} = await going[kept];
      assert.deepEqual(ids, wanted, error?.message);
      assert.equal(server.asked.length, 2, server.asked.join());
      assert.ok(Number(/\d+/.exec(server.asked[1])[0]) >= 16e6, server.asked.join());
    }, {at: 40e6, until: new Promise(() => {})}));
    test('keeps what is in use, and removes the rest for a new file', () => served(Infinity, async (server,
      go) => {
      const page = await open(), {size} = await stat(QSF);
      const limited = more => page.evaluate(async ([n]) => {
        const {cache} = await import('/js/browser.js');
        if (n) await cache.limit(n);
        return {...await cache.usage(), persists: typeof await cache.persist(),
          urls: (await cache.list()).map(({url}) => url)};
      }, [more]);
      await go(page, {url: `${server.url}?n=1`});
      assert.equal((await limited(2.5 * size / 1e6)).used, size);
      await go(page, {url: `${server.url}?n=2&token=secret`});
      const {ids, entries, error} = await go(page, {url: `${server.url}?n=3`, keeps: true});
      assert.deepEqual(ids, wanted, error?.message);
      assert.deepEqual(entries.map(({url}) => new URL(url).search).sort(), ['?n=2', '?n=3']);
      const {urls, persists} = await limited(0.5 * size / 1e6);
      assert.deepEqual([urls, persists], [[`${server.url}?n=3`], 'boolean']);
    }));
    test('works without room to store', () => served(Infinity, async (server, go) => {
      const page = await open(), cdp = await context.newCDPSession(page);
      await cdp.send('Storage.overrideQuotaForOrigin', {origin: new URL(page.url()).origin, quotaSize: 30e6});
      const {ids, info, entries, error} = await go(page);
      assert.deepEqual(ids, wanted, error?.message);
      assert.ok(info.warnings.some(w => /not stored/.test(w)), info.warnings.join());
      assert.deepEqual(entries, []);
    }));
    test('works where room ends half way', () => {
      let goOn;
      const until = new Promise(resolve => { goOn = resolve; });
      return served(Infinity, async (server, go) => {
        const page = await open(), cdp = await context.newCDPSession(page), {origin} = new URL(page.url());
        const going = go(page);
        for (let n = 0; n < 2400 && server.sent < 10e6; n++)
          await new Promise(resolve => setTimeout(resolve, 50));
        await cdp.send('Storage.overrideQuotaForOrigin', {origin, quotaSize: 20e6});
        goOn();
        const {ids, info, entries, error} = await going;
        assert.deepEqual(ids, wanted, error?.message);
        assert.ok(info.warnings.some(w => /not stored/.test(w)), info.warnings.join());
        assert.deepEqual(entries, []);
      }, {at: 18e6, until});
    });
    test('survives that what is stored is taken away', () => served(Infinity, async (server, go) => {
      const page = await open(), cdp = await context.newCDPSession(page), {origin} = new URL(page.url());
      await go(page);
      await cdp.send('Storage.clearDataForOrigin', {origin, storageTypes: 'all'});
      const again = await go(page);
      assert.deepEqual(again.ids, wanted, again.error?.message);
      assert.equal(server.asked.length, 2, server.asked.join());
    }));
    test('reads ranges of another origin that exposes nothing', () => served(Infinity, async (server, go) => {
      const {ids, info, error} = await go(await open(), {options: {memory: 60, cache: false}});
      assert.deepEqual(ids, wanted, error?.message);
      assert.equal(info.resident, false);
      assert.ok(server.asked.length > 2);
    }));
    test('says so where another origin does not allow it', () => served(Infinity, async (server, go) => {
      cors = {};
      const {error} = await go(await open());
      assert.equal(error.code, 'HTTP');
      assert.match(error.message, /CORS/);
    }));
  });
