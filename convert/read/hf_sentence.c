/* Reads the files of sentence-transformers in a Hugging Face directory: modules.json, 1_Pooling,
 * 2_Dense and 3_Dense.
 * SPDX-License-Identifier: MIT */
#include "read/hf_sentence.h"
#include "base/text_file.h"

#ifdef QSF_HAVE_YYJSON

qsf_status qsf_hf_optional(const char *dir, input *in, hf_config *cfg, const char *name, hf_parse *parse,
                           qsf_error *err)
{
    const qsf_platform *p = in->platform;
    char *text;
    uint64_t len;
    json_text j = { 0 };
    qsf_status st = qsf_text_file_read(p, dir, name, 1 << 20, &text, &len, err);
    if (st) return st == QSF_E_NOT_FOUND ? QSF_OK : st;
    if (!(st = qsf_json_parse(p, text, (size_t)len, name, &j, err))) st = parse(in, j.root, name, cfg, err);
    qsf_json_free(&j);
    qsf_dealloc(p, text, len + 1);
    return st;
}

/* ---- modules.json ---------------------------------------------------------------------------- */

/* "sentence_transformers.models.Pooling" and its later places. */
static bool module_is(const char *type, const char *name)
{
    const char *dot = strrchr(type, '.');
    return !strcmp(dot ? dot + 1 : type, name);
}

static qsf_status module_folder(input *in, const char *what, const char *path, const char **out,
                                qsf_error *err)
{
    if (!qsf_hf_plain_name(path) || strlen(path) > 64)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a module in the folder \"%.80s\" (supported: folders "
                        "next to config.json)", what, path ? path : "");
    *out = qsf_arena_text(in->arena, path, strlen(path), err);
    return *out ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status module_take(input *in, const char *what, const char *type, const char *path,
                              hf_config *cfg, qsf_error *err)
{
    uint32_t dense = 0;
    if (module_is(type, "Normalize")) return QSF_OK;    /* as all embeddings are, unless asked not to */
    if (module_is(type, "Transformer")) {
        if (!path || !*path) return QSF_OK;
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the network is in the folder %.80s; convert that one, "
                        "and copy modules.json and its modules there", what, path);
    }
    if (module_is(type, "Pooling") && !cfg->pooling)
        return module_folder(in, what, path, &cfg->pooling, err);
    while (dense < QSF_ARRAY_LEN(cfg->dense) && cfg->dense[dense]) dense++;
    if (module_is(type, "Dense") && cfg->pooling && dense < QSF_ARRAY_LEN(cfg->dense))
        return module_folder(in, what, path, &cfg->dense[dense], err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a module of type %.80s, which this version cannot run (it "
                    "has Transformer, one Pooling, then two Dense or none, and Normalize)", what, type);
}

static qsf_status modules_parse(input *in, yyjson_val *root, const char *what, hf_config *cfg, qsf_error *err)
{
    size_t i, n;
    yyjson_val *e;
    if (!yyjson_is_arr(root)) return qsf_fail(err, QSF_E_CORRUPT, "%s: not a list of modules", what);
    yyjson_arr_foreach(root, i, n, e) {
        const char *type = qsf_json_get_str(e, "type");
        if (!type) return qsf_fail(err, QSF_E_CORRUPT, "%s: module %zu has no type", what, i);
        const qsf_status st = module_take(in, what, type, qsf_json_get_str(e, "path"), cfg, err);
        if (st) return st;
    }
    return QSF_OK;
}

/* ---- pooling --------------------------------------------------------------------------------- */

static const struct { const char *key, *name; qsf_pooling pooling; } sentence_poolings[] = {
    { "pooling_mode_cls_token", "cls", QSF_POOL_FIRST },
    { "pooling_mode_mean_tokens", "mean", QSF_POOL_MEAN },
    { "pooling_mode_lasttoken", "lasttoken", QSF_POOL_LAST },
    { "pooling_mode_max_tokens", "max", QSF_POOL_NONE },
    { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", QSF_POOL_NONE },
    { "pooling_mode_weightedmean_tokens", "weightedmean", QSF_POOL_NONE },
};

/* One of several switches is on, or pooling_mode names one, as later versions write it.  A
 * classifier's pooling is its own. */
static qsf_status pooling_parse(input *in, yyjson_val *root, const char *what, hf_config *cfg, qsf_error *err)
{
    const char *mode;
    bool on, found = false;
    if (cfg->type->classes) return QSF_OK;
    qsf_status st = qsf_json_check_object(root, what, err);
    if (!st) st = qsf_json_get_text(root, what, "pooling_mode", &mode, err);
    for (size_t i = 0; i < QSF_ARRAY_LEN(sentence_poolings) && !st; i++) {
        const bool named = mode && !strcmp(mode, sentence_poolings[i].name);
        const qsf_pooling pooling = sentence_poolings[i].pooling;
        if ((st = qsf_json_get_bool(root, what, sentence_poolings[i].key, named, &on, err)) || !on) continue;
        if (found || pooling == QSF_POOL_NONE)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s%s, which this version cannot run (it has the "
                            "first token, the last one and the mean)", what, sentence_poolings[i].key,
                            found ? " besides another" : "");
        in->hp.pooling = (uint8_t)pooling;
        found = true;
    }
    if (st || found || !mode) return st;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: pooling_mode \"%.40s\" (supported: cls, mean, lasttoken)",
                    what, mode);
}

