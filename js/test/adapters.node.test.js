/* Adapters (LoRA): answers with them are those of qsf-run --lora; loaded from anywhere, freed at
 * any time.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {WORK, code, collect, fileServer, load} from './tools.js';
import {tinyAdapter, tinyModel} from './tiny.js';

const tiny = tinyModel(), path = join(WORK, 'tiny.gguf');
const bytes = {a: tinyAdapter({seed: 5}), b: tinyAdapter({seed: 6, rank: 9, alpha: 0})};
const file = name => join(WORK, `${name}.lora.gguf`);
let model, a, b;
before(async () => {
  await writeFile(path, tiny);
  for (const [name, all] of Object.entries(bytes)) await writeFile(file(name), all);
  model = await load(tiny, {threads: 2});
  a = await model.loadAdapter(bytes.a);
  b = await model.loadAdapter(file('b'), {scale: -0.5});
});
after(() => model.dispose());

const GREEDY = {temperature: 0, maxTokens: 24, ignoreEnd: true};
/** The tokens of an answer. */
async function said(adapters, more = {}, of = model) {
  const ids = [];
  const asked = {...GREEDY, ...more, ...(adapters && {adapters}), onToken: id => ids.push(id)};
  await collect(of.generate('abc', asked));
  return ids;
}
const native = (...uses) => JSON.parse(execFileSync(process.env.QSF_TEST_RUN,
  ['-m', path, '--raw', '-p', 'abc', '--temp', '0', '-n', '24', '--ignore-eos', '--json',
    ...uses.flatMap(use => ['--lora', use])])).ids;

