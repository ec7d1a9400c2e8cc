/* Requests of OpenAI's API as calls of a model: the fields that qsf-serve knows, with its errors.
 * SPDX-License-Identifier: MIT */

/** An error in the API's form. */
export class Refusal extends Error {
  constructor(status, code, param, message, type = 'invalid_request_error', cause = undefined) {
    super(message, {cause});
    this.status = status;
    this.body = {error: {message, type, param: param ?? null, code: code ?? null}};
  }
}
export const refuse = (code, param, message) => { throw new Refusal(400, code, param, message); };
const kind = v => (v === null ? 'null' : Array.isArray(v) ? 'array' : typeof v);
export const wrong = (name, must, v) =>
  refuse('invalid_type', name, `"${name}" must be ${must}, not ${v === undefined ? 'missing' : kind(v)}`);
const missing = name => refuse('missing_required_parameter', name, `"${name}" is missing`);

/** A model's error as the API's. Clients repeat requests that failed with 408, 409, 429 or 500 and
 * above: an answer that was stopped, or a model that is gone, must not have one of these. */
export function refusalOf(error, path = '') {
  if (error instanceof Refusal) return error;
  const {code} = error, {message, param} = inTheirWords(String(error.message), path);
  if (code === 'ARGUMENT') return new Refusal(400, 'invalid_value', param, message, undefined, error);
  if (code === 'FULL') return new Refusal(400, 'context_length_exceeded', null, message, undefined, error);
  if (code === 'UNSUPPORTED')
    return new Refusal(400, 'unsupported_parameter', param, message, undefined, error);
  if (code === 'CANCELLED') return new Refusal(499, 'cancelled', null, message, undefined, error);
  if (code === 'DISPOSED') return new Refusal(410, 'disposed', null, message, undefined, error);
  return new Refusal(500, null, null, message, 'server_error', error);
}

/* ---- fields that become options ---- */
const inRange = (name, v, least, most) => (v >= least && v <= most ? v
  : refuse(v < least ? 'integer_below_min_value' : 'integer_above_max_value', name,
    `"${name}" is ${v}; the range is ${least} to ${most}`));
const number = (ours, least, most) => ({ours, take: (v, name) =>
  (typeof v === 'number' ? inRange(name, v, least, most) : wrong(name, 'a number', v))});
const whole = (ours, least, most) => ({ours, take: (v, name) =>
  (Number.isInteger(v) ? inRange(name, v, least, most) : wrong(name, 'a whole number', v))});
/* A negative number turns the limit off. */
const limit = ours => ({ours, take: (v, name) => (typeof v !== 'number' ? wrong(name, 'a whole number', v)
  : v < 0 ? Infinity : Math.min(Math.floor(v), 1e9))});
const flag = ours => ({ours, take: (v, name) =>
  (typeof v === 'boolean' ? v : wrong(name, 'true or false', v))});
const FIELDS = {
  temperature: number('temperature', 0, 100), top_p: number('topP', 0, 1), min_p: number('minP', 0, 1),
  top_k: {ours: 'topK', take: (v, name) => Math.max(0, whole('', -1, 1e9).take(v, name))},
  typical_p: number('typicalP', 0, 1), repeat_penalty: number('repeatPenalty', 0.01, 100),
  repetition_penalty: number('repeatPenalty', 0.01, 100),
  frequency_penalty: number('frequencyPenalty', -2, 2), presence_penalty: number('presencePenalty', -2, 2),
  max_tokens: limit('maxTokens'), max_completion_tokens: limit('maxTokens'),
  max_output_tokens: limit('maxTokens'), min_tokens: whole('minTokens', 0, 1e9),
  reasoning_budget: {ours: 'reasoningBudget', take: (v, name) => {
    const most = limit('').take(v, name);
    return most === Infinity ? -1 : most;
  }},
  seed: {ours: 'seed', take: (v, name) =>
    (Number.isInteger(v) ? v === -1 ? undefined : Math.abs(v) % 2 ** 53 : wrong(name, 'a whole number', v))},
  ignore_eos: flag('ignoreEnd'), parallel_tool_calls: flag('parallelToolCalls'),
  continue_final_message: flag('continueFinalMessage'),
  stop: {ours: 'stop', take(v, name) {
    const all = Array.isArray(v) ? v : [v];
    return all.every(text => typeof text === 'string') ? all.filter(text => text !== '')
      : wrong(name, 'a string or a list of strings', all.find(text => typeof text !== 'string'));
  }},
  logit_bias: {ours: 'logitBias', take: (v, name) =>
    (kind(v) === 'object' ? v : wrong(name, 'an object of biases by token', v))},
};
/* Our options whose names differ from the API's. */
const THEIRS = {toolChoice: 'tool_choice', responseFormat: 'response_format',
  maxTokens: 'max_completion_tokens', topLogprobs: 'top_logprobs',
  chatTemplateKwargs: 'chat_template_kwargs'};
