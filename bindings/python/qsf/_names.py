"""The names of the flat interface (bindings/qsf_flat.h).
SPDX-License-Identifier: MIT

tools/make_names.py makes it from bindings/qsf_flat_names.h and include/qsf.h: change those, not this file.
"""
# By number.
STATUS = (
    "OK", "PENDING", "ARGUMENT", "MEMORY", "IO", "CORRUPT", "UNSUPPORTED", "BUDGET", "FULL",
    "CANCELLED", "NOT_FOUND",
)
ENDS = (
    "", "end", "stop", "length", "full", "cancelled", "failed",
)
POOLINGS = (
    "auto", "mean", "cls", "last", "rank", "none",
)
# By name, and whose they are; qsf_flat_find has their numbers.
NUMBERS_OF_MODEL = (
    "layers", "embedding", "heads", "kv-heads", "head-dim", "feed-forward", "vocabulary",
    "trained-context", "parameters", "weight-bytes", "bos", "eos", "encoder", "classes",
)
NUMBERS_OF_PLAN = (
    "plan-bytes", "context-length", "resident", "slots", "batch", "least-bytes",
)
NUMBERS_OF_ITEM = (
    "item-bytes",
)
NUMBERS_OF_STATS = (
    "threads", "prompt-tokens", "generated-tokens", "prompt-ns", "generated-ns", "wait-ns",
    "prepare-ns", "matmul-ns", "attention-ns", "other-ns", "bytes-read", "read-ns", "check-ns",
    "decompress-ns", "head-ns", "overlap", "layers-left", "experts-used", "experts-found",
    "experts-read", "experts-bytes", "draft-tokens", "accepted-tokens",
)
NUMBERS_OF_LAYER = (
    "layer",
)
NUMBERS_OF_LENGTH = (
    "length",
)
NUMBERS_OF_SESSION = (
    "session-bytes",
)
NUMBERS_OF_TURN = (
    "sampling-ns", "prompt", "done", "kept",
)
NUMBERS_OF_PIECE = (
    "token", "end", "cut", "call",
)
NUMBERS_OF_EMBEDDING = (
    "width",
)
NUMBERS_OF_ADAPTER = (
    "matrices", "rank", "alpha", "adapter-bytes",
)
TEXTS_OF_ANY = (
    "error", "version",
)
TEXTS_OF_MODEL = (
    "architecture", "name", "format", "template-source", "chat-template", "warnings",
)
TEXTS_OF_STATS = (
    "isa", "io",
)
TEXTS_OF_PLAN = (
    "item", "reduction",
)
TEXTS_OF_ADAPTER = (
    "adapter",
)
TEXTS_OF_PIECE = (
    "piece", "event", "event-id", "message",
)
TEXTS_OF_SPLIT = (
    "loosened",
)
OPTIONS = (
    "vocab-only", "draft-mtp", "i2s-layout", "chat-template", "tools", "documents", "template-kwargs",
    "now", "continue-final-message", "tool-choice", "parallel-tool-calls", "id-seed", "choice",
    "json-blanks", "json-loose", "pooling", "plain", "score",
)
# Constants of qsf.h.
ANSWER_TEXT = 1
ANSWER_REASONING = 2
ANSWER_CALL = 3
ANSWER_ARGUMENTS = 4
ANSWER_CALL_END = 5
ANSWER_CALL_DROPPED = 6
ANSWER_CALL_CUT = 7
GRAMMAR_GBNF = 0
GRAMMAR_REGEX = 1
GRAMMAR_JSON = 2
GRAMMAR_JSON_SCHEMA = 3
GRAMMAR_CHOICES = 4
GRAMMAR_LARK = 5
TOK_ADD_SPECIAL = 1
TOK_PARSE_SPECIAL = 2
FLAT_WAITING = 256
