/* Conversations of the page as data: branches, what a model is given, files that are exported and
 * imported, search; and the model that the first screen offers.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';
import {fitting} from '../../demo/pick.js';
import {append, choose, fenced, fromJson, matches, merge, messagesFor, newConversation, path, seen, siblings,
  titleOf, toJson, toMarkdown, toSummarise, trim} from '../../demo/thread.js';

/** A conversation of n questions with answers. */
function talk(n) {
  const conversation = newConversation(1);
  for (let i = 1; i <= n; i++) {
    append(conversation, conversation.leaf, 'user', `q${i}`);
    append(conversation, conversation.leaf, 'assistant', `a${i}`);
  }
  return conversation;
}
const shown = conversation => path(conversation).map(({content}) => content).join(' ');
const given = (...rest) => messagesFor(...rest).map(({content}) => content).join(' ');

describe('a conversation', () => {
  test('keeps what was said before an edit', () => {
    const conversation = talk(2), [first, , second] = path(conversation);
    const edited = append(conversation, second.parent, 'user', 'other');
    append(conversation, edited.id, 'assistant', 'b2');
    assert.equal(shown(conversation), 'q1 a1 other b2');
    assert.deepEqual(siblings(conversation, edited), [second, edited]);
    choose(conversation, second);
    assert.equal(shown(conversation), 'q1 a1 q2 a2');
    assert.equal(siblings(conversation, first).length, 1);
    append(conversation, null, 'user', 'anew');
    assert.equal(siblings(conversation, first).length, 2);
    choose(conversation, first);
    assert.equal(shown(conversation), 'q1 a1 other b2', 'the newest branch below');
  });
  test('gives the model what is before the question, and answers that there are', () => {
    const conversation = talk(2);
    append(conversation, conversation.leaf, 'text', 'Once upon');
    append(conversation, conversation.leaf, 'assistant', ' a time');
    append(conversation, conversation.leaf, 'user', 'failed');
    const question = append(conversation, conversation.leaf, 'user', 'q3',
      {files: [{name: 'a.txt', text: 'one\n```\ntwo'}]});
    assert.equal(given(conversation, question, ' s '),
      's q1 a1 q2 a2 File a.txt:\n````\none\n```\ntwo\n````\n\nq3');
    assert.equal(given(conversation, path(conversation)[2]), 'q1 a1 q2');
  });
  test('leaves out its older half until the question is alone', () => {
    const conversation = talk(4), question = append(conversation, conversation.leaf, 'user', 'q5'), seen = [];
    do seen.push(given(conversation, question)); while (trim(conversation, question));
    assert.deepEqual(seen, ['q1 a1 q2 a2 q3 a3 q4 a4 q5', 'q3 a3 q4 a4 q5', 'q4 a4 q5', 'q5']);
    assert.equal(given(conversation, question), 'q5');
    assert.equal(trim(conversation, question), false);
  });
  test('is summed up by its older half, on the branch that it is about', () => {
    const conversation = talk(4), question = append(conversation, conversation.leaf, 'user', 'q5');
    const {at, messages} = toSummarise(conversation, question, 's', 'sum up');
    assert.equal(messages.map(({content}) => content).join(' '), 's q1 a1 q2 a2 sum up');
    assert.equal(conversation.nodes.length, 9, 'nothing is added to it');
    conversation.notes = [{at, text: 'they met'}];
    const summed = 'Summary of the conversation before this:\nthey met';
    assert.equal(given(conversation, question), `${summed} q3 a3 q4 a4 q5`);
    assert.equal(given(conversation, question, 's'), `s\n\n${summed} q3 a3 q4 a4 q5`);
    assert.equal(given(conversation, path(conversation)[2]), 'q1 a1 q2', 'a question that it is about');

    // the next one is about the first, too
    const next = toSummarise(conversation, question, '', 'sum up');
    assert.equal(next.messages.map(({content}) => content).join(' '), `${summed} q3 a3 sum up`);
    conversation.notes.push({at: next.at, text: 'and went on'});
    assert.match(given(conversation, question), /^Summary.*\nand went on q4 a4 q5$/);
    assert.deepEqual([seen(conversation, path(conversation)).from, trim(conversation, question)], [6, true]);
    assert.match(given(conversation, question), /^Summary.*\nand went on q5$/);
    assert.equal(toSummarise(conversation, question, '', 'sum up'), undefined);

    const [, , second] = path(conversation), edited = append(conversation, second.parent, 'user', 'other');
    choose(conversation, edited);
    assert.equal(given(conversation, edited), 'q1 a1 other', 'another branch has none');
    choose(conversation, question);
    assert.match(given(conversation, question), /went on q4 a4 q5$/);
    const [back] = fromJson(toJson([conversation]));
    assert.deepEqual(back.notes, conversation.notes);
    assert.deepEqual(merge({...back, notes: back.notes.slice(1)}, {...back, notes: back.notes.slice(0, 1)})
      .notes, back.notes);
  });
  test('takes a title from its first words', () => {
    assert.equal(titleOf('  What is\tthis?\nMore'), 'What is this?');
    assert.equal(titleOf('word '.repeat(30)), `${'word '.repeat(9)}word …`.replace('word word …', 'word …'));
    assert.ok(titleOf('x'.repeat(100)).length < 52);
    for (const [text, title] of [['## What is **this**?', 'What is this?'],
      ['> - [ ] `a` and _b_', 'a and b'],
      ['```js\nconst a = 1;\n```', 'const a = 1;'], ['[a *b*](https://x.y/z) ![c](d.png)', 'a b c'],
      ['| a | b |\n|---|---|', 'a | b'], ['~~no~~ ***yes***', 'no yes'], ['**', '**'], ['```', '```'],
      ['2 * 3 * 4 and snake_case_name_x', '2 * 3 * 4 and snake_case_name_x'], ['# ', '#'],
      ['1. first', '1. first'], ['-5 + 3?', '-5 + 3?'], ['f(*args, **more)', 'f(*args, **more)']])
      assert.equal(titleOf(text), title, text);
    for (const part of ['*a', '`', '[', '_b ', '# ', '| '])
      assert.ok(titleOf(part.repeat(250_000)).length < 52, 'soon');
  });
  test('is found by all words of a search', () => {
    const conversation = talk(1);
    append(conversation, conversation.leaf, 'user', 'Wo liegt ÜBERLINGEN am Bodensee?');
    assert.ok(matches(conversation, 'bodensee überlingen'));
    assert.ok(matches(conversation, ' '));
    assert.equal(matches(conversation, 'bodensee paris'), false);
  });
  test('joins what two tabs have added', () => {
    const old = talk(1), now = structuredClone(old);
    append(old, old.leaf, 'user', 'here');
    append(now, now.leaf, 'user', 'there');
    const both = merge(old, now);
    assert.deepEqual(both.nodes.map(({content}) => content).sort(), ['a1', 'here', 'q1', 'there']);
    assert.equal(shown(both), 'q1 a1 there');
    assert.equal(merge(undefined, now), now);
  });
});

