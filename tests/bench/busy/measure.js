/* One model, one answer, timed token by token: what of run.mjs runs in Node.js and
 * in the page alike.
 * SPDX-License-Identifier: MIT */
const WORDS =
  ('the of and to in is that for on with as was at by be this have from or had not are but what ' +
    'all were ' +
    'when we there can').split(' ');

/** {decode, prefill} in tokens a second; {median, p99} of a token's time in ms. No
 * threads: the default. */
export async function measure(load, from, {threads, prompt, answer}) {
  const model = await load(from, {cache: false, contextLength: prompt + answer + 64, threads});
  try {
    const text = Array.from({length: prompt}, (_, i) => ` ${WORDS[i * 7 % WORDS.length]}`).join('');
    const ids = (await model.tokenize(text)).slice(0, prompt);
    const times = [];
    let last = 0;
    const onToken = () => {
      const now = performance.now();
      if (last) times.push(now - last);
      last = now;
    };
    const greedy = {temperature: 0, ignoreEnd: true};
    /* Weights are read and code is compiled before anything is timed. */
    for await (const _ of model.generate(ids.slice(0, 8), {...greedy, maxTokens: 4})) ;
    const before = await model.stats();
    for await (const _ of model.generate(ids, {...greedy, maxTokens: answer, onToken})) ;
    const after = await model.stats();
    const rate = (tokens, ns) => 1e9 * (after[tokens] - before[tokens]) / (after[ns] - before[ns]);
    times.sort((a, b) => a - b);
    return {
      decode: rate('generatedTokens', 'generatedNs'), prefill: rate('promptTokens', 'promptNs'),
      median: times[times.length >> 1],
      p99: times[Math.min(times.length - 1, Math.floor(0.99 * times.length))],
      threads: model.info.threads, variant: model.info.variant,
    };
  } finally {
    await model.dispose();
  }
}
