/* Servers that compress model files: what fetch() delivers is the file, whatever the headers say.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {rm} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, beforeEach, describe, test} from 'node:test';
import {packedServer} from './packed.js';
import {tinyModel} from './tiny.js';
import {WORK, cache, code, estimate, load} from './tools.js';

process.env.QSF_CACHE = join(WORK, 'packed-store');
const MODEL = tinyModel({layers: 3});
const said = async model => {
  let text = '';
  for await (const part of model.generate('Hello', {temperature: 0, maxTokens: 8})) text += part;
  await model.dispose();
  return text;
};
let wanted;
before(async () => { wanted = await said(await load(MODEL, {threads: 1})); });
beforeEach(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));
after(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));

async function served({bytes = MODEL, ...options}, body) {
  const server = await packedServer(bytes, {always: true, ...options});
  try {
    return await body(server);
  } finally {
    server.close();
  }
}

describe('a server that compresses without being asked to', () => {
  for (const encoding of ['gzip', 'br'])
    for (const isSaid of [false, true])
      for (const cached of [true, false])
        test(`${encoding}${isSaid ? ', with a length' : ''}, cache: ${cached}`, () => {
          return served({encoding, said: isSaid}, async ({url, asked}) => {
            const model = await load(url, {threads: 1, cache: cached});
            assert.match(model.info.warnings.join(), /compresses.*ranges.*whole/);
            assert.equal(model.info.fileBytes, MODEL.length);
            assert.equal(await said(model), wanted);
            const once = asked.length;
            const again = await load(url, {threads: 1, cache: cached});
            assert.equal(await said(again), wanted);
            assert.equal(asked.length, cached ? once : 2 * once);
            if (cached)
              assert.deepEqual((await cache.list()).map(e => [e.complete, e.length]), [[true, MODEL.length]]);
          });
        });
  test('is compared with what is stored', () => served({}, async ({url}) => {
    await (await load(url, {threads: 1})).dispose();
    assert.equal((await cache.validate(url)).state, 'current');
  }));
  test('has a description', () => served({}, async ({url}) => {
    assert.equal((await estimate(url)).fileBytes, MODEL.length);
  }));
  test('has no ranges, so layers cannot stream from it', () => {
    const bytes = tinyModel({layers: 40});
    return served({bytes}, ({url}) => assert.rejects(load(url, {threads: 1, memory: 4, cache: false}),
      code('HTTP', /memory: 4 .*ranges/)));
  });
  for (const isSaid of [false, true])
    test(`and cuts the file short${isSaid ? ', with a length' : ''}: an error`, () => {
      return served({said: isSaid, cut: 1000}, ({url}) =>
        assert.rejects(load(url, {threads: 1}), code('CORRUPT', /ends at|cut short/)));
    });
  test('in a way that is not decoded: an error that says so', () => served({encoding: 'zstd'}, ({url}) =>
    assert.rejects(load(url, {threads: 1}), code('HTTP', /\(zstd\), which is not decoded here/))));
});

test('a server that compresses only for clients that accept it is a server like others', () => {
  return served({always: false}, async ({url, asked}) => {
    const model = await load(url, {threads: 1});
    assert.deepEqual(model.info.warnings, []);
    assert.equal(await said(model), wanted);
    assert.deepEqual(asked.map(({range, isPacked}) => [range, isPacked]), [[undefined, false]]);
  });
});
