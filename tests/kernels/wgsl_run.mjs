// Compiles the shaders that wgsl_cases wrote, and runs its cases.
// SPDX-License-Identifier: MIT
//
//   node wgsl_run.mjs DAWN.node FOLDER compile [NAME]     all, on Dawn's null backend
//   node wgsl_run.mjs DAWN.node FOLDER run [NAME]         those with cases, by a Vulkan driver
//
// QSF_TEST_LONG: also those that a driver in software compiles in seconds and that differ from
// others in a constant or in how options combine, and all wrong shaders.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';

const [dawnPath, folder, what, name = ''] = process.argv.slice(2);
const dawn = createRequire(import.meta.url)(resolve(dawnPath));
Object.assign(globalThis, dawn.globals);
const gpu = dawn.create([`backend=${what === 'compile' ? 'null' : 'vulkan'}`]);
const adapter = await gpu.requestAdapter();
if (!adapter) {
  console.log(`skipped: no adapter for ${what}`);
  process.exit(77);
}
// no features and the least limits: what every device has
const device = await adapter.requestDevice();
const uncaptured = [];
device.onuncapturederror = event => uncaptured.push(event.error.message);
const long = Boolean(process.env.QSF_TEST_LONG || name);
// The engine keeps 64 candidates. Of attention in prompts, each room and each option is run once.
const LONG = new Set(['candidates_32_first', 'candidates_32_last', 'candidates_32_choose',
  'candidates_128_first', 'candidates_128_last', 'prompt_codes_64', 'prompt_codes_80_alibi_both_sinks',
  'prompt_codes_256', 'prompt_f16_64_softcap', 'prompt_f16_80_softcap_sinks']);
const chosen = ({name, runs}) => what === 'compile' || (runs.length && (long || !LONG.has(name)));
const shaders = JSON.parse(readFileSync(join(folder, 'cases.json')))
  .filter(s => s.name.includes(name) && chosen(s));
const data = readFileSync(join(folder, 'data.bin'));
const bytesOf = ([at, length]) => data.subarray(at, at + length);
const TYPES = [undefined, 'storage', 'read-only-storage', 'uniform'];     // qsf_wgsl_access
const failures = [];
const fail = text => { failures.push(text); console.log(`FAILED ${text}`); };

const textOf = shader => readFileSync(join(folder, `${shader.name}.wgsl`), 'utf8');
async function pipelineOf(shader, code = textOf(shader)) {
  device.pushErrorScope('validation');
  const module = device.createShaderModule({code});
  for (const message of (await module.getCompilationInfo()).messages) {
    fail(`${shader.name}:${message.lineNum}:${message.linePos}: ${message.message}`);
  }
  const layout = device.createBindGroupLayout({entries: shader.access.map((access, binding) => ({
    binding, visibility: GPUShaderStage.COMPUTE,
    buffer: {type: TYPES[access]},
  }))});
  const pipeline = device.createComputePipeline({
    layout: device.createPipelineLayout({bindGroupLayouts: [layout]}), compute: {module, entryPoint: 'main'},
  });
  const error = await device.popErrorScope();
  if (error) fail(`${shader.name}: ${error.message}`);
  return {layout, pipeline, error};
}

function bufferOf(bytes, usage) {
  const buffer = device.createBuffer({size: Math.max(bytes.length, 16), usage, mappedAtCreation: true});
  new Uint8Array(buffer.getMappedRange()).set(bytes);
  buffer.unmap();
  return buffer;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + rest / 1024) * 2 ** (exponent - 15) : rest / 1024 * 2 ** -14);
}
const readers = {
  f32: bytes => new Float32Array(bytes),
  u32: bytes => new Uint32Array(bytes),
  f16: bytes => Float64Array.from(new Uint16Array(bytes), half),
  act: bytes => new Uint32Array(bytes),
  words: bytes => new Uint32Array(bytes),
  slots: bytes => new Uint32Array(bytes),
  list: bytes => new Uint32Array(bytes),
};

// Rows of activations (kernels/wgsl/wgsl.h): a division may round otherwise than the CPU's, so that
// a scale may be off by its last bits, and a code by one, with its sum.
function actDifference(got, want) {
  const scale = bits => new Float32Array(Uint32Array.of(bits).buffer)[0];
  let off = 0;
  for (let at = 0; at < want.length; at += 20) {
    const a = scale(got[at]), b = scale(want[at]);
    if (!(Math.abs(a - b) <= 1e-6 * b)) return `scale ${at / 20} is ${a}, not ${b}`;
    for (let part = 0; part < 4; part++) {
      let sum = 0;
      for (let i = 0; i < 16; i++) {
        const word = at + 4 + 4 * part + (i >> 2), shift = 24 - 8 * (i & 3);
        const code = got[word] << shift >> 24, must = want[word] << shift >> 24;
        if (Math.abs(code - must) > 1) return `code ${i} of 16 in word ${word} is ${code}, not ${must}`;
        off += code !== must;
        sum += code;
      }
      const said = got[at + 1 + (part >> 1)] << (part & 1 ? 0 : 16) >> 16;
      if (said !== sum) return `sum ${part} of ${at / 20} is ${said}; its codes add up to ${sum}`;
    }
  }
  return off > want.length / 200 ? `${off} codes are off by one` : undefined;
}

