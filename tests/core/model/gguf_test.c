/* The GGUF reader: what good files mean, whole and split.
 * SPDX-License-Identifier: MIT */
#include "gguf_case.h"

static float first_float(const qsf_source *s, uint32_t unit, uint32_t kind, uint32_t row)
{
    void *data = NULL;
    float *out = calloc(4096, sizeof *out), f = NAN;
    const int i = qsf_unit_find(s, unit, kind);
    CHECK(i >= 0);
    if (i >= 0) {
        qsf_tensor t = s->tensors[s->units[unit].first_tensor + (uint32_t)i];
        CHECK_EQ(qsf_source_load(s, unit, (uint32_t)i, &data, &err), QSF_OK);
        t.data = data;
        qsf_dequant_rows(&t, row, 1, out);
        f = out[0];
        qsf_dealloc(s->platform, data, t.bytes);
    }
    free(out);
    return f;
}

/* ---- good files ---- */

TEST(gguf_reads_a_llama_model)
{
    gguf_build b = tiny_whole("llama");
    qsf_source *s = accept(&b);
    if (!s) return;
    CHECK_STR(s->format, "GGUF");
    CHECK_STR(s->hp.arch, "llama");
    CHECK_STR(s->hp.name, "Tiny Test");
    CHECK_EQ(s->hp.n_layers, TINY_LAYERS);
    CHECK_EQ(s->hp.n_embd, TINY_EMBD);
    CHECK_EQ(s->hp.n_heads, TINY_HEADS);
    CHECK_EQ(s->hp.n_kv_heads, TINY_KV_HEADS);
    CHECK_EQ(s->hp.head_dim, TINY_HEAD);
    CHECK_EQ(s->hp.n_ff, TINY_FF);
    CHECK_EQ(s->hp.n_vocab, TINY_VOCAB);
    CHECK_EQ(s->hp.n_ctx_train, TINY_CTX);
    CHECK_EQ(s->hp.norm, QSF_NORM_RMS);
    CHECK_EQ(s->hp.act, QSF_ACT_SILU);
    CHECK_EQ(s->hp.rope, QSF_ROPE_PAIRS);
    CHECK_EQ(s->hp.rope_dim, TINY_HEAD);
    CHECK_NEAR(s->hp.rope_base, 10000, 0);
    CHECK_NEAR(s->hp.norm_eps, 1e-5, 1e-12);
    CHECK(s->hp.gated && s->hp.tied && !s->hp.learned_pos);
    CHECK_EQ(s->hp.scaling, QSF_SCALING_NONE);
    CHECK_EQ(s->hp.window, 0);
    CHECK_EQ(s->n_units, TINY_LAYERS + 2);
    CHECK_EQ(s->n_tensors, 9 * TINY_LAYERS + 2);
    close_source(s);
}

TEST(gguf_units_hold_tensors_in_order_of_use)
{
    static const uint32_t order[] = { QSF_K_ATTN_NORM, QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V,
                                      QSF_K_ATTN_OUT, QSF_K_FFN_NORM, QSF_K_FFN_GATE,
                                      QSF_K_FFN_UP, QSF_K_FFN_DOWN };
    gguf_build b = tiny_whole("llama");
    qsf_source *s = accept(&b);
    if (!s) return;
    uint64_t weights = 0, params = 0;
    for (uint32_t u = 0; u < s->n_units; u++) {
        const qsf_unit *unit = &s->units[u];
        uint64_t end = 0;
        for (uint32_t i = 0; i < unit->n_tensors; i++) {
            const qsf_tensor *t = &s->tensors[unit->first_tensor + i];
            const uint64_t place = s->places[unit->first_tensor + i];
            if (u < TINY_LAYERS) CHECK_EQ(t->kind, order[i]);
            CHECK_EQ(place % 64, 0);
            CHECK(place >= end);
            end = place + t->bytes;
            weights += t->bytes;
            params += (uint64_t)t->rows * t->cols;
        }
        CHECK_EQ(unit->stored, end);
        CHECK_EQ(unit->raw, end);
        CHECK(!unit->has_crc && unit->compression == QSF_COMPRESS_NONE);
        for (uint32_t i = 0; i < unit->n_extents; i++) {
            const qsf_extent *x = &s->extents[unit->first_extent + i];
            CHECK(x->at + x->len <= s->lengths[x->file]);
            CHECK(x->to + x->len <= unit->stored);
        }
    }
    CHECK_EQ(s->weight_bytes, weights);
    CHECK_EQ(s->n_params, params);
    /* All of this file's tensors are multiples of 64 bytes long and lie in order: one
     * read a unit. */
    CHECK_EQ(s->units[0].n_extents, 1);
    /* Tensor n of the file begins with the float n. */
    CHECK_NEAR(first_float(s, qsf_unit_embd(s), QSF_K_TOKEN_EMBD, 0), 1, 0);
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_NORM, 0), 2, 0);
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_V, 0), 5, 0);
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_V, 3), 5 + 3 * TINY_EMBD / 1024.0, 0);
    CHECK_NEAR(first_float(s, 1, QSF_K_FFN_DOWN, 0), 19, 0);
    CHECK_NEAR(first_float(s, qsf_unit_final(s), QSF_K_OUTPUT_NORM, 0), 20, 0);
    close_source(s);
}

