/* The option device in Node.js, on Dawn and SwiftShader, a GPU in software.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_DAWN   Dawn's addon; without it what needs a GPU is skipped by name. js.sh sets it and
 *                 where the driver is */
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {after, before, describe, test} from 'node:test';
import {code, estimate, load} from './tools.js';
import {tinyAdapter, tinyModel} from './tiny.js';

const DAWN = process.env.QSF_TEST_DAWN;
const skip = DAWN ? false : 'no Dawn or no SwiftShader (tests/web/gpu.sh)';
/* After this prompt the most likely token is always far ahead of the next one, also with the
 * adapter of seed 7. */
const MODEL = tinyModel({codes: true, seed: 38}), PROMPT = 'Once';
const HOW = {threads: 1, kv: 'f16', contextLength: 64, batch: 4};     // few pipelines
/* Its layers are larger than everything else. */
const LAYERS = 12, LARGE = tinyModel({codes: true, seed: 38, layers: LAYERS});

async function answer(model, options) {
  let text = '';
  for await (const part of model.generate(PROMPT, {temperature: 0, maxTokens: 12, ...options}))
    text += part;
  return text;
}
async function onCpu(options) {
  const model = await load(MODEL, {...HOW, device: 'cpu'});
  assert.deepEqual(model.info.device, {kind: 'cpu', name: '', layers: 0, reason: 'the option device is cpu'});
  const text = await answer(model, options);
  await model.dispose();
  return text;
}

describe('without WebGPU', () => {
  test('auto computes on the CPU and says why', async () => {
    const model = await load(MODEL, HOW);
    assert.equal(model.info.device.kind, 'cpu');
    assert.match(model.info.device.reason, /Node\.js has no WebGPU of its own; the option gpu/);
    assert.deepEqual(model.info.warnings, []);
    assert.equal(await answer(model), await onCpu());
    await model.dispose();
  });
  test('gpu is refused', async () => {
    await assert.rejects(load(MODEL, {...HOW, device: 'gpu'}),
      code('UNSUPPORTED', /option gpu gives it one/));
    const none = {requestAdapter: async () => null};
    await assert.rejects(load(MODEL, {...HOW, device: 'gpu', gpu: none}),
      code('UNSUPPORTED', /no adapter/));
    const refuses = {requestAdapter: async () => ({info: {}, limits: {},
      requestDevice: async () => { throw new Error('out of order'); }})};
    await assert.rejects(load(MODEL, {...HOW, device: 'gpu', gpu: refuses}),
      code('UNSUPPORTED', /out of order/));
  });
  test('wrong values are refused', async () => {
    for (const wrong of [{device: 'cuda'}, {gpu: 5}, {gpu: {}}, {gpu: ''}])
      await assert.rejects(load(MODEL, wrong), code('ARGUMENT', /^(device|gpu) is .*; it must be /));
    await assert.rejects(load(MODEL, {...HOW, device: 'gpu', gpu: './no-such-module.js'}),
      code('NOT_FOUND', /no-such-module/));
  });
});

/* The same, with the devices that it gives within reach. */
function watched(gpu, devices, wrap = device => device) {
  return {requestAdapter: async options => {
    const adapter = await gpu.requestAdapter(options);
    return adapter && {info: adapter.info, limits: adapter.limits, requestDevice: async wishes => {
      const device = await adapter.requestDevice(wishes);
      devices.push(device);
      return wrap(device);
    }};
  }};
}

/* A device that counts lists of dispatches which it is given while results are read. */
function counted(device, count) {
  const COMPUTED = new WeakSet(), TO_MAP = 1;
  let reading = 0;
  const of = (object, own) => new Proxy(object, {
    get: (_, name) => own[name] ?? object[name]?.bind?.(object) ?? object[name],
    set: (_, name, value) => Reflect.set(object, name, value, object)});
  const encoder = inner => {
    let computes = false;
    return of(inner, {
      beginComputePass: (...given) => { computes = true; return inner.beginComputePass(...given); },
      finish: () => {
        const commands = inner.finish();
        if (computes) COMPUTED.add(commands);
        return commands;
      }});
  };
  const queue = of(device.queue, {submit: list => {
    count.ahead += Number(reading > 0 && list.some(commands => COMPUTED.has(commands)));
    device.queue.submit(list);
  }});
  return of(device, {queue, createCommandEncoder: () => encoder(device.createCommandEncoder()),
    createBuffer: wishes => {
      const buffer = device.createBuffer(wishes);
      if (!(wishes.usage & TO_MAP)) return buffer;
      const map = buffer.mapAsync.bind(buffer);
      buffer.mapAsync = async (...given) => {
        reading++;
        await map(...given).finally(() => { reading--; });
      };
      return buffer;
    }});
}

