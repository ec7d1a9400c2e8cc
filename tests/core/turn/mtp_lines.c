/* Drafts by a layer for multi-token prediction, by an EAGLE 3 head or by a draft model, for
 * mtp_test.py.
 * SPDX-License-Identifier: MIT
 *
 *     mtp_lines MODEL logits N IDS     the logits after the prompt, then those of N guesses; of a
 *         head what it takes of the last row comes next, and its hidden states before its logits
 *     mtp_lines MODEL turns DRAFT TEMPERATURE SEED MOST least|all IDS...
 *         answers to prompts that share a sequence, one after another: a line of tokens each,
 *         then how many guesses were made and right, and a sum over them.  DRAFT 0: without the
 *         layer; least: the model's layers stream
 *     mtp_lines MODEL measured ...     the same; times decide how many guesses are made
 *     mtp_lines MODEL together ...     the same in one batch, each prompt in a sequence of its own;
 *         a prompt that begins as the first one shares that one's positions
 *     mtp_lines MODEL errors OTHER     the messages of qsf_mtp_new
 *     mtp_lines MODEL faults IDS       whatever fails once, nothing leaks; prints how many calls
 *     IDS: numbers with commas.  MODEL:DRAFT in place of MODEL: the second one is a draft model or
 *     a head */
#include "fault_platform.h"
#include "qsf_schedule.h"
#include "small_context.h"
#include "turn/eagle.h"

#include <stdio.h>

enum { IDS = 512, N_CTX = 256, ROWS = 24, SEQS = 4 };

typedef struct ids { int32_t at[IDS]; size_t n; } ids;

static int failed(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

static ids ids_of(const char *text)
{
    ids x = { .n = 0 };
    for (char *end; *text && x.n < IDS; text = *end ? end + 1 : end)
        x.at[x.n++] = (int32_t)strtol(text, &end, 10);
    return x;
}

/* The path of the model, which ends before that of the draft model; NULL: no draft model. */
static const char *paths_of(char *both)
{
    char *draft = strchr(both, ':');
    if (draft) *draft++ = 0;
    return draft;
}

/* The model, or its layer, or a draft model; streams: in the least memory; several: SEQS
 * sequences. */
enum { MODEL, LAYER = 1, STREAMS = 2, SEVERAL = 4, DRAFT = 8 };
static qsf_status open_context(const qsf_platform *p, const char *path, int how, qsf_model **m,
                               qsf_context **c, qsf_error *err)
{
    const bool mtp = how & LAYER, streams = how & STREAMS;
    const uint32_t n_seqs = how & SEVERAL ? SEQS : 1, n_logits = n_seqs * (1 + QSF_DRAFT_MOST);
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_options mo;
    /* a prompt takes several batches */
    const uint32_t n_batch = how & (LAYER | DRAFT) ? ROWS : n_seqs > 1 ? n_logits : 16;
    qsf_context_options co = small_context(N_CTX, n_seqs, n_batch, n_logits);
    qsf_model_defaults(&mo);
    mo.mtp = mtp;
    mo.platform = p;
    co.f32 = true;
    co.ram_budget = streams;
    qsf_status st = qsf_model_open(path, &mo, m, err);
    if (!st && streams && qsf_context_plan(*m, &co, &plan, err) == QSF_E_BUDGET) co.ram_budget = plan.least;
    if (st || (st = qsf_context_new(*m, &co, c, err))) return st;
    qsf_context_get_plan(*c, &plan);
    return streams && plan.resident ? QSF_E_BUDGET : QSF_OK;
}

static void print_logits(const float *logits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) printf("%s%.7g", i ? "," : "", (double)logits[i]);
    printf("\n");
}

