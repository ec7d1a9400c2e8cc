/* Serves files with ranges at a given rate, which all responses share, like one connection to the
 * internet.
 * SPDX-License-Identifier: MIT */
import {createReadStream} from 'node:fs';
import {stat} from 'node:fs/promises';
import {createServer} from 'node:http';
import {extname, join, normalize} from 'node:path';
import {Transform, pipeline} from 'node:stream';
import {setTimeout as sleep} from 'node:timers/promises';

const TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.mjs': 'text/javascript',
  '.wasm': 'application/wasm'};
const PART = 1 << 16;

/* A stream that delays bytes to keep the rate; idle time is not saved up. */
function throttle(clock, rate) {
  return new Transform({
    async transform(chunk, _, done) {
      const now = performance.now();
      clock.free = Math.max(clock.free, now - 20) + chunk.length / rate * 1000;
      if (clock.free > now) await sleep(clock.free - now);
      done(undefined, chunk);
    },
  });
}

/* A stream that turns one bit of the file. */
function damage(start, place) {
  let at = start;
  return new Transform({
    transform(chunk, _, done) {
      if (place >= at && place < at + chunk.length) {
        chunk = Buffer.from(chunk);
        chunk[place - at] ^= 1;
      }
      at += chunk.length;
      done(undefined, chunk);
    },
  });
}

/** mounts: path -> folder or file; rate in bytes a second (files of models
 * only); spoil: {file, at}. */
export async function benchServer(mounts, {isolation, rate, spoil}) {
  const clock = {free: 0}, sorted = Object.entries(mounts).sort((a, b) => b[0].length - a[0].length);
  async function answer(request, response) {
    const path = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    const [prefix, place] = sorted.find(([p]) => path === p || path.startsWith(`${p}/`)) ?? [];
    const file = place && (path === prefix ? place : join(place, normalize(`/${path.slice(prefix.length)}`)));
    const info = file && await stat(file).catch(() => undefined);
    if (isolation)
      for (const [name, value] of [['opener', 'same-origin'], ['embedder', 'require-corp']])
        response.setHeader(`cross-origin-${name}-policy`, value);
    if (!info?.isFile()) {
      response.writeHead(404).end();
      return;
    }
    // by its time: a browser keeps a module's compiled code as long as its response is not replaced
    const etag = `"${info.size}-${info.mtimeMs}"`;
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304, {etag}).end();
      return;
    }
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? ''),
      start = range ? Number(range[1]) : 0;
    const end = Math.min(range?.[2] ? Number(range[2]) : Infinity, info.size - 1);
    response.writeHead(range ? 206 : 200, {
      'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-length': end - start + 1,
      'accept-ranges': 'bytes', etag,
      ...(range && {'content-range': `bytes ${start}-${end}/${info.size}`}),
    });
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    const steps = [createReadStream(file, {start, end, highWaterMark: PART})];
    if (spoil?.file === file) steps.push(damage(start, spoil.at));
    if (rate && !TYPES[extname(file)]) steps.push(throttle(clock, rate));
    pipeline(...steps, response, () => {});
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return {origin: `http://127.0.0.1:${server.address().port}`, close() {
    server.closeAllConnections();
    server.close();
  }};
}
