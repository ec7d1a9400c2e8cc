/* QSF files: what is written is read back.
 * SPDX-License-Identifier: MIT */
#include "make_tiny_clusters.h"
#include "qsf_case.h"

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
        printf("      type %d block %d packing %d compression %d\n", b->type, b->block, b->packing,
               b->compression);
    CHECK_EQ(h.live, 0);
    for (int i = 0; i < 2; i++) free(v[i]);
    mem_host_done(&h);
}

static const uint8_t all_types[] = { QSF_T_2BIT_SYM, QSF_T_2BIT, QSF_T_3BIT, QSF_T_4BIT, QSF_T_TERNARY,
    QSF_T_F16, QSF_T_F32, QSF_T_8BIT, QSF_T_4BIT_S, QSF_T_5BIT_S, QSF_T_6BIT_S, QSF_T_3BIT_S, QSF_T_BF16,
    QSF_T_2BIT_S, QSF_T_TERNARY2, QSF_T_TERNARY5, QSF_T_QK256, QSF_T_TRELLIS2, QSF_T_TRELLIS3,
    QSF_T_TRELLIS4, QSF_T_TRELLIS5, QSF_T_TABLE4, QSF_T_TABLE3 };

TEST(every_type_block_packing_and_compression_reads_back)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(all_types); i++)
        for (uint16_t block = 32; block <= 256; block *= 2) {
            if (!qsf_block_bytes(all_types[i], block) && qsf_type_tiles(all_types[i])) continue;
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
                    if (have_codec(c) && (c == QSF_COMPRESS_NONE || block == 64 || qsf_type_bare(o.type)))
                        check_same_values(&plain, &o);
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
    CHECK_EQ(tiny_tensor(&t, QSF_K_TOKEN_EMBD, o.embd_type, o.block, o.packing, o.hp.n_vocab, o.hp.n_embd, 0,
                         1, &seed, &error), QSF_OK);
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

/* Every member differs from a default. */
static tiny_options described(void)
{
    tiny_options o = tiny_defaults();
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
    o.hp.pooling = QSF_POOL_LAST;
    o.post_norms = o.qk_norms = true;
    return o;
}

TEST(description_reads_back)
{
    mem_host h;
    tiny_options o = described();
    float factors[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, longer[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
    o.hp.rope_factors = factors;
    o.hp.rope_factors_long = longer;
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
    CHECK_STR(s->meta[0].value, "tests/tools/make_tiny_qsf.h");
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
    if (a->n_merges == b->n_merges && a->n_merges)
        CHECK(!memcmp(a->merges, b->merges, a->n_merges * 2 * sizeof *a->merges));
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
    CHECK_EQ(got.n_more, v->n_more);
    for (uint32_t i = 0; i < got.n_more && i < v->n_more; i++) {
        CHECK_STR(got.more[i].name, v->more[i].name);
        CHECK_STR(got.more[i].text, v->more[i].text);
    }
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
    v.n_more = 2;
    v.more[0] = (qsf_vocab_chat){ "tool_use", jinja };
    v.more[1] = (qsf_vocab_chat){ "rag", jinja + 3 };
    check_vocab_survives(&v);
    v.n_more = 0;
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
            if (s->tensors[u->first_tensor + t].kind != QSF_K_OUTPUT_NORM_BIAS)
                CHECK_EQ(s->places[u->first_tensor + t] % 64, 0);
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
        const qsf_extent *x = &s->extents[s->units[k ? qsf_unit_final(s) : qsf_unit_embd(s)].first_extent];
        const uint32_t n = k ? s->n_final_crcs : s->n_embd_crcs, *crcs = k ? s->final_crcs : s->embd_crcs;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t at = (uint64_t)i * s->crc_chunk;
            CHECK_EQ(crcs[i], qsf_crc32(0, f->bytes + x->at + at,
                                        (size_t)QSF_MIN(s->crc_chunk, x->len - at)));
        }
    }
    qsf_source_close(s);
    mem_host_done(&h);
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
    const qsf_custom_file file = { .size = sizeof file, .user = f, .length = f->len, .read = memory_read };
    const qsf_platform *p = qsf_platform_native();
    qsf_source *s;
    CHECK_EQ(qsf_source_open(p, NULL, &file, false, &s, &error), QSF_OK);
    unpack_job jobs[4];
    qsf_thread *threads[4] = { NULL };
    for (int i = 0; i < 4; i++) {
        jobs[i] = (unpack_job){ .s = s, .stored = f->bytes + s->extents[0].at,
                                .raw = malloc((size_t)s->units[0].raw) };
        CHECK_EQ(p->thread_start(p->user, unpack_often, &jobs[i], &threads[i]), QSF_OK);
    }
    for (int i = 0; i < 4; i++) {
        p->thread_join(p->user, threads[i]);
        CHECK_EQ(jobs[i].failures, 0);
        CHECK(!memcmp(jobs[i].raw, jobs[0].raw, (size_t)s->units[0].raw)
              || o.compression == QSF_COMPRESS_NONE);
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
    /* max_tensors */
    CHECK_EQ(tiny_put(w, &o, QSF_K_ATTN_K, QSF_T_F16, 8, 8, 0, 1, &seed, &error), QSF_E_ARGUMENT);
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
    /* A file with this value in the layer's entry of the index. */
    o.compression = QSF_COMPRESS_NONE;
    mem_file *f = written(&h, &o);
    f->bytes[128 + 17] = 9;
    qsf_repair(f->bytes, f->len);
    CHECK_EQ(verdict(&h), QSF_E_UNSUPPORTED);
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

/* ---- samples for tests/core/model/qsf_reader_test.py ---- */

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
    for (size_t i = 0, n = 0; i < QSF_ARRAY_LEN(all_types); i++)
        for (int packing = 0; packing < 2; packing++, n++) {
            tiny_options o = tiny_defaults();
            o.type = o.embd_type = o.head_type = all_types[i];
            o.packing = (uint8_t)packing;       /* a trellis is tiles with either */
            o.block = (uint16_t)(qsf_trellis_bits(o.type) ? 64 : qsf_type_bare(o.type) ? 256 : 32 << n % 4);
            o.hp.n_embd = 80;
            o.hp.n_ff = 100;
            o.hp.tied = n % 3 == 0;
            o.hp.learned_pos = n % 4 == 1;
            o.hp.norm = n % 2 ? QSF_NORM_RMS : QSF_NORM_LAYER;
            o.biases = n % 5 == 2;
            o.outliers = n % 2 == 0;
            o.scales = n % 3 == 1 ? 0.75f : 0;
            o.compression = (uint8_t)(n / 2 % 4);
            if (!have_codec(o.compression)) o.compression = QSF_COMPRESS_NONE;
            qsf_format(name, sizeof name, "type%d-packing%d-block%d-compression%d", o.type, packing, o.block,
                       o.compression);
            ok = ok && write_sample(dir, name, &o);
        }
    tiny_clusters t;
    tiny_options o = tiny_defaults();
    ok = ok && tiny_clusters_make(&t, o.hp.n_vocab, o.hp.n_embd, 1.5f);
    o.clusters = &t.k;
    ok = ok && write_sample(dir, "clusters", &o);
    tiny_clusters_free(&t);
    qsf_embd_clusters k = { 0 };
    o = tiny_defaults();
    o.hp.tied = false;
    o.embd_type = QSF_T_2BIT;
    ok = ok && tiny_embd_clusters_make(&k, 20, o.hp.n_vocab, o.hp.n_embd);
    o.embd_clusters = &k;
    ok = ok && write_sample(dir, "embedding-clusters", &o);
    tiny_embd_clusters_free(&k);
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
    RUN(threads_decompress_from_one_source);
    RUN(the_writer_refuses_what_is_out_of_order);
    RUN(a_missing_codec_is_refused_by_name);
    RUN(the_golden_file_loads);
    return test_end();
}
