/* The reader's worker: reads bytes of the model file into the engine's memory while the engine
 * computes.
 * SPDX-License-Identifier: MIT
 *
 * In: {op: 'open', from, options}, {op: 'memory', memory, ring}, {op: 'read', id, at, length, dst?,
 * slot?}, {op: 'cancel', id}, {op: 'settle', again, apart}, {op: 'back', buffer}, {op: 'spoil'},
 * {op: 'close'}. Out: {opened} or {error}; {id, bytes}, {id, done} or {id, error};
 * {settled: {error?}}; {progress}; {warning}; {spoiled}; {closed}.
 *
 * If the engine's memory is shared, bytes go straight to it: a read names one of the ring's words,
 * and the reader claims that before it writes, so that a read that the engine has given up writes
 * nothing any more. */
import {QsfError, pack} from './errors.js';
import {cacheUrl} from './cache_key.js';
import {Download} from './download.js';
import {callerFetch} from './fetching.js';
import {shown} from './http.js';
import {Store} from './store.js';
import {joinedSources} from './split.js';
import {reused} from './stream.js';

/** A word of the ring: the state of a read. The last word counts the finished reads; the engine
 * waits for it. */
export const ASKED = 1, WRITING = 2, GIVEN_UP = 3;
export const RING = 32;

const SPARE_LEAST = 64 << 10, SPARE_MS = 1000;
const SILENT_MS = 3000;         /* a wait for a server that is longer is a warning */

/* A source: name, length; ready(at, length, signal), after which readNow(at, target) may fill
 * target or return false: then fetch(at, length, signal, take) has to call take(part, offset) with
 * all bytes; close(). A source that never waits has neither ready nor fetch. */
function blobSource(blob) {
  const spare = [];
  return {
    name: blob.name ?? 'blob', length: blob.size, close() {},
    readNow: () => false,
    async fetch(at, length, signal, take) {
      const stream = reused(blob.slice(at, at + length).stream(), spare);
      let done = 0;
      for (let part; (part = await stream.read()); done += part.length) take(part, done);
      if (done !== length)
        throw new QsfError('IO', `${this.name}: ${done} of ${length} bytes at ${at} are there`);
    },
  };
}

/* Memory for bytes that are sent as messages, which is sent back: left to the garbage collector, it
 * would be a multiple of what is in use. */
