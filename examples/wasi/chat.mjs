/* A chat with the library as a WASI module, in Node.js.
 * SPDX-License-Identifier: MIT
 *
 *   node chat.mjs qsf.wasm MODEL [NAME=VALUE...] <questions.txt      NAME=VALUE: options of answers
 *
 * One question a line; answers are printed while they are computed. */
import {readFile} from 'node:fs/promises';
import {basename, dirname, resolve} from 'node:path';
import {createInterface} from 'node:readline';
import {WASI} from 'node:wasi';

const [file, model, ...wanted] = process.argv.slice(2);
const wasi = new WASI({version: 'preview1', preopens: {'/model': dirname(resolve(model))}});
/* A function of JavaScript before each of node:wasi's: tests/wasm/wasi.mjs says why. */
const imports = Object.fromEntries(Object.entries(wasi.wasiImport)
  .map(([name, fn]) => [name, (...a) => fn(...a)]));
const instance = await WebAssembly.instantiate(await WebAssembly.compile(await readFile(file)),
  {wasi_snapshot_preview1: imports});
wasi.initialize(instance);
const {exports} = instance;

/** Texts are copied into the module for the call, and end with a zero byte. */
function call(name, ...args) {
  const places = [];
  const result = exports[name](...args.map(value => {
    if (typeof value !== 'string') return value;
    const bytes = new TextEncoder().encode(value + '\0'), at = exports.malloc(bytes.length) >>> 0;
    new Uint8Array(exports.memory.buffer).set(bytes, at);
    places.push(at);
    return at;
  }));
  for (const at of places) exports.free(at);
  return result;
}
function text(at) {
  const bytes = new Uint8Array(exports.memory.buffer);
  return new TextDecoder().decode(bytes.subarray(at >>> 0, bytes.indexOf(0, at >>> 0)));
}
const options = words => words.map(word => `${word.replace('=', '\0')}\0`).join('');

const conversation = call('qsf_wasi_open', `/model/${basename(model)}`, options(['ctx-size=2048']));
const messages = [];
for await (const content of conversation ? createInterface(process.stdin) : []) {
  messages.push({role: 'user', content});
  const answer = call('qsf_wasi_ask', conversation, JSON.stringify(messages), options(wanted));
  let said = '';
  for (let piece; answer && (piece = text(call('qsf_wasi_piece', answer)));) {
    process.stdout.write(piece);
    said += piece;
  }
  console.log();
  call('qsf_flat_free', answer);
  messages.push({role: 'assistant', content: said});
}
const error = text(call('qsf_wasi_error'));
if (error) console.error(error);
process.exitCode = error ? 1 : 0;
