/* The engine of qsf-serve allocates nothing while answers run: the linker hands every allocation of
 * the program to the functions here, which count those of all threads but the test's own.
 * SPDX-License-Identifier: MIT */
#include "engine.h"
#include "make_tiny_qsf.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

/* ---- what allocates ---- */

enum { PLACES = 8 };
static pthread_t front;
static atomic_bool counting;
static atomic_uint n_allocations;
static void *places[PLACES];

static void count(void *place)
{
    if (!atomic_load(&counting) || pthread_equal(pthread_self(), front)) return;
    const unsigned n = atomic_fetch_add(&n_allocations, 1);
    if (n < PLACES) places[n] = place;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int   __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int   __wrap_posix_memalign(void **p, size_t align, size_t n);

void *__wrap_malloc(size_t n) { return count(__builtin_return_address(0)), __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size)
{
    count(__builtin_return_address(0));
    return __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
    count(__builtin_return_address(0));
    return __real_realloc(p, n);
}
int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    count(__builtin_return_address(0));
    return __real_posix_memalign(p, align, n);
}

/* ---- an engine and its jobs ---- */

enum { JOBS = 6, WARM = 60, UNTIL = 260 };
static const char *const requests[JOBS] = {
    "{\"prompt\": [65, 66, 67, 68], \"temperature\": 0, \"ignore_eos\": true, \"max_tokens\": 400}",
    "{\"prompt\": [70, 71], \"temperature\": 0.9, \"seed\": 3, \"ignore_eos\": true, \"max_tokens\": 400}",
    "{\"prompt\": [72], \"temperature\": 1, \"seed\": 4, \"repeat_penalty\": 1.1, \"dry_multiplier\": 0.8,"
    " \"top_k\": 40, \"min_p\": 0.05, \"typical_p\": 0.9, \"ignore_eos\": true, \"max_tokens\": 400}",
    "{\"prompt\": [73, 74], \"temperature\": 0, \"logprobs\": 3, \"ignore_eos\": true, \"max_tokens\": 400}",
    "{\"prompt\": [75], \"temperature\": 0.8, \"seed\": 5, \"stop\": [\"no such text\"], \"bad_words\":"
    " [\"xyz\"], \"logit_bias\": {\"70\": -2}, \"ignore_eos\": true, \"max_tokens\": 400}",
    "{\"prompt\": [76], \"temperature\": 1, \"seed\": 6, \"mirostat\": 2, \"ignore_eos\": true,"
    " \"max_tokens\": 400}",
};

typedef struct loop_job { serve_job job; serve_tokens tokens; unsigned n, ended; bool done; } loop_job;

static void job_begin(loop_job *j, const char *text)
{
    static serve_defaults defaults = { .max_tokens = -1, .reasoning_budget = -1 };
    serve_error e = { 0 };
    qsf_sampler_defaults(&defaults.sampler);
    defaults.sampler.temperature = defaults.sampler.top_p = 1;
    defaults.sampler.top_k = 0;
    memset(j, 0, sizeof *j);
    CHECK(serve_request_read(&j->job.request, API_COMPLETIONS, text, strlen(text), &defaults, &e));
    CHECK_STR(e.text, "");
    const serve_prompt *p = &j->job.request.prompts[0];
    j->tokens = (serve_tokens){ .ids = malloc(p->n_ids * sizeof *p->ids), .n = p->n_ids };
    memcpy(j->tokens.ids, p->ids, p->n_ids * sizeof *p->ids);
    j->job.prompts = &j->tokens;
    j->job.n_prompts = j->job.n_branches = 1;
    j->job.front = j;
    serve_turn(&j->job.request, &j->job.turn);
    CHECK(serve_job_prepare(&j->job));
}

static void job_end(loop_job *j)
{
    free(j->job.branches);
    free(j->tokens.ids);
    serve_request_free(&j->job.request);
}

/* Takes events until every job has n tokens, or (n 0) is over. */
static void events_until(serve_engine *e, loop_job *jobs, unsigned n)
{
    for (;;) {
        const char *text;
        bool all = true;
        for (const serve_event *ev; (ev = serve_engine_event(e, &text));) {
            loop_job *j = ev->job->front;
            j->n += ev->kind == EVENT_PIECE;
            if (ev->kind == EVENT_END) j->ended = (unsigned)ev->end;
            j->done |= ev->kind == EVENT_DONE;
        }
        for (int i = 0; i < JOBS; i++) all &= jobs[i].done || (n && jobs[i].n >= n);
        if (all) return;
        usleep(200);
    }
}

static void run(unsigned draft, unsigned steps)
{
    static serve_metrics metrics;
    static loop_job jobs[JOBS];
    char path[] = "/tmp/qsf-serve-loop-XXXXXX";
    const int fd = mkstemp(path);
    const qsf_platform *os = qsf_platform_native();
    tiny_options t = tiny_defaults();
    qsf_error err = { 0 };
    qsf_model *m = NULL;
    int pipe_fd[2];
    t.hp.n_ctx_train = 4096;
    CHECK_EQ(tiny_write(os, path, &t, &err), QSF_OK);
    CHECK_EQ(qsf_model_open(path, NULL, &m, &err), QSF_OK);
    CHECK(!pipe(pipe_fd) && fcntl(pipe_fd[1], F_SETFL, O_NONBLOCK) == 0);
    serve_engine_options o = { .slots = JOBS, .kept = 2, .queue = 8, .steps = steps, .session_s = 1,
                               .cache_disk = 1 << 20, .draft = draft };
    qsf_context_defaults(&o.context);
    o.context.n_ctx = 4096;
    o.context.n_threads = 2;
    memset(&metrics, 0, sizeof metrics);
    serve_engine *e = serve_engine_new(m, &o, &metrics, pipe_fd[1], &err);
    CHECK(e != NULL);
    for (int i = 0; i < JOBS; i++) {
        job_begin(&jobs[i], requests[i]);
        CHECK(serve_engine_submit(e, &jobs[i].job));
    }
    events_until(e, jobs, WARM);
    atomic_store(&counting, true);
    events_until(e, jobs, UNTIL);
    atomic_store(&counting, false);
    CHECK_EQ(atomic_load(&n_allocations), 0);
    for (int i = 0; i < PLACES && places[i]; i++) printf("      allocates: %p\n", places[i]);
    events_until(e, jobs, 0);
    for (int i = 0; i < JOBS; i++) CHECK_EQ(jobs[i].ended, QSF_TURN_MOST);
    if (draft) CHECK(metric_get(&metrics.drafts_total) > 0);
    serve_engine_free(e);
    for (int i = 0; i < JOBS; i++) job_end(&jobs[i]);
    qsf_model_close(m);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
    close(fd);
    unlink(path);
}

TEST(running_answers_allocate_nothing) { run(0, 1); }
TEST(nor_do_guesses) { run(3, 1); }
TEST(nor_do_several_steps) { run(0, 8); }
TEST(what_allocates_is_counted)
{
    atomic_store(&counting, true);
    front = (pthread_t){ 0 };
    void *volatile p = malloc(10);
    free(p);
    atomic_store(&counting, false);
    front = pthread_self();
    CHECK(atomic_exchange(&n_allocations, 0) > 0);
    memset(places, 0, sizeof places);
}

int main(void)
{
    front = pthread_self();
    RUN(what_allocates_is_counted);
    RUN(running_answers_allocate_nothing);
    RUN(nor_do_guesses);
    RUN(nor_do_several_steps);
    return test_end();
}