test('says what it is', () => {
  assert.equal(a.info.name, 'adapter 5');
  assert.deepEqual([a.info.matrices, a.info.rank, a.info.alpha, a.scale], [14, 4, 8, 1]);
  assert.deepEqual([b.info.rank, b.info.alpha, b.scale], [9, 0, -0.5]);
  assert.ok(a.info.bytes > 2 * 14 * 4 * 64 && Object.isFrozen(a.info));
});
test('answers are those of qsf-run --lora', async () => {
  const sets = [[undefined], [[]], [[a], file('a')], [[b], `${file('b')}:-0.5`],
    [[{adapter: b, scale: 1}, a], `${file('b')}:1`, file('a')],
    [[{adapter: a, scale: 0.25}], `${file('a')}:0.25`],
    [[{adapter: a}], file('a')], [[{adapter: a, scale: 0}]]];
  const want = sets.map(([, ...uses]) => native(...uses));
  assert.equal(new Set(want.map(String)).size, 5);      // they change something
  for (let round = 0; round < 2; round++)
    for (const [i, [adapters]] of sets.entries()) assert.deepEqual(await said(adapters), want[i], String(i));
});
test('what an answer with the same ones has in common is not computed again', async () => {
  const rows = async adapters => {
    const {promptTokens} = await model.stats();
    await said(adapters);
    return (await model.stats()).promptTokens - promptTokens;
  };
  await said([a]);
  const whole = await rows([b]);
  assert.ok(whole >= 3, String(whole));
  assert.ok(await rows([b]) < whole);
  assert.equal(await rows([{adapter: b, scale: -0.25}]), whole);
});
test('chat() and embed() take them', async () => {
  const talk = async adapters => (await collect(model.chat([{role: 'user', content: 'ab'}],
    {...GREEDY, template: 'plain', adapters}))).text;
  assert.notEqual(await talk([a]), await talk([]));
  assert.equal(await talk([a]), await talk([a]));
  const [plain, other, again] = [await model.embed('abc'), await model.embed('abc', {adapters: [a]}),
    await model.embed('abc')];
  assert.notDeepEqual(plain, other);
  assert.deepEqual(plain, again);
});
test('they come from wherever a model comes from', async () => {
  const want = await said([a]), server = await fileServer(file('a'));
  const sources = [bytes.a, bytes.a.buffer, new Blob([bytes.a]), file('a'), server.url, new URL(server.url)];
  for (const cache of [true, false])
    for (const source of sources) {
      const one = await model.loadAdapter(source, {cache});
      assert.deepEqual(await said([one]), want);
      await one.free();
    }
  server.close();
});
test('what is none is refused, and the model works on', async () => {
  const cut = bytes.a.slice(0, 900);
  await assert.rejects(model.loadAdapter(cut), code('CORRUPT'));
  await assert.rejects(model.loadAdapter(new Uint8Array(0)), code('UNSUPPORTED'));
  await assert.rejects(model.loadAdapter(tiny), code('UNSUPPORTED', /adapter/));
  await assert.rejects(model.loadAdapter(tinyAdapter({architecture: 'qwen2'})), code('UNSUPPORTED', /qwen2/));
  await assert.rejects(model.loadAdapter(tinyAdapter({layers: 3})), error => error.name === 'QsfError');
  await assert.rejects(model.loadAdapter(join(WORK, 'none')), code('NOT_FOUND'));
  await assert.rejects(model.loadAdapter(7), code('ARGUMENT'));
  await assert.rejects(model.loadAdapter(bytes.a, {scale: '1'}), code('ARGUMENT', /scale/));
  await assert.rejects(model.loadAdapter(bytes.a, {signal: AbortSignal.abort(new Error('no'))}), /no/);
  const other = await load(tiny, {threads: 1}), foreign = await other.loadAdapter(bytes.a);
  for (const adapters of [a, [7], [{}], [{adapter: a, scale: NaN}], [{adapter: a, scale: 2e6}],
    new Array(9).fill(a), [foreign], [{adapter: bytes.a}]])
    await assert.rejects(said(adapters), code('ARGUMENT'));
  await other.dispose();
  assert.deepEqual(await said([a]), native(file('a')));
});
test('a download that is left leaves nothing', async () => {
  let arrived;
  const asked = new Promise(resolve => { arrived = resolve; });
  const server = await fileServer(file('a'), (request, response, {send}) => {
    send({hold: {at: 100, until: new Promise(() => {})}});
    arrived();
    return true;
  });
  const stop = new AbortController();
  const loading = model.loadAdapter(server.url, {cache: false, signal: stop.signal});
  await asked;
  stop.abort(new Error('enough'));
  await assert.rejects(loading, /enough/);
  server.close();
  assert.deepEqual(await said([a]), native(file('a')));
});
test('one that is freed stays for the answer that has it', async () => {
  const one = await model.loadAdapter(bytes.a), ids = [];
  const answer = model.generate('abc', {...GREEDY, adapters: [one], onToken: id => ids.push(id)});
  await answer.next();
  await one.free();
  await one.free();
  await assert.rejects(said([one]), code('ARGUMENT', /freed/));
  await collect(answer);
  assert.deepEqual(ids, native(file('a')));
  assert.deepEqual(await said(), native());
  const next = await model.loadAdapter(bytes.b);
  assert.deepEqual(await said([next]), native(file('b')));
  await next.free();
});
test('freeing gives the memory back', async () => {
  const {memoryBytes} = await model.stats();
  for (let i = 0; i < 40; i++) {
    const one = await model.loadAdapter(bytes.b);
    await said([one], {maxTokens: 1});
    await one.free();
  }
  assert.ok((await model.stats()).memoryBytes - memoryBytes < 20 * b.info.bytes);
});
test('sessions belong to their adapters', async () => {
  await said([a]);
  const session = await model.saveSession(), other = await load(tiny, {threads: 1});
  const own = await other.loadAdapter(bytes.a);
  await assert.rejects(other.loadSession(session), code('ARGUMENT', /adapters/));
  const less = [{adapter: own, scale: 0.5}];
  await assert.rejects(other.loadSession(session, {adapters: less}), code('ARGUMENT'));
  assert.ok(await other.loadSession(session, {adapters: [own]}) > 20);
  assert.deepEqual(await said([own], {}, other), native(file('a')));
  await other.dispose();
});
test('a budget has room for them where it was asked for', async () => {
  const {planBytes} = (await load(tiny, {threads: 1})).info;
  for (const adapterMemory of [0, 1]) {
    const tight = await load(tiny, {threads: 1, memory: planBytes / 1e6 + 4, adapterMemory});
    const one = await tight.loadAdapter(bytes.a);
    if (adapterMemory) assert.deepEqual(await said([one], {}, tight), native(file('a')));
    else await assert.rejects(said([one], {}, tight), code('BUDGET', /adapter-memory/));
    assert.deepEqual(await said([], {}, tight), native());
    await tight.dispose();
  }
});
