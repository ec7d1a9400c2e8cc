/* Where Node.js keeps files: a folder.  opfs.js says what the functions are.
 * SPDX-License-Identifier: MIT */
import {closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readFileSync, readSync, statSync,
  unlinkSync, utimesSync, writeSync, writeFileSync} from 'node:fs';
import {mkdir, readFile, readdir, rm, stat, statfs, writeFile} from 'node:fs/promises';
import {homedir, hostname} from 'node:os';
import {join} from 'node:path';
import {threadId} from 'node:worker_threads';

/** $QSF_CACHE/urls, else in the system's folder for caches. */
export function cacheFolder(env = process.env) {
  const base = env.QSF_CACHE || join(env.XDG_CACHE_HOME || (process.platform === 'win32' && env.LOCALAPPDATA)
    || join(homedir(), '.cache'), 'qsf');
  return join(base, 'urls');
}

const handle = fd => ({
  read: (target, {at}) => readSync(fd, target, 0, Math.min(target.length, 1 << 30), at),
  write: (bytes, {at}) => writeSync(fd, bytes, 0, bytes.length, at),
  flush: () => fsyncSync(fd),
  truncate: n => ftruncateSync(fd, n),
  getSize: () => fstatSync(fd).size,
  close: () => closeSync(fd),
});

/* A lock is a file whose holder touches it from time to time: other machines, and containers that
 * see other processes, notice too when the holder has gone. */
const BEAT_MS = 2000, SILENT_MS = 20_000, TAKING_MS = 5000;
const OWN = `${process.pid} ${hostname()}`;
const held = new Set();
let timer, last = 0;

function beat() {
  const now = new Date();
  for (const path of held) try { utimesSync(path, now, now); } catch { /* gone already */ }
}
/* Makes the file, and keeps it alive until the returned function is called. */
function hold(path) {
  const own = `${OWN} ${threadId}.${last++}`;
  writeFileSync(path, own, {flag: 'wx'});
  held.add(path);
  timer ??= setInterval(beat, BEAT_MS).unref();
  return () => {
    if (!held.delete(path)) return;
    if (!held.size) timer = clearInterval(timer);
    try { if (readFileSync(path, 'utf8') === own) unlinkSync(path); } catch { /* gone already */ }
  };
}
function isHeld(path) {
  try {
    const [pid, host] = readFileSync(path, 'utf8').split(' ');
    if (Date.now() - statSync(path).mtimeMs > SILENT_MS) return false;
    return !pid || `${pid} ${host}` === OWN || host !== hostname() || process.kill(Number(pid), 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}
/* Removes a lock whose holder is gone. Only one process at a time may do that: another could remove
 * the lock that follows. */
function clear(lock) {
  const taking = `${lock}ing`;
  try {
    writeFileSync(taking, '', {flag: 'wx'});
  } catch {
    try {
      if (Date.now() - statSync(taking).mtimeMs > TAKING_MS) unlinkSync(taking);
    } catch { /* it ended */ }
    return;
  }
  try {
    if (!isHeld(lock)) unlinkSync(lock);
  } catch { /* gone already */ }
  unlinkSync(taking);
}

export async function folder(path = cacheFolder()) {
  await mkdir(path, {recursive: true});
  const missing = error => { if (error.code !== 'ENOENT') throw error; };
  const open = (name, flags) => {
    try {
      return handle(openSync(join(path, name), flags));
    } catch (error) {
      return missing(error);
    }
  };
  return {
    names: () => readdir(path),
    bytes: name => readFile(join(path, name)).catch(missing),
    size: async name => (await stat(join(path, name)).catch(missing))?.size,
    remove: name => rm(join(path, name), {force: true}),
    openToRead: async name => open(name, 'r'),
    async openToWrite(name) {
      return open(name, 'r+') ?? open(name, 'wx+');
    },
    async lock(key, wait = 0) {
      const lock = join(path, `${key}.lock`), until = performance.now() + wait;
      for (;;) {
        try {
          return hold(lock);
        } catch (error) {
          if (error.code !== 'EEXIST') throw error;
        }
        const isFree = !isHeld(lock);
        if (isFree) clear(lock);
        else if (performance.now() >= until) return undefined;
        await new Promise(resolve => setTimeout(resolve, isFree ? 10 : 100));
      }
    },
    async use(key) {
      try {
        return hold(join(path, `${key}.use-${process.pid}-${threadId}-${last++}`));
      } catch {
        return () => {};        // a folder that can only be read
      }
    },
    async unused(key) {
      const names = (await readdir(path)).filter(name => name.startsWith(`${key}.use-`));
      const all = names.map(name => join(path, name));
      if (all.some(isHeld)) return undefined;
      for (const left of all) await rm(left, {force: true});
      return () => {};
    },
    mark: name => writeFile(join(path, name), ''),
    persist: async () => true,
    async room() {
      const {bavail, bsize} = await statfs(path);
      return bavail * bsize;
    },
  };
}
