/* The engine of the server that the page comes from: its models, and the key that it may want.
 * SPDX-License-Identifier: MIT */
import {Client} from './client.js';
import {$, announce, button, make, on, remembered} from './dom.js';
import {megabytes, millions} from './figures.js';
import {language, t} from './strings.js';

const lastKey = remembered('sessionStorage', 'qsf-server-key');
const client = new Client(document.baseURI, lastKey.get());
let page, models = [], waiting;

const whole = n => n.toLocaleString(language);
function about({id, meta: {arch, n_params: params, n_ctx: context, n_ctx_train: trained, size}}) {
  const kind = [params && t('{n} parameters', {n: millions(params)}), arch].filter(Boolean).join(', ');
  const facts = {Model: [id, kind].filter(Boolean).join(', '), File: size && megabytes(size),
    Context: context && t('{n} tokens, shared by all answers', {n: whole(context)})
      + (trained ? t('; the model was trained with {n}', {n: whole(trained)}) : ''),
    Server: location.host};
  return {name: id, chat: true, facts: Object.fromEntries(Object.entries(facts).filter(([, text]) => text))};
}

/* ---- the key ---- */

/** Asks for the key, then continues. */
function askKey(goOn) {
  waiting = goOn;
  $('key-wrong').hidden = !client.key;
  $('key').hidden = false;
  $('key-text').value = '';
  $('key-text').focus();
}
function takeKey(event) {
  event.preventDefault();
  const key = $('key-text').value.trim();
  if (!key) return $('key-text').focus();
  client.key = key;
  lastKey.set(key);
  $('key').hidden = true;
  return waiting();
}

/* ---- models ---- */

async function connect() {
  try {
    models = await client.models();
  } catch (error) {
    if (error.code === 'KEY') return askKey(connect);
    return page.complain('The server cannot be reached', error, {Retry: connect});
  }
  page.alone = models.length === 1;
  const wanted = new URLSearchParams(location.search).get('model'),
    found = models.find(({id}) => id === wanted) ?? (models.length === 1 ? models[0] : undefined);
  return found ? open(found.id) : page.view('start');
}

function draw() {
  $('served').replaceChildren(...models.map(one => {
    const {meta: {n_params: params, size}, status: {value: state, failed}} = one;
    return make('li', {className: 'choice'}, make('div', {}, make('span', {textContent: one.id}),
      make('span', {className: 'size', textContent: [failed ? t('could not be loaded') : t(state ?? ''),
        params && t('{n} parameters', {n: millions(params)}), size
          && megabytes(size)].filter(Boolean).join(' · ')})),
      button('Chat', () => open(one.id), {className: '', ariaLabel: t('Chat with {name}', {name: one.id})}));
  }));
}

/* ---- what the page calls ---- */

export async function list() {
  draw();
  try {
    const now = await client.models();      // which of them are loaded changes
    if (JSON.stringify(now) === JSON.stringify(models)) return;
    models = now;
    draw();
  } catch { /* those of before */ }
}
export function open(id) {
  const one = models.find(model => model.id === id) ?? {id, meta: {}};
  page.use(client.model(id, one.meta.n_ctx), about(one));
}
export function busy() {}
export function changed() {}
export function cancel() {}
export function failed(error) {
  if (error.code === 'KEY') askKey(() => page.again());
  return error.code === 'KEY';
}

export async function begin(of) {
  page = of;
  on('key', 'submit', takeKey);
  announce('Asking the server …');
  await connect();
}
