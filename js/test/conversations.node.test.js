/* Many conversations on one model: at the same time, out of memory and back, left in the middle.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {setFlagsFromString} from 'node:v8';
import {runInNewContext} from 'node:vm';
import {code, load, packaged} from './tools.js';
import {random, tinyModel} from './tiny.js';

const {UNREAD} = await import(pathToFileURL(packaged('conversations.js')));

const tiny = tinyModel({context: 2048}), LONG = {temperature: 0, ignoreEnd: true, maxTokens: 24};
const CHATML = {...LONG, template: 'chatml'};
const read = async (parts, most = Infinity) => {
  let text = '';
  for await (const part of parts) {
    text += part;
    if (text.length >= most) break;
  }
  return text;
};
const said = i => [`Once ${'x'.repeat(i)}`, `And then ${i}`, 'So?'];
/* What a conversation says to three messages when nothing else runs. */
async function alone(i, options = {}) {
  const model = await load(tiny, {threads: 1, contextLength: 2048, maxParallel: 1, ...options});
  const talk = model.conversation({...CHATML, system: 'Be brief.'}), texts = [];
  for (const text of said(i)) texts.push(await read(talk.chat(text)));
  await model.dispose();
  return texts;
}
const MANY = 20, wanted = [];
before(async () => { for (let i = 0; i < MANY; i++) wanted.push(await alone(i)); });

describe('20 conversations at the same time have their own texts', () => {
  for (const [name, options] of [['all in memory', {maxParallel: MANY, contextLength: 8192}],
    ['by default', {contextLength: 4096}], ['one at a time', {maxParallel: 1, contextLength: 2048}],
    ['no room for two', {maxParallel: 4, contextLength: 352}], ['two threads', {threads: 2}],
    ['files', {maxParallel: 2, contextLength: 384, memory: 1000}]])
    test(name, {timeout: 240_000}, async () => {
      const model = await load(tiny, {threads: 1, ...options});
      const texts = await Promise.all(wanted.map(async (_, i) => {
        const talk = model.conversation({...CHATML, system: 'Be brief.'}), all = [];
        for (const text of said(i)) all.push(await read(talk.chat(text)));
        assert.equal(talk.messages.length, 7);
        return all;
      }));
      assert.deepEqual(texts, wanted);
      await model.dispose();
    });
});

test('an answer ends where the context is full, alone and with others', {timeout: 60_000}, async () => {
  const options = {...CHATML, maxTokens: 2000};
  for (const guesses of [undefined, 3]) {
    const model = await load(tiny, {threads: 1, contextLength: 256, ...(guesses && {memory: 1000})});
    const whole = await model.chat('Once', options), ends = [];
    assert.equal(whole.finishReason, 'length');
    assert.equal(whole.usage.promptTokens + whole.usage.completionTokens, 257);     // the last has no place
    for (const answer of await Promise.all([1, 2, 3].map(() => model.conversation().chat('Once', options))))
      ends.push([answer.text, answer.finishReason]);
    assert.deepEqual(ends, ends.map(() => [whole.text, 'length']));
    await model.dispose();
  }
});

describe('one conversation', () => {
  let model;
  before(async () => { model = await load(tiny, {threads: 1, contextLength: 2048}); });
  after(() => model.dispose());

  test('has its calls in order, each with the answers before it', async () => {
    const talk = model.conversation({...CHATML, system: 'Be brief.'});
    assert.deepEqual(await Promise.all(said(3).map(text => read(talk.chat(text)))), wanted[3]);
    assert.deepEqual(talk.messages.map(({role}) => role),
      ['system', 'user', 'assistant', 'user', 'assistant', 'user', 'assistant']);
    assert.deepEqual(talk.messages.filter(({role}) => role === 'assistant').map(({content}) => content),
      wanted[3]);
  });
  test('computes only new tokens while another one alternates with it', async () => {
    const talks = [5, 6].map(() => model.conversation({...CHATML, system: 'x'.repeat(300)}));
    for (let n = 0; n < 3; n++)
      for (const talk of talks) {
        const answer = talk.chat('More');
        await read(answer);
        const {promptTokens, cachedTokens} = answer.usage;
        assert.ok(n === 0 || promptTokens - cachedTokens < 100, `${cachedTokens} of ${promptTokens}`);
      }
    const histories = [[], []];         // the same by the model's own calls
    for (let n = 0; n < 3; n++)
      for (const [i, messages] of histories.entries()) {
        messages.push({role: 'user', content: `${'ab'[i].repeat(200)} ${n}`});
        const answer = model.chat(messages, CHATML);
        messages.push({role: 'assistant', content: await read(answer)});
        const {promptTokens, cachedTokens} = answer.usage;
        assert.ok(n === 0 || promptTokens - cachedTokens < 300, `${cachedTokens} of ${promptTokens}`);
      }
  });
  test('a call that fails or is left changes nothing', async () => {
    const talk = model.conversation({...CHATML, system: 'Be brief.'}), mistake = new Error('a mistake');
    await assert.rejects(read(talk.chat('a', {onToken() { throw mistake; }})), mistake);
    await read(talk.chat('b'), 3);
    await assert.rejects(read(talk.chat('c', {responseFormat: {type: 'regex', regex: '('}})),
      {code: 'ARGUMENT'});
    await assert.rejects(read(talk.chat('d'.repeat(3000))), {code: 'FULL'});
    assert.equal(talk.messages.length, 1);
    assert.equal(await read(talk.chat(said(4)[0])), wanted[4][0]);
  });
  test('takes a list of messages instead of its own', async () => {
    const talk = model.conversation({...CHATML, system: 'Be brief.'});
    await read(talk.chat('something else'));
    assert.equal(await read(talk.chat([{role: 'user', content: said(2)[0]}])), wanted[2][0]);
    assert.equal(talk.messages.length, 3);
    const later = model.conversation({...CHATML, messages: talk.messages});
    assert.equal(await read(later.chat(said(2)[1])), wanted[2][1]);
  });
  test('has sessions, embeddings and an end', async () => {
    const talk = model.conversation({...CHATML, system: 'Be brief.'}), other = model.conversation();
    await read(talk.chat(said(1)[0]));
    const bytes = await talk.saveSession();
    assert.ok(await other.loadSession(bytes) > 10);
    const [vector, text] = await Promise.all([other.embed('a'), read(talk.chat(said(1)[1]))]);
    assert.equal(text, wanted[1][1]);
    assert.deepEqual(await model.embed('a'), vector);
    await talk.dispose();
    await assert.rejects(read(talk.chat('x')), {code: 'DISPOSED', message: /disposed of/});
  });
});

