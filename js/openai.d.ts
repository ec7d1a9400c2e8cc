/* OpenAI's API over a model in this page or process. Requests and answers have the shapes of the
 * package `openai`, whose types describe them.
 * SPDX-License-Identifier: MIT */
import type {Model} from './index.js';

/** What the package `openai` calls instead of the network: `new OpenAI({fetch: createFetch(model),
 * baseURL: 'http://qsf/v1', apiKey: 'none'})`. name: the model's name in answers. */
export declare function createFetch(model: Model, options?: {name?: string}): typeof fetch;

/** A stream of chunks or events. */
export interface Stream<T = any> extends AsyncIterable<T> {
  /** Ends the answer. */
  readonly controller: AbortController;
}
interface Create {
  (body: object & {stream: true}, options?: {signal?: AbortSignal}): Promise<Stream>;
  (body: object & {stream?: false | null}, options?: {signal?: AbortSignal}): Promise<any>;
  (body: object, options?: {signal?: AbortSignal}): Promise<any>;
}

/** The same without that package. */
export declare class OpenAI {
  constructor(options: {model: Model, name?: string});
  readonly chat: {readonly completions: {readonly create: Create}};
  readonly completions: {readonly create: Create};
  readonly embeddings: {readonly create: Create};
  readonly responses: {readonly create: Create};
  readonly models: {
    list(): Promise<AsyncIterable<any> & {object: 'list', data: any[]}>;
    retrieve(name: string): Promise<any>;
  };
}
export default OpenAI;

export declare class APIError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;
  readonly type: string;
  readonly error: object;
}
