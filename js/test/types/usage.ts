/* Everything of the package as a TypeScript user writes it; tsc checks it, it is never run.
 * SPDX-License-Identifier: MIT */
import {cache, estimate, load, QsfError, type Adapter, type AdapterUse, type Answer, type AnswerPart,
  type CacheEntry, type ChatOptions, type EndReason, type Estimate, type FinishReason, type HubFile,
  type LoadOptions, type Message, type Model, type ModelInfo, type Progress, type ResponseFormat, type Stats,
  type TokenLogprob, type Usage, type WholeAnswer} from 'qsf';

const options: LoadOptions = {
  memory: 200, gpuMemory: 500, gpuLayers: 8, gpuStream: 'prompts', threads: 2, contextLength: 2048,
  batch: 128, kv: 'q8v4', kvWindow: 512, kvSinks: 4,
  kvHeavy: 64, kvMayDrop: true, head: 'screen', quality: 1, earlyExit: 0, actQuant: 'block',
  kernelRoute: 'auto',
  check: 'every', relaxed: false, cache: 'reload', timeout: 1000,
  workerUrl: '/qsf/worker-web.js',
  wasmPaths: {'simd-threads': new URL('https://example.org/qsf-simd-threads.wasm')},
  onProgress: (p: Progress) =>
    (p.phase === 'load' ? p.loaded / p.total : p.done / p.total + p.layer / p.layers),
  signal: AbortSignal.timeout(1000),
};
const model: Model = await load(new URL('https://example.org/model.qsf'), options);
await load('model.gguf', {wasmPaths: '/qsf/'});
await load(new Blob([]));
await load(new Uint8Array(8));
await load(new ArrayBuffer(8));

const guess: Estimate = await estimate('https://example.org/model.qsf',
  {memory: 100, contextLength: 512, kv: 'f16', signal: options.signal!});
for (const kv of ['f16', 'q8', 'q8v4', 'q4', 'q4v2', 'q2', 'f32'] as const)
  await estimate('model.gguf', {kv, kvWindow: 64, earlyExit: 0.95, head: 'clusters', check: 'first',
    quality: 0.9});
const {onProgress, ...shared} = options;
const warned: readonly string[] = (await estimate('model.gguf', shared)).warnings;
const first: string | undefined = guess.fits ? guess.reductions[0]
  : `${guess.leastBytes} ${guess.memoryBytes}`;
const messages: Message[] = [{role: 'system', content: 'Be brief.'}, {role: 'user', content: 'Hello'}];
const style: Adapter = await model.loadAdapter('https://example.org/style.gguf',
  {scale: 0.5, cache: 'reload', timeout: 1000, signal: options.signal!});
const other = await model.loadAdapter(new Blob([]));
const adapters: AdapterUse[] = [style, {adapter: style, scale: 2}, {adapter: other}];
for await (const text of model.generate('Once', {adapters})) text.toUpperCase();
await model.embed('Once', {adapters});
await model.rerank('Once', ['upon'], {adapters: [style]});
await model.loadSession(new Uint8Array(8), {adapters});
`${style.info.name} ${style.info.rank + style.info.alpha + style.info.matrices + style.info.bytes}`;
style.scale.toFixed(2);
await style.free();
for await (const text of model.chat(messages, {template: 'chatml', maxTokens: 10, temperature: 0}))
  text.toUpperCase();
const calls: Message[] = [{role: 'user', content: [{type: 'text', text: 'a'}]},
  {role: 'assistant', content: null, reasoning_content: 'r',
    tool_calls: [{id: '1', function: {name: 'f', arguments: {a: 1}}}]},
  {role: 'tool', tool_call_id: '1', name: 'f', content: 'x'}];
(await model.render(calls, {template: '{{ x }}', tools: [{}], documents: [{}],
  chatTemplateKwargs: {enable_thinking: false}})).length;
for await (const text of model.generate('Once',
  {stop: ['\n'], seed: 1, topK: 1, topP: 1, minP: 0, onToken: (id: number) => id, signal: options.signal!}))
  text.length;
for await (const text of model.generate([1, 2, 3])) text.length;

const vector: Float32Array = await model.embed('a text');
const vectors: Float32Array[] = await model.embed(['a', [1, 2]], {pooling: 'mean', normalize: false,
  signal: options.signal!});
const ranks: readonly {index: number, score: number}[] = await model.rerank('a', ['b'], {topN: 1});
console.log(vector.length, vectors.length, ranks[0]?.score, model.info.encoder, model.info.classes);

const answer = model.generate('x');
const end = await answer.next();
const reason: EndReason | undefined = end.done ? end.value : undefined;

const told = model.chat(messages, {tools: [{type: 'function', function: {name: 'f'}}], toolChoice: 'required',
  parallelToolCalls: false, maxToolRounds: 2, onReasoning: (text: string) => text.length,
  onToolCall: async ({id, function: {name, arguments: given}}) => ({id, name, given: JSON.parse(given)})});
const last = await told.next();
const whole: Answer | undefined = last.done ? last.value : undefined;
console.log(whole?.end, whole?.reasoning, whole?.text, whole?.toolCalls[0]?.function.arguments);
for await (const text of model.chat([...messages, ...whole?.messages ?? []],
  {toolChoice: {type: 'function', function: {name: 'f'}}, tools: []})) text.length;

