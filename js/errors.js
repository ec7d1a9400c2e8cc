/* Errors that have a code, on both sides of a worker's port.
 * SPDX-License-Identifier: MIT */

export class QsfError extends Error {
  /** @param {string} code @param {string} message @param {{cause?: unknown}} [options] */
  constructor(code, message, options) {
    super(message, options);
    this.name = 'QsfError';
    this.code = code;
  }
}

/** The caller's value is invalid. */
export const refuse = text => { throw new QsfError('ARGUMENT', text); };
/** A value as such errors show it. */
export function shown(value) {
  if (typeof value === 'string') return value.length > 40 ? `"${value.slice(0, 40)}..."` : `"${value}"`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : 'an object';
}

/** For postMessage, which keeps neither classes nor codes. */
export function pack(error) {
  const {message, code, name, stack, cause} = error instanceof Error ? error : new Error(String(error));
  return {message, code, name, stack, cause: cause === undefined ? undefined : pack(cause)};
}

export function unpack({message, code, name, stack, cause}) {
  const options = cause === undefined ? undefined : {cause: unpack(cause)};
  if (name === 'QsfError') return new QsfError(code, message, options);
  const error = new Error(message, options);
  if (stack) error.stack = stack;
  return error;
}
