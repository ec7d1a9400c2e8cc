/* Markdown of a model's answer as DOM nodes. Nothing is ever parsed as HTML, links lead to http(s)
 * only, no image is loaded, nothing recurses, and the time grows with the text's length. One subset
 * for all models: paragraphs, headings, emphasis, code, lists, quotes, tables, links, formulas.
 * SPDX-License-Identifier: MIT */
import {highlight} from './highlight.js';
import {formulaNode} from './maths.js';
import {t} from './strings.js';

const DEPTH = 12;               /* containers or emphasis inside each other; more stays text */
const ADDRESS = 2000;           /* characters of a link's address */

const isSpace = c => c === '' || /\s/.test(c);
const isPunctuation = c => /[!-/:-@[-`{-~]/.test(c);
const isWord = c => /[\p{L}\p{N}]/u.test(c);

/** What a link may lead to, else undefined. */
export function address(text) {
  if (text.length > ADDRESS || !/^https?:\/\//i.test(text)) return undefined;
  try {
    return new URL(text).href;
  } catch {
    return undefined;
  }
}

function add(doc, parent, tag, attributes = {}, text) {
  const node = doc.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

/* ---- inside of a paragraph ---- */

/* "(address)" or "(address "title")" after a link's text; brackets within the address must be
 * balanced. */
const TARGET = /^\(<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"\n]*")?\s*\)/;
function target(text, at) {
  const found = TARGET.exec(text.slice(at, at + ADDRESS)), href = found && address(found[1]);
  return href ? {href, length: found[0].length} : undefined;
}

/* The end of a formula that begins at i; 0: not a formula. Nothing in it is Markdown, and its
 * backslashes are not escapes. none: closing marks that the rest of the text does not have. */
function formula(text, i, none) {
  const [mark, close] = text[i] === '\\' ? [2, text[i + 1] === '(' ? '\\)' : '\\]']
    : text[i + 1] === '$' ? [2, '$$'] : [1, '$'];
  const end = none.has(close) ? -1 : text.indexOf(close, i + mark);
  if (end < 0) none.add(close);
  if (end <= i + mark) return 0;
  /* "$5 and $6", "$5/$6" are money. */
  if (mark === 1 && (isSpace(text[i + 1]) || isSpace(text[end - 1]) || /\d/.test(text[end + 1] ?? '')))
    return 0;
  return end + close.length;
}

/* Pieces: {text}, {code}, {open: tag, href?}, {close}; then built in one pass. Opening delimiters
 * wait on a stack for the closing ones. */
function pieces(text) {
  const out = [], fences = new Map(), none = new Set(), waiting = {'*': 0, '_': 0, '~': 0, '[': 0};
  let stack = [];
  /* where runs of each length are, so that none is searched for twice */
  for (const {0: run, index} of text.matchAll(/`+/g)) {
    if (!fences.has(run.length)) fences.set(run.length, {at: [], next: 0});
    fences.get(run.length).at.push(index);
  }
  let plain = '';
  const flush = () => { if (plain) out.push({text: plain}); plain = ''; };
  const drop = to => { while (stack.length > to) waiting[stack.pop().c]--; };
  const put = delimiter => {
    if (stack.length === DEPTH) waiting[stack.shift().c]--;     /* the oldest stays text */
    stack.push(delimiter);
    waiting[delimiter.c]++;
    out.push(delimiter);
  };

  function emphasis(i, c) {
    let end = i;
    while (text[end] === c) end++;
    let left = end - i;
    const before = text[i - 1] ?? '', after = text[end] ?? '';
    const opens = !isSpace(after) && !(c === '_' && isWord(before)),
      closes = !isSpace(before) && !(c === '_' && isWord(after));
    flush();
    while (closes && left && waiting[c]) {
      let at = stack.length - 1;
      while (stack[at].c !== c && stack[at].c !== '[') at--;
      if (stack[at].c !== c) break;                             /* not across a link's border */
      const from = stack[at], n = c === '~' ? 2 : Math.min(2, left, from.left);
      if (n > left || n > from.left) break;
      drop(at + 1);
      from.left -= n;
      left -= n;
      from.tags.unshift(c === '~' ? 'del' : n === 2 ? 'strong' : 'em');
      out.push({close: true});
      if (!from.left) drop(at);
    }
    if (opens && left && left <= 3 && (c !== '~' || left === 2)) put({c, left, tags: []});
    else plain += c.repeat(left);
    return end;
  }

  for (let i = 0; i < text.length;) {
    const c = text[i];
    const after = c === '$' || (c === '\\' && (text[i + 1] === '(' || text[i + 1] === '['))
      ? formula(text, i, none) : 0;
    if (after) {
      flush();
      const mark = c === '$' && text[i + 1] !== '$' ? 1 : 2;
      out.push({formula: text.slice(i + mark, after - mark), text: text.slice(i, after),
        display: text[i + 1] === '[' || (c === '$' && mark === 2)});
      i = after;
    } else if (c === '\\' && i + 1 < text.length && isPunctuation(text[i + 1])) {
      plain += text[i + 1];
      i += 2;
    } else if (c === '`') {
      let end = i;
      while (text[end] === '`') end++;
      const places = fences.get(end - i);
      while (places?.at[places.next] <= i) places.next++;
      const close = places?.at[places.next];
      if (close === undefined) {
        plain += text.slice(i, end);
        i = end;
      } else {
        flush();
        const code = text.slice(end, close).replaceAll('\n', ' ');
        out.push({code: code.startsWith(' ') && code.endsWith(' ') && code.trim()
          ? code.slice(1, -1) : code});
        i = close + (end - i);
      }
    } else if (c === '*' || c === '_' || c === '~') {
      i = emphasis(i, c);
    } else if (c === '[' || (c === '!' && text[i + 1] === '[')) {
      const image = c === '!';
      flush();
      put({c: '[', left: 1, tags: [], image});
      i += image ? 2 : 1;
    } else if (c === ']' && waiting['[']) {
      let at = stack.length - 1;
      while (stack[at].c !== '[') at--;
      const from = stack[at], link = target(text, i + 1), within = waiting['['] > 1;
      if (link && from.image && out.at(-1) === from && !plain) plain = 'image';
      flush();
      drop(at);
      if (link && from.image && within) {                       /* an image in a link is its words */
        from.left = 0;
        i += 1 + link.length;
      } else if (link) {
        from.left = 0;
        from.tags = ['a'];
        from.href = link.href;
        out.push({close: true});
        stack = stack.filter(outer => outer.c !== '[');         /* no link in a link */
        waiting['['] = 0;
        i += 1 + link.length;
      } else {
        plain += ']';
        i++;
      }
    } else if ((c === 'h' || c === 'H' || c === '<') && !isWord(text[i - 1] ?? '')) {
      const found = /^<?(https?:\/\/[^\s<>"]{1,2000})/i.exec(text.slice(i, i + ADDRESS + 2));
      const shown = found?.[1].replace(/[.,;:!?'*_~)\]]{1,9}$/,
        end => end[0] === ')' && found[1].includes('(') ? ')' : ''), href = found && address(shown);
      if (href && !waiting['[']) {
        flush();
        out.push({tags: ['a'], left: 0, href}, {text: shown}, {close: true});
        i += shown.length + (c === '<' ? 1 : 0);
        if (c === '<' && text[i] === '>') i++;
      } else {
        plain += c;
        i++;
      }
    } else {
      plain += c;
      i++;
    }
  }
  flush();
  return out;
}

/** Text with emphasis, code and links, as children of parent. */
export function inline(text, parent, doc) {
  const nest = [parent];
  const write = s => {
    s.split(/ {2}\n|\\\n/).forEach((line, i) => {
      if (i) add(doc, nest.at(-1), 'br');
      if (line) nest.at(-1).append(line);
    });
  };
  for (const piece of pieces(text)) {
    const formula = piece.formula !== undefined && formulaNode(piece.formula, piece.display, doc);
    if (formula) nest.at(-1).append(formula);
    else if (piece.text !== undefined) write(piece.text);
    else if (piece.code !== undefined) add(doc, nest.at(-1), 'code', {}, piece.code);
    else if (piece.close) nest.pop();
    else {
      if (piece.left) write((piece.image ? '!' : '') + piece.c.repeat(piece.left));
      for (const tag of piece.tags)
        nest.push(add(doc, nest.at(-1), tag,
          piece.href && {href: piece.href, rel: 'noopener noreferrer', target: '_blank'}));
    }
  }
}

/* ---- blocks ---- */

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const QUOTE = /^ {0,3}> ?/;
const FORMULA = /^ {0,3}(\\\[|\$\$)/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}(?=\S)| |$)/;

const cells = line => line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/)
  .map(cell => cell.trim().replaceAll('\\|', '|'));
