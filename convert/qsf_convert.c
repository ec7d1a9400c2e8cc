/* The interface of libqsf_convert: options checked at the door, a conversion from opening to the
 * last byte, and what it did.
 * SPDX-License-Identifier: MIT */
#include "qsf_convert.h"
#include "base/sized.h"
#include "model/roles.h"

#include "convert.h"
#include "importance.h"
#include "output.h"
#include "plan/budget.h"
#include "plan/caller.h"
#include "plan/forms.h"
#include "plan/loss.h"
#include "read/merge.h"
#include "read/tie.h"
#include "spend.h"
#include "tune/tune.h"

struct qsf_convert_result {
    const qsf_platform  *platform;
    qsf_arena           *arena;         /* of the texts and the list */
    qsf_convert_summary  summary;
    qsf_convert_tensor  *tensors;
};

/* ---- options ---- */

void qsf_convert_defaults_of(qsf_convert_options *o, size_t size)
{
    static const qsf_convert_options d = { .size = sizeof d, .preset = QSF_CONVERT_4BIT, .packing = 1,
                                            .calibrate_seed = 1, .calibrate_seqs = 128,
                                            .calibrate_len = 128, .effort = -1 };
    qsf_sized_defaults(o, size, &d, sizeof d);
}

static bool option_block(uint32_t block)
{
    return block == 0 || block == 32 || block == 64 || block == 128 || block == 256;
}

