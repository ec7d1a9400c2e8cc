/* The tokens that a calibration runs: of a text file, or made by the model itself.
 * SPDX-License-Identifier: MIT
 *
 * What a model writes by itself is nearer to what it will be used for than any text that was not
 * chosen for it.  Each sequence begins with the begin-of-text token, where there is one, and a word
 * that chance picks; the rest is sampled at temperature 1 from all of the vocabulary but its
 * control tokens.  Where the model has a chat template, a quarter of the sequences are
 * conversations: what another sequence says becomes the user's words, and the model answers.
 *
 * Chance is a hash of seed, sequence and position, and rows of a batch do not depend on one
 * another: the text does not depend on the number of threads. */
#include "calibrate/text.h"

#include "plan/caller.h"

enum {
    TEXT_LEAST = 64,            /* tokens that a file must have */
    TEXT_MOST = 16 << 20,       /* bytes of a file that are used */
    TEXT_SEQS = 64,             /* sequences that are made at once */
    TEXT_CHAT = 4,              /* one sequence in this many is a conversation */
    TEXT_WORDS = 24,            /* tokens of the user's words */
    TEXT_TRIES = 100            /* for a word */
};

/* ---- what both have in common ---- */

static bool text_is_self(const qsf_convert_options *o) { return !strcmp(o->calibrate, "self"); }

uint32_t qsf_cal_positions(uint32_t n_seqs, uint32_t len)
{
    return n_seqs * (uint32_t)qsf_round_up(len, QSF_KV_BLOCK);
}

uint32_t qsf_cal_seqs(const qsf_model *m, uint32_t most, uint32_t len)
{
    const qsf_hparams *hp = &m->source->hp;
    const uint32_t positions = hp->learned_pos       ? hp->n_ctx_train
                             : hp->rope_factors_long ? hp->scaling_orig_ctx : 0;
    if (!positions) return most;
    return QSF_MAX(1, QSF_MIN(most, positions / (uint32_t)qsf_round_up(len, QSF_KV_BLOCK)));
}

static qsf_status text_new(cal_text *t, const qsf_platform *p, uint32_t n_seqs, uint32_t len, qsf_error *err)
{
    *t = (cal_text){ .platform = p, .n_seqs = n_seqs, .len = len };
    if (!(t->lens = qsf_alloc_array(p, n_seqs, sizeof *t->lens, "the text's tokens", err)))
        return QSF_E_MEMORY;
    t->ids = qsf_alloc_array(p, (uint64_t)n_seqs * len, sizeof *t->ids, "the text's tokens", err);
    return t->ids ? QSF_OK : QSF_E_MEMORY;
}

void qsf_cal_text_free(cal_text *t)
{
    if (!t->platform) return;
    qsf_dealloc(t->platform, t->ids, (uint64_t)t->n_seqs * t->len * sizeof *t->ids);
    qsf_dealloc(t->platform, t->lens, t->n_seqs * sizeof *t->lens);
    *t = (cal_text){ 0 };
}

/* ---- a file ---- */

static qsf_status text_read(const qsf_platform *p, const char *path, char **text, size_t *len, qsf_error *err)
{
    qsf_file *f;
    uint64_t length;
    *text = NULL;
    qsf_status st = qsf_host_open(p, path, &f, &length, err);
    if (st) return st;
    *len = (size_t)QSF_MIN(length, TEXT_MOST);
    *text = qsf_alloc(p, *len, "the text", err);
    st = *text ? qsf_read_all(p, f, path, 0, *text, *len, err) : QSF_E_MEMORY;
    p->close(p->user, f);
    if (!st) return QSF_OK;
    qsf_dealloc(p, *text, *len);
    *text = NULL;
    return st;
}

/* Pieces of the same length from all over the text. */
static qsf_status text_cut(cal_text *t, const qsf_model *m, const qsf_convert_options *o, const int32_t *ids,
                           size_t n, qsf_error *err)
{
    if (n < TEXT_LEAST)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "%s: %llu tokens are too few to calibrate with; at least %d are needed", o->calibrate,
                        (unsigned long long)n, (int)TEXT_LEAST);
    const uint32_t len = (uint32_t)QSF_MIN(n, o->calibrate_len);
    const uint32_t n_seqs = (uint32_t)QSF_MIN(n / len, o->calibrate_seqs);
    const qsf_status st = text_new(t, m->platform, n_seqs, len, err);
    for (uint32_t s = 0; !st && s < n_seqs; s++) {
        int32_t *to = t->ids + (size_t)s * len;
        memcpy(to, ids + (uint64_t)s * n / n_seqs, len * sizeof *ids);
        if (qsf_token_bos(m) >= 0) to[0] = qsf_token_bos(m);
        t->lens[s] = len;
    }
    return st;
}

