/* A conversation in the engine: text, tokens, answers, embeddings, sessions. It has a sequence
 * while it computes, and may leave it to others between two batches (batches.js).
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {encoded, listed} from './memory.js';
import {ADD_SPECIAL, ENDS, EVENT, E_FULL, E_MEMORY, OK, PARSE_SPECIAL, PENDING} from './names.js';
import {answerTexts} from './options.js';

/* Parts of an answer by their events' types. */
const PARTS = {[EVENT.TEXT]: 'text', [EVENT.REASONING]: 'reasoning', [EVENT.CALL]: 'call',
  [EVENT.ARGUMENTS]: 'arguments', [EVENT.CALL_END]: 'call-end', [EVENT.CALL_DROPPED]: 'call-dropped',
  [EVENT.CALL_CUT]: 'call-cut'};
const LOGPROBS = 101;           /* QSF_LOGPROBS_MOST, and the token's own */
const TELL_MS = 50;

/* Local time. */
const wallSeconds = () => Math.floor(Date.now() / 1000) - 60 * new Date().getTimezoneOffset();
/* A template's inputs besides messages, by the engine's names. */
const chatTexts = ({template, tools, documents, chatTemplateKwargs, continueFinalMessage} = {}) => [
  ['chat-template', template], ['tools', tools], ['documents', documents],
  ['template-kwargs', chatTemplateKwargs], ['continue-final-message', continueFinalMessage || undefined],
  ['now', wallSeconds()]];

export class Conversation {
  #memory; #x; #transport; #of;
  #batches;
  #uses = [];                   // the conversation's adapters
  #model; #context;             // handles
  #layers;                      // that a batch passes
  #pieces = [];                 // of the answer, not read yet
  #failed;                      // {error}: why the answer failed
  #reported;                    // how many calls were reported; what else pieces have
  #give;                        // of the answer under way, once its first piece was there
  #given = false;               // it has been called
  #saved;                       // its bytes in the swap; undefined: none
  /** Handles: its own, and that of the answer under way. */
  handle = 0; answer = 0;
  /** Whether it has a sequence, with what it had computed. */
  isSeated = false;

  /** of: as for Batches, with batches and layers. */
  constructor(of) {
    this.#of = of;
    this.#memory = of.memory;
    this.#x = of.memory.x;
    this.#transport = of.transport;
    this.#batches = of.batches;
    this.#model = of.model;
    this.#context = of.context;
    this.#layers = of.layers;
  }

