/* OpenAI's API over a model: the unmodified package openai against createFetch(), and the same
 * transcripts as qsf-serve's.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {after, before, describe, test} from 'node:test';
import {QSF, QUESTION, load, packaged} from './tools.js';

const require = createRequire(join(process.env.QSF_TEST_TOOLS, 'x.js'));
const {default: OpenAI} = await import(pathToFileURL(require.resolve('openai')));
const {OpenAI: Own, APIError, createFetch} = await import(pathToFileURL(packaged('openai.js')));
const COLD = {model: 'm', temperature: 0}, CITY = {type: 'object', properties: {city: {enum: ['Bonn',
  'Rome']}},
  required: ['city'], additionalProperties: false};
const TOOL = {type: 'function', function: {name: 'weather', parameters: CITY}};
const ASKED = [{role: 'user', content: 'Weather in Rome?'}];

let model, client, own;
before(async () => {
  model = await load(QSF, {threads: 1, contextLength: 1024});
  client = new OpenAI({fetch: createFetch(model, {name: 'm'}), baseURL: 'http://qsf/v1', apiKey: 'x',
    maxRetries: 0});
  own = new Own({model, name: 'm'});
});
after(() => model.dispose());

/* ---- the same JSON as the server's ---- */
/* Without what differs: ids, times, numbers of the model, which are its kernels', and how much was
 * cached, for the server keeps several prompts. */
const plain = (value, name) => (Array.isArray(value)
  ? value.every(Number.isFinite) && name !== 'bytes' && name !== 'text_offset' ? value.length
    : value.map(one => plain(one, name))
  : typeof value === 'object' && value !== null
    ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one, key)]))
    : name === 'id' || name === 'item_id' || name === 'call_id'
      ? String(value).replace(/(chatcmpl|cmpl|resp)[-_][0-9a-f]+/, '$1').replace(/^\w{9}$/, 'call')
      : ['created', 'created_at', 'cached_tokens'].includes(name) ? 0 : typeof value === 'number'
        && !Number.isInteger(value)
        && name !== 'temperature' ? 0.5 : value);
