/* The page (demo/) in real Chromium: choosing, talking, errors, the keyboard alone, offline use,
 * isolation by the service worker, looks.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_WASM/demo is the folder that a site would serve.  Screenshots go to QSF_TEST_WORK. */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {appendFileSync, cpSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {launch} from './chromium.js';
import {accessible, fits} from './browser/looks.js';
import {NAME, SLOW, advanced, answered, ask, open, ready} from './browser/visit.js';
import {QSF, WORK} from './tools.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const visit = options => open(browser, options);
/* What is loaded may be there before the test looks: only a lasting state can be waited for. */
const remember = page => page.evaluate(() => { globalThis.former = qsfDemo.model; });
async function replaced(page) {
  await page.waitForFunction(() => qsfDemo.model && qsfDemo.model !== former, undefined, SLOW);
  await ready(page);
}
const shot = (page, name) => page.screenshot({path: join(WORK, `page-${name}.png`)});
async function plainText(page, is = true) {
  await page.click('#more');
  await page.click(`label[for=mode-${is ? 'text' : 'chat'}]`);
}
const kept = page => page.waitForFunction(
  () => document.querySelector('#kept').textContent.includes('works offline'), undefined, SLOW);
const focused = page => page.evaluate(() => document.activeElement.id || document.activeElement.name
  || document.activeElement.tagName);
describe('a conversation', () => {
  let tab, page;
  before(async () => {
    tab = await visit();
    ({page} = tab);
  });
  after(() => tab.close());

  test('begins with one button, and a list that says what is there', async () => {
    await page.waitForSelector('#go:not([disabled])', SLOW);
    assert.match(await page.textContent('#offer'),
      /SmolLM2 135M.*Very small and quick.*79 MB, downloaded once/s);
    assert.equal(await page.isVisible('#choose'), false);
    await kept(page);
    await shot(page, 'first');
    await advanced(page);
    assert.equal(await page.isDisabled('#pick-0'), false);
    assert.equal(await page.isDisabled('#pick-1'), true);
    assert.match(await page.textContent('#list .choice:nth-child(2)'), /not available/);
    await shot(page, 'start');
  });
  test('shows the memory map, then the answer', async () => {
    await page.click('#go');
    await ready(page);
    assert.equal(await page.locator('#suggestions li').count(), 4);
    await shot(page, 'welcome');
    await page.click('#hood-open');
    const total = await page.evaluate(() => qsfDemo.model.info.planBytes);
    const widths = await page.$$eval('#map rect',
      all => all.reduce((sum, rect) => sum + rect.width.baseVal.value + 3, 0));
    assert.ok(Math.abs(widths - 1000) < 20, `${widths}`);
    assert.match(await page.getAttribute('#map svg', 'aria-label'), /Memory map: .*KV cache \d+ MB/);
    assert.match(await page.textContent('#facts'), new RegExp(`Memory${Math.round(total / 1e6)} MB`));
    assert.match(await page.textContent('#facts'), /DeviceCPU, because .*(WebGPU|emulates a GPU)/);
    await shot(page, 'ready');
    await page.keyboard.press('Escape');
    await page.evaluate(() => { qsfDemo.settings.temperature = 0; });
    await ask(page, 'What is the capital of France?');
    assert.match(await page.textContent('.assistant'), /Paris/);
    assert.match(await page.textContent('#figures'),
      /^Last answer: [\d.]+ tokens\/s · first token after [\d.]+ s · \d+ tokens/);
    assert.match(await page.textContent('#state'), /^Answer: .*Paris/);
  });
  test('is answered again, and goes on', async () => {
    const first = await page.textContent('.assistant');
    await page.evaluate(() => document.querySelector('.assistant').classList.add('former'));
    await page.click('.again');
    await answered(page);
    assert.equal(await page.locator('.former').count(), 0);
    assert.equal(await page.textContent('.assistant'), first);
    await page.evaluate(() => { qsfDemo.settings.maxTokens = 160; });
    await ask(page, 'Write a Python function that adds two numbers, and a short list of what it needs.');
    assert.equal(await page.locator('.turn').count(), 2);
    assert.match(await page.textContent('.turn .versions'), /2 of 2/);
    assert.equal(await page.evaluate(() => document.querySelectorAll('#talk script, #talk img').length), 0);
    await shot(page, 'chat');
  });
  test('computes only what is new when it is opened again, also after an edit', async () => {
    await page.evaluate(() => { qsfDemo.settings.maxTokens = 16; });
    const fresh = async () => {
      const [, asked, kept = 0] = /prompt (\d+)(?:, (\d+) cached)?/.exec(await page.textContent('#figures'));
      return [asked - kept, Number(kept)];
    };
    const long = 'Cats sleep most of the day, and hunt at dawn and at dusk. '.repeat(6);
    await page.click('#new');
    await ask(page, `${long}When do cats hunt?`);
    await page.click('#new');
    await ask(page, 'What do dogs eat?');
    const before = await fresh();
    await page.click('#conversations li:nth-child(2) .open');
    await ask(page, 'And owls?');
    const [computed, kept] = await fresh();
    assert.ok(computed < 40 && kept > 100, `${computed} computed, ${kept} kept`);
    await page.click('#conversations li:nth-child(2) .open');
    await ask(page, 'And bees?');
    assert.ok((await fresh())[1] > before[0], 'the other one, too');
    await page.click('#conversations li:nth-child(2) .open');
    const whole = await page.textContent('.turn:last-child .assistant');
    await page.click('.turn:last-child .again');
    await answered(page);
    assert.ok((await fresh())[0] < 40);
    assert.equal(await page.textContent('.turn:last-child .assistant'), whole);
    await page.click('.turn:last-child .edit');
    await page.keyboard.press('End');
    await page.keyboard.type(' And bats?');
    await page.keyboard.press('Enter');
    await answered(page);
    assert.ok((await fresh())[0] < 40);
    await page.click('.turn:first-child footer:not(.mine) .again');
    await answered(page);
    assert.equal(await page.locator('.turn').count(), 1);
    await page.evaluate(() => { qsfDemo.settings.maxTokens = 160; });
  });
  test('goes on while another one is answered', async () => {
    await page.click('#new');
    await page.evaluate(() => { qsfDemo.settings.maxTokens = 40; });
    await page.fill('#text', 'Tell me a long story about a lighthouse.');
    await page.keyboard.press('Enter');
    await page.click('#new');
    await ask(page, 'What is the capital of France?');
    assert.match(await page.textContent('.assistant'), /Paris/);
    await page.click('#conversations .open:has(.answered)', SLOW);
    assert.match(await page.textContent('.assistant'), /lighthouse/i);
    assert.match(await page.textContent('.ended'), /maximum length reached/);
  });
  test('stops by Escape and keeps what there is', async () => {
    await page.evaluate(() => { qsfDemo.settings.maxTokens = 2000; });
    await page.fill('#text', 'Tell me a long story about a lighthouse.');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.querySelector('.turn:last-child .assistant')?.textContent.length
      > 20, undefined, SLOW);
    await page.keyboard.press('Escape');
    await answered(page);
    assert.match(await page.textContent('.turn:last-child .ended'), /stopped$/);
    assert.equal(await focused(page), 'text');
    await page.click('#new');
    assert.equal(await page.locator('.turn').count(), 0);
  });
  test('continues plain text', async () => {
    await page.evaluate(() => { qsfDemo.settings.maxTokens = 12; });
    await plainText(page);
    await ask(page, 'One, two, three, four,');
    assert.match(await page.textContent('.continued'), /five/);
    assert.match(await page.textContent('.ended'), /maximum length reached/);
    await plainText(page, false);
  });
  test('keeps its settings in this browser', async () => {
    await page.click('#options');
    await page.fill('[name=temperature]', '0.25');
    await page.fill('[name=system]', 'Answer in one word.');
    await page.fill('[name=topP]', '7');                        // not possible: the default holds
    await shot(page, 'settings');
    await page.keyboard.press('Escape');
    const again = await tab.open();
    await again.waitForFunction(() => globalThis.qsfDemo, undefined, SLOW);
    const {temperature, system, topP, maxTokens} = await again.evaluate(() => qsfDemo.settings);
    assert.deepEqual({temperature, system, topP},
      {temperature: 0.25, system: 'Answer in one word.', topP: 0.9});
    assert.ok(maxTokens > 0);
    await again.close();
  });
  test('takes a dropped file', async () => {
    await remember(page);
    await page.evaluate(async name => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([await (await fetch(name)).blob()], 'dropped.qsf'));
      const send = type => window.dispatchEvent(
        new DragEvent(type, {dataTransfer: transfer, cancelable: true, bubbles: true}));
      send('dragover');
      if (document.querySelector('#drop').hidden) throw new Error('nothing says that it can be dropped');
      send('drop');
    }, NAME);
    await replaced(page);
    assert.equal(await page.locator('.turn').count(), 1, 'the conversation goes on');
    assert.equal(await page.isHidden('#drop'), true);
  });
});

