/* The page around the package: choose a model, talk with it.
 * SPDX-License-Identifier: MIT */
import {load} from './js/browser.js';

const $ = id => document.getElementById(id);
const megabytes = n => `${(n / 1e6).toFixed(1)} MB`;
let model, ready, messages = [], stopping;

const say = text => { $('state').textContent = text; };
function show(progress) {
  const {phase, loaded, done = loaded, total} = progress;
  $('progress').hidden = false;
  $('progress').value = total ? done / total : 0;
  say(phase === 'load' ? `Loaded ${megabytes(done)}${total ? ` of ${megabytes(total)}` : ''}` : `Prompt: ${done} of ${total} tokens`);
}
function bubble(who, text = '') {
  const div = document.createElement('div');
  div.className = who;
  div.textContent = text;
  $('talk').append(div);
  return div;
}

async function open(from) {
  await model?.dispose();
  model = undefined;
  messages = [];
  $('talk').replaceChildren();
  $('ask').hidden = true;
  say('Opening …');
  try {
    model = await load(from, {contextLength: 2048, onProgress: show});
  } catch (error) {
    say(`${error.code ?? error.name}: ${error.message}`);
    return;
  }
  const {info} = model;
  ready = `${info.name || info.architecture}: ${megabytes(info.fileBytes)}, ${info.threads === 1 ? 'one thread' : `${info.threads} threads`}, ${info.isa}`;
  say(ready);
  $('about').hidden = false;
  $('about').querySelector('table').replaceChildren(...[...info.plan.map(p => [p.name, megabytes(p.bytes)]), ...info.warnings.map(w => ['note', w])].map(cells => {
    const row = document.createElement('tr');
    row.append(...cells.map(text => Object.assign(document.createElement('td'), {textContent: text})));
    return row;
  }));
  $('ask').hidden = false;
  $('text').focus();
}

async function ask(text) {
  messages.push({role: 'user', content: text});
  bubble('user', text);
  const answer = bubble('assistant'), begin = performance.now();
  let first, tokens = 0;
  stopping = new AbortController();
  $('stop').hidden = false;
  $('send').hidden = true;
  try {
    for await (const part of model.chat(messages, {maxTokens: 512, temperature: 0, signal: stopping.signal, onToken: () => { tokens++; first ??= performance.now(); }})) {
      answer.textContent += part;
      $('figures').textContent = `first token after ${((first - begin) / 1e3).toFixed(2)} s, ` +
        `${((tokens - 1) / Math.max(1, performance.now() - first) * 1e3).toFixed(1)} tokens a second`;
    }
  } catch (error) {
    if (error.name !== 'AbortError') bubble('error', `${error.code ?? error.name}: ${error.message}`);
  }
  if (answer.textContent) messages.push({role: 'assistant', content: answer.textContent});
  else {                        // a question without an answer is no turn
    messages.pop();
    answer.remove();
  }
  say(ready);
  $('progress').hidden = true;
  $('stop').hidden = true;
  $('send').hidden = false;
  $('text').focus();
}

$('choose').addEventListener('submit', event => { event.preventDefault(); void open($('url').value); });
$('file').addEventListener('change', () => { if ($('file').files[0]) void open($('file').files[0]); });
$('ask').addEventListener('submit', event => {
  event.preventDefault();
  const text = $('text').value.trim();
  $('text').value = '';
  if (text && model) void ask(text);
});
$('text').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); $('ask').requestSubmit(); }
});
$('stop').addEventListener('click', () => stopping.abort());
globalThis.qsfDemo = {open, ask, get model() { return model; }};

const asked = new URLSearchParams(location.search).get('model');
if (asked) { $('url').value = asked; void open(asked); }
