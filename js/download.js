/* A file at a URL as a source of bytes: from the store, or fetched once from its beginning to its
 * end, or by ranges.
 * SPDX-License-Identifier: MIT
 *
 * The first visit makes one request. Its bytes go to the store as they arrive, and a read is
 * answered as soon as its bytes are here. If nothing can be stored, they wait in memory until they
 * have been read once, and the request pauses while too many wait. A file that has to be read again
 * and again (streamed layers) and cannot be stored is read by ranges instead (lanes.js). */
import {QsfError} from './errors.js';
import {Remote, difference, shown} from './http.js';
import {Lanes} from './lanes.js';
import {RangedSum} from './ranged_sum.js';
import {Sha256} from './sha256.js';

/* The most unread bytes in memory: without a budget, within one, and if only the file's description
 * is wanted. */
const WAITING_BYTES = 64 << 20, FRUGAL_BYTES = 4 << 20, HEADER_BYTES = 256 << 10;

/* The first bytes of every model file. Anything else is not stored, so that it is not there again
 * at the next visit. */
const MAGICS = ['QSF1', 'GGUF'];
/* Every fetch() restores what these compress. */
const DECODED = ['gzip', 'x-gzip', 'deflate', 'br'];

/* Bytes that came and were not read yet. */
class Parts {
  #parts = [];                  // {at, bytes, left: places [from, to) in bytes that are unread}
  size = 0;

