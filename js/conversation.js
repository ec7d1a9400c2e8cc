/* Text, tokens and turns of a model: what its one sequence holds, and what comes next.
 * SPDX-License-Identifier: MIT */
import {E_MEMORY, OK, PENDING, QsfError} from './errors.js';
import {encoded} from './memory.js';
import {samplerTexts, turnTexts} from './options.js';

const ADD_SPECIAL = 1, PARSE_SPECIAL = 2;
const ENDS = ['', 'end', 'stop', 'length', 'full', 'cancelled', 'failed'];      /* qsf_turn_end */
const TEXT = 1, REASONING = 2, CALL_END = 5, CALL_CUT = 7;              /* qsf_answer_event_type */
const POOLINGS = ['auto', 'mean', 'cls', 'last', 'rank', 'none'];       /* qsf_pooling */
const WAITING = 256;            /* turn_step(): bytes are missing */
const TELL_MS = 50;
const CHECK_BATCHES = 32;       /* a check takes half a millisecond */
const YIELD_MS = 12;            /* the longest that a message waits, apart from the computation of a layer */

const asked = texts => encoded(`${texts.join('\0')}\0\0`);

/* To the event loop and back, without the 4 ms that browsers make of a nested setTimeout(0). */
const breathe = (() => {
  if (typeof setImmediate === 'function') return () => new Promise(resolve => setImmediate(resolve));
  const {port1, port2} = new MessageChannel();
  const waiting = [];
  port1.onmessage = () => waiting.shift()();
  return () => new Promise(resolve => { waiting.push(resolve); port2.postMessage(0); });
})();

/* Local time. */
const wallSeconds = () => Date.now() / 1000 - 60 * new Date().getTimezoneOffset();
/* A template's inputs besides messages, in the engine's form. */
const chatTexts = ({template, tools, documents, chatTemplateKwargs} = {}) =>
  encoded([template, tools, documents, chatTemplateKwargs].map(text => `${text ?? ''}\0`).join(''));

export class Conversation {
  #memory; #x; #transport; #variant; #warn;
  #batches = 0;
  #breathed = 0;
  #uses = [];                   // the sequence's adapters

  /** Of the module that runs in memory and has opened its model. */
  constructor(memory, transport, variant, warn) {
    this.#memory = memory;
    this.#x = memory.x;
    this.#transport = transport;
    this.#variant = variant;
    this.#warn = warn;
  }

