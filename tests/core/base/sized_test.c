/* Structs of callers that were compiled with another version of the header: shorter, longer,
 * without a size.
 * SPDX-License-Identifier: MIT */
#define tiny_vocab gguf_tiny_vocab      /* both builders have one */
#include "gguf_build.h"
#undef tiny_vocab
#include "make_tiny_qsf.h"
#include "memfile.h"
#include "qsf_convert.h"
#include "test.h"

#include <stddef.h>

#if defined(_WIN32)
#  include <process.h>
#  define process_id() _getpid()
#else
#  include <unistd.h>
#  define process_id() getpid()
#endif

enum { GUARD = 0xa5, BEHIND = 64, ROOM = 4096 };

static char path[64], converted[64];
static qsf_error error;
static qsf_model *model;
static qsf_context *context;
static qsf_sampler *sampler;
static qsf_turn *turn;
static qsf_convert_result *result;

/* ---- results ---- */

static qsf_status give_info(void *out) { return qsf_model_get_info(model, out); }
static qsf_status give_usage(void *out) { return qsf_model_get_usage(model, out); }
static qsf_status give_plan(void *out) { return qsf_context_get_plan(context, out); }
static qsf_status give_planned(void *out) { return qsf_context_plan(model, NULL, out, &error); }
static qsf_status give_stats(void *out) { return qsf_context_get_stats(context, out); }
static void compute(void)
{
    static const int32_t id = 1;
    CHECK_EQ(qsf_seq_truncate(context, 0, 0), QSF_OK);
    CHECK_EQ(qsf_feed(context, 0, &id, 1, NULL), QSF_OK);
}
static qsf_status give_kernel(void *out) { compute(); return qsf_context_get_kernel(context, 0, out); }
static qsf_status give_operation(void *out) { compute(); return qsf_context_get_operation(context, 0, out); }
static qsf_status give_kv(void *out) { return qsf_context_get_kv_usage(context, out); }
static qsf_status give_state(void *out) { return qsf_turn_get_state(turn, out); }
static qsf_status give_summary(void *out) { return qsf_convert_get_summary(result, out); }
static qsf_status give_tensor(void *out) { return qsf_convert_get_tensor(result, 0, out); }
static qsf_status give_check(void *out) { return qsf_convert_verify(path, NULL, out, &error); }
static qsf_status give_piece(void *out)
{
    static const int32_t ids[] = { 1, 2, 3 };
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    o.max_tokens = 0;               /* the first piece is the last one */
    CHECK_EQ(qsf_turn_begin(turn, ids, 3, sampler, &o), QSF_OK);
    qsf_status st;
    while ((st = qsf_turn_next(turn, out)) == QSF_PENDING) (void)qsf_turn_step(turn, NULL);
    return st;
}

static qsf_status give_talk(void *out)
{
    static const int32_t ids[] = { 1, 2, 3 };
    qsf_conversation *c = NULL;
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    o.max_tokens = 0;
    CHECK_EQ(qsf_conversation_new(model, NULL, &c, &error), QSF_OK);
    CHECK_EQ(qsf_conversation_ids(c, ids, 3), QSF_OK);
    CHECK_EQ(qsf_conversation_begin(c, turn, sampler, &o), QSF_OK);
    qsf_status st;
    while ((st = qsf_conversation_next(c, out)) == QSF_PENDING) (void)qsf_turn_step(turn, NULL);
    qsf_conversation_free(c);
    return st;
}

typedef struct sized_result {
    const char *name;
    size_t      size;
    qsf_status (*give)(void *out);
} sized_result;
#define RESULT(type, give) { #type, sizeof(type), give }
static const sized_result results[] = {
    RESULT(qsf_model_info, give_info),            RESULT(qsf_usage, give_usage),
    RESULT(qsf_plan, give_plan),                  RESULT(qsf_plan, give_planned),
    RESULT(qsf_stats, give_stats),                RESULT(qsf_turn_state, give_state),
    RESULT(qsf_turn_piece, give_piece),           RESULT(qsf_turn_piece, give_talk),
    RESULT(qsf_convert_summary, give_summary),
    RESULT(qsf_convert_tensor, give_tensor),      RESULT(qsf_convert_check, give_check),
    RESULT(qsf_kv_usage, give_kv),                RESULT(qsf_kernel_use, give_kernel),
    RESULT(qsf_operation_use, give_operation),
};

/* The struct of a caller that knows `size` bytes of it; other data follows. */
static unsigned char *struct_of(size_t size)
{
    static union { unsigned char bytes[ROOM]; size_t align; void *place; } all;
    memset(all.bytes, GUARD, sizeof all.bytes);
    memcpy(all.bytes, &size, sizeof size);
    return all.bytes;
}

