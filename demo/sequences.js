/* The page's conversations in the model: each one that is open has a sequence there, so that
 * several are answered at the same time, and switching back to one computes only what is new.
 * SPDX-License-Identifier: MIT */

/* The model keeps what does not fit in its memory on the disk. */
const MOST = 16;

export class Sequences {
  #model; #isBusy; #open = new Map();   // by the conversation's id, the one used last at the end

  /** isBusy(id): whether that conversation is being answered. */
  constructor(model, isBusy) {
    this.#model = model;
    this.#isBusy = isBusy;
  }
  /** What answers in this conversation: chat() and generate(). A server has only the model. */
  of(id) {
    if (!this.#model.conversation) return this.#model;
    const found = this.#open.get(id) ?? this.#model.conversation();
    this.#open.delete(id);
    this.#open.set(id, found);
    for (const other of this.#open.keys())
      if (this.#open.size > MOST && other !== id && !this.#isBusy(other)) this.end(other);
    return found;
  }
  /** A deleted conversation needs its memory no more. */
  end(id) {
    const found = this.#open.get(id);
    this.#open.delete(id);
    void found?.dispose().catch(() => { /* the model has ended */ });
  }
}
