// The speed of the shaders of products on a GPU: bytes of weights a second, or operations a second.
// SPDX-License-Identifier: MIT
//
//   wgsl_cases FOLDER; node tests/bench/shaders.mjs DAWN.node FOLDER
//
// wgsl_cases (tests/kernels/) writes the shaders.  A time is the difference between a long and a
// short pass of the same dispatch, over several copies of the matrix if one would fit the GPU's
// cache; the median of three.  Encoding a dispatch takes about 6 us, so none takes less.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';

const [dawnPath, folder] = process.argv.slice(2);
const dawn = createRequire(import.meta.url)(resolve(dawnPath));
Object.assign(globalThis, dawn.globals);
const gpu = dawn.create(['backend=vulkan']);        // its end would end the device
const adapter = await gpu.requestAdapter();
const {maxStorageBufferBindingSize} = adapter.limits;
const device = await adapter.requestDevice({requiredLimits: {maxStorageBufferBindingSize,
  maxBufferSize: Math.min(adapter.limits.maxBufferSize, 2 ** 31)}});
device.onuncapturederror = event => { throw new Error(event.error.message); };
console.log(adapter.info.description);
const shaders = JSON.parse(readFileSync(join(folder, 'cases.json')));
const TYPES = [undefined, 'storage', 'read-only-storage', 'uniform'];     // qsf_wgsl_access
const SHAPES = [[1536, 576], [896, 9728], [8960, 1536], [1536, 17920], [896, 151936]];   // columns, rows
const CACHE = 4e8;      // bytes of matrices that no GPU's cache holds

const bufferOf = (size, usage) =>
  device.createBuffer({size: Math.ceil(size / 16) * 16, usage: usage | GPUBufferUsage.COPY_DST});

async function pipelineOf(name) {
  const shader = shaders.find(s => s.name === name);
  const code = readFileSync(join(folder, `${name}.wgsl`), 'utf8');
  const layout = device.createBindGroupLayout({entries: shader.access.map((access, binding) =>
    ({binding, visibility: GPUShaderStage.COMPUTE, buffer: {type: TYPES[access]}}))});
  const pipeline = await device.createComputePipelineAsync({
    layout: device.createPipelineLayout({bindGroupLayouts: [layout]}),
    compute: {module: device.createShaderModule({code}), entryPoint: 'main'},
  });
  return {layout, pipeline, tile: 4 * Number(code.match(/const TILE\b[^=]*=\s*(\d+)/)[1])};
}

async function passOf({pipeline}, groups, dispatch, n) {
  const begin = performance.now(), encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  for (let i = 0; i < n; i++) {
    pass.setBindGroup(0, groups[i % groups.length]);
    pass.dispatchWorkgroups(...dispatch);
  }
  pass.end();
  device.queue.submit([encoder.finish()]);
  await device.queue.onSubmittedWorkDone();
  return performance.now() - begin;
}

// Milliseconds of one product of n rows with a matrix, and the matrix's bytes.
async function timeOf(made, block, [cols, rows], n, tiled) {
  const tiles = rows / 16, bytes = tiles * cols / block * made.tile, xLd = Math.ceil(cols / 64) * 5 + 5;
  const numbers = bufferOf(256, GPUBufferUsage.UNIFORM);
  device.queue.writeBuffer(numbers, 0, Uint32Array.of(rows, tiles, cols / block, n, xLd, 0, rows + 16, 0));
  const x = bufferOf(n * xLd * 16, GPUBufferUsage.STORAGE);
  const y = bufferOf(n * (rows + 16) * 4, GPUBufferUsage.STORAGE);
  const copies = Array.from({length: Math.max(1, Math.min(8, Math.floor(CACHE / bytes)))},
    () => bufferOf(bytes, GPUBufferUsage.STORAGE));
  const groups = copies.map(w => device.createBindGroup({layout: made.layout,
    entries: [numbers, w, x, y].map((buffer, binding) => ({binding, resource: {buffer}}))}));
  const wide = tiled ? Math.ceil(tiles / 4) : tiles;
  const dispatch = [Math.min(wide, 65535), Math.ceil(wide / 65535), tiled ? Math.ceil(n / 64) : 1];
  const [many, few] = tiled ? [200, 20] : [3000, 300];
  await passOf(made, groups, dispatch, many);           // the GPU's clock rises
  const times = [];
  for (let i = 0; i < 3; i++) {
    const long = await passOf(made, groups, dispatch, many);
    const short = await passOf(made, groups, dispatch, few);
    times.push((long - short) / (many - few));
  }
  for (const buffer of [numbers, x, y, ...copies]) buffer.destroy();
  return [times.sort((a, b) => a - b)[1], bytes];
}

async function product(form, block, rows, slices, n) {
  const made = await pipelineOf(`product_${form}_${block}_${rows ? 'rows' : 'tiles'}_${rows}_${slices}`);
  const cells = [];
  for (const shape of SHAPES) {
    if (shape[0] % block || (!rows && shape[1] > 1e5)) continue;
    const [ms, bytes] = await timeOf(made, block, shape, n, !rows);
    const rate = rows ? `${(bytes / ms / 1e6).toFixed(0)} GB/s`
      : `${(2 * shape[0] * shape[1] * n / ms / 1e9).toFixed(1)} TFLOP/s`;
    cells.push(`${shape.join(' x ')}: ${(1e3 * ms).toFixed(1)} us, ${rate}`);
  }
  console.log(`${form}, ${block} columns, ${n} rows, ${slices} slices\n  ${cells.join('\n  ')}`);
}

for (const slices of [4, 8, 16]) await product('4', 32, 1, slices, 1);
const forms = [['2z', 32], ['3', 32], ['8', 32], ['q4k', 256], ['q6k', 256], ['iq4', 32], ['tr3', 64],
  ['ternary', 64]];
for (const [form, block] of forms) await product(form, block, 1, 16, 1);
await product('4', 32, 8, 8, 8);
for (const [form, block] of [['4', 32], ['8', 32], ['q4k', 256], ['q6k', 256]]) {
  await product(form, block, 0, 0, 512);
}
process.exit(0);        // Dawn's own end would wait for nothing
