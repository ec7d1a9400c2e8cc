/* A chat model and embeddings of LangChain, with the unmodified @langchain/core.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {after, before, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {QSF, QUESTION, load, packaged} from './tools.js';

const require = createRequire(packaged('x.js')), imported = name => import(pathToFileURL(require.resolve(name)
  .replace(/\.cjs$/, '.js')));
const {HumanMessage, ToolMessage} = await imported('@langchain/core/messages');
const {StringOutputParser} = await imported('@langchain/core/output_parsers');
const {ChatPromptTemplate} = await imported('@langchain/core/prompts');
const {tool} = await imported('@langchain/core/tools');
const {ChatQsf, QsfEmbeddings} = await import(pathToFileURL(packaged('langchain.js')));
const CITY = {type: 'object', properties: {city: {enum: ['Bonn', 'Rome']}}, required: ['city'],
  additionalProperties: false};

let model, chat;
before(async () => {
  model = await load(QSF, {threads: 1, contextLength: 1024});
  chat = new ChatQsf({model, temperature: 0, maxTokens: 8});
});
after(() => model.dispose());

test('answers, whole, streamed and in chains', async () => {
  const whole = await chat.invoke(QUESTION);
  assert.match(whole.content, /Paris/);
  assert.deepEqual([whole.usage_metadata.input_tokens, whole.usage_metadata.total_tokens], [37, 44]);
  let all;
  for await (const chunk of await chat.stream([new HumanMessage(QUESTION[0].content)]))
    all = all ? all.concat(chunk) : chunk;
  assert.equal(all.content, whole.content);
  assert.deepEqual(all.usage_metadata.output_tokens, whole.usage_metadata.output_tokens);
  const chain = ChatPromptTemplate.fromMessages([['user', 'What is the capital of {country}?']]).pipe(chat)
    .pipe(new StringOutputParser());
  assert.equal(await chain.invoke({country: 'France'}), whole.content);
  assert.deepEqual(await chain.batch([{country: 'France'}, {country: 'France'}]), [whole.content,
    whole.content]);
});
test('options of a call', async () => {
  assert.equal((await chat.invoke(QUESTION, {stop: [' Paris']})).content, 'The capital of France is');
  assert.equal((await chat.invoke(QUESTION, {maxTokens: 2})).response_metadata.finish_reason, 'length');
  const stop = new AbortController();
  stop.abort(new Error('enough'));
  await assert.rejects(chat.invoke(QUESTION, {signal: stop.signal}), /enough|abort/i);
  await assert.rejects(new ChatQsf({model, nonsense: 1}).invoke(QUESTION), {code: 'ARGUMENT'});
});
test('calls tools', async () => {
  const weather = tool(({city}) => `${city}: sunny`, {name: 'weather', description: 'the weather',
    schema: CITY});
  const bound = chat.bindTools([weather], {tool_choice: 'weather', maxTokens: 60, parallelToolCalls: false});
  const asked = [new HumanMessage('Weather in Rome?')], said = await bound.invoke(asked);
  assert.equal(said.tool_calls[0].name, 'weather');
  const result = await weather.invoke(said.tool_calls[0]);
  assert.ok(result instanceof ToolMessage && /sunny/.test(result.content));
  let all;
  for await (const chunk of await bound.stream(asked)) all = all ? all.concat(chunk) : chunk;
  assert.deepEqual(all.tool_calls.map(({args}) => args), said.tool_calls.map(({args}) => args));
  const last = await chat.bindTools([weather]).invoke([...asked, said, result], {tool_choice: 'none'});
  assert.ok(last.content.length > 0 && !last.tool_calls.length);
});
test('structured output', async () => {
  const structured = chat.withStructuredOutput(CITY);
  assert.ok(CITY.properties.city.enum.includes((await structured.invoke('Rome', {maxTokens: 40})).city));
  const {raw, parsed} = await chat.withStructuredOutput(CITY, {includeRaw: true}).invoke('Rome',
    {maxTokens: 40});
  assert.deepEqual(JSON.parse(raw.content), parsed);
});
test('embeddings', async () => {
  const embeddings = new QsfEmbeddings({model}), [cat, dog] = await embeddings.embedDocuments(['a cat',
    'a dog']);
  assert.deepEqual(cat, [...await model.embed('a cat')]);
  assert.deepEqual(await embeddings.embedQuery('a dog'), dog);
});
