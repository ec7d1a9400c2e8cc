/* What the APIs of other packages over a model share: the model, what happens in an answer,
 * streams, embeddings.
 * SPDX-License-Identifier: MIT */
import {refuse, shown} from './errors.js';

/** The model, if it is one. */
export function loaded(model) {
  if (typeof model?.then === 'function')
    refuse('the model is a promise; await what load() gives first');
  if (typeof model?.chat !== 'function') refuse(`the model is ${shown(model)}; it must be what load() gives`);
  return model;
}

/**
 * What happens in an answer, in order: {token, logprob}, {part}, and at the end {whole}. It is
 * computed whether this is read or not; leaving the loop stops it.
 */
export async function * happenings(model, call, prompt, options) {
  const queue = [];
  let answer, wake, over = false, left = false, failure;
  const put = item => {
    queue.push(item);
    wake?.();
  };
  async function work() {
    answer = model[call](prompt, {...options, onToken: (token, logprob) => put({token, logprob}),
      onPart: part => put({part})});
    while (!(await answer.next()).done) { /* onPart has the text */ }
    if (!left) put({whole: await answer});
  }
  void work().catch(error => { failure = {error}; }).finally(() => {
    over = true;
    wake?.();
  });
  try {
    for (;;) {
      while (queue.length) yield queue.shift();
      if (failure) throw failure.error;
      if (over) return;
      await new Promise(resolve => { wake = resolve; });
    }
  } finally {
    left = true;
    if (!over) void answer?.return().catch(() => {});
  }
}

/**
 * What several generators yield, as [number, value], as it comes. Of each `each` of them, answers
 * to one prompt, the others begin when the first one has something: then the prompt is computed,
 * and they share it. At most `most` run at a time. leave() ends those that run, which then fail.
 */
export async function * together(generators, each, most, leave) {
  const waiting = [...generators.keys()].filter(i => i % each === 0), running = new Map();
  const ahead = new Set(waiting);
  const ask = i => {
    running.delete(i);          // to the end: each has its turn
    const next = generators[i].next().then(({done, value}) => ({i, done, value}));
    void next.catch(() => {});  // the reader may be away
    running.set(i, next);
  };
  try {
    for (;;) {
      while (waiting.length && running.size < most) ask(waiting.shift());
      if (!running.size) return;
      const {i, done, value} = await Promise.race(running.values());
      if (ahead.delete(i)) waiting.unshift(...Array.from({length: each - 1}, (_, k) => i + 1 + k));
      if (done) running.delete(i);
      else ask(i);
      if (!done) yield [i, value];
    }
  } finally {
    if (running.size) leave();
    await Promise.allSettled(running.values());
  }
}

/** The events of a stream that has begun: what fails before its first event is an error at once. */
export async function begun(events) {
  const first = await events.next();
  return (async function * () {
    try {
      if (!first.done) yield first.value;
      yield * events;
    } finally {
      await events.return();
    }
  }());
}

/** A generator's values as a stream; cancelling the stream ends the generator. */
export const streamed = values => new ReadableStream({
  async pull(controller) {
    try {
      const {done, value} = await values.next();
      return done ? controller.close() : controller.enqueue(value);
    } catch (error) {
      return controller.error(error);
    }
  },
  cancel: () => values.return(),
});

/* The first numbers of a vector, of length 1 again. */
function shortened(vector, dimensions) {
  if (!dimensions || dimensions >= vector.length) return vector;
  const some = vector.slice(0, dimensions), length = Math.hypot(...some);
  return length ? some.map(x => x / length) : some;
}

/** {vectors, tokens}: the embeddings of inputs, each a string or tokens, and how many tokens all
 * inputs have. dimensions: how many numbers of each vector are wanted; undefined: all. */
export async function embedded(model, inputs, dimensions, options) {
  const ids = await Promise.all(inputs.map(input => (typeof input !== 'string' ? input
    : model.tokenize(input, {addSpecial: true, parseSpecial: true}))));
  const vectors = await model.embed(ids, options);
  return {vectors: vectors.map(vector => shortened(vector, dimensions)), tokens: ids.flat().length};
}
