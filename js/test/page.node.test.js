/* What of the page runs without one: the Markdown renderer against hostile text, events of a server
 * in pieces, and the server of demo/.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {request} from 'node:http';
import {connect} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';
import {events} from '../../demo/client.js';
import {Markdown, address} from '../../demo/markdown.js';
import {readArguments, serve} from '../../demo/serve.mjs';
import {spent} from './spent.js';

/* As much of a document as the renderer asks for. It has no innerHTML, so what
 * would need one fails. */
class Text {
  constructor(data) { this.data = data; }
  get html() { return this.data.replace(/[&<>]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'})[c]); }
  get depth() { return 0; }
  remove() { this.parent?.childNodes.splice(this.parent.childNodes.indexOf(this), 1); }
}
class Element extends Text {
  childNodes = []; attributes = {};
  constructor(tag) { super(''); this.tag = tag; }
  get lastChild() { return this.childNodes.at(-1); }
  append(...nodes) {
    for (const node of nodes) {
      const child = typeof node === 'string' ? new Text(node) : node;
      child.parent = this;
      this.childNodes.push(child);
    }
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  set textContent(text) { this.childNodes = []; this.append(text); }
  get inner() { return this.childNodes.map(child => child.html).join(''); }
  get html() {
    const attributes = Object.entries(this.attributes).filter(([name]) => !['rel', 'target', 'type']
      .includes(name)).map(([name, value]) => ` ${name}="${value}"`).join('');
    return ['br', 'hr'].includes(this.tag) ? `<${this.tag}>`
      : `<${this.tag}${attributes}>${this.inner}</${this.tag}>`;
  }
  get depth() { return 1 + Math.max(0, ...this.childNodes.map(child => child.depth)); }
}
const doc = {createElement: tag => new Element(tag), createElementNS: (_, tag) => new Element(tag)};
function render(text, step = Infinity) {
  const root = new Element('div'), markdown = new Markdown(root, doc);
  for (let at = step; at < text.length; at += step) markdown.update(text.slice(0, at));
  markdown.update(text);
  return root;
}
const html = text => render(text).inner;

describe('Markdown', () => {
  const cases = {
    'paragraphs and breaks': ['a\nb\n\nc  \nd', '<p>a\nb</p><p>c<br>d</p>'],
    'headings, none left out': ['## A #\n\n###### b\n\n## c', '<h3>A</h3><h4>b</h4><h4>c</h4>'],
    'emphasis': ['*a* **b** ***c*** ~~d~~ _e_ __f__',
      '<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del> <em>e</em> ' +
      '<strong>f</strong></p>'],
    'emphasis inside emphasis': ['**a *b* c**', '<p><strong>a <em>b</em> c</strong></p>'],
    'no emphasis': ['2 * 3 * 4, snake_case_name, **open, a *b',
      '<p>2 * 3 * 4, snake_case_name, **open, a *b</p>'],
    'code': ['`a*b*` ``c`d`` `open', '<p><code>a*b*</code> <code>c`d</code> `open</p>'],
    'escapes': ['\\*a\\* \\`b\\` \\[c](http://x.y)',
      '<p>*a* `b` [c](<a href="http://x.y/">http://x.y</a>)</p>'],
    'formulas': ['\\(x_1\\) and \\[a*b\\], $\\{y^2\\}$, $$*z*$$',
      '<p><math><msub><mi>x</mi><mn>1</mn></msub></math> and <math '
        + 'display="block"><mi>a</mi><mo>∗</mo><mi>b</mi>' +
      '</math>, <math><mo>{</mo><msup><mi>y</mi><mn>2</mn></msup><mo>}</mo></math>, <math display="block">' +
      '<mo>∗</mo><mi>z</mi><mo>∗</mo></math></p>'],
    'formulas of several lines': ['\\[\n- a\n+ 1\n\\]\nso\n\n$$\n1. never\n\n- ends',
      '<p><math display="block"><mo>−</mo><mi>a</mi><mo>+</mo><mn>1</mn></math></p><p>so</p><p>$$\n1. ' +
      'never</p><ul><li><p>ends</p></li></ul>'],
    'formulas that are not well formed stay as they came': ['\\(a}b\\) $\\frac{1}$ $\\begin{x}$ '
      + '\\(\\left(x\\)',
      '<p>\\(a}b\\) $\\frac{1}$ $\\begin{x}$ \\(\\left(x\\)</p>'],
    'task lists': ['- [ ] a\n- [x] b\n- [c] d', '<ul><li class="task"><span role="img" aria-label="to '
      + 'do">☐</span>' +
      '<p>a</p></li><li class="task"><span role="img" aria-label="done">☑</span><p>b</p></li><li><p>[c] '
        + 'd</p>' +
      '</li></ul>'],
    'money, and formulas that do not end': ['*$5* and *$6*, $7/$8, \\)c, \\(a *b*, \\[d',
      '<p><em>$5</em> and <em>$6</em>, $7/$8, )c, (a <em>b</em>, [d</p>'],
    'escapes of every mark': ['\\!\\"\\#\\$\\%\\&\\*\\+\\-\\.\\<\\=\\>\\_\\|\\~\\\\ \\a',
      '<p>!"#$%&amp;*+-.&lt;=&gt;_|~\\ \\a</p>'],
    'images are links': ['![a *b*](https://x.y/i.png) ![](https://x.y) ![c] ![d](e.png) ! [f]',
      '<p><a href="https://x.y/i.png">a <em>b</em></a> <a href="https://x.y/">image</a> ![c] ![d](e.png) ! ' +
      '[f]</p>'],
    'an image in a link': ['[![a](https://x.y/i.png)](https://x.y)', '<p><a href="https://x.y/">a</a></p>'],
    'lists': ['- a\n- b\n  - c\n- d\n\n3. x\n4. y',
      '<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul></li><li><p>d</p></li></ul><ol ' +
      'start="3"><li><p>x</p></li><li><p>y</p></li></ol>'],
    'a list under a number': ['1. a\n  - b\n2. c',
      '<ol><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ol>'],
    'a loose list': ['- a\n\n  more\n\n- b\n\nend',
      '<ul><li><p>a</p><p>more</p></li><li><p>b</p></li></ul><p>end</p>'],
    'a year is no list': ['born in\n1999. Yes', '<p>born in\n1999. Yes</p>'],
    'quotes': [
      '> a\nb\n> - c\n\nd', '<blockquote><p>a\nb</p><ul><li><p>c</p></li></ul></blockquote><p>d</p>'],
    'rules': ['a\n\n---\n\nb', '<p>a</p><hr><p>b</p>'],
    'tables': ['| a | b |\n|---|--:|\n| 1 | **2** |\n| 3 |\n\nx',
      '<div class="table" tabindex="0"><table><tr><th>a</th><th class="right">b</th></tr><tr><td>1</td><td ' +
      'class="right"><strong>2</strong></td></tr><tr><td>3</td></tr></table></div><p>x</p>'],
    'links': ['[a *b*](https://x.y/z "t") <https://x.y> see https://x.y/a_(b).',
      '<p><a href="https://x.y/z">a <em>b</em></a> <a href="https://x.y/">https://x.y</a> see <a ' +
      'href="https://x.y/a_(b)">https://x.y/a_(b)</a>.</p>'],
  };
  for (const [name, [text, want]] of Object.entries(cases)) test(name, () => assert.equal(html(text), want));

  test('fences', () => {
    const figure = (word, code) =>
      `<figure class="code"><figcaption><span>${word}</span><button ` +
      `class="copy">Copy</button></figcaption><pre tabindex="0"><code>${code}</code></pre></figure>`;
    assert.equal(html('```text\nif a:\n\tb()\n\n# c\n```\nend'),
      `${figure('text', 'if a:\n\tb()\n\n# c\n')}<p>end</p>`);
    assert.equal(html('```py\nif a: b("<i>")  # c\n```'), figure('py',
      '<span class="code-keyword">if</span> a: ' +
      '<span class="code-name">b</span>(<span class="code-string">"&lt;i&gt;"</span>)  ' +
      '<span class="code-comment"># c</span>\n'));
    assert.equal(html('~~~\n```\n<b>'), figure('', '```\n&lt;b&gt;\n'));
    assert.equal(html('- a\n  ```\n  x\n  ```\n- b'),
      `<ul><li><p>a</p>${figure('', 'x\n')}</li><li><p>b</p></li></ul>`);
  });
  test('HTML is text', () => {
    for (const text of ['<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '[<b>](https://x.y)',
      '| <i> |\n|---|\n| <u> |', '# <svg onload=x>'])
      assert.doesNotMatch(html(text), /<(script|img|b|i|u|svg)[ >]/);
  });
  test('links lead to http(s) only', () => {
    for (const to of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', ' javascript:x', 'data:text/html,x',
        'vbscript:x', '//evil.example', '/local', 'java\tscript:x', 'http:/\\x', 'https://',
        'file:///etc/passwd']) {
      assert.doesNotMatch(html(`[a](${to}) [a](<${to}>) <${to}>`), /href/, to);
      assert.equal(address(to), undefined, to);
    }
    const [link] = render('[a](https://x.y)').childNodes[0].childNodes;
    assert.deepEqual({...link.attributes},
      {href: 'https://x.y/', rel: 'noopener noreferrer', target: '_blank'});
    assert.doesNotMatch(html('![a](https://x.y/i.png)'), /<img/);
  });
  test('links do not nest', () => {
    assert.doesNotMatch(html('[a [b](http://x.y) c](http://z.y) [<http://x.y>](http://z.y)'),
      /<a [^>]*>[^/]*<a /);
  });
  test('the same text comes out however it arrives', () => {
    const all = Object.values(cases).map(([text]) => text)
      .join('\n\n') + '\n\n```c\nint a;\n\nint b;\n```\n\nlast\n';
    for (const step of [1, 2, 7, 64]) assert.equal(render(all, step).inner, html(all));
  });
  test('hostile text takes time in proportion, and no deep tree', () => {
    const n = 40_000;
    for (const part of ['*', '_', '**a ', '*a_b', '[', '[a](', '[a](b', '![', '![a](http://x.y)', '[![', '$',
        '$$', '$a', '$ ', '\\(', '\\[', '\\(a\\', '\\[\n', '$$\n', ']', '`', '`a', '~~', '<', 'http://',
        'https://a', '\\', '> ', '>', '- ', '1. ', '#', '# ', '|', '|-', '| a ', ' ', '\t', '  \n', '> - ',
        '```', '``` ', '- a\n  ', '> a\n', '*[a_', '(', '[a](http://x.y/', '* _ ', '*a**b***c', '``` `', '-',
        '=', '\0', '\u202e', '\ud800', '&amp;']) {
      const text = part.repeat(Math.ceil(n / part.length));
      const before = spent(), root = render(text), ms = spent() - before;
      assert.ok(ms < 1500, `${JSON.stringify(part)}: ${ms.toFixed(0)} ms`);
      assert.ok(root.depth < 80, `${JSON.stringify(part)}: ${root.depth} deep`);
    }
    // of all lengths, none of which is closed
    const runs = Array.from({length: 600}, (_, i) => '`'.repeat(i + 1)).join(' ');
    const before = spent();
    render(runs);
    assert.ok(spent() - before < 20_000);
  });
  test('an answer that grows is cheap', () => {
    const text = 'Some words with `code` and **weight**, and so on for a while.\n\n'.repeat(400),
      before = spent();
    render(text, 8);
    assert.ok(spent() - before < 20_000, `${spent() - before} ms`);
  });
});

describe('the arguments of serve.mjs', () => {
  test('those that it knows', () => {
    assert.deepEqual(readArguments(['/=a', '--port', '81', '/m=b=c', '--no-isolation']),
      {mounts: [['/', 'a'], ['/m', 'b=c']], port: 81, isolation: false});
    assert.equal(readArguments(['--port=0', '/=a']).port, 0);
    assert.ok(readArguments(['--help']).help);
  });
  test('others are refused by name', () => {
    for (const [args, word] of [[['--prt', '81', '/=a'], '--prt'], [['/=a', '--isolation'], '--isolation'],
      [['--port', '/=a'], '/=a'], [['/=a', '--port'], 'nothing'], [['--port', '65536', '/=a'], '65536'],
      [['--port', '-1', '/=a'], '-1'], [['build'], 'build'], [['models=here'], 'models=here'], [[], 'serve']])
      assert.throws(() => readArguments(args), {message: new RegExp(word)}, args.join(' '));
  });
  test('the program says how it is called', () => {
    const program = fileURLToPath(new URL('../../demo/serve.mjs', import.meta.url));
    const run = spawnSync(process.execPath, [program, '--prt', '81', '/=.'], {encoding: 'utf8'});
    assert.equal(run.status, 2);
    assert.match(run.stderr, /^unknown option --prt\nusage: node demo\/serve\.mjs /);
    assert.equal(run.stdout, '');
    const help = spawnSync(process.execPath, [program, '--help'], {encoding: 'utf8'});
    assert.equal(help.status, 0);
    for (const word of ['usage: ', '--port', '--no-isolation', '--help'])
      assert.ok(help.stdout.includes(word), word);
  });
});

describe('serve.mjs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'qsf-serve-'));
  let server;
  before(async () => {
    mkdirSync(join(folder, 'in/sub'), {recursive: true});
    writeFileSync(join(folder, 'secret'), 'secret');
    writeFileSync(join(folder, 'in/ten.bin'), '0123456789');
    writeFileSync(join(folder, 'in/empty.bin'), '');
    writeFileSync(join(folder, 'in/sub/index.html'), 'sub');
    server = await serve([['/', join(folder, 'in')], ['/m', join(folder, 'in')]]);
  });
  after(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, {recursive: true});
  });
  const get = (path, headers = {}, method = 'GET') => new Promise((resolve, reject) => {
    request({port: server.address().port, host: '127.0.0.1', path, method, headers}, response => {
      let body = '';
      response.on('data', part => { body += part; })
        .on('end', () => resolve({status: response.statusCode, headers: response.headers, body}));
    }).on('error', reject).end();
  });
  const ranges = {'bytes=0-3': [206, '0123'], 'bytes=7-': [206, '789'], 'bytes=-3': [206, '789'],
    'bytes=-500': [206, '0123456789'], 'bytes=4-99': [206, '456789'], 'bytes=9-9': [206, '9'],
    'bytes=10-': [416], 'bytes=-0': [416], 'bytes=5-2': [200, '0123456789'],
      'bytes=0-1,3-4': [200, '0123456789'], 'bytes=-': [200, '0123456789'], 'lines=0-1': [200, '0123456789']};
  for (const [range, [status, body]] of Object.entries(ranges))
    test(`answers ${range} with ${status}`, async () => {
      const answer = await get('/ten.bin', {range});
      assert.equal(answer.status, status);
      if (body) assert.equal(answer.body, body);
      if (status === 416) assert.equal(answer.headers['content-range'], 'bytes */10');
      if (status === 206)
        assert.match(answer.headers['content-range'],
          new RegExp(`^bytes ${'0123456789'.indexOf(body)}-\\d/10$`));
      assert.equal(answer.headers['cross-origin-embedder-policy'], 'require-corp');
    });
  test('HEAD tells the length and sends nothing', async () => {
    const {status, headers, body} = await get('/ten.bin', {range: 'bytes=0-3'}, 'HEAD');
    assert.deepEqual([status, headers['content-length'], body], [200, '10', '']);
    assert.equal((await get('/empty.bin')).status, 200);
    assert.equal((await get('/empty.bin', {range: 'bytes=0-'})).status, 416);
  });
  test('If-Range and If-None-Match compare versions', async () => {
    const {etag, 'last-modified': modified} = (await get('/ten.bin')).headers;
    assert.equal((await get('/ten.bin', {range: 'bytes=0-3', 'if-range': etag})).status, 206);
    assert.equal((await get('/ten.bin', {range: 'bytes=0-3', 'if-range': modified})).status, 206);
    assert.equal((await get('/ten.bin', {range: 'bytes=0-3', 'if-range': '"other"'})).body, '0123456789');
    assert.equal((await get('/ten.bin', {'if-none-match': `"x", ${etag}`})).status, 304);
  });
  test('refuses what is no address, and stays inside', async () => {
    for (const path of ['/%', '/%zz', '/%c3%28', '/a%00b']) assert.equal((await get(path)).status, 400, path);
    for (const path of ['/../secret', '/..%2fsecret', '/m/..%2f..%2fsecret', '/%2e%2e/secret',
        '/m/%2e%2e%2f%2e%2e%2fsecret', '//secret', '/sub/../../secret', '/..%5csecret']) {
      const {status, body} = await get(path);
      assert.equal(status, 404, path);
      assert.notEqual(body, 'secret');
    }
    assert.equal((await get('/ten.bin', {}, 'POST')).status, 405);
  });
  test('a folder is served with its slash', async () => {
    const {status, headers} = await get('/sub?a=b');
    assert.deepEqual([status, headers.location], [301, '/sub/?a=b']);
    assert.equal((await get('/sub/')).body, 'sub');
  });
  test('survives who talks nonsense', async () => {
    await new Promise(resolve => connect(server.address().port, '127.0.0.1', function () {
      this.end('GET http://[ HTTP/1.1\r\nhost: x\r\n\r\n');
    }).on('close', resolve).resume());
    assert.equal((await get('/ten.bin')).status, 200);
  });
});

