/* A provider of the package `ai` over a model in this page or process; its types are those of
 * specification v4 (@ai-sdk/provider 4).
 * SPDX-License-Identifier: MIT */
import type {EmbeddingModelV4, LanguageModelV4, ProviderV4, RerankingModelV4} from '@ai-sdk/provider';
import type {Model} from './index.js';

export interface QsfProvider extends ProviderV4 {
  (modelId?: string): LanguageModelV4;
  languageModel(modelId?: string): LanguageModelV4;
  chat(modelId?: string): LanguageModelV4;
  embeddingModel(modelId?: string): EmbeddingModelV4;
  rerankingModel(modelId?: string): RerankingModelV4;
}

/** The models of `createQsf(model)`: `(name)` and `languageModel(name)` answer, `embeddingModel`
 * and `rerankingModel` embed and rank. `providerOptions: {qsf}` takes other options of chat(). */
export declare function createQsf(model: Model, options?: {name?: string}): QsfProvider;
