/* Answers that are begun, read, left and begun again in random order, with sessions and small calls
 * between them, many at the same time. What must hold: everything settles, and an answer is what
 * its prompt gives alone. Runs in Node.js and in pages.
 * SPDX-License-Identifier: MIT */
import {random} from './tiny.js';

const tick = globalThis.setImmediate ? () => new Promise(resolve => setImmediate(resolve)) : () =>
  new Promise(resolve => setTimeout(resolve));
export const ticks = async n => { while (n-- > 0) await tick(); };
const must = (truth, ...words) => { if (!truth) throw new Error(words.join(' ')); };

const MOST = 30, HANG_MS = 120_000;
/* Some share a prefix, so that an answer continues from what another one has computed. */
const PROMPTS = ['Once upon a time', 'Once upon a mat', 'x'.repeat(70), 'one two three four. one two three',
  [{role: 'user', content: 'hi'}], [{role: 'user', content: 'hi there'}]];
const OPTIONS = {temperature: 0, ignoreEnd: true, maxTokens: MOST};
const ask = (model, prompt, options) => (typeof prompt === 'string' ? model.generate(prompt, options)
  : model.chat(prompt, {...options, template: 'chatml'}));

/** What each prompt gives alone, and what the small calls do. */
export async function alone(model) {
  const answers = [];
  for (const prompt of PROMPTS) {
    const ids = [], texts = [];
    for await (const text of ask(model, prompt, {...OPTIONS, onToken: id => ids.push(id)})) texts.push(text);
    must(new Set(ids).size > 3, `${prompt} gives a dull answer: ${ids}`);
    answers.push({ids, text: texts.join('')});
  }
  return {answers, small: await small(model)};
}
async function small(model) {
  const ids = await model.tokenize('Once upon a time');
  return JSON.stringify([ids, await model.detokenize(ids),
    await model.render(PROMPTS.at(-1), {template: 'chatml'}), (await model.stats()).threads]);
}

/** One round over a model; known is what alone() gave. Ends with the model's end where
 * dispose is true. */
export async function round(model, known, seed, dispose) {
  const next = random(seed), below = n => Math.floor(next() * n);
  const reason = new Error('stopped'), answers = new Set(), jobs = [], open = new Set(), sessions = [];
  let disposed = false;
  const job = (name, promise) => {
    open.add(name);
    jobs.push(promise.then(() => open.delete(name)));
  };
  /* An error that may be heard here, by its code. */
  const allowed = error => {
    if (error === reason) return 'stopped';
    if (error.code === 'DISPOSED' && disposed) return 'DISPOSED';
    throw error;
  };

  function answer() {
    const way = ['end', 'end', 'break', 'abort', 'abort', 'return', 'throw', 'early'][below(8)],
      at = below(PROMPTS.length), most = 1 + below(MOST), leaveAfter = 1 + below(10);
    const slow = below(3), mine = {left: way === 'early', over: false},
      stop = new AbortController(), ids = [], {ids: whole, text: wholeText} = known.answers[at];
    if (way === 'early') stop.abort(reason);
    const parts = ask(model, PROMPTS[at], {...OPTIONS, maxTokens: most, signal: stop.signal,
      onToken: id => ids.push(id)});
    answers.add(mine);
    const leave = {
      break: () => parts.return(),
      return: () => parts.return(),
      throw: () => parts.throw(reason).catch(error => allowed(error)),
      abort: () => stop.abort(reason),
    };
    const left = () => {
      mine.left = true;
      return leave[way]();
    };
    const name = `answer ${answers.size} (${way}, prompt ${at}, ${most} tokens)`;
    job(name, (async () => {
      let text = '', n = 0;
      try {
        for (;;) {
          const step = await parts.next();
          if (step.done) {
            must(step.value === undefined ? mine.left : step.value === 'length' && ids.length === most && (
              mine.left || text === wholeText.slice(0, text.length)), `ended: ${step.value}`);
            if (!mine.left) must(text.length && ids.length === most, 'an answer is too short');
            break;
          }
          text += step.value;
          if (++n === leaveAfter && way === 'break') await left();
          await ticks(slow);
        }
      } catch (error) {
        allowed(error);
      } finally {
        mine.over = true;
      }
      must(String(ids) === String(whole.slice(0, ids.length)), `prompt ${at}: tokens ${ids}, alone ${whole}`);
      must(wholeText.startsWith(text), `prompt ${at}: "${text}", alone "${wholeText}"`);
    })());
    if (['abort', 'return', 'throw'].includes(way)) job(`leaving ${name}`, ticks(below(25)).then(left));
  }
  const settle = (name, promise, use = () => {}) => job(`${name} ${jobs.length}`, promise.then(use, allowed));
  const actions = [
    answer, answer, answer,
    () => settle('saving', model.saveSession(), bytes => sessions.push(bytes)),
    () => settle('loading', sessions.length ? model.loadSession(sessions[below(sessions.length)])
      : model.stats()),
    () => settle('small calls', small(model), text => must(text === known.small, text)),
  ];
  for (let n = 4 + below(10); n; n--) {
    actions[below(actions.length)]();
    await ticks(next() < 0.4 ? 0 : below(20));
  }
  if (dispose) {
    disposed = true;
    job('the end', model.dispose());
    answer();
  }
  let timer;
  const hang = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`never settled: ${[...open].join(', ')}`)), HANG_MS);
  });
  try {
    await Promise.race([Promise.all(jobs), hang]);
  } finally {
    clearTimeout(timer);
  }
}

/** So many rounds over models that load() gives; each model's last round ends with it. */
export async function rounds(load, count, seed = 1 + Math.floor(Math.random() * 1e6), perModel = 20) {
  const first = await load(), known = await alone(first);
  await first.dispose();
  let model;
  for (let n = 0; n < count; n++) {
    model ??= await load();
    const last = n % perModel === perModel - 1 || n === count - 1;
    try {
      await round(model, known, seed + n, last);
    } catch (error) {
      await model.dispose();
      throw new Error(`seed ${seed}, round ${n}: ${error.message}`, {cause: error});
    }
    if (last) model = undefined;
  }
  return seed;
}
