/* The names of the flat interface: one table, from which C has its enums, and tools/make_names.py
 * makes js/names.js, bindings/python/qsf/_names.py and the tables of docs/flat.md.
 * SPDX-License-Identifier: MIT
 *
 * Programs look up the index of a name when they start (qsf_flat_find), so rows may be added
 * anywhere. */
#ifndef QSF_FLAT_NAMES_H
#define QSF_FLAT_NAMES_H

/* Numbers: X(constant, name, whose it is, member of flat_facts, what it is). */
#define QSF_FLAT_NUMBERS(X)                                                                                  \
    X(LAYERS, "layers", MODEL, model.n_layers, "layers")                                                     \
    X(EMBEDDING, "embedding", MODEL, model.n_embd, "floats of a hidden state")                               \
    X(HEADS, "heads", MODEL, model.n_heads, "attention heads; the most of a layer")                          \
    X(KV_HEADS, "kv-heads", MODEL, model.n_kv_heads, "heads of keys and values")                             \
    X(HEAD_DIM, "head-dim", MODEL, model.head_dim, "floats of a head")                                       \
    X(FEED_FORWARD, "feed-forward", MODEL, model.n_ff, "floats inside a feed-forward")                       \
    X(VOCABULARY, "vocabulary", MODEL, model.n_vocab, "tokens")                                              \
    X(TRAINED_CONTEXT, "trained-context", MODEL, model.n_ctx_train, "positions of the training")             \
    X(PARAMETERS, "parameters", MODEL, model.n_params, "weights in all tensors")                             \
    X(WEIGHT_BYTES, "weight-bytes", MODEL, model.weight_bytes, "their bytes in the file")                    \
    X(BOS, "bos", MODEL, bos, "the begin-of-text token; -1: none")                                           \
    X(EOS, "eos", MODEL, eos, "the end-of-text token; -1: none")                                             \
    X(ENCODER, "encoder", MODEL, model.encoder, "1: embeddings only")                                        \
    X(CLASSES, "classes", MODEL, model.n_classes, "scores of the file's classifier; 0: none")                \
    X(PLAN_BYTES, "plan-bytes", PLAN, plan.total, "memory of the plan")                                      \
    X(CONTEXT_LENGTH, "context-length", PLAN, plan.n_ctx, "positions")                                       \
    X(RESIDENT, "resident", PLAN, plan.resident, "1: all layers stay in memory")                             \
    X(SLOTS, "slots", PLAN, plan.n_slots, "buffers through which layers are streamed")                       \
    X(BATCH, "batch", PLAN, plan.n_batch, "rows of a batch")                                                 \
    X(LEAST_BYTES, "least-bytes", PLAN, plan.least, "the smallest memory budget that works")                 \
    X(ITEM_BYTES, "item-bytes", ITEM, item_bytes, "of the i-th part of the plan; -1: past the last")         \
    X(THREADS, "threads", STATS, stats.n_threads, "threads that compute")                                    \
    X(PROMPT_TOKENS, "prompt-tokens", STATS, stats.tokens_prompt, "rows of prompts that were computed")      \
    X(GENERATED_TOKENS, "generated-tokens", STATS, stats.tokens_generated, "rows of answers")                \
    X(PROMPT_NS, "prompt-ns", STATS, stats.ns_prompt, "time of prompts")                                     \
    X(GENERATED_NS, "generated-ns", STATS, stats.ns_generated, "time of answers")                            \
    X(WAIT_NS, "wait-ns", STATS, stats.ns_wait_io, "time in which a layer was waited for")                   \
    X(PREPARE_NS, "prepare-ns", STATS, stats.ns_prepare, "checking, decompressing and repacking")            \
    X(MATMUL_NS, "matmul-ns", STATS, stats.ns_matmul, "products of the layers")                              \
    X(ATTENTION_NS, "attention-ns", STATS, stats.ns_attention, "attention")                                  \
    X(OTHER_NS, "other-ns", STATS, stats.ns_other, "the rest")                                               \
    X(BYTES_READ, "bytes-read", STATS, stats.bytes_read, "bytes of the file")                                \
    X(READ_NS, "read-ns", STATS, stats.ns_read, "reads were in progress")                                    \
    X(CHECK_NS, "check-ns", STATS, stats.ns_check, "checksums, a part of prepare-ns")                        \
    X(DECOMPRESS_NS, "decompress-ns", STATS, stats.ns_decompress, "a part of prepare-ns")                    \
    X(HEAD_NS, "head-ns", STATS, stats.ns_head, "products of the head")                                      \
    X(OVERLAP, "overlap", STATS, stats.overlap, "share of reading and preparing that cost no time: 0 to 1")  \
    X(LAYERS_LEFT, "layers-left", STATS, stats.layers_left, "layers that early exit skipped")                \
    X(EXPERTS_USED, "experts-used", STATS, stats.experts_used, "experts that batches used")                  \
    X(EXPERTS_FOUND, "experts-found", STATS, stats.experts_found, "of these, in memory")                     \
    X(EXPERTS_READ, "experts-read", STATS, stats.experts_read, "of these, read")                             \
    X(EXPERTS_BYTES, "experts-bytes", STATS, stats.experts_bytes, "their bytes")                             \
    X(DRAFT_TOKENS, "draft-tokens", STATS, guessed, "guesses that were checked")                             \
    X(ACCEPTED_TOKENS, "accepted-tokens", STATS, right, "of these, those that were right")                   \
    X(LAYER, "layer", LAYER, length, "layers of the unfinished batch that are computed")                     \
    X(LENGTH, "length", LENGTH, length, "positions of the conversation")                                     \
    X(SESSION_BYTES, "session-bytes", SESSION, session_bytes, "size of its session file")                    \
    X(SAMPLING_NS, "sampling-ns", TURN, turn.ns_sampling, "time of choosing tokens")                         \
    X(PROMPT, "prompt", TURN, turn.n_prompt, "tokens of the prompt")                                         \
    X(DONE, "done", TURN, turn.n_done, "tokens of the prompt that are computed, kept ones included")         \
    X(KEPT, "kept", TURN, turn.n_kept, "of these, tokens that the conversation held before")                 \
    X(TOKEN, "token", PIECE, piece.token, "the piece's token; -1: it is the last piece")                     \
    X(END, "end", PIECE, piece.end, "why the answer has ended; 0: it has not")                               \
    X(CUT, "cut", PIECE, piece.cut, "1: an incomplete character was left out at the end")                    \
    X(CALL, "call", PIECE, event.call, "the event's tool call, from 0")                                      \
    X(WIDTH, "width", EMBEDDING, width, "floats per result")                                                 \
    X(MATRICES, "matrices", ADAPTER, adapter.n_matrices, "matrices that an adapter changes")                 \
    X(RANK, "rank", ADAPTER, adapter.rank, "the largest")                                                    \
    X(ALPHA, "alpha", ADAPTER, adapter.alpha, "0: not in the file")                                          \
    X(ADAPTER_BYTES, "adapter-bytes", ADAPTER, adapter.bytes, "memory of an adapter")

