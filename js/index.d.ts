/* Language models from QSF and GGUF files, in browsers and in Node.js.
 * SPDX-License-Identifier: MIT */

import type {ModelInfo, Stats} from './info.js';
export type {AdapterInfo, ModelInfo, Stats} from './info.js';
import type {Adapter, AdapterOptions, AdapterUse, EmbedOptions, Ranked, RerankOptions} from './embeddings.js';
export type {Adapter, AdapterOptions, AdapterUse, EmbedOptions, Ranked, RerankOptions} from './embeddings.js';
import type {HubFile} from './files.js';
export {cache} from './files.js';
export type {CacheEntry, HubFile} from './files.js';
import type {AnsweredCall, Answer, AnswerPart, EndReason, Message, StreamedAnswer} from './messages.js';
export type {AnsweredCall, Answer, AnswerPart, EndReason, FinishReason, Message, StreamedAnswer, ToolCall,
  Usage, WholeAnswer} from './messages.js';

/* Symbol.asyncDispose if TypeScript's library has it (lib "esnext.disposable");
 * otherwise nothing. */
type AsyncDispose = SymbolConstructor extends {readonly asyncDispose: infer S extends symbol} ? S : never;

/** What went wrong, as a stable identifier. */
export type ErrorCode =
  | 'ARGUMENT' | 'MEMORY' | 'IO' | 'CORRUPT' | 'UNSUPPORTED' | 'BUDGET' | 'FULL' | 'CANCELLED' | 'NOT_FOUND'
  | 'HTTP'       // a server's response
  | 'BUSY'       // cache.delete(): the cached file is in use
  | 'WORKER'     // the engine's worker could not start, or ended unexpectedly
  | 'DISPOSED';  // used after dispose(), or under way then

export declare class QsfError extends Error {
  constructor(code: ErrorCode, message: string, options?: {cause?: unknown});
  readonly code: ErrorCode;
  /** Of a failed load() or estimate(): what failed, without what may help. */
  readonly reason?: string;
  /** What may help then: a memory limit, a lower or a higher one, a smaller contextLength, a file
   * with fewer bits or a smaller model, fewer threads, more gpuMemory, device: 'cpu'. */
  readonly remedies?: readonly ('limit' | 'lowerLimit' | 'raiseLimit' | 'context' | 'quantisation' | 'threads'
    | 'gpuMemory' | 'cpu')[];
}

export type Progress =
  /**
   * Bytes of the file that have arrived, and how many of them were cached by an earlier visit;
   * total is 0 while unknown. waiting: a request failed, or the server asked the client to wait,
   * and the next request is made after that many milliseconds. A server that asks for more than a
   * minute is an error at once. joined: another page or process downloads the file to the same
   * cache, this is its progress, and the file is opened when it is complete.
   */
  | {phase: 'load', loaded: number, total: number, stored: number, joined?: true,
    waiting?: {ms: number, reason: string}}
  /** Prompt rows computed so far, and layers computed of the current batch of rows. Reported at
   * most every 50 ms, and at the end of each batch. */
  | {phase: 'prompt', done: number, total: number, layer: number, layers: number};

