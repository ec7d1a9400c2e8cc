/* The page's language. English texts are their own keys: those of index.html and of the scripts,
 * which another language's table translates.
 * SPDX-License-Identifier: MIT */

export const LANGUAGES = {en: 'English', de: 'Deutsch'};
let table = {};
export let language = 'en';

/** A text in the page's language; {name} stands for a value. */
export function t(text, values = {}) {
  const found = Object.hasOwn(table, text) ? table[text] : text;
  return found.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** What the engine says of a plan: words with digits are values. */
export const planText = text => text.split(', ').map(part => {
  const values = [];
  return t(part.replace(/\b\w*\d[\w.]*/g, value => `{${values.push(value) - 1}}`), values);
}).join(', ');

const tidy = text => text.trim().replace(/\s+/g, ' ');
const ATTRIBUTES = ['placeholder', 'aria-label', 'title', 'content'];

/** The texts of a document that are translated: [text, set(translated)] pairs. */
export function * texts(root) {
  const nodes = document.createNodeIterator(root, NodeFilter.SHOW_TEXT);
  for (let node; (node = nodes.nextNode());) {
    const text = tidy(node.data), {data} = node, found = node;
    if (/\p{L}/u.test(text) && !['SCRIPT', 'STYLE'].includes(node.parentNode.tagName))
      yield [text, now => { found.data = data.replace(/\S[^]*\S|\S/, () => now); }];
  }
  for (const node of root.querySelectorAll(ATTRIBUTES.map(name => `[${name}]`).join()))
    for (const name of ATTRIBUTES)
      if (node.hasAttribute(name) && !(name === 'content' && node.name !== 'description'))
        yield [tidy(node.getAttribute(name)), now => node.setAttribute(name, now)];
}

/** wanted: a language's code, or '' for the browser's. Before anything else is drawn. */
export async function speak(wanted) {
  const codes = wanted ? [wanted] : navigator.languages.map(code => code.slice(0, 2).toLowerCase());
  language = codes.find(code => code in LANGUAGES) ?? 'en';
  document.documentElement.lang = language;
  if (language === 'en') return;
  ({table} = await import('./german.js'));
  for (const [text, set] of texts(document.documentElement)) if (table[text]) set(table[text]);
}
