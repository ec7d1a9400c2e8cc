/* The caller's fetch() for a worker: the other side of callerFetch() in fetching.js.
 * SPDX-License-Identifier: MIT */
import {pack} from './errors.js';

/** A port for callerFetch(). */
export function portOf(fetch) {
  const {port1, port2} = new MessageChannel();
  serveFetch(port1, fetch);
  return port2;
}

/* Answers requests of callerFetch(port) with fetch. */
function serveFetch(port, fetch) {
  const running = new Map();    // id -> {controller, reader}
  const ops = {
    next: (id, {port: other}) => serveFetch(other, fetch),
    async open(id, {url, init}) {
      const controller = new AbortController(), request = {controller};
      running.set(id, request);
      const response = await fetch(url, {...init, signal: controller.signal});
      const {status, statusText, redirected, type, headers, body} = response;
      request.reader = body?.getReader();
      return {status, statusText, redirected, type, headers: [...headers]};
    },
    async pull(id) {
      const {done, value} = await running.get(id)?.reader?.read() ?? {done: true};
      if (done) running.delete(id);
      return {part: done ? undefined : value.slice()};
    },
    end(id) {
      running.get(id)?.controller.abort();
      running.delete(id);
    },
  };
  port.onmessage = async ({data: {op, id, ...message}}) => {
    try {
      const answer = await ops[op](id, message);
      if (answer) port.postMessage({id, ...answer}, answer.part ? [answer.part.buffer] : []);
    } catch (error) {
      port.postMessage({id, error: pack(error)});
    }
  };
  port.unref?.();               // what waits for an answer keeps a process alive
}
