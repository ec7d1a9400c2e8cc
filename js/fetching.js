/* What requests of a model's file need besides its URL: the caller's headers and fetch(), which
 * cannot go to a worker and is called through a MessagePort.
 * SPDX-License-Identifier: MIT */
import {refuse, shown, unpack} from './errors.js';
import {withParts} from './split.js';

/** A place for another worker: with a port of its own to the caller's fetch(). */
export function ported(from) {
  if (!from.ports) return from;
  const {port1, port2} = new MessageChannel();
  from.ports[0].postMessage({op: 'next', port: port1}, [port1]);
  return {...from, ports: [port2]};
}

/** The caller's fetch(), in a worker. */
export function callerFetch(port) {
  const waiting = new Map();
  let last = 0;
  port.onmessage = ({data: {id, error, ...answer}}) => {
    const {resolve, reject} = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error) reject?.(unpack(error));
    else resolve?.(answer);
  };
  port.unref?.();
  return async (url, {signal, ...init}) => {
    const id = ++last;
    const ask = message => new Promise((resolve, reject) => {
      signal.throwIfAborted();
      waiting.set(id, {resolve, reject});
      port.postMessage({id, ...message});
    });
    signal.addEventListener('abort', () => {
      waiting.get(id)?.reject(signal.reason);
      port.postMessage({id, op: 'end'});
    }, {once: true});
    const {headers, ...answer} = await ask({op: 'open', url, init});
    const body = new ReadableStream({
      async pull(controller) {
        const {part} = await ask({op: 'pull'});
        if (part) controller.enqueue(part);
        else controller.close();
      },
      cancel() { port.postMessage({id, op: 'end'}); },
    }, {highWaterMark: 0});
    return {...answer, ok: answer.status >= 200 && answer.status < 300, headers: new Headers(headers), body};
  };
}

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
  const isNamed = from => /^hf:/i.test(typeof from === 'string' || from instanceof URL ? String(from) : '');
  return {
    options,
    place: async from =>
      complete(isNamed(from) ? await (await hub()).place(String(from)) : await place(from)),
    /** Promises the estimate for a repository; undefined if from is one model. */
    estimate: async from => (isNamed(from) ? (await hub()).estimate(String(from)) : undefined),
  };
}
