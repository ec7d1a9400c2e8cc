/* Calls the native addon as the package never would: wrong types, dead and foreign handles, lengths
 * that are too large, calls within calls and after the end, in several threads. The process must
 * survive it.
 * SPDX-License-Identifier: MIT
 *
 *   node js/test/misuse.js ADDON SEED [CALLS] */
import {createRequire} from 'node:module';
import {Worker, isMainThread, parentPort, workerData} from 'node:worker_threads';
import {random, tinyModel} from './tiny.js';

const [addon, seed, calls = 4000] = isMainThread ? process.argv.slice(2) : workerData;
const {engine: make} = createRequire(import.meta.url)(addon);
const next = random(Number(seed)), below = n => Math.floor(n * next()), one = all => all[below(all.length)];
const FILE = tinyModel({seed: 7}), counted = {calls: 0, thrown: 0, done: 0};
const text = string => new TextEncoder().encode(string);
const list = (...all) => text(`${all.join('\0')}\0\0`);

/* An engine, its handles and addresses, some of which are not valid any more. */
function begin(isFile) {
  let x, wild = false;
  const odd = () => {
    if (!wild || next() < 0.9) return undefined;
    if (next() < 0.3) throw new Error('from an import');
    if (next() < 0.5) tried(it);                       // within a call
    return one([NaN, -1, 'x', 2 ** 60, {}, undefined, null, 7]);
  };
  const it = {handles: [0, 1, 4097, 2 ** 32 - 1], places: [0], tamed: flag => { wild = !flag; }};
  x = it.x = make({
    open: () => odd() ?? 0, length: () => odd() ?? FILE.length,
    read: (at, dst, length, state) => {
      const given = odd();
      if (given !== undefined) return given;
      x.put(dst, FILE.slice(at, at + length));
      if (wild && next() < 0.2) x.store(state, 0);
      return 0;
    },
    pieces: () => odd() ?? Number(x.taken().length > 0),
    cancel: odd, save: odd, load: (at, dst, length) => odd() ?? x.put(dst, new Uint8Array(below(length + 1))),
  });
  it.names = Object.keys(x);
  const put = bytes => {
    const at = x.alloc(bytes.length);
    if (at) x.put(at, bytes);
    it.places.push(at);
    return at;
  };
  it.put = put;
  const keep = handle => { it.handles.push(handle); return handle; };
  const model = keep(x.model(isFile));
  x.qsf_flat_model_open(model, put(text('tiny.gguf')), 0);
  const context = keep(x.qsf_flat_context_new(model));
  x.qsf_flat_context_open(context, put(list('ctx-size', 128, 'seqs', 3, 'threads', 2)));
  for (let i = 0; i < 2; i++) {
    const talk = keep(x.qsf_flat_conversation_new(context, 0));
    x.qsf_flat_conversation_text(talk, put(text('Once')), 4);
    const answer = keep(x.qsf_flat_answer_new(talk, put(list('temperature', 0))));
    counted.done += x.qsf_flat_answer_begin(answer) === 0;
  }
  keep(x.qsf_flat_embedding_new(context, 0));
  keep(x.qsf_flat_adapter_new(model));
  return it;
}

const LISTS = [list('ctx-size', 64), list('tools', '[1'), list('seqs', 9999999),
  list('chat-template', '{% for x in y %}{{ x }}'),
  ...['temperature\0', 'x', '\0', '[{"role":"user","content":"x"}]', '(((((', '{"type":"object"}'].map(text)];
function argument(it) {
  const kind = below(100);
  if (kind < 40) return one(it.handles);
  if (kind < 60) return one(it.places);
  if (kind < 68) return one(it.places) + below(40);
  if (kind < 85) return below(12);
  if (kind < 90) return it.x.alloc && it.put(one(LISTS));
  return one([-1, 0.5, NaN, Infinity, -0, 2 ** 31, 2 ** 32, 2 ** 40, 2 ** 53, 2 ** 60, 1e300, undefined, null,
    true, 'text', {}, [], Symbol('x'), 10n, () => {}, new Uint8Array(8), new Uint8Array(0),
    new Float64Array(3), new Int32Array(2), new Int32Array(new SharedArrayBuffer(8))]);
}
/* Half of the calls have arguments of the kinds that they take: h a handle, p an address, n a size,
 * i a small number. */
