/* What js/gpu.js does with a GPU object, in Node.js and in pages: bytes, order, errors, loss.
 * SPDX-License-Identifier: MIT */
import {listGpus, openGpu, READ_ONLY, READ_WRITE, STORAGE, UNIFORM, UNIFORM_BINDING} from '../../js/gpu.js';

const OK = 0, PENDING = 1, E_ARGUMENT = 2, E_IO = 4, E_UNSUPPORTED = 6;
const ADD = `struct Step { scale: u32, more: u32, n: u32, none: u32 }
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read> y: array<u32>;
@group(0) @binding(2) var<uniform> s: Step;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < s.n) { x[id.x] = x[id.x] * s.scale + y[id.x] + s.more; }
}
`;
const BINDINGS = [READ_WRITE, READ_ONLY, UNIFORM_BINDING];
const numbers = (n, seed = 0) => Uint32Array.from({length: n}, (_, i) =>
  Math.imul(i + seed ^ (i + seed) >>> 15, 2654435761) + 0x9e3779b9);
const same = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);

function equal(a, b, what) {
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
}

async function bytesOf(gpu, id, at, length) {
  const got = new Uint8Array(length);
  const read = gpu.read(id, at, length, bytes => got.set(bytes));
  if (!read) throw new Error(gpu.text);
  equal(await gpu.settled(read), OK, 'the read');
  equal(gpu.poll(read), E_ARGUMENT, 'the read afterwards');
  return got;
}

