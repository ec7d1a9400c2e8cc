/* The page with the engine that stands in: its conversations and their list.
 * SPDX-License-Identifier: MIT */
import {fileURLToPath} from 'node:url';
import {SLOW, open, ready} from './visit.js';

export const engine = fileURLToPath(new URL('./fake_engine.js', import.meta.url));

export async function begin(page) {
  await page.waitForSelector('#go:not([disabled])', SLOW);
  await page.click('#go');
  await ready(page);
}
export async function converse(browser, context) {
  const tab = await open(browser, {mounts: [['/sub/page/js/browser.js', engine]], ...context});
  await begin(tab.page);
  return tab;
}
export const last = page => page.textContent('.turn:last-child .assistant');
export const titles = page => page.locator('#conversations .open span').allTextContents();
export const until = (page, titled) => page.waitForFunction(wanted =>
  [...document.querySelectorAll('#conversations .open span')].map(node =>
    node.textContent).join() === wanted.join(),
titled, SLOW);
/** A button of the row with this title. */
export async function act(page, title, name) {
  await page.click(`[aria-label="More: ${title}"]`);
  await page.click(`.acts button:text-is("${name}")`);
}
/** Resolves when an answer with this word is stored: it is then also there if the browser is
 * killed. */
export const stored = (page, word) => page.evaluate(async ([wanted, ms]) => {
  const settled = request => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const database = await settled(indexedDB.open('qsf conversations')), end = Date.now() + ms;
  for (let found; !found;) {
    if (Date.now() > end) throw new Error(`"${wanted}" is not stored`);
    const all = await settled(database.transaction('conversations').objectStore('conversations').getAll());
    found = all.some(({nodes}) => nodes.some(({role, content}) => role === 'assistant'
      && content.includes(wanted)));
  }
  database.close();
}, [word, SLOW.timeout]);
