/* Builds and runs a page with each bundler of docs/bundlers.md that ./test does not try.
 * SPDX-License-Identifier: MIT
 *
 *   node js/test/bundlers.mjs PACKAGE WORK_FOLDER [vite7] [vite7dev] [webpack] [next]
 *
 * PACKAGE is build/wasm/js, or what `npm pack` made of it. npm fetches the bundlers into
 * WORK_FOLDER; QSF_TEST_TOOLS names the folder with playwright-core (~/.cache/qsf/npm),
 * QSF_TEST_CHROMIUM the browser. A minute each. */
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {cp, mkdir, readFile, rm, writeFile} from 'node:fs/promises';
import {createRequire} from 'node:module';
import {homedir} from 'node:os';
import {join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {serve} from '../../demo/serve.mjs';

const [source, place, ...names] = process.argv.slice(2);
if (!place)
  throw new Error('node js/test/bundlers.mjs PACKAGE WORK_FOLDER [vite7] [vite7dev] [webpack] [next]');
const PACKAGE = resolve(source),
  WORK = resolve(place),
  {chromium} = createRequire(join(process.env.QSF_TEST_TOOLS ?? join(homedir(), '.cache/qsf/npm'), 'x.js'))(
    'playwright-core',
  );
const TINY = fileURLToPath(new URL('../../tests/golden/tiny.qsf', import.meta.url));

/* The recipes as they stand there. */
const page = await readFile(new URL('../../docs/bundlers.md', import.meta.url), 'utf8');
const recipe = name => page.split(`\`\`\`js ${name}\n`)[1].split('```')[0];

const ANSWER = `async () => {
  const model = await load('/model.qsf', {contextLength: 64, threads: 2}), ids = [];
  const options = {temperature: 0, maxTokens: 12, ignoreEnd: true, onToken: id => ids.push(id)};
  for await (const text of model.generate('abc', options)) void text;
  await model.dispose();
  return {ids, variant: model.info.variant, warnings: model.info.warnings};
}`;
const MAIN = `import {load} from 'qsf';\nglobalThis.run = ${ANSWER};\n`;
const HTML =
  '<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title>' +
  '<link rel="icon" href="data:,"><script type="module" src="./main.js"></script></html>';

/* needs: packages; files; build: a command of node_modules/.bin; out: what is served at base, or
 * port: where the command itself serves; click: what begins it. */
const VITE = {needs: ['vite@7.3.8'], files: {'index.html': HTML, 'main.js': MAIN}};
const BUNDLERS = {
  vite7: {...VITE, build: ['vite', 'build', '--base', './'], out: 'dist'},
  vite7dev: {
    ...VITE,
    files: {...VITE.files, 'vite.config.js': recipe('vite')},
    build: ['vite', '--host', '127.0.0.1', '--port', '5199', '--strictPort'],
    port: 5199,
  },
  webpack: {
    needs: ['webpack@5.112.2', 'webpack-cli@7.3.1'],
    build: ['webpack'],
    out: 'dist',
    files: {
      'src/main.js': MAIN,
      'dist/index.html': HTML.replace('type="module" ', ''),
      'webpack.config.js':
        "export default {mode: 'production', entry: './src/main.js', output: {filename: 'main.js'}};\n",
    },
  },
  next: {
    needs: ['next@16.4.6', 'react@19.3.1', 'react-dom@19.3.1'],
    build: ['next', 'build'],
    out: 'out',
    base: '/',
    click: 'button',
    files: {
      'next.config.mjs': "export default {output: 'export', serverExternalPackages: ['qsf']};\n",
      'app/layout.js': 'export default ({children}) => <html lang="en"><body>{children}</body></html>;\n',
      'app/page.js': recipe('next'),
    },
  },
};

const browser = await chromium.launch({
  executablePath: process.env.QSF_TEST_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
async function answerOf(url, click) {
  const page = await browser.newPage(),
    errors = [],
    said = [];
  page.on('pageerror', error => errors.push(error.message));
  page.on('console', message => {
    (message.type() === 'error' ? errors : said).push(message.text());
  });
  await page.goto(url);
  let answer;
  if (click) {
    for (const begin = Date.now(); said.length < 3 && Date.now() - begin < 20_000;) {
      if (!said.length) await page.click(click); // the first clicks are lost if the page is not ready
      await new Promise(resolve => setTimeout(resolve, 1000));
    }
    assert.ok(said.length >= 3, `nothing came: ${errors}`);
  } else {
    await page
      .waitForFunction(() => globalThis.run, undefined, {polling: 50, timeout: 20_000})
      .catch(error => {
        throw new Error(`${error.message}; the page says ${errors}`);
      });
    answer = await page.evaluate(() => run());
  }
  await page.close();
  assert.deepEqual(
    errors.filter(e => !/favicon|404/.test(e)),
    [],
  );
  return answer;
}
async function served(mounts, base, click) {
  const server = await serve([...mounts, ['/model.qsf', TINY]]);
  try {
    return await answerOf(`http://127.0.0.1:${server.address().port}${base}`, click);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
async function developed([command, ...args], port, folder) {
  await mkdir(join(folder, 'public'), {recursive: true});
  await cp(TINY, join(folder, 'public/model.qsf'));
  const server = spawn(join(folder, 'node_modules/.bin', command), args, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await new Promise((resolve, reject) => {
      server.stdout.on('data', text => {
        if (String(text).includes('Local')) resolve();
      });
      server.on('exit', code => reject(new Error(`${command} ended with code ${code}`)));
    });
    return await answerOf(`http://127.0.0.1:${port}/`);
  } finally {
    server.kill();
  }
}

try {
  await mkdir(WORK, {recursive: true});
  await writeFile(
    join(WORK, 'plain.html'),
    HTML.replace(' src="./main.js">', `>${MAIN.replace("'qsf'", "'/qsf/browser.js'")}`),
  );
  const plain = await served(
    [
      ['/', WORK],
      ['/qsf', PACKAGE],
    ],
    '/plain.html',
  );
  for (const name of names.length ? names : Object.keys(BUNDLERS)) {
    const {
        needs,
        files,
        build,
        out,
        port,
        base = '/app/',
        click,
      } = BUNDLERS[name] ?? assert.fail(`no bundler is called ${name}`),
      folder = join(WORK, name),
      begin = Date.now();
    await rm(folder, {recursive: true, force: true});
    await mkdir(folder, {recursive: true});
    await writeFile(join(folder, 'package.json'), '{"private": true, "type": "module"}');
    execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', ...needs], {
      cwd: folder,
      stdio: 'inherit',
    });
    await cp(PACKAGE, join(folder, 'node_modules/qsf'), {recursive: true});
    for (const [file, text] of Object.entries(files)) {
      await mkdir(join(folder, file, '..'), {recursive: true});
      await writeFile(join(folder, file), text);
    }
    if (!port)
      execFileSync(join(folder, 'node_modules/.bin', build[0]), build.slice(1), {
        cwd: folder,
        stdio: 'inherit',
        env: {...process.env, NEXT_TELEMETRY_DISABLED: '1'},
      });
    const answer = port
      ? await developed(build, port, folder)
      : await served([[base, join(folder, out)]], base, click);
    if (!click) assert.deepEqual(answer, plain);
    console.log(
      `${name}: ${click ? 'answers' : `${plain.variant}, the answer of the plain page`}; ` +
        `${Math.round((Date.now() - begin) / 1000)} s`,
    );
  }
} finally {
  await browser.close();
}
