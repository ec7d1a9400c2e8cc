/* The options with the addresses of the package's own files.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';

const VARIANTS = ['simd', 'relaxed', 'simd-threads', 'relaxed-threads', 'relaxed64-threads', 'gpu',
  'gpu-threads'];

/** options, with workerUrl and wasmPaths as a worker understands them;
 * absolute(text) is its address. */
export function addressed(options = {}, absolute) {
  if (typeof options !== 'object' || options === null) return options;        // options.js reports the fault
  const {workerUrl, wasmPaths} = options;
  const address = (name, value) => {
    const refuse = cause => {
      const shown = typeof value === 'string' ? `"${value}"` : String(value);
      throw new QsfError('ARGUMENT', `${name} is ${shown}; ${cause?.message ?? 'it must be an address'}`,
        {cause});
    };
    if (value === '' || !(typeof value === 'string' || value instanceof URL)) refuse();
    try {
      return absolute(String(value));
    } catch (error) {
      return refuse(error);
    }
  };
  const paths = () => {
    if (typeof wasmPaths === 'string' || wasmPaths instanceof URL)
      return address('wasmPaths', String(wasmPaths).replace(/[^/]$/, '$&/'));
    const refuse = text => { throw new QsfError('ARGUMENT', text); };
    if (typeof wasmPaths !== 'object' || !wasmPaths)
      refuse(`wasmPaths is ${wasmPaths}; it must be a folder's address, or an object of addresses`);
    const each = Object.entries(wasmPaths), unknown = each.find(([name]) => !VARIANTS.includes(name));
    if (unknown) refuse(`wasmPaths has ${unknown[0]}; the names are ${VARIANTS.join(', ')}`);
    return Object.fromEntries(each.map(([name, value]) => [name, address(`wasmPaths.${name}`, value)]));
  };
  return {
    ...options,
    ...(workerUrl !== undefined && {workerUrl: address('workerUrl', workerUrl)}),
    ...(wasmPaths !== undefined && {wasmPaths: paths()}),
  };
}

/** The address of a module in paths, which addressed() made of wasmPaths; undefined: the package's
 * own. */
export const moduleAt = (variant, paths) =>
  (typeof paths === 'string' ? `${paths}qsf-${variant}.wasm` : paths?.[variant]);
