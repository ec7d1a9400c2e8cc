/* The engine's worker: answers the messages of model.js.
 * SPDX-License-Identifier: MIT
 *
 * In: {id, op, ...}, answered by {id, value} or {id, error}; {op: 'more', turn}, {op: 'abort',
 * turn} and {op: 'part', conversation}, which are not answered. conversation, a number, is
 * one of those that model.conversation() made; without it a call is the model's own. Out besides:
 * {turn, pieces: [{id, text, ...}]}, parts of an answer; {turn, waits: true}, which {op: 'results',
 * turn, results} answers; {turn, done}, {turn, error}, {progress}, {warning}, {ending: ms until
 * {ended} comes, at most}, {ended}, {dead: error} when nothing more can be done. */
import {Engine, hasRelaxed} from './engine.js';
import {QsfError, pack} from './errors.js';
import {ported} from './fetching.js';
import {CLOSING_MS} from './gpu.js';
import {chosenGpu} from './gpu_choice.js';
import {RemoteSource} from './remote.js';
import {bytesSource} from './source.js';
import {Talks} from './talks.js';
import {trialsOver} from './trials.js';

/* The message that an answer continued, with the answer. */
function continued(begun, said) {
  const {content = ''} = begun, more = said.content ?? '';
  return {...begun, ...said, role: begun.role,
    content: Array.isArray(content) ? [...content, {type: 'text', text: more}] : (content ?? '') + more};
}

/* tokens that the engine may be ahead of its reader, so that messages cost it no time */
const AHEAD = 32;
/* how long the end may take, with a GPU and without one */
const GPU_MS = CLOSING_MS + 2000, END_MS = 2000;
/* codes of the user's errors: a wrong module in the option gpu */
const MISTAKES = ['NOT_FOUND', 'ARGUMENT'];

/* What load() changes when it tries again, and how that is called. */
const AGAIN = {
  reload: {options: {cache: 'reload'}, called: 'downloaded again'},
  asRange: {options: {asRange: true}, called: 'read again by ranges'},
  one: {options: {threads: 1}, called: 'loaded again with one thread'},
  cpu: {options: {device: 'cpu'}, called: 'loaded again without the GPU'},
  stays: {options: {stays: true}, called: 'loaded again, with all layers in memory'},
};
/* An error of the last attempt, with what was tried: [{why, called}]. */
function after(error, tried) {
  if (!tried.length || !(error instanceof QsfError)) return error;
  const {why, called} = tried.at(-1);
  return new QsfError(error.code, `${error.message} (${why === error.message ? `also when ${called}`
    : `when ${called}; before: ${why}`})`, {cause: error});
}

/* A signal from outside, and a promise to wait for it. */
class Stop {
  aborted = false;
  error = new QsfError('CANCELLED', 'cancelled');
  promise = new Promise(resolve => { this.abort = () => { this.aborted = true; resolve(); }; });
}

/** host: post(message), startReader(), compile(variant), startThread(init), canShare, processors,
 * gpu(), which may promise WebGPU's object; native(warn), which may promise the native engine
 * (native.js); swap: files() of Swap; runtime: its name and version; backend() for a Store;
 * mayNotBlock: this thread has other work, and stays */
