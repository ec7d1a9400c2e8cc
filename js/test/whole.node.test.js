/* What generate() and chat() return: text in a loop, and with await the whole answer.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';
import {homedir} from 'node:os';
import {relative} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {TALK, TEMPLATE, TOOLS, fits} from './answers.js';
import {QSF, QUESTION, code, collect, fileServer, load} from './tools.js';
import {tinyModel} from './tiny.js';

const tiny = tinyModel({context: 2048}), WARM = {temperature: 1, seed: 1, maxTokens: 60};
let model;
before(async () => { model = await load(tiny, {threads: 1}); });
after(() => model.dispose());
const ask = options => model.chat(TALK, {...WARM, template: TEMPLATE, ...options});
const THINKS = `${TEMPLATE.slice(0, TEMPLATE.lastIndexOf('{% endif %}'))}<think>\n{% endif %}`;

describe('await', () => {
  test('gives all of an answer', async () => {
    const {text, reason} = await collect(model.generate('x', WARM));
    const {timings, ...whole} = await model.generate('x', WARM);
    assert.deepEqual(whole, {text, end: reason, finishReason: 'stop', reasoning: '', toolCalls: [],
      messages: [{role: 'assistant', content: text}], usage: {completionTokens: 30,
        promptTokens: (await model.tokenize('x', {addSpecial: true})).length, cachedTokens: 2}});
    assert.ok(timings.promptMs >= 0 && timings.answerMs > 0 && timings.tokensPerSecond > 0);
  });
  test('gives the text that a loop yields, and only computes once', async () => {
    let tokens = 0;
    const answer = ask({onToken: () => { tokens++; }}), first = await answer;
    assert.equal(await answer, first);
    assert.equal(tokens, first.usage.completionTokens);
    assert.equal((await collect(ask({onReasoning() {}}))).text, first.text);
    assert.deepEqual([answer.usage, answer.finishReason], [first.usage, first.finishReason]);
  });
  test('after a loop gives what the loop read', async () => {
    const answer = ask();
    let text = '';
    assert.equal(answer.finishReason, undefined);
    for await (const part of answer) {
      text += part;
      assert.ok(answer.usage.promptTokens > 0 && answer.usage.completionTokens > 0);
      assert.equal(answer.finishReason, undefined);
    }
    assert.equal(answer.finishReason, 'length');
    assert.equal(answer.usage.completionTokens, 60);
    const whole = await answer;
    assert.deepEqual([whole.text, whole.usage], [text, answer.usage]);
  });
  test('of an answer that is being read gives the answer: async functions may return it', async () => {
    const begin = async () => {
      const answer = ask();
      await answer.next();
      return answer;
    };
    const answer = await begin();
    assert.equal(typeof answer.next, 'function');
    await collect(answer);
    assert.equal((await answer).text, (await ask()).text);
    const over = [];
    for await (const text of await (async () => ask())()) over.push(text);
    assert.deepEqual(over, [(await answer).text]);
  });
  test('separates reasoning', async () => {
    const most = {template: THINKS, maxTokens: 30, logitBias: {0: -Infinity, 1: -Infinity, 2: -Infinity}};
    const {text, reasoning, usage} = await ask(most);
    assert.deepEqual([text, usage.completionTokens], ['', 30]);
    assert.ok(reasoning.length > 10);
    assert.equal((await collect(ask(most))).text.trim(), reasoning.trim());   // a loop over chat() alone
  });
  test('has calls, and sums the rounds', async () => {
    const must = {tools: TOOLS, toolChoice: 'required', maxTokens: 200};
    const {toolCalls, finishReason, messages} = await ask(must);
    assert.equal(finishReason, 'tool_calls');
    assert.ok(toolCalls.length && toolCalls.every(fits));
    assert.deepEqual(messages, [{role: 'assistant', content: null, tool_calls: toolCalls}]);
    let tokens = 0;
    const rounds = await ask({...must, maxToolRounds: 2, onToken: () => { tokens++; },
      onToolCall: () => 'x'});
    assert.ok(rounds.messages.length > 2);
    assert.equal(rounds.usage.completionTokens, tokens);
    assert.ok(rounds.usage.cachedTokens > 0 && rounds.usage.promptTokens > rounds.usage.cachedTokens);
  });
  test('rejects as the loop does', async () => {
    const reason = new Error('enough');
    await assert.rejects(model.generate('x', {maxTokens: '5'}), code('ARGUMENT', /^maxTokens is "5"/));
    await assert.rejects(model.chat([{role: 'user'}]), code('ARGUMENT'));
    await assert.rejects(model.generate('x', {signal: AbortSignal.abort(reason)}), reason);
    assert.equal(await model.generate('x', {maxTokens: -1}).catch(error => error.code), 'ARGUMENT');
    let over = 0;
    await ask().finally(() => { over++; });
    assert.equal(over, 1);
    const left = ask();
    for await (const text of left) if (text) break;
    await assert.rejects(left, code('CANCELLED', /not read to its end/));
    const never = ask();
    await never.return();
    await assert.rejects(never, code('CANCELLED'));
  });
  test('is whole while the answer is read by then(), catch() or race()', async () => {
    const {text} = await ask(), pause = ms => new Promise(resolve => setTimeout(resolve, ms));
    for (const begin of [a => a.catch(() => {}), a => a.then(() => {}), a => Promise.race([a, 1]),
      a => a.finally(() => {})]) {
      const answer = ask();
      void begin(answer);
      await pause(5);
      assert.equal((await answer).text, text);
      assert.equal((await answer).text, text);
      assert.deepEqual(await answer.next(), {done: true, value: undefined});
      assert.equal((await answer).text, text);
    }
  });
  test('a promise of an answer is the whole answer', async () => {
    const [one, two] = await Promise.all([ask(), Promise.resolve('other')]);
    assert.equal(one.finishReason, 'length');
    assert.equal(two, 'other');
  });
});

describe('parts', () => {
  test('come in order, and make the answer', async () => {
    for (let seed = 1; seed < 5; seed++) {
      const parts = [], options = {tools: TOOLS, toolChoice: 'required', seed, maxTokens: 300};
      const {toolCalls, text} = await ask({...options, onPart: part => parts.push(part)});
      const calls = [];
      for (const {type, index, id, name, text: more} of parts)
        if (type === 'call') calls[index] = {id, type: 'function', function: {name, arguments: ''}};
        else if (type === 'arguments') calls[index].function.arguments += more;
      assert.deepEqual(calls, toolCalls);
      assert.equal(parts.filter(({type}) => type === 'call-end').length, calls.length);
      assert.equal(parts.filter(({type}) => type === 'text').map(part => part.text).join(''), text);
    }
  });
  test('a call that maxTokens cuts is a partial call', async () => {
    const must = {tools: TOOLS, toolChoice: {type: 'function', function: {name: 'weather'}}};
    const whole = await ask({...must, maxTokens: 300}), {arguments: all} = whole.toolCalls[0].function;
    let seen = 0;
    for (let maxTokens = 1; maxTokens < whole.usage.completionTokens; maxTokens++) {
      const parts = [], {text, reason} = await collect(ask({...must, maxTokens,
        onPart: ({type}) => parts.push(type)}));
      assert.equal(reason.end, 'length');
      if (!reason.partialCall) continue;
      seen++;
      const {id, type, function: {name, arguments: some}} = reason.partialCall;
      assert.deepEqual([typeof id, type, name, all.startsWith(some)], ['string', 'function', 'weather',
        true]);
      assert.deepEqual([text, reason.text, reason.toolCalls], ['', '', []]);
      assert.equal(parts.at(-1), 'call-cut');
      assert.deepEqual(reason.messages, [{role: 'assistant', content: ''}]);
      const again = await ask({...must, maxTokens});
      assert.deepEqual([again.partialCall, again.finishReason], [reason.partialCall, 'length']);
    }
    assert.ok(seen > 5, `${seen} cut calls`);
  });
});

describe('messages', () => {
  let smol;
  before(async () => { smol = await load(QSF, {threads: 1, contextLength: 512}); });
  after(() => smol.dispose());
  const cold = {temperature: 0, maxTokens: 12};
  test('a string is what the user says', async () => {
    const {text} = await smol.chat(QUESTION[0].content, cold);
    assert.match(text, /Paris/);
    assert.equal(text, (await smol.chat(QUESTION, cold)).text);
    assert.equal(await smol.render('Hi'), await smol.render([{role: 'user', content: 'Hi'}]));
  });
  test('a developer is the system if the template has no such role', async () => {
    const rendered = role => smol.render([{role, content: 'Be brief.'}, ...QUESTION]);
    assert.equal(await rendered('developer'), await rendered('system'));
  });
  test('the last message is continued', async () => {
    const begun = [...QUESTION, {role: 'assistant', content: 'The capital of'}];
    const {text, messages} = await smol.chat(begun, {...cold, continueFinalMessage: true});
    assert.match(text, /^ France is Paris/);
    assert.deepEqual(messages, [{role: 'assistant', content: `The capital of${text}`}]);
    assert.match(await smol.render(begun, {continueFinalMessage: true}), /The capital of$/);
  });
  test('a continued message is one in every kind of answer', async () => {
    const more = {...cold, maxTokens: 3, continueFinalMessage: true};
    const parts = [{type: 'text', text: 'The capital of'}];
    for (const content of ['The capital of', parts, ['The capital', ' of']]) {
      const begun = [...QUESTION, {role: 'assistant', content}];
      const whole = text => (Array.isArray(content) ? [...content, {type: 'text', text}] : content + text);
      const answer = smol.chat(begun, more), {text} = await collect(answer);
      assert.deepEqual((await answer).messages, [{role: 'assistant', content: whole(text)}]);
      const {reason} = await collect(smol.chat(begun, {...more, onPart() {}}));
      assert.deepEqual(reason.messages, [{role: 'assistant', content: whole(text)}]);
      const talk = smol.conversation(more);
      await talk.chat(begun);
      assert.deepEqual(talk.messages, [...QUESTION, {role: 'assistant', content: whole(text)}]);
    }
  });
  test('OpenAI\'s call of a custom tool is one of a function', async () => {
    const talk = call => smol.render([...QUESTION, {role: 'assistant', content: null, tool_calls: [call]},
      {role: 'tool', tool_call_id: 'a', content: 'x'}], {template: TEMPLATE});
    assert.equal(await talk({id: 'a', type: 'custom', custom: {name: 'run', input: '1 + 1'}}),
      await talk({id: 'a', type: 'function', function: {name: 'run', arguments: {input: '1 + 1'}}}));
  });
  test('usage counts what is cached', async () => {
    const {usage: first} = await smol.chat('Tell me a story.', {maxTokens: 3});
    const {usage} = await smol.chat('Tell me a story.', {maxTokens: 3});
    assert.equal(usage.promptTokens, first.promptTokens);
    assert.equal(usage.cachedTokens, usage.promptTokens - 1);
    assert.equal(usage.completionTokens, 3);
  });
  test('an answer cut inside a character has none of its bytes', async () => {
    const character = '\u{12000}', ids = await smol.tokenize(character);
    assert.ok(ids.length > 2);
    for (let maxTokens = 1; maxTokens <= ids.length; maxTokens++)
      for (const answer of [smol.generate, smol.chat]) {
        const {text, end} = await answer.call(smol, 'x', {maxTokens,
          responseFormat: {type: 'choices', choices: [character]}});
        assert.ok([character, ''].includes(text), text);
        if (end === 'end') assert.equal(text, character);
        else assert.equal(text === '', maxTokens < ids.length);
      }
  });
});

describe('what load() takes', () => {
  const opens = async (from, options) => {
    const {info, dispose} = await load(from, {threads: 1, contextLength: 64, ...options}).then(loaded =>
      ({info: loaded.info, dispose: () => loaded.dispose()}));
    await dispose();
    return info;
  };
  test('a handle of a file', async () => {
    assert.equal((await opens({getFile: async () => new Blob([tiny])})).name, 'tiny');
  });
  test('the address of a file, as text and as a URL', async () => {
    assert.equal((await opens(pathToFileURL(QSF).href)).architecture, 'llama');
    assert.equal((await opens(pathToFileURL(QSF))).architecture, 'llama');
    await assert.rejects(load('file:///nowhere/x.gguf'), code('NOT_FOUND'));
    await assert.rejects(load('file://far/x.gguf'), code('ARGUMENT', /does not name a file/));
  });
  test('a path in the home folder', async () => {
    assert.equal((await opens(`~/${relative(homedir(), QSF)}`)).architecture, 'llama');
  });
  test('an address has to be whole', async () => {
    for (const text of ['https://', 'http:', 'HTTPS://[x'])
      await assert.rejects(load(text), code('ARGUMENT', /is not a complete address$/));
  });
  test('a timeout of 0 is no limit', async () => {
    const server = await fileServer(QSF);
    try {
      assert.equal((await opens(server.url, {timeout: 0, cache: false})).architecture, 'llama');
    } finally {
      server.close();
    }
  });
});
