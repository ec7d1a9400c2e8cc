/* Runs a template: parses it once, gives it more memory when needed, and renders it.
 * SPDX-License-Identifier: MIT */
#include "chat/chat_own.h"

/* The limits of a rendering, far above what templates need: a number of steps (about 20 million run
 * in a second) plus some for each byte of the variables, and bytes of memory likewise.  A template
 * that was written to run long ends within a second. */
enum { CHAT_STEPS = 1 << 21, CHAT_STEPS_BYTE = 256, CHAT_STEPS_MOST = 1 << 28,
       CHAT_MEMORY = 1 << 26, CHAT_MEMORY_BYTE = 256, CHAT_MEMORY_MOST = 1 << 30 };
/* The budget of all probes of a template, in multiples of what one rendering may take. */
enum { CHAT_PROBES = 4 };

void qsf_chat_engine_init(chat_engine *e, const qsf_platform *p, const char *jinja, uint64_t payload)
{
    const size_t len = strlen(jinja);
    *e = (chat_engine){ .platform = p, .jinja = jinja, .cap = qsf_round_up(4096 + len / 4 + 2 * payload, 64),
                        .mem_size = qsf_round_up((32 << 10) + 16 * (uint64_t)len + 8 * payload, 64),
                        .steps = (uint32_t)QSF_MIN(CHAT_STEPS + CHAT_STEPS_BYTE * payload, CHAT_STEPS_MOST),
                        .most = QSF_MIN(CHAT_MEMORY + CHAT_MEMORY_BYTE * payload, CHAT_MEMORY_MOST) };
}

void qsf_chat_engine_drop(chat_engine *e)
{
    if (e->mem) qsf_dealloc(e->platform, e->mem, e->mem_size + e->cap + e->cap / 8);
    e->mem = NULL;
    e->t = NULL;
}

/* Memory, and the template read into it. */
static qsf_status chat_engine_begin(chat_engine *e, qsf_error *err)
{
    if (!(e->mem = qsf_alloc(e->platform, e->mem_size + e->cap + e->cap / 8, CHAT_WHAT, err)))
        return QSF_E_MEMORY;
    e->out = (char *)e->mem + e->mem_size;
    e->own = (uint8_t *)e->out + e->cap;
    return qsf_jinja_parse(e->mem, (size_t)e->mem_size, e->jinja, strlen(e->jinja), &e->t, err);
}

qsf_status qsf_chat_engine_render(chat_engine *e, const qsf_jinja_var *vars, size_t n, int64_t now,
                                  qsf_error *err)
{
    uint32_t left = e->steps;           /* of all attempts together */
    for (;;) {
        qsf_status st = e->mem ? QSF_OK : chat_engine_begin(e, err);
        if (st && st != QSF_E_MEMORY) qsf_chat_engine_drop(e);
        if (!st)
            st = qsf_jinja_render(e->t, vars, n, now, left, e->out, (size_t)e->cap, &e->len, e->own, err);
        if (st) e->len = 0;
        if (st != QSF_E_MEMORY || !e->mem) return st;
        left -= e->t ? qsf_jinja_steps(e->t) : 0;
        qsf_chat_engine_drop(e);
        if (e->mem_size + e->cap > e->most / 4) {       /* the message says where */
            if (err) err->status = QSF_E_BUDGET;
            return QSF_E_BUDGET;
        }
        e->mem_size *= 4;
        e->cap *= 4;
    }
}

bool qsf_chat_engine_wrote(const chat_engine *e, const char *text, size_t len)
{
    for (size_t i = 0; i + len <= e->len; i++)
        if (!memcmp(e->out + i, text, len)) return true;
    return false;
}

qsf_status qsf_chat_run_render(chat_run *run, const qsf_jinja_value *messages, bool generate, qsf_error *err)
{
    run->vars[0].value = run->in_parts ? qsf_chat_in_parts(run, messages) : *messages;
    run->vars[1].value = qsf_jinja_bool(generate);
    const qsf_status st = qsf_chat_engine_render(&run->engine, run->vars, run->n_vars, run->ask->now, err);
    /* a probe of the template must not mistake this for a refusal */
    if (st == QSF_E_MEMORY) run->st = qsf_fail(run->err, st, "%s: out of memory", CHAT_WHAT);
    run->steps += run->engine.t ? qsf_jinja_steps(run->engine.t) : 0;
    run->given_up |= st == QSF_E_BUDGET || st == QSF_E_UNSUPPORTED
        || run->steps > CHAT_PROBES * (uint64_t)run->engine.steps;
    return st;
}

bool qsf_chat_takes(chat_run *run, const qsf_jinja_value *m, size_t n)
{
    const qsf_jinja_value list = qsf_chat_list_of(run, m, n);
    qsf_error ignored;
    return !run->st && !qsf_chat_run_render(run, &list, true, &ignored);
}
