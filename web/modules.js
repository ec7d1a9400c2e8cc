/* Loads the modules in browsers.
 * SPDX-License-Identifier: MIT */
import {QsfError} from '../js/errors.js';
import {moduleAt} from '../js/paths.js';

/* Written out, so that bundlers see the files. */
const MODULES = {
  'simd': () => new URL('./qsf-simd.wasm', import.meta.url),
  'relaxed': () => new URL('./qsf-relaxed.wasm', import.meta.url),
  'simd-threads': () => new URL('./qsf-simd-threads.wasm', import.meta.url),
  'relaxed-threads': () => new URL('./qsf-relaxed-threads.wasm', import.meta.url),
  'relaxed64-threads': () => new URL('./qsf-relaxed64-threads.wasm', import.meta.url),
  'gpu': () => new URL('./qsf-gpu.wasm', import.meta.url),
  'gpu-threads': () => new URL('./qsf-gpu-threads.wasm', import.meta.url),
};

/** paths: the option wasmPaths, as addressed() made it. */
export async function compile(variant, paths) {
  const url = moduleAt(variant, paths) ?? MODULES[variant]().href;
  const refuse = (why, cause) => {
    const advice = 'the option wasmPaths says where the .wasm files are (docs/bundlers.md)';
    throw new QsfError('HTTP', `${url}: ${why}; ${advice}`, {cause});
  };
  const response = await fetch(url).catch(error => refuse(error.message, error));
  if (!response.ok) refuse(`the server answered ${response.status}`);
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/html')) refuse('a page came instead of a module');
  if (type.startsWith('application/wasm')) return WebAssembly.compileStreaming(response);
  // not every server sends the MIME type that the other way requires
  return WebAssembly.compile(await response.arrayBuffer());
}
