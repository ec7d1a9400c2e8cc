/* A conversation as data: a tree of messages, of which one path is shown. It does not depend on a
 * page: what is stored, exported and sent to a model is made here.
 * SPDX-License-Identifier: MIT
 *
 * {id, title, created, updated, leaf, nodes: [{id, parent, role, content, ...}]}: role is user,
 * assistant or text (a beginning that the model continues). An edited question or a second answer
 * is a sibling of the first: nothing that was said is lost. leaf is the last message of the path.
 * skip: how many of the path's first messages no longer fit the model's context. notes: [{at,
 * text}], summaries of a path up to the message `at`, which the model is given in its place. */

const ROLES = ['user', 'assistant', 'text'];
/* Characters of a title, and of a message that are looked at for it; messages of an import. */
const TITLE = 48, SEEN = 2000, LIMIT = 10_000;

/** Pages that were loaded over http have no randomUUID(). */
export const newId = () => [...crypto.getRandomValues(new Uint8Array(12))]
  .map(byte => byte.toString(16).padStart(2, '0')).join('');

export function newConversation(now = Date.now()) {
  return {id: newId(), title: '', created: now, updated: now, leaf: null, skip: 0, nodes: []};
}

/** The messages that are shown, first to last. A damaged file may have circles. */
export function path({nodes, leaf}) {
  const found = [], byId = new Map(nodes.map(node => [node.id, node]));
  for (let node = byId.get(leaf); node && found.length <= nodes.length; node = byId.get(node.parent))
    found.push(node);
  return found.reverse();
}
export const siblings = ({nodes}, {parent, role}) => nodes.filter(
  node => node.parent === parent && (node.role === 'assistant') === (role === 'assistant'));

/** Adds a message and shows it. parent: a message's id, null for the first. */
export function append(conversation, parent, role, content, more = {}) {
  const node = {id: newId(), parent, role, content, ...more};
  conversation.nodes.push(node);
  conversation.leaf = node.id;
  conversation.updated = Date.now();
  if (!conversation.title && role !== 'assistant') conversation.title = titleOf(content
    || more.files?.[0].name || '');
  return node;
}
/** Shows the branch of this message, as far as its newest messages go. */
export function choose(conversation, node) {
  let last = node;
  for (let step = 0, next = last; next && step <= conversation.nodes.length; step++) {
    last = next;
    next = conversation.nodes.findLast(({parent}) => parent === last.id);
  }
  conversation.leaf = last.id;
  conversation.skip = 0;
}

/* Without the signs of Markdown. */
const plain = text => text.replace(/^\s*(?:```|~~~).*$/gm, '')
  .replace(/^(?:\s*(?:#{1,6}\s|>|[-*+]\s+(?:\[[ x]\]\s)?))+/gm, '').replace(/^\s*(?:\|[ :|-]+)+|\|\s*$/gm, '')
  .replace(/!?\[([^\]]*)\]\([^)\s]*\)/g, '$1')
  .replace(/(`+|~~)(?=\S)([^\n]*?\S)\1/g, '$2')
  .replace(/(?<![\p{L}\p{N}*_])(\*{1,3}|_{1,3})(?=[^\s*_])([^\n]*?[^\s*_])\1(?![\p{L}\p{N}*_])/gu, '$2');

/** The first line of what was asked, cut at a word. */
export function titleOf(text) {
  const begin = text.trim().slice(0, SEEN);
  const line = (plain(begin).trim() || begin).split('\n')[0].trim().replace(/\s+/g, ' ');
  if (line.length <= TITLE) return line;
  const cut = line.slice(0, TITLE + 1).replace(/\s\S*$/, '');
  return `${cut.length < TITLE / 2 || cut.length > TITLE ? line.slice(0, TITLE) : cut} …`;
}

/** What a file adds to a question, as the model sees it. */
const withFiles = ({content, files = []}) => [...files.map(({name, text}) =>
  `File ${name}:\n${fenced(text)}`), content].filter(Boolean).join('\n\n');
