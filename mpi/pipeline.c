/* The pipeline: batches are passed from rank to rank, and logits back to rank 0, which has the
 * texts.
 * SPDX-License-Identifier: MIT
 *
 * Every rank should be busy all the time.  So a prompt is split into batches of a few rows, and
 * only the last is waited for; and decoding texts are split into as many batches as there are
 * ranks: while one batch is on rank 1, rank 0 computes the next.  Messages are always in the order
 * of batches. */
#include "job.h"
#include "link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1, LOGITS = 2, END = 3, CUT = 4, BACK = 5, SHARE = 6, ADAPT = 7,
       LOAD = 8, LOADED = 9, DROP = 10 };

/* A message: this, the rows, then their states; or this and the logits; or this alone.  In CUT, n
 * is the length that sequence 0 is truncated to, or was truncated to; BACK has sequence and length
 * in n and asked, SHARE the two sequences and the length in n, asked and wire, ADAPT a sequence in
 * n and in asked the number of adapters (job_adapter) that follow.  In LOAD, LOADED and DROP, n is
 * an adapter's number; LOAD is followed by a hash and a path, LOADED, which is sent to rank 0, by a
 * qsf_error. */
typedef struct head { uint32_t kind, n, asked, wire; } head;

typedef struct text {
    int32_t *ids;
    size_t   n_ids, n_prompt, n_sent;
    bool     waits, done;
    uint64_t hash;              /* of all its logits */
    qsf_sampler *sampler;
} text;

typedef struct flight { size_t n; int32_t seqs[256]; } flight;      /* texts whose logits are needed */

typedef struct lead {
    job    *j;
    text   *texts;
    size_t  n_texts, n_left;
    qsf_row *rows;
    flight *flights;            /* a ring, those under way from `from` on */
    size_t  n_flights, from, under_way;
    size_t  n_decoded;
} lead;

static void *need(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p) link_fail("out of memory");
    return p;
}

/* The states of a batch, to the next rank; states NULL: of the one that was just computed here. */
static void pass_on(const job *j, const qsf_row *rows, size_t n, const float *states, size_t ld)
{
    const head h = { BATCH, (uint32_t)n, 0, j->wire };
    const size_t row = wire_bytes(j->wire, j->info.n_embd);
    unsigned char *at = link_message(sizeof h + n * (sizeof *rows + row));
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    memcpy(at, rows, n * sizeof *rows);
    at += n * sizeof *rows;
    for (size_t i = 0; i < n; i++, at += row)
        wire_pack(j->wire, at, states ? states + i * ld : qsf_batch_states(j->c, i), j->info.n_embd);
    link_go(link_rank + 1);
}

/* Truncates sequence 0, here and on the later ranks, which report its length. */
static void cut(job *j, const head *h)
{
    if (qsf_seq_truncate(j->c, 0, h->n)) link_fail("%s", qsf_last_error(j->c));
    if (link_rank + 1 < link_ranks) link_send(link_rank + 1, h, sizeof *h);
    if (link_rank) link_send(0, &(head){ CUT, qsf_seq_length(j->c, 0), 0, 0 }, sizeof *h);
}

/* What rank 0 has done with a sequence, to the next rank. */
static void pass_seq(const head *h)
{
    if (link_rank + 1 < link_ranks) link_send(link_rank + 1, h, sizeof *h);
}

static void pass_adapters(const head *h, const job_adapter *uses)
{
    if (link_rank + 1 == link_ranks) return;
    unsigned char *at = link_message(sizeof *h + h->asked * sizeof *uses);
    memcpy(at, h, sizeof *h);
    if (h->asked) memcpy(at + sizeof *h, uses, h->asked * sizeof *uses);
    link_go(link_rank + 1);
}

static void pass_adapter(const head *h, uint64_t sum, const char *path)
{
    const size_t len = strlen(path) + 1;
    if (link_rank + 1 == link_ranks) return;
    unsigned char *at = link_message(sizeof *h + sizeof sum + len);
    memcpy(at, h, sizeof *h);
    memcpy(at + sizeof *h, &sum, sizeof sum);
    memcpy(at + sizeof *h + sizeof sum, path, len);
    link_go(link_rank + 1);
}

/* ---- the ranks after rank 0 ---- */

