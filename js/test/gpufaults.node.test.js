/* What GPUs and their modules can do wrong, with fake ones.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {cp, mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {QSF, WORK, code, load, packaged} from './tools.js';
import {fakeGpu} from './fake_gpu.js';
import {tinyModel} from './tiny.js';

const MODEL = tinyModel({codes: true, seed: 38});
const HOW = {threads: 1, kv: 'f16', contextLength: 64, batch: 4};

async function answer(model) {
  let text = '';
  for await (const part of model.generate('Once', {temperature: 0, maxTokens: 6})) text += part;
  return text;
}
const FAKE = JSON.stringify(new URL('fake_gpu.js', import.meta.url));
/* Runs a script that may use load, fakeGpu and QSF; its output, once it has ended by itself. */
const ended = script => printed(['--input-type=module', '-e', `
  import {load} from ${JSON.stringify(pathToFileURL(packaged('node.js')))};
  import {fakeGpu} from ${FAKE};
  const QSF = ${JSON.stringify(QSF)}, print = text => process.stdout.write(text);
  ${script}`]);
function printed(args, wanted = 0) {
  const child = spawn(process.execPath, args, {stdio: ['ignore', 'pipe', 'pipe']});
  let said = '', isLate = false;
  for (const stream of [child.stdout, child.stderr]) stream.on('data', part => { said += part; });
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, 60_000);
  return new Promise((resolve, reject) => {
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (isLate) reject(new Error(`the process does not end: ${said}`));
      else if (code === wanted) resolve(said);
      else reject(new Error(`it ended with ${code ?? signal}: ${said}`));
    });
  });
}

/* js/gpu.js over a fake GPU object. */
const opened = async (fake = {}) => {
  const {openGpu, STORAGE} = await import(pathToFileURL(packaged('gpu.js')));
  const gpu = await openGpu(fakeGpu(fake));
  return {gpu, buffer: length => gpu.buffer(STORAGE, length)};
};

test('bytes are written as they are, whatever memory they are in', async () => {
  const written = [];
  const writeBuffer = (_, ...given) => written.push(given);
  const {gpu, buffer} = await opened({queue: {writeBuffer}});
  for (const memory of [new ArrayBuffer(64), new SharedArrayBuffer(64)]) {
    const bytes = new Uint8Array(memory, 8, 4);
    bytes.set([1, 2, 3, 4]);
    assert.equal(gpu.write(buffer(16), 4, bytes), 0);
  }
  for (const [at, bytes, ...more] of written) {
    assert.deepEqual([at, [...bytes], more], [4, [1, 2, 3, 4], []]);
    assert.ok(bytes instanceof Uint8Array && bytes.buffer instanceof ArrayBuffer);
  }
  assert.equal(written.length, 2);
  await gpu.close();
});

test('what a read is copied to is no larger than a buffer may be', async () => {
  const made = [], most = 1 << 20, {createBuffer} = await (await fakeGpu().requestAdapter()).requestDevice();
  const {gpu, buffer} = await opened({limits: {maxBufferSize: most - 256}, device: {createBuffer(wish) {
    made.push(wish.size);
    return createBuffer(wish);
  }}});
  const id = buffer(most - 256);
  for (const length of [most - 256, most / 2 + 4, 8]) {
    const read = gpu.read(id, 0, length, bytes => assert.equal(bytes.length, length));
    assert.equal(await gpu.settled(read), 0);
  }
  assert.ok(made.length > 1 && Math.max(...made) <= most - 256, made.join());
  await gpu.close();
});

test('a device that never answers is closed', async () => {
  const never = () => new Promise(() => {});
  const {gpu, buffer} = await opened({device: {popErrorScope: never}});
  const id = buffer(16);
  assert.equal(gpu.poll(id), 1);
  await gpu.close(20);
  assert.equal(gpu.write(id, 0, new Uint8Array(4)), 4);
});

test('the needs of a side module are found after other subsections', async () => {
  const {needs} = await import(pathToFileURL(packaged('gpu_module.js')));
  const text = word => [word.length, ...Buffer.from(word)];
  const other = [1, ...text('libm.so')], long = [1, ...text('x'.repeat(126))];
  const own = [0x90, 0x03, 4, 7, 0];            // 400 bytes, 7 entries
  for (const before of [[], [2, other.length, ...other], [2, 0x80, 1, ...long, 3, 0]]) {
    const section = [...text('dylink.0'), ...before, 1, own.length, ...own];
    const length = [section.length & 127 | 128, section.length >> 7];
    const bytes = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 0, ...length, ...section]);
    assert.deepEqual(needs(new WebAssembly.Module(bytes)), {size: 400, entries: 7});
  }
});

