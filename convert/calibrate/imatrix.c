/* Importance matrices of llama.cpp's llama-imatrix: for each matrix the mean squares of its inputs.
 * SPDX-License-Identifier: MIT
 *
 * There are two forms.  The older one (".dat") has no magic:
 *   i32 entries, then of each: i32 length of the name, the name ("blk.0.attn_q.weight"), i32 calls,
 *   i32 values, f32 values[]: means times calls; then the calls of all and the text's name
 * The newer one is a GGUF file with general.type "imatrix" and two tensors of each matrix:
 *   NAME.in_sum2, f32 sums of squares, and NAME.counts, f32 how many rows they are of
 * A matrix with n experts has n times as many values, and in the newer form n counts. */
#include "calibrate/imatrix.h"

#include "calibrate/gram.h"
#include "model/gguf.h"
#include "model/roles.h"
#include "model/source_read.h"

enum { IMATRIX_MAX_BYTES = 1 << 30, IMATRIX_MAX_NAME = 256, IMATRIX_LEAST = 12 + 1 + 4 };

#define IMATRIX_MAX_COUNT 0x1p53f       /* rows: no text is as long, and integers hold it */

typedef struct imatrix_entry {
    gguf_text      name;
    const uint8_t *values;      /* f32 as the file has them */
    uint32_t       n;
    float          count;       /* that values are divided by, ... */
    const uint8_t *counts;      /* ... f32, an expert's, of n_counts */
    uint32_t       n_counts;    /* 0: count is all experts' */
} imatrix_entry;

struct cal_imatrix {
    qsf_arena     *arena;
    char          *path;
    uint32_t       n;
    imatrix_entry *entries;
    gguf_names     names;
};

void qsf_imatrix_close(cal_imatrix *m)
{
    if (m) qsf_arena_free(m->arena);        /* m lies in it */
}

/* ---- entries ---- */

static qsf_status imatrix_check(const cal_imatrix *m, const imatrix_entry *e, qsf_error *err)
{
    bool sound = e->count >= 1 && e->count <= IMATRIX_MAX_COUNT && e->n > 0;
    for (uint32_t i = 0; sound && i < e->n_counts; i++) sound = qsf_lef32(e->counts + 4 * (size_t)i) >= 0;
    for (uint32_t i = 0; sound && i < e->n; i++) {
        const float x = qsf_lef32(e->values + (size_t)i * 4);
        sound = x >= 0 && x < INFINITY;
    }
    if (sound) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: \"%.*s\" has no mean squares; is it an importance matrix?",
                    m->path, (int)QSF_MIN(e->name.len, 80), e->name.p);
}

static qsf_status imatrix_names(cal_imatrix *m, qsf_error *err)
{
    int64_t twice;
    gguf_text *list = qsf_arena_array(m->arena, m->n, sizeof *list, "an importance matrix", err);
    if (!list) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < m->n; i++) list[i] = m->entries[i].name;
    const qsf_status st = qsf_gguf_names(m->arena, m->path, list, m->n, &m->names, &twice, err);
    if (!st && twice >= 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: \"%.*s\" occurs twice", m->path,
                        (int)QSF_MIN(list[twice].len, 80), list[twice].p);
    return st;
}

/* ---- the older form ---- */

static qsf_status imatrix_short(const cal_imatrix *m, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "%s: is neither a calibration file nor an importance matrix, or is "
                    "cut short", m->path);
}

static qsf_status imatrix_dat_entry(const cal_imatrix *m, const uint8_t *bytes, uint64_t length, uint64_t *at,
                                    imatrix_entry *e, qsf_error *err)
{
    if (length - *at < 4) return imatrix_short(m, err);
    const uint32_t len = qsf_le32(bytes + *at);
    *at += 4;
    if (!len || len > IMATRIX_MAX_NAME || length - *at < (uint64_t)len + 8) return imatrix_short(m, err);
    e->name = (gguf_text){ (const char *)bytes + *at, len };
    *at += len;
    const uint32_t calls = qsf_le32(bytes + *at);
    e->n = qsf_le32(bytes + *at + 4);
    *at += 8;
    if (!calls || calls > INT32_MAX || !e->n || (length - *at) / 4 < e->n) return imatrix_short(m, err);
    e->count = (float)calls;
    e->values = bytes + *at;
    *at += (uint64_t)e->n * 4;
    return imatrix_check(m, e, err);
}