export interface LoadOptions {
  /** Memory limit of the engine in megabytes; 0: no limit. Layers that do not fit are streamed from
   * the source. A number from 0 to 10000000; default 0. */
  memory?: number;
  /** 0: one per processor. If memory cannot be shared (a page without cross-origin isolation) it is
   * always 1. A whole number from 0 to 256; default 0. */
  threads?: number;
  /**
   * The context length in tokens; 0: the model's own, at most 4096. All conversations share it: if
   * they do not fit together, those that were not used for the longest time leave memory, and come
   * back when they continue. A whole number from 0 to 16777216; default 0.
   */
  contextLength?: number;
  /** Answers that are computed together, token by token; others wait until one of these has ended
   * or its reader is slower than the engine. 0: 8, or 1 with `memory`, `kvWindow`, `kvHeavy`,
   * `kvMayDrop` or `earlyExit`, which make batches costly or change results with them. A whole
   * number from 0 to 256; default 0. */
  maxParallel?: number;
  /** Whether the file's layer for multi-token prediction drafts tokens, for the same answer sooner,
   * but not with `head`, `earlyExit` or `kvHeavy`. It stays in memory. Default false. */
  draftMtp?: boolean;
  /** Rows of a prompt that are computed at once. A whole number from 1 to 65536; default 256. */
  batch?: number;
  /** How keys and values are stored: the bits of both, or of keys and of values. docs/kv-cache.md
   * describes the cost of fewer bits. Default 'q8'. */
  kv?: 'f16' | 'q8' | 'f32' | 'q4' | 'q2' | 'q8v4' | 'q4v2';
  /**
   * 0: all positions are kept, and the conversation ends at `contextLength`. Otherwise a token sees
   * the first `kvSinks` positions and the last `kvWindow`; positions that no token will see again
   * are dropped, and a conversation may exceed `contextLength`. A new prompt shares with the last
   * one only what has not been dropped, and sessions cannot be saved after positions were dropped.
   * A whole number from 0 to 16777216; default 0.
   */
  kvWindow?: number;
  /** With `kvWindow`: the number of first positions that are always seen. A whole number from 0 to
   * 65536; default 4. */
  kvSinks?: number;
  /** With `kvWindow`: of the positions that leave the window, this many stay, those that received
   * the most attention. The result depends on how a prompt was split into batches. A whole number
   * from 0 to 16777216; default 0. */
  kvHeavy?: number;
  /**
   * If `memory` is too small for the requested `contextLength`: whether the plan may use `kvWindow`
   * and `kvHeavy` before it stores keys and values in 4 bits, which costs less quality
   * (docs/kv-cache.md). Not with `kvWindow` or `earlyExit`. The choice is reported as a warning.
   * After positions were dropped, sessions cannot be saved, and a conversation that does not
   * continue from the last answer is computed from its beginning. Default false.
   */
  kvMayDrop?: boolean;
  /**
   * Which rows of the output head are computed for a token. 'exact': all. 'screen': the best 256,
   * found with a low-bit copy. 'clusters': those near the hidden state, in files converted with
   * clusters. The last two keep embedding and head in memory; docs/performance.md shows how often
   * the most likely token is the same. Default 'exact'.
   */
  head?: 'exact' | 'screen' | 'clusters';
  /** 1: all layers; a lower value skips the layers that the file marks as least important. A number
   * from 0 to 1; default 1. */
  quality?: number;
  /**
   * 0: off. Otherwise a token skips to the last two layers once its hidden state has settled: a
   * cosine of at least this value (0.9 to 0.99) over two layers. Answers then differ from those of
   * all layers. Not with `kvWindow`. Sessions cannot be saved while a token still has to pass the
   * layers that it skipped. A number from 0 to 1; default 0.
   */
  earlyExit?: number;
  /** Which activations share the scale of their 8-bit codes: blocks of 64 columns, or a whole row,
   * as BitNet models were trained; blocks are closer to floats. Default 'block'. */
  actQuant?: 'block' | 'row';
  /**
   * How 2-bit weights without scales (BitNet models) are multiplied with one row of activations:
   * products ('mad'), lookup tables ('lut'), or whichever is faster here. The results are the same.
   * Default 'auto'.
   */
  kernelRoute?: 'auto' | 'mad' | 'lut';
  /** With a memory limit: megabytes reserved for LoRA adapters. A number from 0 to 10000000;
   * default 0. */
  adapterMemory?: number;
  /**
   * For a progressive file (qsf-convert --progressive) that fits in memory: answer with the high
   * bits of its weights, which come first, while the low bits arrive. refined() resolves when all
   * bits are there. Default false.
   */
  firstStage?: boolean;
  /** When a layer's checksum is verified: when it is first read (default), or every time it is
   * read. */
  check?: 'first' | 'every';
  /** How tensors of type I2_S in a GGUF file are stored (docs/bitnet-files.md). 'auto' decides by
   * their sizes, which cannot distinguish Microsoft's three layouts: it takes the x86 one. */
  i2sLayout?: 'auto' | 'qk256' | 'split32' | 'bitnet32' | 'microsoft' | 'microsoft-arm' | 'microsoft-rows4';
  /**
   * What computes the layers. 'auto' (default): the GPU, unless it is emulated in software, cannot
   * compute this model, or is hardly faster than the CPU in a trial of some hundred milliseconds,
   * whose result is cached unless `cache` is false ('reload': a new trial); then `ModelInfo.device`
   * has the reason. load() then waits for the bytes of a layer. 'cpu': the CPU. 'gpu': a GPU
   * of any kind, otherwise load() rejects, mostly with UNSUPPORTED. docs/webgpu.md describes which
   * layers a GPU computes. If the GPU fails or turns out to compute wrong after load(), or adapters
   * are used, the CPU continues, with a warning; `stats().gpuLayers` is the number of layers that
   * are on the GPU now. Their weights do not stay in memory (`info.resident` is false), unless
   * `memory` is given. For estimate(): 'gpu' counts what stays.
   */
  device?: 'auto' | 'cpu' | 'gpu';
  /** At most this many layers go to the GPU: the last ones. A whole number from 1 to 16777216;
   * default: all that the GPU can compute. */
  gpuLayers?: number;
  /** At most this many megabytes are taken of the GPU's memory: as many layers go there as fit,
   * with their keys and values; the others stay on the CPU. `info.device` has the plan. A number
   * from 0 to 10000000; default 0: no limit, since WebGPU does not tell a GPU's memory. */
  gpuMemory?: number;
  /** Whether weights for which `gpuMemory` has no room pass through the GPU: never ('off', and so
   * far 'auto'), for batches of 8 and more tokens, or for all (docs/webgpu.md). Default 'auto'. */
  gpuStream?: 'auto' | 'off' | 'prompts' | 'all';
  /**
   * Only in Node.js, which has no WebGPU of its own: a GPU object, or the module whose create()
   * makes one, such as npm's package `webgpu`: its name, path or file: URL. A name is looked for
   * from this package's folder, then from the current one. The engine's worker imports the module;
   * one that is not there or has no create() is a warning unless `device` is 'gpu'. An object
   * cannot go to a worker, so the engine then computes in the caller's thread, between its other
   * tasks; the process does not end before dispose().
   */
  gpu?: string | {requestAdapter(options?: object): Promise<unknown>};
  /** false: use modules without relaxed SIMD. By default relaxed SIMD is used if it works. */
  relaxed?: boolean;
  /**
   * If it throws, or returns a promise that rejects, the call that it reports on rejects: load() or
   * estimate(), or an answer whose prompt is being computed. If no call is running while a file is
   * still being downloaded, the next answer rejects. load() and answers end when such promises have
   * settled.
   */
  onProgress?: (progress: Progress) => unknown;
  /**
   * Whether bytes from a URL are cached: in the origin private file system of a page, in a folder
   * in Node.js ($QSF_CACHE/urls, otherwise ~/.cache/qsf/urls). true (default): use cached bytes,
   * store new ones, and resume interrupted downloads. 'reload': download again. false: no caching.
   */
  cache?: boolean | 'reload';
  /** Parameters of the URL's query that do not change the file: names in any case, * at the end for
   * any rest. The cache ignores them, and always those that sign: token, Signature, Expires,
   * X-Amz-* and the like. */
  ignoreQuery?: readonly string[];
  /** How many milliseconds a server may be silent before the request is repeated; 0: no limit.
   * Default 30000. */
  timeout?: number;
  /** Headers of requests to the origin of the model's URL, or to the hub. Another origin that a
   * response redirects to is not sent them; in a page this holds only for Authorization, since
   * fetch() forwards all others. */
  headers?: HeadersInit;
  /** Called instead of fetch(), in the thread of the caller, with headers, a signal, `cache` and
   * `redirect` ('manual' outside of pages). */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** The address of the hub for names that begin with "hf:". Default 'https://huggingface.co'; in
   * Node.js QSF_HUB or HF_ENDPOINT of the environment. */
  hubUrl?: string | URL;
  /** A token of the hub, sent only to its origin. In Node.js the default is HF_TOKEN of the
   * environment. */
  hubToken?: string;
  /**
   * The URL of worker-web.js, relative to the page (in Node.js: a path or file: URL of
   * worker-node.js). Default: next to the package's other scripts. For bundlers that do not
   * recognise workers, and for other origins: docs/bundlers.md. A script of another origin is
   * started through a blob: URL; its server must allow CORS.
   */
  workerUrl?: string | URL;
  /** Where the .wasm files are: their folder, or a URL for each. Default: next to worker-web.js. */
  wasmPaths?: string | URL | Partial<Record<Exclude<ModelInfo['variant'], 'native'> | 'gpu' | 'gpu-threads',
    string | URL>>;
  /**
   * Node.js: what computes. 'native': the addon of a package @qsf/PLATFORM, without which it is an
   * error; 'wasm': the package's WebAssembly modules. Default: QSF_BACKEND of the environment, else
   * native if such a package is installed and neither `device: 'gpu'`, `gpu`, `relaxed` nor
   * `wasmPaths` asks for modules. Pages have modules only.
   */
  backend?: 'wasm' | 'native';
  /** Cancels loading; load() rejects with its reason. */
  signal?: AbortSignal;
}