const isDelimiter = line => line.includes('-') && line.includes('|') && cells(line)
  .every(cell => /^:?-+:?$/.test(cell));

const ENDS = {'\\[': '\\]', '$$': '$$'};
const REGION = {tabindex: 0};   /* it scrolls: by keys, too */

class Blocks {
  #doc; #open; #leaf; #text = [];

  /** level: of the last heading before. */
  constructor(root, doc, level) {
    this.#doc = doc;
    this.#open = [{node: root}];
    this.level = level;
  }
  get #top() { return this.#open.at(-1); }
  /** Whether a blank line here ends a block of the outermost level. */
  get between() { return this.#open.length === 1 && !this.#leaf; }
  #add(tag, attributes, parent = this.#top.node, text) {
    return add(this.#doc, parent, tag, attributes, text);
  }

  line(line) {
    if (this.#leaf?.kind !== 'fence') line = line.replace(/^[ \t]+/, space => space.replaceAll('\t', '    '));
    let depth = 1;
    /* which of the open quotes and items does it belong to? */
    for (; depth < this.#open.length; depth++) {
      const {kind, indent} = this.#open[depth];
      if (kind === 'quote') {
        if (!QUOTE.test(line)) break;
        line = line.replace(QUOTE, '');
      } else if (kind === 'item' && line.trim()) {
        /* models nest lists by two blanks even under "1. " */
        const space = line.length - line.trimStart().length;
        if (space < indent && !(space >= 2 && this.#leaf?.kind !== 'fence' && ITEM.test(line.slice(space))))
          break;
        line = line.slice(Math.min(space, indent));
      }
    }
    const inside = depth === this.#open.length;
    if (this.#leaf?.kind === 'fence' && inside) return this.#code(line);
    if (this.#leaf?.end && inside && line.trim()) return this.#formula(line);
    if (!inside) {
      if (this.#leaf?.kind === 'p' && this.#isText(line)) return void this.#text.push(line);
      this.#close();
      this.#open.length = depth;
    }
    this.#begin(line);
  }
  #isText(line) {
    return line.trim() && ![FENCE, HEADING, RULE, QUOTE, ITEM].some(form => form.test(line));
  }

  #begin(line) {
    for (let match; this.#open.length < DEPTH;) {
      if (QUOTE.test(line)) {
        this.#close();
        line = line.replace(QUOTE, '');
        this.#enter({kind: 'quote', node: this.#add('blockquote')});
      } else if (!RULE.test(line) && (match = ITEM.exec(line))) {
        const mark = match[2], type = mark.length > 1 ? mark.at(-1) : mark;
        /* "in 1999." is not a list */
        if (this.#leaf?.kind === 'p' && mark.length > 1 && mark.slice(0, -1) !== '1'
          && this.#top.list?.type !== type)
          break;
        this.#close();
        const parent = this.#top;
        if (parent.list?.type !== type) {
          const start = Number.parseInt(mark);
          parent.list = {type, node: this.#add(start >= 0 ? 'ol' : 'ul',
            start >= 0 && start !== 1 ? {start} : {})};
        }
        line = line.slice(match[0].length);
        const item = this.#add('li', {}, parent.list.node);
        this.#open.push({kind: 'item', indent: Math.max(match[0].length, match[1].length + mark.length + 1),
          node: item});
        line = this.#task(line, item);
      } else break;
    }
    this.#write(line);
  }
  /* "[x] done" */
  #task(line, item) {
    const [whole, done] = /^\[([ xX])\] +(?=\S)/.exec(line) ?? [];
    if (!whole) return line;
    item.setAttribute('class', 'task');
    this.#add('span', {role: 'img', 'aria-label': done === ' ' ? t('to do') : t('done')}, item,
      done === ' ' ? '☐' : '☑');
    return line.slice(whole.length);
  }
  #enter(container) {
    this.#top.list = undefined;
    this.#open.push(container);
  }

