/* Both engines read the same tokens: a prompt's, then those that are most likely for the other
 * engine, whatever ours prefers (teacher forcing), so that every step is compared after the same
 * tokens.
 * SPDX-License-Identifier: MIT */
#include "parity.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ours.h"
#include "recorded.h"

typedef struct run {
    const parity_settings *set;
    prompt_list   *prompts;
    parity_result *out;
    parity_engine  engines[2];   /* self NULL: it does not run */
    float         *y[2];         /* [PARITY_ROWS][n_vocab] */
    const float   *last[2];      /* the last row */
    parity_row     row;
    uint32_t       n_vocab;
    sha256         logits[2], tokens[2];
    recorder_file  save;
    bool          *of_other;
} run;

static uint64_t run_now(void)
{
    const qsf_platform *p = qsf_platform_native();
    return p->now_ns(p->user);
}

/* ---- opening ---- */

/* Messages name files; receipts do not. */
static void run_without_path(const char *text, const char *path, char *out, size_t cap)
{
    size_t n = 0;
    const size_t len = strlen(path);
    while (*text && n + 10 < cap) {
        if (len && !strncmp(text, path, len)) {
            memcpy(out + n, "the file", 8);
            n += 8, text += len;
        } else out[n++] = *text++;
    }
    out[n] = 0;
}

static qsf_status run_sum(parity_model_file *f, const char *path, uint64_t *ns, qsf_error *err)
{
    const uint64_t begin = run_now();
    const qsf_status st = file_sum(path, f->sum, &f->bytes, err);
    *ns += run_now() - begin;
    return st;
}

static qsf_status run_open_ours(run *r, qsf_error *err)
{
    qsf_model_options mo;
    const uint64_t begin = run_now();
    qsf_model_defaults(&mo);
    mo.io = r->set->io;
    mo.i2s_layout = r->set->i2s_layout;
    const qsf_status st = qsf_model_open(r->set->model, &mo, &r->out->model, err);
    r->out->side[0].load_ns = run_now() - begin;
    return st;
}

/* The library whose functions compute, by its sum. */
static qsf_status run_library(run *r, qsf_error *err)
{
    const char *file = parity_llama_about(r->out->llama).file;
    qsf_status st = run_sum(&r->out->library, file, &r->out->hash_ns, err);
    /* found by the system, elsewhere */
    if (st == QSF_E_NOT_FOUND) st = QSF_OK, r->out->library.bytes = 0;
    return st;
}

static qsf_status run_open_other(run *r, qsf_error *err)
{
    const parity_settings *set = r->set;
    parity_side *side = &r->out->side[1];
    const char *path = set->other_model ? set->other_model : set->model;
    const uint64_t begin = run_now();
    qsf_status st;
    if (strcmp(set->against, "llama.cpp") && strcmp(set->against, "bitnet.cpp")) {
        r->out->is_recorded = true;
        if ((st = recorded_open(set->against, &r->out->recorded, err))) return st;
        r->engines[1] = recorded_engine(r->out->recorded);
        memcpy(r->out->recorded_model, recorded_model(r->out->recorded), SHA256_HEX);
    } else {
        const llama_options asked = { .name = set->against, .lib = set->lib, .model = path,
                                    .n_threads = set->context.n_threads,
                                    .f32 = set->context.f32 || set->context.kv_type == QSF_KV_F32 };
        if ((st = parity_llama_open(&asked, &r->out->llama, err))) return st;
        r->engines[1] = parity_llama_engine(r->out->llama);
        if ((st = run_library(r, err))) return st;
    }
    side->load_ns = run_now() - begin;
    side->ran = true;
    strncpy(side->name, r->engines[1].name, sizeof side->name - 1);
    return QSF_OK;
}

