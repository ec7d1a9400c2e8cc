/* Which GPU computes, if any, and why not: the option device.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {openGpu} from './gpu.js';

/** How users know it: browsers hide most of what there is. */
export const nameOf = ({vendor, name}) =>
  (name.toLowerCase().startsWith(vendor.toLowerCase()) ? name : `${vendor} ${name}`).trim() || 'a GPU';

/* A driver may never answer. */
const PATIENCE_MS = 20_000;

async function opened(object) {
  let timer;
  const gpu = (async () => openGpu(await object() ?? null))();
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new QsfError('UNSUPPORTED', 'WebGPU does not answer')), PATIENCE_MS);
  });
  late.catch(() => gpu.then(it => it.close(), () => {}));
  try {
    return await Promise.race([gpu, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** {gpu}, or {error}: why not. object() gives WebGPU's object, or promises it. */
export async function chosenGpu(device, object) {
  try {
    if (device === 'cpu') throw new QsfError('UNSUPPORTED', 'the option device is cpu');
    const gpu = await opened(object);
    if (device === 'gpu' || gpu.info.kind !== 'software') return {gpu};
    gpu.close();
    throw new QsfError('UNSUPPORTED', `${nameOf(gpu.info)} emulates a GPU on the CPU`);
  } catch (error) {
    return {error};
  }
}
