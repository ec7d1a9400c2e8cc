/* A tied model as one whose head is a matrix of its own.
 * SPDX-License-Identifier: MIT */
#include "read/untie.h"
#include "model/roles.h"

typedef struct untied {
    input    base;
    uint32_t embd, head;        /* places in the lists before and after */
} untied;

static qsf_status untied_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    untied *u = in->own;
    return u->base.read(&u->base, i < u->head ? i : i == u->head ? u->embd : i - 1, row, n, out, err);
}

static bool untied_reads(input *in, const char *path)
{
    untied *u = in->own;
    return u->base.reads && u->base.reads(&u->base, path);
}

static void untied_close(input *in)
{
    const untied *u = in->own;
    *in = u->base;              /* which owns the arena that u is in */
    in->close(in);
}

qsf_status qsf_input_untie(input *in, qsf_error *err)
{
    const uint32_t final = qsf_unit_number(in->hp.n_layers, qsf_id_final());
    if (!in->hp.tied) return QSF_OK;
    untied *u = qsf_arena_alloc(in->arena, sizeof *u, "a head", err);
    input_tensor *t = qsf_arena_array(in->arena, (uint64_t)in->n_tensors + 1, sizeof *t, "tensor list", err);
    if (!u || !t) return QSF_E_MEMORY;
    u->base = *in;
    while (u->embd < in->n_tensors && in->tensors[u->embd].kind != QSF_K_TOKEN_EMBD) u->embd++;
    while (u->head < in->n_tensors &&
           (in->tensors[u->head].unit != final || in->tensors[u->head].kind < QSF_K_OUTPUT))
        u->head++;
    if (u->embd == in->n_tensors) return qsf_fail(err, QSF_E_CORRUPT, "the model has no embedding");
    for (uint32_t i = 0; i < in->n_tensors; i++) t[i + (i >= u->head)] = in->tensors[i];
    t[u->head] = in->tensors[u->embd];
    t[u->head].unit = final;
    t[u->head].kind = QSF_K_OUTPUT;
    t[u->head].name = qsf_kind_name(QSF_K_OUTPUT);
    t[u->head].stored_bytes = 0;
    in->tensors = t;
    in->n_tensors++;
    in->hp.tied = false;
    in->untied = true;
    in->read = untied_read;
    in->reads = untied_reads;
    in->close = untied_close;
    in->own = u;
    return QSF_OK;
}