static qsf_status imatrix_read_dat(cal_imatrix *m, const qsf_platform *p, qsf_file *f, uint64_t length,
                                   qsf_error *err)
{
    uint64_t at = 4;
    if (length < at + IMATRIX_LEAST || length > IMATRIX_MAX_BYTES) return imatrix_short(m, err);
    uint8_t *bytes = qsf_arena_alloc(m->arena, length, "an importance matrix", err);
    if (!bytes) return QSF_E_MEMORY;
    qsf_status st = qsf_read_all(p, f, m->path, 0, bytes, (size_t)length, err);
    if (st) return st;
    m->n = qsf_le32(bytes);
    if (!m->n || m->n > length / IMATRIX_LEAST) return imatrix_short(m, err);
    if (!(m->entries = qsf_arena_array(m->arena, m->n, sizeof *m->entries, "an importance matrix", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; !st && i < m->n; i++)
        st = imatrix_dat_entry(m, bytes, length, &at, &m->entries[i], err);
    return st;
}

/* ---- the newer form ---- */

static bool imatrix_ends(gguf_text name, const char *end)
{
    const size_t n = strlen(end);
    return name.len > n && !memcmp(name.p + name.len - n, end, n);
}

/* All values of tensor t. */
static qsf_status imatrix_load(const cal_imatrix *m, const gguf *g, const gguf_tensor *t, const uint8_t **out,
                               qsf_error *err)
{
    if (t->type != QSF_T_F32 || t->bytes > IMATRIX_MAX_BYTES)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: \"%.*s\" does not hold f32 values; is it an importance "
                                            "matrix?", m->path,
                        (int)QSF_MIN(t->name.len, 80), t->name.p);
    uint8_t *bytes = qsf_arena_alloc(m->arena, t->bytes, "an importance matrix", err);
    *out = bytes;
    return bytes ? qsf_source_read(g->s, t->file, t->at, bytes, t->bytes, "values", err) : QSF_E_MEMORY;
}

/* Of the tensor in_sum2 and the one that counts its rows. */
static qsf_status imatrix_gguf_entry(cal_imatrix *m, const gguf *g, const gguf_names *names,
                                     const gguf_tensor *t, qsf_error *err)
{
    char counts[IMATRIX_MAX_NAME + 16];
    const size_t len = t->name.len - strlen(".in_sum2");
    imatrix_entry *e = &m->entries[m->n];
    if (len > IMATRIX_MAX_NAME) return QSF_OK;              /* not one of our tensors */
    const size_t n = qsf_format(counts, sizeof counts, "%.*s.counts", (int)len, t->name.p);
    const int64_t i = qsf_gguf_name_find(names, counts, n);
    if (i < 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: \"%s\" is missing", m->path, counts);
    const uint8_t *values = NULL, *count = NULL;
    qsf_status st = imatrix_load(m, g, t, &values, err);
    if (st || (st = imatrix_load(m, g, &g->tensors[i], &count, err))) return st;
    const char *name = qsf_arena_text(m->arena, t->name.p, len, err);
    if (!name) return QSF_E_MEMORY;
    *e = (imatrix_entry){ .name = { name, len }, .values = values, .n = (uint32_t)(t->bytes / 4),
                          .count = qsf_lef32(count) };
    const uint32_t n_counts = (uint32_t)(g->tensors[i].bytes / 4);
    if (n_counts > 1) {                 /* then count is the sum */
        *e = (imatrix_entry){ .name = e->name, .values = values, .n = e->n, .counts = count,
                              .n_counts = n_counts };
        for (uint32_t k = 0; k < n_counts; k++) e->count += qsf_lef32(count + 4 * (size_t)k);
    }
    m->n++;
    return imatrix_check(m, e, err);
}

static qsf_status imatrix_gguf_entries(cal_imatrix *m, const gguf *g, qsf_error *err)
{
    gguf_names names;
    const gguf_kv *type = qsf_gguf_find(g, "general.type");
    const uint8_t *at = type ? type->data : NULL;
    gguf_text *list = qsf_arena_array(g->tmp, g->n_tensors, sizeof *list, "an importance matrix", err);
    m->entries = qsf_arena_array(m->arena, g->n_tensors, sizeof *m->entries, "an importance matrix", err);
    if (!list || !m->entries) return QSF_E_MEMORY;
    if (!type || type->array || type->type != GGUF_STRING ||
        !gguf_text_is(qsf_gguf_next_string(&at), "imatrix"))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: is a GGUF file but not an importance matrix: its "
                        "general.type is not \"imatrix\"", m->path);
    for (uint32_t i = 0; i < g->n_tensors; i++) list[i] = g->tensors[i].name;
    qsf_status st = qsf_gguf_names(g->tmp, g->s->path, list, g->n_tensors, &names, NULL, err);
    for (uint32_t i = 0; !st && i < g->n_tensors; i++)
        if (imatrix_ends(g->tensors[i].name, ".in_sum2"))
            st = imatrix_gguf_entry(m, g, &names, &g->tensors[i], err);
    if (!st && !m->n) st = qsf_fail(err, QSF_E_CORRUPT, "%s: is an empty importance matrix", m->path);
    return st;
}

