/* Tools that a model may use in this page: a calculator, a clock, JavaScript.
 * SPDX-License-Identifier: MIT */
import {calculate, runCode} from './sandbox.js';

const tool = (name, description, properties, required = Object.keys(properties)) => ({type: 'function',
  function: {name, description, parameters: {type: 'object', properties, required,
    additionalProperties: false}}});
const text = description => ({type: 'string', description});

export const TOOLS = [
  tool('calculate', 'Computes an arithmetic expression.', {expression: text('such as (3 + 4) * 2.5 or '
    + 'sqrt(2)')}),
  tool('current_time', 'Says the current date and time.', {time_zone: text('such as Europe/Berlin')}, []),
  tool('run_javascript', 'Runs a short JavaScript program and returns what it prints.',
    {code: text('without imports or input; console.log prints')}),
];

function now({time_zone: timeZone}) {
  const form = zone => new Intl.DateTimeFormat('en-GB', {dateStyle: 'full', timeStyle: 'long',
    timeZone: zone});
  try {
    return form(timeZone || undefined).format(new Date());
  } catch {                     // a model may make up a zone
    return form().format(new Date());
  }
}
const ACTS = {calculate: ({expression}) => calculate(String(expression)), current_time: now,
  run_javascript: ({code}) => runCode(String(code))};

/** Runs a call of the model; an error is a result that the model sees. */
export function useTool({function: {name, arguments: given}}) {
  try {
    if (!Object.hasOwn(ACTS, name)) throw new Error(`no tool is called ${name}`);
    return ACTS[name](JSON.parse(given));
  } catch (error) {
    return `error: ${error.message}`;
  }
}
