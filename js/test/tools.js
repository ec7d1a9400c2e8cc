/* What the tests share: where things are, a server that can be told to fail, sizes.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_PACKAGE   the installed package's folder        QSF_TEST_QSF, QSF_TEST_GGUF   models
 *  QSF_TEST_RUN        the native qsf-run, for its tokens QSF_TEST_WORK a folder to write to */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {once} from 'node:events';
import {createServer} from 'node:http';
import {readFile, stat} from 'node:fs/promises';
import {createReadStream} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

function need(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; tests/suites/js.sh sets everything that these tests need`);
  return value;
}
export const PACKAGE = need('QSF_TEST_PACKAGE'), QSF = need('QSF_TEST_QSF'), GGUF = need('QSF_TEST_GGUF'),
  WORK = need('QSF_TEST_WORK');
export const packaged = file => join(PACKAGE, file);
export const {cache, estimate, load, QsfError} = await import(pathToFileURL(packaged('node.js')));

/** For assert.rejects: an error of the package with this code. */
export const code = (wanted, pattern = /.{10}/) => error => {
  assert.ok(error instanceof QsfError, `not a QsfError: ${error.stack}`);
  assert.equal(error.code, wanted, error.message);
  assert.match(error.message, pattern);
  return true;
};

export const QUESTION = [{role: 'user', content: 'What is the capital of France?'}];

/** The native program's greedy tokens for QUESTION. */
export const nativeTokens = (model, n, more = []) =>
  JSON.parse(execFileSync(need('QSF_TEST_RUN'),
    ['-m', model, '-p', QUESTION[0].content, '--temp', '0', '-n', String(n), '--json', ...more])).ids;

/** The answer as text, tokens and the reason of its end. */
export async function collect(tokens, ids = []) {
  let text = '', step;
  while (!(step = await tokens.next()).done) text += step.value;
  return {text, ids, reason: step.value};
}
export async function answer(model, options = {}) {
  const ids = [];
  return collect(model.chat(QUESTION, {temperature: 0, maxTokens: 24, ...options,
    onToken: id => ids.push(id)}), ids);
}

/**
 * Serves one file correctly: 200, or 206 for a range. spoil(request, response, {n, ranged, start,
 * end, size, send}) may respond instead, and then returns true; n counts requests; send(part) sends
 * the rest of a correct response with part's fields in place of its own: {status, headers, bytes:
 * how many, rate: bytes a second}.
 */
export async function fileServer(file, spoil = () => false) {
  const {size} = await stat(file);
  const asked = [];
  let sent = 0;
  const server = createServer((request, response) => {
    const found = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? ''), ranged = !!found;
    const start = found ? Number(found[1]) : 0,
      end = found?.[2] ? Math.min(Number(found[2]), size - 1) : size - 1;
    const wanted = end - start + 1;
    const send = ({status = ranged ? 206 : 200, headers = {}, bytes = wanted, rate = Infinity, hold} =
        {}) => {
      const own = {'content-length': wanted, etag: '"one"', 'last-modified': 'Wed, 01 Oct 2025 00:00:00 GMT',
        ...(status === 206 && {'content-range': `bytes ${start}-${end}/${size}`})};
      const all = Object.fromEntries(Object.entries({...own, ...headers})
        .filter(([, value]) => value !== undefined));
      response.writeHead(status, all);
      void pour(createReadStream(file, {start, end: start + bytes - 1}), response, {rate, hold},
        n => { sent += n; })
        .then(() => bytes < wanted ? request.socket.destroySoon() : response.end());
    };
    const range = {n: asked.length, ranged, start, end, size, send};
    asked.push(request.headers.range ?? 'all');
    if (!spoil(request, response, range)) send();
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/model`,
    asked,                                      // 'all', or the Range header
    get sent() { return sent; },
    drop: () => server.closeAllConnections(),
    close: () => { server.closeAllConnections(); server.close(); },
  };
}

/* A stream's bytes to a response, not faster than rate or than they are taken; from byte hold.at on
 * they wait for hold.until. */
async function pour(stream, response, {rate, hold}, count) {
  const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
  let due = performance.now(), at = 0;
  for await (const part of stream) {
    if (hold && at + part.length > hold.at) {
      await Promise.race([hold.until, once(response, 'close')]);
      hold = undefined;
    }
    if (response.destroyed) return;
    count(part.length);
    at += part.length;
    if (!response.write(part)) {
      const either = new AbortController(), {signal} = either;
      await Promise.race([once(response, 'drain', {signal}), once(response, 'close', {signal})])
        .catch(() => {});
      either.abort();
    }
    due += part.length / rate * 1000;
    if (due - performance.now() > 2) await pause(due - performance.now());
  }
}

export const bytesOf = async file => new Uint8Array(await readFile(file));
