/* The conversation that is shown: questions, answers that arrive piece by piece, and what can be
 * done with them. Its data is a tree of messages (thread.js). Answers of other conversations
 * continue in the background (writing.js).
 * SPDX-License-Identifier: MIT */
import {drawWhole} from './answer.js';
import {make} from './dom.js';
import {drawFiles, drawQuestion, editor} from './question.js';
import {icon} from './icons.js';
import {Sequences} from './sequences.js';
import {t} from './strings.js';
import {nearlyFull, room, summarise} from './summary.js';
import {append, choose, messagesFor, newConversation, path, seen, siblings, trim} from './thread.js';
import {Writing} from './writing.js';

const ENDS = {length: 'maximum length reached', full: 'the memory for this conversation is full',
  stopped: 'stopped'};
const NO_ROOM = ['FULL', 'LONG'];       /* codes of errors: the prompt is longer than the context */

const act = (name, label, sign) => {
  const made = make('button', {type: 'button', className: `quiet act ${name}`, title: label}, icon(sign));
  made.setAttribute('aria-label', label);
  return made;
};

export class Chat {
  #talk; #model; #sequences; #settings; #hooks; #conversation = newConversation(); #shown = new Map();
  #writing = new Map();         // by conversations' ids: an answer under way, or not seen since its end
  #rests = new Map();           // by conversations' ids: what ends a summary that no question waits for

