/* Files that were fetched, kept for the next time: in the origin private file system (opfs.js) or
 * in a folder (folder.js).
 * SPDX-License-Identifier: MIT
 *
 * An entry is two files. KEY.meta says what KEY.data is: its URL, length and validators, and how
 * many of its bytes are here. It is written before the bytes, and again after bytes have reached
 * the disk: what it promises is there, whenever a page or a process ends. It has two places that
 * are written in turn, so that one of them is whole. */
import {cacheUrl} from './cache_key.js';
import {QsfError, refuse, shown} from './errors.js';
import {Room, touch} from './room.js';
import {Remote, difference} from './http.js';

const VERSION = 1, PLACE = 8192, STEP = 16 << 20;
const JOINED_MS = 300;          /* between looks at a file that another page or process writes */
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

const isOf = (meta, url, sha256) =>
  !!meta && meta.url === url && (sha256 === undefined || meta.sha256 === sha256);

/** A file that is kept, open in a worker. */
class Entry {
  #store; #key; #meta; #metaFile; #data; #release; #leave; #unsaved = 0;

  /** release() ends the lock of who writes it, leave() the mark that it is in use. */
  constructor(store, {key, meta, data, leave, metaFile, release}) {
    this.#store = store;
    this.#key = key;
    this.#meta = meta;
    this.#data = data;
    this.#metaFile = metaFile;
    this.#release = release;
    this.#leave = leave;
  }
  get length() { return this.#meta.length; }
  get stored() { return this.#meta.stored + this.#unsaved; }
  get complete() { return !this.#unsaved && this.#meta.stored === this.#meta.length; }
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
  /** Nothing more will be written: those who wait for the file need not wait any longer. */
  giveUp() {
    this.#release?.();
    this.#release = undefined;
  }
  /** The file is complete: others may read it while this one does. */
  async share() {
    if (!this.#release || !this.complete) return;
    // some browsers have no handles that let others in
    const data = await this.#store.reader(this.#key).catch(() => {});
    this.#metaFile?.close();
    this.#metaFile = undefined;
    if (data && this.#data) {
      this.#data.close();
      this.#data = data;
    } else {
      data?.close();
    }
    this.giveUp();
  }
  #end() {
    try {
      if (this.#unsaved) this.#save();
    } finally {
      this.#data?.close();
      this.#metaFile?.close();
      this.#data = this.#metaFile = undefined;
      this.#leave?.();
      this.#leave = undefined;
    }
  }
  /** Closes the entry, and flushes what was not flushed yet.  A second call does nothing. */
  close() {
    try {
      this.#end();
    } finally {
      this.giveUp();
    }
  }
  /** Closes and deletes the entry: its bytes are wrong, or the rest does not fit. */
  async drop() {
    this.#unsaved = 0;
    this.#release ??= await this.#store.lock(this.#key);
    try {
      this.#end();
    } finally {
      // another page reads it: that one will detect the damage, too; or it writes what is missing
      if (this.#release) await this.#store.remove(this.#key).catch(() => {});
      this.giveUp();
    }
  }
}

export class Store {
  #backend;
  /** backend: see opfs.js */
  constructor(backend) { this.#backend = backend; }

  /** The entry of url, to read from, when it is complete; undefined else. Any number of
   * readers may have it. sha256: the file's, if it is known. */
  async complete(url, sha256) {
    const key = await keyOf(url), meta = readMeta(await this.#backend.bytes(`${key}.meta`));
    if (!isOf(meta, url, sha256) || meta.stored !== meta.length) return undefined;
    const leave = await this.#backend.use(key);
    let data;
    try {
      data = await this.reader(key);
      if (data?.getSize() === meta.length) {
        await touch(this.#backend, key);
        return new Entry(this, {key, meta, data, leave});
      }
    } catch (error) {
      leave();
      throw error;
    }
    data?.close();
    leave();
    return undefined;
  }

  /* The lock of who writes url; or the complete entry, if another writer has finished it. */
  async #turn(key, url, {anew, sha256, signal, joined}) {
    for (;;) {
      const release = await this.#backend.lock(key, JOINED_MS);
      // a reader's handle may be impossible while another page writes
      const complete = anew ? undefined : await this.complete(url, sha256).catch(() => {});
      if (complete) release?.();
      if (complete) return {complete};
      if (release) return {release};
      signal.throwIfAborted();
      const meta = readMeta(await this.#backend.bytes(`${key}.meta`));
      const size = await this.#backend.size(`${key}.data`).catch(() => {});
      if (meta) joined({loaded: Math.min(size ?? meta.stored, meta.length), total: meta.length});
    }
  }

  /**
   * The entry of url, to continue writing; start(known) makes it anew, with no byte stored. Or
   * {complete}, not if `anew` is set. While another writer has it, joined({loaded, total}) is
   * called.
   */
  async incomplete(url, {anew, sha256, signal, joined}) {
    const key = await keyOf(url);
    const {release, complete} = await this.#turn(key, url, {anew, sha256, signal, joined});
    if (complete) return {complete};
    let data, metaFile, leave;
    try {
      leave = await this.#backend.use(key);
      const meta = readMeta(await this.#backend.bytes(`${key}.meta`));
      data = await this.#backend.openToWrite(`${key}.data`);
      metaFile = await this.#backend.openToWrite(`${key}.meta`);
      const usable = isOf(meta, url, sha256) && meta.stored < meta.length && (meta.etag || meta.modified)
        && data.getSize() >= meta.stored;
      const start = known => {
        const fresh = {url, ...known, stored: 0, turn: meta?.turn ?? 0, fetched: Date.now()};
        if (!writePlace({...fresh, turn: Number.MAX_SAFE_INTEGER}))
          throw new QsfError('IO', 'its URL is too long');
        const entry = new Entry(this, {key, meta: fresh, data, leave, metaFile, release});
        entry.begin();
        return entry;
      };
      const abandon = async () => {
        data.close();
        metaFile.close();
        leave();
        if (!usable) await this.remove(key);
        release();
      };
      await touch(this.#backend, key);
      return {entry: usable ? new Entry(this, {key, meta, data, leave, metaFile, release}) : undefined,
        start, abandon};
    } catch (error) {
      data?.close();
      metaFile?.close();
      leave?.();
      release();
      throw error;
    }
  }
  lock(key) { return this.#backend.lock(key); }
  reader(key) { return this.#backend.openToRead(`${key}.data`); }

  /** Space for this many bytes more; others are removed for it. Throws if that is not enough. */
  async makeRoom(bytes) { await new Room(this.#backend, this).make(bytes, await this.entries()); }

  async remove(key) {
    await this.#backend.remove(`${key}.meta`);      // without it the rest is ignored
    await this.#backend.remove(`${key}.data`);
    for (const name of await this.#backend.names())
      if (name.startsWith(`${key}.used-`)) await this.#backend.remove(name);
  }

  async entries() {
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
    return (await this.entries()).filter(e => e.meta).map(({meta, sound}) => ({
      url: cacheUrl(meta.url), length: meta.length, stored: sound ? meta.stored : 0,
      complete: sound && meta.stored === meta.length, etag: meta.etag, fetched: meta.fetched,
    }));
  }

  /** Removes the kept bytes of url, or of all, with trials; returns how many bytes are free now. */
  async delete(url) {
    let freed = 0;
    for (const name of url === undefined ? await this.#backend.names() : [])
      if (name.endsWith(TRIAL)) await this.#backend.remove(name).catch(() => {});
    for (const {key, meta, size} of await this.entries()) {
      if (url !== undefined && (!meta || cacheUrl(meta.url) !== url)) continue;
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
  async validate(given, url, {signal, headers} = {}) {
    const say = (state, message) => ({state, message});
    const entry = (await this.entries()).find(e => e.meta?.url === url);
    if (!entry) return say('missing', 'nothing of it is kept');
    if (!entry.sound) return say('damaged', 'bytes of it are gone; it will be fetched again');
    const {meta} = entry;
    try {
      const now = await new Remote(given, {headers}).head(signal);
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
  const room = async () => new Room(await backend(), await store());
  return {
    list: async () => (await store()).list(),
    validate: async (url, {ignoreQuery, headers, ...options} = {}) => (await store()).validate(resolve(url),
      cacheUrl(resolve(url), ignoreQuery), {...options,
        headers: headers && Object.fromEntries(new Headers(headers))}),
    delete: async (url, {ignoreQuery} = {}) =>
      (await store()).delete(url === undefined ? undefined : cacheUrl(resolve(url), ignoreQuery)),
    usage: async () => (await room()).usage(await (await store()).entries()),
    limit: async megabytes => {
      if (typeof megabytes !== 'number' || !(megabytes >= 0))
        refuse(`the limit is ${shown(megabytes)}; it must be a number of megabytes`);
      await (await room()).limit(megabytes * 1e6, await (await store()).entries());
    },
    persist: async () => (await backend()).persist(),
  };
}

/** For hub.js: promises the URL of the newest complete file of the cache that begins with start and
 * whose rest is accepted. */
export const storedIn = cache => async (start, accepts = () => true) => {
  const all = await cache.list().catch(() => []);
  const found = all.filter(({url, complete}) => complete && url.startsWith(start)
    && accepts(url.slice(start.length)));
  return found.sort((a, b) => b.fetched - a.fetched)[0]?.url;
};
