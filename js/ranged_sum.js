/* The SHA-256 of a file whose layers are fetched again and again: a sum needs the file's order, in
 * which they come, and what lies between them is fetched once more.
 * SPDX-License-Identifier: MIT */

export class RangedSum {
  #sum; #at; #length; #fetch; #done;
  #next;                        // the first place after #at that came since #at has moved
  #idle = 0;                    // bytes that came since then: of a file's length, #at does not come
  #fills = false; #over = false;

  /** sum: of the bytes before `at`; fetch(from, to): their parts; done(digest) is called once. */
  constructor(sum, {at, length, fetch, done}) {
    this.#sum = sum;
    this.#at = at;
    this.#length = this.#next = length;
    this.#fetch = fetch;
    this.#done = done;
    if (at === length) this.#end();
  }

  /** Bytes that came, of this place of the file. */
  take(at, bytes) {
    if (this.#over || this.#fills) return;
    if (at <= this.#at && at + bytes.length > this.#at) return this.#add(bytes.subarray(this.#at - at));
    if (at > this.#at) this.#next = Math.min(this.#next, at);
    this.#idle += bytes.length;
    if (this.#idle >= this.#length) void this.#fill(this.#next);
  }

  #add(bytes) {
    this.#sum.update(bytes);
    this.#at += bytes.length;
    this.#next = this.#length;
    this.#idle = 0;
    if (this.#at === this.#length) this.#end();
  }
  #end() {
    this.#over = true;
    this.#done(this.#sum.digest());
  }
  async #fill(to) {
    this.#fills = true;
    try {
      for await (const part of this.#fetch(this.#at, to)) {
        if (part.length) this.#add(part);
      }
    } catch {
      // reads report what is wrong with the server; it is asked again later
    } finally {
      this.#fills = false;
      this.#idle = 0;
      this.#next = this.#length;
    }
  }
}
