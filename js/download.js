/* A file behind a URL as a source of bytes: from the store, or fetched once from its beginning to its end, or by ranges.
 * SPDX-License-Identifier: MIT
 *
 * The first visit makes one request.  Its bytes go to the store as they come, and whoever asked for some of them has them as soon as they are here.
 * Where nothing can be stored they wait in memory until they have been read once; the request rests while too many wait.  A file that has to be read
 * again and again (layers stream) and cannot be stored is read by ranges instead. */
import {QsfError} from './errors.js';
import {Remote} from './http.js';

/* In memory, that nobody has read yet: where memory is no matter, inside a budget, and where only the description is wanted. */
const WAITING_BYTES = 64 << 20, FRUGAL_BYTES = 4 << 20, HEADER_BYTES = 256 << 10;

/* Bytes that came and were not read yet. */
class Parts {
  #parts = [];                  // {at, bytes, left}
  size = 0;

  add(at, bytes) {
    this.#parts.push({at, bytes, left: bytes.length});
    this.size += bytes.length;
  }
  /** false: not all of them are here any more. */
  read(at, target, forget) {
    const end = at + target.length, parts = this.#parts.filter(p => p.at < end && at < p.at + p.bytes.length);
    const overlap = p => Math.min(end, p.at + p.bytes.length) - Math.max(at, p.at);
    if (parts.reduce((n, p) => n + overlap(p), 0) !== target.length) return false;
    for (const p of parts) {
      const from = Math.max(at, p.at);
      target.set(p.bytes.subarray(from - p.at, from - p.at + overlap(p)), from - at);
      p.left -= overlap(p);
    }
    if (forget) this.forget();
    return true;
  }
  /** Leaves what is still to be read. */
  forget() {
    this.#parts = this.#parts.filter(p => p.left > 0);
    this.size = this.#parts.reduce((n, p) => n + p.bytes.length, 0);
  }
  clear() {
    this.#parts = [];
    this.size = 0;
  }
}

export class Download {
  name; length;
  stored = 0;                   // bytes that came from the store
  #remote; #entry; #signal; #warn; #onBytes;
  #at = 0;                      // bytes [0, at) have come
  #parts = new Parts();
  #partsFrom = 0;               // what is before is in the entry
  #waiting = new Set();         // {end, resolve, reject}
  #resume;                      // wakes a pump that rests
  #failure;
  #settled = false;             // the engine has told how it reads
  #limit;                       // bytes that may wait in memory; until the engine has told, what it reads may be read again, and waits on
  #ranges = false;

  constructor(url, {frugal, timeout, signal, onBytes, warn}) {
    this.#limit = frugal ? FRUGAL_BYTES : WAITING_BYTES;
    this.name = url;
    this.#signal = signal;
    this.#onBytes = onBytes;
    this.#warn = warn;
    this.#remote = new Remote(url, {timeout});
  }

  /** store: a Store, or undefined; how: true or 'reload'; header: only the description will be read; frugal: inside a budget.  Resolves when the file's length is known. */
  static async open(url, {store, how, header, frugal, timeout, signal, onBytes, warn}) {
    const self = new Download(url, {frugal, timeout, signal, onBytes, warn});
    let writer;
    if (store) {
      try {
        const entry = how === 'reload' ? undefined : await store.complete(url);
        if (entry) return self.#whole(entry);
        if (!header) writer = await store.incomplete(url, how === 'reload');
        if (writer?.complete) return self.#whole(writer.complete);
        if (!writer && !header) warn('not stored: it is being fetched by another page or process');
      } catch (error) {
        warn(`not stored: ${error.message}`);
      }
    }
    if (!header || !await self.#byRanges()) await self.#begin(store, writer, how);
    return self;
  }

  #whole(entry) {
    this.#entry = entry;
    this.#at = this.#partsFrom = this.length = this.stored = entry.length;
    this.#remote.known = entry.known;
    this.#onBytes(this.length);
    return this;
  }

