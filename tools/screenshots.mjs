/* Asks a question on the chat page of qsf-serve in Chromium, and saves a screenshot as
 * docs/images/page.png.
 * SPDX-License-Identifier: MIT
 *
 *   QSF_TEST_TOOLS=~/.cache/qsf/npm node tools/screenshots.mjs QSF_SERVE MODEL OUT.png QUESTION */
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {launch} from '../js/test/chromium.js';

const [program, model, picture, ...questions] = process.argv.slice(2);
const server = spawn(program, [model, '--quiet', '--port', '0'], {stdio: ['ignore', 'ignore', 'pipe']});
let said = '', address;
while (!address) {
  const [data] = await once(server.stderr, 'data');
  address = / is served at (http:\S+)/.exec(said += data)?.[1];
}
server.stderr.resume();
const browser = await launch();
try {
  const page = await browser.newPage({viewport: {width: 1000, height: 960}});
  await page.goto(address);
  await page.waitForSelector('#ask:not([hidden])', {timeout: 60_000});
  await page.evaluate(() => { qsfDemo.settings.temperature = 0; });        // the same picture each time
  for (const question of questions) {
    await page.fill('#text', question);
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.querySelector('#talk .turn:last-child .again')
      && document.querySelector('#stop').hidden, undefined, {timeout: 300_000, polling: 100});
  }
  await page.screenshot({path: picture});
} finally {
  await browser.close();
  server.kill();
}
