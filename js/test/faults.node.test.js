/* Models from servers with faults, where nothing is stored; how many requests there are;
 * what messages say.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {writeFile, rm} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {GGUF, QSF, WORK, answer, cache, code, fileServer, load, nativeTokens} from './tools.js';

process.env.QSF_CACHE = join(WORK, 'faults-store');
after(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));

const MODELS = {QSF, GGUF}, wanted = {};
before(() => { for (const [name, file] of Object.entries(MODELS)) wanted[name] = nativeTokens(file, 12); });

/** Runs body with a server that is closed in the end. */
async function served(spoil, body, file = QSF) {
  const server = await fileServer(file, spoil);
  try {
    return await body(server);
  } finally {
    server.close();
  }
}
const loaded = (server, options) => load(server.url,
  {threads: 2, contextLength: 256, cache: false, ...options});
const right = async (model, name = 'QSF') =>
  assert.deepEqual((await answer(model, {maxTokens: 12})).ids, wanted[name]);
async function check(server, options, name) {
  const model = await loaded(server, options);
  try {
    await right(model, name);
    return {...await model.stats(), info: model.info};
  } finally {
    await model.dispose();
  }
}

describe('layers that stream from a server', () => {
  for (const [name, file] of Object.entries(MODELS))
    test(`come by two requests a pass, ${name}`, () => served(undefined, async server => {
      const {bytesRead, info, memoryBytes} = await check(server, {memory: 60}, name);
      assert.equal(info.resident, false);
      assert.ok(memoryBytes < 64e6);
      assert.ok(server.asked.length < 60, `${server.asked.length} requests: ${server.asked}`);
      assert.ok(server.sent < bytesRead * 1.3 + 20e6, `${server.sent} bytes came, ${bytesRead} were read`);
    }, file));
  test('come from one that answers 429 every second time', () => {
    const spoil = (request, response, {n}) => n % 2 && response.writeHead(429, {'retry-after': '0.01'}).end();
    return served(spoil, server => check(server, {memory: 60}));
  });
});

describe('a server without ranges', () => {
  const NONE = {'etag': undefined, 'last-modified': undefined};
  const plain = headers => (request, response, {send, ranged, size}) => {
    const said = Object.entries({'content-length': size, 'etag': '"one"', ...headers})
      .filter(([, value]) => value !== undefined);
    if (ranged) response.writeHead(200, Object.fromEntries(said)).write(Buffer.alloc(1000));
    else send({headers});
    return true;
  };
  const NO_LENGTH = ', which does not say the length', NOTHING = ', which says nothing of the file';
  const kinds = {'': {}, [NO_LENGTH]: {'content-length': undefined},
    [NOTHING]: {...NONE, 'content-length': undefined}};
  const downloads = server => server.asked.filter(asked => asked !== 'bytes=0-0');
  for (const [kind, name, memory] of [['', 'GGUF', 0], ['', 'QSF', 400], [NO_LENGTH, 'QSF', 0],
    [NOTHING, 'GGUF', 0]])
    test(`is enough for a model that stays in memory${kind}, ${name}, memory: ${memory}`, () => {
      const body = async server => {
        await check(server, {memory}, name);
        assert.deepEqual(downloads(server), ['all']);
      };
      return served(plain(kinds[kind]), body, MODELS[name]);
    });
  test('is not enough for layers that stream: load() says so', () => served(plain({}), async server => {
    await assert.rejects(loaded(server, {memory: 60}), code('HTTP', /memory: 60 .* ranges, .* raise memory/));
  }));
  test('is not enough where the length is not known either, and no more than memory is taken', () => {
    return served(plain(kinds[NOTHING]), async server => {
      await assert.rejects(loaded(server, {memory: 60}), code('HTTP', /does not say how long/));
      assert.ok(server.sent < 78e6, `${server.sent} bytes`);
    });
  });
  test('is enough for layers that stream from what is stored, also where it says nothing of the file', () =>
    served(plain(kinds[NOTHING]), async server => {
      const {info} = await check(server, {memory: 60, cache: true});
      assert.equal(info.resident, false);
      const entry = (await cache.list()).find(({url}) => url === server.url);
      assert.ok(entry.complete && entry.length > 7e7, JSON.stringify(entry));
      server.close();
      assert.equal((await check(server, {memory: 60, cache: true})).info.resident, false);
      assert.deepEqual(downloads(server), ['all']);
    }));
});

