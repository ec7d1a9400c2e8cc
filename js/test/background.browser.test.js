/* Answers that continue while another conversation is shown, in real Chromium. The engine is a
 * stand-in, which waits for the test before each word.
 * SPDX-License-Identifier: MIT
 *
 * Screenshots go to QSF_TEST_WORK. */
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {launch} from './chromium.js';
import {accessible} from './browser/looks.js';
import {act, begin, converse, last, stored} from './browser/talks.js';
import {SLOW, ask} from './browser/visit.js';
import {WORK} from './tools.js';

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

async function send(page, text) {
  await page.fill('#text', text);
  await page.keyboard.press('Enter');
}
/* The answer that begins with this word continues. */
async function further(page, word) {
  await page.waitForFunction(name => globalThis.held?.[name], word, SLOW);
  await page.evaluate(name => held[name](), word);
}
const shows = (page, text) => page.waitForFunction(wanted =>
  document.querySelector('.turn:last-child .assistant')?.textContent.trim() === wanted, text, SLOW);
/* What the list says of a conversation, at last. */
const listed = (page, title, state) => page.waitForFunction(([name, wanted]) =>
  [...document.querySelectorAll('#conversations .open')].some(row => row.firstChild.textContent === name
    && row.lastChild.className === wanted), [title, state], SLOW);
const open = (page, title) => page.click(`#conversations .open:has(span:text-is("${title}"))`);
const answers = page => page.isVisible('#stop');

describe('an answer', () => {
  let tab, page;
  before(async () => {
    tab = await converse(browser);
    ({page} = tab);
  });
  after(() => tab.close());
  const RED = 'say slowly: red green blue', ONE = 'say slowly: one two three';

  test('continues while another conversation is shown and answered', async () => {
    await send(page, ONE);
    await shows(page, 'one');
    await page.click('#new');
    assert.equal(await answers(page), false);
    assert.equal(await page.isVisible('#welcome'), true);
    await send(page, RED);
    await shows(page, 'red');
    await listed(page, ONE, 'answering');
    await listed(page, RED, 'answering');
    await further(page, 'one');
    await accessible(page, 'two answers under way');
    await page.screenshot({path: join(WORK, 'background-two.png')});
    await open(page, ONE);
    assert.equal(await answers(page), true);
    await shows(page, 'one two');
    await further(page, 'one');
    await shows(page, 'one two three');
  });
  test('is stopped where it is shown, and nowhere else', async () => {
    await page.click('#stop');
    await page.waitForSelector('.again', SLOW);
    assert.equal(await page.textContent('.ended'), 'stopped');
    assert.equal(await answers(page), false);
    await listed(page, ONE, '');
    await listed(page, RED, 'answering');
    await ask(page, 'say: more');
    assert.equal(await last(page), 'more');
  });
  test('that has ended is marked until it is seen', async () => {
    for (let i = 0; i < 3; i++) await further(page, 'red');
    await listed(page, RED, 'answered');
    assert.match(await page.textContent('#state'), /^“say slowly: red green blue” has been answered\.$/);
    await accessible(page, 'a new answer');
    await open(page, RED);
    assert.equal((await last(page)).trim(), 'red green blue');
    assert.equal(await page.locator('.again').count(), 1);
    await listed(page, RED, '');
    await ask(page, 'next');
    assert.match(await last(page), /red green blue.*next/);
  });
  test('that failed says why when it is seen', async () => {
    await page.click('#new');
    await send(page, 'fail: later');
    await listed(page, 'fail: later', 'answering');
    await open(page, ONE);
    await further(page, 'later');
    await listed(page, 'fail: later', 'failed');
    await open(page, 'fail: later');
    assert.match(await page.textContent('#talk .bad'), /too long.*Check the settings/);
    assert.equal(await page.getAttribute('#talk .again', 'aria-label'), 'Retry');
    await open(page, ONE);
    await open(page, 'fail: later');
    assert.equal(await page.locator('#talk .again').count(), 1);
  });
  test('goes with its conversation, and leaves a new title', async () => {
    for (const title of ['a', 'b']) {
      await page.click('#new');
      await send(page, `say slowly: ${title} ${title}${title}`);
      await shows(page, title);
    }
    await act(page, 'say slowly: a aa', 'Rename');
    await page.keyboard.type('Na');
    for (let i = 0; i < 2; i++) await further(page, 'a');
    await page.waitForFunction(() => /aa/.test(document.querySelector('#state').textContent), undefined,
      SLOW);
    await page.keyboard.type('med');
    await page.keyboard.press('Enter');
    await listed(page, 'Named', 'answered');
    await act(page, 'say slowly: b bb', 'Delete');
    await page.waitForSelector('#undo', SLOW);
    await page.click('#undo');
    await listed(page, 'say slowly: b bb', '');
    await open(page, 'say slowly: b bb');
    assert.equal((await last(page)).trim(), 'b');
    assert.equal(await page.textContent('.ended'), 'stopped');
  });
});

test('what was written in the background is kept when the page is left', async t => {
  const tab = await converse(browser), {page} = tab;
  t.after(() => tab.close());
  await send(page, 'say and wait: one two three');
  await shows(page, 'one two three');
  await page.click('#new');
  await ask(page, 'another');
  await stored(page, 'three');
  await page.reload();
  await begin(page);
  await open(page, 'say and wait: one two three');
  assert.match(await last(page), /one two three/);
  assert.equal(await page.textContent('.ended'), 'stopped');
});
