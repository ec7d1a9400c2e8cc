/* The conversation that is shown: questions, answers that arrive piece by piece, and what can be
 * done with them. Its data is a tree of messages (thread.js).
 * SPDX-License-Identifier: MIT */
import {Drawing, Pace, Reasoning, drawCall, drawWhole} from './answer.js';
import {make} from './dom.js';
import {drawFiles, drawQuestion, editor} from './question.js';
import {icon} from './icons.js';
import {Sequences} from './sequences.js';
import {t} from './strings.js';
import {nearlyFull, room, summarise} from './summary.js';
import {append, choose, messagesFor, newConversation, path, seen, siblings, trim} from './thread.js';

const ENDS = {length: 'maximum length reached', full: 'the memory for this conversation is full',
  stopped: 'stopped'};
const KEEP_MS = 1000;
const NO_ROOM = ['FULL', 'LONG'];       /* codes of errors: the prompt is longer than the context */

const act = (name, label, sign) => {
  const made = make('button', {type: 'button', className: `quiet act ${name}`, title: label}, icon(sign));
  made.setAttribute('aria-label', label);
  return made;
};

export class Chat {
  #talk; #model; #sequences; #settings; #hooks; #stop; #conversation = newConversation(); #shown = new Map();
  #rest = new AbortController();        // ends what is done while nothing is asked

