/* Relaxes schemas that need not be enforced completely: removes unsupported keywords.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEXT_SCHEMA_LOOSEN_H
#define QSF_TEXT_SCHEMA_LOOSEN_H

#include "grammar/schema.h"

/* Called for each removed keyword, with the error message that it caused. */
typedef void (*qsf_loosened)(void *user, const char *why);

/* Removes keywords from schema, by renaming them, until qsf_schema_nodes can make a grammar of it
 * in at most most_memory bytes (0: the limit of grammars).  The remaining ones are enforced.
 *
 * QSF_E_ARGUMENT, QSF_E_BUDGET   it is not a schema at all
 * QSF_E_MEMORY */
qsf_status qsf_schema_loosen(const qsf_platform *p, qsf_json_node *schema, const qsf_schema_options *how,
                             uint64_t most_memory, qsf_loosened said, void *user, qsf_error *err);
/* Removes all keywords. */
void       qsf_schema_open(qsf_json_node *schema);

#endif
