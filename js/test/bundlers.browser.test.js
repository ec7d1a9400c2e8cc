/* The package when its files are not next to the page's script: bundled by esbuild, on another
 * origin, shared workers.
 * SPDX-License-Identifier: MIT
 *
 * The recipes are those of docs/bundlers.md; bundlers.mjs tries what takes longer,
 * vite.browser.test.js Vite. */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {cp, mkdir, rm, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE, WORK, collect, load} from './tools.js';

const TOOLS = process.env.QSF_TEST_TOOLS;
const TINY = fileURLToPath(new URL('../../tests/golden/tiny.qsf', import.meta.url)),
  folder = join(WORK, 'bundlers');
const html = script =>
  '<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title><link rel="icon" ' +
  `href="data:,">${script}</html>`;
/* What every page, worker and bundle here runs. */
const ANSWER = `async function answer(load, options) {
  const url = new URL('/model.qsf', location.href), ids = [];
  const model = await load(url, {contextLength: 64, threads: 2, ...options});
  const how = {temperature: 0, maxTokens: 12, ignoreEnd: true, onToken: id => ids.push(id)};
  for await (const text of model.generate('abc', how)) void text;
  await model.dispose();
  return {ids, variant: model.info.variant, warnings: model.info.warnings};
}
const told = error => ({name: error.name, code: error.code, message: error.message});
`;
const MAIN =
  `import {load} from 'qsf';\n${ANSWER}globalThis.run = options => answer(load, options).catch(told);\n`;

let browser, wanted, site, cdn;
before(async () => {
  await rm(folder, {recursive: true, force: true});
  await mkdir(join(folder, 'app/node_modules'), {recursive: true});
  await cp(PACKAGE, join(folder, 'app/node_modules/qsf'), {recursive: true});
  cdn = await serve([['/npm/qsf@1.2.3', PACKAGE]], {isolation: false});
  cdn.prependListener('request', (request, response) =>
    response.setHeader('access-control-allow-origin', '*'),
  );
  const at = `http://127.0.0.1:${cdn.address().port}/npm/qsf@1.2.3`;
  const files = {
    'app/package.json': '{"private": true, "type": "module"}',
    'app/main.js': MAIN,
    'app/dist/index.html': html('<script type="module" src="main.js"></script>'),
    'app/bare/index.html': html('<script type="module" src="main.js"></script>'),
    'app/iife/index.html': html('<script src="main.js"></script>'),
    'cdn.html': html(
      `<script type="module">import {load} from '${at}/browser.js';\n${ANSWER}globalThis.run = options => ` +
        'answer(load, options).catch(told);</script>',
    ),
    'empty.html': html(''),
    'shared.js': `import {load} from '/qsf/browser.js';\n${ANSWER}
      onconnect = ({ports: [port]}) => {
        port.onmessage = ({data}) => answer(load, data).catch(told).then(r => port.postMessage(r));
      };`,
    'service.js': `import {load} from '/qsf/browser.js';\n${ANSWER}
      onmessage = event => event.waitUntil(
        answer(load, {}).catch(told).then(r => event.source.postMessage(r)));`,
  };
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), {recursive: true});
    await writeFile(join(folder, name), text);
  }
  site = await serve([
    ['/', folder],
    ['/qsf', PACKAGE],
    ['/model.qsf', TINY],
  ]);
  browser = await launch();

  const model = await load(TINY, {contextLength: 64}),
    ids = [];
  await collect(
    model.generate('abc', {temperature: 0, maxTokens: 12, ignoreEnd: true, onToken: id => ids.push(id)}),
  );
  await model.dispose();
  assert.equal(ids.length, 12);
  wanted = ids;
});
after(async () => {
  await browser?.close();
  for (const server of [site, cdn]) {
    server?.closeAllConnections();
    server?.close();
  }
});

const esbuild = (...args) =>
  execFileSync(join(TOOLS, 'node_modules/.bin/esbuild'), [...args, '--bundle', '--log-level=warning'], {
    cwd: join(folder, 'app'),
    encoding: 'utf8',
    stdio: 'pipe',
  });

async function open(t, path) {
  const page = await browser.newPage();
  t.after(() => page.close());
  await page.goto(`http://127.0.0.1:${site.address().port}/${path}`);
  return page;
}
/* A page's function: it loads with options and returns the result. */
async function runner(t, path) {
  const page = await open(t, path);
  await page.waitForFunction(() => globalThis.run, undefined, {polling: 20, timeout: 240_000});
  return (options = {}) => page.evaluate(o => run(o), options);
}
function answered({ids, variant, warnings, ...error}, how) {
  assert.deepEqual(error, {});
  assert.deepEqual(ids, wanted);
  assert.equal(variant, how);
  return warnings;
}
function refused({name, code, message}, wantedCode, pattern) {
  assert.equal(name, 'QsfError', message);
  assert.equal(code, wantedCode, message);
  assert.match(message, pattern);
}