export function serve(host) {
  let engine, talks, source, chosen, warnings, stored = 0;
  let making;                   // promises the engine
  const trials = trialsOver(host.backend), left = new Stop();
  let over = false, loading;    // whether the model is not wanted any more; open(), which never rejects
  const refining = new Set();   // waits until a progressive file's weights are whole
  const answers = new Map();    // by their turns' numbers: the one under way, and those whose turn will come
  const adapters = new Map();   // by number: {place, users, freed}; users: answers

  /* A model's bytes, the engine over them, the memory that it needs. */
  async function start(from, options) {
    warnings = [];
    stored = 0;
    let early = true;           // later ones follow what open() answered
    const warn = text => early ? warnings.push(text) : host.post({warning: text});
    const progress = p => {
      stored = p.stored;
      host.post({progress: {phase: 'load', ...p}});
    };
    const native = await host.native?.(warn);
    source = from.bytes ? bytesSource(from.bytes) : native?.source(from) ?? new RemoteSource(
      host.startReader(), {progress, warning: warn});
    const {cache, timeout, memory, asRange, ignoreQuery, estimate} = options;
    chosen = estimate ? undefined       // otherwise while the file is opened
      : chosenGpu(options.device, native ? () => native.gpu() : host.gpu, options.withoutGpu);
    const threads = options.threads || host.processors;
    if (threads > 1 && !host.canShare) warn('one thread: this page is not cross-origin isolated');
    // the module is compiled and threads start while the file is opened
    making = Engine.create({source, threads, relaxed: options.relaxed ?? hasRelaxed(),
      i2sLayout: options.i2sLayout, draftMtp: options.draftMtp, native,
      shared: host.canShare,
      compile: host.compile, startThread: host.startThread, spareThreads: host.spareThreads,
      hurry: host.hurry,
      runtime: host.runtime, swap: host.swap, warn});
    making.catch(() => {});     // it is thrown below
    await source.open?.(ported(from), {cache, timeout, memory, asRange, ignoreQuery, header: !!estimate});
    engine = await making;
    check();
    await engine.open();
    const asked = native ? options : {...options, threads: 0};  // a module has its threads already
    if (estimate) {
      const {warnings: reduced, ...estimated} = engine.estimate(asked);
      warnings.push(...reduced);
      return estimated;
    }
    const which = await chosen;
    check();
    if (!which.gpu) await engine.widen(asked);
    check();
    if (MISTAKES.includes(which.error?.code)) warn(which.error.message);
    await engine.context(asked, which, trials);
    warnings.push(...engine.warnings);
    await source.settle?.(engine.reading);
    await engine.decide(left);
    check();
    talks = new Talks(engine);
    const info = engine.info();
    if (!engine.moves && !host.mayNotBlock) engine.share();
    early = false;
    return info;
  }
  function check() { if (over) throw new QsfError('DISPOSED', 'disposed of while it was loaded'); }
  /* The threads and the reader end with this worker, when it is terminated. Chromium may keep this
   * worker for good if it is terminated right after them. */
  async function end() {
    for (const {stop} of answers.values()) stop.abort();
    for (const stop of refining) stop.abort();
    if (chosen) host.post({ending: GPU_MS});    // a GPU that is being opened is closed then
    const gpu = (await chosen)?.gpu;
    if (!gpu) host.post({ending: END_MS});
    await Promise.all([engine?.end(), gpu?.close()]);
    await source?.close();
  }
  /* After end(), if this worker stays alive. */
  function forget() {
    void making?.then(made => made.terminate(), () => {});
    source?.terminate?.();
    engine = making = talks = source = undefined;
  }
  /* Threads that wait for work keep the engine's memory, and the reader keeps the process. They end
   * after everything that may still call the module. */
  async function leave() {
    over = true;
    left.abort();
    await end();
    if (!host.mayNotBlock) return;
    await Promise.all([loading, talks?.over()]);
    forget();
  }

  /* After a trap the module's memory cannot be used any more. */
  function packed(error) {
    if (error instanceof WebAssembly.RuntimeError) host.post({dead: pack(error)});
    return pack(error);
  }

  async function open({from, options}) {
    const tried = new Set(), told = [];
    for (;;) {
      try {
        const info = await start(from, options);
        return {...info, warnings: [...told.map(({why, called}) => `${why}; ${called}`), ...warnings]};
      } catch (error) {
        const how = await another(error, options);
        await end();
        const again = AGAIN[how];
        if (over || !again || tried.has(how)) throw after(error, told);
        options = {...options, ...again.options, ...(how === 'cpu' && {withoutGpu: error.message})};
        tried.add(how);
        told.push({why: error.message, called: again.called});
        forget();
      }
    }
  }
  /* How a failed load may succeed; otherwise nothing or false. */
  async function another(error, {device}) {
    const {isShared, moves} = engine ?? {};
    // what was stored is damaged, the length is not the file's, or it can be read only once
    if (error.code === 'CORRUPT') return source?.spoil?.();
    if (error.code === 'HTTP') return moves && 'stays';
    if (error.code !== 'MEMORY') return undefined;
    // a GPU that has lost the trial has left its layers to a module with 32-bit addresses
    if (device === 'auto' && (await chosen)?.gpu) return 'cpu';
    return isShared && !/GPU/.test(error.message) && 'one';
  }

  /* Uses a conversation when its turn comes; use(conversation, signal) ends soon after {op:
   * 'abort', turn: id}. */
  async function working(id, talk, use) {
    const stop = new Stop(), {before, end} = talks.claim(talk);
    answers.set(id, {stop});
    try {
      await before;
      return await use(talk.conversation, stop);
    } finally {
      stop.abort();
      answers.delete(id);
      end();
    }
  }

  /* The bytes of a file that is read once. */
  async function whole(from, options, stop) {
    if (from.bytes) return {name: 'memory', bytes: from.bytes};
    const file = new RemoteSource(host.startReader(),
      {progress() {}, warning: text => host.post({warning: text})});
    // another origin hides whether it compresses
    const asRange = !!from.url && /^http/.test(globalThis.location?.origin)
      && new URL(from.url).origin !== location.origin;
    try {
      const all = file.open(ported(from), {...options, asRange}).then(() => file.read(0, file.length));
      await Promise.race([all, stop.promise]);
      if (!stop.aborted) return {name: file.name, bytes: await all};
      void all.catch(() => {});
      throw stop.error;
    } finally {
      await file.close();
      file.terminate();
    }
  }
  async function loadAdapter({id, from, options}) {
    const stop = new Stop();
    answers.set(id, {stop});
    try {
      const {name, bytes} = await whole(from, options, stop);
      const {place, info} = engine.loadAdapter(name, bytes);
      adapters.set(id, {place, users: 0});
      return {number: id, info};
    } finally {
      answers.delete(id);
    }
  }
  function release(adapter) {
    if (adapter.freed && !adapter.users) void engine.freeAdapter(adapter.place).catch(() => {});
  }
  /* It is freed after the last answer that uses it. */
  function freeAdapter({number}) {
    const adapter = adapters.get(number);
    if (!adapter) return;
    adapters.delete(number);
    adapter.freed = true;
    release(adapter);
  }
  /* A call with adapters holds them from the moment of its request. */
  function held(asked) {
    const uses = asked.map(({number, scale}) => ({adapter: adapters.get(number), scale}));
    if (!uses.every(use => use.adapter)) throw new QsfError('ARGUMENT', 'an adapter has been freed');
    for (const {adapter} of uses) adapter.users++;
    return uses.map(use => ({...use, place: use.adapter.place}));
  }
  function letGo(uses) {
    for (const {adapter} of uses) {
      adapter.users--;
      release(adapter);
    }
  }
  /* Calls use(uses); the adapters are not freed meanwhile. */
  async function withAdapters(asked, use) {
    const uses = held(asked);
    try {
      return await use(uses);
    } finally {
      letGo(uses);
    }
  }

  /* Receives the low bits of a progressive file while nothing is computed; answers may begin. */
  async function refined() {
    const stop = new Stop();
    refining.add(stop);
    try {
      await engine.refined(stop);
    } finally {
      refining.delete(stop);
    }
  }

  async function generate({turn, ...asked}) {
    const answer = {stop: new Stop(), wanted: AHEAD, wake: undefined, give: undefined};
    // the port has forgotten that turn; the worker's host counts it
    let claimed, uses = [], last = {done: 'aborted'};
    try {
      uses = asked.options.uses = held(asked.options.adapters);
      const its = talks.of(asked);
      claimed = talks.claim(its);
      answer.conversation = its.conversation;
      answers.set(turn, answer);
      await claimed.before;
      const post = message => host.post({turn, ...message});
      if (!answer.stop.aborted) last = {done: await (asked.messages ? talk : speak)(asked, answer, post)};
    } catch (error) {
      if (error !== answer.stop.error) last = {error: packed(await explain(error))};
    } finally {
      answer.stop.abort();
      answers.delete(turn);
      letGo(uses);
      host.post({turn, ...last});
      claimed?.end();
      if (!answers.size) engine?.unshare();
    }
  }

  /* Answers a conversation, and again after each round of tool results. Returns the last answer and
   * the messages that were added to the conversation; the first may be one that it continued. */
  async function talk({messages, options}, answer, post) {
    const before = JSON.parse(messages), added = [];
    const begun = options.continueFinalMessage ? before.at(-1) : undefined;
    const idSeed = (options.seed + 2 ** 20 * (options.choice ?? 0)) % 2 ** 52;
    for (let round = 0; ; round++) {
      // a required call was made in the first answer
      const toolChoice = round && options.toolChoice !== 'none' ? 'auto' : options.toolChoice;
      const said = await speak({messages: JSON.stringify([...before, ...added]),
        options: {...options, toolChoice, idSeed: idSeed + round,
          continueFinalMessage: options.continueFinalMessage && !round}}, answer, post);
      const {end, message, text} = said, calls = message?.tool_calls;
      const own = message ?? {role: 'assistant', content: text};
      if (begun && !round) added.push(continued(before.pop(), own));
      else added.push(own);
      if (!calls || round === options.toolRounds) return {...said, messages: added};
      const results = await new Promise(resolve => {
        answer.give = resolve;
        post({waits: true});
        void answer.stop.promise.then(resolve);
      });
      if (answer.stop.aborted) throw answer.stop.error;
      calls.forEach(({id, function: {name}}, i) => {
        if (results[i] !== undefined)
          added.push({role: 'tool', tool_call_id: id, name, content: results[i]});
      });
      if (end === 'length' || end === 'full' || results.includes(undefined))
        return {...said, messages: added};
    }
  }

  /* Posts the parts of an answer; why it ended, and its message. */
  async function speak({options, ...what}, answer, post) {
    const {stop} = answer;
    const told = progress => post({progress: {phase: 'prompt', ...progress}});
    const give = pieces => {
      if (pieces.length) post({pieces});
      answer.wanted -= pieces.length;
    };
    const reader = {told, give, room: () => answer.wanted};
    const tokens = answer.conversation.generate(what, options, stop, reader);
    try {
      for (;;) {
        const {done, value} = await tokens.next();
        if (done) return value;
        give(value);
        while (answer.wanted <= 0 && !stop.aborted)
          await Promise.race([new Promise(resolve => { answer.wake = resolve; }), stop.promise]);
        if (stop.aborted) throw stop.error;
      }
    } finally {
      await tokens.return();
    }
  }

  /* Damaged bytes are not kept for the next time. */
  async function explain(error) {
    if (error.code !== 'CORRUPT' || !await source.spoil?.()) return error;
    return new QsfError('CORRUPT', `${error.message}; what was stored of the file is not kept: load it again`,
      {cause: error});
  }

  const ops = {
    open(message) {
      const opening = open(message);
      loading = opening.catch(() => {});
      return opening;
    },
    tokenize: ({text, options}) => engine.aside.tokenize(text, options),
    detokenize: ({ids, options}) => engine.aside.detokenize(ids, options),
    render: ({messages, options}) => engine.aside.render(messages, options),
    embed: ({id, texts, options}) => withAdapters(options.adapters, uses =>
      working(id, talks.aside, (aside, stop) => aside.embed(texts, {...options, uses}, stop))),
    rerank: ({id, query, documents, options}) => withAdapters(options.adapters, uses =>
      working(id, talks.aside, (aside, stop) => aside.rerank(query, documents, {uses}, stop))),
    stats: () => engine.stats(),
    refined,
    saveSession: ({conversation}) => talks.at(conversation).conversation.saveSession(),
    loadSession: ({id, conversation, bytes, options}) => withAdapters(options.adapters, uses =>
      working(id, talks.at(conversation, true), talk => talk.loadSession(bytes, {uses}))),
    loadAdapter,
    freeAdapter,
    end: leave,
  };

  return async message => {
    const answer = answers.get(message.turn);
    if (message.op === 'generate') return generate(message);
    if (message.op === 'more') {
      if (answer) answer.wanted += message.n;
      return answer?.wake?.();
    }
    if (message.op === 'part') return talks?.part(message.conversation);
    if (message.op === 'results') return answer?.give?.(message.results);
    if (message.op === 'abort') {
      freeAdapter({number: message.turn});      // of a loadAdapter() that was done already
      return answer?.stop.abort();
    }
    try {
      const value = await ops[message.op](message);
      host.post(message.op === 'end' ? {ended: true} : {id: message.id, value});
    } catch (error) {
      host.post({id: message.id, error: packed(error)});
    }
    return undefined;
  };
}
