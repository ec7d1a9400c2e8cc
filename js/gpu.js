/* The device of core/base/device.h over a GPU object: navigator.gpu of browsers and Deno, or what
 * npm's package webgpu makes in Node.js.  Objects are numbers, results are the library's status
 * codes; the caller has the policy.
 * SPDX-License-Identifier: MIT
 *
 * Functions that make something return its number, or 0; the others return a status.  After 0 and
 * after a status other than OK and PENDING, `status` and `text` say what is wrong. */
import {QsfError} from './errors.js';
import {E_IO, E_MEMORY, OK, PENDING, STATUS} from './names.js';

const E_ARGUMENT = STATUS.indexOf('ARGUMENT'), E_UNSUPPORTED = STATUS.indexOf('UNSUPPORTED');
/* Written out, because Node.js has no globals for them. */
const MAP_READ = 1, COPY_FROM = 4, COPY_TO = 8, USED_AS_UNIFORM = 0x40, USED_AS_STORAGE = 0x80;
const COMPUTE = 4, TO_READ = 1;
/* qsf_device_usage and qsf_device_binding */
export const STORAGE = 1, UNIFORM = 2;
export const READ_WRITE = 1, READ_ONLY = 2, UNIFORM_BINDING = 3;
const TYPES = ['', 'storage', 'read-only-storage', 'uniform'];
const ALIGN = 4, MOST_BINDINGS = 16, MOST_UNIFORM = 65536;
/* Pipelines that are compiled at the same time. */
const COMPILING = 4;
/* Staging buffers of reads that are kept for the next ones. */
const STAGING = 4, STAGING_LEAST = 256, STAGING_MOST = 16 << 20;

/* The longest that close() waits. */
export const CLOSING_MS = 30_000;

const words = text => String(text ?? '').replace(/\s+/g, ' ').trim();
const whole = n => Number.isSafeInteger(n) && n >= 0;

function limitsOf({limits}) {
  const down = n => n - n % ALIGN;
  return {
    maxBuffer: down(limits.maxBufferSize),
    maxBinding: down(Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize)),
    maxBindings: limits.maxStorageBuffersPerShaderStage,
    bindingAlign: Math.max(limits.minStorageBufferOffsetAlignment, limits.minUniformBufferOffsetAlignment),
    maxInvocations: Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX),
    maxShared: limits.maxComputeWorkgroupStorageSize,
    maxGroups: limits.maxComputeWorkgroupsPerDimension,
  };
}

/* Browsers hide most of what a native program learns: names may be empty. */
function describe(adapter) {
  const info = adapter.info ?? {};
  const type = String(info.type ?? info.adapterType ?? '').toLowerCase();
  const isSoftware = info.isFallbackAdapter || adapter.isFallbackAdapter || type.includes('cpu')
    || /swiftshader|llvmpipe|basic render/i.test(`${info.architecture} ${info.device} ${info.description}`);
  const kind = isSoftware ? 'software'
    : type.includes('integrated') ? 'integrated' : type.includes('discrete') ? 'discrete' : 'unknown';
  return {
    name: info.description || info.device || info.architecture || '', vendor: info.vendor ?? '', kind,
    id: [info.vendor, info.architecture, info.device, info.description].join('|'),
    ...limitsOf(adapter),
  };
}

const CHOICES = [{powerPreference: 'high-performance'}, {powerPreference: 'low-power'},
  {forceFallbackAdapter: true}];

/** What the GPU object offers, the fastest first; choice is openGpu's second argument. */
export async function listGpus(gpu = globalThis.navigator?.gpu) {
  const found = new Map();
  for (const choice of gpu ? CHOICES : []) {
    const adapter = await gpu.requestAdapter(choice);
    if (!adapter) continue;
    const about = describe(adapter), key = JSON.stringify(about);
    if (!found.has(key)) found.set(key, {...about, choice});
  }
  return [...found.values()];
}

