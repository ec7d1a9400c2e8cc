/* OpenAI's API over a model in this page or process: an object like that of the package `openai`,
 * and a fetch() for that package itself.
 * SPDX-License-Identifier: MIT */
import {begun, embedded, happenings, loaded, together} from './apis.js';
import {WholeChoice, chunkedChoice, newId, now, usageJson, usageOf} from './openai_answers.js';
import {Refusal, countOf, logprobsOf, messagesOf, optionsOf, refusalOf, refuse, templateOf, toolsOf,
  wrong} from './openai_request.js';
import {Responses} from './openai_responses.js';

/** The API as functions of a path and a body. */
class Server {
  #model; #name; #created = now(); #responses;
  constructor(model, name) {
    this.#model = loaded(model);
    this.#name = name ?? (model.info.name || 'qsf');
    this.#responses = new Responses(model, this.#name);
  }

  /** {json}, or {events}: an async iterable of {event, data}. Rejects with a Refusal. */
  async answer(method, path, body, signal) {
    const found = /(chat\/completions|completions|embeddings|responses|models(?:\/(.+))?)\/?$/.exec(path);
    const [, what, name] = found ?? [];
    try {
      if (what?.startsWith('models') && method === 'GET') return {json: this.#models(name)};
      if (method !== 'POST' || !found || name)
        throw new Refusal(404, 'not_found', null, `unknown path ${path}`, 'not_found_error');
      if (what === 'responses') return await this.#responses.create(body, signal);
      if (what === 'embeddings') return {json: await this.#embeddings(body, signal)};
      return await this.#completions(body, signal, what !== 'completions');
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw refusalOf(error, path);
    }
  }

  #models(name) {
    const {architecture: arch, contextLength, trainedContext, vocabulary, embedding, parameters,
      weightBytes} = this.#model.info;
    const one = {id: this.#name, type: 'model', created_at: '1970-01-01T00:00:00Z', display_name: this.#name,
      object: 'model', created: this.#created, owned_by: 'qsf', status: {value: 'loaded'},
      meta: {arch, n_ctx: contextLength, n_ctx_train: trainedContext, n_vocab: vocabulary, n_embd: embedding,
        n_params: parameters, size: weightBytes}, max_model_len: contextLength};
    return name === undefined ? {object: 'list', data: [one], has_more: false} : one;
  }

  /* ---- chats and completions ---- */
  async #completions(body, signal, chats) {
    const left = new AbortController();
    const options = {...optionsOf(body, chats), ...logprobsOf(body, !chats),
      signal: AbortSignal.any([left.signal, ...(signal ? [signal] : [])])};
    const n = countOf(body), tools = chats ? toolsOf(body) : {custom: new Set(), options: {}};
    if (chats) Object.assign(options, tools.options, templateOf(body));
    const prompts = chats ? [messagesOf(body)] : this.#prompts(body);
    const asked = {chats, logprobs: options.logprobs, custom: tools.custom, model: this.#model, echo: ''};
    const choices = prompts.flatMap((prompt, i) => Array.from({length: n}, (_, k) => ({index: i * n + k,
      prompt,
      asked: {...asked, echo: body.echo && !chats && typeof prompt === 'string' ? prompt : ''},
      options: options.seed === undefined ? options : {...options, choice: i * n + k}})));
    const head = {id: newId(chats ? 'chatcmpl-' : 'cmpl-'),
      object: chats ? 'chat.completion' : 'text_completion', created: now(), model: this.#name};
    const happens = ({prompt, options: how}) => happenings(this.#model, chats ? 'chat' : 'generate', prompt,
      how);
    const {maxParallel: most = Infinity} = this.#model.info;
    const all = make => together(choices.map(make), n, most, () => left.abort());
    if (body.stream) {
      const chunked = all(one => chunkedChoice(one.asked, one.index, happens(one)));
      return {events: await begun(this.#chunks(body, choices, chunked, head, n))};
    }
    const wholes = choices.map(one => new WholeChoice(one.asked, one.index));
    for await (const [i, what] of all(happens)) await wholes[i].take(what);
    return {json: {...head, choices: wholes.map(one => one.json()),
      usage: usageJson(usageOf(wholes.map(({whole}) => whole), n))}};
  }

  async * #chunks(body, choices, chunked, head, n) {
    const data = what => ({data: {...head, ...(head.object === 'chat.completion'
      && {object: 'chat.completion.chunk'}),
      ...what}});
    const wholes = [], {asked: {chats}} = choices[0];
    let told = false;
    const first = function * () {
      told = true;
      for (const {index, asked: {echo}} of choices)
        if (chats || echo) yield data({choices: [{index, ...(chats ? {delta: {role: 'assistant', content: ''}}
          : {text: echo}), logprobs: null, finish_reason: null}]});
    };
    for await (const [i, {choice, whole}] of chunked) {
      if (!told) yield * first();
      if (whole) wholes[i] = whole;
      else yield data({choices: [choice]});
    }
    if (body.stream_options?.include_usage) yield data({choices: [], usage: usageJson(usageOf(wholes, n))});
    yield {data: '[DONE]'};
  }

  /* Strings, or lists of tokens. */
  #prompts({prompt, suffix, echo, logprobs, best_of: best}) {
    if (suffix) refuse('unsupported_parameter', 'suffix', '"suffix" is not supported');
    if (echo && typeof logprobs === 'number')
      refuse('unsupported_parameter', 'echo', '"echo" cannot be combined with "logprobs" here');
    if (best > 1) refuse('unsupported_parameter', 'best_of', '"best_of" is not supported');
    return listed(prompt, 'prompt');
  }

  async #embeddings(body, signal) {
    if (typeof body !== 'object' || !body) wrong('input', 'a string or a list', undefined);
    const {input, encoding_format: encoding = 'float', dimensions} = body, texts = listed(input, 'input');
    if (!['float', 'base64'].includes(encoding))
      refuse('invalid_value', 'encoding_format',
        `"encoding_format" is "${encoding}"; it must be float or base64`);
    const {vectors, tokens} = await embedded(this.#model, texts, dimensions, {signal});
    return {object: 'list', data: vectors.map((vector, index) => ({object: 'embedding', index,
      embedding: written(vector, encoding)})), model: this.#name,
    usage: {prompt_tokens: tokens, total_tokens: tokens}};
  }
}

function listed(given, name) {
  const isIds = Array.isArray(given) && given.length > 0 && given.every(Number.isInteger);
  const all = typeof given === 'string' || isIds ? [given] : given;
  if (!Array.isArray(all) || !all.length) wrong(name, 'a string or a list of strings', given);
  for (const one of all)
    if (typeof one !== 'string' && !Array.isArray(one)) wrong(name, 'a string or a list of strings', one);
  return all;
}
function written(vector, encoding) {
  if (encoding === 'float') return Array.from(vector, x => Number(x.toPrecision(9)));
  const bytes = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
  return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
}

/* ---- for the package openai ---- */
function stream(events, signal) {
  const text = new TextEncoder();
  const iterator = events[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      try {
        const {done, value} = await iterator.next();
        if (done) return controller.close();
        const {event, data} = value, json = typeof data === 'string' ? data : JSON.stringify(data);
        return controller.enqueue(text.encode(`${event ? `event: ${event}\n` : ''}data: ${json}\n\n`));
      } catch (error) {
        // the package ends its loop quietly at an abort, as it does with a server
        if (signal.aborted) return controller.error(signal.reason);
        controller.enqueue(text.encode(`data: ${JSON.stringify(refusalOf(error).body)}\n\n`));
        return controller.close();
      }
    },
    cancel: () => iterator.return(),
  });
}

