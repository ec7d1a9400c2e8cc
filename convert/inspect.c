/* --info and --verify: what a model file says about itself, and whether all of its bytes are what they were.
 * SPDX-License-Identifier: MIT */
#include "report.h"
#include "model/roles.h"

static const char *inspect_name(uint32_t i, const char *const *names, uint32_t n) { return i < n ? names[i] : "?"; }
#define NAME(i, ...) inspect_name((i), (const char *const[]){ __VA_ARGS__ }, QSF_ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))

static void inspect_hparams(FILE *out, const qsf_hparams *h)
{
    fprintf(out, "architecture   %s\nname           %s\n", h->arch, h->name);
    fprintf(out, "layers %u, width %u, heads %u (%u for keys and values) of %u, feed-forward %u%s, vocabulary %u, context %u\n",
            (unsigned)h->n_layers, (unsigned)h->n_embd, (unsigned)h->n_heads, (unsigned)h->n_kv_heads, (unsigned)h->head_dim, (unsigned)h->n_ff,
            h->gated ? " gated" : "", (unsigned)h->n_vocab, (unsigned)h->n_ctx_train);
    fprintf(out, "norm %s (eps %g), activation %s, %s%s\n", NAME(h->norm, "LayerNorm", "RMSNorm"), (double)h->norm_eps, NAME(h->act, "GELU", "SiLU", "ReLU"),
            h->learned_pos ? "learned positions, " : "", h->tied ? "head tied to the embedding" : "head of its own");
    if (h->rope) {
        fprintf(out, "rotary %s, base %g, %u dimensions, scaling %s", NAME(h->rope, "none", "pairs", "halves"), (double)h->rope_base,
                (unsigned)(h->rope_dim ? h->rope_dim : h->head_dim), NAME(h->scaling, "none", "linear", "yarn", "longrope"));
        if (h->scaling) fprintf(out, " by %g from %u", (double)h->scaling_factor, (unsigned)h->scaling_orig_ctx);
        if (h->rope_base_local > 0) fprintf(out, ", base of windowed layers %g", (double)h->rope_base_local);
        fprintf(out, "%s%s\n", h->rope_factors ? ", factors" : "", h->rope_factors_long ? ", long factors" : "");
    }
    if (h->window) fprintf(out, "window %u, pattern %u\n", (unsigned)h->window, (unsigned)h->window_pattern);
    if (h->embd_scale != 1.0f && h->embd_scale != 0.0f) fprintf(out, "embedding scale %g\n", (double)h->embd_scale);
    if (h->attn_scale != 0.0f) fprintf(out, "attention scale %g\n", (double)h->attn_scale);
    if (h->attn_softcap > 0 || h->final_softcap > 0) fprintf(out, "soft caps: attention %g, final %g\n", (double)h->attn_softcap, (double)h->final_softcap);
}

static void inspect_vocab(FILE *out, const qsf_vocab *v)
{
    fprintf(out, "tokenizer %s (%s), %u tokens, %u merges; bos %d, eos %d, eot %d, unk %d, pad %d; adds%s%s%s%s; template %s\n",
            NAME(v->kind, "none", "BPE", "SentencePiece"), v->pre, (unsigned)v->n_tokens, (unsigned)v->n_merges, (int)v->bos, (int)v->eos, (int)v->eot,
            (int)v->unk, (int)v->pad, v->add_bos ? " bos" : "", v->add_eos ? " eos" : "", v->add_space_prefix ? " a space" : "",
            v->add_bos || v->add_eos || v->add_space_prefix ? "" : " nothing", v->chat_template ? "yes" : "no");
}

/* One line, whatever the value holds. */
static void inspect_text(FILE *out, const char *s)
{
    enum { MOST = 160 };
    int n = 0;
    for (; *s && n < MOST; s++, n++) {
        if (*s == '\n') fputs("\\n", out);
        else if ((unsigned char)*s < 0x20) fputc('.', out);
        else fputc(*s, out);
    }
    fputs(*s ? "...\n" : "\n", out);
}

