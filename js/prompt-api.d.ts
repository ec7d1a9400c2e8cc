/* The Prompt API of browsers (Chrome's LanguageModel) over a model of this package.
 * SPDX-License-Identifier: MIT */
import type {Model, Progress} from './index.js';

export type Content = string | Iterable<{type: 'text', value: string}>;
export interface PromptMessage {
  role: 'system' | 'user' | 'assistant';
  content: Content;
  /** Of a last message of the assistant: the answer continues it. */
  prefix?: boolean;
}
export type Prompt = string | Iterable<PromptMessage>;
export interface PromptOptions {
  signal?: AbortSignal;
  /** A JSON Schema, or a regular expression that the whole answer matches. */
  responseConstraint?: object | RegExp;
  /** The constraint is never put in the prompt. */
  omitResponseConstraintInput?: boolean;
}
export interface Tool {
  name: string; description: string; inputSchema: object; execute(input: any): Promise<string> | string;
}
interface Expected { type: string; languages?: readonly string[] }

export interface LanguageModelSession extends EventTarget {
  readonly topK: number;
  readonly temperature: number;
  readonly contextWindow: number;
  /** Tokens of the conversation so far. */
  readonly contextUsage: number;
  readonly inputQuota: number;
  readonly inputUsage: number;
  /** Called when old turns were dropped, so that an answer fits the context. */
  oncontextoverflow: ((event: Event) => unknown) | null;
  onquotaoverflow: ((event: Event) => unknown) | null;
  prompt(input: Prompt, options?: PromptOptions): Promise<string>;
  promptStreaming(input: Prompt, options?: PromptOptions): ReadableStream<string>;
  append(input: Prompt, options?: {signal?: AbortSignal}): Promise<void>;
  measureContextUsage(input: Prompt): Promise<number>;
  measureInputUsage(input: Prompt): Promise<number>;
  clone(options?: {signal?: AbortSignal}): Promise<LanguageModelSession>;
  destroy(): void;
}
export interface LanguageModelCreateOptions {
  initialPrompts?: Iterable<PromptMessage>;
  topK?: number;
  temperature?: number;
  tools?: Iterable<Tool>;
  signal?: AbortSignal;
  /** Gets a target of 'downloadprogress' events, whose `loaded` is from 0 to 1. */
  monitor?: (target: EventTarget) => void;
  expectedInputs?: readonly Expected[];
  expectedOutputs?: readonly Expected[];
}
export interface LanguageModelFactory {
  availability(options?: LanguageModelCreateOptions):
    Promise<'unavailable' | 'downloadable' | 'downloading' | 'available'>;
  params(): Promise<{defaultTopK: number, maxTopK: number, defaultTemperature: number, maxTemperature: number}>;
  create(options?: LanguageModelCreateOptions): Promise<LanguageModelSession>;
}

type Source = Model | ((onProgress: (progress: Progress) => void) => Promise<Model>);
/** from: a model, or a function that loads one when a session is created first. */
export declare function createLanguageModel(from: Source): LanguageModelFactory;
/** The browser's own LanguageModel; otherwise one over `from`. */
export declare function languageModel(from: Source): LanguageModelFactory;
