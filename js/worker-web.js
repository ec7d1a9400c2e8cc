/* The engine's worker, its threads and its reader in browsers.
 * SPDX-License-Identifier: MIT */
import {runThread} from './engine.js';
import {QsfError} from './errors.js';
import {opfs} from './opfs.js';
import {serveReader} from './reader.js';
import {serve} from './serve.js';

/* Written out, so that bundlers see the files. */
const MODULES = {
  'simd': new URL('./qsf-simd.wasm', import.meta.url),
  'relaxed': new URL('./qsf-relaxed.wasm', import.meta.url),
  'simd-threads': new URL('./qsf-simd-threads.wasm', import.meta.url),
  'relaxed-threads': new URL('./qsf-relaxed-threads.wasm', import.meta.url),
};

async function compile(variant) {
  const response = await fetch(MODULES[variant]);
  if (!response.ok) throw new QsfError('HTTP', `${response.url}: the server answered ${response.status}`);
  if (response.headers.get('content-type')?.startsWith('application/wasm')) return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());     // the type that compileStreaming asks for is not every server's
}

function startThread(init) {
  const worker = new Worker(new URL('./worker-web.js', import.meta.url), {type: 'module', name: 'qsf thread'});
  return new Promise((resolve, reject) => {
    worker.onmessage = () => resolve({terminate: () => worker.terminate()});
    worker.onerror = event => reject(new QsfError('WORKER', `a thread could not start: ${event.message ?? 'no script'}`));
    worker.postMessage({thread: init});
  });
}

function startReader() {
  const worker = new Worker(new URL('./worker-web.js', import.meta.url), {type: 'module', name: 'qsf reader'});
  worker.postMessage({reader: true});
  return {
    post: (message, transfer) => worker.postMessage(message, transfer),
    onMessage(fn) { worker.onmessage = event => fn(event.data); },
    onFailure(fn) { worker.onerror = event => fn(new Error(event.message ?? 'its script could not be loaded')); },
    terminate: () => worker.terminate(),
  };
}

const engine = () => serve({
  post: message => postMessage(message),
  startReader,
  compile,
  startThread,
  canShare: self.crossOriginIsolated === true,
  processors: Math.min(navigator.hardwareConcurrency || 1, 16),
});
const reader = () => serveReader({
  post: (message, transfer = []) => postMessage(message, transfer),
  openPath: path => { throw new QsfError('ARGUMENT', `${path}: a page has no files by path`); },
  backend: opfs,
});

/* The first message says what this worker is. */
self.onmessage = ({data}) => {
  if (data.thread) return runThread(data.thread, () => postMessage('ready'));
  const take = data.reader ? reader() : engine();
  self.onmessage = event => take(event.data);
  return data.reader ? undefined : take(data);
};
