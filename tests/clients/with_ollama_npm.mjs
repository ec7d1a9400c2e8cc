// What users of the npm package ollama do.
// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import {Ollama} from 'ollama';
import {
  ABOUT, CAPITAL, HI, KEY, PERSON, QWEN, RESULT, SMOL, TINY, WEATHER, asksOslo, gone, isAda, raises, step,
} from './steps.mjs';

const headers = {Authorization: `Bearer ${KEY}`};
const [tiny, smol, qwen] = [TINY, SMOL, QWEN].map((host) => new Ollama({host, headers}));
const cold = {temperature: 0, num_predict: 8, num_ctx: 2048};
const shaped = {temperature: 0, num_predict: 40};
const join = async (stream, text) => {
  let all = '';
  for await (const part of stream) all += text(part) ?? '';
  return all;
};

step('models');
assert.equal((await tiny.list()).models[0].model, 'tiny');
assert.equal((await tiny.ps()).models.length, 1);
assert.match((await tiny.version()).version, /^\d+\.\d+\.\d+$/);
assert((await qwen.show({model: 'qwen'})).capabilities.includes('tools'));

step('chat');
const whole = await smol.chat({model: 'smollm2', messages: CAPITAL, options: cold});
assert.match(whole.message.content, /Paris/);
assert(whole.done && whole.eval_count <= 8);

step('chat, streamed');
const stream = await smol.chat({model: 'smollm2', messages: CAPITAL, options: cold, stream: true});
assert.equal(await join(stream, (p) => p.message.content), whole.message.content);

step('generate');
const prompt = CAPITAL[0].content;
const one = await smol.generate({model: 'smollm2', prompt, options: cold});
assert.match(one.response, /Paris/);
const pieces = await smol.generate({model: 'smollm2', prompt, options: cold, stream: true});
assert.equal(await join(pieces, (p) => p.response), one.response);

step('structured output');
const format = {
  type: 'object', properties: {name: {type: 'string'}, age: {type: 'integer'}}, required: ['name', 'age'],
  additionalProperties: false,
};
const person = await qwen.chat({model: 'qwen', messages: PERSON, format, options: shaped});
isAda(JSON.parse(person.message.content));

step('tools');
const tools = [{
  type: 'function',
  function: {
    name: 'weather', description: ABOUT,
    parameters: {type: 'object', properties: {city: {type: 'string'}}, required: ['city']},
  },
}];
const {message} = await qwen.chat({model: 'qwen', messages: WEATHER, tools, options: shaped});
asksOslo(message.tool_calls[0].function.arguments);
const said = [...WEATHER, message, {role: 'tool', tool_name: 'weather', content: RESULT}];
assert((await qwen.chat({model: 'qwen', messages: said, options: shaped})).message.content);
const calls = [];
for await (const part of await qwen.chat({
  model: 'qwen', messages: WEATHER, tools, options: shaped, stream: true,
})) calls.push(...part.message.tool_calls ?? []);
asksOslo(calls[0].function.arguments);

step('embeddings');
assert.equal((await tiny.embed({model: 'tiny', input: ['One text', 'and another']})).embeddings.length, 2);

step('pulling');
assert.equal((await tiny.pull({model: 'tiny'})).status, 'success');
assert.match((await raises(Error, () => tiny.pull({model: 'none'}))).message, /none/);

step('errors');
assert.equal((await raises(Error, () => new Ollama({host: TINY}).list())).status_code, 401);
const wrong = {model: 'tiny', messages: HI, options: {seed: 'x'}};
assert.match((await raises(Error, () => tiny.chat(wrong))).message, /seed/);

step('a stream that is left');
const left = await tiny.generate({
  model: 'tiny', prompt: 'x', raw: true, options: {num_predict: -1, temperature: 0}, stream: true,
});
await raises(Error, async () => {
  for await (const _ of left) left.abort();
});
gone();
