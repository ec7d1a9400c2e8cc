/* Models by address in the page: links to it that name one, and the names of a hub.
 * SPDX-License-Identifier: MIT
 *
 * Screenshots go to QSF_TEST_WORK. */
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {join} from 'node:path';
import {after, before, beforeEach, describe, test} from 'node:test';
import {launch} from './chromium.js';
import {accessible, fits} from './browser/looks.js';
import {SLOW, advanced, ask, open, ready} from './browser/visit.js';
import {hubServer} from './hub.js';
import {tinyModel} from './tiny.js';
import {WORK} from './tools.js';

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

const visit = options => open(browser, options);
const shot = (page, name) => page.screenshot({path: join(WORK, `links-${name}.png`)});

describe('a link that names a model', () => {
  let other, asked;
  before(async () => {
    other = createServer((request, response) => {
      asked.push(request.method);
      response.writeHead(404, {'access-control-allow-origin': '*',
        'cross-origin-resource-policy': 'cross-origin'}).end();
    });
    await new Promise(resolve => other.listen(0, '127.0.0.1', resolve));
  });
  after(() => other.close());
  beforeEach(() => { asked = []; });

  test('of another site is asked about, and nothing is fetched before', async t => {
    const host = `127.0.0.1:${other.address().port}`, address = `http://${host}/${'a'.repeat(300)}/m.qsf`;
    const tab = await visit({csp: '', query: `?model=${encodeURIComponent(address)}`,
      viewport: {width: 320, height: 740}}), {page} = tab;
    t.after(() => tab.close());
    await page.waitForSelector('#asked:not([hidden])', SLOW);
    assert.equal(await page.textContent('#asked-host'), host);
    assert.equal(await page.textContent('#asked-url'), address);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Do not load');
    await page.waitForTimeout(500);             // longer than the page waits before it asks for an estimate
    assert.deepEqual(asked, []);
    await fits(page);
    await shot(page, 'asked');
    await page.keyboard.press('Enter');
    assert.equal(await page.isHidden('#asked'), true);
    assert.equal(await page.inputValue('#url'), '');
    await page.reload();
    await page.click('#asked-buttons .main');
    await page.waitForSelector('#error:not([hidden])', SLOW);
    assert.match(await page.textContent('#error'), /m\.qsf could not be loaded/);
    assert.ok(asked.length > 0);
  });
  const wrong = {'%E0%A4%A': /could not be loaded/, 'http%3A%2F%2F[': /not the URL of a file/,
    'javascript%3Aalert(1)': /not the URL of a file/, 'file%3A%2F%2F%2Fetc%2Fpasswd': /not the URL of a file/,
    'data%3A%2Cx': /cannot load a model with/, '%00': /could not be loaded/};
  test('wrongly is told so', async t => {
    const tab = await visit(), {page} = tab;
    t.after(() => tab.close());
    for (const [query, what] of Object.entries(wrong)) {
      const next = await tab.open(`/sub/page/?model=${query}`);
      await next.waitForSelector('#error:not([hidden])', SLOW);
      assert.match(await next.textContent('#error'), what, query);
      await next.click('#error button:last-child');
      await next.close();
    }
    await advanced(page);
    await page.fill('#url', 'http://[');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#error:not([hidden])', SLOW);
    assert.match(await page.textContent('#error'), /not the URL of a file/);
  });
});

