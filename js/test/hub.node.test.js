/* Models by name, from a server that answers as Hugging Face's hub does.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {readFile, rm} from 'node:fs/promises';
import {join} from 'node:path';
import {after, beforeEach, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {promisify} from 'node:util';
import {hubServer} from './hub.js';
import {tinyModel} from './tiny.js';
import {WORK, cache, code, estimate, load, packaged} from './tools.js';

process.env.QSF_CACHE = join(WORK, 'hub-store');
beforeEach(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));
after(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));

const {models, ordered, parse} = await import(pathToFileURL(packaged('hub.js')));
const TOKEN = 'hf_secret_token', SMALL = tinyModel({layers: 2}), LARGE = tinyModel({layers: 4, context: 512});
const text = new TextEncoder().encode('# a model\n');
const REPOS = {
  'owner/tiny-GGUF': {'README.md': text, 'tiny-F16.gguf': LARGE, 'tiny-Q4_K_M.gguf': SMALL,
    'sub folder/tiny-Q2_K.gguf': tinyModel({layers: 1}), 'mmproj-Q4_K_M.gguf': text,
      'tiny.imatrix.gguf': text},
  'private/tiny': {'tiny-q8_0.gguf': SMALL},
  'gated/tiny': {'tiny-q8_0.gguf': SMALL},
  'owner/weights': {'model.safetensors': text},
};

/** Runs body with a hub that is closed in the end, and with what loads from it. */
async function served(options, body) {
  const server = await hubServer(REPOS, options);
  const get = (name, more) => load(name, {threads: 1, hubUrl: server.url, ...more});
  try {
    return await body(server, get);
  } finally {
    server.close();
  }
}
async function layersOf(model) {
  for await (const part of await model.generate('Hi', {maxTokens: 2})) void part;
  const {layers} = model.info;
  await model.dispose();
  return layers;
}
const named = (server, path) => `${server.url}/owner/tiny-GGUF/resolve/main/${path}`;

test('names, labels and choices are those of hub/name.c', async () => {
  const cases = JSON.parse(await readFile(new URL('../../tests/golden/hub_names.json', import.meta.url)));
  for (const [name, repo, file, label, revision] of cases.names) {
    const found = parse(name);
    assert.deepEqual([found.repo, found.file ?? '', found.label ?? '', found.revision],
      [repo, file, label, revision], name);
  }
  for (const name of cases.wrong) assert.throws(() => parse(name), code('ARGUMENT', /OWNER\/REPO/), name);
  for (const [path, label] of Object.entries(cases.labels)) {
    const [model] = models([{path: path.replace(/-0+1-of-0+2/, ''), size: 1}]);
    assert.equal(model.label, label, path);
  }
  for (const {files, models: want, order} of cases.repositories) {
    const all = models(files.map(([path, size]) => ({path, size})));
    assert.deepEqual(all.map(({path, label, parts, bytes}) => [path, label, parts.length, bytes]), want);
    if (all.length) assert.deepEqual(ordered(all).map(({path}) => path), order);
  }
});
test('names have parts', () => {
  const all = {
    'hf:a/b': {repo: 'a/b', revision: 'main'},
    'hf://a/b.c:Q4_K_M': {repo: 'a/b.c', label: 'Q4_K_M', revision: 'main'},
    'hf:a/b:Q8_0@v1': {repo: 'a/b', label: 'Q8_0', revision: 'v1'},
    'hf:a/b/x.gguf': {repo: 'a/b', file: 'x.gguf', revision: 'main'},
    'hf:a/b/c/x.gguf@refs/pr/1': {repo: 'a/b', file: 'c/x.gguf', revision: 'refs/pr/1'},
    'hf://a/b@v2/x.gguf': {repo: 'a/b', file: 'x.gguf', revision: 'v2'},
  };
  for (const [name, parts] of Object.entries(all))
    assert.deepEqual(JSON.parse(JSON.stringify(parse(name))), parts, name);
  for (const name of ['hf:', 'hf:a', 'hf:a/b/', 'hf:a/b:', 'hf:/a/b', 'hf:a b/c'])
    assert.throws(() => parse(name), code('ARGUMENT', /OWNER\/REPO/), name);
});