/**
 * A JSON object; JSON that matches a schema (drafts 4 to 2020-12; name and description are not
 * used; with `strict: true` an unsupported keyword is an error); a string that matches a regular
 * expression completely; a string of a grammar in GBNF or Lark; one of several strings.
 */
export type ResponseFormat =
  | {type: 'text'}
  | {type: 'json_object'}
  | {type: 'json_schema',
    json_schema: {schema: object | boolean, name?: string, strict?: boolean | null, description?: string}}
  | {type: 'json_schema', schema: object | boolean, strict?: boolean | null}
  | {type: 'regex', regex: string}
  | {type: 'grammar', grammar: string}
  | {type: 'choices', choices: readonly string[]};

/** A token and the natural logarithm of its probability, from the model's own logits. */
export interface Logprob {
  readonly id: number;
  readonly token: string;
  /** A token may be a part of a character. */
  readonly bytes: readonly number[];
  readonly logprob: number;
}
export interface TokenLogprob extends Logprob {
  /** The most likely tokens, best first. */
  readonly topLogprobs: readonly Logprob[];
}

/** An invalid option is an error with code ARGUMENT that names the option and its value. An
 * undefined option has its default. */
export interface GenerateOptions {
  /**
   * A whole number, default 256; Infinity: until the model ends its answer or the context is full.
   */
  maxTokens?: number;
  /** 0: always the most likely token. A number from 0 to 1000; default 0.7. */
  temperature?: number;
  /** 0: off. A whole number from 0 to 1000000000; default 40. */
  topK?: number;
  /** 1: off. A number from 0 to 1; default 0.9. */
  topP?: number;
  /** 0: off. A number from 0 to 1; default 0. */
  minP?: number;
  /** 0: a different one each time. A whole number from 0 to 9007199254740992; default 0. */
  seed?: number;
  /** Which of several answers with the same `seed` this is: each has random numbers of its own. A
   * whole number from 0 to 4294967296. With it, a `seed` of 0 is one like any other. */
  choice?: number;
  /** 1: off. A number from 0.01 to 100; default 1. */
  repeatPenalty?: number;
  /** Subtracted for each occurrence of a token. A number from -100 to 100; default 0. */
  frequencyPenalty?: number;
  /** Subtracted once if a token has occurred. A number from -100 to 100; default 0. */
  presencePenalty?: number;
  /** How many of the last tokens the penalties look at. A whole number from 0 to 1048576; default
   * 64. */
  repeatLastN?: number;
  /** DRY: the penalty of a token that continues a repetition; 0: off. A number from 0 to 100;
   * default 0. */
  dryMultiplier?: number;
  /**
   * DRY: the growth of the penalty with each repeated token. A number from 1 to 10; default 1.75.
   */
  dryBase?: number;
  /**
   * DRY: the length of repetitions without a penalty. A whole number from 1 to 1048576; default 2.
   */
  dryAllowedLength?: number;
  /** DRY: how many of the last tokens are searched for repetitions. A whole number from 0 to
   * 1048576; default 1024. */
  dryLastN?: number;
  /** Keeps tokens within this many standard deviations of the largest logit; 0: off. A number from
   * 0 to 100; default 0. */
  topNSigma?: number;
  /** 1: off. A number from 0 to 1; default 1. */
  typicalP?: number;
  /**
   * XTC: how often the most likely tokens are excluded; 0: off. A number from 0 to 1; default 0.
   */
  xtcProbability?: number;
  /** XTC: the probability from which a token may be excluded. A number from 0 to 1; default 0.1. */
  xtcThreshold?: number;
  /**
   * How far the temperature varies with the entropy; 0: off. A number from 0 to 1000; default 0.
   */
  dynatempRange?: number;
  /** A number from 0 to 100; default 1. */
  dynatempExponent?: number;
  /** Mirostat 1 or 2 instead of topK, topP, minP and similar; 0: off. A whole number from 0 to 2;
   * default 0. */
  mirostat?: number;
  /** Mirostat: the target surprise in bits. A number from 0 to 100; default 5. */
  mirostatTau?: number;
  /** Mirostat: the learning rate. A number from 0 to 1; default 0.1. */
  mirostatEta?: number;
  /** Strings that end the answer; they are not part of it. */
  stop?: string | readonly string[];
  /** Strings that never occur in the answer, however they are split into tokens; 1 to 1024 bytes
   * each. */
  bannedTexts?: string | readonly string[];
  /** DRY: strings that end a repetition. Default: line end, ":", '"' and "*". */
  drySequenceBreakers?: string | readonly string[];
  /** Added to the logit of a token, by its id; -Infinity: the token is never chosen. */
  logitBias?: Readonly<Record<string | number, number>> | ReadonlyMap<number, number>;
  /** Whether onToken gets log probabilities. Default false. */
  logprobs?: boolean;
  /** With `logprobs`: the number of most likely tokens to report as well. A whole number from 0 to
   * 100; default 0. */
  topLogprobs?: number;
  /**
   * Constrains the answer: tokens that do not match are never chosen. An unsupported constraint is
   * an error with code ARGUMENT that says what and where; only a json_schema without `strict` is
   * enforced as far as possible, with a warning. With `tools`, the answer is a call or matches this
   * format. In chat(), a model whose template supports reasoning may reason first; the text does
   * not contain the reasoning. Default: no constraint.
   */
  responseFormat?: ResponseFormat;
  /** The most spaces and line ends wherever JSON allows white space. 0: compact; Infinity: no
   * limit. Default 32, enough for a line end and its indentation. */
  jsonBlanks?: number;
  /** The adapters to use; see Model.loadAdapter(). Default: none. */
  adapters?: readonly AdapterUse[];
  /** The answer has at least this many tokens. A whole number from 0 to 9007199254740992; default
   * 0. */
  minTokens?: number;
  /** Continue after end-of-text and end-of-turn tokens. Default false. */
  ignoreEnd?: boolean;
  /**
   * In chat(), if the template supports reasoning: after this many tokens of reasoning the engine
   * ends it, and the model answers; -1: no limit. The answer's text then does not contain the
   * reasoning, which `onReasoning` gets. A whole number from -1 to 9007199254740992; default -1.
   */
  reasoningBudget?: number;
  /**
   * Called with the id of every token and, with `logprobs`, its log probability; that is undefined
   * for a token that responseFormat forced, which was not computed. If it throws, or returns a
   * promise that rejects, the answer rejects; the answer ends when such promises have settled. The
   * same holds for the other callbacks here.
   */
  onToken?: (id: number, logprob?: TokenLogprob) => unknown;
  /** Called with each part of the answer, in order, after onToken with its token. In generate()
   * all parts are text. */
  onPart?: (part: AnswerPart) => unknown;
  /** Called while this answer's prompt is computed, in place of load()'s. */
  onProgress?: (progress: Progress) => unknown;
  /** Ends the answer, also while its reader is busy with something else; the iterator rejects with
   * its reason. */
  signal?: AbortSignal;
}

