/* QSF files: what is written is read back; what is damaged is refused.
 * SPDX-License-Identifier: MIT */
#include "compress.h"
#include "make_tiny_qsf.h"
#include "test.h"

#include "fuzz/fuzz_qsf.c"

static qsf_error error;

/* A small file in h under "m". */
static mem_file *written(mem_host *h, const tiny_options *o)
{
    const qsf_status st = tiny_write(&h->p, "m", o, &error);
    if (st) test_fail(__FILE__, __LINE__, error.text);
    return mem_find(h, "m");
}

static qsf_source *opened(mem_host *h)
{
    qsf_source *s;
    if (qsf_source_open(&h->p, "m", NULL, false, &s, &error)) test_fail(__FILE__, __LINE__, error.text);
    return s;
}

/* Opens and loads everything. */
static qsf_status verdict(mem_host *h)
{
    qsf_source *s;
    qsf_status st = qsf_source_open(&h->p, "m", NULL, false, &s, &error);
    if (st) return st;
    st = fuzz_qsf_load(s, &error);
    qsf_source_close(s);
    return st;
}

/* The least file: everything small, a vocabulary of 8. */
static tiny_options least(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 1;
    o.hp.n_embd = 8;
    o.hp.n_heads = 2;
    o.hp.n_kv_heads = 1;
    o.hp.head_dim = 4;
    o.hp.n_ff = 8;
    o.hp.n_vocab = 8;
    o.type = o.embd_type = QSF_T_F16;
    o.vocab = QSF_VOCAB_SPM;
    return o;
}

/* All values of all tensors, in file order; outliers as raw words. */
static float *values_of(const qsf_source *s, size_t *n)
{
    size_t cap = 0;
    for (uint32_t i = 0; i < s->n_tensors; i++) cap += (size_t)s->tensors[i].rows * s->tensors[i].cols + s->tensors[i].bytes;
    float *out = malloc(cap * sizeof *out);
    *n = 0;
    for (uint32_t i = 0; i < s->n_units; i++)
        for (uint32_t k = 0; k < s->units[i].n_tensors; k++) {
            void *data;
            qsf_tensor t = s->tensors[s->units[i].first_tensor + k];
            if (qsf_source_load(s, i, k, &data, &error)) {
                test_fail(__FILE__, __LINE__, error.text);
                return out;
            }
            t.data = data;
            if (t.type == QSF_T_SPARSE) for (size_t b = 0; b < t.bytes; b++) out[(*n)++] = ((uint8_t *)data)[b];
            else {
                qsf_dequant_rows(&t, 0, t.rows, out + *n);
                *n += (size_t)t.rows * t.cols;
            }
            qsf_dealloc(s->platform, data, t.bytes);
        }
    return out;
}

/* ---- round trips ---- */

static void check_same_values(const tiny_options *a, const tiny_options *b)
{
    mem_host h;
    size_t n[2] = { 0, 0 };
    float *v[2];
    mem_host_init(&h);
    for (int i = 0; i < 2; i++) {
        written(&h, i ? b : a);
        qsf_source *s = opened(&h);
        v[i] = values_of(s, &n[i]);
        qsf_source_close(s);
    }
    CHECK(n[0] > 0 && n[0] == n[1] && !memcmp(v[0], v[1], n[0] * sizeof(float)));
    if (n[0] != n[1] || memcmp(v[0], v[1], n[0] * sizeof(float)))
        printf("      type %d block %d packing %d compression %d\n", b->type, b->block, b->packing, b->compression);
    CHECK_EQ(h.live, 0);
    for (int i = 0; i < 2; i++) free(v[i]);
    mem_host_done(&h);
}

static const uint8_t all_types[] = { QSF_T_2BIT_SYM, QSF_T_2BIT, QSF_T_3BIT, QSF_T_4BIT, QSF_T_TERNARY, QSF_T_F16, QSF_T_F32, QSF_T_8BIT, QSF_T_4BIT_S,
                                     QSF_T_5BIT_S, QSF_T_6BIT_S, QSF_T_3BIT_S, QSF_T_BF16 };

static bool have_codec(uint32_t c) { return qsf_codec_check(c, "", NULL) == QSF_OK; }

TEST(every_type_block_packing_and_compression_reads_back)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(all_types); i++)
        for (uint16_t block = 32; block <= 256; block *= 2) {
            tiny_options plain = tiny_defaults();
            plain.type = plain.embd_type = plain.head_type = all_types[i];
            plain.block = block;
            plain.packing = 0;
            plain.hp.n_layers = 1;
            plain.hp.n_embd = 80;           /* no multiple of a block */
            plain.hp.n_ff = 100;            /* nor of a tile's rows */
            plain.hp.tied = false;
            plain.outliers = true;
            for (uint8_t c = QSF_COMPRESS_NONE; c <= QSF_COMPRESS_ZSTD; c++)
                for (uint8_t packing = 0; packing < 2; packing++) {
                    tiny_options o = plain;
                    o.packing = packing;
                    o.compression = c;
                    if (have_codec(c) && (c == QSF_COMPRESS_NONE || block == 64)) check_same_values(&plain, &o);
                }
            if (!qsf_type_tiles(all_types[i]) && block == 64) break;
        }
}

TEST(values_are_those_that_were_quantised)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    qsf_tensor t;
    uint64_t seed = o.seed;
    size_t n;
    mem_host_init(&h);
    written(&h, &o);
    qsf_source *s = opened(&h);
    /* Layers come first among the units, the embedding was made first. */
    const qsf_unit *u = &s->units[qsf_unit_embd(s)];
    void *data;
    CHECK_EQ(tiny_tensor(&t, QSF_K_TOKEN_EMBD, o.embd_type, o.block, o.packing, o.hp.n_vocab, o.hp.n_embd, 0, 1, &seed, &error), QSF_OK);
    CHECK_EQ(qsf_source_load(s, qsf_unit_embd(s), 0, &data, &error), QSF_OK);
    CHECK_EQ(s->tensors[u->first_tensor].bytes, t.bytes);
    CHECK(!memcmp(data, t.data, (size_t)t.bytes));
    qsf_dealloc(&h.p, data, t.bytes);
    free((void *)(uintptr_t)t.data);
    free(values_of(s, &n));
    CHECK_EQ(s->n_params, n);
    qsf_source_close(s);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

