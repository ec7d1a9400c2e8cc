/* A chat model and embeddings of LangChain (@langchain/core 1) over a model here.
 * SPDX-License-Identifier: MIT */
import {Embeddings, type EmbeddingsParams} from '@langchain/core/embeddings';
import {BaseChatModel, type BaseChatModelCallOptions, type BaseChatModelParams, type BindToolsInput}
  from '@langchain/core/language_models/chat_models';
import type {BaseLanguageModelInput} from '@langchain/core/language_models/base';
import type {AIMessageChunk, BaseMessage} from '@langchain/core/messages';
import type {ChatResult} from '@langchain/core/outputs';
import type {Runnable} from '@langchain/core/runnables';
import type {ChatOptions, EmbedOptions, Model} from './index.js';

type Options = Omit<ChatOptions, 'signal' | 'tools' | 'toolChoice' | 'onToken' | 'onPart' | 'onToolCall'>;
/** Options of chat(), and LangChain's tools and tool_choice. */
export type ChatQsfCallOptions = BaseChatModelCallOptions & Omit<Options, keyof BaseChatModelCallOptions>
  & {tools?: BindToolsInput[]};

export declare class ChatQsf extends BaseChatModel<ChatQsfCallOptions> {
  /** The model, and options of chat() for every call. */
  constructor(fields: {model: Model} & Options & BaseChatModelParams);
  _llmType(): string;
  _generate(messages: BaseMessage[], options: this['ParsedCallOptions']): Promise<ChatResult>;
  bindTools(tools: BindToolsInput[], kwargs?: Partial<ChatQsfCallOptions>):
    Runnable<BaseLanguageModelInput, AIMessageChunk, ChatQsfCallOptions>;
}

export declare class QsfEmbeddings extends Embeddings {
  constructor(fields: {model: Model} & Omit<EmbedOptions, 'signal'> & EmbeddingsParams);
  embedDocuments(documents: string[]): Promise<number[][]>;
  embedQuery(document: string): Promise<number[]>;
}