  add(at, bytes) {
    this.#parts.push({at, bytes, left: [[0, bytes.length]]});
    this.size += bytes.length;
  }
  /** false: not all of them are here any more. */
  read(at, target) {
    const end = at + target.length, parts = this.#parts.filter(p => p.at < end && at < p.at + p.bytes.length);
    const overlap = p => Math.min(end, p.at + p.bytes.length) - Math.max(at, p.at);
    if (parts.reduce((n, p) => n + overlap(p), 0) !== target.length) return false;
    for (const p of parts) {
      const from = Math.max(at, p.at);
      target.set(p.bytes.subarray(from - p.at, from - p.at + overlap(p)), from - at);
    }
    return true;
  }
  /** [at, end) will not be read again. */
  forget(at, end) {
    for (const p of this.#parts) {
      const from = at - p.at, to = end - p.at;
      if (to <= 0 || from >= p.bytes.length) continue;
      const around = ([a, b]) => [[a, Math.min(b, from)], [Math.max(a, to), b]];
      p.left = p.left.flatMap(around).filter(([a, b]) => a < b);
    }
    this.#parts = this.#parts.filter(p => p.left.length);
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
  #remote; #lanes; #entry; #signal; #warn; #onBytes; #how;
  #at = 0;                      // bytes [0, at) have come
  #parts = new Parts();
  #partsFrom = 0;               // the bytes before this place are in the entry
  #waiting = new Set();         // {end, resolve, reject}
  #resume;                      // wakes a paused pump
  #failure;
  // place -> length of what was read before then; part of it is weights, so it stays
  #early = new Map();
  #settled = false;
  #budget;                      // bytes that a model may take; undefined: any
  #limit;                       // bytes that may wait in memory
  #ranges = false;
  #sha256; #expected; #sum;     // the hub's SHA-256 and length; the sum of bytes [0, at)
  #dropped;                     // an entry that is being deleted

  constructor(url, {how, memory, sha256, length, sum = () => new Sha256(), signal, onBytes, warn,
    ...requests}) {
    this.#budget = memory ? memory * 1e6 : undefined;
    this.#limit = memory ? FRUGAL_BYTES : WAITING_BYTES;
    this.#how = how;
    this.name = shown(url);
    this.#signal = signal;
    this.#onBytes = onBytes;
    this.#warn = warn;
    this.#sha256 = sha256;
    this.#expected = length;
    this.#sum = sum();
    this.#remote = new Remote(url, requests);
  }

  /**
   * store: a Store, or undefined; key: the URL that it knows the file by; joined: see Store; how:
   * load()'s cache; header: only the description will be read; memory: the budget in MB, 0 for
   * none; sha256, length: of the file, if they are known; sum(): what Sha256 is; further options
   * are Remote's. Resolves when the file's length is known.
   */
  static async open(url, {store, how, header, key = url, joined, ...options}) {
    const self = new Download(url, {how, ...options}), {signal, warn} = options;
    let writer;
    if (store) {
      try {
        const entry = how === 'reload' ? undefined : await store.complete(key, self.#sha256);
        if (entry) return self.#whole(entry);
        if (!header)
          writer = await store.incomplete(key, {anew: how === 'reload', sha256: self.#sha256, signal,
            joined});
        if (writer?.complete) return self.#whole(writer.complete);
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

  /* Only the requested range, if the server supports ranges. */
  async #byRanges() {
    const known = await this.#remote.head(this.#signal);
    if (!this.#remote.ranges || (known.length ??= this.#expected) === undefined) {
      this.#limit = HEADER_BYTES;
      return false;
    }
    this.#remote.known = known;
    this.length = known.length;
    this.#ranges = true;
    this.#lanes = new Lanes(this.#remote, this.length);
    this.#lanes.exact();
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
        this.#compare();
        if (this.#remote.known.length === undefined) await this.#askLength();
      } catch (error) {
        await writer?.abandon();
        throw error;
      }
    }
    this.length = this.#remote.known.length;
    this.#sha256 ??= this.#remote.sha256;
    if (!this.#sha256) this.#sum = undefined;
    if (kept) {
      await this.#addStored(kept);
      this.#entry = kept;
      this.#at = this.#partsFrom = this.stored = kept.stored;
      this.#onBytes(kept.stored);
    } else if (writer) {
      this.#entry = await this.#newEntry(store, writer);
    }
    const pumped = this.#pump(bytes);
    if (this.length !== undefined) return;
    await pumped;               // the file's end is its length
    if (this.#failure || !this.#at) {
      await this.#entry?.drop();
      this.#entry = undefined;
    }
    if (this.#failure) throw this.#failure;
    this.length = this.#at;
    if (this.#keeps) {
      this.#entry.finish();
      await this.#entry.share();
    }
    const {encoding} = this.#remote;
    if (encoding)
      this.#warn(`${this.name}: the server compresses it (${encoding}) and does not answer ranges, so it ` +
        'was taken whole before it was opened; model files are best sent uncompressed');
  }

  /* The length is the hub's, whatever a compressed response says. */
  #compare() {
    const {known, isDoubtful} = this.#remote, expected = this.#expected;
    if (expected && known.length && known.length !== expected && !isDoubtful)
      throw new QsfError('HTTP',
        `${this.name}: the server sends ${known.length} bytes, the hub lists ${expected}; load it again`);
    if (!expected) return;
    known.length = expected;
    this.#remote.isDoubtful = false;
  }
  async #addStored(entry) {
    const part = new Uint8Array(1 << 20);
    for (let at = 0; this.#sum && at < entry.stored; at += part.length) {
      const some = part.subarray(0, entry.stored - at);
      entry.read(at, some);
      this.#sum.update(some);
      if (at % (16 << 20) === 0) await new Promise(resolve => { setTimeout(resolve); });
    }
  }
  /* Readers get the last part only after all parts have been verified. */
  #verify() {
    const sum = this.#sum.digest();
    this.#sum = undefined;
    if (sum === this.#sha256) return;
    this.#dropped = this.#entry?.drop();
    this.#entry = undefined;
    throw this.#corrupt(`the SHA-256 of what came is ${sum}, the hub's is ${this.#sha256}; ` +
      'nothing of it is kept: load it again');
  }

  /* A server that does not send the length with the file sends it with a range, or never. */
  async #askLength() {
    const {known} = this.#remote;
    try {
      const now = await this.#remote.head(this.#signal);
      if (!difference(known, now)) known.length = now.length;
    } catch {
      this.#signal.throwIfAborted();
    }
  }