static qsf_status option_within(const char *name, uint64_t value, uint64_t least, uint64_t most,
                                qsf_error *err)
{
    if (value >= least && value <= most) return QSF_OK;
    return qsf_fail(err, QSF_E_ARGUMENT, "the option %s is %llu; the range is %llu to %llu", name,
                    (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
}
static qsf_status option_range(const char *name, uint64_t value, uint64_t most, qsf_error *err)
{
    return option_within(name, value, 0, most, err);
}

static qsf_status option_rules(const qsf_convert_options *o, qsf_error *err)
{
    uint32_t type;
    for (size_t i = 0; i < o->n_rules; i++) {
        const qsf_convert_rule *r = &o->rules[i];
        if (!r->pattern || !r->type)
            return qsf_fail(err, QSF_E_ARGUMENT, "rule %zu has no pattern or no type", i);
        if (!qsf_conv_type_find(r->type, &type))
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: unknown type \"%s\"; the types are %s", r->pattern,
                            r->type,
                            "2bit 2bit-sym 3bit 3bit_s 4bit 4bit_s 5bit_s 6bit_s 8bit ternary trellis2 "
                            "trellis3 trellis4 trellis5 table3 table4 f16 f32");
        if (!option_block(r->block))
            return qsf_fail(err, QSF_E_ARGUMENT, "%s: a block has 32, 64, 128 or 256 weights, not %u",
                            r->pattern, (unsigned)r->block);
    }
    return QSF_OK;
}

static qsf_status option_effort(const qsf_convert_options *o, qsf_error *err)
{
    if (o->effort < -1 || o->effort > 4)
        return qsf_fail(err, QSF_E_ARGUMENT, "the option effort is %d; the range is -1 to 4", (int)o->effort);
    if (o->effort > 0 && !o->calibrate && !o->calibration_file)
        return qsf_fail(err, QSF_E_ARGUMENT, "the option effort (--effort) is %d: that needs statistics of "
                        "the matrices' inputs; calibrate (--calibrate self) measures them",
                        (int)o->effort);
    return QSF_OK;
}

/* The caller's options, as many as it knows, over the defaults. */
static qsf_status option_take(const qsf_convert_options *from, qsf_convert_options *o, qsf_error *err)
{
    qsf_status st;
    qsf_convert_defaults(o);
    if ((st = QSF_TAKE(o, from, qsf_convert_options, err))) return st;
    if (!o->platform) o->platform = qsf_platform_native();
    if (o->progressive && o->compression)
        return qsf_fail(err, QSF_E_ARGUMENT, "a progressive file cannot be compressed");
    if (!option_block(o->block))
        return qsf_fail(err, QSF_E_ARGUMENT, "a block has 32, 64, 128 or 256 weights, not %u",
                        (unsigned)o->block);
    if ((st = option_range("preset", (uint64_t)o->preset, QSF_CONVERT_BY_LOSS, err)) ||
        (st = option_range("compression", (uint64_t)o->compression, QSF_CONVERT_ZSTD, err)) ||
        (st = option_range("packing", o->packing, 1, err)) ||
        (st = option_range("outliers", (uint64_t)o->outliers, QSF_CONVERT_ON, err)) ||
        (st = option_range("equalize", (uint64_t)o->equalize, QSF_CONVERT_ON, err)) ||
        (st = option_range("share_embedding", (uint64_t)o->share_embedding, QSF_CONVERT_ON, err)) ||
        (st = option_range("prefer", (uint64_t)o->prefer, QSF_CONVERT_SPEED, err)) ||
        (st = option_range("n_threads", o->n_threads, QSF_CONVERT_MAX_THREADS, err)) ||
        (st = option_range("head_clusters", o->head_clusters, QSF_CONVERT_MAX_CLUSTERS, err)) ||
        (st = option_range("embd_clusters", o->embd_clusters, QSF_CONVERT_MAX_CLUSTERS, err)) ||
        (st = option_within("calibrate_seqs", o->calibrate_seqs, 1, 65536, err)) ||
        (st = option_within("calibrate_len", o->calibrate_len, 16, 8192, err)) ||
        (st = option_effort(o, err))) return st;
    if (!(o->target_kl >= 0 && o->target_kl < INFINITY))
        return qsf_fail(err, QSF_E_ARGUMENT, "the option target_kl is %g; it must be 0 or more",
                        o->target_kl);
    for (size_t i = 0; i < o->n_adapters; i++)
        if (!o->adapters[i].path || !isfinite(o->adapters[i].scale))
            return qsf_fail(err, QSF_E_ARGUMENT, "adapter %zu has no path, or its scale is not a number", i);
    return option_rules(o, err);
}

/* ---- the result ---- */

static qsf_status result_new(const qsf_platform *p, qsf_convert_result **out, qsf_error *err)
{
    qsf_arena *arena;
    const qsf_status st = qsf_arena_new(p, &arena, err);
    *out = NULL;
    if (st) return st;
    if (!(*out = qsf_arena_alloc(arena, sizeof **out, "the result", err))) {
        qsf_arena_free(arena);
        return QSF_E_MEMORY;
    }
    (*out)->platform = p;
    (*out)->arena = arena;
    (*out)->summary.size = sizeof (*out)->summary;
    (*out)->summary.arch = "";
    return QSF_OK;
}

void qsf_convert_result_free(qsf_convert_result *r)
{
    if (r) qsf_arena_free(r->arena);        /* r lies in it */
}

static void result_tensor(const input_tensor *t, const convert_tensor *c, const char *name,
                          qsf_convert_tensor *out)
{
    *out = (qsf_convert_tensor){
        .size = sizeof *out,
        .name = name,
        .kind = qsf_kind_name(t->kind),
        .type = qsf_type_get(c->type)->name,
        .rows = t->rows,
        .cols = t->cols,
        .block = c->block,
        .packing = c->packing,
        .bytes = c->bytes + c->outlier_bytes,
        .relative_error = qsf_conv_relative_error(&c->error),
        .cosine = qsf_conv_cosine(&c->error),
        .outliers = c->n_outliers,
        .centroids = c->clusters ? c->clusters->n : 0,
        .matrix = qsf_input_is_matrix(t),
        .raised = c->raised,
        .output_error = c->output_energy > 0 ? c->output_error / c->output_energy : 0,
        .predicted_kl = c->predicted_kl,
    };
}

/* What the input's and the report's memory holds, copied: both go before the result does. */
static qsf_status result_fill(qsf_convert_result *r, const input *in, const convert_report *report,
                              qsf_error *err)
{
    qsf_convert_summary *s = &r->summary;
    qsf_quant_error all = { 0 };
    bool encoded = false;
    if (!(r->tensors = qsf_arena_array(r->arena, in->n_tensors, sizeof *r->tensors, "the result", err)))
        return QSF_E_MEMORY;
    if (!(s->arch = qsf_arena_text(r->arena, in->hp.arch, strlen(in->hp.arch), err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        const char *name = qsf_arena_text(r->arena, t->name, strlen(t->name), err);
        if (!name) return QSF_E_MEMORY;
        result_tensor(t, &report->tensors[i], name, &r->tensors[i]);
        if (qsf_input_is_matrix(t)) qsf_conv_add_error(&all, &report->tensors[i].error);
        s->predicted_kl += report->tensors[i].predicted_kl;
        encoded |= report->tensors[i].output_energy > 0;
        if (qsf_input_is_matrix(t))
            s->estimated_kl += qsf_conv_loss_sensitivity(in, t) * r->tensors[i].relative_error;
    }
    s->other_kl = report->other_kl;
    s->other_bytes = report->other_bytes;
    /* codes chosen to minimise the output error are further from the weights */
    if (s->predicted_kl > 0 || encoded || in->hp.both_ways) s->estimated_kl = s->predicted_kl;
    s->n_tensors = in->n_tensors;
    s->n_weights = report->n_weights;
    s->source_bytes = report->source_bytes;
    s->tensor_bytes = report->tensor_bytes;
    s->file_bytes = report->file_bytes;
    s->relative_error = qsf_conv_relative_error(&all);
    s->cosine = qsf_conv_cosine(&all);
    return QSF_OK;
}

qsf_status qsf_convert_get_summary(const qsf_convert_result *r, qsf_convert_summary *out)
{
    return QSF_GIVE(out, &r->summary, NULL);
}

qsf_status qsf_convert_get_tensor(const qsf_convert_result *r, uint32_t i, qsf_convert_tensor *out)
{
    if (i >= r->summary.n_tensors) return QSF_E_ARGUMENT;
    return QSF_GIVE(out, &r->tensors[i], NULL);
}

/* ---- the way ---- */

/* Checks that the caller's report is neither one of the files read nor the output.  in: NULL if
 * only `from` is read. */
static qsf_status run_check_report(const qsf_convert_options *o, input *in, const char *from, const char *to,
                                   qsf_error *err)
{
    const qsf_platform *p = o->platform;
    if (!o->report) return QSF_OK;
    qsf_status st = in ? qsf_conv_check_unread(in, o->report, err)
                       : qsf_conv_check_apart(p, o->report, "the input", from, err);
    if (!st) st = qsf_conv_check_apart(p, o->report, "also the output", to, err);
    if (!st && o->calibration)
        st = qsf_conv_check_apart(p, o->report, "the text to measure with", o->calibration, err);
    if (!st && o->calibration_file)
        st = qsf_conv_check_apart(p, o->report, "the calibration", o->calibration_file, err);
    return st;
}

/* Neither the calibration nor its text is lost, and what is measured can be written.  A calibration
 * that is there is read, whatever it is. */
static qsf_status run_check_calibrate(const qsf_convert_options *o, const char *to, qsf_error *err)
{
    const qsf_platform *p = o->platform;
    const char *file = o->calibration_file;
    const char *text = o->calibrate && strcmp(o->calibrate, "self") ? o->calibrate : NULL;
    qsf_status st = text ? qsf_conv_check_calibration(p, text, to, err) : QSF_OK;
    if (st || !file) return st;
    if ((st = qsf_conv_check_apart(p, to, "the calibration", file, err))) return st;
    return qsf_cal_runs(p, o) ? qsf_conv_check_place(p, file, err) : QSF_OK;
}

/* What is written at path costs no adapter: a file, or a directory of two. */
static qsf_status run_check_adapters(const qsf_convert_options *o, const char *path, qsf_error *err)
{
    static const char *const names[] = { "adapter_model.safetensors", "adapter_config.json" };
    char file[4096];
    qsf_status st = QSF_OK;
    for (size_t i = 0; i < o->n_adapters && !st; i++) {
        const char *adapter = o->adapters[i].path;
        st = qsf_conv_check_apart(o->platform, path, "an adapter", adapter, err);
        for (size_t k = 0; !st && k < QSF_ARRAY_LEN(names); k++)
            if (qsf_format(file, sizeof file, "%s/%s", adapter, names[k]) < sizeof file)
                st = qsf_conv_check_apart(o->platform, path, "an adapter", file, err);
    }
    return st;
}

/* Before the work: no file that is read is written, and none is written twice. */
static qsf_status run_check(const qsf_convert_options *o, input *in, const char *from, const char *to,
                            qsf_error *err)
{
    qsf_status st = qsf_conv_check_output(in, to, err);
    if (!st && o->calibration) st = qsf_conv_check_calibration(o->platform, o->calibration, to, err);
    if (!st) st = run_check_calibrate(o, to, err);
    if (!st) st = run_check_adapters(o, to, err);
    if (!st && o->report) st = run_check_adapters(o, o->report, err);
    return st ? st : run_check_report(o, in, from, to, err);
}

/* Whether the layer for multi-token prediction is converted, too.  What measures the model, or
 * makes two pieces of its layers, takes the model alone. */
static bool run_keeps_mtp(const qsf_convert_options *o)
{
    return !o->progressive && !o->calibrate && !o->calibration && !o->calibration_file && !o->target_bytes &&
        !(o->target_kl > 0) && !o->n_adapters && o->effort <= 0;
}

static void run_tell_ignored(const input *in, const char *from, const qsf_convert_options *o)
{
    for (uint32_t i = 0; i < in->n_meta; i++) {
        const char *key = in->meta[i].key, *n = in->meta[i].value;
        if (!strcmp(key, "source.ignored_tensors"))
            qsf_conv_warn(o, "%s: %s tensors that text does not depend on are left out", from, n);
        if (!strcmp(key, "source.ignored_tokens"))
            qsf_conv_warn(o, "%s: %s control tokens without a row of the embedding are left out", from, n);
    }
    if (!in->leaves_mtp) return;
    qsf_conv_warn(o, "%s: its layer for multi-token prediction is left out%s", from,
                  run_keeps_mtp(o) ? ", because it has an embedding or a head of its own"
                                   : ": calibration, target sizes, adapters and progressive files need the "
                                     "model alone");
}

/* The weights without quantisation, in a file that can be run: half floats hold half and bfloat16
 * values of the usual sizes exactly. */
static qsf_status run_plain(input *in, const qsf_convert_options *o, const char *path, qsf_error *err)
{
    static const qsf_convert_rule floats = { .pattern = "*", .type = "f32" };
    qsf_convert_options plain;
    convert_report report;
    qsf_convert_defaults(&plain);
    plain.platform = o->platform;
    plain.preset = QSF_CONVERT_F16;
    plain.n_threads = o->n_threads;
    plain.ram_bytes = o->ram_bytes;
    plain.user = o->user;
    plain.progress = o->progress;
    plain.cancelled = o->cancelled;
    plain.rules = &floats;
    for (uint32_t i = 0; i < in->n_tensors && !plain.n_rules; i++)
        plain.n_rules = qsf_input_is_matrix(&in->tensors[i]) && in->tensors[i].source_type == QSF_T_F32;
    return qsf_conv_run(in, &plain, path, &report, err);
}

/* An input that the engine cannot run becomes a file for a while. */
static qsf_status run_calibrate(input *in, const char *to, const qsf_convert_options *o,
                                convert_calibration **out, qsf_error *err)
{
    const qsf_platform *p = o->platform;
    if (!qsf_cal_runs(p, o) || in->model_path) return qsf_cal_open(in, in->model_path, to, o, out, err);
    const size_t room = strlen(to) + 64;
    char *model = qsf_alloc(p, room, "a file's name", err);
    if (!model) return QSF_E_MEMORY;
    qsf_status st = qsf_host_between(p, to, model, room, err);
    if (!st) st = run_plain(in, o, model, err);
    if (!st) st = qsf_cal_open(in, model, to, o, out, err);
    if (*model) qsf_host_remove(p, model);
    qsf_dealloc(p, model, room);
    return st;
}

/* Merges embedding and head if they are nearly the same: after the calibration, which is of the
 * original model. */
static qsf_status run_share(input *in, const qsf_convert_options *o, const char *from, bool *shared,
                            qsf_error *err)
{
    const bool asked = o->share_embedding == QSF_CONVERT_ON, was_tied = in->hp.tied;
    double apart;
    if (o->share_embedding == QSF_CONVERT_OFF || o->embd_clusters ||
        (!asked && !o->target_bytes && !(o->target_kl > 0))) return QSF_OK;
    const qsf_status st = qsf_input_tie(in, &apart, err);
    if (st) return st;
    *shared = in->hp.tied && !was_tied;
    if (!asked || in->hp.tied) return QSF_OK;
    return qsf_fail(err, QSF_E_ARGUMENT, "%s: head and embedding are two matrices (squared difference %.3g "
                    "of the head's squares), and share_embedding (--share-embedding) is on", from, apart);
}

/* Writes the file to be tuned to `half`, and, if the input cannot be run, the model it is tuned to
 * to `plain`: names of temporary files. */
static qsf_status run_tune(input *in, convert_calibration *calibration, const char *to,
                           const qsf_convert_options *o, char *half, char *plain, size_t room,
                           convert_report *report, qsf_error *err)
{
    qsf_convert_options encode = *o;
    const char *model = in->model_path;
    encode.effort = 3;
    qsf_status st = qsf_host_between(o->platform, to, half, room, err);
    if (!st) st = qsf_spend_run(in, calibration, &encode, half, report, err);
    if (!st && !model) {
        if (!(st = qsf_host_between(o->platform, to, plain, room, err))) st = run_plain(in, o, plain, err);
        model = plain;
    }
    return st ? st : qsf_tune_run_file(in, model, half, to, o, &report->file_bytes, err);
}

static qsf_status run_encode(input *in, convert_calibration *calibration, const char *to,
                             const qsf_convert_options *o, convert_report *report, qsf_error *err)
{
    const qsf_platform *p = o->platform;
    const size_t room = strlen(to) + 64;
    if (o->effort != 4) return qsf_spend_run(in, calibration, o, to, report, err);
    char *names = qsf_alloc(p, 2 * room, "names of files", err);
    if (!names) return QSF_E_MEMORY;
    char *half = names, *plain = names + room;
    const qsf_status st = run_tune(in, calibration, to, o, half, plain, room, report, err);
    if (*half) qsf_host_remove(p, half);
    if (*plain) qsf_host_remove(p, plain);
    qsf_dealloc(p, names, 2 * room);
    return st;
}

static void run_warn(void *user, const char *line) { qsf_conv_warn(user, "%s", line); }

/* between: NULL, or room bytes for the name of the file that is
 * written in the output's stead; "" where none is. */
static qsf_status run_convert(const char *from, const char *to, const qsf_convert_options *o, char *between,
                              size_t room, qsf_convert_result *r, qsf_error *err)
{
    convert_report report;
    convert_calibration *calibration = NULL;
    input *in;
    qsf_status st = qsf_input_open_as(o->platform, from, o->i2s_layout, run_keeps_mtp(o), &in, err);
    if (st) return st;
    if (!(st = run_check(o, in, from, to, err))) run_tell_ignored(in, from, o);
    if (!st) st = qsf_input_merge(in, o->adapters, o->n_adapters, run_warn, (void *)(uintptr_t)o, err);
    if (!st && between) st = qsf_host_between(o->platform, to, between, room, err);
    if (!st) st = run_calibrate(in, to, o, &calibration, err);
    if (calibration) {
        in->sizes = qsf_cal_sizes;
        in->sizes_user = calibration;
    }
    if (!st) st = run_share(in, o, from, &r->summary.shared_embedding, err);
    if (!st) st = run_encode(in, calibration, between ? between : to, o, &report, err);
    if (!st) st = result_fill(r, in, &report, err);
    qsf_cal_free(calibration);
    in->close(in);
    return st;
}

static bool run_is_qsf(const qsf_platform *p, const char *path)
{
    uint8_t magic[4];
    qsf_file *f;
    uint64_t len;
    if (qsf_host_open(p, path, &f, &len, NULL)) return false;
    const bool qsf = len >= sizeof magic && !qsf_read_all(p, f, path, 0, magic, sizeof magic, NULL) &&
        (!memcmp(magic, "QSF1", 4) || !memcmp(magic, "1FSQ", 4));
    p->close(p->user, f);
    return qsf;
}

/* The output is first made next to its final place, measured, and then written with the
 * measurements, so that the final file never exists half finished. */
static qsf_status run_calibrated(const char *from, const char *to, const qsf_convert_options *o,
                                 qsf_convert_result *r, qsf_error *err)
{
    const qsf_platform *p = o->platform;
    const size_t room = strlen(to) + 64;
    char *between = qsf_alloc(p, room, "a file's name", err);
    if (!between) return QSF_E_MEMORY;
    qsf_status st = run_convert(from, to, o, between, room, r, err);
    if (!st) st = qsf_conv_calibrate(p, between, o->calibration, to, o, &r->summary.file_bytes, err);
    if (*between) qsf_host_remove(p, between);
    qsf_dealloc(p, between, room);
    return st;
}

static qsf_status run_way(const char *from, const char *to, const qsf_convert_options *o,
                          qsf_convert_result *r, qsf_error *err)
{
    if (!o->calibration) return run_convert(from, to, o, NULL, 0, r, err);
    const bool converts = !o->keep_weights || o->calibrate || o->calibration_file || o->n_adapters;
    if (converts || !run_is_qsf(o->platform, from)) return run_calibrated(from, to, o, r, err);
    const qsf_status st = run_check_report(o, NULL, from, to, err);
    return st ? st
              : qsf_conv_calibrate(o->platform, from, o->calibration, to, o, &r->summary.file_bytes, err);
}

qsf_status qsf_convert_run(const char *from, const char *to, const qsf_convert_options *opts,
                           qsf_convert_result **out, qsf_error *err)
{
    qsf_convert_options o;
    qsf_convert_result *r;
    qsf_status st;
    if (out) *out = NULL;
    if (!from || !to) return qsf_fail(err, QSF_E_ARGUMENT, "the input or the output has no name");
    if ((st = option_take(opts, &o, err)) || (st = result_new(o.platform, &r, err))) return st;
    const uint64_t start = qsf_now(o.platform);
    st = run_way(from, to, &o, r, err);
    r->summary.ns = qsf_now(o.platform) - start;
    if (st || !out) qsf_convert_result_free(r);
    else *out = r;
    return st;
}
