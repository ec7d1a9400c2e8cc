/* How a page looks: whether it fits its window, and who can use it.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';

const tools = createRequire(join(process.env.QSF_TEST_TOOLS, 'x.js'));
const axe = readFileSync(tools.resolve('axe-core/axe.min.js'), 'utf8');

/* Of everything that is seen, nothing reaches beyond the window or, where it does not scroll,
 * beyond what it is in. */
export async function fits(page) {
  const wide = await page.evaluate(() => {
    const scrolls = node => node && (/auto|scroll|hidden|clip/.test(getComputedStyle(node).overflowX)
      || scrolls(node.parentElement));
    const found = [...document.body.querySelectorAll('*')].filter(node => {
      const {left, right, width} = node.getBoundingClientRect();
      return width > 1 && node.checkVisibility() && (left < -.5 || right > innerWidth + .5)
        && !node.closest('.hidden, svg') && !scrolls(node.parentElement);
    });
    const [ask, tools] = ['#ask', '#ask .tools'].map(name => document.querySelector(name));
    const over = [...tools.children].filter(
      node => node.getBoundingClientRect().right > ask.getBoundingClientRect().right);
    return [...found, ...over].map(node => `${node.tagName}#${node.id}.${node.className}`)
      .concat(document.documentElement.scrollWidth > innerWidth ? ['the page'] : []);
  });
  assert.deepEqual(wide, [], `at ${page.viewportSize().width}`);
}
export async function accessible(page, where) {
  if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe);
  const {violations} = await page.evaluate(() => globalThis.axe.run(document, {resultTypes: ['violations']}));
  assert.deepEqual(violations.map(({id, nodes}) =>
    `${id}: ${nodes.map(node => `${node.html.slice(0, 120)} (${node.failureSummary})`).join('; ')}`), [],
    where);
}
