/* The engine in this page: a model's file is chosen and loaded by the package, and runs on this
 * device.
 * SPDX-License-Identifier: MIT */
import {$, announce, button, make, note, on, remembered} from './dom.js';
import {Speed, megabytes, memoryMap, millions, transfer} from './figures.js';
import {keepOffline, lacks} from './offline.js';
import {fitting, thisDevice} from './pick.js';
import {language, planText, t} from './strings.js';

const lastModel = remembered('localStorage', 'qsf-demo-last');          /* its URL */
/* Set while a model is loaded: one that ends the tab is not loaded again without a question. */
const trying = remembered('localStorage', 'qsf-demo-loading');

/** The last part of an address, decoded; the whole address if that part is empty. */
function lastPart(url) {
  const part = url.split(/[?#]/)[0].split('/').pop();
  try {
    return decodeURIComponent(part) || url;
  } catch {
    return part;
  }
}
const pause = ms => new Promise(resolve => { setTimeout(resolve, ms); });

let usable = true;              // whether this browser can run a model
let page, settings, qsf, packageReady, opening, again, outdated = false, listed = [],
  offered,                      // the model of the first screen's button
  hubUrl, repository;           // the site's hub; its part of the page, once a model is named
const isName = from => typeof from === 'string' && /^hf:/i.test(from);
async function loadOptions(from) {
  const {memory, contextLength, threads, device, kv} = settings;
  if (!isName(from)) return {memory, contextLength, threads, device, kv};
  repository ??= await import('./repository.js');
  return {memory, contextLength, threads, device, kv, hubUrl, hubToken: repository.token()};
}

/** Absolute, or relative to this page; undefined: neither, or not an http(s) address. */
function addressOf(text) {
  try {
    const url = new URL(text, document.baseURI);
    return ['http:', 'https:', 'blob:', 'data:'].includes(url.protocol) ? url : undefined;
  } catch {
    return undefined;
  }
}

/* ---- progress ---- */

let going = {}, speed, promptBegan;     /* going: load and prompt, their last messages while they last */

export function progress(message) {
  const {phase} = message;
  if (phase === 'load') speed.add(message.loaded);
  else if (!going.prompt) promptBegan = performance.now();
  const ended = phase === 'load' ? !opening && message.loaded >= message.total
    : message.done >= message.total;
  going[phase] = ended ? undefined : message;
  drawProgress();
}
function drawProgress() {
  const {load, prompt} = going, slow = prompt && (load || performance.now() - promptBegan > 300);
  $('progress').hidden = !opening && !load && !slow;
  $('cancel').hidden = !opening;
  $('progress-title').textContent = prompt ? t('Reading the prompt')
    : opening ? t('Loading {name}', {name: opening.name})
      : t('The rest of the file is still loading; you can already ask');
  const texts = prompt ? [t('{done} of {total} tokens', prompt)] : [];
  if (prompt?.layers) texts.push(t('layer {layer} of {layers}', prompt));
  if (load) texts.push(transfer(load, speed));
  $('progress-text').textContent = texts.join(' · ') || t('Opening …');
  const {done, total} = prompt ?? {done: load?.loaded, total: load?.total};
  if (total) $('bar').value = Math.min(1, done / total);
  else $('bar').removeAttribute('value');
}
function endProgress() {
  going = {};
  drawProgress();
}

/* ---- a model ---- */

export async function open(from, extra = {}) {
  if (outdated)
    return page.complain('A newer version of this page is available',
      new Error('Its files do not match those already loaded.'), page.reload);
  if (typeof from === 'string' && !isName(from)) {
    const url = addressOf(from);
    if (!url) {
      page.view('start');
      return page.complain('Not a URL', Object.assign(new Error(t('“{text}” is not the URL of a file',
        {text: from.slice(0, 200)})), {code: 'NOT_FOUND'}),
        {[t('Choose another')]: () => another($('url'))});
    }
    from = url.href;
  }
  opening?.stop.abort();
  const stop = new AbortController(), name = from.name ?? lastPart(from), mine = opening = {name, stop},
    before = page.model;
  again = () => void open(from, extra);
  page.use(undefined);
  speed = new Speed();
  $('start').before($('progress'));
  endProgress();
  $('cancel').focus();
  announce(t('Loading {name}', {name}));
  trying.set(name);
  try {
    await before?.dispose();
    await packageReady;
    let loaded;
    const onProgress = message => {
      if (mine === opening || loaded && loaded === page.model) progress(message);
    };
    const options = await loadOptions(from);
    loaded = await qsf.load(from, {...options, ...extra, onProgress, signal: stop.signal});
    if (mine !== opening) return await loaded.dispose();
    opening = undefined;
    lastModel.set(typeof from === 'string' ? from : '');
    trying.set('');
    endProgress();
    page.use(loaded, about(loaded, listed.find(one => one.url === from)?.name));
    $('dock').prepend($('progress'));
  } catch (error) {
    if (mine !== opening) return undefined;     // another one is being loaded
    opening = undefined;
    trying.set('');
    endProgress();
    page.view('start');
    if (stop.signal.aborted) return $($('advanced').open ? 'load' : 'go').focus();
    const anew = qsf?.cache && typeof from === 'string'
      && {[t('Download again')]: () => open(from, {cache: 'reload'})};
    const told = isName(from) && repository ? repository.worded(error) : error;
    if (typeof from === 'string') told.reason = (told.reason ?? told.message).replaceAll(from, name);
    page.complain(t('{name} could not be loaded', {name}), told, {
      ...(told.code === 'TOKEN' && {[t('Enter a token')]: () => {
        $('url').value = from;
        $('pick-url').checked = true;
        repository.show(from);
        another($('hub-token'));
      }}), [t('Retry')]: again, ...anew, [t('Choose another')]: () => another()});
  }
  return undefined;
}

/* Whether the GPU is used, and why not. */
function computesOn({device: {kind, name, layers, reason}, layers: all}) {
  if (kind === 'cpu') return t('CPU, because {reason}', {reason});
  return layers === all ? `GPU: ${name}` : t('GPU for {layers} of {all} layers: {name}', {layers, all, name});
}

/** What the page says about a model. */
function about({info}, called) {
  const name = called ?? (info.name || info.architecture);
  return {name, plan: info.plan, limit: settings.memory, warnings: info.warnings.map(planText),
    chat: info.chatTemplate,
    facts: {
      Model: [info.name || info.architecture, t('{n} parameters', {n: millions(info.parameters)}),
        info.format].join(', '),
      File: [megabytes(info.fileBytes), t('{n} layers', {n: info.layers}),
        info.resident ? t('all of them in memory') : t('parts are read while it answers')].join(', '),
      Engine: [info.threads === 1 ? t('one thread') : t('{n} threads', {n: info.threads}),
        info.isa].join(', '),
      Device: computesOn(info),
      Context: t('{n} tokens (trained with {all})', {n: info.contextLength.toLocaleString(language),
        all: info.trainedContext.toLocaleString(language)}),
      Memory: settings.memory ? t('{done} of {all}', {done: megabytes(info.planBytes),
        all: `${settings.memory} MB`}) : megabytes(info.planBytes),
    }};
}

/* ---- the choice ---- */

const picked = () => $('choose').elements.model.value;
const choice = () => (picked() === 'url' ? $('url').value.trim() : picked() === 'file' ? $('file').files[0]
  : listed[picked()]?.url);

/** Which listed models are there, and what the package keeps. */
export async function list() {
  const entries = await kept();
  try {
    const {models, hub} = await (await fetch('models.json', {cache: 'no-cache'})).json();
    hubUrl = hub;
    listed = models.map(one => ({...one, url: addressOf(one.url)?.href})).filter(one => one.url);
  } catch { /* none are listed, or those of before */ }
  await Promise.all(listed.map(async one => {
    one.here = entries.some(({url, complete}) => url === one.url && complete);
    one.there = one.here || await fetch(one.url, {method: 'HEAD'}).then(answer => answer.ok, () => false);
  }));
  const before = picked();
  $('list').replaceChildren(...listed.map((one, i) => {
    const input = make('input', {type: 'radio', name: 'model', id: `pick-${i}`, value: i,
      disabled: !one.there});
    const size = [one.here ? t('on this device') : '', one.size && megabytes(one.size)].filter(Boolean)
      .join(' · ');
    return make('div', {className: 'choice'}, input, make('label', {htmlFor: input.id},
      make('span', {textContent: one.name}), make('small', {textContent: [one.note,
        one.chat === false && t('only continues texts')].filter(Boolean).join(' · ')})),
      make('span', {className: 'size', textContent: one.there ? size : t('not available')}));
  }));
  const usable = [...$('choose').elements.model].filter(input => !input.disabled);
  (usable.find(input => input.value === before && !(before === 'url' && !$('url').value))
    ?? usable[0]).checked = true;
  drawOffer();
  void estimate();
}

/* The button of the first screen, with the model that it loads. */
function drawOffer() {
  offered = fitting(listed, thisDevice(), lastModel.get());
  const {name, good, size, here} = offered ?? {};
  $('offer-name').textContent = name ?? '';
  $('offer-good').textContent = (typeof good === 'string' ? good : good?.[language] ?? good?.en) ?? '';
  $('offer-size').textContent = here ? t('It is stored on this device.')
    : size ? t('{size}, downloaded once and stored on this device.', {size: megabytes(size)}) : '';
  $('offer-none').hidden = Boolean(offered);
  $('go').hidden = !offered;
  $('go').disabled = !offered || !usable;
  if (!offered) $('advanced').open = true;
}
/* Lets the user choose another model: opens the list and focuses a field of it. */
function another(field = $('choose').querySelector('input:checked')) {
  $('advanced').open = true;
  field?.focus();
}

let asking;
async function estimate() {
  asking?.abort();
  const {signal} = asking = new AbortController(), from = choice(), need = $('need');
  need.className = '';
  note('need-losses', []);
  $('need-map').replaceChildren();
  const size = from && (from.size ?? listed.find(one => one.url === from)?.size);
  need.textContent = size ? megabytes(size) : '';
  await pause(250);             // until the typing ends
  if (signal.aborted) return;
  const options = await loadOptions(from);
  repository?.show(isName(from) ? from : '');
  if (!from || !qsf?.estimate || signal.aborted || !$('advanced').open) return;
  try {
    if (isName(from)) need.textContent = t('Asking the hub …');
    const {fileBytes, parameters, memoryBytes, fits, resident, reductions, warnings, plan, files} =
      await qsf.estimate(from, {...options, signal});
    if (signal.aborted) return;
    if (files) repository.drawFiles(from, files, name => {
      $('url').value = name;
      void estimate();
    });
    if (fits === false) {
      need.className = 'bad';
      need.textContent = t('The memory limit is too low: at least {size} are needed.',
        {size: megabytes(memoryBytes)});
      return;
    }
    const losses = warnings.filter(warning => reductions.some(text => warning.startsWith(text)));
    need.textContent = [t('{size} file', {size: megabytes(fileBytes)}), t('{n} parameters',
      {n: millions(parameters)}),
      t('needs {size} of memory', {size: megabytes(memoryBytes)}),
      ...(resident ? [] : [t('parts are read from the file while it answers')]),
      ...reductions.filter(text => !losses.some(loss => loss.startsWith(text))).map(planText)].join(' · ');
    note('need-losses', losses.map(planText));
    $('need-map').replaceChildren(...memoryMap(plan, settings.memory));
  } catch (error) {
    if (signal.aborted) return;
    const told = isName(from) ? repository.worded(error) : error;
    need.className = 'bad';
    need.textContent = page.worded(told);
  }
}

/* What the package keeps on this device; [] if it keeps nothing. */
async function kept() {
  let entries = [];
  try { entries = await qsf?.cache?.list() ?? []; } catch { /* no storage here: a note tells the user */ }
  const remove = (label, url) => button(label, async () => {
    try {
      announce(t('{size} freed', {size: megabytes(await qsf.cache.delete(url))}));
    } catch (error) { page.complain('It could not be deleted', error, {Close() {}}); }
    await list();
    another();
  }, {ariaLabel: url ? t('Delete {name}', {name: lastPart(url)}) : t(label)});
  $('storage').hidden = !entries.length;
  $('entries').replaceChildren(...entries.map(({url, length, stored, complete, fetched}) => make('li', {},
    make('span', {textContent: lastPart(url), title: url}),
    make('small', {textContent: `${complete ? megabytes(length)
      : t('{done} of {all}', {done: megabytes(stored), all: megabytes(length)})} · `
      + t('stored on {date}', {date: new Date(fetched).toLocaleDateString()})}),
    button('Load', () => void open(url), {ariaLabel: t('Load {name}', {name: lastPart(url)})}),
      remove('Delete', url))));
  const {usage, quota} = await navigator.storage?.estimate().catch(() => {}) ?? {},
    sum = entries.reduce((all, {stored}) => all + stored, 0);
  const used = quota ? t('; this site uses {used} of {all} allowed',
    {used: megabytes(usage), all: megabytes(quota)}) : '';
  $('storage-sum').replaceChildren(t('{size} of models{used}.', {size: megabytes(sum), used}),
    ...(entries.length > 1 ? [remove('Delete all')] : []));
  return entries;
}

/* ---- events ---- */

function drag(event) {
  if (!event.dataTransfer?.types.includes('Files')) return;
  event.preventDefault();
  $('drop').hidden = event.type === 'drop';
  const files = event.type === 'drop' ? [...event.dataTransfer.files] : [];
  const dropped = files.find(({name}) => /\.(?:gguf|qsf)$/i.test(name)) ?? (page.model ? undefined
    : files[0]);
  if (dropped) void open(dropped);
  else if (files.length) void page.attach(files);
}
function showNotes() {
  const names = lacks();
  for (const note of $('missing').children) note.hidden = !names.includes(note.dataset.lacks);
  $('missing').hidden = !names.length;
  usable = names[0] !== 'wasm' && names[0] !== 'simd';
  $('load').disabled = !usable;
  $('go').disabled = !offered || !usable;
}

/* A link may name a model, but only this site's own and those that it lists are loaded without a
 * question: the link's author is not the user. No request is sent to another site before. */
function consider(text) {
  const url = addressOf(text);
  const load = () => {
    $('url').value = text;
    $('pick-url').checked = true;
    void open(text);
  };
  const name = isName(text);
  if (!name && (!url || url.origin === location.origin || listed.some(one => one.url === url.href)))
    return load();
  const other = () => another();
  if (!name && !url.protocol.startsWith('http'))
    return page.complain('This link does not contain a valid URL',
      new Error(t('A link cannot load a model with {protocol}', url)), {'Choose another': other});
  const whole = name ? text : url.href;
  $('asked-host').textContent = name ? new URL(hubUrl ?? 'https://huggingface.co').host : url.host;
  $('asked-url').textContent = whole.length < 600 ? whole : `${whole.slice(0, 600)} …`;
  const answer = act => () => { $('asked').hidden = true; act(); };
  $('asked-buttons').replaceChildren(button('Load', answer(load), {className: 'main'}),
    button('Do not load', answer(other)));
  $('asked').hidden = false;
  return $('asked-buttons').lastChild.focus();
}

function listen() {
  on('advanced', 'toggle', () => void estimate());
  on('go', 'click', () => void open(offered.url));
  addEventListener('pagehide', () => trying.set(''));
  on('choose', 'submit', event => {
    event.preventDefault();
    const from = choice();
    if (from) void open(from);
    else $(picked() === 'url' ? 'url' : 'browse').focus();
  });
  on('choose', 'change', ({target}) => {
    if (target.name === 'model' || ['url', 'hub-token'].includes(target.id)) void estimate();
  });
  on('url', 'input', ({inputType}) => {
    $('pick-url').checked = true;
    if (inputType === 'insertFromPaste') void estimate();
  });
  on('browse', 'click', () => $('file').click());
  on('file', 'change', () => {
    $('pick-file').checked = true;
    $('file-name').textContent = $('file').files[0]?.name ?? '';
    void estimate();
  });
  on('cancel', 'click', cancel);
  addEventListener('dragover', drag);
  addEventListener('drop', drag);
  addEventListener('dragleave', event => { if (!event.relatedTarget) $('drop').hidden = true; });
}

/* ---- what the page calls ---- */

/** An answer begins or ends, or another conversation is shown. */
export function busy() {
  going.prompt = undefined;
  drawProgress();
}
export const cancel = () => opening?.stop.abort();
/** A setting was edited. */
export const changed = () => { if (!$('start').hidden) void estimate(); };
/** Whether the error is shown. */
export function failed(error) {
  const gone = error.code === 'WORKER' || error.code === 'DISPOSED';
  if (gone) page.complain('The model has stopped', error,
    {'Load it again': again, Models: () => page.view('start')});
  return gone;
}

export async function begin(of) {
  page = of;
  ({settings} = page);
  listen();
  document.head.append(make('link', {rel: 'manifest', href: 'manifest.webmanifest'}));
  // not a plain import: the page shall name a missing file, not stay without a function
  packageReady = import('./js/browser.js').then(module => { qsf = module; });
  packageReady.catch(error => page.complain('The package could not be loaded',
    new Error(`js/browser.js: ${error.message}`), page.reload));
  const asked = new URLSearchParams(location.search).get('model');
  const offline = keepOffline({
    busy: () => opening || page.model || $('url').value || $('file').files.length,
    told({kept: all, why}) {
      $('kept').textContent = all ? t('This page works offline now.')
        : why ? t('This page is not available offline: {why}', {why}) : '';
    },
    stale() { outdated = true; },
  });
  // not at once: isolation may be a moment away
  void Promise.race([offline, pause(3000)]).then(showNotes);
  const tried = trying.get(), last = tried ? null : lastModel.get();
  trying.set('');
  if ((asked || last) && !crossOriginIsolated) await Promise.race([offline, pause(5000)]);
  await packageReady.catch(() => {});
  if (!asked) {
    $('start').hidden = Boolean(last);
    await list();
    const stored = await kept();
    if (isName(last)) {                 // by its file's address: the hub is not asked
      await loadOptions(last);
      const url = repository.storedUrl(last, stored, hubUrl);
      if (url) return open(url);
    } else if (listed.concat(stored).some(one => one.url === last && (one.here || one.complete)))
      return open(last);
    $('start').hidden = false;
    return undefined;
  }
  if (addressOf(asked)?.origin !== location.origin) await list();
  return consider(asked);
}
