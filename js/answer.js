/* What generate() and chat() return: a generator of text that is also a promise of the whole
 * answer.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';

/** Counts an answer while its parts arrive; all rounds of tool calls are one answer. */
export class Tally {
  text = ''; end; message; messages; partial;
  /** Why it was left, unless its reader left. */
  left;
  /** Set before the answer begins: it is read as a whole, so that its parts are separated. */
  awaited = false;
  usage = {promptTokens: 0, cachedTokens: 0, completionTokens: 0};
  timings = {promptMs: 0, answerMs: 0};

  /** A part of the answer, as the worker sends it. */
  take({id, text, began, answerMs}) {
    if (began) {
      this.usage.promptTokens += began.promptTokens;
      this.usage.cachedTokens += began.cachedTokens;
      this.timings.promptMs += began.ms;
    }
    if (id !== undefined) this.usage.completionTokens++;
    if (answerMs) this.timings.answerMs += answerMs;
    this.text += text;
  }
  /** Its end. */
  close({end, message, messages, partial}) { Object.assign(this, {end, message, messages, partial}); }

  get finishReason() {
    if (this.end === undefined) return undefined;
    if (this.end === 'length' || this.end === 'full') return 'length';
    return this.message?.tool_calls ? 'tool_calls' : 'stop';
  }
  /** @returns {import('./index.d.ts').Answer} */
  answered() {
    const {end, message, messages, partial} = this;
    return {end, reasoning: message.reasoning_content ?? '', text: message.content ?? '',
      toolCalls: message.tool_calls ?? [], ...(partial && {partialCall: partial}), messages};
  }
  /** @returns {import('./index.d.ts').WholeAnswer} */
  whole() {
    const {end, text, finishReason, usage, timings: {promptMs, answerMs}} = this;
    const parts = this.message ? this.answered()
      : {end, reasoning: '', text, toolCalls: [],
        messages: this.messages ?? [{role: 'assistant', content: text}]};
    const tokensPerSecond = answerMs ? usage.completionTokens / answerMs * 1e3 : 0;
    return {...parts, finishReason, usage: {...usage}, timings: {promptMs, answerMs, tokensPerSecond}};
  }
}

/* `async` functions that return an answer return the whole one: a loop over it has its text. */
const iterable = whole => Object.defineProperty(whole, Symbol.asyncIterator,
  {async * value() { yield whole.text; }});

/**
 * The generator, with what the tally knows and the methods of a promise. It has no then() while it
 * is being read: an `async` function that returns it after the first step returns the generator.
 */
export function thenable(generator, tally) {
  let begun = false, promise, settle, outcome;
  const fact = get => ({get, configurable: true}), method = value => ({value, configurable: true});
  const whole = () => promise ??= new Promise((resolve, reject) => {
    settle = ({error, value}) => (value ? resolve(value) : reject(error));
    if (outcome) settle(outcome);
    else read().catch(() => {});        // rejects the promise
  });
  const methods = {then: method((resolve, reject) => whole().then(resolve, reject)),
    catch: method(reject => whole().catch(reject)), finally: method(fn => whole().finally(fn))};
  function ended(result) {
    outcome ??= result;
    Object.defineProperties(generator, methods);
    settle?.(outcome);
  }
  const finished = () => (tally.end === undefined
    ? {error: new QsfError('CANCELLED', tally.left ?? 'the answer was not read to its end')}
    : {value: iterable(tally.whole())});
  async function watched(step, value) {
    try {
      const given = await step(value);
      if (given.done) ended(finished());
      return given;
    } catch (error) {
      ended({error});
      throw error;
    }
  }
  const steps = Object.fromEntries(['next', 'return', 'throw'].map(way =>
    [way, generator[way].bind(generator)]));
  for (const [way, step] of Object.entries(steps))
    generator[way] = value => {
      if (way === 'next' && !begun && !outcome) delete generator.then;
      begun = true;
      return watched(step, value);
    };
  /* Its own steps take no then() away: the answer can be awaited again meanwhile. */
  async function read() {
    if (begun) return;
    tally.awaited = true;
    while (!(await watched(steps.next)).done) { /* the tally keeps it */ }
  }
  return Object.defineProperties(generator, {...methods,
    usage: fact(() => ({...tally.usage})), finishReason: fact(() => tally.finishReason)});
}
