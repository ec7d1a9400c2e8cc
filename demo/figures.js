/* Formatted numbers, the speed of a download, the memory map.
 * SPDX-License-Identifier: MIT */
import {make} from './dom.js';
import {planText, t} from './strings.js';

export const megabytes = n => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB`
  : `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} MB`);
export const millions = n => (n >= 1e9 ? t('{n} billion', {n: (n / 1e9).toFixed(1)})
  : t('{n} million', {n: Math.round(n / 1e6)}));
export const seconds = s => (s < 90 ? `${Math.max(1, Math.round(s))} s`
  : s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`);

/** Bytes a second over the last few seconds. */
export class Speed {
  #points = [];
  add(bytes, now = performance.now()) {
    if (bytes < this.#points.at(-1)?.bytes) this.#points = [];
    this.#points.push({bytes, now});
    while (now - this.#points[0].now > 4000 && this.#points.length > 2) this.#points.shift();
  }
  get perSecond() {
    const first = this.#points[0], last = this.#points.at(-1), ms = last ? last.now - first.now : 0;
    return ms > 200 ? (last.bytes - first.bytes) / ms * 1000 : 0;
  }
}

/** "62 of 98 MB · 12 MB/s · 3 s left · 40 MB from storage" */
export function transfer({loaded, total, stored = 0}, speed) {
  const parts = [total ? t('{done} of {all}', {done: megabytes(loaded), all: megabytes(total)})
    : megabytes(loaded)],
    rate = speed.perSecond;
  if (rate && loaded !== total) parts.push(`${megabytes(rate)}/s`);
  if (rate && total > loaded) parts.push(t('{time} left', {time: seconds((total - loaded) / rate)}));
  if (stored) parts.push(t('{size} from storage', {size: megabytes(stored)}));
  return parts.join(' · ');
}

const SVG = 'http://www.w3.org/2000/svg';
const draw = (tag, attributes) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

/** The plan as a bar whose parts have their bytes' width, with a legend that says the same in
 * words. limit: megabytes, 0 for none. */
export function memoryMap(plan, limit) {
  const sum = plan.reduce((all, {bytes}) => all + bytes, 0), whole = Math.max(sum, limit * 1e6);
  const named = plan.map(({name, bytes}) => ({name: planText(name), bytes}));
  const parts = named.filter(({bytes}) => bytes >= whole / 100).sort((a, b) => b.bytes - a.bytes);
  const small = named.filter(({bytes}) => bytes && bytes < whole / 100),
    rest = small.reduce((all, {bytes}) => all + bytes, 0);
  if (rest) parts.push({name: small.map(({name}) => name).join(', '), bytes: rest});
  if (whole > sum) parts.push({name: t('free below the limit'), bytes: whole - sum, free: true});
  const svg = draw('svg', {viewBox: '0 0 1000 40', preserveAspectRatio: 'none', class: 'map', role: 'img',
    'aria-label': t('Memory map: {parts}',
      {parts: parts.map(p => `${p.name} ${megabytes(p.bytes)}`).join(', ')})});
  const legend = make('ul', {className: 'legend'});
  let x = 0;
  parts.forEach((part, i) => {
    const width = part.bytes / whole * 1000, tone = part.free ? 'free' : `tone${Math.min(i, 7)}`;
    const block = draw('rect', {x: x.toFixed(2), y: 0, width: Math.max(1, width - 3).toFixed(2), height: 40,
      class: tone}), title = draw('title', {});
    title.textContent = `${part.name}: ${megabytes(part.bytes)}`;
    block.append(title);
    svg.append(block);
    x += width;
    legend.append(make('li', {}, make('i', {className: tone}), make('span', {textContent: part.name}),
      make('b', {textContent: megabytes(part.bytes)})));
  });
  return [svg, legend];
}
