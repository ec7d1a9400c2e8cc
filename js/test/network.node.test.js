/* Models at a URL: fetched once, stored, resumed; and servers that do everything wrong.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {readdir, readFile, rm, truncate, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, beforeEach, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {
  GGUF, QSF, WORK, answer, cache, code, fileServer, load, nativeTokens, packaged,
} from './tools.js';

const {Remote} = await import(pathToFileURL(packaged('http.js')));

process.env.QSF_CACHE = join(WORK, 'store');
const folder = join(process.env.QSF_CACHE, 'urls');

let wanted;
before(() => { wanted = nativeTokens(QSF, 24); });
beforeEach(() => rm(folder, {recursive: true, force: true}));

/** Loads, checks the answer, disposes. */
async function check(url, options) {
  const model = await load(url, {contextLength: 512, threads: 1, ...options});
  try {
    assert.deepEqual((await answer(model)).ids, wanted);
    return {info: model.info, stats: await model.stats()};
  } finally {
    await model.dispose();
  }
}
/** Runs body with a server that is closed in the end. */
async function served(spoil, body, file = QSF) {
  const server = await fileServer(file, spoil);
  try {
    return await body(server);
  } finally {
    server.close();
  }
}

describe('a visit', () => {
  test('is one request, and what came is kept', () => served(undefined, async server => {
    const told = [];
    await check(server.url, {onProgress: p => told.push(p)});
    assert.deepEqual(server.asked, ['all']);
    const loads = told.filter(p => p.phase === 'load');
    assert.ok(loads.at(-1).loaded === loads.at(-1).total && loads.at(-1).total > 7e7 && loads.at(-1).stored
      === 0, JSON.stringify(loads.at(-1)));
    assert.deepEqual((await cache.list()).map(e => [e.url, e.complete, e.stored === e.length, e.etag]),
      [[server.url, true, true, '"one"']]);
    server.close();                               // offline from here on
    const {stats} = await check(server.url, {onProgress: p => told.push(p)});
    assert.equal(told.findLast(p => p.phase === 'load').stored, loads.at(-1).total);
    assert.ok(stats.bytesRead > 7e7);
  }));
  test('with several threads', () => served(undefined, async server => {
    assert.equal((await check(server.url, {threads: 2})).info.threads, 2);
    assert.deepEqual(server.asked, ['all']);
  }));
  test('of a GGUF file', () => served(undefined, async server => {
    const model = await load(server.url, {contextLength: 512});
    assert.deepEqual((await answer(model)).ids, nativeTokens(GGUF, 24));
    await model.dispose();
    assert.deepEqual(server.asked, ['all']);
  }, GGUF));
  test('computes the prompt while bytes come',
    () => {
      let goOn;
      const until = new Promise(resolve => { goOn = resolve; });      // the last bytes come after that
      return served((request, response, {send}) => { send({hold: {at: 60e6, until}}); return true; },
        async server => {
          let loaded = 0, layers = 0;
          const model = await load(server.url, {threads: 1, contextLength: 512, onProgress: p => {
            if (p.phase === 'load') loaded = p.loaded;
            if (p.phase === 'prompt') layers = Math.max(layers, p.layer ?? 0);
            if (p.phase === 'prompt' && p.layer > 3) goOn();
          }});
          const ids = (await answer(model, {maxTokens: 3})).ids;
          assert.deepEqual(ids, wanted.slice(0, 3));
          assert.ok(layers > 3 && loaded > 6e7, `${layers} layers, ${loaded} bytes`);
          await model.dispose();
        });
    });
  test('without storing', () => served(undefined, async server => {
    await check(server.url, {cache: false});
    assert.deepEqual(server.asked, ['all']);
    assert.deepEqual(await cache.list(), []);
  }));
  test('inside a budget streams from what is kept', () => served(undefined, async server => {
    const {info, stats} = await check(server.url, {memory: 60});
    assert.equal(info.resident, false);
    assert.ok(stats.memoryBytes < 64e6, `${stats.memoryBytes} bytes`);
    assert.deepEqual(server.asked, ['all']);
  }));
  test('inside a budget, without storing, streams by ranges', () => served(undefined, async server => {
    const {info} = await check(server.url, {memory: 60, cache: false});
    assert.equal(info.resident, false);
    assert.ok(server.asked.length > 2 && server.asked[0] === 'all');
    assert.ok(server.asked.slice(1).every(r => r.startsWith('bytes=')));
  }));
  test('of two at the same time is one download', () => {
    let goOn;
    const until = new Promise(resolve => { goOn = resolve; });
    return served((request, response, {send}) => {
      send({hold: {at: 40e6, until}});
      return true;
    }, async server => {
      const joined = [], seen = p => { if (p.joined && joined.push(p)) goOn(); };
      const both = await Promise.all([check(server.url, {onProgress: seen}),
        check(server.url, {onProgress: seen})]);
      for (const {info} of both) assert.deepEqual(info.warnings, []);
      assert.deepEqual(server.asked, ['all']);
      assert.ok(joined.some(({loaded, total}) => loaded > 0 && loaded <= total && total > 7e7),
        JSON.stringify(joined));
      assert.equal((await cache.list())[0].complete, true);
    });
  });
  test("of a server that says the file's length with ranges only", () => {
    const spoil = (request, response, {send}) => {
      send({headers: {'content-length': undefined}});
      return true;
    };
    return served(spoil, async server => {
      await check(server.url);
      assert.deepEqual(server.asked, ['all', 'bytes=0-0']);
      assert.equal((await cache.list())[0].complete, true);
    });
  });
  test('that stores nothing, where it cannot', async () => {
    await writeFile(join(WORK, 'no-folder'), '');
    process.env.QSF_CACHE = join(WORK, 'no-folder');
    try {
      await served(undefined, async server => {
        const {info} = await check(server.url);
        assert.ok(info.warnings.some(w => /not stored/.test(w)), info.warnings.join());
      });
    } finally {
      process.env.QSF_CACHE = join(WORK, 'store');
    }
  });
});

