/* The options of each call, and their checks: an invalid value is an error that names the option,
 * shows the value and describes the valid ones.
 * SPDX-License-Identifier: MIT */
import {chosen} from './adapter.js';
import {biases, format, toolChoice} from './answer_options.js';
import {CONTEXT, SAMPLER, TURN} from './context_options.js';
import {QsfError, refuse, shown} from './errors.js';
import {isObject, json, wellFormed} from './json.js';
import {hinted} from './peers.js';

/* An option: its default, take(given), which is undefined for an invalid value, and a description
 * of the valid ones. */
const kind = (value, take, possible) => ({value, take, possible});
const only = test => value => (test(value) ? value : undefined);
const isWhole = (most, least = 0) => v => Number.isInteger(v) && v >= least && v <= most;
const number = (value, most, least = 0) =>
  kind(value, only(v => typeof v === 'number' && v >= least && v <= most),
    `it must be a number from ${least} to ${most}`);
const whole = (value, most, least = 0) =>
  kind(value, only(isWhole(most, least)), `it must be a whole number from ${least} to ${most}`);
const either = words => (words.length > 2 ? `one of ${words.join(', ')}` : words.join(' or '));
const word = (value, words) => kind(value, only(v => words.includes(v)), `it must be ${either(words)}`);
const flag = value => word(value, [true, false]);
const callback = kind(undefined, only(v => typeof v === 'function'), 'it must be a function');
/* Not by its class: pages have several, one a frame. */
const isSignal = v => typeof v?.throwIfAborted === 'function' && typeof v.addEventListener === 'function';
const signal = kind(undefined, only(isSignal), 'it must be an AbortSignal');
const isName = v => typeof v === 'string' && v !== '' && !v.includes('\0');
const list = what => kind(undefined, v => (Array.isArray(v) ? json(v) : undefined),
  `it must be a list of ${what}`);
const TEMPLATE = {
  template: kind(undefined, only(isName), "it must be a template's name, or its text"),
  tools: list('tools'), documents: list('documents'),
  chatTemplateKwargs: kind(undefined, v => (isObject(v) ? json(v) : undefined), 'it must be an object'),
  continueFinalMessage: flag(false),
};
const given = kind(undefined, v => v, '');
const isList = v => typeof v === 'object' && typeof v?.[Symbol.iterator] === 'function';
function allTexts(all, name, least = 0) {
  const wrong = all.findIndex(text => typeof text !== 'string' || text.length < least);
  return wrong < 0 ? all : refuse(`${name}[${wrong}] is ${shown(all[wrong])}; it must be a string${
    least ? ' that is not empty' : ''}`);
}
const texts = kind([], (v, name, least) =>
  (typeof v === 'string' || isList(v) ? allTexts(typeof v === 'string' ? [v] : [...v], name, least)
    : undefined),
  'it must be a string or a list of strings');

/* A row of one of the engine's lists. */
const ofList = ({kind: of, value, words, least, most}) =>
  ({whole: () => whole(value, most, least), number: () => number(value, most, least), flag: () => flag(value),
    choice: () => word(value, words)})[of]();
const mapped = (table, fn) => Object.fromEntries(Object.entries(table).map(([name, row]) => [name, fn(row)]));
const someTexts = value => kind(value, (v, name) => texts.take(v, name, 1),
  `${texts.possible}, none of them empty`);
const adapters = kind([], chosen, 'it must be a list of at most 8: adapters, or {adapter, scale}');
const GENERATE = {
  maxTokens: kind(256, v => (v === Infinity ? -1 : only(isWhole(2 ** 53))(v)),
    'it must be a whole number, or Infinity'),
  ...mapped(SAMPLER, ofList), ...mapped(TURN, ofList), choice: whole(undefined, 2 ** 32),
  stop: texts, bannedTexts: someTexts([]), drySequenceBreakers: someTexts(undefined),
  logitBias: kind([], biases, 'it must be an object {token id: bias}, or a Map'),
  logprobs: flag(false), topLogprobs: whole(0, 100),
  responseFormat: kind(undefined, format, "it must be an object: {type: 'json_object'}, ..."),
  jsonBlanks: kind(32, v => (v === Infinity ? v : only(isWhole(2 ** 31))(v)),
    'it must be a whole number, or Infinity'),
  adapters, onToken: callback, onPart: callback, onProgress: callback, signal,
};
const TOOLS = {
  toolChoice: kind(undefined, toolChoice,
    "it must be auto, none, required or {type: 'function', function: {name}}"),
  parallelToolCalls: flag(true), maxToolRounds: whole(8, 1e6, 1), onToolCall: callback, onReasoning: callback,
};
const CACHE = word(true, [true, false, 'reload']), TIMEOUT = number(undefined, 1e9);
const QUERY = kind([], (v, name) => (isList(v) ? allTexts([...v], name) : undefined),
  'it must be a list of names of parameters');
