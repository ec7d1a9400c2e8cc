/* The page: an engine, a conversation with its model, settings, errors.
 * Longer texts are in index.html.
 * SPDX-License-Identifier: MIT
 *
 * The server of the page sets its engine, with data-engine of <html>: the package in this page
 * (local.js), or the server that the page comes from (served.js). Such a module has
 *
 *   begin(page)       is called once, and gives the page a model at some time, by page.use()
 *   open(which)       loads or takes a model
 *   list()            is called when the choice of models is shown
 *   cancel()          ends what is being loaded
 *   busy(is)          is told whether the shown conversation is being answered
 *   progress(message) is told how far the prompt of its answer is, if there is this function
 *   changed(name)     is told when a setting was edited
 *   failed(error)     whether the error of an answer is shown by the engine itself
 *
 * A model has what the page uses of the package's: chat(messages, options) and generate(text,
 * options), async iterators of text that return how it ended, as a word or as {end, usage}; options
 * are those of the settings, signal, onToken, onProgress, onReasoning, tools, onToolCall and
 * responseFormat.
 * It may have conversation(), which returns the same for one conversation, and info. */
import {Attachments} from './attach.js';
import {Chat} from './chat.js';
import {Conversations} from './conversations.js';
import {$, announce, button, make, note, on, remembered} from './dom.js';
import {megabytes, memoryMap} from './figures.js';
import {drawIcons} from './icons.js';
import {bindSettings} from './settings.js';
import {speak, t} from './strings.js';
import {suggestions} from './suggestions.js';
import {canDictate, canSpeak, dictate, speakAloud} from './voice.js';

drawIcons(document);
const wanted = remembered('localStorage', 'qsf-demo-language');         // '': the browser's
await speak(wanted.get());

const local = document.documentElement.dataset.engine !== 'server';
let engine, model, alone = false,           // alone: the only model
  toolbox;                                  // the tools' module, while they are used

const {settings, reset} = bindSettings([$('choose'), $('answering')], name => engine?.changed(name));

/* ---- what went wrong ---- */

/* What may help: the package's remedies, or the hint for the error's code. */
function helps({code, remedies = []}) {
  const names = remedies.length && ['MEMORY', 'WORKER'].includes(code) ? ['close', ...remedies] : remedies;
  const found = names.map(name => $(`remedy-${name}`)).filter(Boolean);
  return (found.length ? found : [$(code === 'HTTP' && !navigator.onLine ? 'hint-offline' : `hint-${code}`)
    ?? $('hint-')]).map(({textContent}) => textContent);
}
const capital = text => text.replace(/^[a-z](?=[a-z]* )/, first => first.toUpperCase());     // not addresses
const said = error => capital(t(error.reason ?? error.message))
  .replace(/\b(\d{7,}) bytes/g, (_, bytes) => megabytes(Number(bytes)));
function described(error) {
  const all = helps(error), one = all.length === 1;
  return [make('p', {textContent: said(error)}),
    ...(one ? [] : [make('p', {className: 'small', textContent: t('What may help:')})]),
    one ? make('p', {className: 'small', textContent: all[0]})
      : make('ul', {className: 'small helps'}, ...all.map(textContent => make('li', {textContent})))];
}
/** The same as one text. */
const worded = error => `${said(error).replace(/\.$/, '')}. ${helps(error).join(' ')}`;

/** Shows an error; actions: label -> function, the first of which gets the focus. */
function complain(title, error, actions) {
  const buttons = Object.entries(actions).map(([label, act], i) =>
    button(label, () => { $('error').hidden = true; act(); }, {className: i ? 'quiet' : 'main'}));
  $('error').replaceChildren(make('h2', {textContent: t(title)}), ...described(error),
    make('p', {className: 'tools'}, ...buttons));
  $('error').hidden = false;
  buttons[0].focus();
}

/* ---- a model ---- */

const chat = new Chat($('talk'), settings, {
  announce,
  state() { conversations.fill(); },
  progress(message) { engine.progress?.(message); },
  busy(is) {
    const lost = [$('stop'), document.body].includes(document.activeElement);
    engine?.busy(is);
    $('stop').hidden = !is;
    $('send').hidden = is;
    if (!is && lost && model) $('text').focus();
  },
  failed(error, place) {
    if (!engine.failed(error))
      place.before(make('div', {className: 'bad', role: 'alert'}, ...described(error)));
  },
  changed: (conversation, isEnd) => conversations.keep(conversation, isEnd),
  options(used) {
    return toolbox && {tools: toolbox.TOOLS, onToolCall(call) {
      const result = toolbox.useTool(call);
      used({name: call.function.name, given: call.function.arguments, result});
      return result;
    }};
  },
  aloud: canSpeak() ? speakAloud : undefined,
  figures(text) {
    $('figures').textContent = t('Last answer: {text}', {text});
    $('figures').hidden = !text;
  },
});
const conversations = new Conversations(chat, {
  complain,
  shown() {
    if (model || !chat.empty) view('work');
    else if (engine) view('start');
    welcome();
    if (model) $('text').focus();
  },
});

/* What an empty conversation shows. */
function welcome() {
  $('welcome').hidden = !chat.empty || !model || rawMode();
  $('no-chat').hidden = !chat.empty || !model || !$('mode-chat').disabled;
  if (!$('welcome').hidden) $('suggestions').replaceChildren(...suggestions().map(text =>
    make('li', {}, button(text, () => void ask(text), {className: ''}))));
}