/* ---- dense layers ---------------------------------------------------------------------------- */

/* Of n_embd to n_between, or back. */
static qsf_status dense_parse(input *in, yyjson_val *root, const char *what, hf_config *cfg, qsf_error *err)
{
    qsf_hparams *hp = &in->hp;
    const bool second = cfg->n_dense != 0;
    const char *act;
    uint32_t from = 0, to = 0;
    bool bias;
    qsf_status st = qsf_json_check_object(root, what, err);
    if (st || (st = qsf_json_get_u32(root, what, "in_features", 0, 1, 1 << 20, &from, err)) ||
        (st = qsf_json_get_u32(root, what, "out_features", 0, 1, 1 << 20, &to, err)) ||
        (st = qsf_json_get_bool(root, what, "bias", true, &bias, err)) ||
        (st = qsf_json_get_text(root, what, "activation_function", &act, err))) return st;
    if (bias || !act || !module_is(act, "Identity"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s %.80s (supported: no bias, and the activation "
                        "Identity)", what, bias ? "a bias, and the activation" : "the activation",
                        act ? act : "Tanh");
    if (from != (second ? hp->n_between : hp->n_embd) || !to || (second && to != hp->n_embd))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: from %u to %u columns, after %u (supported: two layers, "
                        "of which the second gives the columns that the first one takes)", what,
                        (unsigned)from, (unsigned)to, (unsigned)(second ? hp->n_between : hp->n_embd));
    if (!second) hp->n_between = to;
    cfg->n_dense++;
    return QSF_OK;
}

static qsf_status sentence_dense(const char *dir, input *in, hf_config *cfg, hf_weights *w, qsf_error *err)
{
    static const char *const names[] = { "2_Dense", "3_Dense" };
    char name[96];
    qsf_status st;
    if (!cfg->dense[0]) return QSF_OK;
    if (!cfg->dense[1] || !(cfg->arch->may_more & QSF_KIND_MORE(DENSE_2)))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "modules.json: %s in a model of type %s (supported: two in "
                        "one of the class Gemma3TextModel)",
                        cfg->dense[1] ? "dense layers" : "one dense layer", cfg->type->type);
    for (uint32_t i = 0; i < 2; i++) {
        qsf_format(name, sizeof name, "%s/config.json", cfg->dense[i]);
        if ((st = qsf_hf_optional(dir, in, cfg, name, dense_parse, err))) return st;
        if (cfg->n_dense == i)
            return qsf_fail(err, QSF_E_NOT_FOUND, "%s: no %s, which modules.json refers to", dir, name);
        st = qsf_hf_weights_add(in->platform, dir, cfg->dense[i], names[i], in->arena, w, err);
        if (st) return st;
    }
    return QSF_OK;
}

qsf_status qsf_hf_sentence(const char *dir, input *in, hf_config *cfg, hf_weights *w, qsf_error *err)
{
    char name[96];
    qsf_status st;
    if ((st = qsf_hf_optional(dir, in, cfg, "modules.json", modules_parse, err))) return st;
    qsf_format(name, sizeof name, "%s/config.json", cfg->pooling ? cfg->pooling : "1_Pooling");
    if ((st = qsf_hf_optional(dir, in, cfg, name, pooling_parse, err))) return st;
    /* Embedding does not need a head, and files may lack it. */
    if (in->hp.pooling != QSF_POOL_NONE && !qsf_hf_weights_find(w, "lm_head.weight")) in->hp.tied = true;
    return sentence_dense(dir, in, cfg, w, err);
}

#endif
