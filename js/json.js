/* The caller's values as JSON.
 * SPDX-License-Identifier: MIT */

export const isObject = v => typeof v === 'object' && v !== null && !Array.isArray(v);

/** Lone surrogates are replaced, as by TextEncoder. */
export const wellFormed = text => (/[\ud800-\udfff]/.test(text) ? new TextDecoder('utf-8', {ignoreBOM: true})
  .decode(new TextEncoder().encode(text)) : text);
/** A value as text; undefined: JSON cannot express it. */
export function json(value) {
  try {
    return JSON.stringify(value, (_, v) => (typeof v === 'string' ? wellFormed(v) : v));
  } catch {
    return undefined;
  }
}
