/* What load() and estimate() may be asked for, and in which words.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';

/** In the orders of qsf.h. */
export const WORDS = {kv: ['f16', 'q8', 'f32', 'q4', 'q2', 'q8v4', 'q4v2'], head: ['exact', 'screen', 'clusters'], check: ['first', 'every']};

const whole = most => ({value: 0, most, whole: true});
const OPTIONS = {
  memory: {value: 0, most: 1e7}, threads: whole(256), contextLength: whole(2 ** 24), batch: whole(65536),
  kv: {value: 'q8', words: WORDS.kv},
  kvWindow: whole(2 ** 24), kvSinks: {...whole(65536), value: 4}, kvHeavy: whole(2 ** 24), kvMayDrop: {value: false, words: [true, false]},
  head: {value: 'exact', words: WORDS.head},
  quality: {value: 1, most: 1}, earlyExit: {value: 0, most: 1},
  check: {value: 'first', words: WORDS.check},
  cache: {value: true, words: [true, false, 'reload']}, relaxed: {words: [true, false]}, timeout: {most: 1e9},
};

const NAMES = [...Object.keys(OPTIONS), 'signal', 'onProgress'].join(', ');

/** options with every default in its place; what is of no use is an error that says what would be. */
export function checked(options) {
  const all = Object.fromEntries(Object.entries(OPTIONS).map(([name, {value}]) => [name, value]));
  const refuse = text => { throw new QsfError('ARGUMENT', text); };
  for (const [name, value] of Object.entries(options)) {
    const {words, most, whole: isWhole} = Object.hasOwn(OPTIONS, name) ? OPTIONS[name] : refuse(`no option is called ${name}; there are ${NAMES}`);
    if (value === undefined) continue;
    const shown = typeof value === 'string' ? `"${value}"` : String(value);
    if (words && !words.includes(value)) refuse(`${name} is ${shown}; possible are ${words.join(', ')}`);
    if (most && !(typeof value === 'number' && value >= 0 && value <= most && (!isWhole || Number.isInteger(value))))
      refuse(`${name} is ${shown}; possible is a ${isWhole ? 'whole ' : ''}number from 0 to ${most}`);
    all[name] = value;
  }
  if (all.kvHeavy && !all.kvWindow) refuse('kvHeavy keeps positions beside a window: it needs kvWindow');
  if (all.earlyExit && all.kvWindow) refuse('earlyExit does not go with kvWindow');
  return all;
}
