/* The caller's fetch(), which cannot go to a worker, and is called through a MessagePort:
 * fetch_port.js answers.
 * SPDX-License-Identifier: MIT */
import {unpack} from './errors.js';

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