describe('calls of a conversation that end early', () => {
  let model;
  const most = {...LONG, maxTokens: 400}, wait = ms => new Promise(resolve => setTimeout(resolve, ms));
  before(async () => { model = await load(tiny, {threads: 1, contextLength: 2048}); });
  after(() => model.dispose());
  const shortly = async use => {
    const kept = {...UNREAD};
    Object.assign(UNREAD, {ms: 100, lookMs: 10});
    try {
      await use();
    } finally {
      Object.assign(UNREAD, kept);
    }
  };

  test('an answer that is not read is ended by the next call', {timeout: 20_000}, () => shortly(async () => {
    const talk = model.conversation(CHATML);
    for (const maxTokens of [4, 400]) {         // all of it has arrived, or has not
      const unread = talk.generate('Once', {...LONG, maxTokens}), other = talk.generate('Once', most);
      await unread.next();
      await wait(50);
      const begins = other.next(), text = read(talk.chat('x'));
      await begins;
      assert.ok(await text);
      for (const answer of [unread, other]) {
        await assert.rejects(read(answer), code('CANCELLED', /not read for 0\.1 s, while another call/));
        await assert.rejects(answer, code('CANCELLED', /not read for/));
      }
    }
  }));
  test('an answer that is not read keeps its turn if no call waits', () => shortly(async () => {
    const answer = model.conversation(CHATML).generate('Once', LONG), {value} = await answer.next();
    await wait(200);
    assert.equal(value + await read(answer), await read(model.generate('Once', LONG)));
  }));
  test('a signal and stop() free the conversation of an answer that is not read', async () => {
    const talk = model.conversation(CHATML), stop = new AbortController(), reason = new Error('enough');
    const one = talk.generate('Once', {...most, signal: stop.signal});
    await one.next();
    stop.abort(reason);
    const other = talk.generate('Once', most);
    await other.next();
    model.stop();
    assert.ok(await read(talk.chat('x')));
    await assert.rejects(read(one), reason);
    assert.equal(await read(other), '');
    await assert.rejects(other, code('CANCELLED', /^model\.stop\(\) ended the answer$/));
    const awaited = model.generate('Once', most).catch(error => error);
    await wait(20);
    model.stop();
    assert.match((await awaited).message, /^model\.stop\(\)/);
  });
  test('dispose() ends all of them, and refuses later ones', {timeout: 20_000}, async () => {
    const gone = code('DISPOSED', /^the conversation has been disposed of$/);
    const talk = model.conversation(CHATML);
    const bytes = await model.saveSession();
    const running = talk.chat('x', most), later = talk.chat('z');
    await running.next();
    const others = [read(talk.chat('y')), talk.embed('a'), talk.saveSession()].map(call =>
      assert.rejects(call, gone));
    await talk.dispose();
    await Promise.all(others);
    await assert.rejects(read(running), gone);
    for (const call of [() => later, () => talk.chat('x'), () => talk.generate('x'), () => talk.embed('a'),
      () => talk.rerank('a', ['b']), () => talk.saveSession(), () => talk.loadSession(bytes)])
      await assert.rejects(call(), gone);
    await talk.dispose();
    assert.deepEqual(talk.messages, []);
    const fresh = model.conversation({...CHATML, system: 'Be brief.'});
    assert.equal(await read(fresh.chat(said(0)[0])), wanted[0][0]);
  });
  test('a signal ends embed() and rerank() that wait', {timeout: 20_000}, async () => {
    const talk = model.conversation(CHATML), reason = new Error('enough'), stop = new AbortController();
    const running = talk.generate('Once', LONG), {signal} = stop, {value} = await running.next();
    const calls = [talk.embed('a', {signal}), talk.rerank('a', ['b'], {signal})];
    const over = Promise.all(calls.map(call => assert.rejects(call, reason)));
    const next = talk.embed('a');
    stop.abort(reason);
    await over;
    await assert.rejects(talk.embed('a', {signal}), reason);
    await assert.rejects(talk.embed('a', {signal: 1}), code('ARGUMENT', /^signal is 1; it must be an/));
    assert.equal(value + await read(running), await read(model.generate('Once', LONG)));
    assert.deepEqual(await next, await model.embed('a'));
  });
  test('a continued message stays one', async () => {
    const talk = model.conversation(CHATML), begun = {role: 'assistant', content: 'So'};
    const text = await read(talk.chat([{role: 'user', content: 'x'}, begun], {continueFinalMessage: true}));
    assert.deepEqual(talk.messages,
      [{role: 'user', content: 'x'}, {role: 'assistant', content: `So${text}`}]);
    assert.ok(await read(talk.chat('y')));
    assert.equal(talk.messages.length, 4);
  });
});

