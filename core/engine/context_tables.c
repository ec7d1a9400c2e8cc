/* A context's own tables: those of a batch, of sequences, of rotary frequencies.
 * SPDX-License-Identifier: MIT */
#include "engine/context.h"

void qsf_context_pieces(qsf_context *c, const qsf_source *s, const qsf_context_options *o,
                        qsf_piece list[QSF_CONTEXT_TABLES])
{
    const uint32_t rows = qsf_rows_most(o);
    const bool exits = o->early_exit > 0;
    list[0] = QSF_PIECE(c->batch.rows, rows, "batch");
    list[1] = QSF_PIECE(c->batch.groups, rows, "batch");
    list[2] = QSF_PIECE(c->now.old_length, o->n_seqs, "sequences");
    list[3] = QSF_PIECE(c->ropes, s->n_ropes, "rotary tables");
    list[4] = QSF_PIECE(c->rope_freqs, qsf_ropes_half(s), "rotary frequencies");
    list[6] = QSF_PIECE(c->embed_rows, o->n_batch, "batch");
    list[7] = QSF_PIECE(c->early_exit.x, exits ? QSF_EXIT_MOST * (uint64_t)s->hp.n_embd : 0, "early exit");
    list[8] = QSF_PIECE(c->early_exit.last, exits ? s->hp.n_embd : 0, "early exit");
    list[5] = QSF_PIECE(c->recorder.threads, o->record ? o->n_threads : 0, "records");
}

uint64_t qsf_context_tables(const qsf_source *s, const qsf_context_options *o)
{
    qsf_context c;
    qsf_piece list[QSF_CONTEXT_TABLES];
    qsf_context_pieces(&c, s, o, list);
    return qsf_pieces_bytes(list, QSF_CONTEXT_TABLES);
}
