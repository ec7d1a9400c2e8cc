/* Where a model's bytes come from.  A source has a length and either readSync(at, target), which fills a Uint8Array at once, or
 * read(at, length, signal), which promises bytes.  It never gives fewer bytes than it was asked for.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';

const cut = (name, at, length) => new QsfError('IO', `${name}: cannot read ${length} bytes at ${at}`);

/** Memory. */
export function bytesSource(bytes) {
  return {
    name: 'memory', length: bytes.byteLength,
    readSync(at, target) {
      if (at + target.length > bytes.byteLength) throw cut(this.name, at, target.length);
      target.set(bytes.subarray(at, at + target.length));
    },
    close() {},
  };
}

/** A Blob or File: in place where the worker can, else promised. */
export function blobSource(blob) {
  const source = {name: blob.name ?? 'blob', length: blob.size, close() {}};
  if (typeof FileReaderSync === 'undefined') {
    source.read = async (at, length) => {
      if (at + length > blob.size) throw cut(source.name, at, length);
      return new Uint8Array(await blob.slice(at, at + length).arrayBuffer());
    };
  } else {
    const reader = new FileReaderSync();
    source.readSync = (at, target) => {
      if (at + target.length > blob.size) throw cut(source.name, at, target.length);
      target.set(new Uint8Array(reader.readAsArrayBuffer(blob.slice(at, at + target.length))));
    };
  }
  return source;
}

const TRIES = 4, STALL_MS = 30_000, FIRST = 1 << 16;

/* Waits, but not longer than the signal. */
const pause = (ms, signal) => new Promise((resolve, reject) => {
  const abort = () => { clearTimeout(timer); reject(signal.reason); };
  const timer = setTimeout(() => { signal?.removeEventListener('abort', abort); resolve(); }, ms);
  signal?.addEventListener('abort', abort, {once: true});
});

/* How long to wait before the next try: what the server says, at most a minute, else longer each time. */
function patience(response, attempt) {
  const after = Number(response?.headers.get('retry-after'));
  return after > 0 ? Math.min(after, 60) * 1000 : 250 * 4 ** attempt;
}

/** The body, whole; a stalled one is an error.  onBytes is told the size of each part. */
async function body(response, limit, controller, onBytes) {
  const parts = [];
  let total = 0;
  const reader = response.body.getReader();
  for (;;) {
    let timer;
    const stall = new Promise((_, reject) => { timer = setTimeout(() => reject(new QsfError('HTTP', `${response.url}: no byte for ${STALL_MS / 1000} seconds`)), STALL_MS); });
    const {done, value} = await Promise.race([reader.read(), stall]).finally(() => clearTimeout(timer));
    if (done) break;
    total += value.length;
    if (total > limit) {
      controller.abort();
      throw new QsfError('HTTP', `${response.url}: more than the ${limit} bytes that were asked for`);
    }
    parts.push(value);
    onBytes?.(value.length);
  }
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(total);
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
}

/* Bytes [at, at + length) by one request, checked.  ranged false: what a server that knows no ranges answers is taken whole. */
async function request(url, at, length, known, signal, onBytes) {
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  signal?.throwIfAborted();
  signal?.addEventListener('abort', abort, {once: true});
  try {
    const response = await fetch(url, {headers: {range: `bytes=${at}-${at + length - 1}`}, signal: controller.signal});
    const fail = (message, again) => {
      controller.abort();
      return Object.assign(new QsfError('HTTP', `${url}: ${message}`), {again, response});
    };
    if (response.status === 429 || response.status >= 500) throw fail(`the server answered ${response.status}`, true);
    if (!response.ok) throw fail(`the server answered ${response.status}`, false);
    const encoding = response.headers.get('content-encoding');
    if (encoding && encoding !== 'identity') throw fail(`the server compresses (${encoding}); model files must come as they are`, false);
    const etag = response.headers.get('etag');
    if (known?.etag && etag && etag !== known.etag) throw fail('the file has changed meanwhile; load it again', false);
    if (response.status === 200) {
      if (known) throw fail('the server stopped answering ranges', false);
      return {whole: true, bytes: await body(response, Infinity, controller, onBytes), etag};
    }
    if (response.status !== 206) throw fail(`the server answered ${response.status}`, false);
    /* Without Access-Control-Expose-Headers a page does not see Content-Range: then the length has to do. */
    const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
    if (range && (Number(range[1]) !== at || (known && Number(range[3]) !== known.length))) throw fail(`the server answered with bytes ${range[0]}`, false);
    const bytes = await body(response, length, controller, onBytes);
    const want = range ? Math.min(length, Number(range[3]) - at) : length;
    if (bytes.length !== want && (known || range)) throw fail(`${bytes.length} bytes came, ${want} were asked for`, true);
    return {bytes, etag, length: range ? Number(range[3]) : undefined};
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

async function patiently(url, at, length, known, signal, onBytes) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await request(url, at, length, known, signal, onBytes);
    } catch (error) {
      signal?.throwIfAborted();
      const again = error.again ?? !(error instanceof QsfError && error.code !== 'HTTP');    /* a failed connection is a TypeError */
      if (!again || attempt + 1 === TRIES) {
        if (error instanceof QsfError) throw error;
        throw new QsfError('HTTP', `${url}: ${error.message}; no connection, or the server's CORS headers forbid it`, {cause: error});
      }
      await pause(patience(error.response, attempt), signal);
    }
  }
}

/** A URL: ranges of it, or all of it where the server has no ranges.  onBytes(n) hears of every n bytes that came. */
export async function urlSource(url, {signal, onBytes} = {}) {
  const first = await patiently(url, 0, FIRST, undefined, signal, onBytes);
  if (first.whole) return {...bytesSource(first.bytes), name: url};
  if (first.length === undefined) throw new QsfError('HTTP', `${url}: the server does not say how long the file is; it has to expose Content-Range`);
  const known = {etag: first.etag, length: first.length};
  return {
    name: url, length: first.length,
    async read(at, length, readSignal) {
      if (at + length > first.length) throw cut(url, at, length);
      if (at + length <= first.bytes.length) return first.bytes.subarray(at, at + length);
      return (await patiently(url, at, length, known, readSignal, onBytes)).bytes;
    },
    close() {},
  };
}