static bool all_are(const unsigned char *bytes, size_t n, int value)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value) return false;
    return true;
}

static size_t size_in(const void *p)
{
    size_t size;
    memcpy(&size, p, sizeof size);
    return size;
}

TEST(an_older_callers_struct_gets_only_its_bytes)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const sized_result *r = &results[i];
        CHECK(r->size + BEHIND < ROOM);
        for (size_t size = 2 * sizeof size; size <= r->size; size += sizeof size) {
            unsigned char *p = struct_of(size);
            CHECK_EQ(r->give(p), QSF_OK);
            CHECK_EQ(size_in(p), size);
            CHECK(!all_are(p + sizeof size, size - sizeof size, GUARD));
            CHECK(all_are(p + size, ROOM - size, GUARD));
        }
    }
}

TEST(members_of_a_newer_caller_are_zero)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const sized_result *r = &results[i];
        unsigned char *p = struct_of(r->size + BEHIND);
        CHECK_EQ(r->give(p), QSF_OK);
        CHECK_EQ(size_in(p), r->size + BEHIND);
        CHECK(all_are(p + r->size, BEHIND, 0));
        CHECK(all_are(p + r->size + BEHIND, ROOM - r->size - BEHIND, GUARD));
    }
}

static const size_t no_sizes[] = { 0, 1, sizeof(size_t), (1 << 16) + 1, SIZE_MAX / 2, SIZE_MAX };
enum { NO_SIZES = sizeof no_sizes / sizeof *no_sizes };

TEST(a_result_without_a_size_is_an_argument_error_and_untouched)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        for (size_t j = 0; j < NO_SIZES; j++) {
            unsigned char *p = struct_of(no_sizes[j]);
            CHECK_EQ(results[i].give(p), QSF_E_ARGUMENT);
            CHECK_EQ(size_in(p), no_sizes[j]);
            CHECK(all_are(p + sizeof(size_t), ROOM - sizeof(size_t), GUARD));
        }
}

/* ---- options ---- */

static void defaults_model(void *o, size_t size) { qsf_model_defaults_of(o, size); }
static void defaults_context(void *o, size_t size) { qsf_context_defaults_of(o, size); }
static void defaults_sampler(void *o, size_t size) { qsf_sampler_defaults_of(o, size); }
static void defaults_turn(void *o, size_t size) { qsf_turn_defaults_of(o, size); }
static void defaults_convert(void *o, size_t size) { qsf_convert_defaults_of(o, size); }

static qsf_status take_model(const void *o)
{
    qsf_model *m = NULL;
    const qsf_status st = qsf_model_open(path, o, &m, &error);
    qsf_model_close(m);
    return st;
}
static qsf_status take_context(const void *o)
{
    qsf_context *c = NULL;
    const qsf_status st = qsf_context_new(model, o, &c, &error);
    qsf_context_free(c);
    return st;
}
static qsf_status take_plan(const void *o)
{
    qsf_plan plan = { .size = sizeof plan };
    return qsf_context_plan(model, o, &plan, &error);
}
static qsf_status take_sampler(const void *o)
{
    qsf_sampler *s = NULL;
    const qsf_status st = qsf_sampler_new(model, o, &s, &error);
    qsf_sampler_free(s);
    return st;
}
static qsf_status take_turn(const void *o)
{
    static const int32_t ids[] = { 1, 2, 3 };
    return qsf_turn_begin(turn, ids, 3, sampler, o);
}
static qsf_status take_convert(const void *o) { return qsf_convert_run(path, converted, o, NULL, &error); }

typedef struct sized_options {
    const char *name;
    size_t      size;
    void       (*defaults)(void *o, size_t size);
    qsf_status (*take)(const void *o);
} sized_options;
#define OPTIONS(type, of, take) { #type, sizeof(type), of, take }
static const sized_options options[] = {
    OPTIONS(qsf_model_options, defaults_model, take_model),
    OPTIONS(qsf_context_options, defaults_context, take_context),
    OPTIONS(qsf_context_options, defaults_context, take_plan),
    OPTIONS(qsf_sampler_options, defaults_sampler, take_sampler),
    OPTIONS(qsf_turn_options, defaults_turn, take_turn),
    OPTIONS(qsf_convert_options, defaults_convert, take_convert),
};
enum { N_OPTIONS = sizeof options / sizeof *options };

