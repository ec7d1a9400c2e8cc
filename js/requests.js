/* What requests of a model's file need besides its URL, in the caller's thread.
 * SPDX-License-Identifier: MIT */
import {refuse, shown} from './errors.js';
import {withParts} from './split.js';

/** Whether a model is given by its name on a hub (hub.js reads it). */
export const isHubName = from => /^(hf:|(hf|huggingface)\.co\/)/i.test(
  typeof from === 'string' || from instanceof URL ? String(from) : '');

function checkedHeaders(given) {
  try {
    return Object.fromEntries(new Headers(given));
  } catch {
    return refuse('headers has a name or value that HTTP does not allow');     // its value may be a secret
  }
}

/**
 * Takes the options of requests from those of load(). place(from) promises {path}, {url}, {blob} or
 * {bytes}; the result's place() adds what requests of a URL need, and takes models of a hub. tools:
 * see hub.js.
 */
export function requested(given, place, tools) {
  if (typeof given !== 'object' || given === null) return {options: given,
    place};       // options.js refuses it
  const {headers, fetch, hubUrl, hubToken, ...options} = given;
  if (fetch !== undefined && typeof fetch !== 'function')
    refuse(`fetch is ${shown(fetch)}; it must be a function`);
  const own = headers && checkedHeaders(headers);
  const complete = async given => {
    const where = withParts(given);
    if (!where.url) return where;
    const full = {...where, headers: {...own, ...where.headers}};
    return fetch ? {...full, ports: [(await import('./fetch_port.js')).portOf(fetch)]} : full;
  };
  const hub = async () => (await import('./hub.js')).hub({...options, hubUrl, hubToken, headers: own, fetch,
    ...tools, estimate: async (where, more) =>
      tools.estimate(await complete(where), {...options, ...more})});
  return {
    options,
    place: async from => (from === '' ? refuse('the path or URL of the model is empty')
      : complete(isHubName(from) ? await (await hub()).place(String(from)) : await place(from))),
    /** Promises the estimate for a repository; undefined if from is one model. */
    estimate: async from => (isHubName(from) ? (await hub()).estimate(String(from)) : undefined),
  };
}

const CALLS = ['list', 'validate', 'delete', 'usage', 'limit', 'persist'];
/** See cacheOver() in cache.js. */
export const lateCache = (...over) => Object.fromEntries(CALLS.map(name =>
  [name, async (...given) => (await import('./cache.js')).cacheOver(...over)[name](...given)]));
