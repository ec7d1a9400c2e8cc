/* A small JavaScript without a way out: it is parsed and evaluated here, so it needs no eval (which
 * a content security policy forbids) and reaches nothing but what is listed. Steps, sizes and depth
 * are limited.
 * SPDX-License-Identifier: MIT
 *
 * Known: let, const, functions, arrows, if, for, while, return, break, continue, arrays, objects,
 * templates, spread in lists, the operators on numbers and strings, and the methods below. */

const STEPS = 300_000, SIZE = 200_000, DEPTH = 60;
const set = text => new Set(text.split(' '));
const METHODS = {
  array: set('at concat every fill filter find findIndex flatMap forEach includes indexOf join lastIndexOf '
    + 'map pop push reduce reverse shift slice some sort splice unshift'),
  string: set('at charAt charCodeAt codePointAt endsWith includes indexOf lastIndexOf padEnd padStart '
    + 'repeat replace replaceAll slice split startsWith substring toLowerCase toUpperCase trim'),
  number: set('toFixed toPrecision toString'),
};
const KEYWORDS = set('let const var function return if else for of while break continue true false null '
  + 'undefined');
const BINARY = [['??'], ['||'], ['&&'], ['===', '!==', '==', '!='], ['<=', '>=', '<', '>'], ['+', '-'],
  ['*', '/', '%'], ['**']];
const NUMBER = '0x[\\da-fA-F]+|(?:\\d[\\d_]*)?\\.?\\d+(?:e[+-]?\\d+)?',
  SPACE = '\\s+|//[^\\n]*|/\\*[^]*?\\*/';
const QUOTED = '"(?:[^"\\\\\\n]|\\\\.)*"|\'(?:[^\'\\\\\\n]|\\\\.)*\'', TEMPLATE = '`(?:[^`\\\\]|\\\\[^])*`';
const MARK = '=>|\\.\\.\\.|===|!==|==|!=|<=|>=|&&=?|\\|\\|=?|\\?\\?=?|\\*\\*=?|\\+\\+|--|[-+*/%]=|\\?\\.|'
  + '[-+*/%<>=!?:;,.(){}[\\]]';
const TOKEN = new RegExp(`${SPACE}|(?<number>${NUMBER})|(?<name>[\\p{L}_$][\\p{L}\\d_$]*)|`
  + `(?<string>${QUOTED})|(?<template>${TEMPLATE})|(?<mark>${MARK})`, 'uy');

const wrong = what => { throw new SyntaxError(what); };
const ESCAPES = {n: '\n', t: '\t', r: '\r', b: '\b', 0: '\0'};
const unescaped = text => text.replace(/\\(?:u\{([\da-f]+)\}|u([\da-f]{4})|x([\da-f]{2})|([^]))/gi,
  (_, a, b, c, d) => (d === undefined ? String.fromCodePoint(Number.parseInt(a ?? b ?? c, 16))
    : ESCAPES[d] ?? d));

/* The token of an opening parenthesis has the index of the closing one, as `close`. */
function tokens(code) {
  const out = [], open = [];
  for (TOKEN.lastIndex = 0; TOKEN.lastIndex < code.length;) {
    const at = TOKEN.lastIndex, match = TOKEN.exec(code);
    if (!match) wrong(`not understood: ${code.slice(at, at + 20)}`);
    const [kind, text] = Object.entries(match.groups).find(([, found]) => found !== undefined) ?? [];
    if (!kind) continue;
    if (text === '(') open.push(out.length);
    if (text === ')' && open.length) out[open.pop()].close = out.length;
    out.push({kind: kind === 'name' && KEYWORDS.has(text) ? 'mark' : kind, text});
  }
  return out;
}

/* ---- parsing: nodes are functions of a scope ---- */

class Parser {
  #all; #at = 0; #run; #depth = 0;