describe('a visit that was interrupted', () => {
  /* A download that is to be interrupted stands still in its middle. */
  const middle = {hold: {at: 60e6, until: new Promise(() => {})}};

  /** Ends a load in the middle of its download; resolves with the bytes that are kept. */
  async function interrupt(server) {
    const stop = new AbortController();
    const model = await load(server.url, {threads: 1, contextLength: 512,
      onProgress: p => { if (p.loaded > 45e6) stop.abort(); }});
    await new Promise(resolve => { stop.signal.addEventListener('abort', resolve); });
    await model.dispose();
    const [entry] = await cache.list();
    assert.equal(entry.complete, false);
    assert.ok(entry.stored >= 45e6 && entry.stored < entry.length, String(entry.stored));
    return entry.stored;
  }
  const slowly = (request, response, {send, n}) => {
    send(n ? {} : middle);
    return true;
  };

  test('goes on where it stopped', () => served(slowly, async server => {
    const kept = await interrupt(server);
    await check(server.url);
    assert.deepEqual(server.asked, ['all', `bytes=${kept}-`]);
    assert.equal((await cache.list())[0].complete, true);
  }));
  test('begins anew where the file is another by now', () => {
    let etag = '"one"';
    return served((request, response, {send, n}) => {
      send({...(n ? {} : middle), headers: {etag}});
      return true;
    }, async server => {
      await interrupt(server);
      etag = '"two"';
      await check(server.url);
      assert.equal(server.asked.at(-1), 'all');
      assert.equal((await cache.list())[0].etag, '"two"');
    });
  });
  test('begins anew where the server knows no ranges any more, or the file is shorter', async () => {
    for (const status of [200, 416]) {
      let gone = false;
      await rm(folder, {recursive: true, force: true});
      await served((request, response, range) => {
        if (gone && range.ranged && status === 416)
          response.writeHead(416, {'content-range': 'bytes */5'}).end();
        else if (gone && range.ranged)
          response.writeHead(200, {'content-length': range.size}).end(Buffer.alloc(0));
        else range.send(gone ? {} : middle);
        return true;
      }, async server => {
        await interrupt(server);
        gone = true;
        await check(server.url);
      });
    }
  });
  test('is kept whatever happens to what describes it', () => served(slowly, async server => {
    await interrupt(server);
    const meta = join(folder, (await readdir(folder)).find(n => n.endsWith('.meta')));
    const bytes = await readFile(meta);
    for (const damage of [b => b.fill(0, 0, 100), b => b.fill(0, 8192, 8300), b => b.fill(255),
        b => b.subarray(0, 20), b => b.subarray(0, 0)]) {
      await writeFile(meta, damage(Buffer.from(bytes)));
      await cache.list();
      await check(server.url);
    }
  }));
});

