/* Drafts by a model's own layer for multi-token prediction: the same answers as without them.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {guessingModel, tinyModel} from './tiny.js';
import {WORK, code, estimate, fileServer, load} from './tools.js';

process.env.QSF_CACHE = join(WORK, 'drafts-store');
const model = guessingModel(), PROMPTS = ['Hello', 'The number of the beast', 'Zebra'.repeat(12)];
const ANSWER = {temperature: 0, maxTokens: 50, ignoreEnd: true};

async function ids(one, prompt, options) {
  const found = [];
  for await (const text of one.generate(prompt, {...ANSWER, ...options, onToken: id => found.push(id)}))
    void text;
  return found;
}
/** The answers to all prompts, one after another, at once, and sampled; and what was counted. */
async function answers(from, options, loads = load) {
  const one = await loads(from, {threads: 1, ...options});
  try {
    const all = [];
    await one.embed('the first call');
    for (const prompt of PROMPTS) all.push(await ids(one, prompt));
    all.push(...await Promise.all(PROMPTS.map(prompt => ids(one, prompt))));
    all.push(await ids(one, PROMPTS[0], {temperature: 0.9, seed: 7}));
    return {all, stats: await one.stats(), info: one.info};
  } finally {
    await one.dispose();
  }
}
const plain = await answers(model, {});
function same({all, stats}) {
  assert.deepEqual(all, plain.all);
  assert.ok(stats.draftTokens > 0 && stats.acceptedTokens > stats.draftTokens / 2, JSON.stringify(stats));
}

test('without the option nothing is guessed', () => {
  assert.equal(plain.stats.draftTokens, 0);
  assert.equal(plain.stats.acceptedTokens, 0);
});
for (const threads of [1, 3])
  test(`guesses change no answer: ${threads} threads`, async () => {
    const found = await answers(model, {draftMtp: true, threads});
    same(found);
    assert.equal(found.info.threads, threads);
    assert.ok(found.info.plan.some(({name, bytes}) => name === 'multi-token prediction' && bytes > 0));
  });
test('guesses change no answer: from a URL, as the bytes come', async () => {
  const file = join(WORK, 'guessing.gguf');
  await writeFile(file, model);
  const server = await fileServer(file);
  try {
    same(await answers(server.url, {draftMtp: true, cache: false}));
  } finally {
    server.close();
  }
});
test('guesses change no answer: within a limit, of which the layer takes its part', async () => {
  const options = {draftMtp: true, threads: 1, contextLength: 256};
  const {leastBytes} = await estimate(model, {...options, memory: 1e-6});
  assert.ok(leastBytes > (await estimate(model, {...options, draftMtp: false, memory: 1e-6})).leastBytes);
  same(await answers(model, {...options, memory: leastBytes / 1e6}));
  await assert.rejects(load(model, {...options, memory: leastBytes / 2e6}),
    code('BUDGET', /besides its layer for multi-token prediction/));
});
test('guesses change no answer: in the native engine', {skip: !process.env.QSF_TEST_NATIVE}, async () => {
  const native = await import(pathToFileURL(join(process.env.QSF_TEST_NATIVE, 'node_modules/qsf/node.js')));
  same(await answers(model, {draftMtp: true, backend: 'native'}, native.load));
});
test('a file without such a layer is an error', async () => {
  await assert.rejects(load(tinyModel(), {draftMtp: true}),
    code('UNSUPPORTED', /no layer for multi-token prediction/));
});
