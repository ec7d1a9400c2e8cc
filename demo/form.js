/* A form that the model fills from what is pasted: its fields are those of a JSON schema, which the
 * answer cannot but match.
 * SPDX-License-Identifier: MIT */
import {button, make} from './dom.js';
import {t} from './strings.js';

const string = {type: 'string'}, number = {type: 'number'}, strings = {type: 'array', items: string};
const object = properties => ({type: 'object', properties, required: Object.keys(properties),
  additionalProperties: false});
const EXAMPLES = {
  Contact: [object({name: string, company: string, email: string, phone: string, city: string}),
    'Hello, this is Ada Lovelace from Analytical Engines in London. Call me at 020 7946 0000 or write to '
    + 'ada@engines.example.'],
  Recipe: [object({title: string, minutes: number, vegetarian: {type: 'boolean'}, ingredients: strings}),
    'Tomato soup: cook six tomatoes, an onion and two cloves of garlic for 25 minutes.'],
  Appointment: [object({title: string, day: string, time: string, kind: {enum: ['work', 'family', 'sport']}}),
    'Could we move the weekly meeting with the designers to Thursday at half past two?'],
};

/** The fields of a schema: {node, get(), set(value)}. What is not known is a field of JSON. */
export function fieldsOf(schema, name = '', depth = 0) {
  const labelled = (input, get, set) => ({node: make('label', {}, `${name} `, input), get, set});
  if (schema?.type === 'object' && schema.properties && depth < 5) {
    const parts = Object.entries(schema.properties).map(([key, inner]) => [key, fieldsOf(inner, key, depth
      + 1)]);
    const node = make('fieldset', {}, ...(name ? [make('legend', {textContent: name})] : []),
      ...parts.map(([, part]) => part.node));
    return {node, get: () => Object.fromEntries(parts.map(([key, part]) => [key, part.get()])),
      set: value => parts.forEach(([key, part]) => part.set(value?.[key]))};
  }
  if (Array.isArray(schema?.enum)) {
    const input = make('select', {}, ...schema.enum.map(one => make('option', {textContent: String(one)})));
    return labelled(input, () => schema.enum[input.selectedIndex],
      value => { input.selectedIndex = Math.max(0, schema.enum.indexOf(value)); });
  }
  if (schema?.type === 'boolean') {
    const input = make('input', {type: 'checkbox'});
    return labelled(input, () => input.checked, value => { input.checked = value === true; });
  }
  if (schema?.type === 'number' || schema?.type === 'integer') {
    const input = make('input', {type: 'number', step: 'any'});
    return labelled(input, () => (input.value === '' ? null : Number(input.value)),
      value => { input.value = Number.isFinite(value) ? value : ''; });
  }
  if (schema?.type === 'array' && schema.items?.type === 'string') {
    const input = make('textarea', {rows: 3});
    return labelled(input, () => input.value.split('\n').filter(Boolean),
      value => { input.value = Array.isArray(value) ? value.join('\n') : ''; });
  }
  if (schema?.type === 'string') {
    const input = make('input', {type: 'text'});
    return labelled(input, () => input.value, value => { input.value = value ?? ''; });
  }
  const input = make('textarea', {rows: 2, spellcheck: false});
  return labelled(input, () => { try { return JSON.parse(input.value); } catch { return null; } },
    value => { input.value = value === undefined ? '' : JSON.stringify(value); });
}

const INSTRUCTION = 'Read the text and answer with its values as JSON. Use an empty value for what it '
  + 'does not say.';

/** The values that a model finds, as the schema has them. */
export async function read(model, schema, text, options) {
  let answer = '';
  const parts = model.chat([{role: 'system', content: INSTRUCTION}, {role: 'user', content: text}],
    {...options, temperature: 0, responseFormat: {type: 'json_schema', json_schema: {name: 'form', schema}}});
  for await (const part of parts) answer += part;
  return JSON.parse(answer);
}

/** Shows the form. ask(schema, text, signal) promises the values; failed(error): its words. */
export function openForm(ask, failed) {
  const choice = make('select', {}, ...[...Object.keys(EXAMPLES), 'Other'].map(name =>
    make('option', {value: name, textContent: t(name)})));
  const source = make('textarea', {rows: 5, spellcheck: false, className: 'address'}),
    text = make('textarea', {rows: 4}), place = make('div', {className: 'fields'}),
    note = make('p', {className: 'small', role: 'status'}), stop = new AbortController();
  let fields, schema;
  const wanted = make('label', {}, `${t('JSON schema')} `, source);
  const show = () => {
    try {
      schema = JSON.parse(source.value);
      fields = fieldsOf(schema);
      place.replaceChildren(fields.node);
      note.textContent = '';
    } catch {
      fields = undefined;
      place.replaceChildren();
      note.textContent = t('The schema is not valid JSON.');
    }
  };
  const pick = () => {
    const example = EXAMPLES[choice.value];
    wanted.hidden = Boolean(example);
    [text.value, source.value] = [example?.[1] ?? '', JSON.stringify(example?.[0] ?? schema, null, 1)];
    show();
  };
  choice.addEventListener('change', pick);
  source.addEventListener('input', show);
  const fill = button(t('Fill in'), async () => {
    if (!fields || !text.value.trim()) return;
    fill.disabled = true;
    note.textContent = t('The model is reading …');
    try {
      fields.set(await ask(schema, text.value, stop.signal));
      note.textContent = t('Filled in. Check the values.');
    } catch (error) {
      note.textContent = failed(error);
    }
    fill.disabled = false;
  }, {className: 'main', id: 'form-fill'});
  const copy = button(t('Copy as JSON'), async () => {
    try {
      await navigator.clipboard.writeText(JSON.stringify(fields?.get(), null, 1));
      note.textContent = t('Copied');
    } catch { note.textContent = t('Not allowed'); }
  });
  const title = make('h2', {id: 'form-title', textContent: t('Fill in a form')});
  const box = make('dialog', {id: 'form'}, make('form', {method: 'dialog'}, title,
    make('label', {}, `${t('Form')} `, choice), wanted, make('label', {}, `${t('Text')} `, text),
    make('p', {className: 'tools'}, fill, copy), note, place,
    make('p', {className: 'tools'}, make('span'), make('button', {textContent: t('Close')}))));
  box.setAttribute('aria-labelledby', 'form-title');
  box.addEventListener('close', () => { stop.abort(); box.remove(); });
  document.body.append(box);
  pick();
  box.showModal();
}