/** A block of code that its own content cannot end. */
export function fenced(text, word = '') {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map(run => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${word}\n${text}${text.endsWith('\n') ? '' : '\n'}${fence}`;
}

/** What the model sees of a path: its messages from index `from` on, and the note, if there is one,
 * for the first `upTo` messages. */
export function seen({skip, notes = []}, all) {
  let upTo = 0, note;
  for (const one of notes) {
    const after = all.findIndex(({id}) => id === one.at) + 1;
    if (after > upTo) [upTo, note] = [after, one];
  }
  return {from: Math.max(skip, upTo), upTo, note};
}

/** What the model is given of the messages up to a question: those that it sees, without answers
 * that failed. */
export function messagesFor(conversation, question, system = '') {
  const said = [], all = path({...conversation, leaf: question.id}), {from, note} = seen(conversation, all);
  const told = [system.trim(), note && `Summary of the conversation before this:\n${note.text}`]
    .filter(Boolean).join('\n\n');
  for (let i = 0; i < all.length; i++) {
    const {role} = all[i], answer = all[i + 1];
    if (role !== 'user' || i < from && all[i] !== question) continue;
    if (all[i] === question) said.push({role: 'user', content: withFiles(question)});
    else if (answer?.role === 'assistant' && answer.content)
      said.push({role: 'user', content: withFiles(all[i])}, {role: 'assistant', content: answer.content});
  }
  return told ? [{role: 'system', content: told}, ...said] : said;
}
/* How many messages before the last one of a path no longer belong to it without the older half of
 * what the model sees; 0: there is nothing to leave out. */
function half(conversation, all) {
  const last = all.length - 1, {from} = seen(conversation, all);
  if (last - from <= 0) return 0;
  let at = from + Math.max(1, Math.ceil((last - from) / 2));
  while (at < last && all[at].role === 'assistant') at++;
  return at;
}
/** Leaves out the older half of what is given before this question; false: nothing is left. */
export function trim(conversation, question) {
  const skip = half(conversation, path({...conversation, leaf: question.id}));
  if (skip) conversation.skip = skip;
  return skip > 0;
}
/** What the model is asked for a summary of that half, and the last message that it is about;
 * undefined: there is nothing to sum up. */
export function toSummarise(conversation, question, system, ask) {
  const all = path({...conversation, leaf: question.id}), last = all[half(conversation, all) - 1];
  if (!last) return undefined;
  const node = {id: newId(), parent: last.id, role: 'user', content: ask};
  const messages = messagesFor({...conversation, nodes: [...conversation.nodes, node]}, node, system);
  return messages.some(({role}) => role === 'assistant') ? {at: last.id, messages} : undefined;
}

/** Two states of a conversation, from two tabs: what either has. The newer one shows its path. */
export function merge(old, now) {
  if (!old) return now;
  const known = new Set(now.nodes.map(({id}) => id));
  const summed = new Set(now.notes?.map(({at}) => at));
  const notes = [...now.notes ?? [], ...(old.notes ?? []).filter(({at}) => !summed.has(at))];
  return {...now, nodes: [...now.nodes, ...old.nodes.filter(({id}) => !known.has(id))],
    ...(notes.length && {notes})};
}

/** Whether a title or a message has all words. */
export function matches(conversation, words) {
  const wanted = words.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return true;
  const text = [conversation.title, ...conversation.nodes.map(({content}) => content)].join('\n')
    .toLocaleLowerCase();
  return wanted.every(word => text.includes(word));
}

/* ---- files ---- */

const FORMAT = 'qsf-conversations';

export const toJson = conversations =>
  `${JSON.stringify({format: FORMAT, version: 1, conversations}, null, 1)}\n`;

/** The path shown, as a document. speakers: names of roles. */
export function toMarkdown(conversation, speakers) {
  const parts = [`# ${conversation.title}`];
  for (const node of path(conversation)) {
    parts.push(`## ${speakers[node.role]}`);
    if (node.reasoning) parts.push(node.reasoning.trim().replace(/^/gm, '> '));
    for (const {name, given, result} of node.calls ?? []) parts.push(`> ${name}(${given}) → ${result}`);
    for (const {name, text} of node.files ?? []) parts.push(`${name}\n\n${fenced(text)}`);
    if (node.content) parts.push(node.content.trim());
  }
  return `${parts.join('\n\n')}\n`;
}

const isText = value => typeof value === 'string';
function readNode(node) {
  if (!node || !isText(node.id) || !isText(node.content) || !ROLES.includes(node.role)) return undefined;
  const {id, role, content, reasoning, end, files, calls} = node;
  return {id, parent: isText(node.parent) ? node.parent : null, role, content,
    ...(isText(reasoning) && {reasoning}), ...(isText(end) && {end}),
    ...(Array.isArray(files) && {files: files.filter(file => isText(file?.name) && isText(file?.text))
      .map(({name, text}) => ({name, text}))}),
    ...(Array.isArray(calls) && {calls: calls.filter(call => ['name', 'given', 'result'].every(
      key => isText(call?.[key]))).map(({name, given, result}) => ({name, given, result}))})};
}
function readOne(one) {
  if (!one || !isText(one.id) || !Array.isArray(one.nodes) || one.nodes.length > LIMIT) return undefined;
  const nodes = one.nodes.map(readNode).filter(Boolean), now = Date.now();
  const time = value => (Number.isFinite(value) ? value : now);
  const found = {id: one.id, title: isText(one.title) ? one.title.slice(0, 200) : '',
    created: time(one.created), updated: time(one.updated), leaf: isText(one.leaf) ? one.leaf : null,
    skip: 0, nodes,
    ...(Array.isArray(one.notes) && {notes: one.notes.filter(note => isText(note?.at) && isText(note?.text))
      .map(({at, text}) => ({at, text}))})};
  if (!path(found).length) found.leaf = nodes.at(-1)?.id ?? null;
  return nodes.length ? found : undefined;
}
/** The conversations of an exported file; throws if nothing is found. Only known members
 * are taken. */
export function fromJson(text) {
  let all;
  try { all = JSON.parse(text); } catch { /* said below */ }
  const found = all?.format === FORMAT && Array.isArray(all.conversations)
    ? all.conversations.map(readOne).filter(Boolean) : [];
  if (!found.length) throw new Error('The file has no conversations that this page exported.');
  return found;
}