TEST(gguf_reads_version_2)
{
    gguf_build b = tiny_whole("llama");
    b.out[4] = 2;
    qsf_source *s = accept(&b);
    if (s) close_source(s);
}

TEST(gguf_takes_fused_tensors_apart)
{
    gguf_build b = tiny_whole("phi3");
    qsf_source *s = accept(&b);
    if (!s) return;
    CHECK_EQ(s->hp.rope, QSF_ROPE_HALVES);
    /* attn_qkv is tensor 3 (32 + 16 + 16 rows), ffn_up tensor 6 (gate first) */
    const double row = TINY_EMBD / 1024.0;
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_Q, 0), 3, 0);
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_K, 0), 3 + 32 * row, 0);
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_V, 0), 3 + 48 * row, 0);
    CHECK_NEAR(first_float(s, 0, QSF_K_FFN_GATE, 0), 6, 0);
    CHECK_NEAR(first_float(s, 0, QSF_K_FFN_UP, 1), 6 + (TINY_FF + 1) * row, 0);
    close_source(s);

    b = tiny_whole("gpt2");
    s = accept(&b);
    if (!s) return;
    CHECK(s->hp.learned_pos && !s->hp.gated && s->hp.tied);
    CHECK_EQ(s->hp.norm, QSF_NORM_LAYER);
    CHECK_EQ(s->hp.rope, QSF_ROPE_NONE);
    CHECK_EQ(s->hp.act, QSF_ACT_GELU);
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_V_BIAS, 0), 6 + 64 / 1024.0, 0);
    CHECK_NEAR(first_float(s, qsf_unit_embd(s), QSF_K_POS_EMBD, 0), 2, 0);
    close_source(s);
}

TEST(gguf_reads_every_architecture)
{
    static const char *const archs[] = { "llama", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3",
                                         "gpt2" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(archs); i++) {
        gguf_build b = tiny_whole(archs[i]);
        qsf_source *s = accept(&b);
        if (!s) continue;
        CHECK_STR(s->hp.arch, archs[i]);
        CHECK_NEAR(s->hp.embd_scale, strncmp(archs[i], "gemma", 5) ? 1 : sqrtf(TINY_EMBD), 1e-6);
        close_source(s);
    }
}

TEST(gguf_sets_scales_of_inputs_aside)
{
    gguf_build b = tiny_keyed("llama");
    tiny_layer_tensor(&b, 0, "attn_q.input_scale", 1, 0);
    tiny_layer_tensor(&b, 1, "attn_qkv.input_scale", 1, 0);
    tiny_layer_tensor(&b, 1, "ffn_down.input_scale", 1, 0);
    tensor(&b, "output.input_scale", 0, 1, 0);
    qsf_source *s = accept(&b);
    if (s) close_source(s);
    b = tiny_keyed("llama");
    tiny_layer_tensor(&b, 0, "attn_norm.input_scale", 1, 0);
    refuse(&b, QSF_E_UNSUPPORTED, "attn_norm.input_scale");
    b = tiny_keyed("llama");
    tensor(&b, ".input_scale", 0, 1, 0);
    refuse(&b, QSF_E_UNSUPPORTED, ".input_scale");
}

