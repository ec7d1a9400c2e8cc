/* The engine's worker, its threads and its reader in Node.js.
 * SPDX-License-Identifier: MIT */
import {closeSync, fstatSync, openSync, readSync} from 'node:fs';
import {readFile} from 'node:fs/promises';
import {availableParallelism} from 'node:os';
import {fileURLToPath} from 'node:url';
import {Worker, parentPort, workerData} from 'node:worker_threads';
import {runThread} from './engine.js';
import {QsfError} from './errors.js';
import {folder} from './folder.js';
import {moduleAt} from './paths.js';
import {serveReader} from './reader.js';
import {serve} from './serve.js';

function openPath(path) {
  let fd;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    throw new QsfError(error.code === 'ENOENT' ? 'NOT_FOUND' : 'IO',
      `${path}: ${error.code === 'ENOENT' ? 'no such file' : error.message}`, {cause: error});
  }
  const stat = fstatSync(fd);
  if (!stat.isFile()) {
    closeSync(fd);
    throw new QsfError('IO', `${path}: not a file`);
  }
  return {
    name: path, length: stat.size,
    readNow(at, target) {
      for (let done = 0; done < target.length;) {
        const n = readSync(fd, target, done, Math.min(target.length - done, 1 << 30), at + done);
        if (!n)
          throw new QsfError('IO',
            `${path}: cannot read ${target.length} bytes at ${at}; has it been cut short?`);
        done += n;
      }
      return true;
    },
    close() { closeSync(fd); },
  };
}

function startReader() {
  const worker = new Worker(new URL(import.meta.url), {workerData: {reader: true}, execArgv: []});
  worker.unref();
  return {
    post: (message, transfer) => worker.postMessage(message, transfer),
    onMessage: fn => worker.on('message', fn),
    onFailure(fn) {
      worker.on('error', fn);
      worker.on('exit', code => fn(new Error(`exit code ${code}`)));
    },
    terminate: () => void worker.terminate(),
  };
}

function startThread(init) {
  const worker = new Worker(new URL(import.meta.url), {workerData: {thread: init}, execArgv: []});
  worker.unref();
  return new Promise((resolve, reject) => {
    worker.once('message', () => resolve({terminate: () => void worker.terminate()}));
    worker.once('error', reject);
    worker.once('exit', code => reject(new QsfError('WORKER', `a thread ended with code ${code}`)));
  });
}

async function compile(variant) {
  const url = new URL(moduleAt(variant, workerData?.wasmPaths) ?? `./qsf-${variant}.wasm`, import.meta.url);
  const bytes = await readFile(url).catch(error => {
    const why = `${fileURLToPath(url)}: ${error.code ?? error.message}`;
    throw new QsfError('IO', `${why}; the option wasmPaths says where the .wasm files are`, {cause: error});
  });
  return WebAssembly.compile(bytes);
}

if (workerData?.thread) {
  await runThread(workerData.thread, () => parentPort.postMessage('ready'));
} else if (workerData?.reader) {
  parentPort.on('message', serveReader({post: (message, transfer) => parentPort.postMessage(message,
    transfer), openPath, backend: folder}));
} else {
  parentPort.on('message', serve({
    post: message => parentPort.postMessage(message),
    startReader,
    compile,
    startThread,
    canShare: true,
    processors: availableParallelism(),
  }));
}
