/* Runs a WASI program of this build: node wasi.mjs program.wasm arguments... Relative and absolute
 * paths are as for native programs.
 * SPDX-License-Identifier: MIT */
import {readFile, readdir} from 'node:fs/promises';
import {WASI} from 'node:wasi';

const [file, ...args] = process.argv.slice(2);
/* The root's folders instead of the root: the C library takes "/" and "." for the same. */
const folders = (await readdir('/', {withFileTypes: true}))
  .filter(e => e.isDirectory() && !['dev', 'proc', 'sys'].includes(e.name)).map(e => `/${e.name}`);
const wasi = new WASI({version: 'preview1', args: [file, ...args], env: process.env,
  preopens: Object.fromEntries(['.', ...folders].map(f => [f, f])), returnOnExit: true});
const module = await WebAssembly.compile(await readFile(file));

/* Node.js 20 crashes in its fast calls from WebAssembly into node:wasi; a function of JavaScript
 * between the two takes the slow way. */
class Exit extends Error { constructor(code) { super(`exit ${code}`); this.code = code; } }
const plain = Object.fromEntries(Object.entries(wasi.getImportObject().wasi_snapshot_preview1)
  .map(([name, fn]) => [name, (...a) => fn(...a)]));
plain.proc_exit = code => { throw new Exit(code); };

const instance = await WebAssembly.instantiate(module, {wasi_snapshot_preview1: plain});
try {
  process.exitCode = wasi.start(instance);
} catch (error) {
  if (!(error instanceof Exit)) throw error;
  process.exitCode = error.code;
}
