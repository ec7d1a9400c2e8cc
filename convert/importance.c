/* --calibration: measures on a text file how important each of the model's layers is, so that
 * --quality can leave some out.
 * SPDX-License-Identifier: MIT
 *
 * Two things are measured.  (a) 1 - cosine of a layer's input and output, averaged over CAL_TOKENS
 * tokens: the effect of the layer by itself.  (b) The Kullback-Leibler divergence of the next
 * token's probabilities with and without the layer, at some of the positions: its effect on the
 * result.  Layers are sorted by the sum of their ranks in (a) and in (b), and the rank in this
 * order is the importance: (i + 0.5) / n for the i-th of the n layers that may be left out, so that
 * --quality q leaves out the share 1 - q of them; 1 for the first and the last two, which always
 * stay. Measuring again after each removed layer, with four layers to choose from each time, took
 * several times as long without a clear gain (SmolLM2-135M: 44.1, 50.9 and 93.0 instead of 41.2,
 * 52.4 and 93.0 at a quality of 0.92, 0.9 and 0.75, though with another calibration text). */
#include "importance.h"

#include "divergence.h"
#include "engine/context.h"
#include "model/qsf_write.h"
#include "output.h"
#include "plan/caller.h"
#include "unit.h"

enum {
    CAL_WINDOW = 256,           /* tokens that see one another */
    CAL_TOKENS = 4096,          /* in windows from all over the text */
    CAL_EVERY  = 4,             /* one window in this many is also computed without layers */
    CAL_STRIDE = 8,             /* and there every eighth token's probabilities are compared */
    CAL_BATCH  = 128,
    CAL_LEAST  = 64,            /* tokens that the text must have */
    CAL_TEXT   = 1 << 20        /* bytes of the text that are used */
};

typedef struct importance_work {
    const qsf_convert_options *o;
    qsf_context *c;
    uint32_t  n_layers, n_embd, n_vocab;
    int32_t  *ids;              /* [windows][window] */
    uint32_t  window, windows;
    uint32_t  n_compared;       /* places where probabilities are compared */
    float    *base;             /* [n_compared][n_vocab] log-probabilities with all layers */
    float    *before;           /* [CAL_BATCH][n_embd] what goes into a layer */
    double   *turned;           /* [n_layers] sums of 1 - cosine */
    double   *missed;           /* [n_layers] mean divergence without the layer */
    double   *sums;             /* [n_layers] of their places in both */
    uint8_t  *left_out;         /* [n_layers] */
    uint64_t  steps, n_steps;   /* for the progress */
} importance_work;

/* ---- one pass ---- */

/* After the layer before step `to`: how far it turned each row. */
static qsf_status importance_note(importance_work *k, uint32_t layer, uint32_t first, bool any)
{
    qsf_rows states;
    qsf_executor *e = k->c->executor;
    const qsf_status st = e->does->rows_out(e, QSF_ROWS_STATES, &states, &k->c->error);
    for (uint32_t r = 0; !st && r < states.n; r++) {
        float *before = k->before + (size_t)r * k->n_embd;
        const float *x = states.x + r * states.ld;
        /* The first positions of a sequence differ from all others. */
        if (any && first + r >= 2) k->turned[layer] += 1 - qsf_cosine(before, x, k->n_embd);
        memcpy(before, x, k->n_embd * sizeof *before);
    }
    return st;
}

static qsf_status importance_batch(importance_work *k, const qsf_row *rows, uint32_t n, uint32_t first,
                                   bool watched, qsf_error *err)
{
    qsf_context *c = k->c;
    bool waiting;
    qsf_status st = qsf_batch_begin(c, rows, n);
    while (!st) {
        const qsf_stage stage = c->now.stage;
        const bool layer = stage.kind == QSF_STAGE_LAYER;
        st = qsf_step(c, &waiting);
        if (st && st != QSF_PENDING) break;
        const bool done = c->now.stage.kind != stage.kind || c->now.stage.number != stage.number;
        if (watched && done && stage.kind != QSF_STAGE_HEAD) {
            const qsf_status noted = importance_note(k, layer ? stage.number : 0, first, layer);
            if (noted) return qsf_fail(err, noted, "%s", qsf_last_error(c));
        }
        if (!st) return QSF_OK;
        st = waiting ? qsf_wait(c) : QSF_OK;
    }
    return qsf_fail(err, st, "%s", qsf_last_error(c));
}

/* One pass over the windows, every `every`-th of them.  first: with all
 * layers, which is what the others are compared with. */
