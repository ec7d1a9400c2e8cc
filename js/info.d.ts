/* What a model, a loaded adapter and the engine say of themselves.
 * SPDX-License-Identifier: MIT */

export interface ModelInfo {
  readonly architecture: string;
  readonly name: string;
  readonly format: 'QSF' | 'GGUF';
  /** 'own' for the model's own template, or the name of the known one that writes the same. Models
   * without a template have none. */
  readonly chatTemplate?: string;
  readonly templateSource?: string;
  readonly layers: number;
  readonly embedding: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  readonly trainedContext: number;
  readonly parameters: number;
  readonly weightBytes: number;
  readonly fileBytes: number;
  /** Token ids; -1: the model has none. */
  readonly bos: number;
  readonly eos: number;
  /** Each token sees the whole text: the model embeds texts and answers nothing. */
  readonly encoder: boolean;
  /** That the file's classifier gives scores for; 0: it has none. */
  readonly classes: number;
  /** As granted. */
  readonly contextLength: number;
  readonly planBytes: number;
  /** The memory plan, part by part. */
  readonly plan: readonly {readonly name: string, readonly bytes: number}[];
  /** Whether all layers stay in memory; else they stream. */
  readonly resident: boolean;
  readonly slots: number;
  /** What gave way to `memory`: "batch 256 -> 64". */
  readonly reductions: readonly string[];
  readonly variant: 'simd' | 'relaxed' | 'simd-threads' | 'relaxed-threads';
  readonly threads: number;
  readonly isa: string;
  readonly version: string;
  /**
   * What had to be done without, also what gave way to `memory` and may show in the answers:
   * "context length 4096 -> 1024, to stay within 40 MB". It may grow while the file is fetched.
   */
  readonly warnings: readonly string[];
}

/** What loadAdapter() has read. */
export interface AdapterInfo {
  /** As its file says, or the file's. */
  readonly name: string;
  /** Matrices that it changes. */
  readonly matrices: number;
  /** The largest. */
  readonly rank: number;
  /** 0: the file has none, and alpha / rank is 1. */
  readonly alpha: number;
  /** Of memory, with what batches of 256 rows need beside it. */
  readonly bytes: number;
}

/** Since the model was loaded; Ns are nanoseconds, as exact as the page's clock. */
export interface Stats {
  readonly threads: number;
  /** Rows that were computed; generated: guesses that were wrong, too. */
  readonly promptTokens: number; readonly generatedTokens: number;
  readonly promptNs: number; readonly generatedNs: number;
  /** Computing waited for a layer's bytes. */
  readonly waitNs: number;
  /** Checking, decompressing and repacking layers. */
  readonly prepareNs: number;
  /** Of prepareNs. */
  readonly checkNs: number; readonly decompressNs: number;
  /** Of promptNs and generatedNs: the layers' matrices, attention, the head's matrix, the rest. */
  readonly matmulNs: number; readonly attentionNs: number;
  readonly headNs: number; readonly otherNs: number;
  /** Picking tokens. */
  readonly samplingNs: number;
  /** Reads were under way, as far as computing waited for their end. */
  readonly readNs: number;
  /** 0 to 1: the share of readNs and prepareNs that passed while something was computed. */
  readonly overlap: number;
  readonly bytesRead: number;
  /** Layers that tokens went on without, by `earlyExit`. */
  readonly layersLeft: number;
  /** Of a mixture of experts that `memory` does not hold: those that batches took, each once a
   * layer and batch; those of them that were in memory; those that were read, and their part of
   * bytesRead. */
  readonly expertsUsed: number; readonly expertsFound: number;
  readonly expertsRead: number; readonly expertsBytes: number;
  /** Tokens whose keys and values are kept for the next prompt that begins like this one. */
  readonly cachedTokens: number;
  /** The module's memory. */
  readonly memoryBytes: number;
}