describe('what is kept', () => {
  test('and cut short is fetched again', () => served(undefined, async server => {
    await check(server.url);
    await truncate(join(folder, (await readdir(folder)).find(n => n.endsWith('.data'))), 1e7);
    assert.equal((await cache.validate(server.url)).state, 'damaged');
    await check(server.url);
    assert.equal((await cache.validate(server.url)).state, 'current');
  }));
  test('and damaged is fetched again: at once where the description is, else at the next load',
    () => served(undefined, async server => {
      await check(server.url);
      const data = join(folder, (await readdir(folder)).find(n => n.endsWith('.data')));
      const bytes = await readFile(data);
      for (const place of [100, 40_000_000]) {
        const copy = Buffer.from(bytes);
        copy[place] ^= 1;
        await writeFile(data, copy);
        if (place > 1e6) await assert.rejects(check(server.url), code('CORRUPT', /load it again/));
        await check(server.url);
        assert.equal((await cache.list())[0].complete, true);
      }
    }));
  test('is listed, compared with the server, removed', () => {
    let etag = '"one"';
    return served((request, response, {send}) => { send({headers: {etag}}); return true; }, async server => {
      assert.equal((await cache.validate(server.url)).state, 'missing');
      await check(server.url);
      assert.equal((await cache.validate(server.url)).state, 'current');
      etag = '"two"';
      assert.equal((await cache.validate(server.url)).state, 'changed');
      await check(server.url, {cache: 'reload'});
      assert.equal((await cache.validate(server.url)).state, 'current');
      assert.ok(await cache.delete(server.url) > 7e7);
      assert.deepEqual(await cache.list(), []);
      assert.equal(await cache.delete(), 0);
      assert.equal((await readdir(folder)).length, 0);
    });
  });
});