/* A sequence gets adapters, by their numbers among this rank's. */
static qsf_status take_adapters(job *j, const head *h, const unsigned char *bytes, size_t len)
{
    job_adapter asked[JOB_ADAPTERS];
    qsf_adapter_use uses[JOB_ADAPTERS];
    if (h->asked > JOB_ADAPTERS || len != h->asked * sizeof *asked)
        link_fail("rank %d sent a damaged list of adapters", link_rank - 1);
    if (len) memcpy(asked, bytes, len);
    for (uint32_t i = 0; i < h->asked; i++) {
        qsf_adapter *a = asked[i].number < j->n_adapters ? j->adapters[asked[i].number] : NULL;
        if (!a) link_fail("rank 0 uses an adapter that this rank does not have");
        uses[i] = (qsf_adapter_use){ a, asked[i].scale };
    }
    pass_adapters(h, asked);
    return qsf_seq_set_adapters(j->c, (qsf_seq)h->n, uses, h->asked);
}

/* A message about an adapter; false: it is another one. */
static bool take_adapter(job *j, const head *h, const unsigned char *rest, size_t len)
{
    uint64_t sum;
    char path[1024];
    qsf_error err = { 0 };
    if (h->kind == DROP) {
        pass_seq(h);
        job_adapter_close(j, h->n);
        return true;
    }
    if (h->kind != LOAD) return false;
    if (len <= sizeof sum || len > sizeof sum + sizeof path || rest[len - 1])
        link_fail("rank %d sent a damaged adapter path", link_rank - 1);
    memcpy(&sum, rest, sizeof sum);
    memcpy(path, rest + sizeof sum, len - sizeof sum);
    pass_adapter(h, sum, path);         /* all read at the same time */
    job_adapter_asked(j, h->n, path, sum, &err);
    const head answer = { LOADED, h->n, 0, 0 };
    unsigned char *at = link_message(sizeof answer + sizeof err);
    memcpy(at, &answer, sizeof answer);
    memcpy(at + sizeof answer, &err, sizeof err);
    link_go(0);
    return true;
}

/* A message about sequences; false: it is another one. */
static bool take_seq(job *j, const head *h, const unsigned char *rest, size_t len)
{
    qsf_status st = QSF_OK;
    if (h->kind == CUT) cut(j, h);
    else if (h->kind == ADAPT) st = take_adapters(j, h, rest, len);
    else if (h->kind == BACK) st = qsf_seq_truncate(j->c, (qsf_seq)h->n, h->asked);
    else if (h->kind == SHARE) st = qsf_seq_share(j->c, (qsf_seq)h->n, (qsf_seq)h->asked, h->wire);
    else return false;
    if (st) link_fail("%s", qsf_last_error(j->c));
    if (h->kind != CUT && h->kind != ADAPT) pass_seq(h);
    return true;
}

static void give_logits(const job *j, const qsf_row *rows, size_t n)
{
    head h = { LOGITS, 0, 0, 0 };
    const size_t row = j->info.n_vocab * sizeof(float);
    for (size_t i = 0; i < n; i++) h.asked += rows[i].logits;
    if (!h.asked) return;
    unsigned char *out = link_message(sizeof h + h.asked * row);
    memcpy(out, &h, sizeof h);
    for (uint32_t i = 0; i < h.asked; i++) memcpy(out + sizeof h + i * row, qsf_logits(j->c, i), row);
    link_go(0);
}

static void compute_message(job *j, const head *h, const unsigned char *at, size_t len, qsf_row *rows,
                            float *x)
{
    const size_t row = wire_bytes((wire)h->wire, j->info.n_embd);
    if (h->kind != BATCH || !h->n || h->n > j->n_batch || h->wire >= N_WIRES ||
        len != h->n * (sizeof *rows + row))
        link_fail("rank %d sent a damaged batch", link_rank - 1);
    memcpy(rows, at, h->n * sizeof *rows);
    at += h->n * sizeof *rows;
    for (uint32_t i = 0; i < h->n; i++, at += row)
        wire_unpack((wire)h->wire, x + (size_t)i * j->info.n_embd, at, j->info.n_embd);
    job_compute(j, rows, h->n, x);
    if (link_rank + 1 < link_ranks) pass_on(j, rows, h->n, NULL, 0);
    else give_logits(j, rows, h->n);
}

