#!/usr/bin/env node
/* npx qsf MODEL -p "Why is the sky blue?"
 * SPDX-License-Identifier: MIT */
import {readFileSync} from 'node:fs';
import {parseArgs} from 'node:util';
import {CONTEXT} from './context_options.js';
import {cache, load} from './node.js';

const HEADS = CONTEXT.head.words.join(', ');
const HELP = `Runs a language model from a QSF or GGUF file.

  qsf MODEL -p "Why is the sky blue?"      MODEL is a path, an http(s) URL, or a model of a hub:
                                           hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M, hf:OWNER/REPO/FILE

  -p, --prompt TEXT       the prompt
  -s, --system TEXT       system message
  --raw                   complete the text, without a chat template
  -n, --max-tokens N      maximum tokens to generate (256)
  --temp F                sampling temperature; 0 takes the most likely token (0.7)
  --seed N                random seed
  -c, --context N         context length
  -t, --threads N         number of threads; 0 for one per processor
  --memory MB             memory limit
  --hub URL               address of the hub (QSF_HUB, HF_ENDPOINT, https://huggingface.co); its token is
                          in the environment: HF_TOKEN
  --backend WHICH         the engine: native, wasm (native, if its package is installed)
  --device WHICH          what computes: auto, cpu, gpu (auto)
  --gpu MODULE            the module with WebGPU, such as npm's package webgpu
  --kv TYPE               type of the KV cache: ${CONTEXT.kv.words.join(', ')} (${CONTEXT.kv.value})
  --kv-window N           cache only the first few and the last N positions: text may exceed the context
  --kv-sinks N            with a window: number of first positions to keep (${CONTEXT.kvSinks.value})
  --kv-heavy N            with a window: also keep the N positions that drew the most attention
  --early-exit F          skip to the last layers once the hidden state has settled: cosine 0.9 to 0.99
  --head-topk WHICH       rows of the output head to compute: ${HEADS} (${CONTEXT.head.value})
  --draft-mtp             draft with the file's own layer for multi-token prediction
  --check WHEN            verify checksums of layers on the first or on every read: first, every (first)
  --list                  list the cached models
  --delete NAME           delete a cached model: hf:..., or its URL as --list shows it; all: all of them
  --ids                   print the answer's token ids as JSON
  -v, --verbose           print what runs, and how fast
  --version               print the version of this package
`;

/* Their names for load(). */
const LOADING = {
  hub: 'hubUrl', context: 'contextLength', threads: 'threads', memory: 'memory', kv: 'kv',
  backend: 'backend', device: 'device', gpu: 'gpu',
  'kv-window': 'kvWindow', 'kv-sinks': 'kvSinks', 'kv-heavy': 'kvHeavy',
  'early-exit': 'earlyExit', 'head-topk': 'head', check: 'check',
};
const SHORT = {context: {short: 'c'}, threads: {short: 't'}};
const numberOr = text => (text === '' || Number.isNaN(Number(text)) ? text : Number(text));

function arguments_() {
  try {
    return parseArgs({allowPositionals: true, options: {
      prompt: {type: 'string', short: 'p'}, system: {type: 'string', short: 's'}, raw: {type: 'boolean'},
      'max-tokens': {type: 'string', short: 'n', default: '256'},
      temp: {type: 'string', default: '0.7'}, seed: {type: 'string', default: '0'}, ids: {type: 'boolean'},
      'draft-mtp': {type: 'boolean'}, list: {type: 'boolean'}, delete: {type: 'string'},
      verbose: {type: 'boolean', short: 'v'}, version: {type: 'boolean'}, help: {type: 'boolean', short: 'h'},
      ...Object.fromEntries(Object.keys(LOADING).map(name => [name, {type: 'string', ...SHORT[name]}])),
    }});
  } catch (error) {
    mistaken(error.message.split('. ')[0]);     // the rest is about positional arguments
  }
}

/* The calls without a model. */
async function manage({list, delete: url, hub}) {
  const megabytes = bytes => `${(bytes / 1e6).toFixed(1)} MB`;
  if (url !== undefined) {
    const freed = await cache.delete(url === 'all' ? undefined : url, {hubUrl: hub});
    if (!freed && url !== 'all') throw new Error(`nothing of ${url} is cached; --list shows what is`);
    process.stdout.write(`${megabytes(freed)} freed\n`);
  }
  const entries = list ? await cache.list() : [];
  if (list && !entries.length) process.stderr.write('no model is cached\n');
  for (const entry of entries) {
    const part = entry.complete ? '' : `, ${megabytes(entry.stored)} of them so far`;
    process.stdout.write(`${entry.url}  ${megabytes(entry.length)}${part}\n`);
  }
}