/* Codes of errors that may not occur again. */
const MAY_PASS = ['HTTP', 'IO'];

/** @type {import('./openai.d.ts').createFetch} */
export function createFetch(model, {name} = {}) {
  const server = new Server(model, name);
  const reply = (json, status, cause) => new Response(JSON.stringify(json), {status,
    headers: {'content-type': 'application/json', ...(status === 503 && {'retry-after': '1'}),
      ...(cause && status === 500 && !MAY_PASS.includes(cause.code) && {'x-should-retry': 'false'})}});
  return async (input, init) => {
    const request = new Request(input, init), {signal} = request;
    signal.throwIfAborted();
    try {
      const text = request.method === 'GET' ? '' : await request.text();
      const {json, events} = await server.answer(request.method, new URL(request.url).pathname,
        text === '' ? undefined : parsed(text), signal);
      return json ? reply(json, 200)
        : new Response(stream(events, signal), {headers: {'content-type': 'text/event-stream'}});
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return reply(error.body, error.status, error.cause);
    }
  };
}
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Refusal(400, 'invalid_json', null, `the request body is not valid JSON: ${cause.message}`,
      undefined,
      cause);
  }
}

/* ---- without the package openai ---- */
export class APIError extends Error {
  constructor({status, body: {error}, cause}) {
    super(`${status} ${error.message}`, {cause});
    Object.assign(this, {name: 'APIError', status, error, type: error.type, code: error.code,
      param: error.param});
  }
}

/** @type {typeof import('./openai.d.ts').OpenAI} */
export class OpenAI {
  #server;
  constructor({model, name} = {}) {
    this.#server = new Server(model, name);
    const create = path => (body, {signal} = {}) => this.#create(path, body, signal);
    this.chat = {completions: {create: create('chat/completions')}};
    this.completions = {create: create('completions')};
    this.embeddings = {create: create('embeddings')};
    this.responses = {create: create('responses')};
    this.models = {list: () => this.#get('models'), retrieve: name => this.#get(`models/${name}`)};
  }
  async #ask(...request) {
    try {
      return await this.#server.answer(...request);
    } catch (error) {
      throw error instanceof Refusal ? new APIError(error) : error;
    }
  }
  async #get(path) {
    const {json} = await this.#ask('GET', path);
    return json.data ? Object.defineProperty(json, Symbol.asyncIterator,
      {async * value() { yield * json.data; }})
      : json;
  }
  async #create(path, body, outer) {
    const controller = new AbortController(), signals = [controller.signal, ...(outer ? [outer] : [])];
    const {json, events} = await this.#ask('POST', path, body, AbortSignal.any(signals));
    if (json?.object === 'response') json.output_text = outputText(json);
    if (json) return json;
    return {controller, async * [Symbol.asyncIterator]() {
      try {
        for await (const {data} of events) if (data !== '[DONE]') yield data;
      } catch (error) {
        throw error instanceof Refusal || error.name === 'QsfError' ? new APIError(refusalOf(error)) : error;
      }
    }};
  }
}
const outputText = ({output}) => output.flatMap(({type, content}) => (type === 'message' ? content : []))
  .map(({text}) => text).join('');
export default OpenAI;
