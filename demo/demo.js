/* The page around the package: choose a model, load it, talk with it.
 * SPDX-License-Identifier: MIT */
import {Chat} from './chat.js';
import {Speed, count, make, megabytes, memoryMap, transfer} from './figures.js';
import {keepOffline, lacking, unable} from './offline.js';
import {bindSettings} from './settings.js';

const $ = id => document.getElementById(id);
const announce = text => { $('state').textContent = text; };
const baseName = url => decodeURIComponent(new URL(url, document.baseURI).pathname.split('/').pop() || url);

const LOADING = new Set(['memory', 'contextLength', 'threads', 'kv', '']);
const {settings, reset} = bindSettings([$('choose'), $('answering')], name => { if (LOADING.has(name)) void estimate(); });
const loadOptions = () => ({memory: settings.memory, contextLength: settings.contextLength, threads: settings.threads, kv: settings.kv});

let qsf, model, opening, outdated = false, listed = [];

/* ---- what went wrong ---- */

const HINTS = {
  ARGUMENT: 'Check the settings.',
  BUDGET: 'Raise the memory limit, or take a shorter context.',
  MEMORY: 'Close other pages, set a memory limit (layers then stream from the file), or take a smaller model.',
  HTTP: 'Check the address and the connection. A file on another site can be read only if that site allows it (CORS).',
  IO: 'The file cannot be read as it was. Choose it again.',
  CORRUPT: 'The file is damaged or not complete. Fetch it anew.',
  UNSUPPORTED: 'QSF and GGUF files with models of the LLaMA, Qwen, Gemma, Phi and GPT-2 families work.',
  NOT_FOUND: 'Check the address.',
  WORKER: 'The engine ended by itself. Where memory is short, a memory limit or fewer threads help.',
  FULL: 'Clear the conversation, or load the model with a longer context.',
};
function hint({code}) {
  if (code === 'HTTP' && !navigator.onLine) return 'There is no network at the moment. Models that are kept on this device work.';
  return HINTS[code] ?? 'Try again. If it stays, the browser\'s console may say more.';
}
const described = error => [make('p', {textContent: error.message}), make('p', {className: 'small', textContent: hint(error)})];

/** Shows an error; actions: [label, function] pairs, the first of which gets the focus. */
function complain(title, error, actions) {
  const buttons = actions.map(([label, act], i) => {
    const button = make('button', {type: 'button', className: i ? 'quiet' : 'main', textContent: label});
    button.addEventListener('click', () => { $('error').hidden = true; act(); });
    return button;
  });
  $('error').replaceChildren(make('h2', {textContent: title}), ...described(error), make('p', {className: 'tools'}, ...buttons));
  $('error').hidden = false;
  buttons[0].focus();
}

/* ---- progress ---- */

const going = {};               /* load, prompt: their last messages while they last */
let speed = new Speed(), promptBegan = 0;

function progress(message) {
  const {phase} = message;
  if (phase === 'load') speed.add(message.loaded);
  else if (!going.prompt) promptBegan = performance.now();
  const ended = phase === 'load' ? !opening && message.loaded >= message.total : message.done >= message.total;
  going[phase] = ended ? undefined : message;
  drawProgress();
}
function drawProgress() {
  const {load, prompt} = going, answering = Boolean(prompt) && (load || performance.now() - promptBegan > 300);
  $('progress').hidden = !opening && !load && !answering;
  $('cancel').hidden = !opening;
  if ($('progress').hidden) return;
  const texts = [];
  if (prompt) {
    $('progress-title').textContent = 'Reading the prompt';
    texts.push(`${prompt.done} of ${prompt.total} tokens`);
    if (prompt.layers) texts.push(`layer ${prompt.layer} of ${prompt.layers}`);
  } else $('progress-title').textContent = opening ? `Loading ${opening.name}` : 'The rest of the file is coming; you can ask already';
  if (load) texts.push(transfer(load, speed));
  $('progress-text').textContent = texts.join(' · ') || 'Opening …';
  const done = prompt ? prompt.done : load?.loaded, total = prompt ? prompt.total : load?.total;
  if (total) $('bar').value = Math.min(1, done / total);
  else $('bar').removeAttribute('value');
}
function endProgress(...phases) {
  for (const phase of phases) going[phase] = undefined;
  drawProgress();
}

/* ---- a model ---- */

