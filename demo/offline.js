/* What the browser can do, and the service worker's side in the page.
 * SPDX-License-Identifier: MIT */
import {remembered} from './dom.js';

const SIMD = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0,
  65, 0, 253, 15, 253, 98, 11);
/* If storage is not allowed, the page is not reloaded. */
const reloaded = remembered('sessionStorage', 'qsf-demo-reloaded', 'unknown');

/** Names of missing browser features, worst first; index.html explains them. */
export function lacks() {
  if (typeof WebAssembly !== 'object') return ['wasm'];
  if (!WebAssembly.validate(SIMD)) return ['simd'];
  if (!isSecureContext) return ['https'];
  return [!crossOriginIsolated && 'isolation', !navigator.storage?.getDirectory && 'storage',
    !navigator.serviceWorker && 'worker'].filter(Boolean);
}

/**
 * Starts the service worker. If the page is not isolated for lack of the headers that the worker
 * adds, it is reloaded, once, and only while busy() is false. told({kept, why}) is called with
 * whether the files are kept; stale() when another version has taken over while this page is open.
 */
export async function keepOffline({busy, told, stale}) {
  const workers = navigator.serviceWorker;
  if (globalThis.crossOriginIsolated) reloaded.set('');
  if (!workers) return;
  let before = workers.controller;
  const ready = new Promise(resolve => {
    workers.addEventListener('controllerchange', () => {
      if (before) stale();
      before = workers.controller;
      resolve();
    });
    if (before) resolve();
  });
  try {
    workers.addEventListener('message', ({data}) => told(data));
    const registration = await workers.register(new URL('./sw.js', import.meta.url),
      {updateViaCache: 'none'});
    if (!registration) return;
    // loaded bypassing the worker, as by a forced reload: it serves the next load
    if (!before && registration.active) {
      registration.active.postMessage('keep');
    } else {
      await ready;
      workers.controller.postMessage('keep');
    }
  } catch (error) {
    told({kept: false, why: error.message});
    return;
  }
  if (crossOriginIsolated || !isSecureContext || reloaded.get() || busy()) return;
  reloaded.set('yes');
  location.reload();
  await new Promise(() => {});  // never: the reloaded page takes over
}
