/* Conversations of the page in real Chromium: kept, found, renamed, deleted, exported, imported;
 * edited questions and other answers; a context that fills. The engine is a stand-in.
 * SPDX-License-Identifier: MIT
 *
 * Screenshots go to QSF_TEST_WORK. */
import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {launch} from './chromium.js';
import {accessible, fits} from './browser/looks.js';
import {act, begin, converse, engine, last, stored, titles, until} from './browser/talks.js';
import {NAME, SLOW, answered, ask, open, ready} from './browser/visit.js';
import {WORK} from './tools.js';

const shot = (page, name) => page.screenshot({path: join(WORK, `conversations-${name}.png`)});

let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

const visit = context => converse(browser, context);
async function saved(page, click) {
  const [download] = await Promise.all([page.waitForEvent('download'), click()]);
  return {name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8')};
}

describe('conversations', () => {
  let tab, page;
  before(async () => {
    tab = await visit();
    ({page} = tab);
  });
  after(() => tab.close());

  test('are kept and listed, newest first', async () => {
    await ask(page, 'first question');
    await page.click('#new');
    assert.equal(await page.isVisible('#welcome'), true);
    await ask(page, 'second question');
    await until(page, ['second question', 'first question']);
    await page.reload();
    await begin(page);
    await until(page, ['second question', 'first question']);
    assert.equal(await last(page), '[second question]', 'what this tab has shown');
    await page.click('#conversations li:nth-child(2) .open');
    assert.equal(await last(page), '[first question]');
    await ask(page, 'and more');
    assert.equal(await last(page), '[first question | [first question] | and more]');
    await until(page, ['first question', 'second question']);
    await shot(page, 'list');
  });
  test('are the same in another tab', async () => {
    const other = await tab.open();
    await other.waitForFunction(() => document.querySelectorAll('#conversations .open').length === 2,
      undefined, SLOW);
    await begin(other);
    await ask(other, 'third question');
    await until(page, ['third question', 'first question', 'second question']);
    await other.close();
  });
  test('are searched by their words', async () => {
    await page.fill('#search', 'MORE first');
    await until(page, ['first question']);
    await page.fill('#search', 'nowhere');
    await until(page, []);
    assert.equal(await page.isVisible('#no-match'), true);
    await page.fill('#search', '');
    await until(page, ['third question', 'first question', 'second question']);
  });
  test('are renamed', async () => {
    await act(page, 'second question', 'Rename');
    await page.keyboard.type('Another <b>name</b>');
    await page.keyboard.press('Enter');
    await until(page, ['third question', 'first question', 'Another <b>name</b>']);
    await act(page, 'Another <b>name</b>', 'Rename');
    await page.keyboard.type('not this');
    await page.keyboard.press('Escape');
    await until(page, ['third question', 'first question', 'Another <b>name</b>']);
    assert.equal(await page.isHidden('#side'), false);
  });
  test('are deleted, and brought back', async () => {
    await act(page, 'third question', 'Delete');
    await until(page, ['first question', 'Another <b>name</b>']);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'undo');
    await page.keyboard.press('Enter');
    await until(page, ['third question', 'first question', 'Another <b>name</b>']);
    await act(page, 'first question', 'Delete');
    assert.equal(await page.locator('.turn').count(), 0, 'the one that is shown');
    await page.click('#undo');
    await until(page, ['third question', 'first question', 'Another <b>name</b>']);
  });
  test('are exported and imported', async () => {
    const {name, text} = await saved(page, () => act(page, 'first question', 'Markdown'));
    assert.equal(name, 'first-question.md');
    assert.match(text,
      /^# first question\n\n## You\n\nfirst question\n\n## Model\n\n\[first question\]\n\n## You/);
    await page.click('[aria-label="More: first question"]');
    const one = await saved(page, () => act(page, 'first question', 'JSON'));
    assert.equal(JSON.parse(one.text).conversations.length, 1);
    const all = await saved(page, () => page.click('#export'));
    assert.equal(JSON.parse(all.text).conversations.length, 3);

    const stranger = await visit();
    try {
      const give = (file, content) => stranger.page.setInputFiles('#import-file',
        {name: file, mimeType: 'application/json', buffer: Buffer.from(content)});
      await give('all.json', all.text);
      await until(stranger.page, ['third question', 'first question', 'Another <b>name</b>']);
      await give('again.json', all.text);
      await give('other.json', '{}');
      await stranger.page.waitForSelector('#error:not([hidden])', SLOW);
      assert.match(await stranger.page.textContent('#error'),
        /other\.json could not be imported.*no conversations.*exported as JSON/);
      await stranger.page.click('#error button');
      assert.equal((await titles(stranger.page)).length, 3, 'nothing is there twice');
      await stranger.page.click('#conversations li:nth-child(2) .open');
      assert.equal(await last(stranger.page), '[first question | [first question] | and more]');
    } finally {
      await stranger.close();
    }
  });
});

test('questions are edited, answers come again, and all versions stay', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await ask(page, 'one');
  await ask(page, 'two');
  await page.click('.turn:first-child .edit');
  await page.keyboard.press('End');
  await page.keyboard.type(' more');
  await page.keyboard.press('Enter');
  await answered(page);
  assert.equal(await page.locator('.turn').count(), 1);
  assert.equal(await last(page), '[one more]');
  assert.equal(await page.textContent('.mine .versions'), '2 of 2');
  await page.click('.mine .before');
  assert.equal(await page.locator('.turn').count(), 2);
  assert.equal(await page.evaluate(() => document.activeElement.classList.contains('after')), true);
  assert.equal(await last(page), '[one | [one] | two]');
  await page.click('.turn:last-child .again');
  await answered(page);
  assert.equal(await page.textContent('.turn:last-child footer:not(.mine) .versions'), '2 of 2');
  await page.click('.turn:first-child .edit');
  await page.keyboard.type('lost');
  await page.keyboard.press('Escape');
  assert.equal(await page.textContent('.turn:first-child .user'), 'one');
  await page.fill('#text', 'wait');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#stop:not([hidden])', SLOW);
  await page.keyboard.press('Escape');
  await answered(page);
  assert.match(await page.textContent('.turn:last-child .ended'), /stopped/);
  await ask(page, 'three');
  assert.doesNotMatch(await last(page), /wait/, 'a question without an answer is not given');
  await shot(page, 'versions');
});

