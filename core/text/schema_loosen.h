/* Schemas that need not be kept whole: the keywords that cannot be kept are taken out.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEXT_SCHEMA_LOOSEN_H
#define QSF_TEXT_SCHEMA_LOOSEN_H

#include "text/schema.h"

/* Is told why a keyword was taken out: the message with which the schema was refused. */
typedef void (*qsf_loosened)(void *user, const char *why);

/* Takes keywords out of schema, by renaming them, until qsf_schema_nodes makes a grammar of it that
 * takes at most most_memory bytes (0: as many as grammars may).  What stays is kept.
 *
 * QSF_E_ARGUMENT, QSF_E_BUDGET   it is no schema at all
 * QSF_E_MEMORY */
qsf_status qsf_schema_loosen(const qsf_platform *p, qsf_json_node *schema, const qsf_schema_options *how,
                             uint64_t most_memory, qsf_loosened said, void *user, qsf_error *err);
/* Takes all keywords out. */
void       qsf_schema_open(qsf_json_node *schema);

#endif
