/* The fetch's slots: how often each range is read, and which slot is evicted.
 * SPDX-License-Identifier: MIT */
#include "qsf.h"
#include "test.h"
#include "weights/layers.h"
#include "weights/stream.h"

enum { LAYERS = 7, UNIT = 4096, PART = 256, MOST_PARTS = 9 };

/* ---- a source whose reads are over as soon as somebody looks ---- */

static uint32_t n_reads, n_failing, held;       /* held: reads are not over yet */
static uint64_t last_at, last_len;

static qsf_status start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    (void)user;
    (void)f;
    memset(dst, (int)(at / PART % 256), len);
    n_reads++;
    last_at = at;
    last_len = len;
    *out = (qsf_read *)(void *)&n_reads;
    return QSF_OK;
}
static qsf_status over(void *user, qsf_read *r)
{
    (void)user;
    (void)r;
    if (held) return QSF_PENDING;
    if (!n_failing) return QSF_OK;
    n_failing--;
    return QSF_E_IO;
}

static qsf_platform io;
static qsf_file *files[1];
static char path[] = "m";
static const char *paths[] = { path };
static qsf_unit units[LAYERS + 2];
static qsf_extent extents[LAYERS + 2];
static qsf_source source;
static qsf_fetch fetch;

/* A slot that keeps its unit, and one that units pass through. */
#define KEEP(of, i) { .pinned = 1, .kind = (of), .number = (i) }
#define PASS { .pinned = 0 }

/* Slots for units: pins as given; units without a pin come from a mirror of the file,
 * UNIT bytes each. */
static void begin(const qsf_pin *pins, uint32_t n)
{
    static uint64_t caps[LAYERS + 2];
    io = (qsf_platform){ .size = sizeof io, .read_start = start, .read_poll = over, .read_wait = over };
    source = (qsf_source){ .platform = qsf_platform_native(), .io = &io, .path = path, .n_files = 1,
                           .files = files, .paths = paths,
                           .n_units = qsf_units_of(LAYERS), .units = units, .n_extents = LAYERS + 2,
                           .extents = extents };
    source.hp.n_layers = LAYERS;
    for (uint32_t u = 0; u < source.n_units; u++) {
        units[u] = (qsf_unit){ .stored = UNIT, .raw = UNIT, .importance = 1, .first_extent = u,
                               .n_extents = 1 };
        extents[u] = (qsf_extent){ .at = (uint64_t)u * UNIT, .len = UNIT };
        caps[u] = UNIT;
    }
    const qsf_fetch_plan plan = { .n_slots = n, .caps = caps, .pins = pins };
    CHECK_EQ(qsf_fetch_init(&fetch, &source, source.platform, &plan, NULL, NULL), QSF_OK);
    n_reads = n_failing = held = 0;
}

TEST(units_have_one_order)
{
    for (uint32_t i = 0; i < qsf_units_of(LAYERS); i++)
        CHECK_EQ(qsf_unit_number(LAYERS, qsf_unit_id_at(LAYERS, i)), i);
    CHECK_EQ(qsf_unit_id_at(LAYERS, 3).kind, QSF_UNIT_LAYER);
    CHECK_EQ(qsf_unit_id_at(LAYERS, 3).number, 3);
    CHECK(qsf_unit_number(LAYERS, qsf_id_embd()) != qsf_unit_number(LAYERS, qsf_id_final()));
}

/* Two layers stay, five pass through three slots: the one that is computed is never evicted, and
 * what is in memory is not read again. */
TEST(layers_pass_through_slots_in_order)
{
    static const qsf_pin pins[] = { KEEP(QSF_UNIT_LAYER, 0), KEEP(QSF_UNIT_LAYER, 1), PASS, PASS, PASS,
                                    KEEP(QSF_UNIT_EMBEDDING, 0) };
    const qsf_weights *w;
    uint32_t before = 0;
    begin(pins, QSF_ARRAY_LEN(pins));
    for (int pass = 0; pass < 5; pass++) {
        for (uint32_t i = 0; i < LAYERS; i++) {
            CHECK_EQ(qsf_fetch_unit(&fetch, qsf_id_layer(i), false, &w, NULL), QSF_OK);
            qsf_layers_ahead(&fetch, i);
            CHECK(fetch.slot_of[i] >= 0 && &fetch.weights[fetch.slot_of[i]] == w);
            CHECK_EQ(fetch.slots[fetch.slot_of[i]].mem[0], i * (UNIT / PART));
        }
        if (pass) CHECK(n_reads - before >= 2 && n_reads - before <= 5);       /* none for those that stay */
        before = n_reads;
    }
    CHECK_EQ(qsf_fetch_unit(&fetch, qsf_id_embd(), true, &w, NULL), QSF_OK);
    CHECK_EQ(qsf_fetch_unit(&fetch, qsf_id_embd(), true, &w, NULL), QSF_OK);
    CHECK_EQ(n_reads, before + 1);
    qsf_fetch_done(&fetch);
}

/* ---- parts ---- */

