/* A growing answer: text drawn as it arrives, the model's reasoning folded, how fast it came.
 * SPDX-License-Identifier: MIT */
import {make} from './dom.js';
import {seconds} from './figures.js';
import {Markdown} from './markdown.js';
import {t} from './strings.js';

/** Draws a growing text: at most once a frame, and less often if drawing takes long. */
export class Drawing {
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

const fold = (title, inner) => make('details', {className: 'reasoning'}, title, inner);

/** The model's reasoning before its answer: folded, created when it begins. */
export class Reasoning {
  #node; #title; #drawing; #began = performance.now(); #ended; #body; #drawn;

  constructor(body, drawn) {
    this.#body = body;
    this.#drawn = drawn;
  }
  get text() { return this.#drawing?.text; }
  add(text) {
    if (!this.#node) {
      this.#title = make('summary', {textContent: t('Reasoning …')});
      const inner = make('div', {className: 'thoughts'});
      this.#node = fold(this.#title, inner);
      this.#drawing = new Drawing(inner, true, this.#drawn);
      this.#body.before(this.#node);
    }
    this.#drawing.add(text);
  }
  /* The answer has begun, or the turn has ended without one. */
  end() {
    if (!this.#node || this.#ended) return;
    this.#ended = true;
    this.#drawing.flush();
    this.#title.textContent = t('Reasoned for {time}',
      {time: seconds((performance.now() - this.#began) / 1e3)});
  }
}

const TITLES = {calculate: 'Calculator', current_time: 'Clock', run_javascript: 'JavaScript'};
/* A call's arguments without their names. */
function shortly(given) {
  try {
    return Object.values(JSON.parse(given)).join(', ');
  } catch {
    return given;
  }
}

/** A tool that the model has used: folded, with what it was given and what came out. */
export function drawCall(body, {name, given, result}) {
  const line = text => text.split('\n')[0].slice(0, 60), what = shortly(given);
  const title = `${t(TITLES[name] ?? name)}: ${line(what)} → ${line(result)}`;
  body.before(make('details', {className: 'call'}, make('summary', {textContent: title}),
    make('pre', {textContent: what, tabIndex: 0}), make('pre', {textContent: result, tabIndex: 0})));
}

/** An answer of before. */
export function drawWhole(body, node, plain) {
  for (const call of node.calls ?? []) drawCall(body, call);
  if (node.reasoning)
    body.before(fold(make('summary', {textContent: t('Reasoning')}),
      make('div', {className: 'thoughts', textContent: node.reasoning})));
  if (plain) body.textContent = node.content;
  else new Markdown(body).update(node.content);
}

/** Counts tokens, and says how fast they came. */
export class Pace {
  #begin = performance.now(); #first; #last; #tokens = 0; #prompt;

  token() {
    this.#tokens++;
    this.#last = performance.now();
    this.#first ??= this.#last;
  }
  /** The engine's own count: a server's piece of text may have had several tokens. */
  counted({completionTokens, promptTokens: asked, cachedTokens: kept}) {
    this.#tokens = completionTokens;
    this.#prompt = kept ? t('prompt {asked}, {kept} cached', {asked, kept}) : t('prompt {asked}', {asked});
  }
  get tokens() { return this.#tokens; }
  get text() {
    if (!this.#first) return '';
    const rate = (this.#tokens - 1) / Math.max(1, this.#last - this.#first) * 1e3;
    return [this.#tokens > 1 ? t('{n} tokens/s', {n: rate.toFixed(1)}) : '',
      t('first token after {n} s', {n: ((this.#first - this.#begin) / 1e3).toFixed(2)}),
      this.#tokens === 1 ? t('1 token') : t('{n} tokens', {n: this.#tokens}), this.#prompt]
      .filter(Boolean).join(' · ');
  }
}