  /** hooks: busy(boolean), announce(text), failed(error, place), changed(conversation, isEnd):
   * isEnd is false while an answer grows, figures(text), options(used): more options of chat(),
   * which tell used() of a tool's call, aloud(text, ended): reads an answer, if the browser can */
  constructor(talk, settings, hooks) {
    this.#talk = talk;
    this.#settings = settings;
    this.#hooks = hooks;
    talk.addEventListener('click', event => void this.#clicked(event.target.closest('button')));
  }
  get busy() { return Boolean(this.#stop); }
  get empty() { return !this.#conversation.nodes.length; }
  get conversation() { return this.#conversation; }
  use(model) {
    this.stop();
    this.#stop = undefined;
    this.#model = model;
    this.#sequences = model && new Sequences(model);
    this.#draw();
  }
  stop() {
    this.#rest.abort();
    this.#stop?.abort();
  }
  /** A deleted conversation. */
  forget({id}) { this.#sequences?.end(id); }
  /** Shows another conversation; none: a new one. */
  open(conversation = newConversation()) {
    this.stop();
    this.#stop = undefined;
    this.#conversation = conversation;
    this.#hooks.busy(false);
    this.#draw();
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
    this.#shown.clear();
    const all = path(this.#conversation);
    all.forEach((node, i) => {
      if (node.role === 'assistant') return;
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
    return [make('span', {className: 'versions'}, step('before', t('Version before'), 'left', at - 1),
      make('span', {textContent: t('{n} of {all}', {n: at + 1, all: all.length})}),
      step('after', t('Version after'), 'right', at + 1))];
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
      conversation = this.#conversation, stop = this.#stop = new AbortController(),
      raw = question.role === 'text', talk = this.#sequences.of(conversation.id);
    this.#rest.abort();
    const article = [...this.#shown].find(([, node]) => node === question)[0];
    for (const old of article.querySelectorAll('.bad, footer:not(.mine)')) old.remove();
    const {body, foot} = this.#drawReply({node: article}, question);
    const answer = append(conversation, question.id, 'assistant', '');
    body.classList.add('waiting');
    foot.scrollIntoView({block: 'nearest'});
    this.#hooks.busy(true);
    this.#hooks.announce(t('The model is answering.'));

    const scroller = document.scrollingElement;
    let follow = true;
    const near = () => { follow = scroller.scrollHeight - scroller.scrollTop - innerHeight < 80; };
    addEventListener('scroll', near, {passive: true});
    const drawn = () => { if (follow) scroller.scrollTop = scroller.scrollHeight; };
    const drawing = new Drawing(body, raw, drawn), reasoning = new Reasoning(body, drawn), pace = new Pace();
    let failure, usage;
    const keep = isEnd => {
      answer.content = drawing.text;
      if (reasoning.text) answer.reasoning = reasoning.text;
      this.#hooks.changed(conversation, isEnd);
    };
    // a page that is left or killed has no time to keep anything
    const keeping = setInterval(() => {
      answer.end = 'stopped';
      if (drawing.text !== answer.content) keep(false);
    }, KEEP_MS);
    const used = call => {
      (answer.calls ??= []).push(call);
      drawCall(body, call);
      drawn();
    };
    const options = {temperature, topK, topP, minP, seed, maxTokens, signal: stop.signal,
      onToken: () => pace.token()};
    try {
      const parts = raw ? talk.generate(question.content, options)
        : this.#asked(talk, question, {...options, ...this.#hooks.options(used),
          onReasoning: text => reasoning.add(text)}, pace);
      const iterator = parts[Symbol.asyncIterator]();
      for (let step; ;) {
        step = await iterator.next();
        if (step.done) {
          answer.end = step.value?.end ?? step.value;
          usage = step.value?.usage ?? parts.usage;
          if (usage?.completionTokens) pace.counted(usage);
          break;
        }
        reasoning.end();
        body.classList.remove('waiting');
        drawing.add(step.value);
        this.#hooks.figures(pace.text);
      }
    } catch (error) {
      if (stop.signal.aborted) answer.end = 'stopped';
      else failure = error;
    }
    removeEventListener('scroll', near);
    clearInterval(keeping);
    if (failure) delete answer.end;
    drawing.flush();
    reasoning.end();
    if (failure && !drawing.text && !answer.calls) {    // nothing came: the question waits for an answer
      conversation.nodes.splice(conversation.nodes.indexOf(answer), 1);
      conversation.leaf = question.id;
    }
    keep(true);
    this.#hooks.figures(pace.text);
    // another conversation or another model, meanwhile
    const replaced = this.#stop !== stop || !article.isConnected;
    if (this.#stop === stop) this.#stop = undefined;
    body.classList.remove('waiting');
    if (!replaced) {
      this.#finish(foot, drawing.text || !failure ? answer : undefined, failure);
      if (failure) this.#hooks.failed(failure, foot);
      else
        this.#hooks.announce(drawing.text.length < 700 ? t('Answer: {text}', {text: body.textContent})
          : t('The answer is complete, {n} tokens.', {n: pace.tokens}));
      if (follow) scroller.scrollTop = scroller.scrollHeight;
    }
    if (this.#stop) return;
    this.#hooks.busy(false);
    if (usage && !replaced && this.#summarises && nearlyFull(model, usage, answer.calls))
      this.#sumUp(talk, conversation, question).catch(() => { /* something was asked meanwhile */ });
  }

  /* Asks the model; if the conversation is longer than its context, without the older half. */
  async * #asked(talk, question, options, pace) {
    const {system, maxTokens} = this.#settings, conversation = this.#conversation, model = this.#model;
    const given = () => messagesFor(conversation, question, system);
    const shorter = async () => await this.#sumUp(talk, conversation, question, options.signal)
      || trim(conversation, question) && (this.#markSkipped(), true);
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
  get #summarises() { return this.#settings.whenFull === 'summarise'; }
  /* Sums up the older half, if the person wants that: before a question that has no room otherwise,
   * or (without a signal) after an answer, until something is asked. Whether it is done. */
  async #sumUp(talk, conversation, question, signal = (this.#rest = new AbortController()).signal) {
    if (!this.#summarises) return false;
    const {system} = this.#settings, about = make('p', {className: 'small summing',
      textContent: t('Older messages are summed up …')});
    this.#talk.after(about);
    try {
      if (!await summarise(talk, conversation, question, {system, signal})) return false;
      this.#hooks.changed(conversation);
      if (conversation === this.#conversation) this.#markSkipped();
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
      this.#rest.abort();
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