static int32_t largest(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

static int run_logits(qsf_model *m, qsf_context *c, qsf_context *layer, size_t n, const ids *prompt)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_row rows[ROWS];
    float states[ROWS][512];
    qsf_model_get_info(m, &info);
    if (info.n_embd > 512 || prompt->n > 16 || prompt->n < 2) return failed("logits", "a longer prompt");
    qsf_hidden_ask(c, true);
    qsf_hidden_ask(layer, true);
    for (size_t i = 0; i < prompt->n; i++) rows[i] = (qsf_row){ 0, prompt->at[i], i + 1 == prompt->n };
    if (qsf_compute(c, rows, prompt->n)) return failed("model", qsf_last_error(c));
    print_logits(qsf_logits(c, 0), info.n_vocab);
    size_t k = prompt->n;
    for (size_t i = 0; i < k; i++) {
        memcpy((float *)states + i * info.n_embd, qsf_hidden(c, i), info.n_embd * sizeof(float));
        rows[i].token = i + 1 < k ? prompt->at[i + 1] : largest(qsf_logits(c, 0), info.n_vocab);
    }
    for (size_t i = 0; i < n; i++, k = 1) {
        if (qsf_compute_from(layer, rows, k, (float *)states)) return failed("layer", qsf_last_error(layer));
        print_logits(qsf_logits(layer, 0), info.n_vocab);
        memcpy(states, qsf_hidden(layer, k - 1), info.n_embd * sizeof(float));
        rows[0] = (qsf_row){ 0, largest(qsf_logits(layer, 0), info.n_vocab), true };
    }
    return 0;
}

/* The same of a head. */
static int run_head(qsf_model *m, qsf_context *c, qsf_context *layer, size_t n, const ids *prompt)
{
    enum { N_BATCH = 16, MOST = 40000 };
    static float floats[MOST];
    qsf_model_info info = { .size = sizeof info };
    qsf_row rows[ROWS];
    qsf_eagle e;
    qsf_model_get_info(m, &info);
    if (prompt->n > N_BATCH || qsf_eagle_floats(layer->hp, N_BATCH, ROWS) > MOST)
        return failed("logits", "a longer prompt");
    const uint32_t n_embd = layer->hp->n_embd, n_vocab = layer->hp->n_vocab;
    qsf_eagle_init(&e, c, layer, floats);
    c->follower = (qsf_follower){ .tapped = e.tapped, .taps = layer->model->source->taps };
    qsf_hidden_ask(layer, true);
    for (size_t i = 0; i < prompt->n; i++) rows[i] = (qsf_row){ 0, prompt->at[i], i + 1 == prompt->n };
    if (qsf_compute(c, rows, prompt->n)) return failed("model", qsf_last_error(c));
    size_t k = prompt->n;
    print_logits(qsf_logits(c, 0), info.n_vocab);
    print_logits(e.tapped + (k - 1) * layer->hp->n_features, layer->hp->n_features);
    for (size_t i = 0; i < k; i++)
        rows[i].token = i + 1 < k ? prompt->at[i + 1] : largest(qsf_logits(c, 0), info.n_vocab);
    for (size_t i = 0; i < n; i++, k = 1) {
        if (qsf_eagle_compute(&e, rows, k, e.tapped, i > 0)) return failed("head", qsf_last_error(layer));
        print_logits(qsf_hidden(layer, k - 1), n_embd);
        print_logits(qsf_logits(layer, 0), n_vocab);
        memcpy(e.tapped, qsf_hidden(layer, k - 1), n_embd * sizeof(float));
        rows[0] = (qsf_row){ 0, qsf_eagle_token(&e, largest(qsf_logits(layer, 0), n_vocab)), true };
    }
    return 0;
}

/* ---- guesses, and a sum over them that tells which they were ---- */

static uint64_t guesses;

static void note(const qsf_guess *g)
{
    uint64_t h = g->n;
    for (size_t i = 0; i < g->found; i++) h = (h + (uint64_t)g->out[i] + 1) * 0x9e3779b97f4a7c15u;
    if (g->found) guesses += h ^ h >> 32;
}

typedef struct drafts { qsf_mtp *mtp; qsf_draft_model *model; } drafts;

static bool by_model;                   /* which of the two makes them */

static qsf_status drafts_new(drafts *d, qsf_context *c, qsf_context *layer, bool fixed, qsf_error *err)
{
    by_model &= !layer->hp->eagle;
    return by_model ? qsf_draft_model_new(c, layer, &d->model, err)
        : qsf_mtp_new(c, layer, fixed, &d->mtp, err);
}

static void *drafts_user(const drafts *d, qsf_seq s)
{
    return d->model ? qsf_draft_model_user(d->model, s) : d->mtp ? qsf_mtp_user(d->mtp, s) : NULL;
}

/* Frees them.  An error that ended the guesses is reported. */
static int drafts_end(drafts *d, int code)
{
    const char *why = d->model ? qsf_draft_model_error(d->model) : d->mtp ? qsf_mtp_error(d->mtp) : "";
    if (*why) code = failed("guesses", why);
    qsf_draft_model_free(d->model);
    qsf_mtp_free(d->mtp);
    return code;
}