TEST(gguf_gives_gemma_its_windows_and_caps)
{
    gguf_build b = tiny_whole("gemma2");
    qsf_source *s = accept(&b);
    if (!s) return;
    CHECK_EQ(s->hp.window, 4096);
    CHECK_EQ(s->hp.window_pattern, 2);
    CHECK_NEAR(s->hp.attn_softcap, 50, 0);
    CHECK_NEAR(s->hp.final_softcap, 30, 0);
    CHECK_NEAR(s->hp.rope_base_local, 0, 0);
    close_source(s);

    b = tiny_keyed("gemma3");
    kv_u32(&b, "gemma3.attention.sliding_window", 512);
    kv_f32(&b, "gemma3.rope.freq_base", 1e6f);
    kv_f32(&b, "gemma3.rope.scaling.factor", 8);
    if (!(s = accept(&b))) return;
    CHECK_EQ(s->hp.window, 512);
    CHECK_EQ(s->hp.window_pattern, 6);
    CHECK_NEAR(s->hp.rope_base_local, 10000, 0);
    CHECK_EQ(s->hp.scaling, QSF_SCALING_LINEAR);
    CHECK_NEAR(s->hp.scaling_factor, 8, 0);
    CHECK_NEAR(s->hp.attn_softcap, 0, 0);
    close_source(s);

    b = tiny_keyed("gemma3");                   /* a pattern in list form: layer 1 is global */
    kv_u32(&b, "gemma3.attention.sliding_window", 512);
    kv_array(&b, "gemma3.attention.sliding_window_pattern", 7, 2);
    put_bytes(&b.kv, "\1\0", 2);
    if (!(s = accept(&b))) return;
    CHECK_EQ(s->hp.window_pattern, 2);
    close_source(s);

    b = tiny_keyed("gemma3");                   /* layer 0 global, layer 1 not: no regular pattern */
    kv_u32(&b, "gemma3.attention.sliding_window", 512);
    kv_array(&b, "gemma3.attention.sliding_window_pattern", 7, 2);
    put_bytes(&b.kv, "\0\1", 2);
    if (!(s = accept(&b))) return;
    CHECK_EQ(qsf_source_layer(s, 0)->window, 0);
    CHECK_EQ(qsf_source_layer(s, 1)->window, 512);
    close_source(s);

    b = tiny_keyed("gemma3");                   /* a list that ends too early */
    kv_u32(&b, "gemma3.attention.sliding_window", 512);
    kv_array(&b, "gemma3.attention.sliding_window_pattern", 7, 1);
    put_bytes(&b.kv, "\0", 1);
    refuse(&b, QSF_E_CORRUPT, "no value for layer 1");
}

TEST(gguf_refuses_a_section_that_text_does_not_turn)
{
    gguf_build b = tiny_keyed("glm4");
    kv_array(&b, "glm4.rope.dimension_sections", 5, 4);
    for (int i = 0; i < 4; i++) put_u32(&b.kv, 2);
    refuse(&b, QSF_E_UNSUPPORTED, "section 3");
}