/* A download's progress on a line of its own. */
let shown = false;
function progress({phase, loaded, total, joined}) {
  if (!process.stderr.isTTY || phase !== 'load' || !total) return;
  const part = `${(100 * loaded / total).toFixed(0)}% of ${(total / 1e6).toFixed(0)} MB`;
  process.stderr.write(loaded < total ? `\rloading ${part}${joined ? ', by another process' : ''}\x1b[K`
    : shown ? '\r\x1b[K' : '');
  shown = loaded < total;
}

function mistaken(text) {
  process.stderr.write(`error: ${text}; --help shows the options\n`);
  process.exit(2);
}

/* Without a reader (head has read enough) or with a full disk, an answer ends as after Ctrl-C. */
const stop = new AbortController();
process.stdout.on('error', error => {
  if (error.code !== 'EPIPE') process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
  stop.abort();
});

const {values: o, positionals: words} = arguments_(), managing = o.list || o.delete !== undefined;
const [model] = words, further = managing ? words : words.slice(1);
if (o.version) {
  const {version} = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
  process.stdout.write(`${version}\n`);
  process.exit(0);
}
if (!o.help && further.length)
  mistaken(managing ? `"${further[0]}" has no meaning with --list and --delete`
    : o.prompt === undefined ? `"${further[0]}" is not an option; a prompt is -p "${further.join(' ')}"`
      : `"${further[0]}" is one word too many; a prompt of several words needs quotation marks: ` +
        `-p "${[o.prompt, ...further].join(' ')}"`);
if (!o.help && managing) {
  try {
    await manage(o);
    process.exit();
  } catch (error) {
    process.stderr.write(`error: ${error.message}\n`);
    process.exit(1);
  }
}
if (!o.help && model && o.prompt === undefined) mistaken('a prompt is missing: -p "Why is the sky blue?"');
if (!o.help && !model && o.prompt !== undefined)
  mistaken('a model is missing: a path, a URL or hf:OWNER/REPO');
if (o.help || !model || o.prompt === undefined) {
  (o.help ? process.stdout : process.stderr).write(HELP);
  process.exit(o.help ? 0 : 2);
}
process.once('SIGINT', () => stop.abort());
let m;
try {
  const given = Object.entries(LOADING).filter(([name]) => o[name] !== undefined);
  m = await load(model, {kvMayDrop: true, draftMtp: o['draft-mtp'],
    ...Object.fromEntries(given.map(([name, called]) => [called, numberOr(o[name])])), signal: stop.signal,
    onProgress: progress});
  const ids = [];
  const options = {maxTokens: numberOr(o['max-tokens']), temperature: numberOr(o.temp),
    seed: numberOr(o.seed), signal: stop.signal, onToken: id => ids.push(id)};
  const messages = [...(o.system === undefined ? [] : [{role: 'system', content: o.system}]),
    {role: 'user', content: o.prompt}];
  const chat = !o.raw && m.info.chatTemplate;
  const answer = chat ? m.chat(messages, options) : m.generate(o.prompt, options);
  let step;
  while (!(step = await answer.next()).done) if (!o.ids) process.stdout.write(step.value);
  process.stdout.write(o.ids ? `${JSON.stringify({ids})}\n` : '\n');
  if (step.value === 'full')
    process.stderr.write('the context is full; -c N makes it longer, --kv-window N continues past it\n');
  if (o.verbose) {
    const s = await m.stats(), rate = (n, ns) => `${(n / (ns / 1e9 || 1)).toFixed(1)} tok/s`;
    const {kind, name, layers, reason} = m.info.device;
    process.stderr.write(kind === 'gpu' ? `${layers} layers on ${name}\n` : `on the CPU: ${reason}\n`);
    process.stderr.write(
      `${m.info.variant}, ${m.info.threads} threads; prompt ${s.promptTokens} tokens, ` +
      `${rate(s.promptTokens, s.promptNs)}; ` +
      `answer ${s.generatedTokens} tokens, ${rate(s.generatedTokens, s.generatedNs)}; ` +
      `${(s.memoryBytes / 1e6).toFixed(0)} MB\n`);
    const ms = ['matmul', 'attention', 'head', 'sampling', 'other', 'wait']
      .map(part => `${part} ${(s[`${part}Ns`] / 1e6).toFixed(0)} ms`).join(', ');
    process.stderr.write(`${ms}; ${(s.bytesRead / 1e6).toFixed(0)} MB read\n`);
    if (s.draftTokens)
      process.stderr.write(`${s.acceptedTokens} of ${s.draftTokens} draft tokens accepted\n`);
  }
  await m.dispose();
} catch (error) {
  await m?.dispose().catch(() => {});           // a GPU may be at work
  if (stop.signal.aborted) process.exit(process.exitCode ?? 130);
  process.stderr.write(`error: ${error.message}\n`);
  process.exit(1);
}
