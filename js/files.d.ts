/* The files of models: those that load() has cached, and those of a hub's repository.
 * SPDX-License-Identifier: MIT */

export interface CacheEntry {
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
  /** Compares a cached file with the server's. */
  validate(url: string | URL, options?: {signal?: AbortSignal}): Promise<{
    state: 'current' | 'changed' | 'partial' | 'damaged' | 'unreachable' | 'missing', message: string}>;
  /** Deletes one file, or all; resolves with the number of bytes freed. Rejects with code BUSY if a
   * file is in use. */
  delete(url?: string | URL): Promise<number>;
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