static void guess_many(qsf_guess *list, size_t n)
{
    (by_model ? qsf_draft_model_guess_many : qsf_mtp_guess_many)(list, n);
    for (size_t i = 0; i < n; i++) note(&list[i]);
}

static size_t guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    qsf_guess one = { .user = user, .ids = ids, .n = n, .out = out, .cap = cap };
    one.found = (by_model ? qsf_draft_model_guess : qsf_mtp_guess)(user, ids, n, out, cap);
    note(&one);
    return one.found;
}

static void print_counts(uint64_t made, uint64_t right)
{
    printf("%llu %llu %llu\n", (unsigned long long)made, (unsigned long long)right,
           (unsigned long long)guesses);
}

static int run_turn(qsf_turn *t, qsf_sampler *s, const qsf_turn_options *o, const ids *prompt)
{
    qsf_turn_piece piece = { .size = sizeof piece };
    qsf_turn_state state = { .size = sizeof state };
    qsf_status st = qsf_turn_begin(t, prompt->at, prompt->n, s, o);
    const char *between = "";
    while (!st || st == QSF_PENDING) {
        if ((st = qsf_turn_next(t, &piece)) == QSF_PENDING) {
            st = qsf_turn_step(t, NULL);
            continue;
        }
        if (st || piece.end) break;
        printf("%s%d", between, (int)piece.token);
        between = ",";
    }
    printf("\n");
    qsf_turn_get_state(t, &state);
    return st || state.end == QSF_TURN_FAILED ? failed("turn", qsf_turn_error(t)->text) : 0;
}

/* DRAFT TEMPERATURE SEED MOST */
static void read_options(char **args, qsf_turn_options *o, qsf_sampler_options *so)
{
    qsf_sampler_defaults(so);
    qsf_turn_defaults(o);
    o->draft = (uint32_t)atoi(args[0]);
    so->temperature = (float)atof(args[1]);
    so->seed = (uint64_t)atoi(args[2]);
    o->max_tokens = atoi(args[3]);
    o->ignore_end = true;
}

static int run_turns(qsf_model *m, qsf_context *c, qsf_context *layer, char **args, int n, bool fixed)
{
    qsf_sampler_options so;
    qsf_turn_options o;
    qsf_error err = { 0 };
    qsf_sampler *sampler = NULL;
    qsf_turn *turn = NULL;
    drafts d = { NULL, NULL };
    qsf_turn_state state = { .size = sizeof state };
    read_options(args, &o, &so);
    o.draft_fixed = fixed;
    if (o.draft && drafts_new(&d, c, layer, fixed, &err)) return failed("drafts", err.text);
    if (o.draft) o.guess = guess, o.guess_user = drafts_user(&d, 0);
    int code = qsf_sampler_new(m, &so, &sampler, &err) || qsf_turn_new(c, 0, &turn, &err)
        ? failed("turn", err.text) : 0;
    for (int i = 5; i < n && !code; i++) {
        const ids prompt = ids_of(args[i]);
        code = run_turn(turn, sampler, &o, &prompt);
        qsf_turn_get_state(turn, &state);
    }
    print_counts(state.n_guessed, state.n_right);
    qsf_turn_free(turn);
    qsf_sampler_free(sampler);
    return drafts_end(&d, code);
}

/* ---- several sequences in a batch ---- */

typedef struct one { ids prompt, said; qsf_turn *turn; qsf_sampler *sampler; bool over; } one;

/* Takes the tokens that are there. */
static int take(one *x)
{
    qsf_turn_piece piece = { .size = sizeof piece };
    qsf_status st = QSF_OK;
    while (!x->over && (st = qsf_turn_next(x->turn, &piece)) == QSF_OK) {
        x->over = piece.end;
        if (piece.token >= 0) x->said.at[x->said.n++] = piece.token;
        if (piece.end == QSF_TURN_FAILED) return failed("turn", qsf_turn_error(x->turn)->text);
    }
    return st && st != QSF_PENDING ? failed("turn", "qsf_turn_next") : 0;
}

