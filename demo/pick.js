/* Which of the listed models fits this device.
 * SPDX-License-Identifier: MIT */

/** memory: bytes, as far as a browser reports it. */
export const thisDevice = () => ({memory: (navigator.deviceMemory ?? 4) * 1e9,
  saveData: navigator.connection?.saveData ?? false});

/* A page may use a part of a device's memory, and a model needs more than its file. */
const SHARE = 1 / 4, MORE = 1.3;

/** The model that the first screen offers for chats: the one used last, if it is stored; otherwise
 * the largest that fits, of the models that the list recommends if it recommends any. models: {url,
 * size, start, here, there, chat: false if it only continues texts}. undefined: no model is
 * available. */
export function fitting(models, {memory, saveData}, last) {
  const there = models.filter(one => one.there && one.chat !== false),
    used = there.find(one => one.here && one.url === last);
  if (used) return used;
  const named = there.filter(one => one.start), offered = (named.length ? named : there)
    .toSorted((a, b) => (a.size ?? Infinity) - (b.size ?? Infinity));
  const fit = offered.filter(({size = Infinity}) => size * MORE < memory * SHARE);
  return (saveData ? fit[0] : fit.findLast(one => one.here) ?? fit.at(-1)) ?? offered[0];
}
