/* A conversation on the user's side: its messages, and its calls one after another.
 * SPDX-License-Identifier: MIT */
import {refuse} from './errors.js';
import {checked, checkedMessages, checkedText} from './options.js';

/* An answer that is not read is ended after this time if another call of its conversation waits. */
const UNREAD_MS = 30_000, LOOK_MS = 1000;

const gone = new FinalizationRegistry(part => part());

export class Conversation {
  #of; #number; #defaults; #head; #messages;
  #end = Promise.resolve();     // of its last call
  #running;                     // the call whose turn it is: {unread, leave}
  #parted = false;

  /** of: answer(call, options, what, conversation), ask(call, what, options), send(message): the
   * model's. number: this conversation's there. */
  constructor(of, number, options = {}) {
    const {system, messages = [], ...defaults} = options;
    checked('chat', defaults);
    this.#head = system === undefined ? [] : [{role: 'system', content: checkedText(system)}];
    this.#messages = [...this.#head, ...JSON.parse(checkedMessages(messages))];
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
    let said;
    return this.#answer('chat', {...this.#defaults, ...options}, given, {
      what: () => ({messages: JSON.stringify(said = whole())}),
      done: ({messages}) => { this.#messages = [...said, ...messages]; },
    });
  }
  /** @type {import('./index.d.ts').Conversation['generate']} */
  generate(prompt, options) {
    return this.#answer('generate', options, () => this.#of.prompt(prompt), {what: () => ({}), done() {}});
  }
  #answer(call, options, what, {what: later, done}) {
    const number = this.#number, enter = unread => this.#enter(unread);
    return this.#of.answer(call, options, () => {
      if (this.#parted) refuse('the conversation has been disposed of');
      return what();
    }, {number, enter, what: later, done});
  }

  /* The next call's turn: {before, leave}. unread(): for how many milliseconds what is there
   * has not been read; end() ends the call. */
  #enter({unread, end}) {
    const former = this.#end, call = {unread, end};
    let resolve, timer;
    this.#end = new Promise(over => { resolve = over; });
    const look = () => {
      if (this.#running?.unread() > UNREAD_MS) this.#running.end();
      else timer = setTimeout(look, LOOK_MS);
      timer.unref?.();
    };
    timer = setTimeout(look, LOOK_MS);
    timer.unref?.();
    const before = former.then(() => {
      clearTimeout(timer);
      this.#running = call;
    });
    return {before, leave: () => {
      clearTimeout(timer);
      if (this.#running === call) this.#running = undefined;
      void former.then(resolve);
    }};
  }
  async #alone(use) {
    const {before, leave} = this.#enter({unread: () => 0, end() {}});
    try {
      await before;
      return await use();
    } finally {
      leave();
    }
  }
  embed(texts, options) { return this.#alone(() => this.#of.embed(texts, options)); }
  rerank(query, documents, options) { return this.#alone(() => this.#of.rerank(query, documents, options)); }
  saveSession() { return this.#alone(() => this.#of.ask('saveSession', {conversation: this.#number})); }
  loadSession(bytes, options) {
    return this.#alone(() => this.#of.loadSession(bytes, options, this.#number));
  }

  /** @type {import('./index.d.ts').Conversation['dispose']} */
  async dispose() {
    if (this.#parted) return;
    this.#parted = true;
    gone.unregister(this);
    await this.#end;
    this.#of.send({op: 'part', conversation: this.#number});
  }
  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() { await this.dispose(); }
}