TEST(description_reads_back)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    float factors[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, longer[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
    strcpy(o.hp.arch, "gemma3");
    strcpy(o.hp.name, "A name");
    o.hp.act = QSF_ACT_GELU;
    o.hp.norm_eps = 3e-6f;
    o.hp.embd_scale = 8;
    o.hp.attn_scale = 0.25f;
    o.hp.attn_softcap = 50;
    o.hp.final_softcap = 30;
    o.hp.window = 512;
    o.hp.window_pattern = 6;
    o.hp.rope = QSF_ROPE_PAIRS;
    o.hp.rope_dim = 16;
    o.hp.rope_base = 1e6f;
    o.hp.rope_base_local = 1e4f;
    o.hp.scaling = QSF_SCALING_YARN;
    o.hp.scaling_factor = 4;
    o.hp.scaling_orig_ctx = 2048;
    o.hp.yarn_ext_factor = 0.5f;
    o.hp.yarn_attn_factor = 1.25f;
    o.hp.yarn_beta_fast = 16;
    o.hp.yarn_beta_slow = 2;
    o.hp.rope_attn_factor = 1.19f;
    o.hp.rope_factors = factors;
    o.hp.rope_factors_long = longer;
    o.post_norms = o.qk_norms = true;
    mem_host_init(&h);
    written(&h, &o);
    qsf_source *s = opened(&h);
    CHECK(!memcmp(s->hp.rope_factors, factors, sizeof factors));
    CHECK(!memcmp(s->hp.rope_factors_long, longer, sizeof longer));
    qsf_hparams got = s->hp;
    got.rope_factors = factors;
    got.rope_factors_long = longer;
    CHECK_STR(got.arch, o.hp.arch);
    CHECK_STR(got.name, o.hp.name);
    uint8_t a[2048] = { 0 }, b[2048] = { 0 };           /* field by field: a struct may have holes */
    qsf_ext_out as = { .p = a, .cap = sizeof a }, bs = { .p = b, .cap = sizeof b };
    qsf_ext_put_hparams(&as, &got);
    qsf_ext_put_hparams(&bs, &o.hp);
    CHECK(as.len == bs.len && as.len <= sizeof a && !memcmp(a, b, sizeof a));
    CHECK_EQ(got.n_layers, o.hp.n_layers);
    CHECK_EQ(got.n_embd, o.hp.n_embd);
    CHECK_EQ(got.n_heads, o.hp.n_heads);
    CHECK_EQ(got.n_kv_heads, o.hp.n_kv_heads);
    CHECK_EQ(got.head_dim, o.hp.head_dim);
    CHECK_EQ(got.n_ff, o.hp.n_ff);
    CHECK_EQ(got.n_vocab, o.hp.n_vocab);
    CHECK_EQ(got.n_ctx_train, o.hp.n_ctx_train);
    CHECK_EQ(got.norm, o.hp.norm);
    CHECK_EQ(got.act, o.hp.act);
    CHECK_EQ(got.learned_pos, o.hp.learned_pos);
    CHECK_EQ(got.tied, o.hp.tied);
    CHECK_NEAR(got.rope_base, o.hp.rope_base, 0);
    CHECK_EQ(s->n_meta, 1);
    CHECK_STR(s->meta[0].key, "source");
    CHECK_STR(s->meta[0].value, "tests/make_tiny_qsf.h");
    CHECK_STR(s->format, "QSF");
    qsf_source_close(s);
    mem_host_done(&h);
}

static void check_same_vocab(const qsf_vocab *a, const qsf_vocab *b)
{
    CHECK_EQ(a->kind, b->kind);
    CHECK_STR(a->pre, b->pre);
    CHECK_EQ(a->n_tokens, b->n_tokens);
    if (a->n_tokens != b->n_tokens) return;
    CHECK(!memcmp(a->at, b->at, (a->n_tokens + 1) * sizeof *a->at));
    CHECK(!memcmp(a->text, b->text, a->at[a->n_tokens]));
    CHECK(!memcmp(a->types, b->types, a->n_tokens));
    CHECK_EQ(a->scores != NULL, b->scores != NULL);
    if (a->scores && b->scores) CHECK(!memcmp(a->scores, b->scores, a->n_tokens * sizeof *a->scores));
    CHECK_EQ(a->n_merges, b->n_merges);
    if (a->n_merges == b->n_merges && a->n_merges) CHECK(!memcmp(a->merges, b->merges, a->n_merges * 2 * sizeof *a->merges));
    CHECK_EQ(a->bos, b->bos);
    CHECK_EQ(a->eos, b->eos);
    CHECK_EQ(a->eot, b->eot);
    CHECK_EQ(a->unk, b->unk);
    CHECK_EQ(a->pad, b->pad);
    CHECK_EQ(a->add_bos, b->add_bos);
    CHECK_EQ(a->add_eos, b->add_eos);
    CHECK_EQ(a->add_space_prefix, b->add_space_prefix);
    CHECK_EQ(a->nfc, b->nfc);
    CHECK_EQ(a->n_eog, b->n_eog);
    CHECK(!memcmp(a->eog, b->eog, sizeof a->eog));
}

/* The vocabulary through an extension section alone. */
static void check_vocab_survives(qsf_vocab *v)
{
    mem_host h;
    qsf_arena *arena;
    qsf_ext x;
    qsf_vocab got = { .bos = -1, .eos = -1, .eot = -1, .unk = -1, .pad = -1 };
    qsf_ext_out size = { 0 };
    mem_host_init(&h);
    CHECK_EQ(qsf_arena_new(&h.p, &arena, &error), QSF_OK);
    qsf_ext_put_vocab(&size, v);
    uint8_t *bytes = malloc((size_t)size.len);
    qsf_ext_out o = { .p = bytes, .cap = size.len };
    qsf_ext_put_vocab(&o, v);
    CHECK_EQ(o.len, size.len);
    CHECK_EQ(qsf_ext_open(&x, bytes, size.len, "m", &error), QSF_OK);
    CHECK_EQ(qsf_ext_get_vocab(&x, &got, arena, &error), QSF_OK);
    check_same_vocab(v, &got);
    if (v->chat_template) CHECK_STR(got.chat_template, v->chat_template);
    free(bytes);
    qsf_arena_free(arena);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

TEST(vocabularies_read_back)
{
    tiny_options o = tiny_defaults();
    qsf_vocab v;
    char jinja[] = "{{ bos_token }}";
    tiny_vocab(&o, &v);
    v.add_bos = v.nfc = true;
    v.eot = 257;
    v.n_eog = 2;
    v.eog[0] = 5;
    v.eog[1] = 257;
    v.chat_template = jinja;
    check_vocab_survives(&v);
    tiny_vocab_free(&v);

    o.vocab = QSF_VOCAB_SPM;
    tiny_vocab(&o, &v);
    v.add_space_prefix = v.add_eos = true;
    check_vocab_survives(&v);                   /* whole scores: steps */
    v.scores[7] = -1e9f;
    check_vocab_survives(&v);
    v.scores[7] = 0.1f;
    check_vocab_survives(&v);
    v.scores[7] = -0.0f;
    check_vocab_survives(&v);
    v.scores[7] = 1 << 24;
    v.scores[8] = -(1 << 24);
    check_vocab_survives(&v);
    tiny_vocab_free(&v);
}

TEST(ids_outside_the_vocabulary_become_none)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    qsf_vocab v;
    qsf_writer *w;
    uint64_t bytes;
    const qsf_write_options wo = { .default_type = QSF_T_MIXED, .max_tensors = 99 };
    mem_host_init(&h);
    tiny_vocab(&o, &v);
    v.pad = 100000;
    v.eot = -7;
    v.n_eog = 2;
    v.eog[0] = 100000;
    v.eog[1] = 257;
    CHECK_EQ(qsf_writer_new(&h.p, "m", &o.hp, &v, NULL, 0, &wo, &w, &error), QSF_OK);
    tiny_vocab_free(&v);
    CHECK_EQ(tiny_units(w, &o, &error), QSF_OK);
    CHECK_EQ(qsf_writer_commit(w, &bytes, &error), QSF_OK);
    qsf_source *s = opened(&h);
    CHECK_EQ(s->vocab.pad, -1);
    CHECK_EQ(s->vocab.eot, -1);
    CHECK_EQ(s->vocab.n_eog, 1);
    CHECK_EQ(s->vocab.eog[0], 257);
    qsf_source_close(s);
    mem_host_done(&h);
}

TEST(data_lies_at_multiples_of_64_and_units_at_4096)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    o.hp.learned_pos = true;
    o.hp.norm = QSF_NORM_LAYER;
    o.hp.rope = QSF_ROPE_NONE;
    o.hp.tied = false;
    o.biases = o.outliers = true;
    mem_host_init(&h);
    written(&h, &o);
    qsf_source *s = opened(&h);
    for (uint32_t i = 0; i < s->n_units; i++) {
        const qsf_unit *u = &s->units[i];
        CHECK_EQ(u->n_extents, 1);
        CHECK_EQ(s->extents[u->first_extent].at % 4096, 0);
        CHECK(u->has_crc);
        for (uint32_t t = 0; t < u->n_tensors; t++)
            if (s->tensors[u->first_tensor + t].kind != QSF_K_OUTPUT_NORM_BIAS) CHECK_EQ(s->places[u->first_tensor + t] % 64, 0);
    }
    CHECK(qsf_unit_find(s, qsf_unit_embd(s), QSF_K_POS_EMBD) == 1);
    CHECK(qsf_unit_find(s, qsf_unit_final(s), QSF_K_OUTPUT_BIAS) == 3);
    qsf_source_close(s);
    CHECK_EQ(verdict(&h), QSF_OK);
    mem_host_done(&h);
}

