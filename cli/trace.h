/* --trace and --record: what contexts do, in files that are written while they do it.
 * SPDX-License-Identifier: MIT
 *
 *   trace_files *files;
 *   if ((code = trace_open(&set->program.trace, &files))) return code;
 *   trace_context(files, &context_options);      before qsf_context_new; for any number of contexts
 *   ...                                          after the last qsf_context_free:
 *   return trace_close(files, code);
 *
 * The trace is in Chrome's trace event format (an array of events), which Perfetto opens; the
 * record has a line of JSON for each product.  docs/tracing.md describes both. */
#ifndef QSF_CLI_TRACE_H
#define QSF_CLI_TRACE_H

#include "run.h"

/* Opens the files; NULL: not this one.  *out is NULL if no file was asked for or opening failed.
 * Returns an exit code; errors are reported. */
int trace_open(const trace_settings *set, trace_files **out);
/* Contexts made with *o are written to the files.  If t is NULL, does nothing. */
void trace_context(trace_files *t, qsf_context_options *o);
/* Writes the rest.  Returns the program's exit code: EXIT_IO instead of EXIT_OK if something could
 * not be written, which was reported when it happened.  t may be NULL. */
int trace_close(trace_files *t, int code);

#endif
