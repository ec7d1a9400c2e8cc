/* Space for files in the cache: the least recently used are removed, but none in use.
 * SPDX-License-Identifier: MIT
 *
 * When a file was used last, and the limit, are in names of empty files: any page or process can
 * set them, at any time, and no two can spoil them. */

export const LIMIT = 'limit-';
const STEP_MS = 60_000;

/** Makes the file BEGIN-VALUE the only one with that beginning. */
export const mark = async (backend, begin, value) => {
  const name = `${begin}${value}`;
  await backend.mark(name);
  for (const other of await backend.names())
    if (other.startsWith(begin) && other !== name) await backend.remove(other).catch(() => {});
};
const marked = (names, begin) =>
  Math.max(0, ...names.filter(name => name.startsWith(begin)).map(name =>
    Number(name.slice(begin.length)) || 0));

/** Records that the file with this key is used now. */
export async function touch(backend, key) {
  const begin = `${key}.used-`, now = Date.now();
  if (now - marked(await backend.names(), begin) < STEP_MS) return;
  await mark(backend, begin, now).catch(() => {});      // a cache that cannot be written to
}

export class Room {
  #backend; #store;

  constructor(backend, store) {
    this.#backend = backend;
    this.#store = store;
  }

  /** The limit in bytes. */
  async most() { return marked(await this.#backend.names(), LIMIT) || Infinity; }

  /** Removes files until this many more bytes fit. If removing all of them would not be enough,
   * none is removed. */
  async make(bytes, entries) {
    const names = await this.#backend.names(), limit = await this.most();
    let used = entries.reduce((sum, {size}) => sum + size, 0), free = await this.#backend.room();
    const spare = bytes && bytes * 1.02 + (1 << 20);
    const isEnough = freed => free + freed >= spare && used - freed + bytes <= limit;
    if (isEnough(0)) return;
    const begin = ({key, meta}) => marked(names, `${key}.used-`) || meta?.fetched || 0;
    const unused = [];
    try {
      for (const entry of entries) {
        const release = await this.#backend.unused(entry.key);
        if (release) unused.push({...entry, release});
      }
      unused.sort((a, b) => begin(a) - begin(b));
      if (bytes && !isEnough(unused.reduce((sum, {size}) => sum + size, 0)))
        throw new Error(bytes > limit ? `it is larger than the cache's limit of ${limit / 1e6} MB`
          : 'not enough space is left for it');
      for (const {key, size} of unused) {
        if (isEnough(0)) return;
        const release = await this.#backend.lock(key);
        if (!release) continue;                 // it is being fetched
        try {
          await this.#store.remove(key);
          free += size;
          used -= size;
        } catch { /* it is open */ }
        release();
      }
      if (bytes && !isEnough(0)) throw new Error('not enough space is left for it');
    } finally {
      for (const {release} of unused) release();
    }
  }
}