TEST(parts_of_embedding_and_head_have_checksums)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    o.hp.n_vocab = 3000;
    o.hp.tied = false;
    mem_host_init(&h);
    const mem_file *f = written(&h, &o);
    qsf_source *s = opened(&h);
    CHECK(s->embd_crcs && s->n_embd_crcs > 1 && s->final_crcs && s->n_final_crcs > 1);
    for (int k = 0; k < 2; k++) {
        const qsf_extent *x = &s->extents[k ? qsf_unit_final(s) : qsf_unit_embd(s)];
        const uint32_t n = k ? s->n_final_crcs : s->n_embd_crcs, *crcs = k ? s->final_crcs : s->embd_crcs;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t at = (uint64_t)i * s->crc_chunk;
            CHECK_EQ(crcs[i], qsf_crc32(0, f->bytes + x->at + at, (size_t)QSF_MIN(s->crc_chunk, x->len - at)));
        }
    }
    qsf_source_close(s);
    mem_host_done(&h);
}

/* ---- damage ---- */

static void check_every_bit_matters(const tiny_options *o)
{
    mem_host h;
    long passed = 0, crashed_text = 0;
    mem_host_init(&h);
    mem_file *f = written(&h, o);
    f->bytes = realloc(f->bytes, (size_t)f->len);        /* a sanitizer sees reads behind the end */
    f->cap = f->len;
    CHECK_EQ(verdict(&h), QSF_OK);
    for (uint64_t i = 0; i < f->len; i++)
        for (int bit = (int)(i % TEST_EVERY); bit < 8; bit += TEST_EVERY) {
            f->bytes[i] ^= (uint8_t)(1 << bit);
            if (verdict(&h) == QSF_OK && passed++ < 3) printf("      bit %d of byte %llu made no difference\n", bit, (unsigned long long)i);
            crashed_text += error.text[0] == 0;
            f->bytes[i] ^= (uint8_t)(1 << bit);
        }
    CHECK_EQ(passed, 0);
    CHECK_EQ(crashed_text, 0);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

TEST(every_flipped_bit_is_an_error)
{
    const tiny_options o = least();
    check_every_bit_matters(&o);
}

TEST(every_flipped_bit_of_a_compressed_file_is_an_error)
{
    tiny_options o = least();
    o.hp.n_ff = 64;
    o.compression = have_codec(QSF_COMPRESS_LZ4) ? QSF_COMPRESS_LZ4 : QSF_COMPRESS_ZSTD;
    if (!have_codec(o.compression)) return;      /* nothing to read: such a build refuses the file by name */
    check_every_bit_matters(&o);
}

TEST(every_truncation_and_appended_bytes_are_errors)
{
    mem_host h;
    const tiny_options o = least();
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    const uint64_t len = f->len;
    uint8_t *whole = malloc((size_t)len + 4096);
    memset(whole, 0, (size_t)len + 4096);
    memcpy(whole, f->bytes, (size_t)len);
    for (uint64_t n = 0; n < len; n++) {
        mem_put(&h, "m", whole, n);
        if (verdict(&h) == QSF_OK) test_fail(__FILE__, __LINE__, "a cut file was read");
    }
    const uint64_t more[] = { 1, 2, 64, 4096 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(more); i++) {
        mem_put(&h, "m", whole, len + more[i]);
        CHECK_EQ(verdict(&h), QSF_E_CORRUPT);
    }
    mem_put(&h, "m", whole, len);
    CHECK_EQ(verdict(&h), QSF_OK);
    free(whole);
    mem_host_done(&h);
}

/* Changes one thing and makes every checksum right: what is left is the reader's own judgement. */
static qsf_status judged(mem_host *h, const uint8_t *whole, uint64_t len, uint64_t at, const void *bytes, size_t n)
{
    mem_file *f = mem_put(h, "m", whole, len);
    memcpy(f->bytes + at, bytes, n);
    qsf_repair(f->bytes, f->len);
    error.text[0] = 0;
    return verdict(h);
}

TEST(lies_with_right_checksums_are_found)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    o.hp.tied = false;
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    const uint64_t len = f->len;
    uint8_t *w = malloc((size_t)len);
    memcpy(w, f->bytes, (size_t)len);
    qsf_source *s = opened(&h);
    const uint64_t embd = s->extents[qsf_unit_embd(s)].at, layer1 = s->extents[1].at, final = s->extents[qsf_unit_final(s)].at;
    const uint64_t flag = final + 2 * o.hp.n_embd, head1 = layer1 + s->places[s->units[1].first_tensor + 1] - 16;
    qsf_source_close(s);
    uint32_t n = 0;
    const uint8_t *ext = w + qsf_le64(w + 100);
    const uint64_t dir = (uint64_t)(repair_find(w + qsf_le64(w + 100), qsf_le32(w + 108), "tensors", 28, &n) - w);
    CHECK_EQ(n % 28, 0);
    CHECK(!memcmp(ext, "QSFX", 4));
    const struct { uint64_t at; uint32_t v; size_t n; const char *what; } lies[] = {
        { 4, 2, 4, "version" },            { 16, 0, 4, "no layers" },         { 16, 3, 4, "one layer more" },     { 16, UINT32_MAX, 4, "layers" },
        { 20, 63, 4, "width" },            { 24, 0, 4, "no heads" },          { 28, 3, 4, "heads that do not share" }, { 32, 287, 4, "vocabulary" },
        { 44, 15, 4, "head size" },        { 49, 3, 1, "activation" },        { 50, 2, 1, "norm" },               { 51, 2, 1, "ALiBi" },
        { 56, 64, 4, "index place" },      { 64, 1, 4, "embedding place" },   { 72, 4096, 4, "final place" },     { 100, 0, 4, "extension place" },
        { 108, 8, 4, "extension size" },   { 120, 1, 1, "reserved" },         { 128 + 8, 100, 4, "layer size" },  { 128 + 12, 99, 4, "raw size" },
        { 128 + 17, 4, 1, "compression" }, { 128 + 24, 0x7fc00000, 4, "importance" }, { 160, 4096, 4, "layer place" },
        { embd + 48, QSF_T_4BIT, 4, "embedding type" }, { embd + 52, 1, 4, "embedding size" }, { embd + 56, 287, 4, "embedding rows" },
        { head1, QSF_K_ATTN_K, 4, "tensor kind" }, { head1 + 4, 65, 4, "tensor rows" }, { head1 + 12, QSF_T_4BIT_S, 1, "tensor type" },
        { head1 + 13, 0, 1, "tensor packing" }, { head1 + 14, 5, 1, "tensor block" }, { head1 + 15, 1, 1, "tensor byte 15" },
        { flag, QSF_TIED, 1, "flag byte" }, { dir, 0, 4, "directory order" }, { dir + 4, QSF_K_OUTPUT, 4, "directory kind" },
        { dir + 8, 0, 4, "no rows" },      { dir + 12, UINT32_MAX, 4, "columns" }, { dir + 16, UINT32_MAX, 4, "place" }, { dir + 24, 99, 1, "type" },
        { dir + 25, 2, 1, "packing" },     { dir + 26, 48, 2, "block" },      { dir + 28 + 4, QSF_K_ATTN_NORM_BIAS, 4, "kind of the first norm" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(lies); i++) {
        uint8_t v[4];
        qsf_put32(v, lies[i].v);
        const qsf_status st = judged(&h, w, len, lies[i].at, v, lies[i].n);
        if (st != QSF_E_CORRUPT && st != QSF_E_UNSUPPORTED) {
            test_fail(__FILE__, __LINE__, lies[i].what);
            printf("      status %d\n", (int)st);
        }
        CHECK_EQ(h.live, 0);
    }
    CHECK_EQ(judged(&h, w, len, 0, "QSF1", 4), QSF_OK);      /* the repair itself does no harm */
    free(w);
    mem_host_done(&h);
}

/* Random damage under right checksums, many times: no crash, no leak, and the corpus of the fuzz target replayed. */
TEST(random_damage_with_right_checksums_is_survived)
{
    mem_host h;
    uint64_t seed = 7;
    mem_host_init(&h);
    for (int variant = 0; variant < 4; variant++) {
        tiny_options o = variant & 1 ? tiny_defaults() : least();
        if (variant & 2) o.compression = have_codec(QSF_COMPRESS_ZSTD) ? QSF_COMPRESS_ZSTD : QSF_COMPRESS_NONE;
        o.outliers = true;
        const mem_file *f = written(&h, &o);
        uint8_t *b = malloc((size_t)f->len);
        for (int round = 0; round < 1500 / TEST_EVERY; round++) {
            memcpy(b, f->bytes, (size_t)f->len);
            const int hits = 1 + (int)(tiny_uniform(&seed) * 4);
            for (int k = 0; k < hits; k++) {
                const double where = tiny_uniform(&seed);
                const uint64_t area = where < 0.3 ? 128 : where < 0.7 ? QSF_MIN(4096, f->len) : f->len;
                b[(uint64_t)(tiny_uniform(&seed) * (double)area)] = (uint8_t)(tiny_uniform(&seed) * 256);
            }
            LLVMFuzzerTestOneInput(b, (size_t)f->len);
        }
        free(b);
    }
    mem_host_done(&h);
}

/* ---- faults ---- */

TEST(a_fault_at_any_call_while_writing_leaves_nothing)
{
    for (uint8_t c = 0; c <= QSF_COMPRESS_ZSTD; c++) {
        if (!have_codec(c)) continue;
        tiny_options o = least();
        o.compression = c;
        for (long n = 1;; n++) {
            mem_host h;
            mem_host_init(&h);
            h.fail_at = n;
            const qsf_status st = tiny_write(&h.p, "m", &o, &error);
            CHECK_EQ(h.live, 0);
            CHECK_EQ(mem_count(&h), st ? 0 : 1);
            const bool reached = h.calls >= n;
            CHECK(!reached || st == QSF_E_MEMORY || st == QSF_E_IO);
            mem_host_done(&h);
            if (!reached) break;
        }
    }
}

TEST(a_fault_while_writing_keeps_the_old_file)
{
    mem_host h;
    tiny_options o = least();
    mem_host_init(&h);
    written(&h, &o);
    o.seed = 2;
    for (long n = 1;; n++) {
        h.calls = 0;
        h.fail_at = n;
        const qsf_status st = tiny_write(&h.p, "m", &o, &error);
        h.fail_at = 0;
        if (!st) break;
        CHECK_EQ(mem_count(&h), 1);
        CHECK_EQ(verdict(&h), QSF_OK);
    }
    mem_host_done(&h);
}

TEST(a_fault_at_any_call_while_reading_leaks_nothing)
{
    for (uint8_t c = 0; c <= QSF_COMPRESS_ZSTD; c++) {
        if (!have_codec(c)) continue;
        mem_host h;
        tiny_options o = tiny_defaults();
        o.compression = c;
        mem_host_init(&h);
        written(&h, &o);
        for (long n = 1;; n++) {
            h.calls = 0;
            h.fail_at = n;
            const qsf_status st = verdict(&h);
            const bool reached = h.calls >= n;
            CHECK_EQ(h.live, 0);
            if (!reached) break;
            CHECK(st == QSF_E_MEMORY || st == QSF_E_IO);
        }
        mem_host_done(&h);
    }
}

/* ---- several threads, one source ---- */

static qsf_status memory_read(void *user, uint64_t at, void *dst, size_t len)
{
    memcpy(dst, ((const mem_file *)user)->bytes + at, len);
    return QSF_OK;
}

typedef struct unpack_job {
    const qsf_source *s;
    const uint8_t *stored;
    uint8_t *raw;
    int failures;
} unpack_job;

static void unpack_often(void *arg)
{
    unpack_job *j = arg;
    for (int i = 0; i < 300; i++) j->failures += qsf_unit_check(j->s, 0, j->stored, j->raw, NULL) != QSF_OK;
}

TEST(threads_decompress_from_one_source)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    o.compression = have_codec(QSF_COMPRESS_ZSTD) ? QSF_COMPRESS_ZSTD : QSF_COMPRESS_NONE;
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    const qsf_custom_file file = { .user = f, .length = f->len, .read = memory_read };
    const qsf_platform *p = qsf_platform_native();
    qsf_source *s;
    CHECK_EQ(qsf_source_open(p, NULL, &file, false, &s, &error), QSF_OK);
    unpack_job jobs[4];
    qsf_thread *threads[4] = { NULL };
    for (int i = 0; i < 4; i++) {
        jobs[i] = (unpack_job){ .s = s, .stored = f->bytes + s->extents[0].at, .raw = malloc((size_t)s->units[0].raw) };
        CHECK_EQ(p->thread_start(p->user, unpack_often, &jobs[i], &threads[i]), QSF_OK);
    }
    for (int i = 0; i < 4; i++) {
        p->thread_join(p->user, threads[i]);
        CHECK_EQ(jobs[i].failures, 0);
        CHECK(!memcmp(jobs[i].raw, jobs[0].raw, (size_t)s->units[0].raw) || o.compression == QSF_COMPRESS_NONE);
    }
    for (int i = 0; i < 4; i++) free(jobs[i].raw);
    qsf_source_close(s);
    mem_host_done(&h);
}

