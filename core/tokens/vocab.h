/* A vocabulary as data: the tokens of a model file.  Readers fill it, tokenizers are made from it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_VOCAB_H
#define QSF_VOCAB_H

#include "base/arena.h"

/* WPM: WordPiece.  UGM: Unigram.  RWKV: longest match.  PLAMO: PLaMo 2's Unigram, from the end.
 * STEPS: any tokenizer.json, as described in text/steps.h. */
enum { QSF_VOCAB_NONE = 0, QSF_VOCAB_BPE = 1, QSF_VOCAB_SPM = 2, QSF_VOCAB_WPM = 3, QSF_VOCAB_UGM = 4,
       QSF_VOCAB_RWKV = 5, QSF_VOCAB_PLAMO = 6, QSF_VOCAB_STEPS = 7, QSF_VOCAB_KINDS };
/* GGUF's token types */
enum { QSF_TOKEN_NORMAL = 1, QSF_TOKEN_UNKNOWN = 2, QSF_TOKEN_CONTROL = 3, QSF_TOKEN_USER = 4,
       QSF_TOKEN_UNUSED = 5, QSF_TOKEN_BYTE = 6 };

/* Further chat templates by name: "tool_use", "rag". */
enum { QSF_VOCAB_TEMPLATES = 6, QSF_VOCAB_TEMPLATE_NAME = 32 };
typedef struct qsf_vocab_chat { char name[QSF_VOCAB_TEMPLATE_NAME]; char *text; } qsf_vocab_chat;

typedef struct qsf_vocab {
    uint8_t   kind;
    /* GGUF's pre-tokenizer name: "llama-bpe", "qwen2", "smollm", "default", ... */
    char      pre[32];
    uint32_t  n_tokens;
    /* all tokens' bytes, as the file has them (BPE: GPT-2's byte letters; SPM, UGM and
     * WPM's first pieces of words: U+2581 for space; RWKV: the bytes themselves) */
    char     *text;
    uint32_t *at;                 /* [n_tokens + 1] places in text */
    uint8_t  *types;              /* [n_tokens] */
    float    *scores;             /* [n_tokens], SPM, UGM, PLAMO; else NULL */
    uint32_t  n_merges;
    uint32_t *merges;             /* [n_merges][2] token ids, best first; BPE */
    int32_t   bos, eos, eot, unk, pad, sep;   /* -1: none */
    bool      add_bos, add_eos, add_space_prefix;
    bool      add_sep;                    /* sep after the text; WPM */
    bool      lowercase, strip_accents;   /* WPM */
    bool      merge_spaces, space_suffix; /* UGM: runs of spaces are one; the added space is at the end */
    /* text is brought to NFC before (Hugging Face's normalizer of Qwen; GGUF does not) */
    bool      nfc;
    /* UGM's normaliser as SentencePiece precompiles it: u32 bytes of a trie, the trie, texts that
     * end in 0; NULL: none */
    uint8_t  *charsmap;
    uint32_t  charsmap_len;
    uint8_t  *steps;              /* STEPS, stored as in docs/format.md; else NULL */
    uint32_t  steps_len;
    uint32_t  n_eog;
    int32_t   eog[16];            /* further tokens that end a turn */
    char     *chat_template;      /* terminated, or NULL */
    uint32_t  n_more;
    qsf_vocab_chat more[QSF_VOCAB_TEMPLATES];
} qsf_vocab;

/* Adds a copy of a chat template; "default" is chat_template itself.  A template is ignored if its
 * name has characters other than letters and digits, is already used, or does not fit. */
qsf_status  qsf_vocab_template(qsf_vocab *v, qsf_arena *a, const char *name, size_t name_len,
                               const char *text, size_t len, qsf_error *err);
const char *qsf_vocab_chat_named(const qsf_vocab *v, const char *name);     /* of `more`; NULL: none */
/* A copy of Unigram's normaliser; one whose trie does not fit its bytes is QSF_E_CORRUPT. */
qsf_status  qsf_vocab_charsmap(qsf_vocab *v, qsf_arena *a, const void *bytes, uint64_t len, const char *path,
                               qsf_error *err);

#endif
