/* Models by name: the files of a repository on Hugging Face's hub or a mirror of it, the one that
 * fits this device, and what its download needs.
 * SPDX-License-Identifier: MIT */
import {QsfError, refuse} from './errors.js';
import {Remote} from './http.js';

const HUB = 'https://huggingface.co';
/* hf:OWNER/REPO[@REVISION][/FILE | :QUANTISATION][@REVISION], or with hf.co/ as Ollama has it.
 * hub/name.c has the same rules; tests/golden/hub_names.json has cases for both. */
const BEGIN = /^(?:hf:(?:\/\/)?(?:(?:hf|huggingface)\.co\/)?|(?:hf|huggingface)\.co\/)/i;
/* a revision before a file has no '/', except refs/pr/1 and refs/convert/NAME */
const REPO = /([\w.-]+\/[\w.-]+)/, EARLY = /(?:@((?:refs\/(?:pr|convert)\/)?[^/:@]+))?/;
const NAME = new RegExp(`^${REPO.source}${EARLY.source}(?:/([^@]+)|:([\\w.-]+))?(?:@(.+))?$`, 'i');
const MODEL = /\.(gguf|qsf)$/i, PART = /-(\d{5})-of-(\d{5})(?=\.gguf$)/i;
const OTHER = /(^|[-_./])(mmproj|imatrix|lora|adapter)/i;
const LABEL = /(?:^|[-._/])((?:UD-)?I?Q\d\w*|TQ\d\w*|MXFP\d\w*|BF16|FP?(?:16|32)|\d-?bit)(?=[-./]|$)/gi;
const PREFERRED = 'Q4_K_M', FEW_BITS = 4;
const MODULE_BYTES = 4e9;       /* what a module can address, without the engine's own part */

const megabytes = bytes => `${Math.ceil(bytes / 1e6)} MB`;

/** The parts of a name. */
export function parse(name) {
  const rest = BEGIN.test(name) ? name.replace(BEGIN, '') : '';
  const [, repo, early, file, label, late] = NAME.exec(rest) ?? refuse(
    `"${name.slice(0, 100)}" is not the name of a model; it is hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M or ` +
    'hf:OWNER/REPO/FILE.gguf, each with @REVISION after it if that is not main');
  return {repo, file, label, revision: late ?? early ?? 'main'};
}

const labelOf = path => [...path.replace(MODEL, '').replace(PART, '').matchAll(LABEL)].at(-1)?.[1] ?? '';
const bitsOf = label => Number(/\d+/.exec(label)?.[0] ?? 16);

/** The models among a repository's files, largest first: {path, label, bytes, parts}; the parts of
 * a split model are one. */
export function models(files) {
  const all = files.filter(({path}) => MODEL.test(path) && !OTHER.test(path));
  const first = all.filter(({path}) => Number(PART.exec(path)?.[1] ?? 1) === 1);
  return first.map(file => {
    const [, , count] = PART.exec(file.path) ?? [], of = n => `-${String(n).padStart(5, '0')}-of-${count}`;
    const parts = !count ? [file] : Array.from({length: Number(count)},
      (_, i) => all.find(({path}) => path === file.path.replace(PART, of(i + 1))));
    if (parts.includes(undefined)) return undefined;
    return {path: file.path, label: labelOf(file.path), parts,
      bytes: parts.reduce((sum, part) => sum + part.size, 0)};
  }).filter(Boolean).sort((a, b) => b.bytes - a.bytes || a.path.localeCompare(b.path));
}

/** Those that may be taken if none is named, in the order of trying: Q4_K_M or the largest with at
 * most 4 bits, then smaller ones. */
export function ordered(all) {
  const isPreferred = ({label}) => label.toUpperCase() === PREFERRED;
  const begin = all.find(isPreferred) ?? all.find(({label}) => bitsOf(label) <= FEW_BITS) ?? all.at(-1);
  return [begin, ...all.slice(all.indexOf(begin) + 1)];
}

/**
 * hubUrl, hubToken, headers, fetch, timeout, signal, memory, contextLength: load()'s options.
 * tools: env, the
 * environment variables; deviceBytes, the memory that a model may use here; estimate(place, more):
 * estimate() for a place, with other options; cache: the package's.
 */