class Spare {
  #buffers = []; #timer;
  take(length) {
    if (length < SPARE_LEAST) return new Uint8Array(length);
    const fits = this.#buffers.filter(b => b.byteLength >= length)
      .sort((a, b) => a.byteLength - b.byteLength)[0];
    // buffers that are too small are replaced by larger ones
    this.#buffers = this.#buffers.filter(b => b !== fits).slice(fits ? 0 : 1);
    return new Uint8Array(fits ?? length, 0, length);
  }
  put(buffer) {
    clearTimeout(this.#timer);
    if (buffer.byteLength >= SPARE_LEAST) this.#buffers.push(buffer);
    this.#timer = setTimeout(() => { this.#buffers = []; }, SPARE_MS);
  }
}

/** host: post(message, transfer), openPath(path), backend() that promises what a Store takes, sum()
 * if it has something faster than Sha256 */
export function serveReader(host) {
  let source, memory, ring;
  const reads = new Map();      // id -> AbortController
  const spare = new Spare();
  const life = new AbortController();
  let loaded = 0, told = 0;

  const progress = n => {
    loaded = Math.min(loaded + n, source?.length ?? Infinity);
    if (performance.now() - told < 50 && loaded !== source?.length) return;
    told = performance.now();
    host.post({progress: {loaded, total: source?.length ?? 0, stored: source?.stored ?? 0}});
  };

  /* Called when a server's response makes us wait before the next request. */
  const warned = new Set();
  function waiting({ms, reason}) {
    const {length: total = 0, stored = 0} = source ?? {};
    host.post({progress: {loaded, total, stored, waiting: {ms, reason}}});
    if (ms < SILENT_MS || warned.has(reason)) return;
    warned.add(reason);
    host.post({warning: `${reason}; asked again after ${Math.ceil(ms / 1000)} s`});
  }

  let opening;
  const joined = p => host.post({progress: {...p, stored: 0, joined: true}});
  async function openUrls({all, ports, url, ...rest}, {cache = true, ignoreQuery, ...options}) {
    const warn = warning => host.post({warning});
    let store;
    if (cache) {
      try {
        store = new Store(await host.backend());
      } catch (error) {
        warn(`not stored: ${error.message}`);
      }
    }
    const told = {signal: life.signal, onBytes: progress, onWait: waiting, joined, warn};
    const get = ports && callerFetch(ports[0]);
    const begun = (all ?? [{url, ...rest}]).map(part => Download.open(part.url, {store,
      key: cacheUrl(part.url, ignoreQuery), how: cache, get, sum: host.sum, headers: rest.headers,
      advice: rest.advice, ...part, ...options, ...told}));
    const settled = await Promise.allSettled(begun), failed = settled.find(({reason}) => reason);
    const parts = settled.map(({value}) => value);
    if (failed) await Promise.all(parts.map(part => part?.close()));
    if (failed) throw failed.reason;
    return parts.length > 1 ? joinedSources(parts, shown(url).replace(/\?\.\.\.$/, '')) : parts[0];
  }
  async function open({from, options}) {
    if (from.path !== undefined) {
      const parts = [];
      try {
        for (const {path} of from.all ?? [from]) parts.push(host.openPath(path));
      } catch (error) {
        for (const part of parts) part.close();
        throw error;
      }
      source = parts.length > 1 ? joinedSources(parts, from.path) : parts[0];
    } else if (from.blob) {
      source = blobSource(from.blob);
    } else {
      source = await openUrls(from, options);
      host.post({progress: {loaded, total: source.length, stored: source.stored}});
    }
    const {name, length, begins} = source;
    host.post({opened: {name, length, begins}});
  }

  /* What write(target) returns, target being the engine's memory, unless the read
   * has been given up. */
  function deliver({slot, dst, length}, write) {
    if (Atomics.compareExchange(ring, slot, ASKED, WRITING) !== ASKED)
      throw new QsfError('CANCELLED', 'given up');
    try {
      return write(new Uint8Array(memory.buffer, dst, length));
    } finally {
      Atomics.store(ring, slot, ASKED);
      Atomics.notify(ring, slot);
    }
  }

  async function read(message) {
    const {id, at, length, slot, state} = message, controller = new AbortController();
    reads.set(id, controller);
    try {
      if (at + length > source.length)
        throw new QsfError('IO', `${source.name}: cannot read ${length} bytes at ${at}`);
      await source.ready?.(at, length, controller.signal);
      controller.signal.throwIfAborted();
      const bytes = slot === undefined ? spare.take(length) : undefined;
      const fill = write => (bytes ? write(bytes) : deliver(message, write));
      if (!fill(target => source.readNow(at, target)))
        await source.fetch(at, length, controller.signal,
          (part, offset) => fill(target => target.set(part, offset)));
      if (bytes) return host.post({id, bytes}, [bytes.buffer]);
      fill(() => Atomics.store(new Int32Array(memory.buffer, state, 1), 0, 0));
      Atomics.add(ring, RING, 1);
      Atomics.notify(ring, RING);
      return host.post({id, done: true});
    } catch (error) {
      return host.post({id, error: pack(error)});   // a read that was given up too: its word is free then
    } finally {
      reads.delete(id);
    }
  }

  const ops = {
    open: message => (opening = open(message)),
    memory: message => { ({memory, ring} = message); },
    read,
    cancel: ({id}) => reads.get(id)?.abort(),
    back: ({buffer}) => spare.put(buffer),
    settle: async how => {
      try {
        await source.settle?.(how);
        host.post({settled: {}});
      } catch (error) {
        host.post({settled: {error: pack(error)}});
      }
    },
    spoil: async () => host.post({spoiled: await source.spoil?.() ?? false}),
    close: async () => {
      life.abort(new QsfError('CANCELLED', 'closed'));
      for (const controller of reads.values()) controller.abort();
      try {
        await opening?.catch(() => {});
        await source?.close();
      } finally {
        host.post({closed: true});
      }
    },
  };
  return async message => {
    try {
      await ops[message.op](message);
    } catch (error) {
      if (!life.signal.aborted) host.post({error: pack(error)});
    }
  };
}