/** How a conversation becomes a prompt. */
export interface TemplateOptions {
  /** A template's name ('chatml', 'llama3', ...) or its Jinja source; default: the model's own, or
   * 'plain' for models without one. */
  template?: string;
  /**
   * Tools in the OpenAI format: `{type: 'function', function: {name, description, parameters}}`.
   */
  tools?: readonly object[];
  documents?: readonly object[];
  /** Additional variables of the template: `{enable_thinking: false}`. */
  chatTemplateKwargs?: Readonly<Record<string, unknown>>;
  /**
   * The answer continues the last message, which is not closed. Its text is only what is new; the
   * first of its `messages` is the whole message, which replaces the last one. Default false.
   */
  continueFinalMessage?: boolean;
}

export interface ChatOptions extends GenerateOptions, TemplateOptions {
  /**
   * 'auto' (default): the model decides. 'none': no calls. 'required': the first answer consists of
   * one or more calls. Or the tool that the first answer calls. A call always matches its tool's
   * schema.
   */
  toolChoice?: 'auto' | 'none' | 'required' | {type: 'function', function: {name: string}};
  /** false: at most one call per answer. Default true. */
  parallelToolCalls?: boolean;
  /**
   * Called with each call as soon as it is complete; the model continues meanwhile. The value that
   * it returns, or its promise resolves with, is the call's result: a string, or anything that JSON
   * can express. If all calls of an answer have results, these are appended as messages with the
   * role "tool", and the model answers again, with up to `maxTokens` tokens. undefined means no
   * result: chat() then ends with that answer. Other answers run meanwhile.
   */
  onToolCall?: (call: AnsweredCall) => unknown;
  /** How often the model may answer again. Calls after that are returned but not passed to
   * `onToolCall`. A whole number from 1 to 1000000; default 8. */
  maxToolRounds?: number;
  /** Called with the model's reasoning while it is generated. */
  onReasoning?: (text: string) => unknown;
}

