/* The answer: sampled, detokenised and streamed, with stop texts held back until they are sure not to be one.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

static bool answer_room(answer *a, size_t more)
{
    if (a->len + more >= a->cap) {
        const size_t cap = 2 * (a->len + more) + 256;
        char *text = realloc(a->text, cap);
        if (!text) return false;
        a->text = text;
        a->cap = cap;
    }
    if (a->n_ids == a->cap_ids) {
        const size_t cap = 2 * a->cap_ids + 256;
        int32_t *ids = realloc(a->ids, cap * sizeof *ids);
        if (!ids) return false;
        a->ids = ids;
        a->cap_ids = cap;
    }
    return true;
}

void answer_free(answer *a)
{
    free(a->text);
    free(a->ids);
    *a = (answer){ 0 };
}

/* The place in text[from..len) where stop begins, wholly or with the part that is there; len where it does not. */
static size_t stop_place(const char *text, size_t from, size_t len, const char *stop, bool *whole)
{
    const size_t n = strlen(stop);
    for (size_t at = from; n && at < len; at++) {
        const size_t have = len - at < n ? len - at : n;
        if (memcmp(text + at, stop, have)) continue;
        *whole = have == n;
        return at;
    }
    *whole = false;
    return len;
}

/* How much of the text may be shown: up to what could be the beginning of a stop text.  *found: one is there, it begins at the result. */
static size_t text_safe(const run_session *s, const answer *a, size_t from, bool *found)
{
    size_t safe = a->len;
    *found = false;
    const char *own = s->template_name ? qsf_chat_stop(s->model, s->template_name) : NULL;
    for (size_t i = 0; i <= s->set->stop.n; i++) {
        const char *stop = i < s->set->stop.n ? s->set->stop.items[i] : own;
        bool whole;
        if (!stop) continue;
        const size_t at = stop_place(a->text, from, a->len, stop, &whole);
        if (whole && (!*found || at < safe)) {
            *found = true;
            safe = at;
        } else if (!*found && at < safe) {
            safe = at;
        }
    }
    return safe;
}

