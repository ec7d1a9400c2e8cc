/* The conversation: questions, answers that arrive piece by piece, and what can be done with them.
 * SPDX-License-Identifier: MIT */
import {make} from './figures.js';
import {Markdown} from './markdown.js';

const ENDS = {length: 'as long as the settings allow',
  full: 'the context is full: clear the conversation, or load the model with a longer one',
  stopped: 'stopped'};

/* Draws an answer that grows: at most once a frame, and less often where drawing takes long. */
class Drawing {
  #markdown; #body; #text = ''; #frame = 0; #next = 0; #drawn;

  constructor(body, plain, drawn) {
    this.#body = body;
    this.#markdown = plain ? undefined : new Markdown(body);
    this.#drawn = drawn;
  }
  get text() { return this.#text; }
  add(text) {
    this.#text += text;
    this.#frame ||= requestAnimationFrame(() => this.#tick());
  }
  #tick() {
    this.#frame = 0;
    if (performance.now() < this.#next) this.#frame = requestAnimationFrame(() => this.#tick());
    else this.flush();
  }
  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const begin = performance.now();
    if (this.#markdown) this.#markdown.update(this.#text);
    else this.#body.append(this.#text.slice(this.#body.textContent.length));
    this.#next = performance.now() + 4 * (performance.now() - begin);
    this.#drawn();
  }
}

export class Chat {
  #talk; #model; #settings; #hooks; #turns = []; #stop;

  /** hooks: busy(boolean), announce(text), failed(error, place) */
  constructor(talk, settings, hooks) {
    this.#talk = talk;
    this.#settings = settings;
    this.#hooks = hooks;
    talk.addEventListener('click', event => this.#clicked(event.target.closest('button')));
  }
  get busy() { return Boolean(this.#stop); }
  get empty() { return !this.#turns.length; }
  use(model) {
    this.#model = model;
    this.clear();
  }
  stop() { this.#stop?.abort(); }
  clear() {
    this.stop();
    this.#turns = [];
    this.#talk.replaceChildren();
  }

  /** A question and its answer, or a text and how it goes on (raw). */
  ask(text, raw) {
    const turn = {text, raw, node: make('article', {className: raw ? 'turn raw' : 'turn'})};
    turn.node.append(make('h2', {className: 'hidden', textContent: raw ? 'Text' : 'You'}),
      make('div', {className: raw ? 'given' : 'user', textContent: text}));
    this.#turns.push(turn);
    this.#talk.append(turn.node);
    return this.#answer(turn);
  }

  #messages(last) {
    const said = this.#turns.filter(turn => !turn.raw && (turn === last || turn.answer))
      .flatMap(turn => [{role: 'user', content: turn.text},
        ...(turn === last ? [] : [{role: 'assistant', content: turn.answer}])]);
    return this.#settings.system.trim() ? [{role: 'system', content: this.#settings.system.trim()}, ...said]
      : said;
  }

  async #answer(turn) {
    const {temperature, topK, topP, minP, seed, maxTokens} = this.#settings, model = this.#model,
      stop = this.#stop = new AbortController();
    const body = make('div', {className: turn.raw ? 'assistant continued' : 'assistant'}),
      foot = make('footer', {}, make('span', {className: 'figures'}));
    turn.answer = '';
    turn.reply?.forEach(node => node.remove());
    // only the last answer can be asked for again
    for (const button of this.#talk.querySelectorAll('.again')) button.remove();
    turn.reply = [make('h2', {className: 'hidden', textContent: 'Answer'}), body, foot];
    turn.node.append(...turn.reply);
    body.classList.add('waiting');
    foot.scrollIntoView({block: 'nearest'});
    this.#hooks.busy(true);
    this.#hooks.announce('The model is answering.');

    const scroller = document.scrollingElement;
    let follow = true;
    const near = () => { follow = scroller.scrollHeight - scroller.scrollTop - innerHeight < 80; };
    addEventListener('scroll', near, {passive: true});
    const drawing = new Drawing(body, turn.raw, () => {
      if (follow) scroller.scrollTop = scroller.scrollHeight;
    });
    const begin = performance.now(), figures = foot.firstChild;
    let first, tokens = 0, reason, failure;
    const shown = () => {
      if (!first) return [];
      const rate = (tokens - 1) / Math.max(1, performance.now() - first) * 1e3;
      return [tokens > 1 ? `${rate.toFixed(1)} tokens/s` : '',
        `first token after ${((first - begin) / 1e3).toFixed(2)} s`,
        `${tokens} ${tokens === 1 ? 'token' : 'tokens'}`].filter(Boolean);
    };
    try {
      const options = {temperature, topK, topP, minP, seed, maxTokens, signal: stop.signal,
        onToken: () => { tokens++; first ??= performance.now(); }};
      const parts = turn.raw ? model.generate(turn.text, options) : model.chat(this.#messages(turn), options);
      for (let step; ;) {
        step = await parts.next();
        if (step.done) { reason = step.value; break; }
        body.classList.remove('waiting');
        drawing.add(step.value);
        figures.textContent = shown().join(' · ');
      }
    } catch (error) {
      if (stop.signal.aborted) reason = 'stopped';
      else failure = error;
    }
    removeEventListener('scroll', near);
    // cleared, or another model, meanwhile
    const replaced = this.#stop !== stop || !turn.node.isConnected;
    if (this.#stop === stop) this.#stop = undefined;
    body.classList.remove('waiting');
    if (!replaced) {
      drawing.flush();
      turn.answer = drawing.text;
      figures.textContent = [...shown(), ENDS[reason]].filter(Boolean).join(' · ');
      if (turn.answer)
        foot.append(make('button', {type: 'button', className: 'quiet copy-all', textContent: 'Copy'}));
      foot.append(make('button', {type: 'button', className: 'quiet again',
        textContent: failure ? 'Retry' : 'Regenerate'}));
      if (failure) this.#hooks.failed(failure, foot);
      else
        this.#hooks.announce(turn.answer.length < 700 ? `Answer: ${body.textContent}`
          : `The answer is there, ${tokens} tokens.`);
      if (follow) scroller.scrollTop = scroller.scrollHeight;
    }
    if (!this.#stop) this.#hooks.busy(false);
  }

  async #clicked(button) {
    if (!button) return;
    const turn = this.#turns.find(one => one.node.contains(button));
    if (button.classList.contains('again')) {
      if (!this.busy) await this.#answer(turn);
      return;
    }
    const text = button.classList.contains('copy-all') ? turn?.answer : button.classList.contains('copy')
      ? button.closest('figure').querySelector('code').textContent : undefined;
    if (text === undefined) return;
    let done = 'Copied';
    try { await navigator.clipboard.writeText(text); } catch { done = 'Not allowed'; }
    button.textContent = done;
    this.#hooks.announce(done);
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  }
}