  /** hooks: busy(boolean): whether the shown conversation is answered, state(): that of some
   * conversation has changed, announce(text), failed(error, place), changed(conversation, isEnd):
   * isEnd is false while an answer grows; promises that it is kept, figures(text),
   * progress(message): of the prompt, options(used): more options of chat(), which tell used() of
   * a tool's call, aloud(text, ended): reads an answer, if the browser can */
  constructor(talk, settings, hooks) {
    this.#talk = talk;
    this.#settings = settings;
    this.#hooks = hooks;
    talk.addEventListener('click', event => void this.#clicked(event.target.closest('button')));
  }
  get busy() { return this.#current?.busy ?? false; }
  get empty() { return !this.#conversation.nodes.length; }
  get conversation() { return this.#conversation; }
  get #current() { return this.#writing.get(this.#conversation.id); }
  #isShown(conversation) { return conversation === this.#conversation; }
  /** 'answering'; 'answered' or 'failed' until the conversation is shown; otherwise ''. */
  stateOf({id}) {
    const {state, conversation} = this.#writing.get(id) ?? {};
    return state === 'answering' || state && !this.#isShown(conversation) ? state : '';
  }
  /** The object that is shown or answered, if there is one for this stored conversation. */
  living(stored) {
    const {id} = stored;
    return id === this.#conversation.id ? this.#conversation : this.#writing.get(id)?.conversation ?? stored;
  }
  use(model) {
    for (const id of this.#rests.keys()) this.#hush(id);
    for (const writing of this.#writing.values()) writing.leave();
    this.#model = model;
    this.#sequences = model && new Sequences(model, id => Boolean(this.#writing.get(id)?.busy));
    this.#hooks.busy(false);
    this.#draw();
  }
  /** Ends the answer of the shown conversation. */
  stop() {
    this.#hush(this.#conversation.id);
    this.#current?.stop();
  }
  /* Ends a summary. */
  #hush(id) {
    this.#rests.get(id)?.abort();
    this.#rests.delete(id);
  }
  /** A deleted conversation. */
  forget({id}) {
    this.#hush(id);
    this.#writing.get(id)?.leave();
    this.#writing.delete(id);
    this.#sequences?.end(id);
  }
  /** Shows another conversation; none: a new one. */
  open(conversation = newConversation()) {
    this.#conversation = this.living(conversation);
    this.#hooks.busy(this.busy);
    this.#draw();
    const writing = this.#current;
    writing?.appear();
    if (writing) this.#release(writing);
  }
  /* One that has been seen, and kept, is needed no more. */
  #release(writing) {
    const {id} = writing.conversation;
    if (writing.isKept && this.#writing.get(id) === writing
      && (this.#isShown(writing.conversation) || writing.isLeft)) this.#writing.delete(id);
  }

  /** The last question is answered anew; the answer of before stays as another version. */
  async again(question = path(this.#conversation).findLast(({role}) => role !== 'assistant')) {
    if (this.busy || !question || !this.#model) return;
    this.#conversation.leaf = question.id;
    this.#draw();
    await this.#answer(question);
  }
  /** A question and its answer, or (raw) a beginning and its continuation. files: {name, text}. */
  ask(text, {raw, files} = {}) {
    const conversation = this.#conversation, last = path(conversation).at(-1);
    if (last?.end === 'full' && !this.#summarises) trim(conversation, last);
    const question = append(conversation, conversation.leaf, raw ? 'text' : 'user', text,
      files?.length ? {files} : {});
    this.#hooks.changed(conversation);
    this.#drawTurn(question);
    return this.#answer(question);
  }

  /* ---- drawing ---- */

  #draw() {
    this.#talk.replaceChildren();
    this.#talk.parentNode.querySelector('.summing')?.remove();
    this.#shown.clear();
    const all = path(this.#conversation), writing = this.#current;
    all.forEach((node, i) => {
      if (node.role === 'assistant') return;
      if (node === writing?.question) {
        this.#talk.append(writing.article);
        this.#shown.set(writing.article, node);
        return;
      }
      const answer = all[i + 1]?.role === 'assistant' ? all[i + 1] : undefined, turn = this.#drawTurn(node);
      if (!answer)
        return turn.node.append(make('footer', {}, this.#model ? act('again', t('Retry'), 'again') : ''));
      const {body, foot} = this.#drawReply(turn, node);
      drawWhole(body, answer, node.role === 'text');
      return this.#finish(foot, answer);
    });
    this.#markSkipped();
  }
  #drawTurn(node) {
    const raw = node.role === 'text', article = make('article', {className: raw ? 'turn raw' : 'turn'}),
      foot = make('footer', {className: 'mine'}, act('copy-all', t('Copy'), 'copy'),
        act('edit', t('Edit'), 'edit'), ...this.#versions(node));
    article.append(make('h2', {className: 'hidden', textContent: raw ? t('Text') : t('You')}),
      drawFiles(node.files), drawQuestion(node), foot);
    this.#talk.append(article);
    const turn = {node: article};
    this.#shown.set(article, node);
    return turn;
  }
  #drawReply(turn, question) {
    const raw = question.role === 'text',
      body = make('div', {className: raw ? 'assistant continued' : 'assistant', dir: 'auto'}),
      foot = make('footer', {}, make('span', {className: 'ended'}));
    turn.node.append(make('h2', {className: 'hidden', textContent: t('Answer')}), body, foot);
    return {body, foot};
  }
  /* "2 of 3" with buttons, if a message has other versions. */
  #versions(node) {
    const all = siblings(this.#conversation, node), at = all.indexOf(node);
    if (all.length < 2) return [];
    const step = (name, label, sign, to) => Object.assign(act(name, label, sign), {disabled: !all[to]});
    return [make('span', {className: 'versions'}, step('before', t('Previous version'), 'left', at - 1),
      make('span', {textContent: t('{n} of {all}', {n: at + 1, all: all.length})}),
      step('after', t('Next version'), 'right', at + 1))];
  }
  #finish(foot, answer, failed) {
    foot.firstChild.textContent = ENDS[answer?.end] ? t(ENDS[answer.end]) : '';
    foot.append(...(answer?.content ? [act('copy-all', t('Copy'), 'copy')] : []),
      ...(answer?.content && this.#hooks.aloud ? [act('aloud', t('Read aloud'), 'sound')] : []),
      act('again', failed ? t('Retry') : t('Regenerate'), 'again'),
      ...(answer ? this.#versions(answer) : []));
  }
  /* Where the part begins that the model is still given. */
  #markSkipped() {
    this.#talk.querySelector('.skipped')?.remove();
    const all = path(this.#conversation), {from, note, upTo} = seen(this.#conversation, all);
    const at = from && [...this.#shown].find(([, node]) => node === all[from])?.[0];
    if (!at) return;
    if (!note) return at.before(make('p', {className: 'skipped',
      textContent: t('The model no longer sees what is above: its memory is full.')}));
    const title = upTo < from ? t('Of what is above, the model sees only a summary of the beginning.')
      : t('The model sees a summary of what is above.');
    at.before(make('details', {className: 'skipped'}, make('summary', {textContent: title}),
      make('div', {className: 'thoughts', textContent: note.text})));
  }

  /* ---- an answer ---- */

  async #answer(question) {
    const {temperature, topK, topP, minP, seed, maxTokens} = this.#settings, model = this.#model,
      conversation = this.#conversation, {id} = conversation, raw = question.role === 'text',
      talk = this.#sequences.of(id);
    this.#hush(id);
    const article = [...this.#shown].find(([, node]) => node === question)[0];
    for (const old of article.querySelectorAll('.bad, footer:not(.mine)')) old.remove();
    const {body, foot} = this.#drawReply({node: article}, question);
    const writing = new Writing({conversation, question, article, body,
      answer: append(conversation, question.id, 'assistant', ''),
      grown: () => void this.#hooks.changed(conversation, false)});
    this.#writing.set(id, writing);
    foot.scrollIntoView({block: 'nearest'});
    this.#hooks.busy(true);
    this.#hooks.state();
    this.#hooks.announce(t('The model is answering.'));

    const {answer, pace} = writing, ifShown = act => message => {
      if (this.#isShown(conversation)) act(message);
    };
    const options = {temperature, topK, topP, minP, seed, maxTokens, signal: writing.signal,
      onToken: () => pace.token(), onProgress: ifShown(message => this.#hooks.progress(message))};
    const parts = () => (raw ? talk.generate(question.content, options)
      : this.#asked(talk, writing, {...options, ...this.#hooks.options(call => writing.used(call)),
        onReasoning: text => writing.reason(text)}));
    const {failure, usage} = await writing.read(parts, ifShown(() => this.#hooks.figures(pace.text)));
    this.#ended(writing, foot, failure);
    await this.#hooks.changed(conversation, true);
    if (usage && !writing.isLeft && this.#summarises && nearlyFull(model, usage, answer.calls))
      await this.#sumUp(talk, conversation, question).catch(() => { /* something was asked meanwhile */ });
    writing.isKept = true;
    this.#release(writing);
  }
  #ended(writing, foot, failure) {
    const {conversation, question, answer, pace} = writing, hooks = this.#hooks;
    if (failure && !answer.content && !answer.calls) {  // nothing came: the question waits for an answer
      conversation.nodes.splice(conversation.nodes.indexOf(answer), 1);
      conversation.leaf = question.id;
    }
    this.#finish(foot, answer.content || !failure ? answer : undefined, failure);
    const shown = this.#isShown(conversation), {title} = conversation;
    if (this.#writing.get(conversation.id) === writing && shown) {
      hooks.busy(false);
      hooks.figures(pace.text);
    }
    if (failure) hooks.failed(failure, foot);
    if (failure && !shown) hooks.announce(t('“{title}” could not be answered.', {title}));
    else if (!failure && !writing.isLeft)
      hooks.announce(!shown ? t('“{title}” has been answered.', {title}) : answer.content.length < 700
        ? t('Answer: {text}', {text: writing.body.textContent})
        : t('The answer is complete, {n} tokens.', {n: pace.tokens}));
    if (shown) writing.scroll();
  }

  /* Asks the model; if the conversation is longer than its context, without the older half. */
  async * #asked(talk, {conversation, question, pace}, options) {
    const {system, maxTokens} = this.#settings, model = this.#model;
    const given = () => messagesFor(conversation, question, system);
    const shorter = async () => await this.#sumUp(talk, conversation, question, options.signal)
      || trim(conversation, question) && (this.#isShown(conversation) && this.#markSkipped(), true);
    for (let left; (left = await room(model, given(), options.tools).catch(() => undefined)) !== undefined
      && left < Math.min(maxTokens, model.info.contextLength / 4) && await shorter(););
    for (;;) {
      try {
        const parts = talk.chat(given(), options), ended = yield * parts;
        return {end: ended?.end ?? ended, usage: ended?.usage ?? parts.usage};
      } catch (error) {
        if (!NO_ROOM.includes(error.code) || pace.tokens || !await shorter()) throw error;
      }
    }
  }
  #rest({id}) {
    const rest = new AbortController();
    this.#rests.set(id, rest);
    return rest.signal;
  }
  get #summarises() { return this.#settings.whenFull === 'summarise'; }
  /* Sums up the older half, if the person wants that: before a question that has no room otherwise,
   * or (without a signal) after an answer, until something is asked. Whether it is done. */
  async #sumUp(talk, conversation, question, signal = this.#rest(conversation)) {
    if (!this.#summarises) return false;
    const {system} = this.#settings, about = make('p', {className: 'small summing',
      textContent: t('Older messages are summed up …')});
    if (this.#isShown(conversation)) this.#talk.after(about);
    try {
      if (!await summarise(talk, conversation, question, {system, signal})) return false;
      this.#hooks.changed(conversation);
      if (this.#isShown(conversation)) this.#markSkipped();
      return true;
    } catch {                   // left out instead, when a question has no room
      signal.throwIfAborted();
      return false;
    } finally {
      about.remove();
    }
  }

  /* ---- what is done with messages ---- */

  async #clicked(button) {
    if (!button) return;
    const article = button.closest('.turn'), question = this.#shown.get(article), {classList} = button;
    const mine = button.closest('.mine'), all = path(this.#conversation);
    const answer = all[all.indexOf(question) + 1], node = mine ? question : answer;
    if (classList.contains('again')) await this.again(question);
    else if (classList.contains('aloud')) {
      button.setAttribute('aria-pressed', 'true');
      this.#hooks.aloud(node.content, () => button.removeAttribute('aria-pressed'));
    }
    else if (classList.contains('edit')) this.#edit(article, question);
    else if (classList.contains('before') || classList.contains('after')) this.#turnTo(node, classList);
    else if (classList.contains('copy-all')) await this.#copy(button, node?.content);
    else if (classList.contains('copy'))
      await this.#copy(button, button.closest('figure').querySelector('code').textContent);
  }
  #turnTo(node, classList) {
    if (this.busy) return;
    const all = siblings(this.#conversation, node),
      other = all[all.indexOf(node) + (classList.contains('after') ? 1 : -1)];
    choose(this.#conversation, other);
    this.#hooks.changed(this.#conversation);
    this.#draw();
    const [article] = [...this.#shown].find(([, one]) => one === other || one.id === other.parent);
    const [before, after] = article.querySelectorAll(
      other.role === 'assistant' ? 'footer:not(.mine) .versions button' : '.mine .versions button');
    (classList.contains('after') && !after.disabled ? after : before.disabled ? after : before).focus();
  }
  #edit(article, question) {
    if (this.busy) return;
    editor(article, question, text => {
      const {role, files, parent} = question, conversation = this.#conversation;
      this.#hush(conversation.id);
      const edited = append(conversation, parent, role, text, files ? {files} : {});
      conversation.skip = Math.min(conversation.skip, path(conversation).length - 1);
      this.#hooks.changed(conversation);
      this.#draw();
      void this.#answer(edited);
    });
  }
  async #copy(button, text) {
    if (!text) return;
    let done = t('Copied');
    try { await navigator.clipboard.writeText(text); } catch { done = t('Not allowed'); }
    this.#hooks.announce(done);
    const before = [...button.childNodes];
    button.replaceChildren(done);
    setTimeout(() => button.replaceChildren(...before), 1500);
  }
}
