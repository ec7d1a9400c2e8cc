/* Records of operations and their products.
 * SPDX-License-Identifier: MIT */
#include "layers/recorder.h"

#include "model/roles.h"

/* ---- while an operation runs ---- */

static void recorded_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_recorder *r = arg;
    qsf_thread_span *own = &r->threads[thread];
    if (!own->begin) own->begin = qsf_now(r->platform);
    r->run->fn(r->run->arg, thread, piece);
    own->end = qsf_now(r->platform);
}

/* The pool knows a job by its function and size: fn goes into the size. */
void qsf_record_pool(qsf_recorder *r, qsf_pool *pool, const qsf_op_run *run)
{
    qsf_record_none(r);
    r->run = run;
    qsf_pool_run(pool, run->n_pieces, run->size + (uint32_t)(uintptr_t)run->fn, recorded_piece, r);
    r->run = NULL;
}

void qsf_record_none(qsf_recorder *r) { memset(r->threads, 0, r->n_threads * sizeof *r->threads); }

void qsf_record_product(qsf_recorder *r, const qsf_matrix *m, uint32_t thread, uint64_t begin, uint64_t end)
{
    const qsf_op_run *run = r->run;
    qsf_thread_span *own = &r->threads[thread];
    for (uint32_t i = 0; run && i < run->n_products; i++) {
        if (run->products[i].m != m) continue;
        if (!own->first[i]) own->first[i] = begin;
        own->busy[i] += end - begin;
    }
}

/* ---- after an operation ---- */

static void give(const qsf_recorder *r, qsf_record record)
{
    record.size = sizeof record;
    r->fn(r->user, &record);
}

/* The matrix as stored in the file: its type differs if it was converted to tiles. */
static const qsf_tensor *stored_tensor(const qsf_recorder *r, uint32_t kind, int32_t layer)
{
    const qsf_source *s = r->source;
    const qsf_unit_id id = layer >= 0 ? qsf_id_layer((uint32_t)layer)
                           : kind == QSF_K_OUTPUT ? qsf_id_final() : qsf_id_embd();
    const uint32_t unit = qsf_source_unit(s, id);
    const int found = qsf_unit_find(s, unit, kind);
    return found < 0 ? NULL : &s->tensors[s->units[unit].first_tensor + (uint32_t)found];
}

static void product_times(const qsf_recorder *r, uint32_t i, uint64_t *begin, uint64_t *busy)
{
    *busy = 0;
    for (uint32_t t = 0; t < r->n_threads; t++) {
        const qsf_thread_span *own = &r->threads[t];
        if (own->first[i] && (!*busy || own->first[i] < *begin)) *begin = own->first[i];
        *busy += own->busy[i];
    }
}

static void give_product(const qsf_recorder *r, const qsf_product *p, qsf_op op, int32_t layer, qsf_record x)
{
    char id[QSF_KERNEL_ID], name[64];
    const bool screen = op == QSF_OP_HEAD_SCREEN, quantized = !qsf_kernel_floats(p->kernel);
    const char *role = screen ? "output.screen" : qsf_kind_name(p->m->t.kind);
    const qsf_tensor *t = screen ? NULL : stored_tensor(r, p->m->t.kind, layer);
    if (!t) t = &p->m->t;
    qsf_product_kernel_id(r->k, p->kernel, qsf_product_many(p), id);
    if (layer < 0) qsf_format(name, sizeof name, "%s", role);
    else qsf_format(name, sizeof name, "blk.%u.%s", (unsigned)layer, role);
    x.type = QSF_RECORD_PRODUCT;
    x.name = name;
    x.kernel_id = id;
    x.operation = p->n == 1 ? "matrix-vector multiply" : "matrix-matrix multiply";
    x.compute_type = quantized ? "quantized" : "float";
    x.quantization_type = t->type == QSF_T_QK256 ? "i2s_qk256" : qsf_type_get(t->type)->name;
    x.bytes = qsf_product_bytes(p);
    x.n_rows = p->n;
    x.rows = p->rows;
    x.cols = p->m->t.cols;
    x.blocks_per_row = (uint32_t)qsf_ceil_div(t->cols, t->block ? t->block : 1);
    x.bytes_per_block = qsf_block_bytes(t->type, t->block);
    give(r, x);
}

/* Products of one operation take turns on each thread: its time is theirs, in parts of their
 * work. */
static void give_products(const qsf_recorder *r, const qsf_op_run *run, int32_t layer, uint64_t now)
{
    uint64_t begin[QSF_OP_PRODUCTS], busy[QSF_OP_PRODUCTS], all = 0;
    for (uint32_t i = 0; i < run->n_products; i++) {
        begin[i] = run->begin;
        product_times(r, i, &begin[i], &busy[i]);
        all += busy[i];
    }
    for (uint32_t i = 0; i < run->n_products; i++) {
        const double share = all ? (double)busy[i] / (double)all : 0;
        const qsf_record x = { .layer = layer, .begin_ns = begin[i],
                               .ns = (uint64_t)((double)(now - run->begin) * share) };
        give_product(r, &run->products[i], run->op, layer, x);
    }
}

void qsf_record_op(qsf_recorder *r, const qsf_op_run *run, int32_t layer, uint32_t n_rows, uint64_t now)
{
    const char *name = qsf_ops[run->op].name;
    give_products(r, run, layer, now);
    for (uint32_t t = 1; t < r->n_threads; t++) {
        const qsf_thread_span *own = &r->threads[t];
        if (own->begin)
            give(r, (qsf_record){ .type = QSF_RECORD_THREAD, .name = name, .layer = layer, .thread = t,
                                  .n_rows = n_rows, .begin_ns = own->begin, .ns = own->end - own->begin });
    }
    give(r, (qsf_record){ .type = QSF_RECORD_OPERATION, .name = name, .layer = layer, .n_rows = n_rows,
                          .begin_ns = run->begin, .ns = now - run->begin });
}

void qsf_record_stretch(const qsf_recorder *r, qsf_record_type type, const char *name, int32_t layer,
                        uint32_t n_rows, uint64_t begin)
{
    give(r, (qsf_record){ .type = type, .name = name, .layer = layer, .n_rows = n_rows, .begin_ns = begin,
                          .ns = qsf_now(r->platform) - begin });
}
