/* Reads PEFT directories: which matrix of the model a tensor is for, by the name of its module.
 * SPDX-License-Identifier: MIT */
#include "model/peft.h"

#include "model/safetensors.h"
#include "model/source_read.h"

#if !defined(QSF_NO_CONVERTER)          /* which is who reads Hugging Face's files */

#define PEFT_WEIGHTS "adapter_model.safetensors"
enum { PEFT_NAME = 96 };                /* of a tensor, including its suffix */

/* ---- names of modules ---- */

/* What stands before a layer's number, and before the embedding and the head. */
static const char *const peft_bodies[] = {
    "model.", "", "transformer.", "bert.", "roberta.", "backbone.", "language_model.model.",
    "model.language_model.", "model.language_model.model.", "language_model.",
};
static const char *const peft_layers[] = { "layers.", "h.", "encoder.layer." };

/* Modules of a layer whose names are not Llama's, which the table of roles has.  Those are left out
 * whose rows GGUF files have in another order: what falcon, gpt-neox, bloom, baichuan and internlm2
 * keep queries, keys and values in, and delta nets. */
static const struct { const char *module, *gguf; } peft_modules[] = {
    { "self_attn.qkv_proj", "attn_qkv" }, { "mlp.gate_up_proj", "ffn_up" },
    { "self_attn.dense", "attn_output" }, { "self_attn.out_proj", "attn_output" },
    { "mlp.fc1", "ffn_up" }, { "mlp.fc2", "ffn_down" },
    { "mlp.c_fc", "ffn_up" }, { "mlp.c_proj", "ffn_down" },
    { "attn.c_attn", "attn_qkv" }, { "attn.c_proj", "attn_output" },
    { "attention.self.query", "attn_q" }, { "attention.self.key", "attn_k" },
    { "attention.self.value", "attn_v" }, { "attention.output.dense", "attn_output" },
    { "intermediate.dense", "ffn_up" }, { "output.dense", "ffn_down" },
    { "conv.in_proj", "shortconv.in_proj" }, { "conv.out_proj", "shortconv.out_proj" },
    { "feed_forward.w1", "ffn_gate" }, { "feed_forward.w3", "ffn_up" }, { "feed_forward.w2", "ffn_down" },
    { "mamba.in_proj", "ssm_in" }, { "mamba.out_proj", "ssm_out" },
    { "mixer.in_proj", "ssm_in" }, { "mixer.out_proj", "ssm_out" },
    { "shared_mlp.input_linear", "ffn_up" }, { "shared_mlp.output_linear", "ffn_down" },
    { "mlp.gate", "ffn_gate_inp" }, { "block_sparse_moe.gate", "ffn_gate_inp" },
    { "feed_forward.gate", "ffn_gate_inp" },
    { "mlp.shared_expert.gate_proj", "ffn_gate_shexp" }, { "mlp.shared_expert.up_proj", "ffn_up_shexp" },
    { "mlp.shared_expert.down_proj", "ffn_down_shexp" },
    { "mlp.shared_experts.gate_proj", "ffn_gate_shexp" }, { "mlp.shared_experts.up_proj", "ffn_up_shexp" },
    { "mlp.shared_experts.down_proj", "ffn_down_shexp" },
};
/* Experts' modules: one of these prefixes, a number, and a name from the next table. */
static const char *const peft_experts[] = {
    "mlp.experts.", "block_sparse_moe.experts.", "feed_forward.experts.",
};
static const struct { const char *module, *gguf; } peft_of_expert[] = {
    { "gate_proj", "ffn_gate_exps" }, { "up_proj", "ffn_up_exps" }, { "down_proj", "ffn_down_exps" },
    { "w1", "ffn_gate_exps" }, { "w3", "ffn_up_exps" }, { "w2", "ffn_down_exps" },
};
static const struct { const char *module, *gguf; } peft_outside[] = {
    { "embed_tokens", "token_embd" }, { "wte", "token_embd" }, { "embeddings", "token_embd" },
    { "embeddings.word_embeddings", "token_embd" }, { "lm_head", "output" },
};

static bool peft_is_text(const char *p, size_t n, const char *text)
{
    return n == strlen(text) && !memcmp(p, text, n);
}