static qsf_status text_of_file(cal_text *t, const qsf_model *m, const qsf_convert_options *o, qsf_error *err)
{
    const qsf_platform *p = m->platform;
    char *text;
    size_t len, n = 0;
    qsf_status st = text_read(p, o->calibrate, &text, &len, err);
    if (st) return st;
    const size_t cap = len + 16;        /* at least a byte per token, plus the few added tokens */
    int32_t *ids = qsf_alloc_array(p, cap, sizeof *ids, "the text's tokens", err);
    st = ids ? qsf_tokens_encode(m, text, len, 0, ids, cap, &n, err) : QSF_E_MEMORY;
    if (!st) st = text_cut(t, m, o, ids, n, err);
    qsf_dealloc(p, ids, cap * sizeof *ids);
    qsf_dealloc(p, text, len);
    return st;
}

qsf_status qsf_cal_settings(const qsf_platform *p, const qsf_convert_options *o, uint32_t *crc,
                            qsf_error *err)
{
    uint8_t bytes[24] = { 0 };
    char *text;
    size_t len;
    if (!text_is_self(o)) {
        const qsf_status st = text_read(p, o->calibrate, &text, &len, err);
        if (st) return st;
        qsf_put32(bytes, qsf_crc32(0, text, len));
        qsf_put32(bytes + 4, (uint32_t)len);
        qsf_dealloc(p, text, len);
    } else {
        qsf_put64(bytes + 8, o->calibrate_seed);
    }
    qsf_put32(bytes + 16, o->calibrate_seqs);
    qsf_put32(bytes + 20, o->calibrate_len);
    *crc = qsf_crc32(0, bytes, sizeof bytes);
    return QSF_OK;
}

/* ---- by the model itself ---- */

enum { TEXT_MAY = 0, TEXT_NEVER = 1, TEXT_END = 2 };

typedef struct text_maker {
    cal_text    *t;
    qsf_model   *m;
    qsf_context *c;
    const qsf_convert_options *o;
    uint32_t     n_vocab, n_chats;      /* conversations are the last of the sequences */
    uint32_t    *given;                 /* [n_seqs] tokens that are not sampled */
    uint8_t     *rule;                  /* [n_vocab] TEXT_* */
    uint32_t     row_seq[TEXT_SEQS];    /* whose token the i-th logits of a step give */
    uint32_t     n_asked, pos;
} text_maker;

