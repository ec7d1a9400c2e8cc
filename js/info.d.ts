/* Descriptions of a model and a loaded adapter, and statistics of the engine.
 * SPDX-License-Identifier: MIT */

export interface ModelInfo {
  readonly architecture: string;
  readonly name: string;
  readonly format: 'QSF' | 'GGUF';
  /** 'own' for the model's own template, or the name of the known template that renders the same.
   * undefined for models without a template. */
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
  /** Token ids; -1: the model has no such token. */
  readonly bos: number;
  readonly eos: number;
  /** Each token sees the whole text: the model gives embeddings and no answers. */
  readonly encoder: boolean;
  /** Number of scores that the file's classifier gives; 0: no classifier. */
  readonly classes: number;
  /** As granted by the plan. */
  readonly contextLength: number;
  readonly planBytes: number;
  /** The memory plan, part by part. */
  readonly plan: readonly {readonly name: string, readonly bytes: number}[];
  /** Whether all layers stay in memory; otherwise they are streamed. */
  readonly resident: boolean;
  readonly slots: number;
  /** What was reduced to stay within `memory`: "batch 256 -> 64". */
  readonly reductions: readonly string[];
  /** Answers that are computed in one batch; further ones wait. */
  readonly maxParallel: number;
  /** 'native': the addon of a package @qsf/... computes, in Node.js. */
  readonly backend: 'wasm' | 'native';
  readonly variant: 'simd' | 'relaxed' | 'simd-threads' | 'relaxed-threads' | 'relaxed64-threads' | 'native';
  readonly threads: number;
  /** What computes. 'gpu': this many layers are on the GPU of this name, the rest is on the CPU.
   * 'cpu': all of it, for this reason. trial: milliseconds of the layers for each token, of an
   * answer and of a prompt, if `device` is 'auto' and the GPU could compute them. plan: the GPU's
   * memory, part by part. streamed: this many further layers pass through the GPU, for the batches
   * that stream names. */
  readonly device: {readonly kind: 'cpu' | 'gpu', readonly name: string, readonly layers: number,
    readonly reason: string,
    readonly plan?: readonly {readonly name: string, readonly bytes: number}[],
    readonly streamed?: number, readonly stream?: string,
    readonly trial?: Readonly<Record<'gpu' | 'cpu', {readonly token: number, readonly prompt: number}>>};
  readonly isa: string;
  readonly version: string;
  /** What the engine has to do without, including reductions that may affect the answers: "context
   * length 4096 -> 1024, to stay within 40 MB". The list may grow while the file is downloaded. */
  readonly warnings: readonly string[];
}

/** An adapter read by loadAdapter(). */
export interface AdapterInfo {
  /** From the file's metadata, or the file's name. */
  readonly name: string;
  /** Number of matrices that it changes. */
  readonly matrices: number;
  /** The largest rank. */
  readonly rank: number;
  /** 0: the file does not set it, and alpha / rank is taken as 1. */
  readonly alpha: number;
  /** Memory, including what batches of 256 rows need for it. */
  readonly bytes: number;
}

/** Since the model was loaded. Ns are nanoseconds, as precise as the page's clock. */
export interface Stats {
  readonly threads: number;
  /** Computed rows; generatedTokens includes rejected guesses. */
  readonly promptTokens: number; readonly generatedTokens: number;
  readonly promptNs: number; readonly generatedNs: number;
  /** Time in which computing waited for a layer's bytes. */
  readonly waitNs: number;
  /** Verifying, decompressing and repacking layers. */
  readonly prepareNs: number;
  /** Parts of prepareNs. */
  readonly checkNs: number; readonly decompressNs: number;
  /** Parts of promptNs and generatedNs: the layers' matrices, attention, the head's matrix, the
   * rest. */
  readonly matmulNs: number; readonly attentionNs: number;
  readonly headNs: number; readonly otherNs: number;
  /** Sampling tokens. */
  readonly samplingNs: number;
  /** Time in which reads were in progress, as far as computing waited for their end. */
  readonly readNs: number;
  /** 0 to 1: the share of readNs and prepareNs that passed while something was computed. */
  readonly overlap: number;
  readonly bytesRead: number;
  /** Layers that tokens skipped because of `earlyExit`. */
  readonly layersLeft: number;
  /**
   * For a mixture of experts that does not fit `memory`: experts that batches used, each counted
   * once per layer and batch; how many of them were in memory; how many were read, and their part
   * of bytesRead.
   */
  readonly expertsUsed: number; readonly expertsFound: number;
  readonly expertsRead: number; readonly expertsBytes: number;
  /** Guessed tokens that were checked (`draftMtp`, and guesses from earlier text if layers are
   * streamed), and those that were right. */
  readonly draftTokens: number; readonly acceptedTokens: number;
  /** Tokens whose keys and values are kept for the next prompt with the same beginning. */
  readonly cachedTokens: number;
  /** Layers that are on a GPU now: 0 after it failed. */
  readonly gpuLayers: number;
  /** The module's memory; of the native engine, that of the plan. */
  readonly memoryBytes: number;
}