for (const [name, {ours}] of Object.entries(FIELDS)) if (ours !== name) THEIRS[ours] ??= name;
const OURS = new RegExp(`\\b(${Object.keys(THEIRS).join('|')})\\b`, 'g');

/* An error of our options as one of the API's fields: {message, param}. */
function inTheirWords(text, path) {
  const own = name => (name === 'responseFormat' && path.includes('responses') ? 'text.format'
    : THEIRS[name]);
  const first = text.match(OURS)?.[0], [start] = text.match(/^\w+/) ?? [];
  return {message: text.replace(OURS, own),
    param: first ? own(first) : start && Object.hasOwn(FIELDS, start) ? start : null};
}
/* The defaults of OpenAI's API that differ from ours. */
const DEFAULTS = {temperature: 1, topP: 1, topK: 0, maxTokens: Infinity};
const FOR_CHATS = ['parallel_tool_calls', 'continue_final_message', 'reasoning_budget'];

function formatOf(value, name) {
  if (kind(value) !== 'object') return wrong(name, 'an object', value);
  if (typeof value.type !== 'string') return wrong(name, 'an object with a type', value.type);
  if (value.type === 'text') return undefined;
  if (!['json_object', 'json_schema', 'regex', 'grammar', 'choices'].includes(value.type))
    return refuse('unsupported_parameter', name,
      `"${name}" has the type "${value.type}", which is not supported here`);
  if (value.type !== 'json_schema') return {type: value.type, ...(value[value.type] !== undefined &&
    {[value.type]: value[value.type]})};
  const {schema, strict} = value.json_schema ?? value;
  return {type: 'json_schema', schema, strict};
}

/** The options that chats and completions share. */
export function optionsOf(body, chats) {
  if (kind(body) !== 'object')
    refuse('invalid_json', null, `the request body must be a JSON object, not ${kind(body)}`);
  const options = {...DEFAULTS};
  for (const [name, {ours, take}] of Object.entries(FIELDS)) {
    const value = body[name];
    if (value === undefined || value === null || (!chats && FOR_CHATS.includes(name))) continue;
    options[ours] = take(value, name);
  }
  if (options.seed !== undefined) options.choice = 0;           // as the server, whose seeds include 0
  const shape = body.response_format ?? body.text?.format;
  const format = shape && formatOf(shape, body.response_format ? 'response_format' : 'text');
  if (format) options.responseFormat = format;
  return options;
}
export function logprobsOf(body, list) {
  const {logprobs, top_logprobs: top} = body;
  const on = list ? typeof logprobs === 'number' : logprobs === true || (top > 0 && logprobs !== false);
  if (!on) return {};
  return {logprobs: true, topLogprobs: inRange(list ? 'logprobs' : 'top_logprobs', (list ? logprobs : top)
    ?? 0,
    0, 100)};
}
/** How many answers. */
export const countOf = ({n}) => (n === undefined || n === null ? 1 : whole('', 1, 128).take(n, 'n'));

/* ---- tools ---- */
/* A custom tool is a function of one string. */
function custom({name, description, format}) {
  const {syntax, definition} = format?.grammar ?? format ?? {};
  const input = {type: 'string', ...(syntax === 'regex' && {pattern: `^(?:${definition})$`}),
    ...(['lark', 'gbnf'].includes(syntax) && {'x-grammar': definition})};
  const hint = definition && `The input has this form (${syntax}):\n${definition}`;
  const text = [description, hint].filter(Boolean).join('\n\n');
  return {type: 'function', function: {name, ...(text && {description: text}), parameters: {type: 'object',
    properties: {input}, required: ['input'], additionalProperties: false}}};
}
/** {options, custom}: the options of tools, and the names of custom ones. */
export function toolsOf({tools, tool_choice: choice}) {
  const names = new Set(), made = [];
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) wrong('tools', 'a list of tools',
    tools);
  for (const [i, tool] of (tools ?? []).entries()) {
    const inner = tool?.function ?? tool?.custom ?? tool;
    if (kind(tool) !== 'object') refuse('invalid_value', 'tools', `tools[${i}] must be an object`);
    if (!['function', 'custom', undefined].includes(tool.type)) continue;       // a server's own tool
    if (typeof inner.name !== 'string' || inner.name === '')
      refuse('invalid_value', 'tools', `tools[${i}] has to have a name, of at most 256 bytes`);
    if (tool.type === 'custom') names.add(inner.name);
    const {name, description, parameters, strict} = inner;
    made.push(tool.type === 'custom' ? custom(inner) : tool.function ? tool
      : {type: 'function', function: {name, ...(description && {description}), ...(parameters
        && {parameters}),
        ...(strict === true && {strict})}});
  }
  return {custom: names, options: choiceOf(made, choice)};
}
function choiceOf(made, choice) {
  const allowed = choice?.type === 'allowed_tools' ? choice.allowed_tools ?? choice : undefined;
  const inner = one => one?.function ?? one?.custom ?? one;
  const tools = allowed
    ? made.filter(({function: {name}}) => allowed.tools.some(one => inner(one).name === name))
    : made;
  const word = allowed ? allowed.mode : choice;
  const name = kind(word) === 'object' ? inner(word).name : undefined;
  if ((word === 'required' || name) && !tools.length)
    refuse('invalid_value', 'tool_choice', '"tool_choice" is about tools: it needs "tools"');
  if (name && !tools.some(tool => tool.function.name === name))
    refuse('invalid_value', 'tool_choice', `no tool is named "${name}"`);
  if (!tools.length) return {};
  return {tools, toolChoice: name ? {type: 'function', function: {name}} : word ?? 'auto'};
}

