/* Types for a target size by measured sensitivities: the size, the order of choices, threads, and
 * which files remain.
 * SPDX-License-Identifier: MIT */
#define OUT "spend_test"
#include "convert_fake.h"
#include "spend.h"
#include "tensor/table.h"
#include "tensor/trellis.h"

enum { MOST_TENSORS = 64 };

/* The tiny model "m", and what calibrates it. */
typedef struct scene {
    engine_host h;
    input *in;
    qsf_convert_options o;
    uint32_t asked, stops;          /* times that the conversion asked whether it is cancelled */
    bool ok;
} scene;

/* What one conversion chose. */
typedef struct spent {
    qsf_status status;
    uint64_t   file_bytes;
    double     kl, other_kl;
    uint64_t   other_bytes;
    uint32_t   n, type[MOST_TENSORS];
    uint64_t   of_layer[2];             /* bytes */
    qsf_error  err;
} spent;

static bool stops_late(void *user)
{
    scene *s = user;
    return ++s->asked > s->stops;
}

/* Temporary files, which a host in memory does not have by itself. */
static qsf_status keep_between(void *user, const char *path, char *name, size_t cap)
{
    for (int n = 0; n < MEM_FILES; n++) {
        snprintf(name, cap, "%s.%d", path, n);
        if (mem_find(user, name)) continue;
        mem_put(user, name, "", 0);
        return QSF_OK;
    }
    return QSF_E_IO;
}

static void keep_no_more(void *user, const char *path)
{
    mem_file *f = mem_find(user, path);
    if (f) mem_drop(f);
}

static void scene_begin_model(scene *s, const tiny_options *from)
{
    qsf_error err = { 0 };
    tiny_options model = *from;
    model.type = QSF_T_F16;
    model.packing = 0;
    memset(s, 0, sizeof *s);
    engine_host_init(&s->h);
    s->h.m.p.between = keep_between;
    s->h.m.p.remove = keep_no_more;
    s->ok = !tiny_write(&s->h.m.p, "m", &model, &err) &&
            !qsf_input_open_source(&s->h.m.p, "m", &s->in, &err);
    if (!s->ok) printf("    %s\n", err.text);
    CHECK(s->ok);
    qsf_convert_defaults(&s->o);
    s->o.platform = &s->h.m.p;
    s->o.n_threads = 1;
    s->o.calibrate = "self";
    s->o.calibration_file = "cal";
    s->o.calibrate_seqs = 4;
    s->o.calibrate_len = 24;
    s->o.user = s;
}

static void scene_begin_idle(scene *s, uint32_t idle)
{
    tiny_options model = tiny_defaults();
    model.idle = idle;
    scene_begin_model(s, &model);
}

static void scene_begin(scene *s) { scene_begin_idle(s, 0); }

/* Eight experts, of whole tiles or not. */
static void scene_begin_experts(scene *s, uint32_t idle, uint32_t ff)
{
    tiny_options model = tiny_defaults();
    model.idle = idle;
    model.hp.n_experts = 8;
    model.hp.n_used = 2;
    model.hp.n_ff_expert = ff;
    model.hp.n_ff_shared = 32;
    model.hp.router_norm = true;
    snprintf(model.hp.arch, sizeof model.hp.arch, "qwen2moe");
    scene_begin_model(s, &model);
}

static void scene_end(scene *s)
{
    if (s->in) s->in->close(s->in);
    CHECK_EQ(s->h.m.live, 0);
    engine_host_done(&s->h);
}

static spent scene_spend(scene *s)
{
    spent out = { 0 };
    convert_report r;
    convert_calibration *c = NULL;
    out.status = qsf_cal_open(s->in, "m", "out", &s->o, &c, &out.err);
    CHECK_EQ(out.status, QSF_OK);
    s->asked = 0;
    if (!out.status) out.status = qsf_spend_run(s->in, c, &s->o, "out", &r, &out.err);
    if (!out.status) {
        out.file_bytes = r.file_bytes;
        out.other_kl = r.other_kl;
        out.other_bytes = r.other_bytes;
        out.n = QSF_MIN(s->in->n_tensors, (uint32_t)MOST_TENSORS);
        for (uint32_t i = 0; i < out.n; i++) {
            out.type[i] = r.tensors[i].type;
            if (s->in->tensors[i].unit < 2) out.of_layer[s->in->tensors[i].unit] += r.tensors[i].bytes;
            out.kl += r.tensors[i].predicted_kl;
        }
    }
    qsf_cal_free(c);
    return out;
}

#define KEPT "cal.sensitivity"

static void scene_forget(scene *s) { keep_no_more(&s->h.m, KEPT); }

TEST(a_size_is_kept_and_a_larger_one_predicts_no_more)
{
    scene s;
    scene_begin(&s);
    double last = INFINITY;
    bool cheaper = false;
    for (uint64_t size = 90000; s.ok && size <= 190000; size += 20000) {
        s.o.target_bytes = size;
        const spent to = scene_spend(&s);

        if (to.status) printf("    %s\n", to.err.text);
        CHECK_EQ(to.status, QSF_OK);
        CHECK(to.file_bytes <= size);
        CHECK(to.kl <= last);
        cheaper |= to.kl < last && last < INFINITY;
        last = to.kl;
    }
    CHECK(cheaper);
    s.o.target_bytes = 1000;
    CHECK_EQ(scene_spend(&s).status, QSF_E_ARGUMENT);
    scene_end(&s);
}

