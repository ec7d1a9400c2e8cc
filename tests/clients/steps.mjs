// What the programs of the npm clients share, as steps.py for Python's.  They run as copies next to
// the packages, which lie outside of the clone.
// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import {readSync} from 'node:fs';

export const {
  QSF_TINY: TINY, QSF_SMOL: SMOL, QSF_QWEN: QWEN, QSF_KEY: KEY,
} = process.env;
export const EMBEDDINGS = 'smollm2';
export const HI = [{role: 'user', content: 'Say hi'}];
export const CAPITAL = [{role: 'user', content: 'What is the capital of France? Answer in one word.'}];
export const COUNT = [{role: 'user', content: 'Count from 1 to 5.'}];
export const WEATHER = [{role: 'user', content: 'What is the weather in Oslo? Use the tool.'}];
export const PERSON = [{role: 'user', content: 'Ada is 36 years old. Who is it, as JSON?'}];
export const ABOUT = 'The weather in a city';
export const RESULT = 'snow, -5 degrees';

function tell(...words) {
  console.log(words.join(' '));
  readSync(0, Buffer.alloc(1));
}
export const step = (name) => tell('step', name);
export const full = (times) => tell('full', times);
export const gone = () => tell('gone');

export async function raises(kind, call) {
  try {
    await call();
  } catch (e) {
    assert(e instanceof kind, e);
    return e;
  }
  assert.fail(`no ${kind.name} came`);
}

export function isAda(person) {
  assert.deepEqual(person, {name: 'Ada', age: 36});
}

export function asksOslo(args) {
  const a = typeof args === 'string' ? JSON.parse(args) : args;
  assert.match(a.city, /Oslo/);
}
