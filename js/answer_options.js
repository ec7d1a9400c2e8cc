/* Options of an answer that are more than a word or a number, as the engine takes them. undefined:
 * the value is invalid as a whole; a fault inside of it is an error here.
 * SPDX-License-Identifier: MIT */
import {refuse, shown} from './errors.js';
import {isObject, json, wellFormed} from './json.js';
import {GRAMMAR as KIND} from './names.js';

const textOf = (value, name) => (typeof value === 'string' ? wellFormed(value)
  : refuse(`responseFormat.${name} is ${shown(value)}; it must be a string${
    value instanceof RegExp ? ', as its source is: it must match from start to end' : ''}`));
function schemaText({json_schema: around, schema = around?.schema}) {
  if (!isObject(schema) && typeof schema !== 'boolean')
    refuse(`the schema of responseFormat is ${shown(schema)}; it must be a JSON Schema, at ` +
      'json_schema.schema or at schema');
  return json(schema) ?? refuse('the schema of responseFormat cannot be written as JSON');
}
function choicesText({choices}) {
  const all = Array.isArray(choices) ? choices : [];
  if (!all.length || !all.every(text => typeof text === 'string'))
    refuse(`responseFormat.choices is ${shown(choices)}; it must be a list of one or more strings`);
  return json(all);
}

/* By type: the other members that such a format may have, and what the engine gets. */
const FORMATS = {
  text: {names: [], make: () => false},
  json_object: {names: [], make: () => ({kind: KIND.JSON_SCHEMA, text: '{"type":"object"}'})},
  json_schema: {names: ['json_schema', 'schema', 'strict'], make: given => ({kind: KIND.JSON_SCHEMA,
    text: schemaText(given), loose: (given.json_schema ?? given).strict !== true})},
  regex: {names: ['regex'], make: ({regex}) => ({kind: KIND.REGEX, text: textOf(regex, 'regex')})},
  grammar: {names: ['grammar'], make: ({grammar}) => ({kind: KIND.GBNF, text: textOf(grammar, 'grammar')})},
  choices: {names: ['choices'], make: given => ({kind: KIND.CHOICES, text: choicesText(given)})},
};

/** responseFormat: {kind, text, loose}; false without a constraint. */
export function format(value) {
  if (!isObject(value)) return undefined;
  const {type, ...rest} = value;
  if (typeof type !== 'string' || !Object.hasOwn(FORMATS, type))
    refuse(`responseFormat.type is ${shown(type)}; it must be one of ${Object.keys(FORMATS).join(', ')}`);
  const {names, make} = FORMATS[type], wrong = Object.keys(rest).find(name => !names.includes(name));
  if (wrong !== undefined)
    refuse(`a responseFormat of type ${type} has no ${wrong}; it takes ${
      names.length ? names.join(' or ') : 'nothing else'}`);
  return make(rest);
}

/** logitBias: a list of [token, bias]. */
export function biases(value) {
  if (!isObject(value)) return undefined;
  const isMap = Object.prototype.toString.call(value) === '[object Map]';       // of any frame of a page
  const pairs = isMap ? [...value] : Object.entries(value);
  return pairs.map(([token, bias]) => {
    const id = typeof token === 'string' && /^\d+$/.test(token) ? Number(token) : token;
    if (!(Number.isInteger(id) && id >= 0 && id < 2 ** 31))
      refuse(`logitBias has a token ${shown(token)}; it must be a token id, a whole number`);
    if (!(typeof bias === 'number' && bias < Infinity))
      refuse(`logitBias of token ${id} is ${shown(bias)}; it must be a number, or -Infinity`);
    return [id, bias];
  });
}

/** toolChoice: a word of the OpenAI API, or the name of the tool to call. */
export function toolChoice(value) {
  const words = ['auto', 'none', 'required'];
  if (!isObject(value)) return words.includes(value) ? value : undefined;
  const name = value.type === 'function' ? value.function?.name : undefined;
  return typeof name === 'string' && name && !name.includes('\0') && !words.includes(name) ? name
    : refuse(`toolChoice.function.name is ${shown(name)}; it must be the name of one of the tools`);
}
