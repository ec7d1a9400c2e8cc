/* The table of a description's members: it is written to QSF files completely, and a session is
 * accepted only by a model with an equal description.
 * SPDX-License-Identifier: MIT */
#include "description_pairs.h"
#include "engine_bench.h"
#include "model/qsf_ext.h"

TEST(a_session_of_a_model_that_differs_in_one_member_is_refused)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    CHECK_STR(b.m->source->format, "QSF");
    pairs_of_every_member(b.c);
    bench_end(&b);
}

/* Whether the model can be written and run; most members need others, or tensors. */
static bool small_model_runs(bench *b, const tiny_options *o)
{
    const qsf_context_options co = bench_options();
    qsf_model_options mo;
    memset(b, 0, sizeof *b);
    engine_host_init(&b->h);
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    return !tiny_write(&b->h.m.p, "m", o, &b->error) && !qsf_model_open("m", &mo, &b->m, &b->error) &&
           !bench_try(b, &co);
}

/* The same with QSF files, for the members of which a small model can have another value.  All
 * files have the same weights. */
TEST(a_session_of_a_file_that_differs_in_one_member_is_refused)
{
    unsigned n_files = 0;
    bench b;
    pair_session base;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o) || !pair_save(b.c, &base)) return;
    bench_end(&b);
    if (!bench_begin(&b, &o)) return;
    CHECK(pair_takes(b.c, &base, "the same file"));
    bench_end(&b);
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        tiny_options other = o;
        if (m->count != QSF_COUNT_ONE || m->saved == QSF_SAVED_HEADER) continue;
        pair_change(m, (uint8_t *)&other.hp + m->at);
        if (small_model_runs(&b, &other)) {
            n_files++;
            if (pair_takes(b.c, &base, m->key)) CHECK_STR(m->key, "refused");
        }
        bench_end(&b);
    }
    printf("      %u files\n", n_files);
    CHECK(n_files > 30);
}

/* Gives every member a value that a file may have. */
static void fill_members(qsf_hparams *hp)
{
    static float floats[PAIR_VALUES];
    static uint32_t words[PAIR_VALUES];
    static uint8_t bytes[PAIR_VALUES];
    for (size_t i = 0; i < PAIR_VALUES; i++) {
        floats[i] = 1 + (float)i / 8;
        words[i] = 1 + (uint32_t)i % 2;
        bytes[i] = i % 2;
    }
    memset(hp, 0, sizeof *hp);
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        void *at = (uint8_t *)hp + m->at;
        if (m->count != QSF_COUNT_ONE)
            pair_point(hp, m, m->type == QSF_MEMBER_F32 ? (void *)floats
                       : m->type == QSF_MEMBER_U32 ? (void *)words : (void *)bytes);
        else if (m->type == QSF_MEMBER_TEXT) strcpy(at, m->key);
        else if (m->type == QSF_MEMBER_F32) *(float *)at = 1 + (float)i / 4;
        else if (m->type == QSF_MEMBER_U32) *(uint32_t *)at = 2 * (uint32_t)i + 4;
        else if (m->type == QSF_MEMBER_BOOL) *(bool *)at = true;
        else *(uint8_t *)at = m->limit;
    }
    hp->n_layers = 6;
    hp->act = QSF_ACT_XIELU;
}