test('each tab continues its own branch', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await ask(page, 'first');
  const other = await tab.open();
  await begin(other);
  await other.click('#conversations .open');
  await ask(page, 'here');
  await ask(other, 'there');
  await page.reload();
  await begin(page);
  assert.equal(await last(page), '[first | [first] | here]');
  assert.match(await page.textContent('.turn:last-child .versions'), /of 2/);
  await page.click('.turn:last-child .versions button:enabled');
  assert.equal(await last(page), '[first | [first] | there]');
});

test('a conversation that is deleted while it is answered stays deleted', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await page.fill('#text', 'wait');
  await page.keyboard.press('Enter');
  await until(page, ['wait']);
  await act(page, 'wait', 'Delete');
  await page.waitForSelector('#undo', SLOW);
  await page.waitForSelector('#send:not([hidden])', SLOW);
  await ask(page, 'another');
  await until(page, ['another']);
  await page.reload();
  await begin(page);
  await until(page, ['another']);
  assert.equal(await last(page), '[another]');
});

test('an answer that was growing when the page was left is kept as far as it was', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await page.fill('#text', 'say and wait: one two three');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.assistant')?.textContent.includes('three'),
    undefined, SLOW);
  await stored(page, 'three');
  await page.reload();
  await begin(page);
  assert.match(await last(page), /one two three/);
  assert.match(await page.textContent('.ended'), /stopped/);
});

