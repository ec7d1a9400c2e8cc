/* The package in a page that Vite bundled: workers and modules are found where the
 * bundler puts them.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {cp, mkdir, readdir, rm, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {promisify} from 'node:util';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE, QSF, QUESTION, WORK, nativeTokens} from './tools.js';

const TOOLS = process.env.QSF_TEST_TOOLS;
const PAGE = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>vite</title><link rel="icon" href="data:,">
<script type="module" src="./main.js"></script></html>`;
const SCRIPT = "import {load} from 'qsf';\nglobalThis.load = load;\n";
/* Workers of modules are what the package starts; 'iife' is Vite's default. */
const CONFIGS = {default: '', es: "export default {worker: {format: 'es'}};\n"};

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

for (const [name, config] of Object.entries(CONFIGS))
  test(`a bundle with ${name === 'default' ? "Vite's own settings" : `worker.format '${name}'`}`,
    {timeout: 480_000}, async t => {
      const folder = join(WORK, `vite-${name}`);
      await rm(folder, {recursive: true, force: true});
      await mkdir(join(folder, 'node_modules'), {recursive: true});
      await cp(PACKAGE, join(folder, 'node_modules/qsf'), {recursive: true});
      for (const [file, text] of [['index.html', PAGE], ['main.js', SCRIPT],
        ['package.json', '{"private": true, "type": "module"}'],
        ...(config ? [['vite.config.js', config]] : [])])
        await writeFile(join(folder, file), text);
      const {stderr} = await promisify(execFile)(process.execPath,
        [join(TOOLS, 'node_modules/vite/bin/vite.js'), 'build', '--base', './'], {cwd: folder});
      assert.equal(stderr, '');
      const files = await readdir(join(folder, 'dist'), {recursive: true});
      assert.equal(files.filter(f => f.endsWith('.wasm')).length, 7, files.join(' '));

      const server = await serve([['/app', join(folder, 'dist')], ['/model.qsf', QSF]], {isolation: true}),
        page = await browser.newPage(), errors = [];
      t.after(async () => {
        await page.close();
        server.closeAllConnections();
        server.close();
      });
      page.on('pageerror', error => errors.push(error.message));
      page.on('console', message => { if (message.type() === 'error') errors.push(message.text()); });
      await page.goto(`http://127.0.0.1:${server.address().port}/app/`);
      await page.waitForFunction(() => globalThis.load, undefined, {polling: 50, timeout: 240_000});
      const {ids, variant} = await page.evaluate(async messages => {
        const model = await load('/model.qsf', {threads: 2, contextLength: 512}), ids = [];
        for await (const text of model.chat(messages,
          {temperature: 0, maxTokens: 24, onToken: id => ids.push(id)}))
          void text;
        await model.dispose();
        return {ids, variant: model.info.variant};
      }, QUESTION);
      assert.deepEqual(errors, []);
      assert.equal(variant, 'relaxed-threads');
      assert.deepEqual(ids, nativeTokens(QSF, 24));
    });