// Records of a number of bytes: floats from one place to another, the rest codes, as above.
function codesDifference([record, begin, end], got, want) {
  const a = new DataView(got.buffer, got.byteOffset), b = new DataView(want.buffer, want.byteOffset);
  let off = 0;
  for (let at = 0; at < want.length; at++) {
    const place = at % record;
    if (place < begin || place >= end) {
      if (Math.abs(got[at] - want[at]) > 1) return `code at ${at} is ${got[at]}, not ${want[at]}`;
      off += got[at] !== want[at];
    } else if (at % 4 === 0) {
      const x = a.getFloat32(at, true), y = b.getFloat32(at, true);
      if (!(Math.abs(x - y) <= 1e-5 * Math.abs(y))) return `scale at ${at} is ${x}, not ${y}`;
    }
  }
  return off > want.length / 200 ? `${off} codes are off by one` : undefined;
}

// Words of 32 bits, each a small whole number, which must be equal, or a float.
function wordsDifference(got, want, tolerance) {
  const float = bits => new Float32Array(Uint32Array.of(bits).buffer)[0];
  for (let i = 0; i < want.length; i++) {
    if (got[i] === want[i]) continue;
    const x = float(got[i]), y = float(want[i]), whole = (want[i] & 0x7f800000) === 0;
    if (whole || !(Math.abs(x - y) <= tolerance * Math.abs(y))) {
      return `[${i}] is ${got[i]} (${x}), not ${want[i]} (${y})`;
    }
  }
  return undefined;
}

// Slots (kernels/wgsl/choice_wgsl.h): an expert and its weight.  any: a row whose weights must be
// NaN may have any experts.
function slotsDifference(tolerance, damaged, got, want) {
  const a = new Float32Array(got.buffer, got.byteOffset), b = new Float32Array(want.buffer, want.byteOffset);
  let top = 0;
  for (let i = 1; i < b.length; i += 2) top = Math.max(top, Math.abs(b[i]) || 0);
  for (let at = 0; at < want.length; at += 2) {
    const any = damaged && Number.isNaN(b[at + 1]);
    if (!any && got[at] !== want[at]) return `expert ${at / 2} is ${got[at]}, not ${want[at]}`;
    if (any ? !Number.isNaN(a[at + 1]) : !(Math.abs(a[at + 1] - b[at + 1]) <= tolerance * top)) {
      return `weight ${at / 2} is ${a[at + 1]}, not ${b[at + 1]}`;
    }
  }
  return undefined;
}

// Slots sorted by expert: those of one expert have any order.
function listDifference(groups, got, want) {
  const at = 4 * groups, experts = new Map();
  for (let i = 0; i < at; i++) {
    if (got[i] !== want[i]) return `[${i}] of the groups is ${got[i]}, not ${want[i]}`;
  }
  for (let g = 0; g < at; g += 4) {
    const [first, end] = experts.get(want[g]) ?? [want[g + 1], 0];
    if (want[g + 2]) experts.set(want[g], [first, Math.max(end, want[g + 1] + want[g + 2])]);
  }
  for (const [expert, [first, end]] of experts) {
    const [a, b] = [got, want].map(all => all.slice(at + first, at + end).sort().join());
    if (a !== b) return `expert ${expert} has the slots ${a}, not ${b}`;
  }
  return undefined;
}

// The first difference that matters, in words; or undefined.
function difference(run, got, want) {
  if (run.type === 'act') return actDifference(got, want);
  if (run.type === 'words') return wordsDifference(got, want, run.tolerance);
  if (run.type.startsWith('codes:')) {
    return codesDifference(run.type.split(':').slice(1).map(Number), got, want);
  }
  if (run.type.startsWith('slots')) {
    return slotsDifference(run.tolerance, run.type.includes('any'), got, want);
  }
  if (run.type.startsWith('list:')) return listDifference(Number(run.type.slice(5)), got, want);
  let top = 0;
  // a score of -1e30 is that of a position which is not seen
  for (const v of want) if (Math.abs(v) < 1e29) top = Math.max(top, Math.abs(v));
  for (let i = 0; i < want.length; i++) {
    const off = Math.abs(got[i] - want[i]);
    if (!(off <= run.tolerance * top) && !Object.is(got[i], want[i])) {
      return `[${i}] is ${got[i]}, not ${want[i]} (largest ${top}, tolerance ${run.tolerance})`;
    }
  }
  return undefined;
}

