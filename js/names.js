/* What the engine calls things: names of numbers that it is asked for, and its enums.
 * tools/make_names.py makes it from bindings/qsf_flat_names.h and include/qsf.h: change those,
 * not this file.
 * SPDX-License-Identifier: MIT */
export const MODEL = (
  'layers embedding heads kvHeads headDim feedForward vocabulary trainedContext parameters ' +
  'weightBytes bos eos encoder classes').split(' ');
export const PLAN = 'planBytes contextLength resident slots batch leastBytes'.split(' ');
export const STATS = (
  'threads promptTokens generatedTokens promptNs generatedNs waitNs prepareNs matmulNs attentionNs ' +
  'otherNs bytesRead readNs checkNs decompressNs headNs overlap layersLeft expertsUsed expertsFound ' +
  'expertsRead expertsBytes draftTokens acceptedTokens').split(' ');
export const STATUS = (
  'OK PENDING ARGUMENT MEMORY IO CORRUPT UNSUPPORTED BUDGET FULL CANCELLED NOT_FOUND').split(' ');
export const OK = 0, PENDING = 1, E_MEMORY = 3, E_IO = 4, E_BUDGET = 7, E_FULL = 8, E_CANCELLED = 9;
export const ENDS = ' end stop length full cancelled failed'.split(' ');
export const EVENT = {
  TEXT: 1, REASONING: 2, CALL: 3, ARGUMENTS: 4, CALL_END: 5, CALL_DROPPED: 6, CALL_CUT: 7};
export const GRAMMAR = {GBNF: 0, REGEX: 1, JSON_SCHEMA: 3, CHOICES: 4};
export const ADD_SPECIAL = 1, PARSE_SPECIAL = 2, WAITING = 256;