test('esbuild: the worker is an entry of its own, the modules are copied', async t => {
  esbuild('main.js', 'worker-web=node_modules/qsf/worker-web.js', '--format=esm', '--outdir=dist');
  for (const variant of ['simd', 'relaxed', 'simd-threads', 'relaxed-threads'])
    await cp(join(PACKAGE, `qsf-${variant}.wasm`), join(folder, `app/dist/qsf-${variant}.wasm`));
  assert.deepEqual(answered(await (await runner(t, 'app/dist/'))(), 'relaxed-threads'), []);
});

test('esbuild without that: errors that say what to do, and the files elsewhere', async t => {
  esbuild('main.js', 'engine=node_modules/qsf/worker-web.js', '--format=esm', '--outdir=bare');
  const run = await runner(t, 'app/bare/');
  refused(
    await run(),
    'WORKER',
    /\/app\/bare\/worker-web\.js: its script could not be loaded; .* workerUrl says .*docs\/bundlers\.md/,
  );
  answered(await run({workerUrl: '/qsf/worker-web.js'}), 'relaxed-threads');
  const at = `http://127.0.0.1:${cdn.address().port}/npm/qsf@1.2.3/`;
  answered(await run({workerUrl: `${at}worker-web.js`}), 'relaxed-threads');
  answered(await run({workerUrl: 'engine.js', wasmPaths: '/qsf'}), 'relaxed-threads');
  answered(await run({workerUrl: '../../qsf/worker-web.js', wasmPaths: at, threads: 1}), 'relaxed');
  answered(
    await run({workerUrl: '/qsf/worker-web.js', wasmPaths: {relaxed: `${at}qsf-simd.wasm`}, threads: 1}),
    'relaxed',
  );
  refused(
    await run({workerUrl: '/qsf/worker-web.js', wasmPaths: 'none'}),
    'HTTP',
    /\/app\/bare\/none\/qsf-\S+\.wasm: the server answered 404; the option wasmPaths says/,
  );
  refused(await run({workerUrl: 5}), 'ARGUMENT', /^workerUrl is 5; it must be an address$/);
  refused(await run({wasmPaths: {simt: '/x.wasm'}}), 'ARGUMENT', /^wasmPaths has simt; the names are simd, /);
});

test('esbuild: a classic script has no address, until it is told one', async t => {
  execFileSync(
    join(TOOLS, 'node_modules/.bin/esbuild'),
    ['main.js', '--bundle', '--format=iife', '--outdir=iife', '--log-level=error'],
    {cwd: join(folder, 'app')},
  );
  const run = await runner(t, 'app/iife/');
  refused(await run(), 'WORKER', /its place in the bundle: .*workerUrl/);
  answered(await run({workerUrl: '/qsf/worker-web.js'}), 'relaxed-threads');
});

test('another origin: workers start by way of a blob', async t => {
  assert.deepEqual(answered(await (await runner(t, 'cdn.html'))(), 'relaxed-threads'), []);
});

test('another origin whose server does not allow that', async t => {
  const closed = await serve([['/qsf', PACKAGE]], {isolation: false});
  t.after(() => {
    closed.closeAllConnections();
    closed.close();
  });
  const workerUrl = `http://127.0.0.1:${closed.address().port}/qsf/worker-web.js`;
  refused(
    await (
      await runner(t, 'app/bare/')
    )({workerUrl}),
    'WORKER',
    /another origin: that server has to allow CORS, this page's policy worker-src blob:/,
  );
});

test('a shared worker: one thread, its own; what a page stored is read there', async t => {
  const page = await open(t, 'empty.html');
  const ask = () =>
    page.evaluate(
      () =>
        new Promise((resolve, reject) => {
          const worker = new SharedWorker('/shared.js', {type: 'module'});
          worker.onerror = () => reject(new Error('no shared worker'));
          worker.port.onmessage = event => resolve(event.data);
          worker.port.postMessage({});
        }),
    );
  assert.match(answered(await ask(), 'relaxed').join(), /not stored: a shared worker cannot write files/);
  await page.evaluate(async () => {
    await (await (await import('/qsf/browser.js')).load('/model.qsf', {contextLength: 64})).dispose();
  });
  assert.doesNotMatch(answered(await ask(), 'relaxed').join(), /not stored/);
});

test('a service worker: a clear no', async t => {
  const page = await open(t, 'empty.html');
  refused(
    await page.evaluate(async () => {
      const registration = await navigator.serviceWorker.register('/service.js', {type: 'module'});
      const heard = new Promise(resolve => {
        navigator.serviceWorker.onmessage = event => resolve(event.data);
      });
      navigator.serviceWorker.startMessages();
      while (!registration.active) await new Promise(resolve => setTimeout(resolve, 20));
      registration.active.postMessage('go');
      return heard;
    }),
    'UNSUPPORTED',
    /load the model in a page/,
  );
});