/* The rest of p[0..*n) after `text`; NULL: it does not begin with `text`. */
static const char *peft_after_prefix(const char *p, size_t *n, const char *text)
{
    const size_t len = strlen(text);
    if (*n < len || memcmp(p, text, len)) return NULL;
    *n -= len;
    return p + len;
}

/* GGUF's name of a layer's module; NULL: none that is known. */
static const char *peft_in_layer(const char *p, size_t n)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(peft_modules); i++)
        if (peft_is_text(p, n, peft_modules[i].module)) return peft_modules[i].gguf;
    for (size_t i = 0; i < QSF_N_ROLES; i++) {
        const qsf_role *role = &qsf_roles[i];
        if (role->part != QSF_PART_LAYER || role->use != QSF_USE_MATRIX || !role->hf) continue;
        if (!strncmp(role->hf, p, n) && !strcmp(role->hf + n, ".weight")) return role->name;
    }
    return NULL;
}

/* The number of digits before the first '.'; 0: p does not begin with digits and a '.'. */
static size_t peft_digits(const char *p, size_t n)
{
    size_t digits = 0;
    while (digits < n && digits < 9 && p[digits] >= '0' && p[digits] <= '9') digits++;
    return digits < n && p[digits] == '.' ? digits : 0;
}

/* Names an expert's module in a layer; the expert's number follows the name, a form that only
 * lora_file.c reads. */
static bool peft_expert(const char *layer, size_t layer_len, const char *p, size_t len, char out[PEFT_NAME])
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(peft_experts); i++) {
        size_t n = len;
        const char *at = peft_after_prefix(p, &n, peft_experts[i]);
        const size_t digits = at ? peft_digits(at, n) : 0;
        for (size_t k = 0; digits && k < QSF_ARRAY_LEN(peft_of_expert); k++)
            if (peft_is_text(at + digits + 1, n - digits - 1, peft_of_expert[k].module))
                return qsf_format(out, PEFT_NAME, "blk.%.*s.%s.weight:%.*s", (int)layer_len, layer,
                                  peft_of_expert[k].gguf, (int)digits, at) < PEFT_NAME;
    }
    return false;
}

/* The same with "N." before it, in a layer. */
static bool peft_numbered(const char *p, size_t n, char out[PEFT_NAME])
{
    const size_t digits = peft_digits(p, n), begin = digits + 1;
    const char *name = digits ? peft_in_layer(p + begin, n - begin) : NULL;
    if (!name) return digits && peft_expert(p, digits, p + begin, n - begin, out);
    return qsf_format(out, PEFT_NAME, "blk.%.*s.%s.weight", (int)digits, p, name) < PEFT_NAME;
}

/* The name in GGUF files of the module's weight. */
static bool peft_gguf_name(const char *module, size_t len, char out[PEFT_NAME])
{
    for (size_t b = 0; b < QSF_ARRAY_LEN(peft_bodies); b++) {
        size_t n = len, rest;
        const char *p = peft_after_prefix(module, &n, peft_bodies[b]), *q;
        for (size_t i = 0; p && i < QSF_ARRAY_LEN(peft_layers); i++) {
            rest = n;
            if ((q = peft_after_prefix(p, &rest, peft_layers[i])) && peft_numbered(q, rest, out)) return true;
        }
        for (size_t i = 0; p && i < QSF_ARRAY_LEN(peft_outside); i++)
            if (peft_is_text(p, n, peft_outside[i].module))
                return qsf_format(out, PEFT_NAME, "%s.weight", peft_outside[i].gguf) < PEFT_NAME;
    }
    return false;
}

/* The order of rows of queries and keys in the Hugging Face files of an architecture.  If GGUF
 * files have halves, rows were copied.  If they have pairs, a converter has made them from halves
 * (llama.cpp's permute), or the model's own code rotates pairs. */
static uint8_t peft_rows(const char *arch)
{
    const qsf_arch *a = qsf_arch_find(arch);
    if (!a) return QSF_ROPE_NONE;
    return a->rope == QSF_ROPE_PAIRS ? a->hf_rows : QSF_ROPE_HALVES;
}

/* ---- tensors ---- */

typedef struct peft_reader {
    const qsf_platform *p;
    const char   *dir;
    const peft_warn *w;
    gguf         *g;
    qsf_peft     *out;
    weights_list  list;
    peft_module  *modules;          /* [g->n_tensors]: of A, then of B's the same */
    uint32_t      n_modules, n_base;
} peft_reader;