  async #newEntry(store, writer) {
    try {
      const {length = 0} = this;
      if (this.length === 0) throw new Error('it is empty');
      await store.makeRoom(length);
      return writer.start({...this.#remote.known, length, sha256: this.#sha256});
    } catch (error) {
      this.#warn(`not stored: ${error.message}`);
      await writer.abandon().catch(() => {});
      return undefined;
    }
  }

  /* Stores the response's parts, up to its end. */
  async #pump(bytes) {
    try {
      for await (const part of bytes) {
        if (this.#ranges) return;               // ranges are read instead
        if (!part.length) continue;
        this.#sum?.update(part);
        if (this.#sum && this.#at + part.length === this.length) this.#verify();
        this.#keep(part);
        this.#onBytes(part.length);
        for (const w of this.#waiting) if (w.end <= this.#at) this.#answer(w);
        const unknown = this.length === undefined;
        if (unknown && this.#parts.size > this.#budget)
          throw this.#refusal('the server does not say how long it is');
        while (!unknown && this.#parts.size > this.#limit && !this.#waiting.size && !this.#ranges)
          await new Promise(resolve => { this.#resume = resolve; });
        if (this.#ranges) return;
      }
      if (this.#at < this.length) this.#shorter();
      await this.#entry?.share();
    } catch (error) {
      this.#failure = error;
      for (const w of this.#waiting) this.#answer(w, error);
    }
  }
  /* The response ended as it should: it was compressed, and the file is shorter than that. */
  #shorter() {
    if (this.#keeps) this.#entry.finish();
    throw this.#corrupt(`ends at byte ${this.#at}; it has been cut short`);
  }
  #corrupt(what) {
    return Object.assign(new QsfError('CORRUPT', `${this.name}: ${what}`), {changed: true});
  }
  #keep(part) {
    if (!this.#at && !MAGICS.includes(String.fromCharCode(...part.subarray(0, 4)))) {
      const {encoding} = this.#remote;
      if (encoding && !DECODED.includes(encoding))
        throw new QsfError('HTTP', `${this.name}: the server compresses it (${encoding}), which is not ` +
          'decoded here; send model files uncompressed');
      if (part.length >= 4) {
        this.#dropped = this.#entry?.drop();
        this.#entry = undefined;
      }
    }
    /* More than a compressed response's length: the model does not open, and is loaded again. */
    if (this.#remote.isDoubtful) part = part.subarray(0, this.length - this.#at);
    if (!part.length) return;
    if (this.#entry && this.#partsFrom === this.#at) {
      try {
        this.#entry.append(part);
        this.#at = this.#partsFrom = this.#at + part.length;
        return;
      } catch (error) {
        this.#warn(
          `not stored: ${error.name === 'QuotaExceededError' ? 'not enough space is left' : error.message}`);
        this.#partsFrom = this.#at;             // the stored bytes serve this visit; none are added
        this.#entry.giveUp();
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

  /* Whether the whole file is stored, or will be. */
  get #keeps() { return !!this.#entry && this.#partsFrom === this.#at; }

  /** The engine reports whether it will read the same bytes again and again, and some apart from
   * others. Rejects if it cannot. */
  async settle({again, apart}) {
    this.#settled = true;
    if (apart) (this.#lanes ??= new Lanes(this.#remote, this.length)).exact();
    for (const length of this.#early.values()) this.#limit += length;
    if (!again || this.#keeps || this.#ranges) return;
    if (this.#remote.ranges === undefined) await this.#remote.head(this.#signal);
    if (!this.#remote.ranges) throw this.#refusal('the server does not answer ranges');
    this.#parts.clear();
    this.#toRanges();
    if (!this.#sum) return;
    if (apart)
      this.#warn(`${this.name}: not compared with the hub's SHA-256, since its experts are read by ranges; ` +
        'a cached file, or one that memory holds, is');
    else this.#sumRanges();
  }
  /* Bytes are computed with before their sum is known; a wrong one ends all reads. */
  #sumRanges() {
    const sum = new RangedSum(this.#sum, {at: this.#at, length: this.length,
      fetch: (from, to) => this.#remote.range(from, to, this.#signal),
      done: digest => this.#compareSum(digest)});
    this.#lanes ??= new Lanes(this.#remote, this.length);
    this.#lanes.heard = (at, bytes) => sum.take(at, bytes);
    this.#sum = undefined;
  }
  #compareSum(sum) {
    if (sum === this.#sha256) return;
    this.#dropped = this.#entry?.drop();
    this.#entry = undefined;
    this.#failure = this.#corrupt(`the SHA-256 of what came is ${sum}, the hub's is ${this.#sha256}; ` +
      'answers so far may be wrong: load it again');
    this.#lanes?.close(this.#failure);
  }
  #refusal(why) {
    const never = this.#how === false, unkept = never ? 'cache: false keeps no file'
      : 'the file could not be stored';
    return new QsfError('HTTP',
      `${this.name}: memory: ${this.#budget / 1e6} does not hold the model; its layers would be read ` +
      `from the file again and again, but ${why}, and ${unkept}; raise ` +
      `memory${never ? ', leave out cache: false' : ''}, ` +
      'or take it from a server with ranges');
  }
  #toRanges() {
    this.#ranges = true;
    for (const w of this.#waiting) this.#answer(w);
    this.#resume?.();
  }

  /** Until [at, at + length) is here, or readNow() cannot have it. */
  async ready(at, length, signal) {
    if (this.#failure?.code === 'CORRUPT') throw this.#failure;
    if (!this.#ranges && at + length > this.#at) await this.#arrival(at + length, signal);
  }
  #arrival(end, signal) {
    if (this.#failure?.changed) throw this.#failure;
    if (this.#failure) {        // the server may be there again
      this.#failure = undefined;
      void this.#pump(this.#remote.from(this.#at, this.#signal));
    }
    return new Promise((resolve, reject) => {
      const waiting = {end, resolve, reject};
      this.#waiting.add(waiting);
      signal?.addEventListener('abort', () => this.#answer(waiting, signal.reason), {once: true});
      this.#resume?.();
    });
  }
  /** false: use fetch() for them. */
  readNow(at, target) {
    const inEntry = Math.max(0, Math.min(this.#partsFrom - at, target.length));
    try {
      if (inEntry) this.#entry.read(at, target.subarray(0, inEntry));
    } catch (error) {
      this.#warn(`the stored file is gone (${error.message}); it is downloaded again`);
      return false;
    }
    if (inEntry === target.length) return true;
    const found = this.#parts.read(at + inEntry, target.subarray(inEntry));
    if (this.#settled) this.#parts.forget(at, at + target.length);
    else this.#early.set(at, target.length);
    this.#resume?.();
    return found;
  }

  /** Bytes that are not here any more. If the server has no ranges, they
   * come with the whole file. */
  async fetch(at, length, signal, take) {
    if (this.#remote.ranges === undefined) await this.#remote.head(this.#signal);
    this.#lanes ??= new Lanes(this.#remote, this.length);
    if (!this.#remote.ranges) this.#lanes.whole();
    return this.#lanes.read(at, length, signal, take);
  }

  /** What was read is damaged: the next read requests it again, the next load fetches stored data
   * anew. Promises what loading it again has to change: 'reload' if some was stored before,
   * 'asRange' if the length may be that of a compressed response; otherwise whether anything is
   * stored. */
  async spoil() {
    const entry = this.#entry;
    const how = this.#remote.isDoubtful ? 'asRange' : this.stored ? 'reload' : !!entry;
    this.#lanes?.close();
    if (!entry) return how;
    this.#entry = undefined;
    this.#partsFrom = 0;
    this.#toRanges();
    await entry.drop();
    return how;
  }

  async close() {
    this.#toRanges();
    this.#lanes?.close();
    const entry = this.#entry;
    this.#entry = undefined;
    // the rest did not fit
    if (entry && this.#partsFrom < this.length && this.#partsFrom < this.#at) await entry.drop();
    else entry?.close();
    await this.#dropped;
  }
}