void job_follow(job *j)
{
    qsf_row *rows = need(j->n_batch, sizeof *rows);
    float *x = need((size_t)j->n_batch * j->info.n_embd, sizeof *x);
    for (;;) {
        const void *bytes;
        head h = { 0, 0, 0, 0 };
        const size_t len = link_receive(link_rank - 1, true, &bytes);
        if (len >= sizeof h) memcpy(&h, bytes, sizeof h);
        if (h.kind == END) break;
        const unsigned char *rest = (const unsigned char *)bytes + sizeof h;
        if (take_seq(j, &h, rest, len - sizeof h) || take_adapter(j, &h, rest, len - sizeof h)) continue;
        compute_message(j, &h, rest, len - sizeof h, rows, x);
    }
    if (link_rank + 1 < link_ranks) link_send(link_rank + 1, &(head){ END, 0, 0, 0 }, sizeof(head));
    free(rows);
    free(x);
}

/* ---- rank 0: one sequence ---- */

/* The logits of `asked` rows. */
static const float *take_rows(const job *j, size_t asked)
{
    const void *bytes;
    head h = { 0, 0, 0, 0 };
    const size_t len = link_receive(link_ranks - 1, true, &bytes);
    if (len >= sizeof h) memcpy(&h, bytes, sizeof h);
    if (h.kind != LOGITS || h.asked != asked || len != sizeof h + asked * j->info.n_vocab * sizeof(float))
        link_fail("rank %d sent damaged logits", link_ranks - 1);
    return (const float *)(const void *)((const unsigned char *)bytes + sizeof h);
}

const float *job_rows(job *j, const qsf_row *rows, size_t n)
{
    const bool asks = rows[n - 1].logits;
    if (qsf_compute(j->c, rows, n)) link_fail("%s", qsf_last_error(j->c));
    if (link_ranks == 1) return asks ? qsf_logits(j->c, 0) : NULL;
    pass_on(j, rows, n, NULL, 0);
    return asks ? take_rows(j, 1) : NULL;
}

void job_behind(job *j, const qsf_row *rows, size_t n, const float *states, size_t ld_states, float *logits,
                size_t ld_logits)
{
    size_t asked = 0;
    for (size_t i = 0; i < n; i++) asked += rows[i].logits;
    pass_on(j, rows, n, states, ld_states);
    if (!asked) return;
    const float *from = take_rows(j, asked);
    for (size_t i = 0; i < asked; i++)
        memcpy(logits + i * ld_logits, from + i * j->info.n_vocab, j->info.n_vocab * sizeof *logits);
}

void job_back(qsf_seq s, uint32_t n) { pass_seq(&(head){ BACK, (uint32_t)s, n, 0 }); }

void job_share_seq(qsf_seq dst, qsf_seq src, uint32_t n)
{
    pass_seq(&(head){ SHARE, (uint32_t)dst, (uint32_t)src, n });
}

void job_load_adapter(uint32_t number, const char *path, uint64_t sum, qsf_error *err)
{
    *err = (qsf_error){ 0 };
    pass_adapter(&(head){ LOAD, number, 0, 0 }, sum, path);
    for (int r = 1; r < link_ranks; r++) {
        const void *bytes;
        head h = { 0, 0, 0, 0 };
        qsf_error own;
        const size_t len = link_receive(r, true, &bytes);
        if (len == sizeof h + sizeof own) memcpy(&h, bytes, sizeof h);
        if (h.kind != LOADED || h.n != number) link_fail("rank %d did not report on the adapter", r);
        memcpy(&own, (const unsigned char *)bytes + sizeof h, sizeof own);
        if (!own.status || err->status) continue;
        err->status = own.status;
        snprintf(err->text, sizeof err->text, "rank %d: %.*s", r, (int)sizeof own.text - 20, own.text);
    }
}

void job_drop_adapter(uint32_t number) { pass_seq(&(head){ DROP, number, 0, 0 }); }

void job_adapt(qsf_seq s, const job_adapter *uses, size_t n)
{
    pass_adapters(&(head){ ADAPT, (uint32_t)s, (uint32_t)n, 0 }, uses);
}

/* Layers that keep state go back to some positions only, and not every rank has such layers: so all
 * go back to the least that any has come to, until that is the same. */
