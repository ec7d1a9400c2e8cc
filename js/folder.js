/* Where Node.js keeps files: a folder.  opfs.js says what the functions are.
 * SPDX-License-Identifier: MIT */
import {closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readFileSync, readSync, statSync,
  unlinkSync, writeSync, writeFileSync} from 'node:fs';
import {mkdir, readFile, readdir, rm, stat, statfs} from 'node:fs/promises';
import {homedir} from 'node:os';
import {join} from 'node:path';

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

/* Whether the process that wrote a lock is still there. */
function isHeld(path) {
  let pid;
  try {
    pid = Number(readFileSync(path, 'utf8'));
    if (!pid) return Date.now() - statSync(path).mtimeMs < 5000;       // being written
  } catch {
    return false;
  }
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
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
          writeFileSync(lock, String(process.pid), {flag: 'wx'});
          return () => { try { unlinkSync(lock); } catch { /* gone already */ } };
        } catch (error) {
          if (error.code !== 'EEXIST') throw error;
        }
        if (!isHeld(lock)) await rm(lock, {force: true});
        else if (performance.now() >= until) return undefined;
        else await new Promise(resolve => setTimeout(resolve, 100));
      }
    },
    async room() {
      const {bavail, bsize} = await statfs(path);
      return bavail * bsize;
    },
  };
}