static void inspect_unit(FILE *out, const qsf_source *s, uint32_t unit)
{
    const qsf_unit *u = &s->units[unit];
    char name[32];
    if (unit < s->hp.n_layers) snprintf(name, sizeof name, "layer %u", (unsigned)unit);
    else snprintf(name, sizeof name, "%s", unit == qsf_unit_embd(s) ? "embedding" : "final");
    fprintf(out, "%s: %llu bytes", name, (unsigned long long)u->stored);
    if (u->n_extents) fprintf(out, " at %llu", (unsigned long long)s->extents[u->first_extent].at);
    if (u->compression) fprintf(out, ", %s, %llu unpacked", NAME(u->compression, "none", "lz4", "lz4hc", "zstd"), (unsigned long long)u->raw);
    if (u->has_crc) fprintf(out, ", crc %08x", (unsigned)u->crc);
    if (unit < s->hp.n_layers && u->importance < 1.0f) fprintf(out, ", importance %.3f", (double)u->importance);
    fputc('\n', out);
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[u->first_tensor + i];
        const qsf_type_info *info = qsf_type_get(t->type);
        if (t->kind == QSF_K_PAD) continue;
        fprintf(out, "  %-22s %6u x %-6u %-9s block %-3u packing %u %12llu bytes\n", qsf_kind_name(t->kind), (unsigned)t->rows, (unsigned)t->cols,
                info ? info->name : "?", (unsigned)t->block, (unsigned)t->packing, (unsigned long long)t->bytes);
    }
}

qsf_status inspect_info(FILE *out, const qsf_platform *p, const char *path, qsf_error *err)
{
    qsf_source *s = NULL;
    qsf_error why;
    const qsf_status st = qsf_source_open(p, path, NULL, false, &s, &why);
    if (st) {                                         /* maybe it has a vocabulary, at least */
        const qsf_status worse = qsf_source_open(p, path, NULL, true, &s, err);
        if (worse) return worse;
    }
    fprintf(out, "%s: %s\n", s->path ? s->path : path, s->format);
    inspect_hparams(out, &s->hp);
    inspect_vocab(out, &s->vocab);
    fprintf(out, "%llu weights in %llu bytes, %.3f bits a weight; %u file%s\n", (unsigned long long)s->n_params, (unsigned long long)s->weight_bytes,
            convert_bits(s->weight_bytes, s->n_params), (unsigned)s->n_files, s->n_files == 1 ? "" : "s");
    for (uint32_t i = 0; i < s->n_meta; i++) {
        fprintf(out, "%s = ", s->meta[i].key);
        inspect_text(out, s->meta[i].value);
    }
    if (st) fprintf(out, "no weights: %s\n", why.text);
    if (s->clusters) fprintf(out, "head: rows in %u clusters\n", (unsigned)s->clusters->n);
    if (s->embd_clusters)
        fprintf(out, "embedding: rows are what they lack of the centroids of %u clusters, %llu bytes in memory\n", (unsigned)s->embd_clusters->n,
                (unsigned long long)(s->embd_clusters->centroids.bytes + s->hp.n_vocab * sizeof *s->embd_clusters->of));
    if (s->n_units) {
        inspect_unit(out, s, qsf_unit_embd(s));
        for (uint32_t i = 0; i < s->hp.n_layers; i++) inspect_unit(out, s, i);
        inspect_unit(out, s, qsf_unit_final(s));
    }
    qsf_source_close(s);
    return QSF_OK;
}

static qsf_status verify_unit(const qsf_source *s, uint32_t unit, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    uint8_t *stored = qsf_alloc(s->platform, u->stored, "a unit", err), *raw = NULL;
    qsf_status st = stored ? QSF_OK : QSF_E_MEMORY;
    if (st == QSF_OK && u->compression && !(raw = qsf_alloc(s->platform, u->raw, "an unpacked unit", err))) st = QSF_E_MEMORY;
    for (uint32_t i = 0; st == QSF_OK && i < u->n_extents; i++) {
        const qsf_extent *x = &s->extents[u->first_extent + i];
        st = qsf_read_all(s->io, s->files[x->file], x->at, stored + x->to, (size_t)x->len, err);
    }
    if (st == QSF_OK) st = qsf_unit_check(s, unit, stored, raw, err);
    qsf_dealloc(s->platform, stored, u->stored);
    qsf_dealloc(s->platform, raw, u->raw);
    return st;
}

qsf_status inspect_verify(FILE *out, const qsf_platform *p, const char *path, qsf_error *err)
{
    qsf_source *s = NULL;
    uint32_t checked = 0;
    qsf_status st = qsf_source_open(p, path, NULL, false, &s, err);
    for (uint32_t i = 0; st == QSF_OK && i < s->n_units; i++) {
        st = verify_unit(s, i, err);
        checked += s->units[i].has_crc;
    }
    if (st == QSF_OK && checked) fprintf(out, "%s: whole; %u units read, %u checksums right\n", path, (unsigned)s->n_units, (unsigned)checked);
    else if (st == QSF_OK) fprintf(out, "%s: %u units read; %s files carry no checksums\n", path, (unsigned)s->n_units, s->format);
    qsf_source_close(s);
    return st;
}