TEST(the_writer_refuses_what_is_out_of_order)
{
    mem_host h;
    tiny_options o = least();
    const qsf_vocab none = { .bos = -1, .eos = -1, .eot = -1, .unk = -1, .pad = -1 };
    const qsf_write_options wo = { .default_type = QSF_T_MIXED, .max_tensors = 2 };
    const uint32_t embd = o.hp.n_layers;
    qsf_writer *w;
    uint64_t seed = 1, bytes;
    mem_host_init(&h);
    CHECK_EQ(qsf_writer_new(&h.p, "m", &o.hp, &none, NULL, 0, &wo, &w, &error), QSF_OK);
    CHECK_EQ(qsf_writer_unit_begin(w, 0, &error), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_writer_unit_begin(w, embd, &error), QSF_OK);
    CHECK_EQ(qsf_writer_unit_end(w, 1, &error), QSF_E_ARGUMENT);
    CHECK_EQ(tiny_put(w, &o, QSF_K_POS_EMBD, QSF_T_F16, 8, 8, 0, 1, &seed, &error), QSF_E_ARGUMENT);
    CHECK_EQ(tiny_put(w, &o, QSF_K_TOKEN_EMBD, QSF_T_F16, 8, 8, 0, 1, &seed, &error), QSF_OK);
    CHECK_EQ(qsf_writer_unit_begin(w, 0, &error), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_writer_unit_end(w, 1, &error), QSF_OK);
    CHECK_EQ(qsf_writer_unit_begin(w, 0, &error), QSF_OK);
    CHECK_EQ(tiny_put(w, &o, QSF_K_ATTN_Q, QSF_T_F16, 8, 8, 0, 1, &seed, &error), QSF_OK);
    CHECK_EQ(tiny_put(w, &o, QSF_K_ATTN_K, QSF_T_F16, 8, 8, 0, 1, &seed, &error), QSF_E_ARGUMENT);     /* max_tensors */
    CHECK_EQ(qsf_writer_unit_end(w, 1, &error), QSF_OK);
    CHECK_EQ(qsf_writer_commit(w, &bytes, &error), QSF_E_ARGUMENT);
    CHECK_EQ(h.live, 0);
    CHECK_EQ(mem_count(&h), 0);
    qsf_writer_abort(NULL);
    mem_host_done(&h);
}

