/* Moves bytes in and out of a module's memory: the file's bytes, and those of sessions.
 * SPDX-License-Identifier: MIT */
import {E_CANCELLED, E_IO, OK, PENDING} from './names.js';
import {unsigned} from './memory.js';
import {beginOf, lengthFrom} from './split.js';

export class Transport {
  #source; #memory;
  #opening = false;
  #held = [];                   // parts of the file that came before the model was open
  #missing;                     // the read that opening waits for
  #reads = new Map();           // place of the state -> the source's id of the read
  #arrival; #arrived;           // a promise for the next answered read
  #take; #session;              // the target of a saved session; the bytes of a loaded one

  /** The source stays the caller's. */
  constructor(source) {
    this.#source = source;
    this.#expect();
  }
  #expect() { this.#arrival = new Promise(resolve => { this.#arrived = resolve; }); }

  /** The imports of the module with this memory. */
  imports(memory) {
    this.#memory = memory;
    return {
      now: () => performance.now(),
      open: path => beginOf(this.#source, memory.string(unsigned(path))) ?? -1,
      length: begin => lengthFrom(this.#source, begin),
      read: (at, dst, length, state) => this.#read(at, unsigned(dst), unsigned(length), unsigned(state)),
      cancel: state => this.#cancel(unsigned(state)),
      save: (at, length) => this.#take(memory.copy(at, unsigned(length))),
      load: (at, dst, length) => memory.put(dst, this.#session.subarray(at, at + unsigned(length))),
    };
  }

  /** open()'s status.  A source that cannot answer at once makes opening stop; it is started again
   * when the bytes are here. */
  async open(open) {
    this.#opening = true;
    for (;;) {
      this.#missing = undefined;
      const status = open();
      if (!this.#missing || status !== E_CANCELLED) return status;
      const {at, length} = this.#missing;
      this.#held.push({at, bytes: await this.#source.read(at, length)});
    }
  }
  /** From here on reads are answered while the module runs. */
  opened() {
    this.#opening = false;
    this.#held = [];
  }

  /* A status if it can be answered at once; else undefined. */
  #answer(at, dst, length) {
    if (this.#source.readSync) {
      this.#memory.fill(dst, length, target => this.#source.readSync(at, target));
      return OK;
    }
    if (!this.#opening) return undefined;
    const part = this.#held.find(h => h.at <= at && at + length <= h.at + h.bytes.length);
    if (part) this.#memory.put(dst, part.bytes.subarray(at - part.at, at - part.at + length));
    else this.#missing = {at, length};
    return part ? OK : PENDING;
  }
  #read(at, dst, length, state) {
    const memory = this.#memory;
    try {
      const status = this.#answer(at, dst, length);
      if (status !== undefined) return status;
    } catch (error) {
      memory.failure = error;
      return E_IO;
    }
    const settle = (error, bytes) => {
      this.#reads.delete(state);
      if (error) memory.failure = error;
      if (bytes) memory.put(dst, bytes);
      if (error || bytes) memory.store(state, error ? E_IO : OK);
      this.#arrived();
      this.#expect();
    };
    this.#reads.set(state, this.#source.start(at, length, dst, state, settle));
    return PENDING;
  }
  #cancel(state) {
    this.#source.cancel(this.#reads.get(state));
    this.#reads.delete(state);
  }
  /** Ends reads. */
  end() { for (const state of [...this.#reads.keys()]) this.#cancel(state); }

  /** Called before a step.  If bytes are missing after it, the returned function waits until some
   * have come, stopped is settled, or (if it may block) ms have passed. */
  expecting() {
    const arrival = this.#arrival, source = this.#source, {arrivals} = source;
    return (stopped, ms) =>
      arrivals === undefined ? Promise.race([arrival, stopped]) : source.sleep(arrivals, ms);
  }

  /** Calls save(), which writes at most length bytes; a copy of them. */
  saved(length, save) {
    const session = new Uint8Array(length);
    let at = 0;
    this.#take = bytes => {
      session.set(bytes, at);
      at += bytes.length;
    };
    try {
      save();
    } finally {
      this.#take = undefined;
    }
    return session;
  }
  /** Calls load(), which reads bytes. */
  loaded(bytes, load) {
    this.#session = bytes;
    try {
      return load();
    } finally {
      this.#session = undefined;
    }
  }
}
