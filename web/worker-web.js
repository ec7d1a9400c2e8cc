/* The engine's worker, its threads and its reader in browsers.
 * SPDX-License-Identifier: MIT */
import {runThread} from '../js/engine.js';
import {QsfError} from '../js/errors.js';
import {compile} from './modules.js';
import {opfs} from './opfs.js';
import {serveReader} from '../js/reader.js';
import {serve} from '../js/serve.js';
import {swapFiles} from './swap_files.js';

/* The type of this script, which bundlers may have changed; again() starts it once more. */
const type = (() => {
  try {
    importScripts();
    return 'classic';
  } catch {
    return 'module';
  }
})();
const again = name => new Worker(self.location.href, {type, name});

/* Workers that load their scripts before startThread() needs them. */
const spares = [];
function spareThread() {
  const worker = again('qsf thread');
  const failed = new Promise((_, reject) => {
    worker.onerror = event =>
      reject(new QsfError('WORKER', `a thread could not start: ${event.message ?? 'no script'}`));
  });
  failed.catch(() => {});       // it is thrown when the worker is taken
  return {worker, failed};
}
function spareThreads(n) {
  while (spares.length < n) spares.push(spareThread());
  while (spares.length > n) spares.pop().worker.terminate();
}
function startThread(init) {
  const {worker, failed} = spares.pop() ?? spareThread();
  const started = new Promise(resolve => {
    worker.onmessage = () => resolve({terminate: () => worker.terminate()});
  });
  worker.postMessage({thread: init});
  return Promise.race([started, failed]);
}

function startReader() {
  const worker = again('qsf reader');
  worker.postMessage({reader: true});
  return {
    post: (message, transfer) => worker.postMessage(message, transfer),
    onMessage(fn) { worker.onmessage = event => fn(event.data); },
    onFailure(fn) {
      worker.onerror = event => fn(new Error(event.message ?? 'its script could not be loaded'));
    },
    terminate: () => worker.terminate(),
  };
}

const engine = wasmPaths => serve({
  post: message => postMessage(message),
  startReader,
  compile: variant => compile(variant, wasmPaths),
  startThread, spareThreads,
  canShare: self.crossOriginIsolated === true,
  processors: Math.min(navigator.hardwareConcurrency || 1, 16),
  gpu: () => navigator.gpu,
  swap: swapFiles,
  runtime: navigator.userAgent,
  backend: opfs,
});
const reader = () => serveReader({
  post: (message, transfer = []) => postMessage(message, transfer),
  openPath: path => { throw new QsfError('ARGUMENT', `${path}: a page has no files by path`); },
  backend: opfs,
});

/* The first message sets what this worker is. */
self.onmessage = ({data}) => {
  if (data.thread) return runThread(data.thread, () => postMessage('ready'));
  const take = data.reader ? reader() : engine(data.options?.wasmPaths);
  self.onmessage = event => take(event.data);
  return data.reader ? undefined : take(data);
};
