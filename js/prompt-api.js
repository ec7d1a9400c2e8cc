/* The Prompt API of browsers (Chrome's LanguageModel) over a model of this package, for browsers
 * without it.
 * SPDX-License-Identifier: MIT */
import {happenings, streamed} from './apis.js';

const TOP_K = 40, MOST_TOP_K = 128, TEMPERATURE = 0.7, MOST_TEMPERATURE = 2;
/* Old turns are dropped until this part of the context is free for an answer. */
const ANSWER = 0.25;

const error = (name, message) => new DOMException(message, name);
function textOf(content) {
  if (typeof content === 'string') return content;
  return [...content].map(part => {
    if (part.type !== 'text') throw error('NotSupportedError',
      `a part of type ${part.type}: the model reads text only`);
    return part.value;
  }).join('');
}
/* A string is the user's; a list has roles. */
const messagesOf = (input, role = 'user') => (typeof input === 'string' ? [{role, content: input}]
  : [...input].map(message => ({role: message.role, content: textOf(message.content),
    ...(message.prefix && {prefix: true})})));
const formatOf = constraint => (constraint instanceof RegExp ? {type: 'regex', regex: constraint.source}
  : {type: 'json_schema', schema: constraint});
function supported({expectedInputs = [], expectedOutputs = []} = {}) {
  return [...expectedInputs, ...expectedOutputs].every(({type}) => ['text', 'tool-call',
    'tool-response'].includes(type));
}