test('the page is small, with either engine', () => {
  const folder = fileURLToPath(new URL('../../demo/', import.meta.url)),
    names = readdirSync(folder).filter(name => name.endsWith('.js')),
    engines = {local: ['local.js', 'offline.js', 'pick.js', 'sw.js'],
      server: ['served.js', 'client.js', 'retire.js']},
    later = ['form.js', 'german.js', 'repository.js', 'sandbox.js', 'toolbox.js'];       // loaded when used
  const size = all => gzipSync(Buffer.concat(all.map(name => readFileSync(join(folder, name))))).length;
  for (const [engine, others] of [['local', engines.server], ['server', engines.local]]) {
    const bytes = size(names.filter(name => !others.includes(name) && !later.includes(name)));
    assert.ok(bytes < 46_000, `${engine}: ${bytes} bytes compressed together`);
  }
  assert.ok(size(later) < 19_000, `${size(later)} bytes later`);
  for (const name of names)
    assert.match(readFileSync(join(folder, name), 'utf8'), /SPDX-License-Identifier: MIT/, name);
});

test('events of a server are the same however their bytes are cut', async () => {
  const bytes = new TextEncoder().encode(': a comment\r\ndata: {"a":"é👩‍👩‍👧"}\r\n\r\nevent: x\n'
    + 'data: 1\ndata: 2\n\n\n\ndata:[DONE]\n\ndata: without an end');
  for (let size = 1; size <= bytes.length; size++) {
    let cancelled = false;
    const parts = events(new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        if (size > 1) controller.close();
      },
      cancel() { cancelled = true; },
    }));
    const found = [];
    for await (const event of parts) {
      found.push(event);
      if (event === '[DONE]' && size === 1) break;
    }
    assert.deepEqual(found, ['{"a":"é👩‍👩‍👧"}', '1\n2', '[DONE]'], `pieces of ${size}`);
    assert.equal(cancelled, size === 1, 'leaving the events ends the request');
  }
});
