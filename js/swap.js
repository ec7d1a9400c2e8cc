/* Keeps conversations that have left the engine's memory: some megabytes here, the rest in files.
 * SPDX-License-Identifier: MIT */

const HERE = 16 << 20;

export class Swap {
  #files; #most; #here = new Map(); #bytes = 0; #next = 1; #backend;

  /** files() promises {write(name, bytes), read(name), remove(name), end()}; undefined: none are
   * possible here. most: bytes that stay here. */
  constructor(files, most = HERE) {
    this.#files = files;
    this.#most = most;
  }
  /** Promises what get() and drop() take; undefined: no room, and the bytes are lost. */
  async put(bytes) {
    const id = this.#next++;
    if (this.#bytes + bytes.length <= this.#most) {
      this.#here.set(id, bytes);
      this.#bytes += bytes.length;
      return id;
    }
    try {
      const backend = await (this.#backend ??= this.#files());
      await backend.write(String(id), bytes);
      return id;
    } catch {
      return undefined;
    }
  }
  async get(id) {
    try {
      return this.#here.get(id) ?? await (await this.#backend).read(String(id));
    } catch {
      return undefined;
    }
  }
  drop(id) {
    const bytes = this.#here.get(id);
    if (this.#here.delete(id)) this.#bytes -= bytes.length;
    else void this.#backend?.then(backend => backend.remove(String(id))).catch(() => {});
  }
  async end() {
    const backend = await this.#backend?.catch(() => {});
    await backend?.end();
  }
}