  /* ---- text ---- */
  tokenize(text, {addSpecial = false, parseSpecial = false} = {}) {
    const memory = this.#memory, x = this.#x, bytes = encoded(text);
    const cap = bytes.length + 16;                      // a token has a byte or more, with few exceptions
    const flags = (addSpecial ? ADD_SPECIAL : 0) | (parseSpecial ? PARSE_SPECIAL : 0);
    return memory.room(4 * cap, ids => {
      memory.check(memory.with(bytes, at => x.encode(at, bytes.length, flags, ids, cap)));
      return memory.numbers(ids, x.count());
    });
  }
  detokenize(ids, {special = false} = {}) {
    const stream = new TextDecoder(), x = this.#x;
    const piece = id => {
      const at = x.token_piece(id, special ? 1 : 0);
      return this.#memory.bytes(at, x.count()).slice();
    };
    return ids.map(id => stream.decode(piece(id), {stream: true})).join('') + stream.decode();
  }
  render(messages, options) {
    return this.#chat(messages, options, 1,
      (at, n, given, now, out, cap) => this.#x.chat(at, n, given, now, out, 0, cap),
      (out, n) => this.#memory.text(out, n));
  }
  /** The tokens of a conversation. Control tokens in a message's content are treated as text. */
  tokenizeChat(messages, options) {
    return this.#chat(messages, options, 4,
      (at, n, given, now, ids, cap) => this.#x.chat(at, n, given, now, 0, ids, cap),
      (ids, n) => this.#memory.numbers(ids, n));
  }
  /* write() fills cap elements of `size` bytes; if they are too few, it runs again with the number
   * that it counted. */
  #chat(messages, options, size, write, read) {
    const memory = this.#memory, texts = encoded(messages);
    const tried = (at, given, cap) => memory.room(size * cap, out => {
      const status = write(at, texts.length, given, wallSeconds(), out, cap), count = this.#x.count();
      if (status && count >= cap) return {more: count + 1};
      memory.check(status);
      return {all: read(out, count)};
    });
    return memory.with(chatTexts(options), given => memory.with(texts, at => {
      for (let cap = texts.length + 1024; ;) {
        const {all, more} = tried(at, given, cap);
        if (!more) return all;
        cap = more;
      }
    }));
  }
  turnEnd(options) {
    const memory = this.#memory;
    return memory.with(chatTexts(options), given => memory.room(64, out => {
      memory.check(this.#x.chat_stop(given, wallSeconds(), out));
      return memory.string(out);
    }));
  }

  /* ---- turns ---- */
  /* An error in the caller's value is an argument error, whatever part of the engine finds it. */
  #written(option, status) {
    if (status !== OK && status !== E_MEMORY) {
      const text = this.#memory.string(this.#x.error());
      throw new QsfError('ARGUMENT', text.startsWith(`${option}:`) ? text : `${option}: ${text}`);
    }
    this.#memory.check(status);
  }
  #sampler({logitBias, bannedTexts, drySequenceBreakers, ...options}) {
    const memory = this.#memory, x = this.#x;
    const each = (name, list, set) => {
      for (const text of list) {
        const bytes = encoded(text);
        this.#written(name, memory.with(bytes, at => set(at, bytes.length)));
      }
    };
    memory.check(memory.with(asked(samplerTexts(options)), at => x.sampler_new(at)));
    for (const [token, bias] of logitBias) this.#written('logitBias', x.sampler_bias(token, bias));
    each('bannedTexts', bannedTexts, x.sampler_ban);
    each('drySequenceBreakers', drySequenceBreakers ? ['', ...drySequenceBreakers] : [], x.sampler_breaker);
  }
  /* The answer's constraints, and which of its parts are reported separately. */
  #shape({responseFormat, jsonBlanks, apart, ...options}) {
    if (!apart && !responseFormat) return;
    const memory = this.#memory, x = this.#x, {kind = 0, text, loose} = responseFormat || {};
    const bytes = encoded(text ?? ''), error = () => memory.string(x.error());
    const answer = (...shape) => memory.with(chatTexts(options), given => memory.named(options.toolChoice,
      choice => x.answer_new(given, wallSeconds(), choice, options.parallelToolCalls ? 1 : 0, options.idSeed,
        ...shape)));
    const tried = isLoose => memory.with(bytes, at => (apart ? answer : x.grammar_new)(kind,
      text === undefined ? 0 : at, bytes.length, jsonBlanks, isLoose));
    const ofTools = status => text === undefined || (status && error().startsWith('tools:'));
    let status = tried(0);
    if (status && loose && !ofTools(status)) {
      const why = error();
      status = tried(1);
      if (!status) this.#warn(`not kept of responseFormat: ${why}`);
    }
    this.#written(ofTools(status) ? 'tools' : 'responseFormat', status);
    const loosened = apart && memory.string(x.answer_loosened());
    if (loosened) this.#warn(`not kept of the tools' schemas: ${loosened}`);
  }
  #begin(ids, options) {
    const memory = this.#memory, x = this.#x, texts = options.stop.map(encoded);
    const lengths = Uint32Array.from(texts, text => text.length);
    const joined = Uint8Array.from(texts.flatMap(text => [...text]));
    this.#sampler(options);
    this.#shape(options);
    const begin = (at, textsAt, lengthsAt) => memory.with(asked(turnTexts(options)), askedAt =>
      x.turn_begin(at, ids.length, textsAt, lengthsAt, texts.length, askedAt));
    memory.check(memory.with(Int32Array.from(ids), at => memory.with(joined, textsAt =>
      memory.with(lengths, lengthsAt => begin(at, textsAt, lengthsAt)))), x.turn_error);
  }

  /* The JavaScript engine reoptimises code while it runs, and an earlier check of the sums does not
   * hold for the new code. */
  #stillWorks() {
    if (!this.#x.works())
      throw new QsfError('UNSUPPORTED',
        `${this.#variant}: relaxed SIMD gives wrong sums since this engine has ` +
        'optimised it; load with relaxed: false');
  }
  async #pause() {
    if (performance.now() - this.#breathed < YIELD_MS) return;
    await breathe();
    this.#breathed = performance.now();
  }
  /* One batch; other messages to the worker are handled meanwhile. */
  async #compute(signal, stepped, step = this.#x.turn_step, error = this.#x.turn_error) {
    if (this.#batches++ % CHECK_BATCHES === 0) this.#stillWorks();
    for (;;) {
      const missing = this.#transport.expecting();
      const result = step(), status = result & 255;
      if (status === OK) return;
      if (status !== PENDING) this.#memory.check(status, error);
      stepped?.();
      if (result & WAITING) await missing(signal.promise, YIELD_MS);
      await this.#pause();
      if (signal.aborted) throw signal.error;
    }
  }
  /** Waits for the low bits of a progressive file. */
  async refined(signal) {
    for (;;) {
      const missing = this.#transport.expecting(), status = this.#x.refine();
      if (status === OK) return;
      if (status !== PENDING) this.#memory.check(status);
      await missing(signal.promise, YIELD_MS);
      await this.#pause();
      if (signal.aborted) throw signal.error;
    }
  }
  /* Computes the part of the prompt that the sequence does not hold. */
  async #prompt(total, signal, progress) {
    const x = this.#x, layers = x.layer();              // no batch is under way
    let told = -Infinity;
    const tell = (done, layer) => {
      told = performance.now();
      progress({done, total, layer, layers});
    };
    for (let done = x.turn_done(); done < total && this.#next() === PENDING;) {
      const before = done;
      await this.#compute(signal, () => {
        if (performance.now() - told >= TELL_MS) tell(before, x.layer());
      });
      done = x.turn_done();
      tell(done, done === total ? layers : 0);          // the next batch begins
    }
  }
  /* The last piece's text. */
  #text() {
    const at = this.#x.turn_text(), text = this.#memory.text(at, this.#x.count());
    return this.#x.turn_cut() ? `${text}\ufffd` : text;
  }
  /* The last piece's parts; its calls are those it completed, after the first `whole` ones. */
  #parts(whole) {
    const x = this.#x, parts = {text: '', reasoning: '', calls: []};
    for (let type; (type = x.answer_next());) {
      const at = x.answer_text(), length = x.count();
      if (type === TEXT || type === CALL_CUT) parts.text += this.#memory.text(at, length);
      else if (type === REASONING) parts.reasoning += this.#memory.text(at, length);
      else if (type === CALL_END) parts.calls.push(this.#message().tool_calls[whole + parts.calls.length]);
    }
    return parts;
  }
  #message() {
    const at = this.#x.answer_json();
    if (!at) this.#memory.check(E_MEMORY);
    return JSON.parse(this.#memory.text(at, this.#x.count()));
  }
  /* The log probabilities of the last piece's token and of the most likely ones; undefined: not
   * requested. */
  #logprobs() {
    const x = this.#x, at = x.turn_logprobs(), n = x.count();
    if (!n) return undefined;
    const view = new DataView(this.#memory.bytes(at, 8 * n).slice().buffer);
    const [own, ...top] = Array.from({length: n}, (_, i) => {
      const id = view.getInt32(8 * i, true), text = x.token_piece(id, 1),
        bytes = [...this.#memory.bytes(text, x.count())];
      return {id, token: new TextDecoder().decode(Uint8Array.from(bytes)), bytes,
        logprob: view.getFloat32(8 * i + 4, true)};
    });
    return {...own, topLogprobs: top};
  }
  /* The status of the next piece; unless it is PENDING, the piece is complete. */
  #next() {
    const status = this.#x.turn_next();
    if (status !== PENDING) this.#memory.check(status);
    return status;
  }

  /**
   * Yields {id, text}, with options.logprobs also logprobs, with options.apart also reasoning and
   * calls, until a token or a stop string ends the answer; returns why, and (apart) the answer as a
   * message.
   */
  async * generate(ids, options, signal, progress) {
    const x = this.#x, {logprobs, apart} = options, calls = [];
    let all = '';
    try {
      this.adapt(options.uses);
      this.#begin(ids, options);
      await this.#prompt(ids.length, signal, progress);
      for (;;) {
        while (this.#next() === PENDING) await this.#compute(signal);
        const id = x.turn_token(), end = ENDS[x.turn_end()];
        const piece = {id: end ? undefined : id,
          ...(apart ? this.#parts(calls.length) : {text: this.#text()}),
          ...(logprobs && !end && {logprobs: this.#logprobs()})};
        calls.push(...piece.calls ?? []);
        if (apart) all += piece.text;
        if (!end || piece.text || piece.reasoning || piece.calls?.length) yield piece;
        if (end) {
          if (!apart) return {end};
          const message = this.#message();
          delete message.tool_calls;            // one may be unfinished: that is text
          if (all) message.content = all;
          return {end, message: calls.length ? {...message, tool_calls: calls} : message};
        }
        await this.#pause();
        if (signal.aborted) throw signal.error;
      }
    } finally {
      x.turn_cancel();          // the reader may have left at any point
    }
  }

  /** How many tokens the sequence holds. */
  get length() { return this.#x.length(); }

  /* ---- embeddings and ranks ---- */
  /* The numbers of an input: `size` floats. */
  async #numbers(ids, size, signal, ...how) {
    const memory = this.#memory, x = this.#x, bytes = 4 * (ids.length + size), at = x.alloc(bytes) >>> 0;
    if (!at) throw new QsfError('MEMORY', `out of memory: ${bytes} bytes`);
    const out = at + 4 * ids.length;
    try {
      memory.bytes(at, 4 * ids.length).set(new Uint8Array(Int32Array.from(ids).buffer));
      memory.check(x.embed_begin(at, ids.length, ...how, out));
      await this.#compute(signal, undefined, x.embed_step, x.error);
      return new Float32Array(memory.bytes(out, 4 * size).slice().buffer);
    } finally {
      x.embed_end();            // no read writes there any more
      x.free(at, bytes);
    }
  }
  /** The embeddings of inputs, each a string or tokens. */
  async embed(texts, {pooling, normalize, uses}, signal) {
    this.adapt(uses);
    const which = POOLINGS.indexOf(pooling), width = this.#x.embed_width(which), all = [];
    if (pooling === 'rank' && !width)
      throw new QsfError('UNSUPPORTED',
        'the file has no classifier (cls.output.weight): its texts have no rank');
    for (const text of texts) {
      const ids = typeof text === 'string' ? this.tokenize(text, {addSpecial: true, parseSpecial: true})
        : text;
      if (signal.aborted) throw signal.error;
      all.push(await this.#numbers(ids, width * (pooling === 'none' ? ids.length : 1), signal,
        which, normalize ? 0 : 1, 0));
    }
    return all;
  }
  #pair(query, document) {
    const memory = this.#memory, x = this.#x;
    let cap = query.length + document.length + 1024;    // a token has a byte or more, except the template's
    for (;;) {
      const ids = memory.room(4 * cap, at => memory.with(query, q => memory.with(document, d => {
        const status = x.rerank_encode(q, query.length, d, document.length, at, cap);
        if (status !== OK && x.count() <= cap) memory.check(status);
        return status === OK ? memory.numbers(at, x.count()) : undefined;
      })));
      if (ids) return ids;
      cap = x.count();
    }
  }
  /** The scores of documents. */
  async rerank(query, documents, {uses}, signal) {
    this.adapt(uses);
    const scores = [];
    for (const document of documents) {
      const ids = this.#pair(encoded(query), encoded(document));
      if (signal.aborted) throw signal.error;
      scores.push((await this.#numbers(ids, 1, signal, 0, 0, 1))[0]);
    }
    return scores;
  }

  /* ---- adapters ---- */
  /** Reads one from a file's bytes; returns its place, and its description. */
  loadAdapter(name, bytes) {
    const memory = this.#memory, x = this.#x;
    return memory.named(name, at => {
      this.#transport.loaded(bytes, () => memory.check(x.adapter_load(at, bytes.byteLength)));
      const place = x.count(), number = which => x.adapter_number(place, which);
      return {place, info: {name: memory.string(x.adapter_name(place)), matrices: number(0), rank: number(1),
        alpha: number(2), bytes: number(3)}};
    });
  }
  freeAdapter(place) {
    if (this.#uses.some(use => use.place === place)) this.adapt([]);    // its memory is freed at once
    this.#x.adapter_free(place);
  }
  /** Sets the adapters of what is computed next: [{place, scale}]. */
  adapt(uses) {
    if (!uses.length && !this.#uses.length) return;
    const words = new DataView(new ArrayBuffer(8 * uses.length));
    uses.forEach(({place, scale}, i) => {
      words.setUint32(8 * i, place, true);
      words.setFloat32(8 * i + 4, scale, true);
    });
    this.#memory.check(this.#memory.with(words, at => this.#x.adapters_use(at, uses.length)));
    this.#uses = uses;
  }

  /* ---- sessions ---- */
  /** The sequence's tokens, with their keys and values, as bytes. */
  saveSession() {
    this.#x.turn_cancel();      // takes guesses back
    return this.#transport.saved(this.#x.session_bytes(), () => this.#memory.check(this.#x.session_save()));
  }
  /** Restores a saved sequence; if the bytes are invalid, the sequence stays unchanged. Returns its
   * number of tokens. */
  loadSession(bytes, {uses}) {
    this.adapt(uses);
    this.#transport.loaded(bytes, () => this.#memory.check(this.#x.session_load(bytes.byteLength)));
    return this.#x.count();
  }
}
