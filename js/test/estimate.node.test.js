/* What a model would take, before it is loaded.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {open, rm, stat} from 'node:fs/promises';
import {join} from 'node:path';
import {test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {GGUF, QSF, QsfError, WORK, bytesOf, estimate, fileServer, load, packaged} from './tools.js';
import {hollowModel} from './tiny.js';

const KNOWN = ['format', 'architecture', 'name', 'parameters', 'fileBytes', 'weightBytes', 'vocabulary',
  'layers', 'trainedContext', 'contextLength', 'resident', 'slots', 'reductions'];

for (const [kind, file] of [['QSF', QSF], ['GGUF', GGUF]])
  for (const options of [{threads: 1}, {threads: 2, contextLength: 1024}, {threads: 1, memory: 60, kv: 'f16'},
    {threads: 1, memory: 40}])
    test(`${kind}, ${JSON.stringify(options)}: is what load() takes`, async () => {
      const before = await estimate(file, options), model = await load(file, options);
      const {info} = model;
      await model.dispose();
      for (const name of KNOWN) assert.deepEqual(before[name], info[name], name);
      assert.equal(before.format, kind);
      assert.equal(before.fits, true);
      assert.equal(before.memoryBytes, info.planBytes);
      assert.ok(before.leastBytes > 1e6 && before.leastBytes <= before.memoryBytes);
      assert.deepEqual(before.plan, info.plan);
      if (options.memory) {
        assert.ok(info.planBytes <= options.memory * 1e6);
        assert.ok(info.reductions.some(text => / of 30 layers stream$/.test(text)), info.reductions.join());
      } else {
        assert.deepEqual(info.reductions, []);
      }
    });
test('says what would be enough where memory is not', async () => {
  const little = await estimate(QSF, {memory: 3, threads: 1});
  assert.equal(little.fits, false);
  assert.ok(little.reductions.includes('second layer buffer left out'), little.reductions.join());
  assert.equal(little.memoryBytes, little.leastBytes);
  const model = await load(QSF, {memory: little.leastBytes / 1e6, threads: 1});
  assert.equal(model.info.planBytes, little.memoryBytes);
  await model.dispose();
  await assert.rejects(load(QSF, {memory: little.leastBytes / 1e6 - 0.1, threads: 1}),
    error => error.code === 'BUDGET');
});
for (const [kind, file, most] of [['QSF', QSF, 2.5e6], ['GGUF', GGUF, 5e6]])
  test(`reads only the description of a ${kind} file at a URL`, async t => {
    const server = await fileServer(file);
    t.after(server.close);
    const before = await estimate(server.url);
    assert.equal(before.fileBytes, (await stat(file)).size);
    assert.ok(server.sent < most, `${server.sent} bytes`);
    assert.ok(server.asked.every(range => range.startsWith('bytes=')));
  });
const SEVENS = {
  'Qwen 2.5': {embedding: 3584, forward: 18944, layers: 28, heads: 28, kvHeads: 4, vocabulary: 152064},
  Mistral: {embedding: 4096, forward: 14336, layers: 32, heads: 32, kvHeads: 8, vocabulary: 32768},
  'LLaMA 2': {embedding: 4096, forward: 11008, layers: 32, heads: 32, kvHeads: 32, vocabulary: 32000},
};
for (const [name, shape] of Object.entries(SEVENS))
  test(`${name}'s 7B in 4 bits on a GPU: at most 300 MB`, async t => {
    const {header, length} = hollowModel(shape), file = join(WORK, 'hollow.gguf');
    const written = await open(file, 'w');
    t.after(() => rm(file));
    await written.write(header);
    await written.truncate(length);
    await written.close();
    const cpu = await estimate(file, {device: 'cpu'}), gpu = await estimate(file, {device: 'gpu'});
    const [mb, all] = [gpu, cpu].map(({memoryBytes}) => (memoryBytes / 1e6).toFixed(0));
    t.diagnostic(`${mb} MB, ${all} on the CPU`);
    assert.ok(gpu.memoryBytes <= 300e6, JSON.stringify(gpu.plan));
    assert.ok(cpu.memoryBytes > 3.5e9);
    assert.deepEqual(gpu.reductions, []);
    const bytes = Object.fromEntries(gpu.plan.map(item => [item.name, item.bytes]));
    assert.equal(bytes['layers that stay'], 0);
    assert.equal(bytes.embedding ?? bytes['final norm and head'], undefined);
    assert.equal(gpu.leastBytes, cpu.leastBytes);       // a limit is for the CPU, too
  });
test('changes nothing of a context that is open', async () => {
  const part = name => import(pathToFileURL(packaged(name)));
  const [{Engine}, {nodeHost}, {bytesSource}, {checked}] = await Promise.all(
    ['engine.js', 'node_host.js', 'source.js', 'options.js'].map(part));
  const options = more => ({...checked('load', more), threads: 0});
  const engine = await Engine.create({...nodeHost({}), source: bytesSource(await bytesOf(QSF)), warn() {},
    shared: false, threads: 1, relaxed: false});
  await engine.open();
  await engine.context(options({memory: 40}), {error: new Error('no GPU')});
  const state = () => structuredClone([engine.info(), engine.warnings, engine.moves, engine.reading]);
  const before = state();
  assert.match(before[1].join(), /to stay within/);
  for (const [more, wanted] of [[{device: 'gpu'}, [true, 0]], [{contextLength: 64}, [true, 0]],
    [{memory: 3}, [false, 2]], [{memory: 40}, [true, 1]]]) {
    const {fits, warnings} = engine.estimate(options(more));
    assert.deepEqual([fits, warnings.length], wanted, JSON.stringify(more));
    assert.deepEqual(state(), before, JSON.stringify(more));
  }
  await engine.end();
});
test('takes bytes, and refuses what is no model', async () => {
  assert.equal((await estimate(await bytesOf(QSF))).layers, 30);
  await assert.rejects(estimate(new Uint8Array(1000)),
    error => error instanceof QsfError && error.code === 'CORRUPT');
  await assert.rejects(estimate(QSF, {kv: 'q3'}), error => error.code === 'ARGUMENT');
  const reason = new Error('never mind');
  await assert.rejects(estimate(QSF, {signal: AbortSignal.abort(reason)}), reason);
});
