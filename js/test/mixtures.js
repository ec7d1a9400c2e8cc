/* Small mixtures of experts as files at a URL, and what a visit with little memory requested.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {writeFile} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import {WORK} from './tools.js';
import {tinyModel} from './tiny.js';

export const PROMPT = 'onceuponatime', TOKENS = 24;
const COLUMNS = 64, LENGTH = 128;
/** Each file, the bytes of one of its weights, and MB that do not hold it. */
export const FILES = {
  GGUF: {file: join(WORK, 'mixture.gguf'), bytes: 4, memory: 9},
  QSF: {file: join(WORK, 'mixture.qsf'), bytes: 2, memory: 6},
};

export async function makeMixtures() {
  const {GGUF, QSF} = FILES;
  await writeFile(GGUF.file, tinyModel({layers: 6, experts: 32}));
  execFileSync(join(dirname(process.env.QSF_TEST_RUN), 'qsf-convert'),
    ['-q', '--quant-type', 'f16', GGUF.file, QSF.file]);
}

/** The greedy tokens of the native program, with everything in memory. */
export const native = file => JSON.parse(execFileSync(process.env.QSF_TEST_RUN,
  ['-m', file, '--raw', '-p', PROMPT, '--temp', '0', '-n', String(TOKENS), '--json'])).ids;

/** asked: what the server was asked for by an answer that took the numbers from `before` to
 * `stats`. */
export function onlyChosen(asked, before, stats, bytes) {
  const total = asked.reduce((n, range) => {
    const [from, to] = /^bytes=(\d+)-(\d+)$/.exec(range).slice(1).map(Number);
    return n + to + 1 - from;
  }, 0);
  const read = stats.bytesRead - before.bytesRead;
  assert.ok(stats.expertsRead > 0 && stats.expertsRead < stats.expertsUsed, JSON.stringify(stats));
  assert.equal(stats.expertsBytes, stats.expertsRead * 3 * LENGTH * COLUMNS * bytes);
  // what lies between two matrices that follow one another may come with them
  assert.ok(total >= read && total - read <= 64 * asked.length, `${total} bytes asked for, ${read} read`);
  return `${stats.expertsUsed} chosen, ${stats.expertsRead} read, ${asked.length} ranges, ${total} bytes`;
}
