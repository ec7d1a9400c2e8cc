/* The answers of all conversations, computed together: whose rows are in the next batch, and which
 * conversations leave the engine's memory for others. How many rows each has, and who leaves first,
 * is the engine's decision (qsf_schedule in qsf.h).
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {E_FULL, OK, PENDING, WAITING} from './names.js';

const CHECK_BATCHES = 32;       /* a check takes half a millisecond */
/** The longest that a message waits, apart from the computation of a layer. */
export const YIELD_MS = 12;
const TURNS = 20;               /* of the event loop, before conversations come back for slow readers */

/* To the event loop and back, without the 4 ms that browsers make of a nested setTimeout(0). */
const breathe = (() => {
  if (typeof setImmediate === 'function') return () => new Promise(resolve => setImmediate(resolve));
  const {port1, port2} = new MessageChannel();
  const waiting = [];
  port1.onmessage = () => waiting.shift()();
  return () => new Promise(resolve => { waiting.push(resolve); port2.postMessage(0); });
})();

export class Batches {
  /** Answers that have begun and not ended. */
  active = 0;
  gpu;                          // a GpuModule, if layers are on a GPU
  #of; #parallel;
  #entries = new Map();         // by conversation: those that wait for a batch, in order
  #batch = new Set();           // entries of the batch under way
  #held = new Set();            // conversations that have left for others, while these run
  #seated = new Map();          // by handle
  #jobs = [];                   // between batches
  #loops = false;
  #wake;                        // ends a wait for bytes
  #count = 0;
  #breathed = 0;

  /** of: {memory, transport, variant, warn, model, context, swap, hurry}. parallel: most answers
   * in a batch. */
  constructor(of, parallel) {
    this.#of = of;
    this.#parallel = parallel;
  }

  /* The JavaScript engine reoptimises code while it runs, and an earlier check of the sums does not
   * hold for the new code. */
  #stillWorks() {
    const {memory, model, variant} = this.#of;
    if (this.#count++ % CHECK_BATCHES || memory.x.works(model)) return;
    throw new QsfError('UNSUPPORTED',
      `${variant}: relaxed SIMD gives wrong sums since this engine has ` +
      'optimised it; load with relaxed: false');
  }
  /** Warns if the GPU is gone. */
  look() {
    if (!this.gpu?.gone) return;
    this.#of.warn(`${this.gpu.about(this.#of.context).reason}; all layers are on the CPU now`);
    this.gpu = undefined;
  }
  async pause() {
    if (performance.now() - this.#breathed < YIELD_MS) return;
    await breathe();
    this.#breathed = performance.now();
  }
  /* After a step that is pending, with the result of expecting() from before it. */
  async #rest(result, missing, stopped) {
    const onGpu = this.gpu?.missing;
    if (result & WAITING) await missing(stopped, YIELD_MS);
    else if (onGpu) await Promise.race([onGpu, stopped]);
    await this.pause();
  }
  /** Computes with take(handle), between batches, until it is done. */
  async compute(handle, take, signal) {
    const {memory, transport} = this.#of;
    this.#stillWorks();
    for (;;) {
      const missing = transport.expecting(), result = take(handle), status = result & 255;
      this.look();
      if (status === OK) return;
      if (status !== PENDING) memory.check(status, handle);
      await this.#rest(result, missing, signal.promise);
      if (signal.aborted) throw signal.error;
    }
  }

