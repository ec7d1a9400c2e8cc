/* The page's service worker: keeps the page and the package for use without a network, and supplies
 * the headers of cross-origin isolation on hosts that cannot. It does not handle models: the
 * package keeps them.
 * SPDX-License-Identifier: MIT
 *
 * The build writes the two lines below (cmake/DemoFolder.cmake): a version, and the SHA-256 of
 * every file that belongs to it. Files are kept as a whole set that has these sums, or not at all,
 * and a page gets all its files from one set: scripts and modules of two versions never mix, not
 * even while a new one is uploaded. If the lines are empty, as in the source tree, nothing is kept
 * and a developer sees the current files. */
const VERSION = '';
const FILES = {};

const BASE = new URL('./', location.href).pathname, PREFIX = `qsf page ${BASE} `, MARK = 'all-there';
const LISTED = 'models.json';   /* the site owner's: from the network if it is reachable */
const ISOLATION = {'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp', 'cross-origin-resource-policy': 'same-origin'};

/* Repeats the request after the new version has taken over, not before: a request during the change
 * may never be answered. */
const AGAIN = `<!doctype html><title>A new version</title><script>
navigator.serviceWorker.oncontrollerchange = () => location.reload();
setTimeout(() => location.replace(location.href), 3000);
</script>`;

let kept, swapping = false;

/* The whole set, or undefined. */
async function whole() {
  if (kept || !VERSION || !await caches.has(PREFIX + VERSION)) return kept;
  const cache = await caches.open(PREFIX + VERSION);
  if (await cache.match(BASE + MARK)) kept = cache;
  return kept;
}

async function keep() {
  if (!VERSION || await whole()) return;
  const cache = await caches.open(PREFIX + VERSION);
  for (const [name, sum] of Object.entries(FILES)) {
    const response = await fetch(BASE + name, {cache: 'no-cache'}), copy = response.clone();
    if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', await response.arrayBuffer()));
    if ([...digest].map(byte => byte.toString(16).padStart(2, '0')).join('') !== sum)
      throw new Error(`${name} is not the file of this version`);
    await cache.put(BASE + name, copy);
  }
  await keepList(cache);
  await cache.put(BASE + MARK, new Response(VERSION));
  kept = cache;
}
/* The list of models is not part of the version: the first visit's page has read it before anything
 * was kept, and a site may lack it. */
async function keepList(cache) {
  const list = await fetch(BASE + LISTED, {cache: 'no-cache'}).catch(() => undefined);
  if (list?.ok) await cache.put(BASE + LISTED, list);
}

function isolated(response) {
  if (!response.status) return response;        // a redirect, or opaque: not to be touched
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  return new Response([204, 205, 304].includes(response.status) ? null : response.body,
    {status: response.status, statusText: response.statusText, headers});
}

/* A waiting version can take over when the only open page is reloaded; the response in place of the
 * page reloads it and gets the new one. */
async function swap(request) {
  if (!registration.waiting || swapping) return false;
  const open = await clients.matchAll({type: 'window'});
  if (open.length > (request.isReloadNavigation ? 1 : 0)) return false;
  // once in this worker's life, so that a version that never gets ready cannot make a loop
  swapping = true;
  registration.waiting.postMessage('take over');
  return true;
}

async function answer(request, name) {
  if (request.mode === 'navigate' && await swap(request))
    return new Response(AGAIN, {headers: {...ISOLATION, 'content-type': 'text/html'}});
  const set = await whole();
  if (name === LISTED) {
    try {
      const response = await fetch(request);
      if (response.ok && set) await set.put(BASE + name, response.clone());
      return response;
    } catch (error) {
      const old = await set?.match(BASE + name);
      if (!old) throw error;
      return old;
    }
  }
  return isolated(await set?.match(BASE + name) ?? await fetch(request));
}

self.addEventListener('install', event => {
  /* The first version is active at once, for the headers, and keeps files when the page reports
   * that it has loaded. A later one is installed with all its files. */
  event.waitUntil(registration.active ? keep() : skipWaiting());
});

self.addEventListener('activate', event => {
  event.waitUntil((async () => {
    for (const name of await caches.keys())
      if (name.startsWith(PREFIX) && name !== PREFIX + VERSION) await caches.delete(name);
    await clients.claim();      // from now on the page's files come from one set
  })());
});

self.addEventListener('message', event => {
  if (event.data === 'take over') event.waitUntil(skipWaiting());
  if (event.data === 'keep')
    event.waitUntil(keep().then(() => event.source.postMessage({kept: Boolean(kept)}),
      error => event.source.postMessage({kept: false, why: error.message})));
});

self.addEventListener('fetch', event => {
  const {request} = event, url = new URL(request.url), navigation = request.mode === 'navigate';
  if (request.method !== 'GET' || url.origin !== location.origin || !url.pathname.startsWith(BASE)
    || request.headers.has('range'))
    return;
  let name = url.pathname.slice(BASE.length);
  if (navigation && name === '') name = 'index.html';
  if (navigation || name === LISTED || Object.hasOwn(FILES, name) || request.destination === 'worker')
    event.respondWith(answer(request, name));
});