static qsf_status run_encode(run *r, prompt *p, qsf_error *err)
{
    size_t cap = p->len + 16;
    for (int round = 0; round < 2; round++) {
        free(p->ids);
        if (!(p->ids = malloc(cap * sizeof *p->ids))) return parity_fail(err, QSF_E_MEMORY, "out of memory");
        const qsf_status st = r->out->model
            ? qsf_tokens_encode(r->out->model, p->text, p->len, QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL,
                                p->ids, cap, &p->n, err)
            : parity_llama_encode(r->out->llama, p->text, p->len, p->ids, cap, &p->n, err);
        if (st != QSF_E_ARGUMENT || p->n <= cap) return st;
        cap = p->n;
    }
    return QSF_E_ARGUMENT;
}

static qsf_status run_prompts(run *r, size_t *most, qsf_error *err)
{
    *most = 0;
    for (size_t i = 0; i < r->prompts->n; i++) {
        prompt *p = &r->prompts->items[i];
        qsf_status st = p->ids ? QSF_OK : run_encode(r, p, err);
        if (st) return st;
        if (!p->n || p->n > PROMPT_TOKENS)
            return parity_fail(err, QSF_E_ARGUMENT, "prompt %zu has %zu tokens", i, p->n);
        for (size_t k = 0; k < p->n; k++)
            if (p->ids[k] < 0 || (uint32_t)p->ids[k] >= r->n_vocab)
                return parity_fail(err, QSF_E_ARGUMENT, "prompt %zu: token %d is not in the vocabulary of %u",
                                   i,
                                   (int)p->ids[k], (unsigned)r->n_vocab);
        const size_t n = p->n + (r->set->forced ? p->n_tokens : r->set->n_steps);
        if (n > *most) *most = n;
    }
    return QSF_OK;
}

/* ---- rows ---- */

static qsf_status run_row(run *r, size_t prompt, size_t at, const float *ours, const float *other,
                          qsf_error *err)
{
    int which;
    size_t token;
    const float *y[2] = { ours, other };
    for (int k = 0; k < 2; k++) if (r->engines[k].self) sha256_add(&r->logits[k], y[k],
                                                                   4 * (size_t)r->n_vocab);
    r->last[0] = ours, r->last[1] = other;
    if (parity_row_of(ours, other, r->n_vocab, &r->row, &which, &token)) {
        parity_totals_row(&r->out->totals, &r->row);
        return QSF_OK;
    }
    if (!r->engines[which].self) which = !which;
    *r->of_other = which == 1;
    return parity_fail(err, QSF_E_CORRUPT, "%s: prompt %zu, position %zu: the logit of token %zu is not a "
                       "finite number", r->engines[which].name, prompt, at, token);
}

/* Continues with n tokens, of which `known` have a known successor. */
static qsf_status run_rows(run *r, size_t prompt, size_t at, const int32_t *ids, size_t n, size_t known,
                           qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (int k = 0; k < 2; k++) {
        if (!r->engines[k].self) continue;
        const uint64_t begin = run_now();
        if ((st = r->engines[k].rows(r->engines[k].self, ids, n, r->y[k], err))) {
            *r->of_other = k == 1;
            return st;
        }
        r->out->side[k].ns += run_now() - begin;
    }
    for (size_t i = 0; i < n; i++) {
        const float *ours = r->y[0] + i * r->n_vocab, *other = r->y[1] + i * r->n_vocab;
        if ((st = run_row(r, prompt, at + i, ours, other, err))) return st;
        if (i < known) parity_totals_target(&r->out->totals, &r->row, ours[ids[i + 1]], other[ids[i + 1]]);
        if (r->set->save && (st = recorder_row(&r->save, ids[i], other, err))) return st;
    }
    return QSF_OK;
}

static bool run_is_end(const run *r, int32_t id)
{
    return r->out->model ? qsf_token_is_end(r->out->model, id)
           : r->out->llama ? parity_llama_is_end(r->out->llama, id) : false;
}

static void run_greedy(run *r)
{
    for (int k = 0; k < 2; k++) {
        const uint32_t id = (uint32_t)r->row.top[k][0].id;
        const uint8_t bytes[4] = { (uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16),
                                   (uint8_t)(id >> 24) };
        sha256_add(&r->tokens[k], bytes, 4);
    }
}

