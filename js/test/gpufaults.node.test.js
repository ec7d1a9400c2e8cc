/* What GPUs and their modules can do wrong, with fake ones.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {QSF, load, packaged} from './tools.js';
import {fakeGpu} from './fake_gpu.js';
import {tinyModel} from './tiny.js';

const MODEL = tinyModel({codes: true, seed: 38});
const HOW = {threads: 1, kv: 'f16', contextLength: 64, batch: 4};

async function answer(model) {
  let text = '';
  for await (const part of model.generate('Once', {temperature: 0, maxTokens: 6})) text += part;
  return text;
}
/* Runs a script that may use load, fakeGpu and QSF; its output, once it has ended by itself. */
function ended(script) {
  const head = `import {load} from ${JSON.stringify(pathToFileURL(packaged('node.js')))};
    import {fakeGpu} from ${JSON.stringify(new URL('fake_gpu.js', import.meta.url))};
    const QSF = ${JSON.stringify(QSF)}, print = text => process.stdout.write(text);\n`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', head + script],
    {stdio: ['ignore', 'pipe', 'pipe']});
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
      else if (code) reject(new Error(`it ended with ${code}: ${said}`));
      else if (signal) reject(new Error(`it ended with ${signal}: ${said}`));
      else resolve(said);
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
      const model = await load(MODEL, {...HOW, gpu: fakeGpu(fault)});
      assert.equal(await answer(model), wanted);
      assert.equal((await model.stats()).gpuLayers, 0);
      const {device, warnings} = model.info;
      assert.match(`${device.reason} ${warnings.join()}`, /the GPU was lost: not today/);
      await model.dispose();
    });
  }
});

describe('a GPU object', () => {
  test('does not keep the process after dispose()', async () => {
    assert.match(await ended(`
      const model = await load(QSF, {threads: 3, contextLength: 64, gpu: fakeGpu()});
      print(model.info.device.kind);
      await model.dispose();`), /^gpu/);
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
