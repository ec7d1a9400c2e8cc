#!/usr/bin/env node
/* The package in real Chromium against wllama on this machine: runs them in turns, prints a table.
 * SPDX-License-Identifier: MIT
 *
 *   node tests/bench/wllama.mjs [--only decode,prefill,...] [--rounds 3] [--threads 2]
 *                               [--wasm build/wasm] [--native build/release]
 *
 * --only takes rows: decode, sampled, prefill, memory, one-thread (SmolLM2), qwen-decode,
 * qwen-prefill, first, reload (only ours), budget, large. --wasm and --native are builds of this
 * tree; the native one converts models and provides the expected tokens. --json FILE keeps every
 * single figure, --ours-only leaves wllama out.
 *
 * QSF_TEST_CHROMIUM names the browser (chromium). wllama comes from npm, pinned in
 * wllama/package-lock.json, into $QSF_CACHE (~/.cache/qsf), where converted models are kept too.
 * Both run with their own defaults, except threads and the context, and greedy except in the row
 * "sampled"; wllama gets the GGUF files, without a GPU. Every measurement has a browser of its own
 * with an empty profile; a round measures ours and theirs, and the first one changes from round to
 * round. */
import {execFileSync} from 'node:child_process';
import {existsSync} from 'node:fs';
import {copyFile, mkdir, mkdtemp, readFile, rm, stat, writeFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import {benchServer} from './wllama/server.mjs';

const HERE = fileURLToPath(new URL('wllama/', import.meta.url)), ROOT = resolve(HERE, '../../..');
const CACHE = process.env.QSF_CACHE ?? join(process.env.XDG_CACHE_HOME ?? join(process.env.HOME, '.cache'),
  'qsf');
const {values: o} = parseArgs({options: {
  only: {type: 'string'}, rounds: {type: 'string', default: '3'}, threads: {type: 'string', default: '2'},
  json: {type: 'string'},
  wasm: {type: 'string', default: join(ROOT, 'build/wasm')},
  native: {type: 'string', default: join(ROOT, 'build/release')}, 'ours-only': {type: 'boolean'},
}});
const ROUNDS = Number(o.rounds), THREADS = Number(o.threads);
const CONTEXT = 2048, PROMPT = 360, ANSWER = 64, FIRST_PROMPT = 200, RELOAD_PROMPT = 30, RATE = 20e6,
  BUDGET = 200, LARGE = 4.4e9;
const CODE_MS = 4000;           /* Chromium stores optimised code two seconds after the last of it */
const SMOLLM2 = 'smollm2-135m-q4_1', QWEN = 'qwen2.5-coder-0.5b-q4_k_m';
const ROWS = ['decode', 'sampled', 'prefill', 'memory', 'one-thread', 'qwen-decode', 'qwen-prefill', 'first',
  'reload', 'budget', 'large'];
const wanted = new Set(o.only ? o.only.split(',') : ROWS);
for (const name of wanted)
  if (!ROWS.includes(name)) throw new Error(`--only: no row is called ${name}; there are ${ROWS.join(', ')}`);

const say = text => process.stderr.write(`wllama.mjs: ${text}\n`);
const median = a => {
  const s = [...a].sort((x, y) => x - y);
  return (s[(s.length - 1) >> 1] + s[s.length >> 1]) / 2;
};
const WORDS = (
  'the of and to in is that for on with as was at by be this have from or had not are but what all ' +
  'were when we there can an your which their said if do will each about how up out them then she ' +
  'many some so these would other into has more two like him see time could no make than first been ' +
  'its who now people my made over did down only way find use water long little very after words ' +
  'called just where most know').split(' ');
/** A text of n tokens: words that are one token each in both vocabularies, which the page checks;
 * no two seeds begin alike. */
const prompt = (n, seed) => Array.from({length: n},
  (_, i) => ` ${WORDS[(seed * 31 + i * (7 + seed)) % WORDS.length]}`).join('');

/* ---- the measurements ---- */

async function tools() {
  const folder = join(CACHE, 'npm-bench'), lock = 'package-lock.json';
  const same = existsSync(join(folder, lock)) && (await readFile(join(folder, lock)))
    .equals(await readFile(join(HERE, lock)));
  if (!same) {
    say(`installing what ${join(HERE, lock)} names`);
    await rm(folder, {recursive: true, force: true});
    await mkdir(folder, {recursive: true});
    for (const file of ['package.json', lock]) await copyFile(join(HERE, file), join(folder, file));
    try {
      execFileSync('npm', ['ci', '--silent', '--no-audit', '--no-fund', '--ignore-scripts'],
        {cwd: folder, stdio: 'inherit'});
    } catch (error) {
      await rm(folder, {recursive: true, force: true});
      throw error;
    }
  }
  return folder;
}

async function newer(file, than) {
  const [a, b] = await Promise.all([file, than].map(f => stat(f).catch(() => undefined)));
  return a && b && a.mtimeMs > b.mtimeMs;
}

/** The GGUF file and the QSF file of a model. */
async function model(name) {
  const gguf = execFileSync(join(ROOT, 'tools/get-model.sh'), [name], {encoding: 'utf8'}).trim();
  const folder = join(CACHE, 'bench'), qsf = join(folder, `${name}.4bit.qsf`),
    convert = join(o.native, 'qsf-convert');
  await mkdir(folder, {recursive: true});
  if (!await newer(qsf, convert)) {
    say(`converting ${name}`);
    execFileSync(convert, ['--quant-type', '4bit', gguf, qsf], {stdio: 'ignore'});
  }
  return {name, gguf, qsf};
}

const nativeTokens = (file, prompt, n, more = []) =>
  JSON.parse(execFileSync(join(o.native, 'qsf-run'), ['-m', file, '--raw', '-p', prompt, '-n', String(n),
    '--temp', '0', '--json', ...more], {encoding: 'utf8'})).ids;

/* ---- a browser ---- */

const folder = await tools();
const {chromium} = createRequire(join(folder, 'x.js'))('playwright-core');
const chromiumPath = process.env.QSF_TEST_CHROMIUM ?? execFileSync('sh', ['-c', 'command -v chromium'],
  {encoding: 'utf8'}).trim();

/** MB of memory, shared pages by halves, thirds, ...: the renderer process that has the most. */
async function rendererMegabytes(session) {
  const {processInfo} = await session.send('SystemInfo.getProcessInfo');
  const sizes = await Promise.all(processInfo.filter(p => p.type === 'renderer').map(async ({id}) => {
    const text = await readFile(`/proc/${id}/smaps_rollup`, 'utf8').catch(() => '');
    return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024 / 1e6;
  }));
  return Math.max(...sizes);
}

/** Opens the page in a new browser with an empty profile; use(call, tab) has call(name,
 * ...arguments) for page.js; tab.reload() is the reload that a visitor makes. */
async function visit({mounts, isolation = true, rate, spoil}, use) {
  const profile = await mkdtemp(join(tmpdir(), 'qsf-bench-'));
  const server = await benchServer({'/bench': HERE, '/qsf': join(o.wasm, 'js'),
    '/wllama': join(folder, 'node_modules/@wllama/wllama'), ...mounts}, {isolation, rate, spoil});
  let context;
  try {
    context = await chromium.launchPersistentContext(profile, {executablePath: chromiumPath,
      args: ['--no-sandbox', '--disable-features=SpareRendererForSitePerProcess',
        '--enable-blink-features=ForceEagerMeasureMemory']});
    const page = context.pages()[0] ?? await context.newPage();
    page.on('pageerror', error => say(`the page: ${error.message}`));
    page.on('console', message => { if (process.env.QSF_BENCH_VERBOSE) say(`the page: ${message.text()}`); });
    const ready = () => page.waitForFunction(() => globalThis.bench);
    await page.goto(`${server.origin}/bench/page.html`);
    await ready();
    page.setDefaultTimeout(0);
    const reload = async () => {
      await page.reload();
      await ready();
    };
    const browser = context.browser() ?? await page.context().browser();
    const session = browser ? await browser.newBrowserCDPSession() : await context.newCDPSession(page);
    const call = (name, ...args) => page.evaluate(([n, a]) => globalThis.bench[n](...a), [name, args]);
    return await use(call, {memory: () => rendererMegabytes(session), reload});
  } finally {
    await context?.close();
    server.close();
    await rm(profile, {recursive: true, force: true, maxRetries: 5});
  }
}

/* ---- figures: name -> {ours: [], theirs: []} ---- */

const figures = {};
const add = (name, who, value) => { ((figures[name] ??= {ours: [], theirs: []})[who]).push(value); };
const url = (who, {name}) => `/models/${name}.${who === 'ours' ? 'qsf' : 'gguf'}`;
const mounts = ({name, gguf, qsf}) => ({[`/models/${name}.qsf`]: qsf, [`/models/${name}.gguf`]: gguf});
async function inTurns(fn) {
  for (let round = 0; round < ROUNDS; round++)
    for (const who of o['ours-only'] ? ['ours'] : round % 2 ? ['theirs', 'ours'] : ['ours', 'theirs']) {
      await fn(who, round);
      say(`round ${round + 1} of ${ROUNDS}, ${who === 'ours' ? 'qsf' : 'wllama'}: ` +
        Object.entries(figures).filter(([, f]) => f[who].length > round)
        .map(([name, f]) => `${name} ${f[who][round].toFixed(1)}`).join(', '));
    }
}

/** Speed, and memory where its row is wanted, with one model loaded once. */
async function speed(m, prefix, {isolation = true, rows}) {
  await inTurns((who, round) => visit({mounts: mounts(m), isolation}, async (call, tab) => {
    if (rows.has('memory')) add(`${prefix}empty`, who, await tab.memory());
    const opened = await call('open', who, url(who, m),
      {context: CONTEXT, threads: isolation ? THREADS : undefined});
    if (!round) say(`${who === 'ours' ? 'qsf' : 'wllama'} runs ${JSON.stringify(opened)}`);
    if (opened.threads !== (isolation ? THREADS : 1)) throw new Error(`${opened.threads} threads`);
    // code that is compiled late, and bytes that are read late, are not counted
    await call('decode', prompt(8, 1), 8, 16);
    if (rows.has('memory')) {
      add(`${prefix}counted`, who, await call('counted') / 1e6);     // collects garbage too
      add(`${prefix}memory`, who, await tab.memory());
    }
    if (rows.has('decode'))
      add(`${prefix}decode`, who, await call('decode', prompt(8, 2 + round), 8, ANSWER));
    if (rows.has('sampled'))
      add(`${prefix}sampled`, who, await call('decode', prompt(8, 12 + round), 8, ANSWER, {}));
    if (rows.has('prefill'))
      add(`${prefix}prefill`, who, await call('prefill', prompt(PROMPT, 20 + round), PROMPT));
  }));
}

/** From an empty cache at RATE: to the first token, over the file's length at that rate; and a
 * plain download, which says whether the server keeps it. */
async function first(m) {
  await inTurns((who, round) => visit({mounts: mounts(m), rate: RATE}, async call => {
    // what a busy machine adds to a download must not flatter us
    const {ms, bytes} = await call('download', url(who, m)), pure = bytes / RATE;
    const {first: took} = await call('first', who, url(who, m), prompt(FIRST_PROMPT, 5 + round), FIRST_PROMPT,
      {context: CONTEXT, threads: THREADS});
    add('download', who, ms / 1000);
    add('first', who, took / 1000);
    add('first/download', who, took / 1000 / pure);
    if (ms / 1000 > 1.05 * pure)
      say(
        `the plain download took ${(ms / 1000).toFixed(2)} s, not ${pure.toFixed(2)}: this machine is too ` +
        'busy for the row "first"');
  }));
}

/** The stored model after a reload: to the first token. The first visit stores it, and answers long
 * enough that the browser keeps compiled code. */
async function reload(m) {
  await visit({mounts: mounts(m)}, async (call, tab) => {
    const options = {context: CONTEXT, threads: THREADS};
    await call('first', 'ours', url('ours', m), prompt(RELOAD_PROMPT, 1), RELOAD_PROMPT, options);
    await call('decode', prompt(8, 1), 8, 2 * ANSWER);
    await new Promise(resolve => { setTimeout(resolve, CODE_MS); });
    for (let round = 0; round < ROUNDS; round++) {
      await tab.reload();
      const took = await call('first', 'ours', url('ours', m), prompt(RELOAD_PROMPT, 2 + round),
        RELOAD_PROMPT, options);
      add('reload', 'ours', took.first / 1000);
      add('reload, load()', 'ours', took.opened / 1000);
      say(`reload ${round + 1} of ${ROUNDS}: model open after ${took.opened.toFixed(0)} ms, first token ` +
        `after ${took.first.toFixed(0)}`);
    }
  });
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Inside a budget: right tokens, how large the page is. */
async function budget(m) {
  const text = 'def fibonacci(n):', n = 24, right = nativeTokens(m.qsf, text, n);
  return visit({mounts: mounts(m)}, async (call, tab) => {
    await call('open', 'ours', url('ours', m), {context: CONTEXT, threads: THREADS, memory: BUDGET});
    const tokens = await call('tokens', text, n), stats = await call('stats');
    const counted = await call('counted') / 1e6;          // collects garbage too
    return {right: same(tokens, right), counted, page: await tab.memory(), module: stats.memoryBytes / 1e6};
  });
}

/** More than 4 GB through a budget: right tokens, and damage beyond 4 GB is found. */
async function large(m) {
  const file = join(CACHE, 'bench', 'large.qsf'), text = 'Once', n = 3,
    options = {context: 64, threads: THREADS, memory: BUDGET, cache: false};
  say(`making ${file}`);
  try {
    const maker = join(ROOT, 'tests/tools/make_large_qsf.py');
    execFileSync('python3', [maker, m.qsf, file, '--bytes', String(LARGE)], {stdio: 'ignore'});
    const {size} = await stat(file), right = nativeTokens(file, text, n, ['--ram-budget', '600', '-c', '64']);
    const told = await visit({mounts: {'/large.qsf': file}}, async (call, tab) => {
      await call('open', 'ours', '/large.qsf', options);
      const begin = performance.now(), tokens = await call('tokens', text, n),
        seconds = (performance.now() - begin) / 1000, stats = await call('stats');
      return {right: same(tokens, right), bytesRead: stats.bytesRead, seconds, page: await tab.memory()};
    });
    const spoil = {at: 4_300_000_000, file};
    const damaged = await visit({mounts: {'/large.qsf': file}, spoil}, async call => {
      await call('open', 'ours', '/large.qsf', options);
      return call('fails', text, n);
    });
    return {size, ...told, damaged};
  } finally {
    await rm(file, {force: true});
  }
}

/* ---- the run ---- */

const smollm2 = ['decode', 'sampled', 'prefill', 'memory', 'one-thread', 'first', 'reload']
  .some(r => wanted.has(r)) && await model(SMOLLM2);
const qwen = ['qwen-decode', 'qwen-prefill', 'budget', 'large'].some(r => wanted.has(r)) && await model(QWEN);
const rowsOf = names => new Set(names.filter(n => wanted.has(n)));
if (['decode', 'sampled', 'prefill', 'memory'].some(r => wanted.has(r)))
  await speed(smollm2, '', {rows: rowsOf(['decode', 'sampled', 'prefill', 'memory'])});
if (wanted.has('one-thread'))
  await speed(smollm2, 'one-thread ', {isolation: false, rows: new Set(['decode'])});
if (wanted.has('qwen-decode') || wanted.has('qwen-prefill'))
  await speed(qwen, 'qwen ', {rows: new Set(
    [...(wanted.has('qwen-decode') ? ['decode'] : []), ...(wanted.has('qwen-prefill') ? ['prefill'] : [])])});
if (wanted.has('first')) await first(smollm2);
if (wanted.has('reload')) await reload(smollm2);
const inBudget = wanted.has('budget') && await budget(qwen);
const isLarge = wanted.has('large') && await large(qwen);

/* ---- the table ---- */

const table = [];
const verdict = ok => (ok ? 'yes' : '**no**');
/** better(ours, theirs): the ratio that `must` is about; taken inside a round. */
function row(title, name, unit, must, met, better = (a, b) => a / b) {
  const f = figures[name];
  if (!f) return;
  const digits = unit === 'MB' ? 0 : 1, mid = who =>
    (f[who].length ? `${median(f[who]).toFixed(digits)} ${unit}` : '');
  const ratios = f.theirs.map((t, i) => better(f.ours[i], t)), r = ratios.length ? median(ratios) : undefined;
  const spread = r === undefined ? ''
    : `${r.toFixed(2)}x (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`;
  table.push([title, must, mid('ours'), mid('theirs'), spread,
    r === undefined || !met ? '' : verdict(met(r))]);
}
const atLeast = x => r => r >= x;
row('SmolLM2 decode', 'decode', 'tok/s', '>= 8x', atLeast(8));
row('SmolLM2 decode, sampled by the defaults', 'sampled', 'tok/s', '>= 8x', atLeast(8));
row(`SmolLM2 prefill, ${PROMPT} tokens`, 'prefill', 'tok/s', '>= 12x', atLeast(12));
row('Qwen2.5-Coder-0.5B decode', 'qwen decode', 'tok/s', '>= 8x', atLeast(8));
row('Qwen2.5-Coder-0.5B prefill', 'qwen prefill', 'tok/s', '>= 9x', atLeast(9));
row(`page with SmolLM2 loaded, ${CONTEXT} context: PSS of its process`, 'memory', 'MB', '<= 0.33x',
  r => r <= 1 / 3);
row('the same process before anything is loaded', 'empty', 'MB', '', undefined);
/* No verdict on this: memory of a worker is left out where it is not shared, and counted for
 * several workers where it is. */
row('the same page as measureUserAgentSpecificMemory() counts', 'counted', 'MB', '', undefined);
row('without isolation, one thread: SmolLM2 decode', 'one-thread decode', 'tok/s', '>= 8x', atLeast(8));
if (figures.first) {
  const f = figures['first/download'], ours = median(f.ours),
    show = who => (f[who].length ? `${median(figures.first[who]).toFixed(2)} s, ${median(f[who]).toFixed(2)}x`
      : '');
  table.push([`empty cache to first token at ${RATE / 1e6} MB/s, ${FIRST_PROMPT} tokens, over the download`,
    '<= 1.1x', show('ours'), show('theirs'), '', verdict(ours <= 1.1)]);
}
if (figures.reload) {
  const took = median(figures.reload.ours);
  table.push([`reload with the stored model to first token, ${RELOAD_PROMPT} tokens (load() alone)`,
    '<= 0.6 s', `${took.toFixed(2)} s (${median(figures['reload, load()'].ours).toFixed(2)} s)`, '', '',
    verdict(took <= 0.6)]);
}
if (inBudget)
  table.push([`Qwen2.5-Coder-0.5B with memory: ${BUDGET}`, 'right tokens, page <= 260 MB',
    `${inBudget.right ? 'right' : 'WRONG'} tokens, page ${inBudget.page.toFixed(0)} MB ` +
    `(module ${inBudget.module.toFixed(0)}, counted ${inBudget.counted.toFixed(0)})`, '', '',
    verdict(inBudget.right && inBudget.page <= 260)]);
if (isLarge) {
  const found = isLarge.damaged.startsWith('CORRUPT');
  table.push([`${(isLarge.size / 1e9).toFixed(2)} GB through memory: ${BUDGET}`, 'right tokens, damage found',
    `${isLarge.right ? 'right' : 'WRONG'} tokens, ` +
    `${(isLarge.bytesRead / 1e9).toFixed(1)} GB read in ${isLarge.seconds.toFixed(0)} s, page ` +
    `${isLarge.page.toFixed(0)} MB; damage: ${found ? 'found' : isLarge.damaged}`, '', '',
    verdict(isLarge.right && found && isLarge.bytesRead > isLarge.size)]);
}
/* What is installed, whatever package.json asks for. */
const {version: wllama} = JSON.parse(await readFile(
  join(folder, 'node_modules/@wllama/wllama/package.json'), 'utf8'));
const HEADS = [['', 'must', 'qsf', `wllama ${wllama}`, 'ratio (least to most)', 'met'], Array(6).fill('---')];
console.log(`\n${[...HEADS, ...table].map(r => `| ${r.join(' | ')} |`).join('\n')}\n`);
const version = execFileSync(chromiumPath, ['--version'],
  {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']}).trim();
console.log(`wllama ${wllama}, ${THREADS} threads, ${ROUNDS} rounds in turns, medians; ${version}`);
if (o.json)
  await writeFile(o.json, JSON.stringify(
    {figures, budget: inBudget || undefined, large: isLarge || undefined}, undefined, 1));
