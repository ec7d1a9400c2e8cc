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

static void wgsl_write_number(qsf_wgsl_text *t, uint32_t n)
{
    char number[12];
    wgsl_write(t, number, qsf_format(number, sizeof number, "%u", (unsigned)n));
}

/* The value of the name at `at`, which `}` ends. */
#if defined(QSF_WGSL_SMALL)
static void wgsl_write_value(qsf_wgsl_text *t, const char *at, const qsf_wgsl_value *values, size_t n)
{
    const uint8_t *name = (const uint8_t *)values[0];
    (void)n;
    while ((*name & 127) != *at) name++, values++;
    if (*name > 127) qsf_wgsl_put(t, (const char *)values[1]);
    else wgsl_write_number(t, (uint32_t)values[1]);
}
#else
static void wgsl_write_value(qsf_wgsl_text *t, const char *at, const qsf_wgsl_value *values, size_t n)
{
    const size_t len = (size_t)(strchr(at, '}') - at);
    size_t i = 0;
    while (i < n && (strncmp(values[i].name, at, len) || values[i].name[len])) i++;
    assert(i < n);
    if (values[i].text) qsf_wgsl_put(t, values[i].text);
    else wgsl_write_number(t, values[i].number);
}
#endif

void qsf_wgsl_put_values(qsf_wgsl_text *t, const char *piece, const qsf_wgsl_value *values, size_t n)
{
    while (*piece) {
        if (piece[0] != '$' || piece[1] != '{') {
            wgsl_write(t, piece++, 1);
            continue;
        }
        wgsl_write_value(t, piece + 2, values, n);
        piece = strchr(piece, '}') + 1;
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
