/* The parts of a split model as one source: their bytes follow each other. Modules ask for a
 * part by name to learn its offset.
 * SPDX-License-Identifier: MIT */

const FIRST = /-00001-of-(\d{5})(?=\.gguf(?:$|[?#]))/i, NUMBER = /-(\d{5})-of-\d{5}\.gguf$/i, MOST = 1000;

/** A place of a first part with the places of all, as `all`; other places unchanged. */
export function withParts(place) {
  const kind = place.url ? 'url' : 'path', count = Number(FIRST.exec(place[kind] ?? '')?.[1] ?? 1);
  if (place.all || count < 2 || count > MOST) return place;
  const part = i => place[kind].replace(FIRST, (_, digits) =>
    `-${String(i + 1).padStart(5, '0')}-of-${digits}`);
  return {...place, all: Array.from({length: count}, (_, i) => ({[kind]: part(i)}))};
}

/** sources: see reader.js; name: of the first, as the names of the others follow from it. */
export function joinedSources(sources, name) {
  const begins = [];
  let length = 0;
  for (const source of sources) {
    begins.push(length);
    length += source.length;
  }
  const at = place => begins.findLastIndex(begin => begin <= place);
  const each = fn => Promise.all(sources.map(fn));
  return {
    name, length, begins,
    get stored() { return sources.reduce((sum, source) => sum + (source.stored ?? 0), 0); },
    async ready(from, n, signal) { await sources[at(from)].ready?.(from - begins[at(from)], n, signal); },
    readNow: (from, target) => sources[at(from)].readNow(from - begins[at(from)], target),
    fetch: (from, n, signal, take) => sources[at(from)].fetch(from - begins[at(from)], n, signal, take),
    settle: how => each(source => source.settle?.(how)),
    async spoil() {
      const all = await each(source => source.spoil?.());
      return ['asRange', 'reload', true].find(how => all.includes(how)) ?? false;
    },
    close: () => each(source => source.close()),
  };
}

/** Where the part with this name begins in what joinedSources() made; undefined: it is missing. */
export const beginOf = ({begins}, name) => (begins ? begins[Number(NUMBER.exec(name)?.[1] ?? 1) - 1] : 0);
/** The length of the part that begins there. */
export function lengthFrom({begins, length}, begin) {
  return begins ? (begins[begins.indexOf(begin) + 1] ?? length) - begin : length;
}
