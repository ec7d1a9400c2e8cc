/* Where the package's own files are, in Node.js: the options workerUrl and wasmPaths.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {cp, mkdir, rm} from 'node:fs/promises';
import {join} from 'node:path';
import {test} from 'node:test';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {PACKAGE, WORK, code, estimate, load, packaged} from './tools.js';

const TINY = fileURLToPath(new URL('../../tests/golden/tiny.qsf', import.meta.url)),
  MORE = {contextLength: 64, threads: 2};

test('a copy elsewhere runs, by path and by URL', async () => {
  const copy = join(WORK, 'a copy');
  await rm(copy, {recursive: true, force: true});
  await mkdir(join(copy, 'modules'), {recursive: true});
  for (const variant of ['simd', 'simd-threads'])
    await cp(packaged(`qsf-${variant}.wasm`), join(copy, `modules/qsf-${variant}.wasm`));
  for (const wasmPaths of [
    join(copy, 'modules'),
    pathToFileURL(join(copy, 'modules')),
    {'simd-threads': join(copy, 'modules/qsf-simd-threads.wasm')},
  ])
    for (const workerUrl of [packaged('worker-node.js'), pathToFileURL(packaged('worker-node.js'))]) {
      const model = await load(TINY, {...MORE, relaxed: false, workerUrl, wasmPaths});
      await model.dispose();
      assert.equal(model.info.variant, 'simd-threads');
    }
  assert.equal((await estimate(TINY, {workerUrl: join(PACKAGE, 'worker-node.js')})).format, 'QSF');
});

test('what is not there is named', async () => {
  await assert.rejects(
    load(TINY, {wasmPaths: '/nowhere'}),
    code('IO', /nowhere.qsf-\S+\.wasm: ENOENT; the option wasmPaths says/),
  );
  await assert.rejects(load(TINY, {workerUrl: '/nowhere/worker-node.js'}), code('WORKER', /nowhere/));
  await assert.rejects(
    load(TINY, {workerUrl: 'https://example.org/worker.js'}),
    code('ARGUMENT', /it must be a path or a file: URL/),
  );
  for (const [wasmPaths, pattern] of [
    [7, /^wasmPaths is 7; it must be a folder/],
    [null, /^wasmPaths is null/],
    [{simd: 7}, /^wasmPaths\.simd is 7/],
    [{simt: ''}, /^wasmPaths has simt; the names are simd, /],
  ])
    await assert.rejects(load(TINY, {wasmPaths}), code('ARGUMENT', pattern));
  await assert.rejects(
    estimate(TINY, {workerUrl: ''}),
    code('ARGUMENT', /^workerUrl is ""; it must be an address/),
  );
});
