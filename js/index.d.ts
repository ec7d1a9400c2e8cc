/* Language models from QSF and GGUF files, in browsers and in Node.js.
 * SPDX-License-Identifier: MIT */

import type {AdapterInfo, ModelInfo, Stats} from './info.js';
export type {AdapterInfo, ModelInfo, Stats} from './info.js';

/* Symbol.asyncDispose where TypeScript's library knows it (lib "esnext.disposable");
 * nothing elsewhere. */
type AsyncDispose = SymbolConstructor extends {readonly asyncDispose: infer S extends symbol} ? S : never;

/** What went wrong; a stable word. */
export type ErrorCode =
  | 'ARGUMENT' | 'MEMORY' | 'IO' | 'CORRUPT' | 'UNSUPPORTED' | 'BUDGET' | 'FULL' | 'CANCELLED' | 'NOT_FOUND'
  | 'HTTP'       // a server's answer
  | 'BUSY'       // another answer of this model is under way (see Model); a file of the cache is in use
  | 'WORKER'     // the engine's worker could not start, or ended by itself
  | 'DISPOSED';  // used after dispose()

export declare class QsfError extends Error {
  constructor(code: ErrorCode, message: string, options?: {cause?: unknown});
  readonly code: ErrorCode;
}

export type Progress =
  /**
   * Bytes of the file that are here, and how many of them were kept from an earlier visit;
   * total is 0 while it is unknown. waiting: a request failed, or the server asked for patience,
   * and the next one is made after so many milliseconds; a server that wants more than a minute
   * is an error at once.
   */
  | {phase: 'load', loaded: number, total: number, stored: number, waiting?: {ms: number, reason: string}}
  /** Rows of the prompt that are computed, and of the batch of rows under way the layers that are.
   * Told every 50 ms at most, and at each batch's end. */
  | {phase: 'prompt', done: number, total: number, layer: number, layers: number};

