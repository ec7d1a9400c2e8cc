/* A model in a module: which module runs, with which threads; the model's description, memory and
 * statistics. Runs in the engine's worker; its parts are memory.js, transport.js, conversation.js.
 * SPDX-License-Identifier: MIT */
import {Batches, YIELD_MS} from './batches.js';
import {Conversation} from './conversation.js';
import {QsfError} from './errors.js';
import {lively, nameOf} from './gpu_choice.js';
import {GpuModule} from './gpu_module.js';
import {Memory, listed, unsigned} from './memory.js';
import {E_BUDGET, MODEL, OK, PENDING, PLAN, STATS} from './names.js';
import {contextTexts} from './options.js';
import {Swap} from './swap.js';
import {Transport} from './transport.js';
import {figuresOf, slower} from './trials.js';
import {NARROW, hasWide, wideExports, wideImports, wideMemory} from './wide.js';

const TEXTS = ['architecture', 'name', 'format', 'templateSource', 'chatTemplate', 'isa', 'version'];

const FIRST_PAGES = 64, WIDE = 'relaxed64-threads', NATIVE = 'native';
/* Answers in a batch. By default one if memory is limited, since each needs room for its logits, if
 * each would have a window of its own, or if batches change results. */
const PARALLEL = 8;
const parallel = ({maxParallel, memory, earlyExit, kvWindow, kvHeavy, kvMayDrop, batch}) =>
  Math.min(batch, maxParallel || (memory || earlyExit || kvWindow || kvHeavy || kvMayDrop ? 1 : PARALLEL));
const TRIAL_MS = 50;

/* (v128.const, three times; i32x4.relaxed_dot_i8x16_i7x16_add_s; drop) */
const RELAXED = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 62, 1, 60, 0,
  ...[1, 2, 3].flatMap(() => [253, 12, ...new Array(16).fill(0)]), 253, 147, 2, 26, 11);
export const hasRelaxed = () => WebAssembly.validate(RELAXED);

export class Engine {
  #source; #memory; #transport; #threads = [];
  #of;                          // what conversations need
  #conversations = new Set();
  /** The conversation that stats() is about. */
  last;
  /** For texts and embeddings. */
  aside;
  #model; #context;             // the module's handles
  #parallel;                    // answers in a batch
  #moves;                       // layers whose weights do not stay in memory: a GPU's; undefined: not open
  #device = {kind: 'cpu', name: '', layers: 0, reason: ''};
  #gpu;                         // the Gpu that computes; its end is this one's
  #side;                        // the module that uses it
  #readOnce = false;            // weights stay in memory, which the reader has until they are there
  #trial;                       // for device: 'auto': {key, keeps, figures, trials}; figures: those kept
  #variants; #host;             // those that are left to try; create()'s functions and numbers for them

