/* The page's texts: each has a translation, and no translation is left over.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {readFileSync, readdirSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {table} from '../../demo/german.js';
import {planText, t} from '../../demo/strings.js';

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
/* What the engine says of a plan, with numbers for its values (planText). */
function planned() {
  const core = ['plan.c', 'ladder.c'].map(name => readFileSync(join(folder, '../core/engine', name), 'utf8'))
    .join('\n');
  const found = new Set();
  const calls = /\b(?:plan_item|qsf_plan_note|char \*\w+ =|qsf_log)[^;]*;/g;
  for (const [call] of core.matchAll(calls))
    for (const [, text] of call.matchAll(/"((?:[^"\\]|\\.)*)"/g))
      for (const part of text.split(', ')) {
        let n = 0;
        found.add(part.replace(/%[.\d]*(?:llu|[usf])/g, () => `{${n++}}`));
      }
  return found;
}
test('what the engine says of a plan is there in German', () => {
  const all = [...planned()].filter(text => /\p{L}{2}/u.test(text.replace(/\{\d\}/g, '')));
  assert.ok(all.length > 30, `${all.length} texts`);
  assert.deepEqual(all.filter(text => !Object.hasOwn(table, text)), []);
  assert.equal(planText('keys and values q8 -> q4v2, to stay within 22 MB'),
    'keys and values q8 -> q4v2, to stay within 22 MB');
});
test('no translation is left over, and all have the values of their text', () => {
  const all = tidy(`${scripts}\n${html}`).replaceAll(/' \+ '|\\/g, '');
  const names = text => (text.match(/\{\w+\}/g) ?? []).sort().join();
  // states of a server's models
  const others = [...planned(), 'loaded', 'unloaded'];
  for (const [text, german] of Object.entries(table)) {
    assert.ok(all.includes(text) || others.includes(text), `not used: ${text}`);
    assert.equal(names(german), names(text), text);
  }
});
test('a text without a translation is itself', () => {
  assert.equal(t('{n} things of {all}, {other}', {n: 1, all: '$&'}), '1 things of $&, {other}');
  assert.equal(t('constructor'), 'constructor');
});