/* Texts: X(constant, name, whose it is, what it is). */
#define QSF_FLAT_TEXTS(X)                                                                                    \
    X(ERROR, "error", ANY, "the last error of the handle")                                                   \
    X(VERSION, "version", ANY, "of the library")                                                             \
    X(ARCHITECTURE, "architecture", MODEL, "llama, gemma3, ...")                                             \
    X(NAME, "name", MODEL, "the model's name")                                                               \
    X(FORMAT, "format", MODEL, "QSF or GGUF")                                                                \
    X(TEMPLATE_SOURCE, "template-source", MODEL, "the chat template in Jinja")                               \
    X(CHAT_TEMPLATE, "chat-template", MODEL, "the template that is used")                                    \
    X(WARNINGS, "warnings", MODEL, "lines: what the context, or its plan, reduced that may change answers")  \
    X(ISA, "isa", STATS, "the kernels' instruction set")                                                     \
    X(IO, "io", STATS, "how the file is read")                                                               \
    X(ITEM, "item", PLAN, "name of the i-th part of the plan")                                               \
    X(REDUCTION, "reduction", PLAN, "the i-th thing that was reduced to stay within the budget")             \
    X(ADAPTER, "adapter", ADAPTER, "name of an adapter")                                                     \
    X(PIECE, "piece", PIECE, "text of the last piece of the answer")                                         \
    X(EVENT, "event", PIECE, "text of the last event")                                                       \
    X(EVENT_ID, "event-id", PIECE, "id of the tool call that begins")                                        \
    X(MESSAGE, "message", PIECE, "the answer so far as a message, in JSON")                                  \
    X(LOOSENED, "loosened", SPLIT, "lines: keywords of tools' schemas that are not enforced")

