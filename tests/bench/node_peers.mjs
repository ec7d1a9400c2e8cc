/* Answers and prompts of the npm package and of node-llama-cpp, in processes that alternate.
 * SPDX-License-Identifier: MIT
 *
 *   cd FOLDER                          with qsf, @qsf/PLATFORM and node-llama-cpp in node_modules
 *   node PATH/node_peers.mjs MODEL.gguf [THREADS] [ROUNDS]
 *
 * Prompt: tokens until the first one of the answer; answer: from the first token to the last.
 * Greedy. THREADS (2) is for node-llama-cpp: on two cores its own choice, four threads, gave no
 * token within a minute. */
import {spawnSync} from 'node:child_process';
import {createRequire} from 'node:module';
import {fileURLToPath, pathToFileURL} from 'node:url';

const [model, threads = '2', rounds = '3', which] = process.argv.slice(2);
const from = name => import(pathToFileURL(createRequire(`${process.cwd()}/`).resolve(name)));
const words = Array.from({length: 330}, (_, i) => 'the quick brown fox jumps'.split(' ')[i % 5]).join(' ');
const MOST = 129;

async function* ours() {
  const {load} = await import(pathToFileURL(`${process.cwd()}/node_modules/qsf/node.js`));
  const loaded = await load(model);
  yield (await loaded.tokenize(words)).length;
  for await (const piece of loaded.generate(words, {maxTokens: MOST, temperature: 0})) yield piece;
}
async function* theirs() {
  const {getLlama} = await from('node-llama-cpp');
  const llama = await getLlama({gpu: false, build: 'never', maxThreads: Number(threads)});
  const loaded = await llama.loadModel({modelPath: model});
  const context = await loaded.createContext({threads: Number(threads)});
  const tokens = loaded.tokenize(words);
  yield tokens.length;
  yield* context.getSequence().evaluate(tokens);
}

if (which) {
  const answer = which === 'qsf' ? ours() : theirs(), length = (await answer.next()).value;
  const begin = performance.now(), times = [];
  for await (const _ of answer) if (times.push(performance.now()) === MOST) break;
  const prompt = length / (times[0] - begin), rate = (times.length - 1) / (times.at(-1) - times[0]);
  console.log(`${which.padEnd(15)} prompt ${(prompt * 1e3).toFixed(0)} tok/s, ` +
    `answer ${(rate * 1e3).toFixed(1)} tok/s, ${(process.resourceUsage().maxRSS / 1e3).toFixed(0)} MB`);
  process.exit(0);
}
for (let i = 0; i < Number(rounds); i++)
  for (const one of ['qsf', 'node-llama-cpp'])
    spawnSync(process.execPath, [fileURLToPath(import.meta.url), model, threads, rounds, one],
      {stdio: 'inherit'});