describe('a call of WebGPU that throws', async () => {
  const cpu = await load(MODEL, {...HOW, device: 'cpu'}), wanted = await answer(cpu);
  await cpu.dispose();
  const full = () => { throw new TypeError('not today'); };
  const encoder = {beginComputePass: full, copyBufferToBuffer: full, finish: full};
  const faults = {
    createBuffer: {device: {createBuffer: full}}, createShaderModule: {device: {createShaderModule: full}},
    createBindGroup: {device: {createBindGroup: full}}, writeBuffer: {queue: {writeBuffer: full}},
    createCommandEncoder: {device: {createCommandEncoder: () => encoder}}, submit: {queue: {submit: full}},
  };
  for (const [name, fault] of Object.entries(faults)) {
    test(`${name}: the CPU continues`, async () => {
      for (const cache of [true, false]) {      // lost in an answer, or in a trial
        const model = await load(MODEL, {...HOW, cache, device: cache ? 'gpu' : 'auto', gpu: fakeGpu(fault)})
          .catch(error => { if (error.code !== 'IO') throw error; });
        if (!model) continue;                   // device: 'gpu', and it was lost at once
        assert.equal(await answer(model), wanted);
        assert.equal((await model.stats()).gpuLayers, 0);
        const {device, warnings} = model.info;
        assert.match(`${device.reason} ${warnings.join()}`, /the GPU was lost: not today/);
        await model.dispose();
      }
    });
  }
});

/* A module whose GPU says when its device is closed. */
async function telling(name, opens = '') {
  const file = join(WORK, `${name}.mjs`);
  await writeFile(file, `import {writeSync} from 'node:fs';
    import {fakeGpu} from ${FAKE};
    let told = 0;
    export function create() {
      const gpu = fakeGpu({device: {destroy() { if (!told++) writeSync(1, 'closed '); }}});
      const {requestAdapter} = gpu;
      return {requestAdapter: async wish => {
        ${opens}
        return requestAdapter(wish);
      }};
    }\n`);
  return file;
}
describe("a worker's GPU is closed before the process ends", () => {
  const loaded = (file, more = '') => `await load(QSF, {threads: 2, contextLength: 64, device: 'gpu',
    gpu: ${JSON.stringify(file)}${more}})`;
  test('without dispose()', async () => {
    const file = await telling('plain');
    assert.equal(await ended(`print((${loaded(file)}).info.device.kind + ' ');`), 'gpu closed ');
  });
  test('if loading is cancelled while it is opened', async () => {
    const file = await telling('slow', `writeSync(1, 'opened ');
      new BroadcastChannel('opening').postMessage('now');
      await new Promise(resolve => setTimeout(resolve, 3000));`);
    assert.equal(await ended(`
      const stop = new AbortController(), channel = new BroadcastChannel('opening');
      channel.onmessage = () => { channel.close(); stop.abort(); };
      ${loaded(file, ', signal: stop.signal')}.catch(error => print(error.name));`),
    'opened closed AbortError');
  });
  test('after an error in a terminal', async () => {
    const said = await printed([packaged('cli.js'), QSF, '-p', 'Hello', '-c', '64', '--temp=-1',
      '--device', 'gpu', '--gpu', await telling('terminal')], 1);
    assert.match(said, /^closed error: temperature /);
  });
});

describe('the module of a GPU', () => {
  const device = "print(`${model.info.device.kind}: ${model.info.warnings.join()}`);";
  const auto = (gpu, what = 'auto') => ended(`const model = await load(QSF,
    {threads: 1, contextLength: 64, device: '${what}', gpu: ${gpu}});
    ${device}
    await model.dispose();`);
  test('is found from the current folder', async () => {
    const folder = join(WORK, 'project/node_modules/some-gpu');
    await mkdir(folder, {recursive: true});
    await cp(await telling('some'), join(folder, 'index.mjs'));
    await writeFile(join(folder, 'package.json'), '{"name": "some-gpu", "main": "./index.mjs"}');
    const there = JSON.stringify(join(WORK, 'project'));
    assert.match(await auto(`(process.chdir(${there}), 'some-gpu')`, 'gpu'), /^gpu: closed/);
  });
  test('is missed with a warning', async () => {
    const empty = join(WORK, 'empty.mjs');
    await writeFile(empty, 'export const made = 1;\n');
    assert.match(await auto("'web-gpu'"), /cpu: gpu: .*web-gpu/);
    assert.match(await auto("'./no-such.node'"), /cpu: gpu: .*no-such/);
    assert.match(await auto(JSON.stringify(empty)), /cpu: gpu: .*empty.mjs has no function create/);
  });
  test('need not be one: a GPU may be a function', async () => {
    assert.match(await auto('Object.assign(() => {}, fakeGpu())', 'gpu'), /^gpu: /);
  });
});