/* The container's reader wants a source: one of this file alone. */
static qsf_status imatrix_read_gguf(cal_imatrix *m, const qsf_platform *p, qsf_file *f, uint64_t length,
                                    qsf_error *err)
{
    qsf_source s = { .platform = p, .io = p, .path = m->path, .arena = m->arena, .n_files = 1 };
    gguf g = { .s = &s };
    if (!(s.files = qsf_arena_array(m->arena, QSF_MAX_SPLITS, sizeof *s.files, "a list of files", err)) ||
        !(s.lengths = qsf_arena_array(m->arena, QSF_MAX_SPLITS, sizeof *s.lengths, "a list of files", err)) ||
        !(s.paths = qsf_arena_array(m->arena, QSF_MAX_SPLITS, sizeof *s.paths, "a list of files", err)))
        return QSF_E_MEMORY;
    s.files[0] = f;
    s.lengths[0] = length;
    s.paths[0] = m->path;
    qsf_status st = qsf_arena_new(p, &g.tmp, err);
    if (st) return st;
    if (!(st = qsf_gguf_read_files(&g, err))) st = imatrix_gguf_entries(m, &g, err);
    qsf_gguf_done(&g);
    for (uint32_t i = 1; i < s.n_files; i++) p->close(p->user, s.files[i]);
    return st;
}

/* ---- opening and asking ---- */

static qsf_status imatrix_read(cal_imatrix *m, const qsf_platform *p, const char *path, qsf_error *err)
{
    uint8_t magic[4];
    qsf_file *f;
    uint64_t length;
    if (!(m->path = qsf_arena_text(m->arena, path, strlen(path), err))) return QSF_E_MEMORY;
    qsf_status st = qsf_host_open(p, path, &f, &length, err);
    if (st) return st;
    if (length < sizeof magic) st = imatrix_short(m, err);
    else st = qsf_read_all(p, f, m->path, 0, magic, sizeof magic, err);
    if (!st) {
        const bool is_gguf = !memcmp(magic, "GGUF", sizeof magic);
        st = (is_gguf ? imatrix_read_gguf : imatrix_read_dat)(m, p, f, length, err);
    }
    p->close(p->user, f);
    return st ? st : imatrix_names(m, err);
}

