/* A model as its user sees it; the engine is in a worker.
 * SPDX-License-Identifier: MIT */
import {QsfError, unpack} from './errors.js';
import {checked} from './options.js';

const LEAVE_MS = 2000;

/* Messages of a worker, matched to who waits for them. */
class Port {
  #worker; #calls = new Map(); #turns = new Map(); #next = 1; #dead; #ended; #gone;
  onProgress; onWarning;

  /** worker: post(message), onMessage(fn), onFailure(fn), terminate() */
  constructor(worker) {
    this.#worker = worker;
    worker.onMessage(m => this.#take(m));
    worker.onFailure(error => this.#fail(error, 0));
  }
  #fail(error, patience) { return this.close(new QsfError('WORKER', `the engine's worker ended: ${error.message}`, {cause: error}), patience); }
  #take(m) {
    if (m.dead) return this.#fail(unpack(m.dead));
    if (m.turn !== undefined) return this.#turns.get(m.turn)?.(m);
    if (m.progress) return this.onProgress?.(m.progress);
    if (m.warning) return this.onWarning?.(m.warning);
    if (m.ended) return this.#ended?.();
    const call = this.#calls.get(m.id);
    this.#calls.delete(m.id);
    if (m.error) call?.reject(unpack(m.error));
    else call?.resolve(m.value);
  }
  call(op, message) {
    if (this.#dead) return Promise.reject(this.#dead);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, {resolve, reject});
      this.#worker.post({...message, id, op});
    });
  }
  send(message) { if (!this.#dead) this.#worker.post(message); }
  /** Returns the turn's number; listen hears its messages until forget(number). */
  turn(listen) {
    if (this.#dead) throw this.#dead;
    const number = this.#next++;
    this.#turns.set(number, listen);
    return number;
  }
  forget(number) { this.#turns.delete(number); }
  /** Everybody who waits hears error, and the worker is gone when the promise resolves. */
  close(error, patience = LEAVE_MS) {
    return this.#gone ??= this.#leave(error, patience);
  }
  async #leave(error, patience) {
    this.#dead = error;
    for (const {reject} of this.#calls.values()) reject(error);
    for (const listen of this.#turns.values()) listen({failure: error});
    this.#calls.clear();
    this.#turns.clear();
    /* It closes its files and ends its own workers first, unless it cannot. */
    let timer;
    const ended = new Promise(resolve => {
      this.#ended = resolve;
      timer = setTimeout(resolve, patience);
    });
    this.#worker.post({op: 'end'});
    await ended;
    clearTimeout(timer);
    await this.#worker.terminate();
  }
}

const SAMPLING = {seed: 0, temperature: 0.7, topK: 40, topP: 0.9, minP: 0, repeatPenalty: 1, frequencyPenalty: 0, presencePenalty: 0, repeatLastN: 64};

export class Model {
  #port; #info; #onProgress;

  constructor(port, info, onProgress) {
    this.#port = port;
    this.#info = Object.freeze(info);
    const warn = text => console.warn(`qsf: ${text}`);
    if (info.warnings.length) warn(info.warnings.join('; '));
    port.onWarning = text => {
      info.warnings.push(text);
      warn(text);
    };
    this.#onProgress = onProgress;
  }

  get info() { return this.#info; }

  /** @type {import('./index.d.ts').Model['generate']} */
  generate(prompt, options) { return this.#turn(typeof prompt === 'string' ? {prompt} : {prompt: Array.from(prompt)}, options); }
  /** @type {import('./index.d.ts').Model['chat']} */
  chat(messages, options) { return this.#turn({messages}, options); }

  async * #turn(what, {maxTokens = 256, stop = [], ignoreEnd = false, template, signal, onToken, ...rest} = {}) {
    signal?.throwIfAborted();
    const sampling = {...SAMPLING};
    for (const [name, value] of Object.entries(rest)) {
      if (!(name in SAMPLING)) throw new QsfError('ARGUMENT', `no option is called ${name}`);
      if (value !== undefined) sampling[name] = value;
    }
    if (!sampling.seed) sampling.seed = 1 + Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
    const options = {maxTokens: maxTokens === Infinity ? -1 : maxTokens, stop: typeof stop === 'string' ? [stop] : [...stop], ignoreEnd, template, sampling};

    const queue = [];
    let wake;
    const hear = m => { queue.push(m); wake?.(); };
    const turn = this.#port.turn(hear);
    const abort = () => hear({failure: signal.reason});
    signal?.addEventListener('abort', abort, {once: true});
    try {
      this.#port.send({op: 'generate', turn, ...what, options});
      for (;;) {
        while (!queue.length) await new Promise(resolve => { wake = resolve; });
        const m = queue.shift();
        signal?.throwIfAborted();
        if ('failure' in m) throw m.failure;
        if (m.error) throw unpack(m.error);
        if (m.progress) this.#onProgress?.(m.progress);
        else if (m.done !== undefined) return m.done;
        else {
          this.#port.send({op: 'more', turn, n: 1});
          if (m.id !== undefined) onToken?.(m.id);
          if (m.text) yield m.text;
        }
      }
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#port.forget(turn);
      this.#port.send({op: 'abort', turn});       // does nothing where the turn has ended
    }
  }

  tokenize(text, options) { return this.#port.call('tokenize', {text, options}); }
  detokenize(ids, options) { return this.#port.call('detokenize', {ids: Array.from(ids), options}); }
  render(messages, options) { return this.#port.call('render', {messages, options}); }
  stats() { return this.#port.call('stats'); }
  saveSession() { return this.#port.call('saveSession'); }
  async loadSession(from) {
    if (!ArrayBuffer.isView(from) && !(from instanceof ArrayBuffer)) throw new QsfError('ARGUMENT', 'a session is loaded from a buffer');
    const bytes = ArrayBuffer.isView(from) ? new Uint8Array(from.buffer, from.byteOffset, from.byteLength) : new Uint8Array(from);
    return this.#port.call('loadSession', {bytes: bytes.slice()});      // a message would carry all of a larger buffer
  }

  async dispose() { await this.#port.close(new QsfError('DISPOSED', 'the model has been disposed of')); }
  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() { await this.dispose(); }
}

/** startWorker() gives what Port takes; from: {path}, {url}, {blob} or {bytes}. */
export async function loadIn(startWorker, from, {onProgress, ...options} = {}) {
  return open(startWorker, from, {...options, onProgress}, (port, info) => new Model(port, info, onProgress));
}

/** The same for what is to be known before loading. */
export async function estimateIn(startWorker, from, options) {
  return open(startWorker, from, options, async (port, estimate) => {
    await port.close(new QsfError('DISPOSED', 'the estimate is made'));
    return Object.freeze(estimate);
  }, true);
}

async function open(startWorker, from, {signal, onProgress, ...rest} = {}, use, estimate = false) {
  signal?.throwIfAborted();
  const options = {...checked(rest), estimate};
  const port = new Port(await startWorker());
  const abort = () => port.close(signal.reason);
  signal?.addEventListener('abort', abort, {once: true});
  port.onProgress = onProgress;
  try {
    signal?.throwIfAborted();   // the port did not listen yet
    return await use(port, await port.call('open', {from, options}));
  } catch (error) {
    await port.close(error);
    throw error;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}
