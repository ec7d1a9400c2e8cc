/* A module with relaxed SIMD is used where its products are right, and only there.
 * SPDX-License-Identifier: MIT
 *
 * V8 11 (Node.js 20 and 21) miscompiles i32x4.relaxed_dot_i8x16_i7x16_add_s. What it gets wrong is
 * made here by hand: modules in which one product of one function is another instruction. */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {closeSync, fstatSync, openSync, readFileSync, readSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {promisify} from 'node:util';
import v8 from 'node:v8';
import {broken} from './broken.js';
import {GGUF, QSF, QUESTION, answer, nativeTokens, packaged} from './tools.js';

const {Engine, hasRelaxed} = await import(pathToFileURL(packaged('engine.js')));
const FLAG = '--experimental-wasm-relaxed-simd', flagged = !hasRelaxed();
if (flagged) v8.setFlagsFromString(FLAG);
const skip = hasRelaxed() ? false : `${process.version} has no relaxed SIMD`;

/* [opcode, another one of as many operands and bytes] */
const DOT2 = [[0xfd, 0x92, 0x02], [0xfd, 0x95, 0x01]], DOT4 = [[0xfd, 0x93, 0x02], [0xfd, 0xd2, 0x00]];

/** Where functions that contain relaxed products have them: [[place, opcode], ...] of each. */
function products(module) {
  let at = 8;
  const number = () => {
    let n = 0, shift = 0, byte;
    do { byte = module[at++]; n += (byte & 127) * 2 ** shift; shift += 7; } while (byte & 128);
    return n;
  };
  for (;;) {
    const id = module[at++], size = number();
    if (id === 10) break;
    at += size;
  }
  return Array.from({length: number()}, () => {
    const end = number() + at, found = [];
    for (; at < end; at++)
      for (const op of [DOT2, DOT4])
        if (op[0].every((byte, i) => module[at + i] === byte)) found.push([at, op]);
    return found;
  }).filter(found => found.length);
}
function changed(module, places) {
  const copy = Uint8Array.from(module);
  for (const [at, [, other]] of places) copy.set(other, at);
  assert.ok(WebAssembly.validate(copy));
  return copy;
}

describe('a wrong product', {skip}, () => {
  const module = readFileSync(packaged('qsf-relaxed.wasm')), functions = products(module);
  let file, warnings;
  before(() => { file = openSync(QSF); });
  after(() => closeSync(file));
  async function open(relaxed) {
    warnings = [];
    const source = {name: QSF, length: fstatSync(file).size,
      readSync: (at, to) => readSync(file, to, 0, to.length, at), cancel() {}};
    const engine = await Engine.create({source, threads: 1, relaxed: true, shared: false,
      warn: text => warnings.push(text),
      compile: async variant => WebAssembly.compile(variant === 'relaxed' ? relaxed
        : readFileSync(packaged(`qsf-${variant}.wasm`)))});
    await engine.open();
    return engine;
  }
  /* The answer of a whole package whose module is another one, in the variant that it comes to. */
  async function loaded(folder, bytes) {
    if (bytes) writeFileSync(join(folder, 'qsf-relaxed.wasm'), bytes);
    const model = await (await import(pathToFileURL(join(folder, 'node.js'))))
      .load(QSF, {threads: 1, contextLength: 256});
    try {
      return {...await answer(model, {maxTokens: 8}), ...model.info};
    } finally {
      await model.dispose();
    }
  }

  test('in any function that the model needs is found, and the next module taken', async () => {
    const unseen = [];
    let found = 0, seen;
    for (const [i, places] of functions.entries()) {
      const one = places.at(i % 2 ? 0 : -1), {variant} = await open(changed(module, [one]));
      if (variant === 'relaxed') {      // of this function, or of this path in it, nothing is looked at
        const isWhole = (await open(changed(module, places))).variant === 'relaxed';
        unseen.push(...isWhole ? places : [one]);
        continue;
      }
      assert.equal(variant, 'simd');
      assert.deepEqual(warnings,
        ['the module relaxed is not used: relaxed SIMD gives wrong sums in this engine']);
      seen ??= [places[0]];
      found++;
    }
    assert.ok(found >= 4, `${found} of ${functions.length}`);
    const folder = await broken('module'), ids = nativeTokens(QSF, 8);
    const other = await loaded(folder, changed(module, seen));
    assert.equal(other.variant, 'simd');
    assert.match(other.warnings.join(), /wrong sums/);
    assert.deepEqual(other.ids, ids);
    // what was not looked at is not used either
    const same = await loaded(folder, changed(module, unseen));
    assert.equal(same.variant, 'relaxed');
    assert.deepEqual(same.ids, ids);
  });
  test('that comes later ends the answer', async () => {
    await assert.rejects(loaded(await broken('sums')),
      error => error.code === 'UNSUPPORTED' && /relaxed: false/.test(error.message));
  });
});

const SCRIPT = `
import {load} from '${packaged('node.js')}';
const model = await load('${GGUF}', {threads: 1, contextLength: 256}), ids = [];
const options = {temperature: 0, maxTokens: 6, onToken: id => ids.push(id)};
for await (const text of model.chat(${JSON.stringify(QUESTION)}, options)) void text;
console.log(JSON.stringify({variant: model.info.variant, ids}));
await model.dispose();
`;
test('a Node.js that has relaxed SIMD behind a flag gives the native tokens with it',
  {skip: flagged ? skip : 'needs no flag', timeout: 240_000}, async () => {
    for (const more of [[], ['--liftoff-only']]) {
      const {stdout} = await promisify(execFile)(process.execPath,
        [FLAG, ...more, '--input-type=module', '-e', SCRIPT]);
      assert.deepEqual(JSON.parse(stdout).ids, nativeTokens(GGUF, 6), `${more} ${stdout}`);
    }
  });
