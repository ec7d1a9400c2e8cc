/* What an empty conversation offers to ask.
 * SPDX-License-Identifier: MIT */
import {t} from './strings.js';

const ALL = ['Explain in simple words why the sky is blue.', 'Write a short thank-you note to a colleague.',
  'Give me three ideas for a quick dinner.', 'Write a Python function that counts words.',
  'Tell a story about a lighthouse in five sentences.', 'What is the difference between weather and '
    + 'climate?'];

/** Four of them, other ones each day. */
export function suggestions(day = Math.floor(Date.now() / 864e5)) {
  return Array.from({length: 4}, (_, i) => t(ALL[(day + i) % ALL.length]));
}