static qsf_status importance_pass(importance_work *k, uint32_t every, bool first, double *kl, qsf_error *err)
{
    qsf_row rows[CAL_BATCH];
    uint32_t asked = 0;
    *kl = 0;
    if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
    qsf_conv_progress(k->o, "measure", "", k->steps, k->n_steps);
    k->steps++;
    for (uint32_t w = 0; w < k->windows; w += every) {
        const bool compared = w % CAL_EVERY == 0;
        qsf_status st = qsf_seq_truncate(k->c, 0, 0);
        for (uint32_t at = 0; !st && at < k->window;) {
            const uint32_t n = QSF_MIN(qsf_context_batch(k->c), k->window - at);
            uint32_t in_batch = 0;
            for (uint32_t i = 0; i < n; i++)
                rows[i] = (qsf_row){ 0, k->ids[w * k->window + at + i],
                                     compared && (at + i) % CAL_STRIDE == CAL_STRIDE - 1 };
            if ((st = importance_batch(k, rows, n, at, first, err))) return st;
            for (uint32_t i = 0; i < n; i++)
                if (rows[i].logits)
                    *kl += qsf_conv_divergence(qsf_logits(k->c, in_batch++), k->n_vocab,
                                               k->base + (size_t)asked++ * k->n_vocab, first);
            at += n;
        }
    }
    *kl /= QSF_MAX(k->n_compared, 1);
    return QSF_OK;
}

/* ---- the order ---- */

static bool importance_stays(const importance_work *k, uint32_t layer)
{
    return layer < 2 || layer + 2 >= k->n_layers;
}

/* How many of the layers that may go have a smaller value. */
static uint32_t importance_place(const importance_work *k, const double *value, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n_layers; i++)
        n += !importance_stays(k, i) && (value[i] < value[layer] || (value[i] == value[layer] && i < layer));
    return n;
}

/* Importance from ranks: the sum of a layer's ranks in both measures determines the order. */
static void importance_sort(const importance_work *k, double *sums, float *importance)
{
    const uint32_t n = k->n_layers > 4 ? k->n_layers - 4 : 0;
    for (uint32_t i = 0; i < k->n_layers; i++)
        sums[i] = (double)importance_place(k, k->turned, i) + importance_place(k, k->missed, i);
    for (uint32_t i = 0; i < k->n_layers; i++)
        importance[i] = importance_stays(k, i) ? 1 : ((float)importance_place(k, sums, i) + 0.5f) / (float)n;
}

static qsf_status importance_run(importance_work *k, qsf_error *err)
{
    double kl;
    k->n_steps = k->n_layers;
    qsf_status st = importance_pass(k, 1, true, &kl, err);
    k->c->fetch.left_out = k->left_out;
    for (uint32_t i = 0; !st && i < k->n_layers; i++) {
        if (importance_stays(k, i)) continue;
        k->left_out[i] = 1;
        st = importance_pass(k, CAL_EVERY, false, &k->missed[i], err);
        k->left_out[i] = 0;
    }
    return st;
}

/* ---- the text ---- */

static qsf_status importance_text(const qsf_platform *p, const char *path, char **text, size_t *len,
                                  uint32_t *crc, qsf_error *err)
{
    qsf_file *f;
    uint64_t length;
    qsf_status st = qsf_host_open(p, path, &f, &length, err);
    if (st) return st;
    *len = (size_t)QSF_MIN(length, CAL_TEXT);
    *text = qsf_alloc(p, *len, "the text", err);
    st = *text ? qsf_read_all(p, f, path, 0, *text, *len, err) : QSF_E_MEMORY;
    p->close(p->user, f);
    if (!st) *crc = qsf_crc32(0, *text, *len);
    return st;
}

/* Windows from all over the text. */
static qsf_status importance_ids(importance_work *k, const qsf_platform *p, const qsf_model *m,
                                 const char *path, uint32_t *crc, qsf_error *err)
{
    char *text = NULL;
    int32_t *ids = NULL;
    size_t len = 0, cap = 0, n = 0;
    qsf_status st = importance_text(p, path, &text, &len, crc, err);
    if (!st) {
        cap = len + 16;         /* at least a byte per token, plus the few added tokens */
        ids = qsf_alloc_array(p, cap, sizeof *ids, "the text's tokens", err);
        st = ids ? qsf_tokens_encode(m, text, len, 0, ids, cap, &n, err) : QSF_E_MEMORY;
    }
    if (!st && n < CAL_LEAST)
        st = qsf_fail(err, QSF_E_ARGUMENT,
                      "%s: %llu tokens are too few to measure with; at least %d are needed, %d are used",
                      path,
                      (unsigned long long)n, (int)CAL_LEAST, (int)CAL_TOKENS);
    if (!st) {
        k->window = (uint32_t)QSF_MIN(n, CAL_WINDOW);
        k->windows = (uint32_t)QSF_MIN(n / k->window, CAL_TOKENS / CAL_WINDOW);
        k->ids =
            qsf_alloc_array(p, (uint64_t)k->windows * k->window, sizeof *k->ids, "the text's tokens", err);
        if (!k->ids) st = QSF_E_MEMORY;
    }
    for (uint32_t w = 0; !st && w < k->windows; w++) {
        memcpy(k->ids + (size_t)w * k->window, ids + (uint64_t)w * n / k->windows, k->window * sizeof *ids);
        if (qsf_token_bos(m) >= 0) k->ids[(size_t)w * k->window] = qsf_token_bos(m);
    }
    qsf_dealloc(p, ids, cap * sizeof *ids);
    qsf_dealloc(p, text, len);
    return st;
}