test('the keyboard alone is enough', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await page.waitForSelector('#go:not([disabled])', SLOW);
  const order = [];
  const walk = async to => {
    for (let i = 0; i < 16 && order.at(-1) !== to; i++) {
      await page.keyboard.press('Tab');
      order.push(await focused(page));
    }
  };
  await walk('SUMMARY');
  assert.deepEqual(order, ['menu', 'options', 'go', 'SUMMARY']);
  await page.keyboard.press('Enter');
  await walk('load');
  assert.deepEqual(order.slice(4), ['pick-0', 'url', 'browse', 'memory', 'contextLength', 'threads',
    'device', 'kv', 'load']);
  await page.keyboard.press('Enter');
  await ready(page);
  assert.equal(await focused(page), 'text');
  await page.evaluate(() => Object.assign(qsfDemo.settings, {temperature: 0, maxTokens: 16}));
  await page.keyboard.type('What is the capital of France?');
  await page.keyboard.press('Enter');
  await answered(page);
  assert.match(await page.textContent('.assistant'), /Paris/);
  assert.equal(await focused(page), 'text');
  await page.keyboard.press('Shift+Tab');
  assert.match(await page.evaluate(() => document.activeElement.className), /again/);
});

test('an error says what, where and what to do, and Retry works', async t => {
  const late = join(WORK, 'late.qsf');
  rmSync(late, {force: true});
  const tab = await visit({mounts: [['/sub/page/late.qsf', late]]}), {page} = tab;
  t.after(() => tab.close());
  await advanced(page);
  await page.fill('#url', 'late.qsf');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#error:not([hidden])', SLOW);
  assert.match(await page.textContent('#error'), /late\.qsf could not be loaded.*404.*Check the URL/);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Retry');
  await shot(page, 'error');
  writeFileSync(late, 'this is no model');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => !document.querySelector('#error').hidden && !document.querySelector(
    '#error').textContent.includes('404'), undefined, SLOW);
  rmSync(late);
  symlinkSync(QSF, late);
  await page.click('#error button.main');
  await ready(page);
  assert.equal(await page.isHidden('#error'), true);
});

