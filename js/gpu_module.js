/* The side module for GPUs (platform/wasm/gpu): linked to the engine's module, whose memory, table
 * and stack it shares, and its imports, which a Gpu (gpu.js) serves.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {encoded} from './memory.js';
import {PENDING} from './names.js';

/* Bytes and table entries that the module needs: subsection 1 of dylink.0
 * (WebAssembly's tool conventions, "Dynamic linking"). */
export function needs(module) {
  const bytes = new Uint8Array(WebAssembly.Module.customSections(module, 'dylink.0')[0]);
  let at = 0;
  const number = () => {
    for (let value = 0, shift = 0; ; shift += 7) {
      value += (bytes[at] & 127) * 2 ** shift;
      if (bytes[at++] < 128) return value;
    }
  };
  while (number() !== 1) {
    const length = number();
    at += length;
  }
  number();
  const [size, , entries] = [number(), number(), number()];
  return {size, entries};
}

const constant = value => new WebAssembly.Global({value: 'i32', mutable: true}, value);

/** Instantiates it. memory: the engine's, whose x exports what the module calls. */
async function linked(module, memory, gpu) {
  const {x} = memory, table = x.__indirect_function_table, {size, entries} = needs(module);
  const base = x.alloc(size) >>> 0;
  if (!base) throw new QsfError('MEMORY', `out of memory: ${size} bytes`);
  const env = {...x, memory: memory.raw, __memory_base: base, __table_base: table.grow(entries)};
  const addresses = {}, slots = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module)) {
    if (from === 'GOT.mem') addresses[name] = constant(x[name].value);
    if (from === 'GOT.func') slots[name] = constant(table.grow(1, x[name]));
  }
  const imports = {env, gpu, 'GOT.mem': addresses, 'GOT.func': slots};
  const {exports} = await WebAssembly.instantiate(module, imports);
  exports.__wasm_apply_data_relocs?.();
  exports.__wasm_call_ctors?.();
  return exports;
}

/* A buffer's range: u32 buffer, u64 at, u64 length, aligned to 8 bytes. */
const RANGE = 24;
/* qsf_trial_kind */
const TRIALS = 4;
/* numbers and characters that about() writes */
const NUMBERS = 7, CHARACTERS = 160;
const KINDS = ['unknown', 'software', 'integrated', 'discrete'];

export class GpuModule {
  #gpu; #memory; #x;
  #waits;                       // a promise for what the last poll or read was told to wait for
  /** Whether the engine has given the GPU up. */
  gone = false;
  #stays = false;               // while a context leaves it to another one
  #kept;                        // buffer -> its bytes, or a status, while reads have to be answered at once

  /** module: compiled for the variant that runs in memory. The Gpu is this module's from now on. */
  static async start(module, memory, gpu) {
    const it = new GpuModule(memory, gpu);
    it.#x = await linked(module, memory, it.#imports());
    return it;
  }
  constructor(memory, gpu) {
    this.#memory = memory;
    this.#gpu = gpu;
  }

