/* A template whose calls of tools and reasoning the engine finds, and questions under it.
 * SPDX-License-Identifier: MIT */

export const TEMPLATE = `{% if tools %}{% for t in tools %}{{ t | tojson }}
{% endfor %}{% endif %}{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}[end]
{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`;

export const TOOLS = [
  ['weather', {city: {enum: ['Bonn', 'Rome']}}], ['add', {a: {type: 'boolean'}, b: {enum: [1, 2]}}]]
  .map(([name, properties]) => ({type: 'function', function: {name, description: name, parameters:
    {type: 'object', properties, required: Object.keys(properties), additionalProperties: false}}}));

export const TALK = [{role: 'user', content: 'What now?'}];

/** Whether a call is one of TOOLS, with arguments that its schema allows. */
export function fits({id, type, function: {name, arguments: text}}) {
  const given = JSON.parse(text), names = Object.keys(given).join();
  return type === 'function' && typeof id === 'string' && id !== '' && (name === 'weather'
    ? names === 'city' && ['Bonn', 'Rome'].includes(given.city)
    : name === 'add' && names === 'a,b' && typeof given.a === 'boolean' && [1, 2].includes(given.b));
}

/* ---- in random order ---- */

const must = (truth, ...words) => { if (!truth) throw new Error(words.join(' ')); };
const tick = () => new Promise(resolve => setTimeout(resolve));
const SCHEMA = {type: 'object', properties: {n: {type: 'integer', minimum: 1, maximum: 40}}, required: ['n'],
  additionalProperties: false};
const FORMATS = [
  [{type: 'choices', choices: ['yes', 'no', 'yesterday']}, text => ['yes', 'no', 'yesterday'].includes(text)],
  [{type: 'regex', regex: '[a-f]{2,5}(, [0-9]+)?'}, text => /^[a-f]{2,5}(, [0-9]+)?$/.test(text)],
  [{type: 'json_schema', json_schema: {schema: SCHEMA}}, text => JSON.parse(text).n <= 40],
  [{type: 'grammar', grammar: 'root ::= "<" [xyz]+ ">"'}, text => /^<[xyz]+>$/.test(text)],
];
const WRONG = [{type: 'regex', regex: '(a'}, {type: 'grammar', grammar: 'root ::= "a'},
  {type: 'json_schema', schema: {minLength: -1}}];

/**
 * Answers with formats, tools and log probabilities that are begun, read, left and begun again in
 * random order over one model: everything settles, an answer has the form that was asked for, a
 * call fits its tool, a mistake of the caller's is heard by its own answer, and the model works on.
 */
export async function hostile(load, count, seed) {
  let state = seed;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const below = n => Math.floor(next() * n), reason = new Error('a mistake'), model = await load();
  const seen = {answers: 0, calls: 0, rounds: 0, left: 0, wrong: 0};
  const allowed = error => {
    if (error === reason) seen.wrong++;
    else if (error.code === 'ARGUMENT' && error.message.startsWith('responseFormat: ')) seen.wrong++;
    else throw error;
  };
  const read = async (parts, leaveAfter) => {
    let text = '';
    for (let n = 0; ; n++) {
      const {done, value} = await parts.next();
      if (done) return {text, value};
      text += value;
      if (n === leaveAfter) {
        seen.left++;
        await parts.return();
        return {};
      }
    }
  };
  /* What onToolCall may do. */
  const handlers = [
    () => undefined, () => 'a\ud800 text', () => ({an: ['object']}), async () => { await tick(); return 7; },
    () => { throw reason; }, async () => { await tick(); throw reason; },
    async () => { await read(model.generate('x', {maxTokens: 1})); },
    async () => (await model.saveSession()).length,
    () => model.tokenize('x'),
  ];
  async function formatted(signal, leave) {
    const [responseFormat, isSo] = FORMATS[below(FORMATS.length)], probable = [];
    const options = {responseFormat, seed: 1 + below(1000), temperature: 2, maxTokens: 200, signal,
      logprobs: true, topLogprobs: below(4), onToken: (id, logprob) => probable.push(logprob),
      ...(next() < 0.3 && {logitBias: {40: 5, 41: -Infinity}, bannedTexts: ['q']})};
    const {text, value} = await read(next() < 0.5 ? model.generate('Once', options)
      : model.chat(TALK, {...options, template: TEMPLATE}), leave);
    if (value === 'end') must(isSo(text), `${responseFormat.type}: ${JSON.stringify(text)}`);
    for (const one of probable)
      must(!one || (one.logprob <= 0 && one.topLogprobs.length === options.topLogprobs),
        JSON.stringify(one));
  }
  async function called(signal, leave) {
    const handler = handlers[below(handlers.length)], maxToolRounds = 1 + below(3);
    let told = 0;
    const {value} = await read(model.chat(TALK, {template: TEMPLATE, tools: TOOLS, toolChoice: 'required',
      maxTokens: 150, seed: 1 + below(1000), maxToolRounds, signal, parallelToolCalls: next() < 0.5,
      onToolCall(call) {
        must(fits(call), JSON.stringify(call));
        told++;
        return handler();
      }}), leave);
    seen.calls += told;
    if (!value) return;
    const results = value.messages.filter(({role}) => role === 'tool');
    must(results.length <= told, `${results.length} results of ${told} calls`);
    must(value.messages[0].tool_calls?.length || value.messages[0].content, 'nothing');
    if (results.length) seen.rounds++;
  }
  const open = new Set(), jobs = [];
  const job = (name, run) => {
    const label = `${name} ${jobs.length}`;
    open.add(label);
    jobs.push(run().then(() => { seen.answers++; }, allowed).finally(() => open.delete(label)));
  };
  const step = async () => {
    const stop = new AbortController(), leave = next() < 0.2 ? below(3) : undefined, kind = below(8);
    if (kind < 3) job('format', () => formatted(stop.signal, leave));
    else if (kind < 6) job('calls', () => called(stop.signal, leave));
    else if (kind === 6) job('wrong', () => read(model.generate('x', {responseFormat: WRONG[below(3)]})));
    else job('saving', () => model.saveSession());
    if (next() < 0.2) setTimeout(() => stop.abort(reason), below(20));
    await (next() < 0.6 ? Promise.all(jobs) : tick());
  };
  const run = async () => {
    for (let n = 0; n < count; n++) await step();
    await Promise.all(jobs);
  };
  let timer;
  const hang = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`never settled: ${[...open].join(', ')}`)), 400_000);
  });
  try {
    await Promise.race([run(), hang]);
  } finally {
    clearTimeout(timer);
  }
  await formatted();
  await model.dispose();
  return seen;
}
