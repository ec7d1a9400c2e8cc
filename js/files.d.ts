/* The files of models: those that load() has cached, and those of a hub's repository.
 * SPDX-License-Identifier: MIT */

export interface CacheEntry {
  /** Without credentials, and without what signs a request. */
  readonly url: string;
  readonly length: number;
  /** Bytes that are stored. */
  readonly stored: number;
  readonly complete: boolean;
  readonly etag?: string;
  /** When the download began, in milliseconds since 1970. */
  readonly fetched: number;
}

/** The files that load() has cached. */
export declare const cache: {
  list(): Promise<CacheEntry[]>;
  /** Compares a cached file with the server's. headers, ignoreQuery and hubUrl: as in load(). A
   * model's name ("hf:OWNER/REPO") stands for its cached files: the first that is not current. */
  validate(url: string | URL, options?: {signal?: AbortSignal, headers?: HeadersInit,
    ignoreQuery?: readonly string[], hubUrl?: string | URL}): Promise<{
    state: 'current' | 'changed' | 'partial' | 'damaged' | 'unreachable' | 'missing', message: string}>;
  /** Deletes one file, those of a model's name ("hf:OWNER/REPO", of the revision main if it has no
   * other), or all; resolves with the number of bytes freed. Rejects with code BUSY if a file is in
   * use. */
  delete(url?: string | URL, options?: {ignoreQuery?: readonly string[],
    hubUrl?: string | URL}): Promise<number>;
  /** The bytes that are cached, the limit (Infinity: none), and how many more may be cached. */
  usage(): Promise<{readonly used: number, readonly limit: number, readonly free: number}>;
  /**
   * Sets how many megabytes may be cached, for all pages of this origin or all processes with this
   * cache, and until it is set again; Infinity: no limit. If a new file does not fit, or the device
   * has no space for it, the files that were used least recently are deleted, but none that is in
   * use; if that is not enough, none is deleted, and the new file is not cached.
   */
  limit(megabytes: number): Promise<void>;
  /** Asks the browser to keep what is cached when space becomes scarce; resolves with whether it
   * does. In Node.js: true. */
  persist(): Promise<boolean>;
};

export interface HubFile {
  readonly file: string;
  /** From the file's name: 'Q4_K_M'; '' if that has no such part. */
  readonly quantisation: string;
  readonly bytes: number;
  /** For all of the model in memory, with the other options; undefined if `error` is set. */
  readonly memoryBytes?: number;
  /** Whether that fits `memory`, or without such a limit a share of what this device has. */
  readonly fits: boolean;
  readonly chosen: boolean;
  /** Why it cannot be loaded. */
  readonly error?: string;
}
