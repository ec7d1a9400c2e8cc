/* The engine's worker: answers the messages of model.js.
 * SPDX-License-Identifier: MIT
 *
 * In: {id, op, ...}, answered by {id, value} or {id, error}; {op: 'more', turn} and {op: 'abort', turn}, which are not answered.
 * Out besides: {turn, text}, {turn, done}, {turn, error}, {progress}, {warning}, {ended}, {dead: error} when nothing more can be done. */
import {Engine, hasRelaxed} from './engine.js';
import {QsfError, pack} from './errors.js';
import {RemoteSource} from './remote.js';
import {bytesSource} from './source.js';

const AHEAD = 8;                /* tokens that the engine may be ahead of its reader, so that messages cost it no time */

/* Told from outside; a promise of it for those who wait. */
class Stop {
  aborted = false;
  error = new QsfError('CANCELLED', 'cancelled');
  promise = new Promise(resolve => { this.abort = () => { this.aborted = true; resolve(); }; });
}

/** host: post(message), startReader(), compile(variant), startThread(init), canShare, processors */
export function serve(host) {
  let engine, source, turn, warnings, stored = 0;

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
    source = from.bytes ? bytesSource(from.bytes) : new RemoteSource(host.startReader(), {progress, warning: warn});
    await source.open?.(from, {cache: options.cache, timeout: options.timeout, header: !!options.estimate, frugal: options.memory > 0});
    const threads = options.threads || host.processors;
    if (threads > 1 && !host.canShare) warn('one thread: this page is not cross-origin isolated');
    engine = await Engine.create({source, threads, relaxed: options.relaxed ?? hasRelaxed(), shared: host.canShare,
      compile: host.compile, startThread: host.startThread, warn});
    await engine.open();
    if (options.estimate) {
      const estimate = engine.estimate({...options, threads: 0});
      warnings.push(...engine.warnings);
      return estimate;
    }
    engine.context({...options, threads: 0});
    warnings.push(...engine.warnings);
    const info = engine.info();
    source.settle?.({resident: info.resident});
    if (!info.resident) engine.share();
    early = false;
    return info;
  }
  /* The threads and the reader are ended with this worker, by who ends that.  Chromium may keep this worker for good where it is ended in the
   * moment after they were. */
  async function end() {
    turn?.stop.abort();
    engine?.end();
    await source?.close();
  }
  /* After end(), where this worker goes on. */
  function forget() {
    engine?.terminate();
    source?.terminate?.();
    engine = source = undefined;
  }

  /* After a trap the module's memory is in no state to go on with. */
  function packed(error) {
    if (error instanceof WebAssembly.RuntimeError) host.post({dead: pack(error)});
    return pack(error);
  }

  async function open({from, options}) {
    for (const tried = new Set(); ;) {
      try {
        const info = await start(from, options);
        return {...info, warnings};
      } catch (error) {
        const isShared = engine?.isShared, spoiled = stored > 0 && error.code === 'CORRUPT' && await source.spoil();
        await end();
        if (spoiled && !tried.has('reload')) options = {...options, cache: 'reload'};       // what was stored is damaged
        else if (isShared && error.code === 'MEMORY' && !tried.has('one')) options = {...options, threads: 1};
        else throw error;
        tried.add(spoiled ? 'reload' : 'one');
        forget();
      }
    }
  }

  /* The sequence is nobody's while no answer is under way; one that was left is waited for. */
  async function free() {
    while (turn) {
      if (!turn.stop.aborted) throw new QsfError('BUSY', 'an answer is under way: read it to its end, or leave its loop');
      await turn.ended;
    }
  }

  async function generate({turn: number, prompt, messages, options}) {
    await free();
    const stop = new Stop();
    let end, wanted = AHEAD, wake;
    turn = {number, stop, ended: new Promise(resolve => { end = resolve; }), more: n => { wanted += n; wake?.(); }};
    let last = {done: 'aborted'};       // the port has forgotten that turn; the worker's host counts it
    try {
      const ids = messages ? engine.tokenizeChat(messages, options.template)
        : Array.isArray(prompt) ? prompt : engine.tokenize(prompt, {addSpecial: true, parseSpecial: true});
      const stops = [...options.stop];
      if (messages) stops.push(engine.turnEnd(options.template) ?? '');
      const told = progress => host.post({turn: number, progress: {phase: 'prompt', ...progress}});
      const tokens = engine.generate(ids, {...options, stop: stops}, stop, told);
      for (;;) {
        const {done, value} = await tokens.next();
        if (done) {
          last = {done: value};
          break;
        }
        host.post({turn: number, ...value});
        for (wanted--; wanted <= 0 && !stop.aborted;) await Promise.race([new Promise(resolve => { wake = resolve; }), stop.promise]);
        if (stop.aborted) break;
      }
    } catch (error) {
      if (error !== stop.error) last = {error: packed(await explain(error))};
    } finally {
      stop.abort();
      turn = undefined;
      end();
      host.post({turn: number, ...last});
    }
  }

  /* Damaged bytes are not kept for the next time. */
  async function explain(error) {
    if (error.code !== 'CORRUPT' || !await source.spoil?.()) return error;
    return new QsfError('CORRUPT', `${error.message}; what was stored of the file is not kept: load it again`, {cause: error});
  }

  const ops = {
    open,
    generate: message => { void generate(message).catch(error => host.post({turn: message.turn, error: pack(error)})); },
    tokenize: ({text, options}) => engine.tokenize(text, options),
    detokenize: ({ids, options}) => engine.detokenize(ids, options),
    render: ({messages, options}) => engine.render(messages, options?.template),
    stats: () => engine.stats(),
    saveSession: async () => { await free(); return engine.saveSession(); },
    loadSession: async ({bytes}) => { await free(); return engine.loadSession(bytes); },
    end,
  };

  return async message => {
    if (message.op === 'more' || message.op === 'abort') {
      if (turn?.number !== message.turn) return;
      if (message.op === 'more') turn.more(message.n);
      else turn.stop.abort();
      return;
    }
    try {
      const value = await ops[message.op](message);
      host.post(message.op === 'end' ? {ended: true} : {id: message.id, value});
    } catch (error) {
      host.post({id: message.id, error: packed(error)});
    }
  };
}