const REQUESTS = [
  ['models', undefined],
  ['chat/completions', {messages: QUESTION, max_tokens: 6}],
  ['chat/completions', {messages: QUESTION, max_tokens: 6, logprobs: true, top_logprobs: 1}],
  ['chat/completions', {messages: QUESTION, max_tokens: 4, stream: true,
    stream_options: {include_usage: true}}],
  ['chat/completions', {messages: QUESTION, max_tokens: 3, stream: true, logprobs: true, top_logprobs: 1}],
  ['chat/completions', {messages: QUESTION, max_tokens: 30, n: 2, stop: [' Paris']}],
  ['chat/completions', {messages: [{role: 'developer', content: 'Be brief.'}, ...QUESTION], max_tokens: 5}],
  ['chat/completions', {messages: [{role: 'user', content: [{type: 'text', text: QUESTION[0].content}]}],
    max_completion_tokens: 5}],
  ['chat/completions', {messages: ASKED, tools: [TOOL], tool_choice: 'required', parallel_tool_calls: false}],
  ['chat/completions', {messages: ASKED, tools: [TOOL], tool_choice: 'required', parallel_tool_calls: false,
    stream: true, stream_options: {include_usage: true}}],
  ['chat/completions', {messages: ASKED, tools: [TOOL], tool_choice: {type: 'function',
    function: {name: 'weather'}}, max_tokens: 18}],
  ['chat/completions', {messages: ASKED, tools: [TOOL], tool_choice: {type: 'function',
    function: {name: 'weather'}}, max_tokens: 18, stream: true}],
  ['chat/completions', {messages: ASKED, tool_choice: 'required', parallel_tool_calls: false,
    tools: [{type: 'custom', custom: {name: 'run', format: {type: 'grammar',
      grammar: {syntax: 'regex', definition: '[0-9]{1,3}'}}}}], stream: true}],
  ['chat/completions', {messages: QUESTION, response_format: {type: 'json_schema',
    json_schema: {name: 'x', strict: true, schema: CITY}}, max_tokens: 40}],
  ['completions', {prompt: 'Once upon a time', max_tokens: 5}],
  ['completions', {prompt: 'Once upon a time', max_tokens: 5, stream: true, echo: true}],
  ['completions', {prompt: ['Once', [1, 2, 3]], n: 2, max_tokens: 3, logprobs: 1}],
  // which of the few most likely tokens are chosen is the seed's, not the kernels'
  ['chat/completions', {messages: QUESTION, max_tokens: 1, n: 6, seed: 7, temperature: 3, top_k: 3}],
  ['chat/completions', {messages: QUESTION, max_tokens: 1, seed: 0, temperature: 3, top_k: 3}],
  ['completions', {prompt: new Array(2).fill('Once upon a time there was a little'), n: 3, max_tokens: 1,
    seed: 17, temperature: 3, top_k: 3}],
  ['responses', {input: QUESTION[0].content, max_output_tokens: 1, seed: 9, temperature: 3, top_k: 3}],
  ['embeddings', {input: ['a', 'b c']}],
  ['embeddings', {input: 'a', dimensions: 4}],
  ['responses', {input: QUESTION[0].content, max_output_tokens: 5}],
  ['responses', {input: QUESTION, instructions: 'Be brief.', max_output_tokens: 4, stream: true}],
  ['responses', {input: ASKED, tools: [{type: 'function', name: 'weather', parameters: CITY}],
    tool_choice: 'required', parallel_tool_calls: false, stream: true}],
  ['responses', {input: [...ASKED, {type: 'function_call', call_id: 'a', name: 'weather',
    arguments: '{"city":"Rome"}'},
    {type: 'function_call_output', call_id: 'a', output: 'sunny'}], max_output_tokens: 4}],
  ['chat/completions', {messages: []}], ['chat/completions', {}], ['chat/completions', []],
  ['chat/completions', {messages: QUESTION, temperature: 'x'}],
  ['chat/completions', {messages: QUESTION, temperature: 200}],
  ['chat/completions', {messages: QUESTION, frequency_penalty: -3}],
  ['chat/completions', {messages: [{role: 'user'}]}],
  ['chat/completions', {messages: QUESTION, response_format: {type: 'xml'}}],
  ['chat/completions', {messages: [{role: 'user', content: [{type: 'image_url', image_url: {url: 'x'}}]}]}],
  ['responses', {input: 'x', previous_response_id: 'nothing'}],
  ['nothing', {}],
];
describe('the same requests as to qsf-serve', () => {
  let server, base;
  before(async () => {
    server = spawn(process.env.QSF_TEST_SERVE, ['-m', `m=${QSF}`, '--port', '0', '--threads', '1', '--slots',
      '1',
      '--ctx-size', '1024']);
    let said = '';
    base = await new Promise((resolve, reject) => {
      const hear = text => {
        said += text;
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
        if (found) resolve(found[0]);
      };
      server.stdout.on('data', hear);
      server.stderr.on('data', hear);
      server.on('exit', () => reject(new Error(said)));
    });
  });
  after(() => { server.kill(); });
  const ask = async (fetcher, where, path, body) => {
    const response = await fetcher(`${where}/v1/${path}`, body === undefined ? {} : {method: 'POST',
      headers: {'content-type': 'application/json'}, body: JSON.stringify(Array.isArray(body) ? body
        : {...COLD, ...body})});
    const text = await response.text();
    const events = text.startsWith('{') ? [JSON.parse(text)] : text.split('\n').filter(Boolean).map(line =>
      (line.startsWith('data: {') ? JSON.parse(line.slice(6)) : line));
    return {status: response.status, type: response.headers.get('content-type').split(';')[0],
      events: plain(events)};
  };
  for (const [i, [path, body]] of REQUESTS.entries())
    test(`${i}: ${path} ${JSON.stringify(body)?.slice(0, 80)}`, async () => {
      const here = createFetch(model, {name: 'm'});
      assert.deepEqual(await ask(here, 'http://qsf', path, body), await ask(fetch, base, path, body));
    });
});

