/* Modules with 64-bit addresses, for models that need more than 4 GB of memory. Their addresses and
 * sizes are BigInts; here they become numbers, as those of the other modules are.
 * SPDX-License-Identifier: MIT */
import {ADDRESSES} from './addresses.js';

/** Bytes that a plan may have in a module with 32-bit addresses, which has data besides. */
export const NARROW = 4.2e9;
/* 16 GB: as much as engines allow */
const PAGES = 262144;

/* (memory i64 0) */
const MEMORY64 = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 5, 3, 1, 4, 0);
export const hasWide = () => WebAssembly.validate(MEMORY64);

export const wideMemory = initial => new WebAssembly.Memory(
  {initial: BigInt(initial), maximum: BigInt(PAGES), shared: true, address: 'i64'});

const narrow = value => (typeof value === 'bigint' ? Number(value) : value);

/** Functions that the module calls, with numbers for its BigInts. */
export const wideImports = imports => Object.fromEntries(Object.entries(imports)
  .map(([name, fn]) => [name, (...all) => fn(...all.map(narrow))]));

/** What the module exports, with functions that take and return numbers. */
export const wideExports = exports => Object.fromEntries(Object.entries(exports).map(([name, fn]) => {
  if (typeof fn !== 'function') return [name, fn];
  const letters = ADDRESSES[name] ?? '';
  const wide = (value, i) => (letters[i] === 'a' ? BigInt(value) : value);
  return [name, (...all) => narrow(fn(...all.map(wide)))];
}));
