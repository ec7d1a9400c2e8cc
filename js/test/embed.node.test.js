/* Embeddings and ranks: the native program's numbers, what is refused, what ends early.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {QSF, WORK, answer, code, estimate, load} from './tools.js';

const TEXTS = ['the cat sat on the mat', 'a', 'once upon a time there was another text'];
const native = (model, ...more) =>
  JSON.parse(execFileSync(process.env.QSF_TEST_RUN, ['-m', model, '--json', '-t', '1', ...more]));
const file = name => join(WORK, `${name}.gguf`);
const close = (got, wanted, within = 1e-4) => {
  assert.equal(got.length, wanted.length);
  const scale = Math.max(...wanted.map(Math.abs));
  wanted.forEach((x, i) => assert.ok(Math.abs(got[i] - x) <= within * scale, `${i}: ${got[i]}, not ${x}`));
};
const length = x => Math.hypot(...x);

let encoder, decoder;
before(async () => {
  execFileSync(process.env.QSF_PYTHON ?? 'python3',
    ['tests/parity/make_tiny.py', WORK, 'bert', 'bert-rank'], {stdio: 'ignore'});
  encoder = await load(file('bert-rank'), {threads: 1, batch: 512});
  decoder = await load(QSF, {threads: 2, contextLength: 512});
});
after(() => Promise.all([encoder.dispose(), decoder.dispose()]));

test('vectors are those of the native program', async () => {
  for (const [path, model] of [[file('bert-rank'), encoder], [QSF, decoder]])
    for (const pooling of ['mean', 'cls', 'last']) {
      const right = native(path, '--embedding', '--pooling', pooling, '-p', TEXTS.join('\n')).data;
      const got = await model.embed(TEXTS, {pooling});
      got.forEach((x, i) => {
        assert.ok(x instanceof Float32Array);
        /* of the same model in another instruction set, too */
        assert.ok(x.reduce((sum, v, k) => sum + v * right[i].embedding[k], 0) > 0.998);
        assert.ok(Math.abs(length(x) - 1) < 1e-5);
      });
      assert.deepEqual(await model.embed(TEXTS[1], {pooling}), got[1]);
      const ids = await model.tokenize(TEXTS[1], {addSpecial: true, parseSpecial: true});
      assert.deepEqual(await model.embed([ids, TEXTS[0]], {pooling}), [got[1], got[0]]);
    }
});
test('poolings are made of the tokens', async () => {
  const width = encoder.info.embedding, how = {normalize: false};
  const tokens = await encoder.embed(TEXTS[0], {...how, pooling: 'none'}), n = tokens.length / width;
  assert.ok(Number.isInteger(n) && n > 1);
  close(await encoder.embed(TEXTS[0], {...how, pooling: 'cls'}), [...tokens.subarray(0, width)], 1e-6);
  close(await encoder.embed(TEXTS[0], {...how, pooling: 'last'}), [...tokens.subarray(-width)], 1e-6);
  const mean = Array.from({length: width}, (_, i) =>
    Array.from({length: n}, (_, k) => tokens[k * width + i]).reduce((a, b) => a + b) / n);
  close(await encoder.embed(TEXTS[0], {...how, pooling: 'mean'}), mean, 1e-5);
});
test('documents are ranked as the native program ranks them', async () => {
  assert.ok(encoder.info.encoder && encoder.info.classes === 1 && !decoder.info.encoder);
  const list = join(WORK, 'documents.txt');
  for (const [path, model, documents] of [[file('bert-rank'), encoder, [...TEXTS, 'the end']],
      [QSF, decoder, ['a dog', 'Cats are animals.']]]) {
    await writeFile(list, documents.join('\n'));
    const right = native(path, '--rerank', list, '-p', 'a cat').results;
    const got = await model.rerank('a cat', documents);
    assert.deepEqual(got.map(r => r.index).sort(), documents.map((_, i) => i));
    assert.deepEqual(got.map(r => r.score), got.map(r => r.score).sort((a, b) => b - a));
    const by = Object.fromEntries(got.map(r => [r.index, r.score]));
    close(right.map(r => by[r.index]), right.map(r => r.relevance_score), 2e-2);
    assert.deepEqual(await model.rerank('a cat', documents, {topN: 1}), got.slice(0, 1));
    assert.deepEqual(await model.rerank('a cat', []), []);
  }
});
test('what makes no sense is refused, and the model works on', async () => {
  for (const [texts, options] of [[undefined], [5], [[1]], [[['a']]], [[[1 << 30]]],
      ['a', {pooling: 'first'}], ['a', {normalize: 1}], ['a', {signal: {}}], ['a', {pool: 'mean'}]])
    await assert.rejects(encoder.embed(texts, options), code('ARGUMENT'));
  for (const [query, documents, options] of [[5, []], ['a', 'b'.length], ['a', [1]], ['a', ['b'], {topN: 0}],
      ['a', ['b'], {topN: 1.5}]])
    await assert.rejects(encoder.rerank(query, documents, options), code('ARGUMENT'));
  await assert.rejects(encoder.embed([[]]), code('ARGUMENT', /no tokens/));
  await assert.rejects(encoder.embed([new Array(600).fill(1)]), code('FULL', /one batch/));
  await assert.rejects(decoder.embed([new Array(600).fill(1)]), code('FULL', /context/));
  await assert.rejects(decoder.embed('a', {pooling: 'rank'}), code('UNSUPPORTED', /classifier/));
  await assert.rejects(encoder.generate('a').next(), code('UNSUPPORTED', /encoder/));
  assert.deepEqual(await encoder.embed([]), []);
  assert.ok(Math.abs(length(await encoder.embed('a', {pooling: 'mean'})) - 1) < 1e-5);
});
test('embeddings and answers run at the same time', async () => {
  const {ids} = await answer(decoder), alone = await decoder.embed(TEXTS[2]);
  const [first, second, said] = await Promise.all([decoder.embed(TEXTS[2]), decoder.embed([TEXTS[2]]),
    answer(decoder)]);
  assert.deepEqual([first, second[0], said.ids], [alone, alone, ids]);
  const under = decoder.generate('Once', {maxTokens: 200});
  await under.next();
  assert.deepEqual(await decoder.embed(TEXTS[2]), alone);
  await under.return();
});
test('a signal ends it', async () => {
  const reason = new Error('enough'), stop = new AbortController();
  await assert.rejects(decoder.embed('a', {signal: AbortSignal.abort(reason)}), reason);
  const long = decoder.embed(new Array(1000).fill('word '.repeat(200)), {signal: stop.signal});
  setTimeout(() => stop.abort(reason), 100);
  const begin = performance.now();
  await assert.rejects(long, reason);
  await decoder.embed('a');
  assert.ok(performance.now() - begin < 20_000);
});
test('layers that stream bring the same numbers', async () => {
  const small = await load(file('bert'), {threads: 1, batch: 512}), right = await small.embed(TEXTS);
  const {leastBytes} = await estimate(file('bert'), {threads: 1, batch: 512});
  await small.dispose();
  const tight = await load(file('bert'), {threads: 1, batch: 512, memory: (leastBytes + 1000) / 1e6});
  assert.deepEqual(await tight.embed(TEXTS), right);
  await tight.dispose();
  const bytes = await load(await readFile(file('bert')), {threads: 2, batch: 512});
  assert.deepEqual(await bytes.embed(TEXTS), right);
  await bytes.dispose();
});