test('reasoning is folded, also later', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await ask(page, 'think');
  assert.match(await page.textContent('.reasoning summary'), /^Reasoned for \d+ s$/);
  await page.reload();
  await begin(page);
  assert.equal(await page.textContent('.reasoning summary'), 'Reasoning');
  assert.equal(await page.isHidden('.thoughts'), true);
  await page.click('.reasoning summary');
  assert.equal(await page.textContent('.thoughts'), 'First this,\nthen that.');
});

test('a conversation that is longer than the context goes on', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  const words = (n, word) => `say: ${Array(n).fill(word).join(' ')}`;
  for (const word of ['a', 'b', 'c', 'd']) await ask(page, words(30, word));
  assert.equal(await page.locator('#talk .bad').count(), 0);
  assert.match(await last(page), /^d d d/);
  assert.equal(await page.locator('.skipped').count(), 1);
  const given = await page.evaluate(() => asked.map(({content}) => content));
  assert.ok(given.length < 7 && given.at(-1).startsWith('say: d'), `${given}`);
  await ask(page, 'x '.repeat(250).trim());
  assert.match(await page.textContent('#talk .bad'), /too long.*Write a shorter message/);
  await shot(page, 'trimmed');
});

test('a conversation that is longer than the context is summed up if that is chosen', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await page.click('#options');
  await page.selectOption('[name=whenFull]', 'summarise');
  await page.keyboard.press('Escape');
  const words = (n, word) => `say: ${Array(n).fill(word).join(' ')}`;
  for (const word of ['a', 'b', 'c']) await ask(page, words(27, word));         // 165 of 200 tokens
  await page.waitForSelector('details.skipped', SLOW);
  assert.match(await page.textContent('.skipped summary'), /sees a summary of what is above/);
  assert.equal(await page.isHidden('.skipped .thoughts'), true);
  await page.click('.skipped summary');
  assert.match(await page.textContent('.skipped .thoughts'), /^They said 2 things\.$/);
  assert.equal(await page.locator('.turn').count(), 3, 'nothing is lost');
  await accessible(page, 'a summary');
  await shot(page, 'summed');
  await ask(page, 'say: d');
  const given = await page.evaluate(() => asked.map(({role, content}) => `${role} ${content.slice(0, 24)}`));
  assert.match(given[0], /^system Summary of the/);
  assert.doesNotMatch(given.slice(1).join(), /say: a/);
  await page.reload();
  await begin(page);
  assert.equal(await page.locator('details.skipped').count(), 1, 'it is kept');
  await ask(page, words(100, 'e'));             // summed up before the answer, which would not fit
  assert.equal(await page.locator('#talk .bad').count(), 0);
  assert.match(await last(page), /^e e e/);
  assert.equal(await page.locator('.summing').count(), 0);
});

test('each conversation has a sequence of its own', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await ask(page, 'one');
  await page.click('#new');
  await ask(page, 'two');
  await page.click('#conversations li:nth-child(2) .open');
  await ask(page, 'more of one');
  assert.equal(await page.evaluate(() => sequences.size), 2);
  await act(page, 'one', 'Delete');
  await page.waitForFunction(() => sequences.size === 1, undefined, SLOW);
  for (let i = 0; i < 20; i++) {
    await page.click('#new');
    await ask(page, `question ${i}`);
  }
  assert.equal(await page.evaluate(() => sequences.size), 16, 'those used last');
});

test('a hostile answer is text, and nothing of it runs', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  const evil = '<img src=x onerror="globalThis.evil = 1"> <script>globalThis.evil = 1</script>';
  await ask(page, `say: ${evil} [a](javascript:evil) $\\text{${evil}}$ \`\`\`html ${evil}`);
  await ask(page, `say: | a | b | ![x](https://x.y/i.png)\n\n\`\`\`html\n${evil}\n\`\`\`\n\n- [x] ${evil}`);
  await page.fill('#text', evil);
  await page.keyboard.press('Enter');
  await answered(page);
  assert.deepEqual(await page.evaluate(() => [document.querySelectorAll('main :is(script, img, iframe, '
    + 'object)')
    .length, document.querySelectorAll('[href^="javascript" i], [onerror]').length, globalThis.evil]),
  [0, 0, undefined]);
  assert.ok((await page.textContent('#talk')).includes(evil));
  assert.equal(await page.locator('.code-tag').count() > 0, true);
});

