/* Under which URL a file is cached: without credentials and without what signs a request, so that a
 * new signature finds the same file, and lists of the cache show no secret.
 * SPDX-License-Identifier: MIT */

/* In small letters; * stands for any end. */
const SIGNS = ['token', 'access_token', 'auth_token', 'signature', 'sig', 'expires', 'policy', 'key-pair-id',
  'awsaccesskeyid', 'googleaccessid', 'x-amz-*', 'x-goog-*', 'x-oss-*', 'x-cos-*'];
/* Azure's, which are short: only together with sig. */
const SHARED = ['se', 'sp', 'spr', 'sr', 'st', 'sv', 'sip', 'skoid', 'sktid', 'skt', 'ske', 'sks', 'skv'];

const accepts = (patterns, name) => patterns.some(pattern =>
  (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));

/** ignored: names of further parameters of the query that do not matter, with * as above. */
export function cacheUrl(given, ignored = []) {
  const url = new URL(given);
  url.username = url.password = url.hash = '';
  const names = new Map([...url.searchParams.keys()].map(name => [name, name.toLowerCase()]));
  const signs = [...SIGNS, ...ignored.map(name => name.toLowerCase()),
    ...([...names.values()].includes('sig') ? SHARED : [])];
  for (const [name, lower] of names) if (accepts(signs, lower)) url.searchParams.delete(name);
  return url.href;
}