describe("the GPU's memory", () => {
  const LAYERS = 12, MANY = tinyModel({codes: true, seed: 38, layers: LAYERS});
  async function device(options) {
    const model = await load(MANY, {...HOW, device: 'gpu', gpu: fakeGpu(), maxParallel: 1,
      ...options});
    const {device} = model.info;
    await model.dispose();
    return {...device, bytes: device.plan?.reduce((sum, {bytes}) => sum + bytes, 0)};
  }
  test('is planned, and limits the layers that go there', async () => {
    const all = await device(), [weights, kv, batch] = all.plan;
    assert.equal(all.layers, LAYERS);
    assert.deepEqual(all.plan.map(({name}) => name), ['weights', 'KV cache', 'batch']);
    // Q8_0: 34 bytes for 32 weights, f16 keys and values
    assert.ok(weights.bytes > LAYERS * 4 * 64 * 64 && weights.bytes < 2 * MANY.length, `${weights.bytes}`);
    assert.equal(kv.bytes, LAYERS * 64 * 2 * 64 * 2);
    assert.ok(batch.bytes > 0);
    let before = LAYERS;
    for (const share of [0.9, 0.7, 0.5]) {
      const limit = batch.bytes + share * (weights.bytes + kv.bytes);
      const some = await device({gpuMemory: limit / 1e6});
      assert.ok(some.layers > 0 && some.layers < before, `${some.layers} layers`);
      assert.ok(some.bytes <= limit, `${some.bytes} of ${limit}`);
      assert.match(some.reason, /^\d+ of 12 layers fit into \d+ MB$/);
      before = some.layers;
    }
  });
  test('may be too small for a layer', async () => {
    await assert.rejects(device({gpuMemory: 0.01}),
      code('BUDGET', /one layer needs \d+ MB of the GPU's memory/));
    const {kind, reason} = await device({gpuMemory: 0.01, device: 'auto'});
    assert.equal(kind, 'cpu');
    assert.match(reason, /one layer needs/);
  });
  test('is not all that limits them', async () => {
    const {layers, reason} = await device({gpuLayers: 5});
    assert.deepEqual([layers, reason], [5, 'at most 5 on the GPU']);
    for (const wrong of [{gpuLayers: 0}, {gpuLayers: 1.5}, {gpuMemory: -1}, {gpuMemory: '1'}])
      await assert.rejects(device(wrong), code('ARGUMENT', /^gpu(Layers|Memory) is .*; it must be a /));
  });
});

test('a GPU that computes wrong was loaded, and is replaced with a warning', async () => {
  const model = await load(MODEL, {...HOW, device: 'gpu', gpu: fakeGpu()}), {layers} = model.info.device;
  assert.deepEqual([layers, (await model.stats()).gpuLayers], [2, 2]);
  await answer(model);
  assert.equal((await model.stats()).gpuLayers, 0);
  assert.match(model.info.warnings.join(), /all layers are on the CPU now/);
  await model.dispose();
});

describe('a GPU object', () => {
  test('does not keep the process after dispose()', async () => {
    assert.match(await ended(`
      for (const device of ['gpu', 'auto']) {
        const model = await load(QSF, {threads: 3, contextLength: 64, device, gpu: fakeGpu()});
        print(model.info.device.kind);
        await model.dispose();
      }`), /^gpucpu/);
  });
  test('does not keep the process after load() was refused or cancelled', async () => {
    assert.match(await ended(`
      const none = {requestAdapter: async () => null};
      await load(QSF, {threads: 3, device: 'gpu', gpu: none}).catch(error => print(error.code));`),
    /^UNSUPPORTED/);
    for (const ms of [0, 30, 150]) {
      assert.match(await ended(`
        const signal = AbortSignal.timeout(${ms}), wait = setTimeout(() => {}, ${ms} + 100);
        const model = await load(QSF, {threads: 3, contextLength: 64, gpu: fakeGpu(), signal})
          .catch(error => print(error.name));
        await model?.dispose?.();
        print('.');`), /^(TimeoutError)?\.$/);
    }
  });
});
