/* Helpers for the page: its elements, and what the browser remembers.
 * SPDX-License-Identifier: MIT */

import {t} from './strings.js';

export const $ = id => document.getElementById(id);
export const on = (id, type, act) => $(id).addEventListener(type, act);

/** Creates an element: properties, then children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
export function button(label, act, properties) {
  const made = make('button', {type: 'button', className: 'quiet', textContent: t(label), ...properties});
  made.addEventListener('click', act);
  return made;
}
/** A list of sentences, hidden if it is empty. */
export function note(id, texts) {
  $(id).replaceChildren(...texts.map(text => make('li', {textContent: text})));
  $(id).hidden = !texts.length;
}
export const announce = text => { $('state').textContent = t(text); };

/** A value that the browser keeps under this key. storage: 'localStorage' or 'sessionStorage'.
 * get() returns '' if no value is set, and `denied` if storage is not allowed; values then last as
 * long as the page. */
export const remembered = (storage, key, denied = '') => ({
  get() { try { return globalThis[storage].getItem(key) ?? ''; } catch { return denied; } },
  set(value) {
    try {
      if (value) globalThis[storage].setItem(key, value);
      else globalThis[storage].removeItem(key);
    } catch { /* not allowed */ }
  },
});
