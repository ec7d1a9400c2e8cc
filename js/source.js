/* Memory as a source that the engine reads in place. Everything else is read by a
 * worker: remote.js.
 * SPDX-License-Identifier: MIT */
import {QsfError} from './errors.js';

export function bytesSource(bytes) {
  return {
    name: 'memory', length: bytes.byteLength,
    readSync(at, target) {
      if (at + target.length > bytes.byteLength)
        throw new QsfError('IO', `memory: cannot read ${target.length} bytes at ${at}`);
      target.set(bytes.subarray(at, at + target.length));
    },
    async close() {},
  };
}