describe('a name', () => {
  const loads = {
    'of a repository gives Q4_K_M': ['hf:owner/tiny-GGUF', 2],
    'with a quantisation': ['hf:owner/tiny-GGUF:f16', 4],
    'with a file': ['hf://owner/tiny-GGUF/sub folder/tiny-Q2_K.gguf', 1],
    'with a file and a revision': ['hf:owner/tiny-GGUF/tiny-F16.gguf@refs/pr/1', 4],
    'that is a URL': [new URL('hf://owner/tiny-GGUF:Q2_K'), 1],
  };
  for (const [name, [from, layers]] of Object.entries(loads))
    test(name, () => served({}, async (server, get) => { assert.equal(await layersOf(await get(from)),
      layers); }));

  test('is stored, compared, deleted by its URL, and needs no network then', () => {
    return served({}, async (server, get) => {
      assert.equal(await layersOf(await get('hf:owner/tiny-GGUF')), 2);
      const [entry] = await cache.list(), url = named(server, 'tiny-Q4_K_M.gguf');
      assert.deepEqual([entry.url, entry.complete], [url, true]);
      const downloads = () => server.asked.filter(({where, range}) => where === 'files' && !range).length;
      assert.equal(downloads(), 1);
      assert.equal(await layersOf(await get('hf:owner/tiny-GGUF')), 2);
      assert.equal(downloads(), 1);
      server.close();
      for (const name of ['hf:owner/tiny-GGUF', 'hf:owner/tiny-GGUF:Q4_K_M',
        'hf:owner/tiny-GGUF/tiny-Q4_K_M.gguf'])
        assert.equal(await layersOf(await get(name)), 2);
      await assert.rejects(get('hf:owner/tiny-GGUF:Q2_K'), code('HTTP', /connection/));
      assert.ok(await cache.delete(url) > 1e5);
    });
  });
  test('is a name for the cache, too', () => served({}, async (server, get) => {
    const hub = {hubUrl: server.url}, all = 'hf:owner/tiny-GGUF';
    await layersOf(await get(all));
    await layersOf(await get(`${all}:F16`));
    for (const name of [all, `${all}:F16`, `${all}/tiny-F16.gguf`])
      assert.equal((await cache.validate(name, hub)).state, 'current', name);
    for (const name of [`${all}:Q2_K`, `${all}@v2`, 'hf:owner/tiny'])
      assert.equal((await cache.validate(name, hub)).state, 'missing', name);
    assert.equal(await cache.delete(`${all}:Q2_K`, hub), 0);
    assert.equal(await cache.delete(`${all}/tiny-F16.gguf`, hub), LARGE.length);
    assert.equal((await cache.list()).length, 1);
    assert.equal(await cache.delete(all, hub), SMALL.length);
    assert.equal((await cache.validate(all, hub)).state, 'missing');
    for (const wrong of ['nonsense', 5, null, 'hf:x'])
      for (const call of ['delete', 'validate'])
        await assert.rejects(cache[call](wrong), code('ARGUMENT', /name of a model/), String(wrong));
    await assert.rejects(cache.validate(), code('ARGUMENT', /undefined is not the address of a file/));
  }));
  test('is listed in pages', () => served({pageSize: 2}, async (server, get) => {
    assert.equal(await layersOf(await get('hf:owner/tiny-GGUF:Q2_K')), 1);
    assert.equal(server.asked.filter(({path}) => path.includes('/tree/')).length, 3);
  }));
  test('is taken from a path of a hub, of the environment too', () => served({}, async server => {
    const {QSF_HUB, HF_ENDPOINT, HF_TOKEN} = process.env;
    try {
      process.env.HF_ENDPOINT = server.url;
      assert.equal(await layersOf(await load('hf:owner/tiny-GGUF', {threads: 1})), 2);
      process.env.HF_ENDPOINT = 'http://127.0.0.1:9';
      process.env.QSF_HUB = `${server.url}/`;
      process.env.HF_TOKEN = TOKEN;
      assert.equal(await layersOf(await load('hf:private/tiny', {threads: 1})), 2);
    } finally {
      for (const [name, value] of Object.entries({QSF_HUB, HF_ENDPOINT, HF_TOKEN}))
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
    }
  }));
  test('in a terminal', () => served({}, async server => {
    const run = (...more) => promisify(execFile)(process.execPath,
      [packaged('cli.js'), '-p', 'Hi', '-n', '2', '--raw', ...more], {env: {...process.env,
        HF_TOKEN: TOKEN}});
    const {stdout} = await run('hf:private/tiny', '--hub', server.url);
    assert.ok(stdout.length > 1);
    const {stderr} = await run('hf:private/none', '--hub', server.url).catch(error => error);
    assert.match(stderr, /private\/none.*401/);
    assert.ok(!stderr.includes(TOKEN));
    const remove = () => promisify(execFile)(process.execPath, [packaged('cli.js'), '--delete',
      'hf:private/tiny', '--hub', server.url]);
    assert.match((await remove()).stdout, /^\d+\.\d MB freed\n$/);
    const again = await remove().catch(error => error);
    assert.deepEqual([again.code, again.stderr],
      [1, 'error: nothing of hf:private/tiny is cached; --list shows what is\n']);
  }));
});