/** A device of the adapter that choice asks for, with all of its limits that shaders use. */
export async function openGpu(gpu = globalThis.navigator?.gpu, choice = CHOICES[0]) {
  if (!gpu)
    throw new QsfError('UNSUPPORTED', globalThis.isSecureContext === false
      ? 'browsers have WebGPU only for pages that come by https' : 'this browser has no WebGPU');
  const adapter = await gpu.requestAdapter(choice);
  if (!adapter) throw new QsfError('UNSUPPORTED', 'WebGPU finds no adapter');
  const requiredLimits = {};
  for (const name of ['maxBufferSize', 'maxStorageBufferBindingSize', 'maxStorageBuffersPerShaderStage',
    'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupStorageSize'])
    requiredLimits[name] = adapter.limits[name];
  const device = await adapter.requestDevice({requiredLimits}).catch(error => {
    throw new QsfError('UNSUPPORTED', `the GPU cannot be used: ${words(error.message)}`, {cause: error});
  });
  return new Gpu(device, {...describe(adapter), ...limitsOf(device)}, gpu);
}

class Gpu {
  #device;
  #objects = [null];            // by number: {kind, pending, status, text, settled, ...}
  #free = [];
  #staging = [];
  #unsettled = new Set();       // promises of the device
  #compiling = 0; #queue = [];  // pipelines: how many are being compiled, functions that begin others
  #lost;                        // why; undefined: it is not
  #first;                       // {status, text} of an error that belongs to no number
  status = OK;                  // of the last call that failed, and why
  text = '';
  /** Counts what the device has answered. */
  answers = 0;

  /** of: whose the device is. Dawn's for Node.js must live as long. */
  constructor(device, info, of) {
    this.#device = device;
    this.of = of;
    this.info = info;
    void device.lost.then(({message}) => this.#lose(message));
    device.onuncapturederror = ({error}) => {
      const full = error.constructor.name === 'GPUOutOfMemoryError';
      this.#first ??= full ? {status: E_MEMORY, text: `the GPU is out of memory: ${words(error.message)}`}
        : {status: E_ARGUMENT, text: `the GPU refused a command: ${words(error.message)}`};
    };
  }

  #lose(message) {
    this.#lost ??= `the GPU was lost: ${words(message) || 'no reason was given'}`;
    for (const begin of this.#queue.splice(0)) begin();         // fails at once
    for (const object of this.#objects) object?.end?.();
  }
  #fail(status, text) {
    this.status = status;
    this.text = text;
    return status;
  }
  #refuse(text) { return this.#fail(E_ARGUMENT, text); }
  /* For those that return a number. */
  #none(text, status = E_ARGUMENT) {
    this.#fail(status, text);
    return 0;
  }
  #usable() { return this.#lost === undefined ? OK : this.#fail(E_IO, this.#lost); }

