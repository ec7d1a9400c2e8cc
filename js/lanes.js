/* Combines reads of ranges of a file into few long requests: one request continues through the file
 * while reads follow each other.
 * SPDX-License-Identifier: MIT
 *
 * Streamed layers are read in the file's order, pass after pass, in many reads. A request for each
 * would wait for the network each time. So a lane requests everything from its first read to where
 * reading stopped in an earlier pass (at first: to the file's end), and takes the response's bytes
 * as reads need them; the stream's backpressure holds back the rest. Several lanes are open at
 * once: layers ahead belong to the next pass, head and embedding lie elsewhere. A short read at an
 * unknown place, such as a row of the embedding, is a request of its own. If experts are read one
 * by one, every read is, except adjacent ones. */

/* gaps up to this are read and discarded, not skipped: between layers, and between matrices */
const GAP = 256 << 10, LEAST_GAP = 64;
const TAIL = 128 << 10;         /* bytes that a lane has given and keeps: reads of the head overlap */
const LONG = 512 << 10;         /* after a read of this size, more will follow */
/* lanes that stay open; a browser has six connections to a server, for all pages */
const MOST = 3;
const IDLE_MS = 3000;           /* an unused lane closes its connection after this time */
const REMEMBERED = 32;

/* A request under way.  read: {at, end, take(part, offset), settle(error)}. */
class Lane {
  used = 0; isLong; begin; at; end; over = false;
  #parts; #controller = new AbortController(); #heard;
  #rest = new Uint8Array(0);    // bytes from `at` on that have come
  #queue = [];                  // reads, by their places
  #tail; #busy = false; #timer; #gone;

