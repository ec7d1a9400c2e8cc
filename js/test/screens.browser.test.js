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
import {SLOW, ask, open, ready} from './browser/visit.js';
import {WORK} from './tools.js';

const engine = fileURLToPath(new URL('./browser/fake_engine.js', import.meta.url));
const golden = fileURLToPath(new URL('../../tests/golden/page/', import.meta.url));
const MEAN = 1.5, PART = 0.01;          /* of 255; of the points, those that differ by more than 40 */

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

/** How much two pictures differ: the mean, and the part of the points that differ much. */
const differ = (page, a, b) => page.evaluate(async pictures => {
  const [one, other] = await Promise.all(pictures.map(async base64 => {
    const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
    const [width, height] = [image.width >> 3, image.height >> 3];
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
  }));
  if (one.width !== other.width || one.height !== other.height) return {mean: 255, part: 1};
  let sum = 0, many = 0;
  for (let i = 0; i < one.data.length; i += 4) {
    const by = [0, 1, 2].reduce((all, k) => all + Math.abs(one.data[i + k] - other.data[i + k]), 0) / 3;
    sum += by;
    many += by > 40;
  }
  return {mean: sum / (one.data.length / 4), part: many / (one.data.length / 4)};
}, [a, b].map(picture => picture.toString('base64')));

const RICH = 'say: Here is a **short** answer.\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] done\n\n'
  + '```js\nconst a = f("b", 1);\n```';

for (const width of [1280, 390, 320])
  test(`at ${width} pixels`, async t => {
    const tab = await open(browser, {mounts: [['/sub/page/js/browser.js', engine]], reducedMotion: 'reduce',
      viewport: {width, height: 740}}), {person} = tab;
    t.after(() => tab.close());
    await person.clock.setFixedTime(new Date('2026-01-02T12:00:00Z'));
    const page = await tab.open(), wrong = [];
    const look = async name => {
      await page.mouse.move(0, 0);
      const picture = await page.screenshot({caret: 'hide', animations: 'disabled'});
      const file = join(golden, `${name}-${width}.png`);
      writeFileSync(join(WORK, `screens-${name}-${width}.png`), picture);
      if (process.env.QSF_TEST_RECORD) {
        mkdirSync(golden, {recursive: true});
        writeFileSync(file, picture);
      }
      if (!existsSync(file)) return wrong.push(`${file} is missing`);
      const {mean, part} = await differ(page, picture, readFileSync(file));
      if (mean > MEAN || part > PART)
        wrong.push(`${name}: mean ${mean.toFixed(1)}, ${(100 * part).toFixed(1)} % of the points`);
      return undefined;
    };
    await page.waitForSelector('#go:not([disabled])', SLOW);
    await page.evaluate(() => { document.querySelector('#kept').hidden = true; });      // comes at any time
    await look('start');
    await page.click('#go');
    await ready(page);
    await look('welcome');
    await ask(page, RICH);
    await look('chat');
    await page.click('#hood-open');
    await look('hood');
    await page.keyboard.press('Escape');
    assert.deepEqual(wrong, [],
      'pictures differ from tests/golden/page; this run has its own in QSF_TEST_WORK');
    // the comparison sees that these are not the same
    const [chat, welcome] = ['chat', 'welcome'].map(name =>
      readFileSync(join(golden, `${name}-${width}.png`)));
    const {mean, part} = await differ(page, chat, welcome);
    assert.ok(mean > MEAN || part > PART, `${mean} ${part}`);
  });