static qsf_status peft_refuse(const peft_reader *r, qsf_status st, const char *name, const char *why,
                              qsf_error *err)
{
    return qsf_fail(err, st, "%s/" PEFT_WEIGHTS ": tensor \"%.160s\" %s", r->dir, name, why);
}

/* Where ".lora_A" or similar ends a module's name, if a valid suffix follows: "weight", possibly
 * after the adapter's name, or nothing for embeddings. */
static bool peft_split(const char *name, size_t *module, bool *a, bool *embd)
{
    static const struct { const char *mark; bool a, embd; } marks[] = {
        { ".lora_A.", true, false }, { ".lora_B.", false, false },
        { ".lora_embedding_A", true, true }, { ".lora_embedding_B", false, true },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(marks); i++) {
        const char *at = strstr(name, marks[i].mark);
        if (!at) continue;
        const char *rest = at + strlen(marks[i].mark), *dot = strchr(rest, '.');
        const bool plain = !strcmp(rest, "weight") || (dot && !strcmp(dot, ".weight"));
        const bool bare = !*rest || (*rest == '.' && !strchr(rest + 1, '.'));
        if (!(marks[i].embd ? bare : plain)) return false;
        *module = (size_t)(at - name);
        *a = marks[i].a;
        *embd = marks[i].embd;
        return true;
    }
    return false;
}

static qsf_status peft_tensor(peft_reader *r, const weights_tensor *t, qsf_error *err)
{
    static const char prefix[] = "base_model.model.";
    char own[PEFT_NAME], full[PEFT_NAME + 8];
    const char *name = t->name;
    size_t len;
    bool a, embd;
    if (strstr(name, ".base_layer.")) {
        r->n_base++;
        return QSF_OK;
    }
    if (!peft_split(name, &len, &a, &embd))
        return peft_refuse(r, QSF_E_UNSUPPORTED, name, "is neither lora_A nor lora_B of a matrix, and cannot "
                           "be run by this version", err);
    if (!strncmp(name, prefix, sizeof prefix - 1)) {
        name += sizeof prefix - 1;
        len -= sizeof prefix - 1;
    }
    if (!peft_gguf_name(name, len, own))
        return peft_refuse(r, QSF_E_UNSUPPORTED, t->name, "is for a module that adapters cannot change in "
                           "this version", err);
    if (t->type == WEIGHTS_NO_TYPE)
        return peft_refuse(r, QSF_E_UNSUPPORTED, t->name, "is not of type F32, F16 or BF16",
                           err);
    if (t->n_dims != 2 || !t->shape[0] || !t->shape[1] || embd != !strcmp(own, "token_embd.weight"))
        return peft_refuse(r, QSF_E_CORRUPT, t->name, "does not have the shape of an adapter's matrix", err);
    gguf_tensor *to = &r->g->tensors[r->g->n_tensors];
    peft_module *m = &r->modules[r->g->n_tensors++];
    const size_t n = qsf_format(full, sizeof full, "%s.lora_%c", own, a ? 'a' : 'b');
    *to = (gguf_tensor){ .name = { qsf_arena_text(r->g->tmp, full, n, err), n }, .n_dims = 2,
                         .dims = { t->shape[1], t->shape[0], 1, 1 }, .at = t->at, .bytes = t->bytes,
                         .type = t->type, .block = 1 };
    m->name = qsf_arena_text(r->g->tmp, name, len, err);
    m->rank = (uint32_t)QSF_MIN(a ? t->shape[0] : t->shape[1], UINT32_MAX);
    return to->name.p && m->name ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status peft_tensors(peft_reader *r, qsf_error *err)
{
    gguf *g = r->g;
    const uint32_t n = r->list.n;
    char line[300];
    qsf_status st = QSF_OK;
    if (n > PEFT_MAX_MODULES)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s/" PEFT_WEIGHTS ": %u tensors, more than the %d that this "
                        "version reads", r->dir, (unsigned)n, (int)PEFT_MAX_MODULES);
    g->tensors = qsf_arena_array(g->tmp, n, sizeof *g->tensors, "an adapter", err);
    r->modules = qsf_arena_array(g->tmp, n, sizeof *r->modules, "an adapter", err);
    r->out->scales = qsf_arena_array(g->tmp, n, sizeof *r->out->scales, "an adapter", err);
    if (!g->tensors || !r->modules || !r->out->scales) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n && !st; i++) st = peft_tensor(r, &r->list.tensors[i], err);
    if (st || !r->n_base || !r->w->tell) return st;
    qsf_format(line, sizeof line, "%s: %u tensors of the base model that are stored with the adapter are "
                                  "ignored",
               r->dir, (unsigned)r->n_base);
    r->w->tell(r->w->user, line);
    return QSF_OK;
}

