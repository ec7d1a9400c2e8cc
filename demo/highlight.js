/* Colours of code: a tokenizer that knows comments, strings, numbers and words of many languages,
 * in one pass over the text.
 * SPDX-License-Identifier: MIT */

const LIMIT = 30_000;                   /* characters; longer code stays plain */

const words = text => new Set(text.split(' '));
const C = 'break case const continue default do else enum extern for goto if return sizeof static struct '
  + 'switch typedef union void while int char float double long short unsigned signed bool true false null '
  + 'NULL ';
const KEYWORDS = {
  c: words(C + 'auto class delete explicit friend inline namespace new nullptr operator private protected '
    + 'public template this throw try catch typename using virtual override final constexpr import package '
    + 'interface extends implements instanceof boolean byte abstract super var string fn let mut impl '
    + 'trait match pub use mod crate self Self where async await move func type range chan defer go map '
    + 'select fallthrough nil val fun when object data sealed is in as out foreach decimal internal '
    + 'readonly get set'),
  js: words('async await break case catch class const continue default delete do else export extends false '
    + 'finally for from function if import in instanceof let new null of return static super switch this '
    + 'throw true try typeof undefined var void while with yield interface type enum implements private '
    + 'public readonly as'),
  py: words('and as assert async await break class continue def del elif else except False finally for '
    + 'from global if import in is lambda None nonlocal not or pass raise return self True try while with '
    + 'yield match case begin do end elsif module nil puts require then unless until when'),
  sh: words('if then else elif fi for while until do done case esac in function return local export echo '
    + 'exit set cd source sudo'),
  sql: words('select from where and or not insert into values update set delete create table drop alter '
    + 'add primary key foreign references join left right inner outer on as group by order having limit '
    + 'union all distinct null is in like between exists case when then else end index view count sum avg '
    + 'min max int integer text varchar'),
  css: words('important inherit initial unset none auto'),
  json: words('true false null'),
};
const FAMILY = new Map(Object.entries({
  c: 'c h cpp c++ cc cxx hpp cs csharp java kotlin kt rust rs go golang swift scala php dart wgsl glsl zig',
  js: 'js javascript mjs jsx ts typescript tsx node', py: 'py python python3 rb ruby r julia elixir',
  sh: 'sh bash shell zsh console yaml yml toml ini dockerfile makefile',
    sql: 'sql sqlite postgres mysql lua haskell',
  css: 'css scss less', json: 'json jsonc json5', html: 'html xml svg vue',
}).flatMap(([family, names]) => names.split(' ').map(name => [name, family])));

const NUMBER = '\\b(?:0[xX][\\da-fA-F_]+|0[bB][01_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\w{0,4}';
const QUOTED = '"(?:[^"\\\\\\n]|\\\\[^])*"?|\'(?:[^\'\\\\\\n]|\\\\[^])*\'?';
const SLASHES = '//[^\\n]*|/\\*[^]*?(?:\\*/|$)', HASH = '#[^\\n]*';
const form = (comment, string, name = '[\\p{L}_$][\\p{L}\\p{N}_$]*') =>
  new RegExp(`(?<c>${comment})|(?<s>${string})|(?<n>${NUMBER})|(?<w>${name})`, 'gu');
const FORMS = {
  c: form(SLASHES, QUOTED), js: form(SLASHES, `${QUOTED}|\`(?:[^\`\\\\]|\\\\[^])*\`?`),
  py: form(HASH, `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${QUOTED}`), sh: form('(?<![^\\s])#[^\\n]*', QUOTED),
  sql: form('--[^\\n]*', QUOTED), css: form('/\\*[^]*?(?:\\*/|$)', QUOTED, '[\\p{L}_-][\\p{L}\\p{N}_-]*'),
  json: form(SLASHES, QUOTED),
  html: /(?<c><!--[^]*?(?:-->|$))|(?<s>"[^"\n]*"?|'[^'\n]*(?=')')|(?<t><\/?[a-zA-Z][\w:-]*|\/?>)/gu,
};

/** Code as pieces [kind, text]: comment, string, number, keyword, tag, name (of a function), ''. */
export function highlight(code, word) {
  const family = FAMILY.get(word.toLowerCase());
  if (!family || code.length > LIMIT) return [['', code]];
  const out = [], known = KEYWORDS[family];
  let at = 0;
  for (const {0: text, index, groups} of code.matchAll(FORMS[family])) {
    const lower = family === 'sql' ? text.toLowerCase() : text;
    const kind = groups.c ? 'comment' : groups.s ? 'string' : groups.n ? 'number' : groups.t ? 'tag'
      : known.has(lower) ? 'keyword' : code[index + text.length] === '(' ? 'name' : '';
    if (!kind) continue;
    if (index > at) out.push(['', code.slice(at, index)]);
    out.push([kind, text]);
    at = index + text.length;
  }
  if (at < code.length) out.push(['', code.slice(at)]);
  return out;
}