  #add(object) {
    const id = this.#free.pop() ?? this.#objects.length;
    this.#objects[id] = object;
    return id;
  }
  #object(id, kind) {
    const object = this.#objects[id];
    return object?.kind === kind ? object : undefined;
  }
  #drop(id) {
    this.#objects[id] = null;
    this.#free.push(id);
  }

  /* poll tells PENDING until these promises, which give {status, text} or nothing, are settled.  Of
   * several errors the first in the list counts. */
  #expect(object, ...promises) {
    object.pending = true;
    object.over = new Promise(resolve => { object.end = resolve; });
    const all = Promise.all(promises);
    this.#unsettled.add(all);
    void all.then(results => {
      this.#unsettled.delete(all);
      this.answers++;
      const failed = results.find(result => result?.status);
      if (failed) Object.assign(object, failed);
      object.pending = false;
      object.end();
    });
  }

  // ---- objects ----
  buffer(usage, length) {
    const {maxBuffer} = this.info;
    if (this.#usable()) return 0;
    if (!usage || usage & ~(STORAGE | UNIFORM))
      return this.#none(`a buffer on the GPU: unknown usage ${usage}`);
    if (!whole(length) || !length || length % ALIGN || length > maxBuffer) {
      return this.#none(`a buffer on the GPU: ${length} bytes; it must be a multiple of ${ALIGN}, ` +
        `from ${ALIGN} to ${maxBuffer}`);
    }
    /* Size and usage are right, so that every error is one of memory; wgpu, Deno's WebGPU, calls it
     * an invalid buffer. */
    this.#device.pushErrorScope('validation');
    this.#device.pushErrorScope('out-of-memory');
    const buffer = this.#device.createBuffer({size: length, usage: COPY_FROM | COPY_TO |
      (usage & STORAGE ? USED_AS_STORAGE : 0) | (usage & UNIFORM ? USED_AS_UNIFORM : 0)});
    const object = {kind: 'buffer', buffer, usage, length};
    const full = error => ({status: E_MEMORY, text: `a buffer on the GPU: ${words(error.message)}`});
    this.#expect(object, ...[this.#device.popErrorScope(), this.#device.popErrorScope()]
      .map(scope => scope.then(error => error && full(error), () => undefined)));
    return this.#add(object);
  }

  /* The errors of a module, with their lines. */
  async #messages(module, name) {
    const {messages} = await module.getCompilationInfo();
    const errors = messages.filter(({type}) => type === 'error');
    if (!errors.length) return undefined;
    const {lineNum, linePos, message} = errors[0];
    return {status: E_UNSUPPORTED, text: `${name}:${lineNum}:${linePos}: ${words(message)}`};
  }

  /* Few at once: the others never begin if the device is closed before. */
  #compiled(descriptor) {
    return new Promise((resolve, reject) => {
      this.#queue.push(() => this.#device.createComputePipelineAsync(descriptor).then(resolve, reject));
      this.#compile();
    });
  }
  #compile() {
    while (this.#compiling < COMPILING && this.#queue.length) {
      this.#compiling++;
      void this.#queue.shift()().then(() => {
        this.#compiling--;
        this.#compile();
      });
    }
  }

  /** bindings: [READ_WRITE, ...], all that the WGSL declares. */
  pipeline({name, wgsl, entry = 'main', bindings}) {
    if (this.#usable()) return 0;
    if (bindings.length > MOST_BINDINGS)
      return this.#none(`${name}: ${bindings.length} bindings, at most ${MOST_BINDINGS}`);
    const wrong = bindings.findIndex(type => !TYPES[type]);
    if (wrong >= 0) return this.#none(`${name}: binding ${wrong} is of no kind`);
    const storage = bindings.filter(type => type !== UNIFORM_BINDING).length, {maxBindings} = this.info;
    if (storage > maxBindings) {
      return this.#none(`${name}: ${storage} storage buffers; this GPU's limit is ${maxBindings}`,
        E_UNSUPPORTED);
    }
    const device = this.#device;
    const failed = error => ({status: E_UNSUPPORTED, text: `${name}: ${words(error.message)}`});
    device.pushErrorScope('validation');
    const module = device.createShaderModule({code: wgsl, label: name});
    const layout = device.createBindGroupLayout({entries: bindings.map((type, binding) => (
      {binding, visibility: COMPUTE, buffer: {type: TYPES[type]}}))});
    const all = device.createPipelineLayout({bindGroupLayouts: [layout]});
    const scope = device.popErrorScope();
    const object = {kind: 'pipeline', layout, bindings: bindings.join()};
    this.#expect(object,
      this.#messages(module, name).catch(() => undefined),
      scope.then(error => error && failed(error), () => undefined),
      this.#compiled({layout: all, compute: {module, entryPoint: entry}, label: name})
        .then(pipeline => { object.pipeline = pipeline; }, failed));
    return this.#add(object);
  }

  #wrongRange({buffer: id, at, length}, type, i) {
    const object = this.#object(id, 'buffer'), {bindingAlign, maxBinding} = this.info;
    const most = type === UNIFORM_BINDING ? Math.min(maxBinding, MOST_UNIFORM) : maxBinding;
    if (!object) return `binding ${i}: ${id} is not a buffer`;
    if (!(object.usage & (type === UNIFORM_BINDING ? UNIFORM : STORAGE)))
      return `binding ${i}: buffer ${id} was not made for it`;
    if (whole(at) && at % bindingAlign === 0 && whole(length) && length && length % ALIGN === 0
      && at + length <= object.length && length <= most) return '';
    return `binding ${i}: ${length} bytes at ${at} of a buffer of ${object.length}; at most ${most}, at a ` +
      `multiple of ${bindingAlign}`;
  }

  /** ranges: [{buffer, at, length}], one for each binding. */
  group(pipeline, ranges) {
    if (this.#usable()) return 0;
    const object = this.#object(pipeline, 'pipeline');
    if (!object) return this.#none(`a bind group: ${pipeline} is not a pipeline`);
    const types = object.bindings ? object.bindings.split(',').map(Number) : [];
    if (ranges.length !== types.length) {
      return this.#none(`a bind group: ${ranges.length} parts of buffers; the pipeline has ` +
        `${types.length} bindings`);
    }
    const wrong = types.map((type, i) => this.#wrongRange(ranges[i], type, i)).find(text => text);
    if (wrong) return this.#none(wrong);
    const group = this.#device.createBindGroup({layout: object.layout,
      entries: ranges.map(({buffer, at, length}, binding) => (
        {binding, resource: {buffer: this.#objects[buffer].buffer, offset: at, size: length}}))});
    return this.#add({kind: 'group', group, bindings: object.bindings});
  }

  release(id) {
    const object = this.#objects[id];
    if (!object) return;
    if (object.kind === 'read') object.into = undefined;
    else object.buffer?.destroy();
    object.end?.();
    this.#drop(id);
  }

  // ---- commands ----
  /* '' if these bytes of the buffer can be copied. */
  #wrongPart(what, id, at, length) {
    const object = this.#object(id, 'buffer');
    if (!object) return `${what}: ${id} is not a buffer`;
    if (whole(at) && whole(length) && !(at % ALIGN) && !(length % ALIGN) && at + length <= object.length)
      return '';
    return `${what}: ${length} bytes at ${at} of a buffer of ${object.length}; both must be multiples of ` +
      ALIGN;
  }

  write(id, at, bytes) {
    if (this.#usable()) return E_IO;
    const wrong = this.#wrongPart('writing to the GPU', id, at, bytes.byteLength);
    if (wrong) return this.#refuse(wrong);
    // not every engine takes bytes that threads share, or a whole memory of more than 2 GB
    const own = bytes.buffer instanceof ArrayBuffer ? bytes : bytes.slice();
    this.#device.queue.writeBuffer(this.#objects[id].buffer, at, own);
    return OK;
  }

  #encode(fn) {
    const encoder = this.#device.createCommandEncoder();
    fn(encoder);
    this.#device.queue.submit([encoder.finish()]);
    return OK;
  }

  copy(to, toAt, from, fromAt, length) {
    const what = 'copying on the GPU';
    if (this.#usable()) return E_IO;
    if (to === from) return this.#refuse(`${what}: within one buffer`);
    const wrong = this.#wrongPart(what, to, toAt, length) || this.#wrongPart(what, from, fromAt, length);
    if (wrong) return this.#refuse(wrong);
    return this.#encode(encoder => encoder.copyBufferToBuffer(this.#objects[from].buffer, fromAt,
      this.#objects[to].buffer, toAt, length));
  }

  /* A pass has hundreds: nothing is allocated for them. */
  #wrongDispatch(list, at) {
    const pipeline = this.#objects[list[at]], group = this.#objects[list[at + 1]], most = this.info.maxGroups;
    if (pipeline?.kind !== 'pipeline' || !pipeline.pipeline || pipeline.pending || pipeline.status)
      return `dispatch ${at / 5}: ${list[at]} is not a pipeline that is ready`;
    if (group?.kind !== 'group' || group.bindings !== pipeline.bindings)
      return `dispatch ${at / 5}: ${list[at + 1]} is not a bind group for pipeline ${list[at]}`;
    return list[at + 2] <= most && list[at + 3] <= most && list[at + 4] <= most ? ''
      : `dispatch ${at / 5}: ${list.slice(at + 2, at + 5).join(' x ')} workgroups; at most ${most} each`;
  }

  #wrongList(list) {
    for (let at = 0; at < list.length; at += 5) {
      const wrong = this.#wrongDispatch(list, at);
      if (wrong) return wrong;
    }
    return '';
  }

  #pass(encoder, list) {
    const pass = encoder.beginComputePass();
    let pipeline = 0, group = 0;
    for (let at = 0; at < list.length; at += 5) {
      if (list[at] !== pipeline) pass.setPipeline(this.#objects[pipeline = list[at]].pipeline);
      if (list[at + 1] !== group) pass.setBindGroup(0, this.#objects[group = list[at + 1]].group);
      pass.dispatchWorkgroups(list[at + 2], list[at + 3], list[at + 4]);
    }
    pass.end();
  }

  /** list: a Uint32Array with pipeline, group, x, y and z of each dispatch. */
  submit(list) {
    if (this.#usable()) return E_IO;
    const wrong = this.#wrongList(list);
    if (wrong) return this.#refuse(wrong);
    return list.length ? this.#encode(encoder => this.#pass(encoder, list)) : OK;
  }

  /** The same in two parts: the number of commands, which submitEncoded runs once. */
  encode(list) {
    if (this.#usable()) return 0;
    const wrong = this.#wrongList(list);
    if (wrong) return this.#none(wrong);
    const encoder = this.#device.createCommandEncoder();
    this.#pass(encoder, list);
    return this.#add({kind: 'commands', commands: encoder.finish()});
  }

  submitEncoded(id) {
    if (this.#usable()) return E_IO;
    const object = this.#object(id, 'commands');
    if (!object) return this.#refuse(`submitting to the GPU: ${id} is not encoded`);
    this.#device.queue.submit([object.commands]);
    this.#drop(id);
    return OK;
  }

  #stagingFor(length) {
    const at = this.#staging.findIndex(({size}) => size >= length);
    if (at >= 0) return this.#staging.splice(at, 1)[0];
    let size = STAGING_LEAST;
    while (size < length) size *= 2;
    size = Math.max(length, Math.min(size, this.info.maxBuffer));
    return this.#device.createBuffer({size, usage: MAP_READ | COPY_TO});
  }

  async #map(staging, length, object) {
    await staging.mapAsync(TO_READ, 0, length);
    object.into?.(new Uint8Array(staging.getMappedRange(0, length)));
    staging.unmap();
    if (this.#staging.length < STAGING && staging.size <= STAGING_MOST) this.#staging.push(staging);
    else staging.destroy();
  }

  /** into: called with the bytes, which are valid during the call, before poll tells OK. */
  read(id, at, length, into) {
    if (this.#usable()) return 0;
    const wrong = this.#wrongPart('reading from the GPU', id, at, length) ||
      (length ? '' : 'reading from the GPU: 0 bytes');
    if (wrong) return this.#none(wrong);
    const staging = this.#stagingFor(length), object = {kind: 'read', into};
    this.#encode(encoder => encoder.copyBufferToBuffer(this.#objects[id].buffer, at, staging, 0, length));
    this.#expect(object, this.#map(staging, length, object).catch(
      error => ({status: E_IO, text: `reading from the GPU: ${words(error.message)}`})));
    return this.#add(object);
  }

  /** A read that is done. */
  done() { return this.#add({kind: 'read'}); }
  /** Bytes of a buffer. */
  length(id) { return this.#object(id, 'buffer')?.length ?? 0; }

  // ---- results ----
  poll(id) {
    const object = this.#objects[id];
    if (!object || object.kind === 'group') return this.#refuse(`${id} cannot be waited for`);
    let status = this.#usable();
    if (!status && object.pending) return PENDING;
    if (!status && object.status) status = this.#fail(object.status, object.text);
    if (object.kind === 'read') {
      object.into = undefined;
      this.#drop(id);
    }
    return status;
  }

  /** Resolves when poll returns anything but PENDING. */
  async over(id) { if (this.#lost === undefined) await this.#objects[id]?.over; }
  /** The browser's wait: what poll tells then. */
  async settled(id) {
    await this.over(id);
    return this.poll(id);
  }

  state() {
    if (this.#usable()) return E_IO;
    const first = this.#first;
    this.#first = undefined;
    return first ? this.#fail(first.status, first.text) : OK;
  }

  /** A call has thrown: the device is given up. */
  threw(error) {
    this.#lose(error?.message ?? error);
    return this.#usable();
  }
  lose() {
    this.#device.destroy();
    this.#lose('Device was destroyed.');
  }

  /** Resolves when the device has settled all its promises: Dawn for Node.js ends a process that
   * leaves one. What it compiles may take a while, in software; but it may also never answer. */
  async close(ms = CLOSING_MS) {
    this.lose();
    this.#objects = [null];
    this.#staging = [];
    let timer;
    const late = new Promise(resolve => { timer = setTimeout(resolve, ms); });
    await Promise.race([Promise.all(this.#unsettled), late]);
    clearTimeout(timer);
  }
}