describe('a model that stays in memory, and is not stored,', () => {
  const part = (response, from, {size}, more) =>
    response.writeHead(206, {'content-range': `bytes ${from}-${size - 1}/${size}`, 'etag': '"one"', ...more});
  const cut = (request, response, {send}) => send({bytes: 20e6});
  test('comes whole through everything that passes', () => {
    const steps = [
      cut,
      (request, response, range) => part(response, range.start + 1, range).end(),
      (request, response) => response.writeHead(503, {'retry-after': '0'}).end(),
      (request, response, {send}) => send({bytes: 10e6}),
      (request, response, range) => part(response, range.start, range).write(Buffer.alloc(0)),
      request => request.socket.resetAndDestroy(),
      (request, response, {send}) => send({bytes: 5e6}),
      (request, response, {size}) => {
        response.writeHead(200, {'content-length': size, 'etag': '"one"'}).write(Buffer.alloc(1000));
        setTimeout(() => response.destroy(), 20);
      },
    ];
    return served((request, response, range) => {
      const step = steps.shift();
      step?.(request, response, range);
      return !!step;
    }, async server => {
      await check(server, {timeout: 2500});
      assert.equal(steps.length, 0);
      assert.match(server.asked.at(-1), /^bytes=\d{8}-$/);
    });
  });
  test('goes on in the next answer when the server is there again', () => {
    let broken = true;
    return served((request, response, {n, send}) => {
      if (!broken) return false;
      if (n) response.writeHead(404).end();
      else send({bytes: 40e6});
      return true;
    }, async server => {
      const model = await loaded(server);
      await assert.rejects(answer(model), code('HTTP', /404/));
      broken = false;
      await right(model);
      await model.dispose();
      assert.equal(server.asked.filter(asked => asked === 'all').length, 1);
    });
  });
  const lasting = {
    'is another file half way': [(response, {send}) => send({headers: {etag: '"two"'}}),
      /changed .*etag "one", now "two"/],
    'sends other ranges': [(response, range) => part(response, range.start + 1, range).end(),
      /asked for bytes .*3 times/],
    'sends more than it says, and other bytes': [
      (response, range) => part(response, range.start, range).end(Buffer.alloc(range.size - range.start + 1)),
      /more than/],
    'knows no ranges and names no version': [
      (response, {size}) => response.writeHead(200, {'content-length': size}).write(Buffer.alloc(1000)),
      /no ETag/],
  };
  for (const [name, [spoil, pattern]] of Object.entries(lasting))
    test(`is an error where the server ${name}`, () => served((request, response, range) => {
      if (!range.n) cut(request, response, range);
      else spoil(response, range);
      return true;
    }, async server => {
      const error = await check(server).then(() => undefined, e => e);
      assert.ok(error, 'an answer came of bytes that are others');
      if (error.code !== 'CORRUPT') code('HTTP', pattern)(error);
    }));
});

describe('messages', () => {
  const failure = (url, options) => load(url, {threads: 1, cache: false, ...options})
    .then(() => assert.fail('loaded'), error => error);
  test('of a machine that refuses, or is not there, name the reason at once', async () => {
    const gone = await fileServer(QSF), begun = performance.now();
    gone.close();
    const refused = await failure(gone.url.replace('http://', 'http://me:secret@').concat('?token=secret'));
    assert.match(refused.message,
      /^http:\/\/127\.0\.0\.1:\d+\/model\?\.\.\.: no connection: .*ECONNREFUSED/);
    assert.match(refused.message, /, 3 times in \d+\.\d s; is the address right/);
    const nameless = await failure('http://no-such-host.invalid/model');
    assert.match(nameless.message, /no connection: .*(ENOTFOUND|EAI_AGAIN)/);
    assert.ok(performance.now() - begun < 60_000);
    for (const {code: c, message} of [refused, nameless]) {
      assert.equal(c, 'HTTP');
      assert.doesNotMatch(message, /CORS|secret/);
    }
  });
  test('of a refusal have the words of the server', async () => {
    const answers = [
      [401, {'content-type': 'application/json'}, '{"error": "Bad\\npassword"}',
        /401 Unauthorized: "Bad password"; it requires/],
      [403, {'x-error-message': 'Access is restricted'}, '', /403 Forbidden: "Access is restricted"$/],
      [404, {'content-type': 'text/html'}, '<html>secret</html>', /404 Not Found; is the address right\?$/],
      [503, {'retry-after': '600', 'content-type': 'text/plain'}, 'overloaded',
        /503 Service Unavailable: "overloaded", and asks to wait 600 s; load it again then$/],
    ];
    await served((request, response) => {
      const [status, headers, body] = answers[0];
      response.writeHead(status, headers).end(body);
      return true;
    }, async ({url, asked}) => {
      for (; answers.length; answers.shift()) code('HTTP', answers[0][3])(await failure(url));
      assert.equal(asked.length, 4);
    });
  });
  test('of a wait come before it', () => {
    const spoil = (request, response, {n}) => !n && response.writeHead(503, {'retry-after': '1'}).end();
    return served(spoil, async server => {
      const waits = [];
      await check(server, {onProgress: p => { if (p.waiting) waits.push(p.waiting); }});
      assert.equal(waits.length, 1);
      assert.equal(waits[0].ms, 1000);
      assert.match(waits[0].reason, /503 Service Unavailable/);
    });
  });
  test('of what is no model say what it is, and it is not stored', async () => {
    const page = Buffer.from('<!DOCTYPE html>\n<html><title>smollm2 - Hub</title>'.padEnd(2000, ' '));
    const others = [
      [page, /but a web page: .*\/resolve\//],
      [Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:0'), /Git LFS pointer/],
      [Buffer.from('{"error":"Rate limit"}'), /JSON.*\{"error":"Rate limit"\}"/],
      [Buffer.from('Entry not found'), /a text.*"Entry not found"/],
      [Buffer.concat([Buffer.from([0x1f, 0x8b, 8, 0]), Buffer.alloc(100)]), /gzip: unpack/],
      [Buffer.alloc(0), /empty/],
    ];
    const file = join(WORK, 'stranger');
    for (const [bytes, pattern] of others) {
      await writeFile(file, bytes);
      await assert.rejects(load(file, {threads: 1}), code('CORRUPT', pattern));
      if (!bytes.length) continue;
      await served(undefined, async ({url}) => {
        for (const cached of [true, false])
          await assert.rejects(load(url, {threads: 1, cache: cached}), code('CORRUPT', pattern));
        assert.equal((await cache.list()).find(entry => entry.url === url), undefined);
      }, file);
    }
  });
  test('of a missing template name those that there are', () => served(undefined, async server => {
    const model = await loaded(server);
    await assert.rejects(answer(model, {template: 'alpaca'}),
      code('NOT_FOUND', /"alpaca"; the names are chatml, llama2, .*plain/));
    await model.dispose();
  }));
});
