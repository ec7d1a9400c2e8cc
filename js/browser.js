/* The package's entry in browsers.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {loadIn} from './model.js';

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
    terminate() {
      worker.postMessage({op: 'end'});           // its threads and requests first; it dies with the page in any case
      return new Promise(resolve => setTimeout(() => { worker.terminate(); resolve(); }, 20));
    },
  };
}

function place(from) {
  if (typeof from === 'string' || from instanceof URL) return {url: new URL(from, document.baseURI).href};
  if (from instanceof Blob) return {blob: from};
  if (ArrayBuffer.isView(from)) return {bytes: new Uint8Array(from.buffer, from.byteOffset, from.byteLength)};
  if (from && Object.prototype.toString.call(from).endsWith('ArrayBuffer]')) return {bytes: new Uint8Array(from)};
  throw new QsfError('ARGUMENT', 'a model is loaded from a URL, a File, a Blob or a buffer');
}

/** @type {import('./index.d.ts').load} */
export async function load(from, options) {
  if (typeof from?.getFile === 'function') from = await from.getFile();        // a FileSystemFileHandle
  return loadIn(startWorker, place(from), options);
}
