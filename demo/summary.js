/* A conversation that gets longer than the model's context: the model sums up its older half.
 * SPDX-License-Identifier: MIT */
import {t} from './strings.js';
import {toSummarise} from './thread.js';

const TOKENS = 200;                     /* of a summary, at most */
const FULL = 0.75;                      /* part of the context after which there is one */

/** The tokens that a prompt leaves for its answer; undefined if only the engine knows. */
export async function room(model, messages, tools) {
  const context = model.info?.contextLength;
  if (!context || !model.render || !model.tokenize) return undefined;
  const most = new TextEncoder().encode(JSON.stringify([messages, tools])).length + 64;
  if (most * 2 < context) return context - most;                // a token has at least a byte
  return context - (await model.tokenize(await model.render(messages, {tools}), {parseSpecial: true})).length;
}

/** Whether an answer leaves so little room that there should be a summary. usage: its tokens; of an
 * answer with calls of tools, those of all rounds. */
export const nearlyFull = ({info}, usage, calls) => Boolean(!calls && info?.contextLength
  && usage.promptTokens + usage.completionTokens > FULL * info.contextLength);

/** Sums up the older half of what the model sees before this question. Whether there is a new note;
 * the messages stay. */
export async function summarise(talk, conversation, question, {system, signal}) {
  const asked = toSummarise(conversation, question, system,
    t('Summarise our conversation so far in at most 100 words. Write only the summary.'));
  if (!asked) return false;
  let text = '';
  for await (const part of talk.chat(asked.messages,
    {temperature: 0, maxTokens: TOKENS, signal, onReasoning() {}, onProgress() {}}))
    text += part;
  if (signal.aborted || !text.trim()) return false;
  conversation.notes = [...(conversation.notes ?? []).filter(({at}) => at !== asked.at),
    {at: asked.at, text: text.trim()}];
  return true;
}