test('a memory limit that is too small is said so', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await advanced(page);
  await page.fill('[name=memory]', '5');
  await page.waitForFunction(() => /limit is too low: at least \d+ MB/.test(document.querySelector('#need')
    .textContent), undefined, SLOW);
  await page.click('#load');
  await page.waitForSelector('#error:not([hidden])', SLOW);
  assert.match(await page.textContent('#error'), /needs at least \d+ MB.*Raise the memory limit/);
  assert.doesNotMatch(await page.textContent('#error'), /option memory/, 'in words of the page');
  assert.equal(await page.locator('#error .helps li').count(), 2);
  await accessible(page, 'an error with remedies');
});

/* A package that keeps models and answers at once, to look at what takes time or comes
 * seldom otherwise. */
const FAKE = `
export class QsfError extends Error {}
const plan = [{name: 'layers that stay', bytes: 60e6}, {name: 'KV cache', bytes: 25e6},
  {name: 'embedding', bytes: 19e6}, {name: 'tables', bytes: 1e5}];
const wait = (ms, signal) => new Promise((resolve, reject) => {
  setTimeout(resolve, ms);
  signal?.addEventListener('abort', () => reject(signal.reason));
});
let entries = [
  {url: new URL('models/smollm2-135m-q4_1.gguf', document.baseURI).href, length: 98e6, stored: 98e6,
    complete: true, fetched: 1.7e12},
  {url: 'https://elsewhere.example/big.qsf', length: 900e6, stored: 300e6, complete: false, fetched: 1.7e12}];
export const cache = {
  list: async () => entries,
  async delete(url) {
    const gone = entries.filter(e => !url || e.url === url);
    entries = entries.filter(e => !gone.includes(e));
    return gone.reduce((n, e) => n + e.stored, 0);
  },
};
export async function estimate(from, {memory, signal}) {
  await wait(50, signal);
  return {fileBytes: 79e6, parameters: 135e6, memoryBytes: memory ? memory * 1e6 : 104e6,
    resident: !memory, plan,
    reductions: memory ? ['batch 256 -> 128', 'context length 2048 -> 1024'] : [],
    warnings: ['one thread: this page is not cross-origin isolated',
      ...(memory ? ['context length 2048 -> 1024, to stay within 120 MB'] : [])]};
}
export async function load(from, {onProgress, signal}) {
  for (let i = 0; i <= 30; i++) {
    onProgress({phase: 'load', loaded: 20e6 + i * 1e6, total: 79e6, stored: 20e6});
    await wait(100, signal);
    while (i === 15 && globalThis.stays) await wait(20, signal);
  }
  const talk = async function * (_, {signal, onToken}) {
    for (let i = 0; i <= 20; i++) {
      onProgress({phase: 'prompt', done: 100, total: 360, layer: i, layers: 30});
      onProgress({phase: 'load', loaded: 50e6 + i * 1e6, total: 79e6});
      await wait(50, signal);
      while (i === 10 && globalThis.stays) await wait(20, signal);
    }
    onProgress({phase: 'load', loaded: 79e6, total: 79e6});
    onToken(1);
    yield 'Yes.';
    throw Object.assign(new QsfError('the engine ended'), {code: 'WORKER'});
  };
  return {info: {name: '', architecture: 'llama', parameters: 135e6, format: 'QSF', fileBytes: 79e6,
    layers: 30, resident: true, threads: 1, isa: 'wasm', device: {kind: 'cpu', name: '', layers: 0,
    reason: 'this browser has no WebGPU'}, contextLength: 2048, trainedContext: 8192,
    planBytes: 104e6, plan, chatTemplate: 'chatml',
      warnings: ['one thread: this page is not cross-origin isolated']}, chat: talk, generate: talk,
      dispose: async () => {}};
}`;

