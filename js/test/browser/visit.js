/* A site with the page, and somebody who visits it.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {serve} from '../../../demo/serve.mjs';
import {QSF} from '../tools.js';

export const NAME = 'models/smollm2-135m-4bit.qsf';
// by time: a page that is not in front may draw no frame
export const SLOW = {timeout: 240_000, polling: 50};
const CSP = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'";

/** A site and a page of it. `expected` matches console messages that are not failures. */
export async function open(browser, {isolation = true, mounts = [], site, query = '', expected, csp = CSP,
    ...context} = {}) {
  site ??= join(process.env.QSF_TEST_WASM, 'demo');
  const server = await serve([['/sub/page', site], [`/sub/page/${NAME}`, QSF], ...mounts], {isolation, csp}),
    {port} = server.address();
  const person = await browser.newContext({viewport: {width: 1100, height: 800}, ...context});
  const errors = [];
  let loads = 0;
  async function next(path = `/sub/page/${query}`) {
    const page = await person.newPage();
    page.on('pageerror', error => errors.push(error.message));
    page.on('console', message => {
      if (message.type() === 'error' && !/status of 404|ERR_/.test(message.text())
        && !expected?.test(message.text()))
        errors.push(message.text());
    });
    page.on('load', () => loads++);
    await page.goto(`http://127.0.0.1:${port}${path}`);
    return page;
  }
  const end = () => new Promise(resolve => { server.closeAllConnections(); server.close(resolve); });
  return {person, page: await next(), open: next, server, end, get loads() { return loads; }, async close() {
    await person.close();
    await end();
    assert.deepEqual(errors, []);
  }};
}

/** The first screen with all choices. */
export async function advanced(page) {
  await page.waitForSelector('#go:not([disabled])', SLOW);
  await page.click('#advanced > summary');
  await page.waitForSelector('#pick-0:checked', SLOW);
}
export const ready = page => page.waitForSelector('#ask:not([hidden])', SLOW);
export const answered = page => page.waitForFunction(() => document.querySelector('#talk .turn:last-child '
  + '.again')
  && document.querySelector('#stop').hidden, undefined, SLOW);
export async function ask(page, text) {
  await page.fill('#text', text);
  await page.keyboard.press('Enter');
  await answered(page);
}