test('formulas, task lists and code are drawn', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await ask(page, 'say: Roots: \\(x_{1,2} = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}\\)\n\n'
    + '$$\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2} \\quad \\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}$$\n\n'
    + '- [x] done\n- [ ] to do\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n'
    + '```python\n# adds\ndef add(a, b):\n    return a + b + 0.5\n\nprint(add("x", 2))\n```\n');
  assert.equal(await page.locator('.assistant math').count(), 2);
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('math')).display),
    'math');
  await accessible(page, 'a rich answer');
  await shot(page, 'rich');
});

test('text files go with a question', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  const give = (name, buffer) => page.setInputFiles('#attach-file', {name, mimeType: 'text/plain', buffer});
  await page.click('#more');
  await shot(page, 'more');
  await give('notes.txt', Buffer.from('one two'));
  await page.waitForSelector('#files li', SLOW);
  await give('image.png', Buffer.from([0x89, 0x50, 0, 1, 0xff]));
  await page.waitForSelector('#files-note:not([hidden])', SLOW);
  assert.match(await page.textContent('#files-note'), /image\.png is not a text file/);
  await give('big.txt', Buffer.alloc(600_000, 'a'));
  await page.waitForFunction(() => document.querySelector('#files-note').textContent.includes('at most'),
    undefined,
    SLOW);
  await give('more.txt', Buffer.from('x'));
  await page.waitForFunction(() => document.querySelectorAll('#files li').length === 2, undefined, SLOW);
  await shot(page, 'attached');
  await page.click('[aria-label="Remove more.txt"]');
  await ask(page, 'what is it?');
  assert.match(await last(page), /File notes\.txt:.*one two.*what is it\?/s);
  assert.match(await page.textContent('.turn .files'), /notes\.txt7 characters/);
  assert.equal(await page.isHidden('#ask .files'), true);
  await page.evaluate(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(['dropped words'], 'dropped.md'));
    window.dispatchEvent(new DragEvent('drop', {dataTransfer: transfer, cancelable: true, bubbles: true}));
  });
  await page.waitForSelector('#ask .files li', SLOW);
  await page.focus('#text');
  await page.keyboard.press('Enter');
  await answered(page);
  assert.match(await last(page), /dropped words/);
});

test('the model uses tools if they are on, and what it did is shown', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  const use = (name, given) => ask(page, `use: ${name} ${JSON.stringify(given)}`);
  await use('calculate', {expression: '6*7'});
  assert.match(await last(page), /no tools/);
  await page.click('#more');
  await page.click('#tools');
  await page.waitForSelector('#tools[aria-pressed=true]', SLOW);
  assert.match(await page.textContent('#modes'), /Tools are on/);
  await use('calculate', {expression: '6*7'});
  assert.equal(await last(page), 'The tool says 42.');
  assert.equal(await page.textContent('.turn:last-child .call summary'), 'Calculator: 6*7 → 42');
  await use('run_javascript', {code: 'let s = 0;\nfor (let i = 1; i < 5; i++) s += i;\nconsole.log(s)'});
  assert.equal(await last(page), 'The tool says 10.');
  await use('run_javascript', {code: 'document.title'});
  assert.match(await last(page), /error: document is not known/);
  await use('current_time', {time_zone: 'Europe/Berlin'});
  assert.match(await last(page), /20\d\d/);
  await use('nothing', {});
  assert.match(await last(page), /no tool is called nothing/);
  await accessible(page, 'calls');
  await shot(page, 'tools');
  await page.reload();
  await begin(page);
  assert.equal(await page.locator('.call').count(), 5, 'they are kept');
});

