/* The package in Node.js, installed from its tarball.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {openAsBlob} from 'node:fs';
import {writeFile, readFile, readdir} from 'node:fs/promises';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {promisify} from 'node:util';
import {Worker} from 'node:worker_threads';
import {gzipSync} from 'node:zlib';
import {GGUF, PACKAGE, QSF, QUESTION, WORK, answer, bytesOf, code, collect, load, nativeTokens,
  packaged} from './tools.js';
import {tinyModel} from './tiny.js';

/* Which a page only loads if it imports them. */
const SHAPES = /^(openai.*|ai|langchain|prompt-api)\.js$/;

describe('the package', () => {
  test('says in package.json where its sources are, and names files that are there', async () => {
    const about = JSON.parse(await readFile(packaged('package.json'), 'utf8'));
    assert.deepEqual(about.repository,
      {type: 'git', url: 'git+https://example.org/libqsf.git', directory: 'js'});   // js.sh's
    for (const field of ['description', 'keywords', 'license', 'engines', 'types', 'homepage', 'bugs'])
      assert.ok(about[field], field);
    const files = await readdir(PACKAGE);
    for (const file of ['LICENSE', 'README.md', ...Object.values(about.exports)
      .flatMap(e => typeof e === 'string' ? e : Object.values(e)), ...Object.values(about.bin),
    ...about.sideEffects, about.main, about.types, about.browser])
      assert.ok(files.includes(file.replace('./', '')), file);
  });
  const size = async file => gzipSync(await readFile(packaged(file)), {level: 9}).length;
  test('has modules of at most 425 KB, compressed', async () => {
    for (const file of (await readdir(PACKAGE)).filter(name => name.endsWith('.wasm'))) {
      const bytes = await size(file);
      const most = file.startsWith('qsf-gpu') ? 64_000 : file.includes('64') ? 440_000 : 425_000;
      assert.ok(bytes <= most, `${file}: ${bytes} bytes`);
    }
  });
  test('has scripts of which a page loads at most 90 KB, compressed', async () => {
    const loaded = new Set(['browser.js', 'worker-web.js']);
    let bytes = 0;
    for (const file of loaded) {                // grows meanwhile
      for (const [, other] of (await readFile(packaged(file), 'utf8')).matchAll(/ from '\.\/([\w-]+\.js)'/g))
        loaded.add(other);
      bytes += await size(file);
    }
    assert.ok(loaded.size > 10 && !loaded.has('hub.js') && !loaded.has('cli.js'), [...loaded].join());
    assert.ok(bytes > 50_000 && bytes <= 90_000, `${bytes} bytes of scripts`);
  });
  test('has a worker that is one script', async () => {
    assert.doesNotMatch(await readFile(packaged('worker-web.js'), 'utf8'), /^import /m);
  });
  test('differs from the sources in comments only', async () => {
    const {default: ts} = await import(
      pathToFileURL(join(process.env.QSF_TEST_TOOLS, 'node_modules/typescript/lib/typescript.js')));
    const bare = text => ts.transpileModule(text,
      {compilerOptions: {removeComments: true, target: 'esnext', module: 'esnext'}}).outputText;
    const scripts = (await readdir(PACKAGE)).filter(name => name.endsWith('.js'));
    assert.ok(scripts.length > 40, scripts.join());
    for (const file of scripts) {
      const ours = await readFile(packaged(file), 'utf8');
      const source = await readFile(join(process.env.QSF_TEST_WASM, 'js', file), 'utf8');
      assert.equal(bare(ours), bare(source), file);
      assert.equal(ours.split('\n').length, source.split('\n').length, `lines of ${file}`);
    }
  });
  test('has shapes of at most 30 KB, compressed', async () => {
    let shapes = 0;
    for (const file of await readdir(PACKAGE)) if (SHAPES.test(file)) shapes += await size(file);
    assert.ok(shapes > 1000 && shapes <= 30_000, `${shapes} bytes of other packages' shapes`);
  });
  test('loads no shape that nobody imports', async () => {
    for (const file of await readdir(PACKAGE))
      if (file.endsWith('.js') && !SHAPES.test(file))
        assert.doesNotMatch(await readFile(packaged(file), 'utf8'),
          /'\.\/(openai|ai|langchain|prompt-api)/, file);
  });
  test('has modules that import nothing but its own', async () => {
    for (const variant of ['simd', 'simd-threads']) {
      const module = await WebAssembly.compile(await readFile(packaged(`qsf-${variant}.wasm`)));
      assert.deepEqual(WebAssembly.Module.imports(module).map(i => `${i.module}.${i.name}`).sort(),
        ['env.memory', 'qsf.cancel', 'qsf.length', 'qsf.load', 'qsf.now', 'qsf.open', 'qsf.read',
          'qsf.save']);
    }
  });
  test('answers in a terminal', async () => {
    const {stdout} = await promisify(execFile)(process.execPath,
      [packaged('cli.js'), QSF, '-p', QUESTION[0].content, '--temp', '0', '-n', '16']);
    assert.match(stdout, /Paris/);
  });
});

describe('a QSF file', () => {
  let model;
  before(async () => { model = await load(QSF, {threads: 1, contextLength: 1024}); });
  after(() => model.dispose());

  test('gives the native tokens', async () => {
    assert.deepEqual((await answer(model)).ids, nativeTokens(QSF, 24));
  });
  test('says what it is', () => {
    assert.equal(model.info.architecture, 'llama');
    assert.equal(model.info.format, 'QSF');
    assert.equal(model.info.layers, 30);
    assert.equal(model.info.contextLength, 1024);
    assert.equal(model.info.threads, 1);
    assert.equal(model.info.resident, true);
    assert.ok(model.info.plan.some(p => p.name === 'KV cache' && p.bytes > 0));
  });
  test('turns text to tokens and back', async () => {
    for (const text of ['Hello, world', 'Ünïcödé 🌍 日本', '', ' two  spaces\n'])
      assert.equal(await model.detokenize(await model.tokenize(text)), text);
    assert.deepEqual(await model.tokenize('<|im_end|>', {parseSpecial: true}), [model.info.eos]);
    assert.ok((await model.tokenize('<|im_end|>')).length > 1);
  });
  test('says why an answer ended', async () => {
    assert.equal((await answer(model)).reason, 'end');
    assert.equal((await answer(model, {maxTokens: 3})).reason, 'length');
    const stopped = await answer(model, {stop: [' Paris']});
    assert.equal(stopped.reason, 'stop');
    assert.equal(stopped.text, 'The capital of France is');
  });
  test('goes on where conversations agree', async () => {
    const first = await answer(model), before = await model.stats();
    const text =
      (await collect(model.chat([...QUESTION, {role: 'assistant', content: first.text},
        {role: 'user', content: 'And of Spain?'}], {temperature: 0, maxTokens: 16}))).text;
    assert.match(text, /capital.*Spain|Spain.*capital/);
    assert.ok((await model.stats()).promptTokens - before.promptTokens < 40);
  });
  test('gives the same text for the same seed', async () => {
    const once = await answer(model, {temperature: 1.2, seed: 7}),
      again = await answer(model, {temperature: 1.2, seed: 7});
    assert.equal(once.text, again.text);
  });
  test('goes on after a loop that was left', async () => {
    for await (const text of model.generate('Once upon a time', {temperature: 0})) if (text) break;
    assert.match((await answer(model)).text, /Paris/);
  });
  test('stops at a signal, with its reason, and works on', async () => {
    const stop = new AbortController(), reason = new Error('enough');
    await assert.rejects(async () => {
      for await (const text of model.generate('Once upon a time',
        {maxTokens: 1000, temperature: 0, signal: stop.signal}))
        if (text) stop.abort(reason);
    }, reason);
    await assert.rejects(collect(model.generate('x', {signal: AbortSignal.abort(reason)})), reason);
    assert.match((await answer(model)).text, /Paris/);
  });
  test('stops inside a long prompt', async () => {
    const stop = new AbortController(), reason = new Error('too long');
    setTimeout(() => stop.abort(reason), 50);
    await assert.rejects(collect(model.generate('word '.repeat(900), {maxTokens: 1, signal: stop.signal})),
      reason);
    assert.match((await answer(model)).text, /Paris/);
  });
  test('gives a second answer at the same time', async () => {
    const one = model.generate('Once', {maxTokens: 200});
    await one.next();
    assert.match((await answer(model)).text, /Paris/);
    await one.return();
  });
  test('ends an answer when the context is full', async () => {
    const small = await load(QSF, {threads: 1, contextLength: 64});
    assert.equal((await collect(small.generate('one two',
      {temperature: 0, ignoreEnd: true, maxTokens: Infinity}))).reason, 'full');
    await assert.rejects(collect(small.generate('word '.repeat(200))),
      {code: 'FULL', message: /has \d{3} tokens, the context 64 p/});
    assert.match((await answer(small)).text, /Paris/);
    await small.dispose();
  });
  test('refuses what makes no sense', async () => {
    await assert.rejects(collect(model.generate([-1])), code('ARGUMENT'));
    await assert.rejects(collect(model.generate([])), code('ARGUMENT'));
    await assert.rejects(collect(model.generate('x', {tempreature: 1})), code('ARGUMENT'));
    await assert.rejects(collect(model.chat([{role: 'user'}])), code('ARGUMENT'));
    await assert.rejects(collect(model.chat(QUESTION, {template: 'nothing'})), code('NOT_FOUND'));
    await assert.rejects(load(QSF, {kv: 'q3'}), code('ARGUMENT'));
    await assert.rejects(load(5), code('ARGUMENT'));
  });
});

describe('sources', () => {
  let wanted;
  before(() => { wanted = nativeTokens(QSF, 24); });
  const check = async (from, options) => {
    const model = await load(from, {contextLength: 512, ...options});
    try {
      assert.deepEqual((await answer(model)).ids, wanted);
      return {info: model.info, stats: await model.stats()};
    } finally {
      await model.dispose();
    }
  };
  test('two threads', async () => { assert.equal((await check(QSF, {threads: 2})).info.threads, 2); });
  test('bytes', async () => check(await bytesOf(QSF)));
  test('a Blob', async () => check(new Blob([await bytesOf(QSF)]), {threads: 1}));
  test('a Blob that is a file', async () => check(await openAsBlob(QSF), {threads: 1}));
  test('a file, inside a budget', async () => {
    const {info, stats} = await check(QSF, {memory: 60});
    assert.equal(info.resident, false);
    assert.ok(stats.memoryBytes < 64e6, `${stats.memoryBytes} bytes`);
  });
  test('a file whose layers stream gives the same tokens where text repeats itself', async () => {
    const prompt = 'one two three four. one two three four. one two three', all = [];
    for (const options of [{}, {memory: 60, contextLength: 512, batch: 32}]) {
      const model = await load(QSF, {threads: 1, ...options}), ids = [];
      await collect(model.generate(prompt, {temperature: 0.8, seed: 3, maxTokens: 40, ignoreEnd: true,
        onToken: id => ids.push(id)}));
      all.push(ids);
      assert.equal(model.info.resident, !options.memory);
      assert.equal((await model.stats()).cachedTokens,
        (await model.tokenize(prompt, {addSpecial: true})).length + 39);
      await model.dispose();
    }
    assert.deepEqual(all[0], all[1]);
  });
  test('a GGUF file', async () => {
    const model = await load(GGUF, {contextLength: 512});
    const {ids, text} = await answer(model);
    assert.match(text, /Paris/);
    assert.deepEqual(ids, nativeTokens(GGUF, 24));
    await model.dispose();
  });
});

describe('what cannot be loaded', () => {
  const fails = async (from, wanted, options) => assert.rejects(load(from, options), code(wanted));
  test('a missing file', () => fails('/nowhere/model.qsf', 'NOT_FOUND'));
  test('a folder', () => fails('/', 'IO'));
  test('a file of something else', async () => {
    await writeFile(join(WORK, 'text.qsf'),
      'not a model, but long enough for a header of anything '.repeat(20));
    await fails(join(WORK, 'text.qsf'), 'CORRUPT');
  });
  test('a file that was cut short', async () => fails((await bytesOf(QSF)).subarray(0, 50_000_000),
    'CORRUPT'));
  test('a budget that nothing fits', () => fails(QSF, 'BUDGET', {memory: 3}));
  test('an aborted load', async () => {
    const reason = new Error('never mind');
    await assert.rejects(load(QSF, {signal: AbortSignal.abort(reason)}), reason);
    const stop = new AbortController();
    const loading = load(QSF, {signal: stop.signal});
    stop.abort(reason);
    await assert.rejects(loading, reason);
  });
  test('damaged bytes give no text', async () => {
    const bytes = await bytesOf(QSF);
    bytes[40_000_000] ^= 1;
    const model = await load(bytes, {threads: 1});
    await assert.rejects(answer(model), code('CORRUPT'));
    await model.dispose();
  });
});

test('whoever waits hears of dispose, and nothing works after it', async () => {
  const model = await load(QSF, {threads: 2, contextLength: 256});
  const running = answer(model, {maxTokens: 200, ignoreEnd: true});
  const asking = model.stats();
  await asking;
  const ended = assert.rejects(running, code('DISPOSED'));
  await model.dispose();
  await ended;
  await assert.rejects(model.stats(), code('DISPOSED'));
  await assert.rejects(answer(model), code('DISPOSED'));
  await model.dispose();
});
test('a process with a forgotten model ends, after an answer that was left too', async () => {
  for (const use of ["console.log((await m.tokenize('a b')).length)",
      "for await (const text of m.generate('Once upon a time')) if (text) { console.log(2); break; }"]) {
    const script =
      `import {load} from '${packaged('node.js')}'; const m = await load('${QSF}', ` +
      `{threads: 2, contextLength: 256}); ${use};`;
    const {stdout} = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script],
      {timeout: 240_000});
    assert.equal(stdout, '2\n');
  }
});
test('a variant that fails leaves the source to the next', async () => {
  const {Engine} = await import(packaged('engine.js')), warnings = [];
  let closed = 0;
  const compile = async variant => {
    if (variant !== 'simd') throw new Error('not here');
    return WebAssembly.compile(await readFile(packaged('qsf-simd.wasm')));
  };
  const source = {name: 'm', length: 0, close: () => { closed++; }};
  const engine = await Engine.create({source, threads: 1, relaxed: true, shared: false, compile,
    warn: text => warnings.push(text)});
  assert.equal(engine.variant, 'simd');
  assert.deepEqual(warnings, ['the module relaxed does not start: not here']);
  engine.end();
  assert.equal(closed, 0);
});
/* See wasm_wait32 in platform/wasm/thread.c. */
test('threads that begin late are free for the next context', async () => {
  const part = name => import(pathToFileURL(packaged(name)));
  const [{Engine}, {nodeHost}, {bytesSource}, {checked}] = await Promise.all(
    ['engine.js', 'node_host.js', 'source.js', 'options.js'].map(part));
  const script = `const {parentPort, workerData: {init, engine}} = require('node:worker_threads');
    parentPort.postMessage('here');
    import(engine).then(({runThread}) => runThread(init, () => {}));`;
  const startThread = init => new Promise((resolve, reject) => {
    const worker = new Worker(script, {eval: true, workerData: {init,
      engine: pathToFileURL(packaged('engine.js')).href}});
    worker.once('message', () => resolve(worker)).once('error', reject);
  });
  const engine = await Engine.create({...nodeHost(), source: bytesSource(tinyModel({codes: true, seed: 38})),
    startThread, shared: true, threads: 3, relaxed: false, warn() {}});
  await engine.open();
  const options = {...checked('load', {contextLength: 64}), threads: 0};
  for (let i = 0; i < 3; i++) await engine.context(options, {error: new Error('no GPU')});
  assert.equal(engine.info().threads, 3);
  engine.terminate();
});
