/* What a model is loaded with: the window over keys and values, their kinds, early exit, the head,
 * and what the statistics and warnings say of it.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {before, describe, test} from 'node:test';
import {promisify} from 'node:util';
import {QSF, answer, code, collect, estimate, fileServer, load, nativeTokens, packaged} from './tools.js';

const STORY = 'Once upon a time';

/** What use(model) gives, of a model that is gone afterwards. */
async function using(options, use, from = QSF) {
  const model = await load(from, {threads: 1, ...options});
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}
/** A greedy text of n tokens: {ids, text, reason}. */
async function story(model, n, options = {}) {
  const ids = [];
  return collect(model.generate(STORY, {temperature: 0, ignoreEnd: true, maxTokens: n,
    onToken: id => ids.push(id), ...options}), ids);
}

describe('a window over keys and values', () => {
  const WINDOW = {contextLength: 32, kvWindow: 16};
  let without, within;
  before(async () => {
    without = await using({contextLength: 32}, model => story(model, 40));
    within = await using(WINDOW, async model => ({...await story(model, 40), again: await story(model, 40),
      cachedTokens: (await model.stats()).cachedTokens}));
  });
  test('gives the native tokens, shorter and longer than it', async () => {
    for (const kvWindow of [128, 16])
      assert.deepEqual((await using({kvWindow}, answer)).ids,
        nativeTokens(QSF, 24, ['-t', '1', '--kv-window', String(kvWindow)]), `${kvWindow}`);
  });
  test('lets the text go on beyond the context, where it ends without', () => {
    assert.equal(without.reason, 'full');
    assert.ok(without.ids.length < 32);
    assert.equal(within.reason, 'length');
    assert.equal(within.ids.length, 40);
    assert.ok(within.cachedTokens > 32);
    assert.deepEqual(within.ids.slice(0, 8), without.ids.slice(0, 8));
  });
  test('computes again what it has dropped', () => assert.deepEqual(within.again.ids, within.ids));
  test('with heavy hitters gives another text', async () => {
    const {ids} = await using({...WINDOW, kvHeavy: 32}, model => story(model, 40));
    assert.equal(ids.length, 40);
    assert.deepEqual(ids.slice(0, 8), within.ids.slice(0, 8));
    assert.notDeepEqual(ids, within.ids);
  });
  test('gives the same text where layers stream', () => using({...WINDOW, memory: 60}, async model => {
    assert.equal(model.info.resident, false);
    assert.deepEqual((await story(model, 40)).ids, within.ids);
  }));
  test('takes a prompt that is longer than the context, and says that its session cannot be saved',
    () => using({...WINDOW, batch: 32}, async model => {
      assert.equal((await collect(model.generate('word '.repeat(100),
        {temperature: 0, maxTokens: 2, ignoreEnd: true}))).reason, 'length');
      await assert.rejects(model.saveSession(), code('UNSUPPORTED', /window/));
    }));
});

describe('other options', () => {
  test('early exit leaves layers out', async () => {
    const [all, early] = await Promise.all([{}, {earlyExit: 0.9}]
      .map(more => using({contextLength: 256, ...more}, async model => {
        const {ids} = await story(model, 16), {layersLeft} = await model.stats();
        return {ids: ids.length, layersLeft};
      })));
    assert.deepEqual(all, {ids: 16, layersLeft: 0});
    assert.equal(early.ids, 16);
    assert.ok(early.layersLeft > 0);
  });
  test('a screened head finds the likeliest token', async () => {
    const {text, plan} = await using({contextLength: 256, head: 'screen'},
      async model => ({...await answer(model, {maxTokens: 7}), plan: model.info.plan}));
    assert.match(text, /Paris/);
    assert.ok(plan.some(part => part.name === 'approximate head'));
  });
  test('a file without clusters says what it lacks',
    () => assert.rejects(load(QSF, {head: 'clusters'}), code('UNSUPPORTED', /clusters/)));
  test('checksums are compared once, or every time', async () => {
    const [first, every] = await Promise.all(['first', 'every']
      .map(check => using({memory: 30, contextLength: 256, check}, async model => {
        await story(model, 12);
        return (await model.stats()).checkNs;
      })));
    assert.ok(every > 1.5 * first, `${first} and ${every} ns`);
  });
  test('what makes no sense is refused before anything is read', async () => {
    for (const [options, pattern] of [
      [{kvWindow: -1}, /^kvWindow is -1; .* whole number from 0 to 16777216$/], [{kvWindow: 1.5}, /kvWindow/],
      [{kvWindow: '256'}, /^kvWindow is "256"/], [{kvSinks: NaN}, /kvSinks/],
      [{kvHeavy: 64}, /kvHeavy.* needs kvWindow/],
      [{earlyExit: 1.1}, /^earlyExit is 1.1; it must be a number from 0 to 1$/],
      [{earlyExit: 0.95, kvWindow: 64}, /earlyExit .*kvWindow/],
      [{check: 'never'}, /^check is "never"; it must be first or every$/],
      [{head: 'best'}, /exact, screen, clusters/], [{kv: 'q3'}, /f16, q8.*q2/], [{kv: null}, /kv is null/],
      [{memory: '24'}, /^memory is "24"/], [{memory: Infinity}, /memory/],
      [{contextLength: -5}, /contextLength/], [{threads: 2.5}, /threads/], [{batch: 1e9}, /batch/],
      [{quality: 2}, /quality/],
      [{kvMayDrop: 1}, /^kvMayDrop is 1; it must be true or false$/], [{cache: 'yes'}, /cache/],
      [{relaxed: 1}, /relaxed/],
      [{ramBudget: 24}, /^no option of load\(\) is called ramBudget; its name here is memory$/],
      [{toString: 1}, /toString/],
    ]) {
      await assert.rejects(load('/nowhere.qsf', options), code('ARGUMENT', pattern), JSON.stringify(options));
      await assert.rejects(estimate('/nowhere.qsf', options), code('ARGUMENT', pattern),
        JSON.stringify(options));
    }
    await assert.rejects(load('/nowhere.qsf', {kvWindow: undefined}), code('NOT_FOUND'));
  });
  test('reach the terminal', async () => {
    const run = (...more) => promisify(execFile)(process.execPath,
      [packaged('cli.js'), QSF, '--raw', '-p', STORY, '--temp', '0', '-n', '24', '-c', '16', '-t', '1',
        '--ids', ...more]);
    assert.match((await run()).stderr, /context is full.*--kv-window/);
    const {stdout, stderr} = await run('--kv-window', '16', '--kv-sinks', '0', '--kv-heavy', '32', '--kv',
      'q8v4', '--check', 'every', '--head-topk', 'exact', '-v');
    assert.equal(JSON.parse(stdout).ids.length, 24);
    assert.match(stderr, /sampling \d+ ms/);
    await assert.rejects(run('--early-exit', 'soon'),
      ({code, stderr: text}) => code === 1 && /earlyExit is "soon"/.test(text));
  });
});