/* ---- the package openai ---- */
describe('the package openai', () => {
  const cold = {...COLD, messages: QUESTION, max_tokens: 8};
  const join = async (stream, text) => {
    let all = '';
    for await (const chunk of stream) all += text(chunk) ?? '';
    return all;
  };
  test('chats, whole and streamed', async () => {
    const whole = await client.chat.completions.create(cold), text = whole.choices[0].message.content;
    assert.match(text, /Paris/);
    assert.equal(await join(await client.chat.completions.create({...cold, stream: true}),
      chunk => chunk.choices[0].delta.content), text);
    assert.equal(await client.chat.completions.stream(cold).finalContent(), text);
    assert.equal((await own.chat.completions.create(cold)).choices[0].message.content, text);
    assert.equal(await join(await own.chat.completions.create({...cold, stream: true}),
      chunk => chunk.choices[0].delta.content), text);
  });
  test('several requests at once', async () => {
    const all = await Promise.all([1, 2, 3, 4].map(() => client.chat.completions.create(cold)));
    assert.equal(new Set(all.map(({choices}) => choices[0].message.content)).size, 1);
    assert.equal((await Promise.all([client.embeddings.create({model: 'm', input: 'a'}),
      client.chat.completions.create(cold)]))[0].data.length, 1);
  });
  const many = {messages: [{role: 'system', content: 'Answer in one word, and be brief. '.repeat(8)},
    ...QUESTION], model: 'm', max_tokens: 12, n: 4, seed: 3, temperature: 1.5};
  test('several choices in one batch, of one prompt', async () => {
    const answers = [], counted = {info: model.info, chat(...given) {
      const answer = model.chat(...given);
      answers.push(answer);
      return answer;
    }};
    const {choices, usage} = await new Own({model: counted}).chat.completions.create(many);
    const texts = choices.map(({message}) => message.content);
    assert.deepEqual(choices.map(({index}) => index), [0, 1, 2, 3]);
    assert.ok(new Set(texts).size > 1, texts.join('|'));
    assert.equal(answers.length, 4);
    assert.equal(usage.completion_tokens,
      answers.reduce((n, answer) => n + answer.usage.completionTokens, 0));
    for (const {usage: {promptTokens, cachedTokens}} of answers.slice(1))
      assert.ok(promptTokens > 64 && cachedTokens > promptTokens - 33, `${cachedTokens} of ${promptTokens}`);

    const order = [], parts = ['', '', '', ''];
    for await (const {choices: [choice]} of await client.chat.completions.create({...many, stream: true})) {
      if (!choice?.delta.content) continue;
      order.push(choice.index);
      parts[choice.index] += choice.delta.content;
    }
    assert.deepEqual(parts, texts);
    assert.ok(order.some((index, i) => index < order[i - 1]), order.join());     // not one after another
    for (const [choice, text] of texts.entries())       // each as if it were alone
      assert.equal((await model.chat(many.messages, {maxTokens: 12, seed: 3, choice, temperature: 1.5,
        topP: 1, topK: 0})).text, text);
  });
  test('several choices, left by their reader', async () => {
    for await (const {choices: [choice]} of await client.chat.completions.create({...many, stream: true,
      max_tokens: 500})) if (choice?.index === 2 && choice.delta.content) break;
    const stop = new AbortController();
    const stream = await own.chat.completions.create({...many, stream: true, max_tokens: 500},
      {signal: stop.signal});
    await assert.rejects(async () => {
      for await (const {choices: [choice]} of stream)
        if (choice?.index === 1) stop.abort(new Error('enough'));
    }, /enough/);
    await assert.rejects(own.chat.completions.create({...many, logit_bias: {x: 1}}), APIError);
    assert.match((await client.chat.completions.create(cold)).choices[0].message.content, /Paris/);
  });
  test('runs tools', async () => {
    const heard = [], weather = {type: 'function', function: {name: 'weather', description: 'the weather',
      parameters: CITY, parse: JSON.parse, function: ({city}) => {
        heard.push(city);
        return 'sunny';
      }}};
    const runner = client.chat.completions.runTools({...cold, max_tokens: 60, messages: ASKED,
      tools: [weather],
      tool_choice: {type: 'function', function: {name: 'weather'}}});
    await runner.finalContent().catch(() => {});
    assert.ok(heard.length && heard.every(city => CITY.properties.city.enum.includes(city)), heard);
  });
  test('responses, which are continued', async () => {
    const asked = {...COLD, input: QUESTION[0].content, max_output_tokens: 8};
    const first = await client.responses.create(asked);
    assert.match(first.output_text, /Paris/);
    assert.equal((await own.responses.create(asked)).output_text, first.output_text);
    assert.equal(await join(await client.responses.create({...asked, stream: true}), e =>
      (e.type === 'response.output_text.delta' ? e.delta : '')), first.output_text);
    const next = await client.responses.create({...asked, input: 'And of Spain?', max_output_tokens: 16,
      previous_response_id: first.id});
    assert.match(next.output_text, /Spain|Madrid/);
    assert.ok(next.usage.input_tokens > first.usage.input_tokens);
  });
  test('embeddings in base64, as it asks by default', async () => {
    const {data: [{embedding}]} = await client.embeddings.create({model: 'm', input: 'a cat'});
    const vector = await model.embed('a cat');
    assert.deepEqual(embedding, [...vector]);
  });
  test('models', async () => {
    assert.deepEqual((await client.models.list()).data.map(one => one.id), ['m']);
    for await (const one of await own.models.list()) assert.equal(one.id, 'm');
    assert.equal((await client.models.retrieve('m')).id, 'm');
  });
  test('errors are the API\'s', async () => {
    await assert.rejects(client.chat.completions.create({...cold, messages: []}),
      error => error instanceof OpenAI.BadRequestError && error.code === 'invalid_value');
    await assert.rejects(client.chat.completions.create({...cold,
      messages: [{role: 'user', content: 'word '.repeat(2000)}]}), {status: 400,
        code: 'context_length_exceeded'});
    await assert.rejects(client.chat.completions.create({...cold, stream: true,
      messages: [{role: 'user', content: 'word '.repeat(2000)}]}), {status: 400});
    await assert.rejects(own.chat.completions.create({...cold, messages: []}),
      error => error instanceof APIError && error.status === 400 && error.param === 'messages');
    await assert.rejects(client.completions.create({...COLD, prompt: 'Once', echo: true, logprobs: 1}),
      {status: 400, param: 'echo'});
    await assert.rejects(client.chat.completions.create({...cold, tools: [], tool_choice: 'required'}),
      {status: 400, param: 'tool_choice'});
    const busy = model.generate('Once', {maxTokens: 400, ignoreEnd: true});
    await busy.next();
    await busy.return();
    assert.match((await client.chat.completions.create(cold)).choices[0].message.content, /Paris/);
  });
  test('a stream that is left frees the model, and a signal ends it', async () => {
    const long = {...cold, max_tokens: 400};
    for await (const chunk of await client.chat.completions.create({...long, stream: true}))
      if (chunk.choices[0].delta.content) break;
    assert.match((await model.chat(QUESTION, {temperature: 0, maxTokens: 8})).text, /Paris/);
    const stop = new AbortController();
    const stopped = client.chat.completions.create(long, {signal: stop.signal});
    setTimeout(() => stop.abort(), 50);
    await assert.rejects(stopped, OpenAI.APIUserAbortError);
    const stream = await own.chat.completions.create({...long, stream: true});
    await assert.rejects(async () => {
      for await (const chunk of stream) if (chunk.choices[0].delta.content) stream.controller.abort();
    }, {name: 'AbortError'});
    assert.match((await model.chat(QUESTION, {temperature: 0, maxTokens: 8})).text, /Paris/);
  });
  test('a stream that its controller aborts ends quietly', async () => {
    const stream = await client.chat.completions.create({...cold, max_tokens: 400, stream: true});
    for await (const chunk of stream) if (chunk.choices[0].delta.content) stream.controller.abort();
    assert.match((await model.chat(QUESTION, {temperature: 0, maxTokens: 8})).text, /Paris/);
  });
});