/* Options with which the iterator returns an Answer, and those with which it does not. */
type Apart = {tools: readonly object[]} | {onToolCall: NonNullable<ChatOptions['onToolCall']>}
  | {onReasoning: NonNullable<ChatOptions['onReasoning']>} | {onPart: NonNullable<ChatOptions['onPart']>};
type Plain = {[name in 'tools' | 'onToolCall' | 'onReasoning' | 'onPart']?: undefined};

/** What conversation() takes: options of its chats, which a call's own options replace. Its
 * generate(), embed() and rerank() have only their own. */
export interface ConversationOptions extends Omit<ChatOptions, 'signal'> {
  /** The first message, with the role "system". */
  system?: string;
  /** Messages after it, to continue an earlier conversation. */
  messages?: readonly Message[];
}

/**
 * A conversation of its own, with what it has computed: a call computes only what is new. Its calls
 * have their turns in the order in which they begin; those of different conversations run at the
 * same time. An answer that is not read for 30 s is ended if another call of its conversation
 * waits, and rejects with CANCELLED; so do not wait for one in a callback of another.
 *
 * Conversations that do not fit in memory together leave it and come back (`contextLength`,
 * `maxParallel`): 16 MB of them are kept as bytes, the rest in files, in the origin private file
 * system of a page or the temporary folder of Node.js. The texts are the same.
 */