test('conversation() refuses what is not its own', async () => {
  const model = await load(tiny, {threads: 1});
  for (const [options, message] of [
    ['text', /^the options of conversation\(\) are "text"; they must be an object/],
    [null, /are null; they must/], [[{role: 'user', content: 'x'}], /are a list of 1; they must/],
    [{messages: 'x'}, /^messages is "x"; it must be a list of/], [{messages: null}, /^messages is null; /],
    [{system: 5}, /^system is 5; it must be a string/],
    [{signal: new AbortController().signal}, /^signal is not an option of conversation\(\); give it to chat/],
    [{maxTokens: '5'}, /^maxTokens is "5"/]])
    assert.throws(() => model.conversation(options), code('ARGUMENT', message));
  assert.deepEqual(model.conversation({signal: undefined, system: 'x'}).messages,
    [{role: 'system', content: 'x'}]);
  await model.dispose();
});

test('stop() ends what has begun', async () => {
  const model = await load(tiny, {threads: 1, contextLength: 2048}), all = [];
  for (let i = 0; i < 4; i++) {
    const parts = model.conversation().generate('Once', {...LONG, maxTokens: 400});
    await parts.next();
    all.push(parts);
  }
  model.stop();
  for (const parts of all) assert.deepEqual(await parts.next(), {done: true, value: undefined});
  const talk = model.conversation({...CHATML, system: 'Be brief.'});
  assert.equal(await read(talk.chat(said(0)[0])), wanted[0][0]);
  await model.dispose();
});

test('generators that were dropped hold nothing up, and end when they are collected', async () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc'), model = await load(tiny, {threads: 1, maxParallel: 1});
  const talk = model.conversation({...CHATML, system: 'Be brief.'});
  await (async () => {
    for (let i = 0; i < 3; i++) await model.generate('Once', {maxTokens: 200}).next();
  })();
  await (async () => { await talk.chat('x', {maxTokens: 200}).next(); })();
  assert.equal(await read(model.generate('Twice', LONG)), await read(model.generate('Twice', LONG)));
  const next = read(talk.chat(said(0)[0]));     // has its turn when the one before is collected
  let over = false;
  void next.finally(() => { over = true; });
  for (const end = Date.now() + 25_000; !over && Date.now() < end;) {
    gc();
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  assert.equal(await next, wanted[0][0]);
  await model.dispose();
});

test('1,000 answers begun, read, left and dropped in any order', {timeout: 300_000}, async t => {
  const seed = Number(process.env.QSF_TEST_SEED) || 1 + Math.floor(Math.random() * 1e6);
  t.diagnostic(`seed ${seed}`);
  const next = random(seed), below = n => Math.floor(next() * n), mistake = new Error('a mistake');
  for (const options of [{maxParallel: 3, contextLength: 352}, {contextLength: 1024}]) {
    const model = await load(tiny, {threads: 1, ...options});
    for (let n = 0; n < 25; n++)
      await Promise.all(Array.from({length: 20}, async () => {
        const i = below(MANY), talk = model.conversation({...CHATML, system: 'Be brief.'});
        const stop = new AbortController(), way = below(6);
        const given = {signal: stop.signal, maxTokens: LONG.maxTokens,
          ...(way === 1 && {onToken() { throw mistake; }})};
        if (way === 2) setTimeout(() => stop.abort(mistake), below(10));
        const parts = talk.chat(said(i)[0], given);
        try {
          const text = await read(parts, way === 3 ? 1 + below(8) : Infinity);
          assert.ok(way === 3 ? wanted[i][0].startsWith(text) : text === wanted[i][0], text);
          if (way === 4) assert.equal(await read(talk.chat(said(i)[1])), wanted[i][1]);
          if (way === 5) assert.ok(await model.embed(said(i)[0]));
        } catch (error) {
          if (error !== mistake) throw error;
        }
        if (below(2)) await talk.dispose();
      }));
    await model.dispose();
  }
});
