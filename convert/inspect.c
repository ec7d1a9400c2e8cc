/* Prints a model file's description, and checks that all of its bytes are intact.
 * SPDX-License-Identifier: MIT */
#include "qsf_convert.h"
#include "model/roles.h"

#include "base/host.h"
#include "base/sized.h"
#include "plan/loss.h"
#include "unit.h"

#include <stdarg.h>
#include <stdio.h>

/* Text on its way to the caller.  After the first error, writing stops. */
typedef struct inspect_out {
    qsf_write_fn write;
    void        *user;
    qsf_status   st;
} inspect_out;

static void inspect_bytes(inspect_out *out, const char *s, size_t len)
{
    if (!out->st) out->st = out->write(out->user, s, len);
}

/* A line, or the part of one that has a bound: texts of any length go through inspect_bytes. */
QSF_PRINTF(2, 3) static void inspect_say(inspect_out *out, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n > 0) inspect_bytes(out, line, QSF_MIN((size_t)n, sizeof line - 1));
}

static const char *inspect_name(uint32_t i, const char *const *names, uint32_t n)
{
    return i < n ? names[i] : "?";
}
#define NAME(i, ...)                                                                                         \
    inspect_name((i), (const char *const[]){ __VA_ARGS__ },                                                  \
                 QSF_ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))

static void inspect_hparams(inspect_out *out, const qsf_hparams *h)
{
    inspect_say(out, "architecture   %s\nname           %s\n", h->arch, h->name);
    inspect_say(out,
                "layers %u, width %u, heads %u (%u for keys and values) of %u, feed-forward %u%s, vocabulary "
                "%u, context %u\n",
                (unsigned)h->n_layers, (unsigned)h->n_embd, (unsigned)h->n_heads, (unsigned)h->n_kv_heads,
                (unsigned)h->head_dim, (unsigned)h->n_ff, h->gated ? " gated" : "", (unsigned)h->n_vocab,
                (unsigned)h->n_ctx_train);
    inspect_say(out, "norm %s (eps %g), activation %s, %s%s\n", NAME(h->norm, "LayerNorm", "RMSNorm"),
                (double)h->norm_eps,
                NAME(h->act, "GELU", "SiLU", "ReLU", "ReLU2", "xIELU", "gpt-oss's SwiGLU"),
                h->learned_pos ? "learned positions, " : "",
                h->tied ? "head tied to the embedding" : "separate head");
    if (h->rope) {
        inspect_say(out, "rotary %s, base %g, %u dimensions, scaling %s",
                    NAME(h->rope, "none", "pairs", "halves"), (double)h->rope_base,
                    (unsigned)(h->rope_dim ? h->rope_dim : h->head_dim),
                    NAME(h->scaling, "none", "linear", "yarn", "longrope"));
        if (h->scaling)
            inspect_say(out, " by %g from %u", (double)h->scaling_factor, (unsigned)h->scaling_orig_ctx);
        if (h->rope_base_local > 0)
            inspect_say(out, ", base of windowed layers %g", (double)h->rope_base_local);
        inspect_say(out, "%s%s\n", h->rope_factors ? ", factors" : "",
                    h->rope_factors_long ? ", long factors" : "");
    }
    if (h->n_experts)
        inspect_say(out, "experts %u of length %u, %u used, %u shared; not in the first %u layers\n",
                    (unsigned)h->n_experts, (unsigned)h->n_ff_expert, (unsigned)h->n_used,
                    (unsigned)h->n_ff_shared, (unsigned)h->n_dense);
    if (h->window)
        inspect_say(out, "window %u, pattern %u\n", (unsigned)h->window, (unsigned)h->window_pattern);
    if (h->embd_scale != 1.0f && h->embd_scale != 0.0f)
        inspect_say(out, "embedding scale %g\n", (double)h->embd_scale);
    if (h->attn_scale != 0.0f) inspect_say(out, "attention scale %g\n", (double)h->attn_scale);
    if (h->attn_softcap > 0 || h->final_softcap > 0)
        inspect_say(out, "soft caps: attention %g, final %g\n", (double)h->attn_softcap,
                    (double)h->final_softcap);
}

