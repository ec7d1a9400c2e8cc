/* The page's texts: each has a translation, and no translation is left over.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {readFileSync, readdirSync} from 'node:fs';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {table} from '../../demo/german.js';
import {t} from '../../demo/strings.js';

const folder = fileURLToPath(new URL('../../demo/', import.meta.url));
const read = name => readFileSync(folder + name, 'utf8');
const scripts = readdirSync(folder).filter(name => name.endsWith('.js')
  && name !== 'german.js').map(read).join('\n');
const html = read('index.html').replace(/<!--[^]*?-->/g, '');
const tidy = text => text.trim().replace(/\s+/g, ' ').replaceAll('&amp;', '&');
/* The same in German. */
const SAME = ['Markdown', 'JSON', 'libqsf', 'MB', 'GPU', 'CPU', 'English', 'Deutsch', 'Top K', 'Top P',
  'Min P'];

test('each text of the page is there in German', () => {
  const used = new Set();
  const calls = /\b(?:t|button|announce|complain)\(\s*'((?:[^'\\]|\\.)+)'/g;
  for (const [, text] of scripts.matchAll(calls)) used.add(text);
  for (const [, text] of html.matchAll(/>([^<>]+)</g)) if (/\p{L}/u.test(text)) used.add(tidy(text));
  for (const [, text] of html.matchAll(/(?:placeholder|aria-label|title)="([^"]+)"/g)) used.add(tidy(text));
  assert.ok(used.size > 150, `${used.size} texts`);
  assert.deepEqual([...used].filter(text => !Object.hasOwn(table, text) && !SAME.includes(text)), []);
});
test('no translation is left over, and all have the values of their text', () => {
  const all = tidy(`${scripts}\n${html}`).replaceAll(/' \+ '|\\/g, '');
  const names = text => (text.match(/\{\w+\}/g) ?? []).sort().join();
  // names of the engine's plan, and states of a server's models
  const others = ['layers that stay', 'KV cache', 'embedding', 'loaded', 'unloaded'];
  for (const [text, german] of Object.entries(table)) {
    assert.ok(all.includes(text) || others.includes(text), `not used: ${text}`);
    assert.equal(names(german), names(text), text);
  }
});
test('a text without a translation is itself', () => {
  assert.equal(t('{n} things of {all}, {other}', {n: 1, all: '$&'}), '1 things of $&, {other}');
  assert.equal(t('constructor'), 'constructor');
});
