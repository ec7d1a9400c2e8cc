/* Keys of a GGUF file as text.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

static size_t meta_scalar(const gguf_kv *kv, uint64_t i, char *out, size_t cap)
{
    double f;
    int64_t n;
    if (kv->type == GGUF_BOOL && qsf_gguf_integer(kv, i, &n))
        return qsf_format(out, cap, n ? "true" : "false");
    if (qsf_gguf_integer(kv, i, &n)) return qsf_format(out, cap, "%lld", (long long)n);
    if (kv->type == GGUF_U64)
        return qsf_format(out, cap, "%llu", (unsigned long long)qsf_le64(kv->data + 8 * i));
    if (qsf_gguf_number(kv, i, &f)) return qsf_format(out, cap, "%.*g", kv->type == GGUF_F32 ? 7 : 15, f);
    return qsf_format(out, cap, "?");
}

/* "[49152] <|endoftext|>, <|im_start|>, ..." */
static size_t meta_array(const gguf_kv *kv, char *out, size_t cap)
{
    enum { SHOWN = 8, MOST = 40 };
    const uint8_t *at = kv->data;
    size_t len = qsf_format(out, cap, "[%llu]", (unsigned long long)kv->n);
    for (uint64_t i = 0; i < kv->n && i < SHOWN; i++) {
        len += qsf_format(out + len, cap - len, i ? ", " : " ");
        if (kv->type == GGUF_STRING) {
            const gguf_text t = qsf_gguf_next_string(&at);
            len += qsf_format(out + len, cap - len, "%.*s", (int)QSF_MIN(t.len, MOST), t.p);
        } else {
            len += meta_scalar(kv, i, out + len, cap - len);
        }
    }
    if (kv->n > SHOWN) len += qsf_format(out + len, cap - len, ", ...");
    return len;
}

qsf_status qsf_gguf_meta(gguf *g, qsf_error *err)
{
    qsf_source *s = g->s;
    const gguf_part *part = &g->parts[0];
    char text[512];          /* eight strings of 40 and what is around them */
    if (!(s->meta = qsf_arena_array(s->arena, part->n_kv, sizeof *s->meta, "keys", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < part->n_kv; i++) {
        const gguf_kv *kv = &part->kv[i];
        gguf_text value = { text, 0 };
        const uint8_t *at = kv->data;
        if (kv->array) value.len = meta_array(kv, text, sizeof text);
        else if (kv->type == GGUF_STRING) value = qsf_gguf_next_string(&at);
        else value.len = meta_scalar(kv, 0, text, sizeof text);
        if (!(s->meta[i].key = qsf_arena_text(s->arena, kv->key.p, kv->key.len, err))) return QSF_E_MEMORY;
        if (!(s->meta[i].value = qsf_arena_text(s->arena, value.p, value.len, err))) return QSF_E_MEMORY;
    }
    s->n_meta = part->n_kv;
    return QSF_OK;
}