describe('a model of a hub', () => {
  const TOKEN = 'hf_secret_token', SMALL = tinyModel({layers: 2}), LARGE = tinyModel({layers: 4});
  const REPOS = {'open/tiny-GGUF': {'tiny-F16.gguf': LARGE, 'tiny-Q4_K_M.gguf': SMALL,
    'tiny-Q2_K.gguf': new Uint8Array(50)}, 'private/tiny': {'tiny-q8_0.gguf': SMALL}};
  let hub, list;
  before(async () => {
    hub = await hubServer(REPOS, {token: TOKEN});
    list = join(WORK, 'hub-models.json');
    writeFileSync(list, JSON.stringify({hub: hub.url, models: [{name: 'One', url: 'models/one.qsf'}]}));
  });
  after(() => hub.close());
  async function begin(options) {
    const tab = await visit({csp: '', mounts: [['/sub/page/models.json', list]],
      expected: /status of 401/, ...options});
    await tab.page.waitForFunction(() => globalThis.qsfDemo, undefined, SLOW);
    return tab;
  }
  async function name(page, text) {
    await page.fill('#url', text);
    await page.press('#url', 'Tab');
  }
  const layers = page => page.evaluate(() => qsfDemo.model.info.layers);

  test('is chosen from the files of its repository', async t => {
    const tab = await begin(), {page} = tab;
    t.after(() => tab.close());
    await page.waitForSelector('#advanced[open]', SLOW);        // the listed one is not here
    await name(page, 'hf:open/tiny-GGUF');
    await page.waitForSelector('#hub-list:not([hidden])', SLOW);
    const rows = await page.locator('#hub-files .choice').allTextContents();
    assert.match(rows[0], /F16.*tiny-F16\.gguf.*[\d.]+ MB · fits: needs [\d.]+ MB of memory/);
    assert.match(rows[1], /Q4_K_M.*fits/);
    assert.match(rows[2], /Q2_K.*cannot be used/);
    assert.equal(await page.isChecked('#hub-1'), true, 'what load() would take');
    for (const width of [280, 320, 390, 1280]) {
      await page.setViewportSize({width, height: 740});
      await fits(page);
    }
    await accessible(page, 'the files of a model');
    await page.click('label[for=hub-0]');
    assert.equal(await page.inputValue('#url'), 'hf:open/tiny-GGUF/tiny-F16.gguf');
    await page.waitForFunction(() => /^[\d.]+ MB file/.test(document.querySelector('#need').textContent),
      undefined, SLOW);
    assert.equal(await page.isVisible('#hub-list'), true);
    await page.click('#load');
    await ready(page);
    assert.equal(await layers(page), 4);

    const before = hub.asked.length, again = await tab.open();
    await ready(again);         // the last one, from what is stored
    assert.equal(await layers(again), 4);
    assert.equal(hub.asked.length, before);
    await again.close();
    await page.click('#models');
    await name(page, 'hf:open/tiny-GGUF:q4_k_m');
    await page.click('#load');
    await page.waitForFunction(() => qsfDemo.model?.info.layers === 2, undefined, SLOW);
    await page.click('#models');
    await name(page, 'x.qsf');
    await page.waitForSelector('#hub', {state: 'hidden', ...SLOW});
  });
  test('that is private needs a token, which is forgotten', async t => {
    const tab = await begin(), {page, person} = tab;
    t.after(() => tab.close());
    await page.waitForSelector('#advanced[open]', SLOW);
    await page.fill('#url', 'hf:private/tiny');
    await page.press('#url', 'Enter');
    await page.waitForSelector('#error:not([hidden])', SLOW);
    const told = await page.textContent('#error');
    assert.match(told, /tiny could not be loaded.*401.*A private or gated model needs an access token/);
    assert.doesNotMatch(told, /hubToken|Node\.js/);
    await page.click('#error button.main');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'hub-token');
    await page.keyboard.type(TOKEN);
    await page.keyboard.press('Enter');
    await ready(page);
    assert.equal(await layers(page), 2);
    const {origins} = await person.storageState({indexedDB: true});
    assert.doesNotMatch(JSON.stringify(origins), new RegExp(TOKEN));
    assert.ok(hub.asked.every(({where, authorization}) => where === 'hub' || !authorization),
      'another origin does not get it');
    await page.reload();
    await ready(page);
    assert.equal(await page.inputValue('#hub-token'), '');
  });
  test('that a link names is asked about; a wrong name is told so', async t => {
    const tab = await begin({query: '?model=hf:open/tiny-GGUF'}), {page} = tab;
    t.after(() => tab.close());
    await page.waitForSelector('#asked:not([hidden])', SLOW);
    assert.equal(await page.textContent('#asked-host'), new URL(hub.url).host);
    const before = hub.asked.length;
    await page.click('#asked-buttons button:last-child');
    assert.equal(hub.asked.length, before);
    for (const [wrong, what] of [['hf:nothing', /is not the name of a model.*Check the name/],
      ['hf:open/none', /401.*Check the name/], ['hf:open/tiny-GGUF:Q5_K', /no model in Q5_K.*Q4_K_M/]]) {
      await name(page, wrong);
      await page.waitForFunction(text => RegExp(text).test(document.querySelector('#need.bad')?.textContent),
        what.source, SLOW);
    }
    await name(page, 'hf:open/tiny-GGUF');
    await page.press('#url', 'Enter');
    await ready(page);
    await ask(page, 'Hello');
  });
});
