/* What qsf-serve serves in place of sw.js. If the page with the package was at this address before,
 * its service worker would continue to show that page; this one replaces it and unregisters itself.
 * SPDX-License-Identifier: MIT */
const BASE = new URL('./', location.href).pathname;

self.addEventListener('install', () => { self.skipWaiting(); });
self.addEventListener('activate', event => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name.startsWith(`qsf page ${BASE} `)) await caches.delete(name);
  const shown = await clients.matchAll({type: 'window'});
  await registration.unregister();
  for (const client of shown) await client.navigate(client.url);
})()));
