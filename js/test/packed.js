/* A server that compresses, as many do by default.
 * SPDX-License-Identifier: MIT */
import {readFile} from 'node:fs/promises';
import {createServer} from 'node:http';
import {join} from 'node:path';
import {brotliCompressSync, constants, gzipSync} from 'node:zlib';

const PACK = {
  gzip: bytes => gzipSync(bytes, {level: 1}),
  br: bytes => brotliCompressSync(bytes, {params: {[constants.BROTLI_PARAM_QUALITY]: 1}}),
  stored: bytes => gzipSync(bytes, {level: 0}),       // gzip, and longer than the file
  zstd: bytes => Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), bytes]),        // which is not read
};

/**
 * Serves bytes at /model, an empty page at /, and the package's scripts and modules. ranges:
 * whether it answers them; always: also if the client
 * does not accept the encoding; said: whether it sends Content-Length; cut: how many bytes of the
 * file are missing; headers: more of them; scripts: the package's folder. asked: {range, accept,
 * isPacked} of each request.
 */
export async function packedServer(bytes, {encoding = 'gzip', ranges = true, always = false, said = false,
  cut = 0, headers = {}, scripts} = {}) {
  const name = encoding === 'stored' ? 'gzip' : encoding;
  const asked = [], file = bytes.subarray(0, bytes.length - cut), packed = PACK[encoding](file);
  const server = createServer(async (request, response) => {
    const type = request.url.endsWith('.wasm') ? 'application/wasm' : 'text/javascript';
    if (request.url === '/') return response.writeHead(200, {'content-type': 'text/html'}).end();
    if (/^\/js\/[\w-]+\.(js|wasm)$/.test(request.url))
      return response.writeHead(200, {'content-type': type}).end(await readFile(join(scripts,
        request.url.slice(4))));
    if (request.url !== '/model') return response.writeHead(404).end();
    const {range, 'accept-encoding': accept = ''} = request.headers;
    const found = ranges && /^bytes=(\d+)-(\d*)$/.exec(range ?? '');
    const isPacked = always || accept.includes(name);
    const own = {'etag': isPacked ? '"one-gzip"' : '"one"', 'vary': 'accept-encoding', ...headers,
      ...(isPacked && {'content-encoding': name})};
    asked.push({range, accept, isPacked});
    if (found && !isPacked) {
      const start = Number(found[1]), end = Math.min(Number(found[2] || Infinity), file.length - 1);
      if (start >= file.length)
        return response.writeHead(416, {...own, 'content-range': `bytes */${file.length}`}).end();
      return response.writeHead(206, {...own, 'content-length': end - start + 1,
        'content-range': `bytes ${start}-${end}/${file.length}`}).end(file.subarray(start, end + 1));
    }
    const body = isPacked ? packed : file;
    response.writeHead(200, {...own, ...((said || !isPacked) && {'content-length': body.length})});
    response.write(body.subarray(0, 20_000));           // in two parts
    return response.end(body.subarray(20_000));
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    url: `http://127.0.0.1:${server.address().port}/model`,
    asked,
    close: () => { server.closeAllConnections(); server.close(); },
  };
}
