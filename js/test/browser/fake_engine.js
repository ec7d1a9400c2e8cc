/* A package in place of the page's: its model answers at once and says what it was given, so that
 * what the page does with conversations can be seen.
 * SPDX-License-Identifier: MIT
 *
 * A question "say: TEXT" is answered with TEXT ("say and wait: TEXT" does not end; "say slowly:
 * TEXT" yields a word, and the next one when held[TEXT's first word] is called; "fail: WORD" fails
 * then), "think" with reasoning, "use: NAME ARGUMENTS" with a call of that tool, a format with its
 * schema's examples; other questions with all messages. A context has 200 tokens, a word each. */
export const cache = {list: async () => [], delete: async () => 0};
export class QsfError extends Error {}

const CONTEXT = 200;
const count = text => text.split(/\s+/).filter(Boolean).length;
export const estimate = async () => ({fileBytes: 1e6, parameters: 1e6, memoryBytes: 1e6, resident: true,
  plan: [],
  reductions: [], warnings: []});
export async function load(from, {onProgress, signal}) {
  if (globalThis.stays) {
    onProgress({phase: 'load', loaded: 20e6, total: 79e6});
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  }
  const info = {name: 'Fake', architecture: 'fake', parameters: 1e6, format: 'QSF', fileBytes: 1e6, layers: 1,
    resident: true, threads: 1, isa: 'none', device: {kind: 'cpu', name: '', layers: 0, reason: 'of a test'},
    contextLength: CONTEXT, trainedContext: CONTEXT, planBytes: 1e6, plan: [{name: 'all', bytes: 1e6}],
    chatTemplate: globalThis.isBase ? undefined : 'fake', warnings: []};
  async function * chat(messages, {onToken, onReasoning, onToolCall, tools, responseFormat, signal}) {
    globalThis.asked = messages;
    if (responseFormat) {
      const {properties} = responseFormat.json_schema.schema;
      yield JSON.stringify(Object.fromEntries(Object.entries(properties).map(([name, {examples}]) =>
        [name, examples?.[0]])));
      return 'end';
    }
    const text = messages.map(({content}) => content).join(' | '), last = messages.at(-1).content;
    if (count(text) >= CONTEXT) throw Object.assign(new QsfError('the prompt is too long'), {code: 'FULL'});
    if (last === 'think') onReasoning('First this,\nthen that.');
    const [, name, given] = /^use: (\S+) ([^]*)/.exec(last) ?? [];
    if (name) {
      const result = tools ? await onToolCall({id: '1', type: 'function', function: {name, arguments: given}})
        : 'no tools';
      onToken(1);
      yield `The tool says ${result}.`;
      return {end: 'end'};
    }
    const wait = () => new Promise((_, reject) => signal.addEventListener('abort', () =>
      reject(signal.reason)));
    if (last === 'wait') await wait();
    if (last.startsWith('say and wait: ')) {
      yield last.slice('say and wait: '.length);
      await wait();
    }
    const held = name => Promise.race([wait(), new Promise(resolve => {
      (globalThis.held ??= {})[name] = () => { delete globalThis.held[name]; resolve(); };
    })]);
    const [, how, slow] = /^(say slowly|fail): ([^]*)/.exec(last) ?? [], [first] = slow?.split(' ') ?? [];
    for (const word of slow?.match(/\S+\s*/g) ?? []) {
      if (how === 'say slowly') yield word;
      await held(first);
      if (how === 'fail') throw Object.assign(new QsfError('the prompt is too long'), {code: 'ARGUMENT'});
    }
    if (slow) return {end: 'end'};
    const said = last.startsWith('Summarise') ? `They said ${messages.length - 1} things.` : `[${text}]`;
    const answer = (/^say: ([^]*)/.exec(last)?.[1] ?? said).match(/\S+\s*/g);
    for (const word of answer) {
      onToken?.(1);
      yield word;
    }
    return {end: 'end', usage: {promptTokens: count(text), completionTokens: answer.length,
      cachedTokens: 0}};
  }
  const open = globalThis.sequences = new Set();
  function conversation() {
    const one = {chat, generate: chat, async dispose() { open.delete(one); }};
    open.add(one);
    return one;
  }
  return {info, chat, conversation, render: async messages => messages.map(({content}) => content).join(' '),
    tokenize: async text => Array(count(text)).fill(1), generate: chat, async dispose() {}};
}
