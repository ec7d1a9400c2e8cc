#!/usr/bin/env node
/* One run of the package for busy.py, in Node.js or in Chromium: prints what
 * measure.js found, as JSON.
 * SPDX-License-Identifier: MIT
 *
 *   node run.mjs node|chromium PACKAGE_FOLDER MODEL THREADS PROMPT ANSWER TOOLS_FOLDER
 * THREADS 0: the default */
import {mkdtemp, rm} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {benchServer} from '../wllama/server.mjs';
import {measure} from './measure.js';

const [where, folder, model, threads, prompt, answer, tools] = process.argv.slice(2);
const options = {threads: Number(threads) || undefined, prompt: Number(prompt), answer: Number(answer)};

async function inChromium() {
  const {chromium} = createRequire(join(resolve(tools), 'x.js'))('playwright-core');
  const profile = await mkdtemp(join(tmpdir(), 'qsf-busy-'));
  const here = fileURLToPath(new URL('.', import.meta.url));
  const folders = {'/bench': here, '/qsf': resolve(folder), '/model.qsf': resolve(model)};
  const server = await benchServer(folders, {isolation: true});
  let context;
  try {
    context = await chromium.launchPersistentContext(profile,
      {executablePath: process.env.QSF_TEST_CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox']});
    const page = context.pages()[0] ?? await context.newPage();
    await page.goto(`${server.origin}/bench/page.html`);
    await page.waitForFunction(() => globalThis.run);
    return await page.evaluate(o => globalThis.run(o), options);
  } finally {
    await context?.close();
    server.close();
    await rm(profile, {recursive: true, force: true, maxRetries: 5});
  }
}

async function inNode() {
  const {load} = await import(pathToFileURL(join(resolve(folder), 'node.js')));
  return measure(load, resolve(model), options);
}

console.log(JSON.stringify(await (where === 'node' ? inNode() : inChromium())));
