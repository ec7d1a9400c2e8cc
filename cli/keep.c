/* --session: what sequence 0 holds, kept in a file between runs.
 * SPDX-License-Identifier: MIT */
#include "out_file.h"
#include "run.h"

#include <stdlib.h>

typedef struct keep_file {
    const qsf_platform *p;
    qsf_file *in;
} keep_file;

static qsf_status keep_read(void *user, uint64_t at, void *dst, size_t len)
{
    keep_file *k = user;
    qsf_read *r;
    const qsf_status st = k->p->read_start(k->p->user, k->in, at, dst, len, &r);
    return st ? st : k->p->read_wait(k->p->user, r);
}

static int keep_failed(run_session *s, const char *what, qsf_status st, const char *why)
{
    qsf_error e = { .status = st };
    snprintf(e.text, sizeof e.text, "%s %.120s: %.240s", what, s->set->session, why);
    return report(&e);
}

/* Why the system did not open the file. */
static int keep_refused(run_session *s, const keep_file *k, qsf_status st)
{
    const char *why = k->p->why ? k->p->why(k->p->user, s->set->session, false) : NULL;
    return keep_failed(s, "cannot open", st, why ? why : qsf_status_text(st));
}

int session_resume(run_session *s)
{
    keep_file k = { .p = qsf_platform_native() };
    qsf_custom_file from = { .size = sizeof from, .user = &k, .read = keep_read };
    size_t n;
    if (!s->set->session) return EXIT_OK;
    qsf_status st = k.p->open(k.p->user, s->set->session, &k.in);
    if (st == QSF_E_NOT_FOUND) return EXIT_OK;            /* the first run */
    if (!st) st = k.p->length(k.p->user, k.in, &from.length);
    if (st) {
        k.p->close(k.p->user, k.in);
        return keep_refused(s, &k, st);
    }
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(s->context, &plan);
    int32_t *ids = malloc(plan.n_ctx * sizeof *ids);      /* no session that fits has more */
    st = ids ? qsf_session_load(s->context, 0, &from, ids, plan.n_ctx, &n, &s->error) : QSF_E_MEMORY;
    k.p->close(k.p->user, k.in);
    if (!st) st = qsf_turn_hold(s->turn, ids, n);
    free(ids);
    if (!st) return EXIT_OK;
    return keep_failed(s, "cannot resume", st, st == QSF_E_MEMORY ? qsf_status_text(st) : s->error.text);
}

int session_keep(run_session *s)
{
    out_file f;
    const char *why;
    size_t n;
    const int32_t *ids = qsf_turn_tokens(s->turn, &n);
    if (!s->set->session || n == 0) return EXIT_OK;
    qsf_status st = out_file_begin(&f, s->set->session, &why);
    if (st) return keep_failed(s, "cannot write", st, why);
    const qsf_status saved = qsf_session_save(s->context, 0, ids, n, out_file_write, &f, &s->error);
    st = out_file_end(&f, saved);
    return st ? keep_failed(s, "cannot write", st, saved ? s->error.text : qsf_status_text(st)) : EXIT_OK;
}