/* One batch of all; *rest: turns that are not over. */
static int step_all(qsf_context *c, one *all, int n, uint32_t draft, int *rest)
{
    qsf_row rows[SEQS * (1 + QSF_DRAFT_MOST)];
    qsf_turn *turns[SEQS] = { NULL };
    size_t n_rows = 0, first = 0, made;
    for (int i = 0; i < n; i++) turns[i] = all[i].turn;
    (void)qsf_turns_guess(turns, (size_t)n, draft, &made);
    for (int i = 0; i < n; i++)
        if (!all[i].over) n_rows += qsf_turn_rows(turns[i], rows + n_rows, 1 + draft);
    if (n_rows && qsf_compute(c, rows, n_rows)) return failed("model", qsf_last_error(c));
    for (int i = 0; i < n; i++)
        if (!all[i].over) first += qsf_turn_computed(turns[i], first);
    *rest = 0;
    for (int i = 0; i < n; i++) {
        if (take(&all[i])) return 1;
        *rest += !all[i].over;
    }
    return 0;
}

/* Begins a turn; once the first one's prompt is computed, others share its beginning. */
static int begin_one(qsf_model *m, qsf_context *c, one *all, int i, const qsf_sampler_options *so,
                     const qsf_turn_options *o)
{
    qsf_error err = { 0 };
    one *x = &all[i];
    const ids *p = &x->prompt;
    size_t same = 0;
    while (i && same + 1 < p->n && same < all->prompt.n && p->at[same] == all->prompt.at[same]) same++;
    if (qsf_sampler_new(m, so, &x->sampler, &err) || qsf_turn_new(c, i, &x->turn, &err))
        return failed("turn", err.text);
    if (same && (qsf_seq_share(c, i, 0, (uint32_t)same) || qsf_turn_hold(x->turn, p->at, same)))
        return failed("qsf_seq_share", qsf_last_error(c));
    return qsf_turn_begin(x->turn, p->at, p->n, x->sampler, o) ? failed("begin", "qsf_turn_begin") : 0;
}

static int run_together(qsf_model *m, qsf_context *c, qsf_context *layer, char **args, int n)
{
    one all[SEQS] = { { .over = false } };
    qsf_sampler_options so;
    qsf_turn_options o;
    qsf_error err = { 0 };
    drafts d = { NULL, NULL };
    uint64_t guessed = 0, right = 0;
    int code = 0, begun = 0, rest = 0;
    read_options(args, &o, &so);
    if (o.draft && drafts_new(&d, c, layer, true, &err)) return failed("drafts", err.text);
    if (o.draft) o.guess_many = guess_many;
    for (; begun < SEQS && begun + 5 < n && !code; begun++) {
        all[begun].prompt = ids_of(args[begun + 5]);
        o.guess_user = drafts_user(&d, begun);
        code = begin_one(m, c, all, begun, &so, &o);
        /* the first one answers already when the others come */
        for (int k = 0; !begun && k < 40 && !code; k++) code = step_all(c, all, 1, o.draft, &rest);
    }
    do {
        if (!code) code = step_all(c, all, begun, o.draft, &rest);
    } while (rest && !code);
    for (int i = 0; i < begun; i++) {
        qsf_turn_state state = { .size = sizeof state };
        for (size_t k = 0; k < all[i].said.n; k++) printf("%s%d", k ? "," : "", (int)all[i].said.at[k]);
        printf("\n");
        if (all[i].turn) qsf_turn_get_state(all[i].turn, &state);
        guessed += state.n_guessed;
        right += state.n_right;
        qsf_turn_free(all[i].turn);
        qsf_sampler_free(all[i].sampler);
    }
    print_counts(guessed, right);
    return drafts_end(&d, code);
}

static int run_errors(const char *path, const char *other)
{
    qsf_error err = { 0 };
    qsf_model *m[3] = { NULL };
    qsf_context *c[4] = { NULL };
    qsf_context_options co;
    qsf_mtp *mtp = NULL;
    qsf_context_defaults(&co);
    co.n_seqs = 2;
    int code = open_context(NULL, path, MODEL, &m[0], &c[0], &err) ||
        open_context(NULL, path, LAYER, &m[1], &c[1], &err) ||
        open_context(NULL, other, LAYER, &m[2], &c[2], &err) || qsf_context_new(m[0], &co, &c[3], &err)
        ? failed("open", err.text) : 0;
    const int pairs[3][2] = { { 0, 0 }, { 1, 1 }, { 0, 2 } };
    for (int i = 0; i < 3 && !code; i++) {
        if (!qsf_mtp_new(c[pairs[i][0]], c[pairs[i][1]], true, &mtp, &err) || mtp)
            code = failed("qsf_mtp_new", "no error");
        printf("%d %s\n", (int)err.status, err.text);
    }
    if (!code && !qsf_mtp_new(c[3], c[1], true, &mtp, &err))     /* the layer has one sequence of two */
        printf("%d\n", qsf_mtp_user(mtp, 0) && !qsf_mtp_user(mtp, 1) && !qsf_mtp_user(mtp, -1));
    qsf_mtp_free(mtp);
    qsf_mtp_free(NULL);
    for (int i = 0; i < 4; i++) qsf_context_free(c[i]);
    for (int i = 0; i < 3; i++) qsf_model_close(m[i]);
    return code;
}

