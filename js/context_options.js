/* What load() may be asked of a context, and generate() of a sampler and a turn, by the names
 * that they and the engine use.
 * tools/make_options.py makes it from core/engine/options.c: change that file, not this one.
 * SPDX-License-Identifier: MIT */
export const CONTEXT = {
  memory: {name: 'ram-budget', kind: 'number', least: 0, most: 10000000, value: 0},
  contextLength: {name: 'ctx-size', kind: 'whole', least: 0, most: 16777216, value: 0},
  batch: {name: 'batch-size', kind: 'whole', least: 1, most: 65536, value: 256},
  threads: {name: 'threads', kind: 'whole', least: 0, most: 256, value: 0},
  kv: {name: 'kv-type', kind: 'choice', words: ['f16', 'q8', 'f32', 'q4', 'q2', 'q8v4', 'q4v2'], value: 'q8'},
  quality: {name: 'quality', kind: 'number', least: 0, most: 1, value: 1},
  head: {name: 'head-topk', kind: 'choice', words: ['exact', 'screen', 'clusters'], value: 'exact'},
  kvWindow: {name: 'kv-window', kind: 'whole', least: 0, most: 16777216, value: 0},
  kvSinks: {name: 'kv-sinks', kind: 'whole', least: 0, most: 65536, value: 4},
  kvHeavy: {name: 'kv-heavy', kind: 'whole', least: 0, most: 16777216, value: 0},
  kvMayDrop: {name: 'kv-may-drop', kind: 'flag', value: false},
  earlyExit: {name: 'early-exit', kind: 'number', least: 0, most: 1, value: 0},
  actQuant: {name: 'act-quant', kind: 'choice', words: ['block', 'row'], value: 'block'},
  kernelRoute: {name: 'kernel-route', kind: 'choice', words: ['auto', 'mad', 'lut'], value: 'auto'},
  adapterMemory: {name: 'adapter-memory', kind: 'number', least: 0, most: 10000000, value: 0},
  firstStage: {name: 'first-stage', kind: 'flag', value: false},
  gpuStream: {name: 'gpu-stream', kind: 'choice', words: ['auto', 'off', 'prompts', 'all'], value: 'auto'},
};
export const SAMPLER = {
  seed: {name: 'seed', kind: 'whole', least: 0, most: 9007199254740992, value: 0},
  temperature: {name: 'temperature', kind: 'number', least: 0, most: 1000, value: 0.7},
  topK: {name: 'top-k', kind: 'whole', least: 0, most: 1000000000, value: 40},
  topP: {name: 'top-p', kind: 'number', least: 0, most: 1, value: 0.9},
  minP: {name: 'min-p', kind: 'number', least: 0, most: 1, value: 0},
  repeatPenalty: {name: 'repeat-penalty', kind: 'number', least: 0.01, most: 100, value: 1},
  frequencyPenalty: {name: 'frequency-penalty', kind: 'number', least: -100, most: 100, value: 0},
  presencePenalty: {name: 'presence-penalty', kind: 'number', least: -100, most: 100, value: 0},
  repeatLastN: {name: 'repeat-last-n', kind: 'whole', least: 0, most: 1048576, value: 64},
  dryMultiplier: {name: 'dry-multiplier', kind: 'number', least: 0, most: 100, value: 0},
  dryBase: {name: 'dry-base', kind: 'number', least: 1, most: 10, value: 1.75},
  dryAllowedLength: {name: 'dry-allowed-length', kind: 'whole', least: 1, most: 1048576, value: 2},
  dryLastN: {name: 'dry-last-n', kind: 'whole', least: 0, most: 1048576, value: 1024},
  topNSigma: {name: 'top-n-sigma', kind: 'number', least: 0, most: 100, value: 0},
  typicalP: {name: 'typical-p', kind: 'number', least: 0, most: 1, value: 1},
  xtcProbability: {name: 'xtc-probability', kind: 'number', least: 0, most: 1, value: 0},
  xtcThreshold: {name: 'xtc-threshold', kind: 'number', least: 0, most: 1, value: 0.1},
  dynatempRange: {name: 'dynatemp-range', kind: 'number', least: 0, most: 1000, value: 0},
  dynatempExponent: {name: 'dynatemp-exponent', kind: 'number', least: 0, most: 100, value: 1},
  mirostat: {name: 'mirostat', kind: 'whole', least: 0, most: 2, value: 0},
  mirostatTau: {name: 'mirostat-tau', kind: 'number', least: 0, most: 100, value: 5},
  mirostatEta: {name: 'mirostat-eta', kind: 'number', least: 0, most: 1, value: 0.1},
};
export const TURN = {
  minTokens: {name: 'min-tokens', kind: 'whole', least: 0, most: 9007199254740992, value: 0},
  ignoreEnd: {name: 'ignore-end', kind: 'flag', value: false},
  reasoningBudget: {name: 'reasoning-budget', kind: 'whole', least: -1, most: 9007199254740992, value: -1},
};
