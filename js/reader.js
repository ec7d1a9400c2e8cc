/* The reader's worker: brings bytes of the model file to where the engine wants them, while that computes.
 * SPDX-License-Identifier: MIT
 *
 * In: {op: 'open', from, options}, {op: 'memory', memory, ring}, {op: 'read', id, at, length, dst?, slot?}, {op: 'cancel', id}, {op: 'settle', resident},
 * {op: 'spoil'}, {op: 'close'}.  Out: {opened} or {error}; {id, bytes}, {id, done} or {id, error}; {progress}; {warning}; {spoiled}; {closed}.
 *
 * Where the engine's memory is shared, bytes go straight to it: a read names one of the ring's words, and the reader takes that before it writes, so that
 * a read that the engine gave up writes nothing any more. */
import {QsfError, pack} from './errors.js';
import {Download} from './download.js';
import {Store} from './store.js';

/** A word of the ring: what became of a read.  The last word counts the reads that are done; the engine waits for that. */
export const ASKED = 1, WRITING = 2, DONE = 0, GIVEN_UP = 3;
export const RING = 32;

/* A source: name, length; ready(at, length, signal), until readNow(at, target) may fill target or say by false that fetch(at, length, signal) has
 * to promise the bytes; close().  What knows no waiting has neither ready nor fetch. */
function blobSource(blob) {
  const source = {name: blob.name ?? 'blob', length: blob.size, close() {}};
  if (typeof FileReaderSync === 'undefined') {
    source.readNow = () => false;
    source.fetch = async (at, length) => new Uint8Array(await blob.slice(at, at + length).arrayBuffer());
  } else {
    const sync = new FileReaderSync();
    source.readNow = (at, target) => {
      target.set(new Uint8Array(sync.readAsArrayBuffer(blob.slice(at, at + target.length))));
      return true;
    };
  }
  return source;
}

/** host: post(message, transfer), openPath(path), backend() that promises what a Store takes */
export function serveReader(host) {
  let source, memory, ring;
  const reads = new Map();      // id -> AbortController
  const life = new AbortController();
  let loaded = 0, told = 0;

  const progress = n => {
    loaded = Math.min(loaded + n, source?.length ?? Infinity);
    if (performance.now() - told < 50 && loaded !== source?.length) return;
    told = performance.now();
    host.post({progress: {loaded, total: source?.length ?? 0, stored: source?.stored ?? 0}});
  };

  let opening;
  async function open({from, options: {cache = true, header, timeout}}) {
    if (from.path !== undefined) source = host.openPath(from.path);
    else if (from.blob) source = blobSource(from.blob);
    else {
      const warn = warning => host.post({warning});
      let store;
      if (cache) {
        try {
          store = new Store(await host.backend());
        } catch (error) {
          warn(`not stored: ${error.message}`);
        }
      }
      source = await Download.open(from.url, {store, how: cache, header, timeout, signal: life.signal, onBytes: progress, warn});
      host.post({progress: {loaded, total: source.length, stored: source.stored}});
    }
    host.post({opened: {name: source.name, length: source.length}});
  }

  /* Straight into the engine's memory, unless the read has been given up; write(target) says whether it did. */
  function deliver({slot, dst, length, state}, write) {
    if (Atomics.compareExchange(ring, slot, ASKED, WRITING) !== ASKED) return true;
    let done = false;
    try {
      done = write(new Uint8Array(memory.buffer, dst, length));
      if (done) Atomics.store(new Int32Array(memory.buffer), state >>> 2, 0);
      return done;
    } finally {
      Atomics.store(ring, slot, done ? DONE : ASKED);
      Atomics.notify(ring, slot);
    }
  }

  async function read(message) {
    const {id, at, length, slot} = message, controller = new AbortController();
    reads.set(id, controller);
    try {
      if (at + length > source.length) throw new QsfError('IO', `${source.name}: cannot read ${length} bytes at ${at}`);
      await source.ready?.(at, length, controller.signal);
      controller.signal.throwIfAborted();
      if (slot === undefined) {
        const bytes = new Uint8Array(length), here = source.readNow(at, bytes) ? bytes : await source.fetch(at, length, controller.signal);
        host.post({id, bytes: here}, [here.buffer]);
        return;
      }
      if (!deliver(message, target => source.readNow(at, target))) {
        const bytes = await source.fetch(at, length, controller.signal);
        deliver(message, target => { target.set(bytes); return true; });
      }
      Atomics.add(ring, RING, 1);
      Atomics.notify(ring, RING);
      host.post({id, done: true});
    } catch (error) {
      host.post({id, error: pack(error)});          // a read that was given up too: its word is free then
    } finally {
      reads.delete(id);
    }
  }

  const ops = {
    open: message => (opening = open(message)),
    memory: message => { ({memory, ring} = message); },
    read,
    cancel: ({id}) => reads.get(id)?.abort(),
    settle: how => source.settle?.(how),
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