test('a form is filled from a text', async t => {
  const tab = await visit(), {page} = tab;
  t.after(() => tab.close());
  await page.click('#more');
  await page.click('#form-open');
  await page.waitForSelector('#form[open]', SLOW);
  await accessible(page, 'the form');
  for (const width of [320, 1280]) {
    await page.setViewportSize({width, height: 740});
    await fits(page);
    await shot(page, `form-${width}`);
  }
  await page.selectOption('#form select', 'Other');
  const schema = {type: 'object', properties: {name: {type: 'string', examples: ['Ada']},
    age: {type: 'integer',
    examples: [36]}, tags: {type: 'array', items: {type: 'string'}, examples: [['a', 'b']]},
      kind: {enum: ['x', 'y'],
      examples: ['y']}, old: {type: 'boolean', examples: [true]}}};
  await page.fill('#form .address', '{');
  assert.match(await page.textContent('#form [role=status]'), /not valid JSON/);
  await page.fill('#form .address', JSON.stringify(schema));
  await page.fill('#form label:nth-of-type(3) textarea', 'Ada is 36.');
  await page.click('#form-fill');
  await page.waitForFunction(() => document.querySelector('#form '
    + '[role=status]').textContent.startsWith('Filled'),
    undefined, SLOW);
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('.fields :is(input, textarea, '
    + 'select)')]
    .map(field => (field.type === 'checkbox' ? field.checked : field.value))), ['Ada', '36', 'a\nb', 'y',
    true]);
  assert.equal((await page.evaluate(() => asked.at(-1).content)), 'Ada is 36.');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#form', {state: 'detached', ...SLOW});
});

test('the page is German for who reads German, and in the language that is chosen', async t => {
  const tab = await open(browser, {mounts: [['/sub/page/js/browser.js', engine]], locale: 'de-DE'}),
    {page} = tab;
  t.after(() => tab.close());
  await page.waitForSelector('#go:not([disabled])', SLOW);
  assert.equal(await page.getAttribute('html', 'lang'), 'de');
  assert.match(await page.textContent('#start'), /Mit einem Modell auf diesem Gerät.*Gespräch beginnen/s);
  assert.match(await page.textContent('#offer'), /Sehr klein und schnell.*79 MB, einmal heruntergeladen/s);
  await page.click('#go');
  await ready(page);
  assert.equal(await page.getAttribute('#text', 'placeholder'), 'Fragen Sie etwas');
  await ask(page, 'Hallo');
  for (const width of [280, 320, 390, 1280]) {
    await page.setViewportSize({width, height: 740});
    await fits(page);
    if (width !== 280) await shot(page, `german-${width}`);
  }
  await page.click('#options');
  await page.setViewportSize({width: 320, height: 740});
  await fits(page);
  await accessible(page, 'German settings');
  await Promise.all([page.waitForEvent('load'), page.selectOption('#language', 'en')]);
  await page.waitForSelector('#go:not([disabled])', SLOW);
  assert.equal(await page.textContent('#go'), 'Start chatting');
  await page.reload();
  await page.waitForSelector('#go:not([disabled])', SLOW);
  assert.equal(await page.getAttribute('html', 'lang'), 'en');
});

test('speech goes in and out if it stays on the device', async t => {
  const tab = await open(browser, {mounts: [['/sub/page/js/browser.js', engine]]}), {page: first,
    person} = tab;
  t.after(() => tab.close());
  await begin(first);
  assert.equal(await first.isHidden('#dictate'), true, 'Chromium would send it to a server');
  await person.addInitScript(() => {
    globalThis.said = [];
    const voice = {speaking: false, cancel() { voice.speaking = false; }, speak(words) {
      voice.speaking = true;
      said.push(words.text.trim());
      globalThis.spoken = () => { voice.speaking = false; words.onend(); };
    }};
    Object.defineProperty(globalThis, 'speechSynthesis', {value: voice});
    globalThis.SpeechSynthesisUtterance = class { constructor(text) { this.text = text; } };
    globalThis.SpeechRecognition = class {
      static available = async ({processLocally}) => (processLocally ? 'available' : 'no');
      start() { globalThis.hear = text => this.onresult({results: [[{transcript: text}]]}); }
      stop() { this.onend(); }
    };
  });
  const page = await tab.open();
  await begin(page);
  await page.waitForSelector('#dictate:not([hidden])', SLOW);
  await page.fill('#text', 'say:');
  await page.click('#dictate');
  assert.equal(await page.getAttribute('#dictate', 'aria-pressed'), 'true');
  await page.evaluate(() => { hear('some'); hear('some **words**'); });
  await page.click('#dictate');
  assert.equal(await page.getAttribute('#dictate', 'aria-pressed'), 'false');
  assert.equal(await page.inputValue('#text'), 'say: some **words**');
  await page.click('#send');
  await answered(page);
  await page.click('.aloud');
  assert.deepEqual(await page.evaluate(() => said), ['some   words']);
  assert.equal(await page.getAttribute('.aloud', 'aria-pressed'), 'true');
  await page.evaluate(() => spoken());
  assert.equal(await page.getAttribute('.aloud', 'aria-pressed'), null);
});