TEST(gguf_reads_rotary_scaling)
{
    gguf_build b = tiny_keyed("qwen2");
    kv_text(&b, "qwen2.rope.scaling.type", "yarn");
    kv_f32(&b, "qwen2.rope.scaling.factor", 4);
    kv_u32(&b, "qwen2.rope.scaling.original_context_length", 32);
    qsf_source *s = accept(&b);
    if (!s) return;
    CHECK_EQ(s->hp.scaling, QSF_SCALING_YARN);
    CHECK_NEAR(s->hp.scaling_factor, 4, 0);
    CHECK_EQ(s->hp.scaling_orig_ctx, 32);
    CHECK_NEAR(s->hp.yarn_ext_factor, -1, 0);
    CHECK_NEAR(s->hp.yarn_attn_factor, 1, 0);
    CHECK_NEAR(s->hp.yarn_beta_fast, 32, 0);
    close_source(s);

    b = tiny_keyed("llama");
    tensor(&b, "rope_freqs.weight", 0, TINY_HEAD / 2, 0);
    if (!(s = accept(&b))) return;
    CHECK(s->hp.rope_factors != NULL && s->hp.rope_factors_long == NULL);
    CHECK_NEAR(s->hp.rope_factors[1], 21 + 1 / 1024.0, 0);
    close_source(s);

    b = tiny_keyed("phi3");
    kv_f32(&b, "phi3.rope.scaling.attn_factor", 1.19f);
    kv_u32(&b, "phi3.rope.scaling.original_context_length", 32);
    tensor(&b, "rope_factors_long.weight", 0, TINY_HEAD / 2, 0);
    tensor(&b, "rope_factors_short.weight", 0, TINY_HEAD / 2, 0);
    if (!(s = accept(&b))) return;
    CHECK_EQ(s->hp.scaling, QSF_SCALING_LONGROPE);
    CHECK_NEAR(s->hp.rope_attn_factor, 1.19, 1e-6);
    CHECK(s->hp.rope_factors_long[0] < s->hp.rope_factors[0]);
    close_source(s);

    b = tiny_keyed("phi3");
    tensor(&b, "rope_factors_long.weight", 0, TINY_HEAD / 2, 0);
    refuse(&b, QSF_E_CORRUPT, "only one");
    b = tiny_keyed("llama");
    tensor(&b, "rope_freqs.weight", 0, TINY_HEAD, 0);
    refuse(&b, QSF_E_CORRUPT, "rope_freqs");
    b = tiny_keyed("llama");
    kv_text(&b, "llama.rope.scaling.type", "dynamic");
    refuse(&b, QSF_E_UNSUPPORTED, "dynamic");
}

TEST(gguf_reads_what_embeddings_are_made_of)
{
    static const uint32_t numbers[] = { QSF_POOL_LAST, QSF_POOL_RANK, 99 };
    for (int i = 0; i < 3; i++) {
        gguf_build b = tiny_keyed("qwen2");
        kv_u32(&b, "qwen2.pooling_type", numbers[i]);
        qsf_source *s = accept(&b);
        if (!s) return;
        CHECK_EQ(s->hp.pooling, i < 2 ? numbers[i] : QSF_POOL_NONE);
        close_source(s);
    }
}

TEST(gguf_reads_a_byte_level_vocabulary)
{
    gguf_build b = tiny_whole("llama");
    qsf_source *s = accept(&b);
    if (!s) return;
    const qsf_vocab *v = &s->vocab;
    CHECK_EQ(v->kind, QSF_VOCAB_BPE);
    CHECK_STR(v->pre, "llama-bpe");
    CHECK_EQ(v->n_tokens, TINY_VOCAB);
    CHECK(!memcmp(v->text + v->at[3], "ab", 2) && v->at[4] - v->at[3] == 2);
    CHECK(!memcmp(v->text + v->at[5], "[EMPTY_5]", 9) && v->at[6] - v->at[5] == 9);
    CHECK_EQ(v->types[0], QSF_TOKEN_CONTROL);
    CHECK_EQ(v->types[1], QSF_TOKEN_NORMAL);
    CHECK_EQ(v->types[4], QSF_TOKEN_CONTROL);        /* by its text */
    CHECK_EQ(v->types[5], QSF_TOKEN_UNUSED);
    CHECK(v->scores == NULL);
    /* pieces that are not tokens, and a word without a space, are left out */
    CHECK_EQ(v->n_merges, 3);
    static const uint32_t merges[] = { 1, 2, 3, 8, 6, 1 };
    CHECK(!memcmp(v->merges, merges, sizeof merges));
    CHECK_EQ(v->bos, 0);
    CHECK_EQ(v->eos, 0);
    CHECK_EQ(v->eot, 4);
    CHECK_EQ(v->unk, -1);
    CHECK_EQ(v->pad, -1);                            /* 77 is out of range */
    CHECK(v->add_bos && !v->add_eos && !v->add_space_prefix);
    CHECK_EQ(v->n_eog, 0);
    CHECK_STR(v->chat_template, "{{ messages }}");
    CHECK_EQ(v->n_more, 2);                          /* one name is not a word, one has no template */
    CHECK_STR(qsf_vocab_chat_named(v, "tool_use"), "{{ tools }}");
    CHECK_STR(qsf_vocab_chat_named(v, "rag"), "{{ documents }}");
    close_source(s);
}

