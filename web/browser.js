/* The package's entry in browsers.
 * SPDX-License-Identifier: MIT */
import {QsfError, refuse} from '../js/errors.js';
import {estimateIn, loadIn} from '../js/model.js';
import {lateCache, requested} from '../js/requests.js';
import {opfs} from './opfs.js';
import {addressed} from '../js/paths.js';
import {notLoaded} from '../js/peers.js';

export {QsfError} from '../js/errors.js';

/* Written out, so that bundlers see the file. */
const ownWorker = () => new Worker(new URL('./worker-web.js', import.meta.url),
  {type: 'module', name: 'qsf'});
/* The same address in a form that bundlers do not replace; undefined if one has replaced
 * import.meta.url. */
const here = String(import.meta.url).replace(/[?#].*/, '');
const beside = /^https?:/.test(here) ? new URL('worker-web.js', here).href : undefined;

const isForeign = address => /^https?:/.test(address) && new URL(address).origin !== self.origin;
const blobs = new Map();        // address -> blob:

/* A worker's script has to be of the page's own origin; what it imports need not, if its server
 * allows it (CORS). */
function foreignWorker(address) {
  const script = new Blob([`import ${JSON.stringify(address)};`], {type: 'text/javascript'});
  if (!blobs.has(address)) blobs.set(address, URL.createObjectURL(script));
  return new Worker(blobs.get(address), {type: 'module', name: 'qsf'});
}

/* Starts worker-web.js, from address or from the folder of this file. */
function startScript(address) {
  const where = address ?? beside ?? 'its place in the bundle', foreign = isForeign(where);
  const advice = 'the option workerUrl says where worker-web.js is (docs/bundlers.md)';
  const fail = (why, cause) => new QsfError('WORKER', `no worker from ${where}: ${why}; ${advice}`, {cause});
  let worker;
  try {
    if (foreign) worker = foreignWorker(where);
    else worker = address ? new Worker(address, {type: 'module', name: 'qsf'}) : ownWorker();
  } catch (error) {
    throw fail(error.message, error);
  }
  return {
    post: (message, transfer) => worker.postMessage(message, transfer),
    onMessage(fn) { worker.onmessage = event => fn(event.data); },
    onFailure(fn) {
      /* A script that could not be loaded is reported by an event without a message. */
      const far = '; it is of another origin: that server has to allow CORS, ' +
        "this page's policy worker-src blob:";
      const unread = fail(`its script could not be loaded${foreign ? far : ''}`);
      worker.onerror = event => fn(event.message ? new Error(event.message) : unread);
      worker.onmessageerror = () => fn(new Error('a message could not be read'));
    },
    terminate: () => worker.terminate(),
  };
}

/* Where the engine runs: in a worker, else in this thread unless it belongs to a page. */
async function startEngine({workerUrl, wasmPaths}) {
  if (typeof Worker !== 'undefined') return startScript(workerUrl);
  if (typeof SharedWorkerGlobalScope === 'undefined')
    throw new QsfError('UNSUPPORTED', 'no worker can be started here (a service worker is ended while it ' +
      'computes): load the model in a page, a worker or a shared worker');
  return (await import('./local.js')).startHere(wasmPaths);
}

const absolute = url => new URL(url, globalThis.document?.baseURI ?? location.href).href;

function address(from) {
  let url;
  try {
    url = absolute(from);
  } catch (cause) {
    throw new QsfError('ARGUMENT', `"${from}" is not a complete address`, {cause});
  }
  if (/^file:/i.test(url) && !/^file:/i.test(location.href))
    throw new QsfError('ARGUMENT', `a page cannot read ${url}: give load() a File that the user has chosen`);
  return url;
}

function place(from) {
  if (typeof from === 'string' || from instanceof URL) return {url: address(from)};
  if (from instanceof Blob) return {blob: from};
  if (ArrayBuffer.isView(from)) return {bytes: new Uint8Array(from.buffer, from.byteOffset, from.byteLength)};
  if (from && Object.prototype.toString.call(from).endsWith('ArrayBuffer]'))
    return {bytes: new Uint8Array(from)};
  return refuse(notLoaded(from, 'a URL, a File, a Blob or a buffer'));
}

/** @type {import('../js/index.d.ts').cache} */
export const cache = lateCache(opfs, absolute);
// a FileSystemFileHandle
const file = async from => (typeof from?.getFile === 'function' ? from.getFile() : from);

async function begin(how, from, options) {
  const all = addressed(options, absolute);
  if (all?.gpu !== undefined)
    throw new QsfError('ARGUMENT', 'gpu is for Node.js: here the engine takes navigator.gpu');
  const start = () => startEngine(all);
  const estimated = (where, {onProgress, ...others}) => estimateIn(start, where, others);
  const {options: rest, place: placed, estimate: ofHub} = requested(all,
    async given => place(await file(given)), {deviceBytes: (navigator.deviceMemory ?? 4) * 5e8,
      estimate: estimated, cache});
  return (how === estimateIn && await ofHub?.(from)) || how(start, from, rest, placed);
}
/** @type {import('../js/index.d.ts').load} */
export const load = (from, options) => begin(loadIn, from, options);
/** @type {import('../js/index.d.ts').estimate} */
export const estimate = (from, options) => begin(estimateIn, from, options);
