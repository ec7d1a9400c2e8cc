/* A stream's bytes in parts, without an array for each part if the stream supports that.
 * SPDX-License-Identifier: MIT */

const PART = 256 << 10;

/** read() promises the next part, undefined after the last; each is its own array. */
export function own(stream) {
  const reader = stream.getReader();
  return {read: async () => (await reader.read()).value};
}

/**
 * The same, but a part is valid until the next read(): all are in the same memory, if the stream
 * can fill a given buffer. Arrays that only the garbage collector frees would add up to many times
 * what is needed at once. The memory comes from spare, a list, and goes back there.
 */
export function reused(stream, spare) {
  let reader;
  try {
    reader = stream.getReader({mode: 'byob'});
  } catch {
    return own(stream);         // not every engine's streams support this
  }
  let buffer = spare.pop() ?? new ArrayBuffer(PART);
  return {
    async read() {
      const {done, value} = await reader.read(new Uint8Array(buffer));
      buffer = value?.buffer;
      if (done && buffer) spare.push(buffer);
      return done ? undefined : value;
    },
  };
}
