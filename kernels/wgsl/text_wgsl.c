/* Shader text: the writer.
 * SPDX-License-Identifier: MIT */
#include "text_wgsl.h"

static void wgsl_write(qsf_wgsl_text *t, const char *s, size_t n)
{
    if (t->len < t->cap) memcpy(t->dst + t->len, s, QSF_MIN(n, t->cap - t->len));
    t->len += n;
}

void qsf_wgsl_begin(qsf_wgsl_text *t, char *dst, size_t cap)
{
    *t = (qsf_wgsl_text){ .dst = dst, .cap = cap };
}

qsf_status qsf_wgsl_end(const qsf_wgsl_text *t, qsf_error *err)
{
    if (t->len >= t->cap)
        return qsf_fail(err, QSF_E_MEMORY, "a shader of %zu bytes; there is room for %zu", t->len + 1,
                        t->cap);
    t->dst[t->len] = 0;
    return QSF_OK;
}

void qsf_wgsl_put(qsf_wgsl_text *t, const char *piece) { wgsl_write(t, piece, strlen(piece)); }

static void wgsl_write_value(qsf_wgsl_text *t, const qsf_wgsl_value *v)
{
    char number[12];
    if (v->text) qsf_wgsl_put(t, v->text);
    else wgsl_write(t, number, qsf_format(number, sizeof number, "%u", (unsigned)v->number));
}

static bool wgsl_is_name(qsf_wgsl_name name, const char *at, size_t len)
{
#if defined(QSF_WGSL_SMALL)
    return len == 1 && *at == name;
#else
    return !strncmp(name, at, len) && !name[len];
#endif
}

void qsf_wgsl_put_values(qsf_wgsl_text *t, const char *piece, const qsf_wgsl_value *values, size_t n)
{
    for (const char *at = piece; *at;) {
        if (at[0] != '$' || at[1] != '{') {
            wgsl_write(t, at++, 1);
            continue;
        }
        size_t len = 0, i = 0;
        for (at += 2; at[len] != '}';) len++;
        while (i < n && !wgsl_is_name(values[i].name, at, len)) i++;
        assert(i < n);
        wgsl_write_value(t, &values[i]);
        at += len + 1;
    }
}

void qsf_wgsl_bind(qsf_wgsl_text *t, qsf_wgsl_access access, const char *name, const char *type)
{
    static const char *const spaces[] = {
        [QSF_WGSL_WRITE] = "storage, read_write", [QSF_WGSL_READ] = "storage, read",
        [QSF_WGSL_UNIFORM] = "uniform",
    };
    assert(t->n_bindings < QSF_WGSL_BINDINGS);
    QSF_WGSL_PUT(t, "@group(0) @binding(${at}) var<${space}> ${name}: ${type};\n",
                 { "at", t->n_bindings, NULL }, { "space", 0, spaces[access] }, { "name", 0, name },
                 { "type", 0, type });
    t->access[t->n_bindings++] = (uint8_t)access;
}