  /* ---- its sequence ---- */
  /** Between batches: takes a sequence; false: no room. */
  async sit() { return this.isSeated = await this.#sit(); }
  async #sit() {
    const memory = this.#memory, x = this.#x, {swap} = this.#of;
    if (!this.handle) {
      this.handle = x.qsf_flat_conversation_new(this.#context, 0);
      const status = x.qsf_flat_status(this.handle);
      if (status === OK) return true;
      try {
        if (status !== E_FULL) memory.check(status, this.handle);
      } finally {
        x.qsf_flat_free(this.handle);
        this.handle = 0;
      }
      return false;
    }
    const status = x.qsf_flat_conversation_seat(this.handle);
    if (status === E_FULL) return false;
    memory.check(status, this.handle);
    if (this.#saved === undefined) return true;
    const bytes = await swap.get(this.#saved);
    const loaded = bytes && this.#transport.loaded(bytes, () =>
      x.session_load(this.handle, bytes.byteLength));
    if (loaded === E_FULL) {
      memory.check(x.qsf_flat_conversation_leave(this.handle), this.handle);
      return false;
    }
    swap.drop(this.#saved);             // otherwise its tokens are computed again
    this.#saved = undefined;
    return true;
  }
  /** Between batches: leaves its sequence; what it had computed is stored. */
  async store() {
    this.isSeated = false;
    if (this.#saved === undefined && this.length) {
      const bytes = await this.save().catch(() => {});  // such as with a window that has dropped positions
      this.#saved = bytes && await this.#of.swap.put(bytes);
    }
    this.#memory.check(this.#x.qsf_flat_conversation_leave(this.handle), this.handle);
  }
  /** Frees it. */
  end() {
    this.#batches.forget(this);
    if (this.handle) this.#x.qsf_flat_free(this.handle);
    this.handle = 0;
    if (this.#saved !== undefined) this.#of.swap.drop(this.#saved);
    this.#saved = undefined;
  }

  /* ---- text ---- */
  tokenize(text, {addSpecial = false, parseSpecial = false} = {}) {
    const bytes = encoded(text), flags = (addSpecial ? ADD_SPECIAL : 0) | (parseSpecial ? PARSE_SPECIAL : 0);
    return this.#memory.with(bytes, at => this.#tokens(bytes.length, (ids, cap) =>
      this.#x.qsf_flat_tokens(this.#model, at, bytes.length, flags, ids, cap)));
  }
  /* A token has a byte or more, with few exceptions. */
  #tokens(bytes, write) {
    return this.#memory.filled(this.#model, 4, bytes + 16, write, (ids, n) => this.#memory.numbers(ids, n));
  }
  #piece(id, special) {
    return this.#memory.filled(this.#model, 1, 64,
      (at, cap) => this.#x.qsf_flat_token_text(this.#model, id, special, at, cap),
      (at, n) => this.#memory.copy(at, n));
  }
  detokenize(ids, {special = false} = {}) {
    const stream = new TextDecoder();
    return ids.map(id => stream.decode(this.#piece(id, special), {stream: true})).join('') + stream.decode();
  }
  render(messages, options) {
    const memory = this.#memory, texts = encoded(messages);
    return memory.with(listed(chatTexts(options)), given => memory.with(texts, at =>
      memory.filled(this.#model, 1, texts.length + 1024, (out, cap) =>
        this.#x.qsf_flat_chat_text(this.#model, at, texts.length, given, out, cap),
      (out, n) => memory.text(out, n))));
  }

  /* ---- turns ---- */
  /* Sets the prompt of the next answer: messages in JSON, a string or tokens. Control tokens in a
   * message's content are treated as text. */
  #prompted({messages, prompt}, options) {
    const memory = this.#memory, x = this.#x, handle = this.handle;
    const [set, given] = messages ? [x.qsf_flat_conversation_json, encoded(messages)]
      : typeof prompt === 'string' ? [x.qsf_flat_conversation_text, encoded(prompt)]
        : [x.qsf_flat_conversation_ids, Int32Array.from(prompt)];
    memory.check(memory.with(listed(chatTexts(options)), at =>
      x.qsf_flat_conversation_chat(handle, at)), handle);
    memory.check(memory.with(given, at => set(handle, at, given.length)), handle);
  }
  /* An error in the caller's value is an argument error, whatever part of the engine finds it. */
  #written(option, status, handle = this.answer) {
    if (status !== OK && status !== E_MEMORY) {
      const text = this.#memory.textOf(handle, 'error');
      throw new QsfError('ARGUMENT', text.startsWith(`${option}:`) ? text : `${option}: ${text}`);
    }
    this.#memory.check(status, handle);
  }
  #sampler({logitBias, bannedTexts, drySequenceBreakers, ...options}) {
    const memory = this.#memory, x = this.#x;
    const each = (name, list, set) => {
      for (const text of list) {
        const bytes = encoded(text);
        this.#written(name, memory.with(bytes, at => set(answer, at, bytes.length)));
      }
    };
    const answer = this.answer = memory.with(listed(answerTexts(options)), at =>
      x.qsf_flat_answer_new(this.handle, at));
    memory.check(x.qsf_flat_status(answer), answer);
    for (const [token, bias] of logitBias)
      this.#written('logitBias', x.qsf_flat_answer_bias(answer, token, bias));
    each('bannedTexts', bannedTexts, x.qsf_flat_answer_ban);
    each('drySequenceBreakers', drySequenceBreakers ? ['', ...drySequenceBreakers] : [],
      x.qsf_flat_answer_breaker);
    each('stop', options.stop, x.qsf_flat_answer_stop);
  }
  /* The answer's constraints, and which of its parts are reported separately. */
  #shape({responseFormat, jsonBlanks, apart, ...options}) {
    if (!apart && !responseFormat) return;
    const memory = this.#memory, x = this.#x, {kind = 0, text, loose} = responseFormat || {};
    const [make, handle] = apart ? [x.qsf_flat_conversation_split, this.handle]
      : [x.qsf_flat_answer_grammar, this.answer];
    const bytes = encoded(text ?? ''), error = () => memory.textOf(handle, 'error');
    const tried = isLoose => memory.with(bytes, at => memory.with(listed([
      ['tool-choice', options.toolChoice], ['parallel-tool-calls', options.parallelToolCalls],
      ['id-seed', options.idSeed], ['json-loose', isLoose],
      ['json-blanks', jsonBlanks === Infinity ? -1 : jsonBlanks]]), given =>
      make(handle, given, kind, text === undefined ? 0 : at, bytes.length)));
    const ofTools = status => text === undefined || (status && error().startsWith('tools:'));
    let status = tried(false);
    if (status && loose && !ofTools(status)) {
      const why = error();
      status = tried(true);
      if (!status) this.#of.warn(`responseFormat is enforced only in part: ${why}`);
    }
    this.#written(ofTools(status) ? 'tools' : 'responseFormat', status, handle);
    const loosened = memory.textOf(this.handle, 'loosened');
    if (loosened) this.#of.warn(`the tools' schemas are enforced only in part: ${loosened}`);
  }