const chat = new Chat($('talk'), settings, {
  announce,
  busy(on) {
    endProgress('prompt');
    $('stop').hidden = !on;
    $('send').hidden = on;
    if (!on && ($('stop').matches(':focus') || document.activeElement === document.body)) $('text').focus();
  },
  failed(error, place) {
    if (error.code === 'WORKER' || error.code === 'DISPOSED') complain('The model is gone', error, [['Load it again', again], ['Models', showStart]]);
    else place.before(make('div', {className: 'bad', role: 'alert'}, ...described(error)));
  },
});

let again = () => {};

async function open(from, extra = {}) {
  if (outdated) return complain('A newer version of this page is there', new Error('Its files do not go with the ones that this page began with.'), [['Reload', () => location.reload()]]);
  opening?.stop.abort();
  const name = typeof from === 'string' ? baseName(from) : from.name ?? 'the file', mine = opening = {name, stop: new AbortController()};
  again = () => void open(from, extra);
  chat.use(undefined);
  $('error').hidden = $('start').hidden = $('work').hidden = $('ask').hidden = true;
  speed = new Speed();
  $('start').before($('progress'));
  endProgress('load', 'prompt');
  $('cancel').focus();
  announce(`Loading ${name}`);
  let loaded;
  try {
    const before = model;
    model = undefined;
    await before?.dispose();
    await packageReady;
    loaded = await qsf.load(from, {...loadOptions(), ...extra, onProgress: message => { if (mine === opening || loaded === model) progress(message); }, signal: mine.stop.signal});
    if (mine !== opening) return void loaded.dispose();
    model = loaded;
  } catch (error) {
    if (mine !== opening) return;               // another one is being loaded
    opening = undefined;
    endProgress('load', 'prompt');
    showStart();
    if (mine.stop.signal.aborted) return $('load').focus();
    const anew = qsf?.cache && typeof from === 'string' && ['CORRUPT', 'HTTP', 'IO'].includes(error.code);
    return complain(`${name} could not be loaded`, error, [['Retry', again], ...(anew ? [['Fetch anew', () => open(from, {cache: 'reload'})]] : []), ['Choose another', () => $('list').querySelector('input')?.focus()]]);
  }
  opening = undefined;
  endProgress('load', 'prompt');
  showModel();
}

function showModel() {
  const {info} = model, title = info.name || info.architecture;
  $('name').textContent = title;
  $('name').title = title;
  const facts = [
    ['Model', `${title}, ${count(info.parameters)} parameters, ${info.format}`],
    ['File', `${megabytes(info.fileBytes)}, ${info.layers} layers, ${info.resident ? 'all of them in memory' : 'streamed through memory'}`],
    ['Engine', `${info.threads === 1 ? 'one thread' : `${info.threads} threads`}, ${info.isa}`],
    ['Context', `${info.contextLength.toLocaleString('en')} tokens of ${info.trainedContext.toLocaleString('en')}`],
    ['Memory', megabytes(info.planBytes) + (settings.memory ? ` of ${settings.memory} MB` : '')],
  ];
  $('facts').replaceChildren(...facts.flatMap(([term, text]) => [make('dt', {textContent: term}), make('dd', {textContent: text})]));
  $('map').replaceChildren(...memoryMap(info.plan, settings.memory));
  $('warnings').replaceChildren(...info.warnings.map(text => make('li', {textContent: text})));
  $('warnings').hidden = !info.warnings.length;
  $('about').open = true;
  chat.use(model);
  $('mode-chat').disabled = !info.chatTemplate;
  (info.chatTemplate ? $('mode-chat') : $('mode-text')).checked = true;
  setMode();
  $('start').hidden = $('error').hidden = true;
  $('work').hidden = $('ask').hidden = $('models').hidden = false;
  $('dock').prepend($('progress'));
  $('text').focus();
  announce(`${title} is ready.`);
}

function showStart() {
  chat.stop();
  $('work').hidden = true;
  $('start').hidden = false;
  $('models').hidden = !model;
  $('models').textContent = 'Back to the chat';
  if (!model) $('name').textContent = '';
  void list();
}
function toggleModels() {
  if ($('start').hidden) {
    showStart();
    $('start').querySelector('input:checked')?.focus();
  } else {
    $('start').hidden = $('error').hidden = true;
    $('work').hidden = false;
    $('text').focus();
  }
  $('models').textContent = $('start').hidden ? 'Models' : 'Back to the chat';
}

/* ---- the choice ---- */

const picked = () => $('choose').elements.model.value;
function choice() {
  const value = picked();
  if (value === 'url') return $('url').value.trim() || undefined;
  if (value === 'file') return $('file').files[0];
  return listed[Number(value)]?.url;
}

