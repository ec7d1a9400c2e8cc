/* The kernel table test with relaxed SIMD, as a WASI program in a page of real Chromium.  The one
 * with plain SIMD runs in Node.js.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_CHROMIUM names the browser (chromium), QSF_TEST_TOOLS the folder with playwright-core,
 * QSF_TEST_WASM the build. */
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';

const pages = join(fileURLToPath(new URL('.', import.meta.url)), 'browser');

let browser, server, page;
before(async () => {
  browser = await launch();
  server = await serve([['/test', pages], ['/build', process.env.QSF_TEST_WASM]]);
  page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/test/kernels.html`);
});
after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

test('kernels_test_relaxed passes', async () => {
  const {code, output} = await page.evaluate(() => runProgram('/build/tests/kernels_test_relaxed.wasm'));
  assert.equal(code, 0, output.split('\n').filter(line => !line.startsWith('ok')).join('\n'));
  assert.match(output, /best set here: wasm-dot/);
});
