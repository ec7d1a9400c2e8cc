/* What each call may be asked for, and in which words: what is of no use is an error that names it,
 * shows it and says what would be.
 * SPDX-License-Identifier: MIT */
import {CONTEXT} from './context_options.js';
import {QsfError} from './errors.js';

/* An option: its default, take(what was given), which is undefined where that is of no use,
 * and what would be. */
const kind = (value, take, possible) => ({value, take, possible});
const only = test => value => (test(value) ? value : undefined);
const isWhole = (most, least = 0) => v => Number.isInteger(v) && v >= least && v <= most;
const number = (value, most, least = 0) =>
  kind(value, only(v => typeof v === 'number' && v >= least && v <= most),
    `possible is a number from ${least} to ${most}`);
const whole = (value, most, least = 0) =>
  kind(value, only(isWhole(most, least)), `possible is a whole number from ${least} to ${most}`);
const word = (value, words) => kind(value, only(v => words.includes(v)), `possible are ${words.join(', ')}`);
const flag = value => word(value, [true, false]);
const callback = kind(undefined, only(v => typeof v === 'function'), 'possible is a function');
/* Not by its class: pages have several, one a frame. */
const isSignal = v => typeof v?.throwIfAborted === 'function' && typeof v.addEventListener === 'function';
const signal = kind(undefined, only(isSignal), 'possible is an AbortSignal');
const isObject = v => typeof v === 'object' && v !== null && !Array.isArray(v);
/* Half a character is none, as TextEncoder has it. */
const wellFormed = text => (/[\ud800-\udfff]/.test(text) ? new TextDecoder('utf-8', {ignoreBOM: true})
  .decode(new TextEncoder().encode(text)) : text);
const isName = v => typeof v === 'string' && v !== '' && !v.includes('\0');
/* What JSON can say of a value, as text; undefined: it cannot. */
function json(value) {
  try {
    return JSON.stringify(value, (_, v) => (typeof v === 'string' ? wellFormed(v) : v));
  } catch {
    return undefined;
  }
}
const list = what => kind(undefined, v => (Array.isArray(v) ? json(v) : undefined),
  `possible is a list of ${what}`);
const TEMPLATE = {
  template: kind(undefined, only(isName), "possible is a template's name, or its text"),
  tools: list('tools'), documents: list('documents'),
  chatTemplateKwargs: kind(undefined, v => (isObject(v) ? json(v) : undefined), 'possible is an object'),
};
const given = kind(undefined, v => v, '');
const isList = v => typeof v === 'object' && typeof v?.[Symbol.iterator] === 'function';
const allTexts = only(all => all.every(text => typeof text === 'string'));
const texts = kind([], v => (typeof v === 'string' ? [v] : isList(v) ? allTexts([...v]) : undefined),
  'possible is a text or a list of texts');

const GENERATE = {
  maxTokens: kind(256, v => (v === Infinity ? -1 : only(isWhole(2 ** 53))(v)),
    'possible is a whole number, or Infinity'),
  temperature: number(0.7, 1000), topK: whole(40, 1e9), topP: number(0.9, 1), minP: number(0, 1),
  seed: whole(0, 2 ** 53),
  repeatPenalty: number(1, 100, 0.01), frequencyPenalty: number(0, 100, -100),
  presencePenalty: number(0, 100, -100), repeatLastN: whole(64, 2 ** 20),
  stop: texts, ignoreEnd: flag(false), onToken: callback, signal,
};
/* A row of the engine's list. */
const ofContext = ({kind: of, value, words, least, most}) =>
  ({whole: () => whole(value, most, least), number: () => number(value, most, least), flag: () => flag(value),
    choice: () => word(value, words)})[of]();
const mapped = (table, fn) => Object.fromEntries(Object.entries(table).map(([name, row]) => [name, fn(row)]));
const OPTIONS = {
  load: {
    ...mapped(CONTEXT, ofContext),
    check: word('first', ['first', 'every']),
    cache: word(true, [true, false, 'reload']), relaxed: flag(undefined), timeout: number(undefined, 1e9),
    workerUrl: given, wasmPaths: given,                 // paths.js has checked them
    signal, onProgress: callback,
  },
  generate: GENERATE,
  chat: {...GENERATE, ...TEMPLATE},
  tokenize: {addSpecial: flag(false), parseSpecial: flag(false)},
  detokenize: {special: flag(false)},
  render: TEMPLATE,
};