/* In [0, 1); splitmix64's finisher over all three. */
static double text_chance(uint64_t seed, uint64_t sequence, uint64_t pos)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (sequence << 32) + pos + 1;
    for (int i = 0; i < 2; i++) {
        z += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

static void text_rules(text_maker *k)
{
    const char *bytes;
    for (uint32_t i = 0; i < k->n_vocab; i++)
        k->rule[i] = qsf_token_is_end(k->m, (int32_t)i) ? TEXT_END
                     : qsf_token_piece(k->m, (int32_t)i, false, &bytes) ? TEXT_MAY : TEXT_NEVER;
}

/* Whether the token looks like a word: nothing but letters, after a space or none. */
static bool text_word(const text_maker *k, int32_t id)
{
    const char *p;
    size_t n = qsf_token_piece(k->m, id, false, &p), i = n && *p == ' ';
    if (k->rule[id] != TEXT_MAY || n < i + 3) return false;
    for (; i < n; i++)
        if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') || (uint8_t)p[i] >= 0x80))
            return false;
    return true;
}

/* The begin-of-text token and a word. */
static void text_begin_plain(text_maker *k, uint32_t s)
{
    int32_t *ids = k->t->ids + (size_t)s * k->t->len, id = 0;
    uint32_t n = 0;
    if (qsf_token_bos(k->m) >= 0) ids[n++] = qsf_token_bos(k->m);
    for (uint32_t i = 0; i < TEXT_TRIES; i++) {
        id = (int32_t)(text_chance(k->o->calibrate_seed, s, ((uint64_t)1 << 31) + i) * k->n_vocab);
        if (text_word(k, id)) break;
    }
    ids[n++] = id;
    k->given[s] = n;
    k->t->lens[s] = k->t->len;
}

/* The characters of the tokens, without the first one. */
static size_t text_words(const text_maker *k, const int32_t *ids, uint32_t n, char *out, size_t cap)
{
    size_t len = 0;
    for (uint32_t i = 1; i < n; i++) {
        const char *p;
        const size_t bytes = qsf_token_piece(k->m, ids[i], false, &p);
        if (bytes > cap - 1 - len) break;
        for (size_t b = 0; b < bytes; b++)
            if (p[b]) out[len++] = p[b];
    }
    out[len] = 0;
    return len;
}

/* A user's words, which another sequence begins with, and the beginning of the answer; a plain
 * sequence where the template does not take them or leaves no room for an answer. */
static qsf_status text_begin_chat(text_maker *k, uint32_t s, qsf_error *err)
{
    char words[TEXT_WORDS * 32], said[TEXT_WORDS * 96 + 16];
    qsf_utf8_tail tail = { 0 };
    cal_text *t = k->t;
    int32_t *to = t->ids + (size_t)s * t->len;
    const uint32_t from = s - (t->n_seqs - k->n_chats), cap = 4 * t->len;
    const int32_t *other = t->ids + (size_t)from * t->len, bos = qsf_token_bos(k->m);
    size_t n = 0;
    const size_t len = text_words(k, other, QSF_MIN(TEXT_WORDS, t->len / 3), words, sizeof words);
    said[qsf_utf8_push(&tail, words, len, said)] = 0;
    int32_t *ids = qsf_alloc_array(t->platform, cap, sizeof *ids, "a conversation", err);
    if (!ids) return QSF_E_MEMORY;
    const qsf_message msg = { "user", said };
    qsf_error why = { 0 };              /* a template may refuse it; running out of memory is an error */
    const qsf_status st = qsf_chat_encode(k->m, NULL, &msg, 1, true, ids, cap, &n, &why);
    const uint32_t add = bos >= 0 && (n == 0 || ids[0] != bos);
    if (st || n == 0 || n + add > t->len - t->len / 4) {
        text_begin_plain(k, s);
    } else {
        if (add) to[0] = bos;
        memcpy(to + add, ids, n * sizeof *ids);
        k->given[s] = (uint32_t)n + add;
        t->lens[s] = t->len;
    }
    qsf_dealloc(t->platform, ids, cap * sizeof *ids);
    return st == QSF_E_MEMORY ? qsf_fail(err, st, "%s", why.text) : QSF_OK;
}

/* Samples a token by its probability; x becomes shares relative to the most likely token.  An end
 * token is possible only if the answer of a conversation is long enough. */
static int32_t text_pick(const text_maker *k, float *x, uint32_t s)
{
    const bool may_end = s >= k->t->n_seqs - k->n_chats && k->pos >= k->given[s] + 8;
    float top = -INFINITY, sum = 0;
    double all = 0, at;
    int32_t last = -1;
    for (uint32_t i = 0; i < k->n_vocab; i++)
        if (k->rule[i] == TEXT_NEVER || (k->rule[i] == TEXT_END && !may_end)) x[i] = -INFINITY;
    for (size_t i = k->n_vocab; i < k->c->b.ld_vocab; i++) x[i] = -INFINITY;
    k->c->k.attention_softmax_inplace(x, k->c->b.ld_vocab, &top, &sum);
    for (uint32_t i = 0; i < k->n_vocab; i++) all += x[i];
    at = text_chance(k->o->calibrate_seed, s, k->pos) * all;
    for (uint32_t i = 0; i < k->n_vocab; i++) {
        if (!(x[i] > 0)) continue;
        last = (int32_t)i;
        if ((at -= x[i]) < 0) break;
    }
    return QSF_MAX(last, 0);
}

static void text_pick_one(void *arg, uint32_t thread, uint32_t i)
{
    text_maker *k = arg;
    cal_text *t = k->t;
    const uint32_t s = k->row_seq[i];
    (void)thread;
    const int32_t id = text_pick(k, k->c->b.logits + (size_t)i * k->c->b.ld_vocab, s);
    t->ids[(size_t)s * t->len + k->pos + 1] = id;
    if (k->rule[id] == TEXT_END) t->lens[s] = k->pos + 2;
}

/* Position pos of sequences [from, from + n), and what follows them. */
static qsf_status text_step(text_maker *k, uint32_t from, uint32_t n, qsf_error *err)
{
    qsf_row rows[TEXT_SEQS];
    uint32_t n_rows = 0;
    const cal_text *t = k->t;
    k->n_asked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = from + i;
        if (k->pos + 1 >= t->lens[s]) continue;
        const bool asks = k->pos + 1 >= k->given[s];
        rows[n_rows++] = (qsf_row){ (qsf_seq)i, t->ids[(size_t)s * t->len + k->pos], asks };
        if (asks) k->row_seq[k->n_asked++] = s;
    }
    if (!n_rows) return QSF_OK;
    const qsf_status st = qsf_compute(k->c, rows, n_rows);
    if (st) return qsf_fail(err, st, "%s", qsf_last_error(k->c));
    if (k->n_asked) qsf_pool_run(k->c->pool, k->n_asked, k->n_vocab, text_pick_one, k);
    return QSF_OK;
}

