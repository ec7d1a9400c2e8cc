/* A provider of the package ai, with the unmodified package and its own test utilities.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {after, before, describe, test} from 'node:test';
import {QSF, QUESTION, load, packaged} from './tools.js';

const require = createRequire(join(process.env.QSF_TEST_TOOLS, 'node_modules/ai/package.json'));
const imported = name => import(pathToFileURL(require.resolve(name)));
const ai = await imported('ai'), {MockLanguageModelV4} = await imported('ai/test');
const {convertReadableStreamToArray} = await imported('@ai-sdk/provider-utils/test');
const {createQsf} = await import(pathToFileURL(packaged('ai.js')));
const CITY = ai.jsonSchema({type: 'object', properties: {city: {enum: ['Bonn', 'Rome']}}, required: ['city'],
  additionalProperties: false});
const COLD = {temperature: 0, maxOutputTokens: 8, messages: QUESTION, maxRetries: 0};

let model, qsf;
before(async () => {
  model = await load(QSF, {threads: 1, contextLength: 1024});
  qsf = createQsf(model, {name: 'm'});
});
after(() => model.dispose());

describe('the language model', () => {
  test('answers, whole and streamed', async () => {
    const whole = await ai.generateText({model: qsf('m'), ...COLD});
    assert.match(whole.text, /Paris/);
    assert.deepEqual([whole.usage.inputTokens, whole.usage.outputTokens], [37, 7]);
    const streamed = ai.streamText({model: qsf(), ...COLD}), pieces = [];
    for await (const piece of streamed.textStream) pieces.push(piece);
    assert.equal(pieces.join(''), whole.text);
    assert.ok(pieces.length > 4);
    assert.equal(await streamed.finishReason, whole.finishReason);
    assert.equal((await streamed.usage).inputTokenDetails.cacheReadTokens, 36);
  });
  test('gives objects that fit their schema', async () => {
    const output = ai.Output.object({schema: CITY}), asked = {...COLD, maxOutputTokens: 40, output};
    const {output: given} = await ai.generateText({model: qsf(), ...asked});
    assert.ok(['Bonn', 'Rome'].includes(given.city));
    const streamed = ai.streamText({model: qsf(), ...asked});
    let last;
    for await (last of streamed.partialOutputStream) void last;
    assert.deepEqual(last, given);
  });
  test('calls tools, whose results it answers', async () => {
    const heard = [], tools = {weather: ai.tool({description: 'the weather', inputSchema: CITY,
      execute: given => {
        heard.push(given);
        return {sky: 'clear'};
      }})};
    const asked = {...COLD, maxOutputTokens: 60, tools, prompt: 'Weather in Rome?', messages: undefined};
    const named = {...asked, toolChoice: {type: 'tool', toolName: 'weather'}};
    const {toolCalls, toolResults, finishReason} = await ai.generateText({model: qsf(), ...named});
    assert.equal(finishReason, 'tool-calls');
    assert.deepEqual(toolCalls.map(({input}) => input), heard);
    assert.deepEqual(toolResults[0].output, {sky: 'clear'});
    const streamed = ai.streamText({model: qsf(), ...named}), types = [];
    for await (const {type} of streamed.fullStream) types.push(type);
    for (const type of ['tool-input-start', 'tool-input-delta', 'tool-input-end', 'tool-call', 'tool-result'])
      assert.ok(types.includes(type), `${type}: ${types}`);
    const steps = await ai.generateText({model: qsf(), ...asked,
      providerOptions: {qsf: {parallelToolCalls: false}},
      stopWhen: ai.stepCountIs(2), prepareStep: ({stepNumber}) =>
        ({toolChoice: stepNumber ? 'none' : {type: 'tool', toolName: 'weather'}})});
    assert.equal(steps.steps.length, 2);
    assert.ok(steps.text.length > 0);
  });
  test('has the parts of the specification, in order', async () => {
    const call = {prompt: [{role: 'user', content: [{type: 'text', text: QUESTION[0].content},
      {type: 'file', mediaType: 'image/png', data: {type: 'data', data: new Uint8Array(2)}}]}],
    temperature: 0, maxOutputTokens: 3};
    const mock = new MockLanguageModelV4({doGenerate: asked => qsf().doGenerate(asked),
      doStream: asked => qsf().doStream(asked)});
    const parts = await convertReadableStreamToArray((await mock.doStream(call)).stream);
    assert.deepEqual(parts.map(({type}) => type), ['stream-start', 'response-metadata', 'text-start',
      'text-delta', 'text-delta', 'text-delta', 'text-end', 'finish']);
    assert.deepEqual(parts[0].warnings.map(({type}) => type), ['unsupported']);
    const whole = await mock.doGenerate(call), {finishReason, usage} = parts.at(-1);
    assert.deepEqual([whole.finishReason, whole.usage.outputTokens], [finishReason, usage.outputTokens]);
    assert.deepEqual(finishReason, {unified: 'length', raw: 'length'});
    assert.equal(whole.content[0].text, parts.filter(({delta}) => delta).map(({delta}) => delta).join(''));
  });
  test('hears of a signal, and of an error', async () => {
    const stop = new AbortController(), long = {...COLD, maxOutputTokens: 500, abortSignal: stop.signal};
    const streamed = ai.streamText({model: qsf(), ...long, onError() {}});
    await assert.rejects(async () => {
      for await (const {type} of streamed.fullStream) {
        if (type === 'text-delta') stop.abort();
        if (type === 'abort') throw new Error('aborted');
      }
    }, /abort/);
    assert.match((await ai.generateText({model: qsf(), ...COLD})).text, /Paris/);
    await assert.rejects(ai.generateText({model: qsf(), ...COLD, providerOptions: {qsf: {nonsense: 1}}}),
      {code: 'ARGUMENT'});
    await assert.rejects(ai.generateText({model: qsf(), ...COLD, prompt: 'word '.repeat(2000),
      messages: undefined}), {code: 'FULL'});
    assert.throws(() => qsf.imageModel('x'), {name: 'AI_NoSuchModelError'});
  });
  test('answers several at once', async () => {
    const all = await Promise.all([1, 2, 3].map(() => ai.generateText({model: qsf(), ...COLD})));
    assert.equal(new Set(all.map(({text}) => text)).size, 1);
  });
});
test('the embedding model', async () => {
  const {embeddings, usage} = await ai.embedMany({model: qsf.embeddingModel('m'), values: ['a cat',
    'a dog']});
  assert.deepEqual(embeddings, (await model.embed(['a cat', 'a dog'])).map(vector => [...vector]));
  assert.ok(usage.tokens > 2);
  const {embedding} = await ai.embed({model: qsf.embeddingModel('m'), value: 'a cat'});
  assert.deepEqual(embedding, embeddings[0]);
});
test('the reranking model', async () => {
  const documents = ['Cats purr.', 'France: Paris.'];
  const asked = {query: 'Which capital?', documents, topN: 2};
  const {ranking} = await ai.rerank({model: qsf.rerankingModel('m'), ...asked});
  const own = await model.rerank(asked.query, documents, {topN: 2});
  assert.deepEqual(ranking.map(({originalIndex, score}) => ({index: originalIndex, score})), own);
});
test('without a model there is no provider', () => {
  assert.throws(() => createQsf(), {code: 'ARGUMENT', message: /the model is undefined/});
  assert.throws(() => createQsf(Promise.resolve(model)), {code: 'ARGUMENT', message: /await/});
});
