/* The package where TypeScript's library does not know Symbol.asyncDispose.
 * SPDX-License-Identifier: MIT */
import {load, type Model} from 'qsf';

const model: Model = await load('model.qsf');
for await (const text of model.generate('Once')) text.length;
await model.dispose();
// @ts-expect-error  no such call: the types are known even so
model.close();