/* One tensor of a name: two may differ in the adapter's name, or in what stands before the
 * module's. */
static qsf_status peft_twice(const peft_reader *r, qsf_error *err)
{
    const gguf *g = r->g;
    gguf_names names;
    int64_t twice = -1;
    gguf_text *list = qsf_arena_array(g->tmp, g->n_tensors, sizeof *list, "an adapter", err);
    for (uint32_t i = 0; list && i < g->n_tensors; i++) list[i] = g->tensors[i].name;
    const qsf_status st = list ? qsf_gguf_names(g->tmp, g->s->path, list, g->n_tensors, &names, &twice, err)
                               : QSF_E_MEMORY;
    if (st || twice < 0) return st;
    return peft_refuse(r, QSF_E_CORRUPT, r->modules[twice].name, "is there twice", err);
}

static qsf_status peft_read(peft_reader *r, qsf_error *err)
{
    const qsf_source *s = r->g->s;
    const weights_file f = { .path = s->path, .file = s->files[0], .length = s->lengths[0] };
    qsf_json j;
    qsf_status st = qsf_peft_config_read(r->p, r->dir, &j, r->w, err);
    if (st) return st;
    if (!(st = qsf_safetensors_read(r->p, &f, 0, r->g->tmp, &r->list, err)) &&
        !(st = peft_tensors(r, err)) && !(st = peft_twice(r, err)))
        st = qsf_peft_config_apply(&j, r->dir, r->modules, r->g->n_tensors, r->g->tmp, r->w, &r->out->alpha,
                                   err);
    for (uint32_t i = 0; !st && i < r->g->n_tensors; i++) r->out->scales[i] = r->modules[i].scale;
    qsf_json_drop(&j);
    return st;
}

static bool peft_has_file(const qsf_platform *p, const char *dir, const char *name)
{
    char path[4096];
    qsf_file *f;
    if (!p->open || qsf_format(path, sizeof path, "%s/%s", dir, name) >= sizeof path) return false;
    if (p->open(p->user, path, &f)) return false;
    p->close(p->user, f);
    return true;
}

bool qsf_peft_is(const qsf_platform *p, const char *path)
{
    return peft_has_file(p, path, "adapter_config.json");
}

qsf_status qsf_peft_open(const qsf_platform *p, const qsf_source *model, const char *dir, const peft_warn *w,
                         gguf *g, qsf_peft *out, qsf_error *err)
{
    char path[4096];
    peft_reader r = { .p = p, .dir = dir, .w = w, .g = g, .out = out };
    qsf_status st;
    out->rows = peft_rows(model->hp.arch);
    if (qsf_format(path, sizeof path, "%s/" PEFT_WEIGHTS, dir) >= sizeof path)
        return qsf_fail(err, QSF_E_ARGUMENT, "the path of %.80s... is too long", dir);
    if (!peft_has_file(p, dir, PEFT_WEIGHTS) && peft_has_file(p, dir, "adapter_model.bin"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: has adapter_model.bin, a PyTorch file; save the adapter "
                        "as safetensors", dir);
    if ((st = qsf_source_open_bare(p, path, NULL, &g->s, err)) || (st = qsf_arena_new(p, &g->tmp, err)))
        return st;
    return peft_read(&r, err);
}

#undef PEFT_WEIGHTS

#else

bool qsf_peft_is(const qsf_platform *p, const char *path)
{
    (void)p, (void)path;
    return false;
}

qsf_status qsf_peft_open(const qsf_platform *p, const qsf_source *model, const char *dir, const peft_warn *w,
                         gguf *g, qsf_peft *out, qsf_error *err)
{
    (void)p, (void)model, (void)w, (void)g, (void)out;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: this build does not support PEFT directories", dir);
}

#endif