/* One answer with a platform's fault; 1: a call failed. */
static int run_faulty(const qsf_platform *p, const char *path, const char *draft, const ids *prompt)
{
    qsf_error err = { 0 };
    qsf_model *m = NULL, *part = NULL;
    qsf_context *c = NULL, *layer = NULL;
    drafts d = { NULL, NULL };
    qsf_turn *turn = NULL;
    qsf_sampler *sampler = NULL;
    qsf_sampler_options so;
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    qsf_sampler_defaults(&so);
    so.temperature = 0;
    o.draft = 3;
    o.draft_fixed = true;
    o.max_tokens = 6;
    bool bad = open_context(p, path, MODEL, &m, &c, &err) ||
        open_context(p, draft ? draft : path, draft ? DRAFT : LAYER, &part, &layer, &err) ||
        drafts_new(&d, c, layer, true, &err) ||
        qsf_sampler_new(m, &so, &sampler, &err) || qsf_turn_new(c, 0, &turn, &err);
    if (!bad) {
        o.guess = guess;
        o.guess_user = drafts_user(&d, 0);
        bad = run_turn(turn, sampler, &o, prompt);
    }
    qsf_turn_free(turn);
    qsf_sampler_free(sampler);
    bad = drafts_end(&d, bad);
    qsf_context_free(layer);
    qsf_model_close(part);
    qsf_context_free(c);
    qsf_model_close(m);
    return bad;
}

static int run_faults(const char *path, const char *draft, const char *text)
{
    const ids prompt = ids_of(text);
    fault_platform fp;
    for (uint64_t n = 1;; n++) {
        fault_init_over(&fp, qsf_platform_native());
        fp.fail_at = n;
        const int bad = run_faulty(&fp.table, path, draft, &prompt);
        if (fp.bytes || fp.files || fp.reads) return failed("faults", "something leaks");
        if (fp.calls >= n) continue;
        printf("%llu\n", (unsigned long long)n);
        return bad;
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) return failed("mtp_lines", "see its source");
    const char *draft = paths_of(argv[1]);
    by_model = draft;
    if (!strcmp(argv[2], "errors")) return run_errors(argv[1], argv[3]);
    if (!strcmp(argv[2], "faults")) return run_faults(argv[1], draft, argv[3]);
    qsf_error err = { 0 };
    qsf_model *m = NULL, *part = NULL;
    qsf_context *c = NULL, *layer = NULL;
    const bool logits = argc == 5 && !strcmp(argv[2], "logits"), measured = !strcmp(argv[2], "measured"),
        together = !strcmp(argv[2], "together");
    if (!logits && (argc < 9 || (strcmp(argv[2], "turns") && !measured && !together)))
        return failed("mtp_lines", "see its source");
    const bool without = !logits && !strcmp(argv[3], "0");
    const int streams = !logits && !strcmp(argv[7], "least") ? STREAMS : 0, several = together ? SEVERAL : 0;
    int code = open_context(NULL, argv[1], MODEL | streams | several, &m, &c, &err) ||
        (!without && open_context(NULL, draft ? draft : argv[1], (draft ? DRAFT : LAYER) | several, &part,
                                  &layer, &err))
        ? failed("open", err.text) : 0;
    if (!code && logits) {
        const ids prompt = ids_of(argv[4]);
        code = (layer->hp->eagle ? run_head : run_logits)(m, c, layer, (size_t)atoi(argv[3]), &prompt);
    } else if (!code && together) {
        code = run_together(m, c, layer, argv + 3, argc - 3);
    } else if (!code) {
        code = run_turns(m, c, layer, argv + 3, argc - 3, !measured);
    }
    qsf_context_free(layer);
    qsf_model_close(part);
    qsf_context_free(c);
    qsf_model_close(m);
    return code;
}
