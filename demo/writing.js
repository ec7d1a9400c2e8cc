/* An answer while the model writes it. It grows in its part of the page, whether that is shown or
 * not: another conversation may be open meanwhile.
 * SPDX-License-Identifier: MIT */
import {Drawing, Pace, Reasoning, drawCall} from './answer.js';

const KEEP_MS = 1000;

export class Writing {
  conversation; question; answer; article; body;
  pace = new Pace();
  state = 'answering';          // then 'answered' or 'failed'
  isLeft = false;               // its model is used no more, or its conversation was deleted
  isKept = false;               // nothing more changes the conversation
  #stop = new AbortController(); #drawing; #reasoning; #grown; #follow = true;

  /** question, answer: messages of the conversation. article: the turn; body: its answer's place.
   * grown() is called now and then while the answer grows. */
  constructor({conversation, question, answer, article, body, grown}) {
    Object.assign(this, {conversation, question, answer, article, body});
    this.#grown = grown;
    const drawn = () => this.scroll();
    this.#drawing = new Drawing(body, question.role === 'text', drawn);
    this.#reasoning = new Reasoning(body, drawn);
    body.classList.add('waiting');
  }
  get signal() { return this.#stop.signal; }
  get busy() { return this.state === 'answering' && !this.isLeft; }
  stop() { this.#stop.abort(); }
  /** Ends it for good. */
  leave() {
    this.isLeft = true;
    this.stop();
  }

  /** The page follows the text while its end is in sight. */
  scroll() {
    const scroller = document.scrollingElement;
    if (this.#follow && this.article.isConnected) scroller.scrollTop = scroller.scrollHeight;
  }
  /** It is shown again. */
  appear() {
    this.#follow = true;
    this.scroll();
  }
  /** The model has used a tool. */
  used(call) {
    (this.answer.calls ??= []).push(call);
    drawCall(this.body, call);
    this.scroll();
  }
  reason(text) { this.#reasoning.add(text); }

  #take() {
    this.answer.content = this.#drawing.text;
    if (this.#reasoning.text) this.answer.reasoning = this.#reasoning.text;
  }
  /** Takes the text that parts() yields, to its end; drawn() is called after each part. Promises
   * {usage} or {failure}. */
  async read(parts, drawn) {
    const near = () => {
      const {scrollHeight, scrollTop} = document.scrollingElement;
      if (this.article.isConnected) this.#follow = scrollHeight - scrollTop - innerHeight < 80;
    };
    addEventListener('scroll', near, {passive: true});
    // a page that is left or killed has no time to keep anything
    const keeping = setInterval(() => {
      this.answer.end = 'stopped';
      if (this.#drawing.text === this.answer.content) return;
      this.#take();
      this.#grown();
    }, KEEP_MS);
    const result = {};
    try {
      result.usage = await this.#read(parts(), drawn);
    } catch (error) {
      if (this.signal.aborted) this.answer.end = 'stopped';
      else result.failure = error;
    }
    removeEventListener('scroll', near);
    clearInterval(keeping);
    if (result.failure) delete this.answer.end;
    this.#drawing.flush();
    this.#reasoning.end();
    this.#take();
    this.body.classList.remove('waiting');
    this.state = result.failure ? 'failed' : 'answered';
    return result;
  }
  /* The usage, if the engine reports it. */
  async #read(parts, drawn) {
    const iterator = parts[Symbol.asyncIterator]();
    for (;;) {
      const {done, value} = await iterator.next();
      if (done) {
        this.answer.end = value?.end ?? value;
        const usage = value?.usage ?? parts.usage;
        if (usage?.completionTokens) this.pace.counted(usage);
        return usage;
      }
      this.#reasoning.end();
      this.body.classList.remove('waiting');
      this.#drawing.add(value);
      drawn();
    }
  }
}
