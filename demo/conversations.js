/* The list of conversations: opening, searching, renaming, deleting, files.
 * SPDX-License-Identifier: MIT */
import {Archive} from './archive.js';
import {$, announce, button, make, on, remembered} from './dom.js';
import {icon} from './icons.js';
import {t} from './strings.js';
import {choose, fromJson, matches, newId, path, toJson, toMarkdown} from './thread.js';

/* What this tab shows: a conversation's id and that of its last message. Another tab may show
 * another branch. */
const shown = remembered('sessionStorage', 'qsf-conversation');
const remember = ({id, leaf}) => shown.set(`${id} ${leaf ?? ''}`);
/* What the list says of an answer (Chat.stateOf). */
const STATES = {answering: 'answering …', answered: 'new answer', failed: 'no answer'};
const WIDE = matchMedia('(min-width: 64rem)');

/** Gives the user a file. */
function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  make('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
/* A conversation's row in the list; imported ones may have any id. */
const rowOf = id => `#conversations [data-id="${CSS.escape(id)}"]`;
const fileName = title => title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-+|-+$/g, '').slice(0, 60)
  || 'conversation';
const when = time => new Date(time).toLocaleDateString(document.documentElement.lang,
  {day: 'numeric', month: 'short', year: 'numeric'});

export class Conversations {
  #archive = new Archive(() => void this.draw()); #chat; #hooks; #all = []; #deleted; #menu;
  #gone = new Set(); #appeared = false;

