/* How the page looks: screenshots of its states at three widths, compared with those in
 * tests/golden/page. The engine is a stand-in, and the clock stands still.
 * SPDX-License-Identifier: MIT
 *
 * Fonts differ between machines, so pictures are compared at an eighth of their size, with a
 * tolerance. After an intended change: QSF_TEST_RECORD=1 ./test --all -R js.browser.screens, then
 * look at the pictures and commit them. */
import assert from 'node:assert/strict';
import {existsSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {launch} from './chromium.js';
import {differ, smaller} from './browser/pictures.js';
import {SLOW, answered, ask, open, ready} from './browser/visit.js';
import {WORK} from './tools.js';

const engine = fileURLToPath(new URL('./browser/fake_engine.js', import.meta.url));
const golden = fileURLToPath(new URL('../../tests/golden/page/', import.meta.url));
const MEAN = 1.5, PART = 0.01;

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

const RICH = 'say: Here is a **short** answer.\n\n| name | b |\n|---|--:|\n| one | 2 |\n\n- [x] done\n\n'
  + '$x = \\frac{a}{b}$\n\n```js\nconst a = f("b", 1);\n```';
const ARABIC = 'say: مرحبا بالعالم\n\n- واحد\n- اثنان\n\n> اقتباس';
const words = (n, word) => `say: ${Array(n).fill(word).join(' ')}`;

/* The states of a page in their order: how each is reached from the one before. */
const STATES = {
  async start(page) {
    await page.waitForSelector('#go:not([disabled])', SLOW);
    await page.evaluate(() => { document.querySelector('#kept').hidden = true; });      // comes at any time
  },
  async advanced(page) {
    await page.click('#advanced > summary');
    await page.waitForFunction(() => /needs/.test(document.querySelector('#need').textContent),
      undefined, SLOW);
    await page.evaluate(() => document.querySelector('#choose').scrollIntoView());
  },
  async refused(page) {
    await page.fill('#url', 'http://[');
    await page.press('#url', 'Enter');
    await page.waitForSelector('#error:not([hidden])', SLOW);
  },
  async loading(page) {
    await page.click('#error button');
    await page.click('label[for=pick-0]');
    await page.evaluate(() => { globalThis.stays = true; });
    await page.click('#load');
    await page.waitForFunction(() => /20 MB/.test(document.querySelector('#progress-text').textContent),
      undefined, SLOW);
  },
  async welcome(page) {
    await page.evaluate(() => { globalThis.stays = false; });
    await page.keyboard.press('Escape');
    await page.click('#load');
    await ready(page);
  },
  async chat(page) { await ask(page, RICH); },
  async hood(page) { await page.click('#hood-open'); },
  async settings(page) {
    await page.keyboard.press('Escape');
    await page.click('#options');
  },
  async reasoning(page) {
    await page.keyboard.press('Escape');
    await page.click('#menu');
    if (await page.isHidden('#new')) await page.click('#menu');
    await page.click('#new');
    await ask(page, 'think');
    await page.click('.reasoning summary');
  },
  async tools(page) {
    await page.click('#more');
    await page.click('#tools');
    await page.waitForSelector('#tools[aria-pressed=true]', SLOW);
    await ask(page, 'use: calculate {"expression": "6*7"}');
    await page.click('#more');
  },
  async attached(page) {
    const give = (name, buffer) => page.setInputFiles('#attach-file', {name, mimeType: 'text/plain', buffer});
    await give('notes-of-the-measurements.txt', Buffer.from('one two'));
    await page.waitForSelector('#files li', SLOW);
    await give('photo.png', Buffer.from([0, 255]));
    await page.waitForSelector('#files-note:not([hidden])', SLOW);
  },
  async streaming(page) {
    await page.click('#files button');
    await page.fill('#text', 'say and wait: Once upon a time');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => /upon/.test(document.querySelector('.turn:last-child .assistant')
      ?.textContent), undefined, SLOW);
  },
  async error(page) {
    await page.keyboard.press('Escape');
    await answered(page);
    await ask(page, 'x '.repeat(250).trim());
  },
  async form(page) {
    await page.click('#more');
    await page.click('#form-open');
    await page.waitForSelector('dialog[open]', SLOW);
  },
  async full(page) {
    await page.keyboard.press('Escape');
    await page.evaluate(() => document.querySelector('#new').click());
    for (const word of ['a', 'b', 'c', 'd']) await ask(page, words(30, word));
    await page.evaluate(() => document.querySelector('.skipped').scrollIntoView({block: 'center'}));
  },
  async right(page) {
    await page.evaluate(() => document.querySelector('#new').click());
    await ask(page, ARABIC);
  },
  async list(page) {
    if (await page.isHidden('#new')) await page.click('#menu');
    await page.waitForFunction(() => document.querySelectorAll('#conversations .open').length === 4,
      undefined, SLOW);
    await page.click('#conversations li:nth-child(2) .more');
  },
  async rename(page) { await page.click('.acts button:text-is("Rename")'); },
  async search(page) {
    await page.keyboard.press('Escape');
    await page.fill('#search', 'nowhere');
  },
  async dark(page) {
    await page.fill('#search', '');
    await page.click('#conversations li:nth-child(4) .open');
    await page.emulateMedia({colorScheme: 'dark'});
  },
};

/* Visits the page in its states; looks at each. */
async function compared(t, {width, states, ...context}) {
  const tab = await open(browser, {mounts: [['/sub/page/js/browser.js', engine]], reducedMotion: 'reduce',
    viewport: {width, height: 740}, ...context}), {person} = tab;
  t.after(() => tab.close());
  let time = Date.parse('2026-01-02T12:00:00Z');        // the list of conversations is in its order
  await person.clock.setFixedTime(time);
  const page = await tab.open(), wrong = [];
  for (const [name, reach] of Object.entries(states)) {
    await person.clock.setFixedTime(time += 60_000);
    await reach(page);
    await page.mouse.move(0, 0);
    const picture = await page.screenshot({caret: 'hide', animations: 'disabled'});
    const file = join(golden, `${name}-${width}.png`);
    writeFileSync(join(WORK, `screens-${name}-${width}.png`), picture);
    if (process.env.QSF_TEST_RECORD) {
      mkdirSync(golden, {recursive: true});
      writeFileSync(file, await smaller(page, picture));
    }
    if (!existsSync(file)) {
      wrong.push(`${file} is missing`);
      continue;
    }
    const {mean, part} = await differ(page, picture, readFileSync(file));
    if (mean > MEAN || part > PART)
      wrong.push(`${name}: mean ${mean.toFixed(1)}, ${(100 * part).toFixed(1)} % of the points`);
  }
  assert.deepEqual(wrong, [],
    'pictures differ from tests/golden/page; this run has its own in QSF_TEST_WORK');
  return page;
}

for (const width of [1280, 390, 320]) {
  test(`at ${width} pixels`, async t => {
    const page = await compared(t, {width, states: STATES});
    // the comparison sees that these are not the same
    const [chat, welcome] = ['chat', 'welcome'].map(name =>
      readFileSync(join(golden, `${name}-${width}.png`)));
    const {mean, part} = await differ(page, chat, welcome);
    assert.ok(mean > MEAN || part > PART, `${mean} ${part}`);
  });
  test(`in German at ${width} pixels`, async t => {
    const {start, settings} = STATES;
    await compared(t, {width, locale: 'de-DE', states: {german: start, 'german-settings': settings}});
  });
}