/* The same, as one device for several models, which compile their pipelines once: in software that
 * takes seconds a model. It ends with the test's destroy() alone. */
function shared(gpu, devices) {
  const inner = watched(gpu, devices), kept = new Map();
  const once = (key, make) => kept.get(key) ?? kept.set(key, make()).get(key);
  const own = device => ({
    destroy: () => {},
    createShaderModule: wishes => once(wishes.code, () => device.createShaderModule(wishes)),
    createComputePipelineAsync: wishes => once(wishes.compute.module,
      () => device.createComputePipelineAsync(wishes)),
  });
  const wrapped = device => new Proxy(own(device), {
    get: (mine, name) => mine[name] ?? device[name]?.bind?.(device) ?? device[name],
    set: (_, name, value) => Reflect.set(device, name, value, device)});
  return {requestAdapter: async options => {
    const adapter = await inner.requestAdapter(options);
    return {...adapter, requestDevice: wishes => once('device',
      () => adapter.requestDevice(wishes).then(wrapped))};
  }};
}
const sharedDevices = [];
let sharedGpu;
const oneGpu = () => sharedGpu ??= shared(createRequire(import.meta.url)(DAWN).create([]), sharedDevices);

describe('a GPU object', {skip}, () => {
  let model, wanted;
  const devices = [], count = {ahead: 0};
  before(async () => {
    wanted = await onCpu();
    const gpu = createRequire(import.meta.url)(DAWN).create([]);
    model = await load(MODEL, {...HOW, device: 'gpu',
      gpu: watched(gpu, devices, device => counted(device, count))});
  });
  const ahead = async of => {
    count.ahead = 0;
    const result = await of;
    return [result, count.ahead];
  };
  after(() => model?.dispose());

  test('computes all layers, and the same text', async () => {
    assert.equal(model.info.device.kind, 'gpu');
    assert.equal(model.info.device.layers, 2);
    assert.match(model.info.device.name, /SwiftShader/i);
    assert.equal(model.info.device.reason, '');
    let ticks = 0;              // the engine is in this thread, and leaves it time
    const timer = setInterval(() => { ticks++; }, 1);
    assert.equal(await answer(model), wanted);
    clearInterval(timer);
    assert.ok(ticks > 10, `${ticks} ticks`);
    assert.equal((await model.stats()).gpuLayers, 2);
  });
  test('computes a token before the last one is read, if usual samplers choose', async () => {
    const draws = {temperature: 0.5, seed: 3, topP: 0.9, repeatPenalty: 1.1};
    assert.deepEqual(await ahead(answer(model)), [wanted, 10]);     // neither the first one nor the last
    const [drawn, n] = await ahead(answer(model, draws));
    assert.equal(drawn, await onCpu(draws));
    assert.ok(n > 8, `${n} tokens were computed ahead`);
    const dry = {dryMultiplier: 0.8};
    assert.deepEqual(await ahead(answer(model, dry)), [await onCpu(dry), 0]);
    const [first] = wanted;                     // at most one token is wasted
    assert.deepEqual(await ahead(answer(model, {stop: [first]})), ['', 1]);
  });
  test('computes only what is new in a prompt, and stops at a signal', async () => {
    const stop = new AbortController(), reason = new Error('enough');
    await assert.rejects(answer(model, {signal: stop.signal, onToken: () => stop.abort(reason)}), reason);
    assert.equal(await answer(model), wanted);
  });
  test('saves sessions, which a CPU continues, and loads those of a CPU', async () => {
    const cpu = await load(MODEL, {...HOW, device: 'cpu'}), longer = `${PROMPT} upon a time`;
    await answer(model);
    const bytes = await model.saveSession();
    assert.equal(await cpu.loadSession(bytes), PROMPT.length + 1 + 12);
    const text = await answer(cpu);
    assert.equal(text, wanted);
    assert.ok((await cpu.stats()).promptTokens < PROMPT.length, 'the prompt was computed again');

    const whole = {temperature: 0, maxTokens: 1, logprobs: true, topLogprobs: 1};
    const first = async (of, prompt) => {
      let all;
      for await (const part of of.generate(prompt, {...whole, onToken: (id, given) => { all ??= given; }}))
        void part;
      return all;
    };
    const native = await first(cpu, longer), before = (await model.stats()).promptTokens;
    await model.loadSession(await cpu.saveSession());
    const given = await first(model, longer);
    assert.equal(given.id, native.id);
    assert.ok(Math.abs(given.logprob - native.logprob) < 0.2, `${given.logprob}, not ${native.logprob}`);
    assert.ok((await model.stats()).promptTokens - before < 3);
    await cpu.dispose();
  });
  test('that is lost ends no answer: the CPU continues', async () => {
    assert.equal(await answer(model, {onToken: () => devices[0].destroy()}), wanted);
    assert.equal(await answer(model), wanted);
    assert.equal((await model.stats()).gpuLayers, 0);
    assert.match(model.info.warnings.join(), /the GPU failed: .*lost.*; all layers are on the CPU now/);
  });
});