TEST(gguf_reads_a_sentencepiece_vocabulary)
{
    static const char *const tokens[] = { "<unk>", "<s>", "</s>", "<0x0A>", "\xe2\x96\x81", "a",
                                          "<end_of_turn>", "<eos>" };
    gguf_build b;
    qsf_source *s = NULL;
    gguf_build_init(&b, 3);
    kv_text(&b, "general.architecture", "some-unknown-one");
    kv_text(&b, "tokenizer.ggml.model", "llama");
    kv_texts(&b, "tokenizer.ggml.tokens", tokens, 8);
    kv_array(&b, "tokenizer.ggml.scores", 6, 8);
    for (int i = 0; i < 8; i++) put_u32(&b.kv, qsf_f32_bits(-(float)i));
    kv_array(&b, "tokenizer.ggml.token_type", 5, 8);
    for (int i = 0; i < 8; i++) put_u32(&b.kv, i == 3 ? 6 : i == 0 ? 2 : 1);
    kv_bool(&b, "tokenizer.ggml.add_eos_token", true);
    gguf_build_end(&b);
    CHECK_EQ(open_bytes(b.out, b.len, false, &s), QSF_E_UNSUPPORTED);
    /* the tokenizer of an architecture that cannot run */
    CHECK_EQ(open_bytes(b.out, b.len, true, &s), QSF_OK);
    if (s) {
        const qsf_vocab *v = &s->vocab;
        CHECK_EQ(s->n_units, 0);
        CHECK_EQ(v->kind, QSF_VOCAB_SPM);
        CHECK_EQ(v->n_tokens, 8);
        CHECK_NEAR(v->scores[5], -5, 0);
        CHECK_EQ(v->types[3], QSF_TOKEN_BYTE);
        CHECK(v->bos == 1 && v->eos == 2 && v->unk == 0 && v->eot == 6);
        CHECK(v->add_bos && v->add_eos && v->add_space_prefix);
        CHECK(v->n_eog == 1 && v->eog[0] == 7);
        close_source(s);
    }
    gguf_build_free(&b);
}

TEST(gguf_gives_keys_as_text)
{
    gguf_build b = tiny_keyed("llama");
    kv_bool(&b, "x.bool", true);
    kv_f32(&b, "x.float", 0.1f);
    kv_array(&b, "x.list", 4, 10);
    for (uint32_t i = 0; i < 10; i++) put_u32(&b.kv, i);
    kv_array(&b, "x.none", 8, 0);
    qsf_source *s = accept(&b);
    if (!s) return;
    const char *found[4] = { 0 }, *const keys[4] = { "x.bool", "x.float", "x.list", "x.none" };
    for (uint32_t i = 0; i < s->n_meta; i++)
        for (int k = 0; k < 4; k++)
            if (!strcmp(s->meta[i].key, keys[k])) found[k] = s->meta[i].value;
    CHECK_STR(s->meta[0].value, "llama");
    CHECK_STR(found[0], "true");
    CHECK_STR(found[1], "0.1");
    CHECK_STR(found[2], "[10] 0, 1, 2, 3, 4, 5, 6, 7, ...");
    CHECK_STR(found[3], "[0]");
    close_source(s);
}

TEST(gguf_reads_a_custom_file_and_closes_it_once)
{
    gguf_build b = tiny_whole("llama");
    memfile m;
    qsf_source *s;
    mem_host_init(&host);
    memfile_init(&m, b.out, b.len);
    CHECK_EQ(qsf_source_open(&host.p, NULL, &m.file, false, &s, &err), QSF_OK);
    CHECK_NEAR(first_float(s, 0, QSF_K_ATTN_NORM, 0), 2, 0);
    CHECK_EQ(m.closed, 0);
    close_source(s);
    CHECK_EQ(m.closed, 1);
    for (uint64_t n = 1; n < 4; n++) {               /* a read that fails; and memory that does */
        mem_host_init(&host);
        memfile_init(&m, b.out, b.len);
        m.fail_at = n;
        const qsf_status st = qsf_source_open(&host.p, "name", &m.file, false, &s, &err);
        if (st) CHECK_EQ(st, QSF_E_IO);
        else qsf_source_close(s);
        CHECK_EQ(m.closed, 1);
        CHECK_EQ(host.live, 0);
        mem_host_done(&host);
        mem_host_init(&host);
        memfile_init(&m, b.out, b.len);
        host.fail_at = (long)n;
        CHECK_EQ(qsf_source_open(&host.p, "name", &m.file, false, &s, &err), QSF_E_MEMORY);
        CHECK_EQ(m.closed, 1);
        CHECK_EQ(host.live, 0);
        mem_host_done(&host);
    }
    gguf_build_free(&b);
}