export interface LoadOptions {
  /**
   * Megabytes that the engine may take; 0: no limit. Layers stream from the source where they do
   * not fit. A number from 0 to 10000000; default 0.
   */
  memory?: number;
  /**
   * 0: one a processor. Where memory cannot be shared (a page without cross-origin isolation) it
   * is 1. A whole number from 0 to 256; default 0.
   */
  threads?: number;
  /**
   * Positions; 0: the model's own, at most 4096.
   * A whole number from 0 to 16777216; default 0.
   */
  contextLength?: number;
  /**
   * Rows of a prompt computed at once.
   * A whole number from 1 to 65536; default 256.
   */
  batch?: number;
  /**
   * How keys and values are kept: bits of both, or of keys and of values. docs/kv-cache.md says
   * what fewer cost. Default 'q8'.
   */
  kv?: 'f16' | 'q8' | 'f32' | 'q4' | 'q2' | 'q8v4' | 'q4v2';
  /**
   * 0: every position is kept, and `contextLength` is the end. Else a token sees the first
   * `kvSinks` positions and the last `kvWindow`; what none will see again is dropped, and a text
   * may be longer than `contextLength`. A new prompt shares with the last one only what is still
   * there; sessions cannot be saved any more once something was dropped. A whole number from 0 to
   * 16777216; default 0.
   */
  kvWindow?: number;
  /**
   * With `kvWindow`: how many of the first positions are always seen.
   * A whole number from 0 to 65536; default 4.
   */
  kvSinks?: number;
  /**
   * With `kvWindow`: of what leaves the window, this many positions that drew the most attention
   * stay. What stays depends on how a prompt was cut into batches. A whole number from 0 to
   * 16777216; default 0.
   */
  kvHeavy?: number;
  /**
   * Where `memory` is too small for the `contextLength` that was asked for: whether the plan may
   * choose `kvWindow` and `kvHeavy` before it takes 4 bits for keys and values, which costs less
   * (docs/kv-cache.md). Not with `kvWindow` or `earlyExit`. What it chose is a warning. A
   * conversation then cannot be saved once something was dropped, and one that does not go on where
   * the last answer ended is computed from its beginning. Default false.
   */
  kvMayDrop?: boolean;
  /**
   * Which rows of the output head are computed for a token. 'exact': all. 'screen': the best 256,
   * found by a copy in few bits. 'clusters': those near the hidden state, in files that were made
   * with clusters. The last two keep embedding and head in memory; docs/performance.md says how
   * often the likeliest token is the same. Default 'exact'.
   */
  head?: 'exact' | 'screen' | 'clusters';
  /** 1: all layers; less leaves out those that the file calls unimportant. A number from 0
   * to 1; default 1. */
  quality?: number;
  /**
   * 0: off. Else a token goes on with the last two layers where its hidden state has settled: a
   * cosine of this much or more (0.9 to 0.99) over two layers. Answers are then not those of all
   * layers. Not with `kvWindow`. Sessions cannot be saved while a token waits for the layers that
   * it left out. A number from 0 to 1; default 0.
   */
  earlyExit?: number;
  /**
   * What the 8-bit codes of activations share a scale with: 64 columns, or all of a row, as models
   * of the BitNet family were trained; blocks are nearer to floats. Default 'block'.
   */
  actQuant?: 'block' | 'row';
  /**
   * How layers' 2-bit weights without scales (the BitNet family) meet one row of activations: by
   * products ('mad'), by sums looked up in tables ('lut'), or by what is faster here. Answers are
   * the same. Default 'auto'.
   */
  kernelRoute?: 'auto' | 'mad' | 'lut';
  /**
   * With a memory limit: MB that are kept for adapters (LoRA). A number from 0 to 10000000;
   * default 0.
   */
  adapterMemory?: number;
  /**
   * Of a progressive file (qsf-convert --progressive) that fits in memory: answer with the high
   * bits of its weights, which come first, while the low bits arrive. refined() says when all are
   * there. Default false.
   */
  firstStage?: boolean;
  /** When a layer's checksum is compared: when it is first read (default), or every time that
   * it is read again. */
  check?: 'first' | 'every';
  /**
   * How tensors of type I2_S in a GGUF file are stored (docs/format.md, "BitNet files"). 'auto'
   * goes by their sizes, which cannot tell Microsoft's three apart: it takes that of x86 machines.
   */
  i2sLayout?: 'auto' | 'qk256' | 'split32' | 'bitnet32' | 'microsoft' | 'microsoft-arm' | 'microsoft-rows4';
  /** false: modules without relaxed SIMD. Default: where it works. */
  relaxed?: boolean;
  /**
   * What it throws, and what a promise that it returns rejects with, rejects the call that it is
   * told of: load() or estimate(), an answer whose prompt is computed. Where no call is under way,
   * while a file is still being fetched, the next answer rejects with it. load() and answers end
   * when such promises are settled.
   */
  onProgress?: (progress: Progress) => unknown;
  /**
   * Whether the bytes behind a URL are kept: in the origin private file system of a page, in a
   * folder in Node.js ($QSF_CACHE/urls, else ~/.cache/qsf/urls). true (default): used where they
   * are, kept as they come; an interrupted download goes on where it stopped. 'reload': fetched
   * anew. false: neither.
   */
  cache?: boolean | 'reload';
  /** Milliseconds that a server may be silent before it is asked again; default 30000. */
  timeout?: number;
  /**
   * Where worker-web.js is, relative to the page (in Node.js: where worker-node.js is, a path or a
   * file: URL). Default: beside the package's other scripts. Bundlers that do not see workers, and
   * other origins: docs/bundlers.md. A script of another origin starts through a blob: URL; its
   * server has to allow CORS.
   */
  workerUrl?: string | URL;
  /** Where the .wasm files are: their folder, or an address for each. Default:
   * beside worker-web.js. */
  wasmPaths?: string | URL | Partial<Record<ModelInfo['variant'], string | URL>>;
  /** Ends loading; load() rejects with its reason. */
  signal?: AbortSignal;
}

export interface CacheEntry {
  readonly url: string;
  readonly length: number;
  /** Bytes of it that are here. */
  readonly stored: number;
  readonly complete: boolean;
  readonly etag?: string;
  /** When its first byte was fetched, milliseconds since 1970. */
  readonly fetched: number;
}

