/* The package's entry in Node.js.
 * SPDX-License-Identifier: MIT */
import {existsSync} from 'node:fs';
import {createRequire} from 'node:module';
import {homedir, totalmem} from 'node:os';
import {resolve} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {Worker} from 'node:worker_threads';
import {installed} from './addons.js';
import {QsfError, refuse} from './errors.js';
import {folder} from './folder.js';
import {Hurry} from './hurry.js';
import {estimateIn, loadIn} from './model.js';
import {lateCache, requested} from './requests.js';
import {addressed} from './paths.js';
import {notLoaded} from './peers.js';

export {QsfError} from './errors.js';

/* A GPU object cannot go to a worker: the engine runs in its thread. */
async function startHere(options) {
  const [{joined}, {nodeHost}, {serve}] = await Promise.all([import('./joined.js'), import('./node_host.js'),
    import('./serve.js')]);
  return joined(post => serve({...nodeHost(options), post, mayNotBlock: true}));
}

/* The paths of the native engine, and whether it is required; undefined: WebAssembly computes.
 * What only a module understands asks for one. */
function nativePaths({backend, device, gpu, wasmPaths, relaxed}) {
  const asked = backend ?? (process.env.QSF_BACKEND || undefined);
  if (asked === 'native') return {paths: installed(), must: true};
  const isForModules = device === 'gpu' || [gpu, wasmPaths, relaxed].some(given => given !== undefined);
  const paths = asked === 'wasm' || isForModules ? [] : installed();
  return paths.length ? {paths, must: false} : undefined;
}

function startWorker({workerUrl, wasmPaths, gpu, ...options}) {
  if (gpu !== undefined && typeof gpu !== 'string') return startHere({wasmPaths, gpu});
  const native = nativePaths({gpu, wasmPaths, ...options});
  const script = workerUrl ? new URL(workerUrl) : new URL('./worker-node.js', import.meta.url);
  const hurry = new Hurry(), {counts} = hurry;
  const worker = new Worker(script, {execArgv: [], workerData: {wasmPaths, gpu, native, counts}});
  const send = (message, transfer) => {
    hurry.sent(message);
    worker.postMessage(message, transfer);
  };
  let ended = false;
  // a model that was forgotten does not keep the process; calls below do while they wait
  worker.unref();
  let waiting = 0;
  // Dawn aborts a process that ends while a GPU works: what was not disposed of ends now
  const last = () => {
    worker.ref();
    send({op: 'end'});
  };
  if (gpu !== undefined) process.once('beforeExit', last);
  return {
    post(message, transfer) {
      if (message.id && !waiting++) worker.ref();
      if (message.op === 'generate' && !waiting++) worker.ref();
      send(message, transfer);
    },
    onMessage(fn) {
      worker.on('message', m => {
        const over = m.turn === undefined ? m.id !== undefined : m.done !== undefined || m.error;
        // not after terminate(): its caller waits for the exit
        if (over && --waiting <= 0 && !ended) { waiting = 0; worker.unref(); }
        if (m.ended) worker.unref();
        fn(m);
      });
    },
    onFailure(fn) {
      worker.on('error', fn);
      worker.on('exit', code => { if (!ended) fn(new Error(`exit code ${code}`)); });
    },
    async terminate() {
      ended = true;
      process.off('beforeExit', last);
      await worker.terminate();
    },
  };
}

/* A Blob that is a file of openAsBlob() cannot go to a worker. */
async function blobPlace(blob) {
  try {
    return {blob: structuredClone(blob)};
  } catch {
    return {bytes: new Uint8Array(await blob.arrayBuffer())};
  }
}

/* A path, or an address that has to be of a kind that can be read. */
function named(text) {
  if (!/^(https?|file):/i.test(text)) {
    const path = resolve(text.replace(/^~(?=$|[/\\])/, () => homedir()));    // fails for some users
    const isName = /^\w[\w.-]*(\/\w[\w.-]*)?(:[\w.-]+)?$/.test(text) && !/\.(gguf|qsf)$/i.test(text);
    if (isName && !existsSync(path))
      throw new QsfError('NOT_FOUND', `${path}: no such file; a model of a hub is hf:${
        text.includes('/') ? text : 'OWNER/REPO'}`);
    return {path};
  }
  const url = URL.canParse(text) ? new URL(text) : refuse(`"${text}" is not a complete address`);
  try {
    return url.protocol === 'file:' ? {path: fileURLToPath(url)} : {url: url.href};
  } catch (error) {
    return refuse(`"${text}" does not name a file: ${error.message}`);
  }
}

async function place(given) {
  // a FileSystemFileHandle
  const from = typeof given?.getFile === 'function' ? await given.getFile() : given;
  if (typeof from === 'string') return named(from);
  if (from instanceof URL) return from.protocol === 'file:' ? named(from.href) : {url: from.href};
  if (from instanceof Blob) return blobPlace(from);
  if (from instanceof ArrayBuffer || from instanceof SharedArrayBuffer) return {bytes: new Uint8Array(from)};
  if (ArrayBuffer.isView(from)) return {bytes: new Uint8Array(from.buffer, from.byteOffset, from.byteLength)};
  return refuse(notLoaded(from, 'a path, a URL, a Blob or a buffer'));
}

/** @type {import('./index.d.ts').cache} */
export const cache = lateCache(folder, url => new URL(url).href, process.env);

/* The drive letter of a Windows path is not a scheme. */
function absolute(text) {
  if (/^[a-z]{2,}:/i.test(text) && new URL(text).protocol !== 'file:')
    throw new QsfError('ARGUMENT', 'it must be a path or a file: URL');
  return (text.startsWith('file:') ? new URL(text) : pathToFileURL(text)).href;
}

/* The option gpu as a worker understands it: the address of a module. A package is looked for from
 * here and from the current folder: this one may be installed elsewhere (npx, npm -g, links). */
function gpuModule(given) {
  if (/^(\.|\/|file:|[a-z]:)|\.node$/i.test(given)) return absolute(given);
  const paths = [fileURLToPath(new URL('.', import.meta.url)), process.cwd()];
  try {
    return pathToFileURL(createRequire(import.meta.url).resolve(given, {paths})).href;
  } catch {
    return given;               // the worker's import says what is wrong
  }
}

async function begin(how, from, options) {
  const all = addressed(options, absolute), backend = process.env.QSF_BACKEND;
  if (backend && !['wasm', 'native'].includes(backend))
    refuse(`QSF_BACKEND is "${backend}"; it must be wasm or native`);
  if (typeof all?.gpu === 'string') all.gpu = gpuModule(all.gpu);
  const start = () => startWorker(all);
  const estimated = (where, {onProgress, ...others}) => estimateIn(start, where, others);
  const {options: rest, place: placed, estimate: ofHub} = requested(all, place, {env: process.env,
    deviceBytes: 0.7 * totalmem(), estimate: estimated, cache});
  return (how === estimateIn && await ofHub?.(from)) || how(start, from, rest, placed);
}
/** @type {import('./index.d.ts').load} */
export const load = (from, options) => begin(loadIn, from, options);
/** @type {import('./index.d.ts').estimate} */
export const estimate = (from, options) => begin(estimateIn, from, options);