test('says what it needs, how far it is, and what is kept', async t => {
  const fake = join(WORK, 'fake.js');
  writeFileSync(fake, FAKE);
  const tab = await visit({mounts: [['/sub/page/js/browser.js', fake]],
    viewport: {width: 1100, height: 1100}}), {page} = tab;
  t.after(() => tab.close());
  await advanced(page);
  await page.waitForFunction(() => document.querySelector('#need').textContent.includes('needs 104 MB'),
    undefined, SLOW);
  assert.match(await page.textContent('#list .choice:nth-child(2)'), /on this device/);
  await page.fill('[name=memory]', '120');
  await page.waitForFunction(() => document.querySelector('#need').textContent.includes('batch 256 -> 128'),
    undefined, SLOW);
  assert.equal(await page.textContent('#need-losses'), 'context length 2048 -> 1024, to stay within 120 MB');
  assert.doesNotMatch(await page.textContent('#need'), /context/);
  assert.match(await page.textContent('#need-map'), /free below the limit/);
  assert.match(await page.textContent('#entries'),
    /smollm2-135m-q4_1\.gguf98 MB · stored on .*2023.*big\.qsf300 MB of 900 MB · stored on .*2023/);
  await shot(page, 'storage');
  await page.click('[aria-label="Delete big.qsf"]');
  await page.waitForFunction(() => document.querySelectorAll('#entries li').length === 1, undefined, SLOW);
  assert.match(await page.textContent('#state'), /300 MB freed/);

  await page.evaluate(() => { globalThis.stays = true; });        // half way, until it has been seen
  await page.click('#load');
  await page.waitForFunction(() => /\d+ MB of 79 MB · [\d.]+ MB\/s · \d+ s left · 20 MB from storage/.test(
    document.querySelector('#progress-text').textContent), undefined, SLOW);
  await shot(page, 'loading');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#load', SLOW);
  await page.evaluate(() => { globalThis.stays = false; });
  assert.equal(await focused(page), 'load');
  await page.keyboard.press('Enter');
  await ready(page);
  assert.match(await page.textContent('#warnings'), /one thread/);
  await page.evaluate(() => { globalThis.stays = true; });
  await page.fill('#text', 'Do you?');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /100 of 360 tokens · layer \d+ of 30 · \d+ MB of 79 MB/.test(
    document.querySelector('#progress-text').textContent), undefined, SLOW);
  await shot(page, 'prompt');
  await page.evaluate(() => { globalThis.stays = false; });
  await page.waitForSelector('#error:not([hidden])', SLOW);
  assert.equal(await page.isHidden('#progress'), true);
  assert.match(await page.textContent('#error'), /The model has stopped.*memory limit or fewer threads/);
  await shot(page, 'gone');
});