/** Files that load() keeps. */
export declare const cache: {
  list(): Promise<CacheEntry[]>;
  /** Compares what is kept with what the server has. */
  validate(url: string | URL, options?: {signal?: AbortSignal}): Promise<{
    state: 'current' | 'changed' | 'partial' | 'damaged' | 'unreachable' | 'missing', message: string}>;
  /** Removes one, or all; promises the bytes that are free now. An error with code
   * BUSY: it is in use. */
  delete(url?: string | URL): Promise<number>;
};

/**
 * A JSON object; JSON that fits a schema (drafts 4 to 2020-12; name and description are not used;
 * with `strict: true` an unsupported keyword is an error); a string that a regular expression
 * matches completely; a string of a grammar in GBNF or Lark; one of several strings.
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

/** A token and the natural logarithm of its probability, by the model's own logits. */
export interface Logprob {
  readonly id: number;
  readonly token: string;
  /** A token may be part of a character. */
  readonly bytes: readonly number[];
  readonly logprob: number;
}
export interface TokenLogprob extends Logprob {
  /** The likeliest tokens, the best first. */
  readonly topLogprobs: readonly Logprob[];
}

/**
 * What is of no use is an error with code ARGUMENT that names the option and its value; an option
 * that is undefined has its default.
 */
export interface GenerateOptions {
  /** Default 256, a whole number; Infinity: until the model or the context ends. */
  maxTokens?: number;
  /** 0 takes the likeliest token. A number from 0 to 1000; default 0.7. */
  temperature?: number;
  /** 0: off. A whole number from 0 to 1000000000; default 40. */
  topK?: number;
  /** 1: off. A number from 0 to 1; default 0.9. */
  topP?: number;
  /** 0: off. A number from 0 to 1; default 0. */
  minP?: number;
  /** 0: a new one each time. A whole number from 0 to 9007199254740992; default 0. */
  seed?: number;
  /** 1: off. A number from 0.01 to 100; default 1. */
  repeatPenalty?: number;
  /** For each occurrence. A number from -100 to 100; default 0. */
  frequencyPenalty?: number;
  /** For having occurred. A number from -100 to 100; default 0. */
  presencePenalty?: number;
  /** Tokens that the penalties look back on. A whole number from 0 to 1048576; default 64. */
  repeatLastN?: number;
  /** DRY: what a token loses that goes on a repetition; 0: off. A number from 0 to 100;
   * default 0. */
  dryMultiplier?: number;
  /** Its growth with each token of the repetition. A number from 1 to 10; default 1.75. */
  dryBase?: number;
  /** Repetitions that may go on. A whole number from 1 to 1048576; default 2. */
  dryAllowedLength?: number;
  /** Tokens in which DRY looks for repetitions. A whole number from 0 to 1048576; default 1024. */
  dryLastN?: number;
  /** Standard deviations below the largest logit that are kept; 0: off. A number from 0 to 100;
   * default 0. */
  topNSigma?: number;
  /** 1: off. A number from 0 to 1; default 1. */
  typicalP?: number;
  /** How often the likeliest tokens are left out; 0: off. A number from 0 to 1; default 0. */
  xtcProbability?: number;
  /** The probability of one of those. A number from 0 to 1; default 0.1. */
  xtcThreshold?: number;
  /** How far the temperature goes up and down with the entropy; 0: off. A number from 0 to 1000;
   * default 0. */
  dynatempRange?: number;
  /** A number from 0 to 100; default 1. */
  dynatempExponent?: number;
  /** Mirostat 1 or 2 in the place of topK, topP, minP and their like; 0: off. A whole number from 0
   * to 2; default 0. */
  mirostat?: number;
  /** The surprise that it aims at, in bits. A number from 0 to 100; default 5. */
  mirostatTau?: number;
  /** How fast it learns. A number from 0 to 1; default 0.1. */
  mirostatEta?: number;
  /** The answer ends before these. */
  stop?: string | readonly string[];
  /** Texts that do not come in the answer, however they are cut into tokens; each has 1 to 1024
   * bytes. */
  bannedTexts?: string | readonly string[];
  /** Texts over which DRY sees no repetition. Default: line end, ":", '"' and "*". */
  drySequenceBreakers?: string | readonly string[];
  /** What is added to the logit of a token, by its id; -Infinity: it never comes. */
  logitBias?: Readonly<Record<string | number, number>> | ReadonlyMap<number, number>;
  /** Whether onToken is told log probabilities. Default false. */
  logprobs?: boolean;
  /** With `logprobs`: of how many of the likeliest tokens besides. A whole number from 0 to 100;
   * default 0. */
  topLogprobs?: number;
  /** Constrains the answer: tokens that do not fit are never chosen. An unsupported constraint is
   * an error with code ARGUMENT that says what and where; only a json_schema without `strict` is
   * enforced as far as possible, with a warning. With `tools`, the answer is a call or fits this.
   * In chat() a model whose template supports reasoning may reason first; the text does not
   * contain the reasoning. Default: no constraint. */
  responseFormat?: ResponseFormat;
  /** The most blanks and line ends where JSON may have some. 0: compact; Infinity: any number.
   * Default 32, enough for a line end and its indentation. */
  jsonBlanks?: number;
  /** What the answer is computed with; see Model.loadAdapter(). Default: nothing but the model. */
  adapters?: readonly AdapterUse[];
  /** No token ends the answer before so many. A whole number from 0 to 9007199254740992;
   * default 0. */
  minTokens?: number;
  /** Go on after tokens that end a text. Default false. */
  ignoreEnd?: boolean;
  /** In chat(), if the template supports reasoning: after this many tokens of reasoning the engine
   * ends it, and the model answers; -1: no limit. The answer's text is then without the reasoning,
   * which `onReasoning` gets. A whole number from -1 to 9007199254740992; default -1. */
  reasoningBudget?: number;
  /**
   * Is told the id of every token and, with `logprobs`, how likely the model thought it; that is
   * undefined for a token that responseFormat left no choice about, of which the model was not
   * asked. What it throws, and what a promise that it returns rejects with, rejects the answer,
   * which ends when such promises are settled. The same holds for the other functions here.
   */
  onToken?: (id: number, logprob?: TokenLogprob) => unknown;
  /** Ends the answer, also while its reader is busy elsewhere; the iterator rejects
   * with its reason. */
  signal?: AbortSignal;
}

