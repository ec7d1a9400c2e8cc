/* The page in which both are measured: wllama.mjs calls open() and then the others. Both get the
 * same texts (wllama takes no token ids), both are timed by when a token reaches the page.
 * SPDX-License-Identifier: MIT */

const GREEDY = {temperature: 0};

class Ours {
  async open(url, {threads, context, memory, cache}) {
    const {load} = await import('/qsf/browser.js');
    this.model = await load(url, {contextLength: context, threads, memory, cache});
    const {variant, isa, threads: n, warnings} = this.model.info;
    this.about = {variant, isa, threads: n, warnings};
  }
  /** told(id) at every token; sampling: {} for the package's defaults. */
  async generate(prompt, n, told, sampling = GREEDY) {
    for await (const text of this.model.generate(prompt,
      {maxTokens: n, ...sampling, ignoreEnd: true, onToken: told}))
      void text;
  }
  /** Tokens of the last prompt. */
  async promptTokens(prompt) {
    return (await this.model.tokenize(prompt, {addSpecial: true, parseSpecial: true})).length;
  }
  stats() { return this.model.stats(); }
}

class Theirs {
  async open(url, {threads, context}) {
    const {Wllama} = await import('/wllama/esm/index.js');
    this.model = new Wllama({default: '/wllama/esm/wasm/wllama.wasm'}, {suppressNativeLog: true});
    await this.model.loadModelFromUrl(url,
      {n_ctx: context, n_gpu_layers: 0, ...(threads && {n_threads: threads})});
    this.about = {threads: this.model.getNumThreads()};
  }
  async generate(prompt, n, told, sampling = GREEDY) {
    await this.model.createCompletion({prompt, stream: true, max_tokens: n, ...sampling, ignore_eos: true,
      cache_prompt: false,
      onData: chunk => {
        if (chunk.choices?.[0]?.text) told(chunk.choices[0].text);
        if (chunk.timings) this.timings = chunk.timings;
      }});
  }
  async promptTokens() { return this.timings.prompt_n; }
}

let engine;
async function check(prompt, length) {
  const n = await engine.promptTokens(prompt);
  if (n !== length) throw new Error(`the prompt has ${n} tokens, not ${length}`);
}

const bench = {
  async open(who, url, options) {
    engine = who === 'ours' ? new Ours() : new Theirs();
    const begin = performance.now();
    await engine.open(url, options);
    return {ms: performance.now() - begin, ...engine.about};
  },
  /** Tokens a second of n tokens after a short prompt, from the first one's arrival
   * to the last one's. */
  async decode(prompt, length, n, sampling) {
    const times = [];
    await engine.generate(prompt, n, () => times.push(performance.now()), sampling);
    await check(prompt, length);
    // some texts come as two tokens
    if (times.length < n - 8) throw new Error(`${times.length} of ${n} tokens came`);
    return (n - 1) / ((times.at(-1) - times[0]) / 1000);
  },
  /** Tokens a second of a prompt: until its answer's first token is here. */
  async prefill(prompt, length) {
    const begin = performance.now();
    let first;
    await engine.generate(prompt, 2, () => { first ??= performance.now(); });
    await check(prompt, length);
    return length / ((first - begin) / 1000);
  },
  /** Milliseconds from nothing to the first token. */
  async first(who, url, prompt, length, options) {
    const begin = performance.now();
    const opened = await bench.open(who, url, options);
    let first;
    await engine.generate(prompt, 2, () => { first ??= performance.now(); });
    await check(prompt, length);
    return {first: first - begin, opened: opened.ms};
  },
  /** Milliseconds that reading the file takes when nothing is done with it. */
  async download(url) {
    const begin = performance.now(), reader = (await fetch(url, {cache: 'no-store'})).body.getReader();
    let bytes = 0;
    for (let part; !(part = await reader.read()).done;) bytes += part.value.length;
    return {ms: performance.now() - begin, bytes};
  },
  async tokens(prompt, n) {
    const out = [];
    await engine.generate(prompt, n, id => out.push(id));
    return out;
  },
  /** The error that an answer ends with. */
  async fails(prompt, n) {
    try {
      await bench.tokens(prompt, n);
      return 'no error';
    } catch (error) {
      return `${error.code}: ${error.message}`;
    }
  },
  stats: () => engine.stats(),
  /** What the browser counts for the page and its workers; isolated pages only. */
  async counted() {
    return self.crossOriginIsolated ? (await performance.measureUserAgentSpecificMemory()).bytes : undefined;
  },
};
globalThis.bench = bench;
