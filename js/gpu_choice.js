/* Which GPU computes, if any, and why not: the option device.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {openGpu} from './gpu.js';

/** How users know it: browsers hide most of what there is. */
export const nameOf = ({vendor, name}) =>
  (name.toLowerCase().startsWith(vendor.toLowerCase()) ? name : `${vendor} ${name}`).trim() || 'a GPU';

/* A driver may never answer. */
const PATIENCE_MS = 20_000;

/** The value of promise; rejects, after calling late(), if that takes too long. */
async function answered(promise, late) {
  let timer;
  const tooLong = new Promise((_, reject) => {
    timer = setTimeout(() => {
      late?.();
      reject(new QsfError('UNSUPPORTED', 'WebGPU does not answer'));
    }, PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, tooLong]);
  } finally {
    clearTimeout(timer);
  }
}

/** What promise gives; rejects when the GPU has answered nothing for too long: shaders may take
 * minutes to compile, one after the other. */
export async function lively(gpu, promise) {
  for (;;) {
    const {answers} = gpu;
    try {
      return await answered(promise);
    } catch (error) {
      if (gpu.answers === answers) throw error;
    }
  }
}

function opened(object) {
  const gpu = (async () => openGpu(await object() ?? null))();
  return answered(gpu, () => gpu.then(it => it.close(), () => {}));
}

/** {gpu}, or {error}: why not. object() gives WebGPU's object, or promises it. without: why the CPU
 * is to compute. */
export async function chosenGpu(device, object, without = 'the option device is cpu') {
  try {
    if (device === 'cpu') throw new QsfError('UNSUPPORTED', without);
    const gpu = await opened(object);
    if (device === 'gpu' || gpu.info.kind !== 'software') return {gpu};
    gpu.close();
    throw new QsfError('UNSUPPORTED', `${nameOf(gpu.info)} emulates a GPU on the CPU`);
  } catch (error) {
    return {error};
  }
}