TEST(a_missing_codec_is_refused_by_name)
{
    mem_host h;
    tiny_options o = least();
    mem_host_init(&h);
    for (uint8_t c = QSF_COMPRESS_LZ4; c <= QSF_COMPRESS_ZSTD; c++) {
        o.compression = c;
        const qsf_status st = tiny_write(&h.p, "m", &o, &error);
        CHECK_EQ(st, have_codec(c) ? QSF_OK : QSF_E_UNSUPPORTED);
        if (st) CHECK(strstr(error.text, qsf_codec_name(c)) != NULL);
        CHECK_EQ(h.live, 0);
    }
    o.compression = 9;
    CHECK_EQ(tiny_write(&h.p, "m", &o, &error), QSF_E_UNSUPPORTED);
    /* A file that says so: the layer's entry in the index. */
    o.compression = QSF_COMPRESS_NONE;
    mem_file *f = written(&h, &o);
    f->bytes[128 + 17] = 9;
    qsf_repair(f->bytes, f->len);
    CHECK_EQ(verdict(&h), QSF_E_UNSUPPORTED);
    mem_host_done(&h);
}

/* ---- files by the founding document alone ---- */

typedef struct plain_file { uint8_t b[65536]; uint64_t len; } plain_file;

static void plain_bytes(plain_file *f, const void *p, uint64_t n)
{
    memcpy(f->b + f->len, p, (size_t)n);
    f->len += n;
}

