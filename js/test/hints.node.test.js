/* Names of other packages: the error says what ours is.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';
import {after, before, describe, test} from 'node:test';
import {load, packaged} from './tools.js';
import {tinyModel} from './tiny.js';

const tiny = tinyModel();
let model;
before(async () => { model = await load(tiny, {threads: 1}); });
after(() => model.dispose());

/* By the package whose name it is: an option of chat(), and ours. */
const CHAT = {
  openai: [['max_completion_tokens', 'maxTokens'], ['max_tokens', 'maxTokens'], ['top_p', 'topP'],
    ['response_format', 'responseFormat'], ['tool_choice', 'toolChoice'], ['logit_bias', 'logitBias'],
    ['functions', 'tools'], ['reasoning_effort', 'reasoningBudget'], ['presence_penalty', 'presencePenalty']],
  ai: [['maxOutputTokens', 'maxTokens'], ['abortSignal', 'signal'], ['stopSequences', 'stop'],
    ['stopWhen', 'maxToolRounds'], ['maxSteps', 'maxToolRounds'], ['output', 'responseFormat']],
  'transformers.js': [['max_new_tokens', 'maxTokens'], ['repetition_penalty', 'repeatPenalty'],
    ['streamer', 'onToken'], ['callback_function', 'onToken'], ['min_new_tokens', 'minTokens'],
    ['bad_words_ids', 'bannedTexts'], ['chat_template', 'template']],
  wllama: [['nPredict', 'maxTokens'], ['onNewToken', 'onToken'], ['onData', 'onToken'],
    ['penalty_repeat', 'repeatPenalty'],
    ['penalty_last_n', 'repeatLastN'], ['typ_p', 'typicalP'], ['abortSignal', 'signal'], ['temp',
      'temperature'],
    ['grammar', 'responseFormat']],
  'web-llm': [['extra_body', 'chatTemplateKwargs'], ['frequency_penalty', 'frequencyPenalty'],
    ['ignore_eos', 'ignoreEnd'], ['enable_thinking', 'chatTemplateKwargs']],
  'node-llama-cpp': [['onTextChunk', 'onPart'], ['onResponseChunk', 'onPart'],
    ['stopSignal', 'signal'], ['customStopTriggers', 'stop'],
    ['responsePrefix', 'continueFinalMessage'], ['tokenBias', 'logitBias'], ['lora', 'adapters'],
    ['maxParallelFunctionCalls', 'parallelToolCalls'], ['onFunctionCall', 'onToolCall']],
};
const LOAD = {
  'transformers.js': [['progress_callback', 'onProgress'], ['use_cache', 'cache']],
  wllama: [['n_ctx', 'contextLength'], ['n_threads', 'threads'], ['n_batch', 'batch'],
    ['cache_type_k', 'kv'], ['progressCallback', 'onProgress'], ['useCache', 'cache'],
    ['pathConfig', 'wasmPaths']],
  'web-llm': [['context_window_size', 'contextLength'], ['initProgressCallback', 'onProgress'],
    ['sliding_window_size', 'kvWindow'], ['attention_sink_size', 'kvSinks'], ['prefill_chunk_size', 'batch']],
  'node-llama-cpp': [['contextSize', 'contextLength'], ['batchSize', 'batch'],
    ['onLoadProgress', 'onProgress']],
  ollama: [['num_ctx', 'contextLength'], ['num_thread', 'threads'], ['num_gpu', 'gpuLayers'], ['numKeep',
    'kvSinks']],
  openai: [['requestTimeout', 'timeout']], hub: [['token', 'hubToken'], ['hfToken', 'hubToken']],
  'llama-server': [['sequences', 'maxParallel'], ['parallel', 'maxParallel'], ['n_parallel', 'maxParallel'],
    ['n_seq_max', 'maxParallel']], workers: [['workerPath', 'workerUrl']], ours: [['ram-budget',
    'memory']],
};
const hint = (name, ours, call) => ({code: 'ARGUMENT',
  message: `no option of ${call}() is called ${name}; its name here is ${ours}`});

for (const [peer, names] of Object.entries(CHAT))
  test(`chat: ${peer}`, async () => {
    for (const [name, ours] of names)
      await assert.rejects(model.chat('x', {[name]: 1}), hint(name, ours, 'chat'));
  });