describe('the quantisation', () => {
  const MB = bytes => bytes / 1e6;
  test('is the one that fits, from headers only', () => served({}, async (server, get) => {
    const all = await estimate('hf:owner/tiny-GGUF', {hubUrl: server.url, threads: 1});
    assert.deepEqual(all.files.map(({quantisation, fits, chosen}) => [quantisation, fits, chosen]),
      [['F16', true, false], ['Q4_K_M', true, true], ['Q2_K', true, false]]);
    assert.equal(all.layers, 2);
    assert.ok(server.asked.every(({where, range}) => where === 'hub' || /^bytes=\d+-\d+$/.test(range)));
    const [, , least] = all.files;
    const memory = MB((least.memoryBytes + all.memoryBytes) / 2);
    assert.equal(await layersOf(await get('hf:owner/tiny-GGUF', {memory})), 1);
    const fewer = await estimate('hf:owner/tiny-GGUF', {hubUrl: server.url, threads: 1, memory});
    assert.deepEqual(fewer.files.map(({fits, chosen}) => [fits, chosen]),
      [[false, false], [false, false], [true, true]]);
    assert.equal(fewer.layers, 1);
  }));
  test('that is not there: an error that lists what is', () => served({}, async (server, get) => {
    await assert.rejects(get('hf:owner/tiny-GGUF:Q5_K_M'),
      code('NOT_FOUND', /tiny-GGUF has no model in Q5_K_M; it has F16 \(1 MB\), Q4_K_M/));
    await assert.rejects(get('hf:owner/tiny-GGUF/none.gguf'), code('NOT_FOUND',
      /no file none.gguf; it has tiny-F16.gguf \(1 MB\), tiny-Q4_K_M.gguf/));
    await assert.rejects(get('hf:owner/weights'), code('NOT_FOUND', /no GGUF or QSF file.*qsf-convert/));
  }));
});

