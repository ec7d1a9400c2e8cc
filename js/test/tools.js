/* What the tests share: where things are, a server that can be told to fail, sizes.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_PACKAGE   the installed package's folder        QSF_TEST_QSF, QSF_TEST_GGUF   models
 * QSF_TEST_RUN       the native qsf-run, for its tokens    QSF_TEST_WORK                 a folder to write to */
import {execFileSync} from 'node:child_process';
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
export const PACKAGE = need('QSF_TEST_PACKAGE'), QSF = need('QSF_TEST_QSF'), GGUF = need('QSF_TEST_GGUF'), WORK = need('QSF_TEST_WORK');
export const packaged = file => join(PACKAGE, file);
export const {load, QsfError} = await import(pathToFileURL(packaged('node.js')));

export const QUESTION = [{role: 'user', content: 'What is the capital of France?'}];

/** The native program's greedy tokens for QUESTION. */
export const nativeTokens = (model, n) => JSON.parse(execFileSync(need('QSF_TEST_RUN'), ['-m', model, '-p', QUESTION[0].content, '--temp', '0', '-n', String(n), '--json'])).ids;

/** The answer as text, tokens and the reason of its end. */
export async function collect(tokens, ids = []) {
  let text = '', step;
  while (!(step = await tokens.next()).done) text += step.value;
  return {text, ids, reason: step.value};
}
export async function answer(model, options = {}) {
  const ids = [];
  return collect(model.chat(QUESTION, {temperature: 0, maxTokens: 24, ...options, onToken: id => ids.push(id)}), ids);
}

/** Serves one file; spoil(request, response, {start, end, size}) may answer instead and says so by true. */
export async function fileServer(file, spoil = () => false) {
  const {size} = await stat(file);
  let requests = 0;
  const server = createServer((request, response) => {
    const [, a, b] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [undefined, 0, size - 1];
    const range = {start: Number(a), end: Math.min(Number(b), size - 1), size, n: requests++};
    if (spoil(request, response, range)) return;
    response.writeHead(206, {'content-range': `bytes ${range.start}-${range.end}/${size}`, 'content-length': range.end - range.start + 1, etag: '"one"'});
    createReadStream(file, {start: range.start, end: range.end}).pipe(response);
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return {url: `http://127.0.0.1:${server.address().port}/model`, get requests() { return requests; }, close: () => { server.closeAllConnections(); server.close(); }, file};
}

export const bytesOf = async file => new Uint8Array(await readFile(file));
