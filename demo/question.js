/* How a question looks: its files, its text, and the form in which it is edited.
 * SPDX-License-Identifier: MIT */
import {button, make} from './dom.js';
import {icon} from './icons.js';
import {t} from './strings.js';

const chip = ({name, text}) => make('li', {}, icon('file'), make('span', {textContent: name}),
  make('small', {textContent: t('{n} characters', {n: text.length.toLocaleString()})}));

export const drawFiles = (files = []) => (files.length
  ? make('ul', {className: 'files'}, ...files.map(chip)) : '');
const LONG = 2000;              /* characters of a question that scrolls */

export function drawQuestion({role, content}) {
  const body = make('div', {className: role === 'text' ? 'given' : 'user', textContent: content});
  if (content.length > LONG) {
    body.classList.add('long');
    body.tabIndex = 0;
  }
  return body;
}

/** Replaces a question by a field with its text; done(text) is called if it is sent. */
export function editor(article, {content}, done) {
  const shown = article.querySelector('.user, .given'), foot = article.querySelector('.mine');
  const field = make('textarea', {value: content, rows: Math.min(12, content.split('\n').length + 1)});
  field.setAttribute('aria-label', t('Edit'));
  const form = make('form', {className: 'editor'}, field);
  const close = () => {
    form.replaceWith(shown);
    foot.hidden = false;
    foot.querySelector('.edit').focus();
  };
  const send = () => {
    const text = field.value.trim();
    if (text && text !== content) done(text);
    else close();
  };
  form.append(make('p', {className: 'tools'}, button(t('Cancel'), close),
    button(t('Send'), send, {className: 'main'})));
  form.addEventListener('submit', event => { event.preventDefault(); send(); });
  form.addEventListener('keydown', event => {
    if (event.isComposing) return;
    if (event.key === 'Escape') {
      event.stopPropagation();
      close();
    }
    if (event.key === 'Enter' && !event.shiftKey && event.target === field) {
      event.preventDefault();
      send();
    }
  });
  shown.replaceWith(form);
  foot.hidden = true;
  field.focus();
}
