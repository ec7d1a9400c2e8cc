/* OpenAI's /v1/responses: text and tools, whole and as events, as qsf-serve writes them.
 * SPDX-License-Identifier: MIT */
import {begun, happenings} from './apis.js';
import {chatLogprob, described, inputOf, newId, now} from './openai_answers.js';
import {contentOf, inputMessages, logprobsOf, optionsOf, refuse, templateOf,
  toolsOf} from './openai_request.js';

const KEPT = 100;               // responses that previous_response_id may name
const WORDS = {
  text: {type: 'message', part: 'output_text', event: 'response.output_text', prefix: 'msg'},
  reasoning: {type: 'reasoning', part: 'reasoning_text', event: 'response.reasoning_text', prefix: 'rs'},
  call: {type: 'function_call', event: 'response.function_call_arguments', prefix: 'fc'},
  custom: {type: 'custom_tool_call', event: 'response.custom_tool_call_input', prefix: 'ctc'},
};
/* Members of a response as in the request, or the API's default. */
const ASKED = {tools: [], metadata: {}, instructions: null, max_output_tokens: null,
  previous_response_id: null,
  reasoning: {effort: null, summary: null}, text: {format: {type: 'text'}}, truncation: 'disabled',
  background: false, user: null, service_tier: 'default', max_tool_calls: null, prompt_cache_key: null,
  safety_identifier: null};

