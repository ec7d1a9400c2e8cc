/* Serves folders for the page: ranges, types, and the headers that make it cross-origin isolated.
 * SPDX-License-Identifier: MIT
 *
 *   node demo/serve.mjs [--port 8080] [--no-isolation] PATH=FOLDER_OR_FILE...
 *
 * PATH=FOLDER_OR_FILE is such as /=build/wasm/demo or /models=$HOME/models. */
import {createReadStream} from 'node:fs';
import {stat} from 'node:fs/promises';
import {createServer} from 'node:http';
import {extname, join, normalize} from 'node:path';
import {fileURLToPath} from 'node:url';

const TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.mjs': 'text/javascript',
  '.css': 'text/css', '.json': 'application/json', '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml', '.png': 'image/png', '.webmanifest': 'application/manifest+json'};

/** The file that path names in the first (longest) mount that matches; undefined if none does. ".."
 * does not leave the mount. */
function locate(mounts, path) {
  for (const [prefix, folder] of mounts) {
    if (path === prefix) return folder;
    const base = prefix.endsWith('/') ? prefix : prefix + '/';
    if (path.startsWith(base)) return join(folder, normalize('/' + path.slice(base.length)));
  }
  return undefined;
}

/** {start, end} of one range of size bytes; undefined: the whole (a header that is not a single
 * range of bytes is to be ignored); null: beyond the end. */
function rangeOf(header, size) {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? [];
  if (first === undefined || first + last === '') return undefined;
  if (first === '')
    return Number(last) && size ? {start: Math.max(0, size - Number(last)), end: size - 1} : null;
  if (last !== '' && Number(last) < Number(first)) return undefined;
  return Number(first) < size ? {start: Number(first),
    end: Math.min(last === '' ? Infinity : Number(last), size - 1)} : null;
}

async function answer(request, response, mounts) {
  const say = (status, text, headers) =>
    void response.writeHead(status, {'content-type': 'text/plain', ...headers}).end(`${text}\n`);
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return say(405, 'GET and HEAD are answered', {allow: 'GET, HEAD'});
  let path, query;
  try {
    const url = new URL(request.url.replace(/^\/+/, '/'), 'http://localhost');
    path = decodeURIComponent(url.pathname);
    query = url.search;
  } catch {
    return say(400, 'no address');
  }
  if (path.includes('\0')) return say(400, 'no address');
  let file = locate(mounts, path), info = file && await stat(file).catch(() => undefined);
  if (info?.isDirectory()) {
    if (!path.endsWith('/'))
      return say(301, 'with a slash',
        {location: `${path.split('/').map(encodeURIComponent).join('/')}/${query}`});
    file = join(file, 'index.html');
    info = await stat(file).catch(() => undefined);
  }
  if (!info?.isFile()) return say(404, 'not here');
  const {headers, method} = request, modified = info.mtime.toUTCString(),
    etag = `"${info.size.toString(36)}-${Math.round(info.mtimeMs).toString(36)}"`;
  const common = {'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
    'accept-ranges': 'bytes', 'cache-control': 'no-cache', 'last-modified': modified, etag};
  if (headers['if-none-match']?.split(/\s*,\s*/).some(tag => tag === etag || tag === '*'))
    return void response.writeHead(304, common).end();
  /* If-Range with another version of the file asks for the whole of this one. */
  const same = headers['if-range'] === undefined || headers['if-range'] === etag
    || headers['if-range'] === modified;
  const range = method === 'GET' && same ? rangeOf(headers.range, info.size) : undefined;
  if (range === null)
    return say(416, 'beyond the end', {...common, 'content-type': 'text/plain',
      'content-range': `bytes */${info.size}`});
  const {start, end} = range ?? {start: 0, end: info.size - 1};
  response.writeHead(range ? 206 : 200, {...common,
    ...(range && {'content-range': `bytes ${start}-${end}/${info.size}`}),
    'content-length': end - start + 1});
  if (method === 'HEAD' || !info.size) return void response.end();
  const stream = createReadStream(file, {start, end});
  response.on('close', () => stream.destroy());         // no file stays open after a disconnect
  stream.on('error', () => response.destroy()).pipe(response);
}

/** mounts: [path, folder or file] pairs.  Promises a listening server; port 0 takes a free one. */
export function serve(mounts, {port = 0, isolation = true, csp} = {}) {
  const sorted = [...mounts].sort((a, b) => b[0].length - a[0].length);
  const headers = {
    ...(isolation && {'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp', 'cross-origin-resource-policy': 'same-origin'}),
    ...(csp && {'content-security-policy': csp}),
  };
  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    answer(request, response, sorted).catch(() => response.destroy());
  });
  return new Promise((resolve, reject) => {
    server.on('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

const USAGE = 'usage: node demo/serve.mjs [--port 8080] [--no-isolation] PATH=FOLDER_OR_FILE...';
const HELP = `${USAGE}

Serves folders and files on localhost, to this machine only:
  /=build/wasm/demo            the page
  /models=$HOME/models         what lies in this folder, under /models/

  --port PORT                  the port (8080); 0 takes a free one
  --no-isolation               without the headers of cross-origin isolation: pages have no threads
  --help, -h                   this text`;

/** Parses the arguments: {mounts, port, isolation}.  Throws if they are wrong. */
export function readArguments(args) {
  const asked = {mounts: [], port: 8080, isolation: true};
  for (let i = 0; i < args.length; i++) {
    const [name, value] = /^--port=(.*)$/.test(args[i]) ? ['--port', args[i].slice(7)] : [args[i]];
    if (name === '--help' || name === '-h') asked.help = true;
    else if (name === '--no-isolation') asked.isolation = false;
    else if (name === '--port') {
      const port = value ?? args[++i];
      if (!/^\d{1,5}$/.test(port ?? '') || Number(port) > 65535)
        throw new Error(`--port takes a number from 0 to 65535, not ${port ?? 'nothing'}`);
      asked.port = Number(port);
    } else if (name.startsWith('/') && name.includes('='))
      asked.mounts.push([name.slice(0, name.indexOf('=')), name.slice(name.indexOf('=') + 1)]);
    else throw new Error(name.startsWith('-') ? `unknown option ${name}`
      : `${name} is not PATH=FOLDER_OR_FILE with a path that begins with /`);
  }
  if (!asked.mounts.length && !asked.help) throw new Error('nothing to serve: no PATH=FOLDER_OR_FILE');
  return asked;
}

async function main() {
  let asked;
  try {
    asked = readArguments(process.argv.slice(2));
  } catch (e) {
    console.error(`${e.message}\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  if (asked.help) return void console.log(HELP);
  const server = await serve(asked.mounts, asked);
  console.log(`http://localhost:${server.address().port}/`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
