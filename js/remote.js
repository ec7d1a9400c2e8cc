/* The engine's side of the reader's worker (reader.js).
 * SPDX-License-Identifier: MIT */
import {QsfError, unpack} from './errors.js';
import {ASKED, GIVEN_UP, RING, WRITING} from './reader.js';

export class RemoteSource {
  name; length; begins;         // begins: see split.js
  #worker; #next = 1;
  #reads = new Map();           // id -> {slot, settle, comesBack}; the bytes are not kept
  #ring; #free = []; #signals = {};
  #dead; #closed;

  /** worker: post(message, transfer), onMessage(fn), onFailure(fn), terminate(); on:
   * progress(p), warning(text). */
  constructor(worker, on) {
    this.#worker = worker;
    worker.onMessage(m => this.#take(m, on));
    worker.onFailure(error => this.#end(new QsfError('WORKER', `the reader's worker ended: ${error.message}`,
      {cause: error})));
  }
  /** Resolves when name and length are known. */
  async open(from, options) {
    Object.assign(this, await this.#ask('opened', {op: 'open', from, options}, from.ports));
  }
  #ask(answer, message, transfer) {
    return new Promise((resolve, reject) => {
      this.#signals[answer] = {resolve, reject};
      if (this.#dead) reject(this.#dead);
      else this.#worker.post(message, transfer);
    });
  }
  #take(m, on) {
    if (m.progress) return on.progress(m.progress);
    if (m.warning) return on.warning(m.warning);
    if (m.id === undefined) {
      if (m.error) return this.#end(unpack(m.error));
      for (const [name, {resolve}] of Object.entries(this.#signals)) if (name in m) resolve(m[name]);
      return undefined;
    }
    const read = this.#reads.get(m.id);
    this.#reads.delete(m.id);
    if (read.slot !== undefined) this.#free.push(read.slot);
    read.settle(m.error && unpack(m.error), m.bytes);
    return m.bytes && read.comesBack && this.#worker.post({op: 'back', buffer: m.bytes.buffer},
      [m.bytes.buffer]);
  }
  #end(error) {
    this.#dead ??= error;
    for (const {reject} of Object.values(this.#signals)) reject(error);
    for (const {settle} of this.#reads.values()) settle(error);
    this.#reads.clear();
  }

  /** The engine's memory is shared: bytes of start() go straight there. */
  attach(memory) {
    this.#ring = new Int32Array(new SharedArrayBuffer(4 * (RING + 1)));
    this.#free = Array.from({length: RING}, (_, i) => i);
    this.#worker.post({op: 'memory', memory, ring: this.#ring});
  }
  /** From here on bytes come in messages again, if nothing is being read. */
  detach() {
    if (!this.#ring || this.#reads.size) return;
    this.#ring = undefined;
    this.#free = [];
    this.#worker.post({op: 'memory'});
  }
  /** Counts finished reads; undefined if bytes come in messages. */
  get arrivals() { return this.#ring && Atomics.load(this.#ring, RING); }
  /** Blocks until arrivals is another number, or ms have passed. */
  sleep(arrivals, ms) { Atomics.wait(this.#ring, RING, arrivals, ms); }

  read(at, length) {
    return new Promise((resolve, reject) => {
      this.#post({at, length}, undefined, (error, bytes) => error ? reject(error) : resolve(bytes));
    });
  }
  /** Starts a read into the attached memory at dst; *state becomes 0 at its end. Otherwise
   * settle(error, bytes) is called, and the bytes are valid during that call. Returns what cancel()
   * takes. */
  start(at, length, dst, state, settle) {
    const slot = this.#free.pop();
    if (slot !== undefined) Atomics.store(this.#ring, slot, ASKED);
    return this.#post({at, length, dst, state}, slot, settle);
  }
  #post(message, slot, settle) {
    const id = this.#next++;
    if (this.#dead) queueMicrotask(() => settle(this.#dead));
    else {
      this.#reads.set(id, {slot, settle, comesBack: message.dst !== undefined});
      this.#worker.post({op: 'read', id, ...message, slot});
    }
    return id;
  }
  /** Afterwards nothing writes to the read's memory any more, and its settle() is not called. */
  cancel(id) {
    const read = this.#reads.get(id);
    if (!read) return;
    read.settle = () => {};
    const {slot} = read;
    while (slot !== undefined && Atomics.compareExchange(this.#ring, slot, ASKED, GIVEN_UP) === WRITING)
      Atomics.wait(this.#ring, slot, WRITING);
    this.#worker.post({op: 'cancel', id});
  }

  /** how: Engine's reading.  Rejects if that is not possible. */
  async settle(how) {
    const {error} = await this.#ask('settled', {op: 'settle', ...how});
    if (error) throw unpack(error);
  }
  /** Deletes stored data; promises how to load the file again, see Download. */
  spoil() {
    return this.#dead ? Promise.resolve(false) : this.#ask('spoiled', {op: 'spoil'}).catch(() => false);
  }
  /** Its files are closed when the promise resolves. */
  close() { return this.#closed ??= this.#close(); }
  async #close() {
    if (!this.#dead) await this.#ask('closed', {op: 'close'}).catch(() => {});
    this.#dead ??= new QsfError('DISPOSED', 'the source has been closed');
    for (const {reject} of Object.values(this.#signals)) reject(this.#dead);    // such as that of an open()
  }
  /** Ends the reader's worker, while the engine's worker stays alive. */
  terminate() { this.#worker.terminate(); }
}
