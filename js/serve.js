/* The engine's worker: answers the messages of model.js.
 * SPDX-License-Identifier: MIT
 *
 * In: {id, op, ...}, answered by {id, value} or {id, error}; {op: 'more', turn} and {op: 'abort', turn}, which are not answered.
 * Out besides: {turn, text}, {turn, done}, {turn, error}, {progress}. */
import {Engine, hasRelaxed} from './engine.js';
import {QsfError, pack} from './errors.js';
import {blobSource, bytesSource, urlSource} from './source.js';

const AHEAD = 8;                /* tokens that the engine may be ahead of its reader, so that messages cost it no time */

/* Told from outside; a promise of it for those who wait. */
class Stop {
  aborted = false;
  error = new QsfError('CANCELLED', 'cancelled');
  promise = new Promise(resolve => { this.abort = () => { this.aborted = true; resolve(); }; });
}

/** host: post(message), openPath(path), compile(variant), startThread(init), canShare, processors */
export function serve(host) {
  let engine, turn, warnings = [];

  async function open({from, options}) {
    let bytes = 0, told = 0;
    const progress = n => {
      bytes += n;
      if (performance.now() - told < 50) return;
      told = performance.now();
      host.post({progress: {phase: 'load', loaded: bytes, total: source?.length ?? 0}});
    };
    let source;
    if (from.path !== undefined) source = await host.openPath(from.path);
    else if (from.url !== undefined) source = await urlSource(from.url, {onBytes: progress});
    else if (from.blob) source = blobSource(from.blob);
    else source = bytesSource(from.bytes);
    const threads = options.threads || host.processors;
    if (threads > 1 && !host.canShare) warnings.push('one thread: this page is not cross-origin isolated');
    engine = await Engine.create({source, threads, relaxed: options.relaxed ?? hasRelaxed(), shared: host.canShare,
      compile: host.compile, startThread: host.startThread, warn: text => warnings.push(text)});
    await engine.open(source.name);
    engine.context({...options, threads: 0});
    return {...engine.info(), warnings};
  }

  async function generate({turn: number, prompt, messages, options}) {
    while (turn) {
      if (!turn.stop.aborted) throw new QsfError('BUSY', 'an answer is under way: read it to its end, or leave its loop');
      await turn.ended;
    }
    const stop = new Stop();
    let end, wanted = AHEAD, wake;
    turn = {number, stop, ended: new Promise(resolve => { end = resolve; }), more: n => { wanted += n; wake?.(); }};
    let last = {done: 'aborted'};       // the port has forgotten that turn; the worker's host counts it
    try {
      const text = messages ? engine.render(messages, options.template) : undefined;
      const ids = Array.isArray(prompt) ? prompt : engine.tokenize(text ?? prompt, {addSpecial: true, parseSpecial: true});
      const stops = [...options.stop];
      if (messages) stops.push(engine.turnEnd(options.template) ?? '');
      const told = (done, total) => host.post({turn: number, progress: {phase: 'prompt', done, total}});
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
      if (error !== stop.error) last = {error: pack(error)};
    } finally {
      stop.abort();
      turn = undefined;
      end();
      host.post({turn: number, ...last});
    }
  }

  const ops = {
    open,
    generate: message => { void generate(message).catch(error => host.post({turn: message.turn, error: pack(error)})); },
    tokenize: ({text, options}) => engine.tokenize(text, options),
    detokenize: ({ids, options}) => engine.detokenize(ids, options),
    render: ({messages, options}) => engine.render(messages, options?.template),
    stats: () => engine.stats(),
    end: () => { turn?.stop.abort(); engine?.end(); },
  };

  return async message => {
    if (message.op === 'more' || message.op === 'abort') {
      if (turn?.number !== message.turn) return;
      if (message.op === 'more') turn.more(message.n);
      else turn.stop.abort();
      return;
    }
    try {
      host.post({id: message.id, value: await ops[message.op](message)});
    } catch (error) {
      host.post({id: message.id, error: pack(error)});
    }
  };
}
