/* A file on a server, by requests whose answers are checked, and made again where that can help.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {own, reused} from './stream.js';

const TRIES = 5, LONGEST_MS = 60_000;

/* Waits, but not longer than the signal. */
const pause = (ms, signal) => new Promise((resolve, reject) => {
  signal?.throwIfAborted();
  const abort = () => { clearTimeout(timer); reject(signal.reason); };
  const timer = setTimeout(() => { signal?.removeEventListener('abort', abort); resolve(); }, ms);
  signal?.addEventListener('abort', abort, {once: true});
});

/* How long to wait before the next try: what the server says in seconds or as a date, else longer each time. */
function patience(response, attempt) {
  const text = response?.headers.get('retry-after') ?? '';
  const ms = /^[\d.]+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return ms >= 0 ? Math.min(ms, LONGEST_MS) : 200 * 3 ** attempt;
}

/** An error of a server's answer.  again: another try may go better; changed: the file is not the one that it was. */
function fault(url, message, {again = false, changed = false, response, cause} = {}) {
  return Object.assign(new QsfError('HTTP', `${url}: ${message}`, cause && {cause}), {again, changed, response});
}

/** What tells the file of an answer from the known one: 'length', 'etag' or 'modified'; undefined where nothing does that both say. */
export const difference = (known, now) => ['length', 'etag', 'modified'].find(mark => known[mark] && now[mark] && known[mark] !== now[mark]);

export class Remote {
  /** {length, etag, modified} of the file once an answer said them. */
  known;
  #url; #timeout;
  #spare = [];                  // for reused()

  constructor(url, {timeout = 30_000} = {}) {
    this.#url = url;
    this.#timeout = timeout;
  }

