/* Text, tokens and answers of a model, over the engine's conversation: its one sequence.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {encoded, listed} from './memory.js';
import {ADD_SPECIAL, ENDS, EVENT, E_MEMORY, OK, PARSE_SPECIAL, PENDING, WAITING} from './names.js';
import {answerTexts} from './options.js';

/* Parts of an answer by their events' types. */
const PARTS = {[EVENT.TEXT]: 'text', [EVENT.REASONING]: 'reasoning', [EVENT.CALL]: 'call',
  [EVENT.ARGUMENTS]: 'arguments', [EVENT.CALL_END]: 'call-end', [EVENT.CALL_DROPPED]: 'call-dropped',
  [EVENT.CALL_CUT]: 'call-cut'};
const LOGPROBS = 101;           /* QSF_LOGPROBS_MOST, and the token's own */
const TELL_MS = 50;
const CHECK_BATCHES = 32;       /* a check takes half a millisecond */
const YIELD_MS = 12;            /* the longest that a message waits, apart from the computation of a layer */

/* To the event loop and back, without the 4 ms that browsers make of a nested setTimeout(0). */
const breathe = (() => {
  if (typeof setImmediate === 'function') return () => new Promise(resolve => setImmediate(resolve));
  const {port1, port2} = new MessageChannel();
  const waiting = [];
  port1.onmessage = () => waiting.shift()();
  return () => new Promise(resolve => { waiting.push(resolve); port2.postMessage(0); });
})();

/* Local time. */
const wallSeconds = () => Math.floor(Date.now() / 1000) - 60 * new Date().getTimezoneOffset();
/* A template's inputs besides messages, by the engine's names. */
const chatTexts = ({template, tools, documents, chatTemplateKwargs, continueFinalMessage} = {}) => [
  ['chat-template', template], ['tools', tools], ['documents', documents],
  ['template-kwargs', chatTemplateKwargs], ['continue-final-message', continueFinalMessage || undefined],
  ['now', wallSeconds()]];

export class Conversation {
  #memory; #x; #transport; #variant; #warn;
  #gpu;                         // a GpuModule, if layers are on a GPU
  #batches = 0;
  #breathed = 0;
  #uses = [];                   // the conversation's adapters
  #model; #context;             // handles, and that of the answer under way
  #answer = 0;
  /** The conversation's handle. */
  handle;

  /** Of the module that runs in memory and has opened its model. */
  constructor(memory, transport, variant, warn, model, context) {
    this.#memory = memory;
    this.#x = memory.x;
    this.#transport = transport;
    this.#variant = variant;
    this.#warn = warn;
    this.#model = model;
    this.#context = context;
  }
  /** The context is open; gpu: a GpuModule that has some of its layers, or undefined. */
  begin(gpu) {
    this.#gpu = gpu;
    this.handle = this.#x.qsf_flat_conversation_new(this.#context, 0);
    this.#memory.check(this.#x.qsf_flat_status(this.handle), this.handle);
  }

