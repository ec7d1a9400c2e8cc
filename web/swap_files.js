/* Files of a page for conversations that have left the engine's memory: a folder in the origin
 * private file system for each engine, which is deleted at its end, or by the next engine.
 * SPDX-License-Identifier: MIT */

const FOLDER = 'qsf-swap', lockOf = name => `qsf swap ${name}`;

/** What Swap takes; rejects if the browser has no such file system. */
export async function swapFiles() {
  const {storage, locks} = navigator, own = crypto.randomUUID();
  const all = await (await storage.getDirectory()).getDirectoryHandle(FOLDER, {create: true});
  let release;
  await new Promise((resolve, reject) => {
    locks.request(lockOf(own), () => {
      resolve();
      return new Promise(end => { release = end; });
    }).catch(reject);
  });
  for await (const name of all.keys())          // of engines that have crashed
    await locks.request(lockOf(name), {ifAvailable: true}, lock =>
      lock && all.removeEntry(name, {recursive: true}).catch(() => {}));
  const folder = await all.getDirectoryHandle(own, {create: true});
  return {
    async write(name, bytes) {
      const file = await (await folder.getFileHandle(name, {create: true})).createSyncAccessHandle();
      try {
        if (file.write(bytes) < bytes.length) throw new Error('the file system is full');
      } finally {
        file.close();
      }
    },
    read: async name =>
      new Uint8Array(await (await (await folder.getFileHandle(name)).getFile()).arrayBuffer()),
    remove: name => folder.removeEntry(name),
    async end() {
      await all.removeEntry(own, {recursive: true}).catch(() => {});
      release();
    },
  };
}
