// What users of the npm package ai with @ai-sdk/openai and @ai-sdk/anthropic do.
// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import {createAnthropic} from '@ai-sdk/anthropic';
import {createOpenAI} from '@ai-sdk/openai';
import * as ai from 'ai';
import {z} from 'zod';
import {ABOUT, COUNT, KEY, PERSON, QWEN, RESULT, WEATHER, asksOslo, isAda, step} from './steps.mjs';

const openai = createOpenAI({baseURL: `${QWEN}/v1`, apiKey: KEY});
const anthropic = createAnthropic({baseURL: `${QWEN}/v1`, apiKey: KEY});
const models = {
  responses: openai('qwen'), chat: openai.chat('qwen'), messages: ai.wrapLanguageModel({
    model: anthropic('qwen'), middleware: ai.defaultSettingsMiddleware({settings: {maxOutputTokens: 100}}),
  }),
};
const schema = z.object({name: z.string(), age: z.number().int()});
const report = z.object({city: z.string(), weather: z.string()});
const asked = [];
const tools = {weather: ai.tool({
  description: ABOUT, inputSchema: z.object({city: z.string()}),
  execute: (args) => (asked.push(args), RESULT),
})};

for (const [kind, model] of Object.entries(models)) {
  step(`${kind}: text, streamed`);
  const whole = await ai.generateText({model, messages: COUNT});
  assert.match(whole.text, /4/);
  assert(whole.usage.inputTokens > 8);
  const pieces = [];
  for await (const piece of ai.streamText({model, messages: COUNT}).textStream) pieces.push(piece);
  assert.equal(pieces.join(''), whole.text);

  step(`${kind}: structured output`);
  const output = ai.Output.object({schema});
  isAda((await ai.generateText({model, messages: PERSON, output})).output);
  const streamed = ai.streamText({model, messages: PERSON, output});
  let last;
  for await (last of streamed.partialOutputStream);
  isAda(last);
  assert(['yes', 'no'].includes((await ai.generateText({
    model, prompt: 'Is Paris in France?', output: ai.Output.choice({options: ['yes', 'no']}),
  })).output));

  step(`${kind}: tools`);
  asked.length = 0;
  const used = await ai.generateText({model, messages: WEATHER, tools, stopWhen: ai.stepCountIs(2)});
  assert.equal(used.steps.length, 2);
  asksOslo(asked[0]);
  const calls = ai.streamText({model, messages: WEATHER, tools, toolChoice: 'required'});
  asksOslo((await calls.toolCalls)[0].input);
  const named = {type: 'tool', toolName: 'weather'};
  asksOslo((await ai.generateText({model, messages: WEATHER, tools, toolChoice: named})).toolCalls[0].input);

  step(`${kind}: tools and structured output`);
  const both = await ai.generateText({
    model, messages: WEATHER, tools, output: ai.Output.object({schema: report}), stopWhen: ai.stepCountIs(3),
  });
  if (both.finishReason === 'stop') assert.match(both.output.city, /Oslo/);
  else assert.equal(both.finishReason, 'tool-calls');
}