/* ---- the model ---- */

static qsf_status importance_context(importance_work *k, qsf_model *m, uint64_t base_bytes, qsf_error *err)
{
    qsf_context_options co;
    qsf_context_defaults(&co);
    co.n_ctx = k->window;
    co.n_batch = QSF_MIN(CAL_BATCH, k->window);
    co.n_logits = (uint32_t)qsf_ceil_div(co.n_batch, CAL_STRIDE);
    co.n_seqs = 1;
    co.n_threads = k->o->n_threads;
    co.record = k->o->record;
    co.record_user = k->o->record_user;
    if (k->o->ram_bytes) co.ram_budget = k->o->ram_bytes > base_bytes ? k->o->ram_bytes - base_bytes : 1;
    return qsf_context_new(m, &co, &k->c, err);
}

static qsf_status importance_measure(importance_work *k, const qsf_platform *p, qsf_model *m,
                                     float *importance, qsf_error *err)
{
    const qsf_hparams *hp = &m->source->hp;
    k->n_layers = hp->n_layers;
    k->n_embd = hp->n_embd;
    k->n_vocab = hp->n_vocab;
    k->n_compared = (uint32_t)qsf_ceil_div(k->windows, CAL_EVERY) * (k->window / CAL_STRIDE);
    const uint64_t base = (uint64_t)k->n_compared * k->n_vocab, before = (uint64_t)CAL_BATCH * k->n_embd;
    qsf_status st = importance_context(k, m, base * sizeof(float), err);
    if (!st) {
        k->base = qsf_alloc_array(p, base, sizeof *k->base, "probabilities to compare with", err);
        k->before = k->base ? qsf_alloc_array(p, before, sizeof *k->before, "hidden states", err) : NULL;
        k->turned = k->before ? qsf_alloc_array(p, k->n_layers, sizeof *k->turned, "layers", err) : NULL;
        k->missed = k->turned ? qsf_alloc_array(p, k->n_layers, sizeof *k->missed, "layers", err) : NULL;
        k->left_out = k->missed ? qsf_alloc_array(p, k->n_layers, sizeof *k->left_out, "layers", err) : NULL;
        k->sums = k->left_out ? qsf_alloc_array(p, k->n_layers, sizeof *k->sums, "layers", err) : NULL;
        st = k->sums ? importance_run(k, err) : QSF_E_MEMORY;
    }
    if (!st) importance_sort(k, k->sums, importance);
    qsf_dealloc(p, k->sums, k->n_layers * sizeof *k->sums);
    qsf_dealloc(p, k->left_out, k->n_layers * sizeof *k->left_out);
    qsf_dealloc(p, k->missed, k->n_layers * sizeof *k->missed);
    qsf_dealloc(p, k->turned, k->n_layers * sizeof *k->turned);
    qsf_dealloc(p, k->before, before * sizeof *k->before);
    qsf_dealloc(p, k->base, base * sizeof *k->base);
    qsf_context_free(k->c);
    return st;
}

/* ---- the file ---- */

/* The header's type byte: the type of the layers' matrices, if they share one that it can name. */
static uint8_t importance_type(const qsf_source *s)
{
    int type = -1;
    for (uint32_t u = 0; u < s->hp.n_layers; u++)
        for (uint32_t i = 0; i < s->units[u].n_tensors; i++) {
            const qsf_tensor *t = &s->tensors[s->units[u].first_tensor + i];
            if (t->rows == 1 || t->kind >= QSF_N_KINDS) continue;
            if (t->type > QSF_T_TERNARY || (type >= 0 && type != t->type)) return QSF_T_MIXED;
            type = t->type;
        }
    return type < 0 ? QSF_T_MIXED : (uint8_t)type;
}

