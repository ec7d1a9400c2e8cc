/* A file on a server: responses are checked, and requests are repeated if that can help.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {own, reused} from './stream.js';

const MANY = 5, FEW = 3;                /* tries: of faults that are likely, and unlikely, to pass */
const LONGEST_MS = 60_000;              /* a server that asks for more patience is an error */
const WORDS = 2000, WORDS_MS = 1000;    /* of a refusal's body */
const SHOWN = 200;                      /* letters of an address, or of such words, in a message */

/* Waits, but not longer than the signal. */
const pause = (ms, signal) => new Promise((resolve, reject) => {
  signal?.throwIfAborted();
  const abort = () => { clearTimeout(timer); reject(signal.reason); };
  const timer = setTimeout(() => { signal?.removeEventListener('abort', abort); resolve(); }, ms);
  signal?.addEventListener('abort', abort, {once: true});
});

/** A URL as messages show it: no password, and no query, which may be a key. */
export function shown(url) {
  const {protocol, origin, pathname, search} = new URL(url);
  const place = /^https?:$/.test(protocol) ? origin + pathname : url.split(/[?#]/)[0];
  return `${place.slice(0, SHOWN)}${search && '?...'}`;
}

/* A fault. tries: how many make sense; changed: the file is not the same as before; wait: ms that
 * the server asks for. */
class Fault {
  constructor(message, {tries = 1, changed = false, advice, wait, cause} = {}) {
    Object.assign(this, {message, tries, changed, advice, wait, cause});
  }
  error(place, attempt, ms) {
    const times = attempt ? `, ${attempt + 1} times in ${(ms / 1000).toFixed(1)} s` : '';
    const text = `${place}: ${this.message}${times}${this.advice ? `; ${this.advice}` : ''}`;
    return Object.assign(new QsfError('HTTP', text, this.cause && {cause: this.cause}),
      {changed: this.changed});
  }
}

/* What the server asks for, in seconds or as a date; undefined: nothing. */
function retryAfter(response) {
  const text = response.headers.get('retry-after') ?? '';
  const ms = /^[\d.]+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return ms >= 0 ? ms : undefined;
}

const REASONS = {
  ENOTFOUND: 'no server has this name',
  EAI_AGAIN: 'the name could not be looked up; is there a network?',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the server, or something before it, broke the connection off',
  UND_ERR_SOCKET: 'the server broke the connection off',
  UND_ERR_CONNECT_TIMEOUT: 'the server does not answer',
  EHOSTUNREACH: 'no route to this machine',
  ENETUNREACH: 'no network',
};
/* What fetch() threw: outside of browsers the reason is in a cause of a cause. */
function disconnected(error, url, answered) {
  let inner = error;
  for (let next = error; next instanceof Error; next = next.errors?.[0] ?? next.cause) inner = next;
  const cause = error, {code = ''} = inner;
  // a page: the reason is not available
  if (IN_PAGE) {
    const {origin, protocol} = new URL(url), advice = ['the server may not be there'];
    if (globalThis.navigator?.onLine === false) advice.unshift('this device is offline');
    if (origin !== location.origin)
      advice.push('its CORS headers do not allow this page (Access-Control-Allow-Origin)');
    if (protocol === 'http:' && location.protocol === 'https:')
      advice.push('a page of https may not read from http');
    const tries = answered ? MANY : FEW;
    return new Fault(`no connection (${error.message})`,
      {tries, advice: advice.join(', or '), cause});
  }
  const isFinal = /CERT|SELF_SIGNED|^ERR_|UNABLE_TO/.test(code)
    || (!answered && (!code || code === 'ENOTFOUND'));
  const reason = REASONS[code] ? ` (${REASONS[code]})` : '';
  const text = inner.message.includes(code) ? inner.message : `${code} ${inner.message}`;
  const advice = answered ? undefined : 'is the address right, and its server running?';
  return new Fault(`${answered ? 'the connection failed' : 'no connection'}: ${text}${reason}`,
    {tries: isFinal ? 1 : answered ? MANY : FEW, advice, cause});
}

/* The text of a server's refusal, after harmless(text) has removed secrets. */
async function wordsOf({headers, body, statusText}, harmless) {
  let text = headers.get('x-error-message') ?? '';
  if (!text && body && /^text\/plain|json/.test(headers.get('content-type') ?? '')) {
    const reader = body.getReader(), decoder = new TextDecoder(),
      leave = () => void reader.cancel().catch(() => {});
    const timer = setTimeout(leave, WORDS_MS);
    try {
      while (text.length < WORDS) {
        const {done, value} = await reader.read();
        if (done) break;
        text += decoder.decode(value, {stream: true});
      }
    } catch { /* what came will do */ }
    clearTimeout(timer);
    leave();
    try {
      const {error, message, detail} = JSON.parse(text);
      text = [error?.message, error, message, detail].find(t => typeof t === 'string') ?? text;
    } catch { /* no JSON */ }
  }
  text = harmless(text).replace(/[\s\x00-\x1f\x7f]+/g, ' ').trim();
  if (text.length > SHOWN) text = `${text.slice(0, SHOWN)}...`;
  return `${statusText && ` ${statusText}`}${text && `: "${text}"`}`;
}
const REDIRECTS = [301, 302, 303, 307, 308];
/* In a page, fetch() hides redirections. */
const IN_PAGE = globalThis.location !== undefined && !globalThis.process?.versions?.node;
const ADVICE = {401: 'it requires a login', 404: 'is the address right?', 410: 'is the address right?'};

/* An ETag without what a server adds to it when it compresses: W/, or a suffix. */
const bare = mark => (typeof mark === 'string'
  ? mark.replace(/^W\//, '').replace(/[-;:]+(gzip|br|zstd|deflate|df)"$/, '"') : mark);
/** What differs between a response's file and the known one: 'length', 'etag' or 'modified';
 * undefined if nothing does that both have. */
export const difference = (known, now) => ['length', 'etag', 'modified']
  .find(mark => known[mark] && now[mark] && bare(known[mark]) !== bare(now[mark]));

/* An address's user name and password as a header. */
function basic(...who) {
  const plain = text => text.replace(/(%[\da-f]{2})+/gi, bytes => {
    try {
      return decodeURIComponent(bytes);
    } catch {
      return bytes;
    }
  });
  return `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(who.map(plain).join(':'))))}`;
}

export class Remote {
  /** {length, etag, modified} of the file after a response with them. */
  known;
  /** Whether the server supports ranges; undefined until one was requested. */
  ranges;
  /** How the server compressed a response whose bytes fetch() has restored. */
  encoding;
  /** The length is Content-Length of a response of another origin, which hides whether it is
   * compressed: the file may be longer or shorter. */
  isDoubtful = false;
  /** The file's SHA-256, if a hub's response has it. */
  sha256;
  /** The last response's headers. */
  headers;
  #url; #own = {'accept-encoding': 'identity'}; #given; #fetch; #advice; #place; #timeout; #onWait; #asRange;
  #isUnsized; #answered = false;
  #spare = [];                  // for reused()

  /** onWait({ms, reason}) is called before a wait of that length. asRange: the whole file is
   * requested as a range, too, since browsers request ranges uncompressed; they fail if they come
   * compressed. headers: for this origin only; advice: by status; get: instead of fetch(). */
  constructor(url, {timeout = 30_000, onWait, asRange = false, headers, advice, get} = {}) {
    const plain = new URL(url), {username, password} = plain;
    this.#given = {...((username || password) && {authorization: basic(username, password)}), ...headers};
    this.#fetch = get ?? ((...what) => fetch(...what));
    this.#advice = {...ADVICE, ...advice};
    plain.username = plain.password = '';
    this.#url = plain.href;
    this.#place = shown(url);
    this.#timeout = timeout;
    this.#onWait = onWait;
    this.#asRange = this.#isUnsized = asRange;
  }

  /**
   * The file's bytes from `at` to its end, in parts, in one request if nothing fails. The first
   * part is empty and signals that known is set. A server without ranges sends the file from its
   * beginning; what comes before `at` is skipped.
   */
  from(at, signal) { return this.#bytes(at, undefined, signal, own); }
  /** Bytes [at, end), or without `end` as from() does; a part is valid until the next
   * one is requested. */
  range(at, end, signal) { return this.#bytes(at, end, signal, stream => reused(stream, this.#spare)); }

  async * #bytes(at, end, signal, read) {
    const tries = this.#tries(signal);
    for (;;)
      try {
        const {body, skip, limit, finish} = await this.#ask(at, end, signal);
        try {
          let left = skip;
          yield new Uint8Array(0);
          for await (const part of this.#parts(read(body), limit, end !== undefined)) {
            const rest = part.subarray(Math.min(left, part.length));
            left -= part.length - rest.length;
            if (!rest.length) continue;
            tries.progress();
            at += rest.length;
            yield rest;
          }
        } finally {
          finish();
        }
        if (end === undefined && (this.known.length === undefined || this.isDoubtful)) this.known.length = at;
        if (at === (end ?? this.known.length)) return;
        throw new Fault(`the connection ended at ${at} of ${end ?? this.known.length} bytes`, {tries: MANY});
      } catch (error) {
        if (at === end) return;         // whatever came after it does not matter
        if (this.#asRange && !at && error instanceof TypeError) {
          this.#asRange = false;
          continue;
        }
        await tries.again(error);
      }
  }

  /** The file's current description by the server, from a request for one byte. */
  async head(signal) {
    const tries = this.#tries(signal), {known} = this;
    for (;;)
      try {
        this.known = undefined;
        const {finish} = await this.#ask(0, 1, signal, true);
        finish();
        return this.known;
      } catch (error) {
        await tries.again(error);
      } finally {
        this.known = known;
      }
  }

  /* Counts tries: progress() begins anew, again(error) waits for the next or throws. */
  #tries(signal) {
    let attempt = 0, began = performance.now();
    return {
      progress() {
        attempt = 0;
        began = performance.now();
      },
      again: async error => {
        signal?.throwIfAborted();
        if (error instanceof QsfError) throw error;
        const fault = error instanceof Fault ? error : disconnected(error, this.#url, this.#answered);
        const ms = fault.wait ?? (fault.tries > FEW ? 200 : 100) * 3 ** attempt;
        if (ms > LONGEST_MS) {
          fault.message += `, and asks to wait ${Math.ceil(ms / 1000)} s`;
          fault.advice = 'load it again then';
        }
        if (ms > LONGEST_MS || attempt + 1 >= fault.tries)
          throw fault.error(this.#place, attempt, performance.now() - began);
        this.#onWait?.({ms, reason: `${this.#place}: ${fault.message}`});
        await pause(ms, signal);
        attempt++;
      },
    };
  }

  /* One request. end undefined: to the file's end; whole: the file from its beginning is accepted.
   * skip: how many bytes of the response come before `at`. */
  async #ask(at, end, signal, whole = false) {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = () => controller.abort(signal.reason);
    signal?.addEventListener('abort', abort, {once: true});
    const finish = () => { signal?.removeEventListener('abort', abort); controller.abort(); };
    const ranged = at > 0 || end !== undefined || this.#asRange;
    try {
      const range = ranged && {range: `bytes=${at}-${end === undefined ? '' : end - 1}`};
      const {response, redirected} = await this.#follow(range, controller.signal);
      this.#answered = true;
      this.headers = response.headers;
      if (!response.ok) await this.#refuse(response, redirected);
      return {...this.#check(response, at, end, ranged, whole), body: response.body, finish};
    } catch (error) {
      finish();
      throw error;
    }
  }

  /* The response at the end of redirections. Outside of pages, where they can be seen, another
   * origin is not sent the caller's headers; fetch() itself only leaves out Authorization. */
  async #follow(range, signal) {
    const {origin} = new URL(this.#url), redirect = IN_PAGE ? 'follow' : 'manual';
    for (let url = this.#url, n = 0; ; n++) {
      const headers = {...this.#own, ...(new URL(url).origin === origin && this.#given), ...range};
      const asked = this.#fetch(url, {headers, signal, redirect, cache: 'no-store'});
      const response = await this.#quick(asked, 'no answer'), to = response.headers.get('location');
      this.sha256 ??= /^"?([\da-f]{64})"?$/.exec(response.headers.get('x-linked-etag') ?? '')?.[1];
      if (!to || !REDIRECTS.includes(response.status))
        return {response, redirected: response.redirected || n > 0};
      void response.body?.cancel().catch(() => {});
      if (n === 20) throw new Fault('redirected 20 times');
      url = new URL(to, url).href;
      if (!/^https?:/.test(url)) throw new Fault(`redirected to ${url.split(':')[0]}:`);
    }
  }

  /* promise, or an error when it takes too long. */
  async #quick(promise, what) {
    if (!this.#timeout) return promise;
    let timer;
    const late = new Promise((_, reject) => {
      const fault = new Fault(`${what} for ${this.#timeout / 1000} seconds`, {tries: FEW});
      timer = setTimeout(() => reject(fault), this.#timeout);
    });
    try {
      return await Promise.race([promise, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /* A server's text without the secrets that it was sent. */
  #harmless(text) {
    const secrets = Object.values(this.#given).map(value => value.replace(/^\w+ /, ''));
    return secrets.filter(secret => secret.length > 5)
      .reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
  }
  async #refuse(response, redirected) {
    const {status} = response,
      message = `the server answered ${status}${await wordsOf(response, text => this.#harmless(text))}`;
    if (status === 416) throw new Fault(`${message}: the file is shorter than it was`, {changed: true});
    if (status === 429 || status >= 500)
      throw new Fault(message, {tries: MANY, wait: retryAfter(response), advice: 'load it again later'});
    /* A redirection may have led to an address that has expired; a new request
     * leads to another. */
    const tries = redirected && [401, 403, 410].includes(status) ? MANY : 1;
    throw new Fault(message, {tries, advice: this.#advice[status]});
  }

  /* Throws unless the response has the requested bytes, of the known file. */
  #check(response, at, end, ranged, whole) {
    const {status, headers} = response, text = name => headers.get(name) ?? undefined;
    const fail = (message, options) => { throw new Fault(message, options); };
    const encoding = text('content-encoding')?.replace(/^identity$/, '') || undefined;

    const now = {etag: text('etag'), modified: text('last-modified')};
    let limit = Infinity, skip = 0;
    if (this.isDoubtful && this.known) this.known.length = undefined;
    /* A part of what was compressed cannot be restored. */
    if (status === 206 && encoding) {
      this.ranges = false;
      fail(`the server does not answer ranges: it compresses (${encoding})`);
    } else if (status === 206) {
      if (!ranged) fail('the server answered a part of the file without being asked for one', {tries: FEW});
      /* Without Access-Control-Expose-Headers a page does not see Content-Range: then the
       * lengths have to do. */
      const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(text('content-range') ?? '');
      if (text('content-range') && !range)
        fail(`the server answered with "${text('content-range')}"`, {tries: FEW});
      if (range) {
        now.length = Number(range[3]);
        const last = (end ?? now.length) - 1;
        const changed = !!this.known?.length && now.length !== this.known.length, tries = changed ? 1 : FEW;
        if (Number(range[1]) !== at || Number(range[2]) !== last)
          fail(`the server answered with ${range[0]}, asked for bytes ${at}-${last}`, {changed, tries});
        limit = last + 1 - at;
      } else {
        const sent = text('content-length');
        if (end === undefined && sent !== undefined) now.length = at + Number(sent);
        limit = (end ?? this.known?.length ?? Infinity) - at;
      }
    } else if (status === 200) {
      const isHidden = IN_PAGE && response.type === 'cors';
      const sent = encoding || (isHidden && this.#isUnsized) ? undefined : text('content-length');
      if (sent !== undefined) now.length = Number(sent);
      if (end !== undefined && !whole)
        fail('the server does not answer ranges', {tries: this.ranges ? FEW : 1});
      // a range is requested uncompressed
      if (!ranged) this.isDoubtful = sent !== undefined && isHidden;
      limit = this.isDoubtful ? Infinity : now.length ?? this.known?.length ?? Infinity;
      this.encoding = encoding;
      skip = at;
    } else {
      fail(`the server answered ${status}`);
    }
    const mark = this.known && difference(this.known, now);
    if (mark)
      fail(`the file has changed meanwhile (${mark} ${this.known[mark]}, now ${now[mark]}); load it again`,
        {changed: true});
    /* From its beginning again, and nothing shows that it is the same file. */
    if (skip && !(this.known.etag && now.etag) && !(this.known.modified && now.modified))
      fail(
        'the connection ended, the server does not answer ranges, and no ETag or Last-Modified says that ' +
        'the file is ' +
        'still the same', {changed: true, advice: 'load it again'});
    if (ranged) this.ranges = status === 206;
    this.known = {length: this.known?.length ?? now.length, etag: this.known?.etag ?? now.etag,
      modified: this.known?.modified ?? now.modified};
    return {limit, skip};
  }

  /* The body's parts; a body that stalls or is longer than its announced length is an error.  Of a
   * range, the requested bytes come before that error, however the body is cut into parts. */
  async * #parts(stream, limit, ranged) {
    let total = 0;
    for (let part; (part = await this.#quick(stream.read(), 'no byte came'));) {
      total += part.length;
      if (total > limit && ranged) yield part.subarray(0, Math.max(0, limit - total + part.length));
      if (total > limit)
        throw new Fault(`more than the ${limit} bytes that the server promised came`, {tries: FEW});
      yield part;
    }
  }
}
