/* Markdown of a model's answer as DOM nodes.  Nothing is ever parsed as HTML, links lead to http(s) only, no image is loaded, nothing
 * recurses, and the time grows with the text's length.  One subset for all models: paragraphs, headings, emphasis, code, lists, quotes, tables, links.
 * SPDX-License-Identifier: MIT */

const DEPTH = 12;               /* containers or emphasis inside each other; more stays text */
const ADDRESS = 2000;           /* characters of a link's address */

const isSpace = c => c === '' || /\s/.test(c);
const isPunctuation = c => /[!-/:-@[-`{-~\p{P}]/u.test(c);
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

/* ---- inside of a paragraph ---- */

/* "(address)" or "(address "title")" at i, just behind a link's text. */
function target(text, i) {
  if (text[i] !== '(') return undefined;
  const from = ++i, last = Math.min(text.length, from + ADDRESS);
  let open = 0;
  for (; i < last && !isSpace(text[i]); i++) {
    if (text[i] === '(' && ++open > 4) return undefined;
    if (text[i] === ')' && open-- === 0) break;
  }
  const href = address(text.slice(from, i).replace(/^<|>$/g, ''));
  if (!href) return undefined;
  const rest = /^(?:\s{1,9}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?\s{0,9}\)/.exec(text.slice(i, i + 330));
  return rest ? {href, end: i + rest[0].length} : undefined;
}

/* Pieces: {text}, {code}, {open: tag, href?}, {close}; then built in one pass.  Delimiters wait on a stack for their other half. */
function pieces(text) {
  const out = [], stack = [], fences = new Map();
  const waiting = {'*': 0, '_': 0, '~': 0, '[': 0, '!': 0};      /* "!" is a "[" that can no longer become a link */
  for (const {0: run, index} of text.matchAll(/`+/g)) {         /* where runs of each length are, so that none is searched for twice */
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
    const opens = !isSpace(after) && (!isPunctuation(after) || isSpace(before) || isPunctuation(before)) && !(c === '_' && isWord(before));
    const closes = !isSpace(before) && (!isPunctuation(before) || isSpace(after) || isPunctuation(after)) && !(c === '_' && isWord(after));
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
    if (c === '\\' && i + 1 < text.length && isPunctuation(text[i + 1])) {
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
        out.push({code: code.startsWith(' ') && code.endsWith(' ') && code.trim() ? code.slice(1, -1) : code});
        i = close + (end - i);
      }
    } else if (c === '*' || c === '_' || c === '~') {
      i = emphasis(i, c);
    } else if (c === '[') {
      flush();
      put({c, left: 1, tags: []});
      i++;
    } else if (c === ']' && waiting['[']) {
      let at = stack.length - 1;
      while (stack[at].c !== '[') at--;
      const from = stack[at], link = target(text, i + 1);
      flush();
      drop(at);
      if (link) {
        from.left = 0;
        from.tags = ['a'];
        from.href = link.href;
        out.push({close: true});
        for (const outer of stack) if (outer.c === '[') { outer.c = '!'; waiting['[']--; waiting['!']++; }      /* no link in a link */
        i = link.end;
      } else {
        plain += ']';
        i++;
      }
    } else if ((c === 'h' || c === 'H' || c === '<') && !isWord(text[i - 1] ?? '')) {
      const found = /^<?(https?:\/\/[^\s<>"]{1,2000})/i.exec(text.slice(i, i + ADDRESS + 2));
      const shown = found?.[1].replace(/[.,;:!?'*_~)\]]{1,9}$/, end => end[0] === ')' && found[1].includes('(') ? ')' : ''), href = found && address(shown);
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
      if (i) nest.at(-1).append(doc.createElement('br'));
      if (line) nest.at(-1).append(line);
    });
  };
  for (const piece of pieces(text)) {
    if (piece.text !== undefined) write(piece.text);
    else if (piece.code !== undefined) {
      const code = doc.createElement('code');
      code.textContent = piece.code;
      nest.at(-1).append(code);
    } else if (piece.close) nest.pop();
    else {
      if (piece.left) write((piece.c === '!' ? '[' : piece.c).repeat(piece.left));
      for (const tag of piece.tags) {
        const element = doc.createElement(tag);
        if (piece.href) for (const [name, value] of [['href', piece.href], ['rel', 'noopener noreferrer'], ['target', '_blank']]) element.setAttribute(name, value);
        nest.at(-1).append(element);
        nest.push(element);
      }
    }
  }
}

/* ---- blocks ---- */

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}(?=\S)| |$)/;

const cells = line => line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/).map(cell => cell.trim().replaceAll('\\|', '|'));
const isDelimiter = line => line.includes('-') && line.includes('|') && cells(line).every(cell => /^:?-+:?$/.test(cell));

class Blocks {
  #doc; #open; #leaf; #text = [];

  constructor(root, doc) {
    this.#doc = doc;
    this.#open = [{node: root}];
  }
  get #top() { return this.#open.at(-1); }
  /** Whether a blank line here ends a block of the outermost level. */
  get between() { return this.#open.length === 1 && !this.#leaf; }
  #add(tag, parent = this.#top.node) {
    const node = this.#doc.createElement(tag);
    parent.append(node);
    return node;
  }

