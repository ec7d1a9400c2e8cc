/* A provider of the package `ai` (its specification v4) over a model in this page or process.
 * SPDX-License-Identifier: MIT */
import {embedded, happenings, loaded, streamed} from './apis.js';

const FINISH = {stop: 'stop', length: 'length', tool_calls: 'tool-calls'};
const PROVIDER = 'qsf';

/* ---- what is asked ---- */
function textOf(parts, warn) {
  return parts.map(part => {
    if (part.type === 'text') return part.text;
    const data = part.data?.type === 'text' ? part.data.text : undefined;       // a file that is text
    if (typeof data === 'string') return data;
    warn({type: 'unsupported', feature: `a part of type ${part.type}`, details: 'the model reads text only'});
    return '';
  }).join('');
}
function resultText({type, value, reason}, warn) {
  if (type === 'text' || type === 'error-text') return value;
  if (type === 'content') return textOf(value, warn);
  return type === 'execution-denied' ? reason ?? 'The call was denied.' : JSON.stringify(value);
}
function messageOf({role, content}, warn) {
  if (role === 'system') return [{role, content}];
  if (role === 'user') return [{role, content: textOf(content, warn)}];
  const results = content.filter(({type}) => type === 'tool-result').map(({toolCallId, toolName, output}) =>
    ({role: 'tool', tool_call_id: toolCallId, name: toolName, content: resultText(output, warn)}));
  if (role === 'tool') return results;
  const of = type => content.filter(part => part.type === type);
  const reasoning = of('reasoning').map(({text}) => text).join('');
  const calls = of('tool-call').map(({toolCallId, toolName, input}) => ({id: toolCallId, type: 'function',
    function: {name: toolName, arguments: typeof input === 'string' ? input : JSON.stringify(input ?? {})}}));
  return [{role, content: of('text').map(({text}) => text).join(''),
    ...(reasoning && {reasoning_content: reasoning}), ...(calls.length && {tool_calls: calls})}, ...results];
}
function toolsOf({tools = [], toolChoice}, warn) {
  const made = tools.flatMap(({type, name, description, inputSchema, strict}) => {
    if (type !== 'function') warn({type: 'unsupported', feature: `a tool of type ${type}`});
    return type === 'function' ? [{type, function: {name, ...(description && {description}),
      parameters: inputSchema, ...(strict && {strict})}}] : [];
  });
  if (!made.length) return {};
  const choice = toolChoice?.type === 'tool' ? {type: 'function', function: {name: toolChoice.toolName}}
    : toolChoice?.type ?? 'auto';
  return {tools: made, toolChoice: choice};
}
function reasoningOf(level) {
  if (level === undefined || level === 'provider-default') return {};
  return {chatTemplateKwargs: level === 'none' ? {enable_thinking: false}
    : {enable_thinking: true, reasoning_effort: level}};
}
/* {messages, options, warnings} of a call. */
function askedOf(call) {
  const warnings = [], warn = warning => warnings.push(warning);
  const {maxOutputTokens, temperature, topP, topK, stopSequences, seed, presencePenalty, frequencyPenalty,
    responseFormat, abortSignal, providerOptions} = call;
  const format = responseFormat?.type === 'json' ? {responseFormat: responseFormat.schema
    ? {type: 'json_schema', schema: responseFormat.schema} : {type: 'json_object'}} : {};
  const options = {maxTokens: maxOutputTokens ?? Infinity, temperature, topP, topK, stop: stopSequences,
    seed: seed === undefined ? undefined : Math.abs(seed), presencePenalty, frequencyPenalty,
    signal: abortSignal, ...format, ...toolsOf(call, warn), ...reasoningOf(call.reasoning),
    ...providerOptions?.[PROVIDER]};
  return {messages: call.prompt.flatMap(message => messageOf(message, warn)), options, warnings};
}

/* ---- what is answered ---- */
function usageOf({promptTokens, cachedTokens, completionTokens}) {
  return {inputTokens: {total: promptTokens, noCache: promptTokens - cachedTokens, cacheRead: cachedTokens,
    cacheWrite: undefined}, outputTokens: {total: completionTokens, text: undefined, reasoning: undefined}};
}
const finishOf = ({finishReason, end}) => ({unified: FINISH[finishReason], raw: end});
const callOf = ({id, function: {name, arguments: input}}) =>
  ({type: 'tool-call', toolCallId: id, toolName: name, input: input || '{}'});

