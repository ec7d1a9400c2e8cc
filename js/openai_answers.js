/* Answers of OpenAI's chat and completions, whole and as chunks, as qsf-serve writes them.
 * SPDX-License-Identifier: MIT */

/** Seconds since 1970. */
export const now = () => Math.floor(Date.now() / 1000);
export const newId = prefix => `${prefix}${crypto.randomUUID().replaceAll('-', '')}`;

/* ---- log probabilities ---- */
const rounded = x => (Number.isFinite(x) ? Math.round(x * 1e6) / 1e6 : -9999);
const chatToken = ({token, logprob, bytes}) => ({token, logprob: rounded(logprob), bytes});
/* A token that a grammar forces is not computed by the model: under the grammar it is certain. */
export const chatLogprob = (logprob, forced) => ({...chatToken(logprob ?? forced),
  top_logprobs: (logprob?.topLogprobs ?? []).map(chatToken)});
const utf8 = bytes => {
  try {
    return new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(Uint8Array.from(bytes));
  } catch {
    return `bytes:${bytes.map(byte => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
  }
};

/* The lists of a completion's log probabilities, of the tokens that no chunk has reported yet. */
class Lists {
  at = 0; tokens = [];
  take(logprob) { this.tokens.push(logprob); }
  json() {
    if (!this.tokens.length) return null;
    const json = {tokens: [], token_logprobs: [], top_logprobs: [], text_offset: []};
    for (const {token, logprob, bytes, topLogprobs = []} of this.tokens) {
      json.tokens.push(token);
      json.token_logprobs.push(rounded(logprob));
      json.top_logprobs.push(Object.fromEntries(topLogprobs.map(one => [utf8(one.bytes),
        rounded(one.logprob)])));
      json.text_offset.push(this.at);
      this.at += bytes.filter(byte => (byte & 0xc0) !== 0x80).length;
    }
    this.tokens = [];
    return json;
  }
}
/* The same for chats. */
class Content {
  tokens = [];
  take(logprob) { this.tokens.push(chatLogprob(logprob)); }
  json() {
    if (!this.tokens.length) return null;
    const json = {content: this.tokens, refusal: null};
    this.tokens = [];
    return json;
  }
}

/** Describes a token that has no log probability. */
export async function described(model, token) {
  const text = await model.detokenize([token], {special: true});
  return {id: token, token: text, logprob: 0, bytes: [...new TextEncoder().encode(text)], topLogprobs: []};
}

/* ---- chats and completions ---- */
/* The input of a call of a custom tool. */
export function inputOf(text) {
  try {
    const {input} = JSON.parse(text);
    return typeof input === 'string' ? input : text;
  } catch {
    return text;
  }
}
function callJson({id, function: {name, arguments: text}}, custom, cut) {
  return custom.has(name) ? {id, type: 'custom', custom: {name, input: inputOf(text)}}
    : {id, type: 'function', function: {name, arguments: text || (cut ? '' : '{}')}};
}

/** One choice of a whole answer. */
export class WholeChoice {
  #asked; #index; #lists;
  whole;
  constructor(asked, index) {
    this.#asked = asked;
    this.#index = index;
    this.#lists = asked.chats ? new Content() : new Lists();
  }
  /** What happens in it, in order. */
  async take({token, logprob, whole}) {
    if (token !== undefined && this.#asked.logprobs)
      this.#lists.take(logprob ?? await described(this.#asked.model, token));
    this.whole ??= whole;
  }
  /** Once it is whole. */
  json() {
    const {chats, custom, echo} = this.#asked, index = this.#index;
    const {text, reasoning, toolCalls, partialCall, finishReason} = this.whole;
    const finish = {logprobs: this.#lists.json(), finish_reason: finishReason};
    if (!chats) return {index, text: echo + text, ...finish};
    const calls = toolCalls.map(call => callJson(call, custom));
    if (partialCall) calls.push(callJson(partialCall, custom, true));
    return {index, message: {role: 'assistant', content: calls.length && !text ? null : text,
      ...(reasoning && {reasoning_content: reasoning}), ...(calls.length && {tool_calls: calls}),
      refusal: null}, ...finish};
  }
}

/* A call's parts as chunks' deltas. A custom tool's input is reported once it is complete. */
class Calls {
  #custom; #open = []; #number = 0;
  constructor(custom) { this.#custom = custom; }
  delta({type, index, id, name, text}) {
    if (type === 'call') {
      const number = this.#number++, isCustom = this.#custom.has(name);
      this.#open[index] = {number, isCustom, text: ''};
      return {index: number, id, ...(isCustom ? {type: 'custom', custom: {name, input: ''}}
        : {type: 'function', function: {name, arguments: ''}})};
    }
    const call = this.#open[index];
    if (type === 'arguments') call.text += text;
    if (type === 'arguments' && !call.isCustom) return {index: call.number, function: {arguments: text}};
    return call.isCustom && (type === 'call-end' || type === 'call-cut')
      ? {index: call.number, custom: {input: inputOf(call.text)}} : undefined;
  }
}

/** The chunks of one choice, without their heads: {choice}, and at the end {whole}. */
export async function * chunkedChoice(asked, index, happens) {
  const lists = asked.chats ? new Content() : new Lists(), calls = new Calls(asked.custom);
  const chunk = (what, finish = null) => ({choice: {index, ...what, logprobs: lists.json(),
    finish_reason: finish}});
  const empty = () => chunk(asked.chats ? {delta: {content: ''}} : {text: ''});
  for await (const {token, logprob, part, whole} of happens) {
    if (token !== undefined) {
      if (lists.tokens.length) yield empty();           // of a token that has no text
      if (asked.logprobs) lists.take(logprob ?? await described(asked.model, token));
    } else if (whole) {
      if (lists.tokens.length) yield empty();
      yield chunk(asked.chats ? {delta: {}} : {text: ''}, whole.finishReason);
      yield {whole};
    } else if (part.type === 'text') {
      yield chunk(asked.chats ? {delta: {content: part.text}} : {text: part.text});
    } else if (part.type === 'reasoning') {
      yield chunk({delta: {reasoning_content: part.text}});
    } else {
      const delta = calls.delta(part);
      if (delta) yield chunk({delta: {tool_calls: [delta]}});
    }
  }
}

/** The tokens of all answers; one prompt's tokens count once. */
export function usageOf(wholes, each) {
  let prompt = 0, cached = 0, answer = 0;
  for (const [i, {usage}] of wholes.entries()) {
    answer += usage.completionTokens;
    if (i % each) continue;
    prompt += usage.promptTokens;
    cached += usage.cachedTokens;
  }
  return {prompt, cached, answer};
}
export const usageJson = ({prompt, cached, answer}) => ({prompt_tokens: prompt, completion_tokens: answer,
  total_tokens: prompt + answer, prompt_tokens_details: {cached_tokens: cached}});
