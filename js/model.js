/* A model: the user's side; the engine is in a worker.
 * SPDX-License-Identifier: MIT */
import {Adapter, numbered} from './adapter.js';
import {Tally, thenable} from './answer.js';
import {Conversation} from './conversations.js';
import {QsfError, unpack} from './errors.js';
import {checked, checkedBytes, checkedDocuments, checkedIds, checkedInputs, checkedMessages, checkedResult,
  checkedText} from './options.js';
import {withRemedies} from './remedies.js';

const LEAVE_MS = 2000;
/* parts of an answer for one message to the worker, which may be 32 ahead: serve.js */
const ACKNOWLEDGED = 8;

/* Messages of a worker, matched to the calls that wait for them. */
class Port {
  #worker; #calls = new Map(); #turns = new Map(); #next = 1; #dead; #ended; #patience; #gone;
  onProgress; onWarning;

  /** worker: post(message), onMessage(fn), onFailure(fn), terminate() */
  constructor(worker) {
    this.#worker = worker;
    worker.onMessage(m => this.#take(m));
    worker.onFailure(error => this.#fail(error, 0));
  }
  #fail(error, patience) {
    return this.close(new QsfError('WORKER', `the engine's worker ended: ${error.message}`, {cause: error}),
      patience);
  }
  #take(m) {
    if (m.dead) return this.#fail(unpack(m.dead));
    if (m.turn !== undefined) return this.#turns.get(m.turn)?.(m);
    if (m.progress) return this.onProgress?.(m.progress);
    if (m.warning) return this.onWarning?.(m.warning);
    if (m.ending) return this.#patience?.(m.ending);
    if (m.ended) return this.#ended?.();
    const call = this.#calls.get(m.id);
    this.#calls.delete(m.id);
    if (m.error) call?.reject(unpack(m.error));
    else call?.resolve(m.value);
  }
  async call(op, message, signal) {
    if (this.#dead) throw this.#dead.error;
    const id = this.#next++;
    let abort;
    try {
      return await new Promise((resolve, reject) => {
        abort = () => {
          this.#calls.delete(id);
          this.send({op: 'abort', turn: id});
          reject(signal.reason);
        };
        signal?.addEventListener('abort', abort, {once: true});
        this.#calls.set(id, {resolve, reject});
        this.#worker.post({...message, id, op}, message?.from?.ports ?? []);
      });
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }
  send(message) { if (!this.#dead) this.#worker.post(message); }
  /** Returns the turn's number; listen gets its messages until forget(number). */
  turn(listen) {
    if (this.#dead) throw this.#dead.error;
    const number = this.#next++;
    this.#turns.set(number, listen);
    return number;
  }
  forget(number) { this.#turns.delete(number); }
  /** Resolves like promise, unless the port is closed before. */
  until(promise) {
    let turn;
    return new Promise((resolve, reject) => {
      turn = this.turn(m => reject(m.failure));
      promise.then(resolve, reject);
    }).finally(() => this.forget(turn));
  }
  /** Rejects all pending calls with error; the worker has ended when the promise resolves. */
  close(error, patience = LEAVE_MS) {
    return this.#gone ??= this.#leave(error, patience);
  }
  async #leave(error, patience) {
    this.#dead = {error};       // an abort's reason may be anything, also null
    for (const {reject} of this.#calls.values()) reject(error);
    for (const listen of this.#turns.values()) listen({failure: error});
    this.#calls.clear();
    this.#turns.clear();
    /* It closes its files and ends its own workers first, unless it cannot. */
    let timer;
    const ended = new Promise(resolve => {
      this.#ended = resolve;
      this.#patience = ms => {
        clearTimeout(timer);
        timer = setTimeout(resolve, ms);
      };
      this.#patience(patience);
    });
    this.#worker.post({op: 'end'});
    await ended;
    clearTimeout(timer);
    await this.#worker.terminate();
  }
}

/* Calls the caller's functions. failed(error) is called with what one throws, or its promise
 * rejects with. */
class Callbacks {
  #failed; #waiting = new Set();
  constructor(failed) { this.#failed = failed; }
  /* The result of fn, unless it fails. */
  call(fn, ...values) {
    try {
      const result = fn?.(...values);
      if (typeof result?.then !== 'function') return result;
      const over = Promise.resolve(result)
        .catch(error => { this.#failed(error); })
        .finally(() => this.#waiting.delete(over));
      this.#waiting.add(over);
      return over;
    } catch (error) {
      this.#failed(error);
      return undefined;
    }
  }
  get waiting() { return this.#waiting.size > 0; }
  /** Resolves when every promise of the functions has settled. */
  async over() { while (this.waiting) await Promise.all(this.#waiting); }
}

/* The failure of an answer that is not wanted any more: its generator ends without an error. */
class Left { constructor(why) { this.why = why; } }
const LEFT = new Left(), STOPPED = new Left('model.stop() ended the answer');

/* The messages of an answer, in order; but the first failure on this side comes before everything
 * that waits, and onFailure() is called at once: the reader may be busy. */
class Inbox {
  #messages = []; #failure; #wake; #since;
  onFailure;
  /** Ends what the answer holds, also if its generator is not resumed. */
  end = () => {};
  put(message) {
    if (!this.#wake) this.#since ??= performance.now();
    this.#messages.push(message);
    this.#wake?.();
  }
  /** For how many milliseconds what is here has not been taken. */
  get unread() { return this.#since === undefined ? 0 : performance.now() - this.#since; }
  fail(error) {
    if (this.#failure) return;
    this.#failure = {error};
    this.onFailure?.();
    this.#wake?.();
  }
  check() { if (this.#failure) throw this.#failure.error; }
  /** The next message, if it is here. */
  here() {
    this.check();
    const message = this.#messages.shift();
    this.#since = this.#messages.length ? performance.now() : undefined;
    return message;
  }
  async take() {
    for (;;) {
      const message = this.here();
      if (message) return message;
      await new Promise(resolve => { this.#wake = resolve; });
      this.#wake = undefined;
    }
  }
  /** The value of promise, which never rejects and before which nothing else may come. */
  async until(promise) {
    void promise.then(value => this.put({value}));
    return (await this.take()).value;
  }
}

/* Generators that were dropped in the middle: nothing else ends them. */
const dropped = new FinalizationRegistry(inbox => {
  inbox.fail(LEFT);
  inbox.end();
});

export class Model {
  #port; #info; #onProgress; #place;
  #answers = new Set();         // inboxes
  #conversations = 0;           // numbers given
  #late;                        // what onProgress threw while no call was pending

  /** place(from) promises what a worker takes. */
  constructor(port, info, onProgress, place) {
    this.#port = port;
    this.#place = place;
    this.#info = Object.freeze(info);
    const warn = text => console.warn(`qsf: ${text}`);
    if (info.warnings.length) warn(info.warnings.join('; '));
    port.onWarning = text => {
      if (info.warnings.includes(text)) return;         // repeats with every answer under a schema
      info.warnings.push(text);
      warn(text);
    };
    this.#onProgress = onProgress;
    const callbacks = new Callbacks(error => {
      if (this.#answers.size) for (const inbox of this.#answers) inbox.fail(error);
      else this.#late ??= {error};
    });
    port.onProgress = progress => callbacks.call(onProgress, progress);         // of a file that still comes
  }

  get info() { return this.#info; }

  /** @type {import('./index.d.ts').Model['generate']} */
  generate(prompt, options) {
    return this.#answer('generate', options, () => this.#prompt(prompt));
  }
  /** @type {import('./index.d.ts').Model['chat']} */
  chat(messages, options) {
    return this.#answer('chat', options, () => ({messages: checkedMessages(messages)}));
  }

  #prompt(prompt) {
    return {prompt: typeof prompt === 'string' ? prompt : checkedIds(prompt, this.#info.vocabulary)};
  }

  /* The arguments are copied and checked now, even if the loop begins later; an error is thrown in
   * the loop. */
  #answer(call, options, what, conversation) {
    const inbox = new Inbox();
    let asked;
    try {
      asked = {...what(), conversation, options: this.#checked(call, options)};
    } catch (error) {
      inbox.fail(error);
    }
    const tally = new Tally(), answer = this.#turn(inbox, asked, tally);
    for (const way of ['return', 'throw'])      // ends at once, also while waiting for the next part
      answer[way] = value => {
        inbox.fail(LEFT);
        return Object.getPrototypeOf(answer)[way].call(answer, value);
      };
    dropped.register(answer, inbox);
    return thenable(answer, tally);
  }

  async * #turn(inbox, asked, tally) {
    inbox.check();
    const {options: {signal, onToken, onPart, onReasoning, onToolCall, maxToolRounds,
      onProgress = this.#onProgress, ...options}, conversation, ...what} = asked;
    signal?.throwIfAborted();
    const late = this.#late;
    this.#late = undefined;
    if (late) throw late.error;
    if (options.choice === undefined)
      options.seed ||= 1 + Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
    const apart = !!(what.messages && (options.tools || onReasoning || onToolCall || onPart));
    // a model may reason before a constrained answer, within its budget
    options.apart = apart || !!(what.messages
      && (tally.awaited || options.responseFormat || options.reasoningBudget >= 0));
    options.listed = !!onPart;
    options.toolRounds = onToolCall ? maxToolRounds : 0;

    const callbacks = new Callbacks(error => inbox.fail(error));
    const abort = () => end(signal.reason);
    const end = error => {      // also if the reader is busy
      inbox.fail(error);
      inbox.end();
    };
    const turn = this.#port.turn(m => {
      if ('failure' in m) inbox.fail(m.failure);
      else for (const part of m.pieces ?? [m]) inbox.put(part);
    });
    inbox.onFailure = () => this.#port.send({op: 'abort', turn});       // ignored after the end of the turn
    let entered;
    this.#answers.add(inbox);
    signal?.addEventListener('abort', abort, {once: true});
    inbox.end = () => {
      signal?.removeEventListener('abort', abort);
      this.#answers.delete(inbox);
      this.#port.forget(turn);
      inbox.fail(LEFT);
      entered?.leave();
    };
    try {
      if (conversation) {
        entered = conversation.enter({unread: () => inbox.unread, end});
        await inbox.until(entered.before);
        Object.assign(what, conversation.what(), {conversation: conversation.number});
      }
      this.#port.send({op: 'generate', turn, ...what, options});
      for (let round = 0, taken = 0, results = []; ;) {
        const m = inbox.here() ?? await inbox.take();
        if (m.error) throw unpack(m.error);
        if (m.done !== undefined) {
          if (callbacks.waiting) await inbox.until(callbacks.over());
          inbox.check();
          tally.close(m.done);
          conversation?.done(m.done);
          return apart ? tally.answered() : m.done.end;
        }
        if (m.waits) {
          const given = await inbox.until(Promise.all(results));
          this.#port.send({op: 'results', turn, results: given.map(checkedResult)});
          results = [];
          round++;
          continue;
        }
        if (m.progress) callbacks.call(onProgress, m.progress);
        else {
          if (++taken % ACKNOWLEDGED === 0) this.#port.send({op: 'more', turn, n: ACKNOWLEDGED});
          tally.take(m);
          if (m.id !== undefined) callbacks.call(onToken, m.id, ...(options.logprobs ? [m.logprobs] : []));
          for (const part of m.parts ?? []) callbacks.call(onPart, part);
          if (m.reasoning) callbacks.call(onReasoning, m.reasoning);
          if (round < options.toolRounds)
            for (const call of m.calls ?? []) results.push(callbacks.call(onToolCall, call));
        }
        inbox.check();
        if (m.text) yield m.text;
      }
    } catch (error) {
      if (!(error instanceof Left)) throw error;
      tally.left = error.why;
      return undefined;
    } finally {
      inbox.end();
    }
  }

  /** @type {import('./index.d.ts').Model['conversation']} */
  conversation(options) {
    return new Conversation({
      answer: (...given) => this.#answer(...given),
      prompt: prompt => this.#prompt(prompt),
      embed: (...given) => this.embed(...given),
      rerank: (...given) => this.rerank(...given),
      ask: (call, what) => this.#port.call(call, what),
      loadSession: (bytes, given, conversation) =>
        this.#ask('loadSession', {bytes: checkedBytes(bytes), conversation}, given),
      send: message => this.#port.send(message),
    }, ++this.#conversations, options);
  }
  /** @type {import('./index.d.ts').Model['stop']} */
  stop() {
    for (const inbox of [...this.#answers]) {
      inbox.fail(STOPPED);
      inbox.end();              // a conversation does not wait for its reader
    }
  }

  #checked(call, given) {
    const options = checked(call, given);
    return options.adapters ? {...options, adapters: numbered(this.#port, options.adapters)} : options;
  }
  async #ask(call, what, given) {
    const {signal, ...options} = this.#checked(call, given);
    signal?.throwIfAborted();
    return this.#port.call(call, {...what, options}, signal);
  }
  async tokenize(text, options) { return this.#ask('tokenize', {text: checkedText(text)}, options); }
  async detokenize(ids, options) {
    return this.#ask('detokenize', {ids: checkedIds(ids, this.#info.vocabulary)}, options);
  }
  async render(messages, options) {
    return this.#ask('render', {messages: checkedMessages(messages)}, options);
  }
  async embed(texts, options) {
    const one = typeof texts === 'string', all = checkedInputs(one ? [texts] : texts, this.#info.vocabulary);
    const vectors = await this.#ask('embed', {texts: all}, options);
    return one ? vectors[0] : vectors;
  }
  async rerank(query, documents, options) {
    const what = {query: checkedText(query), documents: checkedDocuments(documents)};
    const scores = await this.#ask('rerank', what, options);
    return scores.map((score, index) => ({index, score}))
      .sort((a, b) => b.score - a.score || a.index - b.index).slice(0, options?.topN);
  }
  stats() { return this.#port.call('stats'); }
  refined() { return this.#port.call('refined'); }
  saveSession() { return this.#port.call('saveSession'); }
  async loadSession(bytes, options) {
    return this.#ask('loadSession', {bytes: checkedBytes(bytes)}, options);
  }
  async loadAdapter(from, options) {
    const {scale, signal, ...how} = checked('loadAdapter', options), place = await this.#place(from);
    signal?.throwIfAborted();
    const loaded = await this.#port.call('loadAdapter', {from: place, options: how}, signal);
    return new Adapter(this.#port, loaded, scale);
  }

  async dispose() { await this.#port.close(new QsfError('DISPOSED', 'the model has been disposed of')); }
  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() { await this.dispose(); }
}

const placed = from => from;

/** startWorker() gives what Port takes; place(from) promises {path}, {url}, {blob} or {bytes}.
 * Without place, from is one of these already. */
export function loadIn(startWorker, from, options, place = placed) {
  const use = (port, info, onProgress) => new Model(port, info, onProgress, place);
  return open(startWorker, from, options, use, place);
}

/** The same for estimate(), which answers before loading. */
export function estimateIn(startWorker, from, options, place = placed) {
  const use = async (port, estimate) => {
    await port.close(new QsfError('DISPOSED', 'the estimate is made'));
    return Object.freeze(estimate);
  };
  return open(startWorker, from, options, use, place, true);
}

async function open(startWorker, given, asked, use, place, estimate = false) {
  const from = await place(given);
  const {signal, onProgress, gpu, ...options} = checked('load', asked);        // gpu is startWorker's
  signal?.throwIfAborted();
  const port = new Port(await startWorker());
  const abort = () => port.close(signal.reason);
  signal?.addEventListener('abort', abort, {once: true});
  const callbacks = new Callbacks(error => port.close(error));
  port.onProgress = progress => callbacks.call(onProgress, progress);
  try {
    signal?.throwIfAborted();   // the port did not listen yet
    const opened = await port.call('open', {from, options: {...options, estimate}});
    await port.until(callbacks.over());
    return await use(port, opened, onProgress);
  } catch (error) {
    await port.close(error);
    throw signal?.aborted ? error : withRemedies(error, options);
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}