  /** Moves a context's layers to the GPU, as far as it can compute them. check(status) throws what
   * is wrong. */
  use(context, {gpuLayers = -1, gpuMemory = 0}, check) {
    check(this.#x.use(context, gpuLayers, 1e6 * gpuMemory));
  }
  /** How many layers it has, in how many bytes of the GPU's memory, and why it has no others; head:
   * whether it computes the logits, too; streamed, stream: how many layers pass through, and for
   * which batches. */
  about(context) {
    const text = 8 * NUMBERS;
    return this.#memory.room(text + 2 * CHARACTERS, at => {
      this.#x.about(context, at, at + text);
      const numbers = new Float64Array(this.#memory.raw.buffer, at >>> 0, NUMBERS);
      const [layers, weights, kv, batch, head, streamed, slots] = numbers;
      const plan = [{name: 'weights', bytes: weights}, {name: 'KV cache', bytes: kv},
        {name: 'batch', bytes: batch}];
      if (streamed) plan.push({name: 'slots', bytes: slots});
      return {layers, head: head === 1, reason: this.#string(at + text), plan,
        ...(streamed ? {streamed, stream: this.#string(at + text + CHARACTERS)} : {})};
    });
  }

  /** Continues the trial (core/device/device_trial.h), or begins it: {status, reading, ns}.
   * reading: bytes of the file are missing; else a PENDING trial waits for the GPU. */
  trial(context, begins) {
    return this.#memory.room(8 * TRIALS, at => {
      const result = this.#x.trial(context, begins ? 1 : 0, at);
      return {status: result & 255, reading: result > 255,
        ns: [...new Float64Array(this.#memory.raw.buffer, at >>> 0, TRIALS)]};
    });
  }
  /** The context's layers are the CPU's again. stays: the GPU will be used by another context. */
  leave(context, stays = false) {
    this.#stays = stays;
    this.#x.leave(context);
    this.#stays = false;
  }

  /** After a step: a promise for what it waits for; undefined: for nothing on the GPU. */
  get missing() {
    const promise = this.#waits;
    this.#waits = undefined;
    return promise;
  }
  /** Until keep(false), a buffer that is read comes here whole, and reads of it are answered at
   * once: for what cannot stop in its middle. The first one is PENDING; then begin anew. */
  keep(does) { this.#kept = does ? new Map() : undefined; }
  #readKept(id, at, to, length) {
    const gpu = this.#gpu, kept = this.#kept, has = kept.get(id);
    if (has?.length) {
      this.#memory.bytes(to, length).set(has.subarray(at, at + length));
      return gpu.done();
    }
    gpu.status = has ?? PENDING;
    if (has !== undefined) return 0;
    const read = gpu.read(id, 0, gpu.length(id), bytes => kept.set(id, bytes.slice()));
    if (read) {
      this.#waits = gpu.settled(read).then(status => { if (status) kept.set(id, status); });
      gpu.status = PENDING;
    }
    return 0;
  }

  #string(at) {
    const rest = new Uint8Array(this.#memory.raw.buffer, at >>> 0);
    return this.#memory.text(at, rest.indexOf(0));
  }
  /* Cuts it between characters. */
  #put(text, at, cap) {
    const to = this.#memory.bytes(at, cap);
    let bytes = encoded(text);
    while (bytes.length >= cap) bytes = encoded(text = text.slice(0, -1));
    to.set(bytes);
    to[bytes.length] = 0;
  }
  #ranges(at, n) {
    const view = new DataView(this.#memory.raw.buffer, at >>> 0, n * RANGE);
    return Array.from({length: n}, (_, i) => ({buffer: view.getUint32(i * RANGE, true),
      at: Number(view.getBigUint64(i * RANGE + 8, true)),
      length: Number(view.getBigUint64(i * RANGE + 16, true))}));
  }

  #imports() {
    const gpu = this.#gpu, memory = this.#memory, {info} = gpu;
    /* What WebGPU throws becomes a status: it must not unwind the module. */
    const safe = (call, none) => (...given) => {
      try {
        return call(...given);
      } catch (error) {
        const status = gpu.threw(error);
        return none ?? status;
      }
    };
    return {
      status: () => gpu.status,
      text: (at, cap) => this.#put(gpu.text, at, cap >>> 0),
      names: (name, nameCap, vendor, vendorCap) => {
        this.#put(info.name || 'the GPU', name, nameCap >>> 0);
        this.#put(info.vendor, vendor, vendorCap >>> 0);
      },
      limits: at => {
        new Float64Array(memory.raw.buffer, at >>> 0, 7).set([info.maxBuffer, info.maxBinding,
          info.maxBindings, info.bindingAlign, info.maxInvocations, info.maxShared, info.maxGroups]);
        return KINDS.indexOf(info.kind);
      },
      buffer: safe((usage, length) => gpu.buffer(usage, length), 0),
      pipeline: safe((name, wgsl, entry, bindings, n) => gpu.pipeline({name: this.#string(name),
        wgsl: this.#string(wgsl), entry: this.#string(entry), bindings: [...memory.bytes(bindings, n)]}), 0),
      group: safe((pipeline, at, n) => gpu.group(pipeline >>> 0, this.#ranges(at, n)), 0),
      release: id => gpu.release(id >>> 0),
      write: safe((id, at, from, length) => gpu.write(id >>> 0, at, memory.bytes(from, length >>> 0))),
      copy: safe((to, toAt, from, fromAt, length) => gpu.copy(to >>> 0, toAt, from >>> 0, fromAt, length)),
      submit: safe((at, n) => gpu.submit(new Uint32Array(memory.raw.buffer, at >>> 0, 5 * n))),
      encode: safe((at, n) => gpu.encode(new Uint32Array(memory.raw.buffer, at >>> 0, 5 * n)), 0),
      submitEncoded: safe(id => gpu.submitEncoded(id >>> 0)),
      read: safe((id, at, to, length) => (this.#kept ? this.#readKept(id >>> 0, at, to, length >>> 0)
        : gpu.read(id >>> 0, at, length >>> 0, bytes => memory.bytes(to, length >>> 0).set(bytes))), 0),
      poll: id => {
        const status = gpu.poll(id >>> 0);
        if (status === PENDING) this.#waits = gpu.over(id >>> 0);
        return status;
      },
      state: () => gpu.state(),
      lose: () => gpu.lose(),
      close: () => {
        if (this.#stays) return;
        this.gone = true;
        void gpu.close();
      },
    };
  }
}
