/* Which conversation of the engine a call uses, and when its turn comes.
 * SPDX-License-Identifier: MIT
 *
 * The model's own calls run at the same time, each in a conversation that is free: the one whose
 * last prompt has most in common with the call's. Calls on a conversation of the caller's have
 * it one after another. */

/* conversations that stay, of the model's own calls */
const MOST = 8;

const common = (a, b) => {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a[n] === b[n]) n++;
  return n;
};

export class Talks {
  #engine; #named = new Map(); #own = []; #last; #uses = 0; #ends = new Set();
  /** For embeddings. */
  aside;

  constructor(engine) {
    this.#engine = engine;
    this.aside = this.#made(engine.aside);
  }
  /* text: its last prompt; users: calls that have it or wait for it; end: of the last one */
  #made(conversation = this.#engine.converse()) {
    return {conversation, text: '', users: 0, end: Promise.resolve(), used: 0};
  }

  /** That of a call: {conversation} or, for the model's own, {messages} or {prompt}. */
  of({conversation, messages, prompt}) {
    if (conversation) return this.at(conversation);
    const text = messages ?? (typeof prompt === 'string' ? prompt : prompt.join());
    const free = this.#own.filter(talk => !talk.users);
    /* One that has half of its prompt in common is continued; others keep what they have, as long
     * as there may be more. */
    let best, most = -1;
    for (const talk of free) {
      const shared = common(talk.text, text);
      if (shared <= most || 2 * shared < talk.text.length) continue;
      best = talk;
      most = shared;
    }
    if (!best && this.#own.length >= MOST)
      best = free.reduce((a, b) => (a?.used < b.used ? a : b), undefined);
    if (!best) this.#own.push(best = this.#made());
    best.text = text;
    this.#last = best;
    return best;
  }
  /** That of a number; without one, that of the model's last own call or, if it has to be free and
   * an answer is under way, another one. */
  at(number, isFree = false) {
    if (!number) {
      if (!this.#last || (isFree && this.#last.users)) this.#own.push(this.#last = this.#made());
      return this.#last;
    }
    if (!this.#named.has(number)) this.#named.set(number, this.#made());
    return this.#named.get(number);
  }
  /** Claiming is this one step: the claim's turn comes when all those before have ended. */
  claim(talk) {
    const before = talk.end;
    let resolve;
    talk.users++;
    talk.used = ++this.#uses;
    const end = talk.end = new Promise(over => { resolve = over; });
    this.#ends.add(end);
    if (talk !== this.aside) this.#engine.last = talk.conversation;
    return {before, end: () => {
      this.#ends.delete(end);
      talk.users--;
      resolve();
      this.#tidy();
    }};
  }
  #tidy() {
    while (this.#own.length > MOST) {
      const at = this.#own.findIndex(talk => !talk.users && talk !== this.#last);
      if (at < 0) return;
      void this.#engine.part(this.#own.splice(at, 1)[0].conversation);
    }
  }
  /** A conversation of the caller's is not used any more, after its last call. */
  async part(number) {
    const talk = this.#named.get(number);
    if (!talk) return;
    this.#named.delete(number);
    await talk.end;
    await this.#engine.part(talk.conversation);
  }
  /** Resolves when no call is under way. */
  async over() { while (this.#ends.size) await Promise.all(this.#ends); }
}