/* Options besides those of qsf_context_option, qsf_sampler_option and qsf_turn_option: X(name, kind
 * of value, member of flat_asked, whose it is, what it is). */
#define QSF_FLAT_OPTIONS(X)                                                                                  \
    X("vocab-only", FLAG, vocab_only, MODEL, "only description and tokenizer")                               \
    X("draft-mtp", FLAG, draft_mtp, MODEL, "its layer for multi-token prediction makes guesses")             \
    X("i2s-layout", TEXT, i2s_layout, MODEL, "auto, qk256, split32, ...: docs/bitnet-files.md")              \
    X("chat-template", TEXT, chat.chat_template, CHAT, "name or source of a template")                       \
    X("tools", TEXT, chat.tools, CHAT, "JSON: a list")                                                       \
    X("documents", TEXT, chat.documents, CHAT, "JSON: a list")                                               \
    X("template-kwargs", TEXT, chat.kwargs, CHAT, "JSON: an object of more variables")                       \
    X("now", WHOLE, chat.now, CHAT, "the date, in seconds since 1970")                                       \
    X("continue-final-message", FLAG, chat.continue_final_message, CHAT, "end within the last message")      \
    X("tool-choice", TEXT, tool_choice, ANSWER, "auto, none, required, or a tool's name")                    \
    X("parallel-tool-calls", FLAG, parallel, ANSWER, "several calls in one answer")                          \
    X("id-seed", WHOLE, id_seed, ANSWER, "of the ids of tool calls")                                         \
    X("choice", WHOLE, choice, ANSWER, "which answer to one prompt with this seed; from 0")                  \
    X("json-blanks", WHOLE, json_blanks, ANSWER, "white space in JSON; -1: any number")                      \
    X("json-loose", FLAG, json_loose, ANSWER, "ignore unsupported keywords of a schema")                     \
    X("pooling", TEXT, pooling, EMBEDDING, "auto, mean, cls, last, rank or none")                            \
    X("plain", FLAG, plain, EMBEDDING, "embeddings are not scaled to length 1")                              \
    X("score", FLAG, score, EMBEDDING, "texts are pairs of a query and a document, to be ranked")

/* Words for the values of qsf.h's enums, in other languages: X(constant of qsf.h, word). */
#define QSF_FLAT_ENDS(X)                                                                                     \
    X(QSF_TURN_GOES_ON, "")                                                                                  \
    X(QSF_TURN_END_TOKEN, "end")                                                                             \
    X(QSF_TURN_STOP_TEXT, "stop")                                                                            \
    X(QSF_TURN_MOST, "length")                                                                               \
    X(QSF_TURN_FULL, "full")                                                                                 \
    X(QSF_TURN_CANCELLED, "cancelled")                                                                       \
    X(QSF_TURN_FAILED, "failed")
#define QSF_FLAT_POOLINGS(X)                                                                                 \
    X(QSF_POOL_NONE, "auto")                                                                                 \
    X(QSF_POOL_MEAN, "mean")                                                                                 \
    X(QSF_POOL_FIRST, "cls")                                                                                 \
    X(QSF_POOL_LAST, "last")                                                                                 \
    X(QSF_POOL_RANK, "rank")                                                                                 \
    X(QSF_POOL_TOKENS, "none")

/* The constants of the two lists. */
typedef enum qsf_flat_number_name {
#define X(constant, name, whose, member, help) QSF_NUMBER_##constant,
    QSF_FLAT_NUMBERS(X)
#undef X
    QSF_N_NUMBERS
} qsf_flat_number_name;
typedef enum qsf_flat_text_name {
#define X(constant, name, whose, help) QSF_TEXT_##constant,
    QSF_FLAT_TEXTS(X)
#undef X
    QSF_N_TEXTS
} qsf_flat_text_name;

#endif
