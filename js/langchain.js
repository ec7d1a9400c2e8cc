/* A chat model and embeddings of LangChain (@langchain/core 1) over a model here.
 * SPDX-License-Identifier: MIT */
import {Embeddings} from '@langchain/core/embeddings';
import {BaseChatModel} from '@langchain/core/language_models/chat_models';
import {assembleStructuredOutputPipeline, createContentParser}
  from '@langchain/core/language_models/structured_output';
import {AIMessage, AIMessageChunk} from '@langchain/core/messages';
import {ChatGenerationChunk} from '@langchain/core/outputs';
import {convertToOpenAITool} from '@langchain/core/utils/function_calling';
import {toJsonSchema} from '@langchain/core/utils/json_schema';
import {happenings} from './apis.js';
import {optionNames} from './options.js';

/* LangChain's own options of a call come with those of chat(). */
const OWN = optionNames('chat');
const WORDS = {any: 'required', auto: 'auto', none: 'none', required: 'required'};

const choiceOf = given => (typeof given !== 'string' ? given
  : WORDS[given] ?? {type: 'function', function: {name: given}});
function optionsOf(fields, {tools, tool_choice: choice, strict, ...call}) {
  const own = Object.fromEntries(Object.entries(call).filter(([name]) => OWN.includes(name)));
  return {...fields, ...own, ...(tools?.length && {tools: tools.map(tool => convertToOpenAITool(tool,
    {strict})),
    ...(choice !== undefined && {toolChoice: choiceOf(choice)})})};
}
const usageOf = ({usage: {promptTokens, cachedTokens, completionTokens}}) => ({input_tokens: promptTokens,
  output_tokens: completionTokens, total_tokens: promptTokens + completionTokens,
  input_token_details: {cache_read: cachedTokens}});
const ROLES = {human: 'user', ai: 'assistant', system: 'system', tool: 'tool', function: 'tool'};
function messageOf(message) {
  const {content, name, tool_calls: calls, tool_call_id: id, additional_kwargs: more = {}} = message;
  const role = ROLES[message.getType()] ?? message.role ?? 'user', reasoning = more.reasoning_content;
  const parts = typeof content === 'string' ? content
    : content.filter(part => !['tool_use', 'tool_call', 'reasoning'].includes(part.type));
  return {role: more.__openai_role__ ?? role, content: parts, ...(name && {name}), ...(id
    && {tool_call_id: id}),
    ...(reasoning && {reasoning_content: reasoning}), ...(calls?.length && {tool_calls: calls.map(call =>
      ({id: call.id, type: 'function', function: {name: call.name,
        arguments: JSON.stringify(call.args)}}))})};
}

export class ChatQsf extends BaseChatModel {
  #model; #fields;
  /** fields: the model, options of chat() for every call, and those of LangChain's models. */
  constructor({model, callbacks, tags, metadata, verbose, cache, maxRetries = 0, disableStreaming,
    ...options}) {
    super({callbacks, tags, metadata, verbose, cache, maxRetries, disableStreaming});
    this.#model = model;
    this.#fields = {maxTokens: Infinity, ...options};
  }
  static lc_name() { return 'ChatQsf'; }
  _llmType() { return 'qsf'; }
  getLsParams(options) {
    return {ls_provider: 'qsf', ls_model_name: this.#model.info.name, ls_model_type: 'chat',
      ls_temperature: options.temperature ?? this.#fields.temperature,
      ls_max_tokens: options.maxTokens ?? this.#fields.maxTokens};
  }
  invocationParams(options) { return optionsOf(this.#fields, options ?? {}); }
  bindTools(tools, kwargs) { return this.withConfig({tools, ...kwargs}); }
  withStructuredOutput(schema, {name, includeRaw} = {}) {
    const bound = this.withConfig({responseFormat: {type: 'json_schema', schema: toJsonSchema(schema)}});
    return assembleStructuredOutputPipeline(bound, createContentParser(schema), includeRaw, name);
  }

  #happenings(messages, options) {
    return happenings(this.#model, 'chat', messages.map(messageOf), optionsOf(this.#fields, options));
  }
  async _generate(messages, options, runManager) {
    let whole;
    for await (const {part, whole: all} of this.#happenings(messages, options)) {
      if (part?.type === 'text') await runManager?.handleLLMNewToken(part.text);
      whole ??= all;
    }
    const {text, reasoning, toolCalls, finishReason} = whole;
    const calls = toolCalls.map(({id, function: {name, arguments: given}}) =>
      ({type: 'tool_call', id, name, args: JSON.parse(given || '{}')}));
    const message = new AIMessage({content: text, tool_calls: calls, usage_metadata: usageOf(whole),
      additional_kwargs: reasoning ? {reasoning_content: reasoning} : {},
      response_metadata: {finish_reason: finishReason, model_name: this.#model.info.name}});
    return {generations: [{text, message, generationInfo: {finish_reason: finishReason}}],
      llmOutput: {tokenUsage: usageOf(whole)}};
  }
  async * _streamResponseChunks(messages, options, runManager) {
    for await (const {part, whole} of this.#happenings(messages, options)) {
      const chunk = part ? chunkOf(part) : whole && {content: '', usage_metadata: usageOf(whole),
        response_metadata: {finish_reason: whole.finishReason, model_name: this.#model.info.name}};
      if (!chunk) continue;
      const generation = new ChatGenerationChunk({text: chunk.content, message: new AIMessageChunk(chunk)});
      yield generation;
      await runManager?.handleLLMNewToken(chunk.content, undefined, undefined, undefined, undefined,
        {chunk: generation});
    }
  }
}
function chunkOf({type, text, index, id, name}) {
  if (type === 'text') return {content: text};
  if (type === 'reasoning') return {content: '', additional_kwargs: {reasoning_content: text}};
  const call = {type: 'tool_call_chunk', index};
  if (type === 'call') return {content: '', tool_call_chunks: [{...call, id, name, args: ''}]};
  return type === 'arguments' ? {content: '', tool_call_chunks: [{...call, args: text}]} : undefined;
}

export class QsfEmbeddings extends Embeddings {
  #model; #options;
  constructor({model, pooling, normalize, adapters, ...params}) {
    super({maxRetries: 0, ...params});
    this.#model = model;
    this.#options = {pooling, normalize, adapters};
  }
  async embedDocuments(documents) {
    const vectors = await this.#model.embed(documents, this.#options);
    return vectors.map(vector => [...vector]);
  }
  async embedQuery(document) { return (await this.embedDocuments([document]))[0]; }
}