static void inspect_vocab(inspect_out *out, const qsf_vocab *v)
{
    inspect_say(out,
                "tokenizer %s (%s), %u tokens, %u merges; bos %d, eos %d, eot %d, unk %d, pad %d; "
                "adds%s%s%s%s; template %s\n",
                NAME(v->kind, "none", "BPE", "SentencePiece"), v->pre, (unsigned)v->n_tokens,
                (unsigned)v->n_merges, (int)v->bos, (int)v->eos, (int)v->eot, (int)v->unk, (int)v->pad,
                v->add_bos ? " bos" : "", v->add_eos ? " eos" : "", v->add_space_prefix ? " a space" : "",
                v->add_bos || v->add_eos || v->add_space_prefix ? "" : " nothing",
                v->chat_template ? "yes" : "no");
    for (uint32_t i = 0; i < v->n_more; i++) inspect_say(out, "template %s\n", v->more[i].name);
}

/* Prints a string of the file, cut to one line, without characters that could control a
 * terminal. */
static void inspect_text(inspect_out *out, const char *s)
{
    enum { MOST = 160 };
    char line[2 * MOST + 8];
    size_t n = 0, at = 0;
    for (; *s && n < MOST; s++, n++) {
        if (*s == '\n') line[at++] = '\\';
        line[at++] = *s == '\n' ? 'n' : *s;
    }
    while (*s && at && ((unsigned char)*s & 0xc0) == 0x80) s--, at--;       /* whole characters only */
    line[at] = 0;
    qsf_visible(line);
    inspect_bytes(out, line, strlen(line));
    if (*s) inspect_say(out, "...");
}

static void inspect_unit(inspect_out *out, const qsf_source *s, uint32_t unit)
{
    const qsf_unit *u = &s->units[unit];
    char name[32];
    if (unit < s->hp.n_layers) snprintf(name, sizeof name, "layer %u", (unsigned)unit);
    else snprintf(name, sizeof name, "%s", unit == qsf_unit_embd(s) ? "embedding" : "final");
    inspect_say(out, "%s: %llu bytes", name, (unsigned long long)u->stored);
    if (u->n_extents) inspect_say(out, " at %llu", (unsigned long long)s->extents[u->first_extent].at);
    if (u->rest)
        inspect_say(out, ", of which low bits %llu at %llu", (unsigned long long)u->rest,
                    (unsigned long long)s->extents[u->first_extent + 1].at);
    else if (u->compression)
        inspect_say(out, ", %s, %llu unpacked", NAME(u->compression, "none", "lz4", "lz4hc", "zstd"),
                    (unsigned long long)u->raw);
    if (u->has_crc) inspect_say(out, ", crc %08x", (unsigned)u->crc);
    if (unit < s->hp.n_layers && u->importance < 1.0f)
        inspect_say(out, ", importance %.3f", (double)u->importance);
    inspect_bytes(out, "\n", 1);
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[u->first_tensor + i];
        const qsf_type_info *info = qsf_type_get(t->type);
        if (t->kind == QSF_K_PAD) continue;
        inspect_say(out, "  %-22s %6u x %-6u %-9s block %-3u packing %u %12llu bytes\n",
                    qsf_kind_name(t->kind), (unsigned)t->rows, (unsigned)t->cols, info ? info->name : "?",
                    (unsigned)t->block, (unsigned)t->packing, (unsigned long long)t->bytes);
    }
}

static void inspect_experts(inspect_out *out, const qsf_source *s)
{
    uint32_t alone = 0, checked = 0;
    for (uint32_t i = 0; s->n_units && i < s->hp.n_layers; i++) {
        alone += s->units[i].n_expert_tensors != 0;
        checked += s->units[i].expert_crcs != NULL;
    }
    if (alone)
        inspect_say(out, "experts of %u layers can be read individually%s\n", (unsigned)alone,
                    checked ? ", each with its checksum" : "");
}