/** which: start, work, or nothing while a model is loaded. */
function view(which) {
  for (const id of ['start', 'work']) $(id).hidden = id !== which;
  $('ask').hidden = !model;
  $('no-model').hidden = Boolean(model);
  $('hood-open').hidden = !model;
  const back = which === 'start' && (model || !chat.empty);
  $('models').hidden = !which || alone || !(back || which === 'work');
  $('models').querySelector('span').textContent = back ? t('Back to the chat') : t('Models');
  if (which === 'start') void engine.list();
  else $('error').hidden = true;
  if (which === 'work') conversations.appear();
}

/** Talks with a model, or with none. about: {name, facts: term -> text, plan, limit, warnings,
 * chat: whether it has a template}. */
function use(next, about) {
  model = next;
  chat.use(model);
  $('name').textContent = $('name').title = about?.name ?? '';
  if (!model) return view();
  $('facts').replaceChildren(...Object.entries(about.facts)
    .flatMap(([term, text]) => [make('dt', {textContent: t(term)}), make('dd', {textContent: text})]));
  $('map').replaceChildren(...(about.plan ? memoryMap(about.plan, about.limit) : []));
  note('warnings', about.warnings ?? []);
  $('mode-chat').disabled = !about.chat;
  $(about.chat ? 'mode-chat' : 'mode-text').checked = true;
  setMode();
  view('work');
  $('text').focus();
  return announce(t('{name} is ready.', {name: about.name}));
}

/* ---- events ---- */

on('models', 'click', () => {
  view($('start').hidden ? 'start' : 'work');
  if ($('start').hidden) $('text').focus();
});
on('options', 'click', () => $('settings').showModal());
on('hood-open', 'click', () => $('hood').showModal());
on('reset', 'click', reset);
$('language').value = wanted.get();
on('language', 'change', () => {
  wanted.set($('language').value);
  location.reload();
});

const rawMode = () => $('mode-text').checked;
function setMode() {
  const raw = rawMode();
  $('text').placeholder = raw ? t('Text for the model to continue') : t('Ask something');
  $('text-label').textContent = raw ? t('Text') : t('Message');
  $('modes').textContent = raw ? t('Continues your text') : toolbox ? t('Tools are on') : '';
  welcome();
}
function grow() {
  $('text').style.height = 'auto';
  $('text').style.height = `${Math.min($('text').scrollHeight + 2, innerHeight / 3)}px`;
}
function ask(text) {
  $('welcome').hidden = $('no-chat').hidden = true;
  return chat.ask(text, {raw: rawMode(), files: rawMode() ? [] : attachments.take()});
}
const attachments = new Attachments($('files'), $('files-note'));
on('attach', 'click', () => $('attach-file').click());
on('attach-file', 'change', async () => {
  await attachments.add($('attach-file').files);
  $('attach-file').value = '';
  showMore(false);
  $('text').focus();
});
on('tools', 'click', async () => {
  toolbox = toolbox ? undefined : await import('./toolbox.js');
  $('tools').setAttribute('aria-pressed', String(Boolean(toolbox)));
  setMode();
});
let listening;
function listen(is) {
  $('dictate').setAttribute('aria-pressed', String(is));
  if (!is) listening = undefined;
}
on('dictate', 'click', () => {
  if (listening) return listening();
  const before = $('text').value;
  listening = dictate({local, ended: () => listen(false), heard(text) {
    $('text').value = [before, text].filter(Boolean).join(' ');
    grow();
  }});
  return listen(true);
});
on('form-open', 'click', async () => {
  const {openForm, read} = await import('./form.js'), {maxTokens} = settings;
  showMore(false);
  openForm((schema, text, signal) => read(model, schema, text, {maxTokens, signal}),
    worded);
});
function showMore(is) {
  $('more-menu').hidden = !is;
  $('more').setAttribute('aria-expanded', String(is));
}
on('more', 'click', () => showMore($('more-menu').hidden));
on('mode', 'change', setMode);
on('text', 'input', grow);
on('ask', 'submit', event => {
  event.preventDefault();
  const {value} = $('text');
  if (!(value.trim() || attachments.length && !rawMode()) || !model || chat.busy) return;
  $('text').value = '';
  grow();
  showMore(false);
  void ask(rawMode() ? value : value.trim());
});
on('text', 'keydown', event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('ask').requestSubmit();
});
on('stop', 'click', () => chat.stop());
addEventListener('keydown', event => {
  if (event.key !== 'Escape' || event.isComposing || document.querySelector('dialog[open]')) return;
  if (!$('more-menu').hidden) {
    showMore(false);
    $('more').focus();
  } else if (chat.busy) chat.stop();
  else engine?.cancel();
});

/* ---- begin ---- */

/* What an engine sees. */
const page = {
  settings, complain, worded, use, view,
  attach: files => attachments.add(files),
  reload: {Reload: () => location.reload()},
  again: () => chat.again(),
  get model() { return model; },
  set alone(is) { alone = is; },
};
engine = await (local ? import('./local.js') : import('./served.js'));
void canDictate(local).then(can => { $('dictate').hidden = !can; });
await conversations.begin();
globalThis.qsfDemo = {chat, open: engine.open, ask, settings, get model() { return model; }};
await engine.begin(page);