  /** The file's bytes from `at` to its end, in parts, in one request if nothing fails.  The first part is empty and says that known is set. */
  async * from(at, signal) {
    for (let attempt = 0; ; attempt++) {
      try {
        const {parts, skip, finish} = await this.#ask(at, undefined, signal);
        let left = skip;
        try {
          yield new Uint8Array(0);
          for await (const part of parts) {
            const rest = part.subarray(Math.min(left, part.length));
            left -= part.length - rest.length;
            if (!rest.length) continue;
            attempt = 0;
            at += rest.length;
            yield rest;
          }
        } finally {
          finish();
        }
        if (this.known.length === undefined) this.known.length = at;
        if (at === this.known.length) return;
        throw fault(this.#url, `the connection ended after ${at} of ${this.known.length} bytes`, {again: true});
      } catch (error) {
        await this.#again(error, attempt, signal);
      }
    }
  }

  /** Calls take(part, offset) with bytes [at, at + length) in turn; a part is there until take returns.  What it throws ends the request. */
  async range(at, length, signal, take) {
    let done = 0;
    for (let attempt = 0; ; attempt++) {
      try {
        const {parts} = await this.#ask(at + done, length - done, signal);
        for await (const part of parts) {
          take(part, done);
          done += part.length;
          attempt = 0;
        }
        if (done === length) return;
        throw fault(this.#url, `${done} bytes came, ${length} were asked for`, {again: true});
      } catch (error) {
        await this.#again(error, attempt, signal);
      }
    }
  }

  /** What the server says of the file now, by a request for one byte; ranges: whether it answers them. */
  async head(signal) {
    for (let attempt = 0; ; attempt++) {
      try {
        const known = this.known;
        this.known = undefined;
        try {
          const {finish, ranges} = await this.#ask(0, 1, signal, true);
          finish();
          return {...this.known, ranges};
        } finally {
          this.known = known;
        }
      } catch (error) {
        await this.#again(error, attempt, signal);
      }
    }
  }

  async #again(error, attempt, signal) {
    signal?.throwIfAborted();
    const ours = error instanceof QsfError;
    if (ours && (!error.again || attempt + 1 >= TRIES)) throw error;
    if (attempt + 1 >= TRIES) throw fault(this.#url, `${error.message}; there is no connection, or the server's CORS headers do not allow this page`, {cause: error});
    await pause(patience(error.response, attempt), signal);
  }

  /* One request.  length undefined: to the end; whole: the file from its beginning will do.  The answer's parts, and how many bytes of them come before `at`.
   * Parts of a length that was asked for are there until the next one only. */
  async #ask(at, length, signal, whole = false) {
    signal?.throwIfAborted();
    const url = this.#url, controller = new AbortController();
    const abort = () => controller.abort(signal.reason);
    signal?.addEventListener('abort', abort, {once: true});
    const finish = () => { signal?.removeEventListener('abort', abort); controller.abort(); };
    const ranged = at > 0 || length !== undefined;
    try {
      const response = await this.#quick(fetch(url, {
        headers: ranged ? {range: `bytes=${at}-${length === undefined ? '' : at + length - 1}`} : {}, signal: controller.signal, cache: 'no-store',
      }), 'no answer');
      const answer = this.#check(response, at, length, ranged, whole);
      return {...answer, parts: this.#parts(length === undefined ? own(response.body) : reused(response.body, this.#spare), answer.limit, finish), finish};
    } catch (error) {
      finish();
      throw error;
    }
  }

  /* promise, or an error when it takes too long. */
  async #quick(promise, what) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(fault(this.#url, `${what} for ${this.#timeout / 1000} seconds`, {again: true})), this.#timeout);
    });
    try {
      return await Promise.race([promise, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /* Throws unless the answer has the bytes that were asked for, of the file that is known. */
  #check(response, at, length, ranged, whole) {
    const url = this.#url, {status, headers} = response, text = name => headers.get(name) ?? undefined;
    const fail = (message, options) => { throw fault(url, message, {response, ...options}); };
    /* A redirection may have led to a place that is not valid any more; asking again leads to another. */
    if (status === 429 || status >= 500 || (response.redirected && [401, 403, 410].includes(status))) fail(`the server answered ${status}`, {again: true});
    if (status === 416) fail('the file is shorter than it was', {changed: true});
    if (!response.ok) fail(`the server answered ${status}`);
    const encoding = text('content-encoding');
    if (encoding && encoding !== 'identity') fail(`the server compresses (${encoding}); model files must come as they are`);

    const now = {etag: text('etag'), modified: text('last-modified')};
    let limit = Infinity, skip = 0;
    if (status === 206) {
      if (!ranged) fail('the server answered a part of the file without being asked for one');
      /* Without Access-Control-Expose-Headers a page does not see Content-Range: then the lengths have to do. */
      const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(text('content-range') ?? '');
      if (text('content-range') && !range) fail(`the server answered with "${text('content-range')}"`);
      if (range) {
        now.length = Number(range[3]);
        const end = length === undefined ? now.length : at + length;
        if (Number(range[1]) !== at || Number(range[2]) !== end - 1)
          fail(`the server answered with ${range[0]}`, {changed: !!this.known?.length && now.length !== this.known.length});
        limit = end - at;
      } else {
        const sent = text('content-length');
        if (length === undefined && sent !== undefined) now.length = at + Number(sent);
        limit = length ?? (this.known?.length ?? Infinity) - at;
      }
    } else if (status === 200) {
      const sent = text('content-length');
      if (sent !== undefined) now.length = Number(sent);
      if (length !== undefined && !whole) fail('the server does not answer ranges');
      limit = now.length ?? this.known?.length ?? Infinity;
      skip = at;
    } else {
      fail(`the server answered ${status}`);
    }
    if (this.known && difference(this.known, now)) fail('the file has changed meanwhile; load it again', {changed: true});
    /* From its beginning again, and nothing says that it is the same. */
    if (skip && !(this.known.etag && now.etag) && !(this.known.modified && now.modified)) fail('the connection ended, and the server does not answer ranges', {changed: true});
    this.known = {length: this.known?.length ?? now.length, etag: this.known?.etag ?? now.etag, modified: this.known?.modified ?? now.modified};
    return {limit, skip, ranges: status === 206};
  }

  /* The body's parts; one that stalls or is longer than the answer's head said is an error. */
  async * #parts(stream, limit, finish) {
    let total = 0;
    try {
      for (let part; (part = await this.#quick(stream.read(), 'no byte came'));) {
        total += part.length;
        if (total > limit) throw fault(this.#url, `more than the ${limit} bytes that the server promised`);
        yield part;
      }
    } finally {
      finish();
    }
  }
}
