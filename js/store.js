/* Files that were fetched, kept for the next time: in the origin private file system (opfs.js) or
 * in a folder (folder.js).
 * SPDX-License-Identifier: MIT
 *
 * An entry is two files. KEY.meta says what KEY.data is: its URL, length and validators, and how
 * many of its bytes are here. It is written before the bytes, and again after bytes have reached
 * the disk: what it promises is there, whenever a page or a process ends. It has two places that
 * are written in turn, so that one of them is whole. */
import {QsfError} from './errors.js';
import {Remote, difference} from './http.js';

const VERSION = 1, PLACE = 8192, STEP = 16 << 20;
/* a reloaded page may find files that its predecessor is still closing */
const LEAVING_MS = 2000;
const encoder = new TextEncoder(), decoder = new TextDecoder();

/* FNV-1a: detects a place that was written in part. */
function checksum(bytes) {
  let h = 0x811c9dc5;
  for (const b of bytes) h = Math.imul(h ^ b, 0x01000193);
  return (h >>> 0).toString(16).padStart(8, '0');
}

/* A place's text: checksum, length, JSON. */
function writePlace(meta) {
  const json = encoder.encode(JSON.stringify(meta)),
    head = encoder.encode(`qsf-store ${VERSION} ${checksum(json)} ${json.length}\n`);
  if (head.length + json.length > PLACE) return undefined;
  const place = new Uint8Array(PLACE).fill(32);
  place.set(head);
  place.set(json, head.length);
  return place;
}
function readPlace(bytes) {
  const newline = bytes.subarray(0, 64).indexOf(10);
  const head = /^qsf-store (\d+) ([0-9a-f]{8}) (\d+)$/.exec(newline < 0 ? ''
    : decoder.decode(bytes.slice(0, newline)));
  if (!head || Number(head[1]) !== VERSION) return undefined;
  const json = bytes.slice(newline + 1, newline + 1 + Number(head[3]));
  if (checksum(json) !== head[2]) return undefined;
  const meta = JSON.parse(decoder.decode(json));
  const sound = typeof meta.url === 'string' && [meta.turn, meta.length, meta.stored, meta.fetched]
    .every(n => Number.isSafeInteger(n) && n >= 0) && meta.stored <= meta.length;
  return sound ? meta : undefined;
}
/** The newest valid record of KEY.meta; undefined if the file has none. */
function readMeta(bytes) {
  const places = [0, 1].map(i => bytes && readPlace(bytes.subarray(i * PLACE, (i + 1) * PLACE)))
    .filter(Boolean);
  return places.sort((a, b) => b.turn - a.turn)[0];
}

/** The end of the names of files that have a trial of a GPU (trials.js). */
export const TRIAL = '.trial';

export async function keyOf(url) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', encoder.encode(url)));
  return [...hash.subarray(0, 16)].map(b => b.toString(16).padStart(2, '0')).join('');
}

/** A file that is kept, open in a worker. */
class Entry {
  #store; #key; #meta; #metaFile; #data; #release; #unsaved = 0;