/* ---- messages ---- */
/* The text of a content part; images and others are not read. */
function partText(part, where) {
  if (typeof part === 'string') return part;
  const {type, text, refusal} = part ?? {};
  if (typeof text === 'string') return text;
  if (typeof refusal === 'string') return refusal;
  if (typeof type !== 'string') return wrong(where, 'a list of parts that have a type', part);
  return refuse('unsupported_parameter', where,
    `"${where}" has a part of type "${type}"; the model reads text only`);
}
export const contentOf = (content, where) => (Array.isArray(content)
  ? content.map(part => partText(part, where)).join('') : content);

export function messagesOf({messages}) {
  if (messages === undefined) missing('messages');
  if (!Array.isArray(messages)) wrong('messages', 'a list of messages', messages);
  if (!messages.length) refuse('invalid_value', 'messages', '"messages" is empty');
  return messages.map((message, i) => {
    const where = `messages[${i}]`;
    if (kind(message) !== 'object') wrong(where, 'an object', message);
    if (typeof message.role !== 'string') missing(`${where}.role`);
    const {content, refusal, ...rest} = message, text = contentOf(content ?? refusal, `${where}.content`);
    if (text === undefined && !message.tool_calls
      && message.role !== 'assistant') missing(`${where}.content`);
    if (typeof (text ?? '') !== 'string') wrong(`${where}.content`, 'a string or a list of parts', text);
    return {...rest, content: text ?? (message.tool_calls ? null : '')};
  });
}
/** Variables of the template. */
export function templateOf({chat_template_kwargs: kwargs, reasoning_effort: effort, reasoning,
  enable_thinking: thinks}) {
  const level = effort ?? reasoning?.effort, on = thinks ?? (level === 'none' ? false : undefined);
  const all = {...(level && {reasoning_effort: level}), ...(on !== undefined && {enable_thinking: on}),
    ...kwargs};
  return Object.keys(all).length ? {chatTemplateKwargs: all} : {};
}

/* ---- items of /v1/responses ---- */
const CALLS = {function_call: 'function', custom_tool_call: 'custom'};
const textsOf = parts => (parts ?? []).map(({text}) => text).filter(Boolean).join('\n');

/** The messages of `input`, whose items are messages, reasoning, calls and their results. */
export function inputMessages(input, where = 'input') {
  if (input === undefined) missing(where);
  if (typeof input === 'string') return [{role: 'user', content: input}];
  if (!Array.isArray(input)) wrong(where, 'a list of messages', input);
  const all = [];
  for (const [i, item] of input.entries()) {
    const place = `${where}[${i}]`, type = item?.type ?? 'message';
    if (kind(item) !== 'object') wrong(place, 'an object', item);
    if (type === 'message') {
      const content = contentOf(item.content, `${place}.content`);
      if (content === undefined) missing(`${place}.content`);
      if (item.role === 'assistant' && all.at(-1)?.reasoning_content && all.at(-1).content === null)
        all.at(-1).content = content;
      else all.push({role: item.role, content});
    } else if (type === 'reasoning') {
      all.push({role: 'assistant', content: null,
        reasoning_content: textsOf(item.content?.length ? item.content : item.summary)});
    } else if (CALLS[type]) {
      const call = type === 'function_call' ? {name: item.name, arguments: item.arguments || '{}'}
        : {name: item.name, input: item.input};
      if (all.at(-1)?.role !== 'assistant') all.push({role: 'assistant', content: null});
      (all.at(-1).tool_calls ??= []).push({id: item.call_id, type: CALLS[type], [CALLS[type]]: call});
    } else if (type.endsWith('_output')) {
      all.push({role: 'tool', tool_call_id: item.call_id, content: contentOf(item.output,
        `${place}.output`)});
    } else {
      all.push({role: 'assistant', content: JSON.stringify(item)});
    }
  }
  for (const message of all) if (message.content === null && !message.tool_calls) message.content = '';
  return all;
}
