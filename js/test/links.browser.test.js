/* Models by their address: links to the page that name one.
 * SPDX-License-Identifier: MIT
 *
 * Screenshots go to QSF_TEST_WORK. */
import assert from 'node:assert/strict';
import {createServer} from 'node:http';
import {join} from 'node:path';
import {after, before, beforeEach, describe, test} from 'node:test';
import {launch} from './chromium.js';
import {fits} from './browser/looks.js';
import {SLOW, advanced, open} from './browser/visit.js';
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
