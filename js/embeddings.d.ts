/* LoRA adapters, embeddings and ranks.
 * SPDX-License-Identifier: MIT */

import type {AdapterInfo} from './info.js';

/** A LoRA adapter in memory; docs/adapters.md lists what it may change. */
export interface Adapter {
  readonly info: AdapterInfo;
  /** The scale given to loadAdapter(), used if a call gives none. */
  readonly scale: number;
  /** Its memory is freed when the last answer that uses it has ended. Later calls that name it
   * reject. */
  free(): Promise<void>;
}

/** An adapter and its scale, from -1000000 to 1000000. At most 8 in a list; their effects are
 * added. */
export type AdapterUse = Adapter | {adapter: Adapter, scale?: number};

export interface AdapterOptions {
  /** Default 1. */
  scale?: number;
  /** As in load(). */
  cache?: boolean | 'reload';
  ignoreQuery?: readonly string[];
  timeout?: number;
  signal?: AbortSignal;
}

export interface EmbedOptions {
  /**
   * How the tokens' vectors become one. 'auto' (default): as the file specifies, otherwise the
   * mean. 'cls' is the first token's, 'none' returns every token's vector, 'rank' the classifier's
   * scores.
   */
  pooling?: 'auto' | 'mean' | 'cls' | 'last' | 'rank' | 'none';
  /** Whether vectors are scaled to length 1. Default true. */
  normalize?: boolean;
  adapters?: readonly AdapterUse[];
  signal?: AbortSignal;
}

/** topN: the number of documents to return; default: all. */
export interface RerankOptions { topN?: number; adapters?: readonly AdapterUse[]; signal?: AbortSignal; }

/** A document's index in the list given, and its relevance; higher is better. */
export interface Ranked { readonly index: number; readonly score: number; }
