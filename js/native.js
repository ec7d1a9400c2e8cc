/* The native engine in Node.js: an addon (bindings/node) in place of a WebAssembly module, in the
 * engine's worker. It exports the same functions; addresses are those of its own blocks.
 * SPDX-License-Identifier: MIT */
import {createRequire} from 'node:module';
import {packages} from './addons.js';
import {QsfError} from './errors.js';
import {Memory} from './memory.js';
import {openPath} from './node_host.js';

const require = createRequire(import.meta.url);

class NativeMemory extends Memory {
  #addon; #isFile;
  /** Called during pieces(), which may be continued if it returns true. */
  meanwhile = () => false;
  constructor(addon, isFile) {
    super(undefined, true);
    this.#addon = addon;
    this.#isFile = isFile;
  }
  /** calls: see transport.js; watched: of a Hurry, if there is one */
  begin(calls, watched) {
    const x = this.x = this.#addon.engine({...calls, pieces: () => Number(this.meanwhile())});
    try {
      if (watched) x.watch(watched);
    } catch {
      // Bun may not tell shared memory from other: messages are then seen after 40 ms
    }
    x.works = () => true;                       // products are the processor's own
    x.qsf_flat_model_new = () => x.model(this.#isFile);
  }
  /** Frees everything. */
  end() { this.x.end(); }
  get size() { return undefined; }
  copy(at, length) {
    const bytes = new Uint8Array(length);
    this.x.get(at, bytes);
    return bytes;
  }
  put(at, bytes) { this.x.put(at, bytes); }
  fill(at, length, write) {
    const bytes = new Uint8Array(length);
    write(bytes);
    this.x.put(at, bytes);
  }
  string(text) { return text; }
  store(at, value) { this.x.store(at, value); }
}

/* A file that the engine reads itself. */
function fileSource({path, all = [{path}]}) {
  let length = 0;
  for (const part of all) {
    const file = openPath(part.path);
    length += file.length;
    file.close();
  }
  return {name: path, length, isFile: true, arrivals: 0, sleep() {}, async close() {}};
}

/** What serve() takes as host.native: of these paths the first that loads. */
export function nativeHost(paths) {
  let addon, failed;
  for (const path of paths) {
    try {
      addon ??= require(path);
    } catch (error) {
      failed ??= error;
    }
  }
  if (!addon)
    throw new QsfError('UNSUPPORTED', failed ? `the native backend does not load: ${failed.message}`
      : `the native backend is not installed: npm install ${packages()[0]}`, {cause: failed});
  return {
    gpu() {
      throw new QsfError('UNSUPPORTED', "the native backend computes on the CPU; backend: 'wasm' uses a GPU");
    },
    source: from => (from.path === undefined ? undefined : fileSource(from)),
    memory: source => new NativeMemory(addon, source.isFile === true),
  };
}
