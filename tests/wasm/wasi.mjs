/* Runs a WASI program of this build: node wasi.mjs program.wasm arguments...  The whole file system is its preopened folder.
 * SPDX-License-Identifier: MIT */
import {readFile} from 'node:fs/promises';
import {WASI} from 'node:wasi';

const [file, ...args] = process.argv.slice(2);
const wasi = new WASI({version: 'preview1', args: [file, ...args], env: {...process.env, PWD: process.cwd()}, preopens: {'/': '/', '.': '.'}, returnOnExit: true});
const module = await WebAssembly.compile(await readFile(file));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance);
