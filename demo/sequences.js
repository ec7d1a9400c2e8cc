/* The page's conversations in the model: each one that is open has a sequence there, so that
 * switching back to it computes only what is new.
 * SPDX-License-Identifier: MIT */

/* The model keeps what does not fit in its memory on the disk. */
const MOST = 16;

export class Sequences {
  #model; #open = new Map();            // by the conversation's id, the one used last at the end

  constructor(model) { this.#model = model; }
  /** What answers in this conversation: chat() and generate(). A server has only the model. */
  of(id) {
    if (!this.#model.conversation) return this.#model;
    const found = this.#open.get(id) ?? this.#model.conversation();
    this.#open.delete(id);
    this.#open.set(id, found);
    if (this.#open.size > MOST) this.end(this.#open.keys().next().value);
    return found;
  }
  /** A deleted conversation needs its memory no more. */
  end(id) {
    const found = this.#open.get(id);
    this.#open.delete(id);
    void found?.dispose().catch(() => { /* the model has ended */ });
  }
}
