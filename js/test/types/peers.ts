/* The package together with those whose shapes it has.
 * SPDX-License-Identifier: MIT */
import type {BaseChatModel} from '@langchain/core/language_models/chat_models';
import type {LanguageModelV4, ProviderV4} from '@ai-sdk/provider';
import OpenAI from 'openai';
import type {ChatCompletionMessageParam, ChatCompletionTool} from 'openai/resources/chat/completions';
import {load, type Message} from 'qsf';
import {createQsf} from 'qsf/ai';
import {ChatQsf, QsfEmbeddings} from 'qsf/langchain';
import {createLanguageModel, languageModel} from 'qsf/prompt-api';
import {APIError, OpenAI as Own, createFetch} from 'qsf/openai';

const model = await load('model.qsf');
const messages: ChatCompletionMessageParam[] = [{role: 'user', content: [{type: 'text', text: 'Hello'},
  {type: 'image_url', image_url: {url: 'x'}}]}];
const tools: ChatCompletionTool[] = [];
const taken: readonly Message[] = messages;
await model.chat(messages, {tools});
const client = new OpenAI({fetch: createFetch(model, {name: 'm'}), baseURL: 'http://qsf/v1', apiKey: 'x'});
(await client.chat.completions.create({model: 'm', messages})).choices[0]?.message.content?.length;
const own = new Own({model});
for await (const chunk of await own.chat.completions.create({messages, stream: true})) console.log(chunk);
console.log(taken, (await own.models.list()).data, APIError);

const provider: ProviderV4 = createQsf(model), language: LanguageModelV4 = createQsf(model, {name: 'm'})('m');
console.log(provider, language.modelId, createQsf(model).rerankingModel().provider);

const chat: BaseChatModel = new ChatQsf({model, temperature: 0, maxTokens: 5, tags: ['x']});
const vectors: number[][] = await new QsfEmbeddings({model, pooling: 'mean'}).embedDocuments(['x']);
console.log((await chat.invoke('Hello')).content, vectors,
  (await new ChatQsf({model}).bindTools([]).invoke('x', {temperature: 1})).tool_calls);

const session = await languageModel(async onProgress => load('model.qsf', {onProgress})).create(
  {temperature: 0, monitor: target => target.addEventListener('downloadprogress', console.log)});
for await (const text of session.promptStreaming('Hello', {responseConstraint: /a+/}).values()) text.length;
console.log(await createLanguageModel(model).availability(), await session.measureContextUsage('x'));
