/* A module and its memory: the other side of platform/wasm/.  Runs in the engine's worker.
 * SPDX-License-Identifier: MIT */
import {E_BUDGET, E_CANCELLED, E_FULL, E_IO, OK, PENDING, QsfError, STATUS} from './errors.js';
import {WORDS} from './options.js';

/* The orders of platform/wasm/engine.c. */
const TEXTS = ['architecture', 'name', 'format', 'templateSource', 'chatTemplate', 'isa', 'version'];
const MODEL = ['layers', 'embedding', 'heads', 'kvHeads', 'headDim', 'feedForward', 'vocabulary', 'trainedContext', 'parameters', 'weightBytes', 'bos', 'eos'];
const PLAN = ['planBytes', 'contextLength', 'resident', 'slots'];
const STATS = ['threads', 'promptTokens', 'generatedTokens', 'promptNs', 'generatedNs', 'waitNs', 'prepareNs', 'matmulNs', 'attentionNs', 'otherNs', 'bytesRead',
  'readNs', 'checkNs', 'decompressNs', 'headNs', 'overlap', 'layersLeft'];
const NUMBERS = [...MODEL, ...PLAN, ...STATS, 'batch', 'leastBytes', 'guesses'];
const OPTIONS = ['memory', 'contextLength', 'batch', 'threads', 'kv', 'kvWindow', 'kvSinks', 'kvHeavy', 'head', 'quality', 'earlyExit', 'check', 'kvMayDrop'];

const PAGE = 65536, FIRST_PAGES = 64;
const WAITING = 256;            /* step(): bytes are missing */
const ADD_SPECIAL = 1, PARSE_SPECIAL = 2;
const TELL_MS = 50;
const CHECK_BATCHES = 32;       /* a check takes half a millisecond */
const YIELD_MS = 12;            /* the longest that a message to the worker waits, but for one layer's computing */

/* (v128.const, three times; i32x4.relaxed_dot_i8x16_i7x16_add_s; drop) */
const RELAXED = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 62, 1, 60, 0,
  ...[1, 2, 3].flatMap(() => [253, 12, ...new Array(16).fill(0)]), 253, 147, 2, 26, 11);
export const hasRelaxed = () => WebAssembly.validate(RELAXED);

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/* To the event loop and back, without the 4 ms that browsers make of a nested setTimeout(0). */
const breathe = (() => {
  if (typeof setImmediate === 'function') return () => new Promise(resolve => setImmediate(resolve));
  const {port1, port2} = new MessageChannel();
  const waiting = [];
  port1.onmessage = () => waiting.shift()();
  return () => new Promise(resolve => { waiting.push(resolve); port2.postMessage(0); });
})();

export class Engine {
  #source; #memory; #x; #threads = [];
  #opening = false;
  #held = [];                   // parts of the file that came before the model was open
  #missing;                     // what opening stopped for
  #reads = new Map();           // place of the state -> what the source calls the read
  #arrival; #arrived;           // a promise for the next answered read
  #failure;                     // why the last read failed
  #tokens = [];                 // what the sequence holds
  #samplingMs = 0;
  #save; #session;              // where a session goes to; the bytes that one comes from

  #variants; #host;             // those that are left to try; create()'s functions and numbers for them
  #batches = 0;

  /** Takes the first variant that starts; open() takes the next one where its sums are wrong.  `compile(variant)` promises a
   * module, `startThread(init)` a running worker with terminate().  The source stays the caller's. */
  static async create({source, relaxed, shared, ...host}) {
    const variants = [];
    if (shared && host.threads > 1) variants.push(...(relaxed ? ['relaxed-threads'] : []), 'simd-threads');
    variants.push(...(relaxed ? ['relaxed'] : []), 'simd');
    const engine = new Engine(source, variants, host);
    await engine.#next();
    return engine;
  }

  constructor(source, variants, host) {
    this.#source = source;
    this.#variants = variants;
    this.#host = host;
    this.#expect();
  }