// The first difference between what a run computes and what it must; undefined: none.
async function runCase(shader, {layout, pipeline}, run) {
  const usage = GPUBufferUsage.COPY_SRC;
  const buffers = run.buffers.map((place, i) => bufferOf(bytesOf(place),
    usage | (TYPES[shader.access[i]] === 'uniform' ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE)));
  const out = buffers[run.binding];
  const back = device.createBuffer({size: out.size,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST});
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({layout,
    entries: buffers.map((buffer, binding) => ({binding, resource: {buffer}}))}));
  pass.dispatchWorkgroups(...run.groups);
  pass.end();
  encoder.copyBufferToBuffer(out, 0, back, 0, out.size);
  device.queue.submit([encoder.finish()]);
  await back.mapAsync(GPUMapMode.READ);
  const expect = bytesOf(run.expect);
  const reader = readers[run.type.split(':')[0]] ?? (bytes => new Int8Array(bytes));
  const got = reader(back.getMappedRange().slice(0, expect.length));
  const want = reader(expect.buffer.slice(expect.byteOffset, expect.byteOffset + expect.length));
  const off = difference(run, got, want);
  for (const buffer of [...buffers, back]) buffer.destroy();
  return off;
}

// Wrong shaders, which the cases must notice: a part of a name, and what is replaced by what.
const broken = [
  ['product_4_32_rows', 'OFFSET = 8i', 'OFFSET = 7i'],
  ['product_4_32_rows', 'group.y * groups.x + group.x', 'group.x'],
  ['product_4_32_rows_1_64_parts', 'unit % PARTS * LANES + lid', 'lid'],
  ['product_4_32_rows_1_8_gated', 'at + 16u + 32u * k', 'at + 32u * k'],
  ['rows_two_silu', 'm * p.b_ld + p.b_at', 'm * p.b_ld'],
  ['product_tr2_64_rows', 'e >> 29u', 'e >> 30u'],
  ['product_4_32_rows', 'row < p.rows', 'row <= p.rows'],
  ['rows_floats_rms_to_codes', 'sums[lid + 12u]', 'sums[lid + 8u]'],
  ['places_f16', 'angle.y + v.y', 'angle.y - v.y'],
  ['places_codes', 'half < whole', '2u * half < whole'],
  ['chunks_codes', 'at + p.window > pos', 'at + p.window >= pos'],
  ['chunks_f16', 'exp(score - most)', 'exp(score)'],
  ['chunks_f16', 'total * exp(top - most) + share', 'total + share'],
  ['prompt_f16', 'total * shrink + share', 'total + share'],
  ['prompt_codes_64_softcap', 'at + 31u + p.window > low', 'at + p.window > low'],
  ['candidates_64_first', 'rank == KEEP - 1u', 'rank == KEEP - 2u'],
  ['candidates_64_first', 'own = both(own, vec2<f32>', 'own = both(sums[lid], vec2<f32>'],
  ['candidates_64_first', 'p.cap * tanh', 'p.scale * tanh'],
  ['candidates_128_merge', 'X[m * p.cols + c]', 'X[c]'],
  ['candidates_64_last', 'better(found[i], v)', 'found[i].x > v.x'],
  ['candidates_64_choose', 'before < rule.top_p * all', 'before <= all'],
  ['candidates_64_choose', 'best[i].y < token', 'i < lid'],
  ['candidates_64_choose', 'rule.newest, Tokens', 'rule.n_last, Tokens'],
  ['candidates_64_choose', 'count > 0u', 'count > 1u'],
  ['candidates_64_choose', 'better(changed[i], own)', 'i < lid'],
  ['choice_all', 'mine && k < e', 'mine && k > e'],
  ['sort', 'at.y + i / GROUP', 'at.y'],
  ['experts_q6k_256_slots', 'lid - skew', 'lid'],
  ['experts_q6k_256_tiles', '/ p.x_used * p.x_ld', '* p.x_ld'],
];
const SLOW = ['candidates', 'prompt', 'experts'];           // to compile: the first of each
async function checkBroken() {
  const first = new Set();
  for (const [part, from, to] of broken) {
    const slow = SLOW.find(kind => part.startsWith(kind));
    if (!long && first.has(slow)) continue;
    if (slow) first.add(slow);
    const shader = shaders.find(s => s.name.startsWith(part));
    if (!shader) continue;
    const text = textOf(shader), wrong = text.replace(from, to);
    if (wrong === text) fail(`${shader.name} has no "${from}"`);
    const made = await pipelineOf(shader, wrong);
    const found = await Promise.all(shader.runs.map(run => runCase(shader, made, run)));
    if (!found.some(off => off)) fail(`${shader.name}: no case notices "${to}"`);
  }
}

let runs = 0;
const begin = performance.now();
for (const shader of shaders) {
  const began = performance.now();
  const made = await pipelineOf(shader);
  if (what !== 'run' || made.error) continue;
  for (const [index, run] of shader.runs.entries()) {
    const off = await runCase(shader, made, run);
    if (off) fail(`${shader.name}, run ${index}: ${off}`);
    runs++;
  }
  if (name) console.log(`${shader.name}: ${(performance.now() - began).toFixed(0)} ms`);
}
if (what === 'run') await checkBroken();
for (const text of new Set(uncaptured)) fail(text);
const seconds = ((performance.now() - begin) / 1000).toFixed(1);
console.log(`${adapter.info.description || what}: ${shaders.length} shaders, ${runs} runs, `
  + `${failures.length} failures, ${seconds} s`);
if (!shaders.length || (what === 'run' && !runs)) fail('nothing was done');
process.exit(failures.length ? 1 : 0);      // Dawn's own end would wait for nothing