test('works without a network after the first visit, with the models that are kept', async t => {
  const tab = await visit({isolation: false}), {page, person} = tab;
  t.after(() => tab.close());
  await kept(page);
  await page.waitForFunction(() => crossOriginIsolated, undefined, SLOW);
  await page.waitForSelector('#go:not([disabled])', SLOW);
  await page.click('#go');
  await ready(page);
  await page.evaluate(async () => {
    const {cache} = await import('./js/browser.js');
    while (!(await cache.list()).some(({complete}) => complete))
      await new Promise(resolve => { setTimeout(resolve, 50); });
  });
  await page.close();
  await person.setOffline(true);
  await tab.end();
  const again = await tab.open('/sub/page/index.html?x=1');
  await again.waitForFunction(() => globalThis.qsfDemo && crossOriginIsolated, undefined, SLOW);
  await ready(again);           // the model used last is stored: it is loaded without a question
  await again.evaluate(() => Object.assign(qsfDemo.settings, {temperature: 0, maxTokens: 16}));
  await ask(again, 'What is the capital of France?');
  assert.match(await again.textContent('.assistant'), /Paris/);
  await shot(again, 'offline');
  await again.click('#models');
  await advanced(again);
  assert.match(await again.textContent('#list .choice:nth-child(1)'), /on this device/);
  assert.match(await again.textContent('#list .choice:nth-child(2)'), /not available/);
  assert.match(await again.textContent('#offer-size'), /stored on this device/);
  await again.setInputFiles('#file', QSF);
  await remember(again);
  await again.click('#load');
  await replaced(again);
});

describe('the service worker', () => {
  test('gives isolation where the server does not, after one reload', async t => {
    const tab = await visit({isolation: false, query: `?model=${NAME}`}), {page} = tab;
    t.after(() => tab.close());
    await page.waitForFunction(() => crossOriginIsolated, undefined, SLOW);
    await ready(page);
    assert.ok(await page.evaluate(() => qsfDemo.model.info.threads) > 1);
    assert.equal(tab.loads, 2);
  });
  test('that gives none makes no loop', async t => {
    const useless = join(WORK, 'useless.js');
    writeFileSync(useless,
      "oninstall = () => skipWaiting(); onactivate = event => event.waitUntil(clients.claim());\n");
    const tab = await visit({isolation: false, mounts: [['/sub/page/sw.js', useless]]}), {page} = tab;
    t.after(() => tab.close());
    await page.waitForFunction(() => document.querySelector('#missing')?.textContent.includes('one thread'),
      undefined, SLOW);
    await page.waitForTimeout(1500);
    assert.equal(tab.loads, 2);
    await page.reload();
    await page.waitForTimeout(1500);
    assert.equal(tab.loads, 3);
  });
  test('swaps versions as a whole', async t => {
    const site = join(WORK, 'site'), source = join(WORK, 'site-source');
    const build = () => execFileSync('cmake', [`-DPAGE=${source}`,
      `-DPACKAGE=${process.env.QSF_TEST_WASM}/js`, `-DOUT=${site}`, '-P',
      join(root, 'cmake/DemoFolder.cmake')]);
    rmSync(site, {recursive: true, force: true});
    rmSync(source, {recursive: true, force: true});
    cpSync(join(root, 'demo'), source, {recursive: true});
    build();
    const tab = await visit({site}), {page} = tab;
    t.after(() => tab.close());
    await kept(page);
    const style = () => page.evaluate(async () => (await (await fetch('demo.css')).text())
      .includes('second version'));
    // the worker's list does not know it
    appendFileSync(join(site, 'demo.css'), '/* second version, half uploaded */');
    await page.reload();
    assert.equal(await style(), false);
    appendFileSync(join(source, 'demo.css'), '/* second version */');
    build();
    const other = await tab.open();
    await page.evaluate(async () => {
      const registration = await navigator.serviceWorker.ready;
      await registration.update();
      while (!registration.waiting) await new Promise(resolve => setTimeout(resolve, 50));
    });
    await page.reload();
    assert.equal(await style(), false, 'another page still has the old one');
    await other.close();
    for (let tries = 0; tries < 60; tries++) {          // the new worker begins when the old one has no page
      await page.reload();
      await page.waitForFunction(() => globalThis.qsfDemo, undefined, SLOW);
      await page.waitForTimeout(500);
      if (await style()) break;
    }
    assert.equal(await style(), true);
    await kept(page);
  });
});