/* A tensor by the document: header, rows of blocks of 64. */
static void plain_tensor(plain_file *f, uint32_t kind, uint8_t type, uint32_t rows, uint32_t cols, bool header, bool by_default, uint64_t *seed)
{
    qsf_tensor t;
    uint8_t h[16];
    if (tiny_tensor(&t, kind, type, 64, 0, rows, cols, rows == 1, 0.2f, seed, &error)) test_fail(__FILE__, __LINE__, error.text);
    qsf_tensor_header_put(h, &t);
    if (by_default) h[12] = 0xff;
    if (header) plain_bytes(f, h, 16);
    plain_bytes(f, t.data, t.bytes);
    free((void *)(uintptr_t)t.data);
}

/* One layer of width 64; bytes are put by hand, as somebody would who has read only the founding document. */
static void plain_make(plain_file *f, bool gpt2, bool tied)
{
    static const uint32_t kinds[] = { 7, 0, 1, 2, 3, 8, 4, 5, 6 };
    uint64_t seed = 3;
    memset(f, 0, sizeof *f);
    f->len = 128 + 32;
    const uint64_t embd = f->len;
    uint8_t *e = f->b + embd;
    qsf_put32(e, QSF_T_4BIT);
    qsf_put32(e + 4, 10 * 36);
    qsf_put32(e + 8, 10);
    qsf_put32(e + 12, 64);
    f->len += 16;
    plain_tensor(f, 0, QSF_T_4BIT, 10, 64, false, false, &seed);
    if (gpt2) plain_tensor(f, QSF_K_POS_EMBD, QSF_T_F16, 32, 64, true, false, &seed);
    f->len += 5;                                        /* the document asks for no alignment and no order */
    const uint64_t layer = f->len;
    uint32_t n = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {
        if (gpt2 && kinds[i] == 4) continue;
        const bool norm = kinds[i] >= 7;
        plain_tensor(f, kinds[i], norm ? QSF_T_F16 : i % 2 ? QSF_T_TERNARY : QSF_T_2BIT, norm ? 1 : 64, 64, true, !norm && !(i % 2), &seed);
        n++;
    }
    const uint64_t final = f->len, layer_bytes = final - layer;
    plain_tensor(f, 0, QSF_T_F16, 1, 64, false, false, &seed);
    if (gpt2) plain_tensor(f, 0, QSF_T_F16, 1, 64, false, false, &seed);
    f->b[f->len++] = tied ? 0xff : QSF_T_4BIT;
    if (!tied) plain_tensor(f, 0, QSF_T_4BIT, 10, 64, false, false, &seed);

    uint8_t *x = f->b + 128;
    qsf_put64(x, layer);
    qsf_put32(x + 8, (uint32_t)layer_bytes);
    qsf_put32(x + 12, (uint32_t)layer_bytes);
    x[16] = QSF_T_2BIT;
    qsf_put16(x + 18, (uint16_t)n);
    qsf_put32(x + 20, qsf_crc32(0, f->b + layer, (size_t)layer_bytes));
    qsf_put32(x + 24, qsf_f32_bits(0.5f));
    const uint32_t words[] = { 1, 128, gpt2 ? 0 : 1, 1, 64, 4, 0, 10, 32, 64, 16 };
    memcpy(f->b, "QSF1", 4);
    for (size_t i = 0; i < QSF_ARRAY_LEN(words); i++) qsf_put32(f->b + 4 + 4 * i, words[i]);
    f->b[48] = 5;
    f->b[49] = gpt2 ? 0 : 1;
    f->b[50] = gpt2 ? 0 : 1;
    f->b[51] = gpt2 ? 0 : 1;
    qsf_put32(f->b + 52, qsf_f32_bits(10000));
    qsf_put64(f->b + 56, 128);
    qsf_put64(f->b + 64, embd);
    qsf_put64(f->b + 72, final);
    qsf_put32(f->b + 80, 1);
    qsf_put32(f->b + 84, 2);
    qsf_put32(f->b + 88, UINT32_MAX);
    qsf_put32(f->b + 92, (uint32_t)f->len);
    qsf_put32(f->b + 96, qsf_crc32(0, f->b, 96));
}

