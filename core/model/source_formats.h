/* What the file formats' readers give core/model/source.c, and what they get from it.
 * SPDX-License-Identifier: MIT
 *
 * qsf_source_open makes the source: platform, io, path, vocab_only, arena, and files[0] open with
 * its length in lengths[0].  The reader of the format then fills everything else, all of it from
 * s->arena.  On an error it leaves s as far as it came: qsf_source_close takes half-built sources.
 * s->files and s->lengths have room for QSF_MAX_SPLITS entries; n_files says how many are open. */
#ifndef QSF_SOURCE_FORMATS_H
#define QSF_SOURCE_FORMATS_H

#include "base/arena.h"
#include "model/source.h"

qsf_status qsf_gguf_open(qsf_source *s, qsf_error *err);        /* core/model/gguf_read.c */
qsf_status qsf_qsf_open(qsf_source *s, qsf_error *err);         /* core/model/qsf_read.c */
/* Of a file that is neither: an error that says what it is (core/model/source_stranger.c). */
qsf_status qsf_source_stranger(const qsf_source *s, qsf_error *err);
/* qsf_unit_check_timed for QSF files. */
qsf_status qsf_qsf_unit_check(const qsf_source *s, uint32_t unit, const void *stored, void *raw,
                                 unsigned check, qsf_unit_times *t, qsf_error *err);

/* Once s->hp is known: the records of its layers and rotary tables (core/model/layer_record.c). */
qsf_status qsf_layers_fill(qsf_source *s, qsf_error *err);
/* After a reader has filled s: needed tensors are there, and all have the shapes that s->layers and
 * s->hp ask for (core/model/shapes.c). */
/* Refuses dimensions of 1 that would give a matrix a single row. */
qsf_status qsf_source_check_rows(const qsf_source *s, qsf_error *err);
qsf_status qsf_source_check_shapes(const qsf_source *s, qsf_error *err);

#endif
