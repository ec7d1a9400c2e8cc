/* Servers that compress model files, in pages of real Chromium: those of other origins hide it.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';
import {launch} from './chromium.js';
import {packedServer} from './packed.js';
import {tinyModel} from './tiny.js';
import {PACKAGE, load} from './tools.js';

const MODEL = tinyModel({layers: 3}), CORS = {'access-control-allow-origin': '*'};

let browser, wanted;
before(async () => {
  browser = await launch();
  wanted = '';
  const model = await load(MODEL, {threads: 1});
  for await (const part of model.generate('Hello', {temperature: 0, maxTokens: 8})) wanted += part;
  await model.dispose();
});
after(() => browser?.close());

/* Runs in the page. */
async function visit({url, options}) {
  const {load, cache} = await import('/js/browser.js');
  try {
    const model = await load(url, {threads: 1, ...options});
    let text = '';
    for await (const part of model.generate('Hello', {temperature: 0, maxTokens: 8})) text += part;
    const {warnings, fileBytes} = model.info;
    await model.dispose();
    return {text, warnings, fileBytes, entries: await cache.list()};
  } catch (error) {
    return {error: {code: error.code, message: error.message}};
  }
}

/** options of the model's server; the page is of its origin unless isForeign. */
async function visited(options, isForeign, {visits = 2, ...more} = {}) {
  const server = await packedServer(MODEL, {scripts: PACKAGE, ...options, headers: isForeign ? CORS : {}});
  const home = isForeign ? await packedServer(MODEL, {scripts: PACKAGE}) : server;
  const context = await browser.newContext(), results = [];
  try {
    const page = await context.newPage();
    await page.goto(home.origin);
    for (let n = 0; n < visits; n++) {
      results.push({...await page.evaluate(visit, {url: server.url, options: more}),
        asked: [...server.asked]});
    }
    return results;
  } finally {
    await context.close();
    home.close();
    server.close();
  }
}
function check([first, second], length = MODEL.length) {
  assert.equal(first.text, wanted, first.error?.message);
  assert.equal(first.fileBytes, length);
  assert.deepEqual(first.entries.map(e => [e.complete, e.stored]), [[true, MODEL.length]]);
  assert.equal(second.text, wanted, second.error?.message);
  assert.equal(second.asked.length, first.asked.length, 'the second visit takes what is stored');
}

for (const isForeign of [false, true])
  describe(`a server of ${isForeign ? 'another' : "the page's"} origin that compresses`, () => {
    for (const [encoding, said] of [['gzip', true], ['br', false]])
      test(`with ${encoding}${said ? ' and a length' : ''}`, async () => {
        const results = await visited({encoding, said}, isForeign);
        check(results);
        assert.equal(results[0].asked[0].isPacked, true);
      });
    test('and answers no ranges', async () => check(await visited({said: true, ranges: false}, isForeign)));
    test('also what the client wants uncompressed', async () => {
      const results = await visited({said: true, always: true}, isForeign);
      check(results);
      if (!isForeign) assert.match(results[0].warnings.join(), /compresses .*gzip.* ranges/);
    });
    test('and cuts the file short: an error', async () => {
      const [{error}] = await visited({said: true, cut: 1000, always: true}, isForeign, {visits: 1});
      assert.equal(error?.code, 'CORRUPT', error?.message);
    });
  });
test('a compressed response that is longer than the file is accepted', async () => {
  const results = await visited({encoding: 'stored', said: true}, true);
  check(results, results[0].fileBytes);
});