static qsf_status run_steps(run *r, size_t i, size_t n_steps, qsf_error *err)
{
    prompt *p = &r->prompts->items[i];
    int32_t *tokens = p->tokens;
    const bool forced = r->set->forced;
    if (!forced) {
        free(p->tokens);
        p->tokens = tokens = malloc((n_steps + 1) * sizeof *tokens);
        p->n_tokens = 0;
        if (!tokens) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    }
    for (size_t s = 0; s < n_steps; s++) {
        if (!forced) tokens[p->n_tokens++] = r->row.top[1][0].id;
        r->out->totals.forced_matches += forced && tokens[s] == r->row.top[0][0].id;
        parity_totals_step(&r->out->totals, &r->row, r->last[0], r->last[1], i, s);
        run_greedy(r);
        if (s + 1 == n_steps || (!forced && run_is_end(r, tokens[s]))) break;
        const qsf_status st = run_rows(r, i, p->n + s, tokens + s, 1, 0, err);
        if (st) return st;
        parity_totals_chosen(&r->out->totals, &r->row);
    }
    return QSF_OK;
}

static qsf_status run_prompt(run *r, size_t i, qsf_error *err)
{
    const prompt *p = &r->prompts->items[i];
    qsf_status st;
    size_t n_steps = r->set->forced ? p->n_tokens : r->set->n_steps;
    if (r->out->is_recorded && n_steps > p->n_tokens + 1) n_steps = p->n_tokens + 1;
    for (int k = 0; k < 2; k++) {
        if (!r->engines[k].self) continue;
        if ((st = r->engines[k].begin(r->engines[k].self, i, p->ids, p->n, n_steps, err))) {
            *r->of_other = k == 1;
            return st;
        }
    }
    if (r->set->save && (st = recorder_prompt(&r->save, p->n, err))) return st;
    for (size_t at = 0; at < p->n; at += PARITY_ROWS) {
        const size_t n = p->n - at < PARITY_ROWS ? p->n - at : PARITY_ROWS;
        const size_t known = at + n < p->n ? n : n - 1;
        if ((st = run_rows(r, i, at, p->ids + at, n, known, err))) return st;
    }
    parity_totals_chosen(&r->out->totals, &r->row);
    if ((st = run_steps(r, i, n_steps, err))) return st;
    return r->set->save ? recorder_prompt_end(&r->save, err) : QSF_OK;
}

/* ---- all of it ---- */

static qsf_status run_all(run *r, qsf_error *err)
{
    qsf_status st = QSF_OK;
    const int teacher = r->engines[1].self != NULL;
    for (int k = 0; k < 2; k++) {
        sha256_begin(&r->logits[k]), sha256_begin(&r->tokens[k]);
        if (!r->engines[k].self) continue;
        r->y[k] = malloc((size_t)r->n_vocab * PARITY_ROWS * sizeof *r->y[k]);
        if (!r->y[k]) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    }
    /* alone: it is compared with itself */
    for (int k = 0; k < 2; k++) if (!r->engines[k].self) r->y[k] = r->y[!k];
    parity_totals_begin(&r->out->totals);
    if (r->set->save
        && (st = recorder_begin(&r->save, r->set->save, r->engines[teacher].name, r->out->file.sum,
                                r->n_vocab,
                                r->prompts->n, err)))
        return st;
    for (size_t i = 0; i < r->prompts->n && !st; i++) st = run_prompt(r, i, err);
    if (r->set->save) st = recorder_end(&r->save, st, err);
    for (int k = 0; k < 2; k++) {
        sha256_end_hex(&r->logits[k], r->out->side[k].logits);
        sha256_end_hex(&r->tokens[k], r->out->side[k].tokens);
    }
    return st;
}

static parity_outcome run_judge(const run *r)
{
    const parity_settings *set = r->set;
    const parity_totals *t = &r->out->totals;
    if (!r->engines[0].self || !r->engines[1].self) return PARITY_NONE;
    const bool ok = t->cosine_min >= set->min_cosine && parity_match_rate(t) >= set->min_match
                    && (set->max_kl < 0 || t->kl_max <= set->max_kl)
                    && (!set->strict || t->matches + t->ties == t->steps);
    return ok ? PARITY_SHOWN : PARITY_FAILED;
}

