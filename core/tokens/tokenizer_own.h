/* The tokenizer's tables, shared by its parts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TOKENIZER_OWN_H
#define QSF_TOKENIZER_OWN_H

#include "base/arena.h"
#include "tokens/pretokenize.h"
#include "tokens/steps.h"
#include "tokens/tokenizer.h"

/* Finds added tokens: a hash table, and the token lengths for each first byte (bit 63: 63 bytes or
 * more). */
typedef struct token_finder {
    uint32_t   *slots;                /* index in the list of added tokens + 1; 0: empty */
    uint32_t    mask;
    uint32_t    longest[256];
    uint64_t    lengths[256];
    steps_bytes *texts;               /* [n_added] what each is matched by; empty if it is not in here */
} token_finder;

struct qsf_tokenizer {
    const qsf_platform *platform;
    const qsf_vocab    *vocab;
    qsf_arena *arena;
    const qsf_pretokenizer *pre;      /* BPE */
    unsigned   rules;                 /* QSF_PRE_* */
    /* by the hash of a token's text: id + 1 in the mask's bits, above them the rest of the hash; 0:
     * empty */
    uint32_t  *by_text;
    uint32_t   text_mask;
    bool       twins;                 /* tokens with the same text; the first one is in by_text */
    uint32_t  *by_pair;               /* hash of two tokens -> the vocabulary's merge of them + 1; 0 empty */
    uint32_t   pair_mask;
    /* [n_merges] the token that a merge makes; those that make none are not in by_pair */
    uint32_t  *merged;
    char      *pieces;                /* decoded bytes of all tokens */
    uint32_t  *piece_at;              /* [n_tokens + 1] */
    int32_t    byte_tokens[256];      /* BPE: the letter of a byte; SPM: <0xXX>; -1: none */
    uint32_t   longest;               /* bytes of the longest token text */
    /* by first byte: bit n of the 128 says that a special token of n + 1 bytes begins with it */
    uint32_t   special_lengths[256][4];
    uint8_t    longest_special[256];
    uint32_t   special_pairs[256][8];         /* bit b of the 256: byte b may follow */
    /* by the hash of four bytes: bit n says that a token of n bytes begins with them; 63: as many
     * or more */
    uint64_t  *begins;
    int32_t    strips;                /* a special token that takes the white space before it; -1: none */
    /* SPM: bit b: a token has byte b before U+2581; after other bytes U+2581 begins a token */
    uint32_t   before_space[8];
    double     unknown_score;         /* UGM */
    bool       phi3;                  /* its special tokens take the white space after them */
    int32_t    unk;                   /* token for unknown characters; -1: they are dropped */
    qsf_steps *steps;                 /* QSF_VOCAB_STEPS only, else NULL, as are the next three */
    token_finder *find_raw, *find_normal;     /* matched in the raw input; in the normalized text */
    uint32_t  *added_at;              /* [n_tokens] index in the list of added tokens + 1; 0: not added */
};

static inline const char *token_text(const qsf_tokenizer *t, uint32_t id, size_t *len)
{
    *len = t->vocab->at[id + 1] - t->vocab->at[id];
    return t->vocab->text + t->vocab->at[id];
}

/* The slot of by_pair where the merge of two tokens is, or an empty one. */
static inline uint32_t token_pair_slot(const qsf_tokenizer *t, uint32_t left, uint32_t right)
{
    const uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    uint32_t i = ((uint32_t)(h >> 32) ^ (uint32_t)(h >> 11)) & t->pair_mask;
    for (; t->by_pair[i]; i = (i + 1) & t->pair_mask) {
        const uint32_t *pair = t->vocab->merges + 2 * (size_t)(t->by_pair[i] - 1);
        if (pair[0] == left && pair[1] == right) break;
    }
    return i;
}

/* Whether a token exists only as an added one, not in the model. */
static inline bool token_apart(const qsf_tokenizer *t, uint32_t id)
{
    const uint32_t i = t->added_at ? t->added_at[id] : 0;
    return i && t->steps->added[i - 1].flags & STEPS_APART;
}

/* Where ids go: keeps counting when the room is used up. */
typedef struct token_sink {
    int32_t *ids;
    size_t   cap, n;
} token_sink;
static inline void token_put(token_sink *s, int32_t id)
{
    if (s->n < s->cap) s->ids[s->n] = id;
    s->n++;
}

/* Memory that grows, for one call. */
typedef struct token_buffer { void *mem; uint64_t size; } token_buffer;
qsf_status qsf_token_buffer_need(const qsf_tokenizer *t, token_buffer *b, uint64_t size, qsf_error *err);
void       qsf_token_buffer_done(const qsf_tokenizer *t, token_buffer *b);

