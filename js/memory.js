/* A module's memory, for the files of the engine's worker: bytes and strings in it, and its
 * statuses as errors.
 * SPDX-License-Identifier: MIT */
import {E_IO, OK, QsfError, STATUS} from './errors.js';

const decoder = new TextDecoder('utf-8', {ignoreBOM: true});
const encoder = new TextEncoder();

/** A string as the module takes it. */
export const encoded = text => encoder.encode(text);

export class Memory {
  /** What the module exports, once it runs. */
  x;
  /** Why the last read failed: the cause of the error that follows. */
  failure;
  #memory;

  constructor(memory) { this.#memory = memory; }
  get raw() { return this.#memory; }
  get size() { return this.#memory.buffer.byteLength; }

  /** A view, which is invalid once the memory has grown. */
  bytes(at, length) { return new Uint8Array(this.#memory.buffer, at >>> 0, length); }
  /** Copies: a shared buffer cannot be decoded. */
  text(at, length) { return decoder.decode(this.bytes(at, length).slice()); }
  string(at) {
    if (!at) return undefined;
    const all = new Uint8Array(this.#memory.buffer);
    at >>>= 0;
    return decoder.decode(all.slice(at, all.indexOf(0, at)));
  }
  numbers(at, n) { return [...new Int32Array(this.#memory.buffer, at >>> 0, n)]; }
  /** Where the module waits for a 32-bit word. */
  store(at, value) { Atomics.store(new Int32Array(this.#memory.buffer), at >>> 2, value); }

  /** Returns fn(place), with room for size bytes at that place. */
  room(size, fn) {
    const at = this.x.alloc(size) >>> 0;
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
      this.bytes(at, array.byteLength).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
      return fn(at);
    });
  }
  /** The same, with a string that ends in a zero byte; 0 for no name. */
  named(name, fn) { return name ? this.with(encoded(`${name}\0`), fn) : fn(0); }

  /** A status as an exception; text() is the export that gives the message. */
  check(status, text = this.x.error) {
    if (status === OK) return;
    const cause = status === E_IO ? this.failure : undefined;   // other calls may fail while a read has
    if (cause) this.failure = undefined;
    if (cause instanceof QsfError) throw cause;
    throw new QsfError(STATUS[status] ?? 'UNKNOWN', this.string(text()) || STATUS[status], cause && {cause});
  }
}
