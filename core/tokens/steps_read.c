/* Reads a tokenizer's steps, and checks everything that the interpreter relies on: ids, jump
 * targets, sets and tables in range, and expressions that end.
 * SPDX-License-Identifier: MIT */
#include "tokens/steps.h"
#include "text/unicode.h"

enum { STEPS_EXPRESSION_MAX = 1 << 12, STEPS_LOOK_DEPTH = 4 };

typedef struct steps_reader {
    const uint8_t *p, *end;
    qsf_arena *arena;
    qsf_error *err;
    const char *bad;            /* which part is invalid */
    bool memory;
} steps_reader;

static uint32_t steps_number(steps_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 35 && r->p < r->end; shift += 7) {
        const uint8_t byte = *r->p++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            if (v > UINT32_MAX) break;
            return (uint32_t)v;
        }
    }
    r->bad = "a number";
    r->p = r->end;
    return 0;
}

static uint32_t steps_below(steps_reader *r, uint32_t limit, const char *what)
{
    const uint32_t v = steps_number(r);
    if (v < limit) return v;
    r->bad = what;
    return 0;
}

/* Reads a count of elements that take at least one byte each, and allocates room for them; NULL on
 * failure. */
static void *steps_array(steps_reader *r, uint32_t *n, uint32_t extra, size_t size)
{
    *n = steps_number(r);
    if (*n > (size_t)(r->end - r->p)) {
        r->bad = "a count";
        *n = 0;
    }
    void *mem = qsf_arena_array(r->arena, (uint64_t)*n + extra + 1, size, "tokenizer", r->err);
    if (!mem) {
        r->memory = true;
        *n = 0;
    }
    return mem;
}

static steps_points steps_points_read(steps_reader *r)
{
    steps_points t = { 0 };
    t.c = steps_array(r, &t.n, 0, sizeof *t.c);
    for (uint32_t i = 0; i < t.n; i++) t.c[i] = steps_below(r, STEPS_SELF + 1, "a code point");
    return t;
}

static steps_bytes steps_bytes_read(steps_reader *r)
{
    steps_bytes t = { 0 };
    const steps_points points = steps_points_read(r);
    if (!points.c || !(t.s = qsf_arena_alloc(r->arena, 4 * (uint64_t)points.n + 1, "tokenizer", r->err))) {
        r->memory = true;
        return t;
    }
    for (uint32_t i = 0; i < points.n; i++) t.n += (uint32_t)qsf_utf8_encode(points.c[i], t.s + t.n);
    return t;
}

static uint32_t *steps_ids(steps_reader *r, uint32_t *n, uint32_t n_tokens)
{
    uint32_t *ids = steps_array(r, n, 0, sizeof *ids);
    for (uint32_t i = 0; i < *n; i++) ids[i] = steps_below(r, n_tokens, "a token around the text");
    return ids;
}

static void steps_read_set(steps_reader *r, steps_set *s)
{
    uint64_t at = 0;
    s->ranges = steps_array(r, &s->n, 0, 2 * sizeof *s->ranges);
    for (uint32_t i = 0; i < s->n; i++) {
        s->ranges[2 * i] = (uint32_t)(at += steps_number(r));
        s->ranges[2 * i + 1] = (uint32_t)(at += steps_number(r));
        if (at++ > 0x10ffff) {
            r->bad = "a set";
            s->n = 0;
        }
    }
}

static void steps_read_table(steps_reader *r, steps_table *t)
{
    uint64_t key = 0;
    t->keys = steps_array(r, &t->n, 0, sizeof *t->keys);
    t->at = t->keys ? qsf_arena_array(r->arena, (uint64_t)t->n + 1, sizeof *t->at, "tokenizer",
                                      r->err) : NULL;
    if (!t->at) {
        r->memory = true;
        return;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        t->keys[i] = (uint32_t)(key += steps_number(r));
        t->at[i + 1] = t->at[i] + steps_below(r, 32, "a table");
        if (key++ > 0x10ffff) {
            r->bad = "a table";
            t->n = 0;
        }
    }
    const steps_points values = steps_points_read(r);
    t->values = values.c;
    if (values.n != t->at[t->n]) r->bad = "a table";
}

/* Whether all jump targets are inside the expression, and every loop goes through a RE_SPLIT, which
 * is tried only once per position. */
static bool steps_expression_ok(const steps_expression *e, uint32_t n_sets)
{
    uint32_t ends[STEPS_LOOK_DEPTH];
    uint32_t depth = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        const uint32_t op = e->code[3 * i], a = e->code[3 * i + 1], b = e->code[3 * i + 2];
        while (depth && i == ends[depth - 1]) depth--;
        if ((op == RE_SET || op == RE_BEHIND || op == RE_BOUND) && a >= n_sets) return false;
        if (op == RE_JUMP && (a >= e->n || (a <= i && e->code[3 * a] != RE_SPLIT))) return false;
        if (op == RE_SPLIT && (a >= e->n || b >= e->n)) return false;
        if (op == RE_LOOK) {
            if (b <= i + 1 || b >= e->n || depth == STEPS_LOOK_DEPTH || e->code[3 * (b - 1)] != RE_MATCH
                || (depth && b > ends[depth - 1])) return false;
            ends[depth++] = b;
        }
        /* only its RE_MATCH may leave a look-around */
        if (depth && ((op == RE_JUMP && a >= ends[depth - 1])
                      || (op == RE_SPLIT && (a >= ends[depth - 1] || b >= ends[depth - 1])))) return false;
        if (op >= RE_OPS) return false;
    }
    return e->n && e->code[3 * (e->n - 1)] == RE_MATCH;
}

