/* Text files that go with the next question.
 * SPDX-License-Identifier: MIT */
import {button, make} from './dom.js';
import {icon} from './icons.js';
import {t} from './strings.js';

const LIMIT = 500_000;                  /* bytes of a file */

/** The text of a file; throws if it is too large or not text. */
export async function textOf(file) {
  if (file.size > LIMIT) throw new Error(t('{name} is too large: at most 500 KB', {name: file.name}));
  try {
    const text = new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return text;
  } catch { /* not UTF-8 */ }
  throw new Error(t('{name} is not a text file', {name: file.name}));
}

export class Attachments {
  #list; #note; #files = [];

  /** list: shows them. note: says what is wrong with one. */
  constructor(list, note) {
    this.#list = list;
    this.#note = note;
  }
  async add(files) {
    this.#note.hidden = true;
    for (const file of files)
      try {
        this.#files.push({name: file.name, text: await textOf(file)});
      } catch ({message}) {
        this.#note.textContent = message;
        this.#note.hidden = false;
      }
    this.#draw();
  }
  /** What goes with a question that is sent now. */
  take() {
    const files = this.#files;
    this.#files = [];
    this.#note.hidden = true;
    this.#draw();
    return files;
  }
  get length() { return this.#files.length; }
  #draw() {
    this.#list.hidden = !this.#files.length;
    this.#list.replaceChildren(...this.#files.map((file, i) => {
      const remove = button('', () => {
        this.#files.splice(i, 1);
        this.#draw();
      }, {className: 'quiet sign', ariaLabel: t('Remove {name}', {name: file.name})});
      remove.append(icon('close'));
      return make('li', {}, icon('file'), make('span', {textContent: file.name}), remove);
    }));
  }
}