  /* ---- who takes part ---- */
  /** Resolves when the conversation's answer has taken part in a batch; rejects if that failed, or
   * with error after leave(conversation, error). stepped() is called during the batch. more: how
   * many pieces its answer may have; 0: it takes them itself. */
  step(conversation, stepped, more) {
    return new Promise((resolve, reject) => {
      this.#entries.set(conversation, {conversation, stepped, more, resolve, reject});
      this.#run();
    });
  }
  leave(conversation, error) {
    const entry = this.#entries.get(conversation);
    if (!entry) return;
    this.#entries.delete(conversation);
    this.#batch.delete(entry);
    entry.reject(error);
    this.#wake?.();
  }
  /** Calls use() while no batch is under way. */
  between(use) {
    return new Promise((resolve, reject) => {
      this.#jobs.push(async () => {
        try {
          resolve(await use());
        } catch (error) {
          reject(error);
        }
      });
      this.#run();
    });
  }
  /** An answer has ended: what has left for it may come back. */
  ended() {
    this.active--;
    this.#held.clear();
  }
  #run() {
    if (this.#loops) return;
    this.#loops = true;
    queueMicrotask(() => this.#loop());         // answers of the last batch come back first
  }
  async #loop() {
    while (this.#jobs.length || this.#entries.size) {
      if (this.#jobs.length) {
        await this.#jobs.shift()();
        continue;
      }
      if (this.#entries.size < this.active) await breathe();    // the others may come
      await this.#round();
    }
    this.#loops = false;
  }
  #fail(entries, error) {
    for (const entry of entries) {
      if (this.#entries.get(entry.conversation) === entry) this.#entries.delete(entry.conversation);
      entry.reject(error);
    }
  }
  /* Entries of conversations that have not left for others, at most a batch of them. */
  #free() {
    const free = [];
    for (const entry of this.#entries.values()) {
      if (free.length === this.#parallel) break;
      if (!this.#held.has(entry.conversation)) free.push(entry);
    }
    return free;
  }
  async #round() {
    let list = this.#free();
    for (let n = 0; !list.length && n < TURNS; n++) {
      await breathe();          // the others may be on their way
      list = this.#free();
    }
    if (!list.length) {
      this.#held.clear();
      list = this.#free();
    }
    for (const entry of list) {
      const {conversation} = entry, others = list.some(one => one !== entry && one.conversation.isSeated);
      try {
        if (!await this.seat(conversation, others)) this.#held.add(conversation);
      } catch (error) {
        this.#fail([entry], error);
      }
    }
    // one may have left for another's tokens
    this.#batch = new Set(list.filter(entry => this.#entries.get(entry.conversation) === entry
      && entry.conversation.isSeated));
    try {
      await this.#step();
    } catch (error) {
      this.#fail(this.#batch, error);
    }
    this.#batch = new Set();
  }
  /* Steps of a batch whose answers are at `at`, as long as nothing is missing and no message has to
   * wait too long: a token takes as many as there are layers. */
  #steps(at, n) {
    const {memory, context} = this.#of;
    for (;;) {
      const result = memory.x.qsf_flat_step(context, at, n);
      if ((result & 255) === PENDING) for (const {stepped} of this.#batch) stepped?.();
      if (result !== PENDING || this.gpu || performance.now() - this.#breathed >= YIELD_MS) return result;
    }
  }
  /* The same, and batches after it: the native engine takes the pieces. During the call readers get
   * what there is, until something else has to be done. */
  #several(at, list, most) {
    const {memory, context, hurry} = this.#of;
    memory.meanwhile = () => {
      this.#taken(list);
      return list.every(conversation => conversation.give()) && list.length === this.active
        && !this.#jobs.length && hurry?.waits === false;
    };
    const result = memory.x.pieces(context, at, list.length, most);
    this.#taken(list);
    return result;
  }
  #taken(list) {
    const taken = this.#of.memory.x.taken();
    for (let i = 0, end; i < taken.length; i = end) {
      end = i + 4 + 4 * taken[i + 3];
      list[taken[i]].add(taken[i + 1], taken[i + 2], taken.slice(i + 4, end));
    }
  }
  /* One batch. If all its answers have left, so has the engine's. */
  async #step() {
    const {memory, transport, context} = this.#of;
    if (this.#batch.size) this.#stillWorks();
    while (this.#batch.size) {
      const list = [...this.#batch].map(({conversation}) => conversation);
      const answers = Uint32Array.from(list, ({answer}) => answer), missing = transport.expecting();
      const most = memory.x.pieces ? Math.min(...[...this.#batch].map(({more}) => more)) : 0;
      const result = memory.with(answers, at =>
        (most ? this.#several(at, list, most) : this.#steps(at, list.length)));
      const status = result & 255;
      this.look();
      if (status === E_FULL && await this.evict()) return;
      if (status !== PENDING) {
        memory.check(status, context);
        if (!most) for (const conversation of list) conversation.take();    // before the next batch's logits
        for (const {conversation, resolve} of this.#batch) {
          this.#entries.delete(conversation);
          resolve();
        }
        return;
      }
      await this.#rest(result, missing, new Promise(resolve => { this.#wake = resolve; }));
    }
  }

  /* ---- who is in memory ---- */
  /** Between batches: the conversation gets a sequence; what it had computed is there again.
   * mayWait: not while others that wait for a batch would have to leave; then false. */
  async seat(conversation, mayWait = false) {
    while (!await conversation.sit()) {
      if (await this.evict(conversation, mayWait)) continue;
      if (mayWait) return false;
      this.#of.memory.check(E_FULL, this.#of.context);
    }
    this.#seated.set(conversation.handle, conversation);
    return true;
  }
  /** Lets the conversation leave that the engine names, except `but` and, if idle, those that wait
   * for a batch; false: none can. */
  async evict(but, idle = false) {
    const {memory, context} = this.#of;
    const conversation = this.#seated.get(memory.x.qsf_flat_oldest(context, but?.handle ?? 0));
    if (!conversation?.isSeated || (idle && this.#entries.has(conversation))) return false;
    if (this.#entries.has(conversation)) this.#held.add(conversation);
    await conversation.store();
    return true;
  }
  forget(conversation) {
    this.#seated.delete(conversation.handle);
    this.#held.delete(conversation);
  }
}
