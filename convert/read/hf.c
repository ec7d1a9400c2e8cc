/* A Hugging Face model directory as the converter's input: config.json describes the network, the
 * weight files hold its tensors, the tokenizer files its vocabulary.
 * SPDX-License-Identifier: MIT */
#include "read/hf.h"
#include "read/hf_names.h"
#include "read/hf_rerank.h"
#include "read/hf_sentence.h"
#include "read/hf_vocab.h"
#include "base/text_file.h"

#ifdef QSF_HAVE_YYJSON

typedef struct hf_input {
    const char *dir;
    hf_weights weights;
    hf_place  *places;
} hf_input;

static qsf_status hf_rows(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const hf_input *own = in->own;
    if (i >= in->n_tensors || row > in->tensors[i].rows || n > in->tensors[i].rows - row)
        return qsf_fail(err, QSF_E_ARGUMENT, "rows %u to %u of tensor %u are not there", (unsigned)row,
                        (unsigned)(row + n), (unsigned)i);
    return qsf_hf_weights_rows(in->platform, &own->weights, &own->places[i], in->tensors[i].cols, row, n, out,
                               err);
}

/* Beside the weights. */
static const char *const hf_texts[] = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "sentencepiece.bpe.model",
    "tokenizer_config.json", "added_tokens.json",
    "modules.json", "1_Pooling/config.json", "2_Dense/config.json", "3_Dense/config.json",
    "chat_template.jinja", "chat_template.json", "additional_chat_templates/tool_use.jinja",
    "additional_chat_templates/rag.jinja", "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
};

static bool hf_is_file(const input *in, const char *name, const char *path)
{
    char own[4096];
    const char *dir = ((const hf_input *)in->own)->dir;
    return qsf_format(own, sizeof own, "%s/%s", dir, name) < sizeof own &&
        qsf_host_same(in->platform, own, path);
}

static bool hf_is_qsf(const qsf_platform *p, const char *path)
{
    uint8_t magic[4] = { 0 };
    qsf_file *f;
    uint64_t len;
    if (qsf_host_open(p, path, &f, &len, NULL)) return false;
    const bool qsf = len >= sizeof magic && !qsf_read_all(p, f, path, 0, magic, sizeof magic, NULL) &&
        !memcmp(magic, "QSF1", 4);
    p->close(p->user, f);
    return qsf;
}

/* Any file of the directory but a QSF file, which an earlier conversion has left there. */
static bool hf_reads(input *in, const char *path)
{
    const hf_input *own = in->own;
    const char *name = path + strlen(path);
    while (name > path && name[-1] != '/' && name[-1] != '\\') name--;
    for (size_t i = 0; i < QSF_ARRAY_LEN(hf_texts); i++)
        if (hf_is_file(in, hf_texts[i], path)) return true;
    for (uint32_t i = 0; i < own->weights.n_files; i++)
        if (qsf_host_same(in->platform, own->weights.files[i].path, path)) return true;
    return hf_is_file(in, name, path) && !hf_is_qsf(in->platform, path);
}

static void hf_close(input *in)
{
    hf_input *own = in->own;
    qsf_arena *arena = in->arena;
    qsf_hf_weights_close(in->platform, &own->weights);
    qsf_arena_free(arena);          /* in lies in it */
}

/* ---- what is worth keeping ------------------------------------------------------------------- */

enum { HF_MAX_META = 16 };

static qsf_status hf_add_meta(input *in, const char *key, const char *value, qsf_error *err)
{
    if (!value || in->n_meta == HF_MAX_META) return QSF_OK;
    qsf_meta *m = &in->meta[in->n_meta];
    m->key = key;
    if (!(m->value = qsf_arena_text(in->arena, value, strlen(value), err))) return QSF_E_MEMORY;
    in->n_meta++;
    return QSF_OK;
}

static qsf_status hf_add_count(input *in, const char *key, uint32_t n, qsf_error *err)
{
    char text[16];
    qsf_format(text, sizeof text, "%u", (unsigned)n);
    return n ? hf_add_meta(in, key, text, err) : QSF_OK;
}

