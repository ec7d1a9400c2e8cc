/* Models of a hub by name, in the choice of models: the files of a repository, and its token.
 * SPDX-License-Identifier: MIT */
import {$, make} from './dom.js';
import {megabytes} from './figures.js';
import {cachedAt, parse} from './js/hub.js';
import {t} from './strings.js';

let listed;                     // the repository whose files are shown

/** What the hub wants to know of the person: kept only in the field. */
export const token = () => $('hub-token').value.trim() || undefined;

/** The part of the page for this name; '': none. Files stay while their repository is named. */
export function show(name) {
  $('hub').hidden = !name;
  let repo;
  try {
    repo = name && parse(name).repo;
  } catch { /* not complete */ }
  if (repo !== listed) drawFiles();
}

/** Shows the files of a name's repository, largest first, as estimate() has them; chosen(name) is
 * called with that of one of them. */
export function drawFiles(name, files = [], chosen = () => {}) {
  const {repo, revision} = name ? parse(name) : {};
  listed = repo;
  $('hub-files').replaceChildren(...files.map((one, i) => {
    const {file, quantisation, bytes, memoryBytes, fits, error} = one;
    const input = make('input', {type: 'radio', name: 'hub-file', id: `hub-${i}`, checked: one.chosen});
    input.addEventListener('change', () => chosen(
      `hf:${repo}/${file}${revision === 'main' ? '' : `@${revision}`}`));
    const facts = [megabytes(bytes), error ? t('cannot be used') : fits
      ? t('fits: needs {size} of memory', {size: megabytes(memoryBytes)})
      : t('does not fit: needs {size} of memory', {size: megabytes(memoryBytes)})].join(' · ');
    return make('div', {className: 'choice', title: error ?? ''}, input, make('label', {htmlFor: input.id},
      make('span', {textContent: quantisation || file}),
      make('small', {textContent: quantisation ? file : ''})),
      make('span', {className: 'size', textContent: facts}));
  }));
  $('hub-list').hidden = !files.length;
}

/** An error in words of this page, which has a field for the token. */
export function worded(error) {
  const refused = error.code === 'HTTP' && /\b40[13]\b/.test(error.message);
  const {code, reason, remedies} = error;
  const text = (reason ?? error.message).replace(/ ?\(hubToken[^)]*\)/g, '')
    .replaceAll("hubToken's", "the token's");
  return Object.assign(new Error(text, {cause: error}), {remedies,
    code: refused ? 'TOKEN' : ['ARGUMENT', 'NOT_FOUND'].includes(code) ? 'NAME' : code});
}

/** The URL of a stored file that this name stands for, of [{url, complete}]; undefined: none. */
export function storedUrl(name, entries, hubUrl) {
  const {start, has} = cachedAt(name, {hubUrl});
  return entries.filter(({url, complete}) => complete && url.startsWith(start)
    && has(decodeURIComponent(url.slice(start.length)))).map(({url}) => url).sort()[0];
}
