/* Formulas of answers, in the part of TeX that models write, as MathML. What is not known stays
 * readable as its source; a formula that is not well formed is not drawn at all.
 * SPDX-License-Identifier: MIT */

const DEPTH = 12, LIMIT = 2000;         /* groups inside each other; characters */
const MATHML = 'http://www.w3.org/1998/Math/MathML';

const table = text => Object.fromEntries(text.split(' ').map(pair => pair.split('=')));
const LETTERS = table('alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ '
  + 'vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=ϕ varphi=φ '
  + 'chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Phi=Φ Psi=Ψ Omega=Ω infty=∞ '
  + 'partial=∂ nabla=∇ ell=ℓ hbar=ℏ emptyset=∅ varnothing=∅ Re=ℜ Im=ℑ aleph=ℵ dots=… ldots=… cdots=⋯ '
  + 'vdots=⋮ ddots=⋱ degree=° angle=∠ prime=′');
const OPERATORS = table('cdot=⋅ times=× div=÷ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ le=≤ leq=≤ ge=≥ geq=≥ '
  + 'ne=≠ neq=≠ approx=≈ equiv=≡ sim=∼ simeq=≃ cong=≅ propto=∝ ll=≪ gg=≫ in=∈ notin=∉ ni=∋ subset=⊂ '
  + 'subseteq=⊆ supset=⊃ supseteq=⊇ cup=∪ cap=∩ setminus=∖ land=∧ wedge=∧ lor=∨ vee=∨ neg=¬ lnot=¬ '
  + 'forall=∀ exists=∃ to=→ rightarrow=→ leftarrow=← leftrightarrow=↔ Rightarrow=⇒ implies=⟹ Leftarrow=⇐ '
  + 'Leftrightarrow=⇔ iff=⟺ mapsto=↦ mid=| parallel=∥ perp=⊥ oplus=⊕ otimes=⊗ langle=⟨ rangle=⟩ lfloor=⌊ '
  + 'rfloor=⌋ lceil=⌈ rceil=⌉ therefore=∴ sum=∑ prod=∏ int=∫ iint=∬ oint=∮ bigcup=⋃ bigcap=⋂ lvert=| '
  + 'rvert=| vert=| Vert=‖ colon=: lbrace={ rbrace=}');
const LARGE = new Set('sum prod bigcup bigcap lim max min sup inf'.split(' '));
const FUNCTIONS = new Set(('sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh exp log ln lg det '
  + 'dim ker gcd lim max min sup inf arg deg Pr').split(' '));
const ACCENTS = table('hat=^ widehat=^ bar=¯ overline=¯ vec=→ overrightarrow=→ tilde=~ dot=˙ ddot=¨ '
  + 'underline=_');
const DOUBLE = table('R=ℝ N=ℕ Z=ℤ Q=ℚ C=ℂ P=ℙ E=𝔼');
const FENCES = {pmatrix: '()', bmatrix: '[]', vmatrix: '||', Bmatrix: '{}', cases: '{'};
const TABLES = /^(?:[pbvB]?matrix|smallmatrix|cases|aligned|align\*?|gathered|array|split|equation\*?)$/;
const FONTS = /^(?:mathrm|mathbf|mathit|mathsf|mathcal|mathbb|boldsymbol|bm|operatorname|mathfrak|mathscr)$/;
const TEXTS = /^(?:text|textbf|textit|textrm|mbox)$/;
const FRACTIONS = /^(?:[dtc]?frac)$/;
const NOTHING = /^\\(?:[,;:!> ]|quad|qquad|displaystyle|textstyle|limits|nolimits|big|Big|bigg|Bigg)$/;

class Formula {
  #doc; #tokens; #at = 0; #depth = 0; #display;

