// What users of the npm package ai with @ai-sdk/openai-compatible do.
// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import * as ai from 'ai';
import {z} from 'zod';
import {
  ABOUT, CAPITAL, EMBEDDINGS, HI, KEY, PERSON, QWEN, RESULT, SMOL, TINY, WEATHER, asksOslo, full, gone, isAda,
  raises, step,
} from './steps.mjs';

const [tiny, smol, qwen, wrong] = [[TINY], [SMOL], [QWEN], [TINY, 'sk-wrong']].map(([url, apiKey = KEY]) =>
  createOpenAICompatible({
    name: 'qsf', baseURL: `${url}/v1`, apiKey, includeUsage: true, supportsStructuredOutputs: true,
  }));
const cold = {temperature: 0, maxOutputTokens: 8};
const schema = z.object({name: z.string(), age: z.number().int()});

step('chat');
const whole = await ai.generateText({model: smol('smollm2'), messages: CAPITAL, ...cold});
assert.match(whole.text, /Paris/);
assert(whole.usage.outputTokens > 0 && whole.usage.inputTokens > 8);

step('chat, streamed');
const streamed = ai.streamText({model: smol('smollm2'), messages: CAPITAL, ...cold});
let text = '';
for await (const part of streamed.textStream) text += part;
assert.equal(text, whole.text);
assert.equal((await streamed.usage).outputTokens, whole.usage.outputTokens);

step('completions');
assert((await ai.generateText({model: tiny.completionModel('tiny'), prompt: 'Once', ...cold})).text);

step('seed, stop');
const seeded = {model: tiny('tiny'), messages: HI, maxOutputTokens: 12, seed: 7, temperature: 1.2,
  stopSequences: ['\n\n\n']};
assert.equal((await ai.generateText(seeded)).text, (await ai.generateText(seeded)).text);

step('structured output');
const shaped = {model: qwen('qwen'), messages: PERSON, temperature: 0, maxOutputTokens: 40};
if (ai.generateObject) isAda((await ai.generateObject({...shaped, schema})).object);
isAda((await ai.generateText({...shaped, output: ai.Output.object({schema})})).output);

step('tools');
const weather = ai.tool({
  description: ABOUT, inputSchema: z.object({city: z.string()}), execute: (args) => (asksOslo(args), RESULT),
});
const used = await ai.generateText({
  ...shaped, maxOutputTokens: 100, messages: WEATHER, tools: {weather}, stopWhen: ai.stepCountIs(2),
});
assert.equal(used.steps.length, 2);
const calls = ai.streamText({
  ...shaped, maxOutputTokens: 100, messages: WEATHER, tools: {weather}, toolChoice: 'required',
});
asksOslo((await calls.toolCalls)[0].input);

step('embeddings');
const e = await ai.embedMany({model: smol.embeddingModel(EMBEDDINGS), values: ['One text', 'and another']});
assert(e.embeddings.length === 2 && e.embeddings[0].length > 8);

step('errors');
const hi = {messages: HI, maxOutputTokens: 4, maxRetries: 0};
const status = async (more) =>
  (await raises(ai.APICallError, () => ai.generateText({...hi, ...more}))).statusCode;
assert.equal(await status({model: wrong('tiny')}), 401);
const odd = await ai.generateText({...hi, model: tiny('none'), providerOptions: {qsf: {frobnicate: 1}}});
assert.equal(odd.response.headers['x-qsf-ignored'], 'frobnicate');

step('a full queue');
full(2);
assert.equal(await status({model: tiny('tiny')}), 429);
assert.equal((await ai.generateText({...hi, model: tiny('tiny'), maxRetries: 3})).usage.outputTokens, 4);

step('a deadline of the client');
const long = {model: tiny.completionModel('tiny'), prompt: 'x', maxOutputTokens: 1000000, maxRetries: 0,
  providerOptions: {qsf: {ignore_eos: true}}};
await raises(Error, () => ai.generateText({...long, abortSignal: AbortSignal.timeout(500)}));
gone();

step('a stream that is left');
const stop = new AbortController();
for await (const _ of ai.streamText({...long, abortSignal: stop.signal}).textStream) stop.abort();
gone();

step('eight at once');
const texts = await Promise.all([...'01234567'].map(async (i) =>
  (await ai.generateText({model: tiny('tiny'), prompt: `Number ${i}`, ...cold})).text));
assert(new Set(texts).size > 3);