const refuse = text => { throw new QsfError('ARGUMENT', text); };
function shown(value) {
  if (typeof value === 'string') return value.length > 40 ? `"${value.slice(0, 40)}..."` : `"${value}"`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : 'an object';
}

/** The options of a call (load stands for estimate too), with every default in its place. */
export function checked(call, options = {}) {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    refuse(`the options of ${call}() are ${shown(options)}; possible is an object`);
  const table = OPTIONS[call], names = Object.keys(table);
  const all = mapped(table, ({value}) => value);
  for (const [name, value] of Object.entries(options)) {
    if (!names.includes(name))
      refuse(`no option of ${call}() is called ${name}; there are ${names.join(', ')}`);
    if (value === undefined) continue;
    all[name] = table[name].take(value) ?? refuse(`${name} is ${shown(value)}; ${table[name].possible}`);
  }
  if (all.kvHeavy && !all.kvWindow) refuse('kvHeavy keeps positions beside a window: it needs kvWindow');
  if (all.earlyExit && all.kvWindow) refuse('earlyExit does not go with kvWindow');
  return all;
}

/** What load() was asked of a context, as the engine takes it: name, value, name, value, ... */
export const contextTexts = options =>
  [...Object.entries(CONTEXT).flatMap(([called, {name}]) => [name, String(options[called])]),
    'check-every', String(options.check === 'every')];

export function checkedText(text) {
  return typeof text === 'string' ? text : refuse(`the text is ${shown(text)}; possible is a string`);
}

/** A list of its own, of a model of so many tokens. */
export function checkedIds(ids, vocabulary) {
  if (!isList(ids)) refuse(`the tokens are ${shown(ids)}; possible is a list of token ids`);
  const all = [...ids], wrong = all.findIndex(id => !(Number.isInteger(id) && id >= 0 && id < vocabulary));
  if (wrong >= 0)
    refuse(
      `token ${wrong} is ${shown(all[wrong])}; the model's are whole numbers from 0 to ${vocabulary - 1}`);
  return all;
}

function checkedContent(content, name, i, may) {
  if (may && (content === undefined || content === null)) return;
  const parts = Array.isArray(content) && name === 'content' ? content : [content];
  for (const part of parts) {
    const text = isObject(part) && part !== content ? part.text ?? '' : part;
    if (typeof text !== 'string')
      refuse(`the ${name} of message ${i} is ${shown(text)}; possible is a string${
        name === 'content' ? ', or a list of parts' : ''}`);
    if (text.includes('\0')) refuse(`the ${name} of message ${i} has a zero byte, with which no template goes`);
  }
}

/** A conversation as JSON. What JSON cannot say of a message stays here. */
export function checkedMessages(messages) {
  if (!Array.isArray(messages))
    refuse(`the messages are ${shown(messages)}; possible is a list of {role, content}`);
  const all = Array.from(messages, (message, i) => {
    if (typeof message !== 'object' || message === null)
      refuse(`message ${i} is ${shown(message)}; possible is an object with a role and a content`);
    checkedContent(message.role, 'role', i);
    checkedContent(message.content, 'content', i, Array.isArray(message.tool_calls));
    return json(message) ?? refuse(`message ${i} cannot be written as JSON`);
  });
  return `[${all.join(',')}]`;
}

/** A copy: a message would carry all of a larger buffer. */
export function checkedBytes(bytes) {
  try {
    if (ArrayBuffer.isView(bytes))
      return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice();
    if (Object.prototype.toString.call(bytes).endsWith('ArrayBuffer]')) return new Uint8Array(bytes).slice();
  } catch (cause) {
    throw new QsfError('ARGUMENT', "the session's buffer has no bytes any more: it was sent elsewhere",
      {cause});
  }
  return refuse(`the session is ${shown(bytes)}; possible is a buffer`);
}
