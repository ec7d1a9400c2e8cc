/* Split models: the parts of a GGUF file at URLs, paths, and in a repository of a hub.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {mkdir, rm, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, beforeEach, test} from 'node:test';
import {hubServer} from './hub.js';
import {splitModel, tinyModel} from './tiny.js';
import {WORK, cache, code, estimate, load} from './tools.js';

process.env.QSF_CACHE = join(WORK, 'split-store');
beforeEach(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));
after(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));

const HOW = {layers: 40, seed: 3}, WHOLE = tinyModel(HOW), PARTS = splitModel(HOW, 3);
const name = i => `tiny-Q8_0-0000${i + 1}-of-00003.gguf`;
const REPOS = {'owner/split': Object.fromEntries(PARTS.map((bytes, i) => [name(i), bytes]))};
const LENGTH = PARTS.reduce((sum, {length}) => sum + length, 0);

async function text(model) {
  let all = '';
  for await (const part of model.generate('Hello', {temperature: 0, maxTokens: 12})) all += part;
  await model.dispose();
  return all;
}
let wanted;
before(async () => { wanted = await text(await load(WHOLE, {threads: 1})); });
async function served(options, body) {
  const server = await hubServer(REPOS, options);
  try {
    return await body(server, `${server.url}/owner/split/resolve/main/${name(0)}`);
  } finally {
    server.close();
  }
}

test('a split model is loaded from the URL of its first part, and stored', () => served({}, async (server,
  url) => {
  for (const threads of [1, 2]) {
    const model = await load(url, {threads});
    assert.equal(model.info.fileBytes, LENGTH);
    assert.equal(await text(model), wanted);
  }
  assert.equal(server.asked.filter(({where}) => where === 'files').length, 3);
  assert.deepEqual((await cache.list()).map(e => e.complete), [true, true, true]);
}));
test('a split model streams its layers, from the cache and by ranges', () => served({}, async (server,
  url) => {
  const {leastBytes} = await estimate(url, {threads: 1, memory: 1});
  for (const more of [{}, {cache: false}]) {
    const model = await load(url, {threads: 1, memory: leastBytes / 1e6, ...more});
    assert.equal(model.info.resident, false);
    assert.equal(await text(model), wanted);
  }
}));
test('a split model is one of a repository, by all of its sums', () => served({}, async server => {
  const hub = {hubUrl: server.url, threads: 1};
  assert.equal(await text(await load('hf:owner/split', hub)), wanted);
  assert.equal(await text(await load('hf:owner/split:Q8_0', hub)), wanted);
  const {files, fileBytes} = await estimate('hf:owner/split', hub);
  assert.deepEqual([files.length, files[0].bytes, fileBytes], [1, LENGTH, LENGTH]);
}));
test('a split model is loaded from files', async () => {
  const folder = join(WORK, 'split');
  await mkdir(folder, {recursive: true});
  for (const [i, bytes] of PARTS.entries()) await writeFile(join(folder, name(i)), bytes);
  assert.equal(await text(await load(join(folder, name(0)), {threads: 1})), wanted);
  await rm(join(folder, name(2)));
  await assert.rejects(load(join(folder, name(0))), code('NOT_FOUND', /00003-of-00003.gguf/));
  await assert.rejects(load(join(folder, name(1))), code('ARGUMENT', /open its first part/));
});
test('a part that is not there, or damaged, is named', () => {
  let status;
  const spoil = (request, response) =>
    request.url.includes('00002-of') && !!response.writeHead(status).end('{}');
  return served({spoil}, async (server, url) => {
    status = 404;
    await assert.rejects(load(url, {threads: 1}), code('HTTP', /00002-of-00003.gguf.*404/));
    status = 200;
    await assert.rejects(async () => text(await load(url, {threads: 1})), code('CORRUPT',
      /00002-of-00003.gguf/));
  });
});