export const cases = {
  async devices_have_limits(object) {
    const found = await listGpus(object);
    if (!found.length) throw new Error('no adapter');
    for (const {maxBinding, maxInvocations, maxBindings, maxGroups, bindingAlign} of found) {
      if (!(maxBinding >= 128 << 20 && maxInvocations >= 256 && maxBindings >= 8 && maxGroups >= 65535))
        throw new Error(`limits: ${JSON.stringify(found)}`);
      equal(256 % bindingAlign, 0, 'the alignment');
    }
    equal(found[0].kind, 'software', 'the kind');
    return found.map(({name, vendor, kind}) => `${name}, ${vendor}, ${kind}`).join('; ');
  },

  async bytes_come_back(object) {
    const gpu = await openGpu(object), N = 1 << 16, x = numbers(N);
    const a = gpu.buffer(STORAGE, 4 * N), b = gpu.buffer(STORAGE, 4 * N);
    equal(await gpu.settled(a), OK, 'the buffer');
    equal(gpu.write(a, 0, x.subarray(0, 1)), OK, 'a write');
    equal(gpu.write(a, 4, x.subarray(1)), OK, 'another write');
    equal(gpu.copy(b, 400, a, 40, 4000), OK, 'a copy');
    if (!same(new Uint32Array((await bytesOf(gpu, a, 0, 4 * N)).buffer), x)) throw new Error('bytes differ');
    const copied = new Uint32Array((await bytesOf(gpu, b, 0, 4 * N)).buffer);
    const wanted = new Uint32Array(N);
    wanted.set(x.subarray(10, 1010), 100);
    if (!same(copied, wanted)) throw new Error('copied bytes differ');
    const reads = Array.from({length: 12}, (_, i) => {          // more than staging buffers are kept
      const to = [], take = bytes => to.push(...new Uint32Array(bytes.slice().buffer));
      const id = gpu.read(a, 4 * i, 4 << i, take);
      if (i % 3 === 0) gpu.release(id);
      return {to, id, i};
    });
    for (const {to, id, i} of reads) {
      if (i % 3) equal(await gpu.settled(id), OK, `read ${i}`);
      if (!same(to, i % 3 ? [...x.subarray(i, i + (1 << i))] : [])) throw new Error(`read ${i} differs`);
    }
    equal(gpu.state(), OK, gpu.text);
    gpu.close();
  },

  async dispatches_run_in_order(object) {
    const gpu = await openGpu(object), N = 1000003, x = numbers(N), y = numbers(N, 77);
    const steps = new Uint32Array(128);
    steps.set([3, 5, N]);
    steps.set([7, 1, N], 64);
    const bx = gpu.buffer(STORAGE, 4 * N), by = gpu.buffer(STORAGE, 4 * N), bs = gpu.buffer(UNIFORM, 512);
    const p = gpu.pipeline({name: 'add', wgsl: ADD, bindings: BINDINGS});
    equal(gpu.poll(p), PENDING, 'the pipeline at once');
    equal(gpu.submit(Uint32Array.of(p, 0, 1, 1, 1)), E_ARGUMENT, 'a dispatch of it');
    equal(await gpu.settled(p), OK, gpu.text);
    const groups = [0, 256].map(at => gpu.group(p, [{buffer: bx, at: 0, length: 4 * N},
      {buffer: by, at: 0, length: 4 * N}, {buffer: bs, at, length: 16}]));
    equal(gpu.write(bx, 0, x), OK, gpu.text);
    equal(gpu.write(by, 0, y), OK, gpu.text);
    equal(gpu.write(bs, 0, steps), OK, gpu.text);
    const list = Uint32Array.from(Array.from({length: 6}, (_, i) => (
      [p, groups[i % 2], Math.ceil(N / 256), 1, 1])).flat());
    equal(gpu.submit(list.subarray(0, 10)), OK, gpu.text);
    const encoded = gpu.encode(list.subarray(10));
    equal(gpu.submitEncoded(encoded), OK, gpu.text);
    equal(gpu.submitEncoded(encoded), E_ARGUMENT, 'the same commands again');
    gpu.release(gpu.encode(list));              // never run
    const got = new Uint32Array((await bytesOf(gpu, bx, 0, 4 * N)).buffer);
    for (let i = 0; i < N; i++) {
      let v = x[i];
      for (let k = 0; k < 6; k++) v = Math.imul(v, k % 2 ? 7 : 3) + y[i] + (k % 2 ? 1 : 5) >>> 0;
      if (got[i] !== v) throw new Error(`item ${i}: ${got[i]}, not ${v}`);
    }
    equal(gpu.state(), OK, gpu.text);
    gpu.close();
  },

  async wgsl_errors_have_text_and_line(object) {
    const gpu = await openGpu(object);
    const wgsl = '@compute @workgroup_size(1)\nfn main() {\n  nothing_like_that();\n}\n';
    const p = gpu.pipeline({name: 'wrong', wgsl, bindings: []});
    equal(await gpu.settled(p), E_UNSUPPORTED, 'the pipeline');
    if (!/^wrong:3:\d+: .*nothing_like_that/.test(gpu.text)) throw new Error(gpu.text);
    const q = gpu.pipeline({name: 'wrong', wgsl: ADD, entry: 'another', bindings: BINDINGS});
    equal(await gpu.settled(q), E_UNSUPPORTED, 'the other one');
    if (!gpu.text.includes('another')) throw new Error(gpu.text);
    equal(gpu.state(), OK, gpu.text);
    gpu.close();
    return gpu.text;
  },

  async wrong_arguments_are_refused(object) {
    const gpu = await openGpu(object), {maxBuffer, maxGroups} = gpu.info, word = new Uint32Array(2);
    const a = gpu.buffer(STORAGE, 1024), b = gpu.buffer(UNIFORM, 1024);
    const p = gpu.pipeline({name: 'add', wgsl: ADD, bindings: BINDINGS});
    equal(await gpu.settled(p), OK, gpu.text);
    const all = {buffer: a, at: 0, length: 1024}, good = [all, all, {buffer: b, at: 0, length: 16}];
    const group = gpu.group(p, good);
    if (!group) throw new Error(gpu.text);
    const wrongFirst = range => gpu.group(p, [range, good[1], good[2]]);
    const none = [
      () => gpu.buffer(STORAGE, 0), () => gpu.buffer(STORAGE, 6), () => gpu.buffer(STORAGE, maxBuffer + 4),
      () => gpu.buffer(4, 16), () => gpu.buffer(0, 16), () => gpu.read(a, 1024, 4, () => {}),
      () => gpu.read(a, 0, 0, () => {}), () => gpu.group(a, good), () => gpu.group(p, good.slice(1)),
      () => wrongFirst({buffer: b, at: 0, length: 1024}), () => wrongFirst({buffer: a, at: 4, length: 1020}),
      () => wrongFirst({buffer: a, at: 0, length: 1028}), () => wrongFirst({buffer: p, at: 0, length: 4}),
      () => gpu.encode(Uint32Array.of(a, group, 1, 1, 1)),
      () => gpu.pipeline({name: 's', wgsl: ADD, bindings: [9]}),
      () => gpu.pipeline({name: 's', wgsl: ADD, bindings: Array(17).fill(READ_ONLY)}),
    ];
    for (const fn of none) {
      equal(fn(), 0, String(fn));
      equal(gpu.status, E_ARGUMENT, String(fn));
    }
    const refused = [
      () => gpu.write(a, 2, word), () => gpu.write(a, 0, new Uint8Array(5)), () => gpu.write(a, 1020, word),
      () => gpu.write(0, 0, word), () => gpu.write(p, 0, word), () => gpu.copy(a, 0, a, 512, 4),
      () => gpu.copy(a, 0, b, 1024, 4), () => gpu.poll(0), () => gpu.poll(group),
      () => gpu.submit(Uint32Array.of(a, group, 1, 1, 1)), () => gpu.submit(Uint32Array.of(p, a, 1, 1, 1)),
      () => gpu.submit(Uint32Array.of(p, group, maxGroups + 1, 1, 1)), () => gpu.submitEncoded(p),
    ];
    for (const fn of refused) equal(fn(), E_ARGUMENT, String(fn));
    gpu.release(0);
    gpu.release(12345);
    equal(gpu.state(), OK, gpu.text);
    gpu.close();
  },

  async a_lost_device_hangs_nobody(object) {
    const gpu = await openGpu(object), other = await openGpu(object);
    const a = gpu.buffer(STORAGE, 4 << 20), c = other.buffer(STORAGE, 4);
    let touched = false;
    const r = gpu.read(a, 0, 4, () => { touched = true; });
    const p = gpu.pipeline({name: 'add', wgsl: ADD, bindings: BINDINGS});
    gpu.lose();
    for (const id of [r, p, a]) equal(await gpu.settled(id), E_IO, 'what was begun');
    if (touched || !gpu.text.includes('lost')) throw new Error(gpu.text);
    equal(gpu.state(), E_IO, 'the state');
    equal(gpu.buffer(STORAGE, 4), 0, 'a new buffer');
    equal(gpu.write(a, 0, new Uint32Array(1)), E_IO, 'a write');
    equal(gpu.copy(a, 0, a, 0, 4), E_IO, 'a copy');
    equal(gpu.submit(new Uint32Array(0)), E_IO, 'a submit');
    equal(gpu.encode(new Uint32Array(0)), 0, 'commands');
    equal(gpu.submitEncoded(1), E_IO, 'their submit');
    gpu.close();
    equal(other.write(c, 0, Uint32Array.of(5)), OK, other.text);
    equal((await bytesOf(other, c, 0, 4))[0], 5, 'the other device');
    other.close();
  },
};

/** Runs them all; report gets a line for each.  Gives the number that failed. */
export async function run(object, report) {
  let failed = 0;
  for (const [name, fn] of Object.entries(cases)) {
    try {
      const said = await fn(object);
      report(`ok   ${name}${said ? `: ${said}` : ''}`);
    } catch (error) {
      failed++;
      report(`FAIL ${name}: ${error.stack ?? error}`);
    }
  }
  return failed;
}
