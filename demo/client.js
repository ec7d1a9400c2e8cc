/* A client of qsf-serve: models, and answers that come piece by piece.
 * SPDX-License-Identifier: MIT
 *
 * It uses /v1/models, /v1/chat/completions and /v1/completions, like any client of the OpenAI API.
 * It does not depend on the page. */

/** code: which hint of the page says what to do. */
export class ServerError extends Error {
  constructor(message, code, options) {
    super(message, options);
    this.code = code;
  }
}

const CODES = {context_length_exceeded: 'LONG', model_not_found: 'MODEL', timeout: 'LATE',
  draining: 'GONE'};
const STATUS = {400: 'ARGUMENT', 401: 'KEY', 403: 'FORBIDDEN', 404: 'NOT_FOUND', 408: 'GONE', 413: 'LONG',
  422: 'ARGUMENT', 429: 'BUSY', 502: 'GONE', 503: 'SERVER', 504: 'GONE'};
const ROUNDS = 8;               /* how often the model may use tools for one answer */
const capital = text => text[0].toUpperCase() + text.slice(1);
const said = ({message, code}, status) => new ServerError(
  capital(String(message || `the server answered ${status}`)), CODES[code] ?? STATUS[status] ?? 'SERVER');

/** What an answer other than 200 says. */
async function refusal(response) {
  const {status} = response, wait = Number(response.headers.get('retry-after'));
  let error = {};
  try { error = (await response.json()).error ?? {}; } catch { /* of a proxy, in HTML */ }
  const found = said(typeof error === 'object' ? error : {}, status);
  if (status === 429 && wait) found.message += ` (in ${wait} s)`;
  return found;
}

/** The data of server-sent events, as texts; bytes may be cut anywhere. */
export async function * events(stream) {
  const reader = stream.getReader(), decoder = new TextDecoder();
  let rest = '', data = [];
  try {
    for (;;) {
      const {done, value} = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, {stream: true});
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const ended of lines) {
        const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended;
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        if (line || !data.length) continue;         // other fields, comments
        yield data.join('\n');
        data = [];
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/* The server's names of the settings. Its defaults are never used: the request has what the page
 * shows. A seed of 0 means a new one each time. */
const asked = ({temperature, topK, topP, minP, seed, maxTokens}) => ({temperature, top_k: topK, top_p: topP,
  min_p: minP, max_tokens: maxTokens, ...(seed && {seed})});

/* A server's usage with the package's names. */
const counted = usage => usage && {promptTokens: usage.prompt_tokens,
  completionTokens: usage.completion_tokens, cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0};

export class Client {
  #base;

  /** base: the prefix of the server's paths. key: the API key, or ''. */
  constructor(base, key = '') {
    this.#base = base;
    this.key = key;
  }

  async #fetch(path, body, signal) {
    // a header has bytes: those of the key in UTF-8
    const key = [...new TextEncoder().encode(this.key)].map(byte => String.fromCharCode(byte)).join('');
    const headers = {...(body && {'content-type': 'application/json'}),
      ...(key && {authorization: `Bearer ${key}`})};
    let response;
    try {
      response = await fetch(new URL(path, this.#base), {signal, headers, cache: 'no-store',
        ...(body && {method: 'POST', body: JSON.stringify(body)})});
    } catch (cause) {
      signal?.throwIfAborted();
      throw new ServerError('The server does not respond.', 'GONE', {cause});
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }

  /** [{id, meta, status}], of which a server may leave out all but the first. */
  async models() {
    const response = await this.#fetch('v1/models');
    try {
      return (await response.json()).data.map(({id, meta, status}) =>
        ({id, meta: meta ?? {}, status: status ?? {}}));
    } catch (cause) {
      throw new ServerError('The response is not a list of models.', 'SERVER', {cause});
    }
  }

  /** context: tokens; undefined if the server does not say. */
  model(id, context) {
    return {
      info: {contextLength: context},
      chat: (messages, options) => this.#chat(messages, id, options),
      generate: (prompt, options) => this.#answer('v1/completions', {prompt}, id, options),
      async dispose() {},
    };
  }

  /* Answers until the model has no more calls of tools. */
  async * #chat(messages, id, {tools, responseFormat, onToolCall, ...options}) {
    const what = {messages, ...(tools && {tools}), ...(responseFormat && {response_format: responseFormat})};
    for (let round = 1; ; round++) {
      const answer = yield * this.#answer('v1/chat/completions', what, id, options), {calls} = answer;
      if (!calls.length || !onToolCall || round > ROUNDS) return answer;
      what.messages = [...what.messages, {role: 'assistant', content: null, tool_calls: calls}];
      for (const call of calls)
        what.messages.push({role: 'tool', tool_call_id: call.id, content: String(await onToolCall(call))});
    }
  }

  /* Yields the text; returns why it ended, as the package says it, and the usage. Leaving it closes
   * the connection, and with that ends the answer. */
  async * #answer(path, what, model, {signal, onToken, onReasoning, ...options}) {
    const {body} = await this.#fetch(path, {model, ...what, ...asked(options), stream: true,
      stream_options: {include_usage: true}}, signal);
    let end, usage;
    const calls = [];
    const parts = events(body);
    try {
      for await (const data of parts) {
        if (data === '[DONE]') break;
        const chunk = JSON.parse(data);
        if (chunk.error) throw said(chunk.error, chunk.error.code ?? 500);
        usage = chunk.usage ?? usage;
        const [choice] = chunk.choices ?? [];
        if (!choice) continue;
        const {content, reasoning_content: reasoning, tool_calls: pieces} = choice.delta
          ?? {content: choice.text};
        for (const {index = 0, id, function: {name = '', arguments: given = ''} = {}} of pieces ?? []) {
          const call = calls[index] ??= {id: '', type: 'function', function: {name: '', arguments: ''}};
          if (id) call.id = id;
          call.function.name += name;
          call.function.arguments += given;
          onToken?.();
        }
        if (content || reasoning) onToken?.();
        if (reasoning) onReasoning?.(reasoning);
        if (content) yield content;
        end = choice.finish_reason ?? end;
      }
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof ServerError) throw cause;
      throw new ServerError('The answer was interrupted: the connection to the server was lost.', 'GONE',
        {cause});
    }
    if (!end) throw new ServerError('The answer was interrupted by the server.', 'GONE');
    if (end === 'length' && usage?.completion_tokens < options.maxTokens) end = 'full';
    return {end: end === 'stop' ? 'end' : end, usage: counted(usage), calls: calls.filter(Boolean)};
  }
}
