/* Experts of a file at a URL that does not fit in a budget: those that the router has chosen are
 * requested, and no others.
 * SPDX-License-Identifier: MIT */
import assert from 'node:assert/strict';
import {before, test} from 'node:test';
import {FILES, PROMPT, TOKENS, makeMixtures, native, onlyChosen} from './mixtures.js';
import {collect, fileServer, load} from './tools.js';

before(makeMixtures);

for (const [name, {file, bytes, memory}] of Object.entries(FILES))
  for (const threads of [1, 2])
    test(`experts of a ${name} file are asked for when they are chosen, ${threads} threads`, async t => {
      const server = await fileServer(file), ids = [];
      let model;
      try {
        model = await load(server.url, {threads, contextLength: 64, cache: false, memory});
        assert.equal(model.info.resident, false);
        const begun = await model.stats(), opened = server.asked.length;
        const onToken = id => ids.push(id);
        await collect(model.generate(PROMPT, {temperature: 0, maxTokens: TOKENS, onToken}));
        assert.deepEqual(ids, native(file));
        t.diagnostic(onlyChosen(server.asked.slice(opened), begun, await model.stats(), bytes));
      } finally {
        await model?.dispose();
        server.close();
      }
    });