/** What a conversation is written with. */
export interface TemplateOptions {
  /** A template's name ('chatml', 'llama3', ...) or its text in Jinja; default: the model's own,
   * and 'plain' for models without one. */
  template?: string;
  /** Tools as the template knows them: `{type: 'function', function: {name, description,
   * parameters}}`. */
  tools?: readonly object[];
  documents?: readonly object[];
  /** Further variables of the template: `{enable_thinking: false}`. */
  chatTemplateKwargs?: Readonly<Record<string, unknown>>;
}

export interface ChatOptions extends GenerateOptions, TemplateOptions {
  /**
   * 'auto' (default): the model chooses. 'none': it calls nothing. 'required': its first answer is
   * one call or more. Or the tool that its first answer calls. What stands inside a call fits the
   * tool's schema in any case.
   */
  toolChoice?: 'auto' | 'none' | 'required' | {type: 'function', function: {name: string}};
  /** false: one call an answer at most. Default true. */
  parallelToolCalls?: boolean;
  /**
   * Is told each call as soon as it is whole; the model goes on meanwhile. What it returns, or
   * promises, is the call's result: a text, or what JSON can say. Where all calls of an answer have
   * results, they go to the model as messages of the role "tool", and it is asked again for
   * `maxTokens` at most. undefined is no result: chat() then ends with that answer. The model is in
   * use until then: another answer rejects with BUSY.
   */
  onToolCall?: (call: AnsweredCall) => unknown;
  /** How often the model is asked again. Its calls behind that are not told, only returned. A whole
   * number from 1 to 1000000; default 8. */
  maxToolRounds?: number;
  /** Is told the model's reasoning as it comes. */
  onReasoning?: (text: string) => unknown;
}

type Apart = {tools: readonly object[]} | {onToolCall: NonNullable<ChatOptions['onToolCall']>}
  | {onReasoning: NonNullable<ChatOptions['onReasoning']>};

/** A call as the model made it; arguments are JSON. */
export interface AnsweredCall {
  id: string;
  type: 'function';
  function: {name: string, arguments: string};
}

/** What chat() returns with `tools`, `onToolCall` or `onReasoning`: of the model's last answer, its
 * parts. What the iterator yields is text of all answers, without reasoning and calls. */
