/* The cache: one download for several processes, URLs that are signed, a limit, and what it may
 * remove.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {createServer} from 'node:http';
import {mkdir, readdir, rm, utimes, writeFile} from 'node:fs/promises';
import {hostname} from 'node:os';
import {join} from 'node:path';
import {after, beforeEach, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {promisify} from 'node:util';
import {tinyModel} from './tiny.js';
import {WORK, cache, code, load, packaged} from './tools.js';

process.env.QSF_CACHE = join(WORK, 'cache-store');
const folder = join(process.env.QSF_CACHE, 'urls');
beforeEach(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));
after(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));

const {cacheUrl} = await import(pathToFileURL(packaged('cache_key.js')));
const MODEL = tinyModel({layers: 2}), MB = MODEL.length / 1e6;

/** Serves MODEL at every path. hold: a promise that the second half waits for. */
async function server({hold} = {}) {
  const asked = [], http = createServer(async (request, response) => {
    asked.push(request.url);
    const {range} = request.headers, [, from = 0, last] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? [];
    const start = Number(from), end = last ? Number(last) + 1 : MODEL.length, half = MODEL.length >> 1;
    response.writeHead(range ? 206 : 200, {'etag': '"one"', 'content-length': end - start,
      ...(range && {'content-range': `bytes ${start}-${end - 1}/${MODEL.length}`})});
    response.write(MODEL.subarray(start, Math.min(end, half)));
    if (end > half) await hold;
    response.end(MODEL.subarray(Math.max(start, half), end));
  });
  await new Promise(resolve => { http.listen(0, '127.0.0.1', resolve); });
  return {asked, url: `http://127.0.0.1:${http.address().port}`,
    close() { http.closeAllConnections(); http.close(); }};
}
async function served(options, body) {
  const one = await server(options);
  try {
    return await body(one);
  } finally {
    one.close();
  }
}
async function visit(url, options) {
  const model = await load(url, {threads: 1, ...options});
  for await (const part of model.generate('Hi', {maxTokens: 2})) void part;
  return model;
}
const visited = async (url, options) => (await visit(url, options)).dispose();

describe('processes with one cache', () => {
  /** Another process that loads url; resolves with what it printed. */
  async function other(url, more = '') {
    const script = `import {load} from ${JSON.stringify(packaged('node.js'))};
      const model = await load(${JSON.stringify(url)}, {threads: 1, onProgress: p =>
        p.phase === 'load' && console.log(JSON.stringify(p))});
      for await (const part of model.generate('Hi', {maxTokens: 2})) void part;
      console.log(JSON.stringify({warnings: model.info.warnings})); ${more}`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script],
      {stdio: ['ignore', 'pipe', 'inherit']});
    child.lines = [];
    let text = '';
    child.stdout.on('data', data => {
      text += data;
      for (let end; (end = text.indexOf('\n')) >= 0; text = text.slice(end + 1))
        child.lines.push(JSON.parse(text.slice(0, end)));
    });
    return child;
  }
  async function until(holds) {
    for (let n = 0; !holds(); n++) {
      assert.ok(n < 1200, 'it does not come to that');
      await new Promise(resolve => { setTimeout(resolve, 50); });
    }
  }
  test('make one download, and the others show its progress', () => {
    let goOn;
    const hold = new Promise(resolve => { goOn = resolve; });
    return served({hold}, async ({url, asked}) => {
      const all = [await other(url), await other(url)];
      await until(() => all.some(({lines}) => lines.some(p => p.joined && p.total === MODEL.length)));
      goOn();
      await Promise.all(all.map(child => once(child, 'close')));
      for (const {lines} of all) assert.deepEqual(lines.at(-1), {warnings: []});
      assert.deepEqual(asked, ['/']);
      const last = all.map(({lines}) => lines.findLast(p => p.phase).loaded);
      assert.deepEqual(last, [MODEL.length, MODEL.length]);
    });
  });
  test('resume the download of one that was killed', () => {
    let goOn;
    const hold = new Promise(resolve => { goOn = resolve; });
    return served({hold}, async ({url, asked}) => {
      const killed = await other(url);
      await until(() => asked.length === 1);
      const next = await other(url);
      await until(() => next.lines.some(p => p.joined));
      killed.kill('SIGKILL');
      await until(() => asked.length === 2);
      goOn();
      await once(next, 'close');
      assert.deepEqual(next.lines.at(-1), {warnings: []});
      assert.deepEqual((await cache.list()).map(e => e.complete), [true]);
    });
  });
  test('notice that a holder of a lock elsewhere is gone, by its silence', () => served({}, async ({url}) => {
    await visited(url);
    const [name] = (await readdir(folder)).filter(file => file.endsWith('.meta'));
    const lock = join(folder, name.replace('.meta', '.lock')), long = new Date(Date.now() - 60_000);
    await writeFile(lock, '1 another-machine 0.0');
    await assert.rejects(cache.delete(url), code('BUSY'));
    await utimes(lock, long, long);
    assert.ok(await cache.delete(url) > 0);
    await visited(url);
    await writeFile(lock, `999999999 ${hostname()} 0.0`);       // no such process
    assert.ok(await cache.delete(url) > 0);
  }));
  test('read what is stored while the one that stored it still has it', () => served({}, async ({url,
    asked}) => {
    const model = await visit(url);
    const child = await other(url);
    await once(child, 'close');
    assert.deepEqual(child.lines.at(-1), {warnings: []});
    await model.dispose();
    assert.equal(asked.length, 1);
  }));
});

