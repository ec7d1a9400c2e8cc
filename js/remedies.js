/* What may help after a failed load(), by the error's code and the options.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';

const TEXTS = {
  limit: 'set a memory limit (option memory), with which layers are streamed from the file',
  lowerLimit: 'lower the memory limit (option memory)',
  raiseLimit: 'raise the memory limit (option memory)',
  context: 'choose a smaller contextLength',
  quantisation: 'choose a file with fewer bits for each weight, or a smaller model',
  threads: 'use fewer threads (threads: 1)',
  gpuMemory: 'raise gpuMemory',
  cpu: "compute on the CPU (device: 'cpu')",
};
const SHORT = 512;              /* a context that takes little memory */

/* Names of those that apply. load() itself has tried one thread if memory was short, and if
 * it may choose, the CPU. */
function applying({code, message}, {memory, contextLength, threads, device, gpuMemory}) {
  const onGpu = device !== 'cpu' && /GPU/.test(message), isLong = !contextLength || contextLength > SHORT;
  const less = {[memory ? 'lowerLimit' : 'limit']: true, context: isLong, quantisation: true};
  const all = {
    MEMORY: onGpu ? {context: isLong, quantisation: true, cpu: true}
      : {...less, cpu: device === 'gpu'},
    BUDGET: onGpu ? {gpuMemory: !!gpuMemory, context: isLong, cpu: true}
      : {raiseLimit: true, quantisation: true},        // the smallest context was planned
    WORKER: {...less, threads: threads !== 1, cpu: device !== 'cpu'},
    UNSUPPORTED: {cpu: onGpu}, IO: {cpu: onGpu},
  }[code] ?? {};
  return Object.keys(all).filter(name => all[name]);
}

/** The error, with what may help in its message. */
export function withRemedies(error, options) {
  const remedies = error instanceof QsfError ? applying(error, options) : [];
  if (!remedies.length) return error;
  const reason = error.message, told = remedies.map(name => TEXTS[name]).join('; ');
  return Object.assign(new QsfError(error.code, `${reason}. What may help: ${told}`, {cause: error.cause}),
    {reason, remedies});
}
