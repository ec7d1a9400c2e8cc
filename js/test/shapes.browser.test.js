/* The shapes of other packages in a page of real Chromium: the unmodified packages openai and ai,
 * bundled by esbuild, over a model in that page, and the Prompt API.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {mkdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {PACKAGE, QSF, QUESTION, WORK} from './tools.js';

const TOOLS = process.env.QSF_TEST_TOOLS, empty = fileURLToPath(new URL('browser/empty.html',
  import.meta.url));
let browser, server, page;
const hosts = new Set();
before(async () => {
  const folder = join(WORK, 'bundle');
  await mkdir(folder, {recursive: true});
  await writeFile(join(folder, 'main.js'), "export {default as OpenAI} from 'openai';\n" +
    "export {generateText, streamText} from 'ai';\n");
  execFileSync(join(TOOLS, 'node_modules/.bin/esbuild'), [join(folder, 'main.js'), '--bundle', '--format=esm',
    '--platform=browser', '--log-level=error', `--outfile=${join(folder, 'peers.js')}`],
  {env: {...process.env, NODE_PATH: join(TOOLS, 'node_modules')}});
  server = await serve([['/empty.html', empty], ['/peers.js', join(folder, 'peers.js')], ['/qsf', PACKAGE],
    ['/model.qsf', QSF]], {isolation: true});
  browser = await launch();
  page = await browser.newPage();
  page.on('request', request => hosts.add(new URL(request.url()).host));
  await page.goto(`http://127.0.0.1:${server.address().port}/empty.html`);
  await page.evaluate(async () => {
    const {load} = await import('/qsf/browser.js');
    globalThis.model = await load('/model.qsf', {contextLength: 512, device: 'cpu'});
  });
});
after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

test('the package openai', async () => {
  const {text, streamed, error} = await page.evaluate(async messages => {
    const {OpenAI} = await import('/peers.js'), {createFetch} = await import('/qsf/openai.js');
    const client = new OpenAI({fetch: createFetch(globalThis.model), baseURL: 'http://qsf/v1', apiKey: 'x',
      dangerouslyAllowBrowser: true, maxRetries: 0});
    const asked = {model: 'm', messages, temperature: 0, max_tokens: 8};
    const whole = await client.chat.completions.create(asked);
    let all = '';
    for await (const chunk of await client.chat.completions.create({...asked, stream: true}))
      all += chunk.choices[0].delta.content ?? '';
    return {text: whole.choices[0].message.content, streamed: all,
      error: await client.chat.completions.create({...asked, messages: []}).catch(({status}) => status)};
  }, QUESTION);
  assert.match(text, /Paris/);
  assert.deepEqual([streamed, error], [text, 400]);
});
test('the package ai', async () => {
  const {text, streamed} = await page.evaluate(async messages => {
    const {generateText, streamText} = await import('/peers.js'), {createQsf} = await import('/qsf/ai.js');
    const asked = {model: createQsf(globalThis.model)(), messages, temperature: 0, maxOutputTokens: 8};
    let all = '';
    for await (const part of streamText(asked).textStream) all += part;
    return {text: (await generateText(asked)).text, streamed: all};
  }, QUESTION);
  assert.match(text, /Paris/);
  assert.equal(streamed, text);
});
test('the Prompt API', async () => {
  const {text, city} = await page.evaluate(async question => {
    const {createLanguageModel} = await import('/qsf/prompt-api.js');
    const session = await createLanguageModel(globalThis.model).create({temperature: 0});
    let all = '';
    const reader = session.promptStreaming(question).getReader();
    for (let step; !(step = await reader.read()).done;) all += step.value;
    const given = await session.prompt('Name a city.', {responseConstraint: {enum: ['Bonn', 'Rome']}});
    return {text: all, city: JSON.parse(given)};
  }, QUESTION[0].content);
  assert.match(text, /Paris/);
  assert.ok(['Bonn', 'Rome'].includes(city));
});
test('an awaited answer, and no other host', async () => {
  const whole = await page.evaluate(messages => globalThis.model.chat(messages, {temperature: 0,
    maxTokens: 8}),
    QUESTION);
  assert.match(whole.text, /Paris/);
  assert.equal(whole.usage.completionTokens, 7);
  const refused = await page.evaluate(async () => (await import('/qsf/browser.js')).load('file:///x')
    .catch(({code, message}) => `${code}: ${message}`));
  assert.match(refused, /^ARGUMENT: a page cannot read file:\/\/\/x/);
  assert.equal(hosts.size, 1, [...hosts].join(' '));
});