  constructor(store, key, meta, data, metaFile, release) {
    this.#store = store;
    this.#key = key;
    this.#meta = meta;
    this.#data = data;
    this.#metaFile = metaFile;
    this.#release = release;
  }
  get length() { return this.#meta.length; }
  get stored() { return this.#meta.stored + this.#unsaved; }
  get complete() { return this.#meta.stored === this.#meta.length; }
  get known() { return {length: this.#meta.length, etag: this.#meta.etag, modified: this.#meta.modified}; }

  read(at, target) {
    for (let done = 0; done < target.length;) {
      const n = this.#data.read(target.subarray(done), {at: at + done});
      if (!n) throw new QsfError('IO', `what was kept of ${this.#meta.url} is gone`);
      done += n;
    }
  }
  append(bytes) {
    for (let done = 0; done < bytes.length;) {
      const n = this.#data.write(done ? bytes.subarray(done) : bytes, {at: this.stored});
      // Chromium: -5 as unsigned, and no exception
      if (!(n > 0 && n <= bytes.length - done)) throw new QsfError('IO', 'not enough space is left for it');
      this.#unsaved += n;
      done += n;
    }
    if (this.#unsaved >= STEP || this.stored === this.length) this.#save();
  }
  #save() {
    this.#data.flush();
    this.#meta.stored += this.#unsaved;
    this.#unsaved = 0;
    this.#write();
  }
  #write() {
    this.#meta.turn++;
    this.#metaFile.write(writePlace(this.#meta), {at: PLACE * (this.#meta.turn % 2)});
    this.#metaFile.flush();
  }
  /** Completes a file that began without its length: until then an entry that holds more than its
   * length is invalid. */
  finish() {
    this.#meta.length = this.stored;
    this.#save();
  }
  /** Written before the first byte. */
  begin() {
    this.#data.truncate(0);
    this.#write();
  }
  /** Closes the entry, and flushes what was not flushed yet.  A second call does nothing. */
  close() {
    try {
      if (this.#unsaved) this.#save();
    } finally {
      this.#data?.close();
      this.#metaFile?.close();
      this.#data = this.#metaFile = undefined;
      this.#release?.();
    }
  }
  /** Closes and deletes the entry: its bytes are wrong, or the rest does not fit. */
  async drop() {
    this.#unsaved = 0;
    try {
      this.close();
    } finally {
      // another page reads it: that one will detect the damage, too
      await this.#store.remove(this.#key).catch(() => {});
    }
  }
}

export class Store {
  #backend;
  /** backend: see opfs.js */
  constructor(backend) { this.#backend = backend; }

  /** The entry of url, to read from, when it is complete; undefined else. Any number of
   * readers may have it. */
  async complete(url) {
    const key = await keyOf(url), meta = readMeta(await this.#backend.bytes(`${key}.meta`));
    if (!meta || meta.url !== url || meta.stored !== meta.length) return undefined;
    const data = await this.#backend.openToRead(`${key}.data`);
    if (data?.getSize() === meta.length) return new Entry(this, key, meta, data);
    data?.close();
    return undefined;
  }

  /**
   * The entry of url, to continue writing; undefined if another writer has it. start(known) makes
   * it anew, with no byte stored. It may be complete by now, unless `anew` is set.
   */
  async incomplete(url, anew) {
    const key = await keyOf(url), release = await this.#backend.lock(key, LEAVING_MS);
    if (!release) return undefined;
    let data, metaFile;
    try {
      const complete = anew ? undefined : await this.complete(url);
      if (complete) {
        release();
        return {complete};
      }
      const meta = readMeta(await this.#backend.bytes(`${key}.meta`));
      data = await this.#backend.openToWrite(`${key}.data`);
      metaFile = await this.#backend.openToWrite(`${key}.meta`);
      const usable = meta && meta.url === url && meta.stored < meta.length && (meta.etag || meta.modified)
        && data.getSize() >= meta.stored;
      const start = known => {
        const fresh = {url, ...known, stored: 0, turn: meta?.turn ?? 0, fetched: Date.now()};
        if (!writePlace({...fresh, turn: Number.MAX_SAFE_INTEGER}))
          throw new QsfError('IO', 'its URL is too long');
        const entry = new Entry(this, key, fresh, data, metaFile, release);
        entry.begin();
        return entry;
      };
      const abandon = async () => {
        data.close();
        metaFile.close();
        if (!usable) await this.remove(key);
        release();
      };
      return {entry: usable ? new Entry(this, key, meta, data, metaFile, release) : undefined,
        start, abandon};
    } catch (error) {
      data?.close();
      metaFile?.close();
      release();
      throw error;
    }
  }

  /** Bytes that may still be kept. */
  room() { return this.#backend.room(); }

  async remove(key) {
    await this.#backend.remove(`${key}.meta`);      // without it the rest is ignored
    await this.#backend.remove(`${key}.data`);
  }

  async #entries() {
    const names = await this.#backend.names(), entries = [];
    for (const name of names.filter(n => n.endsWith('.meta'))) {
      const key = name.slice(0, -5), meta = readMeta(await this.#backend.bytes(name)),
        size = await this.#backend.size(`${key}.data`);
      entries.push({key, meta, size: size ?? 0, sound: !!meta && (size ?? -1) >= meta.stored});
    }
    // bytes without a record: a page ended at the wrong moment
    const kept = new Set(entries.map(e => e.key));
    for (const name of names) {
      const key = name.replace(/\.data$/, '');
      if (key !== name && !kept.has(key))
        entries.push({key, size: await this.#backend.size(name) ?? 0, sound: false});
    }
    return entries;
  }

  async list() {
    return (await this.#entries()).filter(e => e.meta).map(({meta, sound}) => ({
      url: meta.url, length: meta.length, stored: sound ? meta.stored : 0,
      complete: sound && meta.stored === meta.length, etag: meta.etag, fetched: meta.fetched,
    }));
  }

  /** Removes the kept bytes of url, or of all, with trials; returns how many bytes are free now. */
  async delete(url) {
    let freed = 0;
    for (const name of url === undefined ? await this.#backend.names() : [])
      if (name.endsWith(TRIAL)) await this.#backend.remove(name).catch(() => {});
    for (const {key, meta, size} of await this.#entries()) {
      if (url !== undefined && meta?.url !== url) continue;
      const release = await this.#backend.lock(key);
      if (!release) {
        if (url !== undefined) throw new QsfError('BUSY', `${url} is being fetched, here or in another page`);
        continue;
      }
      try {
        await this.remove(key);
        freed += size;
      } catch (error) {
        if (url !== undefined)
          throw new QsfError('BUSY', `${url} is in use, here or in another page`, {cause: error});
      } finally {
        release();
      }
    }
    return freed;
  }

  /** Whether the whole file at url is kept, undamaged, and the same as the server's now. */
  async validate(url, {signal} = {}) {
    const say = (state, message) => ({state, message});
    const entry = (await this.#entries()).find(e => e.meta?.url === url);
    if (!entry) return say('missing', 'nothing of it is kept');
    if (!entry.sound) return say('damaged', 'bytes of it are gone; it will be fetched again');
    const {meta} = entry;
    try {
      const now = await new Remote(url).head(signal);
      const mark = difference(meta, now);
      if (mark)
        return say('changed', `the server has another file now: ${mark} ${now[mark]}, kept ${meta[mark]}`);
    } catch (error) {
      signal?.throwIfAborted();
      return say('unreachable', error.message);
    }
    if (meta.stored < meta.length)
      return say('partial',
        `${meta.stored} of ${meta.length} bytes are kept; the rest is fetched when it is loaded`);
    return say('current', 'it is what the server has');
  }
}

/** The store's public interface; resolve(url) is the key that load() uses for a URL. */
export function cacheOver(backend, resolve) {
  const store = async () => new Store(await backend());
  return {
    list: async () => (await store()).list(),
    validate: async (url, options) => (await store()).validate(resolve(url), options),
    delete: async url => (await store()).delete(url === undefined ? undefined : resolve(url)),
  };
}