describe('an error', () => {
  const failing = (error, requests = []) => {
    const chat = () => { throw error; }, answers = createFetch({info: {}, chat, generate: chat});
    return new OpenAI({baseURL: 'http://qsf/v1', apiKey: 'x', fetch: (...request) => {
      requests.push(request);
      return answers(...request);
    }});
  };
  const problem = code => Object.assign(new Error('no luck'), {name: 'QsfError', code});
  test('is repeated only if another try may help', async () => {
    for (const [code, status, tries] of [['CANCELLED', 499, 1], ['DISPOSED', 410, 1], ['CORRUPT', 500, 1],
      ['WORKER', 500, 1], [undefined, 500, 1], ['IO', 500, 3]]) {
      const requests = [], {chat} = failing(problem(code), requests);
      await assert.rejects(chat.completions.create({...COLD, messages: QUESTION}), {status}, code);
      assert.equal(requests.length, tries, code);
    }
  });
  test('names the field of the API', async () => {
    const ask = (more, path = 'chat') => (path === 'chat' ? client.chat.completions.create({...COLD,
      messages: QUESTION, ...more}) : client.responses.create({...COLD, input: 'Hi', ...more}));
    const json = {type: 'json_schema', json_schema: {name: 'x', schema: 5}};
    for (const [more, param, text, path] of [
      [{response_format: json}, 'response_format', /the schema of response_format is 5/],
      [{text: {format: {type: 'json_schema', name: 'x', schema: 5}}}, 'text.format', /of text.format is 5/,
        'responses'],
      [{logit_bias: {a: 1}}, 'logit_bias', /logit_bias has a token "a"/],
      [{tools: [TOOL], tool_choice: 'sometimes'}, 'tool_choice', /tool_choice is "sometimes"/],
    ])
      await assert.rejects(ask(more, path), error => {
        assert.deepEqual([error.status, error.param], [400, param]);
        assert.match(error.message, text);
        return true;
      });
  });
  test('says that there is no model', () => {
    for (const make of [createFetch, of => new Own({model: of})]) {
      assert.throws(() => make(), {code: 'ARGUMENT', message: /the model is undefined/});
      assert.throws(() => make(Promise.resolve(model)), {code: 'ARGUMENT', message: /await/});
    }
  });
});
