/* A worker's two sides in one thread.
 * SPDX-License-Identifier: MIT */

/** What a worker would be: start(post) returns what takes its messages.  A message is delivered
 * after the caller has returned. */
export function joined(start) {
  let hear = () => {}, fail = () => {}, isOpen = true;
  const later = fn => queueMicrotask(() => { if (isOpen) fn(); });
  const take = start(message => later(() => hear(message)));
  return {
    post: message => later(() => Promise.resolve(take(message)).catch(error => fail(error))),
    onMessage(fn) { hear = fn; },
    onFailure(fn) { fail = fn; },
    terminate() { isOpen = false; },
  };
}
