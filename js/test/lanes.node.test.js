/* Reads of places in a file as few long requests, against a server that is a function.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';
import {describe, test} from 'node:test';
import {packaged} from './tools.js';

const {Lanes} = await import(pathToFileURL(packaged('lanes.js')));
const MB = 1 << 20, LENGTH = 30 * MB, PART = 50_000;
const FILE = Buffer.from(Uint32Array.from({length: LENGTH / 4}, (_, i) => Math.imul(i, 2654435761)).buffer);

/** What lanes take for a Remote. asked: [begin, end] of each request; parts: how many were taken;
 * fails() says whether to. */
function server({fails = () => false} = {}) {
  const self = {asked: [], open: 0, parts: 0, async * range(begin, end, signal) {
    self.asked.push([begin, end]);
    self.open++;
    try {
      for (let at = begin; at < (end ?? LENGTH); at += PART) {
        await new Promise(resolve => setImmediate(resolve));
        signal.throwIfAborted();
        if (fails()) throw new Error('failed');
        self.parts++;
        yield new Uint8Array(FILE.subarray(at, Math.min(at + PART, end ?? LENGTH)));
      }
    } finally {
      self.open--;
    }
  }};
  return self;
}
/** Reads and checks every byte. */
async function read(lanes, at, length, signal) {
  const got = new Uint8Array(length);
  let taken = 0;
  await lanes.read(at, length, signal, (part, offset) => {
    got.set(part, offset);
    taken += part.length;
  });
  assert.equal(taken, length, `bytes at ${at}`);
  assert.ok(FILE.subarray(at, at + length).equals(got), `bytes at ${at} are others`);
}

describe('reads of a file', () => {
  test('that follow each other are one request a pass', async () => {
    const remote = server(), lanes = new Lanes(remote, LENGTH);
    const head = async () => {                  // in parts that overlap
      for (let at = 0; at < 4 * MB; at += MB) await read(lanes, at, Math.min(MB + 65536, 4 * MB - at));
    };
    const half = MB / 2;
    for (let pass = 0; pass < 6; pass++) {
      if (pass === 4) remote.asked.length = 0;
      for (let at = 20 * MB; at < 24 * MB; at += MB) {
        await Promise.all([read(lanes, at, 3000), read(lanes, at + 3000, half - 3000),
          read(lanes, at + half, half)]);
      }
      await head();
    }
    assert.ok(remote.asked.length <= 4, JSON.stringify(remote.asked));
    const learnt = remote.asked.every(([begin, end]) => end === (begin === 0 ? 4 : 24) * MB);
    assert.ok(learnt, `${JSON.stringify(remote.asked)} do not end where reading stops`);
    lanes.close();
  });
  test('take no more than is read', {timeout: 60_000}, async () => {
    const remote = server(), lanes = new Lanes(remote, LENGTH);
    await read(lanes, 0, MB);
    await new Promise(resolve => setTimeout(resolve, 50));
    assert.ok(remote.parts <= Math.ceil(MB / PART), `${remote.parts} parts`);
    lanes.close();
    while (remote.open) await new Promise(resolve => setTimeout(resolve, 5));
  });
  test('that are short and alone ask for nothing else', async () => {
    const remote = server(), lanes = new Lanes(remote, LENGTH);
    await read(lanes, 7_000_000, 5000);
    await read(lanes, 3_000_000, 5000);
    assert.deepEqual(remote.asked, [[7_000_000, 7_005_000], [3_000_000, 3_005_000]]);
  });
  test('in any order, given up or not, are right', async () => {
    let seed = 11;
    const random = n => { seed = (seed * 1103515245 + 12345) >>> 0; return Math.floor(seed / 2 ** 32 * n); };
    const remote = server(), lanes = new Lanes(remote, LENGTH);
    for (let round = 0; round < 60; round++) {
      const base = random(3) ? random(4) * 3 * MB : random(LENGTH - 2 * MB);
      await Promise.all(Array.from({length: 1 + random(5)}, async (_, i) => {
        const stop = new AbortController(), at = base + i * random(400_000),
          length = random(random(3) ? 3e5 : 9e5);
        if (random(4) === 0) setTimeout(() => stop.abort(new Error('given up')), random(4));
        const given = read(lanes, at, Math.min(length, LENGTH - at), stop.signal);
        await given.catch(error => assert.equal(error.message, 'given up'));
      }));
    }
    lanes.close();
  });
  test('hear of a failure, and the next ones ask again', async () => {
    let broken = true;
    const remote = server({fails: () => broken}), lanes = new Lanes(remote, LENGTH);
    await assert.rejects(Promise.all([read(lanes, 0, MB), read(lanes, MB, MB)]), /failed/);
    broken = false;
    await read(lanes, 0, MB);
    await assert.rejects(lanes.read(MB, 1000, undefined, () => { throw new Error('given up'); }), /given up/);
    await read(lanes, MB, MB);
    lanes.close();
  });
});
