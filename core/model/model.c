/* Opening a model, and what can be asked about it.
 * SPDX-License-Identifier: MIT */
#include "model/model.h"

#include "base/sized.h"
#include "model/part.h"
#include "model/share.h"

void qsf_model_defaults_of(qsf_model_options *o, size_t size)
{
    static const qsf_model_options d = { .size = sizeof d };
    qsf_sized_defaults(o, size, &d, sizeof d);
}

qsf_status qsf_custom_check(const qsf_custom_file *f, qsf_error *err)
{
    qsf_custom_file known;
    return QSF_TAKE(&known, f, qsf_custom_file, err);
}

/* The setting from the options, or else from the environment. */
static qsf_status model_io(const qsf_platform *p, const qsf_model_options *o, qsf_io *io, qsf_error *err)
{
    static const char *const names[] = { "auto", "uring", "pread", "mmap" };
    const char *word = o->io == QSF_IO_AUTO && !o->file && p->env ? p->env(p->user, "QSF_IO") : NULL;
    *io = o->io;
    if (!word || !*word) return QSF_OK;
    for (uint32_t i = 0; i < QSF_ARRAY_LEN(names); i++)
        if (!strcmp(word, names[i])) {
            *io = (qsf_io)i;
            return QSF_OK;
        }
    return qsf_fail(err, QSF_E_ARGUMENT, "QSF_IO must be auto, uring, pread or mmap, not \"%s\"", word);
}

/* The file; for multi-token prediction the last layer is the part that runs. */
static qsf_status model_source(qsf_model *m, const char *path, qsf_model_options *o, qsf_error *err)
{
    const qsf_platform *p = m->platform;
    if (o->mtp) {
        const qsf_status st = qsf_source_open_mtp(p, path, o->file, o->i2s_layout, &m->source, err);
        if (!st) o->first_layer = m->source->hp.n_layers - 1;
        return st;
    }
    return qsf_source_open_as(p, path, o->file, o->vocab_only, o->i2s_layout, &m->source, err);
}

qsf_status qsf_model_open(const char *path, const qsf_model_options *opts, qsf_model **out, qsf_error *err)
{
    qsf_model_options o;
    const char *how;
    *out = NULL;
    qsf_model_defaults(&o);
    qsf_status st = QSF_TAKE(&o, opts, qsf_model_options, err);
    if (st || (st = qsf_custom_check(o.file, err))) return st;
    if (!path && !o.file) return qsf_fail(err, QSF_E_ARGUMENT, "no model path was given");
    const qsf_platform *p = o.platform ? o.platform : qsf_platform_native();

    qsf_model *m = qsf_alloc(p, sizeof *m, "model", err);
    if (!m) {
        /* the file is ours from here on, as in qsf_source_open */
        if (o.file && o.file->close) o.file->close(o.file->user);
        return QSF_E_MEMORY;
    }
    m->platform = p;
    m->log = o.log;
    m->log_user = o.log_user;
    if ((st = model_source(m, path, &o, err))) goto fail;
    if ((st = qsf_part_set(m->source, o.first_layer, o.end_layer, err))) goto fail;
    if ((st = qsf_share_set(m->source, o.share, o.n_shares, o.share_sizes, err))) goto fail;
    if ((st = model_io(p, &o, &m->io, err))) goto fail;
    if (m->io != QSF_IO_AUTO && (st = qsf_source_read_by(m->source, m->io, false, &how, err))) goto fail;
    if (m->source->vocab.kind != QSF_VOCAB_NONE)
        if ((st = qsf_tokenizer_new(p, &m->source->vocab, &m->tokenizer, err))) goto fail;
    if ((st = qsf_model_chat(m, err))) goto fail;
    *out = m;
    return QSF_OK;
fail:
    qsf_model_close(m);
    return st;
}

void qsf_model_close(qsf_model *m)
{
    if (!m) return;
    qsf_token_tree_free(atomic_load(&m->token_tree));
    qsf_tokenizer_free(m->tokenizer);
    qsf_source_close(m->source);
    qsf_dealloc(m->platform, m, sizeof *m);
}

qsf_status qsf_model_token_tree(qsf_model *m, const qsf_token_tree **out, qsf_error *err)
{
    qsf_token_tree *tree = atomic_load(&m->token_tree), *before = NULL;
    if (!m->tokenizer)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "the model has no vocabulary: a grammar needs one");
    if (!tree) {
        const uint32_t n = m->source->hp.n_vocab;
        const qsf_status st = qsf_token_tree_new(m->platform, m->tokenizer, n, &tree, err);
        if (st) return st;
        if (!atomic_compare_exchange_strong(&m->token_tree, &before, tree)) {
            qsf_token_tree_free(tree);          /* another thread was sooner */
            tree = before;
        }
    }
    *out = tree;
    return QSF_OK;
}

qsf_status qsf_model_get_info(const qsf_model *m, qsf_model_info *out)
{
    const qsf_source *s = m->source;
    const qsf_hparams *h = &s->hp;
    const qsf_model_info info = {
        .arch = h->arch, .name = h->name, .format = s->format, .chat_template = s->vocab.chat_template,
        .n_layers = h->n_layers, .n_embd = h->n_embd, .n_heads = h->n_heads, .n_kv_heads = h->n_kv_heads,
        .head_dim = h->head_dim,
        .n_ff = h->n_ff, .n_vocab = h->n_vocab, .n_ctx_train = h->n_ctx_train, .n_params = s->n_params,
        .weight_bytes = s->weight_bytes, .pooling = (qsf_pooling)h->pooling, .encoder = h->both_ways,
        .n_classes = h->n_classes, .n_mtp = s->n_mtp, .draft_head = h->eagle,
    };
    return QSF_GIVE(out, &info, NULL);
}

qsf_status qsf_model_get_usage(const qsf_model *m, qsf_usage *out)
{
    const qsf_source *s = m->source;
    qsf_usage used;
    qsf_host_memory_used(m->platform, &used);
    for (uint32_t i = 0; i < s->n_files; i++) used.cached += qsf_host_cached(s->io, s->files[i]);
    return QSF_GIVE(out, &used, NULL);
}