describe('files', () => {
  test('of JSON have everything, and give it back', () => {
    const all = [talk(2), talk(1)];
    append(all[0], path(all[0])[1].id, 'user', 'branch', {files: [{name: 'n', text: 't'}]});
    append(all[0], all[0].leaf, 'assistant', '', {reasoning: 'hm', end: 'stopped'});
    assert.deepEqual(fromJson(toJson(all)), all);
  });
  test('of Markdown are the branch that is shown', () => {
    const conversation = talk(1);
    append(conversation, path(conversation)[0].id, 'assistant', 'better\n', {reasoning: 'so\nso'});
    assert.equal(toMarkdown(conversation, {user: 'You', assistant: 'Model'}),
      '# q1\n\n## You\n\nq1\n\n## Model\n\n> so\n> so\n\nbetter\n');
    assert.equal(fenced('a ```` b'), '`````\na ```` b\n`````');
  });
  test('that are not ours, or damaged, are refused or read as far as they are right', () => {
    for (const text of ['', '{', '[]', 'null', '{"format": "other", "conversations": []}',
      '{"format": "qsf-conversations"}', '{"format": "qsf-conversations", "conversations": [null, {}, '
        + '{"id": 1}]}'])
      assert.throws(() => fromJson(text), /no conversations/, text);
    const hostile = {id: 'x', leaf: 'b', title: {}, created: 'now', __proto__: {evil: 1}, nodes: [
      {id: 'a', parent: 'b', role: 'user', content: 'one'}, {id: 'b', parent: 'a', role: 'assistant',
        content: 'two',
        html: '<b>', files: 'no'}, {id: 'c', parent: 'c', role: 'system', content: 'no'}, {id: 'd',
          role: 'user'}]};
    const [one] = fromJson(toJson([hostile]));
    assert.equal(one.title, '');
    assert.ok(Number.isFinite(one.created));
    assert.deepEqual(one.nodes.map(node => Object.keys(node).join()), ['id,parent,role,content',
      'id,parent,role,content']);
    assert.ok(path(one).length <= 3, 'a circle ends');
    choose(one, one.nodes[0]);
  });
});

test('the first screen offers what fits the device', () => {
  const models = [{url: 's', size: 80e6, start: true, there: true}, {url: 'g', size: 253e6, start: true,
    there: true},
    {url: 'x', size: 60e6, there: true}, {url: 'big', size: 5e9, start: true, there: true},
    {url: 'gone', size: 300e6, start: true, there: false}];
  const offer = (device, last, list = models) => fitting(list, {memory: 4e9, saveData: false, ...device},
    last)?.url;
  assert.equal(offer(), 'g');
  assert.equal(offer({memory: 1e9}), 's');
  assert.equal(offer({memory: 0.1e9}), 's', 'nothing fits: the smallest');
  assert.equal(offer({saveData: true}), 's');
  assert.equal(offer({memory: 64e9}), 'big');
  assert.equal(offer({}, 'x'), 'g', 'the last one is not stored');
  const stored = models.map(one => ({...one, here: one.url === 'x' || one.url === 's'}));
  assert.equal(offer({}, 'x', stored), 'x');
  assert.equal(offer({}, undefined, stored), 's', 'what is stored needs no download');
  assert.equal(offer({}, undefined, models.map(one => ({...one, start: undefined}))), 'g');
  assert.equal(offer({}, undefined, []), undefined);
  const base = models.map(one => ({...one, here: one.url === 'g', ...(one.url === 'g' && {chat: false})}));
  assert.equal(offer({}, 'g', base), 's', 'a base model is not for chats');
});