TEST(a_divergence_is_kept_and_a_smaller_one_takes_more_bytes)
{
    scene s;
    scene_begin(&s);
    uint64_t last = 0;
    static const double kl[] = { 0.02, 0.002, 0.0002 };
    for (size_t i = 0; s.ok && i < QSF_ARRAY_LEN(kl); i += TEST_EVERY > 1 ? 2 : 1) {
        s.o.target_kl = kl[i];
        const spent to = scene_spend(&s);
        CHECK_EQ(to.status, QSF_OK);
        CHECK(to.kl <= kl[i]);
        CHECK(to.file_bytes >= last);
        last = to.file_bytes;
    }
    s.o.packing = 0;
    CHECK_EQ(scene_spend(&s).status, QSF_E_ARGUMENT);
    scene_end(&s);
}

/* Without prices in context, both choices are sums over the same measurements. */
TEST(a_preference_keeps_to_its_types_and_says_what_the_other_gives)
{
    scene s;
    scene_begin(&s);
    s.o.target_kl = 0.02;
    const spent small = scene_spend(&s);
    s.o.prefer = QSF_CONVERT_SPEED;
    const spent fast = scene_spend(&s);
    CHECK_EQ(small.status, QSF_OK);
    CHECK_EQ(fast.status, QSF_OK);
    CHECK(fast.kl <= 0.02 && small.kl <= 0.02);
    CHECK(fabs(small.other_kl - fast.kl) < 1e-9 && fabs(fast.other_kl - small.kl) < 1e-9);
    CHECK(small.other_bytes >= fast.file_bytes && fast.other_bytes >= small.file_bytes);
    CHECK(small.file_bytes < fast.file_bytes);
    bool trellis = false, table = false;
    for (uint32_t i = 0; i < small.n; i++) {
        trellis |= qsf_trellis_bits(small.type[i]) > 0;
        table |= qsf_table_of(small.type[i]);
    }
    CHECK(trellis && !table);
    for (uint32_t i = 0; i < fast.n; i++) CHECK_EQ(qsf_trellis_bits(fast.type[i]), 0);
    scene_end(&s);
}

TEST(threads_change_no_choice)
{
    scene s;
    scene_begin(&s);
    s.o.target_bytes = 110000;
    const spent one = scene_spend(&s);
    s.o.n_threads = 2;
    scene_forget(&s);
    const spent two = scene_spend(&s);
    CHECK_EQ(one.status, QSF_OK);
    CHECK_EQ(two.status, QSF_OK);
    CHECK_EQ(one.file_bytes, two.file_bytes);
    CHECK(!memcmp(one.type, two.type, sizeof one.type));
    scene_end(&s);
}

/* Relative errors are the same in both layers: only what they do to the model tells them apart. */
static void check_bytes_matter(bool experts, uint64_t size)
{
    for (uint32_t idle = 0; idle < 2; idle++) {
        scene s;
        if (experts) scene_begin_experts(&s, 1 + idle, 32);
        else scene_begin_idle(&s, 1 + idle);
        s.o.target_bytes = size;
        const spent to = scene_spend(&s);
        CHECK_EQ(to.status, QSF_OK);
        CHECK(to.of_layer[!idle] > to.of_layer[idle]);
        scene_end(&s);
    }
}

TEST(what_matters_gets_the_bytes) { check_bytes_matter(false, 95000); }

TEST(experts_are_kinds_like_others)
{
    for (int ff = 32; ff >= 20; ff -= 12 * TEST_EVERY) {
        scene s;
        double last = INFINITY;
        uint32_t chosen = 0;
        scene_begin_experts(&s, 0, (uint32_t)ff);
        for (uint64_t size = 130000; s.ok && size <= 190000; size += TEST_EVERY > 1 ? 60000 : 30000) {
            s.o.target_bytes = size;
            const spent to = scene_spend(&s);
            CHECK_EQ(to.status, QSF_OK);
            CHECK(to.file_bytes <= size);
            CHECK(to.kl < last);
            last = to.kl;
            for (uint32_t i = 0; i < to.n; i++) {
                const uint32_t kind = s.in->tensors[i].kind;
                if (kind == QSF_K_ROUTER) CHECK_EQ(to.type[i], QSF_T_F16);
                if (qsf_kind_is_experts(kind)) chosen |= 1u << QSF_MIN(to.type[i], 31u);
            }
        }
        CHECK(chosen & (chosen - 1));                   /* one type for one size, another for another */
        s.o.target_bytes = 0;
        s.o.target_kl = 0.01;
        const spent to = scene_spend(&s);
        CHECK_EQ(to.status, QSF_OK);
        CHECK(to.kl <= 0.01);
        scene_end(&s);
    }
}