TEST(every_member_is_written_and_read)
{
    uint8_t bytes[8192];
    qsf_ext_out out = { .p = bytes, .cap = sizeof bytes };
    qsf_ext in;
    qsf_arena *arena;
    qsf_hparams hp, back = { 0 };
    qsf_error err = { 0 };
    fill_members(&hp);
    CHECK(qsf_ext_needs_reader(&hp));
    qsf_ext_put_hparams(&out, &hp);
    CHECK(out.len < sizeof bytes);
    for (size_t i = 0; i < qsf_n_members; i++)
        if (qsf_members[i].saved == QSF_SAVED_HEADER) {
            const size_t at = qsf_members[i].at, size = qsf_members[i].type == QSF_MEMBER_U32 ||
                                                        qsf_members[i].type == QSF_MEMBER_F32 ? 4 : 1;
            memcpy((uint8_t *)&back + at, (uint8_t *)&hp + at, size);
        }
    CHECK_EQ(qsf_arena_new(qsf_platform_native(), &arena, &err), QSF_OK);
    CHECK_EQ(qsf_ext_open(&in, bytes, out.len, "section", &err), QSF_OK);
    CHECK_EQ(qsf_ext_get_hparams(&in, &back, arena, &err), QSF_OK);
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        const size_t size = m->type == QSF_MEMBER_U32 || m->type == QSF_MEMBER_F32 ? 4 : 1;
        const void *want = qsf_member_values(&hp, m), *have = qsf_member_values(&back, m);
        CHECK(qsf_member_is_set(&hp, m));
        const bool same = have && (m->type == QSF_MEMBER_TEXT ? !strcmp(have, want)
                                   : !memcmp(have, want, size * qsf_member_count(&hp, m)));
        if (!same) CHECK_STR(m->key, "read as it was written");
    }
    CHECK_EQ(qsf_hparams_hash(1, &back), qsf_hparams_hash(1, &hp));
    qsf_arena_free(arena);
}

/* No member counts only if another one is set, or not set. */
TEST(every_member_counts_among_all_others)
{
    qsf_hparams hp;
    fill_members(&hp);
    const uint64_t want = qsf_hparams_hash(1, &hp);
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        const size_t size = m->type == QSF_MEMBER_U8 ? 1 : 4, n = qsf_member_count(&hp, m);
        qsf_hparams other = hp;
        float room[PAIR_VALUES];
        if (m->count == QSF_COUNT_ONE) {
            pair_change(m, (uint8_t *)&other + m->at);
        } else {
            memcpy(room, qsf_member_values(&hp, m), n * size);
            pair_change(m, (uint8_t *)room + (n - 1) * size);
            pair_point(&other, m, room);
        }
        if (qsf_hparams_hash(1, &other) == want) CHECK_STR(m->key, "counts");
        if (m->count == QSF_COUNT_ONE) continue;
        pair_point(&other, m, NULL);
        if (qsf_hparams_hash(1, &other) == want) CHECK_STR(m->key, "counts if it is missing");
    }
}

/* Sessions move between machines of either byte order. */
TEST(the_hash_is_the_same_everywhere)
{
    qsf_hparams hp;
    const tiny_options o = tiny_defaults();
    fill_members(&hp);
    CHECK_EQ(qsf_hparams_hash(0xcbf29ce484222325u, &o.hp), 0xe2f3482493032717u);
    CHECK_EQ(qsf_hparams_hash(0xcbf29ce484222325u, &hp), 0xf6435480b0f1804bu);
}

/* Ranks have the same description, and may have tensors of the same shapes. */
TEST(a_session_of_another_rank_is_refused)
{
    bench b;
    const tiny_options o = tiny_defaults();
    pair_session base;
    if (!bench_begin(&b, &o)) return;
    qsf_source *s = (qsf_source *)(uintptr_t)b.c->model->source;
    uint32_t *const numbers[] = { &s->share, &s->n_shares, &s->n_before, &s->n_after };
    if (!pair_save(b.c, &base)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(numbers); i++) {
        ++*numbers[i];
        CHECK(!pair_takes(b.c, &base, "another part of the model"));
        --*numbers[i];
    }
    CHECK(pair_takes(b.c, &base, "the same part"));
    bench_end(&b);
}

TEST(keys_and_places_are_unique)
{
    for (size_t i = 0; i < qsf_n_members; i++)
        for (size_t k = 0; k < i; k++) {
            CHECK(strcmp(qsf_members[i].key, qsf_members[k].key));
            CHECK(qsf_members[i].at != qsf_members[k].at);
        }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_session_of_a_model_that_differs_in_one_member_is_refused);
    RUN(a_session_of_a_file_that_differs_in_one_member_is_refused);
    RUN(every_member_is_written_and_read);
    RUN(every_member_counts_among_all_others);
    RUN(the_hash_is_the_same_everywhere);
    RUN(a_session_of_another_rank_is_refused);
    RUN(keys_and_places_are_unique);
    return test_end();
}
