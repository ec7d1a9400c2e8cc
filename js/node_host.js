/* What the engine has in Node.js: files, modules, and workers for threads and for reading.
 * SPDX-License-Identifier: MIT */
import {closeSync, fstatSync, openSync, readSync} from 'node:fs';
import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {availableParallelism, tmpdir} from 'node:os';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {Worker} from 'node:worker_threads';
import {QsfError} from './errors.js';
import {folder} from './folder.js';
import {moduleAt} from './paths.js';

export function openPath(path) {
  let fd;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    throw new QsfError(error.code === 'ENOENT' ? 'NOT_FOUND' : 'IO',
      `${path}: ${error.code === 'ENOENT' ? 'no such file' : error.message}`, {cause: error});
  }
  const stat = fstatSync(fd);
  if (!stat.isFile()) {
    closeSync(fd);
    throw new QsfError('IO', `${path}: not a file`);
  }
  return {
    name: path, length: stat.size,
    readNow(at, target) {
      for (let done = 0; done < target.length;) {
        const n = readSync(fd, target, done, Math.min(target.length - done, 1 << 30), at + done);
        if (!n)
          throw new QsfError('IO',
            `${path}: cannot read ${target.length} bytes at ${at}; has it been cut short?`);
        done += n;
      }
      return true;
    },
    close() { closeSync(fd); },
  };
}

const SCRIPT = new URL('./worker-node.js', import.meta.url);

function startReader() {
  const worker = new Worker(SCRIPT, {workerData: {reader: true}, execArgv: []});
  worker.unref();
  return {
    post: (message, transfer) => worker.postMessage(message, transfer),
    onMessage: fn => worker.on('message', fn),
    onFailure(fn) {
      worker.on('error', fn);
      worker.on('exit', code => fn(new Error(`exit code ${code}`)));
    },
    terminate: () => void worker.terminate(),
  };
}

function startThread(init) {
  const worker = new Worker(SCRIPT, {workerData: {thread: init}, execArgv: []});
  worker.unref();
  return new Promise((resolve, reject) => {
    worker.once('message', () => resolve({terminate: () => void worker.terminate()}));
    worker.once('error', reject);
    worker.once('exit', code => reject(new QsfError('WORKER', `a thread ended with code ${code}`)));
  });
}

async function compile(variant, wasmPaths) {
  const url = new URL(moduleAt(variant, wasmPaths) ?? `./qsf-${variant}.wasm`, import.meta.url);
  const bytes = await readFile(url).catch(error => {
    const why = `${fileURLToPath(url)}: ${error.code ?? error.message}`;
    throw new QsfError('IO', `${why}; the option wasmPaths says where the .wasm files are`, {cause: error});
  });
  return WebAssembly.compile(bytes);
}

const taken = async given => (given.endsWith('.node') ? createRequire(import.meta.url)(fileURLToPath(given))
  : import(given));
/* A GPU object, or the module that makes one: npm's package webgpu, or Dawn itself. */
async function gpuOf(given) {
  if (!given && globalThis.navigator?.gpu) return navigator.gpu;        // Deno
  if (!given)
    throw new QsfError('UNSUPPORTED', 'Node.js has no WebGPU of its own; the option gpu gives it one');
  if (typeof given !== 'string') return given;
  const {create, globals} = await taken(given).catch(cause => {
    throw new QsfError('NOT_FOUND', `gpu: ${cause.message}`, {cause});
  });
  if (typeof create !== 'function') throw new QsfError('ARGUMENT', `gpu: ${given} has no function create()`);
  Object.assign(globalThis, globals);
  return create([]);
}

/* What Swap takes: a folder that is deleted at the end. */
async function swapFiles() {
  const folder = await mkdtemp(join(tmpdir(), 'qsf-')), path = name => join(folder, name);
  return {
    write: (name, bytes) => writeFile(path(name), bytes, {mode: 0o600}),
    read: async name => new Uint8Array(await readFile(path(name))),
    remove: name => rm(path(name)),
    end: () => rm(folder, {recursive: true, force: true}),
  };
}

/* The native engine; undefined: WebAssembly. native: {paths, must}, see node.js. */
async function nativeOf({paths, must}, warn) {
  const {nativeHost} = await import('./native.js');
  try {
    return nativeHost(paths);
  } catch (error) {
    if (must) throw error;
    warn(`${error.message}; WebAssembly computes`);
    return undefined;
  }
}

/** serve()'s host, except for post. */
export const nodeHost = ({wasmPaths, gpu, native} = {}) => ({
  native: native && (warn => nativeOf(native, warn)),
  startReader, startThread,
  compile: variant => compile(variant, wasmPaths),
  canShare: true,
  processors: availableParallelism(),
  gpu: () => gpuOf(gpu),
  swap: swapFiles,
  runtime: `${process.release.name} ${process.version}`,
  backend: folder,
});
