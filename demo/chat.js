/* The conversation: questions, answers that arrive piece by piece, and what can be done with them.
 * SPDX-License-Identifier: MIT */
import {make} from './dom.js';
import {seconds} from './figures.js';
import {Markdown} from './markdown.js';

const ENDS = {length: 'maximum length reached',
  full: 'the context is full: clear the conversation, or choose a longer context',
  stopped: 'stopped'};

/* A server's own count: a piece of text may have had several tokens. */
function counted(usage) {
  if (!usage) return {};
  const {completion_tokens: tokens, prompt_tokens: asked, prompt_tokens_details: details} = usage,
    kept = details?.cached_tokens;
  return {tokens, prompt: `prompt ${asked}${kept ? `, ${kept} cached` : ''}`};
}

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

/* What the model thinks before it answers: folded, made where there is some. */
class Reasoning {
  #node; #title; #drawing; #began = performance.now(); #ended; #body; #drawn;

  constructor(body, drawn) {
    this.#body = body;
    this.#drawn = drawn;
  }
  add(text) {
    if (!this.#node) {
      this.#title = make('summary', {textContent: 'Reasoning …'});
      const inner = make('div', {className: 'thoughts'});
      this.#node = make('details', {className: 'reasoning'}, this.#title, inner);
      this.#drawing = new Drawing(inner, true, this.#drawn);
      this.#body.before(this.#node);
    }
    this.#drawing.add(text);
  }
  /* The answer has begun, or has ended without. */
  end() {
    if (!this.#node || this.#ended) return;
    this.#ended = true;
    this.#drawing.flush();
    this.#title.textContent = `Reasoned for ${seconds((performance.now() - this.#began) / 1e3)}`;
  }
  remove() { this.#node?.remove(); }
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

  /** Asks the last question anew. */
  async again() {
    if (!this.busy && this.#turns.length) await this.#answer(this.#turns.at(-1));
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
    for (const old of turn.node.querySelectorAll('.bad')) old.remove();
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
    const drawn = () => { if (follow) scroller.scrollTop = scroller.scrollHeight; };
    const drawing = new Drawing(body, turn.raw, drawn), reasoning = new Reasoning(body, drawn);
    turn.reply.push(reasoning);
    const begin = performance.now(), figures = foot.firstChild;
    let first, last, tokens = 0, prompt, reason, failure;
    const shown = () => {
      if (!first) return [];
      const rate = (tokens - 1) / Math.max(1, last - first) * 1e3;
      return [tokens > 1 ? `${rate.toFixed(1)} tokens/s` : '',
        `first token after ${((first - begin) / 1e3).toFixed(2)} s`,
        `${tokens} ${tokens === 1 ? 'token' : 'tokens'}`, prompt].filter(Boolean);
    };
    try {
      const options = {temperature, topK, topP, minP, seed, maxTokens, signal: stop.signal,
        onToken: () => { tokens++; last = performance.now(); first ??= last; }};
      const parts = turn.raw ? model.generate(turn.text, options) : model.chat(this.#messages(turn),
        {...options, onReasoning: text => reasoning.add(text)});
      for (let step; ;) {
        step = await parts.next();
        if (step.done) {
          reason = step.value.end ?? step.value;
          ({tokens = tokens, prompt} = counted(step.value.usage));
          break;
        }
        reasoning.end();
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
      reasoning.end();
      turn.answer = drawing.text;
      figures.textContent = [...shown(), ENDS[reason]].filter(Boolean).join(' · ');
      const act = (name, textContent) =>
        make('button', {type: 'button', className: `quiet ${name}`, textContent});
      foot.append(make('span', {}, ...(turn.answer ? [act('copy-all', 'Copy')] : []),
        act('again', failure ? 'Retry' : 'Regenerate')));
      if (failure) this.#hooks.failed(failure, foot);
      else
        this.#hooks.announce(turn.answer.length < 700 ? `Answer: ${body.textContent}`
          : `The answer is complete, ${tokens} tokens.`);
      if (follow) scroller.scrollTop = scroller.scrollHeight;
    }
    if (!this.#stop) this.#hooks.busy(false);
  }

  async #clicked(button) {
    if (!button) return;
    const turn = this.#turns.find(one => one.node.contains(button));
    if (button.classList.contains('again')) {
      await this.again();
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
