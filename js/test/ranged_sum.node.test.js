/* The sum of a file whose ranges come again and again, in passes that leave something out.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {random} from './tiny.js';
import {packaged} from './tools.js';

const {RangedSum} = await import(pathToFileURL(packaged('ranged_sum.js')));
const {Sha256} = await import(pathToFileURL(packaged('sha256.js')));

/* [from, to) in pieces of random length. */
function * pieces(from, to, next) {
  for (let at = from, end; at < to; at = end) {
    end = Math.min(to, at + 1 + Math.floor(next() * 700));
    yield [at, end];
  }
}

test('is that of the whole file, whatever order its parts come in', async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const next = random(seed), file = Uint8Array.from({length: 20_000 + seed}, () => next() * 256);
    const place = () => Math.floor(next() * file.length), begin = seed % 5 ? place() : 0;
    let digest, fails = seed % 3;
    const sum = new RangedSum(new Sha256().update(file.subarray(0, begin)), {at: begin, length: file.length,
      async * fetch(from, to) {
        for (const [a, b] of pieces(from, to, next)) {
          if (next() < 0.3 && fails-- > 0) throw new Error('no connection');
          yield file.subarray(a, b);
          await null;
        }
      },
      done(hex) {
        assert.equal(digest, undefined);
        digest = hex;
      }});
    const from = place() / 2, to = from + 3000, comes = seed % 2 === 1;   // all that comes, or never comes
    for (let pass = 0; digest === undefined && pass < 200; pass++) {
      for (const [a, b] of pieces(0, file.length, next))
        if ((a >= from && b <= to) === comes) sum.take(a, file.subarray(a, b));
      await new Promise(resolve => { setImmediate(resolve); });
    }
    assert.equal(digest, createHash('sha256').update(file).digest('hex'), `seed ${seed}`);
  }
});