/* A terminal obeys control characters: those of an answer are shown there as ^X, and obeyed by nobody. */
static void print_shown(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool c1 = c == 0xc2 && i + 1 < n && (unsigned char)text[i + 1] < 0xa0;
        if (c1) fputs("\xef\xbf\xbd", stdout), i++;
        else if ((c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t') putchar(c);
        else if (c != '\r') printf("^%c", c ^ 0x40);
    }
}

/* False: nobody can see it any more. */
static bool answer_show(answer *a, size_t *shown, size_t until, bool print)
{
    if (until <= *shown) return true;
    if (print && terminal_is(stdout)) print_shown(a->text + *shown, until - *shown);
    else if (print) fwrite(a->text + *shown, 1, until - *shown, stdout);
    *shown = until;
    return !print || output_flush();
}

int generate_answer(run_session *s, const int32_t *ids, size_t n_ids, const float *logits, bool print, answer *a)
{
    int code = EXIT_OK;
    draft d;
    const long long most = s->set->max_tokens;
    qsf_utf8_tail tail = { 0 };
    size_t shown = 0;
    bool found = false;
    const qsf_error no_memory = { QSF_E_MEMORY, "out of memory for the answer" };
    if (!draft_begin(&d, s, ids, n_ids)) return report(&no_memory);
    for (long long i = 0; most < 0 || i < most; i++) {
        const char *piece;
        const uint64_t begin = clock_ns();
        const int32_t id = qsf_sampler_pick(s->sampler, logits);
        s->ns_sampling += clock_ns() - begin;
        if (qsf_token_is_end(s->model, id) && !s->set->ignore_eos) break;
        qsf_sampler_accept(s->sampler, id);
        const size_t n = qsf_token_piece(s->model, id, s->set->ignore_eos, &piece);
        if (!answer_room(a, 3 * (n + 4))) {
            code = report(&no_memory);
            break;
        }
        a->ids[a->n_ids++] = id;
        a->len += qsf_utf8_push(&tail, piece, n, a->text + a->len);
        const size_t safe = text_safe(s, a, shown, &found);
        if (!answer_show(a, &shown, safe, print)) {
            code = EXIT_IO;
            break;
        }
        if (found) {
            a->len = safe;
            break;
        }
        if (interrupted()) {
            a->stopped = true;
            break;
        }
        if (most >= 0 && i + 1 == most) break;
        const qsf_status st = draft_next(&d, s, id, most < 0 ? -1 : most - i - 2, &logits);
        if (st == QSF_E_FULL) {
            a->full = true;
            break;
        }
        if (st) {
            code = report_context(s->context, st);
            break;
        }
    }
    draft_end(&d, s);
    if (code) return code;
    if (!found && !answer_show(a, &shown, a->len, print)) code = EXIT_IO;
    if (a->text) a->text[a->len] = 0;
    return code;
}

int feed_prompt(run_session *s, const int32_t *ids, size_t from, size_t n, const char *what,
    const float **logits)
{
    const size_t part = qsf_context_batch(s->context);
    qsf_error e = { .status = n ? QSF_E_FULL : QSF_E_ARGUMENT };
    qsf_plan plan;
    if (n == 0) {
        snprintf(e.text, sizeof e.text, "%s is empty and the model has no token that begins a text", what);
        return report(&e);
    }
    if (n - from > qsf_seq_room(s->context, 0)) {
        qsf_context_get_plan(s->context, &plan);
        snprintf(e.text, sizeof e.text, "%s has %zu tokens, the context %u positions; %s", what, n,
            (unsigned)plan.n_ctx, session_longer(s));
        return report(&e);
    }
    for (size_t at = from; at < n; at += part) {
        const size_t len = n - at < part ? n - at : part;
        const qsf_status st = qsf_feed(s->context, 0, ids + at, len, at + len == n ? logits : NULL);
        if (st) return report_context(s->context, st);
        if (interrupted()) return EXIT_INTERRUPTED;
        if (s->set->verbose && terminal_is(stderr) && at + len < n) fprintf(stderr, "\rprompt %zu of %zu tokens", at + len, n);
    }
    return EXIT_OK;
}

static void print_json_ids(const int32_t *ids, size_t n)
{
    printf("{\"ids\":[");
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : "", (int)ids[i]);
    printf("]}\n");
}

/* The prompt and the answer to the file of --session. */
static int keep_both(run_session *s, const int32_t *ids, size_t n, const answer *a)
{
    int32_t *all = s->set->session ? malloc((n + a->n_ids) * sizeof *all) : NULL;
    if (!all) return EXIT_OK;
    memcpy(all, ids, n * sizeof *all);
    if (a->n_ids) memcpy(all + n, a->ids, a->n_ids * sizeof *all);
    const int code = session_keep(s, all, n + a->n_ids);
    free(all);
    return code;
}

int run_once(run_session *s, const char *prompt, size_t len)
{
    answer a = { 0 };
    const float *logits = NULL;
    size_t n, n_kept;
    int32_t *kept, *ids = session_prompt(s, prompt, len, &n);
    if (!ids) return report(&s->error);
    int code = session_resume(s, &kept, &n_kept);
    for (size_t i = 0; i < n; i++) qsf_sampler_accept(s->sampler, ids[i]);
    if (!code) code = feed_prompt(s, ids, s->set->session ? session_prefix(s, kept, n_kept, ids, n) : 0, n,
        "the prompt", &logits);
    free(kept);
    if (!code && s->set->max_tokens != 0) code = generate_answer(s, ids, n, logits, !s->set->json, &a);
    if (s->set->json) print_json_ids(a.ids, a.n_ids);
    else if (a.len && a.text[a.len - 1] != '\n') putchar('\n');
    if (a.full) fprintf(stderr, "the context is full; %s\n", session_longer(s));
    if (!code) code = keep_both(s, ids, n, &a);
    if (!code && a.stopped) code = EXIT_INTERRUPTED;
    answer_free(&a);
    free(ids);
    return code;
}
