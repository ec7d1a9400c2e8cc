/* What calls of a model are given: options and arguments that are of no use, and functions of the
 * caller's that fail.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {promisify} from 'node:util';
import {WORK, code, collect, estimate, fileServer, load, packaged} from './tools.js';
import {tinyModel} from './tiny.js';

const tiny = tinyModel(), path = join(WORK, 'tiny-arguments.gguf');
const MESSAGES = [{role: 'user', content: 'hi'}], SHORT = {temperature: 0, ignoreEnd: true, maxTokens: 5};
let model;
before(async () => {
  await writeFile(path, tiny);
  model = await load(tiny, {threads: 1});
});
after(() => model.dispose());

describe('is refused with its name and value', () => {
  const wrong = [
    [{maxTokens: '5'}, /^maxTokens is "5"; it must be a whole number, or Infinity$/],
    [{maxTokens: NaN}, /^maxTokens is NaN/], [{maxTokens: 5.5}, /^maxTokens is 5.5/],
    [{maxTokens: -1}, /maxTokens/],
    [{temperature: 'hot'}, /^temperature is "hot"; it must be a number from 0 to 1000$/],
    [{temperature: ''}, /^temperature is ""/], [{temperature: null}, /^temperature is null/],
    [{temperature: -1}, /-1/],
    [{topK: 1.5}, /^topK is 1.5; .* whole/], [{topK: -1}, /topK/], [{topK: 5n}, /^topK is 5n;/],
    [{topP: 1.1}, /^topP is 1.1; it must be a number from 0 to 1$/], [{topP: NaN}, /topP/],
    [{minP: '0'}, /minP/],
    [{seed: -3}, /seed/], [{seed: 2 ** 54}, /seed/], [{seed: Symbol('s')}, /^seed is Symbol\(s\)/],
    [{repeatPenalty: 0}, /^repeatPenalty is 0; it must be a number from 0.01 to 100$/],
    [{frequencyPenalty: Infinity}, /frequencyPenalty/],
    [{presencePenalty: [1]}, /^presencePenalty is a list of 1/], [{repeatLastN: 2 ** 21}, /repeatLastN/],
    [{stop: null}, /^stop is null; it must be a string or a list of strings$/], [{stop: 5}, /stop is 5/],
    [{stop: ['a', 5]}, /^stop\[1\] is 5; it must be a string$/],
    [{adapters: [{scale: 1}]}, /^adapters\[0\] is an object; it must be an adapter, or/],
    [{ignoreEnd: 'no'}, /^ignoreEnd is "no"; it must be true or false$/],
    [{onToken: {}}, /^onToken is an object; it must be a function$/],
    [{signal: {}}, /^signal is an object; it must be an AbortSignal$/],
    [{signal: new AbortController()}, /signal/],
    [{max_tokens: 1}, /^no option of .*\(\) is called max_tokens; its name here is maxTokens$/],
    [{response_format: {type: 'json_object'}}, /its name here is responseFormat$/],
    [{responseFormat: {type: 'regex', regex: /a/}}, /regex is .*; it must be a string, as its source is/],
    [{tempreature: 1}, /^no option of .*\(\) is called tempreature; there are maxTokens, .*signal/],
    [{toString: 1}, /toString/], [{temperature: 'x'.repeat(1000)}, /^.{1,120}$/],
  ];
  for (const [call, ask] of [['generate', options => model.generate('x', options)],
    ['chat', options => model.chat(MESSAGES, {template: 'chatml', ...options})]])
    test(`an option of ${call}()`, async () => {
      for (const [options, pattern] of wrong)
        await assert.rejects(collect(ask(options)), code('ARGUMENT', pattern), pattern.source);
      for (const options of [null, 5, 'fast', []])
        await assert.rejects(collect(model[call](call === 'chat' ? MESSAGES : 'x', options)),
          code('ARGUMENT', /^the options of .* they must be an object$/));
    });
  test('a template', async () => {
    for (const template of ['', 5, null, 'chatml\0x']) {
      await assert.rejects(collect(model.chat(MESSAGES, {template})), code('ARGUMENT', /^template is /));
      await assert.rejects(model.render(MESSAGES, {template}), code('ARGUMENT', /^template is /));
    }
    await assert.rejects(collect(model.generate('x', {template: 'chatml'})),
      code('ARGUMENT', /no option of generate\(\) is called template/));
    await assert.rejects(collect(model.chat(MESSAGES, {template: 'nothing'})),
      code('NOT_FOUND', /"nothing"/));
  });
  test('a prompt', async () => {
    for (const prompt of [undefined, null, 5, {}, {length: 2}])
      await assert.rejects(collect(model.generate(prompt)),
        code('ARGUMENT', /^the tokens are .*; they must be /));
    for (const id of [NaN, -1, 99, 1.5, '5', null, 2 ** 40])
      await assert.rejects(collect(model.generate([5, id])),
        code('ARGUMENT', /^token 1 is .*; the model's are whole numbers from 0 to 98$/));
    await assert.rejects(collect(model.generate([])), code('ARGUMENT', /empty/));
  });
  test('a conversation', async () => {
    const calls = [messages => collect(model.chat(messages, {template: 'chatml'})),
      messages => model.render(messages, {template: 'chatml'})];
    for (const call of calls) {
      for (const messages of [5, undefined, null, {}, new Set(MESSAGES)])
        await assert.rejects(call(messages),
          code('ARGUMENT', /^the messages are .*; they must be a string, or a list of \{role, content\}$/));
      for (const message of [null, 'hello', undefined])
        await assert.rejects(call([...MESSAGES, message]), code('ARGUMENT', /^message 1 is /));
      await assert.rejects(call([{role: 'user'}]),
        code('ARGUMENT', /^the content of message 0 is undefined; it must be a string, or a list of /));
      await assert.rejects(call([{role: 5, content: ''}]), code('ARGUMENT', /^the role of message 0 is 5/));
      await assert.rejects(call([{role: 'user', content: 'a\0b'}]), code('ARGUMENT', /zero byte/));
      await assert.rejects(call(new Array(1)), code('ARGUMENT', /^message 0 is undefined/));
    }
    // what else is there stays there
    assert.ok(await calls[0]([{role: 'user', content: 'hi', name: 'x', tool() {}}]));
  });
  test('what is turned to tokens and back', async () => {
    for (const text of [undefined, 5, null, ['a']])
      await assert.rejects(model.tokenize(text), code('ARGUMENT', /^the text is /));
    await assert.rejects(model.tokenize('a', {addSpecial: 1}),
      code('ARGUMENT', /^addSpecial is 1; it must be true or false$/));
    await assert.rejects(model.tokenize('a', {special: true}),
      code('ARGUMENT', /no option of tokenize\(\) is called special; its name here is parseSpecial$/));
    await assert.rejects(model.tokenize('a', true), code('ARGUMENT', /options of tokenize\(\) are true/));
    for (const ids of [undefined, 5, 'abc', [1e6], [-1], [NaN]])
      await assert.rejects(model.detokenize(ids), code('ARGUMENT'));
    await assert.rejects(model.detokenize([5], {special: 'yes'}), code('ARGUMENT', /^special is "yes"/));
    assert.equal(await model.detokenize(new Set([37, 38])), await model.detokenize(Int32Array.of(37, 38)));
  });
  test('a session', async () => {
    const gone = new ArrayBuffer(8);
    structuredClone(gone, {transfer: [gone]});
    for (const bytes of [undefined, 'session', [1, 2], {}])
      await assert.rejects(model.loadSession(bytes),
        code('ARGUMENT', /^the session is .*; it must be a buffer$/));
    await assert.rejects(model.loadSession(gone), code('ARGUMENT', /no bytes any more/));
    const session = await model.saveSession();
    for (const bytes of [session, session.buffer, new DataView(session.buffer)])
      assert.equal(typeof await model.loadSession(bytes), 'number');
  });
  test('an option of load() and estimate()', async () => {
    for (const [options, pattern] of [[{signal: 5}, /^signal is 5; it must be an AbortSignal$/],
      [{onProgress: 'log'}, /^onProgress is "log"; it must be a function$/],
      [null, /options of load\(\) are null/], ['fast', /are "fast"/]])
      for (const call of [load, estimate])
        await assert.rejects(call(tiny, options), code('ARGUMENT', pattern));
  });
  test('an option in the terminal', async () => {
    const run = (...more) => promisify(execFile)(process.execPath,
      [packaged('cli.js'), path, '--raw', '-p', 'x', ...more]);
    for (const [more, pattern] of [[['--temp', 'hot'], /temperature is "hot"/],
      [['-n', '5.5'], /maxTokens is 5.5/], [['-n', ''], /maxTokens is ""/], [['--seed', 'x'], /seed is "x"/]])
      await assert.rejects(run(...more), ({code: status, stderr}) => status === 1 && pattern.test(stderr),
        more.join(' '));
  });
  test('a word in the terminal that has no meaning', async () => {
    const run = (...words) => promisify(execFile)(process.execPath, [packaged('cli.js'), ...words]);
    for (const [words, pattern] of [[[path, '-p', 'Name', 'a', 'colour'], /"a" .*: -p "Name a colour"/],
      [['--list', 'extra'], /"extra" has no meaning with --list/], [[path, 'hi'], /a prompt is -p "hi"/],
      [[path], /a prompt is missing/], [['-p', 'hi'], /a model is missing/],
      [[path, '--bogus'], /Unknown option '--bogus'; --help/]])
      await assert.rejects(run(...words), ({code: status, stderr}) => status === 2 && pattern.test(stderr)
        && stderr.split('\n').length === 2, words.join(' '));
    const {version} = JSON.parse(await readFile(packaged('package.json'), 'utf8'));
    assert.equal((await run('--version')).stdout, `${version}\n`);
  });
  test('an answer in the terminal, whose reader has closed the pipe', async () => {
    const run = spawn(process.execPath, [packaged('cli.js'), path, '--raw', '-p', 'x']);
    let said = '';
    run.stderr.on('data', part => { said += part; });
    run.stdout.destroy();
    const [status] = await once(run, 'close');
    assert.deepEqual([status, said], [1, '']);
  });
  test('the name of a model', async () => {
    for (const call of [load, estimate]) {
      await assert.rejects(call('', {}), code('ARGUMENT', /^the path or URL of the model is empty$/));
      for (const name of ['owner/some-GGUF', 'owner/some.v1:Q8_0'])
        await assert.rejects(call(name, {}), code('NOT_FOUND', new RegExp(`is hf:${name}$`)));
      await assert.rejects(call('folder/none.gguf', {}), code('NOT_FOUND', /no such file$/));
    }
  });
});

test('what is of use is taken', async () => {
  const {text} = await collect(model.generate('x', SHORT));
  assert.equal(text.length, 5);
  for (const options of [{stop: []}, {stop: new Set(['no such text'])}, {stop: '', topK: undefined},
    {seed: 2 ** 53, topP: 0, minP: 1, topK: 1e9, repeatLastN: 2 ** 20},
    {signal: new AbortController().signal}])
    assert.equal((await collect(model.generate('x', {...SHORT, ...options}))).text, text);
  assert.equal((await collect(model.generate('x', {...SHORT, stop: text[2]}))).text,
    text.slice(0, text.indexOf(text[2])));
  assert.equal((await collect(model.generate('x', {...SHORT, maxTokens: 0}))).text, '');
  assert.equal((await collect(model.generate('x', {...SHORT, maxTokens: Infinity}))).reason, 'full');
  const ids = await model.tokenize('x', {addSpecial: true});
  for (const prompt of [ids, Int32Array.from(ids), new Set(ids)])
    assert.equal((await collect(model.generate(prompt, SHORT))).text, text);
});

describe('a function of the caller that fails', () => {
  const reason = new Error('a mistake of the caller'), mistakes = {'throws': () => { throw reason; },
    'rejects': async () => { throw reason; },
    'rejects later': () => new Promise((_, reject) => { setTimeout(reject, 30, reason); })};
  const unhandled = [];
  const note = error => unhandled.push(error);
  before(() => process.on('unhandledRejection', note));
  after(() => {
    process.off('unhandledRejection', note);
    assert.deepEqual(unhandled, []);
  });

  for (const [how, fail] of Object.entries(mistakes)) {
    test(`onToken ${how}: the answer rejects, and the model works on`, async () => {
      await assert.rejects(collect(model.generate('x', {...SHORT, onToken: fail})), reason);
      await assert.rejects(collect(model.chat(MESSAGES, {...SHORT, template: 'chatml', onToken: fail})),
        reason);
      assert.equal((await collect(model.generate('x', SHORT))).text.length, 5);
    });
    test(`onProgress ${how} while a prompt is computed`, async () => {
      let wrong = true;
      const other =
        await load(tiny, {threads: 1, onProgress: p => (p.phase === 'prompt' && wrong ? fail() : undefined)});
      await assert.rejects(collect(other.generate('x', SHORT)), reason);
      wrong = false;
      assert.equal((await collect(other.generate('x', SHORT))).text.length, 5);
      await other.dispose();
    });
    test(`onProgress ${how} while a model is loaded`, async t => {
      const server = await fileServer(path);
      t.after(server.close);
      await assert.rejects(load(server.url, {threads: 1, cache: false, onProgress: fail}), reason);
      await assert.rejects(estimate(server.url, {threads: 1, cache: false, onProgress: fail}), reason);
    });
  }
  test('a token that throws is the last that is told, and its text is not given', async () => {
    let told = 0, texts = 0;
    await assert.rejects(async () => {
      for await (const text of model.generate('x',
        {...SHORT, onToken: () => { if (++told === 3) throw reason; }}))
        texts += text.length;
    }, reason);
    assert.deepEqual([told, texts], [3, 2]);
  });
  test('onProgress fails between two answers: the next one rejects', async () => {
    const {loadIn} = await import(pathToFileURL(packaged('model.js')));
    let hear;
    const worker = {
      post(m) {
        if (m.op === 'open') queueMicrotask(() => hear({id: m.id, value: {warnings: [], vocabulary: 99}}));
        if (m.op === 'generate' && m.prompt === 'ends')
          queueMicrotask(() => hear({turn: m.turn, done: {end: 'end'}}));
        if (m.op === 'end') queueMicrotask(() => hear({ended: true}));
      },
      onMessage(fn) { hear = fn; }, onFailure() {}, terminate() {},
    };
    const other = await loadIn(() => worker, {}, {onProgress: () => { throw reason; }}),
      progress = () => hear({progress: {phase: 'load', loaded: 1, total: 2, stored: 0}});
    progress();
    progress();
    await assert.rejects(collect(other.generate('ends')), reason);
    assert.equal((await collect(other.generate('ends'))).reason, 'end');
    const waits = collect(other.generate('waits'));
    await new Promise(setImmediate);
    progress();
    await assert.rejects(waits, reason);
    assert.equal((await collect(other.generate('ends'))).reason, 'end');
    await other.dispose();
  });
  test('promises that are kept are waited for, but not for ever', async () => {
    let kept = 0;
    await collect(model.generate('x', {...SHORT, onToken: () => new Promise(resolve => {
      setTimeout(() => { kept++; resolve(); }, 20);
    })}));
    assert.equal(kept, 5);
    const stop = new AbortController(), enough = new Error('enough');
    setTimeout(() => stop.abort(enough), 100);
    await assert.rejects(collect(model.generate('x',
      {...SHORT, signal: stop.signal, onToken: () => new Promise(() => {})})), enough);
  });
});

test('a signal may have any reason', async () => {
  for (const reason of [null, 0, '', false]) {
    const heard = promise => promise.then(() => assert.fail('nothing was rejected'),
      error => assert.equal(error, reason));
    await heard(collect(model.generate('x', {signal: AbortSignal.abort(reason)})));
    await heard(load(tiny, {threads: 1, signal: AbortSignal.abort(reason)}));
    const stop = new AbortController(), loading = heard(load(path, {threads: 1, signal: stop.signal}));
    setImmediate(() => stop.abort(reason));
    await loading;
  }
});
