/* Whether messages wait for a thread that computes. Both ends count those that cannot wait, in
 * memory that they share.
 * SPDX-License-Identifier: MIT */

/* 'more' is read before an answer would have to wait for it. */
const hurries = message => message.op !== 'more';

export class Hurry {
  /** How many were sent, and how many were heard: an Int32Array. */
  counts;
  /** counts: the other end's. */
  constructor(counts = new Int32Array(new SharedArrayBuffer(8))) { this.counts = counts; }
  sent(message) { if (hurries(message)) Atomics.add(this.counts, 0, 1); }
  heard(message) { if (hurries(message)) Atomics.add(this.counts, 1, 1); }
  get waits() { return Atomics.load(this.counts, 0) !== Atomics.load(this.counts, 1); }
}
