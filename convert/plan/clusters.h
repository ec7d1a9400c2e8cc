/* Rows of the head and of the embedding by likeness: see clusters.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_CLUSTERS_H
#define QSF_CONVERT_CLUSTERS_H

#include "plan/plan.h"

/* Sorts the head's rows into o->head_clusters clusters (in the arena; NULL if no clusters were
 * asked for). */
qsf_status qsf_conv_clusters(input *in, const qsf_convert_options *o, const convert_report *r,
                             const qsf_clusters **out, qsf_error *err);
/* Sorts the embedding's rows into o->embd_clusters clusters, alike. */
qsf_status qsf_conv_embd_clusters(input *in, const qsf_convert_options *o, const qsf_embd_clusters **out,
                                  qsf_error *err);
/* What the tables of both take in the file. */
uint64_t   qsf_conv_clusters_bytes(const input *in, const qsf_convert_options *o);

#endif
