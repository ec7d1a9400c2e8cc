/* Experts of a file at a URL in pages of real Chromium: only those that the router has chosen are
 * requested.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {mkdtemp, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {serve} from '../../demo/serve.mjs';
import {launch} from './chromium.js';
import {FILES, PROMPT, TOKENS, makeMixtures, native, onlyChosen} from './mixtures.js';
import {PACKAGE, fileServer} from './tools.js';

const CORS = {'access-control-allow-origin': '*', 'access-control-allow-headers': 'range'};

let browser, folder;
before(async () => {
  await makeMixtures();
  folder = await mkdtemp(join(tmpdir(), 'qsf-page-'));
  await writeFile(join(folder, 'index.html'), '<!doctype html><title>test</title>');
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await rm(folder, {recursive: true, force: true});
});

/* Runs in the page; opened() says to the test that the answer begins. */
async function visit({url, memory, prompt, maxTokens}) {
  const {load} = await import('/js/browser.js');
  const model = await load(url, {threads: 2, contextLength: 64, cache: false, memory}), ids = [];
  const begun = await model.stats(), {resident} = model.info;
  await globalThis.opened();
  for await (const text of model.generate(prompt, {temperature: 0, maxTokens, onToken: id => ids.push(id)}))
    void text;
  const stats = await model.stats();
  await model.dispose();
  return {begun, stats, ids, resident};
}

for (const isolation of [true, false])
  for (const [name, {file, bytes, memory}] of Object.entries(FILES))
    test(`experts of a ${name} file, ${isolation ? 'an isolated page' : 'without isolation'}`, async t => {
      const pages = await serve([['/', folder], ['/js', PACKAGE]], {isolation});
      const server = await fileServer(file, (request, response, {send}) => {
        if (request.method === 'OPTIONS') response.writeHead(204, CORS).end();
        else send({headers: CORS});
        return true;
      });
      const context = await browser.newContext(), page = await context.newPage();
      let opened;
      try {
        await page.exposeFunction('opened', () => { opened = server.asked.length; });
        await page.goto(`http://127.0.0.1:${pages.address().port}/`);
        const {begun, stats, ids, resident} =
          await page.evaluate(visit, {url: server.url, memory, prompt: PROMPT, maxTokens: TOKENS});
        assert.equal(resident, false);
        assert.deepEqual(ids, native(file));
        const asked = server.asked.slice(opened).filter(range => range !== 'all');      // preflights
        t.diagnostic(onlyChosen(asked, begun, stats, bytes));
      } finally {
        await context.close();
        server.close();
        pages.closeAllConnections();
        pages.close();
      }
    });