describe('a URL that is signed', () => {
  test('is known by the rest of it', () => {
    const same = ['https://h/m.gguf?v=1', 'https://user:secret@h/m.gguf?v=1#x',
      'https://h/m.gguf?v=1&token=abc', 'https://h/m.gguf?Signature=x&v=1&Key-Pair-Id=k',
      'https://h/m.gguf?X-Amz-Signature=1&X-Amz-Date=2&v=1&Expires=5',
      'https://h/m.gguf?sv=2020&se=2030&sp=r&sig=x&v=1'];
    for (const url of same) assert.equal(cacheUrl(url), 'https://h/m.gguf?v=1', url);
    assert.equal(cacheUrl('https://h/m?sv=1&file=a'), 'https://h/m?sv=1&file=a');
    assert.equal(cacheUrl('https://h/m?a=1&visit=2&VisitId=3', ['visit*']), 'https://h/m?a=1');
    assert.equal(cacheUrl('https://h/m?a=1&b=2', ['*']), 'https://h/m');
  });
  test('is stored once, and shows no secret', () => served({}, async ({url, asked}) => {
    const signed = n => `${url.replace('//', '//me:secret@')}/m.gguf?file=a&token=secret${n}`;
    await visited(signed(1));
    await visited(signed(2));
    assert.equal(asked.length, 1);
    const [entry] = await cache.list();
    assert.equal(entry.url, `${url}/m.gguf?file=a`);
    assert.ok(!JSON.stringify(await cache.list()).includes('secret'));
    assert.equal((await cache.validate(signed(3))).state, 'current');
    assert.match(asked.at(-1), /token=secret3/);
    await visited(`${url}/m.gguf?file=a&visit=9`, {ignoreQuery: ['visit']});
    assert.equal(asked.length, 2);
    await assert.rejects(load(url, {ignoreQuery: 'visit'.length}), code('ARGUMENT', /ignoreQuery is 5/));
    assert.ok(await cache.delete(signed(4)) > 0);
    assert.deepEqual(await readdir(folder), []);
  }));
});

test('a terminal lists and deletes what is cached', () => served({}, async ({url}) => {
  await visited(`${url}/a`);
  await visited(`${url}/b?token=secret`);
  const run = async (...more) => (await promisify(execFile)(process.execPath,
    [packaged('cli.js'), ...more])).stdout;
  const lines = (await run('--list')).trim().split('\n').sort();
  assert.deepEqual(lines, ['a', 'b'].map(name => `${url}/${name}  ${MB.toFixed(1)} MB`));
  assert.equal(await run('--delete', `${url}/a`), `${MB.toFixed(1)} MB freed\n`);
  assert.equal((await cache.list()).length, 1);
  assert.equal(await run('--delete', 'all', '--list'), `${MB.toFixed(1)} MB freed\n`);
  await assert.rejects(run('--delete', 'no address'), /not the address of a file/);
}));

describe('the limit of the cache', () => {
  const names = async () => (await cache.list()).map(({url}) => new URL(url).pathname).sort().join();
  /* The files' last use is days ago, as times that are minutes apart. */
  async function age(path, days) {
    const {url} = (await cache.list()).find(entry => entry.url.endsWith(path)), {keyOf} = await import(
      pathToFileURL(packaged('store.js')));
    const key = await keyOf(url), [used] = (await readdir(folder)).filter(n => n.startsWith(`${key}.used-`));
    await rm(join(folder, used));
    await writeFile(join(folder, `${key}.used-${Date.now() - days * 86400e3}`), '');
  }
  test('removes what was used least recently', () => served({}, async ({url}) => {
    assert.deepEqual((({used, limit}) => [used, limit])(await cache.usage().catch(() => ({used: 0,
      limit: Infinity}))),
      [0, Infinity]);
    for (const path of ['/a', '/b', '/c']) await visited(url + path);
    await age('/a', 1);
    await age('/b', 3);
    await age('/c', 2);
    await cache.limit(3.5 * MB);
    assert.equal(await names(), '/a,/b,/c');
    await visited(`${url}/d`);
    assert.equal(await names(), '/a,/c,/d');
    await visited(`${url}/c`);                  // used again
    await visited(`${url}/e`);
    assert.equal(await names(), '/c,/d,/e');
    const {used, limit, free} = await cache.usage();
    assert.deepEqual([used, Math.round(limit), free], [3 * MODEL.length, Math.round(3.5e6 * MB),
      Math.floor(limit) - used]);
    await cache.limit(1.5 * MB);
    assert.equal((await cache.list()).length, 1);
    await cache.limit(Infinity);
    assert.equal((await cache.usage()).limit, Infinity);
    await assert.rejects(cache.limit('5'), code('ARGUMENT', /the limit is "5"/));
  }));
  test('removes no model that is in use', () => served({}, async ({url}) => {
    const first = await visit(`${url}/a`);
    await visited(`${url}/b`);
    await age('/a', 9);
    await cache.limit(2.5 * MB);
    await visited(`${url}/c`);
    assert.equal(await names(), '/a,/c');
    await cache.limit(1.5 * MB);
    assert.equal(await names(), '/a');
    await assert.rejects(cache.delete(`${url}/a`), code('BUSY', /in use/));
    assert.equal(await cache.delete(), 0);
    const {info} = await visit(`${url}/d`);
    assert.match(info.warnings.join(), /not stored: not enough space/);
    await first.dispose();
    await cache.limit(0.5 * MB);
    assert.equal(await names(), '');
    const large = await visit(`${url}/d`);
    assert.match(large.info.warnings.join(), /not stored: it is larger than the cache's limit/);
    await large.dispose();
  }));
  test('is kept by a cache of a folder that cannot be lost', async () => {
    await mkdir(folder, {recursive: true});
    assert.equal(await cache.persist(), true);
  });
});
