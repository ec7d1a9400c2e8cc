/* Formulas and coloured code of answers: what models write, and what they should not.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';
import {highlight} from '../../demo/highlight.js';
import {formulaNode} from '../../demo/maths.js';
import {spent} from './spent.js';

/* Elements as S-expressions. */
class Node {
  children = []; attributes = {};
  constructor(tag) { this.tag = tag; }
  append(...nodes) { this.children.push(...nodes); }
  setAttribute(name, value) { this.attributes[name] = value; }
  toString() {
    return this.children.every(child => typeof child === 'string') && !['mrow', 'mtd'].includes(this.tag)
      ? this.children.join('') : `${this.tag}(${this.children.join(' ')})`;
  }
}
const doc = {createElementNS: (_, tag) => new Node(tag)};
const drawn = (text, display) => formulaNode(text, display, doc)?.children.join(' ');

describe('formulas', () => {
  const cases = {
    'a^2 + b^2 = c^{2}': 'msup(a 2) + msup(b 2) = msup(c mrow(2))',
    'x_{i+1}^n': "msubsup(x mrow(i + 1) n)",
    "f'(x)": "msup(f ′) ( x )",
    '\\frac{-b \\pm \\sqrt{b^2-4ac}}{2a}': 'mfrac(mrow(− b ± msqrt(mrow(msup(b 2) − 4 a c))) mrow(2 a))',
    '\\sqrt[3]{x}': 'mroot(mrow(x) mrow(3))',
    '\\sum_{i=1}^n \\alpha_i': 'msubsup(∑ mrow(i = 1) n) msub(α i)',
    '\\left( \\frac12 \\right)': 'mrow(( mfrac(1 2) ))',
    '\\text{if } x \\le 1{,}5': 'if  x ≤ 1 mrow(,) 5',
    '\\mathbb{R}^{n \\times m}': 'msup(ℝ mrow(n × m))',
    '\\vec{v} \\cdot \\hat w': 'mover(mrow(v) →) ⋅ mover(w ^)',
    '\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}': 'mrow(( mtable(mtr(mtd(1) mtd(2)) mtr(mtd(3) '
      + 'mtd(4))) ))',
    '\\unknown{x} \\%': '\\unknown mrow(x) %',
    '\\lim_{x \\to 0} \\sin x': 'msub(lim mrow(x → 0)) sin x',
    '3.14 \\, \\mathrm{km}': '3.14 km',
  };
  for (const [text, want] of Object.entries(cases)) test(text, () => assert.equal(drawn(text), want));
  test('of a line of their own have limits above and below', () => {
    assert.equal(drawn('\\sum_{i}^n', true), 'munderover(∑ mrow(i) n)');
    assert.equal(drawn('\\int_0^1', true), 'msubsup(∫ 0 1)');
  });
  test('that are not well formed are not drawn', () => {
    for (const text of ['{', '}', '\\frac{1}', 'x^', '\\left(', '\\right)', '\\begin{pmatrix} 1',
      '\\begin{foo}\\end{foo}',
      'a & b', '\\text{a', '\\begin{pmatrix} 1 \\end{bmatrix}', '{'.repeat(20) + '}'.repeat(20),
        'x'.repeat(3000)])
      assert.equal(formulaNode(text, false, doc), undefined, text);
  });
  test('take time in proportion, whatever they say', () => {
    for (const part of ['{', '}', '^', '_', '\\frac', '\\sqrt[', '\\left(', '\\begin{matrix}', '\\\\', '&',
      "'", 'x^',
      '\\text{', '\\', 'é', '\ud800', '<script>', '\\begin{', '\\end{matrix}']) {
      const begin = spent();
      formulaNode(part.repeat(2000).slice(0, 2000), true, doc);
      assert.ok(spent() - begin < 1000, part);
    }
  });
});

describe('code', () => {
  const marked = (code, word) => highlight(code, word).filter(([kind]) => kind)
    .map(([kind, text]) => `${kind}:${text}`).join(' ');
  const cases = [
    ['js', 'const a = `x ${1}`; // end', 'keyword:const string:`x ${1}` comment:// end'],
    ['python', "def f(x):\n  '''a\n  b'''\n  return 0x1F",
      "keyword:def name:f string:'''a\n  b''' keyword:return number:0x1F"],
    ['c', '/* a\n b */ int main(void) { return 1.5e3f; }', 'comment:/* a\n b */ keyword:int name:main '
      + 'keyword:void '
      + 'keyword:return number:1.5e3f'],
    ['SQL', "SELECT a FROM b -- c", 'keyword:SELECT keyword:FROM comment:-- c'],
    ['html', '<a href="x">y</a><!-- z -->', 'tag:<a string:"x" tag:> tag:</a tag:> comment:<!-- z -->'],
    ['json', '{"a": [1, true]}', 'string:"a" number:1 keyword:true'],
    ['sh', 'echo "a#b" #c', 'keyword:echo string:"a#b" comment:#c'],
    ['js', "'open\nlet", "string:'open keyword:let"],
    ['nothing', 'let a', ''],
    ['constructor', 'let a', ''],
  ];
  for (const [word, code, want] of cases) test(`${word}: ${code.slice(0, 20)}`, () =>
    assert.equal(marked(code, word), want));
  test('is the same text in the end, in time', () => {
    for (const word of ['js', 'py', 'c', 'html', 'sh', 'sql', 'css', 'json'])
      for (const part of ['"', "'", '`', '/*', '//', '#', '<!--', '<a ', '\\', '"""', "'''", '--', '0x',
        '1e', 'a(', '\n', '\ud800',
        '"\\', '<', "='", 'é', '$', '_']) {
        const code = part.repeat(Math.ceil(20_000 / part.length)), begin = spent();
        assert.equal(highlight(code, word).map(([, text]) => text).join(''), code);
        assert.ok(spent() - begin < 1500, `${word} ${part}`);
      }
  });
});