export interface Answer {
  readonly end: EndReason;
  readonly reasoning: string;
  readonly text: string;
  /** Whole ones. */
  readonly toolCalls: readonly AnsweredCall[];
  /** What the conversation goes on by: the model's answers, and results of calls. */
  readonly messages: readonly Message[];
}

/** Arguments are an object, or its JSON as the OpenAI interface has it. */
export interface ToolCall {
  id?: string;
  type?: 'function';
  function: {name: string, arguments: string | object};
}

/** What else a message has goes to the template too, as far as JSON can say it. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool' | (string & {});
  /** A text, or parts of which templates take texts; null beside tool_calls. */
  content?: string | readonly (string | {type: string, text?: string})[] | null;
  tool_calls?: readonly ToolCall[];
  tool_call_id?: string;
  name?: string;
  reasoning_content?: string;
}

/** Why an answer ended: a token of the model, a stop text, maxTokens, a full context. */
export type EndReason = 'end' | 'stop' | 'length' | 'full';

/** A low-rank adapter (LoRA) in memory; docs/adapters.md says what it may change. */
export interface Adapter {
  readonly info: AdapterInfo;
  /** What loadAdapter() was asked for: how much of it, where a use does not say. */
  readonly scale: number;
  /** Its memory is free when the last answer that has it has ended. Calls that name it reject from
   * now on. */
  free(): Promise<void>;
}

/** An adapter, and how much of it: from -1000000 to 1000000. At most 8 in one list; what they add
 * is summed. */
export type AdapterUse = Adapter | {adapter: Adapter, scale?: number};

export interface AdapterOptions {
  /** Default 1. */
  scale?: number;
  /** As of load(). */
  cache?: boolean | 'reload';
  timeout?: number;
  signal?: AbortSignal;
}

export interface EmbedOptions {
  /**
   * What becomes of a text's tokens. 'auto' (default): what the file says, else the mean. 'cls' is
   * the first, 'none' gives each token's numbers, 'rank' the classifier's scores.
   */
  pooling?: 'auto' | 'mean' | 'cls' | 'last' | 'rank' | 'none';
  /** Whether a vector has the length 1. Default true. */
  normalize?: boolean;
  adapters?: readonly AdapterUse[];
  signal?: AbortSignal;
}

/** topN: the best so many; default: all. */
export interface RerankOptions { topN?: number; adapters?: readonly AdapterUse[]; signal?: AbortSignal; }

/** A document's place in the list that was given, and how well it answers; higher is better. */
export interface Ranked { readonly index: number; readonly score: number; }

/**
 * One answer at a time. An answer that is under way, or waits for its turn, ends when it is
 * read to its end or left: by break, return() or its signal. Until then another answer,
 * saveSession() and loadSession() reject with code BUSY. What ends by itself is waited for, in
 * the order of the calls: answers that were left, sessions that are saved or loaded. So who
 * stops an answer may ask again at once; of two who then ask at once, the first is answered.
 * Everything else works at any time.
 *
 * `await using model = await load(...)` disposes of the model where its block ends.
 */