static qsf_status importance_unit(const qsf_source *s, qsf_writer *w, uint32_t unit, float importance,
                                  qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    uint8_t *mem;
    qsf_status st = qsf_conv_unit_load(s, unit, &mem, err);
    if (!st) st = qsf_writer_unit_begin(w, unit, err);
    for (uint32_t i = 0; !st && i < u->n_tensors; i++) {
        qsf_tensor t = s->tensors[u->first_tensor + i];
        t.data = mem + s->places[u->first_tensor + i];
        st = qsf_writer_tensor(w, &t, err);
    }
    qsf_dealloc(s->platform, mem, u->raw);
    return st ? st : qsf_writer_unit_end(w, importance, err);
}

static qsf_status importance_units(const qsf_source *s, qsf_writer *w, const qsf_convert_options *o,
                                   const float *importance, qsf_error *err)
{
    const uint32_t embd = qsf_unit_embd(s);
    qsf_status st = importance_unit(s, w, embd, 1, err);
    for (uint32_t i = 0; !st && i < embd; i++) {
        if (qsf_conv_cancelled(o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        qsf_conv_progress(o, "write", "", i, embd);
        st = importance_unit(s, w, i, importance[i], err);
    }
    return st ? st : importance_unit(s, w, qsf_unit_final(s), 1, err);
}

/* The same tensors byte for byte, with these numbers and a note of their origin. */
static qsf_status importance_write(const qsf_source *s, const char *path, const qsf_convert_options *o,
                                   const float *importance, const char *note, uint64_t *bytes, qsf_error *err)
{
    static const char key[] = "qsf.convert.calibration";
    qsf_write_options wo = { .default_type = importance_type(s),
                             .max_tensors = s->n_tensors,
                             .clusters = s->clusters,
                             .embd_clusters = s->embd_clusters };
    qsf_writer *w = NULL;
    uint32_t n = 0;
    qsf_meta *meta = qsf_alloc_array(s->platform, (uint64_t)s->n_meta + 1, sizeof *meta, "metadata", err);
    if (!meta) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < s->n_meta; i++)
        if (strcmp(s->meta[i].key, key)) meta[n++] = s->meta[i];
    meta[n++] = (qsf_meta){ key, note };
    for (uint32_t i = 0; i < s->n_units; i++)
        if (s->units[i].rest) wo.progressive = true;
        else wo.compression = QSF_MAX(wo.compression, s->units[i].compression);
    qsf_status st = qsf_writer_new(s->platform, path, &s->hp, &s->vocab, meta, n, &wo, &w, err);
    qsf_dealloc(s->platform, meta, ((uint64_t)s->n_meta + 1) * sizeof *meta);
    if (st) return st;
    if ((st = importance_units(s, w, o, importance, err))) qsf_writer_abort(w);
    else st = qsf_writer_commit(w, bytes, err);
    return st;
}

qsf_status qsf_conv_calibrate(const qsf_platform *p, const char *from, const char *text, const char *to,
                              const qsf_convert_options *o, uint64_t *bytes, qsf_error *err)
{
    importance_work k = { .o = o };
    qsf_model_options mo;
    qsf_model *m = NULL;
    uint32_t crc = 0;
    char note[64];
    qsf_model_defaults(&mo);
    mo.platform = p;
    mo.log = o->log;
    mo.log_user = o->user;
    mo.i2s_layout = o->i2s_layout;
    qsf_status st = qsf_conv_check_apart(p, to, "the input", from, err);
    if (st || (st = qsf_conv_check_calibration(p, text, to, err)) ||
        (st = qsf_conv_check_place(p, to, err)) || (st = qsf_model_open(from, &mo, &m, err)))
        return st;
    const uint32_t n_layers = m->source->hp.n_layers;
    float *importance = qsf_alloc_array(p, n_layers, sizeof *importance, "layers", err);
    if (!importance) st = QSF_E_MEMORY;
    if (!st && strcmp(m->source->format, "QSF"))
        st = qsf_fail(err, QSF_E_UNSUPPORTED,
                      "%s: %s files cannot store what calibration measures; convert it to a QSF file", from,
                      m->source->format);
    if (!st) st = importance_ids(&k, p, m, text, &crc, err);
    if (!st) st = importance_measure(&k, p, m, importance, err);
    qsf_format(note, sizeof note, "%u tokens of a text with CRC-32 %08x", (unsigned)(k.windows * k.window),
               (unsigned)crc);
    if (!st) st = importance_write(m->source, to, o, importance, note, bytes, err);
    qsf_dealloc(p, k.ids, (uint64_t)k.windows * k.window * sizeof *k.ids);
    qsf_dealloc(p, importance, n_layers * sizeof *importance);
    qsf_model_close(m);
    return st;
}