  async #next() {
    const {threads, maximum = 65536, compile, startThread, warn} = this.#host;
    let last;
    while (this.#variants.length) {
      const variant = this.variant = this.#variants.shift();
      try {
        return await this.#start(await compile(variant), variant.endsWith('threads') ? threads : 1, maximum, startThread);
      } catch (error) {
        this.terminate();
        last = error;
        warn(`${variant}: ${error.message}`);
      }
    }
    if (last.code === 'HTTP' || last.code === 'IO') throw last;         // no module came
    throw new QsfError('UNSUPPORTED', `this engine cannot run WebAssembly with SIMD: ${last.message}`, {cause: last});
  }

  async #start(module, threads, maximum, startThread) {
    const shared = threads > 1;
    this.#memory = new WebAssembly.Memory({initial: FIRST_PAGES, maximum, shared});
    const imports = {
      env: {memory: this.#memory},
      qsf: {
        now: () => performance.now(),
        length: () => this.#source.length,
        read: (at, dst, length, state) => this.#read(at, dst >>> 0, length >>> 0, state >>> 0),
        cancel: state => this.#cancel(state >>> 0),
        save: (at, length) => this.#save(this.#bytes(at, length >>> 0)),
        load: (at, dst, length) => this.#bytes(dst, length >>> 0).set(this.#session.subarray(at, at + (length >>> 0))),
      },
    };
    this.#x = (await WebAssembly.instantiate(module, imports)).exports;
    this.#x.start();
    if (!shared) return;
    const n = this.#x.threads(threads - 1);
    const started = [];
    for (let i = 0; i < n; i++) started.push(startThread({module, memory: this.#memory, index: i, stack: this.#x.thread_stack(i) >>> 0}));
    for (const result of await Promise.allSettled(started)) {
      if (result.status === 'rejected') throw result.reason;
      this.#threads.push(result.value);
    }
  }

  /** Ends reads; the memory goes with the last reference. */
  end() { for (const state of [...this.#reads.keys()]) this.#cancel(state); }
  /** Ends the threads too, where their worker goes on. */
  terminate() {
    this.end();
    for (const thread of this.#threads) thread.terminate();
    this.#threads = [];
  }
  get isShared() { return this.variant.endsWith('threads'); }

  /* ---- memory ---- */
  #bytes(at, length) { return new Uint8Array(this.#memory.buffer, at >>> 0, length); }
  #string(at) {
    if (!at) return undefined;
    const all = new Uint8Array(this.#memory.buffer);
    at >>>= 0;
    return decoder.decode(all.slice(at, all.indexOf(0, at)));       // a copy: what is shared cannot be decoded
  }
  /* Calls fn with the place of a copy of bytes. */
  #with(bytes, fn) {
    const size = bytes.byteLength || 1, at = this.#alloc(size);
    try {
      this.#bytes(at, bytes.byteLength).set(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
      return fn(at);
    } finally {
      this.#x.free(at, size);
    }
  }
  #alloc(size) {
    const at = this.#x.alloc(size) >>> 0;
    if (!at) throw new QsfError('MEMORY', `out of memory: ${size} bytes`);
    return at;
  }
  get memoryBytes() { return this.#memory.buffer.byteLength; }

  /* A status as an exception. */
  #check(status, text = this.#x.error) {
    if (status === OK) return;
    const cause = status === E_IO ? this.#failure : undefined;          // other calls may fail while a read has
    if (cause) this.#failure = undefined;
    if (cause instanceof QsfError) throw cause;
    throw new QsfError(STATUS[status] ?? 'UNKNOWN', this.#string(text()) || STATUS[status], cause && {cause});
  }

  /* ---- reads ---- */
  #expect() { this.#arrival = new Promise(resolve => { this.#arrived = resolve; }); }

  #read(at, dst, length, state) {
    const source = this.#source;
    try {
      if (source.readSync) {
        source.readSync(at, this.#bytes(dst, length));
        return OK;
      }
      if (this.#opening) {
        const part = this.#held.find(h => h.at <= at && at + length <= h.at + h.bytes.length);
        if (!part) {
          this.#missing = {at, length};
          return PENDING;
        }
        this.#bytes(dst, length).set(part.bytes.subarray(at - part.at, at - part.at + length));
        return OK;
      }
    } catch (error) {
      this.#failure = error;
      return E_IO;
    }
    const settle = (error, bytes) => {
      this.#reads.delete(state);
      if (error) this.#failure = error;
      if (bytes) this.#bytes(dst, length).set(bytes);
      if (error || bytes) Atomics.store(new Int32Array(this.#memory.buffer), state >>> 2, error ? E_IO : OK);
      this.#arrived();
      this.#expect();
    };
    this.#reads.set(state, source.start(at, length, dst, state, settle));
    return PENDING;
  }
  #cancel(state) {
    this.#source.cancel(this.#reads.get(state));
    this.#reads.delete(state);
  }

  /* ---- life ---- */
  /** Opens the model, in the first variant that multiplies its matrices as it should. */
  async open() {
    this.#opening = true;
    for (await this.#open(); !this.#x.works(); await this.#open()) {
      this.#host.warn(`${this.variant}: relaxed SIMD gives wrong sums in this engine`);
      this.terminate();
      await this.#next();
    }
    this.#opening = false;
    this.#held = [];
  }
  /* A source that cannot answer at once makes opening stop; it begins again when the bytes are here. */
  async #open() {
    const {name} = this.#source;
    for (;;) {
      this.#missing = undefined;
      const status = this.#with(encoder.encode(name + '\0'), at => this.#x.model_open(at, 0));
      if (!this.#missing || status !== E_CANCELLED) return this.#check(status);
      const {at, length} = this.#missing;
      this.#held.push({at, bytes: await this.#source.read(at, length)});
    }
  }
  /* The engine optimises its code while that runs, and what it was once told of the sums is no promise for the new code. */
  #stillWorks() {
    if (!this.#x.works())
      throw new QsfError('UNSUPPORTED', `${this.variant}: relaxed SIMD gives wrong sums since this engine has optimised it; load with relaxed: false`);
  }

  /** Layers will stream: the reader writes them to shared memory itself.  Not for what is read once, since browsers count the memory once more for it. */
  share() { if (this.isShared) this.#source.attach?.(this.#memory); }

  context(options) { this.#check(this.#context(options, 0)); }
  /* options: all of them, as options.js has checked them. */
  #context(options, planOnly) {
    const numbers = {...options, memory: Math.ceil(options.memory * 1e6)};        // a budget that is too small is no 0, which is none
    for (const [name, words] of Object.entries(WORDS)) numbers[name] = words.indexOf(options[name]);
    return this.#with(Float64Array.from(OPTIONS, name => numbers[name]), at => this.#x.context_new(at, planOnly));
  }
  /** What the last context() or estimate() gave up of what it was asked for, and more that the user should know of. */
  get warnings() { return this.#string(this.#x.warnings()).split('\n').slice(0, -1); }

  /** What context(options) would take; where that is more than options.memory, what it would take at the least. */
  estimate(options) {
    const status = this.#context(options, 1), fits = status !== E_BUDGET;
    if (fits) this.#check(status);
    else this.#check(this.#context({...options, memory: this.#numbers(['leastBytes']).leastBytes / 1e6}, 1));
    const {planBytes: memoryBytes, ...info} = this.info();
    const names = ['format', 'architecture', 'name', 'parameters', 'fileBytes', 'weightBytes', 'vocabulary', 'layers', 'trainedContext', 'contextLength',
      'resident', 'slots', 'plan', 'reductions'];
    return {...Object.fromEntries(names.map(name => [name, info[name]])), fits, memoryBytes, ...this.#numbers(['leastBytes', 'batch'])};
  }

  #numbers(names) { return Object.fromEntries(names.map(name => [name, this.#x.number(NUMBERS.indexOf(name))])); }

  info() {
    const texts = Object.fromEntries(TEXTS.map((name, i) => [name, this.#string(this.#x.text(i))]));
    const plan = [];
    for (let i = 0, bytes; (bytes = this.#x.plan_bytes(i)) >= 0; i++) plan.push({name: this.#string(this.#x.plan_name(i)), bytes});
    const reductions = [];
    for (let i = 0, text; (text = this.#string(this.#x.reduction(i))) !== undefined; i++) reductions.push(text);
    const numbers = this.#numbers([...MODEL, ...PLAN]);
    return {...texts, ...numbers, resident: numbers.resident === 1, plan, reductions, fileBytes: this.#source.length,
      variant: this.variant, threads: 1 + this.#threads.length};
  }
  /** Whether parts of the file are read for every pass: layers, or the head and the embedding. */
  get readsAgain() {
    const {resident, plan} = this.info();
    return !resident || plan.some(({name}) => name.startsWith('window'));
  }
  stats() {
    return {...this.#numbers(STATS), samplingNs: Math.round(this.#samplingMs * 1e6), cachedTokens: this.#tokens.length, memoryBytes: this.memoryBytes};
  }

  /* ---- text ---- */
  tokenize(text, {addSpecial = false, parseSpecial = false} = {}) {
    const bytes = encoder.encode(text), cap = bytes.length + 16, ids = this.#alloc(4 * cap);    // a token is a byte or more, but for a few
    try {
      this.#check(this.#with(bytes, at => this.#x.encode(at, bytes.length, (addSpecial ? ADD_SPECIAL : 0) | (parseSpecial ? PARSE_SPECIAL : 0), ids, cap)));
      return [...new Int32Array(this.#memory.buffer, ids, this.#x.count())];
    } finally {
      this.#x.free(ids, 4 * cap);
    }
  }
  /** The bytes of one token, a copy. */
  piece(id, special = false) {
    const at = this.#x.token_piece(id, special ? 1 : 0);
    return this.#bytes(at, this.#x.count()).slice();
  }
  detokenize(ids, {special = false} = {}) {
    const stream = new TextDecoder();
    return ids.map(id => stream.decode(this.piece(id, special), {stream: true})).join('') + stream.decode();
  }
  render(messages, template) {
    return this.#chat(messages, template, 1, (name, at, n, out, cap) => this.#x.chat(name, at, n, out, 0, cap),
      (out, n) => decoder.decode(this.#bytes(out, n).slice()));
  }
  /** The tokens of a conversation: what looks like a control token in a message's content is text. */
  tokenizeChat(messages, template) {
    return this.#chat(messages, template, 4, (name, at, n, ids, cap) => this.#x.chat(name, at, n, 0, ids, cap),
      (ids, n) => [...new Int32Array(this.#memory.buffer, ids, n)]);
  }
  /* write() fills cap elements of so many bytes; where they are too few it runs again with the number it counted. */
  #chat(messages, template, size, write, read) {
    const texts = encoder.encode(messages.map(m => `${m.role}\0${m.content}\0`).join(''));
    return this.#named(template, name => this.#with(texts, at => {
      for (let cap = texts.length + 64 * messages.length + 256; ; cap = this.#x.count() + 1) {
        const out = this.#alloc(size * cap);
        try {
          const status = write(name, at, messages.length, out, cap);
          if (status && this.#x.count() >= cap) continue;
          this.#check(status);
          return read(out, this.#x.count());
        } finally {
          this.#x.free(out, size * cap);
        }
      }
    }));
  }
  turnEnd(template) { return this.#named(template, name => this.#string(this.#x.chat_stop(name))); }
  #named(name, fn) { return name ? this.#with(encoder.encode(name + '\0'), fn) : fn(0); }

  /* ---- computing ---- */
  /* One batch, whose last `logits` rows get logits; other messages of the worker are heard meanwhile.  Not stepping on is all that cancelling takes. */
  async #compute(ids, logits, signal, stepped) {
    if (this.#batches++ % CHECK_BATCHES === 0) this.#stillWorks();
    const rows = this.#alloc(ids.length * this.#x.row_bytes());
    try {
      this.#check(this.#with(Int32Array.from(ids), at => this.#x.begin(at, ids.length, logits, rows)), this.#x.context_error);
    } finally {
      this.#x.free(rows, ids.length * this.#x.row_bytes());
    }
    for (;;) {
      const arrival = this.#arrival, {arrivals} = this.#source;
      const result = this.#x.step(1), status = result & 255;
      if (status === OK) break;
      if (status !== PENDING) this.#check(status, this.#x.context_error);
      stepped?.();
      if (result & WAITING && arrivals === undefined) await Promise.race([arrival, signal.promise]);
      else if (result & WAITING) this.#source.sleep(arrivals, YIELD_MS);
      await this.#pause();
      if (signal.aborted) throw signal.error;
    }
    this.#tokens.push(...ids);
  }
  #breathed = 0;
  async #pause() {
    if (performance.now() - this.#breathed < YIELD_MS) return;
    await breathe();
    this.#breathed = performance.now();
  }

  /** Makes the sequence `ids`, keeping what it begins with already, and computes logits of the last. */
  async #prompt(ids, signal, progress) {
    let keep = 0;
    while (keep < this.#tokens.length && keep < ids.length - 1 && this.#tokens[keep] === ids[keep]) keep++;
    if (this.#x.truncate(keep) === OK) this.#tokens.length = keep;
    else this.#cut(keep = 0);   // a window has dropped what is seen from there
    const {batch: most, layers} = this.#numbers(['batch', 'layers']);
    if (ids.length - keep > this.#x.room())
      throw new QsfError('FULL', `the prompt has ${ids.length} tokens, the context ${this.#numbers(PLAN).contextLength} positions`);
    let told = -Infinity;
    const tell = (done, layer) => {
      told = performance.now();
      progress({done, total: ids.length, layer, layers});
    };
    for (let at = keep; at < ids.length; at += most) {
      const part = ids.slice(at, at + most);
      await this.#compute(part, at + part.length === ids.length ? 1 : 0, signal, () => { if (performance.now() - told >= TELL_MS) tell(at, this.#x.layer()); });
      tell(at + part.length, at + part.length === ids.length ? layers : 0);       // the next batch begins
    }
  }
  #cut(n) {
    this.#check(this.#x.truncate(n), this.#x.context_error);
    this.#tokens.length = n;
  }

  /** What the sequence holds, with its keys and values, as bytes. */
  saveSession() {
    this.#forgetGuesses();
    const session = new Uint8Array(this.#x.session_bytes());
    let length = 0;
    this.#save = bytes => {
      session.set(bytes, length);
      length += bytes.length;
    };
    try {
      this.#check(this.#with(Int32Array.from(this.#tokens), ids => this.#x.session_save(ids, this.#tokens.length)));
    } finally {
      this.#save = undefined;
    }
    return session;
  }
  /** Makes the sequence what was saved; anything wrong with the bytes leaves it as it is.  Returns how many tokens that are. */
  loadSession(bytes) {
    const cap = this.#numbers(['contextLength']).contextLength, ids = this.#alloc(4 * cap);
    try {
      this.#session = bytes;
      this.#check(this.#x.session_load(bytes.byteLength, ids, cap));
      this.#tokens = [...new Int32Array(this.#memory.buffer, ids, this.#x.count())];
      this.#guess = [];
      this.#right = 0;
      return this.#tokens.length;
    } finally {
      this.#session = undefined;
      this.#x.free(ids, 4 * cap);
    }
  }

  /* ---- guesses: where layers stream, a pass checks several tokens that stood behind the same words before ---- */
  #guess = [];                  // rows of the last pass behind the picked token
  #right = 0;                   // how many of them, from the first on, were picked
  /* Brings the logits behind id, which was picked; which row of the last pass has them. */
  async #behind(id, left, signal) {
    if (this.#right < this.#guess.length && this.#guess[this.#right] === id) return ++this.#right;
    this.#forgetGuesses();
    const {guesses, contextLength} = this.#numbers(['guesses', 'contextLength']), guess = this.#lookup(id, Math.min(guesses, left, contextLength - this.#tokens.length - 1));
    await this.#compute([id, ...guess], 1 + guess.length, signal);
    this.#guess = guess;
    return 0;
  }
  #lookup(id, most) {
    if (most <= 0) return [];
    const out = this.#alloc(4 * most), ids = Int32Array.from([...this.#tokens, id]);
    try {
      return [...new Int32Array(this.#memory.buffer, out, this.#with(ids, at => this.#x.draft(at, ids.length, out, most)))];
    } finally {
      this.#x.free(out, 4 * most);
    }
  }
  #forgetGuesses() {
    const wrong = this.#guess.length - this.#right;
    this.#guess = [];
    this.#right = 0;
    if (wrong) this.#cut(this.#tokens.length - wrong);
  }

  /** Yields {id, text} until a token or a text ends the answer; returns why. */
  async * generate(ids, {maxTokens, stop, ignoreEnd, ...s}, signal, progress) {
    if (!ids.length) throw new QsfError('ARGUMENT', 'the prompt is empty and the model has no token that begins a text');
    this.#check(this.#x.sampler_new(s.seed, s.temperature, s.topK, s.topP, s.minP, s.repeatPenalty, s.frequencyPenalty, s.presencePenalty, s.repeatLastN));
    for (const id of ids) this.#x.accept(id);
    this.#forgetGuesses();      // an answer may have been left at any place
    await this.#prompt(ids, signal, progress);
    const stream = new TextDecoder();
    let held = '', row = 0;     // held could be the beginning of a stop text
    try {
      for (let n = 0; ; n++) {
        if (n === maxTokens) return yield * this.#rest(held + stream.decode(), 'length');
        const began = performance.now(), id = this.#x.pick(row);
        this.#samplingMs += performance.now() - began;
        if (!ignoreEnd && this.#x.token_is_end(id)) return yield * this.#rest(held + stream.decode(), 'end');
        this.#x.accept(id);
        held += stream.decode(this.piece(id), {stream: true});
        const {safe, found} = stopPlace(held, stop);
        yield {id, text: held.slice(0, safe)};
        if (found) return 'stop';
        held = held.slice(safe);
        if (n + 1 === maxTokens) continue;      // nobody will ask for its logits
        try {
          row = await this.#behind(id, maxTokens < 0 ? Infinity : maxTokens - n - 2, signal);
        } catch (error) {
          if (error.code !== STATUS[E_FULL]) throw error;
          return yield * this.#rest(held + stream.decode(), 'full');
        }
        await this.#pause();
        if (signal.aborted) throw signal.error;
      }
    } finally {
      this.#forgetGuesses();
    }
  }
  async * #rest(text, reason) {
    if (text) yield {id: undefined, text};
    return reason;
  }
}

/** How much of text may be shown: up to the first stop text in it, or to what could become one. */
export function stopPlace(text, stops) {
  let safe = text.length, found = false;
  for (const stop of stops) {
    if (!stop) continue;
    const at = text.indexOf(stop);
    if (at >= 0) {
      if (!found || at < safe) safe = at;
      found = true;
      continue;
    }
    if (found) continue;
    for (let n = Math.min(stop.length - 1, text.length); n > 0; n--)
      if (text.endsWith(stop.slice(0, n))) {
        safe = Math.min(safe, text.length - n);
        break;
      }
  }
  return {safe, found};
}

/** What a thread of the engine runs: its instance waits for work and never returns. */
export async function runThread({module, memory, index, stack}, ready) {
  const stranger = () => { throw new Error('only the engine reads'); };
  const {exports} = await WebAssembly.instantiate(module, {
    env: {memory}, qsf: {now: () => performance.now(), length: stranger, read: stranger, cancel: stranger, save: stranger, load: stranger},
  });
  exports.__stack_pointer.value = stack;
  ready();
  try {
    exports.thread_main(index);
  } catch (error) {
    exports.thread_failed();            // the engine waits for this thread: nobody else could tell it
    throw error;
  }
}
