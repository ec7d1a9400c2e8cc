/* Serves folders for the page: ranges, types, and the headers that make it cross-origin isolated.
 * SPDX-License-Identifier: MIT
 *
 *   node demo/serve.mjs [--port 8080] [--no-isolation] PATH=FOLDER_OR_FILE...     such as /=demo /js=build/wasm/js /models=$HOME/models */
import {createReadStream} from 'node:fs';
import {stat} from 'node:fs/promises';
import {createServer} from 'node:http';
import {extname, join, normalize} from 'node:path';
import {fileURLToPath} from 'node:url';

const TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.wasm': 'application/wasm', '.svg': 'image/svg+xml', '.png': 'image/png'};

/** The longest mount that path begins with, as a file's name; undefined where there is none. */
function locate(mounts, path) {
  for (const [prefix, folder] of mounts) {
    if (path === prefix) return folder;
    const base = prefix.endsWith('/') ? prefix : prefix + '/';
    if (path.startsWith(base)) return join(folder, normalize('/' + path.slice(base.length)));
  }
  return undefined;
}

async function answer(request, response, mounts, headers) {
  const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
  let file = locate(mounts, path), info = file && await stat(file).catch(() => undefined);
  if (info?.isDirectory()) {
    file = join(file, 'index.html');
    info = await stat(file).catch(() => undefined);
  }
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  if (!info?.isFile()) {
    response.writeHead(404, {'content-type': 'text/plain'}).end('not here\n');
    return;
  }
  const etag = `"${info.size.toString(36)}-${Math.round(info.mtimeMs).toString(36)}"`;
  const common = {'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'accept-ranges': 'bytes', 'cache-control': 'no-cache', etag};
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  if (!range && request.headers['if-none-match'] === etag) {
    response.writeHead(304, common).end();
    return;
  }
  const start = range ? Number(range[1]) : 0, end = Math.min(range?.[2] ? Number(range[2]) : Infinity, info.size - 1);
  if (range && start > end) {
    response.writeHead(416, {...common, 'content-range': `bytes */${info.size}`}).end();
    return;
  }
  const more = range ? {'content-range': `bytes ${start}-${end}/${info.size}`} : {};
  response.writeHead(range ? 206 : 200, {...common, ...more, 'content-length': end - start + 1});
  if (request.method === 'HEAD' || !info.size) response.end();
  else createReadStream(file, {start, end}).on('error', () => response.destroy()).pipe(response);
}

/** mounts: [path, folder or file] pairs.  Promises a listening server; port 0 takes a free one. */
export function serve(mounts, {port = 0, isolation = true, csp} = {}) {
  const sorted = [...mounts].sort((a, b) => b[0].length - a[0].length);
  const headers = {
    ...(isolation && {'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp', 'cross-origin-resource-policy': 'same-origin'}),
    ...(csp && {'content-security-policy': csp}),
  };
  const server = createServer((request, response) => {
    answer(request, response, sorted, headers).catch(() => response.destroy());
  });
  return new Promise((resolve, reject) => {
    server.on('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const args = process.argv.slice(2), at = args.indexOf('--port');
  const port = at < 0 ? 8080 : Number(args.splice(at, 2)[1]);
  const isolation = !args.includes('--no-isolation');
  const mounts = args.filter(a => a.includes('=')).map(a => [a.slice(0, a.indexOf('=')), a.slice(a.indexOf('=') + 1)]);
  const server = await serve(mounts, {port, isolation});
  console.log(`http://localhost:${server.address().port}/`);
}