  /* ---- text ---- */
  tokenize(text, {addSpecial = false, parseSpecial = false} = {}) {
    const bytes = encoded(text), flags = (addSpecial ? ADD_SPECIAL : 0) | (parseSpecial ? PARSE_SPECIAL : 0);
    return this.#memory.with(bytes, at => this.#tokens(bytes.length, (ids, cap) =>
      this.#x.qsf_flat_tokens(this.#model, at, bytes.length, flags, ids, cap)));
  }
  /* A token has a byte or more, with few exceptions. */
  #tokens(bytes, write) {
    return this.#memory.filled(this.#model, 4, bytes + 16, write, (ids, n) => this.#memory.numbers(ids, n));
  }
  #piece(id, special) {
    return this.#memory.filled(this.#model, 1, 64,
      (at, cap) => this.#x.qsf_flat_token_text(this.#model, id, special, at, cap),
      (at, n) => this.#memory.bytes(at, n).slice());
  }
  detokenize(ids, {special = false} = {}) {
    const stream = new TextDecoder();
    return ids.map(id => stream.decode(this.#piece(id, special), {stream: true})).join('') + stream.decode();
  }
  render(messages, options) {
    const memory = this.#memory, texts = encoded(messages);
    return memory.with(listed(chatTexts(options)), given => memory.with(texts, at =>
      memory.filled(this.#model, 1, texts.length + 1024, (out, cap) =>
        this.#x.qsf_flat_chat_text(this.#model, at, texts.length, given, out, cap),
      (out, n) => memory.text(out, n))));
  }

  /* ---- turns ---- */
  /* Sets the prompt of the next answer: messages in JSON, a string or tokens. Control tokens in a
   * message's content are treated as text. */
  #prompted({messages, prompt}, options) {
    const memory = this.#memory, x = this.#x, handle = this.handle;
    const [set, given] = messages ? [x.qsf_flat_conversation_json, encoded(messages)]
      : typeof prompt === 'string' ? [x.qsf_flat_conversation_text, encoded(prompt)]
        : [x.qsf_flat_conversation_ids, Int32Array.from(prompt)];
    memory.check(memory.with(listed(chatTexts(options)), at =>
      x.qsf_flat_conversation_chat(handle, at)), handle);
    memory.check(memory.with(given, at => set(handle, at, given.length)), handle);
  }
  /* An error in the caller's value is an argument error, whatever part of the engine finds it. */
  #written(option, status, handle = this.#answer) {
    if (status !== OK && status !== E_MEMORY) {
      const text = this.#memory.textOf(handle, 'error');
      throw new QsfError('ARGUMENT', text.startsWith(`${option}:`) ? text : `${option}: ${text}`);
    }
    this.#memory.check(status, handle);
  }
  #sampler({logitBias, bannedTexts, drySequenceBreakers, ...options}) {
    const memory = this.#memory, x = this.#x;
    const each = (name, list, set) => {
      for (const text of list) {
        const bytes = encoded(text);
        this.#written(name, memory.with(bytes, at => set(answer, at, bytes.length)));
      }
    };
    const answer = this.#answer = memory.with(listed(answerTexts(options)), at =>
      x.qsf_flat_answer_new(this.handle, at));
    memory.check(x.qsf_flat_status(answer), answer);
    for (const [token, bias] of logitBias)
      this.#written('logitBias', x.qsf_flat_answer_bias(answer, token, bias));
    each('bannedTexts', bannedTexts, x.qsf_flat_answer_ban);
    each('drySequenceBreakers', drySequenceBreakers ? ['', ...drySequenceBreakers] : [],
      x.qsf_flat_answer_breaker);
    each('stop', options.stop, x.qsf_flat_answer_stop);
  }
  /* The answer's constraints, and which of its parts are reported separately. */
  #shape({responseFormat, jsonBlanks, apart, ...options}) {
    if (!apart && !responseFormat) return;
    const memory = this.#memory, x = this.#x, {kind = 0, text, loose} = responseFormat || {};
    const [make, handle] = apart ? [x.qsf_flat_conversation_split, this.handle]
      : [x.qsf_flat_answer_grammar, this.#answer];
    const bytes = encoded(text ?? ''), error = () => memory.textOf(handle, 'error');
    const tried = isLoose => memory.with(bytes, at => memory.with(listed([
      ['tool-choice', options.toolChoice], ['parallel-tool-calls', options.parallelToolCalls],
      ['id-seed', options.idSeed], ['json-loose', isLoose],
      ['json-blanks', jsonBlanks === Infinity ? -1 : jsonBlanks]]), given =>
      make(handle, given, kind, text === undefined ? 0 : at, bytes.length)));
    const ofTools = status => text === undefined || (status && error().startsWith('tools:'));
    let status = tried(false);
    if (status && loose && !ofTools(status)) {
      const why = error();
      status = tried(true);
      if (!status) this.#warn(`not kept of responseFormat: ${why}`);
    }
    this.#written(ofTools(status) ? 'tools' : 'responseFormat', status, handle);
    const loosened = memory.textOf(this.handle, 'loosened');
    if (loosened) this.#warn(`not kept of the tools' schemas: ${loosened}`);
  }

  /* The JavaScript engine reoptimises code while it runs, and an earlier check of the sums does not
   * hold for the new code. */
  #stillWorks() {
    if (!this.#x.works(this.#model))
      throw new QsfError('UNSUPPORTED',
        `${this.#variant}: relaxed SIMD gives wrong sums since this engine has ` +
        'optimised it; load with relaxed: false');
  }
  #leaveGpu() {
    this.#warn(`${this.#gpu.about(this.#context).reason}; all layers are on the CPU now`);
    this.withoutGpu();
  }
  withoutGpu() { this.#gpu = undefined; }
  async #pause() {
    if (performance.now() - this.#breathed < YIELD_MS) return;
    await breathe();
    this.#breathed = performance.now();
  }
  /* One batch; other messages to the worker are handled meanwhile. */
  async #compute(signal, stepped, handle = this.#answer, take = this.#x.qsf_flat_answer_step) {
    const step = () => take(handle);
    if (this.#batches++ % CHECK_BATCHES === 0) this.#stillWorks();
    for (;;) {
      const missing = this.#transport.expecting();
      const result = step(), status = result & 255;
      if (this.#gpu?.gone) this.#leaveGpu();
      if (status === OK) return;
      if (status !== PENDING) this.#memory.check(status, handle);
      stepped?.();
      const onGpu = this.#gpu?.missing;
      if (result & WAITING) await missing(signal.promise, YIELD_MS);
      else if (onGpu) await Promise.race([onGpu, signal.promise]);
      await this.#pause();
      if (signal.aborted) throw signal.error;
    }
  }
  /** Waits for the low bits of a progressive file. */
  async refined(signal) {
    for (;;) {
      const missing = this.#transport.expecting(), status = this.#x.qsf_flat_refine(this.#context);
      if (status === OK) return;
      if (status !== PENDING) this.#memory.check(status, this.#context);
      await missing(signal.promise, YIELD_MS);
      await this.#pause();
      if (signal.aborted) throw signal.error;
    }
  }
  /* Computes the part of the prompt that the sequence does not hold. */
  async #prompt(signal, progress) {
    const number = name => this.#memory.number(this.handle, name);
    const total = number('prompt'), layers = number('layer');   // no batch is under way
    let told = -Infinity;
    const tell = (done, layer) => {
      told = performance.now();
      progress({done, total, layer, layers});
    };
    for (let done = number('done'); done < total && this.#next() === PENDING;) {
      const before = done;
      await this.#compute(signal, () => {
        if (performance.now() - told >= TELL_MS) tell(before, number('layer'));
      });
      done = number('done');
      tell(done, done === total ? layers : 0);          // the next batch begins
    }
  }
  /* The last piece's parts; its calls are those it completed, after the first `whole` ones. listed:
   * also all parts in their order. */
  #parts(whole, listed) {
    const parts = {text: '', reasoning: '', calls: []}, order = [];
    const memory = this.#memory, text = () => memory.textOf(this.#answer, 'event');
    for (let type; (type = this.#x.qsf_flat_answer_event(this.#answer));) {
      const part = {type: PARTS[type]};
      if (type === EVENT.TEXT || type === EVENT.REASONING) parts[part.type] += part.text = text();
      else part.index = memory.number(this.#answer, 'call');
      if (type === EVENT.CALL)
        Object.assign(part, {id: memory.textOf(this.#answer, 'eventId'), name: text()});
      if (type === EVENT.ARGUMENTS) part.text = text();
      if (type === EVENT.CALL_END)
        parts.calls.push(this.#message().tool_calls[whole + parts.calls.length]);
      order.push(part);
    }
    return listed ? {...parts, parts: order} : parts;
  }
  #message() {
    const message = this.#memory.textOf(this.#answer, 'message');
    return JSON.parse(message ?? this.#memory.check(E_MEMORY, this.#answer));
  }
  /* The answer as a message, and a call that its end cut off. */
  #whole(content, calls) {
    const message = this.#message(), cut = message.tool_calls?.find(call => call.unfinished);
    delete message.tool_calls;
    if (content) message.content = content;
    else if (cut && !calls.length) message.content = '';
    if (calls.length) message.tool_calls = calls;
    if (!cut) return {message};
    const {unfinished, ...partial} = cut;
    return {message, partial};
  }
  /* The log probabilities of the last piece's token and of the most likely ones; undefined: not
   * requested. */
  #logprobs() {
    const memory = this.#memory, size = 8 * LOGPROBS;
    const all = memory.room(size, at => {
      const values = at + size / 2;
      const n = this.#x.qsf_flat_answer_logprobs(this.#answer, at, values, LOGPROBS);
      return memory.numbers(at, n).map((id, i) => ({id,
        logprob: new DataView(memory.raw.buffer).getFloat32(values + 4 * i, true)}));
    });
    if (!all.length) return undefined;
    const [own, ...top] = all.map(({id, logprob}) => {
      const bytes = this.#piece(id, true);
      return {id, token: new TextDecoder().decode(bytes), bytes: [...bytes], logprob};
    });
    return {...own, topLogprobs: top};
  }
  /* The status of the next piece; unless it is PENDING, the piece is complete. */
  #next() {
    const status = this.#x.qsf_flat_answer_next(this.#answer);
    if (status !== PENDING) this.#memory.check(status, this.#answer);
    return status;
  }

  /**
   * Yields {id, text, reasoning, calls}, with options.logprobs also logprobs, until a token or a
   * stop string ends the answer; returns why, and with options.apart, which splits answers, the
   * answer as a message.
   */
  async * generate(asked, options, signal, progress) {
    const {logprobs, apart, listed} = options, calls = [], began = performance.now();
    let all = '', started;
    try {
      this.#prompted(asked, options);
      this.adapt(options.uses);
      this.#sampler(options);
      this.#shape(options);
      this.#memory.check(this.#x.qsf_flat_answer_begin(this.#answer), this.#answer);
      await this.#prompt(signal, progress);
      const read = performance.now(), number = name => this.#memory.number(this.handle, name);
      started = {promptTokens: number('prompt'), cachedTokens: number('kept'), ms: read - began};
      for (;;) {
        while (this.#next() === PENDING) await this.#compute(signal);
        const id = this.#memory.number(this.#answer, 'token');
        const end = ENDS[this.#memory.number(this.#answer, 'end')];
        const piece = {id: end ? undefined : id, ...this.#parts(calls.length, listed), began: started,
          ...(logprobs && !end && {logprobs: this.#logprobs()}),
          ...(end && {answerMs: performance.now() - read})};
        started = undefined;
        calls.push(...piece.calls);
        all += piece.text;
        yield piece;
        if (end) return apart ? {end, ...this.#whole(all, calls)} : {end};
        await this.#pause();
        if (signal.aborted) throw signal.error;
      }
    } finally {
      this.#x.qsf_flat_free(this.#answer);      // the reader may have left at any point
      this.#answer = 0;
    }
  }

  /** How many tokens the sequence holds. */
  get length() { return this.#memory.number(this.handle, 'length'); }

  /* ---- embeddings and ranks ---- */
  /* Calls use(handle) with an embedding's handle. */
  async #embedding(options, use) {
    const memory = this.#memory, x = this.#x;
    const handle = memory.with(listed(options), at => x.qsf_flat_embedding_new(this.#context, at));
    try {
      memory.check(x.qsf_flat_status(handle), handle);
      return await use(handle);
    } finally {
      x.qsf_flat_free(handle);
    }
  }
  /* The numbers of an input. */
  async #numbers(handle, ids, signal) {
    const memory = this.#memory, x = this.#x;
    memory.check(memory.with(Int32Array.from(ids), at => memory.with(Uint32Array.of(ids.length), lens =>
      x.qsf_flat_embedding_begin(handle, at, lens, 1))), handle);
    await this.#compute(signal, undefined, handle, x.qsf_flat_embedding_step);
    return memory.filled(handle, 4, memory.number(handle, 'width') + 1,
      (at, cap) => x.qsf_flat_embedding_values(handle, at, cap),
      (at, n) => new Float32Array(memory.bytes(at, 4 * n).slice().buffer));
  }
  /** The embeddings of inputs, each a string or tokens. */
  async embed(texts, {pooling, normalize, uses}, signal) {
    this.adapt(uses);
    return this.#embedding([['pooling', pooling], ['plain', !normalize]], async handle => {
      const all = [];
      if (pooling === 'rank' && !this.#memory.number(handle, 'width'))
        throw new QsfError('UNSUPPORTED',
          'the file has no classifier (cls.output.weight): its texts have no rank');
      for (const text of texts) {
        const ids = typeof text === 'string' ? this.tokenize(text, {addSpecial: true, parseSpecial: true})
          : text;
        if (signal.aborted) throw signal.error;
        all.push(await this.#numbers(handle, ids, signal));
      }
      return all;
    });
  }
  #pair(query, document) {
    const memory = this.#memory;
    return memory.with(query, q => memory.with(document, d =>
      this.#tokens(query.length + document.length + 1024, (ids, cap) =>
        this.#x.qsf_flat_pair_tokens(this.#model, q, query.length, d, document.length, ids, cap))));
  }
  /** The scores of documents. */
  async rerank(query, documents, {uses}, signal) {
    this.adapt(uses);
    return this.#embedding([['score', true]], async handle => {
      const scores = [];
      for (const document of documents) {
        const ids = this.#pair(encoded(query), encoded(document));
        if (signal.aborted) throw signal.error;
        scores.push((await this.#numbers(handle, ids, signal))[0]);
      }
      return scores;
    });
  }

  /* ---- adapters ---- */
  /** Reads one from a file's bytes; returns its place, and its description. */
  loadAdapter(name, bytes) {
    const memory = this.#memory, x = this.#x, place = x.qsf_flat_adapter_new(this.#model);
    try {
      memory.named(name, at => this.#transport.loaded(bytes, () =>
        memory.check(x.adapter_load(place, at, bytes.byteLength), place)));
    } catch (error) {
      x.qsf_flat_free(place);
      throw error;
    }
    const [matrices, rank, alpha, size] = ['matrices', 'rank', 'alpha', 'adapterBytes'].map(which =>
      memory.number(place, which));
    return {place, info: {name: memory.textOf(place, 'adapter'), matrices, rank, alpha, bytes: size}};
  }
  freeAdapter(place) {
    if (this.#uses.some(use => use.place === place)) this.adapt([]);    // its memory is freed at once
    this.#x.qsf_flat_free(place);
  }
  /** Sets the adapters of what is computed next: [{place, scale}]. */
  adapt(uses) {
    if (!uses.length && !this.#uses.length) return;
    const memory = this.#memory;
    memory.check(memory.with(Uint32Array.from(uses, use => use.place), places =>
      memory.with(Float32Array.from(uses, use => use.scale), scales =>
        this.#x.qsf_flat_conversation_adapt(this.handle, places, scales, uses.length))), this.handle);
    if (this.#gpu?.gone) this.#leaveGpu();
    this.#uses = uses;
  }

  /* ---- sessions ---- */
  /** The sequence's tokens, with their keys and values, as bytes. */
  async saveSession() {
    const memory = this.#memory;
    this.#gpu?.keep(true);
    try {
      for (let status; ;) {
        const bytes = this.#transport.saved(memory.number(this.handle, 'sessionBytes'), () => {
          status = this.#x.session_save(this.handle);
        });
        if (status === OK) return bytes;
        if (status !== PENDING) memory.check(status, this.handle);
        await this.#gpu.missing;        // what a GPU has comes a layer at a time; then from the beginning
      }
    } finally {
      this.#gpu?.keep(false);
    }
  }
  /** Restores a saved sequence; if the bytes are invalid, the sequence stays unchanged. Returns its
   * number of tokens. */
  loadSession(bytes, {uses}) {
    this.adapt(uses);
    this.#transport.loaded(bytes, () =>
      this.#memory.check(this.#x.session_load(this.handle, bytes.byteLength), this.handle));
    return this.length;
  }
}