  #write(line) {
    let match;
    if (!line.trim()) return this.#close();
    if (this.#leaf?.kind === 'table') {
      if (line.includes('|')) return this.#row(line, 'td');
      this.#close();
    }
    if ((match = FENCE.exec(line))) return this.#fence(match);
    if (!this.#leaf && (match = FORMULA.exec(line)) && !line.includes(ENDS[match[1]], match[0].length)) {
      this.#top.list = undefined;
      this.#leaf = {kind: 'p', end: ENDS[match[1]], node: this.#add('p')};
    }
    if ((match = HEADING.exec(line))) {
      this.#close();
      this.#top.list = undefined;
      this.level = Math.min(6, match[1].length + 2, this.level + 1);            /* answers leave levels out */
      return inline((match[2] ?? '').trimEnd().replace(/ #+$/, ''), this.#add(`h${this.level}`), this.#doc);
    }
    if (RULE.test(line)) {
      this.#close();
      this.#top.list = undefined;
      return void this.#add('hr');
    }
    if (this.#leaf?.kind === 'p' && this.#text.length === 1 && isDelimiter(line)
      && cells(line).length === cells(this.#text[0]).length)
      return this.#table(line);
    if (!this.#leaf) {
      this.#top.list = undefined;
      this.#leaf = {kind: 'p', node: this.#add('p')};
    }
    this.#text.push(line);
  }

  /* Lines of a formula, whatever they look like, up to its end or a blank line. */
  #formula(line) {
    this.#text.push(line);
    if (line.includes(this.#leaf.end)) this.#close();
  }
  #fence([line, fence, word]) {
    this.#close();
    this.#top.list = undefined;
    const figure = this.#add('figure', {class: 'code'}), head = this.#add('figcaption', {}, figure);
    const language = word.trim().split(/\s/)[0].slice(0, 30);
    this.#add('span', {}, head, language);
    this.#add('button', {type: 'button', class: 'copy'}, head, t('Copy'));
    this.#leaf = {kind: 'fence', fence, language, indent: line.search(/\S/),
      node: this.#add('code', {}, this.#add('pre', REGION, figure))};
  }
  #code(line) {
    const {fence, indent} = this.#leaf, bare = line.trim();
    if (bare.length >= fence.length && bare === fence[0].repeat(bare.length)) return this.#close();
    this.#text.push(line.slice(Math.min(indent, line.length - line.trimStart().length)) + '\n');
  }
  #table(line) {
    const head = this.#text.pop(), align = cells(line).map(
      cell => (cell.endsWith(':') ? cell.startsWith(':') ? 'center' : 'right' : ''));
    this.#leaf.node.remove();
    this.#leaf = {kind: 'table', align, node: this.#add('table', {},
      this.#add('div', {class: 'table', ...REGION}))};
    this.#row(head, 'th');
  }
  #row(line, tag) {
    const {align, node} = this.#leaf, row = this.#add('tr', {}, node);
    cells(line).slice(0, align.length).forEach((text, i) => {
      inline(text, this.#add(tag, align[i] ? {class: align[i]} : {}, row), this.#doc);
    });
  }

