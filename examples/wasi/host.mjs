/* A host of the library as a WASI reactor: node host.mjs qsf.wasm model.qsf "prompt" tokens
 * SPDX-License-Identifier: MIT
 *
 * Everything is done by qsf.h's own functions; the host only copies between its memory and the
 * module's. Prints the ids of the likeliest tokens as JSON. */
import {readFile} from 'node:fs/promises';
import {dirname, basename, resolve} from 'node:path';
import {WASI} from 'node:wasi';

const [file, model, prompt, count] = process.argv.slice(2);
const wasi = new WASI({version: 'preview1', preopens: {'/model': dirname(resolve(model))}});
/* A function of JavaScript before each of node:wasi's: tests/wasm/wasi.mjs says why. */
const imports = Object.fromEntries(Object.entries(wasi.getImportObject().wasi_snapshot_preview1)
  .map(([name, fn]) => [name, (...a) => fn(...a)]));
const instance = await WebAssembly.instantiate(await WebAssembly.compile(await readFile(file)),
  {wasi_snapshot_preview1: imports});
wasi.initialize(instance);
const q = instance.exports;

const view = () => new DataView(q.memory.buffer);
const bytes = (at, length) => new Uint8Array(q.memory.buffer, at >>> 0, length);
const text = at => {
  const all = bytes(at, q.memory.buffer.byteLength - (at >>> 0));
  return new TextDecoder().decode(all.subarray(0, all.indexOf(0)));
};
function string(value) {
  const encoded = new TextEncoder().encode(value + '\0'), at = q.malloc(encoded.length);
  bytes(at, encoded.length).set(encoded);
  return at;
}

const config = q.qsf_config_default();
q.qsf_config_set_max_seq_len(config, 512);
const engine = q.qsf_load(string(`/model/${basename(model)}`), config);
if (!engine) throw new Error(text(q.qsf_load_error(config)));
const number = q.malloc(4), context = q.qsf_engine_context(engine), loaded = q.qsf_engine_model(engine);
let ids = q.qsf_tokenize(engine, string(prompt), number), n = view().getInt32(number, true);
const info = q.malloc(72);
view().setUint32(info, 72, true);                           // a result begins with its size
if (q.qsf_model_get_info(loaded, info)) throw new Error('qsf_model_info has another size');
// behind the size, four pointers and six numbers, all of 32 bits
const vocabulary = view().getUint32(info + 44, true);
const answer = [], one = q.malloc(4);
while (answer.length < Number(count)) {
  const status = q.qsf_feed(context, 0, ids, n, number);
  if (status) throw new Error(text(q.qsf_last_error(context)));
  const id = q.qsf_sample(view().getUint32(number, true), vocabulary, 0, 1);
  if (q.qsf_token_is_end(loaded, id)) break;
  answer.push(id);
  view().setInt32(one, id, true);
  [ids, n] = [one, 1];
}
console.log(JSON.stringify({ids: answer}));
q.qsf_free(engine);