/* Which listed models are there, and what the package keeps. */
async function list() {
  const entries = await kept();
  try {
    const answer = await fetch('models.json', {cache: 'no-cache'});
    listed = answer.ok ? (await answer.json()).models.map(one => ({...one, url: new URL(one.url, document.baseURI).href})) : [];
  } catch { /* none are listed, or the list of before */ }
  await Promise.all(listed.map(async one => {
    if (entries.some(entry => entry.url === one.url && entry.complete)) one.state = 'on this device';
    else one.state = await fetch(one.url, {method: 'HEAD'}).then(answer => (answer.ok ? '' : 'not here'), () => 'cannot be reached');
    one.there = !one.state || one.state === 'on this device';
  }));
  const before = $('list').childElementCount ? picked() : '';
  $('list').replaceChildren(...listed.map((one, i) => {
    const input = make('input', {type: 'radio', name: 'model', id: `pick-${i}`, value: String(i), disabled: !one.there});
    const label = make('label', {htmlFor: input.id}, make('span', {textContent: one.name}), make('small', {textContent: one.note ?? ''}));
    return make('div', {className: 'choice'}, input, label, make('span', {className: 'size', textContent: one.there || !one.state ? [one.state, one.size && megabytes(one.size)].filter(Boolean).join(' · ') : one.state}));
  }));
  const inputs = [...$('choose').elements.model], usable = inputs.filter(input => !input.disabled);
  (usable.find(input => input.value === before) ?? usable[0]).checked = true;
  void estimate();
}

let asking;
async function estimate() {
  asking?.abort();
  const mine = asking = new AbortController(), {signal} = mine, from = choice(), say = text => { $('need').textContent = text; };
  $('need').className = '';
  $('need-map').replaceChildren();
  if (!from) return say('');
  const size = typeof from === 'string' ? listed.find(one => one.url === from)?.size : from.size;
  say(size ? megabytes(size) : '');
  if (!qsf?.estimate) return undefined;
  await new Promise(resolve => setTimeout(resolve, 250));       // until the typing ends
  if (signal.aborted) return undefined;
  try {
    const e = await qsf.estimate(from, {...loadOptions(), signal});
    if (signal.aborted) return undefined;
    say([`${megabytes(e.fileBytes)} file`, `${count(e.parameters)} parameters`, `needs ${megabytes(e.memoryBytes)} of memory`, ...(e.resident ? [] : ['layers stream from the file']), ...e.reductions].join(' · '));
    $('need-map').replaceChildren(...memoryMap(e.plan, settings.memory));
  } catch (error) {
    if (signal.aborted) return undefined;
    $('need').className = 'bad';
    say(`${error.message}. ${hint(error)}`);
  }
  return undefined;
}

/* What the package keeps on this device; [] where it does not. */
async function kept() {
  let entries = [];
  try { entries = await qsf?.cache?.list() ?? []; } catch { /* no storage here: there is a note about it */ }
  $('storage').hidden = !entries.length;
  const remove = (label, url) => {
    const button = make('button', {type: 'button', className: 'quiet', textContent: label, ariaLabel: url ? `Delete ${baseName(url)}` : label});
    button.addEventListener('click', async () => {
      button.disabled = true;
      try { announce(`${megabytes(await qsf.cache.delete(url))} freed`); } catch (error) { complain('It could not be deleted', error, [['Close', () => {}]]); }
      await list();
      $('choose').querySelector('input:checked')?.focus();
    });
    return button;
  };
  $('entries').replaceChildren(...entries.map(({url, length, stored, complete, name, used}) => {
    const load = make('button', {type: 'button', className: 'quiet', textContent: 'Load', ariaLabel: `Load ${baseName(url)}`});
    load.addEventListener('click', () => void open(url));
    const text = `${complete ? megabytes(length) : `${megabytes(stored)} of ${megabytes(length)}`}${used ? ` · used ${new Date(used).toLocaleDateString()}` : ''}`;
    return make('li', {}, make('span', {textContent: name || baseName(url), title: url}), make('small', {textContent: text}), load, remove('Delete', url));
  }));
  if (entries.length) {
    const {usage, quota} = await navigator.storage?.estimate?.().catch(() => ({})) ?? {}, sum = entries.reduce((all, {stored}) => all + stored, 0);
    $('storage-sum').replaceChildren(`${megabytes(sum)} of models${quota ? `; this site uses ${megabytes(usage)} of the ${megabytes(quota)} that it may` : ''}. `, ...(entries.length > 1 ? [remove('Delete all')] : []));
  }
  return entries;
}

