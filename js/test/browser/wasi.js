/* As much of WASI as a test program needs that only prints.
 * SPDX-License-Identifier: MIT */
globalThis.runProgram = async (url, ...args) => {
  let memory, output = '';
  const words = ['program', ...args].map(word => new TextEncoder().encode(`${word}\0`));
  const decoder = new TextDecoder(), view = () => new DataView(memory.buffer), BADF = 8;
  class Exit extends Error { constructor(code) { super(`exit ${code}`); this.code = code; } }
  const wasi = {
    args_sizes_get(n, bytes) {
      view().setUint32(n, words.length, true);
      view().setUint32(bytes, words.reduce((sum, word) => sum + word.length, 0), true);
      return 0;
    },
    args_get(at, to) {
      for (const word of words) {
        view().setUint32(at, to, true);
        new Uint8Array(memory.buffer).set(word, to);
        at += 4;
        to += word.length;
      }
      return 0;
    },
    environ_sizes_get(n, bytes) { view().setUint32(n, 0, true); view().setUint32(bytes, 0, true); return 0; },
    clock_time_get(id, precision, at) {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    fd_write(fd, parts, n, written) {
      let total = 0;
      for (let i = 0; i < n; i++) {
        const at = view().getUint32(parts + 8 * i, true), length = view().getUint32(parts + 8 * i + 4, true);
        output += decoder.decode(new Uint8Array(memory.buffer, at, length), {stream: true});
        total += length;
      }
      view().setUint32(written, total, true);
      return 0;
    },
    fd_fdstat_get(fd, at) {         // a terminal that can be written to
      new Uint8Array(memory.buffer, at, 24).fill(0);
      view().setUint8(at, 2);
      view().setBigUint64(at + 8, 64n, true);
      return fd <= 2 ? 0 : BADF;
    },
    random_get(at, n) { crypto.getRandomValues(new Uint8Array(memory.buffer, at, n)); return 0; },
    proc_exit(code) { throw new Exit(code); },
  };
  const rest = new Proxy(wasi, {get: (known, name) => known[name] ?? (() => BADF), has: () => true});
  const module = await WebAssembly.compile(await (await fetch(url)).arrayBuffer());
  const imports = Object.fromEntries(WebAssembly.Module.imports(module).map(i => [i.name, rest[i.name]]));
  const {exports} = await WebAssembly.instantiate(module, {wasi_snapshot_preview1: imports});
  memory = exports.memory;
  let code = 0;
  try { exports._start(); } catch (error) {
    if (!(error instanceof Exit)) throw error;
    code = error.code;
  }
  return {code, output};
};
