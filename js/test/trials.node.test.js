/* device: 'auto' measures a GPU against the CPU, and keeps the result.  The GPU is Dawn on
 * SwiftShader under a name that passes for hardware.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_DAWN   as in gpu.node.test.js */
import assert from 'node:assert/strict';
import {readFile, readdir, rm, writeFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {after, afterEach, before, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {WORK, cache, load, packaged} from './tools.js';
import {fakeGpu} from './fake_gpu.js';
import {tinyModel} from './tiny.js';

const {slower} = await import(pathToFileURL(packaged('trials.js')));
const DAWN = process.env.QSF_TEST_DAWN;
const skip = DAWN ? false : 'no Dawn or no SwiftShader (tests/web/gpu.sh)';
const MODEL = tinyModel({codes: true, seed: 38});
const HOW = {threads: 1, kv: 'f16', contextLength: 64, batch: 4};     // few pipelines
const FOLDER = join(WORK, 'trials-store');
process.env.QSF_CACHE = FOLDER;
after(() => rm(FOLDER, {recursive: true, force: true}));

async function answer(model) {
  let text = '';
  for await (const part of model.generate('Once', {temperature: 0, maxTokens: 4})) text += part;
  return text;
}
const kept = async () => (await readdir(join(FOLDER, 'urls'))).filter(name => name.endsWith('.trial'));

test('the rule: an answer and four times the prompt, a tenth faster', () => {
  const of = (token, prompt) => ({token, prompt});
  assert.equal(slower({gpu: of(5, 1), cpu: of(12, 3)}, 'It'), '');
  assert.equal(slower({gpu: of(12, 3), cpu: of(5, 1)}, 'It'),
    'It is slower than this processor in a trial: 12 ms against 5 ms a token, 3 ms against 1 ms a token of ' +
    'the prompt');
  assert.match(slower({gpu: of(6, 0.95), cpu: of(6, 1)}, 'It'), /^It is hardly faster than this processor/);
  assert.equal(slower({gpu: of(9, 0.1), cpu: of(6, 2)}, 'It'), '');     // slow in answers, fast in prompts
});

describe('a GPU that passes for hardware', {skip}, () => {
  let wanted, gpu, asked;
  /* The GPU's own time does not count if isFast: the clock stands still from its first command
   * until it is read after the result, so that the GPU seems faster than any CPU. */
  const clock = performance.now.bind(performance);
  let hidden = 0, since, isOver = false;
  const hide = () => { since ??= clock(); };
  const show = () => { isOver = since !== undefined; };
  function now() {
    const at = (since ?? clock()) - hidden;
    if (isOver) hidden += clock() - since;
    if (isOver) since = undefined;
    isOver = false;
    return at;
  }
  /* One device for all, whose pipelines are compiled once: that takes seconds in software. */
  let device;
  const compiled = new Map();   // text -> a promise
  const passing = ({isFast} = {}) => ({requestAdapter: async options => {
    const adapter = await gpu.requestAdapter(options);
    return {info: {vendor: 'none', architecture: '', device: '', description: isFast ? 'fast' : 'slow'},
      limits: adapter.limits, requestDevice: async wishes => {
        device ??= await adapter.requestDevice(wishes);
        asked = 0;
        const bound = name => (...given) => device[name](...given);
        const names = ['pushErrorScope', 'popErrorScope', 'createBindGroupLayout',
          'createPipelineLayout', 'createBindGroup'];
        const own = Object.fromEntries(names.map(name => [name, bound(name)]));
        const texts = new Map();        // module -> text
        return {...own, limits: device.limits, lost: new Promise(() => {}), destroy() {},
          createCommandEncoder() {
            if (isFast) hide();
            return device.createCommandEncoder();
          },
          createShaderModule(wish) {
            const module = device.createShaderModule(wish);
            texts.set(module, wish.code);
            return module;
          },
          createComputePipelineAsync(wish) {
            const text = texts.get(wish.compute.module);
            if (!compiled.has(text)) compiled.set(text, device.createComputePipelineAsync(wish));
            return compiled.get(text);
          },
          createBuffer(wish) {
            const buffer = device.createBuffer(wish), map = buffer.mapAsync.bind(buffer);
            asked++;
            buffer.mapAsync = async (...given) => {
              await map(...given);
              if (isFast) show();
            };
            return buffer;
          },
          queue: {
            writeBuffer(...given) {
              if (isFast) hide();
              return device.queue.writeBuffer(...given);
            },
            submit(list) {
              if (isFast) hide();
              return device.queue.submit(list);
            },
          }};
      }};
  }});
  before(async () => {
    gpu = createRequire(import.meta.url)(DAWN).create([]);
    const cpu = await load(MODEL, {...HOW, device: 'cpu'});
    wanted = await answer(cpu);
    await cpu.dispose();
    performance.now = now;
  });
  afterEach(show);
  after(() => {
    performance.now = clock;
    device?.destroy();
  });

  async function loaded(options, how, from = MODEL) {
    const model = await load(from, {...HOW, gpu: passing(how), ...options}), {device, warnings} = model.info;
    const before = (await model.stats()).gpuLayers;
    if (from === MODEL) assert.equal(await answer(model), wanted);
    assert.deepEqual(warnings, []);
    await model.dispose();
    return {...device, before};
  }
  const SLOW = /slow is slower than this processor in a trial: [\d.]+ ms against [\d.]+ ms a token, /;

  test('and is slower is left to others; the next load() knows', async () => {
    const first = await loaded();
    assert.deepEqual([first.kind, first.layers, first.before], ['cpu', 0, 0]);
    assert.match(first.reason, SLOW);
    assert.ok(first.trial.gpu.token > first.trial.cpu.token);
    assert.equal((await kept()).length, 1);
    assert.ok(asked > 0);
    const next = await loaded();
    assert.deepEqual(next, first);
    assert.equal(asked, 0);
  });
  test('is tried anew for another shape, with reload, and after cache.delete()', async () => {
    await loaded({}, {}, tinyModel({codes: true, layers: 3}));
    assert.equal((await kept()).length, 2);
    await loaded({cache: 'reload'});
    assert.ok(asked > 0);
    await cache.delete();
    assert.deepEqual(await kept(), []);
    await loaded({cache: false});
    assert.ok(asked > 0);
    assert.deepEqual(await kept(), []);
  });
  test('is tried again if what was kept is damaged', async () => {
    await cache.delete();
    const first = await loaded(), [name] = await kept(), file = join(FOLDER, 'urls', name);
    const whole = await readFile(file, 'utf8');
    for (const text of [whole.slice(0, -5),
      JSON.stringify({...JSON.parse(whole), gpu: {token: -1, prompt: 'none'}})]) {
      await writeFile(file, text);
      asked = 0;
      assert.match((await loaded()).reason, SLOW);
      assert.ok(asked > 0, text);
    }
    assert.equal(first.kind, 'cpu');
  });
  test('and is faster gets all layers, in the next load() without a trial', async () => {
    await cache.delete();
    const first = await loaded({}, {isFast: true});
    assert.deepEqual([first.kind, first.name, first.layers, first.reason, first.before],
      ['gpu', 'none fast', 2, '', 2]);
    assert.equal(slower(first.trial, 'It'), '', JSON.stringify(first.trial));
    assert.deepEqual(await loaded({}, {isFast: true}), first);
  });
  test('is not tried if it is asked for', async () => {
    await cache.delete();
    assert.equal((await loaded({device: 'gpu'})).trial, undefined);
    assert.deepEqual(await kept(), []);
  });
});

describe('a trial', () => {
  test('with a GPU that computes nothing ends on the CPU', async () => {
    const model = await load(MODEL, {...HOW, gpu: fakeGpu()}), {device, warnings} = model.info;
    assert.deepEqual([device.kind, device.layers, device.trial], ['cpu', 0, undefined]);
    assert.match(device.reason, /the GPU failed/);
    assert.deepEqual(warnings, []);
    assert.equal((await answer(model)).length, 4);
    await model.dispose();
  });
  test('with a GPU that never answers ends with load()', async () => {
    const stop = new AbortController(), reason = new Error('enough'), refused = [];
    const never = () => new Promise((_, reject) => refused.push(reject));
    const destroy = () => { for (const refuse of refused) refuse(new Error('destroyed')); };
    const device = {destroy, createBuffer: ({size}) => ({size, destroy() {}, unmap() {}, mapAsync: never})};
    const loading = load(MODEL, {...HOW, gpu: fakeGpu({device}), signal: stop.signal});
    setTimeout(() => stop.abort(reason), 300);
    await assert.rejects(loading, reason);
  });
});