describe('a server that', () => {
  const once = spoil => {
    let first = true;
    return (...args) => { const go = first; first = false; return go && spoil(...args) !== false; };
  };
  const heals = {
    'answers 503 and when to come back': once(
      (request, response) => response.writeHead(503, {'retry-after': '1'}).end()),
    'answers 429 and a date to come back': once((request, response) => response.writeHead(429,
      {'retry-after': new Date(Date.now() + 1000).toUTCString()}).end()),
    'answers 500': once((request, response) => response.writeHead(500).end()),
    'resets the connection': once(request => request.socket.resetAndDestroy()),
    'ends the body early': once((request, response, {send}) => send({bytes: 3e7})),
    'ends the body early, again and again': (request, response, {send, size, start}) => {
      send({bytes: Math.min(2e7, size - start)});
      return true;
    },
    'stalls before its answer': once(() => true),
    'stalls in the middle': once((request, response, {size}) => {
      response.writeHead(200, {'content-length': size, etag: '"one"'}).write(Buffer.alloc(0));
      return true;
    }),
  };
  for (const [name, spoil] of Object.entries(heals))
    test(`${name} is asked again`, () => served(spoil, async server => {
      await check(server.url, {timeout: 2500});
      assert.ok(server.asked.length > 1);
    }));

  test('redirects to a place that expires is asked again from the beginning', async () => {
    let tickets = 0, used = 0;
    await served((request, response, {send, size, start}) => {
      if (request.url === '/model') response.writeHead(302, {location: `/signed?${++tickets}`}).end();
      else if (Number(request.url.split('?')[1]) <= used) response.writeHead(403).end();
      else {
        used = tickets;
        send({bytes: Math.min(3e7, size - start)});
      }
      return true;
    }, server => check(server.url));
    assert.equal(tickets, 3);
  });

  const refuses = {
    'answers 404': [(request, response) => response.writeHead(404).end(), /404/],
    'answers 403': [(request, response) => response.writeHead(403).end(), /403/],
    'answers 416': [(request, response) => response.writeHead(416).end(), /416|shorter/],
    'never recovers': [(request, response) => response.writeHead(503, {'retry-after': '0'}).end(), /503/],
    'compresses': [(request, response) => response.writeHead(200, {'content-encoding': 'zstd'}).end('x'),
      /compresses it .zstd/],
    'sends a part unasked': [(request, response) => response.writeHead(206,
      {'content-range': 'bytes 0-4/100'}).end('01234'), /part/],
  };
  for (const [name, [spoil, pattern]] of Object.entries(refuses))
    test(`${name} gives an error`, () => served((...args) => { spoil(...args); return true; },
      async server => {
        await assert.rejects(check(server.url), code('HTTP', pattern));
        assert.deepEqual(await cache.list(), []);
      }));
  test('is not there gives an error', () => assert.rejects(load('http://127.0.0.1:9/model', {threads: 1}),
    code('HTTP', /connection/)));

  /* While layers stream by ranges. */
  const later = {
    'answers 200 for a range': [(response, {send}) => send({status: 200}), /does not answer ranges/],
    'answers another range': [(response, {start, size}) => response.writeHead(206,
      {'content-range': `bytes ${start + 1}-${start + 5}/${size}`}).end('01234'), /answered with bytes/],
    'changes the file': [(response, {send}) => send({headers: {etag: '"two"'}}), /changed/],
    "changes the file's length": [(response, {start, end, size}) => response.writeHead(206,
      {'content-range': `bytes ${start}-${end}/${size + 1}`}).end(Buffer.alloc(end - start + 1)), /changed/],
    'sends nonsense for Content-Range': [(response, {send}) => send(
      {headers: {'content-range': 'bytes all'}}), /answered with/],
    'sends other bytes': [(response, {start, end, size}) =>
      response.writeHead(206, {'content-range': `bytes ${start}-${end}/${size}`}).end(
        Buffer.alloc(end - start + 2)), /layer/, 'CORRUPT'],
    'answers 503 for good': [response => response.writeHead(503, {'retry-after': '0'}).end(), /503/],
  };
  const passing = [
    (response, {send, start, end}) => send({bytes: (end - start + 1) >> 1}),
    (response, range, request) => request.socket.resetAndDestroy(),
    response => response.writeHead(503, {'retry-after': '0'}).end(), () => {},
  ];
  for (const threads of [1, 2])
    test(`goes wrong half way: an error where it stays so, and the model works on, ${threads} threads`,
      {timeout: 240_000}, () => {
        let spoil;
        return served((request, response, range) => range.ranged && !!spoil?.(response, range, request),
          async server => {
            const model = await load(server.url,
              {threads, memory: 60, contextLength: 128, cache: false, timeout: 2500});
            const answers = async (n, name) => assert.deepEqual((await answer(model, {maxTokens: n})).ids,
              wanted.slice(0, n), name);
            const always = how => (...args) => { how(...args); return true; };
            const set = how => {
              spoil = how;
              server.drop();        // else a running request would still get a correct response
            };
            await answers(1, 'at first');
            for (const [name, [how, pattern, kind = 'HTTP']] of Object.entries(later)) {
              set(always(how));
              await assert.rejects(answer(model, {maxTokens: 1}), code(kind, pattern), name);
              spoil = undefined;
              await answers(1, name);
            }
            const faults = [...passing], begun = server.asked.length;
            let n = 0, middle;
            spoil = (response, range, request) => {
              const fault = ++n % 2 === 0 && faults.shift();
              if (!fault) return false;
              middle ??= range.start + ((range.end - range.start + 1) >> 1);
              fault(response, range, request);
              return true;
            };
            await answers(8, 'what passes');
            assert.deepEqual(faults, []);
            assert.ok(server.asked.slice(begun).some(asked => asked.startsWith(`bytes=${middle}-`)),
              `${middle} is not where one of ${server.asked.slice(begun)} goes on`);

            const stop = new AbortController(), reason = new Error('enough');
            set(always(() => stop.abort(reason)));              // and never answers
            await assert.rejects(answer(model, {signal: stop.signal}), reason);
            spoil = undefined;
            await answers(1, 'an answer that was left');
            const left = assert.rejects(answer(model), code('DISPOSED'));
            await new Promise(resolve => { set(always(resolve)); });
            await model.dispose();
            await left;
          });
      });
  test('sends more than was asked for gives what was asked for', () => served(
    (request, response, {start, end, size}) => {
      response.writeHead(206, {'content-range': `bytes ${start}-${end}/${size}`});
      response.end(Buffer.alloc(end - start + 2, 7));           // a single part
      return true;
    }, async server => {
      const parts = [];
      for await (const part of new Remote(server.url).range(100, 200)) parts.push(...part);
      assert.deepEqual(parts, Array(100).fill(7));
    }));
  test('changes the file in the middle of the download gives an error, and the next load is right', () => {
    let spoilt = true;
    return served((request, response, {send, ranged}) => {
      if (!spoilt) return false;
      send(ranged ? {headers: {etag: '"two"'}} : {bytes: 3e7});
      return true;
    }, async server => {
      await assert.rejects(check(server.url), code('HTTP', /changed/));
      spoilt = false;
      await check(server.url);
    });
  });
  test('stalls for good gives an error', () => served(() => true,
    server => assert.rejects(load(server.url, {timeout: 200, threads: 1}), code('HTTP', /seconds/))));
  test('is left by an aborted load at once', {timeout: 60_000}, () => served(() => true, async server => {
    const stop = new AbortController(), reason = new Error('enough');
    const loading = load(server.url, {signal: stop.signal});
    setTimeout(() => stop.abort(reason), 200);
    await assert.rejects(loading, reason);
    while ((await readdir(folder)).some(n => n.endsWith('.lock')))
      await new Promise(resolve => setTimeout(resolve, 20));
  }));
});
after(() => rm(process.env.QSF_CACHE, {recursive: true, force: true}));