TEST(files_by_the_founding_document_alone_are_read)
{
    for (int gpt2 = 0; gpt2 < 2; gpt2++)
        for (int tied = 0; tied < 2; tied++) {
            mem_host h;
            plain_file f;
            size_t n;
            plain_make(&f, gpt2, tied);
            mem_host_init(&h);
            mem_put(&h, "m", f.b, f.len);
            qsf_source *s = opened(&h);
            if (!s) return;
            CHECK_STR(s->hp.arch, gpt2 ? "gpt2" : "llama");
            CHECK_EQ(s->hp.tied, tied);
            CHECK_EQ(s->hp.gated, !gpt2);
            CHECK_EQ(s->hp.learned_pos, gpt2);
            CHECK_EQ(s->hp.rope, gpt2 ? QSF_ROPE_NONE : QSF_ROPE_HALVES);
            CHECK_EQ(s->hp.n_kv_heads, 4);
            CHECK_NEAR(s->hp.norm_eps, 1e-5, 1e-12);
            CHECK_EQ(s->vocab.kind, QSF_VOCAB_NONE);
            CHECK_EQ(s->vocab.bos, 1);
            CHECK_EQ(s->vocab.eos, 2);
            CHECK_EQ(s->vocab.pad, -1);
            CHECK_NEAR(s->units[0].importance, 0.5, 0);
            CHECK_EQ(s->tensors[s->units[0].first_tensor + 2].type, QSF_T_2BIT);      /* type byte 0xFF: the layer's */
            float *v = values_of(s, &n);
            CHECK_EQ(n, s->n_params);
            free(v);
            qsf_source_close(s);
            CHECK_EQ(verdict(&h), QSF_OK);
            for (uint64_t len = 0; len < f.len; len++) {
                mem_put(&h, "m", f.b, len);
                CHECK(verdict(&h) != QSF_OK);
            }
            CHECK_EQ(h.live, 0);
            mem_host_done(&h);
        }
}

TEST(a_compressed_layer_without_a_directory_is_read)
{
    mem_host h;
    static plain_file f;
    plain_make(&f, false, true);
    const uint32_t codec = have_codec(QSF_COMPRESS_ZSTD) ? QSF_COMPRESS_ZSTD : QSF_COMPRESS_LZ4;
    if (!have_codec(codec)) return;      /* nothing to read: such a build refuses the file by name */
    uint8_t *x = f.b + 128, packed[65536];
    void *state = malloc(qsf_pack_state(codec));
    const uint64_t at = qsf_le64(x);
    const size_t n = qsf_pack(codec, state, f.b + at, qsf_le32(x + 8), packed, sizeof packed);
    free(state);
    CHECK(n > 0 && n < qsf_le32(x + 8));
    memcpy(f.b + at, packed, n);
    qsf_put32(x + 8, (uint32_t)n);
    x[17] = (uint8_t)codec;
    qsf_repair(f.b, f.len);
    mem_host_init(&h);
    mem_put(&h, "m", f.b, f.len);
    CHECK_EQ(verdict(&h), QSF_OK);
    f.b[at + 3] ^= 1;
    mem_put(&h, "m", f.b, f.len);
    CHECK_EQ(verdict(&h), QSF_E_CORRUPT);
    qsf_repair(f.b, f.len);
    mem_put(&h, "m", f.b, f.len);
    (void)verdict(&h);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

/* ---- a file that was written once and must load for ever ---- */

#define GOLDEN_SUM 78.6260529
#define GOLDEN_SQUARES 676.611759

static const char golden_path[] = "tests/golden/tiny.qsf";

static tiny_options golden_options(void)
{
    tiny_options o = least();
    o.hp.n_embd = 32;
    o.hp.n_ff = 48;
    o.hp.head_dim = 16;
    o.type = QSF_T_4BIT;
    o.embd_type = QSF_T_8BIT;
    o.block = 32;
    return o;
}

TEST(the_golden_file_loads)
{
    mem_host h;
    static uint8_t b[65536];
    FILE *in = fopen(golden_path, "rb");
    if (!in) SKIP("run from the project's folder");
    const size_t len = fread(b, 1, sizeof b, in);
    fclose(in);
    mem_host_init(&h);
    mem_put(&h, "m", b, len);
    CHECK_EQ(verdict(&h), QSF_OK);
    qsf_source *s = opened(&h);
    if (!s) return;
    size_t n;
    float *v = values_of(s, &n);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += v[i];
        squares += (double)v[i] * v[i];
    }
    CHECK_EQ(n, 8032);
    CHECK_NEAR(sum, GOLDEN_SUM, 1e-6);
    CHECK_NEAR(squares, GOLDEN_SQUARES, 1e-5);
    CHECK_STR(s->hp.name, "tiny");
    CHECK_EQ(s->vocab.n_tokens, 8);
    CHECK_EQ(s->vocab.types[1], QSF_TOKEN_CONTROL);
    free(v);
    qsf_source_close(s);
    mem_host_done(&h);
}

