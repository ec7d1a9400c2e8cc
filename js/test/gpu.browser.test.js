/* The option device in a page of real Chromium, whose GPU is SwiftShader.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE} from './tools.js';

const here = fileURLToPath(new URL('.', import.meta.url));
let server;
before(async () => { server = await serve([['/tests', here], ['/js', PACKAGE]], {isolation: true}); });
after(() => {
  server.closeAllConnections();
  server.close();
});

/** What each of these options gives: the device and an answer, or a code.  Runs in the page. */
async function answers(all) {
  const {load} = await import('/js/browser.js'), {tinyModel} = await import('/tests/tiny.js');
  const got = [];
  for (const options of all) {
    try {
      const model = await load(tinyModel({codes: true, seed: 38}),
        {kv: 'f16', contextLength: 64, batch: 4, ...options});
      let text = '';
      for await (const part of model.generate('Once', {temperature: 0, maxTokens: 12})) text += part;
      got.push({...model.info.device, text});
      await model.dispose();
    } catch ({code, message}) {
      got.push({code, message});
    }
  }
  return got;
}
async function inPage(t, flags, all) {
  const browser = await launch(...flags), errors = [];
  t.after(() => browser.close());
  const page = await browser.newPage();
  page.on('pageerror', error => errors.push(error.message));
  await page.goto(`http://127.0.0.1:${server.address().port}/tests/browser/empty.html`);
  const modules = [];
  page.on('request', request => {
    if (request.url().endsWith('.wasm')) modules.push(request.url().split('/').pop());
  });
  const hasGpu = await page.evaluate(() => !!navigator.gpu), got = await page.evaluate(answers, all);
  assert.deepEqual(errors, []);
  return {hasGpu, got, modules};
}

test('a GPU gives the same text as the CPU', {timeout: 480_000}, async t => {
  const {hasGpu, got: [cpu, auto, one, threads]} = await inPage(t,
    ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'],
    [{device: 'cpu'}, {}, {device: 'gpu', threads: 1}, {device: 'gpu', threads: 2}]);
  if (!hasGpu) return t.skip('this Chromium has no navigator.gpu');
  assert.equal(cpu.kind, 'cpu');
  assert.equal(cpu.text.length, 12);
  assert.equal(auto.kind, 'cpu');
  assert.match(auto.reason, /SwiftShader.* emulates a GPU on the CPU/i);
  for (const gpu of [one, threads]) {
    assert.equal(gpu.message, undefined);
    assert.deepEqual([gpu.kind, gpu.layers, gpu.reason, gpu.text], ['gpu', 2, '', cpu.text]);
    assert.match(gpu.name, /SwiftShader/i);
  }
  return undefined;
});

test('a GPU that loses a trial is left out, and the page keeps that', {timeout: 480_000}, async t => {
  const passing = {threads: 1, workerUrl: '/tests/browser/passing_worker.js'};
  const {hasGpu, got: [cpu, first, next, anew]} = await inPage(t,
    ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'],
    [{device: 'cpu'}, passing, passing, {...passing, cache: false}]);
  if (!hasGpu) return t.skip('this Chromium has no navigator.gpu');
  assert.match(first.reason, /^none a card is slower than this processor in a trial: [\d.]+ ms against /);
  assert.deepEqual([first.kind, first.layers, first.text], ['cpu', 0, cpu.text]);
  assert.deepEqual(next, first);
  assert.equal(anew.kind, 'cpu');
  assert.notDeepEqual(anew.trial, first.trial);
  return undefined;
});

test('without a GPU nothing of it is fetched', {timeout: 120_000}, async t => {
  const {got: [auto, gpu, given], modules} = await inPage(t, ['--disable-gpu', '--disable-features=WebGPU'],
    [{threads: 1}, {device: 'gpu'}, {gpu: 'webgpu'}]);
  assert.deepEqual([auto.kind, auto.layers, auto.text.length], ['cpu', 0, 12]);
  assert.match(auto.reason, /WebGPU/);
  assert.equal(gpu.code, 'UNSUPPORTED');
  assert.equal(given.code, 'ARGUMENT');
  assert.deepEqual(modules.filter(name => name.includes('gpu')), []);
});