export interface Conversation extends Record<AsyncDispose, () => Promise<void>> {
  /** A copy of its messages. Answers that failed or were left are not among them, nor what was said
   * to them. */
  readonly messages: Message[];
  /** Says something to the model and appends both messages; or, with a list, replaces the messages
   * after `system` with it. Otherwise as Model.chat(). */
  chat(what: string | readonly Message[], options: ChatOptions & Apart): StreamedAnswer<Answer>;
  chat(what: string | readonly Message[], options?: ChatOptions & Plain): StreamedAnswer<EndReason>;
  chat(what: string | readonly Message[], options: ChatOptions): StreamedAnswer<Answer | EndReason>;
  /** As Model.generate(); the messages stay. The options of conversation() do not apply. */
  generate(prompt: string | Iterable<number>, options?: GenerateOptions): StreamedAnswer<EndReason>;
  /** As the model's, each in its turn. */
  embed: Model['embed'];
  rerank: Model['rerank'];
  saveSession: Model['saveSession'];
  loadSession: Model['loadSession'];
  /** Ends its calls, those that wait too, and frees its memory; they and later ones reject with
   * code DISPOSED. A conversation that nothing refers to is freed, too. */
  dispose(): Promise<void>;
}

/**
 * Answers run at the same time, `maxParallel` in a batch; further ones wait. An answer that is left
 * (by break, return() or its signal) ends at once. So does one whose generator nothing refers to
 * any more, when its memory is collected; until then it holds no other answer up.
 *
 * `await using model = await load(...)` disposes of the model at the end of its block.
 */