/* ---- events ---- */

$('choose').addEventListener('submit', event => {
  event.preventDefault();
  const from = choice();
  if (from) void open(typeof from === 'string' ? new URL(from, document.baseURI).href : from);
  else (picked() === 'url' ? $('url') : $('browse')).focus();
});
$('choose').addEventListener('change', ({target}) => { if (target.name === 'model' || target.id === 'url') void estimate(); });
$('url').addEventListener('input', () => { $('pick-url').checked = true; });
$('browse').addEventListener('click', () => $('file').click());
$('file').addEventListener('change', () => {
  const file = $('file').files[0];
  $('pick-file').checked = true;
  $('file-name').textContent = file?.name ?? '';
  void estimate();
});
$('cancel').addEventListener('click', () => opening?.stop.abort());
$('models').addEventListener('click', toggleModels);
$('options').addEventListener('click', () => $('settings').showModal());
$('reset').addEventListener('click', reset);

const rawMode = () => $('mode-text').checked;
function setMode() {
  $('text').placeholder = rawMode() ? 'A text that the model goes on with' : 'Ask something';
  $('text-label').textContent = rawMode() ? 'Text' : 'Message';
  $('send').textContent = rawMode() ? 'Continue' : 'Send';
}
function grow() {
  $('text').style.height = 'auto';
  $('text').style.height = `${Math.min($('text').scrollHeight + 2, innerHeight / 3)}px`;
}
function ask(text) {
  $('about').open = false;
  return chat.ask(text, rawMode());
}
$('mode').addEventListener('change', setMode);
$('text').addEventListener('input', grow);
$('ask').addEventListener('submit', event => {
  event.preventDefault();
  const text = rawMode() ? $('text').value : $('text').value.trim();
  if (!text || !model || chat.busy) return;
  $('text').value = '';
  grow();
  void ask(text);
});
$('text').addEventListener('keydown', event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('ask').requestSubmit();
});
$('stop').addEventListener('click', () => chat.stop());
$('clear').addEventListener('click', () => {
  chat.clear();
  $('text').focus();
  announce('The conversation is empty.');
});
addEventListener('keydown', event => {
  if (event.key !== 'Escape' || event.isComposing || $('settings').open) return;
  if (chat.busy) chat.stop();
  else opening?.stop.abort();
});

const files = event => [...event.dataTransfer?.types ?? []].includes('Files');
addEventListener('dragover', event => {
  if (!files(event)) return;
  event.preventDefault();
  $('drop').hidden = false;
});
addEventListener('dragleave', event => { if (!event.relatedTarget) $('drop').hidden = true; });
addEventListener('drop', event => {
  if (!files(event)) return;
  event.preventDefault();
  $('drop').hidden = true;
  const [file] = event.dataTransfer.files;
  if (file) void open(file);
});

/* ---- begin ---- */

function showNotes() {
  const why = unable(), notes = why ? [why] : lacking();
  $('missing').replaceChildren(...notes.map(text => make('li', {textContent: text})));
  $('missing').hidden = !notes.length;
  $('load').disabled = Boolean(why);
}

/* Not a plain import: what is missing shall be said, not a page that does nothing. */
const packageReady = import('./js/browser.js').then(module => { qsf = module; });
packageReady.catch(error => complain('The package is not here', new Error(`js/browser.js: ${error.message}`), [['Reload', () => location.reload()]]));

const asked = new URLSearchParams(location.search).get('model');
const offline = keepOffline({
  busy: () => Boolean(opening || model || $('text').value || $('url').value || $('file').files.length),
  told({kept: all, why}) { $('kept').textContent = all ? 'This page works offline now.' : why ? `This page is not kept for offline use: ${why}` : ''; },
  stale() { outdated = true; },
});
await Promise.race([packageReady, offline]).catch(() => {});
if (asked && !crossOriginIsolated) await Promise.race([offline, new Promise(resolve => setTimeout(resolve, 5000))]);
void Promise.race([offline, new Promise(resolve => setTimeout(resolve, 3000))]).then(showNotes);
if (unable()) showNotes();
globalThis.qsfDemo = {open, ask, settings, get model() { return model; }};
if (asked) {
  $('url').value = asked;
  $('pick-url').checked = true;
  void open(asked);
} else {
  await packageReady.catch(() => {});
  void list();
}