/* Adds the keys that a GGUF file has for the pairs of rerankers. */
static qsf_status hf_add_pair(input *in, qsf_error *err)
{
    const qsf_status st = hf_add_meta(in, "tokenizer.ggml.add_sep_token", "true", err);
    return st ? st : hf_add_meta(in, "tokenizer.ggml.add_eos_token", "true", err);
}

/* Sampling defaults.  -1 is written for "no top_k". */
static qsf_status hf_generation_meta(input *in, yyjson_val *root, const char *what, qsf_error *err)
{
    static const struct { const char *key, *meta; double lo, hi; } known[] = {
        { "temperature", "generation.temperature", 0, 1e9 }, { "top_p", "generation.top_p", 0, 1 },
        { "top_k", "generation.top_k", -1, 1e9 },
        { "min_p", "generation.min_p", 0, 1 },
        { "repetition_penalty", "generation.repetition_penalty", 0, 1e9 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++) {
        char text[32];
        float v;
        qsf_status st = qsf_json_get_number(root, what, known[i].key, 0, known[i].lo, known[i].hi, &v, err);
        if (!st && !strcmp(known[i].key, "top_k") && v != floorf(v))
            st = qsf_json_refuse(qsf_json_get(root, "top_k"), what, "top_k", "a whole number", err);
        if (st) return st;
        if (!qsf_json_get(root, known[i].key)) continue;
        qsf_format(text, sizeof text, "%g", yyjson_get_num(qsf_json_get(root, known[i].key)));
        if ((st = hf_add_meta(in, known[i].meta, text, err))) return st;
    }
    return QSF_OK;
}

static qsf_status hf_generation_parse(input *in, yyjson_val *root, const char *what, hf_config *cfg,
                                      qsf_error *err)
{
    hf_config more = { .bos = -1, .eos = -1, .pad = -1 };
    qsf_status st;
    if ((st = qsf_json_check_object(root, what, err)) ||
        (st = qsf_hf_config_tokens(root, what, &more, err)) ||
        (st = qsf_hf_check_tokens(&more, what, in->hp.n_vocab, err)) ||
        (st = hf_generation_meta(in, root, what, err)))
        return st;
    if (cfg->bos < 0) cfg->bos = more.bos;
    if (cfg->eos < 0) cfg->eos = more.eos;
    if (cfg->pad < 0) cfg->pad = more.pad;
    if (!more.n_more_eos && (st = qsf_hf_add_end(&more, what, more.eos, err))) return st;
    for (uint32_t i = 0; i < more.n_more_eos; i++)
        if ((st = qsf_hf_add_end(cfg, what, more.more_eos[i], err))) return st;
    return QSF_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static qsf_status hf_read_config(const char *dir, input *in, hf_config *cfg, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    char *text;
    uint64_t len;
    json_text j = { 0 };
    qsf_status st = qsf_text_file_read(p, dir, "config.json", 4 << 20, &text, &len, err);
    if (st) return st;
    if (!(st = qsf_json_parse(p, text, (size_t)len, "config.json", &j, err)))
        st = qsf_hf_config_read(j.root, in->arena, &in->hp, cfg, err);
    qsf_json_free(&j);
    qsf_dealloc(p, text, len + 1);
    return st;
}

/* The last name of dir[0..*end), which *end is moved to the end of. */
static size_t hf_last_name(const char *dir, size_t *end)
{
    while (*end && (dir[*end - 1] == '/' || dir[*end - 1] == '\\')) --*end;
    size_t at = *end;
    while (at && dir[at - 1] != '/' && dir[at - 1] != '\\') at--;
    return at;
}

/* The directory's own name; in Hugging Face's cache (models--OWNER--REPO/snapshots/COMMIT) the
 * repository's. */
static void hf_name(const char *dir, qsf_hparams *hp)
{
    static const char snapshots[] = "snapshots", models[] = "models--";
    size_t end = strlen(dir), at = hf_last_name(dir, &end), up = at, above = hf_last_name(dir, &up);
    if (up - above == sizeof snapshots - 1 && !memcmp(dir + above, snapshots, up - above)) {
        size_t to = above, from = hf_last_name(dir, &to);
        const bool repo = to - from >= sizeof models && !memcmp(dir + from, models, sizeof models - 1);
        for (size_t i = from + sizeof models - 1; repo && i + 2 < to; i++)
            if (dir[i] == '-' && dir[i + 1] == '-') at = i + 2, end = to;
    }
    qsf_format(hp->name, sizeof hp->name, "%.*s", (int)QSF_MIN(end - at, sizeof hp->name - 1), dir + at);
}

static qsf_status hf_open_all(const char *dir, bool mtp, input *in, qsf_error *err)
{
    hf_input *own = in->own;
    hf_config cfg;
    const char *format = NULL;
    uint32_t tensors = 0;
    hf_vocab_said said;
    qsf_status st;
    if (!(own->dir = qsf_arena_text(in->arena, dir, strlen(dir), err))) return QSF_E_MEMORY;
    if ((st = hf_read_config(dir, in, &cfg, err)) ||
        (st = qsf_hf_weights_open(in->platform, dir, in->arena, &own->weights, &format, err)) ||
        (st = qsf_hf_rerank_find(dir, in, &cfg, err)) ||
        (!cfg.rerank && (st = qsf_hf_sentence(dir, in, &cfg, &own->weights, err)))) return st;
    cfg.takes_mtp = mtp;
    hf_type older = *cfg.type;
    if (older.older) {
        older.names = older.older;
        older.layers_at = older.older_at;
        cfg.other_type = &older;
    }
    if (older.older && qsf_hf_has(&own->weights, older.older_mark)) {
        cfg.other_type = cfg.type;
        cfg.type = &older;
    }
    if ((st = qsf_hf_map_tensors(&own->weights, &cfg, in, &own->places, &tensors, err)) ||
        (st = qsf_hf_check_tokens(&cfg, "config.json", in->hp.n_vocab, err)) ||
        (st = hf_add_meta(in, "source.format", format, err)) ||
        (st = hf_add_meta(in, "source.model_type", cfg.type->type, err)) ||
        (st = qsf_hf_optional(dir, in, &cfg, "generation_config.json", hf_generation_parse, err)) ||
        (st = qsf_hf_vocab_read(dir, &cfg, in, &said, err)) ||
        (st = qsf_hf_rerank(&own->weights, &cfg, in, own->places, err)) ||
        (st = hf_add_count(in, "source.ignored_tensors", tensors, err)) ||
        (st = hf_add_count(in, "source.ignored_tokens", said.ignored, err)) ||
        (said.two_between && in->hp.n_classes && (st = hf_add_pair(in, err)))) return st;
    hf_name(dir, &in->hp);
    return QSF_OK;
}

qsf_status qsf_input_open_hf(const qsf_platform *p, const char *dir, bool mtp, input **out, qsf_error *err)
{
    qsf_arena *arena;
    input *in;
    qsf_status st = qsf_arena_new(p, &arena, err);
    *out = NULL;
    if (st) return st;
    if (!(in = qsf_arena_alloc(arena, sizeof *in, "input", err)) ||
        !(in->own = qsf_arena_alloc(arena, sizeof(hf_input), "input", err)) ||
        !(in->meta = qsf_arena_array(arena, HF_MAX_META, sizeof *in->meta, "input", err))) {
        qsf_arena_free(arena);
        return QSF_E_MEMORY;
    }
    in->platform = p;
    in->arena = arena;
    in->read = hf_rows;
    in->reads = hf_reads;
    in->close = hf_close;
    if ((st = hf_open_all(dir, mtp, in, err))) {
        hf_close(in);
        return st;
    }
    *out = in;
    return QSF_OK;
}

#else

#include <stdio.h>

qsf_status qsf_input_open_hf(const qsf_platform *p, const char *dir, bool mtp, input **out, qsf_error *err)
{
    char path[4096];
    qsf_file *f;
    uint64_t len;
    (void)mtp;
    *out = NULL;
    snprintf(path, sizeof path, "%s/config.json", dir);
    const qsf_status st = qsf_host_open(p, path, &f, &len, err);
    if (st) return st;
    p->close(p->user, f);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: reading Hugging Face directories needs a build with yyjson",
                    dir);
}

#endif