  /** hooks: complain(title, error, actions), shown(): a conversation is to be seen */
  constructor(chat, hooks) {
    this.#chat = chat;
    this.#hooks = hooks;
    on('new', 'click', () => this.open());
    on('search', 'input', () => this.fill());
    on('import', 'click', () => $('import-file').click());
    on('import-file', 'change', () => void this.#import());
    on('export', 'click', () => this.#export());
    on('menu', 'click', () => this.show($('side').hidden));
    on('side-close', 'click', () => this.show(false));
    on('side', 'keydown', event => {
      if (event.key !== 'Escape' || WIDE.matches) return;
      event.stopPropagation();
      this.show(false);
    });
    on('curtain', 'click', () => this.show(false));
    WIDE.addEventListener('change', () => this.show(WIDE.matches && this.#all.length > 0, false));
  }

  /** Shows or hides the list. On a narrow screen it covers the page, which then waits. */
  show(is, focus = true) {
    const over = is && !WIDE.matches, side = $('side');
    side.hidden = !is;
    $('curtain').hidden = !over;
    document.querySelector('main').inert = over;
    $('menu').setAttribute('aria-expanded', String(is));
    document.body.classList.toggle('with-side', is && WIDE.matches);
    if (over) $('new').focus();
    else if (!is && focus && !WIDE.matches) $('menu').focus();
  }
  /** On a wide screen the list opens with the first conversation. */
  appear() {
    if (WIDE.matches && !this.#appeared) this.show(true, false);
    this.#appeared ||= WIDE.matches;
  }
  /** Reads what is kept; the conversation that this tab has shown is opened again. */
  async begin() {
    await this.draw();
    if (this.#all.length) this.appear();
    if (!await this.#archive.lasting) $('side-note').hidden = false;
    const [id, leaf] = shown.get().split(' '), found = this.#all.find(one => one.id === id);
    const last = found?.nodes.find(one => one.id === leaf);
    if (last && !path(found).includes(last)) choose(found, last);
    if (found && this.#chat.empty) this.#chat.open(found);
    this.fill();
    return this.#all.length;
  }
  /** Keeps a conversation that has changed; the lists, also those of other tabs, show it if the
   * change is whole. */
  async keep(conversation, isWhole = true) {
    if (this.#gone.has(conversation.id)) return;        // deleted while its answer was on its way
    if (conversation === this.#chat.conversation) remember(conversation);
    try {
      await this.#archive.put(conversation, isWhole);
    } catch (error) {
      this.#hooks.complain(t('The conversation could not be kept'), error, {[t('Close')]() {}});
    }
    if (isWhole) await this.draw();
  }
  async draw() {
    this.#all = await this.#archive.all();
    this.fill();
  }
  open(conversation) {
    this.#deleted = this.#menu = undefined;
    this.#chat.open(conversation);
    remember(this.#chat.conversation);
    if (!WIDE.matches) this.show(false, false);
    this.fill();
    this.#hooks.shown();
  }

  /** Draws the list anew, but not under a title that is being written. */
  fill() {
    if (document.activeElement?.closest('#conversations .rename')) return;
    const words = $('search').value, found = this.#all.filter(one => matches(one, words));
    const {activeElement: active} = document, row = active?.closest('#conversations [data-id]');
    const at = row ? [...row.querySelectorAll('button')].indexOf(active) : -1;
    const gone = this.#deleted && make('li', {className: 'gone'},
      make('span', {textContent: t('Deleted: {title}', {title: this.#deleted.title})}),
      button(t('Undo'), () => void this.#undo(), {id: 'undo'}));
    $('conversations').replaceChildren(...(gone ? [gone] : []), ...found.map(one => this.#row(one)));
    $('no-match').hidden = !words || found.length > 0;
    $('search').hidden = this.#all.length < 2 && !words;
    $('export').hidden = !this.#all.length;
    if (!row) return;
    const buttons = document.querySelectorAll(`${rowOf(row.dataset.id)} button`);
    (buttons[at] ?? buttons[0])?.focus();
  }
  #row(one) {
    const current = one.id === this.#chat.conversation.id, title = one.title || t('Without a title');
    const name = button('', () => this.open(one), {className: 'quiet open'});
    const state = this.#chat.stateOf(one);
    name.append(make('span', {textContent: title}), make('small', {className: state,
      textContent: state ? t(STATES[state]) : when(one.updated)}));
    if (current) name.setAttribute('aria-current', 'true');
    const more = button('', () => {
      this.#menu = this.#menu === one.id ? undefined : one.id;
      this.fill();
      document.querySelector(`${rowOf(one.id)} .more`)?.focus();
    }, {className: 'quiet more', ariaLabel: t('More: {title}', {title}),
      ariaExpanded: String(this.#menu === one.id)});
    more.append(icon('more'));
    const row = make('li', {className: current ? 'current' : ''}, name, more);
    row.dataset.id = one.id;
    if (this.#menu === one.id)
      row.append(make('p', {className: 'acts'}, button(t('Rename'), () => this.#rename(row, one)),
        button('Markdown', () => this.#document(one)),
        button('JSON', () => save(`${fileName(title)}.json`, toJson([one]), 'application/json')),
        button(t('Delete'), () => void this.#delete(one))));
    return row;
  }
  #rename(row, one) {
    const field = make('input', {type: 'text', value: one.title, maxLength: 200, ariaLabel: t('Title')});
    const form = make('form', {className: 'rename'}, field, make('button', {textContent: t('Save')}));
    const done = () => {
      this.#menu = undefined;
      form.remove();
      this.fill();
      document.querySelector(`${rowOf(one.id)} .open`)?.focus();
    };
    form.addEventListener('submit', async event => {
      event.preventDefault();
      const living = this.#chat.living(one);
      living.title = field.value.trim() || living.title;
      await this.#archive.put(living);
      await this.draw();
      done();
    });
    form.addEventListener('keydown', event => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      done();
    });
    row.replaceChildren(form);
    field.select();
  }
  #document(one) {
    const speakers = {user: t('You'), assistant: t('Model'), text: t('Text')};
    save(`${fileName(one.title)}.md`, toMarkdown(one, speakers), 'text/markdown');
  }
  async #delete(stored) {
    const one = this.#chat.living(stored), current = one === this.#chat.conversation;
    this.#gone.add(one.id);
    if (current) this.#chat.open();
    this.#chat.forget(one);
    await this.#archive.delete(one.id);
    this.#deleted = one;
    this.#menu = undefined;
    await this.draw();
    announce(t('Deleted: {title}', {title: one.title}));
    $('undo')?.focus();
  }
  async #undo() {
    const one = this.#deleted;
    this.#deleted = undefined;
    this.#gone.delete(one.id);
    await this.#archive.put(one);
    await this.draw();
    document.querySelector(`${rowOf(one.id)} .open`)?.focus();
  }
  #export() {
    const day = new Date().toISOString().slice(0, 10);
    save(`conversations-${day}.json`, toJson(this.#all), 'application/json');
  }
  async #import() {
    const [file] = $('import-file').files;
    $('import-file').value = '';
    if (!file) return;
    try {
      const found = fromJson(await file.text()), known = new Map(this.#all.map(one => [one.id, one]));
      for (const one of found) {
        const same = known.get(one.id);
        // another conversation under this id: both are kept
        if (same && same.nodes[0]?.id !== one.nodes[0]?.id) one.id = newId();
        this.#gone.delete(one.id);
        await this.#archive.put(one);
      }
      await this.draw();
      announce(t('{n} conversations imported', {n: found.length}));
    } catch (error) {
      this.#hooks.complain(t('{name} could not be imported', {name: file.name}),
        Object.assign(error, {code: 'IMPORT'}), {[t('Close')]() {}});
    }
  }
}