  /* Nothing but what is asked for, where the server can. */
  async #byRanges() {
    const {ranges, ...known} = await this.#remote.head(this.#signal);
    if (!ranges || known.length === undefined) {
      this.#limit = HEADER_BYTES;
      return false;
    }
    this.#remote.known = known;
    this.length = known.length;
    this.#ranges = true;
    return true;
  }

  async #begin(store, writer, how) {
    let bytes, kept = how !== 'reload' && writer?.entry;
    if (kept) {
      this.#remote.known = kept.known;
      bytes = this.#remote.from(kept.stored, this.#signal);
      try {
        await bytes.next();
      } catch (error) {
        if (!error.changed) {
          kept.close();
          throw error;
        }
        kept = undefined;       // another file by now
      }
    }
    if (!kept) {
      this.#remote.known = undefined;
      bytes = this.#remote.from(0, this.#signal);
      try {
        await bytes.next();
      } catch (error) {
        await writer?.abandon();
        throw error;
      }
    }
    const {known} = this.#remote;
    if (kept) {
      this.#entry = kept;
      this.#at = this.#partsFrom = this.stored = kept.stored;
      this.#onBytes(kept.stored);
    } else if (writer) {
      this.#entry = await this.#newEntry(store, writer, known);
    }
    this.length = known.length;
    if (this.length === undefined) this.#limit = Infinity;
    const pumped = this.#pump(bytes);
    if (this.length === undefined) {            // a server that does not say: when all of it is here
      await pumped;
      if (this.#failure) throw this.#failure;
      this.length = this.#at;
    }
  }

  async #newEntry(store, writer, known) {
    try {
      if (known.length === undefined) throw new Error('the server does not say how long it is');
      if (await store.room() < known.length * 1.02 + (1 << 20)) throw new Error('there is no room for it');
      return writer.start(known);
    } catch (error) {
      this.#warn(`not stored: ${error.message}`);
      await writer.abandon().catch(() => {});
      return undefined;
    }
  }

  /* Takes the answer's parts to where they are kept, to the end. */
  async #pump(bytes) {
    try {
      for await (const part of bytes) {
        if (!part.length) continue;
        this.#keep(part);
        this.#onBytes(part.length);
        for (const w of this.#waiting) if (w.end <= this.#at) this.#answer(w);
        while (this.#parts.size > this.#limit && !this.#waiting.size && !this.#ranges) await new Promise(resolve => { this.#resume = resolve; });
        if (this.#ranges) return;
      }
    } catch (error) {
      this.#failure = error;
      for (const w of this.#waiting) this.#answer(w, error);
    }
  }
  #keep(part) {
    if (this.#entry && this.#partsFrom === this.#at) {
      try {
        this.#entry.append(part);
        this.#at = this.#partsFrom = this.#at + part.length;
        return;
      } catch (error) {
        this.#warn(`not stored: ${error.name === 'QuotaExceededError' ? 'there is no room for it' : error.message}`);
        this.#partsFrom = this.#at;             // what is stored serves this visit; nothing goes behind it
      }
    }
    this.#parts.add(this.#at, part);
    this.#at += part.length;
  }
  #answer(waiting, error) {
    this.#waiting.delete(waiting);
    if (error) waiting.reject(error);
    else waiting.resolve();
  }

  /* Whether all of it is stored, or will be. */
  get #keeps() { return !!this.#entry && this.#partsFrom === this.#at; }

  /** The engine tells whether it reads everything once, or layers again and again. */
  settle({resident}) {
    this.#settled = true;
    this.#parts.forget();
    if (resident || this.#keeps) return;
    this.#parts.clear();
    this.#toRanges();
  }
  #toRanges() {
    this.#ranges = true;
    for (const w of this.#waiting) this.#answer(w);
    this.#resume?.();
  }

  /** Until [at, at + length) is here, or readNow() cannot have it. */
  async ready(at, length, signal) {
    if (!this.#ranges && at + length > this.#at) await this.#arrival(at + length, signal);
  }
  #arrival(end, signal) {
    if (this.#failure) throw this.#failure;
    return new Promise((resolve, reject) => {
      const waiting = {end, resolve, reject};
      this.#waiting.add(waiting);
      signal?.addEventListener('abort', () => this.#answer(waiting, signal.reason), {once: true});
      this.#resume?.();
    });
  }
  /** false: fetch() has them. */
  readNow(at, target) {
    const inEntry = Math.max(0, Math.min(this.#partsFrom - at, target.length));
    try {
      if (inEntry) this.#entry.read(at, target.subarray(0, inEntry));
    } catch (error) {
      this.#warn(`what was stored is gone (${error.message}); fetched again`);
      return false;
    }
    if (inEntry === target.length) return true;
    const read = this.#parts.read(at + inEntry, target.subarray(inEntry), this.#settled);
    this.#resume?.();
    return read;
  }

  fetch(at, length, signal, take) { return this.#remote.range(at, length, signal, take); }

  /** What was read is not what it should be: the next load fetches it anew. */
  async spoil() {
    const entry = this.#entry;
    if (!entry) return false;
    this.#entry = undefined;
    this.#partsFrom = 0;
    this.#toRanges();
    await entry.drop();
    return true;
  }

  async close() {
    this.#toRanges();
    const entry = this.#entry;
    this.#entry = undefined;
    if (entry && this.#partsFrom < this.length && this.#partsFrom < this.#at) await entry.drop();     // there was no room for the rest
    else entry?.close();
  }
}