for (const [peer, names] of Object.entries(LOAD))
  test(`load: ${peer}`, async () => {
    for (const [name, ours] of names)
      await assert.rejects(load(tiny, {[name]: 1}), hint(name, ours, 'load'));
  });
describe('other calls', () => {
  const says = (promise, pattern) => assert.rejects(promise, {code: 'ARGUMENT', message: pattern});
  test('have their own names', async () => {
    await says(model.embed('x', {embd_normalize: 2}), /its name here is normalize$/);
    await says(model.embed('x', {pooling_type: 'cls'}), /its name here is pooling$/);
    await says(model.tokenize('x', {add_special_tokens: true}), /its name here is addSpecial$/);
    await says(model.detokenize([1], {skip_special_tokens: true}), /its name here is special$/);
    await says(model.rerank('x', ['y'], {top_n: 1}), /its name here is topN$/);
  });
  test('an option of another call is one of that call', async () => {
    await says(model.chat('x', {n_ctx: 5}), /called n_ctx; contextLength is an option of load\(\)$/);
    await says(load(tiny, {temperature: 1}), /temperature is an option of generate\(\)$/);
    await says(model.generate('x', {tools: []}), /tools is an option of chat\(\)$/);
  });
  test('what no option stands for has a sentence', async () => {
    await says(model.chat('x', {stream: true}), /called stream; every answer can be streamed: for await/);
    await says(model.chat('x', {do_sample: false}), /temperature: 0 takes the most likely token$/);
    await says(model.chat('x', {system: 'Be brief.'}), /a message with the role system$/);
    await says(load(tiny, {dtype: 'q4'}), /the file decides how weights are stored$/);
    await says(load(tiny, {revision: 'v1'}), /load\("hf:OWNER\/REPO@REVISION"\)$/);
    await says(load(tiny, {modelPath: 'x'}), /load\(\)'s first argument$/);
    for (const name of ['flash_attn', 'flashAttention', 'local_files_only', 'embeddings'])
      await says(load(tiny, {[name]: true}), /called \w+; (?!there are)/);
    for (const name of ['return_full_text', 'sampling'])
      await says(model.chat('x', {[name]: true}), /called \w+; (?!there are)/);
    await says(model.chat('x', {nonsense: 1}), /called nonsense; there are maxTokens, /);
  });
});
test('every name that the table gives is an option of a call', async () => {
  const {NAMES} = await import(pathToFileURL(packaged('peers.js')));
  for (const [ours, others] of NAMES) {
    const name = others.split(' ').at(-1), calls = [o => load(tiny, o), o => model.chat('x', o),
      o => model.embed('x', o), o => model.tokenize('x', o), o => model.detokenize([1], o),
      o => model.rerank('x', ['y'], o)];
    const said = await Promise.all(calls.map(call => call({[name]: 1}).catch(error => error.message)));
    assert.ok(said.some(text => text.endsWith(`its name here is ${ours}`)), `${ours}: ${said.join('\n')}`);
  }
});

test('what other packages give in place of a path, messages, a system prompt', async () => {
  const refused = message => ({code: 'ARGUMENT', message});
  for (const from of [{modelPath: 'x.gguf'}, {repo: 'a/b', file: 'x.gguf'}])
    await assert.rejects(load(from), refused(/not from an object; the path or URL itself, or hf:OWNER/));
  await assert.rejects(load(), refused(/not from undefined$/));
  for (const name of ['Llama-3.2-1B-Instruct-q4f16_1-MLC', 'llama3.2:1b'])
    await assert.rejects(load(name), {code: 'NOT_FOUND',
      message: /no such file; a model of a hub is hf:OWNER/});
  await assert.rejects(load(tiny, {gpuLayers: 0}), refused(/from 1 to \d+; device: 'cpu' uses no GPU/));
  await assert.rejects(async () => model.chat({messages: []}), refused(/: chat\(messages, options\)$/));
  for (const name of ['systemPrompt', 'system_prompt', 'instructions'])
    assert.throws(() => model.conversation({[name]: 'x'}),
      refused(`no option of conversation() is called ${name}; its name here is system`));
});
