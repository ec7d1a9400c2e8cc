/* The user's settings: named fields of forms, kept in this browser.
 * SPDX-License-Identifier: MIT */
import {remembered} from './dom.js';

const kept = remembered('localStorage', 'qsf-demo-settings');

export const DEFAULTS = Object.freeze({
  // of an answer
  system: '', temperature: 0.7, topK: 40, topP: 0.9, minP: 0, seed: 0, maxTokens: 512,
  whenFull: 'trim',             // or 'summarise'
  // of a model, when it is loaded
  contextLength: 2048, memory: 0, threads: 0, device: 'auto', kv: 'q8',
});

function stored() {
  try {
    const all = JSON.parse(kept.get() || '{}');
    return Object.fromEntries(Object.entries(DEFAULTS)
      .map(([name, value]) => [name, typeof all?.[name] === typeof value ? all[name] : value]));
  } catch {                     // not our data
    return {...DEFAULTS};
  }
}

/** Binds the fields of forms whose names are settings; changed(name) is called after each edit. The
 * returned object is always current. */
export function bindSettings(forms, changed) {
  const settings = stored();
  const fields = forms.flatMap(form => [...form.elements]).filter(field => field.name in DEFAULTS);
  const save = () => kept.set(JSON.stringify(settings));
  /* 0 means "default" for these: an empty field shows that better. */
  const show = field => {
    field.value = field.dataset.zero !== undefined && !settings[field.name] ? '' : settings[field.name];
  };
  for (const field of fields) {
    show(field);
    field.addEventListener('input', () => {
      const numeric = typeof DEFAULTS[field.name] === 'number',
        value = numeric ? Number(field.value) : field.value;
      const usable = numeric
        ? field.validity.valid && (field.value !== '' || field.dataset.zero !== undefined) : true;
      settings[field.name] = usable ? value : DEFAULTS[field.name];
      save();
      changed(field.name);
    });
    field.addEventListener('change', () => { if (field.validity.valid) show(field); });
  }
  return {
    settings,
    reset() {
      Object.assign(settings, DEFAULTS);
      fields.forEach(show);
      save();
      changed('');
    },
  };
}