  #close() {
    if (this.#leaf?.kind === 'fence')
      for (const [kind, text] of highlight(this.#text.join(''), this.#leaf.language))
        if (kind) this.#add('span', {class: `code-${kind}`}, this.#leaf.node, text);
        else if (text) this.#leaf.node.append(text);
    if (this.#leaf?.kind === 'p')
      inline(this.#text.map(line => line.trimStart()).join('\n').trimEnd(), this.#leaf.node, this.#doc);
    this.#leaf = undefined;
    this.#text = [];
  }
  end() { this.#close(); }
}

/** Renders growing text. Everything before the last blank line between blocks is built once; only
 * the rest is rebuilt. */
export class Markdown {
  #root; #doc; #done = 0; #kept = 0; #level = 2; #text = '';

  constructor(root, doc = root.ownerDocument) {
    this.#root = root;
    this.#doc = doc;
  }
  get text() { return this.#text; }
  update(text) {
    this.#text = text;
    while (this.#root.childNodes.length > this.#kept) this.#root.lastChild.remove();
    const blocks = new Blocks(this.#root, this.#doc, this.#level);
    for (let at = this.#done; at < text.length;) {
      const end = text.indexOf('\n', at);
      blocks.line(text.slice(at, end < 0 ? text.length : end).replace(/\r$/, ''));
      at = end < 0 ? text.length : end + 1;
      if (blocks.between && end >= 0) {
        this.#done = at;
        this.#kept = this.#root.childNodes.length;
        this.#level = blocks.level;
      }
    }
    blocks.end();
  }
}
