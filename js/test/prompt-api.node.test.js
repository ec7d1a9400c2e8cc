/* The Prompt API of browsers over a model.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {QSF, QUESTION, load, packaged} from './tools.js';

const {createLanguageModel, languageModel} = await import(pathToFileURL(packaged('prompt-api.js')));
const ASK = QUESTION[0].content, COLD = {temperature: 0};
const SCHEMA = {type: 'object', properties: {city: {enum: ['Bonn', 'Rome']}}, required: ['city'],
  additionalProperties: false};

let model, api;
before(async () => {
  model = await load(QSF, {threads: 1, contextLength: 256});
  api = createLanguageModel(model);
});
after(() => model.dispose());

test('answers, whole and streamed', async () => {
  const session = await api.create(COLD), stream = await api.create(COLD);
  const text = await session.prompt(ASK);
  assert.match(text, /Paris/);
  const parts = [];
  for await (const part of stream.promptStreaming(ASK)) parts.push(part);
  assert.ok(parts.length > 3);
  assert.equal(parts.join(''), text);
  assert.ok(session.contextUsage > 40 && session.contextUsage < session.contextWindow);
  assert.deepEqual([session.temperature, session.topK, session.contextWindow], [0, 40, 256]);
});
test('is a conversation, which is cloned', async () => {
  const session = await api.create({...COLD, initialPrompts: [{role: 'system', content: 'Be brief.'}]});
  const begun = session.contextUsage;
  await session.append(ASK);
  await session.append([{role: 'assistant', content: [{type: 'text', value: 'Paris.'}]}]);
  assert.ok(session.contextUsage > begun);
  const copy = await session.clone(), [one, two] = await Promise.all([session.prompt('And of Spain?'),
    copy.prompt('And of Spain?')]);
  assert.equal(one, two);
  assert.match(one, /Madrid|Spain/);
});
test('keeps a constraint', async () => {
  const session = await api.create(COLD);
  const {city} = JSON.parse(await session.prompt('Name a city.', {responseConstraint: SCHEMA}));
  assert.ok(SCHEMA.properties.city.enum.includes(city));
  assert.match(await session.prompt('A number?', {responseConstraint: /[0-9]{2}/}), /^[0-9]{2}$/);
  assert.match(await session.prompt([{role: 'user', content: ASK},
    {role: 'assistant', content: 'The capital of', prefix: true}]), /^ France is Paris/);
});
test('measures', async () => {
  const session = await api.create(COLD);
  const [short, long] = [await session.measureContextUsage('a'),
    await session.measureContextUsage('a b c d e f')];
  assert.ok(short > 0 && long > short);
  assert.equal(session.contextUsage, 0);
});
test('drops old turns when the context is full, and says so', async () => {
  const session = await api.create({...COLD, initialPrompts: [{role: 'system', content: 'Be brief.'}]});
  let dropped = 0;
  session.addEventListener('contextoverflow', () => { dropped++; });
  for (let n = 0; n < 4; n++) await session.append(`word ${'word '.repeat(50)}`);
  assert.ok(dropped > 0);
  assert.match(await session.prompt(ASK), /Paris/);
  await assert.rejects(session.append('word '.repeat(400)), {name: 'QuotaExceededError'});
});
test('calls tools', async () => {
  const heard = [], session = await api.create({...COLD, tools: [{name: 'weather', description: 'the weather',
    inputSchema: SCHEMA, execute: given => {
      heard.push(given.city);
      return 'sunny';
    }}]});
  assert.equal(typeof await session.prompt('Weather in Rome?', {signal: AbortSignal.timeout(100_000)}),
    'string');
  assert.ok(heard.every(city => SCHEMA.properties.city.enum.includes(city)));
});
test('ends by a signal, and by destroy()', async () => {
  const session = await api.create(COLD), reason = new Error('enough'), stop = new AbortController();
  stop.abort(reason);
  await assert.rejects(session.prompt(ASK, {signal: stop.signal}), reason);
  const reader = session.promptStreaming('Count to a hundred.').getReader();
  await reader.read();
  session.destroy();
  await assert.rejects(async () => { while (!(await reader.read()).done); }, {name: 'AbortError'});
  await assert.rejects(session.prompt(ASK), {name: 'AbortError'});
  assert.match(await (await api.create(COLD)).prompt(ASK), /Paris/);
});
test('loads its model with the first session, and reports that', async () => {
  let loads = 0;
  const late = createLanguageModel(async onProgress => {
    loads++;
    onProgress({phase: 'load', loaded: 1, total: 2});
    return model;
  });
  assert.equal(await late.availability(), 'downloadable');
  const seen = [], monitor = target => target.addEventListener('downloadprogress', e => seen.push(e.loaded));
  await Promise.all([late.create({monitor}), late.create()]);
  assert.deepEqual([loads, seen, await late.availability()], [1, [0.5], 'available']);
  assert.equal(await late.availability({expectedInputs: [{type: 'image'}]}), 'unavailable');
  await assert.rejects(late.create({expectedInputs: [{type: 'image'}]}), {name: 'NotSupportedError'});
  await assert.rejects(late.create({temperature: 9}), RangeError);
  await assert.rejects((await late.create()).prompt([{role: 'user', content: [{type: 'image', value: 0}]}]),
    {name: 'NotSupportedError'});
});
test('the browser\'s own comes first', async () => {
  assert.equal(typeof languageModel(model).create, 'function');
  globalThis.LanguageModel = {own: true};
  assert.equal(languageModel(model), globalThis.LanguageModel);
  delete globalThis.LanguageModel;
});
