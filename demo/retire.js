/* What qsf-serve has in the place of sw.js. Where the page with the package had this address
 * before, its service worker goes on showing that page; this one takes its place, and goes.
 * SPDX-License-Identifier: MIT */
const BASE = new URL('./', location.href).pathname;

self.addEventListener('install', () => { self.skipWaiting(); });
self.addEventListener('activate', event => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name.startsWith(`qsf page ${BASE} `)) await caches.delete(name);
  const shown = await clients.matchAll({type: 'window'});
  await registration.unregister();
  for (const client of shown) await client.navigate(client.url);
})()));