qsf_status qsf_imatrix_open(const qsf_platform *p, const char *path, cal_imatrix **out, qsf_error *err)
{
    qsf_arena *arena;
    qsf_status st = qsf_arena_new(p, &arena, err);
    *out = NULL;
    if (st) return st;
    cal_imatrix *m = qsf_arena_alloc(arena, sizeof *m, "an importance matrix", err);
    if (m) m->arena = arena;
    st = m ? imatrix_read(m, p, path, err) : QSF_E_MEMORY;
    if (st) qsf_arena_free(arena);
    else *out = m;
    return st;
}

static const imatrix_entry *imatrix_find(const cal_imatrix *m, int32_t layer, const char *weight)
{
    char name[IMATRIX_MAX_NAME];
    const size_t len = layer < 0 ? qsf_format(name, sizeof name, "%s", weight)
                                 : qsf_format(name, sizeof name, "blk.%d.%s", (int)layer, weight);
    const int64_t i = qsf_gguf_name_find(&m->names, name, len);
    return i < 0 ? NULL : &m->entries[i];
}

/* Adds values of an expert, or of the only matrix, divided by `count`. */
static void imatrix_add(const imatrix_entry *e, uint32_t expert, uint32_t cols, float count, float *mean)
{
    const uint8_t *values = e->values + 4 * (size_t)expert * cols;
    for (uint32_t i = 0; i < cols; i++) mean[i] += qsf_lef32(values + 4 * (size_t)i) / count;
}

/* The means of one expert, if rows were routed to it; else those of all n. */
static void imatrix_of_experts(const imatrix_entry *e, uint32_t expert, uint32_t n, uint32_t cols,
                               float *mean, uint64_t *tokens)
{
    const bool apart = e->n_counts == n;
    float count = apart && expert ? qsf_lef32(e->counts + 4 * (size_t)(expert - 1)) : e->count;
    if (expert && count >= 1) {
        imatrix_add(e, expert - 1, cols, count, mean);
    } else {
        count = e->count;
        for (uint32_t k = 0; k < n; k++) imatrix_add(e, k, cols, apart ? count : count * (float)n, mean);
    }
    *tokens = (uint64_t)count;
}

qsf_status qsf_imatrix_read(const cal_imatrix *m, int32_t layer, uint32_t of, uint32_t n_experts,
                            uint32_t cols, float *mean, uint64_t *tokens, qsf_error *err)
{
    const uint32_t kind = of % CAL_EXPERT;
    const qsf_role *role = qsf_role_of(kind);
    const imatrix_entry *e = role ? imatrix_find(m, layer, role->gguf) : NULL;
    /* Another matrix with the same input has the same entry. */
    for (size_t i = 0; !e && i < QSF_N_ROLES; i++)
        if (qsf_roles[i].use == QSF_USE_MATRIX && qsf_gram_kind(qsf_roles[i].kind) == qsf_gram_kind(kind))
            e = imatrix_find(m, layer, qsf_roles[i].gguf);
    if (!e && qsf_gram_kind(kind) == QSF_K_ATTN_Q) e = imatrix_find(m, layer, "attn_qkv.weight");
    if (!e && qsf_gram_kind(kind) == QSF_K_EXPERT_UP) e = imatrix_find(m, layer, "ffn_gate_up_exps.weight");
    if (!e) return QSF_E_NOT_FOUND;
    const uint32_t n = qsf_kind_is_experts(kind) ? n_experts : 1;
    if (e->n != (uint64_t)n * cols)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: \"%.*s\" has %u values, the model's matrix %u columns: it "
                        "is another model's importance matrix", m->path, (int)QSF_MIN(e->name.len, 80),
                        e->name.p, (unsigned)e->n, (unsigned)cols);
    memset(mean, 0, cols * sizeof *mean);
    imatrix_of_experts(e, n > 1 ? of / CAL_EXPERT : 0, n, cols, mean, tokens);
    return QSF_OK;
}

#undef IMATRIX_MAX_COUNT
