/* Where conversations are kept: IndexedDB of this browser, or memory if it allows none.
 * SPDX-License-Identifier: MIT */
import {merge} from './thread.js';

const NAME = 'qsf conversations', STORE = 'conversations';

const settled = request => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

function openDatabase() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE, {keyPath: 'id'});
  return settled(request);
}

export class Archive {
  #opened; #memory = new Map(); #channel;

  /** changed() is called when another tab has changed something. */
  constructor(changed = () => {}) {
    try {
      this.#channel = new BroadcastChannel(NAME);
      this.#channel.onmessage = () => changed();
    } catch { /* one tab alone */ }
  }
  /** Whether conversations are still there after the page is closed. */
  get lasting() { return this.#database().then(Boolean); }

  #database() {
    this.#opened ??= (async () => {
      try {
        const database = await openDatabase();
        database.onversionchange = () => { database.close(); this.#opened = undefined; };
        return database;
      } catch {                 // a private window, or storage is turned off
        return undefined;
      }
    })();
    return this.#opened;
  }
  /* One transaction. act(store) returns the request whose result is wanted. */
  async #run(mode, act) {
    const database = await this.#database();
    if (!database) return undefined;
    const transaction = database.transaction(STORE, mode), result = await act(transaction.objectStore(STORE));
    if (mode === 'readwrite')
      await new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = () => reject(transaction.error);
      });
    return result;
  }
  #tell() { this.#channel?.postMessage('changed'); }

  /** All of them, newest first. */
  async all() {
    const found = await this.#run('readonly', store => settled(store.getAll())) ?? [...this.#memory.values()];
    return found.sort((a, b) => b.updated - a.updated);
  }
  async get(id) {
    return await this.#database() ? this.#run('readonly', store => settled(store.get(id)))
      : this.#memory.get(id);
  }
  /** What another tab has added meanwhile stays. tells: whether other tabs are told. */
  async put(conversation, tells = true) {
    const copy = structuredClone(conversation);         // answers grow meanwhile
    if (await this.#database())
      await this.#run('readwrite', async store => {
        store.put(merge(await settled(store.get(copy.id)), copy));
      });
    else this.#memory.set(copy.id, copy);
    if (tells) this.#tell();
  }
  async delete(id) {
    this.#memory.delete(id);
    await this.#run('readwrite', store => { store.delete(id); });
    this.#tell();
  }
}
