/* What cache of index.d.ts does: lists, compares and removes what is cached. Loaded with its first
 * call.
 * SPDX-License-Identifier: MIT */
import {cacheUrl} from './cache_key.js';
import {QsfError, refuse, shown} from './errors.js';
import {Remote, difference} from './http.js';
import {LIMIT, Room, mark} from './room.js';
import {Store, TRIAL} from './store.js';

class Cache {
  #backend; #store;

  constructor(backend) {
    this.#backend = backend;
    this.#store = new Store(backend);
  }

  async list() {
    return (await this.#store.entries()).filter(e => e.meta).map(({meta, sound}) => ({
      url: cacheUrl(meta.url), length: meta.length, stored: sound ? meta.stored : 0,
      complete: sound && meta.stored === meta.length, etag: meta.etag, fetched: meta.fetched,
    }));
  }

  /** Removes the kept bytes of url, or of all, with trials; returns how many bytes are free now. */
  async delete(url) {
    let freed = 0;
    for (const name of url === undefined ? await this.#backend.names() : [])
      if (name.endsWith(TRIAL)) await this.#backend.remove(name).catch(() => {});
    for (const {key, meta, size} of await this.#store.entries()) {
      if (url !== undefined && (!meta || cacheUrl(meta.url) !== url)) continue;
      const release = await this.#backend.lock(key);
      if (!release) {
        if (url !== undefined) throw new QsfError('BUSY', `${url} is being fetched, here or in another page`);
        continue;
      }
      try {
        const allow = await this.#backend.unused(key);
        if (!allow) throw new Error('a model is loaded from it');
        await this.#store.remove(key).finally(allow);
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
    const entry = (await this.#store.entries()).find(e => e.meta?.url === url);
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

  async usage() {
    const all = await this.#store.entries(), used = all.reduce((sum, {size}) => sum + size, 0);
    const limit = await new Room(this.#backend, this.#store).most(), free = await this.#backend.room();
    return {used, limit, free: Math.max(0, Math.min(free, limit - used))};
  }
  async limit(bytes) {
    if (bytes === Infinity) {
      for (const name of await this.#backend.names())
        if (name.startsWith(LIMIT)) await this.#backend.remove(name);
      return;
    }
    await mark(this.#backend, LIMIT, Math.max(1, Math.floor(bytes)));
    // those in use stay
    await new Room(this.#backend, this.#store).make(0, await this.#store.entries()).catch(() => {});
  }
}

/** The cache's public interface; resolve(url) is the key that load() uses for a URL. */
export function cacheOver(backend, resolve) {
  const over = async () => new Cache(await backend());
  return {
    list: async () => (await over()).list(),
    validate: async (url, {ignoreQuery, headers, ...options} = {}) => (await over()).validate(resolve(url),
      cacheUrl(resolve(url), ignoreQuery), {...options,
        headers: headers && Object.fromEntries(new Headers(headers))}),
    delete: async (url, {ignoreQuery} = {}) =>
      (await over()).delete(url === undefined ? undefined : cacheUrl(resolve(url), ignoreQuery)),
    usage: async () => (await over()).usage(),
    limit: async megabytes => {
      if (typeof megabytes !== 'number' || !(megabytes >= 0))
        refuse(`the limit is ${shown(megabytes)}; it must be a number of megabytes`);
      await (await over()).limit(megabytes * 1e6);
    },
    persist: async () => (await backend()).persist(),
  };
}
