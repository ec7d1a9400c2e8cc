/* What other packages call our options: for the message about a name that is not one of them.
 * SPDX-License-Identifier: MIT
 *
 * openai, ai, transformers.js, wllama, web-llm, node-llama-cpp, ollama, LangChain, llama-server.
 * Not listed: names that differ from ours only by letter case and signs (max_tokens, topp). */
import {shown} from './errors.js';

export const NAMES = Object.entries({
  maxTokens: 'maxNewTokens maxOutputTokens maxCompletionTokens maxGenLen maxLength nPredict numPredict',
  minTokens: 'minNewTokens minLength',
  stop: 'stopSequences stopStrings stopPrompts stopTokens customStopTriggers antiprompt',
  signal: 'abortSignal abortController stopSignal cancel',
  temperature: 'temp samplingTemperature',
  repeatPenalty: 'repetitionPenalty penaltyRepeat',
  frequencyPenalty: 'penaltyFreq freqPenalty',
  presencePenalty: 'penaltyPresent presPenalty',
  repeatLastN: 'penaltyLastN repeatPenaltyTokens lastTokens',
  typicalP: 'typP typical',
  seed: 'randomSeed samplingSeed',
  bannedTexts: 'badWords badWordsIds bannedStrings',
  logitBias: 'tokenBias logitBiases sequenceBias',
  logprobs: 'nProbs outputScores returnLogprobs',
  ignoreEnd: 'ignoreEos',
  responseFormat: 'grammar jsonSchema schema format output structuredOutputs guidedJson responseConstraint',
  reasoningBudget: 'thinkingBudget thinkingBudgetTokens thoughtTokens reasoningEffort maxReasoningTokens',
  chatTemplateKwargs: 'enableThinking think thinking templateKwargs extraBody',
  template: 'chatTemplate chatWrapper promptTemplate convTemplate',
  continueFinalMessage: 'addGenerationPrompt prefill responsePrefix',
  onToken: 'onNewToken onChunk onData onText callbackFunction streamer callbacks',
  onPart: 'onTextChunk onResponseChunk',
  onToolCall: 'execute onFunctionCall functionCall',
  tools: 'functions availableTools',
  maxToolRounds: 'maxSteps stopWhen maxIterations maxToolCalls',
  parallelToolCalls: 'maxParallelFunctionCalls disableParallelToolUse',
  adapters: 'lora loraAdapters loras',
  memory: 'ramBudget memoryBudget maxMemory memoryLimit',
  contextLength: 'nCtx numCtx ctxSize contextSize contextWindow contextWindowSize maxContext maxModelLen',
  batch: 'nBatch numBatch batchSize nUbatch prefillChunkSize maxBatchSize',
  threads: 'nThreads numThreads numThread maxThreads',
  kv: 'cacheTypeK cacheTypeV kvCacheType kvType typeK typeV',
  kvWindow: 'slidingWindow slidingWindowSize',
  kvSinks: 'attentionSinkSize nKeep numKeep',
  device: 'backend executionProviders',
  gpuLayers: 'nGpuLayers numGpu',
  onProgress: 'progressCallback initProgressCallback onLoadProgress onDownloadProgress monitor',
  cache: 'useCache useBrowserCache allowOffline forceDownload cacheDir',
  wasmPaths: 'wasmUrl wasmPath pathConfig assetsPath modelLib',
  workerUrl: 'workerPath workerScript',
  hubToken: 'token hfToken', maxParallel: 'sequences parallel nParallel nSeqMax',
  timeout: 'requestTimeout timeoutMs',
  addSpecial: 'addSpecialTokens addBos addBosToken',
  parseSpecial: 'special encodeSpecialTokens', special: 'skipSpecialTokens renderSpecial',
  normalize: 'embdNormalize normalizeEmbeddings',
  pooling: 'poolingType poolingMode',
  topN: 'topDocuments returnTop',
});
/* Names that no option replaces. */
const WORDS = {
  stream: 'every answer can be streamed: for await (const text of answer)',
  streamoptions: 'usage and finishReason are members of every answer',
  dosample: 'temperature: 0 takes the most likely token',
  model: 'load() chooses the model',
  n: 'an answer is one: ask several times at once, each with its own choice: 0, 1, ...',
  system: "the system's words are a message with the role system",
  messages: "messages are chat()'s first argument",
  prompt: 'the prompt is the first argument',
  paralleldownloads: 'a file is one download',
  revision: 'a name has it: load("hf:OWNER/REPO@REVISION")',
  modelpath: "the path or URL is load()'s first argument",
  flashattn: 'attention is always computed in that way',
  flashattention: 'attention is always computed in that way',
  localfilesonly: 'what is cached is used without a network',
  embeddings: 'every model has embed()', embedding: 'every model has embed()',
  returnfulltext: 'an answer never has the prompt',
  sampling: 'its members are options: temperature, topK, ...',
  bestof: 'an answer is one: ask several times at once, each with its own choice: 0, 1, ...',
  dtype: "the file decides how weights are stored", quantized: 'the file decides how weights are stored',
};
Object.assign(WORDS, {systemprompt: WORDS.system, instructions: WORDS.system});
/** Whether a name is another package's for conversation()'s option system. */
export const isSystem = name => WORDS[plain(name)] === WORDS.system;

/** An error's text about what load() was given. kinds: what it takes. */
export const notLoaded = (from, kinds) => `a model is loaded from ${kinds}, not from ${shown(from)}${
  from && typeof from === 'object' ? '; the path or URL itself, or hf:OWNER/REPO/FILE, comes first' : ''}`;

/** A name without its letter case and signs. */
export const plain = name => name.toLowerCase().replace(/[_-]/g, '');

/** A hint for an unknown option of a call. options: the options of each call. */
export function hinted(name, call, options) {
  const given = plain(name), names = Object.keys(options[call]);
  const own = names.find(known => plain(known) === given);
  if (own) return `its name here is ${own}`;
  const has = (known, others) => others.split(' ').some(other => plain(other) === given)
    || plain(known) === given;
  const ours = NAMES.filter(([known, others]) => has(known, others)).map(([known]) => known);
  const here = ours.find(known => names.includes(known));
  if (here) return `its name here is ${here}`;
  for (const [other, table] of Object.entries(options)) {
    const known = Object.keys(table).find(one => plain(one) === given || ours.includes(one));
    if (known) return `${known} is an option of ${other}()`;
  }
  return Object.hasOwn(WORDS, given) ? WORDS[given] : `there are ${names.join(', ')}`;
}