export interface Model extends Record<AsyncDispose, () => Promise<void>> {
  readonly info: ModelInfo;
  /**
   * Continues a string, or tokens. Starts at the first next(), with the arguments of the call;
   * invalid ones reject then. Leaving the loop stops the work. The iterator's return value says why
   * the answer ended; undefined: the loop was left. `await` gives the whole answer.
   */
  generate(prompt: string | Iterable<number>, options?: GenerateOptions): StreamedAnswer<EndReason>;
  /**
   * Answers a conversation, or what a user says, with the model's chat template. The part that a
   * conversation has in common with one of the last eight is not computed again. Control tokens in
   * a message's content ("<|im_end|>") are treated as text. With `tools` (also an empty list),
   * `onToolCall`, `onReasoning` or `onPart` an answer is split into reasoning, text and calls, and
   * the iterator returns an Answer. `await` gives the whole answer, which is always split.
   */
  chat(messages: string | readonly Message[], options: ChatOptions & Apart): StreamedAnswer<Answer>;
  chat(messages: string | readonly Message[], options?: ChatOptions & Plain): StreamedAnswer<EndReason>;
  chat(messages: string | readonly Message[], options: ChatOptions): StreamedAnswer<Answer | EndReason>;
  /** A new conversation; it is in memory once it computes. */
  conversation(options?: ConversationOptions): Conversation;
  /** Ends all answers that have begun, as if their loops were left; `await` rejects with
   * CANCELLED. */
  stop(): void;
  /** Plain text by default. addSpecial adds the tokens that the model's description asks for; with
   * parseSpecial "<|im_end|>" is its token. */
  tokenize(text: string, options?: {addSpecial?: boolean, parseSpecial?: boolean}): Promise<number[]>;
  detokenize(ids: Iterable<number>, options?: {special?: boolean}): Promise<string>;
  /** The text that chat() would give the model. chat() itself takes control tokens only from the
   * template's part of it. */
  render(messages: string | readonly Message[], options?: TemplateOptions): Promise<string>;
  /** The embedding of an input (a string or tokens), computed between the batches of answers. */
  embed(text: string, options?: EmbedOptions): Promise<Float32Array>;
  embed(texts: Iterable<string | Iterable<number>>, options?: EmbedOptions): Promise<Float32Array[]>;
  /** How well documents answer a query, best first: the score of the file's classifier, otherwise
   * the probability of "yes" in answer to Qwen3-Reranker's question. */
  rerank(query: string, documents: Iterable<string>, options?: RerankOptions): Promise<Ranked[]>;
  stats(): Promise<Stats>;
  /**
   * With firstStage: resolves when the low bits of all weights have been added; otherwise at once.
   * From then on answers to new prompts are those of the whole file; what was computed before does
   * not change. Low bits also arrive while answers are computed. Rejects if they cannot be read or
   * are damaged; answers then continue with the high bits. Call it after an answer has started.
   */
  refined(): Promise<void>;
  /**
   * The tokens of the last call's prompt and answer, as far as they are computed, with their keys
   * and values, to resume from them later without computing them again. The size is about that of
   * the KV cache in `info.plan`, times the
   * share of the context in use.
   */
  saveSession(): Promise<Uint8Array>;
  /**
   * Resumes from the result of saveSession(), with the same model and `kv`: a prompt that begins in
   * the same way is computed from where they differ. Resolves with the number of tokens. Data that
   * is damaged (CORRUPT), of a later version (UNSUPPORTED), of another model (ARGUMENT) or too long
   * (FULL) changes nothing. adapters: those that the session was saved with; if the last answer had
   * others, what it left is discarded in any case.
   */
  loadSession(bytes: ArrayBuffer | ArrayBufferView,
    options?: {adapters?: readonly AdapterUse[]}): Promise<number>;
  /**
   * Reads an adapter of this model, a GGUF file, from anything that load() takes, at any time. It
   * has no effect by itself: answers use the adapters named in `adapters`. If an answer has other
   * adapters or scales than the last one, the common part of the prompt is computed again. With a
   * `memory` limit, `adapterMemory` reserves room; without it answers reject with BUDGET.
   */
  loadAdapter(from: Parameters<typeof load>[0], options?: AdapterOptions): Promise<Adapter>;
  /** Frees memory, workers and handles; pending calls reject with code DISPOSED. */
  dispose(): Promise<void>;
}