export interface Model extends Record<AsyncDispose, () => Promise<void>> {
  readonly info: ModelInfo;
  /**
   * Continues a text, or tokens. Begins with the first next(), with arguments as they were at the
   * call; what is wrong with them rejects then. Leaving the loop stops the work. The iterator's
   * return value says why the answer ended; undefined: it was left.
   */
  generate(prompt: string | Iterable<number>, options?: GenerateOptions): AsyncGenerator<string,
    EndReason, void>;
  /**
   * Answers a conversation with the model's chat template. What the last call had in common
   * with this one is not computed again. Control tokens in a message's content ("<|im_end|>")
   * are text like any other. With `tools`, `onToolCall` or `onReasoning` an answer is cut into
   * reasoning, text and calls, and the iterator returns an Answer.
   */
  chat(messages: readonly Message[], options: ChatOptions & Apart): AsyncGenerator<string, Answer, void>;
  chat(messages: readonly Message[], options?: ChatOptions): AsyncGenerator<string, EndReason, void>;
  /** Plain text by default; addSpecial as the model's description asks for, parseSpecial:
   * "<|im_end|>" is its token. */
  tokenize(text: string, options?: {addSpecial?: boolean, parseSpecial?: boolean}): Promise<number[]>;
  detokenize(ids: Iterable<number>, options?: {special?: boolean}): Promise<string>;
  /** The text that chat() would give the model; chat() itself takes control tokens from the
   * template's part of it only. */
  render(messages: readonly Message[], options?: TemplateOptions): Promise<string>;
  /**
   * What a text, a string or its tokens, means as numbers. Takes its turn as sessions do; the next
   * prompt begins anew.
   */
  embed(text: string, options?: EmbedOptions): Promise<Float32Array>;
  embed(texts: Iterable<string | Iterable<number>>, options?: EmbedOptions): Promise<Float32Array[]>;
  /**
   * How well documents answer a query, best first: by the file's classifier, else by the share of
   * "yes" in the answer to Qwen3-Reranker's question.
   */
  rerank(query: string, documents: Iterable<string>, options?: RerankOptions): Promise<Ranked[]>;
  stats(): Promise<Stats>;
  /**
   * With firstStage: resolves when the low bits of all weights are in their places; at once
   * otherwise. From then on answers to new prompts are those of the whole file; what was computed
   * before stays as it is. Low bits also come in while answers are computed. Rejects where they
   * cannot be read or are damaged; answers go on with the high bits then. To be called when an
   * answer has begun.
   */
  refined(): Promise<void>;
  /**
   * The tokens of the last prompt and answer with their keys and values, to go on from them later
   * without computing them again. The size is about `info.plan`'s KV cache times the share of the
   * context that is used.
   */
  saveSession(): Promise<Uint8Array>;
  /**
   * Goes on from what saveSession() gave, of the same model and `kv`: a prompt that begins like
   * it is computed from where they part. Resolves with the number of tokens. Bytes that are
   * damaged (CORRUPT), of a later version (UNSUPPORTED), of another model (ARGUMENT) or too many
   * (FULL) change nothing. adapters: those that it was saved with; where the last answer had
   * others, what that left is gone in any case.
   */
  loadSession(bytes: ArrayBuffer | ArrayBufferView,
    options?: {adapters?: readonly AdapterUse[]}): Promise<number>;
  /**
   * Reads an adapter of this model, a GGUF file, from whatever load() takes, at any time. It
   * changes nothing by itself: answers have it that name it in `adapters`. What an answer with
   * other adapters or scales than the last one has in common with it is computed again. With a
   * `memory` limit, `adapterMemory` makes room: else answers reject with BUDGET.
   */
  loadAdapter(from: Parameters<typeof load>[0], options?: AdapterOptions): Promise<Adapter>;
  /** Frees memory, workers and handles; whoever waits hears an error with code DISPOSED. */
  dispose(): Promise<void>;
}

/** What load() takes, so that the same object can be given to both. */
export type EstimateOptions = Omit<LoadOptions, 'onProgress'>;

/** What loading with these options would take. */
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
  /** false: `memory` is not enough. What follows is then what it takes with `leastBytes`. */
  readonly fits: boolean;
  /** The smallest memory that these options can run in. */
  readonly leastBytes: number;
  readonly memoryBytes: number;
  readonly contextLength: number;
  readonly batch: number;
  readonly resident: boolean;
  readonly slots: number;
  readonly plan: readonly {readonly name: string, readonly bytes: number}[];
  readonly reductions: readonly string[];
  /** What of it may show in the answers, and whatever else load() would have to do without. */
  readonly warnings: readonly string[];
}

/** Reads a model's description and says what load() would take and reduce; of a file at a URL no
 * weights come over the network. */
export declare function estimate(from: Parameters<typeof load>[0],
  options?: EstimateOptions): Promise<Estimate>;

/**
 * Loads a model: from a URL, a Blob or File, a FileSystemFileHandle, or its bytes; in Node.js a
 * string that is no http(s) URL is a path. The engine runs in a worker; weights never pass through
 * the calling thread.
 */
export declare function load(
  from: string | URL | Blob | ArrayBuffer | SharedArrayBuffer | ArrayBufferView | {getFile(): Promise<Blob>},
  options?: LoadOptions,
): Promise<Model>;
