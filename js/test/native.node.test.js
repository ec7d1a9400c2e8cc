/* The native engine in place of the modules: chosen by itself or by name, with the same answers.
 * SPDX-License-Identifier: MIT
 *
 * QSF_TEST_NATIVE   a folder in which the package was installed with @qsf/PLATFORM */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readFile, rm, writeFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {after, before, beforeEach, describe, test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {Worker} from 'node:worker_threads';
import {hostile} from './answers.js';
import {tinyModel} from './tiny.js';
import {GGUF, PACKAGE, QSF, QUESTION, WORK, answer, collect, fileServer, nativeTokens} from './tools.js';

const folder = process.env.QSF_TEST_NATIVE, skip = folder ? false : 'no addon was built';
const entry = folder && pathToFileURL(join(folder, 'node_modules', 'qsf', 'node.js')).href;
const {load, estimate, cache} = folder ? await import(entry) : {};
const PENDING = 1;
const tiny = tinyModel({context: 2048}), LONG = {temperature: 0, ignoreEnd: true, maxTokens: 24};
process.env.QSF_CACHE = join(WORK, 'store');
delete process.env.QSF_BACKEND;

const textOf = async parts => (await collect(parts)).text;
async function using(from, options, body) {
  const model = await load(from, {contextLength: 512, threads: 1, ...options});
  try {
    return await body(model);
  } finally {
    await model.dispose();
  }
}

describe('which engine computes', {skip}, () => {
  beforeEach(() => { delete process.env.QSF_BACKEND; });
  const backendOf = options => using(tiny, options, ({info}) => [info.backend, info.variant === 'native']);

  test('the native one, if its package is installed', async () => {
    assert.deepEqual(await backendOf(), ['native', true]);
  });
  test('the one that is asked for', async () => {
    assert.deepEqual(await backendOf({backend: 'wasm'}), ['wasm', false]);
    process.env.QSF_BACKEND = 'wasm';
    assert.deepEqual(await backendOf(), ['wasm', false]);
    assert.deepEqual(await backendOf({backend: 'native'}), ['native', true]);
    process.env.QSF_BACKEND = 'fast';
    await assert.rejects(backendOf(), {code: 'ARGUMENT', message: /QSF_BACKEND is "fast"/});
    delete process.env.QSF_BACKEND;
    await assert.rejects(backendOf({backend: 'fast'}), {code: 'ARGUMENT', message: /must be wasm or native/});
  });
  test('a module, if an option is about modules', async () => {
    assert.deepEqual(await backendOf({relaxed: false}), ['wasm', false]);
    await assert.rejects(backendOf({backend: 'native', device: 'gpu'}), {code: 'UNSUPPORTED'});
  });
  test('a module without the package, and an error if it must be native', async () => {
    const run = options => execFileSync(process.execPath, ['--input-type=module', '-e', `
      const {load} = await import(${JSON.stringify(pathToFileURL(join(PACKAGE, 'node.js')).href)});
      const model = await load(${JSON.stringify(GGUF)}, ${JSON.stringify({threads: 1, ...options})})
        .catch(error => ({info: {backend: error.code + ': ' + error.message}, dispose() {}}));
      console.log(model.info.backend);
      await model.dispose();`], {encoding: 'utf8', cwd: WORK}).trim();
    assert.equal(run({contextLength: 512}), 'wasm');
    assert.match(run({backend: 'native'}), /^UNSUPPORTED: .* npm install @qsf\//);
  });
});

describe('answers', {skip}, () => {
  test('have the tokens of qsf-run, and those of the modules', async () => {
    const wanted = nativeTokens(GGUF, 12);
    for (const backend of ['native', 'wasm'])
      await using(GGUF, {backend}, async model => {
        assert.equal(model.info.isa === 'wasm', backend === 'wasm');
        assert.deepEqual((await answer(model, {maxTokens: 12})).ids, wanted);
      });
  });
  test('come from all kinds of sources', async () => {
    const texts = [], options = {temperature: 0, maxTokens: 8};
    for (const from of [new Blob([tiny]), tiny, tiny.buffer])
      texts.push(await using(from, {}, model => textOf(model.generate('Once', options))));
    assert.equal(texts[0].length, 8);
    assert.deepEqual(texts, texts.map(() => texts[0]));
  });
  test('come from a URL, whose file both engines keep in one cache', async () => {
    await rm(process.env.QSF_CACHE, {recursive: true, force: true});
    const server = await fileServer(QSF), wanted = nativeTokens(QSF, 24);
    try {
      for (const backend of ['native', 'wasm'])
        await using(server.url, {backend}, async model => {
          assert.deepEqual((await answer(model)).ids, wanted);
        });
      assert.deepEqual(server.asked, ['all']);
      assert.equal((await cache.list()).length, 1);
    } finally {
      server.close();
      await rm(process.env.QSF_CACHE, {recursive: true, force: true});
    }
  });
  test('come while layers are read from the file', async () => {
    const options = {memory: 60, contextLength: 256};
    await using(QSF, options, async model => {
      assert.equal(model.info.resident, false);
      assert.deepEqual((await answer(model)).ids, nativeTokens(QSF, 24));
    });
    const planned = await estimate(QSF, options);
    assert.ok(planned.fits && planned.memoryBytes <= 60e6);
  });
});

describe('20 conversations', {skip}, () => {
  const MANY = 20, said = i => [`Once ${'x'.repeat(i)}`, `And then ${i}`];
  const spoken = async (model, i) => {
    const talk = model.conversation({...LONG, template: 'chatml'}), texts = [];
    for (const text of said(i)) texts.push(await textOf(talk.chat(text)));
    return texts;
  };
  let wanted;
  before(async () => {
    wanted = await using(tiny, {maxParallel: 1, contextLength: 2048}, async model => {
      const all = [];
      for (let i = 0; i < MANY; i++) all.push(await spoken(model, i));
      return all;
    });
  });
  for (const options of [{contextLength: 4096}, {maxParallel: 4, contextLength: 352, threads: 2}])
    test(`at the same time have their own texts: ${JSON.stringify(options)}`, () =>
      using(tiny, options, async model => assert.deepEqual(
        await Promise.all(wanted.map((_, i) => spoken(model, i))), wanted)));
  test('in several threads of the caller', {timeout: 60_000}, async () => {
    const script = `const {load} = await import(${JSON.stringify(entry)});
      const {parentPort, workerData} = await import('node:worker_threads');
      const model = await load(workerData, {threads: 1, contextLength: 2048, maxParallel: 1});
      parentPort.postMessage((await model.conversation({temperature: 0, ignoreEnd: true, maxTokens: 24,
        template: 'chatml'}).chat(${JSON.stringify(said(3)[0])})).text);
      await model.dispose();`;
    const texts = await Promise.all([1, 2, 3].map(() => new Promise((resolve, reject) => {
      const url = new URL(`data:text/javascript,${encodeURIComponent(script)}`);
      new Worker(url, {workerData: tiny}).once('message', resolve).once('error', reject);
    })));
    assert.deepEqual(texts, [wanted[3][0], wanted[3][0], wanted[3][0]]);
  });
});

test('a session goes from one engine to the other', {skip}, async () => {
  const saved = await using(GGUF, {backend: 'native'}, async model => {
    await answer(model, {maxTokens: 4});
    return {session: await model.saveSession(), ids: (await answer(model, {maxTokens: 8})).ids};
  });
  await using(GGUF, {backend: 'wasm'}, async model => {
    const tokens = await model.loadSession(saved.session);
    assert.ok(tokens > 30, `${tokens} tokens`);
    assert.deepEqual((await answer(model, {maxTokens: 8})).ids, saved.ids);
    assert.ok((await model.stats()).promptTokens < 10, 'its prompt was computed again');
  });
});

test('a model that is not disposed of ends with the process', {skip}, () => {
  execFileSync(process.execPath, ['--input-type=module', '-e', `
    const {load} = await import(${JSON.stringify(entry)});
    const model = await load(${JSON.stringify(QSF)}, {contextLength: 512});
    await model.chat(${JSON.stringify(QUESTION)}, {maxTokens: 4});`], {timeout: 60_000});
});

const addon = folder && join(folder, 'node_modules', '@qsf', `${process.platform}-${process.arch}`,
  'qsf.node');

describe('several tokens in a call', {skip}, () => {
  const MOST = 40, path = join(WORK, 'pieces.gguf');
  before(() => writeFile(path, tiny));

  /* An answer's tokens, ends and texts, of which a call may take `most`, and how many calls there
   * were. watched: for watch(). */
  function answered(most, watched) {
    const all = [];
    let end = 0;
    const take = () => {
      const taken = x.taken();
      for (let i = 0; i < taken.length;) {
        const piece = taken.slice(i, i += 4 + 4 * taken[i + 3]);
        assert.equal(piece[0], 0);
        end = piece[2];
        all.push(piece);
      }
      return taken.length;
    };
    const x = createRequire(import.meta.url)(addon).engine({pieces: () => Number(take() > 0)});
    if (watched) x.watch(watched);
    const bytes = array => {
      const at = x.alloc(array.byteLength);
      x.put(at, new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
      return at;
    };
    const list = (...words) => bytes(new TextEncoder().encode(`${words.join('\0')}\0\0`));
    const model = x.model(true);
    assert.equal(x.qsf_flat_model_open(model, list(path), 0), 0);
    const context = x.qsf_flat_context_new(model);
    assert.equal(x.qsf_flat_context_open(context, list('ctx-size', 256, 'threads', 1)), 0);
    const talk = x.qsf_flat_conversation_new(context, 0);
    assert.equal(x.qsf_flat_conversation_text(talk, bytes(new TextEncoder().encode('Once')), 4), 0);
    const answer = x.qsf_flat_answer_new(talk, list('temperature', 0, 'max-tokens', MOST, 'ignore-end',
      'true'));
    assert.equal(x.qsf_flat_answer_begin(answer), 0);
    const one = bytes(Uint32Array.of(answer));
    let calls = 0;
    for (; !end; calls++) {
      const status = x.pieces(context, one, 1, most), taken = take();
      assert.ok(status === 0 || (status === PENDING && !taken), `${status}`);
      assert.deepEqual(x.taken(), []);
    }
    x.end();
    return {all, calls};
  }
  test('are those of a call for each', () => {
    const single = answered(1), several = answered(8);
    assert.equal(single.all.length, MOST + 1);
    assert.ok(single.calls >= MOST);
    assert.deepEqual(several.all, single.all);
    assert.ok(several.calls < MOST, `${several.calls} calls`);
  });
  test('are one if the thread is awaited, as its memory says', () => {
    const counts = new Int32Array(new SharedArrayBuffer(8)), calls = () => answered(MOST, counts).calls;
    assert.ok(calls() < MOST);
    Atomics.add(counts, 0, 1);
    assert.ok(calls() >= MOST);
    Atomics.add(counts, 1, 1);
    assert.ok(calls() < MOST);
    for (const wrong of [undefined, new Int32Array(2), new Int32Array(new SharedArrayBuffer(12)),
      new Uint32Array(new SharedArrayBuffer(8))])
      assert.throws(() => answered(1, wrong ?? {}), {message: /^watch: it takes an Int32Array/});
  });
  test('have every form, in every order', async () => {
    const seen = await hostile(() => load(tiny, {threads: 1, backend: 'native'}), 60, 3);
    assert.ok(seen.answers > 6 && seen.calls && seen.left, JSON.stringify(seen));
  });
});

test('the addon gives no memory of its own to JavaScript, which Electron forbids', {skip}, async () => {
  const bytes = await readFile(addon);
  assert.ok(bytes.includes('napi_create_array'), 'names of functions are not in the file');
  assert.ok(!bytes.includes('napi_create_external'));
});

/* The addon itself, called as the package never would. */
describe('misuse of the addon', {skip}, () => {
  const rounds = Number(process.env.QSF_TEST_ROUNDS ?? 2);
  for (let round = 1; round <= rounds; round++)
    test(`round ${round} ends without a crash`, () => {
      execFileSync(process.execPath, ['js/test/misuse.js', addon, String(round)], {timeout: 120_000});
    });
});
