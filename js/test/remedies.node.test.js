/* What a failed load() says: what was tried, and what may help.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {QsfError, load, packaged} from './tools.js';
import {fakeGpu} from './fake_gpu.js';
import {tinyModel} from './tiny.js';

const MODEL = tinyModel({codes: true, seed: 38});
const {withRemedies} = await import(pathToFileURL(packaged('remedies.js')));

test('remedies follow from the code of the error and from the options', () => {
  const usual = {memory: 0, contextLength: 0, threads: 0, device: 'auto', gpuMemory: 0};
  const cases = [
    ['MEMORY', 'out of memory', {}, ['limit', 'context', 'quantisation']],
    ['MEMORY', 'out of memory', {memory: 9, contextLength: 64, device: 'gpu'},
      ['lowerLimit', 'quantisation', 'cpu']],
    ['MEMORY', 'a buffer on the GPU: full', {device: 'gpu'}, ['context', 'quantisation', 'cpu']],
    ['BUDGET', 'a.gguf needs at least 9 MB', {memory: 8}, ['raiseLimit', 'quantisation']],
    ['BUDGET', "one layer needs 9 MB of the GPU's memory", {gpuMemory: 1}, ['gpuMemory', 'context', 'cpu']],
    ['WORKER', "the engine's worker ended", {}, ['limit', 'context', 'quantisation', 'threads', 'cpu']],
    ['WORKER', "the engine's worker ended", {threads: 1, device: 'cpu'},
      ['limit', 'context', 'quantisation']],
    ['UNSUPPORTED', 'this browser has no WebGPU', {device: 'gpu'}, ['cpu']],
    ['UNSUPPORTED', 'the architecture x', {}, undefined],
    ['IO', 'the GPU was lost', {device: 'gpu'}, ['cpu']],
    ['NOT_FOUND', 'no such file', {}, undefined],
  ];
  for (const [code, message, options, wanted] of cases) {
    const error = withRemedies(new QsfError(code, message), {...usual, ...options});
    assert.deepEqual(error.remedies, wanted, message);
    assert.equal(error.code, code);
    assert.equal(error.message.startsWith(message), true);
    assert.equal(error.reason ?? error.message, message);
  }
});
test('a load that fails names them, and what was tried', async () => {
  const refused = async (options, wanted) => {
    const error = await load(MODEL, options).then(() => undefined, failed => failed);
    assert.match(error?.message, wanted);
    return error;
  };
  const long = {contextLength: 2 ** 24, device: 'cpu'};
  const {code, reason, remedies} = await refused({...long, threads: 2, relaxed: false},
    /^out of memory: \d+ bytes for \D+ \(also when loaded again with one thread\)\. What may help: set /);
  assert.deepEqual([code, remedies], ['MEMORY', ['limit', 'context', 'quantisation']]);
  assert.match(reason, /one thread\)$/);
  await refused({...long, threads: 1}, /^out of memory: \d+ bytes for [^(]+\. What may help: /);
  await refused({memory: 0.1}, /needs at least .*\. What may help: raise the memory limit \(option memory/);
  await refused({device: 'gpu'}, /WebGPU.*\. What may help: compute on the CPU/);
  await refused({device: 'gpu', gpu: fakeGpu(), gpuMemory: 0.01}, /What may help: raise gpuMemory; .*CPU/);
});
test('a load that succeeds in the second attempt says why there was one', async () => {
  const parts = ['serve.js', 'node_host.js', 'options.js'].map(name => import(pathToFileURL(packaged(name))));
  const [{serve}, {nodeHost}, {checked}] = await Promise.all(parts), told = [];
  const closed = new Set();
  let asked = 0;
  const host = {...nodeHost(), mayNotBlock: true, post: m => told.push(m), gpu() {
    const number = ++asked;
    return fakeGpu({device: {destroy() { closed.add(number); }}});
  }};
  // the first module that uses the GPU has no memory
  const {compile} = host;
  let first = true;
  host.compile = async variant => {
    if (!variant.startsWith('gpu') || !first) return compile(variant);
    first = false;
    throw new QsfError('MEMORY', 'out of memory: 7 bytes');
  };
  const take = serve(host), options = {...checked('load', {threads: 2, device: 'gpu', contextLength: 64})};
  await take({op: 'open', id: 1, from: {bytes: MODEL}, options});
  const {value, error} = told.find(({id}) => id === 1);
  assert.equal(error, undefined);
  assert.deepEqual([value.device.kind, value.threads, asked, ...closed], ['gpu', 1, 2, 1]);
  assert.deepEqual(value.warnings, ['out of memory: 7 bytes; loaded again with one thread']);
  await take({op: 'end'});
});

/* This reader does not answer before the module is wanted: load() would wait for ever if it opened
 * the file first. */
test('the module starts while the file is opened, and ends if that fails', async () => {
  const parts = ['serve.js', 'node_host.js', 'options.js', 'errors.js']
    .map(name => import(pathToFileURL(packaged(name))));
  const [{serve}, {nodeHost}, {checked}, {pack}] = await Promise.all(parts), told = [];
  const host = {...nodeHost(), mayNotBlock: true};
  const {compile, startThread} = host;
  let hear, wanted, ended;
  const compiles = new Promise(resolve => { wanted = resolve; }),
    ends = new Promise(resolve => { ended = resolve; });
  host.post = message => told.push(message);
  host.compile = variant => {
    wanted();
    return compile(variant);
  };
  host.startReader = () => ({
    onMessage(fn) { hear = fn; }, onFailure() {}, terminate() {},
    post({op}) {
      if (op === 'close') return hear({closed: true});
      return compiles.then(() => hear({error: pack(new QsfError('NOT_FOUND', 'no file'))}));
    },
  });
  host.startThread = async init => {
    const thread = await startThread(init);
    return {terminate() { thread.terminate(); ended(); }};
  };
  const options = {...checked('load', {threads: 2, device: 'cpu', contextLength: 64})};
  const take = serve(host);
  await take({op: 'open', id: 1, from: {path: 'x.gguf'}, options});
  assert.equal(told.find(({id}) => id === 1).error.code, 'NOT_FOUND');
  await Promise.all([take({op: 'end'}), ends]);
});