  /** gone(lane) is called when no read can join any more, heard(at, bytes) with what comes. */
  constructor(remote, begin, end, isLong, {open, gone, heard}) {
    this.begin = this.at = begin;
    this.end = end;
    this.isLong = isLong;
    this.#gone = gone;
    this.#heard = heard;
    this.#parts = remote.range(begin, open ? undefined : end, this.#controller.signal);
    if (isLong) this.#tail = new Uint8Array(TAIL);
  }
  get idle() { return !this.#queue.length; }
  /* How many of the bytes before `at` are still here. */
  get #kept() { return this.#tail ? Math.min(TAIL, this.at - this.begin) : 0; }
  get #reach() { return this.#queue.reduce((most, read) => Math.max(most, read.end), this.at); }
  fits({at, end}) {
    return end <= this.end && at >= this.at - this.#kept && at <= this.#reach + GAP;
  }

  add(read) {
    if (read.at < this.at) this.#giveTail(read);
    if (read.over) return;
    this.#queue.push(read);
    this.#queue.sort((a, b) => a.at - b.at);
    if (!this.#busy) void this.#run();
  }
  /** The read is not wanted any more. */
  forget(read) {
    const was = this.#queue.length;
    this.#queue = this.#queue.filter(r => r !== read);
    if (was && this.idle && this.#busy) this.close();   // other reads need not wait for its bytes
  }
  close(error) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.#timer);
    this.#gone(this);
    this.#controller.abort();
    void this.#parts.return().catch(() => {});
    for (const read of this.#queue.splice(0)) read.settle(error ?? new Error('closed'));
  }

  async #run() {
    this.#busy = true;
    clearTimeout(this.#timer);
    try {
      while (!this.idle) {
        if (this.#rest.length) {
          this.#give(this.#rest.subarray(0, this.#reach - this.at));
          continue;
        }
        const {value} = await this.#parts.next();
        if (this.over) return;
        this.#rest = value;
      }
      if (this.at === this.end) {
        this.over = true;
        this.#gone(this);
        await this.#parts.next();       // the answer's end: its connection can be used again
        return;
      }
    } catch (error) {
      return this.close(error);
    } finally {
      this.#busy = false;
    }
    this.#timer = setTimeout(() => this.close(), IDLE_MS);
    this.#timer.unref?.();
  }
  #give(bytes) {
    for (const read of this.#queue) giveOverlap(read, bytes, this.at);
    this.#queue = this.#queue.filter(read => !read.over);
    this.#heard(this.at, bytes);
    if (this.#tail) this.#keep(bytes);
    this.at += bytes.length;
    this.#rest = this.#rest.subarray(bytes.length);
  }
  /* Byte `at` of the file is kept at `at` modulo TAIL. */
  #keep(bytes) {
    const from = Math.max(0, bytes.length - TAIL), last = bytes.subarray(from), to = (this.at + from) % TAIL;
    this.#tail.set(last.subarray(0, TAIL - to), to);
    this.#tail.set(last.subarray(TAIL - to), 0);
  }
  #giveTail(read) {
    for (let at = read.at; at < Math.min(read.end, this.at) && !read.over;) {
      const from = at % TAIL, bytes = this.#tail.subarray(from, from + Math.min(read.end, this.at) - at);
      giveOverlap(read, bytes, at);
      at += bytes.length;
    }
  }
}

/* Gives a read its part of bytes, which are the file's from `at` on. */
function giveOverlap(read, bytes, at) {
  const from = Math.max(read.at, at), to = Math.min(read.end, at + bytes.length);
  if (from >= to || read.over) return;
  try {
    read.take(bytes.subarray(from - at, to - at), from - read.at);
  } catch (error) {
    return read.settle(error);
  }
  if (to === read.end) read.settle();
}

const remember = (list, place) => { if (list.push(place) > REMEMBERED) list.shift(); };
const near = (a, b) => Math.abs(a - b) <= GAP;

export class Lanes {
  #remote; #length;
  #lanes = []; #waiting = []; #timer;
  #stops = []; #starts = [];    // where long lanes ended and began
  #last = -Infinity;            // where the last short one ended
  #lastBegan; #uses = 0; #open = false; #exact = false;
  /** Called as heard(at, bytes) with everything that comes, after those who asked for it. */
  heard;

  /** length: the file's. */
  constructor(remote, length) {
    this.#remote = remote;
    this.#length = length;
  }
  /** The server has no ranges: every lane is the whole file, skipped up to the first read. */
  whole() { this.#open = true; }
  /** Nothing will be read around the requested range: a description, or experts. */
  exact() { this.#exact = true; }

  /**
   * Calls take(part, offset) with bytes [at, at + length) in turn; a part is valid until take
   * returns. What it throws ends the read.
   */
  read(at, length, signal, take) {
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#waiting = this.#waiting.filter(r => r !== read);
        for (const lane of [...this.#lanes]) lane.forget(read);
        read.settle(signal.reason);
      };
      const read = {at, end: at + length, take, over: false, settle(error) {
        if (read.over) return;
        read.over = true;
        signal?.removeEventListener('abort', abort);
        if (error) reject(error);
        else resolve();
      }};
      signal?.addEventListener('abort', abort, {once: true});
      if (!length) return read.settle();
      if (this.#join(read)) return undefined;
      this.#waiting.push(read);             // to be grouped: the parts of a layer come one by one
      this.#timer ??= setTimeout(() => this.#start(), 0);
      return undefined;
    });
  }
  /** Ends all. */
  close(error) {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const lane of [...this.#lanes]) lane.close(error);
    for (const read of this.#waiting.splice(0)) read.settle(error ?? new Error('closed'));
  }

  #join(read) {
    const lane = this.#lanes.find(l => l.fits(read));
    if (!lane) return false;
    lane.used = ++this.#uses;
    lane.add(read);
    return true;
  }
  /* Opens lanes for reads that fit no lane; reads that are near each other share one. */
  #start() {
    this.#timer = undefined;
    const reads = this.#waiting.splice(0).sort((a, b) => a.at - b.at);
    while (reads.length) {
      const group = [reads.shift()];
      let {at, end} = group[0];
      while (reads.length && reads[0].at <= end + (this.#exact ? LEAST_GAP : GAP)) {
        end = Math.max(end, reads[0].end);
        group.push(reads.shift());
      }
      const goesOn = end - at >= LONG || this.#starts.some(start => near(start, at));
      const isLong = this.#open || (goesOn && !this.#exact);
      if (isLong) end = this.#makeRoom(at, end);
      else [this.#lastBegan, this.#last] = [at, end];
      const gone = left => { this.#lanes = this.#lanes.filter(l => l !== left); };
      const lane = new Lane(this.#remote, at, end, isLong, {open: this.#open, gone,
        heard: (from, bytes) => this.heard?.(from, bytes)});
      lane.used = ++this.#uses;
      this.#lanes.push(lane);
      for (const read of group) lane.add(read);
    }
  }
  /* Makes room for a long lane from `at` on; returns where it shall end. */
  #makeRoom(at, end) {
    const long = this.#lanes.filter(l => l.isLong);
    const [left] = long.filter(l => l.idle).sort((a, b) => a.used - b.used);
    if (long.length >= MOST && left) {
      remember(this.#stops, left.at);       // others have been read since
      left.close();
    }
    const start = near(this.#last, at) ? this.#lastBegan : at;
    if (!this.#starts.includes(start)) remember(this.#starts, start);
    this.#stops = this.#stops.filter(stop => !near(stop, at));  // reading continues there, so it did not stop
    const stops = this.#open ? [] : this.#stops.filter(stop => stop >= end);
    return Math.min(...stops, this.#length);
  }
}
