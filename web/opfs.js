/* Where a page keeps files: the origin private file system.  folder.js is the same for Node.js.
 * SPDX-License-Identifier: MIT
 *
 * names(), bytes(name), size(name), remove(name), mark(name), which makes an empty file, room(),
 * persist(); lock(key, ms) promises a function that ends it, or undefined if another holder keeps
 * it
 * that long; use(key) promises a function that ends the use, and unused(key) one that allows it
 * again, or undefined if it is in use; openToRead(name) and openToWrite(name) promise what
 * FileSystemSyncAccessHandle is: in workers only. */

const FOLDER = 'qsf', MOST = 1 << 20;       /* bytes read at once if each read is a new array */

const SHARED = {mode: 'readwrite-unsafe'};
const modes = () => typeof FileSystemSyncAccessHandle !== 'undefined'
  && 'mode' in FileSystemSyncAccessHandle.prototype;

/* Promises a function that ends the lock; undefined if it could not be had. */
function held(name, how) {
  if (!navigator.locks) return () => {};
  return new Promise((resolve, reject) => {
    navigator.locks.request(name, how, lock => {
      if (!lock) return resolve(undefined);
      return new Promise(release => resolve(release));
    }).catch(error => error.name === 'TimeoutError' || error.name === 'AbortError' ? resolve(undefined)
      : reject(error));
  });
}

/** Promises the backend; rejects if the browser has no such file system or denies it to this
 * page. */
export async function opfs() {
  if (!navigator.storage?.getDirectory) throw new Error('this browser has no file system for pages');
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, {create: true});
  const missing = error => { if (error.name !== 'NotFoundError') throw error; };
  const file = name => folder.getFileHandle(name).catch(missing);

  /* A Blob's bytes, if a handle that does not lock others out is not available. */
  const reader = blob => ({
    read(target, {at}) {
      const bytes = new Uint8Array(new FileReaderSync()
        .readAsArrayBuffer(blob.slice(at, at + Math.min(target.length, MOST))));
      target.set(bytes);
      return bytes.length;
    },
    getSize: () => blob.size,
    close() {},
  });

  return {
    async names() {
      const names = [];
      for await (const name of folder.keys()) names.push(name);
      return names;
    },
    async bytes(name) {
      const handle = await file(name);
      try {
        return handle && new Uint8Array(await (await handle.getFile()).arrayBuffer());
      } catch {
        return undefined;       // written at this moment by another page
      }
    },
    async size(name) { return (await (await file(name))?.getFile())?.size; },
    remove: name => folder.removeEntry(name).catch(missing),
    async openToRead(name) {
      const handle = await file(name);
      if (!handle) return undefined;
      /* Browsers that do not know modes open it for this page alone, and would keep others from
       * reading. */
      return modes() ? handle.createSyncAccessHandle(SHARED) : reader(await handle.getFile());
    },
    // only who has the lock writes; others read meanwhile
    openToWrite: async name => (await folder.getFileHandle(name, {create: true}))
      .createSyncAccessHandle(name.endsWith('.data') && modes() ? SHARED : undefined),
    mark: name => folder.getFileHandle(name, {create: true}),
    lock: (key, wait) => held(`qsf ${key}`, wait ? {signal: AbortSignal.timeout(wait)} : {ifAvailable: true}),
    use: key => held(`qsf use ${key}`, {mode: 'shared'}),
    unused: key => held(`qsf use ${key}`, {ifAvailable: true}),
    persist: async () => await navigator.storage.persist?.() ?? false,
    async room() {
      const {quota = Infinity, usage = 0} = await navigator.storage.estimate?.() ?? {};
      return quota - usage;
    },
  };
}
