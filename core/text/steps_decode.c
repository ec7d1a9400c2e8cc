/* Tokens to text by a tokenizer's steps, one token at a time.
 * SPDX-License-Identifier: MIT */
#include "text/tokenizer_own.h"

enum { DECODE_MOST = 4 * 65536 };       /* bytes that a token may become */

/* All characters as bytes, or none: false where one stands for no byte. */
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

/* A decoding step reads bytes of the step before it; the first one those of the token.  Each is
 * asked for the whole text, by counting where there is no room. */
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

size_t qsf_steps_piece(const qsf_tokenizer *t, uint32_t id, char *out)
{
    size_t len;
    const char *text = token_text(t, id, &len);
    const qsf_steps *s = t->steps;
    const uint8_t type = t->vocab->types[id];
    if (type == QSF_TOKEN_UNUSED) return 0;
    if (t->added_at[id]) {              /* as it is found in a text, which is how the library has it */
        const uint32_t i = t->added_at[id] - 1;
        const steps_bytes *found = s->added[i].flags & STEPS_NORMALIZED ? &t->find_normal->texts[i] : NULL;
        if (found && found->n) {
            text = found->s;
            len = found->n;
        }
    }
    if (type == QSF_TOKEN_BYTE) {
        for (int b = 0; b < 256; b++)
            if (t->byte_tokens[b] == (int32_t)id) {
                if (out) out[0] = (char)b;
                return 1;
            }
        return 0;
    }
    if (!s->n_decode) {
        if (out) memcpy(out, text, len);
        return len;
    }
    token_buffer buffers[2] = { { 0 } };
    for (uint32_t k = 0; k < s->n_decode; k++) {
        const size_t n = decode_step(&s->decode[k], text, len, NULL);
        if (n > DECODE_MOST || token_buffer_need(t, &buffers[k % 2], n + 1, NULL)) {
            len = 0;
            break;
        }
        decode_step(&s->decode[k], text, len, buffers[k % 2].mem);
        text = buffers[k % 2].mem;
        len = n;
    }
    if (out && len) memcpy(out, text, len);
    for (int i = 0; i < 2; i++)
        if (buffers[i].mem) qsf_dealloc(t->platform, buffers[i].mem, buffers[i].size);
    return len;
}
