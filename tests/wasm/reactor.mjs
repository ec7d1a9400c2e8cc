/* The reactor is given sizes that nothing can have: an error, never a small block or a trap. node
 * reactor.mjs qsf.wasm model.qsf
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {readFile} from 'node:fs/promises';
import {basename, dirname, resolve} from 'node:path';
import {WASI} from 'node:wasi';

const [file, model] = process.argv.slice(2);
const wasi = new WASI({version: 'preview1', preopens: {'/model': dirname(resolve(model))}});
const imports = Object.fromEntries(Object.entries(wasi.getImportObject().wasi_snapshot_preview1)
  .map(([name, fn]) => [name, (...a) => fn(...a)]));
const instance = await WebAssembly.instantiate(await WebAssembly.compile(await readFile(file)),
  {wasi_snapshot_preview1: imports});
wasi.initialize(instance);
const q = instance.exports, ARGUMENT = 2;

const view = () => new DataView(q.memory.buffer);
const text = at => {
  const all = new Uint8Array(q.memory.buffer, at >>> 0);
  return new TextDecoder().decode(all.slice(0, all.indexOf(0)));
};
function string(value) {
  const encoded = new TextEncoder().encode(value + '\0'), at = q.malloc(encoded.length);
  new Uint8Array(q.memory.buffer, at, encoded.length).set(encoded);
  return at;
}

/* Blocks that exist do not overlap, and those that cannot exist are none. */
for (let n = 0; n < 4200; n++) assert.equal(q.malloc(-1 - n), 0, `malloc(2^32 - ${n + 1})`);
for (const n of [0x80000000, 0xc0000000, 0xfffe0000, 0xffffe000])
  assert.equal(q.malloc(n), 0, `malloc(${n})`);
const [a, none, b] = [q.malloc(32), q.malloc(0), q.malloc(32)];
assert.ok(a && none && b && new Set([a, none, b]).size === 3);
for (const at of [a, none, b, 0]) q.free(at);

const config = q.qsf_config_default(), path = string(`/model/${basename(model)}`);
const load = () => {
  const engine = q.qsf_load(path, config);
  return {engine, why: text(q.qsf_load_error(config))};
};
q.qsf_config_set_max_seq_len(config, 0x7fffffff);
assert.match(load().why, /ctx-size is 2147483647; it must be a whole number from 0 to 16777216/);
q.qsf_config_set_max_seq_len(config, 256);
for (const megabytes of [4295, 0x7fffffff, -1]) {          /* more than 32 bits, so not small */
  q.qsf_config_set_ram_budget(config, megabytes);
  const {engine, why} = load();
  assert.ok(engine, why);
  q.qsf_free(engine);
}
q.qsf_config_set_ram_budget(config, 0);
const {engine, why} = load();
assert.ok(engine, why);
const m = q.qsf_engine_model(engine), c = q.qsf_engine_context(engine);
const error = q.malloc(4096), n = q.malloc(64), room = q.malloc(4096), word = string('hello'),
  messages = q.malloc(16);
view().setUint32(messages, string('user'), true);
view().setUint32(messages + 4, word, true);
new Uint8Array(q.memory.buffer, room, 4096).fill(0);

for (const size of [0x20000001, 0x40000001, 0x55555556, 0x7fffffff, 0x80000000, 0xfffffff0, 0xfffffffc,
    0xffffffff].map(size => size | 0)) {
  const refused = {
    qsf_tokens_encode: size >>> 0 > 0x3fffffff
      && (() => q.qsf_tokens_encode(m, word, size, 0, room, 16, n, error)),
    qsf_chat_render: () => q.qsf_chat_render(m, 0, messages, size, 1, room, 16, n, error),
    qsf_chat_encode: () => q.qsf_chat_encode(m, 0, messages, size, 1, room, 16, n, error),
    qsf_batch_begin: () => q.qsf_batch_begin(c, room, size),
    qsf_compute: () => q.qsf_compute(c, room, size),
    qsf_seq_truncate: () => q.qsf_seq_truncate(c, 0, size),
    qsf_seq_share: () => q.qsf_seq_share(c, 0, 0, size),
    qsf_session_save: () => q.qsf_session_save(c, 0, room, size, 0, 0, error),
  };
  for (const [name, call] of Object.entries(refused))
    if (call) assert.equal(call(), ARGUMENT, `${name}, ${size >>> 0}`);
  /* Room that is only said to be there is not written to. */
  assert.equal(q.qsf_tokens_encode(m, word, 5, 0, room, size, n, error), 0);
  assert.equal(q.qsf_chat_render(m, 0, messages, 1, 1, room, size, n, error), 0);
  assert.equal(q.qsf_draft_lookup(room, size, room, 4), 0);
  assert.equal(q.qsf_draft_lookup(room, 64, room, size), 0);
  assert.equal(q.qsf_logits(c, size), 0);
  assert.ok(q.qsf_sample(room, size, 0, 1) < 0);
  assert.equal(q.qsf_detokenize(engine, room, size), 0);
  assert.equal(q.qsf_engine_status(engine), ARGUMENT);
}
q.qsf_free(engine);
q.qsf_config_free(config);