describe('a hub', () => {
  const tell = (status, headers) => (request, response) => {
    response.writeHead(status, headers).end();
    return true;
  };
  test('refuses: the error says what, where and what to do', () => served({}, async (server, get) => {
    await assert.rejects(get('hf:private/tiny'), code('HTTP', /api\/models\/private\/tiny.*401.*hubToken/));
    await assert.rejects(get('hf:private/tiny', {hubToken: 'hf_wrong_token'}), error => {
      assert.match(error.message, /401.*Invalid credentials/);
      assert.ok(!JSON.stringify([error.message, error.stack, error.cause]).includes('hf_wrong_token'),
        error.message);
      return true;
    });
    await assert.rejects(get('hf:gated/tiny', {hubToken: TOKEN}),
      code('HTTP', new RegExp(`403.*restricted.*accept its conditions at ${server.url}/gated/tiny`)));
    await assert.rejects(get('hf:owner/tiny-GGUF@v9'), code('HTTP', /404.*Invalid rev id/));
    assert.deepEqual(await cache.list(), []);
  }));
  test('asks to wait: waited for', () => {
    const waits = [];
    let n = 0;
    const spoil = (request, response) => ++n < 3 && tell(429, {'retry-after': '0.1'})(request, response);
    return served({spoil}, async (server, get) => {
      assert.equal(await layersOf(await get('hf:owner/tiny-GGUF', {onProgress: p =>
        p.waiting && waits.push(p)})), 2);
      assert.ok(n > 3);
    });
  });
  test('asks to wait for too long: an error', () => served({spoil: tell(429, {'retry-after': '3600'})},
    (server, get) => assert.rejects(get('hf:owner/tiny-GGUF'), code('HTTP', /429.*wait 3600 s/))));
  test('is none: an error', () => served({spoil: (request, response) => {
    response.writeHead(200, {'content-type': 'text/html'}).end('<html>hello</html>');
    return true;
  }}, (server, get) => assert.rejects(get('hf:owner/tiny-GGUF'), code('HTTP', /is that a hub's address/))));
  test('has an address', async () => {
    for (const hubUrl of ['nowhere', 'ftp://x', 'http://user:secret@x', 5])
      await assert.rejects(load('hf:a/b', {hubUrl}), code('ARGUMENT', /hubUrl must be/));
    for (const hubToken of ['a\nb', 5])
      await assert.rejects(load('hf:a/b', {hubToken}), code('ARGUMENT', /hubToken must be/));
  });
});

describe('what came', () => {
  const damaged = (request, response) => {
    const bytes = SMALL.slice(), part = request.headers.range;
    bytes[bytes.length - 5000] ^= 1;
    const start = Number(/\d+/.exec(part ?? '0')[0]);
    response.writeHead(part ? 206 : 200, {'etag': '"x"', 'content-length': bytes.length - start,
      ...(part && {'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}`})});
    response.end(bytes.subarray(start));
    return true;
  };
  test('and is not what the hub has: an error, and nothing is kept', () => {
    let isDamaged = true;
    const spoil = (request, response, where) => isDamaged && where === 'files' && damaged(request, response);
    return served({spoil}, async (server, get) => {
      for (const more of [{}, {cache: false}])
        await assert.rejects(async () => layersOf(await get('hf:owner/tiny-GGUF', more)), code('CORRUPT',
          /SHA-256/));
      const direct = named(server, 'tiny-Q4_K_M.gguf');
      await assert.rejects(async () => layersOf(await load(direct, {threads: 1})), code('CORRUPT',
        /SHA-256/));
      assert.deepEqual(await cache.list(), []);
      isDamaged = false;
      assert.equal(await layersOf(await get('hf:owner/tiny-GGUF')), 2);
    });
  });
  /* A model that streams by ranges, and what its answer is; most: tokens. */
  async function byRanges({file, sent, most}) {
    const server = await hubServer({'owner/big': {'big.gguf': file}}, {sent}), warnings = [];
    try {
      const model = await load('hf:owner/big', {threads: 1, hubUrl: server.url, cache: false, memory: 7,
        onProgress: p => { if (p.warning) warnings.push(p.warning); }});
      assert.equal(model.info.resident, false);
      let error, tokens = 0;
      const answer = () => model.generate('Hi', {maxTokens: most, ignoreEnd: true, onToken() { tokens++; }});
      try {
        if (most) for await (const part of answer()) void part;
      } catch (caught) {
        error = caught;
      }
      if (error) await assert.rejects(async () => answer(), code('CORRUPT', /SHA-256/), 'a later call');
      await model.dispose();
      return {error, tokens, server, warnings: [...warnings, ...model.info.warnings].join()};
    } finally {
      server.close();
    }
  }
  test('by ranges is compared when everything has come once', async () => {
    const file = tinyModel({layers: 40}), most = 8;
    const right = await byRanges({file, most});
    assert.deepEqual([right.error, right.tokens, right.warnings.match(/SHA-256/)], [undefined, most, null]);
    for (const place of [0.4, 0.8, 1]) {
      const at = Math.floor(file.length * place) - 5000;
      const {error, tokens, warnings} = await byRanges({file, most, sent(bytes) {
        const damaged = bytes.slice();
        damaged[at] ^= 1;
        return damaged;
      }});
      assert.ok(error, `${place}: ${tokens} tokens, ${warnings}`);
      code('CORRUPT', /big.gguf: the SHA-256 of what came is \w{64}.*load it again/)(error);
    }
  });
  test('by ranges, expert by expert, is not compared, which is a warning', async () => {
    const file = tinyModel({layers: 24, experts: 8});
    const {warnings} = await byRanges({file, most: 0});
    assert.match(warnings, /big.gguf: not compared with the hub's SHA-256, since its experts/);
  });
  test('before an interruption is part of the sum', async () => {
    let stored;
    const big = tinyModel({layers: 200}), repos = {'owner/big': {'big.gguf': big}};
    const cut = 20e6;
    const server = await hubServer(repos, {spoil: (request, response, where) => {
      if (where !== 'files' || request.headers.range || stored !== undefined) return false;
      response.writeHead(200, {'etag': '"x"', 'content-length': big.length, 'last-modified': 'x'});
      response.write(big.subarray(0, cut));
      return true;
    }});
    try {
      const stop = new AbortController();
      const model = await load('hf:owner/big', {threads: 1, hubUrl: server.url,
        onProgress: p => { if (p.loaded >= cut) stop.abort(); }});
      if (!stop.signal.aborted) await new Promise(resolve => { stop.signal.onabort = resolve; });
      await model.dispose();
      [{stored}] = await cache.list();
      assert.ok(stored >= 16e6 && stored < big.length, String(stored));
      const again = await load('hf:owner/big', {threads: 1, hubUrl: server.url});
      assert.equal(await layersOf(again), 200);
      assert.equal((await cache.list())[0].complete, true);
      assert.ok(server.asked.some(({range}) => range === `bytes=${stored}-`), JSON.stringify(server.asked));
    } finally {
      server.close();
    }
  });
  test('is cut short again and again: gone on with, by a new redirection', () => {
    const spoil = (request, response, where) => {
      if (where !== 'files') return false;
      const start = Number(/\d+/.exec(request.headers.range ?? '0')[0]), end = SMALL.length - 1;
      response.writeHead(request.headers.range ? 206 : 200, {'etag': '"x"',
        'content-length': SMALL.length - start,
        ...(request.headers.range && {'content-range': `bytes ${start}-${end}/${SMALL.length}`})});
      response.write(SMALL.subarray(start, start + 150_000), () => request.socket.destroySoon());
      return true;
    };
    return served({spoil}, async (server, get) => {
      assert.equal(await layersOf(await get('hf:owner/tiny-GGUF/tiny-Q4_K_M.gguf')), 2);
      assert.ok(server.asked.filter(({path}) => path.includes('/resolve/')).length > 2);
    });
  });
});

describe('secrets', () => {
  test('are sent to the hub only', () => served({}, async (server, get) => {
    assert.equal(await layersOf(await get('hf:private/tiny', {hubToken: TOKEN,
      headers: {'X-Mine': 'mine'}})), 2);
    const of = where => server.asked.filter(asked => asked.where === where);
    assert.ok(of('hub').length > 1 && of('files').length > 0);
    for (const {authorization, own} of of('hub')) assert.deepEqual([authorization, own], [`Bearer ${TOKEN}`,
      'mine']);
    for (const {authorization, own} of of('files')) assert.deepEqual([authorization, own], [undefined,
      undefined]);
    assert.ok(!JSON.stringify(await cache.list()).includes(TOKEN));
  }));
  test("of the caller's go to a URL's origin only", () => served({}, async server => {
    const url = `${server.url}/private/tiny/resolve/main/tiny-q8_0.gguf`;
    assert.equal(await layersOf(await load(url, {threads: 1,
      headers: new Headers({authorization: `Bearer ${TOKEN}`})})), 2);
    assert.deepEqual(server.asked.map(({where, authorization}) => [where, !!authorization]),
      [['hub', true], ['files', false]]);
    await assert.rejects(load(url, {headers: {'a b': 'c'}}), code('ARGUMENT', /headers/));
  }));
});

describe("the caller's fetch", () => {
  test('makes all requests', () => served({}, async (server, get) => {
    const urls = [];
    const own = (url, init) => {
      urls.push(new URL(url).pathname);
      assert.ok(init.signal && init.headers);
      return fetch(url, init);
    };
    for (const more of [{}, {cache: false, memory: 100}, {cache: 'reload'}]) {
      urls.length = 0;
      assert.equal(await layersOf(await get('hf:owner/tiny-GGUF', {fetch: own, ...more})), 2);
      assert.ok(urls.some(url =>
        url.startsWith('/api/')) && urls.includes('/owner/tiny-GGUF/tiny-Q4_K_M.gguf'), urls.join());
    }
    urls.length = 0;
    assert.equal((await estimate(named(server, 'tiny-F16.gguf'), {fetch: own})).layers, 4);
    assert.ok(urls.length > 0);
  }));
  test('may fail, and be left', () => served({}, async (server, get) => {
    const broken = () => { throw new Error('no requests today'); };
    await assert.rejects(get('hf:owner/tiny-GGUF', {fetch: broken}), code('HTTP', /no requests today/));
    await assert.rejects(load(named(server, 'tiny-F16.gguf'), {fetch: broken}), code('HTTP',
      /no requests today/));
    await assert.rejects(load('http://x/y', {fetch: 5}), code('ARGUMENT', /fetch is 5/));
    const stop = new AbortController(), reason = new Error('enough');
    let left;
    const silent = (url, {signal}) => new Promise((_, reject) => {
      signal.addEventListener('abort', () => { left = true; reject(signal.reason); });
      setTimeout(() => stop.abort(reason));
    });
    await assert.rejects(load(named(server, 'tiny-F16.gguf'), {fetch: silent, signal: stop.signal}), reason);
    for (let n = 0; !left && n < 200; n++) await new Promise(resolve => { setTimeout(resolve, 50); });
    assert.ok(left);
  }));
});
