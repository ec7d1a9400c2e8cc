/* Messages of a conversation, and answers.
 * SPDX-License-Identifier: MIT */

/**
 * A part of an answer, in order. `index` counts the calls from 0; the texts of a call's 'arguments'
 * together are its JSON. 'call-dropped': it was not a call, and its text follows. 'call-cut': the
 * answer ended within it.
 */
export type AnswerPart =
  | {type: 'text' | 'reasoning', text: string}
  | {type: 'call', index: number, id: string, name: string}
  | {type: 'arguments', index: number, text: string}
  | {type: 'call-end' | 'call-dropped' | 'call-cut', index: number};

/** A call as the model made it; arguments are a JSON string. */
export interface AnsweredCall {
  id: string;
  type: 'function';
  function: {name: string, arguments: string};
}

/** What chat()'s iterator returns with `tools`, `onToolCall`, `onReasoning` or `onPart`: the parts
 * of the model's last answer. The iterator yields the text of all answers, without reasoning and
 * calls. */
export interface Answer {
  readonly end: EndReason;
  readonly reasoning: string;
  readonly text: string;
  /** Complete calls only. */
  readonly toolCalls: readonly AnsweredCall[];
  /** A call that the answer's end cut off: its arguments are the beginning of their JSON. */
  readonly partialCall?: AnsweredCall;
  /** The messages to append to the conversation: the model's answers, and results of calls. With
   * `continueFinalMessage` the first one is the continued message, whole: it replaces the last. */
  readonly messages: readonly Message[];
}

/** As in the OpenAI API; a full context is 'length' too. */
export type FinishReason = 'stop' | 'length' | 'tool_calls';

/** Tokens of an answer; cachedTokens of the prompt were not computed again. The rounds of an answer
 * (onToolCall) are added up. */
export interface Usage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

/** What `await` gives: all of an answer. A loop over it has its text. */
export interface WholeAnswer extends Answer, AsyncIterable<string> {
  readonly finishReason: FinishReason;
  readonly usage: Usage;
  /** Milliseconds that the prompt and the answer took. */
  readonly timings: {
    readonly promptMs: number, readonly answerMs: number, readonly tokensPerSecond: number};
}

/**
 * An answer: `for await` yields its text while it is generated, `await` gives the whole of it. It
 * starts with the first of these. It can also be awaited after the loop, without computing it
 * again, but not during the loop: an answer that a loop reads has no then().
 */
export interface StreamedAnswer<R> extends AsyncGenerator<string, R, void>, Promise<WholeAnswer> {
  /** The tokens so far. */
  readonly usage: Usage;
  /** undefined until the answer has ended. */
  readonly finishReason: FinishReason | undefined;
  readonly [Symbol.toStringTag]: string;
}

/** Arguments are an object, or its JSON string as in the OpenAI API. A template gets the call of a
 * custom tool as that of a function with an argument `input`. */
export type ToolCall =
  | {id?: string, type?: 'function', function: {name: string, arguments: string | object}}
  | {id?: string, type: 'custom', custom: {name: string, input: string}};

/** OpenAI's messages are valid ones. Other members of a message are passed to the template too, if
 * JSON can express them. */
export interface Message {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | (string & {});
  /** A string, or parts, of which templates take text parts; null with tool_calls. */
  content?: string | readonly (string | {type: string, text?: string})[] | null;
  tool_calls?: readonly ToolCall[];
  tool_call_id?: string;
  name?: string;
  reasoning_content?: string;
  refusal?: string | null;
}

/** Why an answer ended: an end token, a stop string, maxTokens, a full context. */
export type EndReason = 'end' | 'stop' | 'length' | 'full';
