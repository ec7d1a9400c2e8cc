/* --prompt-cache: a computed prompt, kept in a file for other runs.
 * SPDX-License-Identifier: MIT
 *
 * The file is a header and a saved session of the prompt alone.  A session knows the model by its
 * description and by checksums of its weights.  GGUF files have no such checksums: the header has a
 * hash of samples of the model's file, so that another model of the same shape is noticed. */
#include "out_file.h"
#include "run.h"

#include <stdlib.h>

enum { PROMPT_HEADER = 16, PROMPT_VERSION = 1, PROMPT_SAMPLES = 64, PROMPT_SAMPLE = 4096 };
static const char prompt_file_magic[4] = { 'Q', 'S', 'F', 'P' };

typedef struct prompt_file {
    const qsf_platform *p;
    qsf_file *file;
    uint64_t  length;
} prompt_file;

static qsf_status prompt_file_read(const prompt_file *in, uint64_t at, void *dst, size_t len)
{
    qsf_read *r;
    const qsf_status st = in->p->read_start(in->p->user, in->file, at, dst, len, &r);
    return st ? st : in->p->read_wait(in->p->user, r);
}

static qsf_status prompt_file_read_session(void *user, uint64_t at, void *dst, size_t len)
{
    return prompt_file_read(user, at + PROMPT_HEADER, dst, len);
}

static qsf_status prompt_file_open(prompt_file *in, const char *path)
{
    *in = (prompt_file){ .p = qsf_platform_native() };
    const qsf_status st = in->p->open(in->p->user, path, &in->file);
    return st ? st : in->p->length(in->p->user, in->file, &in->length);
}

/* The header of this model's caches. */
static qsf_status prompt_file_header(const run_session *s, uint8_t h[PROMPT_HEADER])
{
    uint8_t sample[PROMPT_SAMPLE];
    prompt_file in;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);            /* FNV-1a */
    qsf_status st = prompt_file_open(&in, s->set->model);
    const size_t len = in.length < PROMPT_SAMPLE ? (size_t)in.length : PROMPT_SAMPLE;
    for (uint64_t i = 0; i < PROMPT_SAMPLES && !st; i++) {
        const uint64_t at = (in.length - len) * i / (PROMPT_SAMPLES - 1);
        if ((st = prompt_file_read(&in, at, sample, len))) break;
        for (size_t k = 0; k < len; k++) hash = (hash ^ sample[k]) * 0x100000001b3u;
    }
    in.p->close(in.p->user, in.file);
    memcpy(h, prompt_file_magic, sizeof prompt_file_magic);
    h[4] = PROMPT_VERSION;
    h[5] = h[6] = h[7] = 0;
    for (int i = 0; i < 8; i++) h[8 + i] = (uint8_t)(hash >> 8 * i);
    return st;
}

static void prompt_file_ignored(const run_session *s, const char *why)
{
    fprintf(stderr, "note: the prompt cache %s is not used: %s\n", s->set->prompt_cache, why);
}

static int prompt_file_refused(run_session *s, const char *why)
{
    s->error.status = QSF_E_ARGUMENT;
    snprintf(s->error.text, sizeof s->error.text, "%.160s: %.240s", s->set->prompt_cache, why);
    return report(&s->error);
}

/* NULL: the session in the file is the turn's; else why not. */
static const char *prompt_file_take(run_session *s, prompt_file *in, const uint8_t header[PROMPT_HEADER])
{
    uint8_t mine[PROMPT_HEADER];
    qsf_plan plan = { .size = sizeof plan };
    const qsf_custom_file from = { .size = sizeof from, .length = in->length - PROMPT_HEADER, .user = in,
                                   .read = prompt_file_read_session };
    size_t n;
    if (header[4] != PROMPT_VERSION) return "another version wrote it";
    if (prompt_file_header(s, mine)) return "the model's file cannot be read";
    if (memcmp(mine, header, sizeof mine)) return "it belongs to another model";
    qsf_context_get_plan(s->context, &plan);
    int32_t *ids = malloc(plan.n_ctx * sizeof *ids);
    if (!ids) return "out of memory";
    qsf_status st = qsf_session_load(s->context, 0, &from, ids, plan.n_ctx, &n, &s->error);
    if (!st && (st = qsf_turn_hold(s->turn, ids, n))) s->error = *qsf_turn_error(s->turn);
    free(ids);
    return st ? s->error.text : NULL;
}

int prompt_cache_resume(run_session *s)
{
    prompt_file in;
    uint8_t header[PROMPT_HEADER] = { 0 };
    const char *path = s->set->prompt_cache, *why = NULL;
    if (!path) return EXIT_OK;
    qsf_status st = prompt_file_open(&in, path);
    const bool ours = !st && in.length >= PROMPT_HEADER;
    if (ours) st = prompt_file_read(&in, 0, header, sizeof header);
    /* a file with something else in it is left alone */
    const bool strange = !st && in.length && memcmp(header, prompt_file_magic, sizeof prompt_file_magic);
    if (st && st != QSF_E_NOT_FOUND) why = in.p->why ? in.p->why(in.p->user, path, false) : NULL;
    if (st && st != QSF_E_NOT_FOUND && !why) why = qsf_status_text(st);
    if (!st && ours && !strange) why = prompt_file_take(s, &in, header);
    in.p->close(in.p->user, in.file);
    if (strange) return prompt_file_refused(s, "this file is not a prompt cache");
    if (why) prompt_file_ignored(s, why);
    return EXIT_OK;
}

void prompt_cache_keep(run_session *s, size_t n, size_t n_kept)
{
    out_file f;
    uint8_t header[PROMPT_HEADER];
    const char *why = NULL;
    size_t n_held;
    const int32_t *ids = qsf_turn_tokens(s->turn, &n_held);
    if (!s->set->prompt_cache || s->n_answered || n_kept >= n / 2 || n_held == 0) return;
    qsf_status st = prompt_file_header(s, header);
    if (!st && (st = out_file_begin(&f, s->set->prompt_cache, &why)) == QSF_OK) {
        st = out_file_write(&f, header, sizeof header);
        if (!st) st = qsf_session_save(s->context, 0, ids, n_held, out_file_write, &f, &s->error);
        st = out_file_end(&f, st);
    }
    if (!st) return;
    fprintf(stderr, "note: the prompt cache %s cannot be written: %s\n", s->set->prompt_cache,
            why ? why : qsf_status_text(st));
}