/* lacks: why the weights are missing, NULL if they are there. */
static void inspect_source(inspect_out *out, const qsf_source *s, const char *path, const char *lacks)
{
    char name[4096];
    snprintf(name, sizeof name, "%s", s->path ? s->path : path);
    qsf_visible(name);
    inspect_bytes(out, name, strlen(name));
    inspect_say(out, ": %s\n", s->format);
    inspect_hparams(out, &s->hp);
    inspect_vocab(out, &s->vocab);
    inspect_say(out, "%llu weights in %llu bytes, %.3f bits a weight; %u file%s\n",
                (unsigned long long)s->n_params, (unsigned long long)s->weight_bytes,
                qsf_conv_bits(s->weight_bytes, s->n_params), (unsigned)s->n_files,
                s->n_files == 1 ? "" : "s");
    for (uint32_t i = 0; i < s->n_meta; i++) {
        inspect_text(out, s->meta[i].key);
        inspect_say(out, " = ");
        inspect_text(out, s->meta[i].value);
        inspect_say(out, "\n");
    }
    if (lacks) inspect_say(out, "no weights: %s\n", lacks);
    inspect_experts(out, s);
    if (s->clusters) inspect_say(out, "head: rows in %u clusters\n", (unsigned)s->clusters->n);
    if (s->embd_clusters)
        inspect_say(
            out, "embedding: rows are differences from the centroids of %u clusters, %llu bytes in memory\n",
            (unsigned)s->embd_clusters->n,
            (unsigned long long)(s->embd_clusters->centroids.bytes +
                                 s->hp.n_vocab * sizeof *s->embd_clusters->of));
    if (s->n_units) {
        inspect_unit(out, s, qsf_unit_embd(s));
        for (uint32_t i = 0; i < s->hp.n_layers; i++) inspect_unit(out, s, i);
        inspect_unit(out, s, qsf_unit_final(s));
    }
}

qsf_status qsf_convert_describe(const char *path, const qsf_platform *p, qsf_write_fn write, void *user,
                                qsf_error *err)
{
    inspect_out out = { .write = write, .user = user };
    qsf_source *s = NULL;
    qsf_error why;
    if (!path || !write) return qsf_fail(err, QSF_E_ARGUMENT, "no file, or no function to write with");
    if (!p) p = qsf_platform_native();
    const qsf_status st = qsf_source_open(p, path, NULL, false, &s, &why);
    if (st) {                                         /* maybe it has a vocabulary, at least */
        const qsf_status worse = qsf_source_open(p, path, NULL, true, &s, err);
        if (worse) return worse;
    }
    inspect_source(&out, s, path, st ? why.text : NULL);
    qsf_source_close(s);
    return out.st ? qsf_fail(err, out.st, "%s: the description could not be written", path) : QSF_OK;
}

qsf_status qsf_convert_verify(const char *path, const qsf_platform *p, qsf_convert_check *out, qsf_error *err)
{
    qsf_convert_check found = { .size = sizeof found };
    qsf_source *s = NULL;
    if (!path) return qsf_fail(err, QSF_E_ARGUMENT, "no file");
    qsf_status st = out ? QSF_GIVE(out, &found, err) : QSF_OK;
    if (st) return st;
    st = qsf_source_open(p ? p : qsf_platform_native(), path, NULL, false, &s, err);
    if (st) return st;
    found.format = s->format;
    found.n_units = s->n_units;
    for (uint32_t i = 0; !st && i < s->n_units; i++) {
        uint8_t *mem;
        st = qsf_conv_unit_load(s, i, &mem, err);
        qsf_dealloc(s->platform, mem, s->units[i].raw);
        found.n_checksums += s->units[i].has_crc;
    }
    if (!st && out) st = QSF_GIVE(out, &found, err);
    qsf_source_close(s);
    return st;
}