/* qsf_test --write-golden makes it anew: only for a new format version. */
static int write_golden(void)
{
    mem_host h;
    const tiny_options o = golden_options();
    mem_host_init(&h);
    const mem_file *f = written(&h, &o);
    FILE *out = fopen(golden_path, "wb");
    const bool ok = out && fwrite(f->bytes, 1, (size_t)f->len, out) == f->len;
    if (out) fclose(out);
    mem_host_done(&h);
    return ok ? 0 : 1;
}

/* ---- samples for tests/qsf_reader_test.py ---- */

static bool put_file(const char *dir, const char *name, const char *ending, const void *bytes, size_t len)
{
    char path[1024];
    qsf_format(path, sizeof path, "%s/%s%s", dir, name, ending);
    FILE *out = fopen(path, "wb");
    const bool ok = out && fwrite(bytes, 1, len, out) == len;
    return out && fclose(out) == 0 && ok;
}

static bool write_sample(const char *dir, const char *name, const tiny_options *o)
{
    mem_host h;
    mem_host_init(&h);
    const mem_file *f = written(&h, o);
    qsf_source *s = f ? opened(&h) : NULL;
    bool ok = s && put_file(dir, name, ".qsf", f->bytes, (size_t)f->len);
    float *all = NULL;
    size_t n = 0, total = 0;
    for (uint32_t i = 0; s && i < s->n_tensors; i++) total += (size_t)s->tensors[i].rows * s->tensors[i].cols;
    all = malloc(total * sizeof *all);
    for (uint32_t i = 0; ok && i < s->n_units; i++) {       /* file order: embedding, layers, final */
        const uint32_t unit = i == 0 ? qsf_unit_embd(s) : i <= s->hp.n_layers ? i - 1 : qsf_unit_final(s);
        for (uint32_t k = 0; k < s->units[unit].n_tensors; k++) {
            void *data;
            qsf_tensor t = s->tensors[s->units[unit].first_tensor + k];
            if (t.type == QSF_T_SPARSE) continue;
            if (qsf_source_load(s, unit, k, &data, &error)) return false;
            t.data = data;
            qsf_dequant_rows(&t, 0, t.rows, all + n);
            n += (size_t)t.rows * t.cols;
            qsf_dealloc(&h.p, data, t.bytes);
        }
    }
    ok = ok && put_file(dir, name, ".f32", all, n * sizeof *all);
    free(all);
    qsf_source_close(s);
    mem_host_done(&h);
    return ok;
}

static int write_samples(const char *dir)
{
    char name[64];
    bool ok = true;
    int n = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(all_types); i++)
        for (int packing = 0; packing < 2; packing++, n++) {
            tiny_options o = tiny_defaults();
            o.type = o.embd_type = o.head_type = all_types[i];
            o.packing = (uint8_t)packing;
            o.block = (uint16_t)(32 << n % 4);
            o.hp.n_embd = 80;
            o.hp.n_ff = 100;
            o.hp.tied = n % 3 == 0;
            o.hp.learned_pos = n % 4 == 1;
            o.hp.norm = n % 2 ? QSF_NORM_RMS : QSF_NORM_LAYER;
            o.biases = n % 5 == 2;
            o.outliers = n % 2 == 0;
            o.compression = (uint8_t)(n / 2 % 4);
            if (!have_codec(o.compression)) o.compression = QSF_COMPRESS_NONE;
            qsf_format(name, sizeof name, "type%d-packing%d-block%d-compression%d", o.type, packing, o.block, o.compression);
            ok = ok && write_sample(dir, name, &o);
        }
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--write-samples")) return write_samples(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "--write-golden")) return write_golden();
    test_begin(argc, argv);
    RUN(every_type_block_packing_and_compression_reads_back);
    RUN(values_are_those_that_were_quantised);
    RUN(description_reads_back);
    RUN(vocabularies_read_back);
    RUN(ids_outside_the_vocabulary_become_none);
    RUN(data_lies_at_multiples_of_64_and_units_at_4096);
    RUN(parts_of_embedding_and_head_have_checksums);
    RUN(every_flipped_bit_is_an_error);
    RUN(every_flipped_bit_of_a_compressed_file_is_an_error);
    RUN(every_truncation_and_appended_bytes_are_errors);
    RUN(lies_with_right_checksums_are_found);
    RUN(random_damage_with_right_checksums_is_survived);
    RUN(a_fault_at_any_call_while_writing_leaves_nothing);
    RUN(a_fault_while_writing_keeps_the_old_file);
    RUN(a_fault_at_any_call_while_reading_leaks_nothing);
    RUN(threads_decompress_from_one_source);
    RUN(the_writer_refuses_what_is_out_of_order);
    RUN(a_missing_codec_is_refused_by_name);
    RUN(files_by_the_founding_document_alone_are_read);
    RUN(a_compressed_layer_without_a_directory_is_read);
    RUN(the_golden_file_loads);
    return test_end();
}