/* The parts of a stream, of what happens in an answer. */
class Stream {
  #open; #number = 0; #calls = [];
  * #end() {
    if (this.#open) yield {type: `${this.#open.kind}-end`, id: this.#open.id};
    this.#open = undefined;
  }
  * #text(kind, delta) {
    if (this.#open?.kind !== kind) {
      yield * this.#end();
      this.#open = {kind, id: `${kind}-${this.#number++}`};
      yield {type: `${kind}-start`, id: this.#open.id};
    }
    yield {type: `${kind}-delta`, id: this.#open.id, delta};
  }
  * part({type, index, id, name, text}) {
    if (type === 'text' || type === 'reasoning') {
      yield * this.#text(type, text);
      return;
    }
    if (type === 'call') {
      yield * this.#end();
      this.#calls[index] = {id, type: 'function', function: {name, arguments: ''}};
      yield {type: 'tool-input-start', id, toolName: name};
      return;
    }
    const call = this.#calls[index];
    if (!call) return;
    if (type === 'arguments') {
      call.function.arguments += text;
      yield {type: 'tool-input-delta', id: call.id, delta: text};
      return;
    }
    yield {type: 'tool-input-end', id: call.id};
    if (type === 'call-end') yield callOf(call);
  }
  * finish(whole) {
    yield * this.#end();
    yield {type: 'finish', finishReason: finishOf(whole), usage: usageOf(whole.usage)};
  }
}

class LanguageModel {
  specificationVersion = 'v4'; provider = PROVIDER; supportedUrls = {}; modelId; #model;
  constructor(model, modelId) {
    this.#model = model;
    this.modelId = modelId;
  }
  async doGenerate(call) {
    const {messages, options, warnings} = askedOf(call);
    let whole;
    for await (const happened of happenings(this.#model, 'chat', messages, options)) whole = happened.whole;
    const {text, reasoning, toolCalls} = whole;
    return {content: [...(reasoning ? [{type: 'reasoning', text: reasoning}] : []),
      ...(text ? [{type: 'text', text}] : []), ...toolCalls.map(callOf)], finishReason: finishOf(whole),
    usage: usageOf(whole.usage), warnings, response: {timestamp: new Date(), modelId: this.modelId}};
  }
  async doStream(call) {
    const {messages, options, warnings} = askedOf(call), {modelId} = this;
    const all = happenings(this.#model, 'chat', messages, options), out = new Stream();
    const first = await all.next();     // an invalid call is an error, and no stream
    const parts = (async function * () {
      yield {type: 'stream-start', warnings};
      yield {type: 'response-metadata', timestamp: new Date(), modelId};
      try {
        for (let step = first; !step.done; step = await all.next()) {
          const {part, whole} = step.value;
          if (part) yield * out.part(part);
          if (whole) yield * out.finish(whole);
        }
      } finally {
        await all.return();
      }
    }());
    return {stream: streamed(parts)};
  }
}

class EmbeddingModel {
  specificationVersion = 'v4'; provider = PROVIDER; maxEmbeddingsPerCall = undefined;
  supportsParallelCalls = false; modelId; #model;
  constructor(model, modelId) {
    this.#model = model;
    this.modelId = modelId;
  }
  async doEmbed({values, dimensions, abortSignal: signal, providerOptions}) {
    const {vectors, tokens} = await embedded(this.#model, values, dimensions,
      {signal, ...providerOptions?.[PROVIDER]});
    return {embeddings: vectors.map(vector => [...vector]), usage: {tokens}, warnings: []};
  }
}

class RerankingModel {
  specificationVersion = 'v4'; provider = PROVIDER; modelId; #model;
  constructor(model, modelId) {
    this.#model = model;
    this.modelId = modelId;
  }
  async doRerank({documents: {type, values}, query, topN, abortSignal: signal}) {
    const texts = type === 'text' ? values : values.map(value => JSON.stringify(value));
    const ranked = await this.#model.rerank(query, texts, {topN, signal});
    return {ranking: ranked.map(({index, score}) => ({index, relevanceScore: score})), warnings: []};
  }
}

/** @type {import('./ai.d.ts').createQsf} */
export function createQsf(given, {name = loaded(given).info.name || 'qsf'} = {}) {
  const model = loaded(given);
  const none = kind => modelId => {
    throw Object.assign(new Error(`qsf has no ${kind}`), {name: 'AI_NoSuchModelError', modelId,
      modelType: kind});
  };
  const language = (modelId = name) => new LanguageModel(model, modelId);
  return Object.assign(modelId => language(modelId), {specificationVersion: 'v4', languageModel: language,
    chat: language, embeddingModel: (modelId = name) => new EmbeddingModel(model, modelId),
    rerankingModel: (modelId = name) => new RerankingModel(model, modelId), imageModel: none('imageModel')});
}
