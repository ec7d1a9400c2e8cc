/* What an answer may be and what is told of it: formats, biases, log probabilities, tools and
 * reasoning.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_SEED repeats what a failure names. */
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';
import {TALK, TEMPLATE, TOOLS, fits, hostile} from './answers.js';
import {code, collect, load} from './tools.js';
import {tinyModel} from './tiny.js';

const tiny = tinyModel({context: 2048}), WARM = {temperature: 1, seed: 1, maxTokens: 200};
let model;
before(async () => { model = await load(tiny, {threads: 1}); });
after(() => model.dispose());
/* '"', ')' and '}' are favoured, so that strings of a random model end. */
const CLOSE = {6: 6, 13: 4, 97: 6}, CALL = {...CLOSE, 32: 12};     // '<'
const generate = options => collect(model.generate('x', {...WARM, ...options}));
const ask = options => collect(model.chat(TALK, {...WARM, template: TEMPLATE, ...options}));

describe('responseFormat', () => {
  const schema = {type: 'object', properties: {a: {enum: ['b', 'c']}, d: {type: 'boolean'}},
    required: ['a', 'd'], additionalProperties: false};
  const object = text => assert.equal(Object.prototype.toString.call(JSON.parse(text)), '[object Object]');
  const keeps = text => {
    const {a, d} = JSON.parse(text);
    assert.ok(['b', 'c'].includes(a) && typeof d === 'boolean', text);
  };
  for (const [format, check] of [[{type: 'json_object'}, object],
    [{type: 'json_schema', json_schema: {name: 'x', strict: true, schema}}, keeps],
    [{type: 'json_schema', schema}, keeps],
    [{type: 'regex', regex: 'a{3}[bc]+d'}, text => assert.match(text, /^a{3}[bc]+d$/)],
    [{type: 'grammar', grammar: 'root ::= "(" [0-9]+ ")"'}, text => assert.match(text, /^\([0-9]+\)$/)],
    [{type: 'grammar', grammar: 'start: "(" DIGIT+ ")"\n%import common.DIGIT\n'},
      text => assert.match(text, /^\([0-9]+\)$/)],
    [{type: 'choices', choices: ['yes', 'no "x"']},
      text => assert.ok(['yes', 'no "x"'].includes(text), text)]])
    test(`${format.type}${format.schema ? ', the short form' : ''}${
      format.grammar?.startsWith('start') ? ' in Lark' : ''}`, async () => {
      for (const answer of [generate, ask])
        for (let seed = 1; seed < 5; seed++) {
          const {text, reason} = await answer({responseFormat: format, seed, logitBias: CLOSE,
            reasoningBudget: 3});
          assert.equal(reason, 'end', text);
          check(text);
        }
    });
  test('a schema that cannot be kept is loosened, with a warning', async t => {
    const warn = t.mock.method(console, 'warn', () => {});
    const kept = {type: 'object', properties: {a: {const: 7}, b: {pattern: '(a)\\1', maxLength: 2}},
      required: ['a'], additionalProperties: false};
    for (const responseFormat of [{type: 'json_schema', schema: kept},
      {type: 'json_schema', json_schema: {schema: kept, strict: false}}])
      for (const answer of [generate, ask]) {
        const {text, reason} = await answer({responseFormat, logitBias: CLOSE, reasoningBudget: 3});
        assert.equal(reason, 'end', text);
        assert.equal(JSON.parse(text).a, 7);
      }
    assert.equal(warn.mock.callCount(), 1);             // once per warning
    assert.match(warn.mock.calls[0].arguments[0],
      /^qsf: responseFormat is enforced only in part: .*backreference/);
    assert.match(model.info.warnings.join(), /responseFormat is enforced only in part/);
    await generate({responseFormat: {type: 'json_schema', schema: {const: 1}}});
    assert.equal(warn.mock.callCount(), 1);
  });
  test('text is any text', async () => {
    assert.deepEqual(await generate({responseFormat: {type: 'text'}}), await generate({}));
  });
  test('jsonBlanks', async () => {
    const responseFormat = {type: 'json_schema', schema: {const: [true, {a: null}]}};
    assert.equal((await generate({responseFormat, jsonBlanks: 0})).text, '[true,{"a":null}]');
    const {text} = await generate({responseFormat, jsonBlanks: Infinity, temperature: 5});
    assert.match(text, /\s{2}/);
  });
  for (const [format, pattern] of [
    ['json', /^responseFormat is "json"; it must be an object/], [[], /a list of 0/],
    [{}, /^responseFormat.type is undefined; it must be one of text, json_object, json_schema, regex, /],
    [{type: 'toString'}, /type is "toString"/],
    [{type: 'regex'}, /^responseFormat.regex is undefined; it must be a string$/],
    [{type: 'regex', regexp: 'a'}, /^a responseFormat of type regex has no regexp; it takes regex$/],
    [{type: 'json_object', schema: {}}, /json_object has no schema; it takes nothing else$/],
    [{type: 'json_schema', json_schema: {}}, /^the schema of responseFormat is undefined/],
    [{type: 'json_schema', schema: 5}, /is 5/],
    [{type: 'choices', choices: []}, /choices is a list of 0; .*one or more strings$/],
    [{type: 'choices', choices: ['a', 5]}, /a list of 2/],
    // what only the engine knows: it says where
    [{type: 'regex', regex: 'ab(c'}, /^responseFormat: regular expression: .* at character \d/],
    [{type: 'grammar', grammar: 'root ::= "a" |\nx ::= )'}, /^responseFormat: grammar.*line 2/],
    [{type: 'grammar', grammar: 'root ::= foo'}, /rule foo/],
    [{type: 'json_schema', schema: {properties: {a: {type: 'thing'}}}, strict: true},
      /#\/properties\/a\/type/],
    [{type: 'json_schema', json_schema: {schema: {pattern: '(a)\\1'}, strict: true}},
      /^responseFormat: schema: .*backreference/],
    [{type: 'json_schema', schema: {$ref: '#/nowhere'}, strict: true}, /#\/\$ref/]])
    test(`refuses ${JSON.stringify(format)}`, async () => {
      for (const answer of [generate, ask])
        await assert.rejects(answer({responseFormat: format}), code('ARGUMENT', pattern));
    });
});

describe('what a token is', () => {
  test('log probabilities of the model', async () => {
    const told = [], plain = await generate({maxTokens: 6, temperature: 0});
    const answer = await generate({maxTokens: 6, temperature: 0, logprobs: true, topLogprobs: 98,
      onToken: (id, of) => told.push([id, of])});
    assert.equal(answer.text, plain.text);
    for (const [id, {topLogprobs, ...own}] of told) {
      assert.equal(own.id, id);
      assert.deepEqual(topLogprobs[0], own);
      assert.equal(own.token, String.fromCharCode(...own.bytes));
      const sum = topLogprobs.reduce((all, {logprob}) => all + Math.exp(logprob), 0);
      assert.ok(sum > 0.95 && sum < 1.0001, sum);
      assert.ok(topLogprobs.every(({logprob}, i) => !i || logprob <= topLogprobs[i - 1].logprob));
    }
    assert.equal(told.map(([, {token}]) => token).join(''), plain.text);
  });
  test('nothing is told where nothing was asked for', async () => {
    await generate({maxTokens: 2, onToken: (...all) => assert.equal(all.length, 1)});
    const told = [];
    await generate({responseFormat: {type: 'choices', choices: ['forced']}, logprobs: true,
      onToken: (id, of) => told.push(of)});
    assert.ok(told.includes(undefined));        // the model was not asked
  });
  test('biases, by an object or a Map', async () => {
    const [id] = (await model.tokenize('D')).slice(-1), whole = {maxTokens: 4, temperature: 0};
    for (const logitBias of [{[id]: 100}, new Map([[id, 100]])])
      assert.equal((await generate({...whole, logitBias})).text, 'DDDD');
    const plain = (await generate(whole)).text, never = (await model.tokenize(plain[0])).at(-1);
    assert.ok(!(await generate({...whole, logitBias: {[never]: -Infinity}})).text.includes(plain[0]));
  });
  test('banned texts', async () => {
    const {text} = await generate({}), banned = text.slice(3, 5);
    assert.ok(!(await generate({bannedTexts: banned})).text.includes(banned));
  });
  test('DRY has its breakers', async () => {
    const dry = {dryMultiplier: 5, dryAllowedLength: 1, temperature: 0}, all = Array.from({length: 94},
      (_, i) => String.fromCharCode(33 + i));
    assert.equal((await generate({...dry, drySequenceBreakers: all})).text,
      (await generate({temperature: 0})).text);
    assert.notEqual((await generate({...dry, drySequenceBreakers: []})).text,
      (await generate({temperature: 0})).text);
  });
  for (const [options, pattern] of [[{logitBias: 5}, /^logitBias is 5/], [{logitBias: {a: 1}}, /token "a"/],
    [{logitBias: {5: NaN}}, /^logitBias of token 5 is NaN/], [{logitBias: {5: Infinity}}, /is Infinity/],
    [{logitBias: {99: 1}}, /^logitBias: a bias for token 99; the vocabulary has 99$/],
    [{logitBias: {'-1': 1}}, /token "-1"/], [{bannedTexts: ['']}, /^bannedTexts\[0\] is ""; .*empty$/],
    [{bannedTexts: 'x'.repeat(1025)}, /^bannedTexts: a string of 1025 bytes/], [{bannedTexts: 5}, /is 5/],
    [{drySequenceBreakers: null}, /^drySequenceBreakers is null/], [{topLogprobs: 1}, /needs logprobs$/],
    [{logprobs: true, topLogprobs: 101}, /^topLogprobs is 101; it must be a whole number from 0 to 100/],
    [{logprobs: 5}, /^logprobs is 5; it must be true or false/], [{jsonBlanks: -1}, /^jsonBlanks is -1/]])
    test(`refuses ${Object.keys(options)} ${pattern.source}`, async () => {
      await assert.rejects(generate(options), code('ARGUMENT', pattern));
    });
});

describe('tools', () => {
  const must = {tools: TOOLS, toolChoice: 'required'};
  test('calls come whole, with arguments after their schemas', async () => {
    for (let seed = 1; seed < 9; seed++) {
      const told = [];
      const {reason} = await ask({...must, seed, onToolCall: call => { told.push(call); }});
      assert.ok(reason.toolCalls.length && reason.toolCalls.every(fits), JSON.stringify(reason));
      assert.deepEqual(told, reason.toolCalls);
      assert.deepEqual(reason.messages, [{role: 'assistant', content: null, tool_calls: told}]);
      assert.equal(new Set(told.map(({id}) => id)).size, told.length);
      assert.deepEqual((await ask({...must, seed})).reason, reason);
    }
  });
  test('one is chosen, or none', async () => {
    const named = {tools: TOOLS, toolChoice: {type: 'function', function: {name: 'add'}}};
    assert.deepEqual((await ask(named)).reason.toolCalls.map(call => call.function.name), ['add']);
    assert.equal((await ask({...must, parallelToolCalls: false})).reason.toolCalls.length, 1);
    for (const toolChoice of ['none', 'auto']) {
      const {text, reason} = await ask({tools: TOOLS, toolChoice, maxTokens: 20});
      assert.deepEqual([reason.toolCalls, reason.text, reason.messages], [[], text, [{role: 'assistant',
        content: text}]]);
    }
    const {text, reason} = await ask({tools: TOOLS, toolChoice: 'none',
      responseFormat: {type: 'choices', choices: ['yes']}, reasoningBudget: 0});
    assert.deepEqual([text, reason.text, reason.end], ['yes', 'yes', 'end']);
  });
  test('with a responseFormat an answer is calls or fits it', async () => {
    const seen = new Set(), responseFormat = {type: 'json_schema', schema: {enum: ['b', 3]}};
    for (let seed = 1; seed < 40; seed++) {
      const {text, reason} = await ask({tools: TOOLS, responseFormat, seed, temperature: 2, maxTokens: 400,
        reasoningBudget: 2, logitBias: CALL, parallelToolCalls: false});
      if (reason.end !== 'end') continue;
      seen.add(reason.toolCalls.length ? 'calls' : 'text');
      if (reason.toolCalls.length) assert.ok(reason.toolCalls.every(fits), JSON.stringify(reason));
      else assert.ok(['b', 3].includes(JSON.parse(text)), text);
    }
    assert.deepEqual([...seen].sort(), ['calls', 'text']);
  });
  test('a schema that cannot be kept is loosened by one keyword, with a warning', async t => {
    const warn = t.mock.method(console, 'warn', () => {});
    const hard = {type: 'function', function: {name: 'hard', parameters: {type: 'object', required: ['a'],
      properties: {a: {type: 'array', uniqueItems: true, minItems: 1, maxItems: 1, items: {const: 7}},
        b: {pattern: '(a)\\1', maxLength: 2}}}}};
    const {reason} = await ask({tools: [hard], toolChoice: 'required', parallelToolCalls: false,
      logitBias: CLOSE});
    assert.deepEqual(JSON.parse(reason.toolCalls[0].function.arguments).a, [7]);
    assert.match(warn.mock.calls[0].arguments[0],
      /hard: parameters: #\/properties\/b\/pattern: .*backreference/);
    hard.function.strict = true;
    await assert.rejects(ask({tools: [hard], toolChoice: 'required'}), code('ARGUMENT', /^tools: .*pattern/));
  });
  for (const [how, given, content] of [['a text', () => 'sun', 'sun'],
    ['JSON', () => ({t: 'é'}), '{"t":"é"}'],
    ['a promise', async () => [1, null], '[1,null]'], ['null', () => null, 'null'],
    ['half a character', () => 'a\ud800', 'a\ufffd']])
    test(`${how} is a result: the model is asked again`, async () => {
      const {text, reason} = await ask({...must, parallelToolCalls: false, maxTokens: 80, onToolCall: given});
      const [first, result, last] = reason.messages;
      assert.deepEqual(result, {role: 'tool', tool_call_id: first.tool_calls[0].id,
        name: first.tool_calls[0].function.name, content});
      assert.deepEqual([last.role, last.content ?? '', text], ['assistant', reason.text, reason.text]);
      // the second answer is that of the conversation with the result
      const again = await collect(model.chat([...TALK, first, result],
        {...WARM, maxTokens: 80, template: TEMPLATE, tools: TOOLS}));
      assert.equal(again.text, text);
    });
  test('rounds end: what is called behind the last is the caller\'s', async () => {
    for (const maxToolRounds of [1, 3]) {
      let told = 0;
      const {reason} = await ask({...must, maxToolRounds, onToolCall: () => { told++; return 'x'; }});
      const results = reason.messages.filter(({role}) => role === 'tool');
      assert.equal(results.length, told);
      assert.ok(reason.messages.filter(({tool_calls: calls}) => calls).length <= maxToolRounds + 1);
    }
  });
  test('a call without a result is the caller\'s, beside results of others', async () => {
    for (let seed = 1; ; seed++) {
      const calls = [];
      const {reason} = await ask({...must, seed, maxTokens: 400, onToolCall(call) {
        calls.push(call);
        return calls.length === 2 ? undefined : 'x';
      }});
      if (reason.messages[0].tool_calls.length < 2) continue;
      assert.deepEqual(reason.messages.slice(1).map(({tool_call_id: id}) => id),
        calls.filter((_, i) => i !== 1).map(({id}) => id));
      assert.deepEqual(reason.toolCalls, calls);
      break;
    }
  });
  const mistake = new Error('a mistake of the caller');
  for (const [how, given, wanted] of [['throws', () => { throw mistake; }, mistake],
    ['rejects', () => Promise.reject(mistake), mistake],
    ['gives what JSON cannot say', () => 5n, code('ARGUMENT', /^onToolCall gave 5n, which cannot be/)],
    ['gives a function', () => () => 1, code('ARGUMENT', /^onToolCall gave a function/)],
    ['gives a zero byte', () => 'a\0', code('ARGUMENT', /zero byte/)]])
    test(`onToolCall ${how}: the answer rejects, and the model works on`, async () => {
      await assert.rejects(ask({...must, onToolCall: given}), wanted);
      assert.ok((await generate({maxTokens: 3})).text);
    });
  test('an answer is left while a result is waited for', async () => {
    const stop = new AbortController();
    await assert.rejects(ask({...must, signal: stop.signal, onToolCall() {
      setTimeout(() => stop.abort(mistake), 30);
      return new Promise(() => {});
    }}), mistake);
    const parts = model.chat(TALK, {...WARM, ...must, template: TEMPLATE, onToolCall() {
      setTimeout(() => void parts.return(), 30);
      return new Promise(() => {});
    }});
    assert.equal((await collect(parts)).reason, undefined);
    assert.ok((await generate({maxTokens: 3})).text);
  });
  test('other answers run while a result is waited for', async () => {
    const {text} = await generate({maxTokens: 5, temperature: 0}), heard = [];
    await ask({...must, maxToolRounds: 1, async onToolCall() {
      heard.push((await generate({maxTokens: 5, temperature: 0})).text);
      return `${(await model.tokenize('a')).length}`;
    }});
    assert.ok(heard.length && heard.every(word => word === text));
  });
  for (const [options, pattern] of [[{toolChoice: 'required'}, /^toolChoice is about tools: it needs tools$/],
    [{tools: [], toolChoice: 'auto'}, /needs tools/],
    [{tools: TOOLS, toolChoice: 'add'}, /^toolChoice is "add"/],
    [{tools: TOOLS, toolChoice: {type: 'function', function: {}}}, /^toolChoice.function.name is undefined/],
    [{tools: TOOLS, toolChoice: {type: 'function', function: {name: 'sub'}}}, /^tools: .*"sub"/],
    [{onToolCall: 'add'}, /^onToolCall is "add"; it must be a function$/],
    [{onReasoning: 5}, /^onReasoning is 5/], [{maxToolRounds: 0}, /^maxToolRounds is 0/],
    [{tools: [{type: 'function', function: {name: 'f', strict: true, parameters: {type: 'thing'}}}]},
      /^tools: .*#\/type/]])
    test(`refuses ${JSON.stringify(options)}`, async () => {
      await assert.rejects(ask(options), code('ARGUMENT', pattern));
    });
});

const NO_CONTROL = {0: -Infinity, 1: -Infinity, 2: -Infinity};     // whose texts would be seen
test('reasoning comes before a shape, and has a budget', async () => {
  const template = `${TEMPLATE.slice(0, TEMPLATE.lastIndexOf('{% endif %}'))}<think>\n{% endif %}`;
  const responseFormat = {type: 'choices', choices: ['yes', 'no']}, budget = 12;
  for (const onReasoning of [undefined, () => {}]) {
    let n = 0;
    const {text, reason} = await ask({template, responseFormat, reasoningBudget: budget, onReasoning,
      logitBias: NO_CONTROL, onToken: () => n++});
    assert.ok(['yes', 'no'].includes(text), text);
    assert.ok(n > budget && n < budget + 25, `${n} tokens`);
    if (!onReasoning) assert.equal(reason, 'end');
    else assert.ok(reason.end === 'end' && reason.reasoning.length >= budget, JSON.stringify(reason));
  }
});
test('reasoning is told apart', async () => {
  const template = `${TEMPLATE.slice(0, TEMPLATE.lastIndexOf('{% endif %}'))}<think>\n{% endif %}`, told = [];
  const most = {template, maxTokens: 30, logitBias: NO_CONTROL}, plain = await ask(most);
  const {text, reason} = await ask({...most, onReasoning: part => told.push(part)});
  assert.equal(reason.reasoning, told.join(''));
  assert.ok(reason.reasoning.length > 10 && plain.text.includes(reason.reasoning.trim()), reason.reasoning);
  assert.deepEqual([text, reason.text, reason.end, plain.reason], ['', '', 'length', 'length']);
  const mistake = new Error('a mistake of the caller');
  await assert.rejects(ask({template, onReasoning() { throw mistake; }}), mistake);
});

for (const [threads, count] of [[1, 150], [2, 40]])
  test(`${count} answers in random order, threads: ${threads}`, {timeout: 480_000}, async t => {
    const seed = Number(process.env.QSF_TEST_SEED ?? 1 + Math.floor(Math.random() * 1e6));
    try {
      const seen = await hostile(() => load(tiny, {threads}), count, seed);
      t.diagnostic(JSON.stringify({seed, ...seen}));
      assert.ok(seen.answers > count / 8);
    } catch (error) {
      throw new Error(`seed ${seed}: ${error.message}`, {cause: error});
    }
  });