static qsf_status run_context(run *r, size_t positions, qsf_error *err)
{
    qsf_context_options o = r->set->context;
    const uint64_t begin = run_now();
    parity_ours_options(&o, positions);
    const qsf_status st = qsf_context_new(r->out->model, &o, &r->out->context, err);
    r->out->side[0].load_ns += run_now() - begin;
    if (st) return st;
    r->out->side[0].ran = true;
    memcpy(r->out->side[0].name, "libqsf", 7);
    r->engines[0] = parity_ours_engine(r->out->context);
    return QSF_OK;
}

/* If our reader rejects a model, the other engine may run alone; that does not show parity, which
 * is reported. */
static bool run_may_go_on(run *r, qsf_status st, const qsf_error *err)
{
    if ((st != QSF_E_UNSUPPORTED && st != QSF_E_CORRUPT) || !strcmp(r->set->against, "none")) return false;
    run_without_path(err->text, r->set->model, r->out->refused, sizeof r->out->refused);
    r->out->refused_status = qsf_status_name(st);
    return true;
}

static qsf_status run_work(run *r, qsf_error *err)
{
    const parity_settings *set = r->set;
    qsf_error ours;
    size_t positions;
    qsf_status st = run_sum(&r->out->file, set->model, &r->out->hash_ns, err);
    if (!st && set->other_model) st = run_sum(&r->out->other_file, set->other_model, &r->out->hash_ns, err);
    if (st) return st;
    st = run_open_ours(r, &ours);
    if (st && !run_may_go_on(r, st, &ours)) return *err = ours, st;
    const bool refused = st != QSF_OK;
    if (strcmp(set->against, "none") && (st = run_open_other(r, err))) {
        if (refused && !r->out->is_recorded) *err = ours;       /* neither can: ours is more specific */
        else *r->of_other = true;
        return st;
    }
    if (r->out->is_recorded && !set->forced && !r->prompts->n) {
        size_t steps;
        if ((st = recorded_prompts(r->out->recorded, r->prompts, &steps, err))) return st;
    }
    qsf_model_info info = { .size = sizeof info };
    if (!refused) qsf_model_get_info(r->out->model, &info);
    r->n_vocab = refused ? r->engines[1].n_vocab : info.n_vocab;
    if (r->engines[1].self && r->engines[1].n_vocab != r->n_vocab) {
        *r->of_other = true;
        return parity_fail(err, QSF_E_ARGUMENT, "%s has a vocabulary of %u tokens, we have %u: these are "
                           "different models",
                           r->engines[1].name, (unsigned)r->engines[1].n_vocab, (unsigned)r->n_vocab);
    }
    if (refused && r->out->is_recorded)
        return parity_fail(err, ours.status, "%s", ours.text);
    if ((st = run_prompts(r, &positions, err))) return st;
    if (!refused && (st = run_context(r, positions, &ours))) {
        if (!r->engines[1].self || r->out->is_recorded || !run_may_go_on(r, st, &ours)) return *err = ours,
            st;
    }
    return run_all(r, err);
}

qsf_status parity_run(const parity_settings *set, prompt_list *prompts, parity_result *out, bool *of_other,
                      qsf_error *err)
{
    run r = { .set = set, .prompts = prompts, .out = out, .of_other = of_other };
    *out = (parity_result){ .begin_s = (uint64_t)time(NULL) };
    *of_other = false;
    const qsf_status st = run_work(&r, err);
    if (!st) out->outcome = run_judge(&r);
    for (int k = 0; k < 2; k++) if (r.engines[k].self) free(r.y[k]);
    return st;
}

void parity_result_free(parity_result *r)
{
    qsf_context_free(r->context);
    qsf_model_close(r->model);
    parity_llama_close(r->llama);
    recorded_close(r->recorded);
    *r = (parity_result){ 0 };
}