/* Reads of the file in an answer after the first one. */
async function readAgain(options) {
  const {leastBytes} = await estimate(LARGE, {...HOW, memory: 1e-3});
  const model = await load(LARGE, {...HOW, memory: leastBytes / 1e6, ...options});
  assert.equal(model.info.resident, false);
  await answer(model, {maxTokens: 2});
  const before = (await model.stats()).bytesRead;
  const text = await answer(model, {maxTokens: 4});
  const {bytesRead} = await model.stats(), {device, weightBytes} = model.info;
  await model.dispose();
  return {bytes: bytesRead - before, text, device, weightBytes};
}
test('adapters are computed on the GPU', {skip}, async () => {
  const texts = [];
  for (const device of ['cpu', 'gpu']) {
    const model = await load(MODEL, {...HOW, device, gpu: oneGpu()});
    const adapter = await model.loadAdapter(tinyAdapter({seed: 7}));
    texts.push(await answer(model, {adapters: [adapter]}), await answer(model));
    assert.equal((await model.stats()).gpuLayers, device === 'gpu' ? 2 : 0);
    await model.dispose();
  }
  assert.deepEqual(texts.slice(2), texts.slice(0, 2));
  assert.notEqual(texts[0], texts[1]);
});

test('weights that a GPU has are not read again', {skip}, async () => {
  const cpu = await readAgain({device: 'cpu'}), gpu = await readAgain({device: 'gpu', gpu: oneGpu()});
  assert.equal(gpu.device.layers, LAYERS);
  assert.ok(cpu.bytes > cpu.weightBytes, `${cpu.bytes} bytes of ${cpu.weightBytes} on the CPU`);
  assert.ok(gpu.bytes < cpu.bytes / 4, `${gpu.bytes} bytes, ${cpu.bytes} on the CPU`);
});

