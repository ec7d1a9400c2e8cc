/* The engine and its reader in the caller's own thread, if no worker can be started:
 * Chromium's shared workers.
 * SPDX-License-Identifier: MIT */
import {joined} from '../js/joined.js';
import {compile} from './modules.js';
import {opfs} from './opfs.js';
import {serveReader} from '../js/reader.js';
import {serve} from '../js/serve.js';

/* Stored files can be read here, not written. */
const backend = async () => ({
  ...await opfs(),
  openToWrite() {
    throw new Error('a shared worker cannot write files; a page that loads the model stores it for both');
  },
});

const startReader = () => joined(post => serveReader({
  post,
  openPath: path => { throw new Error(`${path}: a page has no files by path`); },
  backend,
}));

/** What startEngine() in browser.js promises; paths: the option wasmPaths. */
export const startHere = paths => joined(post => serve({
  post, startReader,
  compile: variant => compile(variant, paths),
  startThread: () => Promise.reject(new Error('no worker can be started here')),
  canShare: false,
  processors: 1,
  gpu: () => navigator.gpu,
  runtime: navigator.userAgent,
  backend,
}));