static void steps_read_expression(steps_reader *r, steps_expression *e, uint32_t n_sets)
{
    e->code = steps_array(r, &e->n, 0, 3 * sizeof *e->code);
    for (uint32_t i = 0; i < 3 * e->n; i++) e->code[i] = steps_number(r);
    if (r->memory || r->bad) return;
    if (e->n > STEPS_EXPRESSION_MAX || !steps_expression_ok(e, n_sets)) r->bad = "an expression";
}

static void steps_read_step(steps_reader *r, const qsf_steps *s, steps_step *step)
{
    step->op = steps_below(r, STEP_OPS, "a step");
    step->a = steps_number(r);
    step->b = steps_number(r);
    step->text = steps_points_read(r);
    const bool expression = step->op == STEP_REPLACE || step->op == STEP_SPLIT;
    if ((expression && step->a >= s->n_expressions) || (step->op == STEP_MAP && step->a >= s->n_tables)
        || (step->op == STEP_CHARSMAP && (step->a >= s->n_sets || step->b >= s->n_sets))
        || (step->op == STEP_SPLIT && (step->b & 7) > SPLIT_CONTIGUOUS)) r->bad = "a step";
}

static void steps_read_lists(steps_reader *r, qsf_steps *s)
{
    s->sets = steps_array(r, &s->n_sets, 0, sizeof *s->sets);
    for (uint32_t i = 0; i < s->n_sets && !r->memory; i++) steps_read_set(r, &s->sets[i]);
    s->expressions = steps_array(r, &s->n_expressions, 0, sizeof *s->expressions);
    for (uint32_t i = 0; i < s->n_expressions && !r->memory; i++)
        steps_read_expression(r, &s->expressions[i], s->n_sets);
    s->tables = steps_array(r, &s->n_tables, 0, sizeof *s->tables);
    for (uint32_t i = 0; i < s->n_tables && !r->memory; i++) steps_read_table(r, &s->tables[i]);
    s->steps = steps_array(r, &s->n_steps, 0, sizeof *s->steps);
    for (uint32_t i = 0; i < s->n_steps && !r->memory; i++) steps_read_step(r, s, &s->steps[i]);
    s->decode = steps_array(r, &s->n_decode, 0, sizeof *s->decode);
    for (uint32_t i = 0; i < s->n_decode && !r->memory; i++) {
        s->decode[i].op = steps_below(r, DECODE_OPS, "a step of decoding");
        s->decode[i].from = steps_bytes_read(r);
        s->decode[i].to = steps_bytes_read(r);
        if (s->decode[i].op == DECODE_REPLACE && !s->decode[i].from.n) r->bad = "a step of decoding";
    }
}

qsf_status qsf_steps_read(qsf_arena *a, const uint8_t *bytes, size_t len, uint32_t n_tokens, qsf_steps *s,
                          qsf_error *err)
{
    steps_reader r = { .p = bytes, .end = bytes + len, .arena = a, .err = err };
    *s = (qsf_steps){ 0 };
    const uint32_t version = steps_number(&r);
    if (version != STEPS_VERSION && !r.bad)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "the tokenizer's steps are of version %u; this program "
                        "supports version %u: use a newer one", (unsigned)version, (unsigned)STEPS_VERSION);
    s->model = steps_below(&r, STEPS_MODELS, "the model");
    if (!s->model) r.bad = "the model";
    s->flags = steps_number(&r);
    s->max_chars = steps_number(&r);
    s->unk = (int32_t)steps_below(&r, n_tokens + 1, "the unknown token") - 1;
    s->prefix = steps_bytes_read(&r);
    s->suffix = steps_bytes_read(&r);
    s->begin = steps_ids(&r, &s->n_begin, n_tokens);
    s->end = steps_ids(&r, &s->n_end, n_tokens);
    s->added = steps_array(&r, &s->n_added, 0, sizeof *s->added);
    for (uint32_t i = 0; i < s->n_added; i++) {
        s->added[i].id = steps_below(&r, n_tokens, "an added token");
        s->added[i].flags = steps_number(&r);
    }
    if (!r.memory) steps_read_lists(&r, s);
    if (r.memory) return QSF_E_MEMORY;
    if (!r.bad && !s->n_sets) r.bad = "no set";
    uint32_t n_tokens_steps = 0;
    for (uint32_t i = 0; i < s->n_steps; i++) n_tokens_steps += s->steps[i].op == STEP_TOKENS;
    if (!r.bad && n_tokens_steps != 1) r.bad = "where added tokens are looked for";
    if (!r.bad && r.p != r.end) r.bad = "its end";
    return r.bad ? qsf_fail(err, QSF_E_CORRUPT, "the tokenizer's steps are inconsistent: %s; convert the "
                            "model again", r.bad) : QSF_OK;
}

bool qsf_steps_in_set(const steps_set *s, uint32_t c)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (c > s->ranges[2 * mid + 1]) low = mid + 1;
        else if (c < s->ranges[2 * mid]) high = mid;
        else return true;
    }
    return false;
}
