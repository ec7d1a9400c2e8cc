/* The tools of the page: a calculator and a JavaScript that reaches nothing.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';
import {calculate, runCode} from '../../demo/sandbox.js';
import {TOOLS, useTool} from '../../demo/toolbox.js';
import {spent} from './spent.js';

describe('the calculator', () => {
  for (const [expression, want] of Object.entries({'2+3*4': '14', '2^10': '1024', '15% of 80': '12',
    '-3**2': '-9',
    'sqrt(2) * π': '4.4428829381584', '1,234 + 1': '1235', '0.1+0.2': '0.3', '(1 + 2) × 3 ÷ 2': '4.5',
      'Math.max(1, 5)': '5',
    '2 - -3': '5', '7 % 4': '3', '1/3': '0.33333333333333', '1e3': '1000'}))
    test(expression, () => assert.equal(calculate(expression), want));
  test('says what is wrong', () => {
    for (const expression of ['(1', '1 +', 'constructor', '"a"', 'x', '', '1 2', 'fetch("x")'])
      assert.throws(() => calculate(expression), expression);
  });
});

describe('JavaScript', () => {
  const cases = {
    'let s = 0; for (let i = 1; i <= 10; i++) s += i; s': '55',
    'const f = n => n < 2 ? n : f(n-1) + f(n-2); console.log(f(12))': '144',
    '[1,2,3].map(x => x * x).filter(x => x > 1).join("-")': '4-9',
    'const o = {a: 1, b: [2, {c: 3}]}; o.b[1].c + o["a"]': '4',
    'for (const [k, v] of Object.entries({x: 1, y: 2})) console.log(`${k}=${v}`)': 'x=1\ny=2',
    'function g(a, b = 2, ...c) { return a + b + c.length } g(1) + g(1, 1, 1, 1)': '7',
    '"abc".split("").reverse().join("")': 'cba',
    'let x = 1; if (x > 5) { x = 2 } else if (x === 1) { x = 3 } x': '3',
    'let n = 0; while (true) { n++; if (n === 3) continue; if (n > 5) break; } n': '6',
    'const a = [3, 1, 2]; a.sort(); a': '[1, 2, 3]',
    'Math.max(...[1, 5, 3]) ** 2 % 7': '4',
    'let q; q ??= 4; q ||= 5; q && "yes" /* so */ // end': 'yes',
    'JSON.stringify({a: "b"})': '{"a": "b"}',
    'Array.from({length: 3}, (_, i) => i * 2)': '[0, 2, 4]',
    '({}).__proto__': 'undefined',
    'let o = {__proto__: 5, constructor: 7}; o.constructor': '7',
    'Math.floor.constructor': 'undefined',
    'let a = "x"; a.constructor': 'undefined',
  };
  for (const [code, want] of Object.entries(cases)) test(code, () => assert.equal(runCode(code), want));
  test('reaches nothing outside', () => {
    for (const code of ['window', 'globalThis', 'this', 'document.cookie', 'fetch("x")',
      'Function("return 1")()', 'eval("1")',
      '[].constructor.constructor("return globalThis")()', '"".constructor.constructor("return 1")()',
      '(() => 1).constructor("return 1")()', 'import("x")', 'Object.prototype', 'Object.getPrototypeOf({}).x',
      'let a = []; a.__proto__.x = 1', 'let a = {}; a.__proto__.x', 'console.log.constructor("1")()',
        'process.exit()'])
      assert.throws(() => runCode(`const r = ${code}; if (r === undefined) nothing; r`), code);
    assert.equal({}.x, undefined);
  });
  test('ends, whatever it does', () => {
    const shared = 'let a = [1]; for (let i = 0; i < 60; i++) a = [a, a];';
    for (const code of ['while (true) {}', 'const f = () => f(); f()', '"x".repeat(1e9)',
      'let s = "x"; for (;;) s += s',
      'let a = [1]; for (;;) a = [...a, ...a]', 'let a = []; a[99999999] = 1',
        'let a = [1]; for (;;) a = a.concat(a)',
      'Array.from({length: 1e9})', '"a-b".replaceAll("-", "x".repeat(199999)).repeat(9)',
        `${shared} [a, a].sort(); x`,
      `${shared} "x".includes(a); x`, `${shared} [1].slice(a)`, `${shared} (5).toFixed(a); x`,
        `${shared} a.join(a); x`,
      `${shared} Array.from({length: a})`, `${shared} let o = {}; o[a] = 1; x`, `${'('.repeat(5000)}`,
        `${'['.repeat(5000)}`, '(a='.repeat(50), '((a='.repeat(40),
      `${'-'.repeat(5000)}1`, `${'!'.repeat(5000)}1`, `${'a=>'.repeat(5000)}`, 'if(1)'.repeat(5000),
        '{'.repeat(5000),
      '`${'.repeat(3000), '2**'.repeat(5000), '1?'.repeat(5000)]) {
      const begin = spent();
      assert.throws(() => runCode(code), /./, code.slice(0, 80));
      assert.ok(spent() - begin < 5000, code.slice(0, 80));
    }
  });
});

test('a call is answered, also a wrong one', () => {
  const use = (name, given) => useTool({function: {name, arguments: given}});
  assert.equal(use('calculate', '{"expression": "6*7"}'), '42');
  assert.match(use('calculate', '{'), /^error: /);
  assert.match(use('constructor', '{}'), /^error: no tool/);
  assert.match(use('current_time', '{"time_zone": "Nowhere/Else"}'), /20\d\d/);
  assert.equal(use('run_javascript', '{"code": "1 + 1"}'), '2');
  assert.deepEqual(TOOLS.map(tool => tool.function.name), ['calculate', 'current_time', 'run_javascript']);
});
