/* What cache of index.d.ts does: lists, compares and removes what is cached. Loaded with its first
 * call.
 * SPDX-License-Identifier: MIT */
import {cacheUrl} from './cache_key.js';
import {QsfError, refuse, shown} from './errors.js';
import {Remote, difference} from './http.js';
import {isHubName} from './requests.js';
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

  /** Removes the kept bytes of url, or all of them and the trials; returns how many bytes were
   * freed. isOf(url): whether the file of that URL is meant; undefined: all files are. */
  async delete(url, isOf) {
    let freed = 0;
    for (const name of isOf ? [] : await this.#backend.names())
      if (name.endsWith(TRIAL)) await this.#backend.remove(name).catch(() => {});
    for (const {key, meta, size} of await this.#store.entries()) {
      if (isOf && (!meta || !isOf(cacheUrl(meta.url)))) continue;
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

  /** validate() of each file of a model's name: the first that is not current, or the last. */
  async validateAll(isOf, options) {
    const all = (await this.#store.entries()).filter(({meta}) => meta && isOf(cacheUrl(meta.url)));
    let said = {state: 'missing', message: 'nothing of it is kept'};
    for (const {meta: {url}} of all) {
      said = await this.validate(url, url, options);
      if (said.state !== 'current') return {...said, message: `${cacheUrl(url)}: ${said.message}`};
    }
    return said;
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

const named = async (name, options) => {
  const {start, has} = (await import('./hub.js')).cachedAt(String(name), options);
  return url => url.startsWith(start) && has(decodeURIComponent(url.slice(start.length)));
};
const authorized = (headers, env) => ({...(env.HF_TOKEN && {authorization: `Bearer ${env.HF_TOKEN}`}),
  ...headers});

/** The cache's public interface; key(url) is what load() uses for a URL; env: see hub.js. */
export function cacheOver(backend, key, env = {}) {
  const over = async () => new Cache(await backend());
  const resolve = given => {
    try {
      if (typeof given === 'string' || given instanceof URL) return key(given);
    } catch { /* refused like other values */ }
    return refuse(`${shown(given)} is not the address of a file, as list() gives it, or the name of a ` +
      'model (hf:OWNER/REPO)');
  };
  return {
    list: async () => (await over()).list(),
    async validate(url, {ignoreQuery, headers, hubUrl, ...options} = {}) {
      const own = headers && Object.fromEntries(new Headers(headers));
      if (isHubName(url))
        return (await over()).validateAll(await named(url, {hubUrl, env}), {...options,
          headers: authorized(own, env)});
      const full = resolve(url);
      return (await over()).validate(full, cacheUrl(full, ignoreQuery), {...options, headers: own});
    },
    async delete(url, {ignoreQuery, hubUrl} = {}) {
      if (url === undefined) return (await over()).delete();
      if (isHubName(url)) return (await over()).delete(String(url), await named(url, {hubUrl, env}));
      const one = cacheUrl(resolve(url), ignoreQuery);
      return (await over()).delete(one, other => other === one);
    },
    usage: async () => (await over()).usage(),
    limit: async megabytes => {
      if (typeof megabytes !== 'number' || !(megabytes >= 0))
        refuse(`the limit is ${shown(megabytes)}; it must be a number of megabytes`);
      await (await over()).limit(megabytes * 1e6);
    },
    persist: async () => (await backend()).persist(),
  };
}