const OPTIONS = {
  load: {
    ...mapped(CONTEXT, ofList),
    check: word('first', ['first', 'every']),
    i2sLayout: word('auto', ['auto', 'qk256', 'split32', 'bitnet32', 'microsoft', 'microsoft-arm',
      'microsoft-rows4']),
    maxParallel: whole(0, 256), draftMtp: flag(false),
    cache: CACHE, ignoreQuery: QUERY, relaxed: flag(undefined), timeout: TIMEOUT,
    workerUrl: given, wasmPaths: given,                 // paths.js has checked them
    headers: given, fetch: given, hubUrl: given, hubToken: given,       // requests.js has taken them
    backend: word(undefined, ['wasm', 'native']),
    device: word('auto', ['auto', 'cpu', 'gpu']),
    gpuLayers: kind(undefined, only(isWhole(2 ** 24, 1)),
      `it must be a whole number from 1 to ${2 ** 24}; device: 'cpu' uses no GPU`), gpuMemory: number(0, 1e7),
    gpu: kind(undefined, only(v => isName(v) || typeof v?.requestAdapter === 'function'),
      'it must be a GPU object, or the name of a module that makes one'),
    signal, onProgress: callback,
  },
  generate: GENERATE,
  chat: {...GENERATE, ...TEMPLATE, ...TOOLS},
  tokenize: {addSpecial: flag(false), parseSpecial: flag(false)},
  detokenize: {special: flag(false)},
  render: TEMPLATE,
  embed: {pooling: word('auto', ['auto', 'mean', 'cls', 'last', 'rank', 'none']), normalize: flag(true),
    adapters, signal},
  rerank: {topN: whole(undefined, 2 ** 53, 1), adapters, signal},
  loadSession: {adapters},
  loadAdapter: {scale: number(1, 1e6, -1e6), cache: CACHE, ignoreQuery: QUERY, timeout: TIMEOUT, signal},
};

/** The names of a call's options. */
export const optionNames = call => Object.keys(OPTIONS[call]);
/** The options of a call (load stands for estimate too), with every default in its place. */
export function checked(call, options = {}) {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    refuse(`the options of ${call}() are ${shown(options)}; they must be an object`);
  const table = OPTIONS[call], names = Object.keys(table);
  const all = mapped(table, ({value}) => value);
  for (const [name, value] of Object.entries(options)) {
    if (!names.includes(name))
      refuse(`no option of ${call}() is called ${name}; ${hinted(name, call, OPTIONS)}`);
    if (value === undefined) continue;
    all[name] = table[name].take(value, name)
      ?? refuse(`${name} is ${shown(value)}; ${table[name].possible}`);
  }
  if (all.kvHeavy && !all.kvWindow) refuse('kvHeavy keeps positions outside a window: it needs kvWindow');
  if (all.topLogprobs && !all.logprobs)
    refuse('topLogprobs comes with the log probability of each token: it needs logprobs');
  const hasTools = call === 'chat' && (all.tools ?? '[]') !== '[]';
  if (all.toolChoice !== undefined && !hasTools) refuse('toolChoice is about tools: it needs tools');
  if (all.earlyExit && all.kvWindow) refuse('earlyExit cannot be combined with kvWindow');
  return all;
}