uint32_t job_cut(job *j, uint32_t n)
{
    for (bool same = false; !same;) {
        cut(j, &(head){ CUT, n, 0, 0 });
        n = qsf_seq_length(j->c, 0);
        same = true;
        for (int r = 1; r < link_ranks; r++) {
            const void *bytes;
            head h = { 0, 0, 0, 0 };
            const size_t len = link_receive(r, true, &bytes);
            if (len == sizeof h) memcpy(&h, bytes, sizeof h);
            if (h.kind != CUT) link_fail("rank %d sent a damaged length", r);
            same &= h.n == n;
            if (h.n < n) n = h.n;
        }
    }
    return n;
}

void job_end(void)
{
    if (link_ranks > 1) link_send(1, &(head){ END, 0, 0, 0 }, sizeof(head));
}

/* ---- rank 0: texts ---- */

static size_t encode(const job *j, const char *prompt, int32_t *ids, size_t cap)
{
    qsf_error err = { 0 };
    size_t n = 0;
    const qsf_message messages[] = { { "system", j->system }, { "user", prompt } };
    const int own = !j->system;           /* without the first one */
    const qsf_status st = j->raw
        ? qsf_tokens_encode(j->model, prompt, strlen(prompt), QSF_TOK_ADD_SPECIAL, ids, cap, &n, &err)
        : qsf_chat_encode(j->model, j->template_name, messages + own, 2 - (size_t)own, true, ids, cap, &n,
                          &err);
    if (st) link_fail("the prompt: %s", err.text);
    if (!n) link_fail("a prompt has no tokens");
    return n;
}

static void text_begin(const job *j, text *t, const char *prompt)
{
    qsf_error err;
    const size_t texts = strlen(prompt) + (j->system ? strlen(j->system) : 0);
    const size_t cap = 16 + 2 * texts + 1024 + (size_t)j->max_tokens;
    t->ids = need(cap, sizeof *t->ids);
    t->n_ids = t->n_prompt = encode(j, prompt, t->ids, cap - (size_t)j->max_tokens);
    t->hash = 0xcbf29ce484222325u;
    if (qsf_sampler_new(j->model, &j->sampler, &t->sampler, &err)) link_fail("%s", err.text);
    for (size_t i = 0; i < t->n_ids; i++) qsf_sampler_accept(t->sampler, t->ids[i]);
}

static void text_print(const job *j, const text *t, size_t from)
{
    link_away(true);
    for (size_t i = from; i < t->n_ids; i++) {
        const char *piece;
        const size_t len = qsf_token_piece(j->model, t->ids[i], false, &piece);
        if (j->print_ids) printf("%s%d", i > t->n_prompt ? "," : "", (int)t->ids[i]);
        else fwrite(piece, 1, len, stdout);
    }
    fflush(stdout);
    link_away(false);
}

static void text_logits(lead *l, text *t, const float *logits)
{
    const job *j = l->j;
    const unsigned char *bytes = (const unsigned char *)logits;
    for (size_t i = 0; j->print_check && i < j->info.n_vocab * sizeof *logits; i++)
        t->hash = (t->hash ^ bytes[i]) * 0x100000001b3u;
    const int32_t id = qsf_sampler_pick(t->sampler, logits);
    t->waits = false;
    l->n_decoded++;
    if (j->logits) fwrite(logits, sizeof *logits, j->info.n_vocab, j->logits);
    t->done = (!j->ignore_eos && qsf_token_is_end(j->model, id)) ||
              t->n_ids - t->n_prompt >= (size_t)j->max_tokens;
    if (!t->done) {
        qsf_sampler_accept(t->sampler, id);
        t->ids[t->n_ids++] = id;
        if (l->n_texts == 1) text_print(j, t, t->n_ids - 1);
        t->done = t->n_ids - t->n_prompt >= (size_t)j->max_tokens;
    }
    l->n_left -= t->done;
}

/* ---- rank 0: batches ---- */