static qsf_status open_split(gguf_build *first, gguf_build *second, const char *name, qsf_source **s)
{
    if (!first->out) gguf_build_end(first);
    if (!second->out) gguf_build_end(second);
    mem_host_init(&host);
    mem_put(&host, name, first->out, first->len);
    mem_put(&host, "dir/m-00002-of-00002.gguf", second->out, second->len);
    return qsf_source_open(&host.p, name, NULL, false, s, &err);
}

TEST(gguf_opens_the_other_parts_of_a_split_model)
{
    gguf_build a = split_part(0, 2, 21), b = split_part(1, 2, 0);
    qsf_source *s = NULL;
    tensor(&b, "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    CHECK_EQ(open_split(&a, &b, "dir/m-00001-of-00002.gguf", &s), QSF_OK);
    if (s) {
        CHECK_EQ(s->n_files, 2);
        CHECK(!s->hp.tied);
        CHECK_NEAR(first_float(s, qsf_unit_final(s), QSF_K_OUTPUT, 0), 1, 0);
        CHECK_NEAR(first_float(s, qsf_unit_final(s), QSF_K_OUTPUT_NORM, 0), 20, 0);
        close_source(s);
    }
    /* no name to make the others' from */
    CHECK_EQ(open_split(&a, &b, "other.gguf", &s), QSF_E_NOT_FOUND);
    CHECK_EQ(host.live, 0);
    mem_host_done(&host);
    CHECK_EQ(open_split(&a, &b, "lost/m-00001-of-00002.gguf", &s), QSF_E_NOT_FOUND);
    CHECK(strstr(err.text, "lost/m-00002-of-00002.gguf") != NULL);
    CHECK_EQ(host.live, 0);
    mem_host_done(&host);
    refuse(&b, QSF_E_ARGUMENT, "first part");
    gguf_build_free(&a);
}

TEST(gguf_refuses_parts_that_do_not_belong_together)
{
    static const struct { uint32_t no, count, tensors; const char *name; qsf_status st; const char *word;
                          } bad[] = {
        { 1, 3, 21, "output.weight", QSF_E_CORRUPT, "part 2 of 3" },
        { 2, 2, 21, "output.weight", QSF_E_CORRUPT, "part 3 of 2" },
        { 1, 2, 22, "output.weight", QSF_E_CORRUPT, "split.tensors.count" },
        { 1, 2, 21, "output_norm.weight", QSF_E_CORRUPT, "twice" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
        gguf_build a = split_part(0, 2, bad[i].tensors), b = split_part(bad[i].no, bad[i].count, 0);
        qsf_source *s = NULL;
        tensor(&b, bad[i].name, 0, TINY_EMBD, TINY_VOCAB);
        CHECK_EQ(open_split(&a, &b, "dir/m-00001-of-00002.gguf", &s), bad[i].st);
        if (!strstr(err.text, bad[i].word)) CHECK_STR(err.text, bad[i].word);
        CHECK_EQ(host.live, 0);
        mem_host_done(&host);
        gguf_build_free(&a);
        gguf_build_free(&b);
    }
}

/* Spoils the third of three parts; the error must name the third, not the intact second. */
static void check_third(void (*spoil)(gguf_build *b), const char *word)
{
    gguf_build part[3] = { split_part(0, 3, 22), split_part(1, 3, 0), split_part(2, 3, 0) };
    char name[64];
    qsf_source *s = NULL;
    tensor(&part[1], "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    tensor(&part[2], "rope_freqs.weight", 0, TINY_HEAD / 2, 0);
    mem_host_init(&host);
    for (int i = 0; i < 3; i++) {
        if (i == 2 && spoil) spoil(&part[i]);
        if (!part[i].out) gguf_build_end(&part[i]);
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i + 1);
        mem_put(&host, name, part[i].out, part[i].len);
    }
    const qsf_status st = qsf_source_open(&host.p, "m-00001-of-00003.gguf", NULL, false, &s, &err);
    CHECK_EQ(st, spoil ? QSF_E_CORRUPT : QSF_OK);
    if (spoil && (!strstr(err.text, "m-00003-of-00003.gguf") || !strstr(err.text, word)))
        CHECK_STR(err.text, "m-00003-of-00003.gguf");
    if (s) qsf_source_close(s);
    CHECK_EQ(host.live, 0);
    mem_host_done(&host);
    for (int i = 0; i < 3; i++) gguf_build_free(&part[i]);
}

static void spoil_length(gguf_build *b)
{
    gguf_build_end(b);
    b->len -= 8;
}
static void spoil_description(gguf_build *b)
{
    gguf_build_end(b);
    b->len = 60;
}
static void spoil_magic(gguf_build *b)
{
    gguf_build_end(b);
    b->out[0] = 'X';
}
static void spoil_place(gguf_build *b) { qsf_put64(b->infos.p + b->infos.len - 8, 33); }
static void spoil_type(gguf_build *b) { qsf_put32(b->infos.p + b->infos.len - 12, 8); }
static void spoil_twice(gguf_build *b) { kv_u16(b, "split.no", 2); }
static void spoil_name(gguf_build *b)
{
    tensor(b, "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    b->n_tensors--;             /* replaces the other one */
    const size_t first = 8 + strlen("rope_freqs.weight") + 4 + 8 + 4 + 8;
    memmove(b->infos.p, b->infos.p + first, b->infos.len -= first);
}

TEST(gguf_names_the_part_that_is_wrong)
{
    check_third(NULL, "");
    check_third(spoil_length, "cut short");
    check_third(spoil_description, "cut short");
    check_third(spoil_magic, "is not a GGUF file");
    check_third(spoil_place, "multiple of 32");
    check_third(spoil_type, "whole blocks");
    check_third(spoil_twice, "occurs twice");
    check_third(spoil_name, "occurs twice");
}

/* A part is truncated while the model is in use. */
TEST(gguf_names_the_part_that_cannot_be_read)
{
    gguf_build a = split_part(0, 2, 21), b = split_part(1, 2, 0);
    qsf_source *s = NULL;
    void *data = NULL;
    tensor(&b, "output.weight", 0, TINY_EMBD, TINY_VOCAB);
    CHECK_EQ(open_split(&a, &b, "dir/m-00001-of-00002.gguf", &s), QSF_OK);
    mem_find(&host, "dir/m-00002-of-00002.gguf")->len -= 64;
    const int at = s ? qsf_unit_find(s, qsf_unit_final(s), QSF_K_OUTPUT) : -1;
    CHECK(at >= 0);
    if (at >= 0) {
        CHECK_EQ(qsf_source_load(s, qsf_unit_final(s), (uint32_t)at, &data, &err), QSF_E_IO);
        CHECK(strstr(err.text, "dir/m-00002-of-00002.gguf") != NULL);
        close_source(s);
    }
    gguf_build_free(&a);
    gguf_build_free(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(gguf_reads_a_llama_model);
    RUN(gguf_units_hold_tensors_in_order_of_use);
    RUN(gguf_reads_version_2);
    RUN(gguf_takes_fused_tensors_apart);
    RUN(gguf_reads_every_architecture);
    RUN(gguf_sets_scales_of_inputs_aside);
    RUN(gguf_gives_gemma_its_windows_and_caps);
    RUN(gguf_refuses_a_section_that_text_does_not_turn);
    RUN(gguf_reads_rotary_scaling);
    RUN(gguf_reads_what_embeddings_are_made_of);
    RUN(gguf_reads_a_byte_level_vocabulary);
    RUN(gguf_reads_a_sentencepiece_vocabulary);
    RUN(gguf_gives_keys_as_text);
    RUN(gguf_reads_a_custom_file_and_closes_it_once);
    RUN(gguf_opens_the_other_parts_of_a_split_model);
    RUN(gguf_refuses_parts_that_do_not_belong_together);
    RUN(gguf_names_the_part_that_is_wrong);
    RUN(gguf_names_the_part_that_cannot_be_read);
    return test_end();
}