describe('estimate()', () => {
  test('knows keys and values in fewer bits, and a window', async () => {
    const all = [];
    for (const options of [{kv: 'f32'}, {kv: 'f16'}, {}, {kv: 'q8v4'}, {kv: 'q4'}, {kv: 'q4v2'}, {kv: 'q2'},
      {kv: 'q4', kvWindow: 1024, kvHeavy: 256}, {kv: 'q4', kvWindow: 1024}])
      all.push((await estimate(QSF, {threads: 1, contextLength: 4096, ...options})).memoryBytes);
    assert.deepEqual(all, [...all].sort((a, b) => b - a));
    assert.equal(new Set(all).size, all.length);
  });
  test('is what load() takes, with the same warnings', async () => {
    for (const options of [{kvWindow: 256, kvHeavy: 64, memory: 24}, {earlyExit: 0.95, head: 'screen'},
        {memory: 16, contextLength: 2048}, {memory: 14, contextLength: 512, kvMayDrop: true}]) {
      const guess = await estimate(QSF, {threads: 1, ...options}),
        info = await using(options, model => model.info);
      assert.equal(guess.memoryBytes, info.planBytes);
      assert.deepEqual(guess.plan, info.plan);
      assert.deepEqual(guess.warnings, info.warnings);
    }
  });
  test('knows what the plan may drop where it is allowed', async () => {
    const little = {threads: 1, memory: 14, contextLength: 512},
      [not, may] = [await estimate(QSF, little), await estimate(QSF, {...little, kvMayDrop: true})];
    assert.match(not.warnings.join(), /keys and values q8 -> q4\b/);
    assert.match(may.warnings.join(), /positions that stay 512 -> \d+, by attention, to stay within 14 MB/);
    assert.doesNotMatch(not.warnings.join(), /positions/);
    assert.doesNotMatch(may.warnings.join(), /q4\b/);
  });
  test('warns of what may show in the answers, and of nothing else', async () => {
    const little = await estimate(QSF, {threads: 1, memory: 24}),
      none = await estimate(QSF, {threads: 1, memory: 60, contextLength: 512});
    assert.ok(little.warnings.some(text => /^context length 4096 -> \d+, to stay within 24 MB$/.test(text)),
      little.warnings.join());
    assert.ok(little.reductions.length > little.warnings.length);
    assert.ok(none.reductions.length);
    assert.deepEqual(none.warnings, []);
  });
});

test('a lower quality warns where the file does not say what matters', async () => {
  assert.match((await using({quality: 0.8}, model => model.info.warnings)).join(),
    /does not mark less important layers/);
});

describe('statistics', () => {
  const PARTS = ['matmulNs', 'attentionNs', 'headNs', 'otherNs'];
  let stats;
  before(async () => {
    stats = await using({memory: 60, contextLength: 512}, async model => {
      await story(model, 8);
      return model.stats();
    });
  });
  test('split the time', () => {
    const sum = PARTS.reduce((all, name) => all + stats[name], 0), whole = stats.promptNs + stats.generatedNs;
    for (const name of [...PARTS, 'samplingNs', 'readNs', 'checkNs', 'prepareNs', 'bytesRead'])
      assert.ok(stats[name] > 0, `${name} ${stats[name]}`);
    assert.ok(sum <= whole && sum + stats.waitNs + stats.prepareNs > whole / 4, JSON.stringify(stats));
    assert.ok(stats.checkNs + stats.decompressNs <= stats.prepareNs);
    assert.ok(stats.overlap >= 0 && stats.overlap <= 1);
  });
  test('count what computing waits for where bytes come later', async t => {
    const server = await fileServer(QSF, (request, response, {ranged, send}) => !ranged && (
      send({rate: 60e6}), true));
    t.after(server.close);
    const slow = await using({contextLength: 256, cache: false}, async model => {
      await story(model, 4);
      return model.stats();
    }, server.url);
    assert.ok(slow.waitNs > slow.promptNs / 8 && slow.waitNs < slow.promptNs, JSON.stringify(slow));
    assert.ok(slow.readNs >= slow.waitNs / 2);
  });
});