const SHAPES = {status: 'h', find: 'pi', number: 'hii', text: 'hiipn', tokens: 'hpnipn', token_text: 'hiipn',
  chat_text: 'hpnppn', pair_tokens: 'hpnpnpn', context_new: 'h', context_plan: 'hp', context_open: 'hp',
  conversation_new: 'hp', conversation_seat: 'h', conversation_leave: 'h', oldest: 'hh',
  conversation_chat: 'hp',
  conversation_split: 'hpipn', conversation_json: 'hpn', conversation_text: 'hpn', conversation_ids: 'hpn',
  conversation_adapt: 'hppn', answer_new: 'hp', answer_bias: 'hii', answer_ban: 'hpn', answer_stop: 'hpn',
  answer_grammar: 'hpipn', answer_begin: 'h', answer_next: 'h', answer_event: 'h', answer_logprobs: 'hppn',
  step: 'hpn', cancel: 'h', embedding_new: 'hp', embedding_begin: 'hppn', embedding_step: 'h',
  embedding_values: 'hpn', refine: 'h', free: 'h', pieces: 'hpni'};
function shaped(it, letters) {
  const sizes = [];
  return [...letters].map(letter => {
    if (letter === 'h') return one(it.handles);
    if (letter === 'i') return below(40) - 2;
    if (letter === 'n') return below(4) ? sizes.pop() ?? 0 : below(30);
    const bytes = below(3) ? one(LISTS) : new Uint8Array(new Uint32Array([one(it.handles), 1, 2, 0]).buffer);
    sizes.push(below(1 + bytes.length / 4));
    return below(9) ? it.put(bytes) : 0;
  });
}
function tried(it) {
  const name = one(it.names);
  if ((name === 'end' || name === 'qsf_flat_free') && next() < 0.95) return;
  try {
    const letters = below(2) ? SHAPES[name.replace('qsf_flat_', '')] : undefined;
    const given = letters ? shaped(it, letters)
      : Array.from({length: below(3) ? 8 : below(8)}, () => argument(it));
    const result = it.x[name](...given);
    if (name === 'alloc' && result) it.places.push(result);
    if (name.endsWith('_new')) it.handles.push(result);
    counted.calls++;
  } catch {
    counted.thrown++;
  }
}

for (let left = Number(calls); left > 0;) {
  const all = [begin(false), begin(false)];
  const stranger = [...all[0].handles, ...all[1].handles];
  for (const it of all) {
    it.handles.push(...stranger);               // those of another engine are not valid in this one
    it.tamed(false);
  }
  const n = Math.min(left, 500);
  left -= n;
  for (let i = 0; i < n; i++) tried(one(all));
  all[0].x.end();
  for (let i = 0; i < 50; i++) tried(all[0]);   // after the end
}
if (isMainThread) {
  await Promise.all([1, 2].map(i => new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url),
      {workerData: [addon, Number(seed) + 1000 * i, calls]});
    worker.once('message', resolve);
    worker.once('error', reject);
  })));
  const worker = new Worker(new URL(import.meta.url), {workerData: [addon, Number(seed) + 5000, 1e9]});
  await new Promise(resolve => { worker.once('online', resolve); });
  for (let i = 0; i < 20; i++) tried(begin(false));
  await worker.terminate();                     // in the middle of a call
  if (counted.done < 10 || counted.calls < calls / 10 || counted.thrown < 100)
    throw new Error(`little was tried: ${JSON.stringify(counted)}`);
} else parentPort.postMessage('done');