/* What encoding works in. */
typedef struct token_work {
    const qsf_tokenizer *t;
    token_sink  *sink;
    qsf_error   *err;
    token_buffer points, text, symbols, heap, nfc;
    bool         invalid;             /* the text is not UTF-8 */
} token_work;

/* A symbol of BPE; id UINT32_MAX: merged into the previous one. */
typedef struct bpe_symbol { uint32_t id; int32_t prev, next; } bpe_symbol;
/* Merges the symbols s[0..len) of one word; heap has room for 3 * len. */
struct merge_candidate;
void qsf_bpe_merge(const qsf_tokenizer *t, bpe_symbol *s, size_t len, struct merge_candidate *heap);

/* The plain text of a fragment, special tokens already taken out. */
qsf_status qsf_bpe_encode(token_work *w, const char *text, size_t len);                  /* tokenizer_bpe.c */
/* tokenizer_spm.c; space: begins with an added one */
qsf_status qsf_spm_encode(token_work *w, const char *text, size_t len, bool space);
void       qsf_spm_new(qsf_tokenizer *t);

qsf_status qsf_wpm_encode(token_work *w, const char *text, size_t len);                  /* tokenizer_wpm.c */
qsf_status qsf_ugm_encode(token_work *w, const char *text, size_t len);                  /* tokenizer_ugm.c */
qsf_status qsf_ugm_tokens(token_work *w, const char *normalized, size_t n);     /* its model only */
qsf_status qsf_rwkv_encode(token_work *w, const char *text, size_t len);        /* tokenizer_prefix.c */
qsf_status qsf_plamo_encode(token_work *w, const char *text, size_t len);       /* tokenizer_plamo.c */

/* tokenizer_steps.c: reads the vocabulary's steps; encodes text, including added tokens. */
qsf_status qsf_steps_new(qsf_tokenizer *t, qsf_error *err);
qsf_status qsf_steps_ready(qsf_tokenizer *t, qsf_error *err);       /* once token texts can be looked up */
qsf_status qsf_steps_encode(token_work *w, const char *text, size_t len, const qsf_text_span *spans,
                            size_t n_spans);
/* tokenizer_steps_decode.c: a token's bytes; *piece may point into work. */
qsf_status qsf_steps_piece(const qsf_tokenizer *t, uint32_t id, token_buffer work[2], const char **piece,
                           size_t *len, qsf_error *err);

/* SentencePiece's character map: finds the longest (or shortest) key that text begins with; returns
 * its replacement, NULL if no key matches. */
const char *qsf_charsmap_find(const uint8_t *map, uint32_t map_len, const char *text, size_t len,
                              bool shortest,
                              size_t *used, size_t *n);

/* The tokens that text[0..len) begins with, the shortest first, without those that text never
 * makes. */
typedef struct prefix_walk {
    const char *text;
    size_t      len, n;               /* n: bytes of the token that was found last */
    uint32_t    hash;
    uint64_t    lengths;
} prefix_walk;
qsf_status  qsf_prefix_new(qsf_tokenizer *t, qsf_error *err);                   /* tokenizer_prefix.c */
prefix_walk qsf_prefix_begin(const qsf_tokenizer *t, const char *text, size_t len);
int32_t     qsf_prefix_next(const qsf_tokenizer *t, prefix_walk *p);                     /* -1: no more */
/* The longest of them and its bytes; -1: none. */
int32_t     qsf_prefix_longest(const qsf_tokenizer *t, const char *text, size_t len, size_t *n);

/* The hash of a token's text, byte by byte (FNV-1a), and its last step. */
static const uint32_t token_hash_begin = 2166136261u;
static inline uint32_t token_hash_byte(uint32_t h, char byte) { return (h ^ (uint8_t)byte) * 16777619u; }
int32_t qsf_token_hashed(const qsf_tokenizer *t, uint32_t hash, const char *text, size_t len);
/* tokenizer_find.c: the table of texts; the table of merges, which needs that of texts. */
qsf_status qsf_token_texts_new(qsf_tokenizer *t, qsf_error *err);
qsf_status qsf_token_merges_new(qsf_tokenizer *t, qsf_error *err);

/* A binary heap of pairs to merge: smallest key first, then the leftmost. */
typedef struct merge_candidate { uint64_t key; uint32_t left, right, left_id, right_id; } merge_candidate;
void            qsf_merge_push(merge_candidate *heap, size_t *n, merge_candidate x);
merge_candidate qsf_merge_pop(merge_candidate *heap, size_t *n);

/* The byte that a GPT-2 letter stands for; -1: none. */
int qsf_letter_byte(uint32_t c);
/* GPT-2's letter for a byte: printable Latin-1 stays, the rest is counted up from U+0100. */
uint32_t qsf_byte_letter(uint8_t b);

#endif