/* A response while it is generated: its items, and their events. */
class Response {
  items = []; whole; #head; #custom; #number = 0; #logprobs = []; #told = 0;
  constructor(head, custom) {
    this.#head = head;
    this.#custom = custom;
  }
  event(event, more) { return {event, data: {type: event, sequence_number: this.#number++, ...more}}; }
  take(logprob) { this.#logprobs.push(chatLogprob(logprob)); }

  json() {
    const {whole} = this, cut = whole?.finishReason === 'length';
    const {id, created_at, model, settings} = this.#head;
    const items = this.items.filter(item => !item.dropped);
    const output = whole && !items.length ? [this.#item({kind: 'text', index: 0, text: ''}, true)]
      : whole ? items.map(item => this.#item(item, true)) : [];
    const usage = whole && {input_tokens: whole.usage.promptTokens,
      input_tokens_details: {cached_tokens: whole.usage.cachedTokens},
        output_tokens: whole.usage.completionTokens,
      output_tokens_details: {reasoning_tokens: 0},
      total_tokens: whole.usage.promptTokens + whole.usage.completionTokens};
    return {id, object: 'response', created_at, status: !whole ? 'in_progress' : cut ? 'incomplete'
      : 'completed',
      error: null, incomplete_details: cut ? {reason: 'max_output_tokens'} : null, model, output, ...settings,
      usage: usage ?? null};
  }

  /* ---- items ---- */
  #words({kind, name}) { return kind === 'call' && this.#custom.has(name) ? WORDS.custom : WORDS[kind]; }
  #id(item) { return `${this.#words(item).prefix}_${this.#head.id}_${item.index}`; }
  #place(item) {
    return {item_id: this.#id(item), output_index: item.index, ...(item.kind !== 'call'
      && {content_index: 0})};
  }
  #part({kind, text}, whole) {
    return {type: WORDS[kind].part, ...(kind === 'text' && {annotations: [], logprobs: whole ? this.#logprobs
      : []}),
      text: whole ? text : ''};
  }
  #given(item, whole) {
    return this.#custom.has(item.name) ? {input: whole ? inputOf(item.text) : ''} : {arguments: whole
      ? item.text : ''};
  }
  #item(item, whole) {
    const last = item.index + 1 >= this.items.length, cut = this.whole?.finishReason === 'length';
    const status = !whole ? 'in_progress' : item.dropped || item.cut || (last && cut) ? 'incomplete'
      : 'completed';
    const head = {type: this.#words(item).type, id: this.#id(item), status};
    if (item.kind === 'call') return {...head, call_id: item.id, name: item.name, ...this.#given(item,
      whole)};
    return {...head, ...(item.kind === 'text' ? {role: 'assistant'} : {summary: []}),
      content: whole ? [this.#part(item, true)] : []};
  }

  /* ---- their events ---- */
  * #begin(kind, more) {
    const item = {kind, index: this.items.length, text: '', ...more};
    this.items.push(item);
    yield this.event('response.output_item.added', {output_index: item.index, item: this.#item(item, false)});
    if (kind !== 'call')
      yield this.event('response.content_part.added', {...this.#place(item), part: this.#part(item, false)});
  }
  * #delta(item, delta) {
    if (this.#words(item) === WORDS.custom) return;     // the input is only known when the call ends
    const logprobs = item.kind === 'text' && {logprobs: this.#logprobs.slice(this.#told)};
    if (logprobs) this.#told = this.#logprobs.length;
    yield this.event(`${this.#words(item).event}.delta`, {...this.#place(item), ...logprobs, delta});
  }
  * end(how) {
    const item = this.items.at(-1), words = item && this.#words(item);
    if (!item || item.over) return;
    Object.assign(item, {over: true, ...how});
    if (!item.dropped) {
      if (words === WORDS.custom)
        yield this.event(`${words.event}.delta`, {...this.#place(item), delta: inputOf(item.text)});
      yield this.event(`${words.event}.done`, {...this.#place(item),
        ...(item.kind === 'text' && {logprobs: this.#logprobs}),
        ...(item.kind === 'call' ? {name: item.name, ...this.#given(item, true)} : {text: item.text})});
    }
    if (item.kind !== 'call')
      yield this.event('response.content_part.done', {...this.#place(item), part: this.#part(item, true)});
    yield this.event('response.output_item.done', {output_index: item.index, item: this.#item(item, true)});
  }
  * part({type, id, name, text}) {
    if (type === 'call-end' || type === 'call-dropped' || type === 'call-cut') {
      yield * this.end({dropped: type === 'call-dropped', cut: type === 'call-cut'});
      return;
    }
    const kind = type === 'arguments' ? 'call' : type, last = this.items.at(-1);
    if (type === 'call' || !last || last.over || last.kind !== kind) {
      yield * this.end();
      yield * this.#begin(kind, type === 'call' && {id, name});
    }
    if (type === 'call') return;
    const item = this.items.at(-1);
    item.text += text;
    yield * this.#delta(item, text);
  }
  * empty() {
    if (this.items.length) return;
    yield * this.#begin('text');
    yield * this.end();
  }
}

export class Responses {
  #model; #name; #kept = new Map();
  constructor(model, name) {
    this.#model = model;
    this.#name = name;
  }

  async create(body, signal) {
    const options = {...optionsOf(body, true), ...logprobsOf(body, false), signal}, tools = toolsOf(body);
    const {instructions, previous_response_id: previous, input} = body;
    const kept = previous ? this.#kept.get(previous) ?? refuse('previous_response_not_found',
      'previous_response_id', `the response "${previous}" is no longer kept`) : [];
    const said = previous && input === undefined ? [] : inputMessages(input), system = instructions
      ? [{role: 'system', content: contentOf(instructions, 'instructions')}] : [];
    const messages = [...kept, ...said];
    if (!messages.length) refuse('invalid_value', 'input', '"input" is empty');
    const {tools: own, toolChoice = 'none'} = tools.options;
    const asked = Object.fromEntries(Object.entries(ASKED)
      .map(([name, value]) => [name, body[name] ?? value]));
    const id = newId('resp_'), settings = {parallel_tool_calls: options.parallelToolCalls ?? true,
      temperature: options.temperature,
      tool_choice: typeof toolChoice === 'string' ? toolChoice
        : {type: 'function', name: toolChoice.function.name},
      top_p: options.topP, ...asked, store: body.store ?? true, top_logprobs: options.topLogprobs ?? 0};
    const response = new Response({id, created_at: now(), model: this.#name, settings}, tools.custom);
    const all = happenings(this.#model, 'chat', [...system, ...messages],
      {...options, ...(own && tools.options), ...templateOf(body)});
    const events = this.#events(response, all, options.logprobs, whole => {
      if (body.store !== false) this.#keep(id, [...messages, ...whole.messages]);
    });
    if (body.stream) return {events: await begun(events)};
    for await (const event of events) void event;
    return {json: response.json()};
  }
  #keep(id, messages) {
    this.#kept.set(id, messages);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value);
  }

  async * #events(response, happens, logprobs, finished) {
    let told = false;
    for await (const {token, logprob, part, whole} of happens) {
      if (!told) {
        for (const name of ['response.created', 'response.in_progress'])
          yield response.event(name, {response: response.json()});
        told = true;
      }
      if (token !== undefined && logprobs) response.take(logprob ?? await described(this.#model, token));
      if (part) yield * response.part(part);
      if (!whole) continue;
      response.whole = whole;
      yield * response.end();
      yield * response.empty();
      finished(whole);
      yield response.event(whole.finishReason === 'length' ? 'response.incomplete' : 'response.completed',
        {response: response.json()});
    }
  }
}