  /* Takes part in batches until a piece is there, or has been given; while the prompt is computed,
   * told() is called. room: how many pieces there may be. */
  async #step(told, room) {
    const number = name => this.#memory.number(this.handle, name);
    const total = number('prompt'), layers = this.#layers;
    let done = number('done'), last = -Infinity;
    const tell = layer => {
      last = performance.now();
      told({done, total, layer, layers});
    };
    this.#given = false;
    while (!this.#pieces.length && !this.#given && !this.#failed) {
      const isPrompt = done < total;
      await this.#batches.step(this, isPrompt ? () => {
        if (performance.now() - last >= TELL_MS) tell(number('layer'));
      } : undefined, isPrompt || this.#reported.logprobs ? 0 : room).catch(error => this.#fail(error));
      done = number('done');
      if (isPrompt && !this.#failed) tell(done === total ? layers : 0);       // the next batch begins
    }
  }
  /** During a batch: gives the reader the pieces that there are; whether it has room for more. */
  give() {
    if (this.#failed || !this.#give) return false;
    this.#given = true;
    return this.#give(this.#pieces.splice(0));
  }
  /* Of an answer that has already failed, nothing changes. */
  #fail(error) { this.#failed ??= {error}; }
  /** After a batch: the pieces that it has, whose logits the next batch overwrites. */
  take() {
    try {
      while (this.#next() !== PENDING) {
        const end = this.#memory.number(this.answer, 'end');
        if (this.#add(this.#memory.number(this.answer, 'token'), end, this.#events())) return;
      }
    } catch (error) {
      this.#fail(error);
    }
  }
  /** The same of a piece that the engine has taken: end may be minus a status; events: see
   * #parts(). */
  add(token, end, events) {
    try {
      if (end < 0) this.#memory.check(-end, this.answer);
      this.#add(token, end, events);
    } catch (error) {
      this.#fail(error);
    }
  }
  /* Whether it is the last one. */
  #add(token, status, events) {
    const end = ENDS[status], {calls, logprobs} = this.#reported, piece = this.#parts(calls, events);
    if (!end) piece.id = token;
    if (logprobs && !end) piece.logprobs = this.#logprobs();
    this.#reported.calls += piece.calls?.length ?? 0;
    this.#pieces.push({piece, end});
    return Boolean(end);
  }
  /* The last piece's events. */
  #events() {
    const memory = this.#memory, answer = this.answer, events = [];
    for (let type; (type = this.#x.qsf_flat_answer_event(answer));)
      events.push(type, memory.textOf(answer, 'event'), memory.number(answer, 'call'),
        type === EVENT.CALL ? memory.textOf(answer, 'eventId') : '');
    return events;
  }
  /* The last piece's parts, of which only those that are there; its calls are those it completed,
   * after the first `whole` ones. events: of each its type, text, call and id. */
  #parts(whole, events) {
    const parts = {text: ''}, order = [];
    for (let i = 0; i < events.length; i += 4) {
      const type = events[i], text = events[i + 1], part = {type: PARTS[type]};
      if (type === EVENT.TEXT || type === EVENT.REASONING)
        parts[part.type] = (parts[part.type] ?? '') + (part.text = text);
      else part.index = events[i + 2];
      if (type === EVENT.CALL) Object.assign(part, {id: events[i + 3], name: text});
      if (type === EVENT.ARGUMENTS) part.text = text;
      if (type === EVENT.CALL_END) {
        parts.calls ??= [];
        parts.calls.push(this.#message().tool_calls[whole + parts.calls.length]);
      }
      order.push(part);
    }
    if (this.#reported.listed) parts.parts = order;
    return parts;
  }
  #message() {
    const message = this.#memory.textOf(this.answer, 'message');
    return JSON.parse(message ?? this.#memory.check(E_MEMORY, this.answer));
  }
  /* The answer as a message, and a call that its end cut off. */
  #whole(content, calls) {
    const message = this.#message(), cut = message.tool_calls?.find(call => call.unfinished);
    delete message.tool_calls;
    if (content) message.content = content;
    else if (cut && !calls.length) message.content = '';
    if (calls.length) message.tool_calls = calls;
    if (!cut) return {message};
    const {unfinished, ...partial} = cut;
    return {message, partial};
  }
  /* The log probabilities of the last piece's token and of the most likely ones; undefined: not
   * requested. */
  #logprobs() {
    const memory = this.#memory, size = 8 * LOGPROBS;
    const all = memory.room(size, at => {
      const values = at + size / 2;
      const n = this.#x.qsf_flat_answer_logprobs(this.answer, at, values, LOGPROBS);
      const logprobs = memory.floats(values, n);
      return memory.numbers(at, n).map((id, i) => ({id, logprob: logprobs[i]}));
    });
    if (!all.length) return undefined;
    const [own, ...top] = all.map(({id, logprob}) => {
      const bytes = this.#piece(id, true);
      return {id, token: new TextDecoder().decode(bytes), bytes: [...bytes], logprob};
    });
    return {...own, topLogprobs: top};
  }
  /* The status of the next piece; unless it is PENDING, the piece is complete. */
  #next() {
    const status = this.#x.qsf_flat_answer_next(this.answer);
    if (status !== PENDING) this.#memory.check(status, this.answer);
    return status;
  }

  /**
   * Yields lists of pieces {id, text, reasoning, calls}, with options.logprobs also logprobs, until
   * a token or a stop string ends the answer; returns why, and with options.apart, which splits
   * answers, the answer as a message. reader: told(progress) of the prompt, give(pieces) of lists
   * that come while the next one is awaited, and room(), how many more pieces it takes.
   */
  async * generate(asked, options, signal, reader) {
    const {logprobs, apart, listed} = options, calls = [], batches = this.#batches;
    const began = performance.now(), number = name => this.#memory.number(this.handle, name);
    let all = '', read;
    const noted = list => list.map(({piece}) => {
      if (piece.calls) calls.push(...piece.calls);
      all += piece.text;
      return piece;
    });
    this.#pieces = [];
    this.#give = this.#failed = undefined;
    this.#reported = {calls: 0, logprobs, listed};
    batches.active++;
    void signal.promise.then(() => batches.leave(this, signal.error));
    try {
      await batches.between(async () => {
        if (signal.aborted) throw signal.error;
        await batches.seat(this);
        this.#prompted(asked, options);
        this.adapt(options.uses);
        this.#sampler(options);
        this.#shape(options);
        let status;
        do status = this.#x.qsf_flat_answer_begin(this.answer);
        while (status === E_FULL && number('prompt') <= number('contextLength') && await batches.evict(this));
        this.#memory.check(status, this.answer);
      });
      for (;;) {
        await this.#step(reader.told, read === undefined ? 1 : reader.room());
        if (!this.#pieces.length && this.#failed) throw this.#failed.error;
        const now = performance.now(), list = this.#pieces.splice(0);
        if (read === undefined) {
          read = now;
          list[0].piece.began = {promptTokens: number('prompt'), cachedTokens: number('kept'),
            ms: read - began};
          this.#give = some => {
            reader.give(noted(some));
            return reader.room() > 0;
          };
        }
        const last = list.at(-1), end = last?.end;
        if (end) last.piece.answerMs = now - read;
        yield noted(list);
        if (end) return apart ? {end, ...this.#whole(all, calls)}
          : {end, text: all};
        await batches.pause();
        if (signal.aborted) throw signal.error;
      }
    } finally {
      this.#x.qsf_flat_free(this.answer);      // the reader may have left at any point
      this.answer = 0;
      this.#give = undefined;
      batches.ended();
    }
  }

  /** How many tokens the sequence holds. */
  get length() { return this.handle ? this.#memory.number(this.handle, 'length') : 0; }

  /* ---- embeddings and ranks ---- */
  /* Calls use(handle) with an embedding's handle. */
  async #embedding(options, uses, use) {
    const memory = this.#memory, x = this.#x;
    let handle = 0;
    try {
      await this.#batches.between(async () => {
        await this.#batches.seat(this);
        handle = memory.with(listed(options), at => x.qsf_flat_embedding_new(this.handle, at));
        memory.check(x.qsf_flat_status(handle), handle);
      });
      return await use(handle, (ids, signal) =>
        this.#batches.between(() => this.#numbers(handle, ids, uses, signal)));
    } finally {
      x.qsf_flat_free(handle);
    }
  }
  /* The numbers of an input. */
  async #numbers(handle, ids, uses, signal) {
    const memory = this.#memory, x = this.#x;
    if (signal.aborted) throw signal.error;
    for (;;) {
      await this.#batches.seat(this);
      this.adapt(uses);
      const status = memory.with(Int32Array.from(ids), at => memory.sizes([ids.length], lens =>
        x.qsf_flat_embedding_begin(handle, at, lens, 1)));
      if (status === E_FULL && await this.#batches.evict(this)) continue;
      memory.check(status, handle);
      break;
    }
    try {
      await this.#batches.compute(handle, x.qsf_flat_embedding_step, signal);
    } finally {
      x.qsf_flat_cancel(handle);        // before the next batch
    }
    return memory.filled(handle, 4, memory.number(handle, 'width') + 1,
      (at, cap) => x.qsf_flat_embedding_values(handle, at, cap),
      (at, n) => memory.floats(at, n));
  }
  /** The embeddings of inputs, each a string or tokens. */
  async embed(texts, {pooling, normalize, uses}, signal) {
    return this.#embedding([['pooling', pooling], ['plain', !normalize]], uses, async (handle, numbers) => {
      const all = [];
      if (pooling === 'rank' && !this.#memory.number(handle, 'width'))
        throw new QsfError('UNSUPPORTED',
          'the file has no classifier (cls.output.weight): its texts have no rank');
      for (const text of texts) {
        const ids = typeof text === 'string' ? this.tokenize(text, {addSpecial: true, parseSpecial: true})
          : text;
        all.push(await numbers(ids, signal));
      }
      return all;
    });
  }
  #pair(query, document) {
    const memory = this.#memory;
    return memory.with(query, q => memory.with(document, d =>
      this.#tokens(query.length + document.length + 1024, (ids, cap) =>
        this.#x.qsf_flat_pair_tokens(this.#model, q, query.length, d, document.length, ids, cap))));
  }
  /** The scores of documents. */
  async rerank(query, documents, {uses}, signal) {
    return this.#embedding([['score', true]], uses, async (handle, numbers) => {
      const scores = [];
      for (const document of documents)
        scores.push((await numbers(this.#pair(encoded(query), encoded(document)), signal))[0]);
      return scores;
    });
  }

  /* ---- adapters ---- */
  /** Between batches: an adapter that it has used last is freed. */
  disuse(place) { if (this.#uses.some(use => use.place === place)) this.adapt([]); }
  /** Sets the adapters of what is computed next: [{place, scale}]. */
  adapt(uses) {
    if (!uses.length && !this.#uses.length) return;
    const memory = this.#memory;
    memory.check(memory.with(Uint32Array.from(uses, use => use.place), places =>
      memory.with(Float32Array.from(uses, use => use.scale), scales =>
        this.#x.qsf_flat_conversation_adapt(this.handle, places, scales, uses.length))), this.handle);
    this.#batches.look();
    this.#uses = uses;
  }

  /* ---- sessions ---- */
  /** Between batches: the sequence's tokens, with their keys and values, as bytes. */
  async save() {
    const memory = this.#memory, {gpu} = this.#batches;
    gpu?.keep(true);
    try {
      for (let status; ;) {
        const bytes = this.#transport.saved(memory.number(this.handle, 'sessionBytes'), () => {
          status = this.#x.session_save(this.handle);
        });
        if (status === OK) return bytes;
        if (status !== PENDING) memory.check(status, this.handle);
        await gpu.missing;        // a GPU's part comes a layer at a time; then save from the beginning
      }
    } finally {
      gpu?.keep(false);
    }
  }
  saveSession() {
    return this.#batches.between(async () => {
      await this.#batches.seat(this);
      return this.save();
    });
  }
  /** Restores a saved sequence; if the bytes are invalid, the sequence stays unchanged. Returns its
   * number of tokens. */
  loadSession(bytes, {uses}) {
    return this.#batches.between(async () => {
      for (;;) {
        await this.#batches.seat(this);
        this.adapt(uses);
        const status = this.#transport.loaded(bytes, () =>
          this.#x.session_load(this.handle, bytes.byteLength));
        if (status === E_FULL && await this.#batches.evict(this)) continue;
        this.#memory.check(status, this.handle);
        return this.length;
      }
    });
  }
}
