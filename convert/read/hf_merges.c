/* The merges of a tokenizer.json.
 * SPDX-License-Identifier: MIT */
#include "read/hf_tokenizer.h"

#ifdef QSF_HAVE_YYJSON

#define FILE_NAME "tokenizer.json"

bool qsf_hf_merge_parts(yyjson_val *v, const char **a, size_t *alen, const char **c, size_t *clen)
{
    size_t len;
    if (yyjson_is_arr(v)) {
        *a = qsf_json_str(yyjson_arr_get_first(v), alen);
        *c = qsf_json_str(yyjson_arr_get_last(v), clen);
        return yyjson_arr_size(v) == 2 && *a && *c;
    }
    const char *s = qsf_json_str(v, &len), *space = s && len > 1 ? strchr(s + 1, ' ') : NULL;
    if (!space) return false;
    *a = s;
    *alen = (size_t)(space - s);
    *c = space + 1;
    *clen = len - *alen - 1;
    return true;
}

qsf_status qsf_hf_merges(vocab_build *b, yyjson_val *model, bool spm, const char *prefix, qsf_error *err)
{
    const size_t skip = strlen(prefix);
    size_t i, n, alen, clen;
    yyjson_val *v, *list = qsf_json_get(model, "merges");
    const char *a, *c;
    qsf_vocab *out = b->out;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > UINT32_MAX / 2)
        return qsf_fail(err, QSF_E_CORRUPT, FILE_NAME ": no merges");
    if (!spm && !(out->merges = qsf_arena_array(b->arena, yyjson_arr_size(list), 2 * sizeof *out->merges,
                                                "merges", err)))
        return QSF_E_MEMORY;
    yyjson_arr_foreach(list, i, n, v) {
        if (!qsf_hf_merge_parts(v, &a, &alen, &c, &clen))
            return qsf_fail(err, QSF_E_CORRUPT, FILE_NAME ": merge %zu is not a pair", i);
        const size_t more = skip && clen >= skip && !memcmp(c, prefix, skip) ? skip : 0;
        const int32_t x = qsf_vocab_find2(b, a, alen, "", 0), y = qsf_vocab_find2(b, c, clen, "", 0),
                      made = qsf_vocab_find2(b, a, alen, c + more, clen - more);
        if (x < 0 || y < 0 || made < 0)
            return qsf_fail(
                err, QSF_E_CORRUPT,
                FILE_NAME
                ": merge %zu joins \"%.*s\" and \"%.*s\", and one of these or the result is not a token",
                i, (int)QSF_MIN(alen, 40), a, (int)QSF_MIN(clen, 40), c);
        if (!spm) {
            out->merges[2 * i] = (uint32_t)x;
            out->merges[2 * i + 1] = (uint32_t)y;
        } else if (b->tokens[made].score == 0) {
            /* SentencePiece joins the pair with the best-scoring result: the token's rank is that
             * of its first merge. */
            b->tokens[made].score = -1 - (float)i;
        }
    }
    if (!spm) out->n_merges = (uint32_t)n;
    for (uint32_t id = 0; spm && id < b->n; id++)           /* tokens without a merge rank last */
        if (b->tokens[id].text && b->tokens[id].score == 0) b->tokens[id].score = -2 - (float)n;
    return QSF_OK;
}

#undef FILE_NAME
#endif