/* Sequences [from, to), which have begun. */
static qsf_status text_go_on(text_maker *k, uint32_t from, uint32_t to, qsf_error *err)
{
    const cal_text *t = k->t;
    const uint32_t at_once = QSF_MIN(k->c->o.n_seqs, QSF_MIN(k->c->o.n_batch, k->c->o.n_logits));
    for (; from < to; from += at_once) {
        const uint32_t n = QSF_MIN(at_once, to - from);
        for (uint32_t i = 0; i < n; i++) {
            const qsf_status st = qsf_seq_truncate(k->c, (qsf_seq)i, 0);
            if (st) return qsf_fail(err, st, "%s", qsf_last_error(k->c));
        }
        for (k->pos = 0; k->pos + 1 < t->len; k->pos++) {
            if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
            qsf_conv_progress(k->o, "generate", "", (uint64_t)from * t->len + (uint64_t)n * k->pos,
                              (uint64_t)t->n_seqs * t->len);
            const qsf_status st = text_step(k, from, n, err);
            if (st) return st;
        }
    }
    return QSF_OK;
}

static qsf_status text_context(text_maker *k, qsf_error *err)
{
    qsf_context_options co;
    qsf_context_defaults(&co);
    co.n_seqs = qsf_cal_seqs(k->m, QSF_MIN(TEXT_SEQS, k->t->n_seqs), k->t->len);
    co.n_ctx = qsf_cal_positions(co.n_seqs, k->t->len);
    co.n_batch = co.n_logits = co.n_seqs;
    co.n_threads = k->o->n_threads;
    co.ram_budget = k->o->ram_bytes;
    co.record = k->o->record;
    co.record_user = k->o->record_user;
    const qsf_status st = qsf_context_new(k->m, &co, &k->c, err);
    if (st || k->c->o.n_ctx == co.n_ctx) return st;
    return qsf_fail(err, QSF_E_BUDGET,
                    "%u texts of %u tokens need more than the %llu MB of ram_bytes (--ram)",
                    (unsigned)co.n_seqs, (unsigned)k->t->len,
                    (unsigned long long)(k->o->ram_bytes / 1000000));
}

static qsf_status text_make(text_maker *k, qsf_error *err)
{
    const uint32_t n = k->t->n_seqs, plain = n - k->n_chats;
    text_rules(k);
    for (uint32_t s = 0; s < plain; s++) text_begin_plain(k, s);
    qsf_status st = text_go_on(k, 0, plain, err);
    for (uint32_t s = plain; !st && s < n; s++) st = text_begin_chat(k, s, err);
    return st ? st : text_go_on(k, plain, n, err);
}

static qsf_status text_of_model(cal_text *t, qsf_model *m, const qsf_convert_options *o, qsf_error *err)
{
    const qsf_platform *p = m->platform;
    const qsf_hparams *hp = &m->source->hp;
    const uint32_t most = hp->n_ctx_train ? hp->n_ctx_train : o->calibrate_len;
    text_maker k = { .t = t, .m = m, .o = o, .n_vocab = hp->n_vocab };
    qsf_status st = text_new(t, p, o->calibrate_seqs, QSF_MIN(o->calibrate_len, most), err);
    if (st) return st;
    if (qsf_chat_template(m)) k.n_chats = t->n_seqs / TEXT_CHAT;
    if (!(k.given = qsf_alloc_array(p, t->n_seqs, sizeof *k.given, "sequences", err)) ||
        !(k.rule = qsf_alloc(p, k.n_vocab, "tokens", err))) st = QSF_E_MEMORY;
    if (!st) st = text_context(&k, err);
    if (!st) st = text_make(&k, err);
    qsf_context_free(k.c);
    qsf_dealloc(p, k.rule, k.n_vocab);
    qsf_dealloc(p, k.given, t->n_seqs * sizeof *k.given);
    return st;
}

qsf_status qsf_cal_text(cal_text *t, qsf_model *m, const qsf_convert_options *o, qsf_error *err)
{
    *t = (cal_text){ 0 };
    return text_is_self(o) ? text_of_model(t, m, o, err) : text_of_file(t, m, o, err);
}
