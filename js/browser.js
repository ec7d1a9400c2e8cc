/* The package's entry in browsers.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {estimateIn, loadIn} from './model.js';
import {opfs} from './opfs.js';
import {cacheOver} from './store.js';

export {QsfError} from './errors.js';

function startWorker() {
  const worker = new Worker(new URL('./worker-web.js', import.meta.url), {type: 'module'});
  return {
    post: message => worker.postMessage(message),
    onMessage(fn) { worker.onmessage = event => fn(event.data); },
    onFailure(fn) {
      worker.onerror = event => fn(new Error(event.message ?? 'its script could not be loaded'));
      worker.onmessageerror = () => fn(new Error('a message could not be read'));
    },
    terminate: () => worker.terminate(),
  };
}

const absolute = url => new URL(url, globalThis.document?.baseURI ?? location.href).href;

function place(from) {
  if (typeof from === 'string' || from instanceof URL) return {url: absolute(from)};
  if (from instanceof Blob) return {blob: from};
  if (ArrayBuffer.isView(from)) return {bytes: new Uint8Array(from.buffer, from.byteOffset, from.byteLength)};
  if (from && Object.prototype.toString.call(from).endsWith('ArrayBuffer]')) return {bytes: new Uint8Array(from)};
  throw new QsfError('ARGUMENT', 'a model is loaded from a URL, a File, a Blob or a buffer');
}

/** @type {import('./index.d.ts').cache} */
export const cache = cacheOver(opfs, absolute);
const file = async from => (typeof from?.getFile === 'function' ? from.getFile() : from);        // a FileSystemFileHandle

/** @type {import('./index.d.ts').load} */
export const load = async (from, options) => loadIn(startWorker, place(await file(from)), options);
/** @type {import('./index.d.ts').estimate} */
export const estimate = async (from, options) => estimateIn(startWorker, place(await file(from)), options);