static void ahead(qsf_stream *st, uint32_t part)
{
    CHECK_EQ(qsf_stream_start(st, (uint64_t)part * PART, (uint64_t)(part + 1) * PART, NULL, NULL), QSF_OK);
}
static qsf_status get(qsf_stream *st, uint32_t part, const qsf_slot **slot)
{
    return qsf_stream_get(st, (uint64_t)part * PART, (uint64_t)(part + 1) * PART, NULL, false, slot, NULL);
}

/* A token as the head's parts are fetched for it: one is read while another is computed, and the
 * next token's first ones at the end. */
static void token(qsf_stream *st, uint32_t n)
{
    const qsf_slot *slot;
    fetch.batch++;
    for (uint32_t i = 0; i < QSF_MIN(n, 2); i++) ahead(st, i);
    for (uint32_t i = 0; i < n; i++) {
        ahead(st, i);
        if (i + 1 < n) ahead(st, i + 1);
        CHECK_EQ(get(st, i, &slot), QSF_OK);
        CHECK_EQ(*qsf_slot_at(slot, (uint64_t)i * PART), (LAYERS + 1) * (UNIT / PART) + i);
        ahead(st, i + 2 < n ? i + 2 : i % 2);
    }
}

/* Part i in slot i % 2 is the fewest reads that two slots allow where the parts go round. */
static uint32_t fewest(uint32_t n, uint32_t tokens)
{
    uint32_t in[2] = { UINT32_MAX, UINT32_MAX }, reads = 0;
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t order[] = { i, i + 1 < n ? i + 1 : i, i + 2 < n ? i + 2 : i % 2 };
            for (uint32_t k = 0; k < QSF_ARRAY_LEN(order); k++) {
                if (order[k] >= n || in[order[k] % 2] == order[k]) continue;
                in[order[k] % 2] = order[k];
                reads++;
            }
        }
    return reads;
}

TEST(parts_of_the_head_are_read_no_more_often_than_they_must)
{
    static const qsf_pin pins[] = { KEEP(QSF_UNIT_LAYER, 0) };
    for (uint32_t n = 2; n <= MOST_PARTS; n++) {
        qsf_stream st;
        begin(pins, 1);
        CHECK_EQ(qsf_stream_init(&st, &fetch, qsf_id_final(), QSF_PARTS_AHEAD, PART, true, NULL), QSF_OK);
        for (int t = 0; t < 4; t++) token(&st, n);
        CHECK_EQ(n_reads, fewest(n, 4));
        CHECK_EQ(last_len, PART);
        CHECK_EQ(fetch.bytes_read, (uint64_t)n_reads * PART);
        qsf_stream_done(&st);
        qsf_fetch_done(&fetch);
    }
}

/* A read that an earlier batch has abandoned is not waited for: its slot is reused when it is over,
 * and its failure is not reported. */
TEST(a_left_read_is_not_waited_for)
{
    static const qsf_pin pins[] = { KEEP(QSF_UNIT_LAYER, 0) };
    const qsf_slot *slot;
    qsf_stream st;
    for (int fails = 0; fails < 2; fails++) {
        begin(pins, 1);
        CHECK_EQ(qsf_stream_init(&st, &fetch, qsf_id_final(), 1, PART, false, NULL), QSF_OK);
        held = 1;
        CHECK_EQ(get(&st, 3, &slot), QSF_PENDING);
        fetch.batch++;
        CHECK_EQ(get(&st, 5, &slot), QSF_PENDING);
        CHECK_EQ(n_reads, 1);
        held = 0;
        n_failing = (uint32_t)fails;
        CHECK_EQ(get(&st, 5, &slot), QSF_OK);
        CHECK_EQ(n_reads, 2);
        CHECK_EQ(last_at, (LAYERS + 1) * UNIT + 5 * PART);
        qsf_stream_done(&st);
        qsf_fetch_done(&fetch);
    }
}

/* What was read ahead for another batch and failed is read again, once. */
TEST(a_failure_ahead_is_read_again_once)
{
    static const qsf_pin pins[] = { KEEP(QSF_UNIT_LAYER, 0) };
    const qsf_slot *slot;
    qsf_stream st;
    begin(pins, 1);
    CHECK_EQ(qsf_stream_init(&st, &fetch, qsf_id_final(), 2, PART, true, NULL), QSF_OK);
    for (uint32_t failing = 1; failing <= 2; failing++) {
        fetch.batch++;
        ahead(&st, failing);
        fetch.batch++;
        n_failing = failing;
        CHECK_EQ(get(&st, failing, &slot), QSF_PENDING);
        CHECK_EQ(get(&st, failing, &slot), failing == 1 ? QSF_OK : QSF_E_IO);
        CHECK_EQ(n_failing, 0);
    }
    qsf_stream_done(&st);
    qsf_fetch_done(&fetch);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(units_have_one_order);
    RUN(layers_pass_through_slots_in_order);
    RUN(parts_of_the_head_are_read_no_more_often_than_they_must);
    RUN(a_left_read_is_not_waited_for);
    RUN(a_failure_ahead_is_read_again_once);
    return test_end();
}
