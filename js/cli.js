#!/usr/bin/env node
/* npx qsf MODEL -p "Why is the sky blue?"
 * SPDX-License-Identifier: MIT */
import {parseArgs} from 'node:util';
import {load} from './node.js';

const HELP = `Runs a language model from a QSF or GGUF file.

  qsf MODEL -p "Why is the sky blue?"      MODEL is a path or an http(s) URL

  -p, --prompt TEXT       the prompt
  -s, --system TEXT       system message
  --raw                   complete the text as it is, without the model's chat template
  -n, --max-tokens N      most tokens to generate (256)
  --temp F                sampling temperature, 0 takes the likeliest token (0.7)
  --seed N                seed of the sampling
  -c, --context N         context length
  -t, --threads N         threads, 0 for one a processor
  --memory MB             memory to stay within
  --ids                   print the answer's token ids as JSON
  -v, --verbose           what runs, and how fast
`;

function arguments_() {
  try {
    return parseArgs({allowPositionals: true, options: {
      prompt: {type: 'string', short: 'p'}, system: {type: 'string', short: 's'}, raw: {type: 'boolean'}, 'max-tokens': {type: 'string', short: 'n', default: '256'},
      temp: {type: 'string', default: '0.7'}, seed: {type: 'string', default: '0'}, context: {type: 'string', short: 'c', default: '0'},
      threads: {type: 'string', short: 't', default: '0'}, memory: {type: 'string', default: '0'}, ids: {type: 'boolean'},
      verbose: {type: 'boolean', short: 'v'}, help: {type: 'boolean', short: 'h'},
    }});
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exit(2);
  }
}

const {values: o, positionals: [model]} = arguments_();
if (o.help || !model || o.prompt === undefined) {
  (o.help ? process.stdout : process.stderr).write(HELP);
  process.exit(o.help ? 0 : 2);
}
const stop = new AbortController();
process.once('SIGINT', () => stop.abort());
try {
  const m = await load(model, {threads: Number(o.threads), contextLength: Number(o.context), memory: Number(o.memory), signal: stop.signal});
  const ids = [];
  const options = {maxTokens: Number(o['max-tokens']), temperature: Number(o.temp), seed: Number(o.seed), signal: stop.signal, onToken: id => ids.push(id)};
  const messages = [...(o.system === undefined ? [] : [{role: 'system', content: o.system}]), {role: 'user', content: o.prompt}];
  const chat = !o.raw && m.info.chatTemplate;
  for await (const text of chat ? m.chat(messages, options) : m.generate(o.prompt, options)) if (!o.ids) process.stdout.write(text);
  process.stdout.write(o.ids ? `${JSON.stringify({ids})}\n` : '\n');
  if (o.verbose) {
    const s = await m.stats(), rate = (n, ns) => `${(n / (ns / 1e9 || 1)).toFixed(1)} tok/s`;
    process.stderr.write(`${m.info.variant}, ${m.info.threads} threads; prompt ${s.promptTokens} tokens, ${rate(s.promptTokens, s.promptNs)}; ` +
      `answer ${s.generatedTokens} tokens, ${rate(s.generatedTokens, s.generatedNs)}; ${(s.memoryBytes / 1e6).toFixed(0)} MB\n`);
  }
  await m.dispose();
} catch (error) {
  if (stop.signal.aborted) process.exit(130);
  process.stderr.write(`error: ${error.message}\n`);
  process.exit(1);
}
