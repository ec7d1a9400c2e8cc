/* A Hugging Face model directory as the converter's input: config.json says what the network is, the weight files hold
 * its tensors, the tokenizer files its vocabulary.
 * SPDX-License-Identifier: MIT */
#include "hf.h"
#include "hf_weights.h"

#ifdef QSF_HAVE_YYJSON

typedef struct hf_input {
    hf_weights weights;
    hf_place  *places;
} hf_input;

qsf_status hf_read_text(const qsf_platform *p, const char *dir, const char *name, uint64_t max, char **text, uint64_t *len, qsf_error *err)
{
    char path[4096];
    qsf_file *f;
    qsf_status st;
    *text = NULL;
    *len = 0;
    if (qsf_format(path, sizeof path, "%s/%s", dir, name) >= sizeof path) return qsf_fail(err, QSF_E_ARGUMENT, "the path of %s is too long", name);
    if ((st = qsf_host_open(p, path, &f, len, err))) return st;
    if (*len > max) st = qsf_fail(err, QSF_E_CORRUPT, "%s: %llu bytes, more than the %llu that such a file may have", path,
                                  (unsigned long long)*len, (unsigned long long)max);
    else if (!(*text = qsf_alloc(p, *len + 1, name, err))) st = QSF_E_MEMORY;
    else st = *len ? qsf_read_all(p, f, 0, *text, (size_t)*len, err) : QSF_OK;
    p->close(p->user, f);
    if (!st) (*text)[*len] = 0;
    else if (*text) qsf_dealloc(p, *text, *len + 1), *text = NULL;
    return st;
}

static qsf_status hf_rows(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const hf_input *own = in->own;
    if (i >= in->n_tensors || row > in->tensors[i].rows || n > in->tensors[i].rows - row)
        return qsf_fail(err, QSF_E_ARGUMENT, "rows %u to %u of tensor %u are not there", (unsigned)row, (unsigned)(row + n), (unsigned)i);
    return hf_weights_rows(in->platform, &own->weights, &own->places[i], in->tensors[i].cols, row, n, out, err);
}

static void hf_close(input *in)
{
    hf_input *own = in->own;
    qsf_arena *arena = in->arena;
    hf_weights_close(in->platform, &own->weights);
    qsf_arena_free(arena);          /* in lies in it */
}

/* ---- what is worth keeping ----------------------------------------------------------------------------------------- */

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

static qsf_status hf_generation_meta(input *in, yyjson_val *root, qsf_error *err)
{
    static const char *const keys[][2] = {
        { "temperature", "generation.temperature" }, { "top_p", "generation.top_p" }, { "top_k", "generation.top_k" },
        { "min_p", "generation.min_p" }, { "repetition_penalty", "generation.repetition_penalty" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(keys); i++) {
        yyjson_val *v = json_get(root, keys[i][0]);
        char text[32];
        if (!yyjson_is_num(v)) continue;
        qsf_format(text, sizeof text, "%g", yyjson_get_num(v));
        const qsf_status st = hf_add_meta(in, keys[i][1], text, err);
        if (st) return st;
    }
    return QSF_OK;
}

/* generation_config.json: further end tokens, and sampling defaults.  Optional. */
static qsf_status hf_generation(const char *dir, input *in, hf_config *cfg, qsf_error *err)
{
    static const char name[] = "generation_config.json";
    const qsf_platform *p = in->platform;
    hf_config more = { .bos = -1, .eos = -1, .pad = -1 };
    char *text;
    uint64_t len;
    json_text j = { 0 };
    qsf_status st = hf_read_text(p, dir, name, 1 << 20, &text, &len, err);
    if (st) return st == QSF_E_NOT_FOUND ? QSF_OK : st;
    if (!(st = json_parse(p, text, (size_t)len, name, &j, err)) && !(st = hf_config_tokens(j.root, name, &more, err)))
        st = hf_generation_meta(in, j.root, err);
    json_free(&j);
    qsf_dealloc(p, text, len + 1);
    if (cfg->bos < 0) cfg->bos = more.bos;
    if (cfg->eos < 0) cfg->eos = more.eos;
    if (cfg->pad < 0) cfg->pad = more.pad;
    if (!more.n_more_eos && more.eos >= 0) more.more_eos[more.n_more_eos++] = more.eos;
    for (uint32_t i = 0; i < more.n_more_eos && cfg->n_more_eos < QSF_ARRAY_LEN(cfg->more_eos); i++)
        cfg->more_eos[cfg->n_more_eos++] = more.more_eos[i];
    return st;
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static qsf_status hf_read_config(const char *dir, input *in, hf_config *cfg, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    char *text;
    uint64_t len;
    json_text j = { 0 };
    qsf_status st = hf_read_text(p, dir, "config.json", 4 << 20, &text, &len, err);
    if (st) return st;
    if (!(st = json_parse(p, text, (size_t)len, "config.json", &j, err))) st = hf_config_read(j.root, in->arena, &in->hp, cfg, err);
    json_free(&j);
    qsf_dealloc(p, text, len + 1);
    return st;
}

/* The directory's own name. */
static void hf_name(const char *dir, qsf_hparams *hp)
{
    size_t end = strlen(dir), at;
    while (end && (dir[end - 1] == '/' || dir[end - 1] == '\\')) end--;
    for (at = end; at && dir[at - 1] != '/' && dir[at - 1] != '\\'; ) at--;
    qsf_format(hp->name, sizeof hp->name, "%.*s", (int)QSF_MIN(end - at, sizeof hp->name - 1), dir + at);
}

static qsf_status hf_open_all(const char *dir, input *in, qsf_error *err)
{
    hf_input *own = in->own;
    hf_config cfg;
    const char *format = NULL;
    char count[16];
    uint32_t ignored;
    qsf_status st;
    if ((st = hf_read_config(dir, in, &cfg, err)) ||
        (st = hf_weights_open(in->platform, dir, in->arena, &own->weights, &format, err)) ||
        (st = hf_map_tensors(&own->weights, &cfg, in, &own->places, &ignored, err)) ||
        (st = hf_add_meta(in, "source.format", format, err)) ||
        (st = hf_add_meta(in, "source.model_type", cfg.model_type, err)) ||
        (st = hf_generation(dir, in, &cfg, err))) return st;
    hf_name(dir, &in->hp);
    qsf_format(count, sizeof count, "%u", (unsigned)ignored);
    if (ignored && (st = hf_add_meta(in, "source.ignored_tensors", count, err))) return st;
    return hf_vocab_read(dir, &cfg, in, err);
}

qsf_status input_open_hf(const qsf_platform *p, const char *dir, input **out, qsf_error *err)
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
    in->close = hf_close;
    if ((st = hf_open_all(dir, in, err))) {
        hf_close(in);
        return st;
    }
    *out = in;
    return QSF_OK;
}

#else

#include <stdio.h>

qsf_status input_open_hf(const qsf_platform *p, const char *dir, input **out, qsf_error *err)
{
    char path[4096];
    qsf_file *f;
    uint64_t len;
    *out = NULL;
    snprintf(path, sizeof path, "%s/config.json", dir);
    const qsf_status st = qsf_host_open(p, path, &f, &len, err);
    if (st) return st;
    p->close(p->user, f);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: reading Hugging Face directories needs a build with yyjson", dir);
}

#endif