TEST(experts_that_matter_get_the_bytes) { check_bytes_matter(true, 200000); }

TEST(little_memory_for_experts_is_told_of)
{
    double measured = 0;
    uint32_t constants = 0, all = 0;
    for (uint64_t ram = 0; ram < 13000000; ram += ram ? 9000000 : 3000000) {
        scene s;
        scene_begin_experts(&s, 0, 32);
        s.o.target_bytes = 160000;
        s.o.ram_bytes = ram;
        const spent to = scene_spend(&s);
        CHECK_EQ(to.status, QSF_OK);
        if (!ram) measured = to.kl;
        else if (to.kl == measured) all++;
        else constants++;
        scene_end(&s);
    }
    CHECK(constants > 0 && all > 0);
}

TEST(nothing_is_left_behind_after_cancelling)
{
    scene s;
    scene_begin(&s);
    s.o.target_bytes = 110000;
    CHECK_EQ(scene_spend(&s).status, QSF_OK);
    scene_forget(&s);
    const int files = mem_count(&s.h.m);         /* m, cal, out */
    CHECK_EQ(files, 3);
    s.o.cancelled = stops_late;
    uint32_t ended = 0;
    for (s.stops = 0; s.ok && s.stops < 100000; s.stops += s.stops * TEST_EVERY / 4 + 1) {
        const spent to = scene_spend(&s);
        scene_forget(&s);
        CHECK_EQ(mem_count(&s.h.m), files);
        if (!to.status) break;
        CHECK_EQ(to.status, QSF_E_CANCELLED);
        ended++;
    }
    CHECK(ended > 5);
    scene_end(&s);
}

TEST(little_memory_is_told_of_and_takes_constants)
{
    scene s;
    scene_begin(&s);
    s.o.target_bytes = 110000;
    const spent measured = scene_spend(&s);
    scene_forget(&s);
    s.o.ram_bytes = 2000000;
    const spent constant = scene_spend(&s);
    if (constant.status) printf("    %s\n", constant.err.text);
    CHECK_EQ(constant.status, QSF_OK);
    CHECK(constant.kl != measured.kl);
    CHECK(constant.file_bytes <= 110000);
    scene_end(&s);
}

TEST(what_was_measured_is_kept_for_the_next_size)
{
    scene s;
    scene_begin(&s);
    s.o.target_bytes = 110000;
    s.o.cancelled = stops_late;
    s.stops = UINT32_MAX;
    const spent first = scene_spend(&s);
    const uint32_t asked = s.asked;
    CHECK(mem_find(&s.h.m, KEPT) != NULL);
    const spent again = scene_spend(&s);
    CHECK_EQ(again.status, QSF_OK);
    const uint32_t cheap = s.asked;
    CHECK(cheap < asked * 9 / 10);
    CHECK(first.kl == again.kl && !memcmp(first.type, again.type, sizeof first.type));
    s.o.equalize = QSF_CONVERT_OFF;             /* other matrices: measured again */
    CHECK_EQ(scene_spend(&s).status, QSF_OK);
    CHECK(s.asked > (asked + cheap) / 2);
    scene_end(&s);
}

TEST(damage_to_what_is_kept_is_found)
{
    scene s;
    scene_begin(&s);
    s.o.target_bytes = 110000;
    const spent first = scene_spend(&s);
    mem_file *f = mem_find(&s.h.m, KEPT);
    const size_t len = f ? f->len : 0;
    uint8_t whole[4096];
    CHECK(len && len < sizeof whole);
    s.o.cancelled = stops_late;
    s.stops = UINT32_MAX;
    if (len && len < sizeof whole) memcpy(whole, f->bytes, len);
    for (size_t at = 0; s.ok && at < len; at += 1 + len * TEST_EVERY / 10) {
        uint8_t damaged[sizeof whole];
        memcpy(damaged, whole, len);
        damaged[at] ^= 0x10;
        mem_put(&s.h.m, KEPT, damaged, at % 2 ? len : at);      /* and cut short */
        const spent to = scene_spend(&s);
        CHECK_EQ(to.status, QSF_OK);
        CHECK(to.kl == first.kl);
        f = mem_find(&s.h.m, KEPT);
        CHECK(f && f->len == len && !memcmp(f->bytes, whole, len));
    }
    scene_end(&s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_divergence_is_kept_and_a_smaller_one_takes_more_bytes);
    RUN(threads_change_no_choice);
    RUN(experts_are_kinds_like_others);
    RUN(little_memory_for_experts_is_told_of);
    RUN(nothing_is_left_behind_after_cancelling);
    RUN(little_memory_is_told_of_and_takes_constants);
    RUN(damage_to_what_is_kept_is_found);
    if (TEST_EVERY == 1) {              /* the same functions, for other requests */
        RUN(a_size_is_kept_and_a_larger_one_predicts_no_more);
        RUN(a_preference_keeps_to_its_types_and_says_what_the_other_gives);
        RUN(what_matters_gets_the_bytes);
        RUN(experts_that_matter_get_the_bytes);
        RUN(what_was_measured_is_kept_for_the_next_size);
    }
    return test_end();
}