export function hub({hubUrl, hubToken, headers, fetch, timeout, signal, memory, contextLength, env = {},
  deviceBytes,
  estimate, cache}) {
  const base = addressOf(hubUrl, env);
  const token = hubToken ?? (env.HF_TOKEN || undefined);
  if (token !== undefined && (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)))
    refuse('hubToken must be a string of visible ASCII characters');
  const own = {...headers, ...(token && {authorization: `Bearer ${token}`})};

  const advice = ({repo}) => {
    const page = `${base}/${repo}`;
    const wanted = token ? "hubToken's account may not read it"
      : 'if it is private or gated, give a token (hubToken, in Node.js also HF_TOKEN)';
    return {
      401: `is the name right? ${wanted}`,
      403: `it may be gated: accept its conditions at ${page}, and ${token ? 'check what the token allows'
        : 'give a token of that account (hubToken, in Node.js also HF_TOKEN)'}`,
      404: `is the name right? ${page} has what there is`,
    };
  };
  const each = path => path.split('/').map(encodeURIComponent).join('/');
  const urlOf = ({repo, revision}, path) =>
    `${base}/${repo}/resolve/${encodeURIComponent(revision)}/${each(path)}`;

  /* A JSON answer, and the address of its next page. */
  async function ask(url, named) {
    const remote = new Remote(url, {timeout, headers: own, advice: advice(named), get: fetch});
    const parts = [], never = new AbortController().signal;
    for await (const part of remote.from(0, signal ?? never)) parts.push(part.slice());
    const text = await new Blob(parts).text();
    const next = /<([^>]+)>;\s*rel="?next/.exec(remote.headers.get('link') ?? '')?.[1];
    try {
      return {value: JSON.parse(text), next: next && new URL(next, url).href};
    } catch (cause) {
      throw new QsfError('HTTP', `${base}: no list of files came for ${named.repo}; is that a hub's address?`,
        {cause});
    }
  }
  /* {path, size, sha256} of each file. */
  async function files(named) {
    const {repo, revision} = named, all = [];
    let url = `${base}/api/models/${repo}/tree/${encodeURIComponent(revision)}?recursive=true`;
    while (url) {
      const {value, next} = await ask(url, named);
      if (!Array.isArray(value))
        throw new QsfError('HTTP', `${base}: no list of files came for ${repo}; is that a hub's address?`);
      all.push(...value.filter(({type, path}) => type === 'file' && typeof path === 'string'));
      // the token is the hub's alone
      url = next && new URL(next).origin === new URL(base).origin && all.length < 1e5 ? next : undefined;
    }
    return all.map(({path, size, lfs}) => ({path, size: lfs?.size ?? size ?? 0,
      sha256: /^(?:sha256:)?([\da-f]{64})$/.exec(lfs?.oid ?? '')?.[1]}));
  }
  const one = (named, {path, sha256, size}) => ({url: urlOf(named, path), sha256, length: size || undefined,
    headers: own, advice: advice(named)});
  function placeOf(named, {parts}) {
    const all = parts.map(part => one(named, part));
    return all.length > 1 ? {...all[0], all} : all[0];
  }
  const listed = (all, byFile) => all.map(({label, path, bytes}) =>
    `${(!byFile && label) || path} (${megabytes(bytes)})`).join(', ');

  /* The named model, or those to try in turn. */
  async function candidates(named) {
    const {repo, file, label, revision} = named, found = await files(named), all = models(found);
    const where = `${repo}${revision === 'main' ? '' : `@${revision}`}`;
    if (file) {
      const part = found.find(({path}) => path === file);
      return [all.find(({path}) => path === file) ?? (part && {path: file, parts: [part], bytes: part.size})
        ?? missing(`${base}/${where} has no file ${file}; it has ${
          listed(all, true) || 'no GGUF or QSF file'}`)];
    }
    if (!all.length)
      missing(`${base}/${where} has no GGUF or QSF file (of ${found.length} in all); look for a repository ` +
        'with such files, often named ...-GGUF, or convert it (qsf-convert)');
    if (!label) return ordered(all);
    const wanted = label.toLowerCase();
    return [all.findLast(model => model.label.toLowerCase() === wanted)
      ?? missing(`${base}/${where} has no model in ${label}; it has ${listed(all)}`)];
  }

  /* A stored model needs no connection to the hub. */
  async function offline(named, error) {
    const url = named.file && urlOf(named, named.file);
    const isAway = /: no connection|: no answer|answered (429|5)/.test(error.message);
    if (error.code !== 'HTTP' || !isAway) throw error;
    const start = url ?? `${base}/${named.repo}/resolve/${encodeURIComponent(named.revision)}/`;
    const isNamed = path => !named.label || labelOf(path).toLowerCase() === named.label.toLowerCase();
    const all = (await cache.list().catch(() => [])).filter(entry => entry.complete
      && entry.url.startsWith(start) && isNamed(entry.url.slice(start.length)));
    if (!all.length) throw error;
    return {url: all.sort((a, b) => b.fetched - a.fetched)[0].url};
  }

  const budget = memory > 0 ? Math.min(memory * 1e6, MODULE_BYTES) : Math.min(deviceBytes, MODULE_BYTES);
  return {
    /** The place of the model with this name: the first candidate that fits. */
    async place(name) {
      const named = parse(name);
      let all;
      try {
        all = await candidates(named);
      } catch (error) {
        return offline(named, error);
      }
      const [{bytes}] = all;
      // it certainly fits
      if (!memory && bytes < budget / 4 && !(contextLength > 4096)) return placeOf(named, all[0]);
      for (const model of all) {
        const place = placeOf(named, model);
        if (model === all.at(-1)) return place;         // streams, or load() says what is missing
        if (model.bytes < budget && (await estimate(place, {memory: 0})).memoryBytes <= budget) return place;
      }
      return undefined;
    },
    /** The estimate of the model that place() takes, with the list `files` of all models of the
     * repository; undefined if the name is one model's. */
    async estimate(name) {
      const named = parse(name);
      if (named.file || named.label) return undefined;
      const all = models(await files(named)), order = all.length ? ordered(all) : [];
      if (!all.length) return undefined;                // an error of place()
      const listed = new Map();
      for (const model of all) {
        const {path: file, label: quantisation, bytes} = model;
        try {
          const whole = await estimate(placeOf(named, model), {memory: 0});
          listed.set(model, {file, quantisation, bytes, memoryBytes: whole.memoryBytes,
            fits: whole.memoryBytes <= budget, whole});
        } catch (error) {
          signal?.throwIfAborted();
          if (error.code === 'HTTP') throw error;
          listed.set(model, {file, quantisation, bytes, fits: false, error: error.message});
        }
      }
      const taken = order.find(model => listed.get(model).fits) ?? order.at(-1);
      const {whole} = listed.get(taken);
      const chosen = whole && !memory ? whole : await estimate(placeOf(named, taken), {});
      return {...chosen, files: [...listed].map(([model, {whole: _, ...file}]) =>
        ({...file, chosen: model === taken}))};
    },
  };
}

/** Of a model's name: the start of its files' URLs, and whether a path after it is one of them. */
export function cachedAt(name, {hubUrl, env = {}}) {
  const {repo, file, label, revision} = parse(name), whole = path => path.replace(PART, '');
  return {start: `${addressOf(hubUrl, env)}/${repo}/resolve/${encodeURIComponent(revision)}/`,
    has: path => (file ? whole(path) === whole(file)
      : !label || labelOf(path).toLowerCase() === label.toLowerCase())};
}

function missing(text) { throw new QsfError('NOT_FOUND', text); }
const addressOf = (hubUrl, env) => address(hubUrl ?? (env.QSF_HUB || env.HF_ENDPOINT || HUB));
function address(given) {
  try {
    const url = new URL(given);
    if (!/^https?:$/.test(url.protocol) || url.username || url.password) throw new Error(
      'no address of a hub');
    return url.href.replace(/[?#].*/, '').replace(/\/+$/, '');
  } catch (cause) {
    throw new QsfError('ARGUMENT', `hubUrl must be an http(s) address without a user name, as ${HUB}`,
      {cause});
  }
}
