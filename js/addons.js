/* The packages with the native engine for Node.js, and which of them are installed.
 * SPDX-License-Identifier: MIT */
import {createRequire} from 'node:module';

const require = createRequire(import.meta.url);

/** The packages that may have the addon for this machine. Of those for Linux's C libraries npm
 * installs one; if there are both, the second is tried if the first does not load. */
export function packages({platform, arch} = process) {
  const name = `@qsf/${platform}-${arch}`;
  return platform === 'linux' ? [name, `${name}-musl`] : [name];
}

/** The installed addons: paths. Only the package's own dependencies are looked up: native code from
 * the current folder would run in every process that is started there. */
export function installed() {
  return packages().flatMap(name => {
    try {
      return [require.resolve(name)];
    } catch {
      return [];
    }
  });
}
