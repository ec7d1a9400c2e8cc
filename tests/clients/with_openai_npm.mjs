// What users of the npm package openai do.
// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import {zodResponseFormat, zodTextFormat} from 'openai/helpers/zod';
import {z} from 'zod';
import {
  ABOUT, CAPITAL, EMBEDDINGS, HI, KEY, PERSON, QWEN, RESULT, SMOL, TINY, WEATHER, asksOslo, full, gone, isAda,
  raises, step,
} from './steps.mjs';

const [tiny, smol, qwen] = [TINY, SMOL, QWEN].map((url) => new OpenAI({baseURL: `${url}/v1`, apiKey: KEY}));
const once = new OpenAI({baseURL: `${TINY}/v1`, apiKey: KEY, maxRetries: 0});
const cold = {temperature: 0, max_tokens: 8};
const Person = z.object({name: z.string(), age: z.number().int()});
const join = async (stream, text) => {
  let all = '';
  for await (const chunk of stream) all += text(chunk) ?? '';
  return all;
};

step('models');
assert.equal((await tiny.models.list()).data[0].id, 'tiny');

step('chat');
const whole = await smol.chat.completions.create({model: 'smollm2', messages: CAPITAL, ...cold});
const text = whole.choices[0].message.content;
assert.match(text, /Paris/);

step('chat, streamed');
let last;
assert.equal(await join(await smol.chat.completions.create({
  model: 'smollm2', messages: CAPITAL, ...cold, stream: true, stream_options: {include_usage: true},
}), (chunk) => (last = chunk).choices[0]?.delta.content), text);
assert.equal(last.usage.completion_tokens, whole.usage.completion_tokens);
const runner = smol.chat.completions.stream({model: 'smollm2', messages: CAPITAL, ...cold});
assert.equal(await runner.finalContent(), text);

step('completions');
const ask = {model: 'tiny', prompt: 'Once', ...cold};
const once1 = (await tiny.completions.create(ask)).choices[0].text;
const streams = await tiny.completions.create({...ask, stream: true});
assert.equal(await join(streams, (c) => c.choices[0].text), once1);

step('n, seed, stop, logprobs');
const several = {
  model: 'tiny', messages: HI, max_tokens: 12, n: 2, seed: 7, temperature: 1.2, logprobs: true,
  top_logprobs: 2, stop: ['\n\n\n'],
};
const [a, b] = [await tiny.chat.completions.create(several), await tiny.chat.completions.create(several)];
assert.deepEqual(a.choices, b.choices);
assert.notEqual(a.choices[0].message.content, a.choices[1].message.content);

step('structured output');
const shaped = {model: 'qwen', messages: PERSON, temperature: 0, max_tokens: 40};
const parsed = await qwen.chat.completions.parse({
  ...shaped, response_format: zodResponseFormat(Person, 'person'),
});
isAda(parsed.choices[0].message.parsed);

step('tools');
const weather = {
  type: 'function',
  function: {
    name: 'weather', description: ABOUT,
    parameters: {type: 'object', properties: {city: {type: 'string'}}, required: ['city']},
    function: (args) => (asksOslo(args), RESULT),
  },
};
const called = {...shaped, max_tokens: 100, messages: WEATHER, parallel_tool_calls: false};
const tools = qwen.chat.completions.runTools({...called, tools: [weather]}, {maxChatCompletions: 2});
await tools.done().catch((e) => assert.match(`${e}`, /length limit/));        // the last answer is too long
assert(tools.messages.some((m) => m.role === 'tool' && m.content === RESULT));
const streamed = qwen.chat.completions.stream({
  ...called, tool_choice: 'required',
  tools: [{type: 'function', function: {...weather.function, function: undefined}}],
});
asksOslo((await streamed.finalChatCompletion()).choices[0].message.tool_calls[0].function.arguments);

step('responses');
const asked = {model: 'smollm2', input: CAPITAL, temperature: 0, max_output_tokens: 8};
assert.match((await smol.responses.create(asked)).output_text, /Paris/);
assert.match(await join(await smol.responses.create({...asked, stream: true}), (e) => e.delta), /Paris/);
const person = await qwen.responses.parse({
  model: 'qwen', input: PERSON, temperature: 0, max_output_tokens: 40,
  text: {format: zodTextFormat(Person, 'person')},
});
isAda(person.output_parsed);

step('embeddings');
const e = await smol.embeddings.create({model: EMBEDDINGS, input: ['One text', 'and another']});
assert(e.data.length === 2 && e.data[0].embedding.length > 8);

step('errors');
const wrong = new OpenAI({baseURL: `${TINY}/v1`, apiKey: 'sk-wrong'});
await raises(OpenAI.AuthenticationError, () => wrong.models.list());
const hi = {model: 'tiny', messages: HI, max_tokens: 4};
assert.equal((await once.chat.completions.create({...hi, model: 'gpt-4o-mini'})).model, 'tiny');
const bad = await raises(OpenAI.BadRequestError, () => once.chat.completions.create({...hi, seed: 'x'}));
assert.equal(bad.param, 'seed');

step('a full queue');
full(2);
await raises(OpenAI.RateLimitError, () => once.chat.completions.create(hi));
assert.equal((await tiny.chat.completions.create(hi)).usage.completion_tokens, 4);

step('a deadline of the client');
const long = {model: 'tiny', prompt: 'x', max_tokens: 1000000, ignore_eos: true};
await raises(OpenAI.APIConnectionTimeoutError, () => once.completions.create(long, {timeout: 500}));
gone();

step('a stream that is left');
const stop = new AbortController();
const stream = await tiny.completions.create({...long, stream: true}, {signal: stop.signal});
for await (const _ of stream) stop.abort();
gone();

step('eight at once');
const texts = await Promise.all([...'01234567'].map(async (i) =>
  (await tiny.completions.create({...ask, prompt: `Number ${i}`})).choices[0].text));
assert(new Set(texts).size > 3);
