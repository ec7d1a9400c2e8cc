/* Whether a GPU is faster: the decision of device: 'auto', and the file that keeps its trial.
 * SPDX-License-Identifier: MIT */
import {TRIAL, keyOf} from './store.js';

/* Nanoseconds as the side module measures them (core/device/device_trial.h), in milliseconds. */
export const figuresOf = ([gpuToken, gpuPrompt, cpuToken, cpuPrompt]) => {
  const ms = ns => Number((ns / 1e6).toPrecision(3));
  return {gpu: {token: ms(gpuToken), prompt: ms(gpuPrompt)},
    cpu: {token: ms(cpuToken), prompt: ms(cpuPrompt)}};
};

/* An answer's token, and four of a prompt: most conversations read more than they write. */
const time = ({token, prompt}) => token + 4 * prompt;
/* A GPU that is hardly faster is not worth its memory and energy. */
const WORTH = 0.9;

/** Why the CPU computes instead; '': the GPU is faster. */
export function slower({gpu, cpu}, name) {
  if (time(gpu) < WORTH * time(cpu)) return '';
  return `${name} is ${time(gpu) < time(cpu) ? 'hardly faster' : 'slower'} than this processor in a trial: ` +
    `${gpu.token} ms against ${cpu.token} ms a token, ${gpu.prompt} ms against ${cpu.prompt} ms a token of ` +
    'the prompt';
}

const isTime = ms => Number.isFinite(ms) && ms > 0;
const isSound = figures => [figures?.gpu, figures?.cpu].every(x => isTime(x?.token) && isTime(x?.prompt));

const fileOf = async key => `${await keyOf(key)}${TRIAL}`;

/** backend() promises what a Store takes. Nothing here fails: if it cannot be read or written,
 * trials are repeated. */
export const trialsOver = backend => ({
  async get(key) {
    try {
      const bytes = await (await backend()).bytes(await fileOf(key));
      const kept = bytes && JSON.parse(new TextDecoder().decode(bytes));
      return kept?.key === key && isSound(kept) ? {gpu: kept.gpu, cpu: kept.cpu} : undefined;
    } catch {
      return undefined;
    }
  },
  async put(key, figures) {
    let file;
    try {
      file = await (await backend()).openToWrite(await fileOf(key));
      file.truncate(0);
      file.write(new TextEncoder().encode(JSON.stringify({key, ...figures})), {at: 0});
      file.flush();
    } catch {
      // another page writes it, or nothing may be kept
    } finally {
      file?.close();
    }
  },
});
