// Runs the cases of gpu_cases.js in Node.js, on npm's package webgpu, and in Chromium.
// SPDX-License-Identifier: MIT
//
//   node gpu_test.mjs node DAWN.node        on the Vulkan driver that is there
//   node gpu_test.mjs page CHROMIUM         on its own SwiftShader
import {spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {run} from './gpu_cases.js';

const [where, what] = process.argv.slice(2);
const root = fileURLToPath(new URL('../..', import.meta.url));
const MINUTES = 4;

async function inNode() {
  const dawn = createRequire(import.meta.url)(resolve(what));
  return run(dawn.create(['backend=vulkan']), console.log);
}

/* The page imports the cases, and posts each line and then the number that failed. */
const PAGE = `<!doctype html><meta charset="utf-8"><script type="module">
const post = (to, text) => fetch(to, {method: 'POST', body: text});
try {
  const {run} = await import('/tests/web/gpu_cases.js');
  const lines = [];
  const failed = navigator.gpu ? await run(navigator.gpu, line => lines.push(line)) : 'no navigator.gpu';
  await post('/end', JSON.stringify({failed, lines}));
} catch (error) {
  await post('/end', JSON.stringify({failed: 1, lines: [String(error.stack)]}));
}
</script>`;

function served(request, response, end) {
  const {pathname} = new URL(request.url, 'http://localhost');
  if (request.method === 'POST') {
    let body = '';
    request.on('data', piece => { body += piece; });
    request.on('end', () => {
      response.end();
      end(JSON.parse(body));
    });
  } else if (pathname === '/') {
    response.setHeader('Content-Type', 'text/html').end(PAGE);
  } else if (/^\/(tests\/web|web|js)\/[\w-]+\.js$/.test(pathname)) {
    response.setHeader('Content-Type', 'text/javascript').end(readFileSync(join(root, pathname)));
  } else {
    response.writeHead(404).end();
  }
}

async function inPage() {
  const profile = mkdtempSync(join(tmpdir(), 'qsf-gpu-'));
  let end, fail;
  const answer = new Promise((yes, no) => { [end, fail] = [yes, no]; });
  const server = createServer((request, response) => served(request, response, end));
  await new Promise(listening => server.listen(0, '127.0.0.1', listening));
  const browser = spawn(what, ['--headless', '--no-sandbox', '--disable-dev-shm-usage', '--no-first-run',
    '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', `--user-data-dir=${profile}`,
    `http://localhost:${server.address().port}/`], {stdio: ['ignore', 'ignore', 'pipe']});
  let said = '';
  browser.stderr.on('data', piece => { said = (said + piece).slice(-4000); });
  browser.on('error', fail);
  browser.on('exit', code => fail(new Error(`the browser ended with ${code}: ${said}`)));
  const clock = setTimeout(() => fail(new Error(`no answer after ${MINUTES} minutes: ${said}`)),
    MINUTES * 60000);
  try {
    const {failed, lines} = await answer;
    for (const line of lines) console.log(line);
    if (failed === 'no navigator.gpu') {
      console.log(`skipped: ${what} has no navigator.gpu`);
      return 77;
    }
    return failed;
  } finally {
    clearTimeout(clock);
    browser.removeAllListeners('exit');
    const gone = new Promise(exited => browser.on('exit', exited));
    browser.kill('SIGKILL');
    await gone;
    server.closeAllConnections();
    server.close();
    rmSync(profile, {recursive: true, force: true, maxRetries: 10});
  }
}

const failed = await (where === 'page' ? inPage() : inNode());
process.exit(failed === 77 ? 77 : failed ? 1 : 0);
