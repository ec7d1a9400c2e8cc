/* Experts of QSF files that are read when the router has chosen them: results, bytes, checksums,
 * and which files say that they can be.
 * SPDX-License-Identifier: MIT */
#include "experts_bench.h"
#include "make_tiny_qsf.h"
#include "model/compress.h"
#include "model/experts_alone.h"

enum { LAYERS = 3, EXPERTS = 12, USED = 3, VOCAB = 288 };

static const int32_t ids[TOKENS] = { 1, 22, 133, 4, 7, 9, 260, 22, 8, 1, 3, 55 };

/* ff: an expert's length; shared: of what every row takes, 0: nothing. */
static tiny_options experts_options(uint8_t type, uint32_t ff, uint32_t shared)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = LAYERS;
    o.hp.n_experts = EXPERTS;
    o.hp.n_used = USED;
    o.hp.n_ff_expert = ff;
    o.hp.n_ff_shared = shared;
    o.hp.router_norm = true;
    o.type = type;
    o.post_norms = true;
    snprintf(o.hp.arch, sizeof o.hp.arch, "qwen2moe");
    return o;
}

static bool bench_open(bench *b, const tiny_options *o, bool waits)
{
    bench_begin(b, ids, VOCAB, waits);
    return bench_ok(b, tiny_write(&b->h.m.p, "m", o, &b->error)) && bench_ok(b, bench_model(b));
}

/* A context with room for about `more` experts beyond the fewest; -1: for all. */
static bool bench_room(bench *b, uint32_t threads, int more)
{
    const uint64_t least = bench_least(b, threads);
    const qsf_context_options o = bench_options(threads, more < 0 ? 0
        : least + (uint64_t)more * qsf_experts_slot(b->m->source));
    return bench_context(b, &o);
}

enum { LOGITS = (TOKENS - PROMPT + 1) * VOCAB };
static float right[LOGITS], got[LOGITS];

/* ---- tests ---- */

static void check_alone(const tiny_options *o)
{
    for (uint32_t run = 0; run < 4; run++) {
        bench b;
        uint32_t same = 0;
        if (!bench_open(&b, o, run < 2)) return;
        if (!bench_room(&b, 1, -1) || !bench_ok(&b, answer(&b, right))) return;
        for (int more = 3; more < 20; more += 8) {
            qsf_plan plan = { .size = sizeof plan };
            if (!bench_room(&b, 1 + run % 2, more)) break;
            b.h.polls = run % 2 * 3;
            qsf_context_get_plan(b.c, &plan);
            CHECK(!plan.resident && plan.n_experts >= 4 && plan.n_experts < LAYERS * EXPERTS);
            for (int again = 0; again < 2; again++) {
                memset(got, 0, sizeof got);
                CHECK_EQ(answer(&b, got), QSF_OK);
                if (plan.kv_type == QSF_KV_F16) CHECK(!memcmp(got, right, sizeof got));
            }
            same += plan.kv_type == QSF_KV_F16;
            b.h.polls = 0;
        }
        CHECK(same > 0);
        bench_close(&b);
    }
}