  /** Takes the first variant that starts; open() takes the next one if its sums are wrong.
   * `compile(variant)` promises a module, `startThread(init)` a running worker with terminate();
   * spareThreads(n), which a host may lack, makes it keep n workers ready; so may it hurry, a
   * Hurry that says whether messages wait for this thread.
   * The source stays the caller's. */
  static async create({source, relaxed, shared, ...host}) {
    const variants = [];
    if (shared && host.threads > 1) variants.push(...(relaxed ? ['relaxed-threads'] : []), 'simd-threads');
    variants.push(...(relaxed ? ['relaxed'] : []), 'simd');
    if (host.native) variants.splice(0, variants.length, NATIVE);
    const wide = !host.native && shared && host.threads > 1 && relaxed && hasWide();
    const engine = new Engine(source, variants, {...host, wide});
    if (engine.#variants[0].endsWith('threads')) host.spareThreads?.(host.threads - 1);
    await engine.#next().finally(() => host.spareThreads?.(0));
    return engine;
  }

  constructor(source, variants, host) {
    this.#source = source;
    this.#variants = variants;
    this.#host = host;
    this.#transport = new Transport(source);
  }

  async #next() {
    const {threads, maximum = 65536, compile, startThread, warn} = this.#host;
    let last;
    while (this.#variants.length) {
      const variant = this.variant = this.#variants.shift();
      try {
        return variant === NATIVE ? this.#startNative()
          : await this.#start(await compile(variant), variant.endsWith('threads') ? threads : 1, maximum,
            startThread);
      } catch (error) {
        this.terminate();
        last = error;
        warn(`the module ${variant} does not start: ${error.message}`);
      }
    }
    if (last.code === 'HTTP' || last.code === 'IO') throw last;         // no module came
    if (last instanceof RangeError)
      throw new QsfError('MEMORY', `no memory for the engine: ${last.message}`, {cause: last});
    throw new QsfError('UNSUPPORTED', `this engine cannot run WebAssembly with SIMD: ${last.message}`,
      {cause: last});
  }

  #startNative() {
    const memory = this.#memory = this.#host.native.memory(this.#source);
    memory.begin(this.#transport.imports(memory), this.#host.hurry?.counts);
  }
  async #start(module, threads, maximum, startThread) {
    const shared = threads > 1, isWide = this.variant === WIDE;
    const raw = isWide ? wideMemory(FIRST_PAGES)
      : new WebAssembly.Memory({initial: FIRST_PAGES, maximum, shared});
    const memory = this.#memory = new Memory(raw, isWide), calls = this.#transport.imports(memory);
    const imports = {env: {memory: raw}, qsf: isWide ? wideImports(calls) : calls};
    const {exports} = await WebAssembly.instantiate(module, imports);
    const x = memory.x = isWide ? wideExports(exports) : exports;
    x.start();
    if (!shared) return;
    const n = x.threads((threads - 1) * (this.#host.draftMtp ? 2 : 1));
    const started = [];
    for (let i = 0; i < n; i++)
      started.push(startThread({module, memory: raw, index: i, stack: unsigned(x.thread_stack(i))}));
    for (const result of await Promise.allSettled(started)) {
      if (result.status === 'rejected') throw result.reason;
      this.#threads.push(result.value);
    }
  }

  /** Ends reads; the memory goes with the last reference. Resolves when the GPU has ended, too. */
  async end() {
    this.#transport.end();
    await Promise.all([this.#gpu?.close(), this.#of?.swap?.end()]);
  }
  /** Also ends the threads, for a worker that stays alive. */
  terminate() {
    void this.end();
    for (const thread of this.#threads) thread.terminate();
    this.#threads = [];
    this.#memory?.end?.();
  }
  get #isNative() { return this.variant === NATIVE; }
  get isShared() { return this.variant.endsWith('threads'); }
  /* Threads of a module that compute the model; the layer that makes drafts has as many again. */
  get #ownThreads() { return 1 + Math.floor(this.#threads.length / (this.#host.draftMtp ? 2 : 1)); }

  /** Opens the model, in the first variant that multiplies its matrices correctly. */
  async open() {
    for (await this.#open(); !this.#memory.x.works(this.#model); await this.#open()) {
      this.#host.warn(`the module ${this.variant} is not used: relaxed SIMD gives wrong sums in this engine`);
      this.terminate();
      await this.#next();
    }
    this.#transport.opened();
    this.#context = this.#memory.x.qsf_flat_context_new(this.#model);
    const {warn, hurry} = this.#host;
    this.#of = {memory: this.#memory, transport: this.#transport, variant: this.variant,
      warn, hurry, model: this.#model, context: this.#context};
    this.last = this.aside = this.converse();
  }
  /** Before context(options): takes a module with 64-bit addresses if the memory needs them. */
  async widen(options) {
    if (!this.#host.wide || this.estimate({...options, device: 'cpu'}).memoryBytes <= NARROW) return;
    this.terminate();
    this.#conversations.clear();
    this.#variants = [WIDE, this.variant];
    await this.#next();
    await this.open();
  }
  async #open() {
    const memory = this.#memory, {i2sLayout, draftMtp} = this.#host;
    const options = listed([['i2s-layout', i2sLayout], ['draft-mtp', draftMtp]]);
    const model = this.#model = memory.x.qsf_flat_model_new(0, 0);
    memory.check(await this.#transport.open(() => memory.named(this.#source.name, name =>
      memory.with(options, at => memory.x.qsf_flat_model_open(model, name, at)))), model);
  }
  /** A new conversation, once the context is open. */
  converse() {
    const conversation = new Conversation(this.#of);
    this.#conversations.add(conversation);
    return conversation;
  }
  /** A conversation that nothing uses any more. */
  part(conversation) {
    this.#conversations.delete(conversation);
    if (this.last === conversation) this.last = this.aside;
    return this.#of.batches.between(() => conversation.end());
  }

  /** Weights will be read: the reader writes them to shared memory directly. */
  share() {
    if (!this.isShared) return;
    this.#source.attach?.(this.#memory.raw);
    this.#readOnce = !this.reading.again;
  }
  /** After an answer: what is read once has been read. Browsers count memory for each worker that
   * has it. */
  unshare() { if (this.#readOnce) this.#source.detach?.(); }

  /** chosen: what chosenGpu() promised, whose Gpu is this engine's from now on; trials: what
   * trialsOver() returned. */
  async context(options, chosen, trials) {
    this.#gpu = chosen.gpu;
    const of = this.#of, keeps = !chosen.gpu || options.stays || options.cache === false;
    of.batches = new Batches(of, this.#parallel = parallel(options));
    of.swap = new Swap(this.#host.swap, options.memory ? 0 : undefined);
    this.#make(options, keeps ? 0 : this.#moving(options));
    of.batches.gpu = chosen.gpu ? await this.#begun(options, trials)
      : this.#without(chosen.error, options);
  }
  /* How many layers a GPU may have. With a memory limit the plan decides what stays. */
  #moving({gpuLayers = Infinity, memory}) {
    return memory ? 0 : Math.min(gpuLayers, this.#memory.number(this.#context, 'layers'));
  }
  /** Whether layers are not in memory because a GPU has them. */
  get moves() { return this.#moves > 0; }
  /* The context, or another one in its place; the last `moves` layers are a GPU's. */
  #make(options, moves) {
    const of = this.#of, {x} = this.#memory;
    if (this.#moves !== undefined) {
      x.qsf_flat_free(this.#context);
      this.#context = of.context = x.qsf_flat_context_new(this.#model);
    }
    this.#moves = moves;
    this.#memory.check(this.#asked(this.#context, options, moves, x.qsf_flat_context_open), this.#context);
    of.layers = this.#memory.number(this.#context, 'layer');
    this.last = this.aside = this.converse();
  }
  #without(error, options) {
    if (options.device === 'gpu') throw error;
    this.#gpu?.close();
    this.#device.reason = error.message;
    if (this.moves) this.#make(options, 0);
  }
  /* The context's layers go to the GPU; the side module, if there are any. */
  async #move(options) {
    try {
      const gpu = this.#gpu, module = await this.#host.compile(this.isShared ? 'gpu-threads' : 'gpu');
      const side = await GpuModule.start(module, this.#memory, gpu);
      const about = () => {
        side.use(this.#context, options, status => this.#memory.check(status, this.#context));
        return side.about(this.#context);
      };
      let {head, ...use} = about();
      if (this.moves && (use.layers < this.#moves || !head)) {
        side.leave(this.#context, true);        // layers stay that it does not take
        this.#make(options, head ? use.layers : 0);
        ({head, ...use} = about());
      }
      this.#side = side;
      this.#device = {...this.#device, kind: 'gpu', name: nameOf(gpu.info), ...use};
      return side;
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError) throw error;       // the memory is not valid any more
      return this.#without(error, options);
    }
  }
  /* What a trial's result depends on. */
  #trialKey({kv, gpuLayers, gpuMemory, gpuStream}) {
    const {version, variant, threads, architecture, weightBytes, embedding, feedForward, heads, kvHeads,
      headDim, layers, vocabulary, batch} = {...this.info(), ...this.#numbers(['batch'])};
    return JSON.stringify([this.#gpu.info.id, this.#host.runtime, version, variant, threads, architecture,
      weightBytes, embedding, feedForward, heads, kvHeads, headDim, layers, vocabulary, batch, kv, gpuLayers,
      gpuMemory, gpuStream]);
  }
  /* The GPU that was chosen, unless the stored result of a trial is that it is slower. */
  async #begun(options, trials) {
    if (options.device === 'auto') {
      const key = this.#trialKey(options), keeps = options.cache !== false;
      const figures = keeps && options.cache !== 'reload' ? await trials.get(key) : undefined;
      const reason = figures && slower(figures, nameOf(this.#gpu.info));
      this.#trial = {key, keeps, figures, trials, options};
      if (figures) this.#device.trial = figures;
      if (reason) return this.#without(new QsfError('UNSUPPORTED', reason), options);
    }
    return this.#move(options);
  }
  /** For device: 'auto', once the file can be read: a trial shows whether the GPU is worth its
   * layers, unless a result is stored. stop: see serve.js. */
  async decide(stop) {
    if (!this.#side || !this.#trial || this.#trial.figures) return;
    const {key, keeps, trials} = this.#trial, {name} = this.#device;
    try {
      const figures = await this.#tried(stop), reason = slower(figures, name);
      if (keeps) await trials.put(key, figures);
      if (reason) this.#leave(reason);
      this.#device.trial = figures;
    } catch (error) {
      if (error.code !== 'UNSUPPORTED') throw error;
      this.#leave(error.message);
    }
  }
  async #tried(stop) {
    const side = this.#side;
    for (let begins = true; ; begins = false) {
      const missing = this.#transport.expecting(), {status, reading, ns} = side.trial(this.#context, begins);
      if (side.gone) throw new QsfError('UNSUPPORTED', side.about(this.#context).reason);
      if (status !== PENDING) {
        this.#memory.check(status, this.#context);
        return figuresOf(ns);
      }
      if (reading) await missing(stop.promise, TRIAL_MS);
      else await lively(this.#gpu, Promise.race([side.missing, stop.promise]));
      if (stop.aborted) throw stop.error;
    }
  }
  #leave(reason) {
    this.#side.leave(this.#context);
    this.#side = undefined;
    this.#of.batches.gpu = undefined;
    this.#device = {kind: 'cpu', name: '', layers: 0, reason};
    if (this.moves) this.#make(this.#trial.options, 0);
  }
  /* options: all of them, as options.js has checked them; the last `moves` layers are a GPU's. */
  #asked(context, options, moves, make) {
    const most = parallel(options), seats = most > 1 ? 2 * most : 1;    // idle ones and embeddings have some
    return this.#memory.with(listed([...contextTexts(options), ['seqs', seats], ['logits', most],
      ['device-layers', moves], ...(this.#isNative ? [] : [['threads', this.#ownThreads]])]), at =>
      make(context, at));
  }
  /** What context() reduced of the requested options, and other warnings for the user. */
  get warnings() { return this.#warnings(this.#context); }
  #warnings(context) { return this.#memory.textOf(context, 'warnings').split('\n').slice(0, -1); }

  /** What context(options) would take; if that exceeds options.memory, the least that it would
   * take. It plans a context of its own: one that is open does not change. */
  estimate(options) {
    const memory = this.#memory, {x} = memory, context = x.qsf_flat_context_new(this.#model);
    const moves = options.device === 'gpu' ? this.#moving(options) : 0;
    const planned = more => this.#asked(context, {...options, ...more}, moves, x.qsf_flat_context_plan);
    try {
      const status = planned(), fits = status !== E_BUDGET;
      memory.check(fits ? status : planned({memory: memory.number(context, 'leastBytes') / 1e6}), context);
      const {planBytes: memoryBytes, ...info} = this.#info(context);
      const names = ['format', 'architecture', 'name', 'parameters', 'fileBytes', 'weightBytes', 'vocabulary',
        'layers', 'trainedContext', 'contextLength', 'resident', 'slots', 'plan', 'reductions'];
      return {...Object.fromEntries(names.map(name => [name, info[name]])), fits, memoryBytes,
        ...this.#numbers(['leastBytes', 'batch'], context), warnings: this.#warnings(context)};
    } finally {
      x.qsf_flat_free(context);
    }
  }

  #numbers(names, handle = this.last.handle || this.#context) {
    return Object.fromEntries(names.map(name => [name, this.#memory.number(handle, name)]));
  }

  info() { return this.#info(this.#context, this.last.handle || this.#context); }
  #info(context, handle = context) {
    const memory = this.#memory, plan = [], reductions = [];
    const texts = Object.fromEntries(TEXTS.map(name => [name, memory.textOf(context, name)]));
    for (let i = 0, name; (name = memory.textOf(context, 'item', i)) !== undefined; i++)
      plan.push({name, bytes: memory.number(context, 'itemBytes', i)});
    for (let i = 0, text; (text = memory.textOf(context, 'reduction', i)) !== undefined; i++)
      reductions.push(text);
    const {batch, leastBytes, ...numbers} = this.#numbers([...MODEL, ...PLAN], handle);
    return {...texts, ...numbers, resident: numbers.resident === 1, encoder: numbers.encoder === 1,
      plan, reductions, fileBytes: this.#source.length,
      maxParallel: this.#parallel, backend: this.#isNative ? NATIVE : 'wasm', variant: this.variant,
      threads: this.#isNative ? memory.number(context, 'threads') : this.#ownThreads,
      device: this.#device};
  }
  /** again: parts of the file are read in every pass: layers, or the head and the embedding.
   * apart: scattered parts are: experts of layers. */
  get reading() {
    const {resident, plan} = this.info(), has = word => plan.some(({name}) => name.startsWith(word));
    return {again: !resident || has('window'), apart: has('experts')};
  }
  /** Waits for the low bits of a progressive file. */
  async refined(signal) {
    for (;;) {
      const missing = this.#transport.expecting(), status = this.#memory.x.qsf_flat_refine(this.#context);
      if (status === OK) return;
      if (status !== PENDING) this.#memory.check(status, this.#context);
      await missing(signal.promise, YIELD_MS);
      await this.#of.batches.pause();
      if (signal.aborted) throw signal.error;
    }
  }

  /* ---- adapters ---- */
  /** Reads one from a file's bytes; returns its place, and its description. */
  loadAdapter(name, bytes) {
    const memory = this.#memory, {x} = memory, place = x.qsf_flat_adapter_new(this.#model);
    try {
      memory.named(name, at => this.#transport.loaded(bytes, () =>
        memory.check(x.adapter_load(place, at, bytes.byteLength), place)));
    } catch (error) {
      x.qsf_flat_free(place);
      throw error;
    }
    const [matrices, rank, alpha, size] = ['matrices', 'rank', 'alpha', 'adapterBytes'].map(which =>
      memory.number(place, which));
    return {place, info: {name: memory.textOf(place, 'adapter'), matrices, rank, alpha, bytes: size}};
  }
  freeAdapter(place) {
    return this.#of.batches.between(() => {
      for (const conversation of this.#conversations) conversation.disuse(place);
      this.#memory.x.qsf_flat_free(place);
    });
  }

  stats() {
    const numbers = this.#numbers([...STATS, 'samplingNs']);
    return {...numbers, gpuLayers: this.#side?.about(this.#context).layers ?? 0,
      cachedTokens: this.last.length,
      memoryBytes: this.#memory.size ?? this.#memory.number(this.#context, 'planBytes')};
  }
}

/** What a thread of the engine runs: its instance waits for work and never returns. */
export async function runThread({module, memory, index, stack}, ready) {
  const stranger = () => { throw new Error('only the engine reads'); };
  const {exports} = await WebAssembly.instantiate(module, {
    env: {memory}, qsf: {now: () => performance.now(), open: stranger, length: stranger, read: stranger,
      cancel: stranger,
      save: stranger, load: stranger},
  });
  const isWide = typeof exports.__stack_pointer.value === 'bigint';
  exports.__stack_pointer.value = isWide ? BigInt(stack) : stack;
  ready();
  try {
    exports.thread_main(index);
  } catch (error) {
    exports.thread_failed();            // the engine waits for this thread
    throw error;
  }
}
