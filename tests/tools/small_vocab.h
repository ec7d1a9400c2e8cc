/* Two small vocabularies, one for each kind of tokenizer: every byte, a few merges and words,
 * special tokens.
 * SPDX-License-Identifier: MIT */
#ifndef SMALL_VOCAB_H
#define SMALL_VOCAB_H

#include "tokens/tokenizer.h"
#include "text/unicode.h"

#include <stdio.h>

typedef struct small_vocab {
    qsf_vocab v;
    char     text[16384];
    uint32_t at[1024], merges[256];
    uint8_t  types[1024];
    float    scores[1024];
} small_vocab;

static inline uint32_t add_token(small_vocab *s, const char *text, uint8_t type, float score)
{
    const uint32_t id = s->v.n_tokens++, at = s->at[id];
    memcpy(s->text + at, text, strlen(text));
    s->at[id + 1] = at + (uint32_t)strlen(text);
    s->types[id] = type;
    s->scores[id] = score;
    return id;
}

static inline void small_init(small_vocab *s, uint8_t kind, const char *pre)
{
    memset(s, 0, sizeof *s);
    s->v.kind = kind;
    snprintf(s->v.pre, sizeof s->v.pre, "%s", pre);
    s->v.text = s->text;
    s->v.at = s->at;
    s->v.types = s->types;
    s->v.scores = kind == QSF_VOCAB_SPM ? s->scores : NULL;
    s->v.merges = s->merges;
    s->v.bos = s->v.eos = s->v.eot = s->v.unk = s->v.pad = -1;
}

static inline void add_merge(small_vocab *s, const char *left, const char *right)
{
    uint32_t ids[2] = { UINT32_MAX, UINT32_MAX };
    for (uint32_t i = 0; i < s->v.n_tokens; i++)
        for (int k = 0; k < 2; k++) {
            const char *want = k ? right : left;
            if (s->at[i + 1] - s->at[i] == strlen(want) && !memcmp(s->text + s->at[i], want, strlen(want)))
                ids[k] = i;
        }
    s->merges[2 * s->v.n_merges] = ids[0];
    s->merges[2 * s->v.n_merges++ + 1] = ids[1];
}

/* All bytes as tokens, id = byte; then pairs of a, a few words and special tokens. */
enum { BPE_CONTROL = 256, BPE_USER, BPE_AA, BPE_AAAA, BPE_AB, BPE_TOKENS };
static inline void small_bpe(small_vocab *s, const char *pre)
{
    small_init(s, QSF_VOCAB_BPE, pre);
    /* printable Latin-1 is itself, the rest counts up from U+0100 */
    for (int b = 0; b < 256; b++) {
        const bool same = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        const uint32_t c = same ? (uint32_t)b : b < 33 ? 256u + (uint32_t)b : b < 161
            ? 256u + 33 + (uint32_t)b - 127 : 256u + 67;
        char letter[8] = { 0 };
        qsf_utf8_encode(c, letter);
        add_token(s, letter, QSF_TOKEN_NORMAL, 0);
    }
    add_token(s, "<|end|>", QSF_TOKEN_CONTROL, 0);
    add_token(s, "<user>", QSF_TOKEN_USER, 0);
    add_token(s, "aa", QSF_TOKEN_NORMAL, 0);
    add_token(s, "aaaa", QSF_TOKEN_NORMAL, 0);
    add_token(s, "ab", QSF_TOKEN_NORMAL, 0);
    add_merge(s, "a", "b");
    add_merge(s, "a", "a");
    add_merge(s, "aa", "aa");
    add_merge(s, "aa", "zz");                             /* a piece that is not a token: never used */
    s->v.bos = s->v.eos = BPE_CONTROL;
}

/* <unk> <s> </s>, bytes from 3 on, then words. */
enum { SPM_WORDS = 259, SPM_SPACE = SPM_WORDS, SPM_H, SPM_I, SPM_HI, SPM_SPACE_H, SPM_SPACE_HI,
       SPM_TURN, SPM_USER };
static inline void small_spm(small_vocab *s)
{
    small_init(s, QSF_VOCAB_SPM, "");
    add_token(s, "<unk>", QSF_TOKEN_UNKNOWN, 0);
    add_token(s, "<s>", QSF_TOKEN_CONTROL, 0);
    add_token(s, "</s>", QSF_TOKEN_CONTROL, 0);
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        add_token(s, text, QSF_TOKEN_BYTE, 0);
    }
    add_token(s, "\xe2\x96\x81", QSF_TOKEN_NORMAL, -10);
    add_token(s, "h", QSF_TOKEN_NORMAL, -11);
    add_token(s, "i", QSF_TOKEN_NORMAL, -12);
    add_token(s, "hi", QSF_TOKEN_NORMAL, -1);
    add_token(s, "\xe2\x96\x81h", QSF_TOKEN_NORMAL, -2);
    add_token(s, "\xe2\x96\x81hi", QSF_TOKEN_NORMAL, -3);
    add_token(s, "<turn>", QSF_TOKEN_CONTROL, 0);
    add_token(s, "hh", QSF_TOKEN_USER, 0);
    s->v.unk = 0;
    s->v.bos = 1;
    s->v.eos = 2;
    s->v.add_bos = s->v.add_space_prefix = true;
}

/* The tokens of small_spm for the kinds that find tokens from a word's beginning. */
static inline void small_words(small_vocab *s, uint8_t kind)
{
    small_spm(s);
    s->v.kind = kind;
    s->v.lowercase = s->v.strip_accents = kind == QSF_VOCAB_WPM;
    s->v.merge_spaces = kind == QSF_VOCAB_UGM;
    s->v.sep = 2;
    s->v.add_sep = kind == QSF_VOCAB_WPM;
}

#endif