/* The same, with a device that seems lost after lose(). */
function losable(gpu) {
  let lose;
  const lost = new Promise(resolve => { lose = resolve; });
  return {lose, requestAdapter: async options => {
    const adapter = await gpu.requestAdapter(options);
    return {...adapter, requestDevice: async wishes => {
      const device = await adapter.requestDevice(wishes);
      return new Proxy(device, {get: (_, name) => (name === 'lost' ? lost : device[name])});
    }};
  }};
}
/* Its tokens, and the logarithm of each one's probability. */
async function tokens(model, prompt, onToken = () => {}) {
  const all = [];
  const take = (id, {logprob}) => { all.push([id, logprob]); onToken(all.length); };
  const options = {temperature: 0, maxTokens: 4, logprobs: true, onToken: take};
  for await (const part of model.generate(prompt, options)) void part;
  return all;
}
test('layers that do not fit pass through and change no number', {skip}, async () => {
  const how = {...HOW, device: 'gpu', gpu: oneGpu()};
  const all = await load(LARGE, {...how, gpuStream: 'all'}), wanted = await tokens(all, PROMPT);
  assert.equal(all.info.device.streamed, undefined);
  const [weights, kv, batch] = all.info.device.plan.map(part => part.bytes);
  const gpuMemory = (batch + 0.9 * (weights + kv)) / 1e6;
  await all.dispose();
  const gpu = losable(oneGpu()), some = await load(LARGE, {...how, gpu, gpuMemory, gpuStream: 'all'});
  const {layers, streamed, stream, plan, reason} = some.info.device;
  assert.ok(streamed > 2 && layers + streamed === LAYERS, `${layers} layers, ${streamed} pass through`);
  assert.match(stream, /^the weights of layers 0 to \d+ pass through for all batches$/);
  assert.match(reason, /^\d+ of 12 layers fit into \d+ MB$/);
  assert.ok(plan.some(part => part.name === 'slots' && part.bytes > 0));
  assert.ok(plan.reduce((sum, part) => sum + part.bytes, 0) <= 1e6 * gpuMemory);
  assert.deepEqual(await tokens(some, PROMPT), wanted);
  assert.equal((await some.stats()).gpuLayers, layers);
  const before = (await some.stats()).generatedTokens;
  const after = await tokens(some, `${PROMPT} upon`, n => { if (n === 2) gpu.lose({message: 'in a test'}); });
  assert.equal(after.length, 4);
  assert.ok((await some.stats()).generatedTokens > before);
  assert.equal((await some.stats()).gpuLayers, 0);
  assert.match(some.info.warnings.join(), /the GPU failed: .*in a test; all layers are on the CPU now/);
  const ids = given => given.map(([id]) => id);
  assert.deepEqual(ids(await tokens(some, PROMPT)), ids(wanted));
  await some.dispose();
});

/* What stays of the layers. */
const staying = ({info: {plan}}) => plan.find(({name}) => name === 'layers that stay').bytes;
test('weights that a GPU has do not stay in memory; a lost one leaves the answer to the CPU', {skip},
  async () => {
    const cpu = await load(LARGE, {...HOW, device: 'cpu'}), wanted = await answer(cpu);
    const model = await load(LARGE, {...HOW, device: 'gpu', gpu: oneGpu()});
    assert.deepEqual([cpu.info.resident, model.info.resident], [true, false]);
    assert.equal(staying(model), 0);
    const least = cpu.info.planBytes - 0.8 * staying(cpu);
    assert.ok(model.info.planBytes < least, `${model.info.planBytes} of ${cpu.info.planBytes}`);
    assert.equal(model.info.device.layers, LAYERS);
    assert.equal(await answer(model), wanted);
    assert.equal((await model.stats()).gpuLayers, LAYERS);
    let n = 0;
    const loses = () => { if (n++ === 3) sharedDevices[0].destroy(); };
    assert.equal(await answer(model, {onToken: loses}), wanted);
    assert.equal((await model.stats()).gpuLayers, 0);
    await cpu.dispose();
    await model.dispose();
  });

test('a GPU may have some of the layers', {skip}, async () => {
  const model = await load(MODEL, {...HOW, device: 'gpu', gpuLayers: 1, gpu: DAWN});
  assert.equal(model.info.device.layers, 1);
  assert.ok(staying(model) > 0);
  assert.equal(await answer(model, {maxTokens: 4}), (await onCpu()).slice(0, 4));
  assert.equal((await model.stats()).gpuLayers, 1);
  await model.dispose();
});

test('a module that makes a GPU runs in the worker', {skip}, async () => {
  const auto = await load(MODEL, {...HOW, gpu: DAWN});
  assert.equal(auto.info.device.kind, 'cpu');
  assert.match(auto.info.device.reason, /SwiftShader.* emulates a GPU on the CPU/i);
  await auto.dispose();
  const model = await load(MODEL, {...HOW, threads: 2, device: 'gpu', gpu: DAWN});
  assert.equal(model.info.device.layers, 2);
  assert.match(model.info.variant, /threads/);
  await model.dispose();                // while its shaders are compiled
});