test('a suggestion is asked with one click', async t => {
  const tab = await visit({viewport: {width: 390, height: 740}}), {page} = tab;
  t.after(() => tab.close());
  const text = await page.textContent('#suggestions li:nth-child(2) button');
  await page.click('#suggestions li:nth-child(2) button');
  await answered(page);
  assert.equal(await page.textContent('.user'), text);
  assert.equal(await page.isHidden('#welcome'), true);
});

test('a base model is not offered for chats, and is said to continue texts', async t => {
  const list = join(WORK, 'base-models.json'), tiny = {url: NAME, size: 1e6, start: true};
  writeFileSync(list, JSON.stringify({models: [{...tiny, name: 'Base', chat: false},
    {...tiny, name: 'Other'}]}));
  const tab = await open(browser, {mounts: [['/sub/page/js/browser.js', engine],
    ['/sub/page/models.json', list]]}), {person} = tab;
  t.after(() => tab.close());
  await person.addInitScript(() => { globalThis.isBase = true; });
  const page = await tab.open();
  await page.waitForSelector('#go:not([disabled])', SLOW);
  assert.equal(await page.textContent('#offer-name'), 'Other');
  assert.match(await page.textContent('#list'), /Base.*only continues texts.*Other/);
  await page.click('#go');
  await ready(page);
  assert.equal(await page.isVisible('#no-chat'), true);
  assert.equal(await page.isVisible('#welcome'), false);
  assert.equal(await page.isDisabled('#mode-chat'), true);
  await accessible(page, 'a base model');
});

test('a narrow screen shows the list over the page', async t => {
  const tab = await visit({viewport: {width: 390, height: 740}}), {page} = tab;
  t.after(() => tab.close());
  await ask(page, 'question');
  assert.equal(await page.isHidden('#side'), true);
  await page.click('#menu');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'new');
  assert.equal(await page.evaluate(() => document.querySelector('main').inert), true);
  for (const width of [280, 320, 390]) {
    await page.setViewportSize({width, height: 740});
    await fits(page);
  }
  await accessible(page, 'the list');
  await shot(page, 'narrow');
  await page.mouse.click(380, 400);
  assert.equal(await page.isHidden('#side'), true);
  await page.click('#menu');
  await page.click('#conversations .open');
  assert.equal(await page.isHidden('#side'), true);
  assert.equal(await page.evaluate(() => document.querySelector('main').inert), false);
});

test('nothing is lost by a browser that keeps nothing, while the page is open', async t => {
  const tab = await open(browser, {mounts: [['/sub/page/js/browser.js', engine]]}), {person} = tab;
  t.after(() => tab.close());
  await person.addInitScript(() => Object.defineProperty(window, 'indexedDB', {value: undefined}));
  const page = await tab.open();
  await begin(page);
  await ask(page, 'one');
  await page.click('#new');
  await ask(page, 'two');
  await until(page, ['two', 'one']);
  assert.equal(await page.isVisible('#side-note'), true);
  await page.click('#conversations li:nth-child(2) .open');
  assert.equal(await last(page), '[one]');
});