TEST(experts_that_are_read_alone_change_no_number)
{
    static const struct { uint8_t type; uint32_t ff, shared; } ways[] = {
        { QSF_T_4BIT, 64, 0 }, { QSF_T_8BIT, 38, 48 }, { QSF_T_F16, 21, 32 }, { QSF_T_2BIT, 90, 32 },
        { QSF_T_3BIT_S, 18, 0 }, { QSF_T_TRELLIS3, 64, 32 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(ways); i++) {
        const tiny_options o = experts_options(ways[i].type, ways[i].ff, ways[i].shared);
        check_alone(&o);
    }
}

/* The bytes of an expert's rows of one of its matrices, in the file. */
static void part_of(const qsf_source *s, uint32_t layer, uint32_t e, uint32_t k, uint64_t *at, uint64_t *len)
{
    const qsf_unit *u = &s->units[layer];
    const uint32_t t = u->first_tensor + u->n_tensors - 3 + k;
    *len = qsf_expert_rows(&s->tensors[t], EXPERTS, e, at).bytes;
    *at += s->extents[u->first_extent].at + s->places[t];
}

TEST(a_token_reads_the_experts_that_it_takes_and_are_missing)
{
    bench b;
    const float *logits;
    const tiny_options o = experts_options(QSF_T_4BIT, 64, 32);
    if (!bench_open(&b, &o, true) || !bench_room(&b, 1, 6)) return;
    const qsf_source *s = b.m->source;
    uint64_t each = 0, at, len;
    for (uint32_t k = 0; k < 3; k++) {
        part_of(s, 0, 0, k, &at, &len);
        each += len;
    }
    CHECK_EQ(each, 3 * 64 * 36);                        /* 64 rows, each a block of 64 columns */
    for (int n = 0; n < TOKENS; n += n ? 1 : PROMPT) {
        qsf_stats st = { .size = sizeof st };
        uint64_t all = 0, of_experts = 0;
        n_seen = 0;
        qsf_context_reset_stats(b.c);
        CHECK_EQ(feed(&b, ids + n, n ? 1 : PROMPT, &logits), QSF_OK);
        qsf_context_get_stats(b.c, &st);
        for (uint32_t r = 0; r < n_seen; r++) {
            all += seen[r].len;
            for (uint32_t i = 0; i < LAYERS * EXPERTS * 3; i++) {
                part_of(s, i / 3 / EXPERTS, i / 3 % EXPERTS, i % 3, &at, &len);
                if (seen[r].at == at && seen[r].len == len) of_experts += len;
                else CHECK(seen[r].at >= at + len || seen[r].at + seen[r].len <= at);
            }
        }
        CHECK_EQ(st.bytes_read, all);
        CHECK_EQ(st.experts_bytes, of_experts);
        CHECK_EQ(st.experts_bytes, st.experts_read * each);
        CHECK_EQ(st.experts_used, st.experts_found + st.experts_read);
        if (n) CHECK_EQ(st.experts_used, LAYERS * USED);
    }
    bench_close(&b);
}

TEST(damage_in_an_expert_is_found_when_it_is_taken)
{
    bench b;
    uint32_t found = 0, not_taken = 0;
    const tiny_options o = experts_options(QSF_T_8BIT, 32, 32);
    if (!bench_open(&b, &o, true) || !bench_room(&b, 1, 5) || !bench_ok(&b, answer(&b, right))) return;
    for (uint32_t i = 0; i < LAYERS * EXPERTS; i++) {
        char name[32];
        uint64_t at, len;
        const uint32_t layer = i / EXPERTS, e = i % EXPERTS;
        part_of(b.m->source, layer, e, i % 3, &at, &len);
        snprintf(name, sizeof name, "layer %u, expert %u ", (unsigned)layer, (unsigned)e);
        uint8_t *byte = &mem_find(&b.h.m, "m")->bytes[at + i * 37 % len];
        *byte ^= (uint8_t)(1 << i % 8);
        if (!bench_room(&b, 1, 5)) break;
        const qsf_status st = answer(&b, got);
        CHECK(st == QSF_E_CORRUPT || !st);
        if (st) CHECK(strstr(b.error.text, name) != NULL);
        else CHECK(!memcmp(got, right, sizeof got));
        found += st == QSF_E_CORRUPT;
        not_taken += !st;
        *byte ^= (uint8_t)(1 << i % 8);
        CHECK_EQ(answer(&b, got), QSF_OK);              /* the context stays usable */
        CHECK(!memcmp(got, right, sizeof got));
    }
    CHECK(found > LAYERS * EXPERTS / 2 && not_taken > 0);
    bench_close(&b);
}

TEST(damage_before_experts_is_found)
{
    bench b;
    const tiny_options o = experts_options(QSF_T_4BIT, 32, 32);
    if (!bench_open(&b, &o, true)) return;
    const qsf_source *s = b.m->source;
    const uint64_t at = s->extents[s->units[1].first_extent].at, len = qsf_unit_shared(s, 1).stored;
    CHECK(len < s->units[1].stored / 2);
    for (uint64_t i = 0; i < len; i += 97) {
        uint8_t *byte = &mem_find(&b.h.m, "m")->bytes[at + i];
        *byte ^= (uint8_t)(1 << i % 8);
        if (!bench_room(&b, 1, 5)) break;
        CHECK_EQ(answer(&b, got), QSF_E_CORRUPT);
        CHECK(strstr(b.error.text, "layer 1") && !strstr(b.error.text, "expert "));
        *byte ^= (uint8_t)(1 << i % 8);
    }
    bench_close(&b);
}

TEST(a_read_of_an_expert_may_fail)
{
    bench b;
    uint32_t failed = 0, named = 0;
    const tiny_options o = experts_options(QSF_T_4BIT, 40, 0);
    if (!bench_open(&b, &o, true) || !bench_room(&b, 1, 6) || !bench_ok(&b, answer(&b, right))) return;
    for (long n = 1; n < 400; n++) {
        if (!bench_room(&b, 1, 6)) break;
        b.h.m.calls = 0;
        b.h.m.fail_at = n;
        const qsf_status st = answer(&b, got);
        const bool over = b.h.m.calls < n;
        b.h.m.fail_at = 0;
        failed += st != QSF_OK;
        named += st && strstr(b.error.text, ", expert ");
        if (st) CHECK_EQ(st, QSF_E_IO);
        CHECK_EQ(answer(&b, got), QSF_OK);
        CHECK(!memcmp(got, right, sizeof got));
        if (over) break;
    }
    CHECK(failed > 20 && named > 20);
    bench_close(&b);
}

/* Layers of which a part is packed, or is stored after the experts, are read whole, as before. */
TEST(files_without_their_checksums_run_with_whole_layers)
{
    for (int way = 0; way < 4; way++) {
        bench b;
        tiny_options o = experts_options(QSF_T_8BIT, 32, 32);
        o.norm_last = way == 0;
        o.progressive = way == 1;
        if (way == 2) o.compression = qsf_codec_check(QSF_COMPRESS_LZ4, "", NULL) ? 0 : QSF_COMPRESS_LZ4;
        if (way == 3) o.packing = 0;
        if (way == 2 && !o.compression) continue;
        if (!bench_open(&b, &o, true)) return;
        CHECK(!qsf_experts_possible(b.m->source));
        if (bench_room(&b, 1, -1)) CHECK_EQ(answer(&b, right), QSF_OK);
        if (bench_room(&b, 1, 0)) CHECK_EQ(answer(&b, got), QSF_OK);
        bench_close(&b);
    }
}

/* Opens the file with checksums of `n` values instead of those that it has. */
static qsf_status told(bench *b, qsf_source *s, uint64_t n)
{
    static const uint32_t crcs[LAYERS * (EXPERTS + 1) + 1];
    uint8_t bytes[8 * LAYERS * (EXPERTS + 1)] = "QSFX";
    qsf_ext x;
    qsf_ext_out out = { .p = bytes, .cap = sizeof bytes };
    qsf_ext_put_u32s(&out, "experts.crcs", crcs, n);
    const qsf_status st = qsf_ext_open(&x, bytes, out.len, "m", &b->error);
    return st ? st : qsf_ext_get_experts(&x, s, &b->error);
}

TEST(checksums_that_do_not_fit_are_refused)
{
    bench b;
    qsf_source *s;
    const tiny_options o = experts_options(QSF_T_4BIT, 32, 32);
    if (!bench_open(&b, &o, true)) return;
    if (!bench_ok(&b, qsf_source_open(&b.h.m.p, "m", NULL, false, &s, &b.error))) return;
    const uint64_t n = LAYERS * (EXPERTS + 1);
    qsf_tensor *last = &s->tensors[s->units[1].first_tensor + s->units[1].n_tensors - 1];
    CHECK(s->units[1].n_expert_tensors == 3 && s->units[1].expert_crcs[0] != s->units[1].expert_crcs[1]);
    CHECK_EQ(told(&b, s, n), QSF_OK);
    CHECK_EQ(told(&b, s, n - 1), QSF_E_CORRUPT);
    CHECK(strstr(b.error.text, "experts.crcs has 38 values") != NULL);
    CHECK_EQ(told(&b, s, n + 1), QSF_E_CORRUPT);
    CHECK_EQ(told(&b, s, EXPERTS + 1), QSF_E_CORRUPT);
    s->units[1].compression = QSF_COMPRESS_LZ4;
    CHECK_EQ(told(&b, s, n), QSF_E_CORRUPT);
    CHECK(strstr(b.error.text, "layer 1 does not end with experts") != NULL);
    s->units[1].compression = QSF_COMPRESS_NONE;
    last->kind = QSF_K_FFN_NORM;
    CHECK_EQ(told(&b, s, n), QSF_E_CORRUPT);
    last->kind = QSF_K_EXPERT_DOWN;
    last->packing = 0;
    CHECK_EQ(told(&b, s, n), QSF_E_CORRUPT);
    last->packing = 1;
    CHECK_EQ(told(&b, s, n), QSF_OK);
    qsf_source_close(s);
    bench_close(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(experts_that_are_read_alone_change_no_number);
    RUN(a_token_reads_the_experts_that_it_takes_and_are_missing);
    RUN(damage_in_an_expert_is_found_when_it_is_taken);
    RUN(damage_before_experts_is_found);
    RUN(a_read_of_an_expert_may_fail);
    RUN(files_without_their_checksums_run_with_whole_layers);
    RUN(checksums_that_do_not_fit_are_refused);
    return test_end();
}
