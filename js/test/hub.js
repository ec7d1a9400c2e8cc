/* A server that answers as Hugging Face's hub does, and another origin where its files are.
 * SPDX-License-Identifier: MIT */
import {createHash} from 'node:crypto';
import {createServer} from 'node:http';

const sha256 = bytes => createHash('sha256').update(bytes).digest('hex');
const listen = server => new Promise(resolve => { server.listen(0, '127.0.0.1', () => resolve(
  `http://127.0.0.1:${server.address().port}`)); });
const CORS = {'access-control-allow-origin': '*',
  'access-control-allow-headers': 'authorization, x-mine, range',
  'access-control-expose-headers': 'Link, ETag, X-Error-Message, X-Error-Code, Content-Range, Retry-After'};

/**
 * repos: {'owner/name': {path: bytes}}; token: needed for repositories whose name begins with
 * "private"; a repository "gated/..." is refused to all. pageSize: files of a list's page.
 * spoil(request,
 * response, where) may answer instead, and then returns true; where is 'hub' or 'files'. asked:
 * {where,
 * path, range, authorization, own} of each request but those of CORS; own: the header x-mine.
 * sent(bytes): what comes in place of a file's bytes, under its name and sum.
 */
export async function hubServer(repos, {token = 'hf_secret_token', pageSize = 1000, spoil = () =>
  false, sent = bytes => bytes} = {}) {
  const asked = [], tickets = new Set();
  const log = (where, {url, headers}) => asked.push({where, path: url.replace(/\?.*/, ''),
    query: url.split('?')[1],
    range: headers.range, authorization: headers.authorization, own: headers['x-mine']});
  const files = createServer((request, response) => {
    if (request.method === 'OPTIONS') return response.writeHead(204, CORS).end();
    log('files', request);
    if (spoil(request, response, 'files')) return undefined;
    const {searchParams, pathname} = new URL(request.url, 'http://files');
    if (!tickets.has(searchParams.get('X-Amz-Signature'))) return response.writeHead(403,
      CORS).end('expired');
    const [, owner, name, ...path] = decodeURIComponent(pathname).split('/');
    const whole = repos[`${owner}/${name}`][path.join('/')], etag = `"${sha256(whole)}"`, bytes = sent(whole);
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    if (first === undefined)
      return response.writeHead(200, {...CORS, etag, 'content-length': bytes.length}).end(bytes);
    const start = Number(first), end = Math.min(last ? Number(last) : Infinity, bytes.length - 1);
    return response.writeHead(206, {...CORS, etag, 'content-length': end - start + 1,
      'content-range': `bytes ${start}-${end}/${bytes.length}`}).end(bytes.subarray(start, end + 1));
  });
  const place = await listen(files);

  const hub = createServer((request, response) => {
    if (request.method === 'OPTIONS') return response.writeHead(204, CORS).end();
    log('hub', request);
    if (spoil(request, response, 'hub')) return undefined;
    const {pathname, searchParams} = new URL(request.url, 'http://hub');
    const fail = (status, code, text) => response.writeHead(status, {...CORS, 'x-error-code': code,
      'x-error-message': text, 'content-type': 'application/json'}).end(JSON.stringify({error: text}));
    const [, repo, how, revision, path] =
      /^(?:\/api\/models)?\/([^/]+\/[^/]+)\/(tree|resolve)\/([^/]+)(?:\/(.*))?$/.exec(pathname) ?? [];
    const found = repos[repo], isAllowed = request.headers.authorization === `Bearer ${token}`;
    if (request.headers.authorization && !isAllowed)
      return fail(401, 'InvalidToken', `Invalid credentials: ${request.headers.authorization}`);
    if (!found || (repo.startsWith('private') && !isAllowed)) return fail(401, 'RepoNotFound',
      'Repository not found');
    if (!['main', 'refs%2Fpr%2F1'].includes(revision)) return fail(404, 'RevisionNotFound', 'Invalid rev id');
    if (how === 'tree' && pathname.startsWith('/api')) {
      const all = Object.entries(found), from = Number(searchParams.get('cursor') ?? 0), to = from + pageSize;
      const next = `<http://${request.headers.host}${pathname}?recursive=true&cursor=${to}>; rel="next"`;
      response.writeHead(200, {...CORS, 'content-type': 'application/json',
        ...(to < all.length && {link: next})});
      return response.end(JSON.stringify([{type: 'directory', oid: '0', size: 0, path: 'folder'},
        ...all.slice(from, to).map(([name, bytes]) => ({type: 'file', oid: 'abc', size: bytes.length,
          path: name,
          ...(/gguf|qsf/.test(name) && {lfs: {oid: sha256(bytes), size: bytes.length,
            pointerSize: 134}})}))]));
    }
    if (repo.startsWith('gated')) return fail(403, 'GatedRepo', `Access to model ${repo} is restricted`);
    const bytes = found[decodeURIComponent(path ?? '')];
    if (!bytes) return fail(404, 'EntryNotFound', 'Entry not found');
    const ticket = String(tickets.size + 1);
    tickets.add(ticket);
    return response.writeHead(302, {...CORS, 'x-linked-etag': `"${sha256(bytes)}"`,
      'x-linked-size': bytes.length,
      'location': `${place}/${repo}/${path}?X-Amz-Signature=${ticket}&X-Amz-Expires=3600`}).end();
  });
  const url = await listen(hub);
  return {url, asked, files: place,
    close() { for (const server of [files, hub]) { server.closeAllConnections(); server.close(); } }};
}