  line(line) {
    if (this.#leaf?.kind !== 'fence') line = line.replace(/^[ \t]+/, space => space.replaceAll('\t', '    '));
    let depth = 1;
    for (; depth < this.#open.length; depth++) {                /* which of the open quotes and items does it belong to? */
      const {kind, indent} = this.#open[depth];
      if (kind === 'quote') {
        if (!QUOTE.test(line)) break;
        line = line.replace(QUOTE, '');
      } else if (kind === 'item' && line.trim()) {
        const space = line.length - line.trimStart().length;    /* models nest lists by two blanks even under "1. " */
        if (space < indent && !(space >= 2 && this.#leaf?.kind !== 'fence' && ITEM.test(line.slice(space)))) break;
        line = line.slice(Math.min(space, indent));
      }
    }
    const inside = depth === this.#open.length;
    if (this.#leaf?.kind === 'fence' && inside) return this.#code(line);
    if (!inside) {
      if (this.#leaf?.kind === 'p' && this.#isText(line)) return void this.#text.push(line);
      this.#close();
      this.#open.length = depth;
    }
    this.#begin(line);
  }
  #isText(line) { return line.trim() && ![FENCE, HEADING, RULE, QUOTE, ITEM].some(form => form.test(line)); }

  #begin(line) {
    for (let match; this.#open.length < DEPTH;) {
      if (QUOTE.test(line)) {
        this.#close();
        line = line.replace(QUOTE, '');
        this.#enter({kind: 'quote', node: this.#add('blockquote')});
      } else if (!RULE.test(line) && (match = ITEM.exec(line))) {
        const mark = match[2], type = mark.length > 1 ? mark.at(-1) : mark;
        if (this.#leaf?.kind === 'p' && mark.length > 1 && mark.slice(0, -1) !== '1' && this.#top.list?.type !== type) break;  /* "in 1999." is no list */
        this.#close();
        const parent = this.#top;
        if (parent.list?.type !== type) {
          parent.list = {type, node: this.#add(mark.length > 1 ? 'ol' : 'ul')};
          if (mark.length > 1 && Number.parseInt(mark) !== 1) parent.list.node.setAttribute('start', String(Number.parseInt(mark)));
        }
        line = line.slice(match[0].length);
        this.#open.push({kind: 'item', indent: Math.max(match[0].length, match[1].length + mark.length + 1), node: this.#add('li', parent.list.node)});
      } else break;
    }
    this.#write(line);
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
    if ((match = HEADING.exec(line))) {
      this.#close();
      this.#top.list = undefined;
      return inline((match[2] ?? '').trimEnd().replace(/ #+$/, ''), this.#add(`h${Math.min(6, match[1].length + 2)}`), this.#doc);
    }
    if (RULE.test(line)) {
      this.#close();
      this.#top.list = undefined;
      return void this.#add('hr');
    }
    if (this.#leaf?.kind === 'p' && this.#text.length === 1 && isDelimiter(line) && cells(line).length === cells(this.#text[0]).length) return this.#table(line);
    if (!this.#leaf) {
      this.#top.list = undefined;
      this.#leaf = {kind: 'p', node: this.#add('p')};
    }
    this.#text.push(line);
  }

  #fence([line, fence, word]) {
    this.#close();
    this.#top.list = undefined;
    const figure = this.#add('figure'), head = this.#add('figcaption', figure), button = this.#doc.createElement('button');
    figure.setAttribute('class', 'code');
    this.#add('span', head).textContent = word.trim().split(/\s/)[0].slice(0, 30);
    button.setAttribute('type', 'button');
    button.setAttribute('class', 'copy');
    button.textContent = 'Copy';
    head.append(button);
    this.#leaf = {kind: 'fence', fence, indent: line.search(/\S/), node: this.#add('code', this.#add('pre', figure))};
  }
  #code(line) {
    const {fence, indent} = this.#leaf, bare = line.trim();
    if (bare.length >= fence.length && bare === fence[0].repeat(bare.length)) return this.#close();
    this.#text.push(line.slice(Math.min(indent, line.length - line.trimStart().length)) + '\n');
  }
  #table(line) {
    const head = this.#text.pop(), align = cells(line).map(cell => (cell.endsWith(':') ? cell.startsWith(':') ? 'center' : 'right' : ''));
    const box = this.#doc.createElement('div');                 /* scrolls where the table is wider than the page */
    box.setAttribute('class', 'table');
    this.#leaf.node.replaceWith(box);
    this.#leaf = {kind: 'table', align, node: this.#add('table', box)};
    this.#row(head, 'th');
  }
  #row(line, tag) {
    const row = this.#add('tr', this.#leaf.node), {align} = this.#leaf;
    cells(line).slice(0, align.length).forEach((text, i) => {
      const cell = this.#add(tag, row);
      if (align[i]) cell.setAttribute('class', align[i]);
      inline(text, cell, this.#doc);
    });
  }

  #close() {
    if (this.#leaf?.kind === 'fence') this.#leaf.node.textContent = this.#text.join('');
    if (this.#leaf?.kind === 'p') inline(this.#text.map(line => line.trimStart()).join('\n').trimEnd(), this.#leaf.node, this.#doc);
    this.#leaf = undefined;
    this.#text = [];
  }
  end() { this.#close(); }
}

/** Renders text that grows.  What ends before the last blank line between blocks is built once; only the rest is built anew. */
export class Markdown {
  #root; #doc; #done = 0; #kept = 0; #text = '';

  constructor(root, doc = root.ownerDocument) {
    this.#root = root;
    this.#doc = doc;
  }
  get text() { return this.#text; }
  update(text) {
    this.#text = text;
    while (this.#root.childNodes.length > this.#kept) this.#root.lastChild.remove();
    const blocks = new Blocks(this.#root, this.#doc);
    for (let at = this.#done; at < text.length;) {
      const end = text.indexOf('\n', at);
      blocks.line(text.slice(at, end < 0 ? text.length : end).replace(/\r$/, ''));
      at = end < 0 ? text.length : end + 1;
      if (blocks.between && end >= 0) {
        this.#done = at;
        this.#kept = this.#root.childNodes.length;
      }
    }
    blocks.end();
  }
}