TEST(defaults_and_options_stay_inside_an_older_callers_struct)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const sized_options *o = &options[i];
        /* Some member ends at three words in each of them. */
        const size_t size = 3 * sizeof size;
        unsigned char *p = struct_of(0);
        o->defaults(p, size);
        CHECK_EQ(size_in(p), size);
        CHECK(all_are(p + size, ROOM - size, GUARD));
        CHECK_EQ(o->take(p), QSF_OK);           /* the guard is not read: no option may have its value */
    }
}

TEST(options_of_a_newer_caller_are_taken)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const sized_options *o = &options[i];
        unsigned char *p = struct_of(0);
        o->defaults(p, o->size + BEHIND);
        CHECK_EQ(size_in(p), o->size + BEHIND);
        CHECK(all_are(p + o->size, BEHIND, 0));
        CHECK_EQ(o->take(p), QSF_OK);
    }
}

TEST(options_without_a_size_are_an_argument_error)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        for (size_t j = 0; j < NO_SIZES; j++) {
            unsigned char *p = struct_of(0);
            options[i].defaults(p, no_sizes[j]);
            CHECK_EQ(size_in(p), 0);                    /* nothing was written */
            options[i].defaults(p, options[i].size);
            memcpy(p, &no_sizes[j], sizeof no_sizes[j]);
            CHECK_EQ(options[i].take(p), QSF_E_ARGUMENT);
            if (options[i].take == take_turn) error = *qsf_turn_error(turn);
            CHECK(strstr(error.text, options[i].name) != NULL);
        }
}

TEST(an_option_that_an_older_caller_does_not_have_is_not_set)
{
    unsigned char *p = struct_of(0);
    qsf_context_options *o = (qsf_context_options *)(void *)p;
    const size_t size = offsetof(qsf_context_options, kv_window);
    qsf_context_defaults_of(o, size);
    CHECK_EQ(qsf_context_set(o, "kv-type", "q4", &error), QSF_OK);
    CHECK_EQ(o->kv_type, QSF_KV_Q4);
    CHECK_EQ(qsf_context_set(o, "kv-window", "64", &error), QSF_E_ARGUMENT);
    CHECK(strstr(error.text, "kv-window") != NULL);
    CHECK(all_are(p + size, ROOM - size, GUARD));
    o->size = 2 * sizeof size;                          /* n_logits, which it would set, is after that */
    CHECK_EQ(qsf_draft_room(model, o, QSF_DRAFT_MOST), 0);
}

TEST(a_custom_file_without_a_size_is_not_touched)
{
    memfile f;
    qsf_model *m = NULL;
    qsf_model_options o;
    qsf_model_defaults(&o);
    memfile_init(&f, "QSF", 3);
    f.file.size = 0;
    o.file = &f.file;
    CHECK_EQ(qsf_model_open(NULL, &o, &m, &error), QSF_E_ARGUMENT);
    CHECK(strstr(error.text, "qsf_custom_file") != NULL);
    CHECK_EQ(f.closed, 0);
    int32_t ids[4];
    size_t n;
    CHECK_EQ(qsf_session_load(context, 0, &f.file, ids, 4, &n, &error), QSF_E_ARGUMENT);
}

static bool scene_made(void)
{
    tiny_options o = tiny_defaults();
    qsf_convert_options co;
    snprintf(path, sizeof path, "qsf-sized-test-%d.qsf", (int)process_id());
    snprintf(converted, sizeof converted, "qsf-sized-test-%d-2.qsf", (int)process_id());
    qsf_convert_defaults(&co);
    return !tiny_write(qsf_platform_native(), path, &o, &error) &&
        !qsf_model_open(path, NULL, &model, &error) &&
        !qsf_context_new(model, NULL, &context, &error) &&
        !qsf_sampler_new(model, NULL, &sampler, &error) && !qsf_turn_new(context, 0, &turn, &error) &&
        !qsf_convert_run(path, converted, &co, &result, &error);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    if (!scene_made()) {
        test_fail(__FILE__, __LINE__, error.text);
        return test_end();
    }
    RUN(an_older_callers_struct_gets_only_its_bytes);
    RUN(members_of_a_newer_caller_are_zero);
    RUN(a_result_without_a_size_is_an_argument_error_and_untouched);
    RUN(defaults_and_options_stay_inside_an_older_callers_struct);
    RUN(options_of_a_newer_caller_are_taken);
    RUN(options_without_a_size_are_an_argument_error);
    RUN(an_option_that_an_older_caller_does_not_have_is_not_set);
    RUN(a_custom_file_without_a_size_is_not_touched);
    qsf_convert_result_free(result);
    qsf_turn_free(turn);
    qsf_sampler_free(sampler);
    qsf_context_free(context);
    qsf_model_close(model);
    remove(path);
    remove(converted);
    return test_end();
}