/* By the engine's names: pairs. */
const named = (table, options) => Object.entries(table).map(([called, {name}]) => [name, options[called]]);
/** load()'s options of a context. */
export const contextTexts = options =>
  [...named(CONTEXT, options), ['check-every', options.check === 'every']];
/** generate()'s options of a sampler and of a turn. */
export const answerTexts = options => [...named(SAMPLER, options), ...named(TURN, options),
  ['choice', options.choice], ['max-tokens', options.maxTokens],
  ['logprobs', options.logprobs ? options.topLogprobs : -1]];

export function checkedText(text) {
  return typeof text === 'string' ? text : refuse(`the text is ${shown(text)}; it must be a string`);
}

/** A checked copy of a list of token ids, for a vocabulary of this size. */
export function checkedIds(ids, vocabulary) {
  if (!isList(ids)) refuse(`the tokens are ${shown(ids)}; they must be a list of token ids`);
  const all = [...ids], wrong = all.findIndex(id => !(Number.isInteger(id) && id >= 0 && id < vocabulary));
  if (wrong >= 0)
    refuse(
      `token ${wrong} is ${shown(all[wrong])}; the model's are whole numbers from 0 to ${vocabulary - 1}`);
  return all;
}

/** Inputs to embed: strings, or lists of tokens. */
export function checkedInputs(texts, vocabulary) {
  if (!isList(texts)) refuse(`the texts are ${shown(texts)}; they must be a string, or a list of strings`);
  return Array.from(texts, text => (typeof text === 'string' ? text : checkedIds(text, vocabulary)));
}
export function checkedDocuments(documents) {
  if (!isList(documents)) refuse(`the documents are ${shown(documents)}; they must be a list of strings`);
  return Array.from(documents, (text, i) => (typeof text === 'string' ? text
    : refuse(`document ${i} is ${shown(text)}; it must be a string`)));
}

function checkedContent(content, name, i, may) {
  if (may && (content === undefined || content === null)) return;
  const parts = Array.isArray(content) && name === 'content' ? content : [content];
  for (const part of parts) {
    const text = isObject(part) && part !== content ? part.text ?? '' : part;
    if (typeof text !== 'string')
      refuse(`the ${name} of message ${i} is ${shown(text)}; it must be a string${
        name === 'content' ? ', or a list of parts' : ''}`);
    if (text.includes('\0'))
      refuse(`the ${name} of message ${i} has a zero byte, which no template accepts`);
  }
}

/* OpenAI's call of a custom tool as a call of a function, which templates know. */
const asFunction = call => (call?.type === 'custom' && isObject(call.custom) ? {...call, type: 'function',
  custom: undefined, function: {name: call.custom.name, arguments: {input: call.custom.input}}} : call);

/** A conversation as JSON; a string is what the user says. What JSON cannot express of a message
 * stays here. */
export function checkedMessages(given) {
  const messages = typeof given === 'string' ? [{role: 'user', content: given}] : given;
  if (!Array.isArray(messages))
    refuse(`the messages are ${shown(messages)}; they must be a string, or a list of {role, content}${
      isList(messages?.messages) ? ': chat(messages, options)' : ''}`);
  const all = Array.from(messages, (message, i) => {
    if (typeof message !== 'object' || message === null)
      refuse(`message ${i} is ${shown(message)}; it must be an object with a role and a content`);
    checkedContent(message.role, 'role', i);
    checkedContent(message.content, 'content', i, Array.isArray(message.tool_calls));
    const {tool_calls: calls} = message;
    return json(Array.isArray(calls) ? {...message, tool_calls: calls.map(asFunction)} : message)
      ?? refuse(`message ${i} cannot be written as JSON`);
  });
  return `[${all.join(',')}]`;
}

/** onToolCall's result for a call, as a message's content; undefined: no result. */
export function checkedResult(value) {
  if (value === undefined) return undefined;
  const text = typeof value === 'string' ? wellFormed(value) : json(value);
  if (text === undefined) refuse(`onToolCall gave ${shown(value)}, which cannot be written as JSON`);
  if (text.includes('\0')) refuse('onToolCall gave a string with a zero byte, which no template accepts');
  return text;
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
  return refuse(`the session is ${shown(bytes)}; it must be a buffer`);
}
