// What users of the npm package @anthropic-ai/sdk do.
// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import {betaZodTool} from '@anthropic-ai/sdk/helpers/beta/zod';
import {zodOutputFormat} from '@anthropic-ai/sdk/helpers/zod';
import {z} from 'zod';
import {
  ABOUT, COUNT, KEY, PERSON, QWEN, RESULT, TINY, WEATHER, asksOslo, isAda, raises, step,
} from './steps.mjs';

const qwen = new Anthropic({baseURL: QWEN, apiKey: KEY});
const ask = {model: 'qwen', max_tokens: 100};

step('models');
const listed = [];
for await (const m of qwen.models.list()) listed.push(m.id);
assert.deepEqual(listed, ['qwen']);

step('messages, streamed');
const whole = await qwen.messages.create({...ask, messages: COUNT});
assert.match(whole.content[0].text, /4/);
const stream = qwen.messages.stream({...ask, messages: COUNT});
const pieces = [];
stream.on('text', (piece) => pieces.push(piece));
const last = await stream.finalMessage();
assert.equal(pieces.join(''), whole.content[0].text);
assert.equal(last.usage.output_tokens, whole.usage.output_tokens);
assert.equal(last.stop_reason, 'end_turn');
const counted = await qwen.messages.countTokens({model: 'qwen', messages: COUNT});
assert.equal(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);

step('structured output');
const schema = z.object({name: z.string(), age: z.number().int()});
const format = zodOutputFormat(schema);
isAda((await qwen.messages.parse({...ask, messages: PERSON, output_config: {format}})).parsed_output);

step('tools');
const tools = [{name: 'weather', description: ABOUT, input_schema: {
  type: 'object', properties: {city: {type: 'string'}}, required: ['city'],
}}];
const called = await qwen.messages.create({...ask, messages: WEATHER, tools});
assert.equal(called.stop_reason, 'tool_use');
const use = called.content.at(-1);
asksOslo(use.input);
const told = await qwen.messages.create({...ask, tools, tool_choice: {type: 'none'}, messages: [
  ...WEATHER, {role: 'assistant', content: called.content},
  {role: 'user', content: [{type: 'tool_result', tool_use_id: use.id, content: RESULT}]},
]});
assert(told.content[0].text);
const one = qwen.messages.stream({...ask, messages: WEATHER, tools, tool_choice: {type: 'any'}});
let json = '';
one.on('inputJson', (piece) => { json += piece; });
asksOslo((await one.finalMessage()).content.at(-1).input);
asksOslo(json);

step('a runner of tools');
const asked = [];
const weather = betaZodTool({
  name: 'weather', description: ABOUT, inputSchema: z.object({city: z.string()}),
  run: (args) => (asked.push(args), RESULT),
});
await qwen.beta.messages.toolRunner({...ask, messages: WEATHER, tools: [weather], max_iterations: 2});
asksOslo(asked[0]);

step('tools and structured output');
const report = zodOutputFormat(z.object({city: z.string(), weather: z.string()}));
const both = await qwen.messages.create({...ask, messages: WEATHER, tools, output_config: {format: report}});
if (both.stop_reason === 'tool_use') asksOslo(both.content.at(-1).input);
else asksOslo(JSON.parse(both.content[0].text));

step('errors');
const once = new Anthropic({baseURL: TINY, apiKey: 'sk-wrong', maxRetries: 0});
await raises(Anthropic.AuthenticationError, () => once.messages.create({...ask, messages: COUNT}));
await raises(Anthropic.BadRequestError, () => qwen.messages.create({...ask, messages: [{role: 'user'}]}));
