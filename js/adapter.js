/* Adapters (LoRA): the user's side.
 * SPDX-License-Identifier: MIT */
import {refuse, shown} from './errors.js';

const LIVE = new WeakMap();     // adapter -> {port, number}, until it is freed

export class Adapter {
  #info; #scale;

  /** number: the worker's id of it. */
  constructor(port, {number, info}, scale) {
    this.#info = Object.freeze(info);
    this.#scale = scale;
    LIVE.set(this, {port, number});
  }
  get info() { return this.#info; }
  get scale() { return this.#scale; }
  async free() {
    const live = LIVE.get(this);
    LIVE.delete(this);
    await live?.port.call('freeAdapter', {number: live.number});
  }
}

const isScale = value => Number.isFinite(value) && Math.abs(value) <= 1e6;

/** The option adapters, as [{adapter, scale}]; undefined: it is invalid. */
export function chosen(given) {
  if (!Array.isArray(given) || given.length > 8) return undefined;
  const all = given.map(use => (use instanceof Adapter ? {adapter: use, scale: use.scale}
    : {adapter: use?.adapter, scale: use?.scale ?? use?.adapter?.scale}));
  const wrong = all.findIndex(({adapter, scale}) => !(adapter instanceof Adapter && isScale(scale)));
  return wrong < 0 ? all : refuse(`adapters[${wrong}] is ${shown(given[wrong])}; it must be an adapter, or ` +
    '{adapter, scale}');
}

/** The same in the form that the port's worker takes. */
export const numbered = (port, all) => all.map(({adapter, scale}) => {
  const live = LIVE.get(adapter) ?? refuse(`the adapter ${adapter.info.name} has been freed`);
  if (live.port !== port) refuse(`the adapter ${adapter.info.name} was loaded for another model`);
  return {number: live.number, scale};
});
