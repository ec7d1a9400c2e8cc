/* Matches regular expressions by backtracking.  Without capture groups, whether the rest matches
 * depends only on the instruction and the position, so each pair is tried once, in linear time if
 * the expression has no look-around.  With look-arounds a crafted expression could run forever; the
 * budget per piece stops it, and is far above what real ones need.
 * SPDX-License-Identifier: MIT */
#include "tokens/steps_match.h"

enum { MATCH_BUDGET = 20000 };          /* instructions per character */

static void match_free(const steps_matcher *m, void *mem, uint64_t size)
{
    if (mem) qsf_dealloc(m->platform, mem, size);
}

void qsf_steps_matcher_free(steps_matcher *m)
{
    match_free(m, m->seen, m->seen_words * 4);
    match_free(m, m->journal, m->journal_cap * 8);
    match_free(m, m->stack, m->stack_cap * 8);
}

/* Appends a pair to a growing list. */
static void match_push(steps_matcher *m, uint32_t **list, size_t *n, size_t *cap, uint32_t a, uint32_t b)
{
    if (*n == *cap) {
        const size_t more = *cap ? 2 * *cap : 256;
        uint32_t *mem = qsf_alloc(m->platform, 8 * (uint64_t)more, "tokenizing", m->err);
        if (!mem) {
            m->failed = true;
            m->status = QSF_E_MEMORY;
            return;
        }
        if (*n) memcpy(mem, *list, 8 * *n);
        match_free(m, *list, 8 * (uint64_t)*cap);
        *list = mem;
        *cap = more;
    }
    (*list)[2 * *n] = a;
    (*list)[2 * *n + 1] = b;
    ++*n;
}

static void match_forget(steps_matcher *m, size_t down_to)
{
    while (m->n_journal > down_to) {
        const uint32_t *j = m->journal + 2 * --m->n_journal;
        const uint64_t bit = (uint64_t)j[1] * m->e->n + j[0];
        m->seen[bit / 32] &= ~(1u << bit % 32);
    }
}

qsf_status qsf_steps_match_begin(steps_matcher *m, const steps_expression *e, const uint32_t *c, size_t n)
{
    const uint64_t words = ((uint64_t)n + 1) * e->n / 32 + 1;
    if (m->e) match_forget(m, 0);
    if (words > m->seen_words) {
        match_free(m, m->seen, m->seen_words * 4);
        m->seen_words = 0;
        m->seen = qsf_alloc(m->platform, words * 4, "tokenizing", m->err);
        if (!m->seen) return QSF_E_MEMORY;
        memset(m->seen, 0, (size_t)words * 4);
        m->seen_words = words;
    }
    m->e = e;
    m->c = c;
    m->n = n;
    m->budget = MATCH_BUDGET * ((uint64_t)n + 100);
    return QSF_OK;
}

/* False if this pair was tried before. */
static bool match_fresh(steps_matcher *m, uint32_t at, size_t pos)
{
    const uint64_t bit = (uint64_t)pos * m->e->n + at;
    if (m->seen[bit / 32] >> bit % 32 & 1) return false;
    match_push(m, &m->journal, &m->n_journal, &m->journal_cap, at, (uint32_t)pos);
    if (m->failed) return false;
    m->seen[bit / 32] |= 1u << bit % 32;
    return true;
}

static bool match_place(const steps_matcher *m, const uint32_t *code, size_t pos)
{
    const steps_set *set = &m->steps->sets[code[0] == RE_BEGIN || code[0] == RE_END ? 0 : code[1]];
    const bool before = pos > 0, after = pos < m->n;
    switch (code[0]) {
    case RE_BEHIND: return (before && qsf_steps_in_set(set, m->c[pos - 1])) != (code[2] != 0);
    case RE_BOUND:
        return ((before && qsf_steps_in_set(set, m->c[pos - 1]))
                != (after && qsf_steps_in_set(set, m->c[pos]))) != (code[2] != 0);
    case RE_BEGIN: return !before || (code[1] && m->c[pos - 1] == '\n');
    default: return !after || (code[1] && m->c[pos] == '\n');
    }
}

/* Recurses per nested look-around; steps_read.c limits the depth. */
static bool match_run(steps_matcher *m, uint32_t at, size_t pos, size_t *end)
{
    const size_t base = m->n_stack, journal = m->n_journal;
    for (;;) {
        const uint32_t *code = m->e->code + 3 * (size_t)at++;
        const bool inside = pos < m->n;
        bool ok = false;
        size_t skip;
        switch (code[0]) {
        case RE_MATCH:
            m->n_stack = base;
            match_forget(m, journal);           /* pairs on the way here may be tried again from elsewhere */
            *end = pos;
            return true;
        case RE_CHAR:
            ok = inside && m->c[pos] == code[1];
            pos += ok;
            break;
        case RE_SET:
            ok = inside && qsf_steps_in_set(&m->steps->sets[code[1]], m->c[pos]);
            pos += ok;
            break;
        case RE_JUMP:
            at = code[1];
            ok = true;
            break;
        case RE_SPLIT:
            if (!(ok = match_fresh(m, at - 1, pos))) break;
            match_push(m, &m->stack, &m->n_stack, &m->stack_cap, code[2], (uint32_t)pos);
            at = code[1];
            break;
        case RE_LOOK:
            if (!match_fresh(m, at - 1, pos)) break;
            ok = match_run(m, at, pos, &skip) != (code[1] == 1);
            if (ok && code[1] == 2) pos = skip;
            at = code[2];
            break;
        default:
            ok = match_place(m, code, pos);
        }
        if (!m->failed && !m->budget--) {
            m->status = qsf_fail(m->err, QSF_E_UNSUPPORTED, "an expression of the tokenizer takes too "
                                 "long for this text");
            m->failed = true;
        }
        if (m->failed) return false;
        if (ok) continue;
        if (m->n_stack == base) return false;
        --m->n_stack;
        at = m->stack[2 * m->n_stack];
        pos = m->stack[2 * m->n_stack + 1];
    }
}

bool qsf_steps_match_next(steps_matcher *m, size_t pos, size_t *from, size_t *to)
{
    match_forget(m, 0);
    for (; pos <= m->n; pos++) {
        if (match_run(m, 0, pos, to)) {
            *from = pos;
            return true;
        }
        if (m->failed) return false;
    }
    return false;
}
