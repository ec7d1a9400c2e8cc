/* The page that qsf-serve answers "/" with, in real Chromium: questions to a running server and to
 * one that says what seldom comes, keys, errors, looks.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_RECORD=1 writes what is said again, to tests/golden/clients/page.json. Screenshots go to
 * QSF_TEST_WORK. */
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {readFileSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {extname, join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {accessible, fits} from './browser/looks.js';

const {QSF_TEST_WORK: WORK, QSF_TEST_SERVE: SERVE, QSF_TEST_GGUF: GGUF} = process.env;
const root = fileURLToPath(new URL('../..', import.meta.url)),
  golden = join(root, 'tests/golden/clients/page.json');
// by time: a page that is not in front may draw no frame
const SLOW = {timeout: 240_000, polling: 50};

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A page of a server; path: where in it. */
async function visit(port, {path = '/', ...context} = {}) {
  const person = await browser.newContext({viewport: {width: 1100, height: 800}, ...context});
  const errors = [];
  async function open() {
    const page = await person.newPage();
    page.on('pageerror', error => errors.push(error.message));
    page.on('console', message => {
      if (message.type() === 'error' && !/status of [45]|ERR_/.test(message.text()))
        errors.push(message.text());
    });
    await page.goto(`http://127.0.0.1:${port}${path}`);
    return page;
  }
  return {person, open, page: await open(), async close() {
    await person.close();
    assert.deepEqual(errors, []);
  }};
}
const ready = page => page.waitForSelector('#ask:not([hidden])', SLOW);
const answered = page => page.waitForFunction(() => document.querySelector('#talk .turn:last-child .again')
  && document.querySelector('#stop').hidden, undefined, SLOW);
const shot = (page, name) => page.screenshot({path: join(WORK, `served-${name}.png`)});
async function ask(page, text) {
  await page.fill('#text', text);
  await page.keyboard.press('Enter');
  await answered(page);
}
const begun = page => page.waitForFunction(() =>
  document.querySelector('.turn:last-child .assistant')?.textContent.length > 20, undefined, SLOW);
const set = (page, settings) => page.evaluate(all => Object.assign(qsfDemo.settings, all), settings);

/** A running qsf-serve: {port, end(signal)}. */
async function serving(...options) {
  const child = spawn(SERVE, [GGUF, '--alias', 'smollm2', '--quiet', '--threads', '2', '--slots', '2',
    '--ctx-size', '4096', '--port', '0', ...options], {stdio: ['ignore', 'ignore', 'pipe']});
  const gone = once(child, 'exit');
  let said = '', port;
  while (!port) {
    const [data] = await Promise.race([once(child.stderr, 'data'),
      gone.then(() => { throw new Error(`the server did not begin: ${said}`); })]);
    port = Number(/ is served at http:\/\/127\.0\.0\.1:(\d+)/.exec(said += data)?.[1]);
  }
  child.stderr.resume();
  return {port, end: signal => { child.kill(signal); return gone; }};
}

/* ---- a transcript ---- */

const still = text => JSON.parse(text, (name, value) => name === 'created' ? 0
  : name === 'id' ? value.replace(/^(\w*cmpl-).*/, '$1...') : value);

/** What the page asks and is answered, from its next load on: step(name) keeps what was said since
 * the last one. */
async function recorder(page) {
  await page.addInitScript(() => {
    const ask = fetch;
    globalThis.said = [];
    globalThis.fetch = async (url, options) => {
      const response = await ask(url, options);
      globalThis.said.push({method: options.method ?? 'GET', path: new URL(url).pathname, body: options.body,
        status: response.status, type: response.headers.get('content-type'),
        text: response.clone().text().catch(() => '')});        // that of a stopped answer has no end
      return response;
    };
  });
  const steps = [];
  return {steps, async step(name) {
    const said = await page.evaluate(() => Promise.all(
      globalThis.said.splice(0).map(async one => ({...one, text: await one.text}))));
    steps.push({step: name, exchanges: said.map(({method, path, body, status, type, text}) => ({
      asked: {method, path, ...(body && {body: JSON.parse(body)})},
      answered: {status, type, ...(type === 'text/event-stream'
        ? {events: text.split('\n\n').filter(Boolean).map(event => event.replace(/^data: /, ''))
          .map(data => data === '[DONE]' ? data : still(data))} : {body: still(text)})}}))});
  }};
}
/* An exchange is the same when the page asks the same, and the answer has what the recorded one
 * has, with values of the same types: text depends on the processor, a server may say more. */
const kind = value => value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
const covers = (now, then) => kind(now) === kind(then) && (kind(then) === 'array'
  ? !then.length || now.some(one => covers(one, then[0])) : kind(then) !== 'object'
  || Object.entries(then).every(([name, value]) => covers(now[name], value)));
function same(now, then) {
  const asked = steps => steps.map(({step, exchanges}) => [step, exchanges.map(exchange => exchange.asked)]);
  assert.deepEqual(asked(now), asked(then));
  then.forEach(({step, exchanges}, i) => exchanges.forEach(({answered: {events = [], body, ...rest}}, j) => {
    const {answered} = now[i].exchanges[j];
    assert.deepEqual([answered.status, answered.type], [rest.status, rest.type], step);
    if (body) assert.ok(covers(answered.body, body), `${step}: ${JSON.stringify(answered.body)}`);
    for (const event of events)
      assert.ok(answered.events.some(one => covers(one, event)), `${step}: no ${JSON.stringify(event)}`);
  }));
}

describe('a running server', () => {
  let server, tab, page, record;
  before(async () => {
    server = await serving();
    tab = await visit(server.port);
    ({page} = tab);
    await ready(page);
    record = await recorder(page);
    await page.reload();
    await ready(page);
  });
  after(async () => {
    await server.end('SIGKILL');
    await tab.close();
  });
  const slots = async () => (await fetch(`http://127.0.0.1:${server.port}/slots`)).json();

  test('says what answers', async () => {
    assert.match(await page.textContent('#facts'),
      /Modelsmollm2, 135 million parameters, llamaFile\d+ MBContext4,096 tokens.*Server127\.0\.0\.1:\d+/);
    assert.equal(await page.isHidden('#start'), true);
    assert.equal(await page.isHidden('#models'), true);
    assert.equal(await page.evaluate(() => [...performance.getEntriesByType('resource')]
      .some(({name}) => /local\.js|offline\.js|\.wasm/.test(name))), false);
    await record.step('models');
    await shot(page, 'ready');
  });
  test('answers, and says what it used', async () => {
    await set(page, {temperature: 0, maxTokens: 24});
    await ask(page, 'What is the capital of France?');
    assert.match(await page.textContent('.assistant'), /Paris/);
    assert.match(await page.textContent('#figures'),
      /^Last answer: [\d.]+ tokens\/s · first token after [\d.]+ s · \d+ tokens · prompt \d+$/);
    assert.match(await page.textContent('#state'), /^Answer: .*Paris/);
    await record.step('question');
    await set(page, {maxTokens: 80});
    await ask(page, 'Write a short list of three fruits.');
    assert.match(await page.textContent('#figures'), /prompt \d+, \d+ cached$/);
    await shot(page, 'chat');
  });
  test('is stopped, and is free soon', {timeout: 240_000}, async () => {
    await set(page, {maxTokens: 3000, system: 'You tell stories.'});
    await page.fill('#text', 'Tell me a very long story about a lighthouse.');
    await page.keyboard.press('Enter');
    await begun(page);
    while ((await slots()).filter(slot => slot.is_processing).length !== 1);
    await shot(page, 'answering');
    await page.click('#stop');
    await answered(page);
    const stopped = performance.now();
    while ((await slots()).some(slot => slot.is_processing)) assert.ok(performance.now() - stopped < 30_000);
    assert.match(await page.textContent('.turn:last-child .ended'), /stopped$/);
  });
  test('continues a text', async () => {
    await set(page, {maxTokens: 12, system: ''});
    await page.click('#more');
    await page.click('label[for=mode-text]');
    await page.evaluate(() => { globalThis.said.length = 0; });
    await ask(page, 'One, two, three, four,');
    assert.match(await page.textContent('.continued'), /five/);
    assert.match(await page.textContent('.turn:last-child .ended'), /maximum length reached/);
    await record.step('text');
    await page.click('#more');
    await page.click('label[for=mode-chat]');
  });
  test('says the same as when it was recorded', () => {
    if (process.env.QSF_TEST_RECORD) writeFileSync(golden, `${JSON.stringify(record.steps, null, 1)}\n`);
    same(record.steps, JSON.parse(readFileSync(golden, 'utf8')));
  });
  test('refuses what is too long, in words', async () => {
    await page.click('#new');
    await ask(page, 'long '.repeat(6000));
    assert.match(await page.textContent('.turn .bad'), /4096[^]*Write a shorter message[^]*--ctx-size/);
    await page.click('#new');
  });
  test('that is killed is missed in words, and found again', async () => {
    await set(page, {maxTokens: 3000});
    await page.fill('#text', 'Tell me a very long story about a lighthouse.');
    await page.keyboard.press('Enter');
    await begun(page);
    await server.end('SIGKILL');
    await answered(page);
    assert.match(await page.textContent('.turn .bad'),
      /The answer was interrupted: the connection to the server was lost\.It may have stopped[^]*retry/);
    await set(page, {maxTokens: 8});
    await page.click('.again');
    await page.waitForFunction(() => /does not respond/.test(
      document.querySelector('.turn .bad')?.textContent), undefined, SLOW);
    assert.equal(await page.locator('.turn .bad').count(), 1);
    await shot(page, 'gone');
    server = await serving('--port', String(server.port));
    await page.click('.again');
    await page.waitForFunction(() => !document.querySelector('.turn .bad'), undefined, SLOW);
    await answered(page);
    assert.equal(await page.locator('.bad:visible').count(), 0);
    assert.match(await page.textContent('#figures'), /8 tokens/);
  });
});

test('a key is asked for, and kept while the tab is there', async t => {
  const server = await serving('--api-key', 'schlüssel');
  t.after(() => server.end('SIGKILL'));
  const tab = await visit(server.port), {page} = tab;
  t.after(() => tab.close());
  await page.waitForSelector('#key:not([hidden])', SLOW);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'key-text');
  assert.equal(await page.isHidden('#key-wrong'), true);
  await fits(page);
  await accessible(page, 'key');
  await shot(page, 'key');
  await page.keyboard.type('another');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#key-wrong:not([hidden])', SLOW);
  await page.keyboard.type('schlüssel');
  await page.keyboard.press('Enter');
  await ready(page);
  await set(page, {temperature: 0, maxTokens: 8});
  await ask(page, 'What is the capital of France?');
  assert.match(await page.textContent('.assistant'), /Paris/);
  await page.reload();
  await ready(page);
  assert.equal(await page.isHidden('#key'), true);
  await page.evaluate(() => sessionStorage.clear());
  const next = await tab.open();
  await next.waitForSelector('#key:not([hidden])', SLOW);
});

test('takes the address over from the page with the package', async t => {
  const before = await serve([['/', join(process.env.QSF_TEST_WASM, 'demo')]]), {port} = before.address();
  const tab = await visit(port), {page} = tab;
  t.after(() => tab.close());
  await page.waitForFunction(() => document.querySelector('#kept').textContent.includes('works offline'),
    undefined, SLOW);
  before.closeAllConnections();
  await new Promise(resolve => { before.close(resolve); });
  const server = await serving('--port', String(port));
  t.after(() => server.end('SIGKILL'));
  await page.reload();
  await page.waitForFunction(() => document.documentElement.dataset.engine === 'server', undefined, SLOW);
  await ready(page);
  assert.deepEqual(await page.evaluate(async () => [(await navigator.serviceWorker.getRegistrations()).length,
    await caches.keys()]), [0, []]);
});

/* ---- a server that says what seldom comes ---- */

const TYPES = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml'};
const chunk = (delta, finish = null) =>
  `data: ${JSON.stringify({choices: [{index: 0, delta, finish_reason: finish}]})}\n\n`;
const USAGE = `data: ${JSON.stringify({choices: [], usage: {prompt_tokens: 9, completion_tokens: 7,
  prompt_tokens_details: {cached_tokens: 0}}})}\n\ndata: [DONE]\n\n`;
const pause = ms => new Promise(resolve => { setTimeout(resolve, ms); });

const ANSWERS = {
  async thinks(send) {
    send(`: a comment\r\n${chunk({role: 'assistant', content: ''})}`);
    for (const text of ['First, ', 'what is\nasked.'])
      send(chunk({reasoning_content: text}));
    await pause(300);
    for (const byte of new TextEncoder().encode(chunk({content: '**é** 👩‍👩‍👧 and `日本`'}))) {
      send(Uint8Array.of(byte));
      if (byte > 0xef) await pause(5);
    }
    send(chunk({}, 'stop') + USAGE);
  },
  breaks(send) {
    send(chunk({content: 'Half of'}));
    send('data: {"error": {"message": "the time for this request is over", "code": "timeout"}}\n\n');
  },
  tool(send, messages) {
    if (messages.at(-1).role !== 'tool') {
      const given = '{"expression": "6*7"}';
      send(chunk({tool_calls: [{index: 0, id: 'c1', type: 'function', function: {name: 'calculate',
        arguments: ''}}]}));
      for (const piece of [given.slice(0, 5), given.slice(5)])
        send(chunk({tool_calls: [{index: 0, function: {arguments: piece}}]}));
      return send(chunk({}, 'tool_calls') + USAGE);
    }
    return send(chunk({content: `It is ${messages.at(-1).content}`}) + chunk({}, 'stop') + USAGE);
  },
  full: send => send(chunk({content: 'To the end'}) + chunk({}, 'length') + USAGE),
  ends: send => send(chunk({content: 'Half of'})),
  odd: send => send('data: {"choices\n\n'),
};

describe('a server with something to say', () => {
  let server, port;
  before(async () => {
    server = createServer(async (request, response) => {
      const {pathname} = new URL(request.url, 'http://x'), name = pathname.slice(1) || 'index.html';
      const json = (status, body, headers) => response.writeHead(status,
        {'content-type': 'application/json', ...headers}).end(JSON.stringify(body));
      if (name === 'v1/models')
        return json(200, {object: 'list', data: [{id: 'one', meta: {n_params: 5e8, size: 4e8, n_ctx: 4096},
            status: {value: 'loaded'}},
          {id: `a-model-with-a-long-name-${'x'.repeat(60)}.gguf`, meta: {size: 4e9},
            status: {value: 'unloaded'}}, {id: 'no-more'}]});
      if (name !== 'v1/chat/completions')
        return response.writeHead(200, {'content-type': TYPES[extname(name)]}).end(readFileSync(
          join(root, 'demo', name), 'utf8').replace('data-engine="local"', 'data-engine="server"'));
      let body = '';
      for await (const part of request) body += part;
      const {messages} = JSON.parse(body), {content} = messages.findLast(({role}) => role === 'user');
      if (content === 'busy')
        return json(429, {error: {message: '12 requests wait already', code: 'queue_full'}},
          {'retry-after': 7});
      if (content === 'proxy')
        return response.writeHead(502, {'content-type': 'text/html'}).end('<h1>Bad</h1>');
      response.writeHead(200, {'content-type': 'text/event-stream'});
      await ANSWERS[content](bytes => response.write(bytes), messages);
      return response.end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    ({port} = server.address());
  });
  after(() => { server.closeAllConnections(); server.close(); });

  test('has several models', async t => {
    const tab = await visit(port, {reducedMotion: 'reduce'}), {page} = tab;
    t.after(() => tab.close());
    await page.waitForSelector('#served .choice', SLOW);
    assert.match(await page.textContent('#start-title .of-server'), /Models of this server/);
    assert.match(await page.textContent('#served .choice'), /oneloaded · 500 million parameters · 400 MB/);
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({colorScheme});
      for (const width of [280, 360, 1280]) {
        await page.setViewportSize({width, height: 740});
        await fits(page);
        await accessible(page, `models, ${width}`);
        await shot(page, `models-${colorScheme}-${width}`);
      }
    }
    await page.click('#served .choice:last-child button');
    await ready(page);
    assert.match(await page.textContent('#name'), /^no-more$/);
    await page.click('#models');
    await page.click('#served .choice:first-child button');
    assert.match(await page.textContent('#name'), /^one$/);
    await page.goto(`http://127.0.0.1:${port}/?model=no-more`);
    await ready(page);
    assert.match(await page.textContent('#name'), /^no-more$/);
  });
  test('folds reasoning, and joins characters that come in parts', async t => {
    const tab = await visit(port, {path: '/?model=one'}), {page} = tab;
    t.after(() => tab.close());
    await ready(page);
    await ask(page, 'thinks');
    assert.equal(await page.textContent('.assistant'), 'é 👩‍👩‍👧 and 日本');
    assert.equal(await page.textContent('.assistant strong'), 'é');
    assert.match(await page.textContent('.reasoning summary'), /^Reasoned for \d+ s$/);
    assert.equal(await page.isHidden('.thoughts'), true);
    await page.click('.reasoning summary');
    assert.equal(await page.textContent('.thoughts'), 'First, what is\nasked.');
    assert.match(await page.textContent('#figures'), /· 7 tokens · prompt 9$/);
    for (const width of [320, 1280]) {
      await page.setViewportSize({width, height: 740});
      await fits(page);
      await accessible(page, `reasoning, ${width}`);
      await shot(page, `reasoning-${width}`);
    }
    await page.click('.again');
    await answered(page);
    assert.equal(await page.locator('.reasoning').count(), 1);
  });
  test('has its calls of tools answered by the page', async t => {
    const tab = await visit(port, {path: '/?model=one'}), {page} = tab;
    t.after(() => tab.close());
    await ready(page);
    await page.click('#more');
    await page.click('#tools');
    await page.waitForSelector('#tools[aria-pressed=true]', SLOW);
    await ask(page, 'tool');
    assert.equal(await page.textContent('.assistant'), 'It is 42');
    assert.equal(await page.textContent('.call summary'), 'Calculator: 6*7 → 42');
  });
  const errors = {
    busy: /12 requests wait already \(in 7 s\).*server is busy.*Retry/,
    proxy: /The server answered 502/,
    breaks: /The time for this request is over.*time limit/,
    ends: /The answer was interrupted by the server/,
    odd: /The answer was interrupted/,
  };
  test('fails in words', async t => {
    const tab = await visit(port, {path: '/?model=one'}), {page} = tab;
    t.after(() => tab.close());
    await ready(page);
    for (const [what, pattern] of Object.entries(errors)) {
      await ask(page, what);
      assert.match(await page.textContent('.turn:last-child .bad'), pattern, what);
      assert.equal(await page.getAttribute('.turn:last-child .again', 'aria-label'), 'Retry');
    }
    assert.match(await page.textContent('.turn:nth-child(3) .assistant'), /Half of/);
    await shot(page, 'errors');
    await ask(page, 'full');
    assert.match(await page.textContent('.turn:last-child .ended'),
      /the memory for this conversation is full/);
  });
});
