/* Writes the lists of numbers that a tokenizer's steps are stored as.
 * SPDX-License-Identifier: MIT */
#include "read/hf_steps.h"
#include "text/unicode.h"

#ifdef QSF_HAVE_YYJSON

#define FILE_NAME "tokenizer.json"

void qsf_steps_put(steps_build *s, steps_list *l, uint32_t v)
{
    if (s->st) return;
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 256;
        uint32_t *mem = qsf_alloc(s->b->platform, 4 * (uint64_t)cap, "tokenizer", s->err);
        if (!mem) {
            s->st = QSF_E_MEMORY;
            return;
        }
        if (l->n) memcpy(mem, l->v, 4 * l->n);
        if (l->v) qsf_dealloc(s->b->platform, l->v, 4 * (uint64_t)l->cap);
        l->v = mem;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

/* U+007F stands for the matched text: no step of a real file inserts that character. */
void qsf_steps_put_text(steps_build *s, steps_list *l, const char *text)
{
    uint32_t n = 0;
    size_t used;
    const size_t head = l->n, len = strlen(text);
    qsf_steps_put(s, l, 0);
    for (size_t i = 0; i < len; i += used, n++) {
        const uint32_t c = qsf_utf8_decode(text + i, len - i, &used);
        qsf_steps_put(s, l, c == 0x7f ? STEPS_SELF : c);
    }
    if (!s->st) l->v[head] = n;
}

void qsf_steps_refuse(steps_build *s, const char *what, const char *name)
{
    if (!s->st)
        s->st = qsf_fail(s->err, QSF_E_UNSUPPORTED, FILE_NAME ": %s of type %s, which this version does "
                         "not have", what, name);
}

void qsf_steps_done(steps_build *s)
{
    steps_list *const all[] = { &s->begin, &s->end, &s->added, &s->sets, &s->expressions, &s->tables,
                               &s->steps, &s->decode };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++)
        if (all[i]->v) qsf_dealloc(s->b->platform, all[i]->v, 4 * (uint64_t)all[i]->cap);
}

#undef FILE_NAME
#endif