/* The next rows: of a prompt, else of texts that decode, as many as are this batch's share. */
static size_t gather_rows(lead *l)
{
    const size_t batches = l->j->tensor ? 1 : (size_t)link_ranks, share = (l->n_left + batches - 1) / batches;
    const size_t most = l->j->n_batch < share ? l->j->n_batch : share;
    size_t n = 0;
    for (size_t i = 0; i < l->n_texts; i++) {
        text *t = &l->texts[i];
        if (t->done || t->waits || t->n_ids - t->n_sent < 2) continue;
        for (; n < l->j->n_batch && t->n_sent < t->n_ids; n++, t->n_sent++)
            l->rows[n] = (qsf_row){ (qsf_seq)i, t->ids[t->n_sent], t->n_sent + 1 == t->n_ids };
        t->waits = t->n_sent == t->n_ids;
        return n;
    }
    for (size_t i = 0; i < l->n_texts && n < most; i++) {
        text *t = &l->texts[i];
        if (t->done || t->waits || t->n_sent == t->n_ids) continue;
        l->rows[n++] = (qsf_row){ (qsf_seq)i, t->ids[t->n_sent++], true };
        t->waits = true;
    }
    return n;
}

static void take_logits(lead *l, const flight *f, const float *logits)
{
    for (size_t i = 0; i < f->n; i++)
        text_logits(l, &l->texts[f->seqs[i]], logits + i * l->j->info.n_vocab);
}

static void send_rows(lead *l, size_t n)
{
    flight *f = &l->flights[(l->from + l->under_way) % l->n_flights];
    f->n = 0;
    for (size_t i = 0; i < n; i++)
        if (l->rows[i].logits) f->seqs[f->n++] = l->rows[i].seq;
    if (l->j->tensor) job_tell(l->j, l->rows, n);
    job_compute(l->j, l->rows, n, NULL);
    if (link_ranks > 1 && !l->j->tensor) {
        pass_on(l->j, l->rows, n, NULL, 0);
        l->under_way += f->n > 0;
        return;
    }
    for (size_t i = 0; i < f->n; i++) text_logits(l, &l->texts[f->seqs[i]], qsf_logits(l->j->c, i));
}

static bool take_reply(lead *l, bool wait)
{
    head h;
    const void *bytes;
    const flight *f = &l->flights[l->from];
    if (!l->under_way) return false;
    const size_t len = link_receive(link_ranks - 1, wait, &bytes);
    if (!len) return false;
    memcpy(&h, bytes, sizeof h < len ? sizeof h : len);
    if (h.kind != LOGITS || h.asked != f->n || len != sizeof h + f->n * l->j->info.n_vocab * sizeof(float))
        link_fail("rank %d sent damaged logits", link_ranks - 1);
    take_logits(l, f, (const float *)(const void *)((const unsigned char *)bytes + sizeof h));
    l->from = (l->from + 1) % l->n_flights;
    l->under_way--;
    return true;
}

static void lead_report(const lead *l, double seconds)
{
    for (size_t i = 0; i < l->n_texts; i++) {
        const text *t = &l->texts[i];
        if (l->n_texts > 1) {
            printf("[%zu] ", i + 1);
            text_print(l->j, t, t->n_prompt);
        }
        printf("\n");
        if (l->j->print_check)
            fprintf(stderr, "logits of text %zu: %016llx\n", i + 1, (unsigned long long)t->hash);
    }
    fprintf(stderr, "%zu tokens of %zu texts in %.3f s: %.2f tokens/s\n", l->n_decoded, l->n_texts, seconds,
            (double)l->n_decoded / seconds);
}

void job_lead(job *j)
{
    lead l = { .j = j, .n_texts = j->prompts.n, .n_left = j->prompts.n,
               .n_flights = 2 * (size_t)link_ranks + 2 };
    l.texts = need(l.n_texts, sizeof *l.texts);
    l.rows = need(j->n_batch, sizeof *l.rows);
    l.flights = need(l.n_flights, sizeof *l.flights);
    for (size_t i = 0; i < l.n_texts; i++) text_begin(j, &l.texts[i], j->prompts.items[i]);
    const double begin = link_now();
    while (l.n_left) {
        while (take_reply(&l, false)) continue;
        const size_t n = l.n_left && l.under_way < l.n_flights ? gather_rows(&l) : 0;
        if (n) send_rows(&l, n);
        else if (l.n_left) take_reply(&l, true);
    }
    lead_report(&l, link_now() - begin);
    if (j->tensor) job_tell_end();
    else job_end();
    for (size_t i = 0; i < l.n_texts; i++) {
        qsf_sampler_free(l.texts[i].sampler);
        free(l.texts[i].ids);
    }
    free(l.texts);
    free(l.rows);
    free(l.flights);
}
