/* What load() may be asked of a context, by the names that it and the engine use.
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
};