  constructor(doc, text, display) {
    this.#doc = doc;
    this.#display = display;
    this.#tokens = text.match(/\\[a-zA-Z]+\*?|\\[^]|\d+(?:[.,]\d+)*|[^]/gu) ?? [];
  }
  #make(tag, children = [], attributes = {}) {
    const node = this.#doc.createElementNS(MATHML, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...[children].flat());
    return node;
  }
  get #next() { return this.#tokens[this.#at]; }
  #skip() { while (/^\s$/.test(this.#next ?? '') || NOTHING.test(this.#next ?? '')) this.#at++; }
  #wrong(what) { throw new SyntaxError(what); }

  whole() {
    const row = this.#row([]);
    if (this.#at < this.#tokens.length) this.#wrong('more than one formula');
    return this.#make('math', row, this.#display ? {display: 'block'} : {});
  }
  /* Up to one of these tokens, which stays. */
  #row(ends) {
    if (++this.#depth > DEPTH) this.#wrong('too deep');
    const out = [];
    for (;;) {
      this.#skip();
      const token = this.#next;
      if (token === undefined || ends.includes(token)) break;
      if (token === '}' || token === '&' || token === '\\\\' || token === '\\end' || token === '\\right')
        this.#wrong(`a ${token} too many`);
      out.push(this.#scripts(this.#atom(), token));
    }
    this.#depth--;
    return out;
  }
  #scripts(base, token) {
    let below, above;
    for (;;) {
      this.#skip();
      if (this.#next === "'") {
        this.#at++;
        above = this.#make('mo', '′');
      } else if (this.#next === '^' && !above) {
        this.#at++;
        above = this.#argument();
      } else if (this.#next === '_' && !below) {
        this.#at++;
        below = this.#argument();
      } else break;
    }
    const over = this.#display && LARGE.has(token.slice(1));
    if (below && above) return this.#make(over ? 'munderover' : 'msubsup', [base, below, above]);
    if (below) return this.#make(over ? 'munder' : 'msub', [base, below]);
    return above ? this.#make(over ? 'mover' : 'msup', [base, above]) : base;
  }
  /* A group or one atom. */
  #argument() {
    this.#skip();
    const token = this.#next ?? this.#wrong('an argument is missing');
    if (/^\d./.test(token)) {           // \frac12 is a half
      this.#tokens[this.#at] = token.slice(1);
      return this.#make('mn', token[0]);
    }
    return this.#atom();
  }
  #close(token) {
    if (this.#next !== token) this.#wrong(`${token} is missing`);
    this.#at++;
  }
  /* {words}, unchanged. */
  #words() {
    this.#skip();
    if (this.#next !== '{') return this.#tokens[this.#at++] ?? this.#wrong('an argument is missing');
    let text = '';
    for (this.#at++; this.#next !== '}'; this.#at++) {
      if (this.#next === undefined || this.#next === '{') this.#wrong('} is missing');
      text += this.#next;
    }
    this.#at++;
    return text;
  }

  #atom() {
    const token = this.#tokens[this.#at++];
    if (token === '{') {
      const row = this.#row(['}']);
      this.#close('}');
      return this.#make('mrow', row);
    }
    if (/^\d/.test(token)) return this.#make('mn', token);
    if (/^\p{L}/u.test(token)) return this.#make('mi', token);
    if (token[0] !== '\\') return this.#make('mo', token === '-' ? '−' : token === '*' ? '∗' : token);
    return this.#command(token.slice(1));
  }
  #command(name) {
    if (Object.hasOwn(LETTERS, name)) return this.#make('mi', LETTERS[name]);
    if (Object.hasOwn(OPERATORS, name)) return this.#make('mo', OPERATORS[name]);
    if (FUNCTIONS.has(name)) return this.#make('mi', name);
    if (FRACTIONS.test(name)) return this.#make('mfrac', [this.#argument(), this.#argument()]);
    if (/^[dt]?binom$/.test(name))
      return this.#make('mrow', [this.#make('mo', '('), this.#make('mfrac', [this.#argument(),
        this.#argument()],
        {linethickness: '0'}), this.#make('mo', ')')]);
    if (name === 'sqrt') return this.#root();
    if (TEXTS.test(name)) return this.#make('mtext', this.#words());
    if (FONTS.test(name)) return this.#font(name);
    if (Object.hasOwn(ACCENTS, name))
      return this.#make(name === 'underline' ? 'munder' : 'mover', [this.#argument(), this.#make('mo',
        ACCENTS[name])]);
    if (name === 'boxed') return this.#argument();
    if (name === 'left') return this.#fenced();
    if (name === 'begin') return this.#table();
    if (/^[{}%$&#_|]$/.test(name)) return this.#make('mo', name === '|' ? '‖' : name);
    return this.#make('mtext', `\\${name}`);
  }
  #root() {
    this.#skip();
    if (this.#next !== '[') return this.#make('msqrt', this.#argument());
    this.#at++;
    const index = this.#make('mrow', this.#row([']']));
    this.#close(']');
    return this.#make('mroot', [this.#argument(), index]);
  }
  #font(name) {
    if (name === 'operatorname' || name === 'mathrm') return this.#make('mi', this.#words(),
      {mathvariant: 'normal'});
    if (name !== 'mathbb') return this.#argument();
    const text = this.#words();
    return this.#make('mi', Object.hasOwn(DOUBLE, text) ? DOUBLE[text] : text);
  }
  #delimiter() {
    this.#skip();
    const token = this.#tokens[this.#at++] ?? this.#wrong('a bracket is missing'), name = token.slice(1);
    const known = Object.hasOwn(OPERATORS, name) ? OPERATORS[name] : name;
    return this.#make('mo', token === '.' ? '' : token[0] === '\\' ? known : token);
  }
  #fenced() {
    const open = this.#delimiter(), row = this.#row(['\\right']);
    this.#close('\\right');
    return this.#make('mrow', [open, ...row, this.#delimiter()]);
  }
  #table() {
    const name = this.#words();
    if (!TABLES.test(name)) this.#wrong(`no table is called ${name}`);
    if (name === 'array') this.#words();
    const rows = [];
    for (let cells = []; ;) {
      cells.push(this.#make('mtd', this.#row(['&', '\\\\', '\\end'])));
      const token = this.#tokens[this.#at++];
      if (token === undefined) this.#wrong('\\end is missing');
      if (token === '&') continue;
      rows.push(this.#make('mtr', cells));
      cells = [];
      if (token === '\\end') break;
    }
    if (this.#words() !== name) this.#wrong('another table ends');
    const [open, close] = FENCES[name] ?? '', grid = this.#make('mtable', rows,
      /align|cases|split/.test(name) ? {class: 'left'} : {});
    return this.#make('mrow', [...(open ? [this.#make('mo', open)] : []), grid,
      ...(close ? [this.#make('mo', close)] : [])]);
  }
}

/** The element of a formula; undefined if the formula cannot be parsed. */
export function formulaNode(text, display, doc) {
  if (text.length > LIMIT || !doc.createElementNS) return undefined;
  try {
    return new Formula(doc, text, display).whole();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