  constructor(code, run) {
    this.#all = tokens(code);
    this.#run = run;
  }
  get #text() {
    const token = this.#all[this.#at];
    return token?.kind === 'mark' ? token.text : undefined;
  }
  #is(...texts) { return texts.includes(this.#text); }
  #take(text) {
    if (this.#text !== text) return false;
    this.#at++;
    return true;
  }
  #need(text) {
    if (!this.#take(text)) wrong(`${text} expected before ${this.#all[this.#at]?.text ?? 'the end'}`);
  }
  #name() {
    const token = this.#all[this.#at++];
    return token?.kind === 'name' ? token.text : wrong(`a name expected, not ${token?.text ?? 'the end'}`);
  }
  #nested(parse) {
    if (++this.#depth > DEPTH) wrong('too deep');
    const made = parse();
    this.#depth--;
    return made;
  }

  whole() {
    const body = [];
    while (this.#at < this.#all.length) body.push(this.#statement());
    return body;
  }
  expression() {
    const value = this.#assignment();
    this.#take(';');
    if (this.#at < this.#all.length) wrong(`not understood: ${this.#all[this.#at].text}`);
    return value;
  }

  #block() {
    if (!this.#take('{')) return [this.#statement()];
    const body = [];
    while (!this.#take('}')) body.push(this.#at < this.#all.length ? this.#statement()
      : wrong('} is missing'));
    return body;
  }
  #statement() { return this.#nested(() => this.#oneStatement()); }
  #oneStatement() {
    if (this.#take(';')) return () => undefined;
    if (this.#is('{')) {
      const body = this.#block();
      return scope => this.#run.block(body, Object.create(scope));
    }
    if (this.#is('let', 'const', 'var')) return this.#declaration();
    if (this.#take('function')) {
      const name = this.#name(), make = this.#function();
      return scope => { this.#run.define(scope, name, make(scope)); };
    }
    if (this.#take('if')) return this.#if();
    if (this.#take('while')) {
      const test = this.#bracketed(), body = this.#block();
      return scope => this.#run.loop(scope, test, body);
    }
    if (this.#take('for')) return this.#for();
    for (const kind of ['break', 'continue'])
      if (this.#take(kind)) {
        this.#take(';');
        return () => ({kind});
      }
    if (this.#take('return')) {
      const value = this.#is(';', '}') || this.#at >= this.#all.length ? () => undefined : this.#assignment();
      this.#take(';');
      return scope => ({kind: 'return', value: value(scope)});
    }
    const value = this.#assignment();
    this.#take(';');
    return scope => { this.#run.last = value(scope); };
  }
  #bracketed() {
    this.#need('(');
    const value = this.#assignment();
    this.#need(')');
    return value;
  }
  #if() {
    const test = this.#bracketed(), yes = this.#block(), no = this.#take('else') ? this.#block() : [];
    return scope => this.#run.block(test(scope) ? yes : no, Object.create(scope));
  }
  /* let a = 1, [b, c] = list; */
  #declaration() {
    this.#at++;
    const parts = [];
    do {
      const names = this.#pattern(), value = this.#take('=') ? this.#assignment() : () => undefined;
      parts.push(scope => this.#run.bind(scope, names, value(scope)));
    } while (this.#take(','));
    this.#take(';');
    return scope => { parts.forEach(part => part(scope)); };
  }
  #pattern() {
    if (!this.#take('[')) return this.#name();
    const names = [];
    while (!this.#take(']')) {
      names.push(this.#name());
      this.#take(',');
    }
    return names;
  }
  #for() {
    this.#need('(');
    if (this.#is('let', 'const', 'var')) {
      const begin = this.#at++, names = this.#pattern();
      if (this.#take('of')) {
        const list = this.#assignment();
        this.#need(')');
        const body = this.#block();
        return scope => this.#run.each(scope, names, list(scope), body);
      }
      this.#at = begin;
    }
    const first = this.#is(';') ? (this.#take(';'), () => undefined) : this.#statement();
    const test = this.#is(';') ? () => true : this.#assignment();
    this.#need(';');
    const step = this.#is(')') ? () => undefined : this.#assignment();
    this.#need(')');
    const body = this.#block();
    return scope => {
      const inner = Object.create(scope);
      first(inner);
      return this.#run.loop(inner, test, body, step);
    };
  }
  /* Of a function: (a, b = 1) { ... } */
  #function() {
    const names = this.#parameters();
    return this.#made(names, this.#block());
  }
  #parameters() {
    const names = [];
    this.#need('(');
    while (!this.#take(')')) {
      const rest = this.#take('...'), name = this.#pattern();
      names.push({name, rest, value: this.#take('=') ? this.#assignment() : undefined});
      if (!this.#is(')')) this.#need(',');
    }
    return names;
  }
  #made(names, body) { return scope => this.#run.function(scope, names, body); }
  /* Whether an arrow function begins here: "=>" follows the name, or the closing parenthesis. */
  #beginsArrow() {
    const token = this.#all[this.#at];
    if (token?.kind === 'name') return this.#all[this.#at + 1]?.text === '=>';
    return this.#is('(') && this.#all[token.close + 1]?.text === '=>';
  }
  #arrow() {
    const names = this.#is('(') ? this.#parameters() : [{name: this.#name()}];
    this.#need('=>');
    if (this.#is('{')) return this.#made(names, this.#block());
    const value = this.#assignment();
    return this.#made(names, [scope => ({kind: 'return', value: value(scope)})]);
  }

  #assignment() { return this.#nested(() => this.#oneAssignment()); }
  #oneAssignment() {
    if (this.#beginsArrow()) return this.#arrow();
    const target = this.#choice(), mark = this.#text;
    if (!/^(?:=|[-+*/%]=|\*\*=|&&=|\|\|=|\?\?=)$/.test(mark ?? '')) return target;
    this.#at++;
    if (!target.place) wrong(`nothing can be assigned before ${mark}`);
    const value = this.#assignment(), operator = mark.slice(0, -1);
    return scope => {
      const place = target.place(scope);
      return place.set(operator ? this.#run.binary(operator, place.get(), () => value(scope)) : value(scope));
    };
  }
  #choice() {
    const test = this.#binary(0);
    if (!this.#take('?')) return test;
    const yes = this.#assignment();
    this.#need(':');
    const no = this.#assignment();
    return scope => (test(scope) ? yes(scope) : no(scope));
  }
  #binary(level) {
    if (level === BINARY.length) return this.#unary();
    let left = this.#binary(level + 1);
    while (this.#is(...BINARY[level])) {
      const mark = this.#text, first = left;
      this.#at++;
      const right = mark === '**' ? this.#binary(level) : this.#binary(level + 1);
      left = scope => this.#run.binary(mark, first(scope), () => right(scope));
    }
    return left;
  }
  #unary() {
    const mark = this.#text;
    if (this.#take('!') || this.#take('-') || this.#take('+')) {
      const value = this.#nested(() => this.#binary(BINARY.length - 1));          // -3 ** 2 is -9
      return scope => (mark === '!' ? !value(scope) : mark === '-' ? -this.#run.number(value(scope))
        : this.#run.number(value(scope)));
    }
    if (this.#take('++') || this.#take('--')) return this.#step(this.#postfix(), mark, true);
    const value = this.#postfix(), after = this.#text;
    return this.#take('++') || this.#take('--') ? this.#step(value, after, false) : value;
  }
  #step(target, mark, before) {
    if (!target.place) wrong(`nothing can be counted by ${mark}`);
    return scope => {
      const place = target.place(scope), old = this.#run.number(place.get()), now = old + (mark === '++' ? 1
        : -1);
      place.set(now);
      return before ? now : old;
    };
  }
  #postfix() {
    let value = this.#primary();
    for (;;) {
      const of = value;
      if (this.#take('.') || this.#take('?.')) {
        const name = this.#all[this.#at++]?.text;
        value = this.#member(of, () => name);
      } else if (this.#take('[')) {
        const key = this.#assignment();
        this.#need(']');
        value = this.#member(of, key);
      } else if (this.#is('(')) {
        const given = this.#list('(', ')');
        value = scope => this.#run.call(of.place?.(scope), () => of(scope), given(scope));
      } else return value;
    }
  }
  #member(of, key) {
    const place = scope => this.#run.member(of(scope), key(scope));
    return Object.assign(scope => place(scope).get(), {place});
  }
  #list(open, close) {
    this.#need(open);
    const parts = [];
    while (!this.#take(close)) {
      const spread = this.#take('...'), value = this.#assignment();
      parts.push(scope => (spread ? [...this.#run.list(value(scope))] : [value(scope)]));
      if (!this.#is(close)) this.#need(',');
    }
    return scope => this.#run.sized(parts.flatMap(part => part(scope)));
  }
  #primary() {
    const token = this.#all[this.#at];
    if (!token) wrong('the code ends too early');
    if (this.#is('(')) return this.#bracketed();
    if (this.#is('[')) return this.#list('[', ']');
    if (this.#is('{')) return this.#object();
    this.#at++;
    const {kind, text} = token;
    if (kind === 'number') return () => Number(text.replaceAll('_', ''));
    if (kind === 'string') return () => unescaped(text.slice(1, -1));
    if (kind === 'template') return this.#template(text.slice(1, -1));
    if (kind === 'name') {
      const place = scope => this.#run.variable(scope, text);
      return Object.assign(scope => place(scope).get(), {place});
    }
    if (text === 'function') return this.#function();
    const known = {true: true, false: false, null: null, undefined};
    return Object.hasOwn(known, text) ? () => known[text] : wrong(`not understood: ${text}`);
  }
  #object() {
    this.#need('{');
    const parts = [];
    while (!this.#take('}')) {
      const token = this.#all[this.#at++] ?? wrong('} is missing');
      const name = token.kind === 'string' ? unescaped(token.text.slice(1, -1)) : token.text;
      const value = this.#take(':') ? this.#assignment() : scope => this.#run.variable(scope, name).get();
      parts.push((made, scope) => { made[name] = value(scope); });
      if (!this.#is('}')) this.#need(',');
    }
    return scope => {
      const made = Object.create(null);
      parts.forEach(part => part(made, scope));
      return made;
    };
  }
  #template(source) {
    const parts = [];
    let at = 0;
    for (const {0: whole, 1: code, index} of source.matchAll(/\$\{([^{}]*)\}/g)) {
      const text = unescaped(source.slice(at, index)), value = new Parser(code, this.#run).expression();
      parts.push(() => text, scope => this.#run.text(value(scope)));
      at = index + whole.length;
    }
    const rest = unescaped(source.slice(at));
    return scope => this.#run.sized(parts.map(part => part(scope)).join('') + rest);
  }
}

/* ---- running ---- */

class Run {
  #steps = 0; #depth = 0; output = []; last;

  #count(n = 1) {
    this.#steps += n;
    if (this.#steps > STEPS) throw new RangeError('stopped: too many steps');
  }
  sized(value) {
    if (value.length > SIZE) throw new RangeError('stopped: too large');
    this.#count(Math.ceil(value.length / 50));
    return value;
  }
  /** A value as text; each value inside it counts as a step. */
  text(value, quoted = false, depth = 0) {
    this.#count();
    if (typeof value === 'string') return quoted ? JSON.stringify(value) : value;
    if (typeof value === 'function') return 'function';
    if (value === null || typeof value !== 'object') return String(value);
    if (depth > 8) return '…';
    const list = Array.isArray(value), inner = list ? value.map(one => this.text(one, true, depth + 1))
      : Object.entries(value).map(([name, one]) =>
        `${JSON.stringify(name)}: ${this.text(one, true, depth + 1)}`);
    return this.sized(list ? `[${inner.join(', ')}]` : `{${inner.join(', ')}}`);
  }
  number(value) {
    if (value !== null && (typeof value === 'object' || typeof value === 'function'))
      throw new TypeError(`${this.text(value).slice(0, 40)} is not a number`);
    return Number(value);
  }
  list(value) {
    if (typeof value === 'string' || Array.isArray(value)) return value;
    throw new TypeError(`${this.text(value).slice(0, 40)} is not a list`);
  }

  define(scope, name, value) { scope[`$${name}`] = value; }
  bind(scope, names, value) {
    if (typeof names === 'string') this.define(scope, names, value);
    else names.forEach((name, i) => this.define(scope, name, this.list(value)[i]));
  }
  variable(scope, name) {
    const key = `$${name}`;
    let owner = scope;
    while (owner && !Object.hasOwn(owner, key)) owner = Object.getPrototypeOf(owner);
    if (!owner) throw new ReferenceError(`${name} is not known here`);
    return {get: () => owner[key], set: value => (owner[key] = value)};
  }
  member(of, key) {
    if (of === null || of === undefined) throw new TypeError(`${of} has no ${this.text(key)}`);
    const kind = Array.isArray(of) ? 'array' : typeof of, name = typeof key === 'number' ? key
      : this.text(key);
    const own = kind === 'array' || kind === 'string' ? name === 'length' || /^\d+$/.test(name)
      : kind === 'object' && Object.hasOwn(of, name);
    return {of, name, method: METHODS[kind]?.has(name), get: () => (own ? of[name] : undefined),
      set: value => {
      if (kind === 'array' ? !/^\d{1,5}$/.test(name) : kind !== 'object')
        throw new TypeError(`${name} cannot be set`);
      return (of[name] = value);
    }};
  }
  /* Arguments of a method: no value is ever converted to a string or a number by itself, since what
   * is shared inside it would be written again and again. */
  #given({of, name}, given) {
    const plain = one => (typeof one === 'object' && one ? this.text(one) : one);
    if (!Array.isArray(of) || name === 'join') return given.map(plain);
    if (/^(?:fill|includes|indexOf|lastIndexOf)$/.test(name))
      return given.map((one, i) => (i ? this.number(one) : one));
    if (name === 'at' || name === 'slice') return given.map(one => this.number(one));
    if (name === 'splice') return given.map((one, i) => (i < 2 ? this.number(one) : one));
    return name === 'sort' && typeof given[0] !== 'function'
      ? [(a, b) => (this.text(a) < this.text(b) ? -1 : 1)] : given;
  }
  call(place, value, list) {
    this.#count();
    const given = place?.method ? this.#given(place, list) : list;
    if (place?.method) {
      if (given.some(one => typeof one === 'number' && one > SIZE) || place.name === 'join'
        && place.of.reduce((sum, one) => sum + this.text(one).length, 0) > SIZE)
        throw new RangeError('stopped: too large');
      if (['repeat', 'replaceAll', 'padEnd', 'padStart'].includes(place.name)
        && place.of.length * Math.max(1, ...given.map(one => Number(one) || this.text(one).length)) > SIZE)
        throw new RangeError('stopped: too large');
      this.#count(Math.ceil((place.of.length ?? 0) / 10));
      const result = place.name === 'join' ? place.of.map(one => this.text(one)).join(given[0] ?? ',')
        : place.of[place.name](...given);
      return result?.length ? this.sized(result) : result;
    }
    const act = value();
    if (typeof act !== 'function') throw new TypeError(`${place?.name ?? this.text(act)} is not a function`);
    return act(...given);
  }
  function(scope, names, body) {
    return (...given) => {
      this.#count();
      if (++this.#depth > 200) throw new RangeError('stopped: too many calls inside each other');
      const inner = Object.create(scope);
      names.forEach(({name, rest, value}, i) => this.bind(inner, name,
        rest ? given.slice(i) : given[i] === undefined && value ? value(inner) : given[i]));
      const {value} = this.block(body, inner) ?? {};
      this.#depth--;
      return value;
    };
  }
  block(body, scope) {
    for (const statement of body) {
      this.#count();
      const end = statement(scope);
      if (end?.kind) return end;
    }
    return undefined;
  }
  loop(scope, test, body, step) {
    for (; test(scope); step?.(scope)) {
      this.#count();
      const end = this.block(body, Object.create(scope));
      if (end?.kind === 'break') break;
      if (end?.kind === 'return') return end;
    }
    return undefined;
  }
  each(scope, names, list, body) {
    for (const value of this.list(list)) {
      const inner = Object.create(scope);
      this.bind(inner, names, value);
      const end = this.block(body, inner);
      if (end?.kind === 'break') break;
      if (end?.kind === 'return') return end;
    }
    return undefined;
  }
  binary(mark, a, second) {
    this.#count();
    if (mark === '&&') return a && second();
    if (mark === '||') return a || second();
    if (mark === '??') return a ?? second();
    const b = second();
    if (mark === '===' || mark === '==') return a === b;
    if (mark === '!==' || mark === '!=') return a !== b;
    if (mark === '+' && (typeof a === 'string' || typeof b === 'string'))
      return this.sized(this.text(a) + this.text(b));
    if ('<>='.includes(mark[0]) && typeof a === 'string' && typeof b === 'string')
      return mark === '<' ? a < b : mark === '>' ? a > b : mark === '<=' ? a <= b : a >= b;
    const x = this.number(a), y = this.number(b);
    return {'+': x + y, '-': x - y, '*': x * y, '/': x / y, '%': x % y, '**': x ** y, '<': x < y, '>': x > y,
      '<=': x <= y, '>=': x >= y}[mark];
  }
  /** The variables that code can use. */
  globals() {
    const bare = all => Object.assign(Object.create(null), all), {text} = this, scope = Object.create(null);
    const all = {
      Math: bare(Object.fromEntries(Object.getOwnPropertyNames(Math).map(name => [name,
        typeof Math[name] === 'function'
        ? (...given) => Math[name](...given.map(one => this.number(one))) : Math[name]]))),
      JSON: bare({stringify: value => this.text(value, true)}),
      Object: bare({keys: of => Object.keys(of), values: of => Object.values(of), entries: of =>
        Object.entries(of)}),
      Array: bare({isArray: Array.isArray, from: (of, act = one => one) => {
        const length = typeof of === 'string' || Array.isArray(of) ? of.length
          : this.number(of?.length ?? 0) || 0;
        this.sized({length});
        return Array.from({length}, (_, i) => act(of[i], i));
      }}),
      console: bare({log: (...given) => { this.output.push(given.map(one => this.text(one)).join(' ')); }}),
      Number: value => this.number(value), String: value => text.call(this, value), Infinity, NaN,
      parseInt: (value, base) => Number.parseInt(this.text(value), this.number(base ?? 10)),
        parseFloat: value =>
        Number.parseFloat(this.text(value)), isNaN: value => Number.isNaN(this.number(value)),
    };
    for (const [name, value] of Object.entries(all)) this.define(scope, name, value);
    return scope;
  }
}

/** Runs code and returns what it prints, then its last value. Throws if the code is invalid or
 * fails. */
export function runCode(code) {
  const run = new Run(), end = run.block(new Parser(code, run).whole(), run.globals());
  const value = end?.kind === 'return' ? end.value : run.last;
  const lines = value === undefined ? run.output : [...run.output, run.text(value)];
  return lines.join('\n').slice(0, 4000) || 'undefined';
}

/** The value of one expression as people write it: 2^10, 3 × 4, sqrt(2), 15% of 80. */
export function calculate(expression) {
  const plain = expression.replace(/(\d)\s*%\s*(?:of|von)\s*/gi, '$1/100*').replaceAll('^', '**')
    .replace(/[×·]/g, '*').replaceAll('÷', '/').replaceAll('−', '-').replace(/(\d),(?=\d{3}\b)/g, '$1')
    .replaceAll('π', 'PI');
  const run = new Run(), scope = run.globals(), maths = run.variable(scope, 'Math').get();
  for (const [name, value] of Object.entries(maths)) {
    run.define(scope, name, value);
    run.define(scope, name.toLowerCase(), value);
  }
  const value = run.number(new Parser(plain, run).expression()(scope));
  if (Number.isNaN(value)) throw new TypeError('the result is not a number');
  return String(Number(value.toPrecision(14)));
}
