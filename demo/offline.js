/* What the browser can do, and the service worker's side in the page.
 * SPDX-License-Identifier: MIT */

const SIMD = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11);
const FLAG = 'qsf-demo-reloaded';

/** undefined where models can run here at all, else why not. */
export function unable() {
  if (typeof WebAssembly !== 'object') return 'This browser has no WebAssembly, so no model can run here. It may be switched off: some security settings do that.';
  if (!WebAssembly.validate(SIMD)) return 'This browser has WebAssembly without SIMD (128-bit vectors), which the engine needs. Every browser since 2023 has it.';
  return undefined;
}

/** What has to be done without, and what that means. */
export function lacking() {
  const notes = [];
  if (!isSecureContext) notes.push('This page came without https: one thread, nothing is stored, and it does not work offline.');
  else {
    if (!crossOriginIsolated) notes.push('This page is not cross-origin isolated: models run with one thread, slower than they could.');
    if (!navigator.storage?.getDirectory) notes.push('This browser gives pages no private file system: models are fetched anew each time.');
    if (!navigator.serviceWorker) notes.push('This browser allows no service worker here (a private window may be why): the page does not work offline.');
  }
  return notes;
}

const remember = {
  get() { try { return sessionStorage.getItem(FLAG); } catch { return 'unknown'; } },
  set(value) { try { if (value) sessionStorage.setItem(FLAG, value); else sessionStorage.removeItem(FLAG); } catch { /* then it is not reloaded */ } },
};

/**
 * Starts the service worker.  Where its headers are what isolation lacks, the page is loaded again, once, and only while busy() is false.
 * told({kept, why}) hears whether the files are kept; stale() that another version has taken over beside this page.
 */
export async function keepOffline({busy, told, stale}) {
  const workers = navigator.serviceWorker;
  if (globalThis.crossOriginIsolated) remember.set('');
  if (!workers) return;
  let before = workers.controller;
  const controlled = () => new Promise(resolve => {
    workers.addEventListener('controllerchange', () => {
      if (before) stale();
      before = workers.controller;
      resolve();
    });
    if (before) resolve();
  });
  const ready = controlled();
  try {
    workers.addEventListener('message', ({data}) => told(data));
    const registration = await workers.register(new URL('./sw.js', import.meta.url), {updateViaCache: 'none'});
    if (!registration) return;
    if (!before && registration.active) {       // loaded past the worker, as a forced reload does: it serves the next load
      registration.active.postMessage('keep');
    } else {
      await ready;
      workers.controller.postMessage('keep');
    }
  } catch (error) {
    told({kept: false, why: error.message});
    return;
  }
  if (crossOriginIsolated || !isSecureContext || remember.get() || busy()) return;
  remember.set('yes');
  location.reload();
  await new Promise(() => {});  // whoever waits for this page's begin waits for the next one
}
