/* Speaking instead of writing, and answers that are read aloud, if the browser supports them.
 * SPDX-License-Identifier: MIT */
import {language} from './strings.js';

const Recognition = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition;

/** Whether dictation works. local: speech must not leave the device, so dictation is offered
 * only if the browser promises to recognise speech there. */
export async function canDictate(local) {
  if (!Recognition) return false;
  if (!local) return true;
  try {
    return await Recognition.available({langs: [language], processLocally: true}) === 'available';
  } catch {
    return false;
  }
}

/** Listens until it is stopped or nothing more is said: heard(text) gets all words so far. Returns
 * a function that stops it. */
export function dictate({local, heard, ended}) {
  const recognition = new Recognition();
  Object.assign(recognition, {lang: language, interimResults: true, continuous: false,
    ...(local && {processLocally: true})});
  recognition.onresult = ({results}) => heard([...results].map(([best]) => best.transcript).join(''));
  recognition.onend = recognition.onerror = () => ended();
  recognition.start();
  return () => recognition.stop();
}

/* Marks of Markdown are not words. */
const plain = text => text.replace(/```[^]*?(?:```|$)/g, ' ').replace(/[*_`#>|]|\]\([^)]*\)|[[\]]/g, ' ');

export const canSpeak = () => 'speechSynthesis' in globalThis;
/** Reads aloud; a second call ends it. */
export function speakAloud(text, ended) {
  const {speechSynthesis: voice} = globalThis;
  if (voice.speaking) return void voice.cancel();
  const words = new SpeechSynthesisUtterance(plain(text));
  words.lang = language;
  words.onend = words.onerror = ended;
  voice.speak(words);
}