class Session extends EventTarget {
  #model; #first; #talk; #options; #tools; #usage = 0; #last = Promise.resolve();
  #gone = new AbortController();
  onquotaoverflow = null; oncontextoverflow = null;
  constructor(model, {first, talk = [], options, tools}) {
    super();
    this.#model = model;
    this.#first = first;        // the system's words stay when old turns are dropped
    this.#talk = talk;
    this.#options = options;
    this.#tools = tools;
  }
  get topK() { return this.#options.topK; }
  get temperature() { return this.#options.temperature; }
  get contextWindow() { return this.#model.info.contextLength; }
  get contextUsage() { return this.#usage; }
  get inputQuota() { return this.contextWindow; }
  get inputUsage() { return this.#usage; }

  #alive() { if (this.#gone.signal.aborted) throw this.#gone.signal.reason; }
  async #tokens(messages) {
    if (!messages.length) return 0;
    const text = await this.#model.render(messages, this.#tools.length ? {tools: this.#functions()} : {});
    return (await this.#model.tokenize(text, {addSpecial: true, parseSpecial: true})).length;
  }
  #functions() {
    return this.#tools.map(({name, description, inputSchema}) =>
      ({type: 'function', function: {name, description, parameters: inputSchema}}));
  }
  /* Measures the session; turns at its beginning are dropped until it leaves room for an answer. */
  async #fit(more) {
    const room = Math.floor(this.contextWindow * (1 - ANSWER));
    let tokens = await this.#tokens([...this.#first, ...this.#talk, ...more]), dropped = false;
    if (tokens > room && await this.#tokens([...this.#first, ...more]) >= this.contextWindow)
      throw Object.assign(error('QuotaExceededError',
        `the input has ${tokens} tokens, the context ${this.contextWindow}`),
        {requested: tokens, quota: this.contextWindow});
    while (tokens > room && this.#talk.length) {
      do this.#talk.shift(); while (this.#talk.length && this.#talk[0].role !== 'user');
      dropped = true;
      tokens = await this.#tokens([...this.#first, ...this.#talk, ...more]);
    }
    if (dropped)
      for (const type of ['quotaoverflow', 'contextoverflow']) {
        const event = new Event(type);
        this.dispatchEvent(event);
        this[`on${type}`]?.(event);
      }
    return tokens;
  }

  async * #answer(input, {signal, responseConstraint, omitResponseConstraintInput} = {}) {
    void omitResponseConstraintInput;           // the constraint is enforced, and never in the prompt
    const all = AbortSignal.any([this.#gone.signal, ...(signal ? [signal] : [])]);
    all.throwIfAborted();
    const asked = messagesOf(input), continues = asked.at(-1)?.prefix === true;
    for (const message of asked) delete message.prefix;
    this.#usage = await this.#fit(asked);
    const messages = [...this.#first, ...this.#talk, ...asked];
    const options = {...this.#options, maxTokens: Infinity, signal: all, continueFinalMessage: continues,
      ...(responseConstraint && {responseFormat: formatOf(responseConstraint)}),
      ...(this.#tools.length && {tools: this.#functions(), onToolCall: ({function: {name,
        arguments: given}}) =>
        this.#tools.find(tool => tool.name === name).execute(JSON.parse(given))})};
    for await (const {part, whole} of happenings(this.#model, 'chat', messages, options)) {
      if (part?.type === 'text') yield part.text;
      if (!whole) continue;
      if (continues) asked.pop();       // the answer's first message has it and its continuation
      this.#talk.push(...asked, ...whole.messages);
      this.#usage = whole.usage.promptTokens + whole.usage.completionTokens;
    }
    all.throwIfAborted();
  }
  /* Calls of one session run one after another. */
  async * #inTurn(input, options) {
    this.#alive();
    const before = this.#last;
    let end;
    this.#last = new Promise(resolve => { end = resolve; });
    try {
      await before;
      yield * this.#answer(input, options);
    } finally {
      end();
    }
  }

  async prompt(input, options) {
    let text = '';
    for await (const part of this.#inTurn(input, options)) text += part;
    return text;
  }
  promptStreaming(input, options) { return streamed(this.#inTurn(input, options)); }
  async append(input, {signal} = {}) {
    this.#alive();
    signal?.throwIfAborted();
    await this.#last;
    const more = messagesOf(input);
    this.#usage = await this.#fit(more);
    this.#talk.push(...more);
  }
  async measureContextUsage(input) {
    this.#alive();
    const now = [...this.#first, ...this.#talk];
    return await this.#tokens([...now, ...messagesOf(input)]) - await this.#tokens(now);
  }
  measureInputUsage(input) { return this.measureContextUsage(input); }
  async clone({signal} = {}) {
    this.#alive();
    signal?.throwIfAborted();
    await this.#last;
    const copy = new Session(this.#model, {first: this.#first, talk: [...this.#talk], options: this.#options,
      tools: this.#tools});
    copy.#usage = this.#usage;
    return copy;
  }
  destroy() { this.#gone.abort(error('AbortError', 'the session has been destroyed')); }
}

/** @type {import('./prompt-api.d.ts').createLanguageModel} */
export function createLanguageModel(from) {
  let loading, state = typeof from === 'function' ? 'downloadable' : 'available';
  const load = monitor => loading ??= (async () => {
    if (typeof from !== 'function') return from;
    state = 'downloading';
    try {
      const model = await from(({phase, loaded, total}) => {
        if (phase === 'load' && total) monitor?.dispatchEvent(Object.assign(new Event('downloadprogress'),
          {loaded: loaded / total, total: 1, lengthComputable: true}));
      });
      state = 'available';
      return model;
    } catch (failure) {
      loading = undefined;
      state = 'downloadable';
      throw failure;
    }
  })();
  return {
    availability: async options => (supported(options) ? state : 'unavailable'),
    params: async () => ({defaultTopK: TOP_K, maxTopK: MOST_TOP_K, defaultTemperature: TEMPERATURE,
      maxTemperature: MOST_TEMPERATURE}),
    async create(options = {}) {
      const {initialPrompts = [], topK = TOP_K, temperature = TEMPERATURE, tools = [], signal,
        monitor} = options;
      signal?.throwIfAborted();
      if (!supported(options)) throw error('NotSupportedError', 'the model reads and writes text only');
      if (topK < 1 || topK > MOST_TOP_K)
        throw new RangeError(`topK is ${topK}; the range is 1 to ${MOST_TOP_K}`);
      if (temperature < 0 || temperature > MOST_TEMPERATURE)
        throw new RangeError(`temperature is ${temperature}; the range is 0 to ${MOST_TEMPERATURE}`);
      const target = new EventTarget();
      monitor?.(target);
      const model = await load(target), all = messagesOf(initialPrompts);
      signal?.throwIfAborted();
      const first = all.slice(0, all[0]?.role === 'system' ? 1 : 0);
      const session = new Session(model, {first, options: {topK, temperature}, tools: [...tools]});
      if (all.length) await session.append(all.slice(first.length).map(({role, content}) => ({role,
        content})));
      signal?.addEventListener('abort', () => session.destroy(), {once: true});
      return session;
    },
  };
}

/** @type {import('./prompt-api.d.ts').languageModel} */
export const languageModel = from => globalThis.LanguageModel ?? createLanguageModel(from);