/** The options of load(), so that the same object can be given to both. */
export type EstimateOptions = Omit<LoadOptions, 'onProgress'>;

/** What loading with these options would need. */
export interface Estimate {
  readonly format: 'QSF' | 'GGUF';
  readonly architecture: string;
  readonly name: string;
  readonly parameters: number;
  readonly fileBytes: number;
  readonly weightBytes: number;
  readonly vocabulary: number;
  readonly layers: number;
  readonly trainedContext: number;
  /** false: `memory` is not enough. The following values then apply to `leastBytes`. */
  readonly fits: boolean;
  /** The smallest memory limit that works with these options. */
  readonly leastBytes: number;
  readonly memoryBytes: number;
  readonly contextLength: number;
  readonly batch: number;
  readonly resident: boolean;
  readonly slots: number;
  readonly plan: readonly {readonly name: string, readonly bytes: number}[];
  readonly reductions: readonly string[];
  /** Those reductions that may affect the answers, and everything else that load() would have to do
   * without. */
  readonly warnings: readonly string[];
  /** Of a repository of a hub ("hf:OWNER/REPO"): all of its models, largest first. The estimate is
   * that of the chosen one, which load() takes. */
  readonly files?: readonly HubFile[];
}

/** Reads a model's description and reports what load() would need and reduce; weights of a file at
 * a URL are not downloaded. */
export declare function estimate(from: Parameters<typeof load>[0],
  options?: EstimateOptions): Promise<Estimate>;

/**
 * Loads a model from a URL, a Blob or File, a FileSystemFileHandle, or its bytes; in Node.js a
 * string that is not an http(s) or file URL is a path, in which ~ is the home folder. The engine
 * runs in a worker; weights never pass through the calling thread. The other parts of a split model
 * ("...-00001-of-00003.gguf") are found by the name of the first.
 *
 * "hf:OWNER/REPO" is a repository of Hugging Face's hub, or of a mirror (`hubUrl`): its model in
 * Q4_K_M or the largest with at most 4 bits, or the next smaller one that fits `memory` or this
 * device. "hf:OWNER/REPO:Q8_0" and "hf:OWNER/REPO/FILE.gguf" name one. "@REVISION" may follow.
 * What comes is compared with the SHA-256 that the hub lists; an answer does not begin before that.
 * If layers are read by ranges (neither cached nor held by `memory`), it is compared once all of
 * the file has come: if it differs, the answer and later calls fail. Experts that are read one by
 * one are not compared: a warning.
 */
export declare function load(
  from: string | URL | Blob | ArrayBuffer | SharedArrayBuffer | ArrayBufferView | {getFile(): Promise<Blob>},
  options?: LoadOptions,
): Promise<Model>;
