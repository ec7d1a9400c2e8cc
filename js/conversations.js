/* A conversation on the user's side: its messages, and its calls one after another.
 * SPDX-License-Identifier: MIT */
import {QsfError, refuse, shown} from './errors.js';
import {checked, checkedMessages} from './options.js';
import {isSystem} from './peers.js';

/** An answer that is not read is ended after this time if another call of its conversation waits.
 * Tests shorten it. */
export const UNREAD = {ms: 30_000, lookMs: 1000};
const unreadError = () => new QsfError('CANCELLED', `the answer was not read for ${
  UNREAD.ms / 1000} s, while another call of the conversation waited`);
const disposedError = () => new QsfError('DISPOSED', 'the conversation has been disposed of');

/* conversation()'s options: the messages that it begins with, and those of its chats. */
function opened(options = {}) {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    refuse(`the options of conversation() are ${shown(options)}; they must be an object`);
  const {system, messages = [], signal, ...defaults} = options;
  for (const name of Object.keys(defaults))
    if (isSystem(name)) refuse(`no option of conversation() is called ${name}; its name here is system`);
  if (system !== undefined && typeof system !== 'string')
    refuse(`system is ${shown(system)}; it must be a string`);
  if (!Array.isArray(messages))
    refuse(`messages is ${shown(messages)}; it must be a list of {role, content}`);
  if (signal !== undefined)
    refuse('signal is not an option of conversation(); give it to chat(), for one answer');
  checked('chat', defaults);
  const head = system === undefined ? [] : [{role: 'system', content: system}];
  return {head, messages: [...head, ...JSON.parse(checkedMessages(messages))], defaults};
}

const gone = new FinalizationRegistry(part => part());

export class Conversation {
  #of; #number; #defaults; #head; #messages;
  #end = Promise.resolve();     // of its last call
  #calls = new Set();           // those under way and those that wait: {unread, end}
  #running;                     // the one whose turn it is
  #parted = false;

  /** of: answer(call, options, what, conversation), ask(call, what, options), send(message): the
   * model's. number: this conversation's there. */
  constructor(of, number, options) {
    const {head, messages, defaults} = opened(options);
    this.#head = head;
    this.#messages = messages;
    this.#of = of;
    this.#number = number;
    this.#defaults = defaults;
    gone.register(this, () => of.send({op: 'part', conversation: number}), this);
  }
  /** @type {import('./index.d.ts').Conversation['messages']} */
  get messages() { return structuredClone(this.#messages); }

  /** @type {import('./index.d.ts').Conversation['chat']} */
  chat(what, options) {
    let asked;
    const given = () => {
      const all = typeof what === 'string' ? [{role: 'user', content: what}] : what;
      asked = JSON.parse(checkedMessages(all));
      return {messages: '[]'};
    };
    const whole = () => {
      if (typeof what === 'string') return [...this.#messages, ...asked];
      return ['system', 'developer'].includes(asked[0]?.role) ? asked : [...this.#head, ...asked];
    };
    const merged = {...this.#defaults, ...options}, continues = merged.continueFinalMessage === true;
    let said;
    return this.#answer('chat', merged, given, {
      what: () => ({messages: JSON.stringify(said = whole())}),
      done: ({messages}) => {
        this.#messages = [...(continues ? said.slice(0, -1) : said), ...messages];
      },
    });
  }
  /** @type {import('./index.d.ts').Conversation['generate']} */
  generate(prompt, options) {
    return this.#answer('generate', options, () => this.#of.prompt(prompt), {what: () => ({}), done() {}});
  }
  #answer(call, options, what, {what: later, done}) {
    const number = this.#number, enter = its => this.#enter(its);
    return this.#of.answer(call, options, () => {
      this.#check();
      return what();
    }, {number, enter, what: later, done});
  }
  #check() { if (this.#parted) throw disposedError(); }

  /* The next call's turn: {before, leave}. unread(): for how many milliseconds what is there
   * has not been read; end(error) ends the call. */
  #enter(call) {
    this.#check();
    const former = this.#end;
    let resolve, timer;
    this.#end = new Promise(over => { resolve = over; });
    this.#calls.add(call);
    /* Until its turn, since the one before it may not be read either. The timer keeps Node.js
     * alive meanwhile: an engine that waits for its reader does not. */
    const look = () => {
      if (this.#running?.unread() > UNREAD.ms) this.#running.end(unreadError());
      timer = setTimeout(look, UNREAD.lookMs);
    };
    timer = setTimeout(look, UNREAD.lookMs);
    const before = former.then(() => {
      clearTimeout(timer);
      this.#running = call;
    });
    return {before, leave: () => {
      clearTimeout(timer);
      this.#calls.delete(call);
      if (this.#running === call) this.#running = undefined;
      void former.then(resolve);
    }};
  }
  /* What use(signal) promises, in its turn. */
  async #alone(use, {signal} = {}) {
    this.#check();
    signal?.throwIfAborted();
    const stop = new AbortController(), abort = () => stop.abort(signal.reason);
    const ended = new Promise((_, reject) => {
      stop.signal.addEventListener('abort', () => reject(stop.signal.reason));
    });
    const {before, leave} = this.#enter({unread: () => 0, end: error => stop.abort(error)});
    signal?.addEventListener('abort', abort, {once: true});
    try {
      await Promise.race([before, ended]);
      return await Promise.race([use(stop.signal), ended]);
    } finally {
      signal?.removeEventListener('abort', abort);
      leave();
    }
  }
  async embed(texts, options) {
    return this.#alone(signal => this.#of.embed(texts, {...options, signal}), checked('embed', options));
  }
  async rerank(query, documents, options) {
    return this.#alone(signal => this.#of.rerank(query, documents, {...options, signal}),
      checked('rerank', options));
  }
  saveSession() { return this.#alone(() => this.#of.ask('saveSession', {conversation: this.#number})); }
  loadSession(bytes, options) {
    return this.#alone(() => this.#of.loadSession(bytes, options, this.#number));
  }

  /** @type {import('./index.d.ts').Conversation['dispose']} */
  async dispose() {
    if (this.#parted) return;
    this.#parted = true;
    gone.unregister(this);
    for (const call of [...this.#calls]) call.end(disposedError());
    await this.#end;
    this.#of.send({op: 'part', conversation: this.#number});
  }
  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() { await this.dispose(); }
}