const all: WholeAnswer = await model.chat('Hello', {continueFinalMessage: false});
const finish: FinishReason = all.finishReason, counted: Usage = all.usage;
console.log(finish, counted.cachedTokens / counted.promptTokens, all.timings.tokensPerSecond, all.end,
  all.text, all.partialCall?.function.arguments, (await model.generate('x').then(({text}) => text)).length);
const streamed = model.chat([{role: 'developer', content: 'Be brief.'}, {role: 'user', content: 'Hello'}],
  {onPart: (part: AnswerPart) => (part.type === 'call' ? part.name : part.type === 'text' ? part.text : 0)});
for await (const text of streamed) text.length;
const finished: FinishReason | undefined = streamed.finishReason;
for await (const text of await (async () => model.chat('Hello'))()) text.length;
const empty = await model.chat('Hello', {tools: []}).next();
const noTools: Answer | undefined = empty.done ? empty.value : undefined;
const unknown: ChatOptions = {};
const either = await model.chat('Hello', unknown).next();
const both: Answer | EndReason | undefined = either.done ? either.value : undefined;
// @ts-expect-error  whether it is an Answer depends on the options
const wrong: EndReason | undefined = either.done ? either.value : undefined;
console.log(finished, streamed.usage.completionTokens, noTools?.text, both, wrong);
await load({getFile: async () => new Blob([])});
const custom: Message = {role: 'assistant', content: null, refusal: null,
  tool_calls: [{id: 'a', type: 'custom', custom: {name: 'run', input: 'x'}}]};
await model.render([custom]);
for (const responseFormat of [{type: 'json_object'}, {type: 'regex', regex: 'a+'}, {type: 'text'},
  {type: 'json_schema', json_schema: {name: 'x', strict: true, schema: {type: 'string'}}},
  {type: 'json_schema', schema: true}, {type: 'grammar', grammar: 'root ::= "a"'},
  {type: 'choices', choices: ['yes', 'no']}] satisfies ResponseFormat[])
  model.generate('x', {responseFormat, jsonBlanks: Infinity, logitBias: {5: -1}, bannedTexts: 'a',
    drySequenceBreakers: [], logprobs: true, topLogprobs: 3,
    onToken: (id, logprob?: TokenLogprob) => id + (logprob?.topLogprobs[0]?.logprob ?? 0)});
model.generate('x', {logitBias: new Map([[5, -Infinity]])});
// @ts-expect-error  a choice has texts
model.generate('x', {responseFormat: {type: 'choices'}});

const entries: CacheEntry[] = await cache.list();
const named = await load(new URL('hf://owner/repo:Q4_K_M'), {hubUrl: 'https://hub.example', hubToken: 'x',
  headers: {'x-key': 'y'}, fetch: (url, init) => fetch(url, init)});
const files: readonly HubFile[] | undefined = (await estimate('hf:owner/repo')).files;
const fitting: string | undefined = files?.find(file => file.chosen)?.quantisation;
console.log(named.info.name, fitting);
const {used: stored, limit, free} = await cache.usage(), isKept: boolean = await cache.persist();
await cache.limit(stored + limit + free + Number(isKept));
const state: string = (await cache.validate(entries[0]!.url, {signal: AbortSignal.timeout(10)})).state;
const freed: number = await cache.delete() + await cache.delete(new URL(entries[0]!.url));

const ids: number[] = await model.tokenize('text', {parseSpecial: true, addSpecial: true});
const text: string = await model.detokenize(ids, {special: true});
const info: ModelInfo = model.info;
const session: Uint8Array = await model.saveSession();
const loaded: number = await model.loadSession(session) + await model.loadSession(
  session.buffer as ArrayBuffer);
const stats: Stats = await model.stats();
const plan: number = info.plan.reduce((sum, part) => sum + part.bytes, 0);
try {
  await model.dispose();
} catch (error) {
  if (error instanceof QsfError && error.code === 'DISPOSED') console.log(error.cause);
  if (error instanceof QsfError && error.remedies?.includes('context')) console.log(error.reason);
}
const times: number = stats.readNs + stats.waitNs + stats.checkNs + stats.decompressNs + stats.matmulNs
  + stats.attentionNs + stats.headNs + stats.samplingNs;
console.log(onProgress, warned, times / stats.overlap, stats.layersLeft, loaded, first,
  info.reductions.join(), reason, text, state, freed, stats.memoryBytes, plan, info.chatTemplate?.length);

{
  await using short = await load('model.qsf', {onProgress: async p => { await Promise.resolve(p); }});
  for await (const part of short.generate('x', {onToken: async id => { await Promise.resolve(id); }}))
    part.length;
}
const disposable: AsyncDisposable = model;
await disposable[Symbol.asyncDispose]();

// @ts-expect-error  a prompt is needed
model.generate();
// @ts-expect-error  not a kind of keys and values
await load('model.qsf', {kv: 'q3'});
// @ts-expect-error  not a time to check
await estimate('model.qsf', {check: 'never'});
// @ts-expect-error  a number
await load('model.qsf', {kvWindow: '256'});
// @ts-expect-error  information is not to be written
info.threads = 3;
