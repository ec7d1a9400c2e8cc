/* The engine's worker, its threads and its reader in Node.js.
 * SPDX-License-Identifier: MIT */
import {createHash} from 'node:crypto';
import {parentPort, workerData} from 'node:worker_threads';
import {runThread} from './engine.js';
import {folder} from './folder.js';
import {Hurry} from './hurry.js';
import {nodeHost, openPath} from './node_host.js';
import {serveReader} from './reader.js';
import {serve} from './serve.js';

function sum() {
  const hash = createHash('sha256');
  return {update: bytes => hash.update(bytes), digest: () => hash.digest('hex')};
}

if (workerData?.thread) {
  await runThread(workerData.thread, () => parentPort.postMessage('ready'));
} else if (workerData?.reader) {
  parentPort.on('message', serveReader({post: (message, transfer) => parentPort.postMessage(message,
    transfer), openPath, backend: folder, sum}));
} else {
  const hurry = new Hurry(workerData?.counts), answer = serve({...nodeHost(workerData ?? {}),
    hurry, post: message => parentPort.postMessage(message)});
  parentPort.on('message', message => {
    hurry.heard(message);
    return answer(message);
  });
}
