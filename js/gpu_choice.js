/* Which GPU computes, if any, and why not: the option device.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';
import {openGpu} from './gpu.js';

/** How users know it: browsers hide most of what there is. */
export const nameOf = ({vendor, name}) =>
  (name.toLowerCase().startsWith(vendor.toLowerCase()) ? name : `${vendor} ${name}`).trim() || 'a GPU';

/** {gpu}, or {error}: why not. object() gives WebGPU's object, or promises it. */
export async function chosenGpu(device, object) {
  try {
    if (device === 'cpu') throw new QsfError('UNSUPPORTED', 'the option device is cpu');
    const gpu = await openGpu(await object() ?? null);
    if (device === 'gpu' || gpu.info.kind !== 'software') return {gpu};
    gpu.close();
    throw new QsfError('UNSUPPORTED', `${nameOf(gpu.info)} emulates a GPU on the CPU`);
  } catch (error) {
    return {error};
  }
}