const LONG = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft'.repeat(3);
const RICH =
  '# One\n\nWords, **weight** and \`code\`.\n\n### ' +
  `Three\n\n\`\`\`python\nprint("${'x'.repeat(200)}")\n\`\`\`\n\n| a | b |\n|---|--:|\n| 1 | ${LONG} |\n\n`
  + `- one\n- [two](https://example.org/${'a'.repeat(150)})\n\n${LONG}\n\nمرحبا بالعالم، كيف حالك ` +
    'اليوم؟\n\n> quoted\n\n- [x] done\n- [ ] to do\n\n$$\\sum_{i=1}^n \\frac{x_i^2}{2}$$\n\n' +
    '```js\n// words\nconst a = f("b", 1);\n```';

describe('looks', () => {
  const quick = join(WORK, 'quick.js');
  before(() => {
    const fake = FAKE.replace('await wait(100, signal)', 'await wait(1, signal)')
      .replace(/const talk = [^]*?\n  \};/,
        `const talk = async function * () { yield ${JSON.stringify(RICH)}; return 'end'; };`);
    writeFileSync(quick, fake);
  });
  for (const colorScheme of ['light', 'dark'])
    test(`${colorScheme}, from 280 to 2560 pixels`, async t => {
      const tab = await visit({mounts: [['/sub/page/js/browser.js', quick]], colorScheme,
        viewport: {width: 320, height: 740}}), {page} = tab;
      t.after(() => tab.close());
      const all = async name => {
        for (const width of [280, 320, 360, 1280, 2560]) {
          await page.setViewportSize({width, height: 740});
          await fits(page);
          if (width === 320 || width === 1280) {
            await accessible(page, `${name}, ${width}`);
            await shot(page, `${name}-${colorScheme}-${width}`);
          }
        }
      };
      await page.waitForSelector('#go:not([disabled])', SLOW);
      await all('start');
      await advanced(page);
      await page.waitForFunction(() => document.querySelector('#need-map').firstChild, undefined, SLOW);
      await all('advanced');
      await page.click('#options');
      await all('settings');
      await page.keyboard.press('Escape');
      await page.click('#load');
      await ready(page);
      await all('ready');
      await page.click('#hood-open');
      await all('hood');
      await page.keyboard.press('Escape');
      await page.fill('#text', `${LONG}\n\nשלום`);
      await page.keyboard.press('Enter');
      await answered(page);
      await all('chat');
      assert.equal(await page.evaluate(() => {
        const words = [...document.querySelectorAll('.assistant p')].find(
          p => p.textContent.startsWith('مرحبا')), first = document.createRange();
        first.setStart(words.firstChild, 0);
        first.setEnd(words.firstChild, 1);
        return words.getBoundingClientRect().right - first.getBoundingClientRect().right < 2;
      }), true, 'Arabic begins at the right');
      await page.click('.edit');
      await all('edit');
      await page.keyboard.press('Escape');
      await plainText(page);
      await all('text');
      await page.setViewportSize({width: 320, height: 740});
      await page.click('#menu');
      await page.click('#conversations .more');
      await fits(page);
      await accessible(page, 'conversations, 320');
      await shot(page, `conversations-${colorScheme}-320`);
      await page.keyboard.press('Escape');
      assert.equal(await focused(page), 'menu');
      await page.focus('.assistant pre');
      await page.keyboard.press('ArrowRight');
      await page.waitForFunction(() => document.querySelector('.assistant pre').scrollLeft > 0,
        undefined, SLOW);
    });
  test('with a model', async t => {
    const tab = await visit({viewport: {width: 360, height: 740}, hasTouch: true}), {page} = tab;
    t.after(() => tab.close());
    await page.waitForSelector('#go:not([disabled])', SLOW);
    await kept(page);
    await page.click('#go');
    await ready(page);
    await fits(page);
    await page.evaluate(() => Object.assign(qsfDemo.settings, {temperature: 0, maxTokens: 60}));
    await ask(page, 'Show me a loop in Python, and explain it in three points.');
    await fits(page);
    await shot(page, 'narrow-chat');
  });
});
