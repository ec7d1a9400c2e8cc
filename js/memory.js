/* A module's memory, for the files of the engine's worker: bytes and strings in it, and its
 * statuses as errors.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {E_IO, OK, STATUS} from './names.js';

/** An address from a module: unsigned, where 32 bits of it came as a signed number. */
export const unsigned = at => (at < 0 ? at + 2 ** 32 : at);

/* of names that a module passes */
const LONGEST = 1 << 20;

const decoder = new TextDecoder('utf-8', {ignoreBOM: true});
const encoder = new TextEncoder();

/** A string as the module takes it. */
export const encoded = text => encoder.encode(text);
/** Options as it takes them: pairs of a name and a value, of which undefined is left out. */
export const listed = pairs => encoded(`${pairs.filter(pair => pair[1] !== undefined)
  .map(([name, value]) => `${name}\0${value}\0`).join('')}\0`);

export class Memory {
  /** What the module exports, once it runs. */
  x;
  /** Why the last read failed: the cause of the error that follows. */
  failure;
  #memory; #numbers = new Map(); #texts = new Map();

  /** isWide: addresses have 64 bits. */
  constructor(memory, isWide) {
    this.#memory = memory;
    this.isWide = isWide;
  }
  get raw() { return this.#memory; }
  get size() { return this.#memory.buffer.byteLength; }

  /** A view, which is invalid once the memory has grown. */
  bytes(at, length) { return new Uint8Array(this.#memory.buffer, unsigned(at), length); }
  copy(at, length) { return this.bytes(at, length).slice(); }
  put(at, bytes) { this.bytes(at, bytes.length).set(bytes); }
  /** Calls write(target), which fills as many bytes. */
  fill(at, length, write) { write(this.bytes(at, length)); }
  /** A copy: a shared buffer cannot be decoded. */
  text(at, length) { return decoder.decode(this.copy(at, length)); }
  /** A string that ends in a zero byte. */
  string(at) {
    return this.text(at, this.bytes(at, Math.min(this.size - at, LONGEST)).indexOf(0));
  }
  numbers(at, n) { return [...new Int32Array(this.copy(at, 4 * n).buffer)]; }
  floats(at, n) { return new Float32Array(this.copy(at, 4 * n).buffer); }
  /** Where the module waits for a 32-bit word. */
  store(at, value) { Atomics.store(new Int32Array(this.#memory.buffer, at, 1), 0, value); }

  /** Returns fn(place), with room for size bytes at that place. */
  room(size, fn) {
    const at = unsigned(this.x.alloc(size));
    if (!at) throw new QsfError('MEMORY', `out of memory: ${size} bytes`);
    try {
      return fn(at);
    } finally {
      this.x.free(at, size);
    }
  }
  /** The same, with a copy of an array's bytes. */
  with(array, fn) {
    return this.room(array.byteLength || 1, at => {
      this.put(at, new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
      return fn(at);
    });
  }
  /** The same, with a list of sizes. */
  sizes(list, fn) {
    return this.with(this.isWide ? BigUint64Array.from(list, BigInt) : Uint32Array.from(list), fn);
  }
  /** The same, with a string that ends in a zero byte. */
  named(name, fn) { return this.with(encoded(`${name}\0`), fn); }

  /** What write(at, cap) writes, as read(at, n): it returns how many elements there are, of `size`
   * bytes, or minus a status of the handle. */
  filled(handle, size, cap, write, read) {
    for (let n, result; ; cap = n + 1) {
      result = this.room(size * cap, at => {
        n = write(at, cap);
        if (n < 0) this.check(-n, handle);
        return n < cap && {all: read(at, n)};
      });
      if (result) return result.all;
    }
  }
  /* A name's index, looked up once; names here are written kvHeads for kv-heads. */
  #index(known, name, isText) {
    let index = known.get(name);
    if (index === undefined) {
      const own = name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`);
      known.set(name, index = this.named(own, at => this.x.qsf_flat_find(at, isText)));
      if (index < 0) throw new Error(`the module has no ${own}`);
    }
    return index;
  }
  /** A handle's number, or its text; undefined: it is not set. */
  number(handle, name, i = 0) {
    return this.x.qsf_flat_number(handle, this.#index(this.#numbers, name, 0), i);
  }
  textOf(handle, name, i = 0) {
    const index = this.#index(this.#texts, name, 1);
    let found = true;
    const text = this.filled(handle, 1, 256, (at, cap) => {
      const n = this.x.qsf_flat_text(handle, index, i, at, cap);
      found = n >= 0;
      return found ? n : 0;
    }, (at, n) => this.text(at, n));
    return found ? text : undefined;
  }

  /** A status of a handle as an exception. */
  check(status, handle) {
    if (status === OK) return;
    const cause = status === E_IO ? this.failure : undefined;   // other calls may fail while a read has
    if (cause) this.failure = undefined;
    if (cause instanceof QsfError) throw cause;
    throw new QsfError(STATUS[status] ?? 'UNKNOWN', this.textOf(handle, 'error') || STATUS[status],
      cause && {cause});
  }
}
