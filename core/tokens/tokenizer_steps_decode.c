/* Decodes tokens by a tokenizer's steps, one token at a time.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"

enum { DECODE_MOST = 4 * 65536 };       /* longest text of one token */

/* Maps letters to bytes, all or none of them: false if one stands for no byte. */
static bool decode_letters_whole(const char *text, size_t len, char *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0, used; i < len; i += used) {
        const int b = qsf_letter_byte(qsf_utf8_decode(text + i, len - i, &used));
        if (b < 0) return false;
        if (out) out[*n] = (char)b;
        ++*n;
    }
    return true;
}

/* Applies one step; out NULL: only counts. */
static size_t decode_step(const steps_decode *d, const char *text, size_t len, char *out)
{
    size_t n = 0, i = 0;
    if (d->op == DECODE_LETTERS) {
        if (decode_letters_whole(text, len, out, &n)) return n;
        if (out) memcpy(out, text, len);
        return len;
    }
    if (d->op == DECODE_LEAD) {
        const bool has = d->from.n && len >= d->from.n && !memcmp(text, d->from.s, d->from.n);
        const size_t skip = has ? d->from.n : 0, put = has ? 0 : d->to.n;
        if (out) {
            memcpy(out, d->to.s, put);
            memcpy(out + put, text + skip, len - skip);
        }
        return put + len - skip;
    }
    while (i < len) {
        const bool here = len - i >= d->from.n && !memcmp(text + i, d->from.s, d->from.n);
        const size_t put = here ? d->to.n : 1;
        if (out) memcpy(out + n, here ? d->to.s : text + i, put);
        n += put;
        i += here ? d->from.n : 1;
    }
    return n;
}

/* The token's text; for an added token the string it is matched by. */
static const char *decode_begin(const qsf_tokenizer *t, uint32_t id, size_t *len)
{
    const uint32_t i = t->added_at[id];
    const steps_bytes *found = i ? &t->find_normal->texts[i - 1] : NULL;
    if (!found || !found->n) return token_text(t, id, len);
    *len = found->n;
    return found->s;
}

qsf_status qsf_steps_piece(const qsf_tokenizer *t, uint32_t id, token_buffer work[2], const char **piece,
                           size_t *len, qsf_error *err)
{
    const uint8_t type = t->vocab->types[id];
    unsigned k = 0;
    *piece = decode_begin(t, id, len);
    if (type == QSF_TOKEN_UNUSED) *len = 0;
    if (type == QSF_TOKEN_BYTE) {
        const qsf_status st = qsf_token_buffer_need(t, &work[0], 1, err);
        if (st) return st;
        *len = 0;
        for (int b = 0; b < 256 && !*len; b++) {
            *(char *)work[0].mem = (char)b;
            *len = t->byte_tokens[b] == (int32_t)id;
        }
        *piece = work[0].mem;
        return QSF_OK;
    }
    for (uint32_t i = 0; i < t->steps->n_decode && *len; i++, k ^= 1) {
        const steps_decode *d = &t->steps->decode[i];
        const size_t n = decode_step(d, *piece, *len, NULL);
        if (n > DECODE_MOST)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "token %u stands for more than %d bytes", (unsigned)id,
                            (int)DECODE_MOST);
        const qsf_status st = qsf_token_buffer_need(t, &work[k], n + 1, err);
        if (st) return st;
        decode_step(d, *piece, *len, work[k].mem);
        *piece = work[k].mem;
        *len = n;
    }
    return QSF_OK;
}
